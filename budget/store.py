"""The ledger's PostgreSQL: connections, transactions in one round trip, and what becomes of errors.

Why: docs/decisions/commit-then-flush.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import lru_cache
from queue import Empty, LifoQueue
from threading import Semaphore
from typing import Any

import psycopg
from psycopg import errors

from budget.account import LedgerError, LedgerUnavailable

Row = tuple[Any, ...]
Step = tuple[str, Mapping[str, object]]
Connection = psycopg.Connection[Row]
Check = Callable[[Callable[[str, Mapping[str, object]], list[Row]]], None]
LOST = (psycopg.OperationalError, psycopg.InterfaceError)
_OPTIONS = (
    "-c synchronous_commit=on -c default_transaction_isolation=read\\ committed -c timezone=UTC"
    " -c lock_timeout=30s -c statement_timeout=60s -c idle_in_transaction_session_timeout=60s"
    " -c plan_cache_mode=force_generic_plan -c enable_seqscan=off -c jit=off"
    " -c tcp_keepalives_idle=20 -c tcp_keepalives_interval=5 -c tcp_keepalives_count=4"
)
_ATTEMPTS = 3
_FETCHED_AT_ONCE = 5000
_WAIT_SECONDS = 60
_SLOW = (errors.QueryCanceled, errors.LockNotAvailable)
_AGAIN = (errors.SerializationFailure, errors.DeadlockDetected, errors.ForeignKeyViolation)
_BOUNDS = (errors.CheckViolation, errors.NumericValueOutOfRange)


class Conflict(LedgerError):
    """A unique row exists already; `constraint` names the constraint.

    `after_loss`: an earlier attempt lost its connection, and may have written the row.
    """

    def __init__(self, constraint: str, after_loss: bool = False) -> None:
        self.constraint, self.after_loss = constraint, after_loss
        super().__init__(f"{constraint} is violated")


class OutOfBounds(Conflict):
    """An amount that a constraint forbids."""


class Pool:
    """At most `size` connections; a thread that finds none idle makes one or waits.

    `options`: what each session is started with; `check`: is given each new connection, as a function that runs
    a statement, before its first use.
    """

    def __init__(self, conninfo: str, size: int, options: str = "", check: Check | None = None) -> None:
        self._conninfo, self._options, self._check = conninfo, f"{_OPTIONS} {options}", check
        self._idle: LifoQueue[Connection] = LifoQueue()
        self._places = Semaphore(size)

    def connect(self) -> Connection:
        """A connection of its own, outside the pool."""
        return psycopg.connect(self._conninfo, autocommit=True, options=self._options, connect_timeout=10)

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """A connection for one transaction; LedgerUnavailable where none is free within a minute."""
        if not self._places.acquire(timeout=_WAIT_SECONDS):
            raise LedgerUnavailable("all connections to the ledger are busy")
        try:
            connection = self._idle_or_new()
            try:
                yield connection
            finally:
                self._keep(connection)
        finally:
            self._places.release()

    def _idle_or_new(self) -> Connection:
        with suppress(Empty):
            return self._idle.get_nowait()
        connection = self.connect()
        try:
            if self._check is not None:
                self._check(lambda sql, values: connection.execute(_compact(sql), values).fetchall())
        except BaseException:
            connection.close()
            raise
        return connection

    def _keep(self, connection: Connection) -> None:
        """Keeps a connection for reuse if it still works."""
        if connection.closed or connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
            connection.close()
        else:
            self._idle.put(connection)

    def close(self) -> None:
        """Closes idle connections."""
        with suppress(Empty):
            while True:
                self._idle.get_nowait().close()


class PostgresStore:
    """Statements in transactions that are durable when the call returns, on connections of a pool."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def rows(self, sql: str, **values: object) -> list[Row]:
        """The rows of one statement; raises as `transaction`."""
        return self.transaction([(sql, values)])[0]

    def transaction(self, steps: Sequence[Step], seal: Step | None = None) -> list[list[Row]]:
        """The rows of each statement, in one round trip; raises Conflict, OutOfBounds, LedgerUnavailable.

        Without `seal` the commit waits until it is on disk. With it, that commit doesn't wait (no row stays
        locked for the time of a disk's flush), and `seal` follows as a transaction of its own that does: the
        log is written in order, so what is on disk then includes what was committed before.

        It runs again where the connection is lost, which is safe: ids and unique names make every statement do
        its work once.
        """
        lost = False
        for attempt in range(_ATTEMPTS):
            try:
                with self._pool.connection() as connection:
                    return _run(connection, steps, seal)
            except _AGAIN:
                continue
            except errors.UniqueViolation as error:
                raise Conflict(error.diag.constraint_name or "a constraint", lost) from error
            except _BOUNDS as error:
                raise OutOfBounds(error.diag.constraint_name or "a constraint", lost) from error
            except psycopg.Error as error:
                lost = isinstance(error, LOST) and not isinstance(error, _SLOW)
                if not lost or attempt == _ATTEMPTS - 1:
                    raise unavailable(error) from error
                # Where one connection was lost, those that lie idle were most likely too.
                self._pool.close()
        raise LedgerUnavailable("the ledger is too busy")

    @contextmanager
    def snapshot(self) -> Iterator[Snapshot]:
        """One state of the whole ledger; LedgerUnavailable."""
        try:
            with self._pool.connection() as connection:
                connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
                try:
                    yield Snapshot(connection)
                finally:
                    connection.rollback()
        except psycopg.Error as error:
            raise unavailable(error) from error


class Snapshot:
    """One state of the ledger, read by several statements."""

    def __init__(self, connection: Connection) -> None:
        self._connection, self._cursors = connection, 0

    def rows(self, sql: str, **values: object) -> Iterator[Row]:
        """The rows of a statement, fetched as they are consumed."""
        self._cursors += 1
        with self._connection.cursor(f"rows_{self._cursors}") as cursor:
            cursor.itersize = _FETCHED_AT_ONCE
            cursor.execute(_compact(sql), values)
            yield from cursor


def unavailable(error: psycopg.Error) -> LedgerUnavailable:
    """An error of the server without its text, which could hold data."""
    if isinstance(error, psycopg.errors.DataCorrupted | psycopg.errors.IndexCorrupted):
        return LedgerUnavailable("the ledger is damaged: put a backup back by dpproxy restore")
    return LedgerUnavailable(f"the ledger cannot be used ({type(error).__name__})")


def _run(connection: Connection, steps: Sequence[Step], seal: Step | None) -> list[list[Row]]:
    if len(steps) == 1 and seal is None:
        return [connection.execute(*_bound(steps[0])).fetchall()]
    with _pipeline(connection):
        connection.execute("BEGIN")
        if seal is not None:
            connection.execute("SET LOCAL synchronous_commit = off")
        cursors = [connection.execute(*_bound(step)) for step in steps]
        if seal is not None:
            connection.execute("COMMIT AND CHAIN")
            cursors.append(connection.execute(*_bound(seal)))
        connection.execute("COMMIT")
    return [cursor.fetchall() if cursor.description else [] for cursor in cursors]


def _bound(step: Step) -> tuple[bytes, Mapping[str, object]]:
    return _compact(step[0]), step[1]


@lru_cache
def _compact(sql: str) -> bytes:
    """A statement without its layout: psycopg parses statements of more than 4 KiB again each time."""
    return b" ".join(sql.encode().split())


def _pipeline(connection: Connection) -> AbstractContextManager[object]:
    return connection.pipeline() if psycopg.Pipeline.is_supported() else nullcontext()
