"""One of the large tasks on DuckDB, against what it may take."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.scale import duckdb

pytestmark = pytest.mark.service


def test_a_large_count_in_a_process(shared: Path) -> None:
    if not (shared / "data" / "gowalla_checkins.parquet").exists():
        pytest.skip("DPPROXY_SHARED has no data set gowalla_checkins")
    seconds, gigabytes, rows = duckdb.measured(duckdb.TASKS[2])
    assert rows > 20
    assert 0 < gigabytes < 8
    assert seconds < 60
