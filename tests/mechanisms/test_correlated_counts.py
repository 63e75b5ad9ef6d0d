"""CorrelatedCounts: what is shown, how its noise goes together, and the price in exact numbers."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from mechanisms.correlated_counts import CorrelatedCounts
from mechanisms.histogram import Counts, Histogram
from tests.mechanisms.goodness import ALPHA, Law, gaussian_law, p_value, power, stream

FEW = CorrelatedCounts(Fraction(2), cells=4, price=Fraction(1))
"""The variances are 6 and 3, so that the deviation of a count is 3/2 times that of one alone, and that is 1."""
WEEKS = CorrelatedCounts(Fraction(3, 20), cells=53, price=Fraction(1))
DRAWS = 3000


def residuals(mechanism: CorrelatedCounts, draws: int) -> Counts:
    """The noise on the shown counts, shape (draws, cells)."""
    counts, root = np.arange(mechanism.cells) + 7, stream("correlated", mechanism.cells)
    released = [
        mechanism.release(Histogram(counts, complete=True), root.child(i)).values for i in range(draws)
    ]
    return np.array(released, dtype=np.int64) - counts


def half_of_both(cells: float, units: float) -> Law[int]:
    """The law of (x + y)/2, halves to even, of two discrete Gaussians of these variances."""
    law: dict[int, float] = defaultdict(float)
    for x, p in gaussian_law(cells).items():
        for y, q in gaussian_law(units).items():
            law[round((x + y) / 2)] += p * q
    return dict(law)


def test_the_law_of_a_count() -> None:
    """n 3,000, alpha 1e-4; power against half the noise on cells, or none on the units, over 0.999."""
    even = residuals(FEW, DRAWS)[
        :, 1
    ]  # of a count of 8: halves go to the even neighbour of the noise as well
    law = half_of_both(6.0, 3.0)
    assert p_value(even.tolist(), law) > ALPHA
    assert power(law, half_of_both(6.0 * 0.25, 3.0), DRAWS) > 0.999
    assert power(law, half_of_both(6.0, 0.0001), DRAWS) > 0.999
    deviation = math.sqrt(sum(x * x * p for x, p in law.items()))
    assert deviation == pytest.approx(FEW.stddev, rel=1e-3)
    assert sum(x * p for x, p in law.items()) == pytest.approx(0, abs=1e-12)


def test_counts_have_a_part_of_their_noise_in_common() -> None:
    """Variances over 3,000 draws of 53 cells, within 5 standard errors of 1.3%."""
    noise = residuals(WEEKS, DRAWS).astype(float)
    assert noise.std() == pytest.approx(WEEKS.stddev, rel=0.02)
    assert WEEKS.stddev == pytest.approx(40 / 3 * (math.sqrt(53) + 1) / 2, rel=1e-3)
    assert WEEKS.common_stddev == pytest.approx(40 / 3 * math.sqrt(math.sqrt(53) + 1) / 2, rel=1e-3)
    own = WEEKS.stddev**2 - WEEKS.common_stddev**2
    total = math.sqrt(53 * own + 53**2 * WEEKS.common_stddev**2)
    assert noise.sum(axis=1).std() == pytest.approx(total, rel=0.065)
    assert (noise[:, 0] - noise[:, 30]).std() == pytest.approx(math.sqrt(2 * own), rel=0.065)


@pytest.mark.parametrize("price", [Fraction(1, 4), Fraction(1), Fraction(53)])
def test_the_price_covers_one_unit_for_any_number_of_cells(price: Fraction) -> None:
    """G/(2a) + 1/(2b) in exact numbers: never above the price, and hardly below."""
    for cells in [*range(1, 400), 10**4, 10**6 + 7, 1 << 31]:
        one = replace(WEEKS, cells=cells, price=price)
        rho = Fraction(cells) / (2 * one.cell_variance) + 1 / (2 * one.units_variance)
        assert Fraction(99, 100) < rho / (price * one.eps_per**2 / 8) <= 1


@pytest.mark.parametrize(
    "changes", [{"cells": 0}, {"price": Fraction(0)}, {"price": 1.0}, {"eps_per": Fraction(0)}]
)
def test_parameters_out_of_range(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must"):
        replace(FEW, **changes)
