"""Exact vectorised samplers: discrete Laplace, discrete Gaussian, and the order of Gumbel scores.

The proof sheet is noise.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import cmp_to_key, lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from mechanisms.exact import LazyGumbel, LazyUniform, bernoulli_exp, compare_gumbel, exp_bounds
from mechanisms.randomness import Stream, Words

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Thresholds = tuple[tuple[int, int], ...]

SMALLEST, LARGEST = Fraction(1, 1 << 40), 1 << 40
"""Scales of noise that are supported, in counts; beyond them float64 could overflow."""
BLOCK = 4096
"""Samples drawn at a time, so that their digits stay in the cache."""
MARGIN = 2.0**-40
"""Uniforms this close to an acceptance probability are decided in multiple precision."""
ROUNDING = 2.0**-46
"""Relative error granted to each float64 step of a Gumbel score: 64 units in the last place."""


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
    n = len(out)
    (zero, *digits) = thresholds
    words = stream.words(2 * n * len(thresholds)).reshape(len(thresholds), 2, n)
    out[:] = 1
    for i, threshold in enumerate(digits):
        out += _below(words[i + 1], threshold).astype(np.int64) << i
    coins = np.unpackbits(stream.words(-(-n // 64)).view(np.uint8))[:n].astype(np.int64)
    out *= 2 * coins - 1
    out *= ~_below(words[0], zero)


def _below(words: Words, threshold: tuple[int, int]) -> NDArray[np.bool_]:
    """Say where the 128-bit numbers (high row, low row) are below the threshold (high word, low word)."""
    high, low = np.uint64(threshold[0]), np.uint64(threshold[1])
    below: NDArray[np.bool_] = (words[0] < high) | ((words[0] == high) & (words[1] < low))
    return below


@lru_cache(maxsize=256)
def _laplace_thresholds(scale: Fraction) -> Thresholds:
    """Give 2^128 times each probability, rounded down, as two words: of zero, then of each binary digit."""
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
    return tuple((p >> 64, p & (1 << 64) - 1) for p in probabilities)


def discrete_gaussian(stream: Stream, sigma_squared: Fraction, n: int) -> Integers:
    """Draw `n` samples with P(x) proportional to exp(-x^2/(2 sigma_squared)) on the integers.

    >>> discrete_gaussian(Stream(bytes(32)), Fraction(1600, 9), 5).tolist()
    [12, -4, -3, -8, -8]

    `stream`: one that was not used for this before (ValueError). `sigma_squared`: in counts squared,
    from 2^-40 to 2^80 (ValueError). Returns int64, shape (n,).
    Canonne, Kamath, Steinke 2020, Algorithm 3: a discrete Laplace Y of scale t = floor(sigma) + 1 is
    kept with probability exp(-(|Y| - sigma^2/t)^2/(2 sigma^2)), decided exactly (noise.md, Theorem 2).
    """
    if not SMALLEST <= sigma_squared < LARGEST**2:
        raise ValueError("the variance of discrete Gaussian noise must lie in [2^-40, 2^80)")
    t = math.isqrt(math.floor(sigma_squared)) + 1
    out = np.empty(0, dtype=np.int64)
    turn = 0
    while len(out) < n:
        missing = n - len(out)
        candidates = discrete_laplace(stream, Fraction(t), missing + missing // 2 + 16)
        kept = _gaussian_accepts(stream, stream.child("refine", turn), candidates, sigma_squared, t)
        out = np.concatenate([out, candidates[kept][:missing]])
        turn += 1
    return out


def _gaussian_accepts(
    stream: Stream, more: Stream, candidates: Integers, sigma_squared: Fraction, t: int
) -> NDArray[np.bool_]:
    """Decide each candidate's acceptance exactly; float64 decides what lies outside MARGIN."""
    words = stream.words(len(candidates))
    away = np.abs(candidates).astype(np.float64) - float(sigma_squared / t)
    probability = np.exp(-(away * away) * float(1 / (2 * sigma_squared)))
    difference = words.astype(np.float64) * 2.0**-64 - probability
    accepted: NDArray[np.bool_] = difference < 0
    for i in np.flatnonzero(np.abs(difference) < MARGIN).tolist():
        exact = abs(int(candidates[i])) - sigma_squared / t
        uniform = LazyUniform(int(words[i]), more.child(i))
        accepted[i] = bernoulli_exp(uniform, exact * exact / (2 * sigma_squared))
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
    v = np.clip(words.astype(np.float64) * 2.0**-64, 2.0**-64, 1 - 2.0**-53)
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


def laplace_stddev(scale: Fraction) -> float:
    """Give the standard deviation of discrete Laplace noise, sqrt(2q)/(1-q) with q = exp(-1/scale).

    >>> round(laplace_stddev(Fraction(40, 3)), 3)
    18.852
    """
    rate = float(1 / scale)
    return math.sqrt(2) * math.exp(-rate / 2) / -math.expm1(-rate)


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
