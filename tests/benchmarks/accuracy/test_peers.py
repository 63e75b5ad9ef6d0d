"""Ours beside other libraries: the same guarantee, and a table whatever a library does."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from benchmarks.accuracy.peers import table
from benchmarks.accuracy.peers.table import (
    ANSWERS,
    ENVIRONMENTS,
    LENGTH,
    Row,
    eps_per,
    laplace_eps_per,
    rows,
    written,
)
from benchmarks.accuracy.peers.tasks import CAREFUL, COLUMNS, Released, errors
from budget.accounting import epsilon_limit, guarantee
from dpproxy.backends import sample


def test_so_many_answers_have_the_guarantee_that_the_others_get() -> None:
    half = Fraction(1, 2_000_000)
    for answers in ANSWERS:
        bounds = guarantee(Fraction(answers), Fraction(1), eps_per(answers), half, half)
        assert 0.99 < float(min(bound.epsilon for bound in bounds)) <= 1


@pytest.mark.parametrize(("answers", "information"), [(1, "0.048712"), (10, "4.871195")])
def test_an_account_with_laplace_noise_pays_for_as_many(answers: int, information: str) -> None:
    """Its second filter admits half an epsilon unit for each, and certifies the same to the third digit."""
    per = laplace_eps_per(answers), Fraction(1, 1_000_000)
    limit = epsilon_limit(Fraction(information), *per)
    assert Fraction(answers, 2) <= limit <= Fraction(answers, 2) * Fraction(1002, 1000)


@pytest.mark.service
def test_ours_is_near_the_truth_and_what_was_not_built_is_named(
    tmp_path: Path, sample_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table, "ANSWERS", (1,))
    monkeypatch.setattr(table, "OURS", 1)
    file = tmp_path / "sample.duckdb"
    sample.build(sample_data, file)
    ours, careful, *others = rows(tmp_path, file, sample_data / "dpproxy.toml", str(tmp_path / "none"), 1)
    assert set(ours.found) == set(careful.found) == {(1, task) for task in COLUMNS}
    assert (ours.bounds, careful.bounds) == (LENGTH, CAREFUL)
    assert min(ours.found[1, task][0] for task in COLUMNS) < 0.2, "not both lengths are far too long"
    assert max(careful.found[1, task][0] for task in COLUMNS) < 0.2, "noise of scale 10,000 and a small bias"
    assert [(one.library, one.why) for one in others] == [
        (name, "its environment was not built") for name in ENVIRONMENTS
    ]
    page = written([ours, careful, *others], "a machine")
    assert page.count("\n| dpproxy") == 2
    assert "tumult: its environment was not built." in page


def test_what_a_library_raises_stands_in_place_of_its_figures() -> None:
    done = Released("a library", "zCDP")

    def raising(task: str, answers: int) -> float:
        raise ValueError(f"{task} {answers}")

    done.ask("its own bounds", raising, 1, 2)
    assert not done.values
    assert done.without == "ValueError: total sales 1"
    done.ask("careful bounds", lambda *_: 2.0, 1, 2)
    assert errors(done.values["careful bounds"], dict.fromkeys(COLUMNS, 4.0))["total sales"] == [0.5, 0.5]


def test_what_is_lost_is_said_where_it_is_more_than_chance() -> None:
    near, far = [0.01] * 20, [0.5] * 20
    spread = [0.02 * n for n in range(20)]
    of_ours = [
        Row("dpproxy", LENGTH, {(1, "total sales"): far, (10, "total sales"): near}),
        Row("dpproxy", CAREFUL, {(1, "total sales"): spread}),
    ]
    page = written([*of_ours, Row("a library", CAREFUL, {(1, "total sales"): [0.1] * 20})], "a machine")
    assert "| a library | careful bounds | 20 | 10%, 10% to 10% (10%) |  |  |  |  |  |" in page
    assert "by themselves: no library has a smaller median than ours." in page
    assert (
        "for all: a library has a smaller median than ours for total sales, 1, none of them by more" in page
    )
    assert (
        "of others: a library has a smaller median than ours for total sales, 1, by more than chance" in page
    )
