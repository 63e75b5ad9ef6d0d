"""Counters at the backend and before it: what was executed against private data, and what a session asked for."""

from __future__ import annotations

import mmap
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from dpproxy.backends.base import NOBODYS, Backend, Cancellation, Fetched, Slot, Turn
from dpproxy.engine.executor import QueryEngine
from dpproxy.engine.planner import PreparedQuery
from dpproxy.engine.request import QueryRequest, StepResult
from rewriter.plan import HistogramQuery


class Counts:
    """`steps`: executions that sessions asked for; `fetched`: histogram queries that the backend ran.

    `file` holds both, so that the serving process counts and another one reads.
    """

    def __init__(self, file: Path) -> None:
        if not file.exists():
            file.write_bytes(bytes(16))
        with file.open("r+b") as opened:
            self._held = mmap.mmap(opened.fileno(), 16)
        self._lock = threading.Lock()

    @property
    def now(self) -> tuple[int, int]:
        """(steps, fetched) so far."""
        steps, fetched = struct.unpack("qq", self._held[:])
        return steps, fetched

    def add(self, *, steps: int = 0, fetched: int = 0) -> None:
        """Counts from any thread of one process."""
        with self._lock:
            before = self.now
            self._held[:] = struct.pack("qq", before[0] + steps, before[1] + fetched)

    @contextmanager
    def expected(self, steps: int, fetched: int | None = None) -> Iterator[None]:
        """What happens in the block executes `steps` times, and fetches as often unless `fetched` is given.

        Raises AssertionError for any other number.
        """
        before = self.now
        yield
        found = self.now[0] - before[0], self.now[1] - before[1]
        wanted = steps, steps if fetched is None else fetched
        assert found == wanted, f"(steps, fetches) are {found}, not {wanted}"


class CountedSlot:
    """A slot of the real backend."""

    def __init__(self, slot: Slot, counts: Counts) -> None:
        self._slot, self._counts = slot, counts

    def __enter__(self) -> Self:
        self._slot.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._slot.__exit__(kind, error, trace)

    def fetch(
        self, query: HistogramQuery, rank_key: str, cancellation: Cancellation, max_rows: int
    ) -> Fetched:
        """Counts, then fetches."""
        self._counts.add(fetched=1)
        return self._slot.fetch(query, rank_key, cancellation, max_rows)


class CountedBackend:
    """A real backend whose slots are counted."""

    def __init__(self, backend: Backend, counts: Counts) -> None:
        self._backend, self._counts = backend, counts

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    def open(self, turn: Turn = NOBODYS) -> CountedSlot:
        """A counted slot."""
        return CountedSlot(self._backend.open(turn), self._counts)


class CountedAnswering:
    """The real composition; every execution that a session asks for is counted."""

    def __init__(self, answering: QueryEngine, counts: Counts) -> None:
        self._answering, self._counts = answering, counts

    def classify(self, text: str) -> str:
        """As it is."""
        return self._answering.classify(text)

    def prepare(self, text: str, oids: tuple[int, ...], errors: bool = False) -> PreparedQuery:
        """As it is."""
        return self._answering.prepare(text, oids, errors)

    def known(self, text: str, oids: tuple[int, ...], errors: bool = False) -> PreparedQuery | None:
        """As it is."""
        return self._answering.known(text, oids, errors)

    def again(self, asker: QueryRequest) -> StepResult | None:
        """Counts what it answers."""
        found = self._answering.again(asker)
        self._counts.add(steps=found is not None)
        return found

    def execute(self, asker: QueryRequest) -> StepResult:
        """Counts, then executes."""
        self._counts.add(steps=1)
        return self._answering.execute(asker)
