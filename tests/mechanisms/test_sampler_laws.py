"""The samplers' laws in exact numbers, beside those that SampCert's samplers are proved to have.

SampCert draws a discrete Laplace of scale t with P(x) = (e^(1/t) - 1)/(e^(1/t) + 1) e^(-|x|/t), by loops of Bernoulli
variables; ours has the same law within 2^-121 by the digits of a geometric. Its discrete Gaussian keeps a discrete
Laplace of scale floor(sigma) + 1 with the probability that ours has. No samples: every outcome of every decision.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from mechanisms import noise
from mechanisms.exact import exp_bounds
from tests.mechanisms.scripted import Scripted

BITS = 400
ONE = 1 << BITS
"""Probabilities are integers of 2^-BITS; what is rounded off is below 2^-300 in all."""
ALLOWED = ONE >> 121
"""What Theorem 1 of noise.md gives up."""
SCALES = [Fraction(1, 12), Fraction(1, 3), Fraction(1), Fraction(7, 5), Fraction(40, 3), Fraction(100)]
Law = dict[int, int]


def probabilities(scale: Fraction) -> list[int]:
    """That of zero, then that of each digit of a geometric, as the sampler decides them."""
    high, low = (words.ravel().tolist() for words in noise._laplace_thresholds(scale))
    return [((h << 64) + w) << (BITS - 128) for h, w in zip(high, low, strict=True)]


def power(x: Fraction) -> int:
    """exp(-x)."""
    return exp_bounds(x, BITS)[0]


def decided(zero: int, digits: Sequence[int]) -> Law:
    """The law of what `_fill_laplace` makes of independent decisions of these probabilities."""
    law = {0: zero}
    sizes = [ONE - zero]
    for digit in reversed(digits):
        # The digits above this one have been taken: sizes[g] is the mass of those that begin with g.
        sizes = [mass * part >> BITS for mass in sizes for part in (ONE - digit, digit)]
    for geometric, mass in enumerate(sizes):
        law[1 + geometric] = law[-1 - geometric] = mass >> 1
    return law


def proved(scale: Fraction, reach: int) -> Law:
    """SampCert's law from -reach to reach; (e^r - 1)/(e^r + 1) is (1 - e^-r)/(1 + e^-r)."""
    ratio = power(1 / scale)
    mass = ((ONE - ratio) << BITS) // (ONE + ratio)
    found = {0: mass}
    for size in range(1, reach + 1):
        mass = mass * ratio >> BITS
        found[size] = found[-size] = mass
    return found


def distance(law: Law, other: Law) -> int:
    """Total variation of two laws, of which the second may be cut off."""
    return (sum(abs(law[x] - other[x]) for x in law) + ONE - sum(other.values())) // 2


@pytest.mark.parametrize("scale", SCALES)
def test_the_laplace_law_is_sampcerts(scale: Fraction) -> None:
    zero, *digits = probabilities(scale)
    law = decided(zero, digits)
    wanted = proved(scale, 1 << len(digits))
    assert abs(sum(law.values()) - ONE) < 1 << 100
    assert distance(law, wanted) < ALLOWED
    lies = {
        "zero twice": decided(ONE - power(1 / scale), digits),
        "digits shifted": decided(zero, [*digits[1:], 0]),
        "a bit more of zero": decided(zero + (ONE >> 115), digits),
    }
    for name, lie in lies.items():
        assert distance(lie, wanted) > ALLOWED, name


def outcomes(scale: Fraction) -> Iterator[tuple[tuple[bool, ...], bool, int]]:
    """For all decisions, at the last word that is below its threshold and the first that is not: what is drawn."""
    thresholds = noise._laplace_thresholds(scale)
    ends = [p >> (BITS - 128) for p in probabilities(scale)]
    for below in product((False, True), repeat=len(ends)):
        for coin in (0, 1):
            words = [end - 1 if yes else end for end, yes in zip(ends, below, strict=True)]
            script = [part for word in words for part in (word >> 64, word & (1 << 64) - 1)]
            out = np.empty(1, dtype=np.int64)
            # The sign is the first bit of the first byte of a word.
            noise._fill_laplace(Scripted(bytes(32), [*script, coin << 7]), thresholds, out)
            yield below, bool(coin), int(out[0])


@pytest.mark.parametrize("scale", [Fraction(1, 100), Fraction(1, 12), Fraction(1, 3), Fraction(1)])
def test_the_code_makes_of_its_decisions_what_the_law_says(scale: Fraction) -> None:
    for (zero, *digits), coin, drawn in outcomes(scale):
        geometric = sum(1 << place for place, digit in enumerate(digits) if digit)
        assert drawn == (0 if zero else (1 + geometric) * (1 if coin else -1))


VARIANCES = [Fraction(1, 4), Fraction(1), Fraction(7, 3), Fraction(1600, 9), Fraction(10**12)]


@pytest.mark.parametrize("variance", VARIANCES)
def test_what_is_kept_of_a_laplace_is_a_gaussian(variance: Fraction) -> None:
    """SampCert's proposal and acceptance: the exponents add up to y^2/(2 sigma^2) and a constant, in exact numbers."""
    proposal = noise._proposal(variance)
    assert proposal.scale == math.isqrt(math.floor(variance)) + 1
    constants = {
        abs(y) / proposal.scale
        + (abs(y) - proposal.exact_centre) ** 2 * proposal.exact_rate
        - y**2 / (2 * variance)
        for y in range(-500, 501)
    }
    assert len(constants) == 1


@pytest.mark.parametrize("variance", VARIANCES[:4])
def test_a_candidate_is_kept_with_exactly_that_probability(variance: Fraction) -> None:
    """At the words around the probability: what lies below is kept, what lies above is not."""
    proposal = noise._proposal(variance)
    candidates = np.arange(-30, 31)
    low, high = zip(
        *(
            exp_bounds((abs(y) - proposal.exact_centre) ** 2 * proposal.exact_rate, 64)
            for y in candidates.tolist()
        ),
        strict=True,
    )
    for offset, kept in ((-1, True), (0, False)):
        words = [at - 1 if kept else at for at in (low if kept else high)]
        some = [n for n, word in enumerate(words) if 0 <= word < 1 << 64]
        source = Scripted(bytes(32), [words[n] for n in some])
        found = noise._gaussian_accepts(source, source.child("refine", offset), candidates[some], proposal)
        assert found.tolist() == [kept] * len(some)
        assert some
