"""PersonLevelDistinctCount: what one person's items can do before noise and after; choice of l, noise, lower bound."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from mechanisms.distinct_count import DistinctCount, PersonLevelDistinctCount
from mechanisms.item_sets import ItemSets
from mechanisms.matching import greedy_counts, matching_counts
from mechanisms.randomness import Stream
from tests.audit.claims import concentrated, pure
from tests.audit.experiment import Draw, Experiment
from tests.audit.finding import Check
from tests.audit.fit import Exact, Fit, coarse
from tests.audit.rare import Rare
from tests.audit.selection_cases import EPS, Encode, Sets, hashed, random_sets
from tests.mechanisms.goodness import laplace_law

Counting = Literal["matching", "greedy"]
NAME = "PersonLevelDistinctCount"
Counts = Callable[[ItemSets, int], NDArray[np.int64]]


def count_sensitivity(counting: Counting, counts: Counts | None = None, encode: Encode = hashed) -> Exact:
    """Take each person out of random data: DC(D; l) or its greedy twin falls by l at most, never rises."""
    count = counts or (matching_counts if counting == "matching" else greedy_counts)

    def worst(sets: Sets) -> float:
        before = count(encode(sets)[0], 5)
        falls = [
            before - count(encode({p: own for p, own in sets.items() if p != person})[0], 5)
            for person in sets
        ]
        return max(float(np.max(np.abs(fall) / np.arange(1, 6))) for fall in falls)

    def compute() -> tuple[str, bool]:
        largest = max(worst(random_sets(number, 6, 12)) for number in range(60))
        return f"largest {largest:.2f} l", largest == 1

    return Exact(NAME, f"a person's share before noise, {counting}", "l at most", compute)


DISTINCT: dict[str, tuple[Sets, Sets]] = {
    "a person with all items": ({}, {1: tuple(range(4))}),
    "a person more": (
        {p: tuple(range(4 * p, 4 * p + 4)) for p in range(30)},
        {p: tuple(range(4 * p, 4 * p + 4)) for p in range(31)},
    ),
}


def distinct(
    what: str, counting: Counting, kind: type[PersonLevelDistinctCount] = PersonLevelDistinctCount
) -> Experiment:
    """5/4 units; eps_per-DP by its theorem as well."""
    mechanism = kind(EPS, 3, Fraction(1, 20), counting)

    def side(sets: Sets) -> Draw:
        counts = PersonLevelDistinctCount(EPS, 3, Fraction(1, 20), counting).counts(
            hashed(sets)[0] if sets else EMPTY
        )
        return lambda stream, n: [mechanism.release_counts(counts, stream.child(i)) for i in range(n)]

    left, right = (side(sets) for sets in DISTINCT[what])
    claims = (pure(EPS), *concentrated(mechanism.cost_at_most, EPS, Fraction(0)))
    views: dict[str, Callable[[DistinctCount], Hashable]] = {
        "raw": lambda o: (o.lower_bound, o.bound),
        "l": lambda o: o.bound,
        "bound": lambda o: o.lower_bound,
        "count": lambda o: o.lower_bound + o.offset,
        "low bits": lambda o: o.lower_bound & 3,
    }
    return Experiment(NAME, f"{what}, {counting}", claims, (left, right), views, 1500)


EMPTY = ItemSets(np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.int64), 0)
TRUE_COUNTS = np.array([3, 6, 8], dtype=np.int64)


def bounds_law(kind: type[PersonLevelDistinctCount] = PersonLevelDistinctCount) -> Fit:
    """l by the generalised exponential mechanism, its scores computed here in floating point."""
    beta = 1 / 20
    mechanism = kind(EPS, 3, Fraction(1, 20), "matching")

    def draw(stream: Stream, n: int) -> list[int]:
        return [mechanism.release_counts(TRUE_COUNTS, stream.child(i)).bound for i in range(n)]

    def law() -> dict[int, float]:
        eps = float(EPS)
        q = {b: c - 2 * b / eps * math.log(1 / (2 * beta)) for b, c in enumerate(TRUE_COUNTS.tolist(), 1)}
        t = 4 / eps * math.log(len(q) / beta)
        score = {b: min((q[b] - t * b - q[j] + t * j) / (b + j) for j in q) for b in q}
        weights = {b: math.exp(eps / 2 * s / 2) for b, s in score.items()}
        return {b: w / sum(weights.values()) for b, w in weights.items()}

    return Fit(NAME, "choice of l", "exp(eps s/4)", draw, law, 3000)


def lower_bound(kind: type[PersonLevelDistinctCount] = PersonLevelDistinctCount) -> Rare:
    """The lower bound exceeds the true number with probability beta = 1/20 at most."""
    mechanism = kind(Fraction(1, 4), 1, Fraction(1, 20), "matching")
    counts = np.array([7], dtype=np.int64)

    def draw(stream: Stream, n: int) -> list[DistinctCount]:
        return [mechanism.release_counts(counts, stream.child(i)) for i in range(n)]

    return Rare(NAME, "lower bound above the truth", 1 / 20, draw, lambda o: o.lower_bound > 7)


def count_noise(kind: type[PersonLevelDistinctCount] = PersonLevelDistinctCount) -> Fit:
    """The noise on DC(D; l), l = 1: Lap(2/eps)."""
    mechanism = kind(Fraction(1, 4), 1, Fraction(1, 20), "matching")

    def draw(stream: Stream, n: int) -> list[int]:
        counts = np.array([7], dtype=np.int64)
        done = (mechanism.release_counts(counts, stream.child(i)) for i in range(n))
        return [(o.lower_bound + o.offset - 7) // 3 for o in done]

    return Fit(NAME, "noise", "Lap(8)", draw, lambda: coarse(laplace_law(8.0), 3), 6000)


CASES: tuple[Check, ...] = (
    count_sensitivity("matching"),
    count_sensitivity("greedy"),
    *(distinct(what, counting) for what in DISTINCT for counting in ("matching", "greedy")),
    bounds_law(),
    count_noise(),
    lower_bound(),
)
