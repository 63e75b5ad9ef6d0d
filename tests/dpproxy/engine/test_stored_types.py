"""Columns whose stored type is no type of PostgreSQL's, and numbers that an engine has in another type."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.dpproxy.on_both import ENGINES, service_on

pytestmark = pytest.mark.service

POLICY = """
[backend]
url = "{}"
[privacy]
epsilon_per = 8
query_information = 8
[budget]
mode = "track"
[tables.people]
privacy_unit = "id"
[tables.visits]
privacy_unit_path = ["person -> people.id"]
[tables.moments]
public = true
"""
PEOPLE = [
    "CREATE TABLE people (id BIGINT PRIMARY KEY)",
    "INSERT INTO people SELECT n FROM generate_series(1, 3000) AS s (n)",
]
NUMBERS = [
    *PEOPLE,
    "CREATE TABLE visits (person BIGINT, i INTEGER, m NUMERIC(5, 2), r REAL, f DOUBLE PRECISION)",
    "INSERT INTO visits SELECT id, 2, 0.1, 0.1, 0.1 FROM people",
    "CREATE TABLE moments (k INTEGER)",
]
ANCIENT = [
    *PEOPLE,
    "CREATE TABLE visits (person BIGINT, i INTEGER, d DATE, ts TIMESTAMP, tz TIMESTAMPTZ, n NUMERIC(38, 0))",
    "INSERT INTO visits SELECT id, 2, '{0}', '{1}', '{2}', 1e30 FROM people",
    "CREATE TABLE moments (k INTEGER)",
]
SPELLINGS = {
    "duckdb": ("0044-03-15 (BC)", "0044-03-15 (BC) 10:00:00", "0044-03-15 (BC) 10:00:00+00"),
    "postgres": ("0044-03-15 BC", "0044-03-15 10:00:00 BC", "0044-03-15 10:00:00+00 BC"),
}
FAR = (
    "'294247-01-10', '2024-01-01', '290000-01-01', '290000-01-01'",
    "'290309-12-22 (BC) 00:00:00', 'infinity', 'infinity', 'infinity'",
    "NULL, make_timestamp_ns(-9223372036854775000), make_timestamp_ms(9200000000000000), NULL",
)
"""Times that another of the stored types does not hold."""
TIMES = [
    *PEOPLE,
    "CREATE TABLE visits (person BIGINT, ts TIMESTAMP, tns TIMESTAMP_NS, tms TIMESTAMP_MS, tss TIMESTAMP_S)",
    "INSERT INTO visits SELECT id, v.* FROM people, "
    "(SELECT TIMESTAMP '2024-01-01 10:00' AS a, a::TIMESTAMP_NS, a::TIMESTAMP_MS, a::TIMESTAMP_S) AS v",
    *(f"INSERT INTO visits SELECT 77, {row}" for row in FAR),
    "CREATE TABLE moments AS SELECT TIMESTAMP_NS '2024-01-01 10:00' AS tns, TIMESTAMP '2024-01-01 10:00' AS ts",
]


@pytest.mark.parametrize("engine", ENGINES)
def test_labels_of_reals_and_of_many_decimals_are_found_again(engine: str, tmp_path: Path) -> None:
    with service_on(engine, tmp_path, NUMBERS, POLICY) as service:
        for value, label in (
            ("r", "0.1"),
            ("m::real", "0.1"),
            ("f::real", "0.1"),
            ("NULLIF(r, 0.1)", "0.1"),
            ("r::numeric", "0.1"),
            ("1000000 * i / 7.0", "285714.28571428"),
            ("i / 3.0", "0.66666666"),
        ):
            sql = f"SELECT {value}, COUNT(*) FROM visits GROUP BY 1"
            ((found, counted),) = asyncio.run(service.ask("ann", sql)).rows
            assert str(found).startswith(label), sql
            assert abs(int(str(counted)) - 3000) < 30, sql
        both = "SELECT person, r AS x FROM visits UNION ALL SELECT person, i FROM visits"
        rows = asyncio.run(
            service.ask("ann", f"SELECT x, COUNT(*) FROM ({both}) q GROUP BY x ORDER BY x")
        ).rows
        assert [str(x) for x, _ in rows] == ["0.1", "2"]
        assert all(abs(int(str(counted)) - 3000) < 30 for _, counted in rows)


@pytest.mark.parametrize("selection", ["pruned", "sips"])
@pytest.mark.parametrize("engine", ENGINES)
def test_labels_of_any_size_and_age_are_read_back(engine: str, selection: str, tmp_path: Path) -> None:
    policy = POLICY.replace("[privacy]", f'[privacy]\npartition_selection = "{selection}"')
    rows = [statement.format(*SPELLINGS[engine]) for statement in ANCIENT]
    with service_on(engine, tmp_path, rows, policy) as service:
        for column, label in (
            ("d", "0044-03-15 BC"),
            ("ts", "0044-03-15 10:00:00 BC"),
            ("tz", "0044-03-15 10:00:00+00 BC"),
            ("n", None),
        ):
            named = asyncio.run(service.ask("ann", f"SELECT DISTINCT {column} FROM visits WHERE i > 1")).rows
            assert named == [(label,)], column
            ((found, total),) = asyncio.run(
                service.ask("ann", f"SELECT {column}, SUM(i) FROM visits GROUP BY 1")
            ).rows
            assert found == label
            assert abs(float(str(total)) - 6000) < 600, column


def test_no_stored_time_makes_a_query_fail(tmp_path: Path) -> None:
    with service_on("duckdb", tmp_path, TIMES, POLICY) as service:
        for rest in (
            "visits WHERE person = 77 AND tns > '2300-01-01'",
            "visits WHERE tns > ts + INTERVAL '300 years'",
            "visits WHERE tns BETWEEN '1500-01-01' AND '2500-01-01'",
            "visits WHERE NULLIF(tns, ts) IS NULL",
            "visits WHERE CASE WHEN person > 9 THEN tns ELSE ts END > tms",
            "visits WHERE COALESCE(tns, ts, tss, tms) > GREATEST(tms, tns, ts)",
            "visits WHERE ts IN (SELECT tns FROM moments)",
            "visits WHERE tns IN (SELECT ts FROM moments)",
            "visits v WHERE EXISTS (SELECT 1 FROM visits w WHERE w.person = v.person AND w.ts = v.tns)",
            "visits v JOIN visits w ON v.person = w.person AND v.tns = w.tss",
            "visits v JOIN moments p ON v.ts = p.tns",
            "(SELECT person, tns FROM visits UNION ALL SELECT person, ts FROM visits) q WHERE tns > '2000-01-01'",
            "(SELECT person, tns FROM visits EXCEPT SELECT person, ts FROM visits) q",
        ):
            asyncio.run(service.ask("ann", f"SELECT COUNT(*) FROM {rest}"))
        shown = asyncio.run(
            service.ask("ann", "SELECT to_char(tns, 'YYYY-MM'), COUNT(*) FROM visits GROUP BY 1")
        )
        assert [label for label, _ in shown.rows] == ["2024-01"]
