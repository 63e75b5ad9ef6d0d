"""Exact tails of discrete noise and the thresholds they give, every rounding against the spender.

The proof sheet is tails.md. Numbers are integers that stand for multiples of 2^-BITS; "up" and "down"
say on which side of the truth an integer lies.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from mpmath import MPContext

from mechanisms.exact import exp_bounds

BITS = 320
ONE = 1 << BITS
LAST = 1 << (BITS - 256)
"""Terms below 2^-256 are not summed: a sum rounded up adds a bound of all of them."""
LONGEST = 1 << 24
"""Variances (counts squared) beyond which the sub-Gaussian bound replaces the sum, at some 110,000 terms."""
_NORMAL = NormalDist()


def laplace_tail(scale: Fraction, n: int) -> Fraction:
    """Bound Pr[X > n] from above, X discrete Laplace: q^(n+1)/(1+q) with q = exp(-1/scale), n >= 0.

    >>> float(laplace_tail(Fraction(40, 3), 100))
    0.00026617671149393253
    """
    _not_negative(n)
    q_down, _ = exp_bounds(1 / scale, BITS)
    _, power_up = exp_bounds((n + 1) / scale, BITS)
    return Fraction(power_up, ONE + q_down)  # up: larger numerator, smaller denominator


def laplace_difference_tail(scale: Fraction, n: int) -> Fraction:
    """Bound Pr[X - Y > n] from above, X and Y independent discrete Laplace, n >= 0.

    >>> float(laplace_difference_tail(Fraction(40, 3), 332)) < 1e-10
    True

    With N = n + 1 and C = (1+q^2)/(1-q^2) it is q^N ((1-q)(N + C) + q)/(1+q)^2 (tails.md, Lemma 1).
    """
    _not_negative(n)
    q_down, q_up = (Fraction(bound, ONE) for bound in exp_bounds(1 / scale, BITS))
    _, power_up = exp_bounds((n + 1) / scale, BITS)
    # (1-q) C = (1+q^2)/(1+q); up: each q where it raises the value from above, elsewhere from below
    bracket_up = (1 - q_down) * (n + 1) + (1 + q_up**2) / (1 + q_down) + q_up
    return Fraction(power_up, ONE) * bracket_up / (1 + q_down) ** 2


def gaussian_tail(sigma_squared: Fraction, n: int) -> Fraction:
    """Bound Pr[X > n] from above, X discrete Gaussian, n >= 0.

    >>> float(gaussian_tail(Fraction(1), 2))
    0.004567171417803253
    """
    _not_negative(n)
    if sigma_squared > LONGEST:
        return _sub_gaussian(Fraction((n + 1) ** 2) / (2 * sigma_squared))
    rate = 1 / (2 * sigma_squared)
    sums_up = _tail_sums(rate)
    return min(Fraction(1), Fraction(_at(sums_up, n + 1), _theta_down(rate)))  # up over down


def gaussian_difference_tail(sigma_squared: Fraction, n: int) -> Fraction:
    """Bound Pr[X - Y > n] from above, X and Y independent discrete Gaussians, n >= 0.

    >>> float(gaussian_difference_tail(Fraction(1), 2))
    0.03547749052982461

    Pr[X - Y = m] = exp(-m^2/(4 sigma^2)) S/Z^2, S = sum over y of exp(-(y + m/2)^2/sigma^2), which depends
    on m's parity alone, Z = sum over y of exp(-y^2/(2 sigma^2)) (tails.md, Lemma 2).
    """
    _not_negative(n)
    if sigma_squared > LONGEST:
        return _sub_gaussian(Fraction((n + 1) ** 2) / (4 * sigma_squared))
    return _gaussian_differences(sigma_squared)(n)


def gaussian_sum_tail(sigma_squared: Fraction, terms: int, n: int) -> Fraction:
    """Bound Pr[X_1 + ... + X_terms > n] from above, independent discrete Gaussians, n >= 0, terms >= 1.

    >>> float(gaussian_sum_tail(Fraction(4), 3, 2))
    0.23446803200480895

    Pr[sum = m] <= Pr[sum = 0] exp(-m^2/(2 terms sigma^2)), and Pr[sum = 0] is bounded by a product of theta
    sums (tails.md, Lemma 3): within 1e-8 of the truth for sigma >= 1.5.
    """
    _not_negative(n)
    variance = terms * sigma_squared
    if variance > LONGEST:
        return _sub_gaussian(Fraction((n + 1) ** 2) / (2 * variance))
    sums_up = _tail_sums(1 / (2 * variance))
    return min(
        Fraction(1), _sum_at_zero_up(1 / (2 * sigma_squared), terms) * Fraction(_at(sums_up, n + 1), ONE)
    )


class Weights(NamedTuple):
    """Real weights of the terms of a sum: how many, and upper bounds of their sizes' sum and of their squares' sum."""

    terms: int
    sizes: Fraction
    squares: Fraction


def gaussian_weighted_tail(sigma_squared: Fraction, weights: Weights, reach: Fraction) -> Fraction:
    """Bound Pr[w_1 X_1 + w_2 X_2 + ... >= reach] from above, independent discrete Gaussians.

    >>> weights = Weights(3, Fraction(7, 4), Fraction(21, 16))
    >>> round(float(gaussian_weighted_tail(Fraction(10**8), weights, Fraction(20000))), 6)
    0.040444

    K^terms Q(a/sqrt((1 + h) sigma^2 squares)), a = reach - sizes/2, Q the tail of N(0, 1), ln K at most
    h/2 + (1 + h)/(8 h sigma^2), for any h > 0 (tails.md, Lemma 4): within 1/(2 sigma) of the truth a term.
    """
    a = reach - weights.sizes / 2
    if a <= 0:
        return Fraction(1)
    h = Fraction(1, 2 * math.isqrt(math.floor(sigma_squared)) + 1)
    excess = weights.terms * (h / 2 + (1 + h) / (8 * h * sigma_squared))
    ratio = a**2 / (2 * (1 + h) * sigma_squared * weights.squares)
    context = MPContext()
    context.prec = 256
    far = context.erfc(context.sqrt(context.mpf(ratio.numerator) / ratio.denominator)) / 2
    value = context.exp(context.mpf(excess.numerator) / excess.denominator) * far
    rounded_up = context.ceil(context.ldexp(value * (1 + context.ldexp(1, -128)), BITS))
    return min(Fraction(1), Fraction(int(rounded_up), ONE))


@lru_cache(maxsize=256)
def laplace_threshold(scale: Fraction, tau: int, delta0: int, delta: Fraction) -> int:
    """Give UnkLap's T: the smallest integer with delta0 Pr[X - Y > T - tau] <= delta.

    >>> laplace_threshold(Fraction(40, 3), 1, 1, Fraction(1, 10**10))
    333

    `scale`, `tau` and the result in counts; `delta` a probability, at least delta0 2^-200 (ValueError).
    """
    _not_too_small(delta / delta0)
    return tau + _smallest(lambda n: delta0 * laplace_difference_tail(scale, n) <= delta)


@lru_cache(maxsize=256)
def gaussian_threshold(sigma_squared: Fraction, tau: int, delta0: int, delta: Fraction) -> int:
    """Give UnkGauss's T: the smallest integer with delta0 Pr[X - Y > T - tau] <= delta.

    >>> gaussian_threshold(Fraction(1600, 9), 1, 1, Fraction(1, 10**10))
    121

    `sigma_squared` in counts squared, `tau` and the result in counts; `delta` a probability, at
    least delta0 2^-200 (ValueError). For a variance over 2^24, where the sum would be too long, the tail is
    bounded by exp(-(n+1)^2/(4 sigma^2)), so T is at most tau + ceil(2 sigma sqrt(ln(delta0/delta))).
    """
    _not_too_small(delta / delta0)
    return tau + _smallest(lambda n: delta0 * gaussian_difference_tail(sigma_squared, n) <= delta)


@lru_cache(maxsize=256)
def gaussian_sum_threshold(sigma_squared: Fraction, terms: int, tau: int, times: int, delta: Fraction) -> int:
    """Give the continual T: the smallest integer with times Pr[X_1 + ... + X_terms > T - tau] <= delta.

    >>> gaussian_sum_threshold(Fraction(1600, 9), 9, 1, 365, Fraction(1, 10**10))
    290

    `sigma_squared` in counts squared, `tau` and the result in counts; `times`: chances to exceed it; `delta`: at
    least times 2^-200 (ValueError). "Smallest" by the bound of `gaussian_sum_tail`.
    """
    _not_too_small(delta / times)
    return tau + _smallest(lambda n: times * gaussian_sum_tail(sigma_squared, terms, n) <= delta)


@lru_cache(maxsize=256)
def gaussian_weighted_threshold(
    sigma_squared: Fraction, weights: Weights, rounding: Fraction, tau: int, times: int, delta: Fraction
) -> int:
    """Give the smallest integer T >= tau with times Pr[w_1 X_1 + w_2 X_2 + ... >= T + 1 - tau - rounding] <= delta.

    >>> weights = Weights(3, Fraction(7, 4), Fraction(21, 16))
    >>> gaussian_weighted_threshold(Fraction(10**8), weights, Fraction(1, 2), 1, 1, Fraction(1, 10**10))
    72882

    `rounding`: what is compared with T exceeds the sum by at most that much; the others are those of
    `gaussian_sum_threshold`. "Smallest" by the bound of `gaussian_weighted_tail`.
    """
    _not_too_small(delta / times)
    return tau + _smallest(
        lambda n: times * gaussian_weighted_tail(sigma_squared, weights, n + 1 - rounding) <= delta
    )


@lru_cache(maxsize=1024)
def weighted_gaussian_threshold(rho: Fraction, delta: Fraction, delta0: int) -> Fraction:
    """Give the Weighted Gaussian's T, rounded up: max over j of 1/sqrt(j) + sigma Phi^-1((1-delta)^(1/j)).

    >>> round(float(weighted_gaussian_threshold(Fraction(1, 10), Fraction(1, 10**5), 100)), 6)
    11.72607

    sigma = sqrt(1/(2 rho)), j = 1..delta0 (DP-SIPS, Weighted Gaussian; tails.md, Theorem 2). Float64 finds the j that
    can be largest (its error is far below the 1e-6 that are allowed for), multiple precision their values.
    ValueError where rho or delta is not positive, delta not below 1/2 or delta0 below 1.
    """
    if not (rho > 0 and 0 < delta < Fraction(1, 2) and delta0 >= 1):
        raise ValueError("rho, delta or delta0 out of range")
    sigma = math.sqrt(1 / (2 * rho))
    j = np.arange(1, delta0 + 1, dtype=np.float64)
    left = -np.expm1(math.log1p(-delta) / j)
    values = 1 / np.sqrt(j) - sigma * np.array([_NORMAL.inv_cdf(p) for p in left.tolist()])
    near = np.flatnonzero(values > values.max() - 1e-6 * (1 + sigma)) + 1
    return max(_weighted_value_up(rho, delta, int(i)) for i in near)


def _weighted_value_up(rho: Fraction, delta: Fraction, j: int) -> Fraction:
    """Give 1/sqrt(j) + sigma Phi^-1((1-delta)^(1/j)), rounded up to a multiple of 2^-40."""
    context = MPContext()
    context.prec = 256
    complement = -context.expm1(context.log1p(-context.mpf(delta.numerator) / delta.denominator) / j)
    quantile = context.mpf(-_NORMAL.inv_cdf(float(complement)))
    for _ in range(4):  # Newton's method doubles the digits each time
        density = context.npdf(quantile)
        quantile += (context.erfc(quantile / context.sqrt(2)) / 2 - complement) / density
    value = 1 / context.sqrt(j) + quantile * context.sqrt(context.mpf(rho.denominator) / (2 * rho.numerator))
    return Fraction(int(context.ceil(value * (1 << 40))) + 1, 1 << 40)  # up, by one more


def _smallest(holds: Callable[[int], bool]) -> int:
    """Give the smallest n >= 0 for which a condition holds that stays true once true.

    The n that is returned was itself tried, so that a guarantee does not rest on the monotony.
    """
    end = 1
    while not holds(end):
        end *= 2
    return bisect_left(range(end + 1), True, key=holds)


def _not_negative(n: int) -> None:
    if n < 0:
        raise ValueError("these tails are for n >= 0")


def _not_too_small(delta: Fraction) -> None:
    if delta < Fraction(1, 1 << 200):
        raise ValueError("delta is below what the tails resolve")


def _sub_gaussian(exponent: Fraction) -> Fraction:
    """Bound a tail by exp(-exponent), up."""
    return Fraction(exp_bounds(exponent, BITS)[1], ONE)


def _terms(rate: Fraction, offset: Fraction, up: bool) -> Iterator[int]:
    """Give exp(-rate (m + offset)^2) for m = 0, 1, ... rounded one way, until they fall below 2^-256.

    Each term is the last times a ratio, each ratio the last times exp(-2 rate): all factors are rounded
    the same way, hence so are the products. Rounded up, a bound of all further terms comes last.
    """
    side = int(up)
    term = exp_bounds(rate * offset**2, BITS)[side]
    ratio = exp_bounds(rate * (1 + 2 * offset), BITS)[side]
    shrink = exp_bounds(2 * rate, BITS)[side]
    while term >= LAST:
        yield term
        term = (term * ratio >> BITS) + side
        ratio = (ratio * shrink >> BITS) + side
    if up:  # the rest is at most a geometric series with this ratio, which is below 1
        yield -(-term * ONE // (ONE - ratio))


def _theta_down(rate: Fraction) -> int:
    """Give the sum over all integers y of exp(-rate y^2), down."""
    return 2 * sum(_terms(rate, Fraction(0), up=False)) - ONE


def _theta_up(rate: Fraction) -> int:
    """Give the sum over all integers y of exp(-rate y^2), up."""
    return 2 * sum(_terms(rate, Fraction(0), up=True)) - ONE


@lru_cache(maxsize=8)
def _sum_at_zero_up(rate: Fraction, terms: int) -> Fraction:
    """Bound Pr[X_1 + ... + X_terms = 0] from above, P(x) proportional to exp(-rate x^2)."""
    mass_down = _theta_down(rate)
    bound = Fraction(ONE, mass_down)
    for i in range(2, terms + 1):
        bound *= Fraction(_theta_up(rate * Fraction(i, i - 1)), mass_down)
    return bound


@lru_cache(maxsize=8)
def _tail_sums(rate: Fraction) -> tuple[int, ...]:
    """Give, for N = 0, 1, ..., the sum over m >= N of exp(-rate m^2), up."""
    terms = list(_terms(rate, Fraction(0), up=True))
    return tuple(accumulate(reversed(terms)))[::-1]


def _at(sums: tuple[int, ...], start: int) -> int:
    """Give the sum from `start` on; past the end the last one, which is a bound of all the rest."""
    return sums[min(start, len(sums) - 1)]


@lru_cache(maxsize=8)
def _gaussian_differences(sigma_squared: Fraction) -> Callable[[int], Fraction]:
    rate = 1 / sigma_squared
    even_up = 2 * sum(_terms(rate, Fraction(0), up=True)) - ONE
    odd_up = 2 * sum(_terms(rate, Fraction(1, 2), up=True))
    mass_down = _theta_down(rate / 2)
    terms = list(_terms(rate / 4, Fraction(0), up=True))
    products = (term * (odd_up if m % 2 else even_up) for m, term in reversed(list(enumerate(terms[:-1]))))
    rest_up = terms[-1] * max(even_up, odd_up)
    sums_up = tuple(accumulate(products, initial=rest_up))[::-1]

    def tail(n: int) -> Fraction:
        return min(Fraction(1), Fraction(_at(sums_up, n + 1), mass_down**2))  # up over down

    return tail
