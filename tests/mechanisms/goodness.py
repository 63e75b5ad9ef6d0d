"""Goodness of fit with its level and its power stated: what the statistical tests share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2, ncx2

from mechanisms.randomness import Stream

ALPHA = 1e-4
"""Level of each test: the truth would be rejected once in 10,000 seeds (the seeds are fixed)."""

Outcome = TypeVar("Outcome", bound=Hashable)
Law = Mapping[Outcome, float]


def stream(*labels: str | int) -> Stream:
    """A fixed stream for each label."""
    return Stream(bytes(32)).child(*labels)


def p_value(observed: Iterable[Outcome], law: Law[Outcome]) -> float:
    """The chi-square p-value; outcomes expected fewer than 5 times share a bin, impossible ones reject."""
    counts = Counter(observed)
    n = counts.total()
    if any(outcome not in law for outcome in counts):
        return 0.0
    large = [outcome for outcome, p in law.items() if n * p >= 5]
    seen = np.array([counts[outcome] for outcome in large] + [0.0])
    expected = np.array([n * law[outcome] for outcome in large] + [0.0])
    seen[-1], expected[-1] = n - seen.sum(), n - expected.sum()
    return _tail(seen, expected)


def _tail(seen: NDArray[np.float64], expected: NDArray[np.float64]) -> float:
    if expected[-1] < 5:  # too small a rest: into the smallest bin
        smallest = int(np.argmin(expected[:-1]))
        expected[smallest] += expected[-1]
        seen[smallest] += seen[-1]
        seen, expected = seen[:-1], expected[:-1]
    statistic = float(((seen - expected) ** 2 / expected).sum())
    return float(chi2.sf(statistic, len(expected) - 1))


def power(law: Law[Outcome], lie: Law[Outcome], n: int) -> float:
    """The probability that n samples of `lie` are rejected as samples of `law` at level ALPHA."""
    large = [outcome for outcome, p in law.items() if n * p >= 5]
    shifts = sum(n * (lie.get(outcome, 0.0) - law[outcome]) ** 2 / law[outcome] for outcome in large)
    freedom = len(large)
    return float(ncx2.sf(chi2.isf(ALPHA, freedom), freedom, shifts))


def laplace_law(scale: float, reach: int = 400) -> dict[int, float]:
    """The probabilities of discrete Laplace noise up to `reach`."""
    q = np.exp(-1 / scale)
    return {x: float((1 - q) / (1 + q) * q ** abs(x)) for x in range(-reach, reach + 1)}


def gaussian_law(sigma_squared: float, reach: int = 400) -> dict[int, float]:
    """The probabilities of discrete Gaussian noise up to `reach`."""
    x = np.arange(-reach, reach + 1)
    weights = np.exp(-(x * x) / (2 * sigma_squared))
    return {int(i): float(p) for i, p in zip(x, weights / weights.sum(), strict=True) if p > 0}


def peeling_law(weights: Mapping[int, float], places: int) -> dict[tuple[int, ...], float]:
    """The law of drawing without replacement with these weights, first to last."""
    if places == 0 or not weights:
        return {(): 1.0}
    total = sum(weights.values())
    law = {}
    for first, weight in weights.items():
        rest = {i: w for i, w in weights.items() if i != first}
        for tail, p in peeling_law(rest, places - 1).items():
            law[first, *tail] = weight / total * p
    return law
