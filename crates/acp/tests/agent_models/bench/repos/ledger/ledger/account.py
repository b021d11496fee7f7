"""Accounts that hold money."""


class Account:
    """Money of one person."""

    def __init__(self, owner, balance=0):
        self.owner = owner
        self.balance = balance

    def deposit(self, amount):
        self.balance += amount
        return self.balance

    def withdraw(self, amount):
        self.balance -= amount
        return self.balance

    def debug(self):
        print(self.owner, self.balance)
