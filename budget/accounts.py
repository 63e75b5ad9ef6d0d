"""Accounts: their limits, balances, and histories."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import groupby
from operator import itemgetter

from budget import statements_accounts as statements
from budget.account import AccountRow, BudgetRow, Charge, Limit, LimitRow, LimitTooLow, UnknownAccount
from budget.store import OutOfBounds, PostgresStore, Row
from budget.units import units


class Accounts:
    """The limits and balances of accounts. Each method raises LedgerUnavailable."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store
        self._seeded: set[str] = set()

    def seed(self, account: str, limit: Limit) -> None:
        """Makes an account at its first use; one that exists keeps its limit."""
        if account in self._seeded:
            return
        values = {"account": account, **vars(limit)}
        self._store.transaction([(statements.SEED, values), (statements.NOTE_LIMIT, values)])
        self._seeded.add(account)

    def seed_shared(self, account: str, limit: Limit, members: Collection[str] | None) -> None:
        """Makes a shared account, charged with all that its members have reserved before, None for everybody.

        It is what it would be if it had been there: the reservations of its period count, whole, and earlier ones
        where its period is made longer. Where that is more than its limit, it is frozen with nothing left.
        """
        if account in self._seeded:
            return
        paying = None if members is None else list(members)
        values = {"account": account, "members": paying, **vars(limit)}
        steps = (statements.LOCK_SPENDERS, statements.SEED, statements.CARRY, statements.NOTE_LIMIT)
        self._store.transaction([(step, values) for step in steps])
        self._seeded.add(account)

    def set_limit(self, account: str, limit: Limit) -> None:
        """Changes an account's limit, noting the change.

        A longer period, or none, covers what was used in the periods before: all that lies within its length.
        Raises UnknownAccount, and LimitTooLow where the limit would go below what is used and reserved.
        """
        values = {"account": account, "chain": [account], **vars(limit)}
        try:
            changed, _ = self._store.transaction(
                [(statements.SET_LIMIT, values), (statements.NOTE_LIMIT, values)]
            )
        except OutOfBounds as error:
            raise LimitTooLow(f"{account} has used or reserved more than that") from error
        if not changed:
            covered = self._store.rows(statements.COVERED, **values)
            if not covered:
                raise _unknown(account)
            used, reserved = Charge(*covered[0][:2]), Charge(*covered[0][2:])
            within = "" if limit.period == "none" else f" within a {limit.period}"
            raise LimitTooLow(
                f"{account} has spent {used}{within} and reserved {reserved}: no limit goes below that"
            )

    def freeze(self, account: str) -> None:
        """Lets an account spend nothing more, until `unfreeze`; UnknownAccount.

        What it has reserved is settled, and what it has paid for stays free.
        """
        self._freeze(account, True)

    def unfreeze(self, account: str) -> None:
        """Ends a freeze, at the limit and level it had; UnknownAccount."""
        self._freeze(account, False)

    def _freeze(self, account: str, frozen: bool) -> None:
        values = {"account": account, "frozen": frozen}
        changed, _ = self._store.transaction([(statements.FREEZE, values), (statements.NOTE_LIMIT, values)])
        if not changed:
            raise _unknown(account)

    def limits(self, account: str) -> tuple[LimitRow, ...]:
        """Every limit an account has had, oldest first; UnknownAccount."""
        rows = self._store.rows(statements.LIMITS, account=account)
        if not rows:
            raise _unknown(account)
        return tuple(map(_limit_row, rows))

    def all_limits(self) -> Mapping[str, tuple[LimitRow, ...]]:
        """The same of every account, at once."""
        return limits_by_account(self._store.rows(statements.ALL_LIMITS))

    def limit(self, account: str) -> Limit:
        """The limit in force; UnknownAccount."""
        return self.get(account).limit

    def left(self, account: str) -> Charge:
        """What an account can still reserve, nothing below zero; UnknownAccount."""
        return self.get(account).left

    def budget(self, account: str) -> tuple[BudgetRow, BudgetRow]:
        """The rows of `dpproxy.budget` for one's own account, in units; UnknownAccount."""
        row = self.get(account)
        limit, used, reserved, left = ((units(p.information), units(p.calls)) for p in _parts(row))
        return (
            BudgetRow(account, "information", limit[0], used[0], reserved[0], left[0], row.refreshes_at),
            BudgetRow(account, "calls", limit[1], used[1], reserved[1], left[1], row.refreshes_at),
        )

    def get(self, account: str) -> AccountRow:
        """One account as of now; UnknownAccount."""
        rows = self._store.rows(statements.BUDGET, chain=[account])
        if not rows:
            raise _unknown(account)
        return _account(rows[0])

    def all(self) -> tuple[AccountRow, ...]:
        """Every account as of now, in order of name."""
        return tuple(_account(row) for row in self._store.rows(statements.ACCOUNTS))


def left_of(information: int, calls: int) -> Charge:
    """The remaining amount: 0 where an account in mode `track` is beyond its limit."""
    return Charge(max(0, information), max(0, calls))


def limits_by_account(rows: Iterable[Row]) -> dict[str, tuple[LimitRow, ...]]:
    """The rows of ALL_LIMITS by account."""
    return {name: tuple(map(_limit_row, had)) for name, had in groupby(rows, key=itemgetter(6))}


def _limit_row(row: Row) -> LimitRow:
    return LimitRow(row[0], Limit(*row[1:5]), row[5])


def _unknown(account: str) -> UnknownAccount:
    return UnknownAccount(f"there is no account {account}")


def _parts(row: AccountRow) -> tuple[Limit | Charge, ...]:
    return row.limit, row.used, row.reserved, row.left


def _account(row: Row) -> AccountRow:
    name, limit_i, limit_c, used_i, used_c, reserved_i, reserved_c, refreshes_at, period, mode, frozen = row
    return AccountRow(
        name,
        Limit(limit_i, limit_c, period, mode),
        Charge(used_i, used_c),
        Charge(reserved_i, reserved_c),
        left_of(limit_i - used_i - reserved_i, limit_c - used_c - reserved_c),
        refreshes_at,
        frozen,
    )
