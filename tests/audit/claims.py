"""What a mechanism's cost promises: (epsilon, delta) pairs that every event must keep to."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

from budget.accounting import bounded_range_epsilon, information_rho, zcdp_epsilon
from mechanisms.histogram import Cost

SLACKS = tuple(Fraction(text) for text in ("0.4", "0.2", "0.05", "0.01", "0.001"))
"""Where on the curve of a zCDP guarantee it is put to the test: delta' of the conversion."""


@dataclass(frozen=True, order=True)
class Claim:
    """P(event) <= exp(epsilon) Q(event) + delta for all events and neighbours, in both orders; epsilon > 0."""

    epsilon: float
    delta: float

    def __str__(self) -> str:
        return f"({self.epsilon:.3g}, {self.delta:.2g})"


@cache
def approximate_zcdp(rho: Fraction, delta: Fraction) -> tuple[Claim, ...]:
    """Give points of the curve of delta-approximate rho-zCDP: (eps, delta + delta'), tight (proof A1).

    >>> [str(claim) for claim in approximate_zcdp(Fraction(1, 2), Fraction(0))][-1]
    '(3.54, 0.001)'
    """
    points = [(zcdp_epsilon(rho, slack)[0], delta + slack) for slack in SLACKS]
    return tuple(Claim(_up(eps), _up(total)) for eps, total in points if eps > 0 and total < 1)


def pure(epsilon: Fraction, delta: Fraction = Fraction(0)) -> Claim:
    """Give the claim of a theorem that states (epsilon, delta) itself."""
    return Claim(_up(epsilon), _up(delta))


def bounded_range(cost: Cost, eps_per: Fraction, delta_per: Fraction) -> tuple[Claim, ...]:
    """Give what `cost` promises where every unit is one bounded range step: pure epsilon at slack 0, and zCDP."""
    steps = math.ceil(cost.information)
    whole = min(steps * eps_per, bounded_range_epsilon(steps, eps_per, Fraction(1, 10**12)))
    if cost.epsilon is not None:
        whole = min(whole, cost.epsilon * eps_per)
    return (pure(whole, cost.calls * delta_per), *concentrated(cost, eps_per, delta_per))


def concentrated(cost: Cost, eps_per: Fraction, delta_per: Fraction) -> tuple[Claim, ...]:
    """Give what `cost` promises in approximate zCDP: information units of rho, call units of delta."""
    return approximate_zcdp(information_rho(eps_per, cost.information), cost.calls * delta_per)


def _up(value: Fraction) -> float:
    """Round towards the mechanism: the audit must not blame it for a float's last digit."""
    return math.nextafter(float(value), math.inf) if value else 0.0
