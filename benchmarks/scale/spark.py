"""DP-SIPS through SQL on Spark: seconds by users and by workers, over pairs drawn as the paper drew Synthetic_80M.

A person's number of items is Pareto(1.16, 10), each item zeta(1.1); at most a million items of one person. The pairs
are drawn in Spark and lie in Parquet files. `python -m benchmarks.scale.spark [THOUSANDS OF USERS ...]`; docs/scale.md.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
from rich.console import Console
from rich.table import Table

from dpproxy.deployment.service import Service, configured
from tests.spark_server import Server, owner, serving

USERS = (1000, 2000, 4000)
"""Thousands."""
WORKERS = (1, 2)
"""All sizes are asked with the most of them, the smallest with each."""
MEMORY = 3072
"""Of a worker, in MB; each has one core."""
FIGURE = Path(__file__).parent.parent.parent / "docs" / "scale" / "spark.png"
POLICY = """
[server]
statement_timeout = "60min"
[backend]
url = "{url}"
max_rows = 20000000
[privacy]
epsilon_per = 1
delta_per = 1e-5
query_information = 0.8
query_calls = 1
max_items_per_unit = 100
least_weight = 1
scans = "charge"
[budget]
mode = "track"
[tables.pairs]
privacy_unit = "user_id"
"""
QUESTION = "SELECT DISTINCT item FROM pairs"
_TRIES = 3


@dataclass(frozen=True)
class Run:
    """One question: thousands of users, pairs, workers, seconds, seconds of Spark's processors, groups that came out,
    and the machine's load before."""

    thousands: int
    pairs: int
    workers: int
    seconds: float
    busy: float
    groups: int
    load: float


def drawn(thousands: int) -> str:
    """The query that draws the pairs; the items are zeta's by rejection (Devroye, X.6.1)."""
    draws = ", ".join(f"rand({2 * n + 2}) AS a{n}, rand({2 * n + 3}) AS b{n}" for n in range(_TRIES))
    items = ", ".join(f"floor(least(power(1 - a{n}, -10.0), 9.1e18)) AS x{n}" for n in range(_TRIES))
    taken = " ".join(
        f"WHEN x{n} < 9e18 AND b{n} * x{n} * (power(1 + 1 / x{n}, 0.1) - 1) / (power(2, 0.1) - 1) "
        f"<= power(1 + 1 / x{n}, 0.1) / power(2, 0.1) THEN x{n}"
        for n in range(_TRIES)
    )
    return (
        "WITH u AS (SELECT id, CAST(least(10 * power(1 - rand(1), -1 / 1.16), 1e6) AS INT) AS k "
        f"FROM range(0, {thousands * 1000}, 1, 64)), "
        f"e AS (SELECT id, {draws} FROM (SELECT id, explode(sequence(1, k)) FROM u)), "
        f"z AS (SELECT *, {items} FROM e) "
        f"SELECT id AS user_id, CAST(CASE {taken} ELSE least(x{_TRIES - 1}, 9e18) END AS BIGINT) AS item FROM z"
    )


def main(sizes: tuple[int, ...] = USERS) -> int:
    """Draw, ask, print and plot."""
    console = Console(width=110)
    runs: list[Run] = []
    with tempfile.TemporaryDirectory(prefix="dpproxy-scale") as name:
        for workers in reversed(WORKERS):
            options = ("--conf", f"spark.sql.shuffle.partitions={16 * max(WORKERS)}")
            with serving(f"local-cluster[{workers},1,{MEMORY}]", memory="1500m", options=options) as server:
                for thousands in sizes if workers == max(WORKERS) else (min(sizes),):
                    pairs = made(server.url, thousands, Path(name) / f"pairs{thousands}", console)
                    runs.append(asked(server, thousands, pairs, workers))
                    console.print(runs[-1])
    console.print(_shown(runs))
    _plot(runs)
    return 0


def made(url: str, thousands: int, place: Path, console: Console) -> int:
    """Makes the table `pairs` of what was drawn into `place`, once; gives how many pairs there are."""
    with owner(url) as session:
        started = time.perf_counter()
        if not place.exists():
            session.sql(drawn(thousands)).write.parquet(str(place))
            console.print(f"{thousands},000 users drawn in {time.perf_counter() - started:.0f} s")
        session.sql("DROP TABLE IF EXISTS pairs")
        columns = "user_id BIGINT, item BIGINT"
        session.sql(f"CREATE TABLE pairs ({columns}) USING parquet LOCATION '{place}'")
        return int(session.table("pairs").count())


def asked(server: Server, thousands: int, pairs: int, workers: int) -> Run:
    """Asks for the items of the table `pairs` through a proxy of its own."""
    with (
        tempfile.TemporaryDirectory(prefix="dpproxy-proxy") as name,
        _proxy(Path(name), server.url) as service,
    ):
        load, busy = os.getloadavg()[0], server.busy()
        started = time.perf_counter()
        groups = len(asyncio.run(service.ask("analyst", QUESTION)).rows)
        seconds = time.perf_counter() - started
        return Run(thousands, pairs, workers, seconds, server.busy() - busy, groups, load)


@contextmanager
def _proxy(folder: Path, url: str) -> Iterator[Service]:
    (folder / "dpproxy.toml").write_text(POLICY.format(url=url))
    with Service.start(configured(folder / "dpproxy.toml"), alone=True) as service:
        yield service


def _shown(runs: list[Run]) -> Table:
    table = Table("thousand users", "pairs", "workers", "seconds", "CPU seconds", "groups", "load before")
    for run in sorted(runs, key=lambda r: (r.workers, r.thousands)):
        numbers = (
            str(run.workers),
            f"{run.seconds:.0f}",
            f"{run.busy:.0f}",
            f"{run.groups:,}",
            f"{run.load:.1f}",
        )
        table.add_row(f"{run.thousands:,}", f"{run.pairs:,}", *numbers)
    return table


def _plot(runs: list[Run]) -> None:
    mpl.use("agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 4))
    for workers in WORKERS:
        mine = sorted((r.pairs / 1e6, r.seconds) for r in runs if r.workers == workers)
        axes.plot([x for x, _ in mine], [y for _, y in mine], marker="o", label=f"{workers} worker(s)")
    axes.set_xlabel("million pairs")
    axes.set_ylabel("seconds")
    axes.set_ylim(bottom=0)
    axes.set_xlim(left=0)
    axes.legend()
    axes.set_title("DP-SIPS (three rounds) through SQL on Spark")
    FIGURE.parent.mkdir(exist_ok=True)
    figure.savefig(FIGURE, dpi=120, bbox_inches="tight")


if __name__ == "__main__":
    sys.exit(main(tuple(map(int, sys.argv[1:])) or USERS))
