"""Reservations and settlements, for a third of a second each."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.latency import ledger

pytestmark = pytest.mark.service


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
