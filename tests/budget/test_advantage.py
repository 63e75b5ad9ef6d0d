"""The decision advantage: above what a known attack reaches, and never beyond what a guarantee implies."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from budget.accounting import information_rho
from budget.advantage import decision_advantage

PER, DELTA = Fraction("0.15"), Fraction("1e-10")


@pytest.mark.parametrize("units", [1, 10, 100, 300, 1000, 3000])
def test_it_bounds_the_best_attack_on_gaussian_noise(units: int) -> None:
    """Whoever sees one Gaussian answer of this rho tells two cases apart with 2 Phi(sqrt(rho/2)) - 1."""
    rho = float(information_rho(PER, Fraction(units)))
    reached = math.erf(math.sqrt(rho / 2) / math.sqrt(2))
    found = decision_advantage(Fraction(units), Fraction(0), PER, DELTA)
    assert reached <= found <= min(1, 2 * reached)


def test_it_grows_with_units_calls_and_periods() -> None:
    least = decision_advantage(Fraction(30), Fraction(3), PER, DELTA)
    assert decision_advantage(Fraction(60), Fraction(3), PER, DELTA) > least
    assert decision_advantage(Fraction(30), Fraction(30), PER, Fraction("1e-4")) > least
    assert decision_advantage(Fraction(30), Fraction(3), PER, DELTA, 2) > least
    assert decision_advantage(Fraction(15), Fraction("1.5"), PER, DELTA, 2) == pytest.approx(least)


def test_nothing_spent_tells_nothing_and_much_tells_all() -> None:
    assert decision_advantage(Fraction(0), Fraction(0), PER, DELTA) == 0
    assert decision_advantage(Fraction(10**6), Fraction(0), PER, DELTA) == 1
    assert decision_advantage(Fraction(0), Fraction(1), PER, Fraction("0.25")) == pytest.approx(0.25)


@pytest.mark.parametrize("wrong", [(-1, 0, 1), (1, -1, 1), (1, 0, 0)])
def test_parameters_out_of_range(wrong: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="limits"):
        decision_advantage(Fraction(wrong[0]), Fraction(wrong[1]), PER, DELTA, wrong[2])
