"""Accounts: their limits, balances, and histories."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from decimal import Decimal
from itertools import groupby
from operator import itemgetter

from budget import statements_accounts as statements
from budget.account import AccountRow, BudgetRow, Charge, Limit, LimitRow, LimitTooLow, Pinned, UnknownAccount
from budget.accounting import epsilon_limit
from budget.store import OutOfBounds, PostgresStore, Row
from budget.units import UNBOUNDED, micro_limit, units


class Accounts:
    """The limits and balances of accounts. Each method raises LedgerUnavailable."""

    def __init__(self, store: PostgresStore, pinned: Pinned) -> None:
        self._store, self._pinned = store, pinned
        self._seeded: set[str] = set()

    def seed(self, account: str, limit: Limit) -> None:
        """Makes an account at its first use; one that exists keeps its limit. ValueError as of `set_limit`."""
        if account in self._seeded:
            return
        self._check(limit)
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
        self._check(limit)
        paying = None if members is None else list(members)
        values = {"account": account, "members": paying, **vars(limit)}
        steps = (statements.LOCK_SPENDERS, statements.SEED, statements.CARRY, statements.NOTE_LIMIT)
        self._store.transaction([(step, values) for step in steps])
        self._seeded.add(account)

    def set_limit(self, account: str, limit: Limit) -> None:
        """Changes an account's limit, noting the change.

        A longer period, or none, covers what was used in the periods before: all that lies within its length.
        Raises UnknownAccount, LimitTooLow where the limit would go below what is used and reserved, ValueError where
        its pure epsilon guarantees less than its units.
        """
        self.set_limits({account: limit})

    def set_limits(self, limits: Mapping[str, Limit]) -> None:
        """Changes the limits of some accounts, or none of them; raises as `set_limit`."""
        steps: list[tuple[str, dict[str, object]]] = []
        for account, limit in sorted(limits.items()):
            self._check(limit)
            values = {"account": account, "chain": [account], **vars(limit)}
            changes = (statements.SET_LIMIT, statements.NOTE_LIMIT, statements.LIMIT_IS_SET)
            steps += [(statement, values) for statement in changes]
        try:
            changed = self._store.transaction(steps)[::3] if steps else []
        except OutOfBounds as error:
            for account, limit in sorted(limits.items()):
                self._explain(account, limit)
            raise LimitTooLow("an account has used or reserved more than its limit would be") from error
        for account, rows in zip(sorted(limits), changed, strict=True):
            if not rows:
                raise _unknown(account)

    def _explain(self, account: str, limit: Limit) -> None:
        """Raises LimitTooLow where an account has spent more than a limit."""
        values = {"account": account, "chain": [account], **vars(limit)}
        for row in self._store.rows(statements.COVERED, **values):
            used, reserved = balance(*row[:3]), balance(*row[3:])
            held = Charge.sum([used, reserved])
            most = Charge(limit.information, limit.calls, limit.epsilon)
            if limit.mode == "enforce" and not most.pays(held):
                within = "" if limit.period == "none" else f" within a {limit.period}"
                raise LimitTooLow(
                    f"{account} has spent {used}{within} and reserved {reserved}: no limit goes below that"
                )

    def epsilon_limit(self, information: int) -> int:
        """The limit of pure epsilon that guarantees what one of units does; 0 where it would admit nothing more."""
        pinned = self._pinned
        return micro_limit(epsilon_limit(units(information), pinned.epsilon_per, pinned.delta_prime))

    def _check(self, limit: Limit) -> None:
        """ValueError unless both filters guarantee the same: the units' epsilon is not exceeded by the pure one."""
        if limit.epsilon and limit.epsilon > self.epsilon_limit(limit.information):
            raise ValueError("a limit of pure epsilon guarantees no less than that of units")

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

    def budget(self, account: str) -> tuple[BudgetRow, ...]:
        """The rows of `dpproxy.budget` for one's own account, in units; UnknownAccount."""
        row = self.get(account)
        found = []
        for unit in row.limit.units:
            limit, used, reserved, left = (units(getattr(part, unit)) for part in _parts(row))
            found.append(BudgetRow(account, unit, limit, used, reserved, left, row.refreshes_at))
        return tuple(found)

    def get(self, account: str) -> AccountRow:
        """One account as of now; UnknownAccount."""
        rows = self._store.rows(statements.BUDGET, chain=[account])
        if not rows:
            raise _unknown(account)
        return _account(rows[0])

    def all(self) -> tuple[AccountRow, ...]:
        """Every account as of now, in order of name."""
        return tuple(_account(row) for row in self._store.rows(statements.ACCOUNTS))


def left_of(information: int, calls: int, epsilon: Decimal) -> Charge:
    """The remaining amount: 0 where an account is beyond a limit, by mode `track` or by its other filter."""
    return Charge(max(0, information), max(0, calls), int(epsilon) if epsilon > 0 else UNBOUNDED)


def limits_by_account(rows: Iterable[Row]) -> dict[str, tuple[LimitRow, ...]]:
    """The rows of ALL_LIMITS by account."""
    return {name: tuple(map(_limit_row, had)) for name, had in groupby(rows, key=itemgetter(7))}


def _limit_row(row: Row) -> LimitRow:
    return LimitRow(row[0], Limit(*row[1:6]), row[6])


def _unknown(account: str) -> UnknownAccount:
    return UnknownAccount(f"there is no account {account}")


def _parts(row: AccountRow) -> tuple[Limit | Charge, ...]:
    return row.limit, row.used, row.reserved, row.left


def _account(row: Row) -> AccountRow:
    name, limits, used, reserved = row[0], row[1:4], row[4:7], row[7:10]
    refreshes_at, period, mode, frozen = row[10:]
    left = left_of(*(most - much - held for most, much, held in zip(limits, used, reserved, strict=True)))
    if limits[2] and left.epsilon == UNBOUNDED:
        left = replace(left, epsilon=0)
    return AccountRow(
        name,
        Limit(limits[0], limits[1], period, mode, limits[2]),
        balance(*used),
        balance(*reserved),
        left,
        refreshes_at,
        frozen,
    )


def balance(information: int, calls: int, epsilon: Decimal) -> Charge:
    """What an account keeps of charges: pure epsilon adds up beyond UNBOUNDED, which no limit reaches."""
    return Charge(information, calls, min(UNBOUNDED, int(epsilon)))
