"""Exact vectorised samplers: discrete Laplace, discrete Gaussian, and the order of Gumbel scores.

The proof sheet is noise.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import cmp_to_key, lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mechanisms.exact import LazyGumbel, LazyUniform, bernoulli_exp, compare_gumbel, exp_bounds
from mechanisms.randomness import Stream, Words

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Thresholds = tuple[Words, Words]

SMALLEST, LARGEST = Fraction(1, 1 << 40), 1 << 40
"""Scales of noise that are supported, in counts; beyond them float64 could overflow."""
BLOCK = 4096
"""Samples drawn at a time, so that their digits stay in the cache."""
MARGIN = 2.0**-40
"""Uniforms this close to an acceptance probability are decided in multiple precision."""
ROUNDING = 2.0**-46
"""Relative error granted to each float64 step of a Gumbel score: 64 units in the last place."""
_PLACES = (1 << np.arange(62, dtype=np.int64))[:, None]
"""What each binary digit is worth."""


def discrete_laplace(stream: Stream, scale: Fraction, n: int) -> Integers:
    """Draw `n` samples with P(x) proportional to exp(-|x|/scale) on the integers, in fixed work.

    >>> discrete_laplace(Stream(bytes(32)), Fraction(40, 3), 5).tolist()
    [9, -2, 3, 19, 37]

    `scale`: in counts, from 2^-40 to 2^40 (ValueError). Returns int64, shape (n,).
    Zero comes with probability (1-q)/(1+q), q = exp(-1/scale); otherwise the sign is a coin and |x| - 1
    is geometric, whose binary digits are independent, digit i Bernoulli(1/(1 + exp(2^i/scale))). Each
    is decided on 128 bits, whatever came out before (noise.md, Theorem 1).
    """
    thresholds = _laplace_thresholds(scale)
    out = np.empty(n, dtype=np.int64)
    for start in range(0, n, BLOCK):
        block = out[start : start + BLOCK]
        _fill_laplace(stream, thresholds, block)
    return out


def _fill_laplace(stream: Stream, thresholds: Thresholds, out: Integers) -> None:
    """Row 0 decides which samples are zero, row i + 1 the digit i of the others."""
    n, rows = len(out), len(thresholds[0])
    below = _below(stream.words(2 * n * rows).reshape(rows, 2, n), thresholds)
    np.add.reduce(below[1:] * _PLACES[: rows - 1], axis=0, out=out)
    out += 1
    coins = np.unpackbits(stream.words(-(-n // 64)).view(np.uint8), count=n).view(np.int8)
    out *= 2 * coins - 1
    out *= ~below[0]


def _below(words: Words, thresholds: Thresholds) -> NDArray[np.bool_]:
    """Say where 128-bit numbers, shape (rows, 2, n), high words first, are below the threshold of their row."""
    high, low = thresholds
    below: NDArray[np.bool_] = words[:, 0] < high
    below |= (words[:, 0] == high) & (words[:, 1] < low)
    return below


@lru_cache(maxsize=256)
def _laplace_thresholds(scale: Fraction) -> Thresholds:
    """Give 2^128 times each probability, rounded down, as high and low words of shape (digits + 1, 1): of zero, then
    of each binary digit."""
    if not SMALLEST <= scale <= LARGEST:
        raise ValueError("the scale of discrete Laplace noise must lie in [2^-40, 2^40]")
    q, _ = exp_bounds(1 / scale, 256)
    one = 1 << 256
    probabilities = [((one - q) << 128) // (one + q)]
    digit = 0
    while Fraction(1 << digit) / scale < 89:  # exp(-89) < 2^-128: larger values are cut off
        power, _ = exp_bounds(Fraction(1 << digit) / scale, 256)
        probabilities.append((power << 128) // (one + power))
        digit += 1
    high = np.array([[p >> 64] for p in probabilities], dtype=np.uint64)
    low = np.array([[p & (1 << 64) - 1] for p in probabilities], dtype=np.uint64)
    return high, low


def discrete_gaussian(stream: Stream, sigma_squared: Fraction, n: int) -> Integers:
    """Draw `n` samples with P(x) proportional to exp(-x^2/(2 sigma_squared)) on the integers.

    >>> discrete_gaussian(Stream(bytes(32)), Fraction(1600, 9), 5).tolist()
    [12, -4, -3, -8, -8]

    `stream`: one that was not used for this before (ValueError). `sigma_squared`: in counts squared,
    from 2^-40 to 2^80 (ValueError). Returns int64, shape (n,).
    Canonne, Kamath, Steinke 2020, Algorithm 3: a discrete Laplace Y of scale t = floor(sigma) + 1 is
    kept with probability exp(-(|Y| - sigma^2/t)^2/(2 sigma^2)), decided exactly (noise.md, Theorem 2).
    """
    proposal = _proposal(sigma_squared)
    out = np.empty(0, dtype=np.int64)
    turn = 0
    while len(out) < n:
        missing = n - len(out)
        candidates = discrete_laplace(stream, proposal.scale, missing + missing // 2 + 16)
        kept = _gaussian_accepts(stream, stream.child("refine", turn), candidates, proposal)
        out = np.concatenate([out, candidates[kept][:missing]])
        turn += 1
    return out


class _Proposal(NamedTuple):
    """What discrete Gaussian noise of one variance is drawn from: a discrete Laplace of `scale`, whose |Y| is kept with
    probability exp(-(|Y| - centre)^2 rate); both as exact numbers too."""

    scale: Fraction
    exact_centre: Fraction
    exact_rate: Fraction
    centre: float
    rate: float


@lru_cache(maxsize=256)
def _proposal(sigma_squared: Fraction) -> _Proposal:
    if not SMALLEST <= sigma_squared < LARGEST**2:
        raise ValueError("the variance of discrete Gaussian noise must lie in [2^-40, 2^80)")
    scale = Fraction(math.isqrt(math.floor(sigma_squared)) + 1)
    centre, rate = sigma_squared / scale, 1 / (2 * sigma_squared)
    return _Proposal(scale, centre, rate, float(centre), float(rate))


def _gaussian_accepts(
    stream: Stream, more: Stream, candidates: Integers, proposal: _Proposal
) -> NDArray[np.bool_]:
    """Decide each candidate's acceptance exactly; float64 decides what lies outside MARGIN."""
    words = stream.words(len(candidates))
    away = np.abs(candidates).astype(np.float64) - proposal.centre
    probability = np.exp(-(away * away) * proposal.rate)
    difference = words.astype(np.float64) * 2.0**-64 - probability
    accepted: NDArray[np.bool_] = difference < 0
    for i in np.flatnonzero(np.abs(difference) < MARGIN).tolist():
        exact = abs(int(candidates[i])) - proposal.exact_centre
        uniform = LazyUniform(int(words[i]), more.child(i))
        accepted[i] = bernoulli_exp(uniform, exact * exact * proposal.exact_rate)
    return accepted


def gumbel_order(
    stream: Stream,
    scores: Integers,
    beta: Fraction,
    first: int,
    weights: Sequence[Fraction] | None = None,
) -> Integers:
    """Give the positions of the `first` largest of score + beta ln(weight) + Gumbel(beta), largest first.

    >>> gumbel_order(Stream(bytes(32)), np.array([0, 500, 100]), Fraction(20, 3), 2).tolist()
    [1, 2]

    `stream`: one that was not used for this before (ValueError). `scores`: int64, shape (m,), in counts;
    `beta`: in counts, from 2^-40 to 2^40 (ValueError); `weights`: m positive rationals (ValueError), 1
    where absent. Returns int64, shape (min(first, m),). Position i comes next
    with probability proportional to weight_i exp(score_i/beta) among those left (the exponential
    mechanism, peeled). The order is exact, and nothing but the order leaves (noise.md, Theorem 3).
    """
    if not SMALLEST <= beta <= LARGEST:
        raise ValueError("the scale of Gumbel noise must lie in [2^-40, 2^40]")
    if weights is not None and (
        len(weights) != len(scores) or any(weight.numerator <= 0 for weight in weights)
    ):
        raise ValueError("one positive weight a score")
    words = stream.words(len(scores))
    values, errors = _gumbel_values(words, scores, beta, weights)
    order = np.argsort(-values, kind="stable")
    more = stream.child("refine")

    def exact(i: int) -> LazyGumbel:
        weight = Fraction(1) if weights is None else weights[i]
        return LazyGumbel(int(scores[i]) / beta, weight, LazyUniform(int(words[i]), more.child(i)))

    for start, stop in _ambiguous(values[order], errors[order], first):
        group = {i: exact(i) for i in order[start:stop].tolist()}
        key = cmp_to_key(lambda a, b: compare_gumbel(group[a], group[b]))  # noqa: B023
        order[start:stop] = sorted(group, key=key, reverse=True)
    return order[:first].astype(np.int64)


def _gumbel_values(
    words: Words, scores: Integers, beta: Fraction, weights: Sequence[Fraction] | None
) -> tuple[Floats, Floats]:
    """Give score/beta + ln(weight) + G in float64, and a bound of each one's error (noise.md, Lemma 3).

    G = -ln(E), E = -ln(1 - V), V known to 64 bits. The error of E relative to E is at most
    (error of V)/(V (1 - V - error of V)); where that is no use the bound is infinite.
    """
    v = np.minimum(np.maximum(words.astype(np.float64) * 2.0**-64, 2.0**-64), 1 - 2.0**-53)
    width = v * ROUNDING + 2.0**-62
    with np.errstate(divide="ignore"):
        relative = width / (v * np.maximum(1 - v - width, 0))
    exponential = -np.log1p(-v)
    gumbel = -np.log(exponential)
    level = scores.astype(np.float64) * float(1 / beta)
    size = np.abs(level) + np.abs(gumbel) + 1
    values = level + gumbel
    if weights is not None:
        fractions = [weight.as_integer_ratio() for weight in weights]
        numerators, denominators = np.array([(math.log(a), math.log(b)) for a, b in fractions]).T
        values += numerators - denominators
        size += numerators + denominators
    errors = np.where(relative <= 0.5, size * ROUNDING + 2 * relative, np.inf)
    return values, errors


def _ambiguous(values: Floats, errors: Floats, first: int) -> list[tuple[int, int]]:
    """Give the stretches of a descending order, of those that reach its `first` places, left undecided.

    A cut between two places is certain where all lower bounds before it lie above all upper bounds after.
    """
    if len(values) < 2:
        return []
    before = np.minimum.accumulate(values - errors)[:-1]
    after = np.maximum.accumulate((values + errors)[::-1])[::-1][1:]
    cuts = [0, *(np.flatnonzero(before > after) + 1).tolist(), len(values)]
    return [(start, stop) for start, stop in pairwise(cuts) if stop - start > 1 and start < first]


@lru_cache(maxsize=256)
def laplace_stddev(scale: Fraction) -> float:
    """Give the standard deviation of discrete Laplace noise, sqrt(2q)/(1-q) with q = exp(-1/scale).

    >>> round(laplace_stddev(Fraction(40, 3)), 3)
    18.852
    """
    rate = float(1 / scale)
    return math.sqrt(2) * math.exp(-rate / 2) / -math.expm1(-rate)


@lru_cache(maxsize=256)
def gaussian_stddev(sigma_squared: Fraction) -> float:
    """Give the standard deviation of discrete Gaussian noise, a little below sigma where sigma is small.

    >>> round(gaussian_stddev(Fraction(1600, 9)), 3), round(gaussian_stddev(Fraction(1, 16)), 5)
    (13.333, 0.02589)
    """
    variance = float(sigma_squared)
    if variance > 100:  # the difference is below exp(-2 pi^2 variance)
        return math.sqrt(variance)
    x = np.arange(1, 401, dtype=np.float64)
    weights = 2 * np.exp(-x * x / (2 * variance))
    return math.sqrt(float(np.sum(weights * x * x)) / (1 + float(np.sum(weights))))
