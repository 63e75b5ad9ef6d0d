"""Counts with a bound on each person's items, as Plume releases them (Amin et al. 2022), for comparison only."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from benchmarks.data import item_counts
from mechanisms.histogram import Counts
from mechanisms.item_sets import ItemSets
from mechanisms.partition_selection import WeightedGaussian
from mechanisms.randomness import Stream


def plume(
    sets: ItemSets,
    rho: Fraction,
    delta: Fraction,
    percentile: int,
    stream: Stream,
    random: np.random.Generator,
) -> tuple[Counts, NDArray[np.float64], float]:
    """Give items, noisy counts and sigma: half of rho finds the items, half pays for their counts.

    The bounds are the true `percentile` of the numbers of items, of all and of found ones: taken from the data
    without privacy, as in Private Count Release, Section 4.
    """
    bound = _percentile(sets, percentile)
    mechanism = WeightedGaussian(Fraction(1), delta, 4 * rho, Fraction(1), bound)
    found = mechanism.release(sets, stream).indices
    rest = np.setdiff1d(np.arange(sets.size), found)
    within = sets.without(rest)
    second = _percentile(within, percentile)
    sigma = math.sqrt(second / float(rho))
    true = item_counts(within.capped(second))[found]
    return found, true + random.normal(scale=sigma, size=len(found)), sigma


def accurate(noisy: NDArray[np.float64], sigma: float, relative_error: float) -> NDArray[np.bool_]:
    """Say which counts Plume with a threshold keeps: those of at least (2 + r) sigma/r."""
    return noisy >= (2 + relative_error) * sigma / relative_error


def _percentile(sets: ItemSets, percentile: int) -> int:
    degrees = sets.degrees
    return max(1, math.ceil(np.percentile(degrees[degrees > 0], percentile)))
