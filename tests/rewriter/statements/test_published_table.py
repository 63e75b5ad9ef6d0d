"""Statements on published answers: which are read, what they say, and that nothing else that writes is let through."""

from __future__ import annotations

import pytest

from rewriter.refusal import Refusal
from rewriter.statements.classify import Verdict, classify
from rewriter.statements.published_table import Publication, publication

QUERY = "SELECT town, COUNT(*) AS n FROM people GROUP BY town"


@pytest.mark.parametrize(
    ("text", "read"),
    [
        (f"CREATE TABLE published.a AS {QUERY}", Publication("create", ("a",), False, QUERY, 28)),
        (
            f"create table if not exists PUBLISHED.A as ({QUERY})",
            Publication("create", ("a",), True, QUERY, 43),
        ),
        (f"CREATE TABLE published.a AS {QUERY} WITH DATA;", Publication("create", ("a",), False, QUERY, 28)),
        (
            'CREATE TABLE "db"."published"."A b" AS (SELECT 1) UNION (SELECT 2)',
            Publication("create", ("A b",), False, "(SELECT 1) UNION (SELECT 2)", 39),
        ),
        ("DROP TABLE published.a", Publication("drop", ("a",))),
        (
            'drop table if exists "x"."published"."a", published.b, published.b cascade',
            Publication("drop", ("a", "b"), True),
        ),
        ("ALTER TABLE IF EXISTS published.a RENAME TO b", Publication("rename", ("a",), True, other="b")),
        ("COMMENT ON TABLE published.a IS 'it''s'", Publication("comment", ("a",), comment="it's")),
        ("COMMENT ON TABLE published.a IS $x$ it's $x$", Publication("comment", ("a",), comment=" it's ")),
        ("COMMENT ON TABLE published.a IS NULL", Publication("comment", ("a",))),
        ("COMMENT ON TABLE published.a IS $$$$", Publication("comment", ("a",))),
        (
            "COMMENT ON COLUMN db.published.a.\"B c\" IS 'x'",
            Publication("comment", ("a",), column="B c", comment="x"),
        ),
        ("CREATE SCHEMA IF NOT EXISTS published", Publication("schema", (), True)),
    ],
)
def test_what_is_read(text: str, read: Publication) -> None:
    assert publication(text) == read
    assert classify(text, {"people"}).verdict is Verdict.PUBLISH


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("CREATE TABLE published.a (n int)", "0A000"),
        (f"CREATE TABLE published.a (n) AS {QUERY}", "0A000"),
        (f"CREATE TABLE published.a AS {QUERY} WITH NO DATA", "0A000"),
        ("CREATE TABLE published.a AS EXECUTE s", "0A000"),
        ("CREATE TABLE published.a AS", "0A000"),
        ("CREATE TABLE published.a AS SELECT $1", "42P02"),
        (f"CREATE TEMP TABLE published.a AS {QUERY}", "0A000"),
        ("CREATE TABLE mine AS SELECT * FROM published.a", "0A000"),
        ("CREATE VIEW published.a AS SELECT 1", "0A000"),
        ("CREATE MATERIALIZED VIEW published.a AS SELECT 1", "0A000"),
        ("CREATE INDEX ON published.a (n)", "0A000"),
        ("CREATE SCHEMA published", "42P06"),
        ("DROP SCHEMA published CASCADE", "0A000"),
        ("DROP TABLE published.a, people", "0A000"),
        ("DROP TABLE people, published.a", "0A000"),
        ("ALTER TABLE published.a ADD COLUMN n int", "0A000"),
        ("ALTER TABLE published.a SET SCHEMA public", "0A000"),
        ("ALTER TABLE published.a RENAME TO b.c", "0A000"),
        ("ALTER TABLE published.a RENAME COLUMN n TO m", "0A000"),
        ("COMMENT ON SCHEMA published IS 'x'", "25006"),
        ("COMMENT ON TABLE published.a IS E'x'", "0A000"),
        ("COMMENT ON TABLE published.a IS 'x' 'y'", "0A000"),
        ("GRANT SELECT ON published.a TO bob", "0A000"),
        ("INSERT INTO published.a VALUES (1)", "0A000"),
        ("DELETE FROM published.a", "0A000"),
        ("TRUNCATE published.a", "0A000"),
        (f"CREATE TABLE published.{'a' * 64} AS {QUERY}", "42601"),
        ('CREATE TABLE U&"published".a AS SELECT 1', "25006"),
        ("CREATE TABLE publish.a AS SELECT 'published.a'", "25006"),
        ("DROP TABLE people", "25006"),
        ("CREATE TABLE published.a AS SELECT 1; DROP TABLE published.a", "42601"),
    ],
)
def test_what_is_refused(text: str, code: str) -> None:
    with pytest.raises(Refusal) as refused:
        classify(text, {"people"})
    assert refused.value.code == code


@pytest.mark.parametrize(
    "text",
    [
        "SELECT people FROM published.towns",
        'SELECT COUNT(*) AS people FROM "dpproxy"."published"."towns"',
        "EXPLAIN SELECT people FROM published.towns",
        "COPY (SELECT people FROM published.towns) TO STDOUT",
        "SELECT * FROM people JOIN published.towns USING (town)",
    ],
)
def test_what_reads_published_answers_is_the_fronts_whatever_it_names(text: str) -> None:
    assert classify(text, {"people"}).verdict is Verdict.RELAY
