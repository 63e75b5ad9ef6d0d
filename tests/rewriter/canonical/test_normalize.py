"""Spellings of one question have one text, and with it one release; other questions have another."""

from __future__ import annotations

import pytest

from rewriter.emit.histogram import node_text
from rewriter.logical.plan import AggregateNode
from rewriter.logical.split import split_query
from rewriter.scalar.typecheck import Parameter
from tests.rewriter.shop import POLICY

COUNT = "SELECT COUNT(*) FROM users WHERE "
SAME = (
    ("birth_year >= 1970", "1970 <= birth_year", "(birth_year >= (1970))", "birth_year >= '1970'::int"),
    ("country IN ('US', 'DE')", "country IN ('DE', 'US', 'DE')", "country in ('US'::text, ('DE'))"),
    ("country = 'US' AND birth_year > 1970", "birth_year > 1970 AND country = 'US'"),
    ("user_id IN (SELECT user_id FROM events)", "users.user_id IN (SELECT e.user_id FROM events AS e)"),
)
OTHER = (
    "birth_year > 1970",
    "birth_year >= 1971",
    "birth_year <= 1970",
    "country IN ('US', 'FR')",
    "country = 'US' OR birth_year > 1970",
    "user_id NOT IN (SELECT user_id FROM events)",
    "country = '1970'",
    "birth_year + 0.1 > 0.3",
    "birth_year > 0.2",
)


def text(sql: str, *parameters: Parameter) -> str:
    node = split_query(sql, POLICY, parameters).nodes[0]
    assert isinstance(node, AggregateNode)
    return node_text(node, POLICY, parameters)[0]


@pytest.mark.parametrize("spellings", SAME)
def test_spellings_of_one_question_are_one(spellings: tuple[str, ...]) -> None:
    assert len({text(COUNT + s) for s in spellings}) == 1


def test_different_questions_stay_apart() -> None:
    asked = [group[0] for group in SAME] + list(OTHER)
    assert len({text(COUNT + condition) for condition in asked}) == len(asked)


def test_a_parameter_is_its_constant() -> None:
    for typed in ("smallint", "integer", "bigint"):
        assert text(COUNT + "birth_year >= $1", Parameter(typed, "1970")) == text(
            COUNT + "birth_year >= 1970"
        )
    for typed in ("text", "character varying"):
        assert text(COUNT + "country = $1", Parameter(typed, "US")) == text(COUNT + "country = 'US'")


def test_an_equal_number_is_the_same_question_however_many_zeros_it_has() -> None:
    for condition in (
        "birth_year > $1",
        "$1 = birth_year",
        "birth_year IN ($1, 3)",
        "birth_year BETWEEN $1 AND 2000",
    ):
        written = text(COUNT + condition.replace("$1", "1950"))
        for value in ("1950", "1950.0", "1950.00"):
            assert text(COUNT + condition, Parameter("numeric", value)) == written
        assert text(COUNT + condition, Parameter("numeric", "1950.50")) != written


def test_a_number_that_divides_is_no_integer() -> None:
    divided = COUNT + "birth_year / ($1 + 1) > 390"
    asked = [text(divided, Parameter(typed, "4")) for typed in ("integer", "numeric")]
    assert asked[0] == text(COUNT + "birth_year / (4 + 1) > 390") != asked[1]


def test_what_is_only_shown_differently_is_the_same_question() -> None:
    shown = (
        "SELECT country, COUNT(*) FROM users GROUP BY country",
        "SELECT COUNT(DISTINCT u.user_id) AS n, u.country AS c FROM users u GROUP BY 2 ORDER BY 1 LIMIT 3",
        "SELECT * FROM (SELECT country, COUNT(user_id) AS n FROM users GROUP BY 1 HAVING COUNT(*) > 3) t",
    )
    assert len({text(sql) for sql in shown}) == 1


def test_a_question_is_the_same_wherever_it_stands() -> None:
    alone = "SELECT COUNT(*) FROM users u WHERE u.user_id IN (SELECT user_id FROM events) AND country = 'US'"
    inner = "SELECT user_id, MAX(quantity) AS n FROM events GROUP BY 1 HAVING MIN(ts) > '2024-01-02'"
    per_unit = f"SELECT COUNT(*) FROM ({inner}) x WHERE n > 3"
    for question in (alone, per_unit):
        placed = (
            f"SELECT (SELECT COUNT(*) FROM events), ({question})",
            f"SELECT topic, ({question}) FROM articles",
            f"SELECT * FROM (SELECT COUNT(DISTINCT user_id) FROM events) a, ({question}) b",
            f"WITH seen AS (SELECT * FROM events) {question}",
        )
        for sql in placed:
            node = split_query(sql, POLICY).nodes[-1]
            assert isinstance(node, AggregateNode)
            assert node_text(node, POLICY, ())[0] == text(question), sql
    cte = "WITH e AS (SELECT * FROM events WHERE quantity > 1) SELECT COUNT(*) FROM e"
    assert text(cte) == text("SELECT COUNT(*) FROM events WHERE quantity > 1")
