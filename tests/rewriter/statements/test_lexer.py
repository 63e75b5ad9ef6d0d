"""PostgreSQL's tokens: what is cut here is cut there."""

from __future__ import annotations

import pytest
from sqlglot import exp

from rewriter.refusal import Refusal
from rewriter.statements.classify import classify
from rewriter.statements.lexer import TokenKind, is_one_command, pieces, tokens
from rewriter.syntax.parse import parse_query


@pytest.mark.parametrize(
    "hidden",
    [
        "SELECT E'a'\n'\\'' ; NOTIFY zz; --'",
        "SELECT E'a'--x\r\n --y'\n\t'\\'' ; NOTIFY zz; --'",
        "SELECT u&'a'\r'\\' ; NOTIFY zz; --'",
        "SELECT 1 #-- ' \n 2 ; NOTIFY zz; -- '",
        "SELECT 1 |/* ' */ 2 ; NOTIFY zz; -- '",
        "SELECT 1 -- '\r; NOTIFY zz; -- '",
        "SELECT 1 /*/* ' */*/ ; NOTIFY zz; -- '",
        "SELECT $é$ ' $é$ ; NOTIFY zz; -- '",
        "SELECT 1$a$ ' $a$ ; NOTIFY zz; -- '",
        "SELECT $1$$ ' $$ ; NOTIFY zz; -- '",
        "SELECT a$a$, '; $a$' ; NOTIFY zz",
        "SELECT 1.e5'x' ; NOTIFY zz",
        "SELECT '\\' ; NOTIFY zz; --'",
        'SELECT U&"a" UESCAPE \'"\' ; NOTIFY zz; --"',
    ],
)
def test_no_statement_hides_in_a_string(hidden: str) -> None:
    assert [piece.word for piece in pieces(hidden)] == ["SELECT", "NOTIFY"]
    with pytest.raises(Refusal):
        classify(hidden, set())
    assert not is_one_command(hidden)


@pytest.mark.parametrize(
    ("text", "number"),
    [("1_000", "1000"), ("0x1f", "31"), ("0O1_7", "15"), ("0b11", "3"), ("1_0.5e1", "10.5e1")],
)
def test_numbers_of_every_spelling_are_read(text: str, number: str) -> None:
    literal = parse_query(f"SELECT {text},'0x1f'").selects[0]
    assert literal == exp.Literal.number(number)


def test_a_number_too_long_in_decimals_is_refused() -> None:
    with pytest.raises(Refusal) as caught:
        parse_query("SELECT 1, 0xffffffffffffffff")
    assert (caught.value.code, caught.value.position) == ("22003", 11)


def test_types_of_pg_catalog_are_those_without_it() -> None:
    read = parse_query('SELECT a::pg_catalog.int8, b::pg_catalog.text[], c::pg_catalog."char"')
    assert read.sql("postgres") == (
        'SELECT CAST(a AS BIGINT), CAST(b AS TEXT[]), CAST(c AS pg_catalog."char")'
    )


@pytest.mark.parametrize("text", ["'", 'SELECT "a', "/* /* */", "$a$ $b$", "E'\\'", "U&'a'\n'"])
def test_what_is_not_closed_is_refused_at_its_place(text: str) -> None:
    with pytest.raises(Refusal) as caught:
        tokens(text)
    assert caught.value.code == "42601"
    assert caught.value.position is not None
    assert caught.value.hint


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0x1F 1_000 1.e5 .5e-3 1..5", ["0x1F", "1_000", "1.e5", ".5e-3", "1", "..", "5"]),
        ("a=-1 b->-1 c@-d", ["a", "=", "-", "1", "b", "->", "-", "1", "c", "@-", "d"]),
        ("x::int a:=b f(a=>1)", ["x", "::", "int", "a", ":=", "b", "f", "(", "a", "=>", "1", ")"]),
        ("$1,$2 $3::int", ["$1", ",", "$2", "$3", "::", "int"]),
        ("'it''s' \"a\"\"b\" $x$ $y$ $x$", ["'it''s'", '"a""b"', "$x$ $y$ $x$"]),
    ],
)
def test_tokens(text: str, expected: list[str]) -> None:
    found = tokens(text)
    assert [token.text for token in found] == expected
    assert all(text[token.start : token.end] == token.text for token in found)


def test_what_a_literal_says() -> None:
    found = tokens("'it''s' $x$ $y$ $x$ E'a' 'a'\n'b' U&'a' \"b\" c 1 $2")
    said = ["it's", " $y$ ", *[None] * 7]
    assert [token.value for token in found] == said
    assert [token.kind for token in found[2:5]] == [TokenKind.CODED] * 3


@pytest.mark.parametrize(
    "condition",
    [
        "user_id IN ($1,$2,$3)",
        "user_id = ANY (ARRAY[$1,$2,$3])",
        "user_id = $1::int AND user_id IN ($2,$3)",
        "job_title <> $$a,$b$$ AND user_id IN ($1,$2,$3)",
        "user_id=$1 AND country=$2 AND job_title=$3",
    ],
)
def test_parameters_without_blanks_between(condition: str) -> None:
    text = f"SELECT COUNT(*) FROM users WHERE {condition}"
    assert classify(text, {"users"}).verdict == "private"
    found = [one.name for one in parse_query(text).find_all(exp.Parameter)]
    assert sorted(found) == ["1", "2", "3"]
