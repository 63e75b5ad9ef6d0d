"""Planning three queries."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks.latency import planning
from dpproxy.engine.optimizer import plan_release
from dpproxy.engine.planner import BoundNode, Planner

pytestmark = pytest.mark.service

COUNTS = (
    "SELECT COUNT(*) FROM users",
    "SELECT country, COUNT(*) FROM users GROUP BY country",
    "SELECT COUNT(*), SUM(amount) FROM events",
)


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


def test_planning(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    console = Console(width=120, record=True)
    fronts: list[planning.TimedFront] = []
    with planning.planner(shared / "corpora", fronts) as fresh:
        warm = fresh()
        missed = {sql: planning.seconds(partial(planning.miss, fresh, sql)) for sql in COUNTS}
        for sql in COUNTS:
            planning.planned(warm, sql)
        own = [planning.rewriting(fresh, fronts[0], sql) for sql in COUNTS]
        hits = [planning.seconds(partial(planning.hit, warm, sql)) for sql in COUNTS]
        bound = planning.rebinding(fresh, fronts[0], planning.PREPARED[0])
        asked = [(sql, dates) for sql in planning.PREPARED for dates in planning.DATES[:2]]
        substituted = [emitted(warm, sql, dates) for sql, dates in asked]
        monkeypatch.setattr("dpproxy.engine.planner._substituted", lambda *_: None)
        anew = fresh()
        assert substituted == [emitted(anew, sql, dates) for sql, dates in asked]
    planning.report(missed, own, bound, hits, console)
    assert fronts[0].spent > 0
    assert min(own) > 0
    assert min(bound) > 0
    assert min(hits) < max(missed.values())
    assert "3 queries" in console.export_text()
