"""A newcomer's questions: the judge, on answers that were made up."""

from __future__ import annotations

import pytest

from benchmarks.accuracy.error import Answer
from benchmarks.accuracy.newcomer import cells, newcomers_questions, verdict
from dpproxy.reporting.rows import RowSet

TRUTH = Answer(["town", "n"], [("a", 100), ("b", 200)])
CUT = "the excess is not counted"
NOISE = "the noise may exceed the value in 1 of 2 rows of n"
EMPTY = "groups of fewer than about 279 units are not shown"


@pytest.mark.parametrize(
    ("rows", "said", "expected"),
    [
        ([("a", "104", "2"), ("b", "191", "2")], "", "useful"),
        ([("a", "130", "20"), ("b", "191", "20")], "", "useful"),
        ([("a", "70", "30"), ("b", "191", "30")], "", "rough"),
        ([("a", "20", "50"), ("b", "191", "20")], NOISE, "rough"),
        ([("a", "20", "50"), ("b", "191", "20")], "", "misleading"),
        ([("a", "20", "50"), ("b", "19", "20")], "a lower bound of the distinct count", "cut"),
        ([("a", "50", "10"), ("b", "191", "10")], "", "misleading"),
        ([("a", "50", "10"), ("b", "191", "10")], CUT, "cut"),
        ([("a", "50", None), ("b", "191", None)], "", "misleading"),
        ([("x", "90", "10"), ("b", "191", "10")], "", "misleading"),
        ([], EMPTY, "nothing"),
        ([], "", "misleading"),
        ([("a", None, None), ("b", None, None)], "n is NULL where the noise would swamp it", "nothing"),
    ],
)
def test_an_answer_is_judged(rows: list[tuple[str | None, ...]], said: str, expected: str) -> None:
    answer = RowSet(["town", "n", "n_stddev"], [], rows, [said])
    assert verdict(answer, TRUTH, cells(answer, TRUTH, ["town"]), ["town"]) == expected


def test_error_columns_stand_behind_all_others() -> None:
    truth = Answer(["n", "m", "m"], [(100, 10, 840)])
    names = ["n", "m", "m", "n_stddev", "m_low", "m_high", "m_low", "m_high"]
    answer = RowSet(names, [], [("98", "9", "71", "10", "-5", "12", "6", "100")], [])
    n, m, most = cells(answer, truth, [])
    assert n.low == pytest.approx(78.4)
    assert n.high == pytest.approx(117.6)
    assert n.close
    assert (m.low, m.high) == (-5, 12)
    assert m.swamped
    assert not m.outside
    assert most.far
    assert not most.swamped


def test_names_alone_are_judged_by_the_true_ones() -> None:
    for names, expected in (("ab", "useful"), ("ax", "misleading")):
        answer = RowSet(["town"], [], [(name,) for name in names], [])
        assert verdict(answer, TRUTH, [], ["town"]) == expected


def test_there_are_45_questions() -> None:
    asked = newcomers_questions()
    assert len({one.id for one in asked}) == len(asked) == 45
