"""Refusals on their way to the ledger: counted here, written every few seconds, lost only with the process."""

from __future__ import annotations

import hmac
import threading
from collections.abc import Callable, Container, Mapping
from contextlib import suppress
from datetime import UTC, date, datetime
from types import TracebackType
from typing import Self
from uuid import UUID

from budget.account import LedgerError
from dpproxy.telemetry.observer import OTHER, Observer, StatementEnd, catalogued
from mechanisms.randomness import random_bytes
from rewriter.statements.shape import shape

SECONDS = 5.0
"""Between two writings, where there is something to write."""
MOST = 10_000
"""Accounts and codes that a process counts in a day: any name may log in where auth is "trust"."""
MOST_SHAPES = 500
"""Shapes that a process counts in a day; more are counted as one."""
OTHER_SHAPES = "other"
_UNREADABLE = "XX000"
Pair = tuple[str, str]
Write = Callable[[UUID, date, Mapping[Pair, int]], None]


class _Counts:
    """Counts of one kind, by day and two texts."""

    def __init__(self, write: Write, most: int) -> None:
        self._write, self._most = write, most
        self._times: dict[tuple[date, Pair], int] = {}
        self._new: set[tuple[date, Pair]] = set()

    def add(self, pair: Pair, *, always: bool = False) -> bool:
        """Counts it, and gives True, unless it is new and there are enough."""
        key = _today(), pair
        if key not in self._times and len(self._times) >= self._most and not always:
            return False
        self._times[key] = self._times.get(key, 0) + 1
        self._new.add(key)
        return True

    def write(self, counter: UUID, lock: threading.Lock) -> None:
        """Writes new counts and forgets past days; after a LedgerError, the next call writes all counts again."""
        with lock:
            new = {key: self._times[key] for key in self._new}
        for day in {key[0] for key in new}:
            self._write(counter, day, {key[1]: times for key, times in new.items() if key[0] == day})
        with lock:
            self._new = {key for key in self._new if self._times[key] != new.get(key)}
            self._times = {k: n for k, n in self._times.items() if k[0] == _today() or k in self._new}


class RefusalCounts(Observer):
    """Counts the refusals of one process by day, code, and account or shape, and writes them as long as its context
    lasts."""

    def __init__(self, count: Write, count_shapes: Write, shape_of: Callable[[str], str]) -> None:
        """`count`, `count_shapes`: of the ledger's `Refusals`; `shape_of`: what is kept of a text, "" for nothing."""
        self._shape_of, self._counter = shape_of, UUID(bytes=random_bytes(16))
        self._lock, self._stop = threading.Lock(), threading.Event()
        self._accounts, self._shapes = _Counts(count, MOST), _Counts(count_shapes, MOST_SHAPES)
        self._thread = threading.Thread(target=self._write_at_times, name="refusals", daemon=True)

    def ended(self, statement: StatementEnd) -> None:
        """Counts a refusal."""
        if not statement.code:
            return
        code = _kept(statement.code)
        shape = "" if statement.text is None else self._shape_of(statement.text)
        with self._lock:
            self._accounts.add((statement.account, code))
            if shape and not self._shapes.add((code, shape)):
                self._shapes.add((code, OTHER_SHAPES), always=True)

    def write(self) -> None:
        """Writes what is new; after a LedgerError, the next call writes it again."""
        for counts in (self._shapes, self._accounts):
            counts.write(self._counter, self._lock)

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


def kept_shape(known: Container[str], key: bytes | None) -> Callable[[str], str]:
    """What is kept of a text: its shape, with a `key` only a fingerprint of that; `known`: the database's names."""

    def kept(text: str) -> str:
        said = shape(text, known)
        if key is None or not said:
            return said
        return hmac.digest(key, said.encode(), "sha256").hex()[:16]

    return kept


def _kept(code: str) -> str:
    """A code of the catalogue, else its class: an analyst can make the front raise any code that there could be.

    >>> _kept("PV010"), _kept("22P04"), _kept("zz!")
    ('PV010', '22000', 'XX000')
    """
    head = code[:2]
    if catalogued(code) != OTHER:
        return code
    plain = len(head) == 2 and head.isascii() and head.isalnum() and head == head.upper()
    return f"{head}000" if plain else _UNREADABLE


def _today() -> date:
    return datetime.now(UTC).date()
