"""UnknownDomainSquareRoot: running counts with correlated noise, items unknown. The proof sheet is square_root.md.

Why: docs/decisions/running-counts-by-a-square-root.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np

from mechanisms.continual import BLOCK, RunningCounter
from mechanisms.noise import Floats, Integers, discrete_gaussian, gaussian_stddev
from mechanisms.randomness import Stream
from mechanisms.tails import Weights, gaussian_weighted_threshold
from mechanisms.validation import check_noise

PLACES = 16
"""Binary places of the factor."""
FINE = 10
"""Binary places of a running count's noise, before it is rounded to whole counts."""
RESPONSE = 40
"""Binary places of the bounds of what one draw adds to later counts."""
MOST_TIMES = 1 << 12
"""The longest horizon: the work for an item grows with its square."""


class Factor(NamedTuple):
    """The Toeplitz square root of the running sums of some number of times, in fixed point (square_root.md).

    `entries`: R_k = floor(2^PLACES binom(2k, k)/4^k), of its first column; `squares`: the sum of their squares, which
    no column exceeds; `falls`: int64, R_(k-1) - R_k for k >= 1; `responses`: upper bounds of 2^RESPONSE times what a
    draw of 2^PLACES adds to the count k times later.
    """

    entries: tuple[int, ...]
    squares: int
    falls: Integers
    responses: tuple[int, ...]


@lru_cache(maxsize=16)
def factor(times: int) -> Factor:
    """Give the factor for a horizon of `times`.

    >>> factor(4).entries
    (65536, 32768, 24576, 20480)
    """
    binomials = accumulate(range(1, times), lambda c, k: c * 2 * (2 * k - 1) // k, initial=1)
    entries = tuple((c << PLACES) >> 2 * k for k, c in enumerate(binomials))
    falls = np.array([before - after for before, after in pairwise(entries)], dtype=np.int64)
    responses = np.zeros(times, dtype=np.int64)
    responses[0] = 1 << RESPONSE
    for k in range(1, times):
        responses[k] = -(-int(falls[:k] @ responses[k - 1 :: -1]) >> PLACES)  # up
    squares = sum(entry * entry for entry in entries)
    return Factor(entries, squares, falls, tuple(responses.tolist()))


@dataclass(frozen=True)
class UnknownDomainSquareRoot(RunningCounter):
    """Running counts with the noise of a square-root factorisation, drawn for each item, above a threshold.

    >>> delta = Fraction(1, 10**9)
    >>> stream = UnknownDomainSquareRoot(Fraction(1, 2), delta, delta0=1, events=1, horizon=365, once=False)
    >>> round(stream.stddev, 2), stream.threshold, stream.cost_at_most
    (11.78, 82, Cost(information=Fraction(1, 1), calls=Fraction(1, 1), epsilon=None))

    One draw of noise a time; what is released at a time is computed from the draws up to it. ValueError for a horizon
    above 4096. Fichtenberger, Henzinger, Upadhyay (square_root.md, Theorem 1). Arguments as for `RunningCounter`.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.horizon > MOST_TIMES:
            raise ValueError(f"horizon must be at most {MOST_TIMES}")
        check_noise(self.sigma_squared)

    @property
    def column_norm_squared(self) -> int:
        """The largest squared norm of a column of the factor, the first one's, in 2^-32."""
        return factor(self.horizon).squares

    @property
    def sigma_squared(self) -> Fraction:
        """Parameter sigma^2 of each draw of noise, in 2^-32 counts squared."""
        return 4 * self.changes * self.column_norm_squared / self.eps_per**2

    @property
    def threshold(self) -> int:
        responses = factor(self.horizon).responses
        sizes = Fraction(sum(responses), 1 << RESPONSE)
        squares = Fraction(sum(r * r for r in responses), 1 << 2 * RESPONSE)
        weights = Weights(self.horizon, sizes / (1 << PLACES), squares / (1 << 2 * PLACES))
        rounding = Fraction(1, 2) + sizes / (1 << (FINE + 1))
        times = self.events * self.delta0 * self.horizon
        return gaussian_weighted_threshold(
            self.sigma_squared, weights, rounding, self.alone, times, self.delta_per
        )

    @property
    def stddev(self) -> float:
        return float(self.stddevs(np.array([self.horizon]))[0])

    def stddevs(self, times: Integers) -> Floats:
        """Give them with 1/12 for the variance of what rounding to whole counts adds."""
        draw = math.ldexp(gaussian_stddev(self.sigma_squared), -PLACES)
        responses = np.ldexp(np.array(factor(self.horizon).responses, dtype=np.float64), -RESPONSE)
        return np.sqrt(draw**2 * np.cumsum(responses**2)[times - 1] + 1 / 12)

    def _noise(self, streams: Sequence[Stream], moments: Integers) -> Integers:
        """Give the noise in fixed point, time by time: the draw of a time, and what is left of the noise before.

        E_t = floor((2^FINE Z_t + sum over k of falls_k E_(t-k))/2^PLACES + 1/2), rounded to whole counts at the end.
        """
        last = int(moments[-1]) if len(moments) else 0
        falls = factor(self.horizon).falls
        noise = np.empty((len(streams), last), dtype=np.int64)
        for item, stream in enumerate(streams):
            noise[item] = self._draws(stream, last)
        noise <<= FINE
        for time in range(last):
            noise[:, time] = _rounded(noise[:, time] + noise[:, :time] @ falls[:time][::-1], PLACES)
        return _rounded(noise[:, moments - 1], FINE)

    def _draws(self, stream: Stream, last: int) -> Integers:
        """Give the draws of the first `last` times, whole blocks of them at a time."""
        drawn = [
            discrete_gaussian(
                stream.child("draws", first), self.sigma_squared, min(BLOCK, self.horizon - first)
            )
            for first in range(0, last, BLOCK)
        ]
        return np.concatenate(drawn)[:last] if drawn else np.empty(0, dtype=np.int64)


def _rounded(numbers: Integers, places: int) -> Integers:
    """Give the numbers over 2^places, rounded to the nearest integers, halves up."""
    return (numbers + (1 << (places - 1))) >> places
