"""Distinct counts by others, in floating point, for comparison only: sampling and Race-to-the-Top."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from mechanisms.histogram import Counts
from mechanisms.item_sets import ItemSets


def sampling_counts(sets: ItemSets, most: int, random: np.random.Generator) -> Counts:
    """Give the number of different items when each person contributes l random ones, for l = 1..most.

    The samples of a person grow with l.
    """
    places = random.random(len(sets.items))
    order = np.lexsort((places, sets.owners))
    ranks = np.empty(len(order), dtype=np.int64)
    ranks[order] = np.arange(len(order)) - np.repeat(sets.offsets[:-1], sets.degrees)
    first = np.full(sets.size, most)
    np.minimum.at(first, sets.items, ranks)
    return np.cumsum(np.bincount(first, minlength=most + 1)[:most]).astype(np.int64)


def race_to_the_top(counts: Counts, epsilon: float, beta: float, random: np.random.Generator) -> float:
    """Give the largest of penalised noisy counts for l = 2, 4, 8, ... (Dong et al. 2022).

    `counts`: DC(D; l) for l = 1..l_max.
    """
    turns = max(1, math.floor(math.log2(len(counts))))
    bounds = 2 ** np.arange(1, turns + 1)
    scales: NDArray[np.float64] = turns * bounds / epsilon
    noisy = counts[bounds - 1] + random.laplace(scale=scales) - scales * math.log(turns / beta)
    return max(0.0, float(noisy.max()))
