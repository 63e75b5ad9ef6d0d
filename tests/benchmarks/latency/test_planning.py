"""Planning three queries, and how DuckDB would run those of the corpora."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import duckdb
import pytest
from rich.console import Console

from benchmarks.latency import planning
from dpproxy.engine.optimizer import plan_release
from dpproxy.engine.planner import BoundNode, Planner
from rewriter.plan import HistogramQuery
from rewriter.refusal import Refusal
from rewriter.statements.classify import Verdict
from tests.duckdb_plans import joined_row_by_row, plan, row_by_row
from tests.stability.corpora import FILES, entries

pytestmark = pytest.mark.service

COUNTS = (
    "SELECT COUNT(*) FROM users",
    "SELECT country, COUNT(*) FROM users GROUP BY country",
    "SELECT COUNT(*), SUM(amount) FROM events",
)
JOINING = re.compile(r"\b(JOIN|EXISTS|IN\s*\(\s*SELECT|UNION|INTERSECT|EXCEPT)\b", re.IGNORECASE)
CROSSING = re.compile(r"\b(CROSS|NATURAL)\s+JOIN\b", re.IGNORECASE)
"""Statements that ask for each row with each."""
CROSSED = (
    ("true", "CROSS_PRODUCT"),
    ("u.user_id <> e.user_id", "NESTED_LOOP_JOIN"),
    ("u.user_id = e.user_id OR u.country = e.action", "BLOCKWISE_NL_JOIN"),
)
"""What DuckDB calls the operators that are looked for."""
Planners = tuple[Callable[[], Planner], list[planning.TimedFront]]


def emitted(planner: Planner, sql: str, dates: tuple[str, str]) -> list[object]:
    """What is asked, and all SQL of it."""
    found: list[object] = []
    for node in planner.plan(sql, (planning.TIMESTAMP, planning.TIMESTAMP), dates):
        assert isinstance(node, BoundNode)
        plan = plan_release(node, planning.TERMS, planning.KEYS)
        found += [
            node.aggregate,
            node.text,
            node.domain,
            node.asked,
            *(query.sql for query in plan.queries()),
        ]
    return found


@pytest.fixture(scope="module")
def planners(shared: Path) -> Iterator[Planners]:
    fronts: list[planning.TimedFront] = []
    with planning.planner(shared / "corpora", fronts) as fresh:
        yield fresh, fronts


def test_planning(planners: Planners, monkeypatch: pytest.MonkeyPatch) -> None:
    console = Console(width=120, record=True)
    fresh, fronts = planners
    warm = fresh()
    missed = {sql: planning.seconds(partial(planning.miss, fresh, sql)) for sql in COUNTS}
    for sql in COUNTS:
        planning.planned(warm, sql)
    own = {sql: planning.rewriting(fresh, fronts[0], sql) for sql in COUNTS}
    own |= {f"large {n}": planning.rewriting(fresh, fronts[0], sql) for n, sql in enumerate(planning.LARGE)}
    hits = [planning.seconds(partial(planning.hit, warm, sql)) for sql in COUNTS]
    alike = [f"{COUNTS[2]} WHERE ts >= '2024-0{n}-01'" for n in (1, 2)]
    like = [planning.own_time(fronts[0], planning.likewise(fresh, sql)) for sql in alike]
    whole = [planning.whole_time(fronts[0], partial(planning.miss, fresh, sql)) for sql in alike]
    bound = planning.rebinding(fresh, fronts[0], planning.PREPARED[0])
    asked = [(sql, dates) for sql in planning.PREPARED for dates in planning.DATES[:2]]
    substituted = [emitted(warm, sql, dates) for sql, dates in asked]
    monkeypatch.setattr("dpproxy.engine.planner._substituted", lambda *_: None)
    anew = fresh()
    assert substituted == [emitted(anew, sql, dates) for sql, dates in asked]
    planning.report(
        missed, own, {"with the front": whole, "like": like, "bound": bound, "cached": hits}, console
    )
    assert fronts[0].spent > 0
    assert min(own.values()) > 0
    assert 0 < max(like) < min(whole)
    assert min(bound) > 0
    assert min(hits) < max(missed.values())
    assert "3 queries" in console.export_text()


def test_duckdb_joins_no_rows_of_the_corpora_one_by_one(
    planners: Planners, shared: Path, tmp_path: Path
) -> None:
    corpora = shared / "corpora"
    subprocess.run(
        [sys.executable, str(corpora / "make_data.py"), str(tmp_path), "--users", "400"],
        check=True,
        timeout=120,
    )
    with duckdb.connect(tmp_path / "data.duckdb") as connection:
        connection.execute((corpora / "schema.sql").read_text())
        for table in ("users", "articles", "events"):
            connection.execute(f"INSERT INTO {table} FROM read_csv('{tmp_path / table}.csv', header = true)")
    planner, queries = planners[0](), list[HistogramQuery]()
    for sql in [entry["sql"] for file in FILES for entry in entries(corpora / file)]:
        if JOINING.search(sql) and not CROSSING.search(sql):
            with suppress(Refusal):
                queries += backend_queries(planner, sql)
    assert len(queries) > 50
    assert joined_row_by_row(tmp_path / "data.duckdb", queries) == []
    with duckdb.connect(tmp_path / "data.duckdb") as connection:
        for condition, operator in CROSSED:
            found = plan(connection, f"SELECT COUNT(*) FROM users AS u, events AS e WHERE {condition}")
            assert [*row_by_row(found)] == [operator]


def backend_queries(planner: Planner, sql: str) -> list[HistogramQuery]:
    """What the backend is asked for the nodes of a statement that wait for nothing."""
    if planner.classify(sql) is Verdict.RELAY:
        return []
    nodes = [node for node in planner.plan(sql, (), ()) if isinstance(node, BoundNode) and not node.waits]
    return [query for node in nodes for query in plan_release(node, planning.TERMS, planning.KEYS).queries()]
