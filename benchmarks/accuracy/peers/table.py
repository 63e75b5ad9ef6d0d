"""The errors of totals over households, ours and other libraries', when 1, 10 or 100 answers share one guarantee."""

from __future__ import annotations

import asyncio
import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from statistics import median

import duckdb

from benchmarks.accuracy.asking import deployment
from benchmarks.accuracy.page import percent
from benchmarks.accuracy.peers.tasks import BOUNDS, CAREFUL, COLUMNS, DELTA, EPSILON, OWN, Released, errors
from budget.accounting import solve
from dpproxy.deployment.service import Service

ROOT = Path(__file__).parent.parent.parent.parent
ENVIRONMENTS = {"smartnoise": "peers", "opendp": "peers", "tumult": "tumult"}
"""What the names of the environments end in."""
ANSWERS = (1, 10, 100)
SQL = {
    "total sales": "SELECT SUM(sales_value) FROM transactions",
    "number of rows": "SELECT COUNT(*) FROM transactions",
}
ONE_ROW = """
SELECT household_id, SUM(sales_value)::DOUBLE AS sales, COUNT(*) AS lines FROM transactions GROUP BY household_id
"""
LONGEST = 900
"""Seconds that a library may take for one number of answers."""


@dataclass(frozen=True)
class Row:
    """Relative errors of a library with one kind of bounds, by number of answers and task; `why` it has none."""

    library: str
    bounds: str
    found: dict[tuple[int, str], list[float]]
    why: str = ""


def rows(folder: Path, file: Path, policy: Path, venv: str, keys: int) -> list[Row]:
    """Ours first, then every library with each kind of bounds that it has."""
    with duckdb.connect(file, read_only=True) as connection:
        truth = {task: float(connection.execute(sql).fetchall()[0][0]) for task, sql in SQL.items()}
        connection.execute(f"COPY ({ONE_ROW}) TO '{folder / 'households.csv'}' (FORMAT csv, HEADER)")
    ours: dict[tuple[int, str], list[float]] = {}
    for answers in ANSWERS:
        found = errors(_ours(file, policy, answers, keys), truth)
        ours |= {(answers, task): values for task, values in found.items()}
    listed = [Row("dpproxy, by SQL over all rows", "a length found for each question", ours)]
    for name, ending in ENVIRONMENTS.items():
        python = f"{venv}-{ending}/bin/python"
        done = {n: _asked(name, python, folder / "households.csv", n, keys) for n in ANSWERS}
        first = done[ANSWERS[0]]
        for kind in (OWN, CAREFUL):
            theirs = {
                (n, task): values
                for n, one in done.items()
                for task, values in errors(one.values.get(kind, {}), truth).items()
            }
            if theirs:
                listed.append(Row(f"{first.library} ({first.composes})", kind, theirs))
        listed += [Row(first.library, "", {}, first.without)] if first.without else []
    return listed


def _ours(file: Path, policy: Path, answers: int, keys: int) -> dict[str, list[float]]:
    """Each answer costs one unit of an account of so many."""
    found: dict[str, list[float]] = {task: [] for task in SQL}
    for _ in range(keys):
        with tempfile.TemporaryDirectory(prefix="peers-") as name:
            config = deployment(Path(name), policy, file, 1)
            privacy = config.privacy.model_copy(update={"epsilon_per": eps_per(answers)})
            with Service.start(config.model_copy(update={"privacy": privacy}), alone=True) as service:
                for task, sql in SQL.items():
                    ((value,),) = asyncio.run(service.ask("analyst", sql)).rows
                    found[task].append(float(value or 0))
    return found


def eps_per(answers: int) -> Fraction:
    """The epsilon of each of so many units that together guarantee (EPSILON, DELTA), by zCDP."""
    return solve(Fraction(EPSILON), Fraction(1, round(1 / DELTA)), Fraction(answers), Fraction(1))[0]


def _asked(name: str, python: str, file: Path, answers: int, keys: int) -> Released:
    """What a library released, in a process of its own environment."""
    if not Path(python).exists():
        return Released(name, "", without="its environment was not built")
    rho = float(eps_per(answers) ** 2 / 8)
    module = f"benchmarks.accuracy.peers.{name}"
    command = [python, "-W", "ignore", "-m", module, str(file), str(answers), str(keys), str(rho)]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT), "SPARK_LOCAL_IP": "127.0.0.1"},
            timeout=LONGEST,
            check=False,
        )
        return Released.load(done.stdout.strip().splitlines()[-1])
    except (subprocess.TimeoutExpired, IndexError, TypeError, ValueError) as error:
        return Released(name, "", without=type(error).__name__)


def written(found: Sequence[Row], machine: str, keys: int) -> str:
    """The section of the page."""
    bounds = " and ".join(f"[0, {most:,}] for the {task}" for task, most in BOUNDS.items())
    return "\n".join(
        [
            "## Beside other libraries",
            "",
            "Totals over the sample data's households when 1, 10 or 100 such answers together are "
            f"({EPSILON:g}, {DELTA:g})-differentially private: the median error of {keys} draws, with the 90th "
            "percentile. The other libraries get a table with one row a household, made without any bound, so that a "
            "row is a unit; ours is asked in SQL over all rows. Careful bounds are those of an owner who has not seen "
            f"the data: {bounds}. Where a library finds bounds by itself, that has 15% of an answer's price, 25% in "
            "ours. In zCDP all have the same rho. "
            f"On {machine}.",
            "",
            "| library | bounds | " + " | ".join(f"{task}, {n}" for task in COLUMNS for n in ANSWERS) + " |",
            "|---" * (2 + len(COLUMNS) * len(ANSWERS)) + "|",
            *(_line(one) for one in found if one.found),
            *(f"\n{one.library}: {one.why}." for one in found if one.why),
        ]
    )


def _line(one: Row) -> str:
    return f"| {one.library} | {one.bounds} | " + " | ".join(_cells(one)) + " |"


def _cells(one: Row) -> Iterator[str]:
    for task in COLUMNS:
        for answers in ANSWERS:
            values = sorted(one.found.get((answers, task), []))
            high = values[min(len(values) - 1, 9 * len(values) // 10)] if values else 0
            yield f"{percent(median(values))} ({percent(high)})" if values else ""
