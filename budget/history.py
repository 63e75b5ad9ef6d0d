"""What happened: an account's releases, every entry, the check of balances against entries, old answers."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime

from budget import statements
from budget import statements_accounts as reading
from budget.account import ActivityRow, Charge, EntryRow, Limit, LimitRow, ReleaseRow
from budget.audit import Balance, Difference, first_difference
from budget.store import Row, Store
from budget.trail import Trail
from budget.units import units

_PRUNED_AT_ONCE = 1000


class Histories(Store):
    """The part of the ledger that tells what is written in it."""

    def releases(self, account: str) -> tuple[ReleaseRow, ...]:
        """The rows of `dpproxy.releases` for one's own account, oldest first, in units."""
        return self.history(account)

    def history(
        self, account: str, since: datetime | None = None, until: datetime | None = None
    ) -> tuple[ReleaseRow, ...]:
        """What an account was told or charged for from `since` until before `until`, oldest first, in units."""
        rows = self._rows(reading.HISTORY, account=account, since=since, until=until)
        return tuple(
            ReleaseRow(time, query, mechanism, noise, units(information), units(calls), replayed, attributed)
            for time, query, mechanism, noise, information, calls, replayed, attributed in rows
        )

    def activity(self, since: datetime) -> tuple[ActivityRow, ...]:
        """What every account did from a moment on, in order of day and account."""
        rows = self._rows(reading.ACTIVITY, since=since)
        return tuple(
            ActivityRow(day, account, bought, replayed, failed, Charge(information, calls))
            for day, account, bought, replayed, failed, information, calls in rows
        )

    def entries(
        self,
        account: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> Iterator[EntryRow]:
        """Every fact, oldest first, of one moment, fetched as they are consumed; of all accounts without one."""
        with self._snapshot() as snapshot:
            for row in snapshot.rows(reading.ENTRIES, account=account, since=since, until=until):
                yield _entry(row)

    def mechanisms(self) -> Mapping[str, Collection[str]]:
        """What the reservations of each account say of their mechanisms, each text once; reads every entry."""
        found: dict[str, set[str]] = {}
        for account, mechanism in self._rows(reading.MECHANISMS):
            found.setdefault(account, set()).add(mechanism)
        return found

    def verify(self) -> Difference | None:
        """Computes every balance anew from the entries; the first difference, None where all is in order."""
        with self._snapshot() as snapshot:
            balances = [_balance(row) for row in snapshot.rows(reading.BALANCES)]
            rows = snapshot.rows(reading.ENTRIES, account=None, since=None, until=None)
            return first_difference(map(_entry, rows), balances)

    @contextmanager
    def trail(self) -> Iterator[Trail]:
        """The whole ledger at one moment, for as long as the context lasts."""
        with self._snapshot() as snapshot:
            ((at,),) = snapshot.rows("SELECT clock_timestamp()")
            balances = tuple(_balance(row) for row in snapshot.rows(reading.BALANCES))
            limits = {
                one.account: tuple(
                    LimitRow(row[0], Limit(*row[1:5]), row[5])
                    for row in snapshot.rows(reading.LIMITS, account=one.account)
                )
                for one in balances
            }
            pinned: dict[str, str] = dict(snapshot.rows(reading.PINNED))
            rows = snapshot.rows(reading.ENTRIES, account=None, since=None, until=None)
            yield Trail(at, pinned, limits, balances, map(_entry, rows))

    def prune(self, keep: Collection[str]) -> int:
        """Deletes the answers of all epochs but those of `keep`, which are over; returns how many.

        Entries, balances and histories stay as they are; what is asked again is bought again.
        """
        pruned = 0
        while True:
            values = {"keep": list(keep), "batch": _PRUNED_AT_ONCE}
            count = int(self._rows(statements.PRUNE, **values)[0][0])
            pruned += count
            if count < _PRUNED_AT_ONCE:
                return pruned


def _balance(row: Row) -> Balance:
    name, *amounts = row
    return Balance(name, Charge(*amounts[:2]), Charge(*amounts[2:4]), *amounts[4:])


def _entry(row: Row) -> EntryRow:
    number, reservation, account, own, kind, *amounts = row[:9]
    return EntryRow(
        number, reservation, account, own, kind, Charge(*amounts[:2]), Charge(*amounts[2:]), *row[9:]
    )
