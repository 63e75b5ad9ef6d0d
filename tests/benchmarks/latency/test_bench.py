"""`make bench`, small: every part of it over 2,000 rows, once, down to its tables."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console

from benchmarks.latency.memory import footprint
from benchmarks.latency.overhead import WAYS, overhead
from benchmarks.latency.rate import SCRIPTS, rates
from benchmarks.latency.results import Results, tables, targets
from benchmarks.latency.stages import ALL, KINDS, profile

pytestmark = pytest.mark.service

ROWS = 2_000


def test_every_part_of_it(tmp_path: Path) -> None:
    found = Results(
        "tiny",
        overhead(tmp_path, "DuckDB", ROWS, 1),
        rates(tmp_path, 1, ROWS, 1, connections=(8,)),
        footprint(tmp_path, ROWS, 2),
        profile(tmp_path, ROWS, 1),
        0.0,
    )
    assert all(one.median(way) > 0 for one in found.times for way in WAYS)
    assert [rate.what for rate in found.rates] == list(SCRIPTS)
    assert found.rates[-1].speed.rate > 0, "a busy machine may answer no private statement within the second"
    assert all(size > 0 for size in found.memory.start.values())
    assert all(found.stages[kind][ALL] > 0 for kind in KINDS)
    assert found.stages["replay"]["fetch"] == 0 < found.stages["cold"]["fetch"]
    console = Console(width=300, record=True)
    for table in tables(found):
        console.print(table)
    shown = console.export_text()
    assert all(one.question in shown for one in found.times)
    assert any(target.met is not None for target in targets(found))
