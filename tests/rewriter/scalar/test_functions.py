"""Every function on private rows: both engines compute what PostgreSQL makes of the analyst's own expression.

Where PostgreSQL raises at a row, the answer is NULL. Where it answers and we do not, for values beyond the
documented limits, the golden file lists the rows.
DPPROXY_UPDATE_GOLDEN=1 writes it anew; read the difference before you commit it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import duckdb
import psycopg
import pytest
from sqlglot import exp, parse_one

from dpproxy.backends.duckdb.adapter import RAISING
from rewriter.binder.names import resolve
from rewriter.emit.engines.base import Engine
from rewriter.emit.engines.duckdb import DUCKDB
from rewriter.emit.engines.postgres import POSTGRES
from rewriter.ir.relation import leaf
from rewriter.logical.split import split_query
from rewriter.policy import Policy
from rewriter.refusal import Refusal
from rewriter.scalar.functions import FUNCTIONS, PARTS, check_row_local
from rewriter.scalar.typecheck import Parameter, check, type_of
from rewriter.syntax.postgres_dialect import Reading
from tests.rewriter.test_executed import _body
from tests.rewriter.values import BEYOND, COLUMNS, DUCKDB_TYPES, RELATION, ROWS, VALUES

HERE = Path(__file__).parent
EXPRESSIONS = tuple(HERE.joinpath("functions.sql").read_text().splitlines())
GOLDEN = HERE / "functions.txt"
OTHERS = {
    exp.Identifier,
    exp.Var,
    exp.If,
    exp.DataTypeParam,
    exp.Parameter,
    exp.Null,
    exp.Paren,
    exp.DateTrunc,
    # In test_searched.py, since no column here is an array.
    exp.ArrayContains,
}
Answers = dict[int, str | None]

JUDGE = """
CREATE FUNCTION judged(statement text, number bigint) RETURNS text LANGUAGE plpgsql AS $$
DECLARE answer text;
BEGIN
    EXECUTE statement INTO answer USING number;
    RETURN answer;
EXCEPTION WHEN OTHERS THEN RETURN NULL;
END $$
"""


@pytest.fixture(scope="module")
def judge(postgres: psycopg.Connection) -> Iterator[psycopg.Connection]:
    columns = ", ".join(f"{name} {type_name}" for name, type_name in COLUMNS.items())
    with postgres.transaction(force_rollback=True):
        postgres.execute(f"CREATE TABLE vals ({columns})".encode())
        places = ", ".join(f"%s::{type_name}" for type_name in COLUMNS.values())
        for row in (*ROWS, *BEYOND):
            postgres.execute(f"INSERT INTO vals VALUES ({places})".encode(), row)
        postgres.execute(JUDGE.encode())
        yield postgres


@pytest.fixture(scope="module")
def values() -> Iterator[duckdb.DuckDBPyConnection]:
    types = [DUCKDB_TYPES.get(type_name, type_name) for type_name in COLUMNS.values()]
    with duckdb.connect(config={"threads": "1"}) as connection:
        connection.execute("SET timezone = 'UTC'")
        connection.execute(f"SET disabled_optimizers = '{RAISING}'")
        columns = ", ".join(f"{name} {type_name}" for name, type_name in zip(COLUMNS, types, strict=True))
        connection.execute(f"CREATE TABLE vals ({columns})")
        places = ", ".join(f"CAST(? AS {type_name})" for type_name in types)
        for row in ROWS:
            spelt = [f"{v[:10]} (BC){v[10:-3]}" if v and v.endswith(" BC") else v for v in row]
            connection.execute(f"INSERT INTO vals VALUES ({places})", spelt)
        yield connection


def based(expression: str) -> exp.Expr:
    node = parse_one(f"SELECT {expression}", dialect=Reading).expressions[0]
    check_row_local(node)
    base = resolve(node, RELATION)
    check(base, RELATION, ())
    return base


def statement(base: exp.Expr, dialect: Engine) -> str:
    """The values of an expression as texts, in an engine's terms."""
    scan = exp.select(
        *(exp.alias_(dialect.scanned("s", column), column.name, quoted=True) for column in VALUES.columns)
    ).from_("vals AS s")
    value = exp.select(exp.alias_(exp.column("id", table="t0"), "id"))
    value = value.select(exp.alias_(dialect.expression(base, RELATION, ()), "v")).from_(scan.subquery("t0"))
    text = dialect.text(exp.column("v", table="q"), type_of(base, RELATION, ()))
    return dialect.sql(exp.select("q.id", text).from_(value.subquery("q")))


def truth(expression: str, base: exp.Expr, judge: psycopg.Connection) -> Answers:
    text = POSTGRES.sql(POSTGRES.text(exp.column("v", table="q"), type_of(base, RELATION, ())))
    query = f"SELECT {text} FROM (SELECT {expression} AS v FROM vals WHERE id = $1) AS q"
    rows = judge.execute("SELECT id, judged(%s, id) FROM vals", (query,)).fetchall()
    return {int(number): answer for number, answer in rows}


def shown(answer: str | None) -> str | None:
    return answer if answer is None or "." not in answer or "e" in answer else answer.rstrip("0").rstrip(".")


def outcome(expression: str, judge: psycopg.Connection, values: duckdb.DuckDBPyConnection) -> Iterator[str]:
    base = based(expression)
    expected = truth(expression, base, judge)
    found: dict[str, Answers] = {
        "postgres": dict(judge.execute(statement(base, POSTGRES).encode()).fetchall()),
        "duckdb": dict(values.execute(statement(base, DUCKDB)).fetchall()),
    }
    yield expression
    for engine, dialect in (("postgres", POSTGRES), ("duckdb", DUCKDB)):
        written = dialect.sql(dialect.expression(base, RELATION, ()))
        yield f"  {engine}: {' '.join(written.split())}"
        answers = found[engine]
        wrong = {n: (a, expected[n]) for n, a in answers.items() if a != expected[n]}
        missing = sorted(n for n, (a, _) in wrong.items() if a is None)
        others = {n: pair for n, pair in sorted(wrong.items()) if n not in missing}
        if missing:
            yield f"  {engine} is NULL for rows {missing}"
        if others:
            yield f"  {engine} DIFFERS: {others}"


@pytest.mark.service
def test_every_function_is_postgresqls(judge: psycopg.Connection, values: duckdb.DuckDBPyConnection) -> None:
    now = "\n\n".join("\n".join(outcome(e, judge, values)) for e in EXPRESSIONS) + "\n"
    if os.environ.get("DPPROXY_UPDATE_GOLDEN") == "1":
        GOLDEN.write_text(now)
    assert now == GOLDEN.read_text()
    assert "DIFFERS" not in now


def test_every_node_of_the_grammar_is_tried() -> None:
    tried = {type(part) for e in EXPRESSIONS for part in parse_one(e, dialect=Reading).walk()}
    assert {*PARTS, *(f.node for f in FUNCTIONS)} - OTHERS <= tried


@pytest.mark.service
def test_every_function_is_read_as_postgresql_reads_it(judge: psycopg.Connection) -> None:
    policy = Policy({("public", "vals"): VALUES})
    for expression in EXPRESSIONS:
        if " interval " in expression or expression.endswith("is unknown"):
            continue
        sql = f"SELECT COUNT(*) FROM vals WHERE ({expression}) IS NOT NULL"
        assert _body(judge, sql) in [_body(judge, text) for text in split_query(sql, policy).spellings()], (
            expression
        )


@pytest.mark.parametrize(("text", "allowed"), [("1 mon 2 days 03:00:00", True), ("2000 years", False)])
def test_an_interval_that_the_front_has_computed(text: str, allowed: bool) -> None:
    moved = exp.Add(this=leaf("t0", "ts"), expression=exp.Parameter(this=exp.Literal.number(1)))
    parameters = [Parameter("interval", text)]
    if not allowed:
        with pytest.raises(Refusal, match="at most 1000 years"):
            check(moved, RELATION, parameters)
        return
    check(moved, RELATION, parameters)
    for dialect, written in ((DUCKDB, "1 months 2 days 10800000000 microseconds"), (POSTGRES, text)):
        assert f"CAST('{written}' AS INTERVAL)" in dialect.sql(
            dialect.expression(moved, RELATION, parameters)
        )


def grown(times: int) -> str:
    expression = "f"
    for _ in range(times):
        expression = f"(case when {expression} * {expression} > 1 then f else 2 * f end)"
    return expression


@pytest.mark.statistical
def test_what_would_be_written_out_too_long_is_refused() -> None:
    assert len(statement(based(grown(3)), POSTGRES)) < 1_000_000
    with pytest.raises(Refusal, match="too long") as refused:
        based(grown(8))
    assert refused.value.code == "54001"
