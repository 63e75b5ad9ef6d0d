"""`make bench`: what the proxy costs beside the bare database, how many queries a second, memory, and stages.

`BENCH=quick` takes some minutes and small data. What an interrupted run has measured is kept in `.bench` and not
measured again. Writes docs/benchmarks.md and its plots; exit code 1 where a target is missed.
"""

from __future__ import annotations

import os
import pickle
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import cast

from rich.console import Console

from benchmarks.latency.memory import footprint
from benchmarks.latency.overhead import Times, overhead
from benchmarks.latency.page import write
from benchmarks.latency.rate import Rate, rates
from benchmarks.latency.results import Results, tables, targets
from benchmarks.latency.stages import profile

ROOT = Path(__file__).parent.parent.parent
KEPT = ROOT / ".bench"


@dataclass(frozen=True)
class Extent:
    """How much is measured: rows and rounds by engine, seconds of each rate, and rounds of stages and of memory."""

    name: str
    sizes: tuple[tuple[str, int, int], ...]
    seconds: float
    rounds: int


QUICK = Extent("quick", (("DuckDB", 100_000, 7), ("DuckDB", 1_000_000, 3), ("PostgreSQL", 100_000, 5)), 2, 9)
FULL = Extent(
    "full",
    (
        *(("DuckDB", rows, rounds) for rows, rounds in ((100_000, 21), (1_000_000, 9), (10_000_000, 4))),
        ("DuckDB", 50_000_000, 2),
        *(("PostgreSQL", rows, rounds) for rows, rounds in ((100_000, 15), (1_000_000, 4), (10_000_000, 2))),
    ),
    8,
    25,
)
SMALL = 100_000


def parts(extent: Extent, folder: Path) -> Iterator[tuple[str, Callable[[], object]]]:
    """What is measured, by name, in this order."""
    for workers in (1, 2):
        yield f"rates {workers}", partial(rates, folder, workers, SMALL, extent.seconds)
    yield "memory", partial(footprint, folder, SMALL, 20 * extent.rounds)
    yield "stages", partial(profile, folder, SMALL, extent.rounds)
    for engine, rows, rounds in extent.sizes:
        yield f"{engine} {rows}", partial(overhead, folder, engine, rows, rounds)


def measured(extent: Extent, console: Console) -> Results:
    """Everything, each part measured now or in the run that was interrupted."""
    kept = KEPT / extent.name
    kept.mkdir(parents=True, exist_ok=True)
    found: dict[str, object] = {}
    loads: list[float] = []
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        for part, measure in parts(extent, Path(name)):
            file = kept / part
            if not file.exists():
                load = os.getloadavg()[0]
                console.print(f"{part} (load {load:.1f})")
                new = file.with_suffix(".new")
                new.write_bytes(pickle.dumps((load, measure())))
                new.rename(file)
            load, found[part] = pickle.loads(file.read_bytes())
            loads.append(load)
    return Results(
        extent.name,
        [
            t
            for part in found
            if part.split()[0] in ("DuckDB", "PostgreSQL")
            for t in cast(list[Times], found[part])
        ],
        [r for part in found if part.startswith("rates") for r in cast(list[Rate], found[part])],
        found["memory"],  # type: ignore[arg-type]
        found["stages"],  # type: ignore[arg-type]
        max(loads),
    )


def main() -> int:
    """Measures, prints, writes the page; 1 where a target is missed."""
    console = Console(width=150)
    extent = QUICK if os.environ.get("BENCH") == "quick" else FULL
    results = measured(extent, console)
    for table in tables(results):
        console.print(table)
    checks = targets(results)
    for check in checks:
        console.print(check.line)
    write(ROOT / "docs", results)
    shutil.rmtree(KEPT / extent.name)
    return int(any(check.met is False for check in checks))


if __name__ == "__main__":
    sys.exit(main())
