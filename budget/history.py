"""What happened: an account's releases, every entry, and the check of balances against entries."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date, datetime, timedelta
from typing import Any

from budget import statements_accounts as statements
from budget.account import Activity, AnotherLedger, AskedRow, Charge, EntryRow, ReleaseRow
from budget.accounts import balance, limits_by_account
from budget.audit import Balance, Difference, Recomputation
from budget.checkpoint import BLOCK, DIGEST, REPEATED, SETTLED, UNCHARGED, Checkpoint, Verified, digest
from budget.store import PostgresStore, Snapshot
from budget.trail import Trail
from budget.units import units


class History:
    """Read-only access to the ledger's entries."""

    def __init__(self, store: PostgresStore, id: str) -> None:
        self._store, self._id = store, id

    def releases(
        self,
        account: str,
        since: datetime | None = None,
        until: datetime | None = None,
        most: int | None = None,
        *,
        newest: bool = False,
    ) -> tuple[AskedRow, ...]:
        """The rows of `dpproxy.releases` in order of time, in units, each with what was asked in words.

        They are the releases that an account got or was charged for from `since` until before `until`, `most` of them
        at most: the oldest, or the `newest`. What is read is what is returned, however long the history is.
        """
        statement = statements.HISTORY_BACKWARDS if newest else statements.HISTORY
        rows = self._store.rows(statement, account=account, since=since, until=until, most=most)
        return tuple(AskedRow(*_release(row[:8]), *row[8:]) for row in (reversed(rows) if newest else rows))

    def latest(self, account: str, most: int) -> tuple[ReleaseRow, ...]:
        """The last releases that an account got, at most `most`, newest first, replays with the noise of what they
        replay."""
        rows = self._store.rows(statements.LATEST, account=account, since=None, until=None, most=most)
        return tuple(ReleaseRow(*_release(row)) for row in rows)

    def activity_by_day(self, days: Sequence[date], account: str | None = None) -> tuple[Activity, ...]:
        """What one account did, or all of them, on each of some days (UTC)."""
        by_day, of_account = statements.ACTIVITY_BY_DAY, statements.ACTIVITY_BY_DAY_OF_ACCOUNT
        statement = by_day if account is None else of_account
        return tuple(_activity(row) for row in self._store.rows(statement, days=[*days], account=account))

    def activity_by_account(self, since: datetime, most: int) -> Mapping[str, Activity]:
        """What accounts did from a moment on, `most` of them at most, those that were charged most first."""
        rows = self._store.rows(statements.ACTIVITY_BY_ACCOUNT, since=since, most=most)
        return {account: _activity(row) for account, *row in rows}

    def answered(self, since: datetime) -> int:
        """How many releases all accounts bought, replayed or paid for without an answer from a moment on."""
        return int(self._store.rows(statements.ANSWERED, since=since)[0][0])

    def entries(
        self,
        account: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        last: int | None = None,
    ) -> Iterator[EntryRow]:
        """Every fact, oldest first, of one moment, fetched as they are consumed; of all accounts without one.

        `last`: only those among the ledger's last so many.
        """
        with self._store.snapshot() as snapshot:
            yield from _entries(snapshot, account, since, until, last=last)

    def mechanisms(self) -> Mapping[str, Collection[str]]:
        """What the reservations of each account say of their mechanisms, each text once; reads every entry."""
        found: dict[str, set[str]] = {}
        for account, mechanism in self._store.rows(statements.MECHANISMS):
            found.setdefault(account, set()).add(mechanism)
        return found

    def verify(self) -> Difference | None:
        """Recomputes every balance from the entries; returns the first difference, None if there is none."""
        return self.verified().difference

    def verified(
        self, since: Checkpoint | None = None, *, whole: bool = False, settled: timedelta = SETTLED
    ) -> Verified:
        """As `verify`, from a checkpoint on; AnotherLedger for one of another ledger.

        That the entries up to there are still those that were verified is decided by their digest, which the server
        computes; `whole`: all are read again, too. `settled`: how old an entry must be for the next checkpoint.
        """
        if since is not None and since.ledger != self._id:
            raise AnotherLedger(f"the checkpoint is of ledger {since.ledger}, this one is {self._id}")
        with self._store.snapshot() as snapshot:
            blocks: dict[int, bytes | None] = {}
            if since is not None:
                blocks = dict(_blocks(snapshot, 0, since.number))
                if digest(blocks) != since.digest:
                    what = "the entries up to here are not those that were verified before"
                    return Verified(Difference("the ledger", since.number, what), 0, None)
            return self._read(snapshot, None if whole else since, blocks, settled)

    def _read(
        self,
        snapshot: Snapshot,
        since: Checkpoint | None,
        blocks: dict[int, bytes | None],
        settled: timedelta,
    ) -> Verified:
        after, count = (0, 0) if since is None else (since.number, 0)
        for account, number in snapshot.rows(REPEATED, after=after) if since is not None else ():
            return Verified(Difference(account, number, "said before"), 0, None)
        computed = Recomputation() if since is None else Recomputation.load(since.state)
        ((before,),) = snapshot.rows("SELECT clock_timestamp() - %(settled)s", settled=settled)
        state, last = None, after
        for count, entry in enumerate(_entries(snapshot, after=after), 1):
            if state is None and entry.time > before:
                state = computed.dump()
            if wrong := computed.take(entry):
                return Verified(wrong, count, None)
            last = last if state is not None else entry.number
        for account, number in snapshot.rows(UNCHARGED, after=after):
            what = "nothing charged for an answer that was not paid for before in this period"
            return Verified(Difference(account, number, what), count, None)
        if wrong := next(computed.differences(_balances(snapshot)), None):
            return Verified(wrong, count, None)
        full = {b: part for b, part in blocks.items() if b < min(max(blocks), last // BLOCK)}
        blocks = full | dict(_blocks(snapshot, len(full), last))
        return Verified(None, count, Checkpoint(self._id, last, digest(blocks), state or computed.dump()))

    @contextmanager
    def trail(self) -> Iterator[Trail]:
        """The whole ledger at one moment, for as long as the context lasts."""
        with self._store.snapshot() as snapshot:
            ((at,),) = snapshot.rows("SELECT clock_timestamp()")
            balances = _balances(snapshot)
            limits = limits_by_account(snapshot.rows(statements.ALL_LIMITS))
            pinned: dict[str, str] = dict(snapshot.rows(statements.PINNED))
            yield Trail(at, pinned, limits, balances, _entries(snapshot))


def _release(row: Sequence[Any]) -> tuple[Any, ...]:
    time, query, mechanism, noise, information, calls, *rest = row
    return (time, query, mechanism, noise, units(information), units(calls), *rest)


def _activity(row: Sequence[int]) -> Activity:
    bought, replayed, failed, information, calls = row
    return Activity(bought, replayed, failed, Charge(information, calls))


def _balances(snapshot: Snapshot) -> tuple[Balance, ...]:
    return tuple(
        Balance(name, balance(*amounts[:3]), balance(*amounts[3:6]), *amounts[6:])
        for name, *amounts in snapshot.rows(statements.BALANCES)
    )


def _entries(
    snapshot: Snapshot,
    account: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    after: int = 0,
    last: int | None = None,
) -> Iterator[EntryRow]:
    values = {"account": account, "since": since, "until": until, "after": after, "last": last}
    for row in snapshot.rows(statements.ENTRIES, **values):
        number, reservation, name, own, kind, *amounts = row[:11]
        charges = Charge(*amounts[:3]), Charge(*amounts[3:])
        yield EntryRow(number, reservation, name, own, kind, *charges, *row[11:])


def _blocks(snapshot: Snapshot, first: int, until: int) -> Iterator[tuple[int, bytes | None]]:
    """The digests of the entries up to number `until`, by block, from block `first` on."""
    for block in range(first, until // BLOCK + 1):
        after, last = block * BLOCK - 1, min(until, (block + 1) * BLOCK - 1)
        ((found,),) = snapshot.rows(DIGEST, after=after, until=last)
        yield block, found
