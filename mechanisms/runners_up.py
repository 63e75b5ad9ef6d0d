"""What the mechanisms that were not chosen would cost for the noise of the one that was: by public facts alone.

Why: docs/decisions/cheapest-for-the-same-noise.md.
"""

from __future__ import annotations

import math

from mechanisms.choose import TOP_K, MechanismSettings
from mechanisms.correlated_counts import CorrelatedCounts, price_of_one
from mechanisms.histogram import Mechanism
from mechanisms.known_domain import KnownGauss, KnownGumb, KnownLap
from mechanisms.partition_selection import WeightedGaussian
from mechanisms.top_counts import TopCounts
from mechanisms.unknown_domain import UnkGauss, UnkGumb, UnkLap

OF_RANKS = math.pi**2 / 24
"""The variance of the Gumbel noise that orders groups, in those of a single count's Gaussian noise for one unit."""
COMPARED = KnownGauss | CorrelatedCounts | UnkGauss | TOP_K
"""Mechanisms whose noise others could have."""


def runners_up(
    settings: MechanismSettings, chosen: Mechanism, *, cells: int | None, delta0: int | None, tau: int
) -> dict[str, float]:
    """Information units for each mechanism that could answer, with noise on counts, and on ranks, of the same size.

    >>> from fractions import Fraction
    >>> settings = MechanismSettings(Fraction(3, 20), Fraction(1, 10**10), "gaussian", None, 1000)
    >>> weeks = CorrelatedCounts(Fraction(3, 20), 53, Fraction(1))
    >>> prices = runners_up(settings, weeks, cells=53, delta0=None, tau=1)
    >>> {name: round(price, 2) for name, price in prices.items()}
    {'KnownGauss': 3.09, 'KnownLap': 6.18}

    Args:
        chosen: with Gaussian noise, of which the deviation is known.
        cells: of a known domain, None if unknown.
        delta0: the most groups of one unit, None if nothing but the domain bounds them.
        tau: the most one unit changes a count.

    Laplace noise has twice the variance of Gaussian noise at one price. Groups that are found by weights cost a unit
    more. Nothing where the noise is not known before, as of totals that are clipped.
    """
    one = float(2 * tau / settings.eps_per)
    shown = math.inf if chosen.stddev is None else (chosen.stddev / one) ** 2
    prices: dict[str, float] = {}
    if isinstance(chosen, TOP_K):
        ranks = chosen.ranks if isinstance(chosen, TopCounts) else chosen
        by_rank = KnownGumb if cells else UnkGumb
        prices[by_rank.__name__] = ranks.k * (1 + 2 / shown) + (not cells)
        shown, delta0 = min(shown, OF_RANKS), None
    if isinstance(chosen, UnkGauss):
        assert delta0 is not None
        prices[UnkGauss.__name__] = delta0 / shown
        prices[UnkLap.__name__] = 2 * delta0 / shown
        prices[f"{WeightedGaussian.__name__}, {KnownGauss.__name__}"] = 1 + delta0 / shown
    if cells:
        prices |= _of_every_cell(cells, min(delta0 or cells, cells), tau, shown)
    prices.pop(chosen.name, None)
    return dict(sorted(prices.items(), key=lambda item: item[1]))


def _of_every_cell(cells: int, delta0: int, tau: int, variance: float) -> dict[str, float]:
    prices = {KnownGauss.__name__: delta0 / variance, KnownLap.__name__: 2 * delta0 / variance}
    if tau == 1 < cells:
        prices[CorrelatedCounts.__name__] = float(price_of_one(cells)) / variance
    return prices
