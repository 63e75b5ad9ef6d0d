"""`make bench-planning`: from a query's text to its plan and price, over the corpora's queries that are answered.

A cache miss is all of it: classify, describe and agree with the front, analyse, domains, presentation, emitted SQL.
The rewriter's own time is that of this process without the calls to the front. The corpora lie in $DPPROXY_SHARED.
Nothing is charged and the backend is not asked.
"""

from __future__ import annotations

import gc
import os
import statistics
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import cast

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
from rewriter.statements.parameterization import parameterized

TERMS = terms(Privacy(), {})
KEYS = ReleaseKeys(bytes(32), b"", b"")
ROUNDS = 5
CACHED = 200
LARGE = (
    "SELECT e.action, EXTRACT(HOUR FROM e.ts), e.ts::date, a.title, COUNT(*) FROM events e "
    "JOIN articles a ON a.article_id = e.article_id GROUP BY 1, 2, 3, 4 ORDER BY 5 DESC LIMIT 10",
    "SELECT u.country, u.birth_year / 10, e.action, a.topic, COUNT(DISTINCT u.user_id) FROM users u "
    "JOIN events e ON e.user_id = u.user_id JOIN articles a ON a.article_id = e.article_id GROUP BY 1, 2, 3, 4",
    "SELECT a.topic, COUNT(DISTINCT u.user_id) FROM users u "
    + " ".join(f"JOIN events e{n} ON e{n}.user_id = u.user_id" for n in range(4))
    + " JOIN articles a ON a.article_id = e0.article_id "
    + " ".join(f"JOIN articles a{n} ON a{n}.article_id = e{n}.article_id" for n in range(1, 4))
    + " WHERE e1.action = 'view' AND a1.topic = a2.topic GROUP BY 1",
)
"""Four keys with large domains, and nine tables."""
PREPARED = (
    "SELECT ts::date, COUNT(*) FROM events WHERE ts >= $1 AND ts < $2 GROUP BY 1 ORDER BY 1",
    "SELECT action, COUNT(DISTINCT user_id) FROM events WHERE ts >= $1 AND ts < $2 GROUP BY 1",
    "SELECT a.topic, COUNT(*) FROM events e JOIN articles a ON a.article_id = e.article_id "
    "WHERE e.ts BETWEEN $1 AND $2 GROUP BY 1 ORDER BY 2 DESC LIMIT 5",
    "SELECT u.country, COUNT(*), COUNT(DISTINCT u.user_id) FROM users u JOIN events e ON e.user_id = u.user_id "
    "WHERE e.ts >= $1 AND e.ts < $2 GROUP BY 1",
)
"""What dashboards ask again, with the dates between which they ask."""
DATES = tuple((f"2024-01-{day:02}", f"2024-02-{day:02}") for day in range(1, 21))
TIMESTAMP = 1114


class TimedFront:
    """A front that adds up this process's time in its calls, in seconds. `folder`: of its PostgreSQL."""

    def __init__(self, front: Front, folder: Path) -> None:
        self._front, self.spent = front, 0.0
        (file,) = folder.rglob("postmaster.pid")
        self._server = file.read_text().split()[0]

    @property
    def processor(self) -> float:
        """The seconds of processor time that its sessions' processes have taken."""
        seconds = 0.0
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                parent = (process / "stat").read_text().rpartition(")")[2].split()[1]
                if parent == self._server:
                    seconds += int((process / "schedstat").read_text().split()[0]) / 1e9
        return seconds

    def __getattr__(self, name: str) -> Callable[..., object]:
        called = getattr(self._front, name)

        def timed(*arguments: object, **named: object) -> object:
            start = time.process_time()
            try:
                return called(*arguments, **named)
            finally:
                self.spent += time.process_time() - start

        # Found by itself from now on: what measures is not to be measured.
        setattr(self, name, timed)
        return timed


@contextmanager
def planner(corpora: Path, timed: list[TimedFront] | None = None) -> Iterator[Callable[[], Planner]]:
    """Makes planners with nothing in their caches, over the corpora's policy and an embedded front.

    `timed`: gets the front that adds up the time of its calls.
    """
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
            measured = TimedFront(front, folder / "front")
            if timed is not None:
                timed.append(measured)
            yield lambda: Planner(policy, cast(Front, measured), backend.dialect)


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


def own_time(front: TimedFront, act: Callable[[], object]) -> float:
    """The processor time of a call, without the calls to the front in it."""
    front.spent = 0.0
    return seconds(act, time.process_time) - front.spent


def whole_time(front: TimedFront, act: Callable[[], object]) -> float:
    """The processor time of a call, with its calls to the front and what the front does for them."""
    before = front.processor
    spent = seconds(act, time.process_time)
    return spent + front.processor - before


def rewriting(fresh: Callable[[], Planner], front: TimedFront, sql: str) -> float:
    """The processor time of planning with empty caches, without the calls to the front."""
    return own_time(front, partial(miss, fresh, sql))


def rebinding(fresh: Callable[[], Planner], front: TimedFront, sql: str) -> list[float]:
    """The processor time of a prepared statement's plan for each of `DATES`, without the calls to the front."""
    warm, types = fresh(), (TIMESTAMP, TIMESTAMP)
    warm.prepare(sql, types)
    return [own_time(front, partial(warm.plan, sql, types, dates)) for dates in DATES]


def likewise(fresh: Callable[[], Planner], sql: str) -> Callable[[], None]:
    """Plans a statement where two like it were planned before."""
    warm = fresh()
    for before in ("  ", " "):
        planned(warm, sql + before)
    return partial(planned, warm, sql)


def main() -> None:
    """Prints medians and the slowest queries."""
    corpora = Path(os.environ["DPPROXY_SHARED"]) / "corpora"
    files = ("legit.yaml", "queries-by-others.yaml")
    entries = [e for file in files for e in yaml.safe_load((corpora / file).read_text()) if e.get("sql")]
    queries = {e["id"]: e["sql"] for e in entries} | {f"large {n}": sql for n, sql in enumerate(LARGE)}
    missed: dict[str, float] = {}
    cached: list[float] = []
    own: dict[str, float] = {}
    like: list[float] = []
    whole: list[float] = []
    whole_like: list[float] = []
    fronts: list[TimedFront] = []
    with planner(corpora, fronts) as fresh:
        warm = fresh()
        for sql in LARGE:
            planned(warm, sql)
        # As a server does: Service.server.
        gc.freeze()
        gc.set_threshold(20_000)
        for name, sql in queries.items():
            try:
                planned(warm, sql)
            except Refusal:
                continue
            if warm.classify(sql) is Verdict.RELAY:
                continue
            missed[name] = min(seconds(partial(miss, fresh, sql)) for _ in range(ROUNDS))
            own[name] = min(rewriting(fresh, fronts[0], sql) for _ in range(ROUNDS))
            whole.append(min(whole_time(fronts[0], partial(miss, fresh, sql)) for _ in range(ROUNDS)))
            if parameterized(sql) is not None:
                like.append(min(own_time(fronts[0], likewise(fresh, sql)) for _ in range(ROUNDS)))
                whole_like.append(min(whole_time(fronts[0], likewise(fresh, sql)) for _ in range(ROUNDS)))
            hits = [seconds(partial(hit, warm, sql)) for _ in range(CACHED)]
            cached.append(statistics.median(hits))
        bound = [figure for sql in PREPARED for figure in rebinding(fresh, fronts[0], sql)]
    rows = {
        "from text, with the front": whole,
        f"after {len(like)} like them, the rewriter": like,
        f"after {len(like)} like them, with the front": whole_like,
        "prepared, other dates, the rewriter": bound,
        "cached": cached,
    }
    report(missed, own, rows, Console())


def report(
    missed: dict[str, float], own: dict[str, float], others: dict[str, list[float]], console: Console
) -> None:
    """The table of the figures: `own` is the rewriter's processor time, `others` are named by their rows."""
    large = [f"large {n}" for n in range(len(LARGE))]
    table = Table("planning", "median", "90th", "99th percentile", "slowest", title=f"{len(missed)} queries")
    rows = {
        "from text": list(missed.values()),
        "from text, the rewriter": [own[name] for name in own if name not in large],
        "four keys and nine tables, the rewriter": [own[name] for name in large],
        **others,
    }
    for name, found in rows.items():
        parts = statistics.quantiles(found, n=100, method="inclusive")
        figures = statistics.median(found), parts[89], parts[98], max(found)
        table.add_row(name, *(f"{1000 * f:.3f} ms" for f in figures))
    console.print(table)
    slowest = sorted(missed, key=lambda n: -missed[n])[:5]
    console.print("slowest: " + ", ".join(f"{n} {1000 * missed[n]:.0f} ms" for n in slowest))


if __name__ == "__main__":
    main()
