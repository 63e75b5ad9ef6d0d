"""`make accuracy`, small: a few questions of a small shop with one key, down to the page; the file of questions."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from benchmarks.accuracy import shop, tpch
from benchmarks.accuracy.asking import ask_all, truths
from benchmarks.accuracy.error import Answer, AnswerError, error_of, nothing
from benchmarks.accuracy.page import Part, plot, written
from benchmarks.accuracy.questions import Question, questions
from benchmarks.accuracy.times import QUESTIONS, times
from benchmarks.accuracy.times import written as times_written

TRUTH = Answer(["store", "n", "total"], [("a", 10, 100), (None, 20, None), ("c", 0, 50)])


def test_rows_are_matched_by_group_and_what_is_missing_counts_in_full() -> None:
    released = Answer(["store", "count", "sum"], [(None, "21", "7"), ("a", None, "110"), ("x", "1", "1")])
    found = error_of(released, TRUTH, ["store"])
    assert found is not None
    # n: NULL for "a", 5% for NULL's group, and nothing for "c", whose truth is 0; total: 10%, and "c" is missing.
    assert list(found.columns) == pytest.approx([0.525, 0.55])
    assert list(found.shown) == pytest.approx([0.05, 0.1])
    assert (found.released, found.true) == (2, 3)
    assert nothing(TRUTH, ["store"]) == AnswerError((1, 1), (1, 1), 0, 3)
    assert error_of(released, Answer(["n"], [(0,)])) is None


def test_group_columns_may_stand_anywhere() -> None:
    truth = Answer(["n", "week"], [(4, 1), (8, 2)])
    found = error_of(Answer(["n", "week"], [("9", "2"), ("4", "1")]), truth, ["week"])
    assert found is not None
    assert list(found.columns) == pytest.approx([0.0625])


def test_every_question_can_be_asked_of_the_bare_database(tmp_path: Path, sample_data: Path) -> None:
    file = tmp_path / "sample.duckdb"
    with duckdb.connect(file) as connection:
        connection.execute((sample_data / "schema.sql").read_text())
    asked = questions("sample")
    assert len({one.id for one in asked}) == len(asked) == 39
    for one in asked:
        columns = truths(file, [one])[one.id].columns
        assert set(one.keys) <= set(columns)
        assert one.before is None or len(one.before) in (0, len(columns) - len(one.keys))


@pytest.mark.service
def test_a_small_shop_down_to_the_page(tmp_path: Path) -> None:
    file, policy = tmp_path / "shop.duckdb", tmp_path / "shop.toml"
    shop.make(file, 3_000)
    policy.write_text(shop.POLICY)
    refused = Question("x", "single rows", "SELECT value FROM purchases", before=(), target=5)
    dear = Question("y", "customers", "SELECT COUNT(*) FROM customers", before=(1.5,), target=90, units=4)
    found = ask_all(file, policy, [*questions("shop")[:4], refused, dear], 1)
    assert [bool(one.refused) for one in found] == [False] * 4 + [True, False]
    assert found[0].middle[0] < 0.2
    assert (found[4].met, found[5].met, found[5].price) == (False, True, 4)
    part = Part("shop", "Shop", "Small.", found, 1)
    page = written(part, "a machine")
    assert "| rows by week |" in page
    assert "| customers | 1.5% |" in page
    assert "1 of 2 targets are met; not met: single rows." in page
    plot(tmp_path / "plots" / "shop.svg", part)
    assert (tmp_path / "plots" / "shop.svg").stat().st_size > 1000
    assert "Not measured: because" in written(Part("shop", "Shop", "Small.", why="because"), "a machine")


def test_tpch_s_queries_are_taken_by_number(tmp_path: Path) -> None:
    file = tmp_path / "queries.sql"
    file.write_text(";\n".join(f"SELECT {n}" for n in range(1, 23)))
    assert [one.sql for one in tpch.questions(file)][:3] == ["SELECT 1", "SELECT 4", "SELECT 5"]


@pytest.mark.service
def test_both_mechanisms_and_the_bare_database_are_timed(tmp_path: Path) -> None:
    found = times(tmp_path, 2_000, 1)
    assert [one.what for one in found] == [what for what, _ in QUESTIONS]
    assert all(min(one.clipped, one.capped, one.plain) > 0 for one in found)
    assert times_written(found, "a machine", 2_000).count("\n| ") == 1 + len(found)
