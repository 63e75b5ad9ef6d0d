"""Correlations and regressions over private rows, beside those of the bare rows; NULL where noise would decide."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from dpproxy.deployment.service import Service, configured
from rewriter.refusal import Refusal
from tests.dpproxy.engine.test_executor import Analyst

pytestmark = pytest.mark.service

SCHEMA = (
    "CREATE TABLE people (person_id BIGINT PRIMARY KEY, sort VARCHAR NOT NULL, age INTEGER, weight DOUBLE)",
    "CREATE TABLE visits (visit_id BIGINT PRIMARY KEY, person_id BIGINT NOT NULL REFERENCES people (person_id),"
    " hours DECIMAL(6, 2), paid DECIMAL(8, 2))",
    # Weight rises with age among the a, falls among the b, and has nothing to do with it among the c.
    "INSERT INTO people SELECT i, substr('abc', 1 + i % 3, 1), CASE WHEN i % 50 > 0 THEN 20 + i * 7 % 60 END,"
    " CASE i % 3 WHEN 0 THEN 1 WHEN 1 THEN -1 ELSE 0 END * (20 + i * 7 % 60) / 2 + 60 + i * 13 % 31"
    " FROM generate_series(1, 20000) AS r(i)",
    "INSERT INTO visits SELECT i, 1 + i % 20000, 1 + i % 9, 10 * (1 + i % 9) + i * 11 % 29"
    " FROM generate_series(1, 40000) AS r(i)",
)
POLICY = """
[backend]
url = "duckdb:///paired.duckdb"
[privacy]
epsilon_per = 8
query_information = 8
[budget]
mode = "track"
[tables.people]
privacy_unit = "person_id"
[tables.people.columns]
sort = { domain = ["a", "b", "c"] }
age = { bounds = [0, 100] }
weight = { bounds = [0, 150] }
[tables.visits]
privacy_unit_path = ["person_id -> people.person_id"]
"""
ALL = (
    "CORR(weight, age) AS corr, COVAR_POP(weight, age), COVAR_SAMP(weight, age), REGR_SLOPE(weight, age), "
    "REGR_INTERCEPT(weight, age), REGR_R2(weight, age), REGR_COUNT(weight, age), REGR_AVGX(weight, age), "
    "REGR_AVGY(weight, age)"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("paired")
    with duckdb.connect(folder / "paired.duckdb") as connection:
        for statement in SCHEMA:
            connection.execute(statement)
    (folder / "dpproxy.toml").write_text(POLICY)
    return folder


@pytest.fixture(scope="module")
def bare(folder: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(":memory:") as connection:
        for statement in SCHEMA:
            connection.execute(statement)
        yield connection


@pytest.fixture(scope="module")
def ann(folder: Path) -> Iterator[Analyst]:
    with Service.start(configured(folder / "dpproxy.toml"), alone=True) as service:
        yield Analyst(service, "ann")


@pytest.mark.parametrize("where", ["sort = 'a'", "sort = 'b'", "age > 40"])
def test_values(where: str, ann: Analyst, bare: duckdb.DuckDBPyConnection) -> None:
    sql = f"SELECT {ALL} FROM people WHERE {where}"
    (row,), (expected,) = ann.ask(sql), bare.execute(sql).fetchall()
    for shown, value in zip(row, expected, strict=True):
        assert float(shown) == pytest.approx(value, rel=0.05, abs=0.05)


def test_groups_and_conditions(ann: Analyst, bare: duckdb.DuckDBPyConnection) -> None:
    sql = (
        "SELECT sort, CORR(weight, age) AS r, CORR(weight, age) FILTER (WHERE age > 30) FROM people GROUP BY sort "
        "HAVING ABS(CORR(weight, age)) > 0.4 ORDER BY r DESC"
    )
    found, expected = ann.ask(sql), bare.execute(sql).fetchall()
    assert [row[0] for row in found] == ["a", "b"] == [row[0] for row in expected]
    for row, values in zip(found, expected, strict=True):
        assert [float(v) for v in row[1:]] == pytest.approx(values[1:], abs=0.05)
    assert "no interval is known for r" in ann.notices[0]


def test_rows_of_units_and_values_without_bounds(ann: Analyst, bare: duckdb.DuckDBPyConnection) -> None:
    sql = "SELECT CORR(paid, hours), REGR_SLOPE(paid, hours), REGR_R2(paid, hours), COVAR_SAMP(paid, hours) FROM visits"
    (row,), (expected,) = ann.ask(sql), bare.execute(sql).fetchall()
    assert [float(v) for v in row] == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize("rows", ["weight > 200", "person_id <= 10", "age = 50"])
def test_what_noise_would_decide_is_null(rows: str, ann: Analyst) -> None:
    sql = (
        "SELECT CORR(weight, age), REGR_SLOPE(weight, age), REGR_INTERCEPT(weight, age), REGR_R2(weight, age) "
        f"FROM people WHERE {rows}"
    )
    assert ann.ask(sql) == [(None,) * 4]
    assert "regr_r2 (NULL where the noise would decide it: ask about more units" in ann.notices[0]


def test_a_value_with_itself_and_with_a_constant(ann: Analyst) -> None:
    ((same, constant),) = ann.ask("SELECT CORR(age, age), CORR(age, 5) FROM people")
    assert float(same) == pytest.approx(1)
    assert constant is None


def test_several_pairs(ann: Analyst) -> None:
    (row,) = ann.ask(
        "SELECT CORR(weight, age), CORR(weight, weight + age), CORR(age, weight - age), CORR(age, 2 * weight) "
        "FROM people WHERE sort = 'a'"
    )
    assert all(-1 <= float(r) <= 1 for r in row)


def test_intervals(ann: Analyst) -> None:
    covariance = "COVAR_POP(weight, age)"
    sql = f"SELECT {covariance} AS c, dp_low({covariance}), dp_high({covariance}) FROM people"
    ((value, low, high),) = ann.ask(sql)
    assert float(low) < float(value) < float(high) < float(value) + 1
    with pytest.raises(Refusal) as refused:
        ann.ask("SELECT dp_low(REGR_SLOPE(weight, age)) FROM people")
    assert refused.value.code == "0A000"
    shown = ann.ask(
        "SELECT REGR_SLOPE(weight, age) AS s FROM people WHERE sort = 'a'", {"error_columns": "on"}
    )
    assert float(shown[0][0]) == pytest.approx(0.5, abs=0.05)
