"""Tails and thresholds against plain sums in multiple precision: never below the truth, and tight."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy.stats import norm

from mechanisms import tails
from mechanisms.tails import (
    Weights,
    gaussian_difference_tail,
    gaussian_sum_tail,
    gaussian_sum_threshold,
    gaussian_tail,
    gaussian_threshold,
    gaussian_weighted_tail,
    gaussian_weighted_threshold,
    laplace_difference_tail,
    laplace_tail,
    laplace_threshold,
    weighted_gaussian_threshold,
)

REACH = 300
TIGHT = mpmath.mpf(2) ** -150


def context() -> Any:
    fine = mpmath.MPContext()
    fine.prec = 400
    return fine


@lru_cache
def laplace_masses(scale: Fraction) -> list[Any]:
    fine = context()
    q = fine.exp(-fine.mpf(scale.denominator) / scale.numerator)
    return [(1 - q) / (1 + q) * q ** abs(x) for x in range(-REACH, REACH + 1)]


@lru_cache
def gaussian_masses(variance: Fraction) -> list[Any]:
    fine = context()
    rate = fine.mpf(variance.denominator) / (2 * variance.numerator)
    weights = [fine.exp(-rate * x * x) for x in range(-REACH, REACH + 1)]
    total = sum(weights)
    return [weight / total for weight in weights]


def difference_tail(masses: list[Any], n: int) -> Any:
    """Pr[X - Y > n] from the masses of X, by definition."""
    above = list(accumulate(reversed(masses), initial=context().mpf(0)))[::-1]
    return sum(p * above[min(y + n + 1, len(masses))] for y, p in enumerate(masses))


def assert_bounds(bound: Fraction, truth: Any, slack: Any) -> None:
    ours = context().mpf(bound.numerator) / bound.denominator
    assert truth <= ours + slack
    assert ours <= truth * (1 + TIGHT) + slack


@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(1), Fraction(3)])
@pytest.mark.parametrize("n", [0, 1, 2, 17, 60])
def test_laplace_tails(scale: Fraction, n: int) -> None:
    masses = laplace_masses(scale)
    cut_off = context().exp(-(REACH - 2 * n) / context().mpf(3))  # of the plain sum, at the largest scale
    assert_bounds(laplace_tail(scale, n), sum(masses[REACH + n + 1 :]), cut_off)
    if n in (1, 17):
        assert_bounds(laplace_difference_tail(scale, n), difference_tail(masses, n), cut_off)


@pytest.mark.parametrize("variance", [Fraction(1, 9), Fraction(1), Fraction(7, 3), Fraction(144)])
@pytest.mark.parametrize("n", [0, 1, 4, 40])
def test_gaussian_tails(variance: Fraction, n: int) -> None:
    masses = gaussian_masses(variance)
    cut_off = context().mpf(2) ** -230  # terms below 2^-256 are bounded, not summed
    assert_bounds(gaussian_tail(variance, n), sum(masses[REACH + n + 1 :]), cut_off)
    if n in (1, 40):
        assert_bounds(gaussian_difference_tail(variance, n), difference_tail(masses, n), cut_off)


@pytest.mark.parametrize("variance", [Fraction(1, 9), Fraction(1), Fraction(7, 3), Fraction(16)])
@pytest.mark.parametrize("terms", [1, 2, 3, 7])
def test_gaussian_sum_tails(variance: Fraction, terms: int) -> None:
    """Against the convolution of masses: never below, within 1e-8 for sigma >= 1.5; fewer terms, smaller tails."""
    masses = np.array([float(p) for p in gaussian_masses(variance)])
    total = masses
    for _ in range(terms - 1):
        total = np.convolve(total, masses, "full")
    middle = len(total) // 2
    for n in (0, 1, 5, 17):
        bound, truth = float(gaussian_sum_tail(variance, terms, n)), float(total[middle + n + 1 :].sum())
        assert bound >= truth * (1 - 1e-12)
        assert variance < Fraction(9, 4) or bound <= truth * (1 + 1e-8) + 1e-17
        if terms > 1:
            assert gaussian_tail(variance, n) <= gaussian_sum_tail(variance, terms, n)


@pytest.mark.parametrize("weights", [(1, 1, 1), (4, 2, 1), (7, -3, 0)])
def test_gaussian_weighted_tails(weights: tuple[int, ...]) -> None:
    """Never below the truth by convolving masses, and little above it: a quarter at sigma = 30."""
    law = np.exp(-(np.arange(-REACH, REACH + 1) ** 2) / (2 * 30.0**2))
    total = np.ones(1)
    for weight in filter(None, weights):
        spread = np.zeros(2 * REACH * abs(weight) + 1)
        spread[:: abs(weight)] = law / law.sum()
        total = np.convolve(total, spread)
    middle = len(total) // 2
    size = Weights(3, Fraction(sum(map(abs, weights))), Fraction(sum(w * w for w in weights)))
    for reach in (20, 60, 150):
        bound = float(gaussian_weighted_tail(Fraction(900), size, Fraction(reach)))
        truth = float(total[middle + reach :].sum())
        assert truth <= bound < 1.25 * truth
    assert gaussian_weighted_tail(Fraction(900), size, size.sizes / 2) == 1


def test_gaussian_weighted_thresholds() -> None:
    """The smallest T with times Pr[sum >= T + 1 - tau - rounding] <= delta by the bound."""
    size, delta = Weights(3, Fraction(7, 4), Fraction(21, 16)), Fraction(1, 10**6)
    t = gaussian_weighted_threshold(Fraction(900), size, Fraction(1, 2), 3, 40, delta)
    assert 40 * gaussian_weighted_tail(Fraction(900), size, t - 2 - Fraction(1, 2)) <= delta
    assert 40 * gaussian_weighted_tail(Fraction(900), size, t - 3 - Fraction(1, 2)) > delta


def test_values_of_the_design() -> None:
    """eps_per 0.15, delta_per 1e-10, delta0 1: 333; rho 0.1, delta 1e-5, delta0 100: 11.726070."""
    scale, delta = 2 / Fraction(3, 20), Fraction(1, 10**10)
    assert laplace_threshold(scale, 1, 1, delta) == 333
    assert gaussian_threshold(scale**2, 1, 1, delta) == 121
    weighted = weighted_gaussian_threshold(Fraction(1, 10), Fraction(1, 10**5), 100)
    assert f"{float(weighted):.6f}" == "11.726070"


@pytest.mark.statistical
@pytest.mark.parametrize("tau", [1, 7])
@pytest.mark.parametrize("delta0", [1, 10])
@pytest.mark.parametrize("delta", [Fraction(1, 10**10), Fraction(1, 20), Fraction(1, 10**40)])
@pytest.mark.parametrize("scale", [Fraction(1, 5), Fraction(40, 3), Fraction(800)])
def test_thresholds_are_the_smallest(scale: Fraction, delta: Fraction, delta0: int, tau: int) -> None:
    for threshold, tail, parameter in (
        (laplace_threshold, laplace_difference_tail, scale),
        (gaussian_threshold, gaussian_difference_tail, scale**2),
    ):
        n = threshold(parameter, tau, delta0, delta) - tau
        assert delta0 * tail(parameter, n) <= delta
        assert n == 0 or delta0 * tail(parameter, n - 1) > delta


@pytest.mark.parametrize("variance", [Fraction(1), Fraction(100), Fraction(1 << 24)])
def test_sub_gaussian_bound(variance: Fraction, monkeypatch: pytest.MonkeyPatch) -> None:
    """Never below the exact tail; its threshold is at most tau + ceil(2 sigma sqrt(ln(delta0/delta)))."""
    delta = Fraction(1, 10**10)
    points = range(0, 10 * round(float(variance) ** 0.5), 3 + int(variance) // 1000)
    exact = [(gaussian_difference_tail(variance, n), gaussian_tail(variance, n)) for n in points]
    exact_threshold = gaussian_threshold.__wrapped__(variance, 1, 3, delta)
    sums = [gaussian_sum_tail(variance, 2, n) for n in points]
    monkeypatch.setattr(tails, "LONGEST", 0)
    for n, exact_sum in zip(points, sums, strict=True):
        assert gaussian_sum_tail(variance, 2, n) >= exact_sum
    for n, (difference, single) in zip(points, exact, strict=True):
        assert gaussian_difference_tail(variance, n) >= difference
        assert gaussian_tail(variance, n) >= single
    bound = 1 + int(np.ceil(2 * float(variance) ** 0.5 * np.log(3 / float(delta)) ** 0.5))
    assert exact_threshold <= gaussian_threshold.__wrapped__(variance, 1, 3, delta) <= bound


def test_gaussian_threshold_near_its_continuous_limit() -> None:
    for sigma in (1000, 4096, 10**6):
        limit = 1 + 2**0.5 * sigma * norm.isf(1e-10)
        slack = 0.07 if sigma > 4096 else 1e-3  # beyond 4096 the sub-Gaussian bound
        assert (
            limit - 1
            <= gaussian_threshold(Fraction(sigma**2), 1, 1, Fraction(1, 10**10))
            < limit * (1 + slack)
        )


@pytest.mark.parametrize("delta0", [1, 3, 100, 5000])
def test_weighted_gaussian_threshold(delta0: int) -> None:
    """Above the formula in float64 at every j, and by less than 1e-8."""
    rho, delta = Fraction(1, 100), Fraction(1, 10**6)
    j = np.arange(1, delta0 + 1)
    formula = 1 / np.sqrt(j) + np.sqrt(50) * norm.isf(-np.expm1(np.log1p(-1e-6) / j))
    ours = float(weighted_gaussian_threshold(rho, delta, delta0))
    assert formula.max() - 1e-11 <= ours <= formula.max() + 1e-8


def test_out_of_range() -> None:
    for tail in (laplace_tail, laplace_difference_tail, gaussian_tail, gaussian_difference_tail):
        with pytest.raises(ValueError, match="n >= 0"):
            tail(Fraction(1), -1)
    with pytest.raises(ValueError, match="below what"):
        gaussian_sum_threshold(Fraction(1), 3, 1, 2, Fraction(1, 1 << 200))
    with pytest.raises(ValueError, match="n >= 0"):
        gaussian_sum_tail(Fraction(1), 3, -1)
    for threshold in (laplace_threshold, gaussian_threshold):
        with pytest.raises(ValueError, match="below what"):
            threshold(Fraction(1), 1, 1, Fraction(1, 1 << 201))
    for rho, delta, delta0 in ((0, 0.1, 1), (1, 0, 1), (1, 0.5, 1), (1, 0.1, 0)):
        with pytest.raises(ValueError, match="out of range"):
            weighted_gaussian_threshold(Fraction(rho), Fraction(delta), delta0)
