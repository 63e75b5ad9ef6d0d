"""`make bench-scale`: large data sets through SQL on DuckDB, against what they may take.

IMDb has 7,352,149 pairs of review and word, Gowalla 1,027,370 of person and place. Each statement is asked of a proxy
in a process of its own, whose largest memory is told. Exit code 1 where a limit is exceeded.
"""

from __future__ import annotations

import os
import resource
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.data import DataMissing, folder
from benchmarks.deployed import deployed, duckdb_url


@dataclass(frozen=True)
class Task:
    """A statement, and what it may take; `gigabytes` is None where nothing was said of memory."""

    what: str
    name: str
    sql: str
    seconds: float
    gigabytes: float | None


TASKS = (
    Task("DP-SIPS over IMDb", "imdb", "SELECT DISTINCT item FROM imdb", 30, 3),
    Task("distinct count of IMDb's words", "imdb", "SELECT COUNT(DISTINCT item) FROM imdb", 30, 4),
    Task(
        "PrivateCountRelease on Gowalla",
        "gowalla",
        "SELECT item, COUNT(DISTINCT user_id) FROM gowalla GROUP BY item",
        3,
        None,
    ),
)


def measured(task: Task) -> tuple[float, float, int]:
    """Seconds and gigabytes of a statement, from its text to its rows, and how many there were."""
    with tempfile.TemporaryDirectory() as name, deployed(*_data(Path(name), task)) as ask:
        started = time.perf_counter()
        rows = len(ask(task.sql).rows)
        seconds = time.perf_counter() - started
    return seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20), rows


def _data(place: Path, task: Task) -> tuple[Path, str, tuple[str, ...]]:
    return place, duckdb_url(place, (task.name,)), (task.name,)


def main() -> int:
    """Measure, print; 1 where something took too much."""
    console = Console(width=120)
    try:
        folder()
    except DataMissing as missing:
        console.print(f"skipped: {missing}")
        return 0
    table = Table("through SQL on DuckDB", "rows", "seconds", "at most", "GB", "at most", "load before")
    exceeded = False
    for task in TASKS:
        load = os.getloadavg()[0]
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            seconds, gigabytes, rows = pool.submit(measured, task).result()
        exceeded |= seconds > task.seconds or gigabytes > (task.gigabytes or gigabytes)
        limit = "-" if task.gigabytes is None else f"{task.gigabytes:g}"
        table.add_row(
            task.what,
            f"{rows:,}",
            f"{seconds:.1f}",
            f"{task.seconds:g}",
            f"{gigabytes:.2f}",
            limit,
            f"{load:.1f}",
        )
    console.print(table)
    return 1 if exceeded else 0


if __name__ == "__main__":
    sys.exit(main())
