"""Answers that are shown again on their way to the ledger's history, written a moment later.

Why: docs/decisions/replays-are-noted-behind.md.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from itertools import islice
from threading import Lock
from time import sleep

from budget.account import LedgerError, ReplayNote

_SECONDS = 0.1
"""From the first note that waits to the writing of all."""
_AT_ONCE = 32
"""Entries of one transaction: a mark of the ledger holds more than overlapping transactions write."""
_MOST = 1_000
"""Notes that wait: more are not taken."""


class ReplayNotes:
    """Notes that wait, and the thread that writes them in their order.

    Args:
        write: writes some durably, and says whether the ledger knows all of them; raises LedgerError.
        unknown: called where it does not.
    """

    def __init__(self, write: Callable[[Sequence[ReplayNote]], bool], unknown: Callable[[], None]) -> None:
        self._write, self._unknown = write, unknown
        self._notes: deque[ReplayNote] = deque()
        self._lock, self._writing = Lock(), Lock()
        self._thread = ThreadPoolExecutor(1, "replays")
        self._next: Future[None] | None = None
        self._failed = False

    def take(self, note: ReplayNote) -> bool:
        """Whether the note will be written; not where as many wait as may, or the last writing has failed."""
        with self._lock:
            taken = not self._failed and len(self._notes) < _MOST
            if taken:
                self._notes.append(note)
            if self._next is None:
                self._next = self._thread.submit(self._write_later)
            return taken

    def write(self) -> None:
        """Writes all that wait; raises LedgerError, and keeps what was not written."""
        with self._writing:
            try:
                while some := list(islice(self._notes, _AT_ONCE)):
                    if not self._write(some):
                        self._unknown()
                    for _ in some:
                        self._notes.popleft()
            except LedgerError:
                self._failed = True
                raise
            self._failed = False

    def close(self) -> None:
        """Writes what waits, if the ledger can be reached, and takes no more."""
        self._thread.shutdown()
        with suppress(LedgerError):
            self.write()

    def _write_later(self) -> None:
        sleep(_SECONDS)
        with self._lock:
            self._next = None
        with suppress(LedgerError):
            self.write()
