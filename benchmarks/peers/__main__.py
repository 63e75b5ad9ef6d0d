"""Asks every peer, holds the answers against the truth, prints table (e) and writes it to docs/benchmarks.md.

`python -m benchmarks.peers .venv`: the peers' environments are named like ours, with an ending. Exit code 1 where a
peer failed; the others' figures are written all the same.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import duckdb
from rich.console import Console
from rich.table import Table

from benchmarks.machine import machine
from benchmarks.page_parts import rewritten
from benchmarks.peers import ours
from benchmarks.peers.page import HEAD, Run, part
from benchmarks.peers.plot import plot
from benchmarks.peers.processes import asked, guarded
from benchmarks.peers.tasks import DELTA, EPSILON, GroupValues, Outcome
from benchmarks.visits import make_postgres, policy, rows_query
from tests.dpproxy.postgres_data import databases

ROOT = Path(__file__).parent.parent.parent
ROWS = 100_000
ENVIRONMENTS = {
    "smartnoise": "peers",
    "pipelinedp": "peers",
    "opendp": "peers",
    "tumult": "tumult",
    "qrlew": "qrlew",
}
"""What the names of the environments end in, by peer."""
ON_POSTGRES = ("qrlew",)
TRUTH = {
    "people by country": "SELECT country, count(DISTINCT person_id) FROM visits GROUP BY country",
    "top-10 articles": "SELECT article, count(DISTINCT person_id) FROM visits GROUP BY article",
    "COUNT(*)": "SELECT '', count(*) FROM visits",
    "SUM by country": "SELECT country, sum(seconds) FROM visits GROUP BY country",
    "distinct articles": "SELECT '', count(DISTINCT article) FROM visits",
}


def on_postgres(name: str, python: str, folder: Path) -> Outcome:
    """A peer's outcome over the same rows in an embedded PostgreSQL."""
    folder.mkdir()
    with databases(folder) as server:
        return asked(name, python, make_postgres(server, folder, ROWS))


def setup_lines(name: str) -> int:
    """Lines of code by which a peer is asked all tasks; to dpproxy's those of its policy are added."""
    source = (Path(__file__).parent / f"{name}.py").read_text().splitlines()
    code = sum(1 for line in source if line.strip() and not line.strip().startswith(("#", '"""')))
    return code + (len(policy("").strip().splitlines()) if name == "ours" else 0)


def prepared(file: Path) -> tuple[Mapping[str, GroupValues], int]:
    """Writes the rows as CSV; gives the truth by task, and how many people there are."""
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE visits AS {rows_query(ROWS)}")
        connection.execute(f"COPY visits TO '{file}' (FORMAT csv, HEADER true)")
        truth = {
            task: {str(group): float(value) for group, value in connection.execute(sql).fetchall()}
            for task, sql in TRUTH.items()
        }
        people = connection.execute("SELECT count(DISTINCT person_id) FROM visits").fetchall()
    return truth, int(people[0][0])


def measured(venv: str, folder: Path, console: Console) -> Run:
    """Everything, one peer after the other."""
    file = folder / "visits.csv"
    truth, people = prepared(file)
    measures: list[tuple[str, str, Callable[[], Outcome]]] = [
        (f"dpproxy, {noise} noise", "ours", partial(ours.measured, folder, ROWS, noise))
        for noise in ("gaussian", "laplace")
    ]
    for name, ending in ENVIRONMENTS.items():
        python = f"{venv}-{ending}/bin/python"
        if name in ON_POSTGRES:
            measures.append((name, name, partial(on_postgres, name, python, folder / name)))
        else:
            measures.append((name, name, partial(asked, name, python, str(file))))
    outcomes, loads = [], []
    for label, name, measure in measures:
        loads.append(os.getloadavg()[0])
        console.print(f"{label} (load {loads[-1]:.1f})")
        outcomes.append((guarded(label, measure), setup_lines(name)))
    return Run(outcomes, truth, people, max(loads))


def main(arguments: Sequence[str]) -> int:
    """Measures, prints, writes; 1 where a peer failed."""
    console = Console(width=150)
    with tempfile.TemporaryDirectory(prefix="peers-") as name:
        run = measured(arguments[0], Path(name), console)
    table = Table(*HEAD, title=f"(e) peers at ({EPSILON:g}, {DELTA:g})", title_justify="left")
    for row in run.rows:
        table.add_row(*row)
    console.print(table)
    docs = ROOT / "docs"
    plot(docs / "benchmarks" / "peers.svg", run)
    place = docs / "benchmarks.md"
    place.write_text(rewritten(place.read_text(), "peers", part(run, ROWS, machine())))
    return int(any(one.failed for one, _ in run.outcomes))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
