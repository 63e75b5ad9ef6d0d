"""A ledger that is known by its mark: an older one serves nobody, and no answer leaves before it is marked.

Why: docs/decisions/mark-covers-the-reservation.md.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from uuid import UUID

from budget.account import (
    AnotherLedger,
    LedgerOlder,
    LedgerUnavailable,
    Reservation,
    ReserveRequest,
    Settled,
    Settlement,
)
from budget.highwater import HighWater
from budget.ledger import Ledger
from dpproxy.config.sections import ConfigError
from dpproxy.deployment.highwater_file import MarkFile

ACCEPT = "dpproxy budget accept"


class MarkError(Exception):
    """The ledger is not the one that was marked, or an older state of it."""


class Marker:
    """Writes marks in a thread of its own, one for all who have asked since the last began."""

    def __init__(self, write: Callable[[], None]) -> None:
        self._write = write
        self._lock = Lock()
        self._thread = ThreadPoolExecutor(1, "mark")
        self._next: Future[None] | None = None

    def ask(self) -> Future[None]:
        """Done when a mark is durable that was taken after this call."""
        with self._lock:
            if self._next is None:
                self._next = self._thread.submit(self._begin)
            return self._next

    def close(self) -> None:
        """Writes what was asked for, then no more."""
        self._thread.shutdown()

    def _begin(self) -> None:
        with self._lock:
            self._next = None
        self._write()


class RollbackGuardedLedger(Ledger):
    """The ledger, with a mark from `keep` on.

    What an older copy would forget is a charge. A reservation whose backend was reached is spent in full if
    the copy has no more than that, so the mark has to cover the reservation, not the settlement: it is written
    while the backend runs, and `settle` only waits for it.
    """

    _marker: Marker | None = None
    _behind = False
    """Whether a mark could not be written, so that answers may be stored that it does not cover."""

    def keep(self, file: MarkFile) -> None:
        """Checks the ledger against its mark and keeps it up from now on; raises MarkError, ConfigError."""
        mark = file.read()
        if mark is None:
            if self.high_water().number:
                raise MarkError(
                    f"{file.path} is missing, which would tell whether the ledger is as new as it was: "
                    f"put it back, or take the ledger as it is by {ACCEPT}"
                )
            file.replace(self.high_water())
        else:
            self._check(file, mark)
            # A process that died may have stored an answer before its mark was written.
            file.advance(self.high_water)
        self._covered: dict[UUID, Future[None]] = {}
        self._marker = Marker(lambda: file.advance(self.high_water))

    def _check(self, file: MarkFile, mark: HighWater) -> None:
        try:
            self.check_high_water(mark)
        except (LedgerOlder, AnotherLedger) as error:
            raise MarkError(
                f"{error} ({file.path}): put the right ledger back, or take this one by {ACCEPT}"
            ) from None

    def close(self) -> None:
        """Closes idle connections, once the last mark is written."""
        if self._marker is not None:
            self._marker.close()
        super().close()

    def reserve(self, request: ReserveRequest) -> tuple[Reservation, ...]:
        """As the ledger's; the mark of it is on its way."""
        held = super().reserve(request)
        if self._marker is not None:
            self._covered |= dict.fromkeys((one.id for one in held), self._marker.ask())
        return held

    def settle(self, reservation: Reservation, settlement: Settlement) -> Settled:
        """As the ledger's, and not before the mark of the reservation is durable.

        LedgerUnavailable where it cannot be written: the answer is stored, and nothing may leave.
        """
        settled = super().settle(reservation, settlement)
        covered = self._covered.pop(reservation.id, None) if self._marker is not None else None
        if covered is not None:
            self._wait_for(covered)
        return settled

    def replay(self, account: str, request_key: bytes, attributed: str = "") -> bytes | None:
        """As the ledger's, and not before a mark covers what could not be marked when it was stored."""
        found = super().replay(account, request_key, attributed)
        if found is not None and self._behind and self._marker is not None:
            self._wait_for(self._marker.ask())
            self._behind = False
        return found

    def _wait_for(self, mark: Future[None]) -> None:
        try:
            mark.result()
        except (ConfigError, OSError) as error:
            self._behind = True
            raise LedgerUnavailable("the high-water mark cannot be written") from error

    def spend(self, reservation: Reservation) -> None:
        """As the ledger's."""
        super().spend(reservation)
        if self._marker is not None:
            self._covered.pop(reservation.id, None)

    def release(self, reservation: Reservation) -> None:
        """As the ledger's."""
        super().release(reservation)
        if self._marker is not None:
            self._covered.pop(reservation.id, None)
