def total(accounts):
	sum = 0
	for account in accounts:
		sum += account.balance
	return sum


def richest(accounts):
	return max(accounts, key=lambda account: account.balance)
