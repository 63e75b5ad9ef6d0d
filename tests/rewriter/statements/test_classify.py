"""What a statement is, from its words alone: carriers, EXPLAIN in its forms, settings, strings."""

from __future__ import annotations

import pytest

from rewriter.refusal import Refusal
from rewriter.statements.classify import Verdict, classify
from rewriter.statements.lexer import MAX_NESTING, MAX_TEXT, pieces, substitute
from rewriter.statements.utility_statement import fetched, utility

QUERY = "SELECT country, COUNT(*) FROM users GROUP BY country"


def code(text: str) -> str:
    """The SQLSTATE of a refusal."""
    with pytest.raises(Refusal) as caught:
        classify(text, {"users"})
    return caught.value.code


@pytest.mark.parametrize(
    ("before", "after", "explain"),
    [
        ("", "", None),
        ("EXPLAIN ", "", "TEXT"),
        ("SELECT pg_typeof(n), pg_catalog.length('pg_class'), 'information_schema' FROM (", ") AS x", None),
        ("explain verbose ", "", "TEXT"),
        ("EXPLAIN (VERBOSE, COSTS OFF, FORMAT TEXT) ", "", "TEXT"),
        ("EXPLAIN (FORMAT JSON, ANALYZE false, COSTS false) ", "", "JSON"),
        ("EXPLAIN (ANALYZE false, BUFFERS) ", "", "TEXT"),
        ("EXPLAIN DECLARE c CURSOR FOR ", "", "TEXT"),
        ("DECLARE c CURSOR FOR ", "", None),
        ('DECLARE "a b" BINARY INSENSITIVE NO SCROLL CURSOR WITHOUT HOLD FOR ', "", None),
        ("COPY (", ") TO STDOUT", None),
        ("COPY /* ( */ ( ", " ) TO STDOUT WITH (FORMAT csv, DELIMITER ')')", None),
        ("PREPARE s AS ", "", None),
        ("PREPARE s (int, numeric(3, 2)) AS ", "", None),
    ],
)
def test_the_query_in_a_statement(before: str, after: str, explain: str | None) -> None:
    found = classify(before + QUERY + after, {"users"})
    whole = before.startswith("SELECT")
    assert (found.verdict, found.explain) == (Verdict.PRIVATE, explain)
    assert found.offset == (0 if whole else len(before))
    assert found.body.startswith(before + QUERY if whole else QUERY)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"EXPLAIN ANALYZE {QUERY}", "0A000"),
        (f"EXPLAIN (ANALYZE) {QUERY}", "0A000"),
        (f"EXPLAIN (ANALYSE true, FORMAT text) {QUERY}", "0A000"),
        (f"EXPLAIN (FORMAT YAML) {QUERY}", "0A000"),
        (f"EXPLAIN CREATE TABLE x AS {QUERY}", "0A000"),
        ("COPY users TO STDOUT", "0A000"),
        ("COPY users FROM STDIN", "0A000"),
        (f"COPY ({QUERY}) TO '/tmp/x'", "0A000"),
        (f"COPY ({QUERY}) TO PROGRAM 'x'", "0A000"),
        ("COPY (DELETE FROM users RETURNING 1) TO STDOUT", "0A000"),
        (f"DECLARE c {QUERY}", "0A000"),
        ("DECLARE c CURSOR FOR UPDATE users SET country = 'x'", "0A000"),
        (f'DECLARE U&"c" CURSOR FOR {QUERY}', "0A000"),
        (f"PREPARE s AS EXPLAIN {QUERY}", "0A000"),
        ("PREPARE s AS INSERT INTO users VALUES (1)", "0A000"),
        (f"SELECT 1; {QUERY}", "42601"),
        ("CREATE TEMP TABLE x (a int)", "25006"),
        ("DO $$ BEGIN END $$", "0A000"),
        ("SET SESSION AUTHORIZATION x", "42501"),
        ("SET LOCAL row_security = off", "42501"),
        ("SET client_encoding = 'LATIN1'", "0A000"),
        ("SET standard_conforming_strings = off", "0A000"),
        ("SELECT '" + "x" * MAX_TEXT + "' FROM users", "54000"),
        ("SELECT " + "(" * (MAX_NESTING + 1) + "1", "54001"),
        ("SELECT 'open", "42601"),
    ],
)
def test_what_no_analyst_may_send(text: str, expected: str) -> None:
    assert code(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        ";",
        "SELECT 'users'",
        "EXECUTE s(1)",
        "FETCH ALL FROM c",
        "DECLARE c CURSOR FOR SELECT 1",
        "SET standard_conforming_strings TO on",
        "SET TIME ZONE 'UTC'",
        "RESET ALL",
        "SET SESSION AUTHORIZATION DEFAULT",
        "RESET SESSION AUTHORIZATION",
        "SET LOCAL ROLE x",
        "RESET ROLE",
        "SELECT '" + "x" * (MAX_TEXT - 50) + "' FROM pg_type",
        "EXPLAIN ANALYZE SELECT 1",
        "BEGIN",
        "COPY articles TO STDOUT",
        "SELECT users.usename FROM pg_user AS users",
        "SELECT COUNT(*) FROM users, pg_catalog.pg_class",
        "SELECT COUNT(*) FROM users, information_schema.tables",
        "EXPLAIN SELECT COUNT(*) FROM users, pg_class",
        "COPY (SELECT COUNT(*) FROM users, pg_class) TO STDOUT",
    ],
)
def test_what_the_front_answers_by_itself(text: str) -> None:
    assert classify(text, {"users"}).verdict is Verdict.RELAY


@pytest.mark.parametrize(
    "text",
    [
        "EXECUTE",
        "EXECUTE s(1",
        "EXECUTE s 1",
        "PREPARE s",
        "COPY () TO STDOUT",
        "DECLARE c CURSOR FOR",
        "SELECT 1",
    ],
)
def test_what_is_no_carrier(text: str) -> None:
    assert utility(text) is None


def test_names_are_postgresqls() -> None:
    for written, name in (
        ("S\u00c9", "s\u00c9"),
        ('"S"', "S"),
        ('"a""b"', 'a"b'),
        ("text", "text"),
        ("_x$1", "_x$1"),
    ):
        found = utility(f"EXECUTE {written}")
        assert found is not None
        assert (found.name, found.written) == (name, written)
    assert utility(f"EXECUTE {'x' * 64}") is None
    assert fetched('MOVE ABSOLUTE 3 "C d" ;') == "C d"
    assert fetched("FETCH 3") is None


def test_arguments_are_cut_at_their_own_commas() -> None:
    found = utility("EXECUTE s( f(1, 2), ARRAY[1, 2] , 'a,b' , (SELECT 1, 2) )")
    assert found is not None
    assert found.arguments == ("f(1, 2)", "ARRAY[1, 2]", "'a,b'", "(SELECT 1, 2)")


def test_strings_are_cut_outside_of_quotes_and_comments() -> None:
    text = "SELECT ';', \"a;\", E'\\';', $$;$$ /* ; /* ; */ ; */ -- ;\n;; SELECT 2 ;"
    assert [text[one.offset :][: len(one.text)] for one in pieces(text)] == [one.text for one in pieces(text)]
    assert [one.word for one in pieces(text)] == ["SELECT", "SELECT"]
    assert pieces("; ;") == ()


def test_parameters_are_replaced_where_they_are_parameters() -> None:
    assert substitute("SELECT $1, '$1', $$ $1 $$, \"$1\", $12", {1: "x", 12: "y"}) == (
        "SELECT x, '$1', $$ $1 $$, \"$1\", y"
    )
    with pytest.raises(Refusal, match=r"no parameter \$2"):
        substitute("SELECT $1, $2", {1: "x"})
