"""One method makes a text of what is none, and holds the guard: nothing else in rewriter/emit casts a value to one."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlglot import exp

import rewriter.emit
from rewriter.emit.engines.base import Engine
from rewriter.emit.engines.duckdb import DUCKDB
from rewriter.emit.engines.neutral import NEUTRAL
from rewriter.emit.engines.postgres import POSTGRES
from rewriter.emit.engines.spark import SPARK
from rewriter.ir.types import UNTOLD, Type
from rewriter.logical.split import split_query
from rewriter.policy import Column, Policy, Table
from rewriter.refusal import Refusal

PLACES = {
    # `joinable` casts what is a client's expression still.
    "base.py": {"printed", "secret", "cells", "joinable"},
    # The neutral dialect is run nowhere.
    "neutral.py": {"text"},
    # The lengths of texts, and the elements of a list that was bounded where it is scanned.
    "histogram.py": {"hashed"},
    "measures.py": {"item_of"},
    "duckdb.py": {"listed", "braced"},
}
"""The functions that write a type of texts: the constructor itself, parameters, lengths and constants."""
NAMES = {"TEXT", "VARCHAR", "TEXT[]", "VARCHAR[]", "STRING"}


def casting(tree: ast.AST, function: str = "") -> Iterator[tuple[str, int]]:
    """The functions in which a type of texts is the argument of a call, or the engine's own is."""
    for node in ast.iter_child_nodes(tree):
        inside = node.name if isinstance(node, ast.FunctionDef) else function
        if isinstance(node, ast.Call):
            given = [*node.args, *(k.value for k in node.keywords)]
            named = any(isinstance(a, ast.Constant) and a.value in NAMES for a in given)
            own = any(isinstance(a, ast.Attribute) and a.attr == "texts" for a in given)
            if named or own:
                yield inside, node.lineno
        yield from casting(node, inside)


def test_one_method_casts_values_to_texts() -> None:
    found = [
        f"{path.name}:{line} in {function}"
        for path in sorted(Path(next(iter(rewriter.emit.__path__))).rglob("*.py"))
        for function, line in casting(ast.parse(path.read_text()))
        if function not in PLACES.get(path.name, ())
    ]
    assert not found


def test_the_reader_finds_casts() -> None:
    assert list(casting(ast.parse("def f(v): return cast(v, 'TEXT')"))) == [("f", 1)]


@pytest.mark.parametrize("engine", [POSTGRES, DUCKDB, SPARK], ids=lambda e: str(e.name))
def test_a_text_without_a_bound_is_refused(engine: Engine) -> None:
    for of in UNTOLD:
        with pytest.raises(Refusal, match="cannot be grouped by"):
            engine.printed(exp.column("x"), of)
    assert engine.printed(exp.column("x"), Type.JSON)


TABLE = Table(
    schema="public",
    name="odd",
    columns=(
        Column("id", "bigint"),
        Column("k", "integer"),
        *(Column(name, of) for name, of in (("j", "jsonb"), ("d", "json"), ("x", "xml"), ("js", "jsonb[]"))),
        *(Column(name, of) for name, of in (("b", "bytea"), ("i", "inet"), ("n", "numeric[]"))),
    ),
    public=False,
    backend_name=("odd",),
    max_rows_per_unit=5,
    privacy_unit="id",
)
POLICY = Policy({("public", "odd"): TABLE})
COMPARING = (
    "SELECT {0}, count(*) FROM odd GROUP BY {0}",
    "SELECT count(DISTINCT {0}) FROM odd",
    "SELECT count(*) FROM (SELECT DISTINCT id, {0} FROM odd) x",
    "SELECT count(*) FROM (SELECT id, {0}, count(*) AS c FROM odd GROUP BY id, {0}) x",
    "SELECT count(*) FROM (SELECT id, count(DISTINCT {0}) AS c FROM odd GROUP BY id) x",
    "SELECT count(*) FROM (SELECT id, row_number() OVER (PARTITION BY id ORDER BY {0}) AS r FROM odd) x",
    "SELECT count(*) FROM (SELECT id, row_number() OVER (PARTITION BY id, {0} ORDER BY k) AS r FROM odd) x",
    "SELECT count(*) FROM (SELECT DISTINCT ON (id) id, k FROM odd ORDER BY id, {0}) x",
    "SELECT count(*) FROM (SELECT id, {0} FROM odd UNION SELECT id, {0} FROM odd) x",
    "SELECT count(*) FROM (SELECT * FROM odd UNION SELECT * FROM odd) x WHERE {0} IS NULL",
)


@pytest.mark.parametrize("name", ["j", "d", "x", "js"])
@pytest.mark.parametrize("sql", COMPARING)
def test_what_has_no_bound_is_not_compared(sql: str, name: str) -> None:
    with pytest.raises(Refusal, match="cannot be grouped by") as refused:
        split_query(sql.format(name), POLICY)
    assert refused.value.code == "PV020"
    assert refused.value.position is not None


@pytest.mark.parametrize("sql", COMPARING)
def test_arrays_of_json_are_refused_whatever_postgresql_says(sql: str) -> None:
    columns = (*TABLE.columns, Column("a", "json[]"))
    with pytest.raises(Refusal) as refused:
        split_query(sql.format("a"), Policy({("public", "odd"): replace(TABLE, columns=columns)}))
    assert refused.value.code == "PV020"


@pytest.mark.parametrize("name", ["b", "i", "n"])
@pytest.mark.parametrize("sql", COMPARING[:-1])
def test_what_has_a_bound_is_compared(sql: str, name: str) -> None:
    assert split_query(sql.format(name), POLICY).nodes


def test_only_engines_that_have_it_would_answer_the_least_bytes() -> None:
    for sql in (
        "SELECT count(*) FROM (SELECT id, min(b) AS m FROM odd GROUP BY id) x",
        "SELECT count(*) FROM (SELECT id, max(b) OVER (PARTITION BY id) AS m FROM odd) x",
    ):
        with pytest.raises(Refusal, match="of bytea is not allowed"):
            split_query(sql, POLICY)


def test_stored_values_of_any_length_are_bounded_where_they_are_scanned() -> None:
    for engine in (POSTGRES, DUCKDB, SPARK):
        for of in ("text", "bytea", "integer[]", "text[]", "character varying(100001)"):
            assert "CASE" in engine.sql(engine.scanned("s", Column("c", of))), (engine.name, of)
        for of in ("character varying(20)", "numeric(9,2)", "bigint", "inet"):
            assert "CASE" not in engine.sql(engine.scanned("s", Column("c", of))), (engine.name, of)
        assert "CASE" not in engine.sql(engine.scanned("s", Column("c", "text", sized=True)))
    assert NEUTRAL.sql(NEUTRAL.scanned("s", Column("c", "text"))) == '"s"."c"'
