"""One at a time for a key, among all processes: who asks what somebody is just buying waits, and finds it bought.

The holder has a transaction open with an uncommitted row for each key; whoever inserts the same key waits for its
end. It ends with the connection, so a holder that dies lets go at once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Condition
from time import monotonic

import psycopg
from psycopg import errors

from budget.account import LedgerUnavailable
from budget.ledger_store import Connection, Pool

_LOOK_SECONDS = 1.0
_BEGIN = (
    f"BEGIN; SET LOCAL idle_in_transaction_session_timeout = 0; SET LOCAL lock_timeout = '{_LOOK_SECONDS}s'; "
)
_WAIT = "SAVEPOINT waiting; "


class Computing:
    """The part of the ledger that keeps first askers of one query from drawing its noise twice."""

    def __init__(self, pool: Pool) -> None:
        self._computing_pool = pool
        self._changed = Condition()
        self._computed_here: set[bytes] = set()

    @contextmanager
    def computing(
        self,
        keys: Collection[bytes],
        *,
        seconds: float = 600.0,
        waiting: Callable[[], None] = lambda: None,
    ) -> Iterator[None]:
        """Holds `keys` while no other thread or process does, taken whole.

        What is wanted is to be looked for again once they are held: it may just have been bought. `seconds`:
        the longest wait, after which LedgerUnavailable is raised; `waiting` is called about every second of
        it, and what it raises ends the wait.

        The keys only save work: what a settlement stores is decided by its release key, held or not.
        """
        wanted, ends_at = set(keys), monotonic() + seconds

        def look() -> None:
            waiting()
            if monotonic() > ends_at:
                raise LedgerUnavailable("another process computes the same answer and does not finish")

        with self._here(wanted, look):
            if not wanted:
                yield
                return
            with self._computing_pool.connection() as connection:
                try:
                    _take(connection, sorted(wanted), look)
                except psycopg.Error as error:
                    raise LedgerUnavailable(f"the ledger cannot be used ({type(error).__name__})") from error
                try:
                    yield
                finally:
                    with suppress(psycopg.Error):
                        connection.rollback()

    @contextmanager
    def _here(self, keys: set[bytes], look: Callable[[], None]) -> Iterator[None]:
        """The same among the threads of this process, so that one connection waits for all of them."""
        with self._changed:
            while not self._changed.wait_for(lambda: self._computed_here.isdisjoint(keys), _LOOK_SECONDS):
                look()
            self._computed_here |= keys
        try:
            yield
        finally:
            with self._changed:
                self._computed_here -= keys
                self._changed.notify_all()


def _take(connection: Connection, keys: Sequence[bytes], look: Callable[[], None]) -> None:
    for number, key in enumerate(keys):
        before = _WAIT if number else _BEGIN + _WAIT
        while not _taken(connection, before, key):
            before = "ROLLBACK TO SAVEPOINT waiting; "
            look()


def _taken(connection: Connection, before: str, key: bytes) -> bool:
    """In one round trip with what comes `before`."""
    lock = f"INSERT INTO dpproxy_ledger.computing (key) VALUES (decode('{key.hex()}', 'hex'))"
    try:
        connection.execute((before + lock).encode())
    except errors.LockNotAvailable:
        return False
    return True
