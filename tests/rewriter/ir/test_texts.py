"""What is written directly is what sqlglot writes, to the letter."""

from __future__ import annotations

from contextlib import suppress

import pytest
from sqlglot import ParseError, exp, parse_one

from rewriter.ir.texts import fragment, sql_text
from rewriter.ir.trees import copied, select, walk
from rewriter.syntax.postgres_dialect import Reading
from rewriter.syntax.round_trip import _NAMES, _ONE_WAY, _said, spellings
from tests.rewriter.queries import ANSWERED

SHAPES = (
    'SELECT DISTINCT "order", "a b".c, t."E""e" FROM "order", "a b", s.t AS "select" FETCH FIRST 3 ROWS ONLY',
    "SELECT DISTINCT ON (a) x.*, (b).c FROM x ORDER BY a, b DESC NULLS LAST LIMIT 2 OFFSET 1",
    "WITH a (n) AS (VALUES (1), (2)) SELECT n FROM a AS z (m) JOIN LATERAL (SELECT 1) AS q ON TRUE",
    "SELECT a FROM t NATURAL JOIN u JOIN v USING (b) WHERE c IN (SELECT d FROM w) UNION ALL SELECT 'it''s'",
    "SELECT a::numeric(9, 2), b::text[], c::varchar(3), d::timestamptz, e::time, CAST(f / 2 AS decimal) FROM t",
    "SELECT 'two\nlines', E'\\\\x', date '2024-01-31', interval '1 day', x'ff' FROM t GROUP BY ROLLUP (a, b)",
    "SELECT COUNT(*) FILTER (WHERE a), SUM(b) OVER (PARTITION BY c ORDER BY d ROWS 1 PRECEDING), é, _1 FROM t",
    "SELECT CASE a WHEN 1 THEN b ELSE -c END, GREATEST(a, b), a IS NOT NULL, NOT (a OR b) AND c FROM ONLY t",
)


TREES = [parse_one(sql, dialect=Reading) for sql in (*SHAPES, *ANSWERED)]


@pytest.mark.parametrize("dialect", ["", "postgres", "duckdb", "spark"])
def test_texts_are_sqlglots(dialect: str) -> None:
    for tree in TREES:
        for pretty in (False, True):
            written = sql_text(copied(tree), dialect, pretty=pretty)
            assert written == tree.sql(dialect, pretty=pretty, comments=False)


def test_what_has_one_spelling_is_written_as_it_is() -> None:
    alone = [tree for tree in TREES if _ONE_WAY.issuperset(map(type, walk(tree)))]
    assert len(alone) > len(TREES) / 10
    for tree in alone:
        before = repr(tree)
        assert [*spellings(tree)] == [sql_text(_said(tree, enclosed=False), "postgres")]
        assert repr(tree) == before


@pytest.mark.parametrize("name", sorted(_NAMES))
def test_a_function_of_two_names_has_no_one_spelling(name: str) -> None:
    read = []
    for arguments in ("", "a", "a, b"):
        with suppress(ParseError):
            read += Reading().parse(f"SELECT {name}({arguments})")
    assert read
    for tree in read:
        assert tree is not None
        assert not _ONE_WAY.issuperset(map(type, walk(tree)))


def test_a_fragment_is_the_text_of_its_tree() -> None:
    for tree in TREES:
        whole = select("*", source=exp.Subquery(this=copied(tree), alias=exp.to_identifier("s")))
        part = fragment(copied(tree), "duckdb", pretty=True)
        parts = select("*", source=exp.Subquery(this=part, alias=exp.to_identifier("s")))
        assert sql_text(parts, "duckdb", pretty=True) == sql_text(whole, "duckdb", pretty=True)
