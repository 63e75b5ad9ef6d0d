"""WeightedGaussian, DP-SIPS and the distinct count: what one person's items can do, before noise and after."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping
from fractions import Fraction
from statistics import NormalDist
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mechanisms.distinct_count import DistinctCount, PersonLevelDistinctCount
from mechanisms.item_sets import ItemSets, encoded
from mechanisms.matching import greedy_counts, matching_counts
from mechanisms.partition_selection import DPSips, WeightedGaussian
from mechanisms.randomness import Stream
from tests.audit.claims import concentrated, pure
from tests.audit.experiment import Draw, Experiment
from tests.audit.finding import Check
from tests.audit.fit import Exact, Fit, coarse
from tests.audit.rare import Rare, newcomers
from tests.mechanisms.goodness import laplace_law, stream

EPS, DELTA = Fraction(2), Fraction(1, 10)
Sets = Mapping[int, tuple[int, ...]]
"""Person to items."""
Encode = Callable[[Sets], tuple[ItemSets, NDArray[Any]]]
Kind = type[WeightedGaussian]


class Selected(NamedTuple):
    """What leaves of partition selection: labels in order; no counts."""

    rows: tuple[tuple[int, None], ...]


def hashed(sets: Sets) -> tuple[ItemSets, NDArray[Any]]:
    """Number persons and items as the project does, by keyed hash."""
    pairs = [(person, item) for person, items in sets.items() for item in items]
    persons, items = (np.array([pair[i] for pair in pairs], dtype=np.int64) for i in range(2))
    return encoded(bytes(32), persons, items)


def selected(mechanism: WeightedGaussian, sets: Sets, encode: Encode = hashed) -> Draw:
    """Give the draws of a partition selection."""
    coded, labels = encode(sets)

    def draw(stream: Stream, n: int) -> list[Selected]:
        releases = (mechanism.release(coded, stream.child(i)) for i in range(n))
        return [Selected(tuple((int(labels[i]), None) for i in r.indices.tolist())) for r in releases]

    return draw


def crowd(item: int, n: int, first: int) -> Sets:
    """Many persons with one item."""
    return {first + person: (item,) for person in range(n)}


PAIRS: dict[str, tuple[Sets, Sets]] = {
    "a person with items of one's own": ({}, {1: (0, 1, 2)}),
    "a person with one item of one's own": (crowd(9, 6, 100), {**crowd(9, 6, 100), 1: (0,)}),
    "a person on items at the threshold": (
        {**crowd(0, 2, 100), **crowd(1, 2, 200), **crowd(2, 2, 300)},
        {**crowd(0, 2, 100), **crowd(1, 2, 200), **crowd(2, 2, 300), 1: (0, 1, 2)},
    ),
    "a person with more than delta0 items": (
        {**crowd(0, 3, 100), **crowd(1, 3, 200)},
        {**crowd(0, 3, 100), **crowd(1, 3, 200), 1: tuple(range(12))},
    ),
}
NEWS = ("a person with items of one's own", "a person with one item of one's own")
DELTA0 = 3


def select(base: Kind, what: str, kind: Kind | None = None, encode: Encode = hashed) -> Experiment:
    """One unit, one call."""
    left, right = PAIRS[what]
    mechanism = (kind or base)(EPS, DELTA, Fraction(1), Fraction(1), DELTA0)
    sides = selected(mechanism, left, encode), selected(mechanism, right, encode)
    claims = concentrated(base(EPS, DELTA, Fraction(1), Fraction(1), DELTA0).cost_at_most, EPS, DELTA)
    views = {"keys": keys, "row count": row_count, "order": order}
    return Experiment(base.__name__, what, claims, sides, views, 1500 if base is WeightedGaussian else 800)


def keys(outcome: Selected) -> Hashable:
    return frozenset(outcome.rows)


def order(outcome: Selected) -> Hashable:
    return outcome.rows


def row_count(outcome: Selected) -> Hashable:
    return len(outcome.rows)


def news(base: Kind, what: str, kind: Kind | None = None, encode: Encode = hashed) -> Rare:
    """Items that one person alone has come out with delta at most."""
    left, right = PAIRS[what]
    items = [{item for own in sets.values() for item in own} for sets in (left, right)]
    mechanism = (kind or base)(EPS, DELTA, Fraction(1, 4), Fraction(1), DELTA0)
    draw = selected(mechanism, right, encode)
    return newcomers(base.__name__, what, float(DELTA), draw, frozenset(items[1] - items[0]), 2000)


WEIGHT_ONE = 1 << 20


def weights_of(sets: Sets, delta0: int, encode: Encode) -> dict[int, int]:
    """The weights before noise, by label."""
    mechanism = WeightedGaussian(EPS, DELTA, Fraction(1), Fraction(1), delta0)
    coded, labels = encode(sets)
    return dict(zip(labels.tolist(), mechanism.rounds[0].weights(coded).tolist(), strict=True))


def random_sets(number: int, persons: int = 8, items: int = 7) -> Sets:
    """Persons with some of a few items: about half of them each."""
    bits = stream("audit", "sets", number).words(persons).tolist()
    every = {p: tuple(i for i in range(items) if word >> i & 1) for p, word in enumerate(bits)}
    return {person: own for person, own in every.items() if own}


def weight_sensitivity(base: Kind, encode: Encode = hashed) -> Exact:
    """Take each person out of random data: the weights change by a vector of length 1 at most, entries 1/sqrt(j)."""

    def moves(sets: Sets) -> list[list[int]]:
        before = weights_of(sets, DELTA0, encode)
        without = [{p: own for p, own in sets.items() if p != person} for person in sets]
        after = [weights_of(left, DELTA0, encode) for left in without]
        return [[before[item] - left.get(item, 0) for item in before] for left in after]

    def compute() -> tuple[str, bool]:
        found = [[x for x in move if x] for number in range(60) for move in moves(random_sets(number))]
        longest = max(math.sqrt(sum(x * x for x in move)) for move in found) / WEIGHT_ONE
        even = all(0 < x <= WEIGHT_ONE / math.sqrt(len(move)) for move in found for x in move)
        return f"l2 up to {longest:.6f}", 0.99 < longest <= 1 and even

    return Exact(base.__name__, "a person's weight before noise", "l2 at most 1", compute)


def selection_law(base: Kind, kind: Kind | None = None) -> Fit:
    """How often items of equal weight come out, against rounds of Gaussian tails computed here."""
    size, held = 400, 2
    shares = (
        (Fraction(1),) if base is WeightedGaussian else (Fraction(1, 13), Fraction(3, 13), Fraction(9, 13))
    )
    mechanism = (kind or base)(EPS, DELTA, Fraction(8), Fraction(1), DELTA0)
    sets = {p * size + i: (i,) for i in range(size) for p in range(held)}

    def draw(stream: Stream, n: int) -> list[int]:
        coded, _ = hashed(sets)
        out: list[int] = []
        for number in range(n // size):
            came = mechanism.release(coded, stream.child(number)).indices
            seen = np.isin(np.arange(size), came)
            out += [int(x) for x in seen]
        return out

    def law() -> dict[int, float]:
        stays = 1.0
        for share in shares:
            stays *= 1 - _comes_out(held, float(4 * share), float(DELTA * share))
        return {1: 1 - stays, 0: stays}

    return Fit(base.__name__, "how many come out", "Gaussian tails", draw, law, 120_000)


def _comes_out(held: int, rho: float, delta: float) -> float:
    """Pr[held + N(0, 1/(2 rho)) > T], T the maximum over j <= delta0 of 1/sqrt(j) + sigma Phi^-1((1-delta)^(1/j))."""
    sigma, normal = math.sqrt(1 / (2 * rho)), NormalDist()
    top = max(1 / math.sqrt(j) + sigma * normal.inv_cdf((1 - delta) ** (1 / j)) for j in range(1, DELTA0 + 1))
    return 1 - normal.cdf((top - held) / sigma)


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
    *(select(base, what) for base in (WeightedGaussian, DPSips) for what in PAIRS),
    *(news(base, what) for base in (WeightedGaussian, DPSips) for what in NEWS),
    weight_sensitivity(WeightedGaussian),
    selection_law(WeightedGaussian),
    selection_law(DPSips),
    count_sensitivity("matching"),
    count_sensitivity("greedy"),
    *(distinct(what, counting) for what in DISTINCT for counting in ("matching", "greedy")),
    bounds_law(),
    count_noise(),
    lower_bound(),
)
