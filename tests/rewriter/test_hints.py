"""The SQL in hints is answered when it is pasted; messages are free of the parser's and our own names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from rewriter.logical.split import split_query
from rewriter.policy import Policy
from rewriter.refusal import Refusal
from rewriter.scalar.typecheck import Parameter
from rewriter.statements.classify import Verdict, classify
from tests.rewriter.hints import BARE, MARKED, applied, foreign
from tests.rewriter.hospital import HOSPITAL, REFUSED
from tests.rewriter.shop import POLICY
from tests.rewriter.test_golden import FILES


def golden() -> Iterator[str]:
    for path in FILES:
        for block in path.read_text().strip().split("\n\n"):
            sql, outcome = block.splitlines()[:2]
            if outcome.startswith("REFUSED"):
                yield sql


CASES = [*((POLICY, sql) for sql in golden()), *((HOSPITAL, sql) for sql in REFUSED)]


def refused(sql: str, policy: Policy) -> Refusal | None:
    """Why a statement is refused, None for one that is answered."""
    try:
        statement = classify(sql, {name.lower() for _, name in policy.tables} | {"budget", "releases"})
        if statement.verdict is Verdict.PRIVATE:
            split_query(statement.body, policy, (), constant, rows)
    except Refusal as refusal:
        return refusal
    return None


def constant(_: int, sql: str) -> Sequence[Parameter]:
    """The constants that hints are written with."""
    if sql.startswith(("SELECT (SELECT MIN(", "SELECT (SELECT MAX(")):
        return [Parameter("bigint", "1")]
    raise Refusal("PV020", f"not evaluated here: {sql}")


def rows(_: int, sql: str) -> Sequence[Parameter]:
    """Two columns of the rows that the front would evaluate: a key and a number."""
    return [Parameter("bigint[]", "{1,2}", name="k0"), Parameter("numeric[]", "{1,2}", name="avg")]


def assert_answered(sql: str, policy: Policy, before: Refusal) -> None:
    """A hint is answered; one that corrects a name, or counts what a join has, may lead to the next hint."""
    refusal = refused(sql, policy)
    led = before.code in ("42703", "PV021") and refusal is not None and refusal.code != before.code
    again = list(applied(sql, refusal)) if led and refusal is not None else []
    assert refusal is None or again, f"{sql}\n{refusal.code} {refusal.message}\n{refusal.hint}"
    for statement in again:
        assert_answered(statement, policy, refusal or before)


@pytest.mark.parametrize(("policy", "sql"), CASES, ids=[sql for _, sql in CASES])
def test_the_hint_is_answered(policy: Policy, sql: str) -> None:
    refusal = refused(sql, policy)
    assert refusal is not None
    for statement in applied(sql, refusal):
        assert_answered(statement, policy, refusal)


@pytest.mark.parametrize(("policy", "sql"), CASES, ids=[sql for _, sql in CASES])
def test_sql_in_hints_is_marked(policy: Policy, sql: str) -> None:
    refusal = refused(sql, policy)
    assert refusal is not None
    assert not BARE.search(MARKED.sub("", refusal.hint or "")), refusal.hint


@pytest.mark.parametrize(("policy", "sql"), CASES, ids=[sql for _, sql in CASES])
def test_messages_name_nothing_of_the_parser(policy: Policy, sql: str) -> None:
    refusal = refused(sql, policy)
    assert refusal is not None
    assert not foreign(refusal, sql)


@pytest.mark.parametrize(
    ("sql", "median"),
    [
        (
            "SELECT MIN(CASE WHEN nr < .5 * n THEN x END) FROM (SELECT birth_year AS x, ROW_NUMBER() OVER (ORDER BY"
            " birth_year) AS nr FROM users) a, (SELECT COUNT(*) AS n FROM users) b",
            "SELECT PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY birth_year) FROM users",
        ),
        (
            "WITH t AS (SELECT country, birth_year AS y FROM users WHERE birth_year > 1950), o AS (SELECT country, y,"
            " COUNT(*) OVER (PARTITION BY country) AS n, ROW_NUMBER() OVER (PARTITION BY country ORDER BY y) AS nr"
            " FROM t) SELECT country, MIN(CASE WHEN nr < .5 * n THEN y END) FROM o GROUP BY country",
            "WITH t AS (SELECT country, birth_year AS y FROM users WHERE birth_year > 1950) SELECT country,"
            " PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY y) FROM t GROUP BY country",
        ),
        (
            "SELECT MIN(q) FROM (SELECT e.quantity AS q, RANK() OVER (PARTITION BY a.topic ORDER BY e.quantity DESC)"
            " AS nr FROM events e JOIN articles a ON a.article_id = e.article_id WHERE a.topic <> 'law') t",
            "SELECT a.topic, PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY LEAST(GREATEST(e.quantity, 0), 100)) FROM"
            " events AS e JOIN articles AS a ON a.article_id = e.article_id WHERE a.topic <> 'law' GROUP BY a.topic",
        ),
        (
            "SELECT d FROM (SELECT signup_date AS d, CUME_DIST() OVER (ORDER BY signup_date) AS c FROM users) t",
            None,
        ),
        (
            "SELECT MAX(d) FROM (SELECT signup_date AS d, NTILE(4) OVER (ORDER BY signup_date) AS q FROM users) t",
            "SELECT PERCENTILE_DISC(0.5) WITHIN GROUP (ORDER BY signup_date) FROM users",
        ),
        (
            "SELECT COUNT(*) FROM (SELECT country, COUNT(*) OVER (PARTITION BY country) AS n FROM users) t WHERE n > 3",
            "SELECT country, COUNT(DISTINCT user_id) FROM users GROUP BY country ORDER BY 2 DESC LIMIT 10",
        ),
        (
            "SELECT COUNT(*) FROM (SELECT ROW_NUMBER() OVER (ORDER BY job_title) AS n FROM users) t",
            "SELECT COUNT(*)",
        ),
    ],
)
def test_percentiles_by_rank_lead_to_percentile_cont(sql: str, median: str | None) -> None:
    refusal = refused(sql, POLICY)
    assert refusal is not None
    assert refusal.code in ("PV014", "PV018")
    statements = list(applied(sql, refusal))
    assert [s.startswith(median or "-") for s in statements] == ([True] if median else [])
    for statement in statements:
        assert_answered(statement, POLICY, refusal)


def test_a_class_of_the_parser_is_found_in_a_message() -> None:
    assert foreign(Refusal("PV020", "AtTimeZone is not allowed"), "SELECT 1") == ["AtTimeZone"]
    assert foreign(Refusal("PV016", "AVG(a0) needs finite bounds"), "SELECT AVG(x) FROM t") == ["a0"]
    assert not foreign(
        Refusal("PV016", "AVG(a0) needs finite bounds", hint="Add `a0 = 1`."), "SELECT AVG(a0) FROM t"
    )
