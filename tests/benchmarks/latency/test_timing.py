"""The classifier of times finds what differs and nothing else, and the databases differ by one person."""

from __future__ import annotations

import random
from pathlib import Path

import duckdb
import pytest

from benchmarks.latency.timing import TABLES, advantage, policy, rows_of
from dpproxy.config.sections import load

pytestmark = pytest.mark.unit


def test_times_that_differ_are_told_apart_and_others_are_not() -> None:
    draw = random.Random(7).gauss
    low, high = [draw(100, 5) for _ in range(60)], [draw(130, 5) for _ in range(60)]
    found, least, _ = advantage(high, low)
    assert found > 0.9
    assert least > 0.7
    same = [
        advantage([draw(100, 5) for _ in range(60)], [draw(100, 5) for _ in range(60)]) for _ in range(40)
    ]
    assert abs(sum(found for found, _, _ in same) / 40) < 0.08
    # 40 intervals of level 95% miss 0 twice on average, more than 6 times with probability 0.3%.
    assert sum(not least <= 0 <= most for _, least, most in same) <= 6


def test_the_databases_differ_by_one_person(tmp_path: Path) -> None:
    with duckdb.connect() as connection:
        for present in (True, False):
            connection.execute(f"CREATE SCHEMA s{present}")
            connection.execute(f"SET schema = 's{present}'")
            for statement in rows_of("towns", present):
                connection.execute(statement)
        found = connection.execute(
            "SELECT DISTINCT person FROM (FROM strue.towns EXCEPT ALL FROM sfalse.towns)"
        )
        assert found.fetchall() == [(1,)]
    (tmp_path / "dpproxy.toml").write_text(policy("duckdb:///x.duckdb", "padded"))
    config = load(tmp_path / "dpproxy.toml")
    assert (config.privacy.tick.total_seconds(), set(config.tables)) == (0.75, set(TABLES))
