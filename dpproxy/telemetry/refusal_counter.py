"""Refusals on their way to the ledger: counted here, written every few seconds, lost only with the process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, date, datetime
from types import TracebackType
from typing import Self
from uuid import UUID

from budget.account import LedgerError
from dpproxy.telemetry.observer import OTHER, Observer, StatementEnd, catalogued
from mechanisms.randomness import random_bytes

SECONDS = 5.0
"""Between two writings, where there is something to write."""
MOST = 10_000
"""Accounts and codes that a process counts in a day: any name may log in where auth is "trust"."""
_UNREADABLE = "XX000"
_Key = tuple[date, str, str]


class RefusalCounts(Observer):
    """Counts the refusals of one process by day, account and code, and writes them as long as its context lasts."""

    def __init__(self, count: Callable[[UUID, date, Mapping[tuple[str, str], int]], None]) -> None:
        """`count`: `Refusals.count` of the ledger."""
        self._count, self._counter = count, UUID(bytes=random_bytes(16))
        self._lock, self._stop = threading.Lock(), threading.Event()
        self._times: dict[_Key, int] = {}
        self._new: set[_Key] = set()
        self._thread = threading.Thread(target=self._write_at_times, name="refusals", daemon=True)

    def ended(self, statement: StatementEnd) -> None:
        """Counts a refusal."""
        if not statement.code:
            return
        key = _today(), statement.account, _kept(statement.code)
        with self._lock:
            if key in self._times or len(self._times) < MOST:
                self._times[key] = self._times.get(key, 0) + 1
                self._new.add(key)

    def write(self) -> None:
        """Writes new counts and forgets past days; after a LedgerError, the next call writes all counts again."""
        with self._lock:
            new = {key: self._times[key] for key in self._new}
        for day in {key[0] for key in new}:
            counts = {key[1:]: times for key, times in new.items() if key[0] == day}
            self._count(self._counter, day, counts)
        with self._lock:
            self._new = {key for key in self._new if self._times[key] != new.get(key)}
            self._times = {k: n for k, n in self._times.items() if k[0] == _today() or k in self._new}

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        with suppress(LedgerError):
            self.write()

    def _write_at_times(self) -> None:
        while not self._stop.wait(SECONDS):
            with suppress(LedgerError):
                self.write()


def _kept(code: str) -> str:
    """A code of the catalogue, else its class: an analyst can make the front raise any code that there could be.

    >>> _kept("PV010"), _kept("22P02"), _kept("zz!")
    ('PV010', '22000', 'XX000')
    """
    head = code[:2]
    if catalogued(code) != OTHER:
        return code
    plain = len(head) == 2 and head.isascii() and head.isalnum() and head == head.upper()
    return f"{head}000" if plain else _UNREADABLE


def _today() -> date:
    return datetime.now(UTC).date()
