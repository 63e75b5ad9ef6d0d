"""The budget: exact units, what limits guarantee, and the ledger that accounts pay into."""
