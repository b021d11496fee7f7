#!/bin/sh
# Fails while the account can be overdrawn.
if grep -q "raise ValueError" ledger/account.py; then
    echo "ok"
else
    echo "account.py: withdraw never refuses" >&2
    exit 3
fi
