"""The benchmarks that have a make target of their own, small."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks.latency import availability, ledger, planning, relay
from benchmarks.scale import duckdb as scale

pytestmark = pytest.mark.service

COUNTS = ("SELECT COUNT(*) FROM users", "SELECT country, COUNT(*) FROM users GROUP BY country")


def needed(shared: Path, name: str) -> None:
    """Skips where a data set is missing."""
    if not (shared / "data" / f"{name}.parquet").exists():
        pytest.skip(f"DPPROXY_SHARED has no data set {name}")


def test_reserve_and_settle(tmp_path: Path) -> None:
    with ledger.ledgers(str(tmp_path), None) as opened:
        runs = [ledger.measured(one, where, 2, 3, 0.3) for where, one in opened.items()]
        for run in runs:
            names = [f"analyst:{run.where} 2 {number} of 3" for number in range(3)]
            left = sum(opened[run.where].get_budget(name).information for name in names)
            assert 3 * 10**15 - left == len(run.times) * 7 * 10**6 > 0, (
                "each query was settled, none was lost"
            )
            assert 0 < run.quantile(0.5) <= run.quantile(0.99)
    assert ledger.flush_milliseconds(str(tmp_path), 5) > 0


def test_the_relay_beside_the_front(tmp_path: Path) -> None:
    with relay.served(tmp_path, 1) as (pid, port):
        with relay.both(tmp_path, port) as places:
            table, share = relay.speeds(tmp_path, places, [(2, "simple")], 1)
        before, after = relay.idle_sessions(pid, port, 3)
    assert table.row_count == len(places)
    assert share > 0
    assert min(before, after) > 10e6


def test_planning(shared: Path) -> None:
    console = Console(width=120, record=True)
    with planning.planner(shared / "corpora") as fresh:
        warm = fresh()
        missed = {sql: planning.seconds(partial(planning.miss, fresh, sql)) for sql in COUNTS}
        for sql in COUNTS:
            planning.planned(warm, sql)
        hits = [planning.seconds(partial(planning.hit, warm, sql)) for sql in COUNTS]
    planning.report(missed, list(missed.values()), hits, console)
    assert min(hits) < max(missed.values())
    assert "2 queries" in console.export_text()


def test_a_large_count_in_a_process(shared: Path) -> None:
    needed(shared, "gowalla_checkins")
    seconds, gigabytes, rows = scale.measured(scale.TASKS[2])
    assert rows > 20
    assert 0 < gigabytes < 8
    assert seconds < 60


def test_a_bystander_is_answered_beside_an_attack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(availability, "SECONDS", 7)
    row = availability.measured("two GSSENCRequests at once, 4 times", tmp_path)
    plain, private, logins, health = row[2], row[4], row[5], row[6]
    assert all(one.startswith("0 of ") and not one.endswith(" 0") for one in (plain, private, logins, health))
    assert not row[-1].startswith("alive")
