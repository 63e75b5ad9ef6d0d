"""Partition selection by others, in floating point, for comparison only: DPSU and GW go person by person."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from mechanisms.item_sets import ItemSets

BUFFER = 3.0
"""How many scales of the noise (sigma, 1/epsilon) the policies aim above the threshold."""


def dpsu(sets: ItemSets, rho: float, delta: float, delta0: int, random: np.random.Generator) -> int:
    """Count what DPSU's Policy Gaussian releases (Gopi et al. 2020, Algorithms 7 and 8).

    Each person lifts her items towards a goal above the threshold, by their gaps scaled to l2 norm 1.
    """
    sigma = math.sqrt(1 / (2 * rho))
    j = np.arange(1, delta0 + 1)
    threshold = float(np.max(1 / np.sqrt(j) + sigma * norm.isf(-np.expm1(np.log1p(-delta) / j))))
    goal = threshold + BUFFER * sigma
    weights = np.zeros(sets.size)
    kept = sets.capped(delta0)
    for person in random.permutation(kept.persons).tolist():
        items = kept.items[kept.offsets[person] : kept.offsets[person + 1]]
        gaps = goal - weights[items]
        weights[items] += gaps / max(1.0, math.sqrt(float(gaps @ gaps)))
    return _above(weights, random.normal(scale=sigma, size=sets.size), threshold)


def gw(sets: ItemSets, epsilon: float, delta: float, random: np.random.Generator) -> int:
    """Count what GW releases (Carvalho et al. 2022): weight 1 a person, to her most frequent items below the goal.

    `sets`: each person's own order is the most frequent item first. What only one person has gets all of her weight,
    so it is one item, and the threshold that of a single count.
    """
    threshold = 1 + math.log(1 / (2 * delta)) / epsilon
    goal = threshold + BUFFER / epsilon
    weights = [0.0] * sets.size
    for person in random.permutation(sets.persons).tolist():
        budget = 1.0
        for item in sets.items[sets.offsets[person] : sets.offsets[person + 1]].tolist():
            if (step := min(goal - weights[item], budget)) > 0:
                weights[item] += step
                budget -= step
            if budget <= 0:
                break
    return _above(np.array(weights), random.laplace(scale=1 / epsilon, size=sets.size), threshold)


def _above(weights: NDArray[np.float64], noise: NDArray[np.float64], threshold: float) -> int:
    return int(np.count_nonzero((weights > 0) & (weights + noise > threshold)))
