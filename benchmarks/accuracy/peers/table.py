"""The errors of totals over households, ours and other libraries', when 1, 10 or 100 answers share one guarantee."""

from __future__ import annotations

import asyncio
import math
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
from dpproxy.config.sections import Config, Privacy
from dpproxy.deployment.service import Service

ROOT = Path(__file__).parent.parent.parent.parent
ENVIRONMENTS = {"smartnoise": ("peers", 5), "opendp": ("peers", 1), "tumult": ("tumult", 1)}
"""What the names of the environments end in, and how many draws a key there are: most cost seconds."""
OURS = 10
"""The same of ours, which are questions of one deployment."""
ANSWERS = (1, 10, 100)
LENGTH, LAPLACE, GAUSSIAN = "a length found for each question", "Laplace", "zCDP"
SQL = {
    "total sales": "SELECT SUM(sales_value) FROM transactions",
    "number of rows": "SELECT COUNT(*) FROM transactions",
}
NEW = " WHERE store_id > -{draw}"
"""Holds for all rows: each draw is a question that was not answered before."""
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
    listed = []
    for kind in (LENGTH, CAREFUL):
        ours: dict[tuple[int, str], list[float]] = {}
        for answers in ANSWERS:
            found = errors(_ours(file, policy, answers, OURS * keys, kind), truth)
            ours |= {(answers, task): values for task, values in found.items()}
        noises = dict.fromkeys(GAUSSIAN if kind == LENGTH else _noise(n) for n in ANSWERS)
        listed.append(Row(f"dpproxy, by SQL over all rows ({', '.join(noises)})", kind, ours))
    for name, (ending, draws) in ENVIRONMENTS.items():
        python = f"{venv}-{ending}/bin/python"
        done = {n: _asked(name, python, folder / "households.csv", n, draws * keys) for n in ANSWERS}
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


def _ours(file: Path, policy: Path, answers: int, draws: int, kind: str) -> dict[str, list[float]]:
    """Each answer costs one unit of an account of so many; with Laplace noise, half an epsilon unit."""
    found: dict[str, list[float]] = {task: [] for task in SQL}
    with tempfile.TemporaryDirectory(prefix="peers-") as name:
        config = deployment(Path(name), policy, file, 1)
        config = config.model_copy(
            update=_careful(config, answers) if kind == CAREFUL else {"privacy": _paid(config, answers)}
        )
        with Service.start(config, alone=True) as service:
            for draw in range(draws):
                for task, sql in SQL.items():
                    ((value,),) = asyncio.run(service.ask("analyst", sql + NEW.format(draw=draw))).rows
                    found[task].append(float(value or 0))
    return found


def _paid(config: Config, answers: int, **update: object) -> Privacy:
    return config.privacy.model_copy(update={"epsilon_per": eps_per(answers), **update})


def _careful(config: Config, answers: int) -> dict[str, object]:
    """The others' bounds in our policy, and the noise that has the smaller deviation for so many answers."""
    update: dict[str, object] = {"mechanisms": "paper"}
    if _noise(answers) == LAPLACE:
        update |= {"noise": "laplace", "epsilon_per": laplace_eps_per(answers)}
    table = config.tables["transactions"]
    sales = table.columns["sales_value"].model_copy(
        update={"bounds": None, "unit_bounds": [Fraction(0), Fraction(BOUNDS["total sales"])]}
    )
    bounded = table.model_copy(
        update={
            "max_rows_per_unit": BOUNDS["number of rows"],
            "columns": {**table.columns, "sales_value": sales},
        }
    )
    return {
        "privacy": _paid(config, answers, **update),
        "tables": {**config.tables, "transactions": bounded},
    }


def _noise(answers: int) -> str:
    """Which noise has the smaller variance: that of Laplace noise is 2 (2/eps_per)^2, of Gaussian noise (2/eps_per)^2,
    in parts of a bound."""
    return LAPLACE if 2 * eps_per(answers) ** 2 < laplace_eps_per(answers) ** 2 else GAUSSIAN


def laplace_eps_per(answers: int) -> Fraction:
    """The same where Laplace noise is summed as pure epsilon: an answer costs half a unit."""
    return 2 * Fraction(EPSILON) / answers


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


def written(found: Sequence[Row], machine: str) -> str:
    """The section of the page."""
    bounds = " and ".join(f"[0, {most:,}] for the {task}" for task, most in BOUNDS.items())
    return "\n".join(
        [
            "## Beside other libraries",
            "",
            "Totals over the sample data's households when 1, 10 or 100 such answers together are "
            f"({EPSILON:g}, {DELTA:g})-differentially private: the median error of so many draws, between which ends "
            "it lies with 95%, and in parentheses the 90th percentile. The other libraries get a table with one row a "
            "household, made without any bound, so that a row is a unit; ours is asked in SQL over all rows. Careful "
            f"bounds are those of an owner who has not seen the data: {bounds}. "
            "In our policy these are `unit_bounds` of the column and `max_rows_per_unit`, with "
            '`mechanisms = "paper"`. Where a library finds bounds by itself, that has 15% of an answer\'s price, 25% '
            "in ours. In zCDP all have the same rho. With Laplace noise N of our answers have epsilon 1/N each. "
            "SmartNoise always has it (its odometer allows 0.0164 for each of 100 answers), ours has it with careful "
            "bounds where its deviation is smaller than in zCDP, which no row of the data decides "
            f"({', '.join(f'{_noise(n)} for {n}' for n in ANSWERS)}; [accounts with Laplace noise]"
            "(budget.md#epsilon-units)). "
            f"On {machine}.",
            "",
            "| library | bounds | draws | "
            + " | ".join(f"{task}, {n}" for task in COLUMNS for n in ANSWERS)
            + " |",
            "|---" * (3 + len(COLUMNS) * len(ANSWERS)) + "|",
            *(_line(one) for one in found if one.found),
            *(f"\n{one.library}: {one.why}." for one in found if one.why),
            "",
            f"- Lengths and bounds found by themselves: {_won(found, LENGTH, OWN)}",
            f"- Careful bounds for all: {_won(found, CAREFUL, CAREFUL)} With 1 and 10 answers ours and SmartNoise's "
            "have one law, Laplace noise of the bound times the answers; with 100, ours, OpenDP's and Tumult's have "
            "one law, Gaussian noise. What differs between them is chance.",
            f"- Our lengths beside careful bounds of others: {_won(found, LENGTH, CAREFUL)} Where a bound is far "
            "above the units, as for rows, a length that is found is worth its price from some answers on. Where it "
            "happens to be the best length, as for sales, nothing is won by a search. Lengths are found with Gaussian "
            "noise only, and zCDP is no match for Laplace noise where one answer has all of a small epsilon.",
        ]
    )


def _won(found: Sequence[Row], bounds: str, others: str) -> str:
    """In which columns a library has a smaller median than ours, and in which of them by more than chance."""
    own = next(one for one in found if one.bounds == bounds)
    theirs = [one for one in found if one.bounds == others and not one.library.startswith("dpproxy")]
    smaller, lost = [], []
    for at, values in own.found.items():
        found_there = [one.found[at] for one in theirs if at in one.found]
        if any(median(other) < median(values) for other in found_there):
            smaller.append(f"{at[1]}, {at[0]}")
        if any(_ends(other)[1] < _ends(values)[0] for other in found_there):
            lost.append(f"{at[1]}, {at[0]}")
    if not smaller:
        return "no library has a smaller median than ours."
    chance = f"by more than chance for {'; '.join(lost)}" if lost else "none of them by more than chance"
    return f"a library has a smaller median than ours for {'; '.join(smaller)}, {chance}."


def _line(one: Row) -> str:
    draws = " to ".join(dict.fromkeys(str(pick(map(len, one.found.values()))) for pick in (min, max)))
    return f"| {one.library} | {one.bounds} | {draws} | " + " | ".join(_cells(one)) + " |"


def _cells(one: Row) -> Iterator[str]:
    for task in COLUMNS:
        for answers in ANSWERS:
            values = sorted(one.found.get((answers, task), []))
            yield _cell(values) if values else ""


def _cell(values: Sequence[float]) -> str:
    low, high = _ends(values)
    tail = values[min(len(values) - 1, 9 * len(values) // 10)]
    return f"{percent(median(values))}, {percent(low)} to {percent(high)} ({percent(tail)})"


def _ends(values: Sequence[float]) -> tuple[float, float]:
    """The order statistics between which the median of the law lies with 95%."""
    ordered, n = sorted(values), len(values)
    half = math.ceil(1.96 * math.sqrt(n) / 2)
    return ordered[max(0, n // 2 - half)], ordered[min(n - 1, n // 2 + half)]
