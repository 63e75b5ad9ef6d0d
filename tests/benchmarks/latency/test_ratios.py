"""A statement beside its plain query."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.latency.ratios import WAYS, Ratios, grown, measured, missed, sample, written


def ratios(engine: str, name: str, backend: float) -> Ratios:
    return Ratios(engine, name, {**dict.fromkeys(WAYS, 0.1), "backend": backend})


def test_targets_and_growth() -> None:
    before = [ratios("DuckDB", "few", 0.1), ratios("DuckDB", "many", 0.3), ratios("PostgreSQL", "few", 0.5)]
    page = written(sample(), before, 5, "a machine")
    assert "- DuckDB: the median of the ratios is 2.0, the largest 3.0" in page
    assert missed(before) == ["PostgreSQL: the median of the ratios is 5.0, more than 3"]
    assert grown(page, before) == []
    now = [ratios("DuckDB", "few", 0.12), ratios("DuckDB", "many", 0.9), ratios("DuckDB", "new", 0.1)]
    assert missed(now) == ["DuckDB: many takes 9.0 times the plain query, more than 8"]
    assert grown(page, now) == ["DuckDB: many took 3.0 times the plain query, now 9.0"]


def test_ratios_are_to_ten_milliseconds_at_least() -> None:
    assert Ratios("DuckDB", "quick", {"plain": 0.001, "backend": 0.02}).ratio("backend") == 2


@pytest.mark.service
def test_a_statement_is_timed_in_every_way(tmp_path: Path) -> None:
    (found,) = measured(sample(), tmp_path, "DuckDB", 1, ["sales by age"])
    assert set(found.seconds) == set(WAYS)
    assert found.seconds["replay"] < found.seconds["cold"]
