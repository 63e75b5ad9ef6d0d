"""Asks every peer, holds the answers against the truth, prints table (e) and writes it to docs/benchmarks.md.

`python -m benchmarks.peers NAME=PYTHON ...`: the peers, each with the interpreter of its environment.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import duckdb
from rich.console import Console
from rich.table import Table

from benchmarks.bench_data import policy, rows_query
from benchmarks.bench_page import PEERS, machine
from benchmarks.peers import ours
from benchmarks.peers.tasks import DELTA, EPSILON, REPEATS, TASKS, Outcome

ROOT = Path(__file__).parent.parent.parent
ROWS = 100_000
HEAD = ("task", "peer", "seconds", "median error", "groups")
TRUTH = {
    "people by country": "SELECT country, count(DISTINCT person_id) FROM visits GROUP BY country",
    "top-10 articles": "SELECT article, count(DISTINCT person_id) FROM visits GROUP BY article",
    "COUNT(*)": "SELECT '', count(*) FROM visits",
    "SUM by country": "SELECT country, sum(seconds) FROM visits GROUP BY country",
    "distinct articles": "SELECT '', count(DISTINCT article) FROM visits",
}


def asked(name: str, python: str, file: Path) -> Outcome:
    """A peer's outcome, in a process of its own environment."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(
        [python, "-W", "ignore", "-m", f"benchmarks.peers.{name}", str(file)],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{name}: {done.stderr[-2000:]}")
    return Outcome.load(done.stdout.splitlines()[-1])


def setup_lines(name: str) -> int:
    """Lines of code by which a peer is asked all tasks; to dpproxy's those of its policy are added."""
    source = (Path(__file__).parent / f"{name}.py").read_text().splitlines()
    code = sum(1 for line in source if line.strip() and not line.strip().startswith(("#", '"""')))
    return code + (len(policy("").strip().splitlines()) if name == "ours" else 0)


def rows_of(outcomes: Sequence[Outcome], truth: Mapping[str, Mapping[str, float]]) -> list[Sequence[str]]:
    """The table's rows, task by task."""
    found: list[Sequence[str]] = []
    for task in TASKS:
        for one in outcomes:
            if task in one.cannot:
                found.append((task, one.peer, "-", f"cannot: {one.cannot[task]}", "-"))
                continue
            errors = [
                abs(value - truth[task].get(group, 0)) / max(truth[task].get(group, 0), 1)
                for groups in one.answers[task]
                for group, value in groups.items()
            ]
            error = f"{statistics.median(errors):.2%}" if errors else "-"
            groups = statistics.median(len(groups) for groups in one.answers[task])
            found.append(
                (task, one.peer, f"{statistics.median(one.seconds[task]):.2f}", error, f"{groups:g}")
            )
    return found


def page(rows: Sequence[Sequence[str]], outcomes: Sequence[Outcome], names: Sequence[str]) -> str:
    """The part of docs/benchmarks.md about peers."""
    lines = [
        PEERS,
        "",
        "## Peers",
        "",
        f"Written by `make bench-peers` on {machine()}: {ROWS:,} visits of 10,000 people, each answer at"
        f" ({EPSILON:g}, {DELTA:g}) by itself, {REPEATS} times each; median relative error over the groups that came"
        " out, and how many did. Seconds are from the call to the rows, without starting the system. Countries are"
        " public, articles are not.",
        "",
        "| peer | neighbouring relation | contribution bounds | lines to set up and ask |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| {one.peer} | {one.relation} | {one.bounds} | {setup_lines(name)} |"
        for name, one in zip(names, outcomes, strict=True)
    ]
    lines += ["", "| " + " | ".join(HEAD) + " |", "|" + "---|" * len(HEAD)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([*lines, "", (Path(__file__).parent / "missing.md").read_text()])


def main(arguments: Sequence[str]) -> int:
    """Measures, prints, writes."""
    names = [argument.partition("=")[::2] for argument in arguments]
    with tempfile.TemporaryDirectory(prefix="peers-") as name:
        folder = Path(name)
        file = folder / "visits.csv"
        with duckdb.connect() as connection:
            connection.execute(f"CREATE TABLE visits AS {rows_query(ROWS)}")
            connection.execute(f"COPY visits TO '{file}' (FORMAT csv, HEADER true)")
            truth = {
                task: {str(group): float(value) for group, value in connection.execute(sql).fetchall()}
                for task, sql in TRUTH.items()
            }
        outcomes = [ours.measured(folder, ROWS)]
        outcomes += [asked(peer, python, file) for peer, python in names]
    rows = rows_of(outcomes, truth)
    table = Table(*HEAD, title=f"(e) peers at ({EPSILON:g}, {DELTA:g})", title_justify="left")
    for row in rows:
        table.add_row(*row)
    Console(width=150).print(table)
    place = ROOT / "docs" / "benchmarks.md"
    old = place.read_text() if place.exists() else ""
    place.write_text(old.partition(PEERS)[0] + page(rows, outcomes, ["ours", *(peer for peer, _ in names)]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
