"""Random queries: only refusals are raised, stability holds for what is answered, answers are PostgreSQL's."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from random import Random

import duckdb
import psycopg
import pytest

from rewriter.binder.contribution_bounds import groups_per_unit
from rewriter.ir.measure import Count
from rewriter.ir.parameter import Parameter, Unbound
from rewriter.ir.relation import Grouped, Relation, parts
from rewriter.logical.plan import AggregateNode, LogicalPlan
from rewriter.logical.split import split_query
from rewriter.refusal import Refusal
from tests.rewriter.conftest import load_duckdb
from tests.rewriter.engine import answer, cells_of, executed, histogram
from tests.rewriter.grammar import Grammar
from tests.rewriter.grammar_above import Wide
from tests.rewriter.shop import OUTLIER, POLICY, rows, without
from tests.rewriter.test_executed import _body

pytestmark = pytest.mark.service

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
    parameters: Sequence[Parameter] = (),
) -> bool:
    """Whether `sql` is answered; asserts what holds of every answer."""
    asked = f"{sql} {parameters}"
    try:
        truth: Counter[Row] | None = Counter(map(_row, executed(postgres, sql, parameters)))
    except RAISED:
        truth = None
    except psycopg.errors.ProgrammingError:
        return False
    unbound = [Unbound(p.type, None) for p in parameters]
    try:
        prepared, logical = split_query(sql, POLICY, unbound), split_query(sql, POLICY, parameters)
    except Refusal:
        return False
    assert _shape(prepared) == _shape(logical), asked
    if all(u.takes(p) for u, p in zip(unbound, parameters, strict=True)):
        assert prepared.nodes == logical.nodes, asked
    types = [p.type for p in parameters]
    assert _body(postgres, sql, types) in [_body(postgres, t, types) for t in logical.spellings()], asked
    for node in logical.nodes:
        assert isinstance(node, AggregateNode)
        check_stability(asked, node, backend, neighbours, postgres, parameters)
    truncated = any(
        n.bound.enforce or declared(n.relation) for n in logical.nodes if isinstance(n, AggregateNode)
    )
    if truth is not None and not truncated and QUOTIENT.search(sql) is None:
        try:
            ours = Counter(map(_row, answer(sql, backend, postgres, parameters)))
        except RAISED:
            return True
        assert all(0 in row for row in truth - ours), asked
        assert all(0 in row for row in ours - truth), asked
    return True


def declared(relation: Relation) -> bool:
    """Whether the number of a unit's rows rests on a declaration, which the outlier breaks."""
    grouped = [s.derived for s in relation.sources if isinstance(s.derived, Grouped)]
    if any(groups_per_unit(g.relation, tuple(k.value for k in g.keys)).enforce for g in grouped):
        return True
    return any(declared(r) for s in relation.sources if s.derived is not None for r in parts(s.derived))


Row = tuple[object, ...]


def _row(row: Row) -> Row:
    """A row whose NaN is equal to another."""
    return tuple("NaN" if value != value else value for value in row)


def _shape(logical: LogicalPlan) -> list[tuple[int, int]]:
    return [(len(n.keys), len(n.measures)) for n in logical.nodes if isinstance(n, AggregateNode)]


def check_stability(
    sql: str,
    node: AggregateNode,
    backend: duckdb.DuckDBPyConnection,
    neighbours: list[duckdb.DuckDBPyConnection],
    postgres: psycopg.Connection,
    parameters: Sequence[Parameter],
) -> None:
    try:
        cells = cells_of(node, postgres, parameters)
    except RAISED:
        return
    whole, nothing = histogram(node, backend, cells, parameters), (0,) * len(node.measures)
    for database in neighbours:
        fewer = histogram(node, database, cells, parameters)
        for number, measure in enumerate(node.measures):
            moved = [
                whole.get(key, nothing)[number] - fewer.get(key, nothing)[number]
                for key in whole.keys() | fewer.keys()
            ]
            assert isinstance(measure, Count)
            assert all(0 <= d <= measure.tau for d in moved), sql
            assert node.bound.value is None or sum(map(bool, moved)) <= node.bound.value, sql


def run(
    queries: int,
    seed: int,
    backend: duckdb.DuckDBPyConnection,
    neighbours: list[duckdb.DuckDBPyConnection],
    postgres: psycopg.Connection,
) -> int:
    """How many of `queries` are answered: half of them plain, half with parameters and all of SELECT."""
    plain, wide = Grammar(Random(seed)), Wide(Random(seed))
    answered = sum(checked(plain.query(), backend, neighbours, postgres) for _ in range(queries // 2))
    for _ in range(queries // 2):
        sql = wide.statement()
        answered += checked(sql, backend, neighbours, postgres, wide.parameters)
    return answered


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
