"""dpproxy over DuckDB: a policy, then SQL."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from itertools import count
from pathlib import Path

from benchmarks.peers.tasks import DELTA, EPSILON, ROWS_OF_A_PERSON, TASKS, GroupValues, Outcome, cannot
from benchmarks.visits import QUESTIONS, make_duckdb, policy
from budget.accounting import solve
from dpproxy.deployment.service import Service, configured

COSTS = {
    "people by country": Fraction(1),
    "top-10 articles": Fraction(21),
    "COUNT(*)": Fraction(1),
    "SUM by country": Fraction(1),
    "distinct articles": Fraction(5, 4),
}
"""Information units of each answer; each account's limit, so that no answer costs more."""
SQL = {one.name: one.sql for one in QUESTIONS} | {
    "distinct articles": "SELECT COUNT(DISTINCT article) FROM visits WHERE seconds < {n}"
}


def limits(units: Fraction, noise: str) -> str:
    """The parts of a configuration by which one answer of so many units and a call is the whole guarantee."""
    eps_per, delta_per, delta_prime = solve(
        Fraction(EPSILON),
        Fraction(DELTA).limit_denominator(10**9),
        units,
        Fraction(1),
        bounded_range_only=noise == "laplace",
    )
    return (
        f"[privacy]\nepsilon_per = {float(eps_per)}\ndelta_per = {float(delta_per)}\n"
        f'delta_prime = {float(delta_prime)}\nmax_items_per_unit = {ROWS_OF_A_PERSON}\nnoise = "{noise}"\n'
        f'[budget]\ninformation = {float(units)}\ncalls = 1\nmode = "enforce"\n'
    )


def answered(service: Service, sql: str, numbers: Callable[[], int]) -> GroupValues:
    """One query of an analyst who asks nothing else."""
    number = numbers()
    rows = asyncio.run(service.ask(f"analyst{number}", sql.format(n=number))).rows
    return {str(row[0]) if len(row) > 1 else "": float(row[-1] or 0) for row in rows}


def measured(folder: Path, rows: int, noise: str, tasks: Sequence[str] = TASKS) -> Outcome:
    """The tasks, each with a deployment of its own, since (epsilon, delta) of one answer is pinned there."""
    outcome = Outcome(
        f"dpproxy, {noise} noise (DuckDB)",
        f"a person has 1 country, {ROWS_OF_A_PERSON} rows, {ROWS_OF_A_PERSON} articles for distinct articles, and any"
        " number of articles for the top 10",
        "noise for exactly (epsilon, delta): prices are designed for an account of many answers, and a single answer"
        " that uses up the account still gets the noise of that design",
    )
    url = make_duckdb(folder / f"visits{rows}.duckdb", rows)
    bounded = policy(url).replace("max_rows_per_unit = 200\n", f"max_rows_per_unit = {ROWS_OF_A_PERSON}\n")
    for task in tasks:
        if noise == "laplace" and task == "distinct articles":
            outcome.ask(task, cannot("a distinct count of values needs Gaussian noise"))
            continue
        place = folder / f"{noise} {task}".replace("*", "").replace(" ", "-")
        place.mkdir()
        written = bounded.replace('[budget]\nmode = "track"\n', limits(COSTS[task], noise))
        (place / "dpproxy.toml").write_text(written)
        numbers = count(1_000)
        with Service.start(configured(place / "dpproxy.toml"), alone=True) as service:
            outcome.ask(task, partial(answered, service, SQL[task], lambda n=numbers: next(n)))  # type: ignore[misc]
    return outcome
