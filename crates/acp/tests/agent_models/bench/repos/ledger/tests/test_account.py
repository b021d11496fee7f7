from ledger import Account


def test_deposit():
    assert Account("me").deposit(5) == 5
