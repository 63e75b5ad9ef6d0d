"""WeightedGaussian, DP-SIPS and the distinct count: what one person's items can do, before noise and after."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping
from fractions import Fraction
from statistics import NormalDist
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from mechanisms import partition_selection
from mechanisms.item_sets import ItemSets, encoded
from mechanisms.partition_selection import DPSips, PrunedSips, WeightedGaussian
from mechanisms.randomness import Stream
from tests.audit.claims import concentrated
from tests.audit.experiment import Draw, Experiment
from tests.audit.finding import Check
from tests.audit.fit import Exact, Fit
from tests.audit.rare import Rare, newcomers
from tests.mechanisms.goodness import stream

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
    """Pr[held + N(0, 1/(2 rho)) > T]."""
    sigma, top = _noise(rho, delta)
    return 1 - NormalDist().cdf((top - held) / sigma)


def _noise(rho: float, delta: float) -> tuple[float, float]:
    """Give sigma, and T, the maximum over j <= delta0 of 1/sqrt(j) + sigma Phi^-1((1-delta)^(1/j))."""
    sigma, normal = math.sqrt(1 / (2 * rho)), NormalDist()
    return sigma, max(
        1 / math.sqrt(j) + sigma * normal.inv_cdf((1 - delta) ** (1 / j)) for j in range(1, DELTA0 + 1)
    )


def aside_of_others(kind: Kind = PrunedSips) -> Exact:
    """Take each person out of random data, the noisy weights of all items given: which items of the others are set
    aside after the first round does not change."""

    def aside(mechanism: WeightedGaussian, sets: Sets, noisy: Mapping[int, int]) -> frozenset[int]:
        coded, labels = hashed(sets)
        this = mechanism.rounds[0]
        weights = this.weights(coded)
        present = np.flatnonzero(weights >= this.floor) if this.least else np.unique(coded.items)
        given = np.array([noisy[int(label)] for label in labels[present]], dtype=np.int64)
        with patch.object(partition_selection, "discrete_gaussian", lambda *_: given - weights[present]):
            _, places = this.sort_out(weights[present], stream())
        return frozenset(int(label) for label in labels[present[places]])

    def compute() -> tuple[str, bool]:
        mechanism, changed, found = kind(EPS, DELTA, Fraction(1), Fraction(1), DELTA0), 0, 0
        number = mechanism.rounds[0].aside
        assert number is not None
        for family in range(60):
            sets = random_sets(family)
            around = stream("audit", "aside", family).words(7).tolist()
            noisy = {
                item: number + (word % (8 * WEIGHT_ONE)) - 4 * WEIGHT_ONE for item, word in enumerate(around)
            }
            whole = aside(mechanism, sets, noisy)
            found += len(whole)
            for person in sets:
                others = {p: own for p, own in sets.items() if p != person}
                theirs = {item for own in others.values() for item in own}
                changed += (whole & theirs) != aside(mechanism, others, noisy)
        return f"{changed} changes of {found} items", changed == 0 and found > 60

    return Exact("PrunedSips", "what is set aside of others' items", "no change", compute)


def pruned_law(kind: Kind = PrunedSips) -> Fit:
    """How often items of equal weight come out, where those far below the last threshold are set aside."""
    size, held = 400, 2
    mechanism = kind(EPS, DELTA, Fraction(8), Fraction(1), DELTA0)
    sets = {p * size + i: (i,) for i in range(size) for p in range(held)}

    def draw(stream: Stream, n: int) -> list[int]:
        coded, _ = hashed(sets)
        out: list[int] = []
        for number in range(n // size):
            came = mechanism.release(coded, stream.child(number)).indices
            out += [int(x) for x in np.isin(np.arange(size), came)]
        return out

    def law() -> dict[int, float]:
        shares = [share / 13 for share in (1, 3, 9)]
        last = _noise(4 * shares[-1], float(DELTA) * shares[-1])[1]
        comes, looked_at = 0.0, 1.0
        for share in shares:
            sigma = _noise(4 * share, float(DELTA) * share)[0]
            out = _comes_out(held, 4 * share, float(DELTA) * share)
            behind = NormalDist().cdf((last - 2 * sigma - held) / sigma)
            comes += looked_at * out
            looked_at *= 1 - out - behind
        return {1: comes, 0: 1 - comes}

    return Fit("PrunedSips", "how many come out", "Gaussian tails", draw, law, 120_000)


CASES: tuple[Check, ...] = (
    *(select(base, what) for base in (WeightedGaussian, DPSips, PrunedSips) for what in PAIRS),
    *(news(base, what) for base in (WeightedGaussian, DPSips, PrunedSips) for what in NEWS),
    aside_of_others(),
    pruned_law(),
    weight_sensitivity(WeightedGaussian),
    selection_law(WeightedGaussian),
    selection_law(DPSips),
)
