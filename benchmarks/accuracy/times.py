"""How long clipped totals take beside rows that are ranked and cut, and beside the plain SQL, asked in turns."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import duckdb

from benchmarks.accuracy import shop
from benchmarks.accuracy.asking import deployment
from dpproxy.deployment.service import Service

CUSTOMERS = 300_000
ROUNDS = 7
QUESTIONS = (
    ("rows", "SELECT COUNT(*) FROM purchases WHERE product <> {}"),
    ("total sales", "SELECT SUM(value) FROM purchases WHERE product <> {}"),
    ("rows by week", "SELECT week, COUNT(*) FROM purchases WHERE product <> {} GROUP BY week"),
    ("sales by week", "SELECT week, SUM(value) FROM purchases WHERE product <> {} GROUP BY week"),
    (
        "rows, sales and returns by week",
        "SELECT week, COUNT(*), SUM(value), SUM(CASE WHEN value < 0 THEN value ELSE 0 END) FROM purchases "
        "WHERE product <> {} GROUP BY week",
    ),
    ("average row value", "SELECT AVG(value) FROM purchases WHERE product <> {}"),
    ("average row value by week", "SELECT week, AVG(value) FROM purchases WHERE product <> {} GROUP BY week"),
)
"""The constant is another one in each round, so that no answer is a stored one."""
CAPPED = """
[privacy]
mechanisms = "paper"
""" + shop.POLICY.replace(
    'privacy_unit_path = ["customer_id -> customers.customer_id"]\n',
    'privacy_unit_path = ["customer_id -> customers.customer_id"]\n'
    "max_rows_per_unit = 100\nmax_rows_per_unit_per_group = 20\n",
).replace("[tables.purchases.columns]\n", "[tables.purchases.columns]\nvalue = { bounds = [-1000, 1000] }\n")


@dataclass(frozen=True)
class Time:
    """Seconds of a question, medians: clipped, with caps and ranks, and on the bare database."""

    what: str
    clipped: float
    capped: float
    plain: float

    def row(self) -> str:
        """As a row of the page's table."""
        seconds = " | ".join(f"{value:.3g}" for value in (self.clipped, self.capped, self.plain))
        return f"| {self.what} | {seconds} | {self.clipped / self.capped:.2g} | {self.clipped / self.plain:.2g} |"


def times(folder: Path, customers: int = CUSTOMERS, rounds: int = ROUNDS) -> list[Time]:
    """Every question under both policies and on the bare database, in turns."""
    file = folder / "times.duckdb"
    shop.make(file, customers)
    with ExitStack() as stack:
        services = []
        for name, policy in (("clipped", shop.POLICY), ("capped", CAPPED)):
            place = folder / name
            place.mkdir()
            (place / "policy.toml").write_text(policy)
            config = deployment(place, place / "policy.toml", file, 1)
            services.append(stack.enter_context(Service.start(config, alone=True)))
        bare = stack.enter_context(duckdb.connect(file, read_only=True))
        asked: list[Callable[[str], object]] = [
            *(lambda sql, s=s: asyncio.run(s.ask("analyst", sql)) for s in services),
            lambda sql: bare.execute(sql).fetchall(),
        ]
        return [Time(what, *_medians(sql, asked, rounds)) for what, sql in QUESTIONS]


def _medians(sql: str, asked: Sequence[Callable[[str], object]], rounds: int) -> tuple[float, float, float]:
    taken: list[list[float]] = [[] for _ in asked]
    for number in range(rounds):
        for ask, found in zip(asked, taken, strict=True):
            start = time.perf_counter()
            ask(sql.format(-1 - number))
            found.append(time.perf_counter() - start)
    clipped, capped, plain = map(median, taken)
    return clipped, capped, plain


def written(found: Sequence[Time], machine: str, customers: int = CUSTOMERS) -> str:
    """The section of the page."""
    lines = [
        "## Time",
        "",
        f"The shop with {customers:,} customers: seconds from statement to rows under unit clips, under `mechanisms = "
        '"paper"` with caps (100 rows of a unit, 20 of a group), where rows are ranked and cut, and on the bare '
        f"database. Medians of {ROUNDS} rounds in turns, on {machine}.",
        "",
        "| question | unit clips | caps and ranks | plain SQL | clips to ranks | clips to plain |",
        "|---|---|---|---|---|---|",
        *(one.row() for one in found),
    ]
    return "\n".join(lines)
