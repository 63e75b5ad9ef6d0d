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
            split_query(statement.body, policy, (), constant)
    except Refusal as refusal:
        return refusal
    return None


def constant(_: int, sql: str) -> Sequence[Parameter]:
    """The constants that hints are written with."""
    raise Refusal("PV020", f"not evaluated here: {sql}")


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


def test_a_class_of_the_parser_is_found_in_a_message() -> None:
    assert foreign(Refusal("PV020", "AtTimeZone is not allowed"), "SELECT 1") == ["AtTimeZone"]
    assert foreign(Refusal("PV016", "AVG(a0) needs finite bounds"), "SELECT AVG(x) FROM t") == ["a0"]
    assert not foreign(
        Refusal("PV016", "AVG(a0) needs finite bounds", hint="Add `a0 = 1`."), "SELECT AVG(a0) FROM t"
    )
