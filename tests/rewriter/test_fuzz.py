"""Random queries: only refusals are raised, stability holds for what is answered, answers are PostgreSQL's."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from random import Random

import duckdb
import psycopg
import pytest

from rewriter.cut import draft
from rewriter.draft import NodeDraft
from rewriter.refusal import Refusal
from tests.rewriter.conftest import load_duckdb
from tests.rewriter.engine import answer, cells_of, histogram
from tests.rewriter.grammar import Grammar
from tests.rewriter.shop import OUTLIER, POLICY, rows, without
from tests.rewriter.test_executed import _body

QUICK, LONG = 150, 5000
SEED = 20260101
QUOTIENT = re.compile(r"/ \d+\.")
"""A quotient of PostgreSQL's numeric, which has more digits than DuckDB's DOUBLE."""
RAISED = (psycopg.errors.DataError, psycopg.errors.FeatureNotSupported)
"""What PostgreSQL says about a value: the query gets that error from the front, or NULL for the row."""


@pytest.fixture(scope="module")
def neighbours() -> Iterator[list[duckdb.DuckDBPyConnection]]:
    databases = [load_duckdb(without(rows(), user)) for user in (OUTLIER, 26, 42)]
    yield databases
    for database in databases:
        database.close()


def checked(
    sql: str,
    backend: duckdb.DuckDBPyConnection,
    neighbours: list[duckdb.DuckDBPyConnection],
    postgres: psycopg.Connection,
) -> bool:
    """Whether `sql` is answered; asserts what holds of every answer."""
    try:
        truth: Counter[tuple[object, ...]] | None = Counter(postgres.execute(sql.encode()).fetchall())
    except RAISED:
        truth = None
    except psycopg.errors.ProgrammingError:
        return False
    try:
        drafted = draft(sql, POLICY)
    except Refusal:
        return False
    assert _body(postgres, sql) in [_body(postgres, text) for text in drafted.spellings], sql
    for node in drafted.nodes:
        assert isinstance(node, NodeDraft)
        check_stability(sql, node, backend, neighbours, postgres)
    truncated = any(n.bound.enforce for n in drafted.nodes if isinstance(n, NodeDraft))
    if truth is not None and not truncated and QUOTIENT.search(sql) is None:
        try:
            ours = Counter(answer(sql, backend, postgres))
        except RAISED:
            return True
        assert all(0 in row for row in truth - ours), sql
        assert all(0 in row for row in ours - truth), sql
    return True


def check_stability(
    sql: str,
    node: NodeDraft,
    backend: duckdb.DuckDBPyConnection,
    neighbours: list[duckdb.DuckDBPyConnection],
    postgres: psycopg.Connection,
) -> None:
    try:
        cells = cells_of(node, postgres)
    except RAISED:
        return
    whole, nothing = histogram(node, backend, cells), (0,) * len(node.measures)
    for database in neighbours:
        fewer = histogram(node, database, cells)
        for number, measure in enumerate(node.measures):
            moved = [
                whole.get(key, nothing)[number] - fewer.get(key, nothing)[number]
                for key in whole.keys() | fewer.keys()
            ]
            assert all(0 <= d <= measure.tau for d in moved), sql
            assert node.bound.value is None or sum(map(bool, moved)) <= node.bound.value, sql


def run(
    queries: int,
    seed: int,
    backend: duckdb.DuckDBPyConnection,
    neighbours: list[duckdb.DuckDBPyConnection],
    postgres: psycopg.Connection,
) -> int:
    grammar = Grammar(Random(seed))
    return sum(checked(grammar.query(), backend, neighbours, postgres) for _ in range(queries))


def test_random_queries(
    backend: duckdb.DuckDBPyConnection,
    neighbours: list[duckdb.DuckDBPyConnection],
    postgres: psycopg.Connection,
) -> None:
    assert run(QUICK, SEED, backend, neighbours, postgres) > QUICK // 8


@pytest.mark.slow
def test_many_random_queries(
    backend: duckdb.DuckDBPyConnection,
    neighbours: list[duckdb.DuckDBPyConnection],
    postgres: psycopg.Connection,
) -> None:
    assert run(LONG, SEED + 1, backend, neighbours, postgres) > LONG // 8
