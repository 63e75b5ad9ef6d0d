"""The values that mechanisms take and give: histogram, cost, release."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from mechanisms.randomness import Stream

Counts = NDArray[np.int64]
NoiseFamily = Literal["laplace", "gaussian", "gumbel"]
"""What noise a mechanism draws; "gumbel": on what it chooses, Laplace noise on counts that it shows of that."""


@dataclass(frozen=True, repr=False)
class Histogram:
    """True counts, the only sensitive value in the process: it has no repr of its contents.

    `counts`: int64, shape (n,); over a known domain one entry a cell, otherwise in descending order
    as fetched. `complete`: the backend returned fewer rows than were asked for (or all cells), so that
    positions past the end count 0.
    """

    counts: Counts
    complete: bool


@dataclass(frozen=True)
class Cost:
    """A price in information units (eps_per^2/8 of rho) and call units (delta_per of delta), exact.

    >>> Cost(Fraction(2), Fraction(1)).calls
    Fraction(1, 1)

    `epsilon`: the same release's pure epsilon in units of eps_per, by the same p and q (budget/accounting.md); None
    where there is none, as with Gaussian noise, or none is proved.
    """

    information: Fraction
    calls: Fraction
    epsilon: Fraction | None = None

    def times(self, n: int) -> Cost:
        """The cost of `n` releases of this cost."""
        epsilon = None if self.epsilon is None else n * self.epsilon
        return Cost(n * self.information, n * self.calls, epsilon)

    @staticmethod
    def sum(costs: Iterable[Cost]) -> Cost:
        """All of them together.

        >>> Cost.sum([Cost(Fraction(1), Fraction(0)), Cost(Fraction(1, 4), Fraction(1))])
        Cost(information=Fraction(5, 4), calls=Fraction(1, 1), epsilon=None)
        """
        listed = list(costs)
        information = sum((c.information for c in listed), Fraction(0))
        pure = [c.epsilon for c in listed if c.epsilon is not None]
        epsilon = sum(pure, Fraction(0)) if len(pure) == len(listed) else None
        return Cost(information, sum((c.calls for c in listed), Fraction(0)), epsilon)

    def in_units_of(self, units: Fraction, larger: Fraction) -> Cost:
        """The cost of a mechanism that was given `larger` times the account's eps_per.

        One of its information units is worth `units` of the account's.

        >>> Cost(Fraction(2), Fraction(1), Fraction(1)).in_units_of(Fraction(4), Fraction(2))
        Cost(information=Fraction(8, 1), calls=Fraction(1, 1), epsilon=Fraction(2, 1))
        """
        epsilon = None if self.epsilon is None else larger * self.epsilon
        return Cost(units * self.information, self.calls, epsilon)


@dataclass(frozen=True)
class Release:
    """The released values: positions into the histogram in released order and their noisy counts.

    `indices`, `values`: int64, shape (r,); `values` is None where no counts are shown. `stddev` is the
    standard deviation of each count's noise, None where none is shown; where it differs from count to count
    it is the largest and `stddevs`, float64, shape (r,), tells them. `cost`: what was spent, never above
    `cost_at_most`. `common_stddev`: the standard deviation of the part of the noise that all counts have in common. An
    index into an unknown domain's histogram is a rank by true count: it serves to look up the key and must not leave
    itself.
    """

    indices: Counts
    values: Counts | None
    stddev: float | None
    cost: Cost
    stddevs: NDArray[np.float64] | None = None
    common_stddev: float = 0


class Mechanism(Protocol):
    """The four calls of the Audience Engagements paper: what to fetch, cost at most, release, actual cost."""

    @property
    def name(self) -> str:
        """The paper's name, e.g. KnownLap."""

    @property
    def noise_family(self) -> NoiseFamily:
        """The kind of noise on what is shown, which decides the width of intervals."""

    @property
    def fetch(self) -> int | None:
        """Rows to fetch (d_bar + 1), or None for every cell of a known domain."""

    @property
    def cost_at_most(self) -> Cost:
        """The most that `release` can cost, whatever the data."""

    @property
    def stddev(self) -> float | None:
        """Standard deviation of each released count's noise, None where none is shown."""

    @property
    def threshold(self) -> int | None:
        """The offset T of the threshold, None for known domains (never a value of the data)."""

    @property
    def parameters(self) -> tuple[tuple[str, str], ...]:
        """Every parameter that decides the output's law, as (name, exact text), for the release key."""

    def release(self, histogram: Histogram, stream: Stream) -> Release:
        """The private answer; `Release.cost` is the actual cost."""
