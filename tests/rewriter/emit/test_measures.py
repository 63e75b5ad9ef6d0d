"""Sums, averages, variances, quantiles, distinct items, running counts, groups alone: executed without noise on both
engines and compared with what PostgreSQL makes of the analyst's own text, where no clamp binds."""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import duckdb
import psycopg
import pytest

from rewriter.emit.engines.postgres import POSTGRES
from rewriter.emit.other_queries import CellQuery, QueryContext
from rewriter.logical.plan import AggregateNode
from rewriter.logical.split import split_query
from rewriter.policy import Column, Policy, Table
from tests.rewriter.bounded import MEASURED
from tests.rewriter.unnoised import BINS, Judge, Row, answer, on_duckdb, on_postgres

pytestmark = pytest.mark.service

QUERIES = tuple(Path(__file__).with_name("measured.sql").read_text().splitlines())
NEAR = tuple(Path(__file__).with_name("binned.sql").read_text().splitlines())
SPAN = 70 * 366 * 86_400


@pytest.fixture(params=["duckdb", "postgres"])
def judge(
    request: pytest.FixtureRequest, backend: duckdb.DuckDBPyConnection, postgres: psycopg.Connection
) -> Judge:
    return (
        on_duckdb(MEASURED, backend, postgres)
        if request.param == "duckdb"
        else on_postgres(MEASURED, postgres)
    )


def rounded(row: Row) -> Row:
    """A row with its fractions to ten digits, all integers of one type."""
    return tuple(_rounded(v) for v in row)


def _rounded(value: object) -> object:
    if isinstance(value, (Decimal, float)) and math.isfinite(value):
        return float(f"{float(value):.9g}")
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


@pytest.mark.parametrize("sql", QUERIES)
def test_the_answer_without_noise_is_postgresqls(
    sql: str, judge: Judge, postgres: psycopg.Connection
) -> None:
    truth = Counter(map(rounded, postgres.execute(sql.encode()).fetchall()))
    ours = Counter(map(rounded, answer(sql, judge)))
    assert truth
    assert not truth - ours
    extra = ours - truth
    assert all(any(v in (0, None) for v in row) for row in extra), "only empty cells may come on top"


@pytest.mark.parametrize("sql", NEAR)
def test_quantiles_are_in_the_bin_of_postgresqls(
    sql: str, judge: Judge, postgres: psycopg.Connection
) -> None:
    truth = sorted(postgres.execute(sql.encode()).fetchall(), key=str)
    ours = sorted(answer(sql, judge), key=str)
    assert len(ours) == len(truth) > 0
    for mine, theirs in zip(ours, truth, strict=True):
        for value, expected in zip(mine, theirs, strict=True):
            assert type(value) is type(expected)
            assert value == expected or _apart(value, expected)


def _apart(one: object, other: object) -> bool:
    """Whether two values are no further apart than a bin, or than neighbouring values that PostgreSQL interpolates."""
    if isinstance(one, dt.date) and isinstance(other, dt.date):
        return abs((one - other).total_seconds()) <= SPAN / BINS
    return abs(float(one) - float(other)) <= 0.6  # type: ignore[arg-type]


def test_regenerated_text_is_the_same_statement_to_postgresql(postgres: psycopg.Connection) -> None:
    for sql in (*QUERIES, *NEAR):
        assert _body(postgres, sql) in [
            _body(postgres, text) for text in split_query(sql, MEASURED).spellings()
        ], sql


def _body(postgres: psycopg.Connection, sql: str) -> str:
    with postgres.transaction(force_rollback=True):
        head = "CREATE FUNCTION pg_temp.f() RETURNS void LANGUAGE sql"
        postgres.execute(f"{head} BEGIN ATOMIC {sql}; END".encode())
        found = postgres.execute("SELECT pg_get_function_sqlbody('pg_temp.f'::regproc)", prepare=False)
        return str(next(iter(found))[0])


def test_a_stored_decimal_is_cut_to_its_bounds_and_nan_has_no_value(postgres: psycopg.Connection) -> None:
    column = Column("x", "numeric(9,2)", scale=2)
    table = Table("public", "t", (Column("unit", "bigint"), column), False, ("t",), privacy_unit="unit")
    policy = Policy({("public", "t"): table}, unit_clips=True)
    (node,) = split_query("SELECT SUM(x) FROM t WHERE x BETWEEN -5 AND 100", policy).nodes
    assert isinstance(node, AggregateNode)
    whole = replace(node, relation=replace(node.relation, conditions=()))
    rows = CellQuery(whole, QueryContext(policy, (), POSTGRES), 0).emitter.rows(whole, typed=False)
    values = "('-7'), ('-5.01'), ('-5'), ('0.29'), ('99.99'), ('100.01'), ('NaN'), (NULL)"
    with postgres.transaction(force_rollback=True):
        postgres.execute("CREATE TEMPORARY TABLE t (unit bigint DEFAULT 1, x numeric(9,2))")
        postgres.execute(f"INSERT INTO t (x) VALUES {values}".encode())
        found = postgres.execute(POSTGRES.sql(rows).encode()).fetchall()
    cents = [None if cell is None else 100 * cell for _, cell in found]
    assert cents == [-500, -500, -500, 29, 9999, 10000, None, None]
