"""Output laws by enumeration: UnkLap and UnkGauss with two places, UnkGumb with a few."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import pairwise, permutations

from mechanisms.unknown_domain import UnkGumb
from tests.mechanisms.goodness import Law, peeling_law

Shown = tuple[tuple[int, int], ...]
"""What came out: (place, noisy count), in order."""


def thresholded(counts: Sequence[int], threshold: int, noise: Law[int], bar: Law[int]) -> dict[Shown, float]:
    """The law of two noised counts against a noised threshold (the last count), ties in either order."""
    law: dict[Shown, float] = defaultdict(float)
    first, second, last = counts
    for y, p in bar.items():
        least = last + threshold + y + 1
        options: list[dict[Shown, float]] = []
        for place, count in ((0, first), (1, second)):
            values: dict[Shown, float] = {
                ((place, count + x),): q for x, q in noise.items() if count + x >= least
            }
            values[()] = 1 - sum(values.values())
            options.append(values)
        for one, q in options[0].items():
            for two, r in options[1].items():
                orders = [s for s in permutations(one + two) if all(a[1] >= b[1] for a, b in pairwise(s))]
                for shown in orders:
                    law[shown] += p * q * r / len(orders)
    return dict(law)


def unk_gumb_law(
    counts: Sequence[int], mechanism: UnkGumb, bottom: Callable[[int], float]
) -> dict[tuple[int, ...], float]:
    """The law of the places that come out: exponential mechanism for k_bar, then peeling until bottom."""
    eps, tau, k = float(mechanism.eps_per), mechanism.tau, mechanism.k
    scale = eps / tau
    index = {i: math.exp(-scale * counts[i]) / i for i in range(k, mechanism.d_bar + 1)}
    law: dict[tuple[int, ...], float] = defaultdict(float)
    for k_bar, weight in index.items():
        floor = counts[k_bar]
        weights = {j: math.exp(scale * counts[j]) for j in range(k_bar) if counts[j] > floor}
        weights[-1] = bottom(k_bar) * math.exp(scale * (floor + tau))
        for order, p in peeling_law(weights, k).items():
            out = order[: order.index(-1)] if -1 in order else order
            law[out] += p * weight / sum(index.values())
    return dict(law)
