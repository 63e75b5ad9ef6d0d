"""DistinctCountCurve: what one more person moves and what that costs, in exact numbers; its noise, its lower bound."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from fractions import Fraction

import numpy as np

from mechanisms import distinct_curve
from mechanisms.distinct_curve import DistinctCountCurve, DistinctEstimate
from mechanisms.histogram import Counts
from mechanisms.randomness import Stream
from tests.audit.claims import concentrated
from tests.audit.clip_cases import recorded
from tests.audit.distinct_cases import DISTINCT, EMPTY
from tests.audit.experiment import Draw, Experiment
from tests.audit.finding import Check
from tests.audit.fit import Exact, Fit, coarse
from tests.audit.rare import Rare
from tests.audit.selection_cases import Sets, hashed, random_sets
from tests.mechanisms.goodness import gaussian_law, stream

NAME = "DistinctCountCurve"
EPS, BETA = Fraction(1), Fraction(1, 20)
Kind = type[DistinctCountCurve]


def curve_of(kind: Kind = DistinctCountCurve, most: int = 9, eps: Fraction = EPS) -> DistinctCountCurve:
    return kind(eps, most, BETA)


def noised(curve: DistinctCountCurve, sets: Sets) -> list[int]:
    """The steps of these sets."""
    return curve.steps(curve.counts(hashed(sets)[0] if sets else EMPTY))


def variance(curve: DistinctCountCurve) -> Fraction:
    """Of each step's noise, read off the call of the sampler."""
    with recorded(distinct_curve, "discrete_gaussian") as calls:
        curve.release_counts(np.zeros(len(curve.bounds), dtype=np.int64), stream())
    return Fraction(calls[0][1])


def price(kind: Kind = DistinctCountCurve) -> Exact:
    """Take each person out of random data: one unit of rho at most, all of it for a person of many own items."""

    def worst(curve: DistinctCountCurve, sets: Sets) -> Fraction:
        before, most = noised(curve, sets), 0
        for person in sets:
            after = noised(curve, {p: own for p, own in sets.items() if p != person})
            most = max(most, sum((x - y) ** 2 for x, y in zip(before, after, strict=True)))
        return Fraction(most) / (2 * variance(curve))

    def compute() -> tuple[str, bool]:
        curve = curve_of(kind)
        unit = curve.cost_at_most.information * EPS**2 / 8
        families = [random_sets(number, 6, 12) for number in range(60)]
        families.append({1: tuple(range(12)), 2: tuple(range(6, 18))})
        largest = max(worst(curve, sets) for sets in families) / unit
        return f"at most {float(largest):.3f} of it", largest == 1

    return Exact(NAME, "price", "all of the price", compute)


def one_more(what: str, kind: Kind = DistinctCountCurve) -> Experiment:
    curve = curve_of(kind)

    def side(sets: Sets) -> Draw:
        counts = curve_of().counts(hashed(sets)[0] if sets else EMPTY)
        return lambda stream, n: [curve.release_counts(counts, stream.child(i)) for i in range(n)]

    left, right = (side(sets) for sets in DISTINCT[what])
    views: dict[str, Callable[[DistinctEstimate], Hashable]] = {
        "raw": lambda o: (o.estimate, o.bound),
        "l": lambda o: o.bound,
        "estimate": lambda o: o.estimate,
        "low bits": lambda o: o.estimate & 3,
    }
    claims = concentrated(curve.cost_at_most, EPS, Fraction(0))
    return Experiment(NAME, what, claims, (left, right), views, 1500)


def noise(kind: Kind = DistinctCountCurve) -> Fit:
    """The noise on DC(D; 1) where it is the only one: a discrete Gaussian of sigma 2/eps."""
    curve, counts = curve_of(kind, most=1, eps=Fraction(1, 4)), np.array([7], dtype=np.int64)

    def draw(stream: Stream, n: int) -> list[int]:
        return [(curve.release_counts(counts, stream.child(i)).estimate - 7) // 3 for i in range(n)]

    return Fit(NAME, "noise", "sigma 8", draw, lambda: coarse(gaussian_law(64.0), 3), 6000)


def lower_bound(kind: Kind = DistinctCountCurve) -> Rare:
    """Above the number of items with probability 1/20 at most, though the bound is chosen among noisy counts."""
    curve = curve_of(kind, most=1, eps=Fraction(1, 4))
    counts: Counts = np.array([7], dtype=np.int64)

    def draw(stream: Stream, n: int) -> list[DistinctEstimate]:
        return [curve.release_counts(counts, stream.child(i)) for i in range(n)]

    return Rare(NAME, "lower bound above the truth", 1 / 20, draw, lambda o: o.lower_bound > 7)


CASES: tuple[Check, ...] = (
    price(),
    *(one_more(what) for what in DISTINCT),
    noise(),
    lower_bound(),
)
