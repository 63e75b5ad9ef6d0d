"""`make bench-planning`: from a query's text to its plan and price, over the corpora's legitimate queries.

A cache miss is all of it: classify, describe and agree with the front, analyse, domains, presentation, emitted SQL.
The corpora lie in $DPPROXY_SHARED. Nothing is charged and the backend is not asked.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import duckdb
import yaml
from rich.console import Console
from rich.table import Table

from dpproxy.catalog.build_policy import build_policy, open_backend
from dpproxy.config.sections import Privacy
from dpproxy.deployment.service import configured
from dpproxy.engine.optimizer import plan_release
from dpproxy.engine.options import terms
from dpproxy.engine.planner import BoundNode, Planner
from dpproxy.engine.release_keys import ReleaseKeys
from dpproxy.front.front import Front
from rewriter.policy import Policy
from rewriter.refusal import Refusal
from rewriter.statements.classify import Verdict

TERMS = terms(Privacy(), {})
KEYS = ReleaseKeys(bytes(32), b"", b"")
ROUNDS = 5
CACHED = 200


@contextmanager
def planner(corpora: Path) -> Iterator[Callable[[], Planner]]:
    """Makes planners with nothing in their caches, over the corpora's policy and an embedded front."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with duckdb.connect(folder / "empty.duckdb") as connection:
            connection.execute((corpora / "schema.sql").read_text())
            connection.execute(
                "INSERT INTO articles SELECT i, 'Article ' || i, 'topic ' || i % 8 FROM range(200) r(i)"
            )
        file = folder / "dpproxy.toml"
        url = '[backend]\nurl = "duckdb:///empty.duckdb"\n'
        file.write_text(url + (corpora / "dpproxy.toml").read_text())
        config = configured(file)
        backend = open_backend(config, slots=1)
        schema = backend.schema()
        policy: Policy = build_policy(config, schema, backend)
        with Front.start(folder / "front", sessions=4) as front:
            front.clone(policy, schema)
            for table in policy.tables.values():
                if table.in_front:
                    front.load_public(table, backend.read_public(table))
            yield lambda: Planner(policy, front, backend.dialect)


def planned(one: Planner, sql: str) -> None:
    """Prepares, plans, prices and emits a statement without parameters."""
    if one.classify(sql) is Verdict.RELAY:
        return
    one.prepare(sql, ())
    for node in one.plan(sql, (), ()):
        if isinstance(node, BoundNode):
            deque(plan_release(node, TERMS, KEYS).queries(), maxlen=0)


def miss(fresh: Callable[[], Planner], sql: str) -> None:
    """Plans with empty caches."""
    planned(fresh(), sql)


def hit(warm: Planner, sql: str) -> None:
    """What a statement costs that was planned before."""
    warm.prepare(sql, ())
    warm.plan(sql, (), ())


def seconds(act: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    """How long a call takes by a clock: that on the wall, or this process's own."""
    start = clock()
    act()
    return clock() - start


def main() -> None:
    """Prints medians and the slowest queries."""
    corpora = Path(os.environ["DPPROXY_SHARED"]) / "corpora"
    queries = [e for e in yaml.safe_load((corpora / "legit.yaml").read_text()) if e.get("sql")]
    missed: dict[str, float] = {}
    cached: list[float] = []
    own: list[float] = []
    with planner(corpora) as fresh:
        warm = fresh()
        for entry in queries:
            sql = entry["sql"]
            try:
                planned(warm, sql)
            except Refusal:
                continue
            if warm.classify(sql) is Verdict.RELAY:
                continue
            missed[entry["id"]] = min(seconds(partial(miss, fresh, sql)) for _ in range(ROUNDS))
            own.append(min(seconds(partial(miss, fresh, sql), time.process_time) for _ in range(ROUNDS)))
            hits = [seconds(partial(hit, warm, sql)) for _ in range(CACHED)]
            cached.append(statistics.median(hits))
    report(missed, own, cached, Console())


def report(missed: dict[str, float], own: list[float], cached: list[float], console: Console) -> None:
    """The table of the figures; `own` is what of it this process computes, without the front."""
    table = Table("planning", "median", "90th percentile", "slowest", title=f"{len(missed)} queries")
    rows = (("from text", list(missed.values())), ("from text, own time", own), ("cached", cached))
    for name, found in rows:
        tenths = statistics.quantiles(found, n=10)
        figures = statistics.median(found), tenths[-1], max(found)
        table.add_row(name, *(f"{1000 * f:.3f} ms" for f in figures))
    console.print(table)
    slowest = sorted(missed, key=lambda n: -missed[n])[:5]
    console.print("slowest: " + ", ".join(f"{n} {1000 * missed[n]:.0f} ms" for n in slowest))


if __name__ == "__main__":
    main()
