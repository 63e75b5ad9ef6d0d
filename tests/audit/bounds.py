"""Lower bounds of a privacy loss from samples: half of them choose an event, the other half bound its odds."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta

from tests.audit.claims import Claim

Event = Callable[[Hashable], bool]
Outcomes = Sequence[Hashable]

LIKELY = 4.5
"""Standard deviations between a rate and its bound, about; it steers the choice and bounds nothing."""


@dataclass(frozen=True)
class Bound:
    """What the second half says about one claim: Pr[event] is at least `low` here, at most `high` there."""

    claim: Claim
    low: float
    high: float

    @property
    def epsilon(self) -> float:
        """The least epsilon at the claim's delta."""
        excess = self.low - self.claim.delta
        return max(0.0, math.log(excess / self.high)) if excess > 0 else 0.0

    @property
    def delta(self) -> float:
        """The least delta at the claim's epsilon."""
        return max(0.0, self.low - math.exp(self.claim.epsilon) * self.high)

    @property
    def share(self) -> float:
        """How much of the claim is needed for certain, by epsilon or by delta: above 1 it is broken."""
        by_delta = self.delta / self.claim.delta if self.claim.delta else 0.0
        return max(self.epsilon / self.claim.epsilon, by_delta)

    def __str__(self) -> str:
        if self.epsilon / self.claim.epsilon == self.share > 0:
            return f"eps >= {self.epsilon:.3f}"
        return f"delta >= {self.delta:.2g}"


def clopper_pearson(successes: int, n: int, level: float) -> tuple[float, float]:
    """Give bounds of a probability from `successes` of `n`, each wrong with probability at most level/2.

    >>> [round(bound, 4) for bound in clopper_pearson(3, 10, 0.05)]
    [0.0667, 0.6525]
    >>> [round(bound, 4) for bound in clopper_pearson(0, 10, 0.05)]
    [0.0, 0.3085]
    """
    low = float(beta.ppf(level / 2, successes, n - successes + 1)) if successes else 0.0
    high = float(beta.isf(level / 2, successes + 1, n - successes)) if successes < n else 1.0
    return low, high


def bound(p: Outcomes, q: Outcomes, claims: Sequence[Claim], level: float) -> Bound:
    """Bound one claim about an event; the halves p[0::2], q[0::2] choose both, the others bound.

    `p`, `q`: samples of the view under one input and its neighbour, for P(event) <= e^eps Q(event) + delta.
    """
    claim, event = choose(p[0::2], q[0::2], claims)
    tested, against = p[1::2], q[1::2]
    low, _ = clopper_pearson(sum(map(event, tested)), len(tested), level)
    _, high = clopper_pearson(sum(map(event, against)), len(against), level)
    return Bound(claim, low, high)


def choose(p: Outcomes, q: Outcomes, claims: Sequence[Claim]) -> tuple[Claim, Event]:
    """Give the claim and the event for which the bound is likely to lie highest above the claim."""
    best: tuple[float, Claim, Event] | None = None
    for ordered, events in _orders(p, q):
        hits, misses = Counter(p), Counter(q)
        low = _likely_bound(np.cumsum([hits[outcome] for outcome in ordered]), len(p), -1)
        high = _likely_bound(np.cumsum([misses[outcome] for outcome in ordered]), len(q), 1)
        for claim in claims:
            shares = _shares(low, high, claim)
            place = int(np.argmax(shares))
            if best is None or shares[place] > best[0]:
                best = float(shares[place]), claim, events(place)
    assert best is not None
    return best[1], best[2]


def _orders(p: Outcomes, q: Outcomes) -> Iterator[tuple[list[Hashable], Callable[[int], Event]]]:
    """Give ways to order the outcomes, so that events are beginnings: by likelihood ratio; numbers by size."""
    hits, misses = Counter(p), Counter(q)
    outcomes = list(hits | misses)
    ranked = sorted(outcomes, key=lambda o: ((hits[o] + 0.5) / (misses[o] + 0.5), hits[o]), reverse=True)
    yield ranked, lambda place: frozenset(ranked[: place + 1]).__contains__
    numbers = [outcome for outcome in outcomes if isinstance(outcome, int)]
    if len(numbers) == len(outcomes):
        rising = sorted(numbers)
        falling = rising[::-1]
        yield list(rising), lambda place: lambda o: isinstance(o, int) and o <= rising[place]
        yield list(falling), lambda place: lambda o: isinstance(o, int) and o >= falling[place]


def _shares(low: NDArray[np.float64], high: NDArray[np.float64], claim: Claim) -> NDArray[np.float64]:
    by_epsilon = np.log(np.maximum(low - claim.delta, 1e-300) / high) / claim.epsilon
    if claim.delta == 0:
        return np.asarray(by_epsilon)
    return np.maximum(by_epsilon, (low - math.exp(claim.epsilon) * high) / claim.delta)


def _likely_bound(hits: NDArray[np.int64], n: int, side: int) -> NDArray[np.float64]:
    """Give about what Clopper and Pearson will say of another n samples (Wilson's bound at LIKELY)."""
    rate, slack = hits / n, LIKELY**2 / n
    width = LIKELY * np.sqrt(rate * (1 - rate) / n + slack / (4 * n))
    return np.asarray((rate + slack / 2 + side * width) / (1 + slack))
