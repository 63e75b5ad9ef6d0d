"""(c) Memory after the start, of an idle session and of a query."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from benchmarks.latency.serving import FRESH, memory, serving
from benchmarks.visits import QUESTIONS, make_duckdb, policy

SESSIONS = 50


@dataclass(frozen=True)
class Memory:
    """Bytes: by part after the start; of one idle session; kept of one new query after many."""

    start: dict[str, int]
    session: float
    query: float

    @property
    def total(self) -> int:
        """Of all parts after the start."""
        return sum(self.start.values())


def footprint(folder: Path, rows: int, queries: int) -> Memory:
    """Measures a proxy over a DuckDB file of `rows` rows; `queries`: how many different ones are asked."""
    place = folder / "memory"
    with serving(place, policy(make_duckdb(folder / f"visits{rows}.duckdb", rows))) as proxy:
        start = memory(proxy.pid)
        with ExitStack() as stack:
            for _ in range(SESSIONS):
                stack.enter_context(proxy.connect()).execute("SELECT count(*) FROM pg_catalog.pg_class")
            session = (sum(memory(proxy.pid).values()) - sum(start.values())) / SESSIONS
        with proxy.connect() as client:
            # What is loaded and cached at the first queries is kept once, not by each.
            for number in range(queries + 20):
                if number == 20:
                    before = sum(memory(proxy.pid).values())
                client.execute(QUESTIONS[1].sql.format(n=next(FRESH)).encode())
            kept = (sum(memory(proxy.pid).values()) - before) / queries
    return Memory(start, session, kept)
