"""The attack calculators against the figures of [AEA] section 8.3."""

from __future__ import annotations

from fractions import Fraction

import pytest

from budget.advice import (
    averaging_attack,
    close_count,
    differencing_budget,
    differencing_limit,
    unique_count_shown,
)

PER = Fraction("0.15")


def test_the_papers_figures() -> None:
    assert round(averaging_attack(PER, 30), 4) == 0.1155
    assert round(close_count(PER), 6) == 0.036806
    assert differencing_limit(PER) == 738
    assert differencing_budget(PER) == 2954
    assert round(unique_count_shown(Fraction(30), Fraction("1e-10"), PER), 11) == 2.58e-9
    assert round(1 / unique_count_shown(Fraction(30), Fraction("1e-10"), PER), -7) == 390_000_000


def test_more_noise_less_success() -> None:
    assert averaging_attack(PER / 2, 30) < averaging_attack(PER, 30) < averaging_attack(PER, 300)
    assert close_count(PER / 2) < close_count(PER)


def test_parameters_out_of_range() -> None:
    with pytest.raises(ValueError, match="above 0"):
        averaging_attack(Fraction(0), 30)
    with pytest.raises(ValueError, match="above 0"):
        close_count(Fraction(-1))
    with pytest.raises(ValueError, match="not negative"):
        unique_count_shown(Fraction(-1), Fraction(1), PER)
