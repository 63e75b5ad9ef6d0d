"""PersonLevelDistinctCount: the choice of l, the count's noise, the lower bound, and mutants."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from functools import lru_cache

import numpy as np
import pytest
from scipy.stats import binomtest

from mechanisms.distinct_count import ONE, DistinctCount, PersonLevelDistinctCount
from mechanisms.histogram import Cost, Counts
from mechanisms.item_sets import ItemSets, encoded
from tests.mechanisms.goodness import ALPHA, Law, laplace_law, p_value, power, stream
from tests.mechanisms.scripted import Untouched
from tests.mechanisms.test_item_sets import KEY, integers, random_pairs

EPS, BETA = Fraction(2), Fraction(1, 4)
COUNTS = integers(30, 47, 55, 58)
DRAWS = 4000
MECHANISM = PersonLevelDistinctCount(EPS, 4, BETA, "matching")


def true_scores(counts: Counts, eps: float, beta: float) -> list[float]:
    """The generalised exponential mechanism's scores by definition."""
    bounds = range(1, len(counts) + 1)
    q = [c - 2 * i / eps * math.log(1 / (2 * beta)) for i, c in zip(bounds, counts.tolist(), strict=True)]
    t = 4 / eps * math.log(len(counts) / beta)
    return [min((q[i - 1] - t * i - (q[j - 1] - t * j)) / (i + j) for j in bounds) for i in bounds]


def choice_law(eps: float) -> Law[int]:
    """Pr[l] for COUNTS, the mechanism run with eps/2: proportional to exp(eps s/4)."""
    weights = [math.exp(eps / 4 * score) for score in true_scores(COUNTS, 2.0, 0.25)]
    return {i: weight / sum(weights) for i, weight in enumerate(weights, 1)}


class HalfOrder(PersonLevelDistinctCount):
    @property
    def order_scale(self) -> Fraction:
        return super().order_scale / 2


class HalfScale(PersonLevelDistinctCount):
    def scale(self, bound: int) -> Fraction:
        return super().scale(bound) / 2


class UnitScale(PersonLevelDistinctCount):
    """Noise for one item, whatever l."""

    def scale(self, bound: int) -> Fraction:
        return super().scale(1)


class HalfOffset(PersonLevelDistinctCount):
    """What the authors' released code subtracts."""

    def offset(self, bound: int) -> int:
        return super().offset(bound) // 2


@lru_cache
def drawn(kind: type[PersonLevelDistinctCount] = PersonLevelDistinctCount) -> list[DistinctCount]:
    mechanism = kind(EPS, 4, BETA, "matching")
    root = stream("distinct", kind.__name__)
    return [mechanism.release_counts(COUNTS, root.child(i)) for i in range(DRAWS)]


def noises(releases: list[DistinctCount], bound: int) -> list[int]:
    return [r.lower_bound + r.offset - int(COUNTS[bound - 1]) for r in releases if r.bound == bound]


def test_scores() -> None:
    """Those of the definition, rounded down to 2^-16; the constants differ by no more than 2^-11 l."""
    for counts in (COUNTS, integers(0, 0, 0, 0), integers(5, 5, 5, 5), integers(1, 1000, 10**6, 10**9)):
        scores = MECHANISM.scores(counts) / ONE
        assert np.abs(scores - true_scores(counts, 2.0, 0.25)).max() < 2**-9 + 1e-9 * counts.max()


def test_scores_have_sensitivity_one() -> None:
    """Over random neighbouring counts, reached nearly, in both directions."""
    words = stream("scores").words(400 * 8).reshape(400, 8).tolist()
    worst = [0, 0]
    for row in words:
        low = np.cumsum([x % 40 for x in row[:4]]).astype(np.int64)
        high = np.maximum.accumulate(low + np.array([x % (i + 2) for i, x in enumerate(row[4:])]))
        change = MECHANISM.scores(high) - MECHANISM.scores(low)
        worst = [min(worst[0], int(change.min())), max(worst[1], int(change.max()))]
    assert -ONE <= worst[0] < -0.8 * ONE
    assert 0.8 * ONE < worst[1] <= ONE


@pytest.mark.statistical
def test_choice() -> None:
    """l follows exp((eps/2) s/2): n 4,000, alpha 1e-4; half the noise is caught with power over 0.999."""
    law = choice_law(2.0)
    assert p_value([r.bound for r in drawn()], law) > ALPHA
    assert power(law, choice_law(4.0), DRAWS) > 0.999
    assert p_value([r.bound for r in drawn(HalfOrder)], law) < ALPHA


@pytest.mark.statistical
def test_noise() -> None:
    """Laplace of scale 2 l/eps on DC(D; l), for every l often drawn: alpha 1e-4; mutants are caught."""
    bounds = [bound for bound, n in Counter(r.bound for r in drawn()).items() if n > 300]
    assert len(bounds) >= 2
    for bound in bounds:
        assert p_value(noises(drawn(), bound), laplace_law(bound)) > ALPHA
    common = max(bounds)
    for mutant in (HalfScale, UnitScale):
        assert p_value(noises(drawn(mutant), common), laplace_law(common)) < ALPHA


@pytest.mark.statistical
def test_lower_bound() -> None:
    """Above DC(D; l) with probability beta = 1/4 at most: n 4,000, alpha 1e-4; half the offset is caught."""

    def failures(releases: list[DistinctCount]) -> float:
        failed = sum(r.lower_bound > COUNTS[r.bound - 1] for r in releases)
        return float(binomtest(failed, DRAWS, 0.25, alternative="greater").pvalue)

    assert failures(drawn()) > ALPHA
    assert failures(drawn(HalfOffset)) < ALPHA


@pytest.mark.parametrize("beta", [Fraction(1, 2), Fraction(1, 20), Fraction(1, 10**6)])
def test_offset_is_the_least(beta: Fraction) -> None:
    mechanism = PersonLevelDistinctCount(EPS, 100, beta, "greedy")
    for bound in (1, 7, 100):
        q = math.exp(-1 / bound)
        offset = mechanism.offset(bound)
        assert q ** (offset + 1) / (1 + q) <= float(beta) * (1 + 1e-12)
        assert offset == 0 or q**offset / (1 + q) > float(beta)
        assert offset <= math.ceil(bound * math.log(1 / (2 * beta)))


@pytest.mark.parametrize("counting", ["matching", "greedy"])
def test_release(counting: str) -> None:
    """Two calls in one; the order of the input changes nothing, nor does a replay; 5/4 units."""
    mechanism = PersonLevelDistinctCount(Fraction(3, 20), 20, Fraction(1, 20), counting)  # type: ignore[arg-type]
    persons, items = random_pairs(300, 2000, 6000, "release")
    sets, _ = encoded(KEY, persons, items)
    turned, _ = encoded(KEY, persons[::-1], items[::-1])
    first = mechanism.release(sets, stream("release"))
    assert first == mechanism.release(turned, stream("release"))
    assert first == mechanism.release_counts(mechanism.counts(sets), stream("release"))
    assert first.cost == mechanism.cost_at_most == Cost(Fraction(5, 4), Fraction(0))
    assert dict(mechanism.parameters)["counting"] == counting


def test_nobody() -> None:
    sets, _ = encoded(KEY, integers(), integers())
    release = MECHANISM.release(sets, stream("nobody"))
    assert release.lower_bound + release.offset < 60


def test_bad_input() -> None:
    with pytest.raises(ValueError, match="twice"):
        MECHANISM.release(ItemSets(integers(0, 2), integers(1, 1), 2), Untouched())
    for counts in (COUNTS[:3], COUNTS[::-1], integers(-1, 0, 0, 0), COUNTS * 1.0, COUNTS << 50):
        with pytest.raises(ValueError, match="count"):
            MECHANISM.release_counts(counts, Untouched())  # type: ignore[arg-type]
    for parameters in (
        (Fraction(0), 4, BETA, "matching"),
        (0.1, 4, BETA, "matching"),
        (EPS, 0, BETA, "matching"),
        (EPS, 4097, BETA, "matching"),
        (EPS, 4, Fraction(0), "matching"),
        (EPS, 4, Fraction(2, 3), "matching"),
        (EPS, 4, 0.25, "matching"),
        (EPS, 4, BETA, "sampling"),
    ):
        with pytest.raises(ValueError, match=r"eps_per|l_max|beta|counting"):
            PersonLevelDistinctCount(*parameters)
