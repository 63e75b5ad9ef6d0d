"""One question with one key over the same data has the histogram in Spark that it has in DuckDB, or is refused."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import duckdb
import numpy as np
import psycopg
import pytest

from dpproxy.backends import connect
from dpproxy.backends.base import Backend, Cancellation
from rewriter.emit.engines.duckdb import DUCKDB
from rewriter.emit.engines.spark import SPARK
from rewriter.emit.histogram import check_dialect, histogram_query
from rewriter.ir.measure import Count
from rewriter.logical.plan import AggregateNode
from rewriter.logical.split import split_query
from rewriter.refusal import Refusal
from tests.rewriter.bounded import MEASURED, TIGHT
from tests.rewriter.emit.test_engines import TIED, normal, rows_of
from tests.rewriter.emit.test_owners_sql import OUTSIDE, TABLE
from tests.rewriter.engine import cells_of
from tests.rewriter.queries import ANSWERED, TRUNCATED
from tests.spark_server import copied, owner, url, with_spark

pytestmark = pytest.mark.service

SUMS = (
    "SELECT action, SUM(amount), AVG(amount), VAR_POP(amount), COUNT(*) FROM events GROUP BY action",
    "SELECT SUM(quantity), SUM(amount) FROM events",
    "SELECT job_title, SUM(birth_year) FROM users GROUP BY job_title",
)
REFUSED = 12
"""At most: of the statements of the corpus."""


@pytest.fixture(scope="module")
def spark(backend: duckdb.DuckDBPyConnection) -> Iterator[Backend]:
    with owner() as session:
        copied(backend, session)
    opened = connect(url(), folder=Path(), memory="1GB", slots=1)
    yield opened
    opened.close()


def alike(value: object) -> object:
    """A value such that those that are equal are the same on both engines."""
    found = normal(int(value) if isinstance(value, np.integer) else value)
    if isinstance(found, (int, Decimal)):
        return format(Decimal(found).normalize(), "f")
    return found


@with_spark
@pytest.mark.parametrize("sql", [*ANSWERED, *TRUNCATED, *TIED, *SUMS])
def test_spark_has_the_histogram_of_duckdb(
    sql: str, backend: duckdb.DuckDBPyConnection, postgres: psycopg.Connection, spark: Backend
) -> None:
    policy = TIGHT if sql in SUMS else MEASURED
    for node in split_query(sql, policy).nodes:
        if not isinstance(node, AggregateNode) or not node.measures or type(node.measures[0]) is not Count:
            continue
        cells = cells_of(node, postgres)
        try:
            check_dialect(node, policy, (), SPARK)
        except Refusal as refusal:
            pytest.skip(str(refusal.message))
        query = histogram_query(node, policy, (), cells, node.bound.value, 20, SPARK)
        with spark.open() as slot:
            fetched = slot.fetch(query, "secret", Cancellation(), 10**6)
        mine = [tuple(map(alike, row)) for row in zip(*fetched.columns, strict=True)]
        theirs = [tuple(map(alike, row)) for row in rows_of(node, backend, DUCKDB, cells)]
        if cells is not None:
            mine, theirs = sorted(mine, key=str), sorted(theirs, key=str)
        assert mine == theirs


@pytest.mark.statistical
def test_few_statements_are_refused() -> None:
    refused = 0
    for sql in ANSWERED:
        for node in split_query(sql, MEASURED).nodes:
            if isinstance(node, AggregateNode):
                try:
                    check_dialect(node, MEASURED, (), SPARK)
                except Refusal:
                    refused += 1
    assert 0 < refused <= REFUSED


def test_the_rows_of_an_owners_table() -> None:
    written = " ".join(SPARK.sql(SPARK.rows(TABLE, ["consent", "id"], "s")).split())
    assert written.replace("( ", "(").replace(" )", ")") == (
        "(SELECT `id`, ((doc->>'c')::boolean) AS `consent` FROM `clinic`.`Patients` "
        'WHERE (gone IS NULL AND "Patients".ok)) AS s'
    )
    assert SPARK.closed().rows(TABLE, ["consent", "id"], "s").sql() == '"clinic"."Patients" AS s'


@pytest.mark.parametrize("text", OUTSIDE)
def test_nothing_leaves_its_parentheses(text: str) -> None:
    SPARK.called_functions("CASE WHEN f(a, (b)) THEN '--' END")
    with pytest.raises(ValueError, match=r"is not understood|has a "):
        SPARK.called_functions(text)
