"""RowCap: its noise by law, and what it leaves of a price."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from mechanisms.row_cap import KEPT, SHARE, RowCap
from tests.mechanisms.goodness import ALPHA, gaussian_law, p_value, stream

CAP = RowCap(Fraction(4), Fraction(8), 2, 1000)
"""rho 1/4, sigma^2 8."""


def test_the_noise_on_a_cap() -> None:
    """5,000 draws at level ALPHA; a deviation that is 10% off is refused."""
    root = stream("row cap")
    drawn = [CAP.drawn(root.child(i)) - CAP.most for i in range(5000)]
    assert CAP.sigma_squared == 8
    assert p_value(drawn, gaussian_law(8.0)) > ALPHA
    assert p_value(drawn, gaussian_law(8.0 * 1.21)) < ALPHA


def test_a_release_and_its_cap_cost_what_the_release_costs() -> None:
    assert 1 - Fraction(1, 10_000) < KEPT**2 + SHARE <= 1
    whole = CAP.information * CAP.eps_per**2 / 8
    assert CAP.rho == whole / 64
    assert RowCap(CAP.eps_per, CAP.information, 2, 1000, times=3).rho == whole / 192


def test_the_cap_may_be_passed_by_nothing() -> None:
    """No exception is made for an empty result: its number of rows would be told by it."""
    cap, root = RowCap(Fraction(1), Fraction(1), 1000, 1), stream("below")
    assert np.mean([cap.drawn(root.child(i)) < 0 for i in range(200)]) == pytest.approx(0.5, abs=0.2)


@pytest.mark.parametrize(
    "parameters",
    [
        (Fraction(0), Fraction(1), 1, 1, 1),
        (Fraction(1), Fraction(0), 1, 1, 1),
        (Fraction(1), 1.0, 1, 1, 1),
        (Fraction(1), Fraction(1), 0, 1, 1),
        (Fraction(1), Fraction(1), 1, 0, 1),
        (Fraction(1), Fraction(1), 1, 1, 0),
        (Fraction(1, 10**6), Fraction(1), 1 << 31, 1, 1),
    ],
)
def test_parameters_out_of_range(parameters: tuple[Fraction, Fraction, int, int, int]) -> None:
    with pytest.raises(ValueError, match="must"):
        RowCap(*parameters)
