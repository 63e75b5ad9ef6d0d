"""The coverage runner's table: what is counted where, and errors by engine."""

from __future__ import annotations

import pytest

from benchmarks.corpora.coverage import CorpusStatement, Outcome, asked, table
from benchmarks.corpora.errors import relative_error
from dpproxy.reporting.rows import RowSet
from dpproxy.server.local_client import ClientError

YES, NO = CorpusStatement("a", "SELECT 1", True), CorpusStatement("a", "SELECT 2", False)


def test_a_source_is_a_row() -> None:
    one = [Outcome(YES, rows=True, price=2, error=0.1), Outcome(NO, code="PV010"), Outcome(YES, code="PV016")]
    other = [Outcome(YES, rows=False, price=9), Outcome(NO, code="PV010"), Outcome(YES, code="PV016")]
    (row,) = table([one, other])
    assert row == ("a", "3", "1 / 0", "0 / 1", "1", "1", "PV016 1", "2", "10.00% / -")


def test_an_answer_is_counted_by_rows_price_and_error() -> None:
    notices = [f"KnownGauss, charged {n} information units and 0 calls; left" for n in (1, 2.5)]
    answer = RowSet(columns=["n"], oids=[20], rows=[("11",)], notices=notices)
    found = asked(lambda _: answer, YES, [("10",)])
    assert (found.kind, found.price, found.error) == ("with rows", 3.5, 0.1)
    empty = RowSet(columns=["n"], oids=[20], rows=[], notices=[])
    assert asked(lambda _: empty, YES, [("10",)]).kind == "empty"
    assert asked(lambda _: empty, YES, []).kind == "with rows"


def test_a_refusal_is_counted_by_what_the_corpus_expects() -> None:
    def refuse(_: str) -> RowSet:
        raise ClientError({"C": "PV010", "M": "no"})

    assert asked(refuse, NO, []).kind == "refused as they must be"
    assert asked(refuse, YES, []).kind == "refused otherwise"


def test_an_error_is_that_of_the_groups_which_are_in_both() -> None:
    truth = [("a", "10"), ("b", "5.0"), ("c", "7")]
    assert relative_error([("a", "11"), ("b", "6")], truth) == pytest.approx(0.15)
    assert relative_error([("a", "11"), ("b", "6"), ("d", "4")], truth) == pytest.approx(0.15)
    assert relative_error([("a", "x")], [("a", "x")]) is None
