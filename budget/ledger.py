"""The ledger: accounts pay first, and an answer is stored in the commit that charges for it.

PostgreSQL by psycopg, usable without the proxy. A query goes reserve -> settle (budget.md): `reserve` holds
the most it can cost of every account of its chain, `settle` writes actual cost and answer in one transaction.
All methods may be called from any thread; each raises LedgerUnavailable where the server cannot be used.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from datetime import datetime, timedelta
from importlib.resources import files
from queue import Empty, LifoQueue
from threading import Lock, Semaphore
from typing import NoReturn, Self, cast
from uuid import UUID

import psycopg
from psycopg import errors

from budget import statements
from budget.account import (
    AboveReservation,
    AlreadyReached,
    AlreadyResolved,
    Charge,
    Exhausted,
    LedgerError,
    LedgerUnavailable,
    NotReached,
    Pinned,
    PinnedMismatch,
    Reservation,
    Settled,
    UnknownAccount,
)
from budget.accounts import Accounts
from budget.analysts import Analysts
from budget.store import Conflict, OutOfBounds, Row, Step, left_of

_MIGRATIONS = ("schema.sql",)
_OPTIONS = (
    "-c synchronous_commit=on -c default_transaction_isolation=read\\ committed -c timezone=UTC"
    " -c lock_timeout=30s -c statement_timeout=60s -c idle_in_transaction_session_timeout=60s"
)
_CONNECTIONS = 16
_ATTEMPTS = 3
_IDS = 256
_LOST = (psycopg.OperationalError, psycopg.InterfaceError)
_SLOW = (errors.QueryCanceled, errors.LockNotAvailable)
_AGAIN = (errors.SerializationFailure, errors.DeadlockDetected)


class _Pool:
    """At most `_CONNECTIONS` connections; a thread that finds none idle makes one or waits."""

    def __init__(self, conninfo: str) -> None:
        self._conninfo = conninfo
        self._idle: LifoQueue[psycopg.Connection[Row]] = LifoQueue()
        self._places = Semaphore(_CONNECTIONS)

    def connect(self) -> psycopg.Connection[Row]:
        """A connection of its own, outside the pool."""
        return psycopg.connect(self._conninfo, autocommit=True, options=_OPTIONS, connect_timeout=10)

    @contextmanager
    def connection(self) -> Iterator[psycopg.Connection[Row]]:
        """A connection for one transaction; LedgerUnavailable where none is free within a minute."""
        if not self._places.acquire(timeout=60):
            raise LedgerUnavailable("all connections to the ledger are busy")
        try:
            try:
                connection = self._idle.get_nowait()
            except Empty:
                connection = self.connect()
            try:
                yield connection
            finally:
                self._keep(connection)
        finally:
            self._places.release()

    def _keep(self, connection: psycopg.Connection[Row]) -> None:
        """Only a connection in order is used again."""
        if connection.closed or connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
            connection.close()
        else:
            self._idle.put(connection)

    def close(self) -> None:
        """Closes what is idle."""
        with suppress(Empty):
            while True:
                self._idle.get_nowait().close()


class Ledger(Accounts, Analysts):
    """The accounts of one deployment. Make it by `Ledger.open`."""

    def __init__(self, pool: _Pool, instance: str, lease: timedelta) -> None:
        Accounts.__init__(self)
        Analysts.__init__(self)
        self._pool, self._instance, self._lease = pool, instance, lease
        self._ids: deque[UUID] = deque()
        self._ids_lock = Lock()

    @classmethod
    def open(
        cls, conninfo: str, pinned: Pinned, *, instance: str, lease: timedelta = timedelta(hours=1)
    ) -> Self:
        """Opens a ledger, making its schema on first use, and ends the reservations of the dead.

        `conninfo`: of libpq, or a URL; `pinned`: as at its creation; `instance`: this process's lasting name,
        of which one lives at a time: reservations it made in an earlier life are ended at once (spent where
        the backend was reached, else released), those of others when their `lease` has run out. Raises
        PinnedMismatch, LedgerUnavailable, LedgerError.
        """
        pool = _Pool(conninfo)
        try:
            with pool.connect() as connection:
                _migrate(connection)
                _pin(connection, pinned)
        except _LOST as error:
            raise LedgerUnavailable(f"the ledger cannot be opened: {error}") from error
        ledger = cls(pool, instance, lease)
        ledger._end_dead(instance)
        return ledger

    def close(self) -> None:
        """Closes idle connections; what is held stays held until recovery."""
        self._pool.close()

    # The life of a charge

    def reserve(
        self,
        chain: Sequence[str],
        charges: Sequence[Charge],
        *,
        reached: bool,
        query: str,
        mechanisms: Sequence[str],
    ) -> tuple[Reservation, ...]:
        """Holds the most that a query's releases can cost, all of them on every account, or none.

        `chain`: seeded accounts, the analyst's own first, shared ones after it; `charges`: what each release
        costs at most; `reached`: the backend is about to be called (a slot is held), which is then said in
        the same commit; `query`, `mechanisms` (one a charge): for the account's history. Returns one
        reservation a charge. Raises Exhausted, UnknownAccount, ValueError.
        """
        total = _checked_total(chain, charges, mechanisms)
        values: dict[str, object] = {
            "chain": list(chain),
            "accounts": len(chain),
            "own": chain[0],
            "ids": self._fresh_ids(len(charges)),
            "information": [charge.information for charge in charges],
            "calls": [charge.calls for charge in charges],
            "mechanisms": list(mechanisms),
            "query": query,
            "reached": reached,
            "instance": self._instance,
            "lease": self._lease,
        }
        rows = self._try_reserve(values)
        if rows and not rows[0][2] and any(row[7] for row in rows) and self.recover():
            rows = self._try_reserve(values)
        if len(rows) != len(chain):
            raise UnknownAccount("an account of the chain was never seeded")
        if not rows[0][2]:
            _refuse(chain[0], total, rows)
        ids = cast(list[UUID], values["ids"])
        return tuple(Reservation(id, chain[0], charge) for id, charge in zip(ids, charges, strict=True))

    def reach(self, reservation: Reservation) -> None:
        """Says durably that the backend is about to be called; AlreadyResolved if it was released."""
        for _ in range(_ATTEMPTS):
            rows = self._rows(statements.REACH, id=reservation.id)
            if rows and rows[0][0]:
                return
            if rows:
                raise AlreadyResolved("the reservation was released")
        raise LedgerError("no such reservation")

    def release(self, reservation: Reservation) -> None:
        """Gives a reservation back whose backend was never reached; AlreadyReached, AlreadyResolved."""
        self._resolve(reservation.id, "release")

    def spend(self, reservation: Reservation) -> None:
        """Spends a reservation whole: what failed after the backend was reached; AlreadyResolved."""
        self._resolve(reservation.id, "spend")

    def settle(
        self,
        reservation: Reservation,
        actual: Charge,
        *,
        release_key: bytes,
        request_key: bytes,
        answer: bytes,
        mechanism: str,
        query: str,
        epoch: str,
    ) -> Settled:
        """Writes actual cost and answer in one transaction; only what it returns may leave.

        `release_key` names the release: whoever comes second gets the stored answer, at its stored cost, or
        for nothing if this account has paid for it already. `request_key` names what the account asked, for
        `replay`. Shared accounts are charged the whole reservation. Raises AboveReservation, AlreadyResolved,
        and NotReached for a new answer whose backend was not said to be reached.
        """
        if not reservation.at_most.covers(actual):
            raise AboveReservation(f"{actual} settled on a reservation of {reservation.at_most}")
        values: dict[str, object] = {
            "id": reservation.id,
            "information": actual.information,
            "calls": actual.calls,
            "release_key": release_key,
            "request_key": request_key,
            "answer": answer,
            "mechanism": mechanism,
            "query": query,
            "epoch": epoch,
        }
        for _ in range(_ATTEMPTS):
            settled = self._settle_once(values)
            if settled is not None:
                return settled
        raise LedgerUnavailable("another process is storing the same answer and does not finish")

    def replay(self, account: str, request_key: bytes) -> bytes | None:
        """The answer this account has paid for, free even when it is exhausted; None where there is none."""
        rows = self._rows(statements.REPLAY, account=account, request_key=request_key)
        return rows[0][0] if rows else None

    def stored(self, release_key: bytes) -> tuple[bytes, Charge] | None:
        """An answer that anybody paid for, and its cost.

        Before it may be given to another account, that one reserves the mechanism's maximum and settles this
        cost under the same release key.
        """
        rows = self._rows(statements.STORED, release_key=release_key)
        return (rows[0][0], Charge(rows[0][1], rows[0][2])) if rows else None

    def recover(self, *gone: str) -> int:
        """Ends reservations whose lease has run out, and those of instances that are `gone`; returns how many.

        They are spent or released as in `open`.
        """
        return self._end_dead(None) + sum(map(self._end_dead, gone))

    def _end_dead(self, instance: str | None) -> int:
        dead = self._rows(statements.DEAD, instance=instance)
        for (id,) in dead:
            with suppress(AlreadyResolved):
                try:
                    self._resolve(id, "release")
                except AlreadyReached:
                    self._resolve(id, "spend")
        return len(dead)

    # The three calls of the Audience Engagements paper

    def check_budget(self, account: str, cost: Charge) -> bool:
        """Whether an account could pay now; a later update may still fail. UnknownAccount."""
        return self.limit(account).mode == "track" or self.left(account).covers(cost)

    def update_budget(self, account: str, cost: Charge) -> None:
        """Charges an account at once; Exhausted, UnknownAccount."""
        held = self.reserve([account], [cost], reached=True, query="", mechanisms=["update_budget"])
        self.spend(held[0])

    def get_budget(self, account: str) -> Charge:
        """What is left; UnknownAccount."""
        return self.left(account)

    # Inside

    def _fresh_ids(self, count: int) -> list[UUID]:
        """Ids drawn by the server ahead of use: a retry after a lost connection says the same ones."""
        with self._ids_lock:
            if len(self._ids) < count:
                rows = self._rows("SELECT gen_random_uuid() FROM generate_series(1, %(n)s)", n=_IDS + count)
                self._ids.extend(row[0] for row in rows)
            return [self._ids.popleft() for _ in range(count)]

    def _try_reserve(self, values: Mapping[str, object]) -> list[Row]:
        """By account: name, mode, pays, made before, refreshes at, left information, left calls, holds."""
        try:
            rows = self._transaction([(statements.RESERVE, values)])[0]
        except Conflict:
            # A first attempt, lost on the way, had committed after all.
            rows = self._transaction([(statements.RESERVE, values)])[0]
        return [(*row[:2], row[2] or row[3], *row[3:]) for row in rows]

    def _settle_once(self, values: Mapping[str, object]) -> Settled | None:
        """None where another transaction has just stored the answer, which the next attempt sees."""
        steps = [(statements.LOCK_HELD, values), (statements.SETTLE, values)]
        try:
            rows = self._transaction(steps, resume=values)[1]
        except OutOfBounds as error:
            raise AboveReservation("the stored answer cost more than the reservation holds") from error
        except Conflict as error:
            raise AlreadyResolved("the reservation is settled, spent or released already") from error
        if rows:
            answer, information, calls, stored_before, *left = rows[0]
            return Settled(answer, Charge(information, calls), left_of(*left), stored_before)
        state = self._rows(statements.STATE, id=values["id"])
        if not state:
            raise LedgerError("no such reservation")
        if not state[0][1]:
            raise NotReached("the backend was not said to be reached")
        return None

    def _resolve(self, id: UUID, kind: str) -> None:
        values = {"id": id, "kind": kind}
        try:
            held = self._transaction(
                [(statements.LOCK_HELD, values), (statements.RESOLVE, values)], resume=values
            )[1]
        except Conflict as error:
            if error.constraint == "mark_once" and not self._resolution(id):
                raise AlreadyReached("the backend was reached: the reservation can only be spent") from error
            raise AlreadyResolved("the reservation is settled, spent or released already") from error
        if held and held[0][0] == 0:
            raise LedgerError("no such reservation")

    def _resolution(self, id: object) -> str | None:
        rows = self._rows(statements.STATE, id=id)
        return rows[0][0] if rows else None

    def _transaction(
        self, steps: Sequence[Step], resume: Mapping[str, object] | None = None
    ) -> list[list[Row]]:
        """Runs statements in one transaction and one round trip, again where the connection is lost.

        Running again is safe: ids and unique names make every statement do its work once. `resume`:
        parameters of a resolution, whose lost first attempt is looked up instead of being taken for somebody
        else's.
        """
        lost = False
        for attempt in range(_ATTEMPTS):
            try:
                with self._pool.connection() as connection:
                    return _run(connection, steps)
            except _AGAIN:
                continue
            except (errors.UniqueViolation, errors.CheckViolation) as error:
                if lost and resume is not None and (found := self._found(resume)):
                    return [[], found]
                kind = Conflict if isinstance(error, errors.UniqueViolation) else OutOfBounds
                raise kind(error.diag.constraint_name or "a constraint") from error
            except psycopg.Error as error:
                lost = isinstance(error, _LOST) and not isinstance(error, _SLOW)
                if not lost or attempt == _ATTEMPTS - 1:
                    raise LedgerUnavailable(f"the ledger cannot be used ({type(error).__name__})") from error
        raise LedgerUnavailable("the ledger is too busy")

    def _found(self, resume: Mapping[str, object]) -> list[Row]:
        """What a resolution would have returned that was committed while its connection was lost."""
        state = self._rows(statements.STATE, id=resume["id"])
        if not state or state[0][0] != resume.get("kind", "settle"):
            return []
        _, _, answer, information, calls, stored_before, *left = state[0]
        return [(1,)] if "kind" in resume else [(answer, information, calls, stored_before, *left)]


def _run(connection: psycopg.Connection[Row], steps: Sequence[Step]) -> list[list[Row]]:
    if len(steps) == 1:
        return [connection.execute(*_bound(steps[0])).fetchall()]
    with _pipeline(connection):
        connection.execute("BEGIN")
        cursors = [connection.execute(*_bound(step)) for step in steps]
        connection.execute("COMMIT")
    return [cursor.fetchall() if cursor.description else [] for cursor in cursors]


def _bound(step: Step) -> tuple[bytes, Mapping[str, object]]:
    return step[0].encode(), step[1]


def _pipeline(connection: psycopg.Connection[Row]) -> AbstractContextManager[object]:
    return connection.pipeline() if psycopg.Pipeline.is_supported() else nullcontext()


def _migrate(connection: psycopg.Connection[Row]) -> None:
    """Brings the schema up to date; two processes that do it at once don't disturb each other."""
    if connection.execute("SELECT current_setting('fsync', true)").fetchone() == ("off",):
        raise LedgerError("the ledger's server runs with fsync off: a crash would forget what was spent")
    for _ in range(10):
        done = _version(connection)
        if done > len(_MIGRATIONS):
            raise LedgerError(f"the ledger's schema has version {done}, made by a newer dpproxy")
        if done == len(_MIGRATIONS):
            return
        together = suppress(errors.UniqueViolation, errors.DuplicateTable, errors.DuplicateSchema)
        with together, connection.transaction():
            connection.execute(files("budget").joinpath(_MIGRATIONS[done]).read_bytes())
            connection.execute("INSERT INTO dpproxy_ledger.migration (version) VALUES (%s)", (done + 1,))
    raise LedgerUnavailable("the ledger's schema could not be made")


def _version(connection: psycopg.Connection[Row]) -> int:
    try:
        row = connection.execute("SELECT max(version) FROM dpproxy_ledger.migration").fetchone()
    except (errors.UndefinedTable, errors.InvalidSchemaName):
        return 0
    return 0 if row is None or row[0] is None else int(row[0])


def _pin(connection: psycopg.Connection[Row], pinned: Pinned) -> None:
    texts = pinned.texts()
    for name, value in texts.items():
        connection.execute(
            "INSERT INTO dpproxy_ledger.pinned (name, value) VALUES (%s, %s) ON CONFLICT (name) DO NOTHING",
            (name, value),
        )
    held: dict[str, str] = dict(
        connection.execute("SELECT name, value FROM dpproxy_ledger.pinned").fetchall()
    )
    for name, value in texts.items():
        if held[name] != value:
            raise PinnedMismatch(
                f"the ledger was made with {name} = {held[name]}, not {value}: use a new ledger"
            )


def _checked_total(chain: Sequence[str], charges: Sequence[Charge], mechanisms: Sequence[str]) -> Charge:
    if not chain or len(set(chain)) != len(chain):
        raise ValueError("a chain names each account once, the analyst's own first")
    if not charges or len(mechanisms) != len(charges):
        raise ValueError("a query has charges, and a mechanism for each")
    if any(charge == Charge(0, 0) for charge in charges):
        raise ValueError("a release costs something")
    return Charge(sum(charge.information for charge in charges), sum(charge.calls for charge in charges))


def _refuse(own: str, total: Charge, rows: Sequence[Row]) -> NoReturn:
    """Numbers of the own account only: a shared one that refuses shows nothing."""
    for name, mode, _, _, refreshes_at, information, calls, _ in rows:
        if name == own:
            left = left_of(information, calls)
            if mode == "enforce" and not left.covers(total):
                raise Exhausted(total, left, cast(datetime | None, refreshes_at))
    raise Exhausted(total, None, None)
