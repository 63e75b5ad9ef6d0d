"""Planning three queries."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks.latency import planning

pytestmark = pytest.mark.service

COUNTS = (
    "SELECT COUNT(*) FROM users",
    "SELECT country, COUNT(*) FROM users GROUP BY country",
    "SELECT COUNT(*), SUM(amount) FROM events",
)


def test_planning(shared: Path) -> None:
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
    planning.report(missed, own, bound, hits, console)
    assert fronts[0].spent > 0
    assert min(own) > 0
    assert min(bound) > 0
    assert min(hits) < max(missed.values())
    assert "3 queries" in console.export_text()
