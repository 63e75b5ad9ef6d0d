"""Quantiles of a number cut into bins: QuantileTree for many, QuantileChoice for one. Proof sheet: quantile.md."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np

from mechanisms.histogram import Cost, Counts, Histogram, NoiseFamily, Release
from mechanisms.noise import (
    Integers,
    discrete_gaussian,
    discrete_laplace,
    gaussian_stddev,
    gumbel_order,
    laplace_stddev,
)
from mechanisms.randomness import Stream
from mechanisms.validation import (
    LARGEST_COUNT,
    check_bounds,
    check_epsilon,
    check_noise,
    exact_texts,
    known_counts,
)

COST = Cost(Fraction(1), Fraction(0))
"""Of the quantiles of one number in one group, by either mechanism."""
MOST_LEVELS = 20


class _Bins:
    """Common to both mechanisms: every bin is fetched, empty bins included, and there is no threshold."""

    @property
    def name(self) -> str:
        return type(self).__name__

    @property
    def fetch(self) -> None:
        return None

    @property
    def threshold(self) -> None:
        return None

    @property
    def cost_at_most(self) -> Cost:
        return COST


def _bin_counts(histogram: Histogram, cells: int) -> Counts:
    counts = known_counts(histogram, cells)
    if float(counts.sum(dtype=np.float64)) > LARGEST_COUNT / 2:
        raise ValueError("counts of bins must add up to at most 2^52")
    return counts


@dataclass(frozen=True)
class QuantileTree(_Bins):
    """Noisy counts of all dyadic ranges of 2^levels bins, from which any number of quantiles can be read.

    >>> tree = QuantileTree(Fraction(1, 2), tau=1, levels=3, noise="gaussian")
    >>> tree.cells, tree.sigma_squared, tree.cost_at_most.information
    (8, Fraction(64, 1), Fraction(1, 1))

    `tau`: the most rows of one person in all bins together; `levels`: the tree's depth below its root; `noise`:
    discrete Gaussian sigma = 2 tau sqrt(levels + 1)/eps_per or discrete Laplace b = 2 tau (levels + 1)/eps_per on
    each node. Costs 1 information unit. ValueError for parameters out of range. (quantile.md, Theorem 1)
    """

    eps_per: Fraction
    tau: int
    levels: int
    noise: Literal["gaussian", "laplace"]

    def __post_init__(self) -> None:
        check_epsilon(self.eps_per)
        check_bounds(tau=self.tau, levels=self.levels)
        if self.levels > MOST_LEVELS:
            raise ValueError("levels must be at most 20")
        if self.noise not in ("gaussian", "laplace"):
            raise ValueError("noise must be gaussian or laplace")
        check_noise(self.scale**2)

    @property
    def noise_family(self) -> NoiseFamily:
        return self.noise

    @property
    def cost_at_most(self) -> Cost:
        return replace(COST, epsilon=Fraction(1, 2)) if self.noise == "laplace" else COST

    @property
    def cells(self) -> int:
        """The bins: 2^levels."""
        return 1 << self.levels

    @cached_property
    def scale(self) -> Fraction:
        """b of Laplace noise, in counts."""
        return 2 * self.tau * (self.levels + 1) / self.eps_per

    @cached_property
    def sigma_squared(self) -> Fraction:
        """Parameter sigma^2 of Gaussian noise, in counts squared."""
        return (2 * self.tau / self.eps_per) ** 2 * (self.levels + 1)

    @property
    def stddev(self) -> float:
        return gaussian_stddev(self.sigma_squared) if self.noise == "gaussian" else laplace_stddev(self.scale)

    @property
    def parameters(self) -> tuple[tuple[str, str], ...]:
        return exact_texts(self, scale=self.sigma_squared if self.noise == "gaussian" else self.scale)

    def release(self, histogram: Histogram, stream: Stream) -> Release:
        """Release every node, the root first, then level by level; ValueError unless every bin is there.

        Node i has the children 2i + 1 and 2i + 2.
        """
        rows = [_bin_counts(histogram, self.cells)]
        while len(rows[-1]) > 1:
            rows.append(rows[-1][::2] + rows[-1][1::2])
        nodes = np.concatenate(rows[::-1])
        values = nodes + self._draw(stream.child("nodes"), len(nodes))
        return Release(np.arange(len(nodes)), values, self.stddev, self.cost_at_most)

    def _draw(self, stream: Stream, n: int) -> Integers:
        if self.noise == "gaussian":
            return discrete_gaussian(stream, self.sigma_squared, n)
        return discrete_laplace(stream, self.scale, n)


def tree_quantile(nodes: Counts, quantile: Fraction) -> int:
    """Give the bin that holds a quantile, read from the released nodes of a QuantileTree.

    >>> tree_quantile(np.array([10, 4, 6, 1, 3, 2, 4]), Fraction(1, 2))
    2

    `nodes`: the released values, int64, shape (2^(levels+1) - 1,); `quantile`: from 0 to 1 (ValueError). Walks from the
    root: left where the left range's noisy count reaches what is still to be passed, of quantile times the root.
    """
    if not 0 <= quantile <= 1:
        raise ValueError("a quantile lies from 0 to 1")
    inner = len(nodes) // 2
    rest = quantile * max(int(nodes[0]), 0)
    node = 0
    while node < inner:
        left, right = (max(int(nodes[2 * node + side]), 0) for side in (1, 2))
        goes_right = rest > left and right > 0
        rest = rest - left if goes_right else rest
        node = 2 * node + (2 if goes_right else 1)
    return node - inner


def tree_interval(nodes: Counts, quantile: Fraction, margin: float, slack: int = 0) -> tuple[int, int]:
    """Give the first and the last bin that may hold a quantile, read from the released nodes of a QuantileTree.

    >>> tree_interval(np.array([100, 40, 60, 10, 30, 20, 40]), Fraction(1, 2), margin=10.0)
    (1, 3)

    `margin`: half the width of the 95% interval of one node, in counts; `slack`: how many rows further the value may be
    that is called the quantile. The interval has the bin of the true quantile with probability 95%: the bins are those
    for which neither the rows up to their end are significantly less than quantile times all rows, nor the rows before
    them significantly more, each at 2.5%. All bins where no bin is such. (quantile.md, Theorem 3)
    """
    bins = len(nodes) // 2 + 1
    before, parts = np.zeros(1), np.zeros(1)
    size = 1
    while size < bins:
        size *= 2
        lefts = nodes[size - 1 : 2 * size - 1 : 2]
        before = np.stack([before, before + lefts], axis=1).ravel()
        parts = np.stack([parts, parts + 1], axis=1).ravel()
    q, everything = float(quantile), float(nodes[0])
    passed = q * everything
    far = margin * np.sqrt(parts + q * q) + slack
    upto = np.append((before - passed + far)[1:], (1 - q) * (everything + margin) + slack)
    held = np.flatnonzero((upto >= 0) & (before - passed <= far))
    return (int(held[0]), int(held[-1])) if held.size else (0, bins - 1)


@dataclass(frozen=True)
class QuantileChoice(_Bins):
    """One bin, chosen by the exponential mechanism for how nearly it parts the rows at the quantile.

    >>> QuantileChoice(Fraction(1, 2), tau=3, cells=1024, quantile=Fraction(1, 4)).beta
    Fraction(36, 1)

    `tau`: the most rows of one person in all bins together; `cells`: the bins; `quantile`: q = a/b from 0 to 1.
    Costs 1 information unit. ValueError for parameters out of range. (quantile.md, Theorem 2)
    """

    noise_family: ClassVar[NoiseFamily] = "gumbel"

    eps_per: Fraction
    tau: int
    cells: int
    quantile: Fraction

    def __post_init__(self) -> None:
        check_epsilon(self.eps_per)
        check_bounds(tau=self.tau, cells=self.cells)
        quantile = self.quantile
        if not isinstance(quantile, Fraction) or not 0 <= quantile <= 1 or quantile.denominator > 1000:
            raise ValueError("quantile must be a Fraction from 0 to 1 of a denominator up to 1000")
        check_noise(self.beta**2)

    @cached_property
    def beta(self) -> Fraction:
        """Scale of the Gumbel noise on b times the score: 2 tau max(a, b - a)/eps_per."""
        a, b = self.quantile.as_integer_ratio()
        return 2 * self.tau * max(a, b - a) / self.eps_per

    @property
    def stddev(self) -> None:
        return None

    def ranks(self, together: int = 1) -> float:
        """How many rows the chosen bin is off the quantile's rank at most, with probability 95% for `together` choices.

        >>> round(QuantileChoice(Fraction(3, 20), tau=1, cells=1024, quantile=Fraction(1, 2)).ranks())
        66

        (quantile.md, Theorem 4)
        """
        return float(self.beta) * math.log(20 * self.cells * together) / self.quantile.denominator

    @property
    def parameters(self) -> tuple[tuple[str, str], ...]:
        return exact_texts(self, beta=self.beta)

    def release(self, histogram: Histogram, stream: Stream) -> Release:
        """Release the chosen bin's place; ValueError unless every bin is there."""
        counts = _bin_counts(histogram, self.cells)
        a, b = self.quantile.as_integer_ratio()
        upto = np.cumsum(counts)
        below, above = upto - counts, upto[-1] - upto
        far = np.maximum((b - a) * below - a * (above + counts), a * above - (b - a) * (below + counts))
        scores = -np.maximum(far, 0)
        return Release(
            gumbel_order(stream.child("choice"), scores, self.beta, 1), None, None, self.cost_at_most
        )
