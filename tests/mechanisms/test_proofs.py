"""The steps of unknown_domain.md in exact numbers, over random neighbours."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, replace

import numpy as np
import pytest

from tests.mechanisms.goodness import peeling_law, stream


@dataclass(frozen=True)
class Step:
    """UnkGumb's release step for one k_bar, in numbers: bottom's weight is numerator/delta exp(...)."""

    eps: float
    delta: float
    tau: int
    k_bar: int
    k: int
    numerator: int | None = None
    gone: frozenset[int] = frozenset()
    shifting: bool = False

    def weights(self, h: list[int]) -> dict[int, float]:
        """Weights of the elements above the floor, and of bottom (-1).

        `gone`: elements that came out before; `shifting`: then the floor is the row below the fetched ones, 0.
        """
        order = sorted(range(len(h)), key=lambda j: (-h[j], j))
        shifted = self.shifting and bool(self.gone)
        floor = 0 if shifted else h[order[self.k_bar]]
        fetched = order[: self.k_bar + 1] if shifted else order
        weights = {
            j: math.exp(self.eps * h[j] / self.tau) for j in fetched if h[j] > floor and j not in self.gone
        }
        numerator = self.numerator or self.k_bar
        return {**weights, -1: numerator / self.delta * math.exp(self.eps * (floor + self.tau) / self.tau)}

    def outcomes(self, weights: dict[int, float]) -> dict[tuple[int, ...], float]:
        law: dict[tuple[int, ...], float] = defaultdict(float)
        for order, p in peeling_law(weights, self.k).items():
            law[order[: order.index(-1) + 1] if -1 in order else order] += p
        return law

    def good(self, h: list[int], other: list[int]) -> tuple[float, dict[tuple[int, ...], float]]:
        """Pr[E], and the law given E: peeling on common elements, the bad ones' weight added to bottom's."""
        weights = self.weights(h)
        common = weights.keys() & self.weights(other).keys()
        bad = sum(weight for j, weight in weights.items() if j not in common)
        merged = {j: weights[j] for j in common} | {-1: weights[-1] + bad}
        return weights[-1] / merged[-1], self.outcomes(merged)

    def worst(self, h: list[int], other: list[int]) -> float:
        """The largest sum of p^a q^(1-a) exp(-a(a-1) u |o|) over a few a."""
        (mass, p), (mass_other, q) = self.good(h, other), self.good(other, h)
        alpha = min(mass, mass_other)
        assert alpha >= 1 - self.delta, "mass"
        output = self.outcomes(self.weights(h))
        assert all(alpha * probability <= output[o] * (1 + 1e-9) for o, probability in p.items())
        unit = self.eps**2 / 8
        return max(
            alpha * sum(p[o] ** a * q[o] ** (1 - a) * math.exp(-a * (a - 1) * unit * len(o)) for o in p)
            for a in (1.01, 1.5, 2, 4, 16)
        )


def test_the_proof_of_unk_gumb_on_random_neighbours() -> None:
    """The release step's steps in numbers, over 400 pairs, tau 1..3, every k_bar (proof sheet, Theorem 3).

    alpha times the peeling law with bottom's weight w_bot + B lies below the output law and has mass at
    least 1 - delta; its sum of p^a q^(1-a) exp(-a(a-1) u |o|) is at most 1, u = eps^2/8.
    """
    random = stream("neighbours").words(400 * 12).reshape(400, 12)
    for row in random.tolist():
        tau, k_bar = 1 + row[0] % 3, 1 + row[1] % 4
        low = np.array([x % 6 for x in row[2:7]])
        high = low + [x % (tau + 1) for x in row[7:12]]
        step = Step(eps=0.7, delta=0.1, tau=tau, k_bar=k_bar, k=3)
        for h, other in ((low, high), (high, low)):
            assert step.worst(h.tolist(), other.tolist()) <= 1 + 1e-9


def test_a_smaller_bottom_fails_the_proof() -> None:
    """ln(1/delta) for ln(k_bar/delta): ones that only one person has come out more often than delta."""
    ones = Step(eps=0.7, delta=0.1, tau=1, k_bar=4, k=3)
    assert ones.worst([1, 1, 1, 1, 0], [0, 0, 0, 0, 0]) <= 1 + 1e-9
    with pytest.raises(AssertionError, match="mass"):
        replace(ones, numerator=1).worst([1, 1, 1, 1, 0], [0, 0, 0, 0, 0])


def came_out(step: Step, low: list[int], high: list[int], most: int) -> frozenset[int]:
    """Elements that can have come out before under both of two neighbours."""
    common = step.weights(low).keys() & step.weights(high).keys() - {-1}
    return frozenset(sorted(common)[:most])


def test_the_proof_of_a_step_of_count_release_on_random_neighbours() -> None:
    """count_release.md, Lemma 1, in numbers: 400 pairs, tau 1..3, elements already out, the row as fetched.

    With a row that shifts below the fetched ones when an element is out, the same inequality fails.
    """
    failures = 0
    for row in stream("count release").words(400 * 13).reshape(400, 13).tolist():
        tau, k_bar = 1 + row[0] % 3, 2 + row[1] % 3
        low = np.array([x % 6 for x in row[3:8]])
        high = (low + [x % (tau + 1) for x in row[8:13]]).tolist()
        step = Step(eps=0.7, delta=0.1, tau=tau, k_bar=k_bar, k=1)
        step = replace(step, gone=came_out(step, low.tolist(), high, 1 + row[2] % 2))
        for h, other in ((low.tolist(), high), (high, low.tolist())):
            assert step.worst(h, other) <= 1 + 1e-9
            if step.gone:
                try:
                    failures += replace(step, shifting=True).worst(h, other) > 1 + 1e-9
                except AssertionError:
                    failures += 1
    assert failures >= 5


def test_an_element_lifted_into_the_fetched_rows() -> None:
    """One at c + tau that was at c: with the row as fetched delta, with one that shifts to 0 about 1."""
    lifted, before = [90, 50, 50, 51], [90, 50, 50, 50]
    step = Step(eps=1.0, delta=0.01, tau=1, k_bar=2, k=1, gone=frozenset({0}))
    assert 0 < 1 - step.good(lifted, before)[0] <= step.delta
    assert step.worst(lifted, before) <= 1 + 1e-9
    outcomes = replace(step, shifting=True).outcomes(replace(step, shifting=True).weights(lifted))
    assert outcomes[(3,)] > 0.5


def test_slots_on_random_neighbours() -> None:
    """Lemma S in numbers, over 2,000 pairs: the norms of the change, a slot's height above the threshold."""
    random = stream("slots").words(2000 * 14).reshape(2000, 14)
    for row in random.tolist():
        tau, delta0, d_bar = 1 + row[0] % 3, 1 + row[1] % 3, 1 + row[2] % 4
        low = [x % 6 for x in row[3:9]]
        high = low.copy()
        for i, x in enumerate(row[9 : 9 + delta0]):
            high[(row[12] + i) % 6] += x % (tau + 1)
        tops = [sorted(range(6), key=lambda j, h=h: (-h[j], j)) for h in (low, high)]  # type: ignore[misc]
        common = sorted(set(tops[0][:d_bar]) & set(tops[1][:d_bar]))
        cells = [
            [h[j] for j in common] + [h[j] for j in top[: d_bar + 1] if j not in common]
            for h, top in zip((low, high), tops, strict=True)
        ]
        change = np.abs(np.array(cells[0]) - np.array(cells[1]))
        assert d_bar - len(common) <= delta0
        assert change.sum() <= delta0 * tau
        assert (change**2).sum() <= delta0 * tau**2
        assert change.max() <= tau
        for cell in cells:
            assert max(cell[len(common) :]) <= cell[-1] + tau
