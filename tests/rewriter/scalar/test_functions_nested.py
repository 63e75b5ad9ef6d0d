"""Functions within functions: no row makes an engine raise, and what PostgreSQL answers is what PostgreSQL means."""

from __future__ import annotations

import os
import random
import re

import duckdb
import psycopg
import pytest
from sqlglot import exp, parse_one

from rewriter.emit.engines.duckdb import DUCKDB
from rewriter.emit.engines.postgres import POSTGRES
from rewriter.ir.types import type_named
from rewriter.refusal import Refusal
from rewriter.scalar.typecheck import type_of
from rewriter.syntax.postgres_dialect import Reading
from tests.rewriter.scalar.test_functions import EXPRESSIONS, based, statement, truth
from tests.rewriter.scalar.test_functions import judge as judge
from tests.rewriter.scalar.test_functions import values as values
from tests.rewriter.values import COLUMNS, RELATION

pytestmark = pytest.mark.service

TRIED = int(os.environ.get("DPPROXY_NESTED", "90"))
"""How many expressions are tried; `DPPROXY_NESTED=5000` tries more."""
ABSORBING = re.compile(
    r"(?i)least|greatest|coalesce|case|concat|distinct|nullif| is | or | and |array|\bin\b|between"
)
"""What may answer although a part of it is NULL, as it is for us where PostgreSQL raises."""


def kinds() -> dict[str, list[str]]:
    """The expressions of each kind."""
    found: dict[str, list[str]] = {}
    for name, type_name in COLUMNS.items():
        found.setdefault(type_named(type_name).family, []).append(name)
    for expression in EXPRESSIONS:
        found.setdefault(type_of(based(expression), RELATION, ()).family, []).append(expression)
    return found


def nested(rng: random.Random, by_kind: dict[str, list[str]], deep: int) -> exp.Expr:
    """An expression in which columns are replaced by expressions of their kind."""

    def put(node: exp.Expr) -> exp.Expr:
        if deep == 0 or not isinstance(node, exp.Column) or rng.random() < 0.4:
            return node
        inner = parse_one(
            rng.choice(by_kind[type_of(based(node.name), RELATION, ()).family]), dialect=Reading
        )
        return exp.paren(inner.transform(lambda part: nested_column(part, rng, by_kind, deep)))

    return parse_one(rng.choice(EXPRESSIONS), dialect=Reading).transform(put)


def nested_column(node: exp.Expr, rng: random.Random, by_kind: dict[str, list[str]], deep: int) -> exp.Expr:
    if not isinstance(node, exp.Column) or rng.random() < 0.6 or deep < 2:
        return node
    inner = rng.choice(by_kind[type_of(based(node.name), RELATION, ()).family])
    return exp.paren(parse_one(inner, dialect=Reading))


@pytest.mark.parametrize("seed", range(3))
def test_no_row_makes_an_engine_raise(
    seed: int, judge: psycopg.Connection, values: duckdb.DuckDBPyConnection
) -> None:
    rng, by_kind = random.Random(seed), kinds()
    answered = 0
    for _ in range(TRIED // 3):
        expression = nested(rng, by_kind, 2).sql("postgres")
        try:
            base = based(expression)
        except Refusal:
            continue
        try:
            with judge.transaction():
                judge.execute(f"SELECT {expression} FROM vals LIMIT 0".encode())
        except psycopg.ProgrammingError:
            continue
        found: dict[int, str | None] = dict(judge.execute(statement(base, POSTGRES).encode()).fetchall())
        values.execute(statement(base, DUCKDB)).fetchall()
        answered += 1
        if ABSORBING.search(expression) is None:
            expected = truth(expression, base, judge)
            assert all(a == expected[n] for n, a in found.items() if a is not None), expression
    assert answered > TRIED // 10
