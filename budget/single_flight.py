"""Single flight: of all processes, one computes a release, and the others wait and find it stored.

The holder has a transaction open with an uncommitted row for each key; an insert of the same key waits for its
end. It ends with the connection, so a holder that dies lets go at once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from threading import Condition
from time import monotonic

import psycopg
from psycopg import errors

from budget.account import LedgerUnavailable
from budget.store import Connection, Pool, Row, unavailable

_LOOK_SECONDS = 1.0
_BEGIN = (
    f"BEGIN; SET LOCAL idle_in_transaction_session_timeout = 0; SET LOCAL lock_timeout = '{_LOOK_SECONDS}s'; "
)
_WAIT = "SAVEPOINT waiting; "


class SingleFlight:
    """Keys that one thread of one process holds at a time, so that no release is computed twice at once.

    `pool`: of its own, as a holder keeps its connection while the backend runs.
    """

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._changed = Condition()
        self._held_here: set[bytes] = set()

    @contextmanager
    def hold(
        self,
        keys: Collection[bytes],
        *,
        account: str = "",
        requests: Collection[bytes] = (),
        releases: Collection[bytes] = (),
        seconds: float = 600.0,
        waiting: Callable[[], None] = lambda: None,
    ) -> Iterator[Collection[bytes]]:
        """Holds `keys` while no other thread or process does, taken whole.

        Another process may have bought them meanwhile: gives those of `requests` that `account` has paid for, and those
        of `releases` that are stored, once the keys are held. `seconds`: the longest wait, after which
        LedgerUnavailable is raised; `waiting` is called about every second of it, and what it raises ends the wait.

        The keys only save work: what a settlement stores is decided by its release key, held or not.
        """
        wanted, ends_at = set(keys), monotonic() + seconds

        def look() -> None:
            waiting()
            if monotonic() > ends_at:
                raise LedgerUnavailable("another process computes the same answer and does not finish")

        with self._here(wanted, look):
            if not wanted:
                yield ()
                return
            with ExitStack() as stack:
                try:
                    connection = stack.enter_context(self._pool.connection())
                    known = _take(connection, sorted(wanted), _look_for(account, requests, releases), look)
                except psycopg.Error as error:
                    raise unavailable(error) from error
                try:
                    yield known
                finally:
                    with suppress(psycopg.Error):
                        connection.rollback()

    @contextmanager
    def _here(self, keys: set[bytes], look: Callable[[], None]) -> Iterator[None]:
        """The same among the threads of this process, so that one connection waits for all of them."""
        with self._changed:
            while not self._changed.wait_for(lambda: self._held_here.isdisjoint(keys), _LOOK_SECONDS):
                look()
            self._held_here |= keys
        try:
            yield
        finally:
            with self._changed:
                self._held_here -= keys
                self._changed.notify_all()


def _look_for(account: str, requests: Collection[bytes], releases: Collection[bytes]) -> str:
    """A query with the keys in its text: statements that share a round trip with another have no parameters."""
    return (
        "; SELECT request_key FROM dpproxy_ledger.request"
        f" WHERE account = convert_from({_literal(account.encode())}, 'UTF8')"
        f" AND request_key IN ({_listed(requests)}) UNION ALL"
        f" SELECT release_key FROM dpproxy_ledger.answer WHERE release_key IN ({_listed(releases)})"
    )


def _take(
    connection: Connection, keys: Sequence[bytes], look_for: str, look: Callable[[], None]
) -> set[bytes]:
    """Takes all keys; returns the keys that `look_for` then finds."""
    found: set[bytes] = set()
    for number, key in enumerate(keys):
        before = _WAIT if number else _BEGIN + _WAIT
        after = look_for if number == len(keys) - 1 else ""
        while (rows := _taken(connection, before, key, after)) is None:
            before = "ROLLBACK TO SAVEPOINT waiting; "
            look()
        found.update(row[0] for row in rows)
    return found


def _taken(connection: Connection, before: str, key: bytes, after: str) -> list[Row] | None:
    """Takes a key: the rows of `after`, in one round trip with `before`; None where another process has the key."""
    lock = f"INSERT INTO dpproxy_ledger.computing (key) VALUES ({_literal(key)})"
    try:
        cursor = connection.execute((before + lock + after).encode())
    except errors.LockNotAvailable:
        return None
    while cursor.nextset():
        pass
    return cursor.fetchall() if cursor.description else []


def _listed(keys: Collection[bytes]) -> str:
    return ", ".join(map(_literal, keys)) or "NULL"


def _literal(key: bytes) -> str:
    return f"decode('{key.hex()}', 'hex')"
