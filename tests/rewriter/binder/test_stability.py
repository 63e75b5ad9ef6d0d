"""Removing one unit changes at most delta0 groups, each by at most tau, and all in one direction."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import psycopg
import pytest

from rewriter.ir.measure import Count
from rewriter.logical.plan import AggregateNode
from rewriter.logical.split import split_query
from tests.rewriter.conftest import load_duckdb
from tests.rewriter.engine import cells_of, counts, histogram, written
from tests.rewriter.queries import ANSWERED, TRUNCATED
from tests.rewriter.shop import OUTLIER, POLICY, rows, without

pytestmark = pytest.mark.service

REMOVED = (OUTLIER, 1, 17, 26, 42, 77, 119)


@pytest.fixture(scope="module")
def neighbours() -> Iterator[dict[int, duckdb.DuckDBPyConnection]]:
    databases = {user: load_duckdb(without(rows(), user)) for user in REMOVED}
    yield databases
    for database in databases.values():
        database.close()


@pytest.mark.parametrize("sql", ANSWERED + TRUNCATED)
def test_one_unit_moves_no_more_than_the_calculus_says(
    sql: str,
    backend: duckdb.DuckDBPyConnection,
    neighbours: dict[int, duckdb.DuckDBPyConnection],
    postgres: psycopg.Connection,
) -> None:
    for node in split_query(sql, POLICY).nodes:
        assert isinstance(node, AggregateNode)
        cells = cells_of(node, postgres)
        query = written(node, cells)
        whole = counts(query, len(node.keys), backend, cells)
        nothing = (0,) * len(node.measures)
        for database in neighbours.values():
            fewer = counts(query, len(node.keys), database, cells)
            moved = {
                key: tuple(
                    a - b for a, b in zip(whole.get(key, nothing), fewer.get(key, nothing), strict=True)
                )
                for key in whole.keys() | fewer.keys()
            }
            for number, measure in enumerate(node.measures):
                assert isinstance(measure, Count)
                differences = [m[number] for m in moved.values() if m[number]]
                assert all(0 < d <= measure.tau for d in differences)
                assert node.bound.value is None or len(differences) <= node.bound.value


def test_an_enforced_bound_holds_for_data_that_break_the_declaration(
    backend: duckdb.DuckDBPyConnection, neighbours: dict[int, duckdb.DuckDBPyConnection]
) -> None:
    node = split_query("SELECT device, COUNT(*) FROM events GROUP BY device", POLICY).nodes[0]
    assert isinstance(node, AggregateNode)
    assert node.bound.value == 3
    assert node.bound.enforce
    row = backend.execute(f"SELECT COUNT(DISTINCT device) FROM events WHERE user_id = {OUTLIER}").fetchone()
    assert row is not None
    assert row[0] > 3, "the outlier breaks the declaration"
    whole, fewer = histogram(node, backend, None), histogram(node, neighbours[OUTLIER], None)
    assert len([k for k in whole if whole[k] != fewer.get(k)]) == 3


def test_of_cells_that_are_one_value_in_the_backend_only_one_counts(
    backend: duckdb.DuckDBPyConnection, postgres: psycopg.Connection
) -> None:
    sql = "SELECT CASE WHEN user_id > 9 THEN 0.00000000001 ELSE 0.00000000002 END, COUNT(*) FROM users GROUP BY 1"
    node = split_query(sql, POLICY).nodes[0]
    assert isinstance(node, AggregateNode)
    assert cells_of(node, postgres) is None, "a number that the backend cannot hold makes no known domain"
    counts = histogram(node, backend, (("0.00000000001",), ("0.00000000002",)))
    assert counts == {("0.00000000001",): (120,), ("0.00000000002",): (0,)}
