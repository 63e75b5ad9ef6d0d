"""A ledger guarded by its mark: an older copy is refused, and no answer is sent before the mark is written.

Why: docs/decisions/mark-covers-the-reservation.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from uuid import UUID

from budget.account import (
    AnotherLedger,
    FailureKind,
    LedgerOlder,
    LedgerUnavailable,
    OwnedMeasure,
    ReplayNote,
    Reservation,
    ReserveRequest,
    Settled,
    Settlement,
)
from budget.history import History
from budget.ledger import Ledger
from budget.recent_keys import RecentKeys
from dpproxy.config.highwater_file import MarkFile
from dpproxy.config.sections import ConfigError
from dpproxy.engine.replay_notes import ReplayNotes

ACCEPT = "dpproxy budget accept"
_KNOWN_COVERED = 100_000


class MarkError(Exception):
    """The ledger is not the one that was marked, or an older state of it."""


class Marker:
    """Writes marks in a thread of its own. One mark serves all requests since the last write began."""

    def __init__(self, write: Callable[[], None]) -> None:
        self._write = write
        self._lock = Lock()
        self._thread = ThreadPoolExecutor(1, "mark")
        self._next: Future[None] | None = None

    def ask(self) -> Future[None]:
        """Returns a future that is done when a mark taken after this call is durable."""
        with self._lock:
            if self._next is None:
                self._next = self._thread.submit(self._begin)
            return self._next

    def close(self) -> None:
        """Writes the requested marks, then stops."""
        self._thread.shutdown()

    def _begin(self) -> None:
        with self._lock:
            self._next = None
        self._write()


class RollbackGuardedLedger:
    """A ledger whose charges and answers are covered by a mark: the only one that answers are paid on.

    An older copy would forget charges. A reservation whose backend was reached is spent in full if
    the copy has no more than that, so the mark has to cover the reservation, not the settlement: it is written
    while the backend runs, and `settle` only waits for it.

    Its parts are the ledger's own, as are the calls by which no answer leaves.
    """

    def __init__(self, ledger: Ledger, file: MarkFile) -> None:
        """Checks the ledger against its mark, which is kept up from now on; raises MarkError, ConfigError."""
        _check(ledger, file)
        self._ledger = ledger
        self._marker = Marker(lambda: file.advance(ledger.high_water.after))
        self._marks: dict[UUID, Future[None]] = {}
        """By reservation, the mark that covers it."""
        self._covered = RecentKeys(_KNOWN_COVERED)
        """By account, the requests and choices whose answers a mark covers: another process may store an answer before
        its mark is written."""
        self._notes = ReplayNotes(ledger.note_replays, self._forget_covered)
        self.accounts, self.analysts, self.epochs = ledger.accounts, ledger.analysts, ledger.epochs
        self.high_water, self.origins = ledger.high_water, ledger.origins
        self.generations, self.memberships = ledger.generations, ledger.memberships
        self.approvals, self.failures = ledger.approvals, ledger.failures
        self.publications, self.refusals = ledger.publications, ledger.refusals
        self.single_flight = ledger.single_flight
        self.stored, self.stream, self.recover = ledger.stored, ledger.stream, ledger.recover
        self.paid = ledger.paid

    def close(self) -> None:
        """Writes the last notes and the last mark; the ledger stays open."""
        self._notes.close()
        self._marker.close()

    @property
    def history(self) -> History:
        """The ledger's, with all that this process has shown; raises LedgerError."""
        self._notes.write()
        return self._ledger.history

    def reserve(self, request: ReserveRequest) -> tuple[Reservation, ...]:
        """As the ledger's; its mark is written in the background."""
        held = self._ledger.reserve(request)
        self._marks |= dict.fromkeys((reservation.id for reservation in held), self._marker.ask())
        return held

    def settle(self, reservation: Reservation, settlement: Settlement) -> Settled:
        """As the ledger's, and not before the mark of the reservation is durable.

        LedgerUnavailable where it cannot be written: the answer is stored, and nothing may leave.
        """
        mark = self._marks.pop(reservation.id, None)
        settled = self._ledger.settle(reservation, settlement)
        self._wait_for(mark or self._marker.ask())
        self._covered.add((reservation.account, settlement.request_key))
        return settled

    def spend(self, reservation: Reservation) -> None:
        """As the ledger's."""
        self._ledger.spend(reservation)
        self._marks.pop(reservation.id, None)

    def fail(self, reservation: Reservation, kind: FailureKind, sealed: bytes | None) -> None:
        """As the ledger's; where no answer could leave, LedgerUnavailable, as of `settle`."""
        mark = self._marks.pop(reservation.id, None)
        self._ledger.fail(reservation, kind, sealed)
        self._wait_for(mark or self._marker.ask())

    def replay(self, account: str, request_key: bytes, attributed: str = "") -> bytes | None:
        """As the ledger's, but only after a mark covers the answer."""
        # Purchases begin with this: so their entries come behind what was shown before.
        self._notes.write()
        answer = self._ledger.replay(account, request_key, attributed)
        if answer is not None:
            self._cover(account, [request_key])
        return answer

    def again(self, account: str, request_key: bytes, attributed: str = "") -> bool:
        """Whether the answer that `replay` has given may leave once more, without I/O; the history notes it later.

        Not where no mark is known to cover it, or it could not be noted: `replay` decides then.
        """
        covered = self._covered.has((account, request_key))
        return covered and self._notes.take(ReplayNote(account, request_key, attributed))

    def owned(self, account: str, keys: Sequence[bytes]) -> list[OwnedMeasure]:
        """As the ledger's; what answers imply is shown, too, only after a mark covers them."""
        found = self._ledger.owned(account, keys)
        self._cover(account, [one.request_key for one in found])
        return found

    def choices(self, account: str, keys: Sequence[bytes]) -> dict[bytes, tuple[int, bytes]]:
        """As the ledger's, but only after a mark covers the answers that they are part of."""
        found = self._ledger.choices(account, keys)
        self._cover(account, found)
        return found

    def _forget_covered(self) -> None:
        """The ledger does not know an answer that it gave before: it is asked about each again."""
        self._covered = RecentKeys(_KNOWN_COVERED)

    def _cover(self, account: str, keys: Iterable[bytes]) -> None:
        """Waits for a mark where none is known to cover what an account has under these keys."""
        new = [(account, key) for key in keys if not self._covered.has((account, key))]
        if new:
            self._wait_for(self._marker.ask())
            for one in new:
                self._covered.add(one)

    def _wait_for(self, mark: Future[None]) -> None:
        try:
            mark.result()
        except (ConfigError, OSError) as error:
            raise LedgerUnavailable("the high-water mark cannot be written") from error


def _check(ledger: Ledger, file: MarkFile) -> None:
    """MarkError where the ledger is not the marked one; the mark covers all of it when this returns."""
    mark = file.read()
    if mark is None:
        if ledger.high_water.now().number:
            raise MarkError(
                f"{file.path} is missing, so that an older copy of the ledger would go unnoticed: "
                f"put it back, or accept the ledger as it is by {ACCEPT}"
            )
        file.replace(ledger.high_water.now())
        return
    try:
        ledger.high_water.check(mark)
    except (LedgerOlder, AnotherLedger) as error:
        raise MarkError(
            f"{error} ({file.path}): put the right ledger back, or take this one by {ACCEPT}"
        ) from None
    # A process that died may have stored an answer before its mark was written.
    file.advance(ledger.high_water.after)
