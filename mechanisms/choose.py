"""Which mechanism answers: the table of the design as one lookup, on public facts only.

Why: docs/decisions/cheapest-for-the-same-noise.md, docs/decisions/running-counts-by-a-square-root.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Literal

from mechanisms.continual import RunningCounter, UnknownDomainBinary
from mechanisms.correlated_counts import CorrelatedCounts, price_of_one
from mechanisms.histogram import Mechanism
from mechanisms.known_domain import KnownGauss, KnownGumb, KnownLap
from mechanisms.numeric import ClampedSum
from mechanisms.square_root import MOST_TIMES, UnknownDomainSquareRoot
from mechanisms.top_counts import TopCounts
from mechanisms.unknown_domain import UnkGauss, UnkGumb, UnkLap
from mechanisms.validation import check_bounds, check_delta, check_epsilon

CellNoise = KnownLap | KnownGauss | CorrelatedCounts
"""Mechanisms that release every cell."""
TOP_K = KnownGumb | UnkGumb | TopCounts
"""Mechanisms that release the k largest, in a noisy order, of groups of which a unit may be in any number."""
ACCURATE_UP_TO = 4
"""The largest delta0 at which delta0 information units are spent for sigma = 2 tau/eps_per by default."""
CELLS_WITHOUT_K = 64
"""The largest known domain, where nothing else bounds delta0, that is answered whole."""
_KEPT = 1000
"""Choices that are kept: a deployment asks for few, each for many statements. They are kept by type as well, so that
a number that a mechanism refuses is not taken for an equal one."""


class NoMechanism(Exception):
    """No mechanism answers: an unrestricted histogram needs a LIMIT, an unknown domain a delta_per above 0."""


@dataclass(frozen=True)
class MechanismSettings:
    """The settings of a deployment and an analyst. They are public, and the same for every histogram.

    Attributes:
        eps_per, delta_per: the fixed parameters of the guarantee; delta_per is 0 where no unknown domain is answered.
        noise: the noise of releases that exist with both kinds.
        spend: what the analyst asks for, None for the default.
        d_bar: the least number of elements of an unknown domain that can be released.
        paper: whether only the mechanisms of the papers answer.

    ValueError for parameters out of range.
    """

    eps_per: Fraction
    delta_per: Fraction
    noise: Literal["gaussian", "laplace"]
    spend: Literal["accurate", "cheap"] | None
    d_bar: int
    paper: bool = False

    def __post_init__(self) -> None:
        check_epsilon(self.eps_per)
        if self.delta_per != 0:
            check_delta(self.delta_per)
        check_bounds(d_bar=self.d_bar)
        if self.noise not in ("gaussian", "laplace") or self.spend not in ("accurate", "cheap", None):
            raise ValueError("unknown noise or spend")

    @property
    def correlates(self) -> bool:
        """Whether counts of units may have noise that is correlated."""
        return self.noise == "gaussian" and not self.paper

    def spending(self, delta0: int) -> Literal["accurate", "cheap"]:
        """How Gaussian noise on counts of which one person changes `delta0` is paid for."""
        return self.spend or ("accurate" if delta0 <= ACCURATE_UP_TO else "cheap")


@lru_cache(_KEPT, typed=True)
def choose(
    settings: MechanismSettings,
    *,
    domain_size: int | None,
    delta0: int | None,
    tau: int,
    k: int | None,
    counts: bool,
) -> Mechanism:
    """Look up the mechanism of a histogram (Audience Engagements API, Table 1, completed).

    >>> settings = MechanismSettings(Fraction(3, 20), Fraction(1, 10**10), "gaussian", None, 1000)
    >>> choose(settings, domain_size=300, delta0=None, tau=1, k=10, counts=True).name
    'KnownGumb, CorrelatedCounts'
    >>> choose(settings, domain_size=None, delta0=3, tau=1, k=None, counts=True).name
    'UnkGauss'

    Args:
        domain_size: cells of the known domain, None if unknown.
        delta0: the most groups of one person by declaration or structure, None if unrestricted; a known domain's size
            is counted here.
        tau: the most one person changes a count.
        k: the rows asked for, None without a LIMIT.
        counts: whether counts are shown.

    Raises NoMechanism where only ORDER BY count DESC LIMIT k would help, or only a delta_per above 0; ValueError for a
    bound below 1.
    """
    bounds = {"domain_size": domain_size, "delta0": delta0, "tau": tau, "k": k}
    check_bounds(**{name: bound for name, bound in bounds.items() if bound is not None})
    if domain_size is not None:
        return _known(settings, domain_size, delta0, tau, k, counts)
    return _unknown(settings, delta0, tau, k, counts)


def _known(
    settings: MechanismSettings, cells: int, delta0: int | None, tau: int, k: int | None, counts: bool
) -> Mechanism:
    if delta0 is None or delta0 >= cells:  # then the domain alone bounds it
        cheap = settings.spend == "cheap" and settings.noise == "gaussian"
        if k is not None and 2 * k < cells and not cheap:
            return _top(settings, KnownGumb(settings.eps_per, tau, k, cells, counts))
        if k is None and cells > CELLS_WITHOUT_K:
            raise NoMechanism("a known domain this large needs a LIMIT")
        delta0 = cells
    return cells_of_units(settings, cells, delta0) if tau == 1 else noisy_cells(settings, cells, delta0, tau)


def noisy_cells(settings: MechanismSettings, cells: int, delta0: int, tau: int) -> KnownLap | KnownGauss:
    """Noise on every one of `cells` counts, of which one person changes `delta0`, each by at most `tau`.

    >>> settings = MechanismSettings(Fraction(3, 20), Fraction(1, 10**10), "gaussian", None, 1000)
    >>> noisy_cells(settings, 300, 300, 1).cost_at_most.information
    Fraction(1, 1)
    """
    if settings.noise == "laplace":
        return KnownLap(settings.eps_per, tau, delta0, cells)
    return KnownGauss(settings.eps_per, tau, delta0, cells, settings.spending(delta0))


@lru_cache(_KEPT, typed=True)
def cells_of_units(settings: MechanismSettings, cells: int, delta0: int) -> CellNoise:
    """Noise on counts of units in `cells`, of which a unit is in `delta0` at most: correlated where that is better.

    >>> settings = MechanismSettings(Fraction(3, 20), Fraction(1, 10**10), "gaussian", None, 1000)
    >>> [cells_of_units(settings, cells, cells).name for cells in (1, 53)]
    ['KnownGauss', 'CorrelatedCounts']

    What the accurate noise of a single count costs is less; at the price of cheap noise, the noise is.
    """
    apart = noisy_cells(settings, cells, delta0, 1)
    if isinstance(apart, KnownLap) or not settings.correlates:
        return apart
    accurate = price_of_one(cells)
    if accurate >= delta0:
        return apart
    price = accurate if apart.spend == "accurate" else apart.cost_at_most.information
    return CorrelatedCounts(settings.eps_per, cells, price)


@lru_cache(_KEPT, typed=True)
def noisy_sums(
    settings: MechanismSettings, lo: int, hi: int, tau: int, cells: int, delta0: int, centred: bool
) -> ClampedSum:
    """Noise on sums in `cells`, of which one person changes `delta0`, each by `tau` values between `lo` and `hi`.

    >>> settings = MechanismSettings(Fraction(3, 20), Fraction(1, 10**10), "gaussian", None, 1000)
    >>> noisy_sums(settings, 0, 9, 1, 300, 300, False).cost_at_most.information
    Fraction(1, 1)
    """
    return ClampedSum(
        eps_per=settings.eps_per,
        lo=lo,
        hi=hi,
        tau=tau,
        keys=cells,
        delta0=delta0,
        noise=settings.noise,
        spend="accurate" if settings.noise == "laplace" else settings.spending(delta0),
        centred=centred,
    )


def _unknown(
    settings: MechanismSettings, delta0: int | None, tau: int, k: int | None, counts: bool
) -> Mechanism:
    eps_per, delta_per = settings.eps_per, settings.delta_per
    if delta_per == 0:
        raise NoMechanism("an unknown domain needs a delta_per above 0")
    d_bar = max(10 * (k or 0), settings.d_bar)
    if delta0 is not None:
        restricted = UnkGauss if settings.noise == "gaussian" else UnkLap
        return restricted(eps_per, delta_per, tau, delta0, d_bar)
    if k is None:
        raise NoMechanism("an unknown domain without a bound on its groups needs a LIMIT")
    return _top(settings, UnkGumb(eps_per, delta_per, tau, k, d_bar, counts))


def _top(settings: MechanismSettings, paper: KnownGumb | UnkGumb) -> Mechanism:
    """The top k with correlated noise on its counts, where a unit is counted once in each and they are shown."""
    if not settings.correlates or not paper.counts or paper.tau > 1:
        return paper
    return TopCounts(replace(paper, counts=False))


def choose_running(settings: MechanismSettings, *, events: int, horizon: int) -> RunningCounter:
    """Choose the mechanism of running counts of unknown items: the tree or the square root, which has less noise.

    >>> settings = MechanismSettings(Fraction(3, 20), Fraction(1, 10**10), "gaussian", None, 1000)
    >>> choose_running(settings, events=1, horizon=365).name
    'UnknownDomainSquareRoot'

    The tree answers with `settings.paper`, of one time, where both have the same noise, of more times than the square
    root's work allows, and where its noise would be too large for fixed point. ValueError for parameters out of range.
    """
    bounds = settings.eps_per, settings.delta_per, 1, events, horizon, False
    if not settings.paper and 1 < horizon <= MOST_TIMES:
        try:
            return UnknownDomainSquareRoot(*bounds)
        except ValueError:
            pass
    return UnknownDomainBinary(*bounds)
