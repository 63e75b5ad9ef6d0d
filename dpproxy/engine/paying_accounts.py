"""Which accounts pay for an analyst."""

from __future__ import annotations

from budget.account import Limit
from budget.accounts import Accounts
from budget.units import micro_limit
from dpproxy.config.sections import AccountLimit, Budget


class PayingAccounts:
    """The accounts of [budget], made in the ledger at their first use."""

    def __init__(self, budget: Budget, accounts: Accounts) -> None:
        self._budget, self._accounts = budget, accounts
        self._chains: dict[str, list[str]] = {}

    def chain(self, analyst: str) -> list[str]:
        """The accounts that pay for an analyst, their own first; raises LedgerError."""
        if analyst not in self._chains:
            links = self._budget.chain(analyst)
            for link in links:
                seed(self._accounts, self._budget, link)
            self._chains[analyst] = [link.account for link in links]
        return self._chains[analyst]


def seed(accounts: Accounts, budget: Budget, link: AccountLimit) -> None:
    """Makes an account of [budget] at its first use; a shared one with what its members have spent before."""
    limit = Limit(micro_limit(link.information), micro_limit(link.calls), link.period, link.mode)
    if link.account.startswith("analyst:"):
        accounts.seed(link.account, limit)
    else:
        accounts.seed_shared(link.account, limit, budget.members(link.account))
