"""Accounts: their limits, what is left of them, and what they have to show for it."""

from __future__ import annotations

from budget import statements
from budget.account import (
    BudgetRow,
    Charge,
    Limit,
    LimitTooLow,
    ReleaseRow,
    UnknownAccount,
)
from budget.store import OutOfBounds, Row, Store, left_of
from budget.units import units


class Accounts(Store):
    """The part of the ledger that tells and sets what accounts may spend."""

    def __init__(self) -> None:
        self._seeded: set[str] = set()

    def seed(self, account: str, limit: Limit) -> None:
        """Makes an account at its first use; one that exists keeps its limit."""
        if account in self._seeded:
            return
        values = {"account": account, **_limit_values(limit)}
        self._transaction([(statements.SEED, values), (statements.NOTE_LIMIT, values)])
        self._seeded.add(account)

    def set_limit(self, account: str, limit: Limit) -> None:
        """Changes an account's limit, noting the change.

        Raises UnknownAccount, and LimitTooLow where it would go below what is used and reserved.
        """
        values = {"account": account, "chain": [account], **_limit_values(limit)}
        try:
            changed, _ = self._transaction([(statements.SET_LIMIT, values), (statements.NOTE_LIMIT, values)])
        except OutOfBounds as error:
            raise LimitTooLow(f"{account} has used or reserved more than that") from error
        if not changed:
            self.limit(account)
            raise LimitTooLow(f"{account} has used or reserved more than that")

    def limit(self, account: str) -> Limit:
        """The limit in force; UnknownAccount."""
        row = self._account(account)
        return Limit(row[1], row[2], row[8], row[9])

    def left(self, account: str) -> Charge:
        """What an account can still reserve, nothing below zero; UnknownAccount."""
        row = self._account(account)
        return left_of(row[1] - row[3] - row[5], row[2] - row[4] - row[6])

    def budget(self, account: str) -> tuple[BudgetRow, BudgetRow]:
        """The rows of `dpproxy.budget` for one's own account, in units; UnknownAccount."""
        row = self._account(account)
        left = left_of(row[1] - row[3] - row[5], row[2] - row[4] - row[6])
        limit, used, reserved = (tuple(map(units, row[i : i + 2])) for i in (1, 3, 5))
        return (
            BudgetRow(
                account, "information", limit[0], used[0], reserved[0], units(left.information), row[7]
            ),
            BudgetRow(account, "calls", limit[1], used[1], reserved[1], units(left.calls), row[7]),
        )

    def releases(self, account: str) -> tuple[ReleaseRow, ...]:
        """The rows of `dpproxy.releases` for one's own account, oldest first, in units."""
        rows = self._rows(statements.RELEASES, account=account)
        return tuple(
            ReleaseRow(time, query, mechanism, units(information), units(calls), bool(replayed))
            for time, query, mechanism, information, calls, replayed, _ in rows
        )

    def _account(self, account: str) -> Row:
        rows = self._rows(statements.BUDGET, chain=[account])
        if not rows:
            raise UnknownAccount(f"there is no account {account}")
        return rows[0]


def _limit_values(limit: Limit) -> dict[str, object]:
    return {
        "information": limit.information,
        "calls": limit.calls,
        "period": limit.period,
        "mode": limit.mode,
    }
