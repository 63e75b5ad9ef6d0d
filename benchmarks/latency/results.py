"""The tables of a run, and which of the targets it meets."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.table import Table

from benchmarks.latency.memory import Memory
from benchmarks.latency.overhead import WAYS, Times
from benchmarks.latency.rate import Rate
from benchmarks.latency.stages import ALL
from dpproxy.telemetry.stages import STAGES

LONG_SECONDS = 0.5
MEGABYTE = 1e6


@dataclass(frozen=True)
class Results:
    """All of a run; `load`: the highest load average before one of its parts."""

    extent: str
    times: list[Times]
    rates: list[Rate]
    memory: Memory
    stages: dict[str, dict[str, float]]
    load: float


@dataclass(frozen=True)
class Target:
    """A target, what was measured, and whether it is met; None where nothing of this kind was measured."""

    what: str
    found: str
    met: bool | None

    @property
    def line(self) -> str:
        """One line for people."""
        verdict = {True: "met", False: "NOT met", None: "not measured"}[self.met]
        return f"{verdict}: {self.what}: {self.found}"


def tables(results: Results) -> Iterator[Table]:
    """Tables (a) to (d) for a terminal."""
    for title, head, rows in sheets(results):
        table = Table(*head, title=title, title_justify="left")
        for row in rows:
            table.add_row(*row)
        yield table


Sheet = tuple[str, Sequence[str], list[Sequence[str]]]


def sheets(results: Results) -> Iterator[Sheet]:
    """The tables' titles, heads and rows."""
    overhead = ("engine", "rows", "question", *WAYS, "added", "ratio")
    yield "(a) milliseconds, median (least to most)", overhead, [_overhead(t) for t in results.times]
    rate = ("workers", "what", "connections", "statements/s", "p50 ms", "p99 ms")
    yield "(b) statements a second", rate, [_rate(r) for r in results.rates]
    yield "(c) memory, MB", ("what", "MB"), list(_memory(results.memory))
    kinds = list(results.stages)
    rows: list[Sequence[str]] = [
        (stage, *(f"{results.stages[k][stage]:.2f}" for k in kinds)) for stage in (*STAGES, ALL)
    ]
    yield "(d) stages of people by country, milliseconds, median", ("stage", *kinds), rows


def _overhead(times: Times) -> Sequence[str]:
    added = times.median("cached") - times.median("backend")
    ratio = times.median("cached") / times.median("backend")
    return (
        times.engine,
        f"{times.rows:,}",
        times.question,
        *(_spread(times.seconds[way]) for way in WAYS),
        f"{added * 1000:.1f}",
        f"{ratio:.3f}",
    )


def _spread(seconds: Sequence[float]) -> str:
    low, middle, high = (f(seconds) * 1000 for f in (min, statistics.median, max))
    return f"{middle:.1f} ({low:.1f} to {high:.1f})"


def _rate(rate: Rate) -> Sequence[str]:
    speed = rate.speed
    numbers = f"{speed.rate:,.0f}", f"{speed.p50:.2f}", f"{speed.p99:.2f}"
    return str(rate.workers), rate.what, str(rate.connections), *numbers


def _memory(memory: Memory) -> Iterator[Sequence[str]]:
    for part, size in memory.start.items():
        yield f"{part} after the start", f"{size / MEGABYTE:.0f}"
    yield "all after the start", f"{memory.total / MEGABYTE:.0f}"
    yield "each idle session", f"{memory.session / MEGABYTE:.2f}"
    yield "kept of each new query", f"{memory.query / MEGABYTE:.3f}"


def targets(results: Results) -> list[Target]:
    """Every target beside what was measured."""
    small = [
        t for t in results.times if t.engine == "DuckDB" and t.rows == min(t.rows for t in results.times)
    ]
    pairs = [zip(t.seconds["cached"], t.seconds["backend"], strict=True) for t in small]
    added = statistics.median(1000 * (cached - bare) for pair in pairs for cached, bare in pair)
    replay = statistics.median(1000 * s for t in small for s in t.seconds["replay"])
    long = [t for t in results.times if t.median("backend") >= LONG_SECONDS]
    worst = max(long, key=lambda t: t.median("cached") / t.median("backend"), default=None)
    share = 0.0 if worst is None else worst.median("cached") / worst.median("backend")
    what = "" if worst is None else f", at most: {worst.question}, {worst.engine}, {worst.rows:,} rows"
    replays = [r.speed.rate for r in results.rates if (r.workers, r.what, r.connections) == (1, "replay", 8)]
    resident = results.memory.total / MEGABYTE
    return [
        Target("a new query with a cached plan adds less than 8 ms (p50)", f"{added:.1f} ms", added < 8),
        Target("a replay takes less than 2 ms (p50)", f"{replay:.1f} ms", replay < 2),
        Target(
            "queries of 500 ms and more take at most 1.05 of direct",
            f"{share:.3f}{what}" if long else "none took so long",
            share <= 1.05 if long else None,
        ),
        Target(
            "500 replays a second with one worker and 8 connections",
            f"{replays[0]:.0f} a second",
            replays[0] >= 500,
        ),
        Target(
            "proxy, front and ledger take less than 250 MB after the start",
            f"{resident:.0f} MB",
            resident < 250,
        ),
    ]
