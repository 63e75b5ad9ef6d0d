"""What limits allow anybody to learn about one person, as the advantage of a guess over a coin.

A bound, not an estimate: it holds for every attacker, whatever they know and ask, as the guarantee does.
"""

from __future__ import annotations

import math
from fractions import Fraction

from budget.accounting import information_rho, zcdp_delta

_EPSILONS = tuple(Fraction(n, 10) for n in range(0, 201, 2))
"""Where the bound is looked for: each gives a true one."""


def decision_advantage(
    k_star: Fraction, l_star: Fraction, eps_per: Fraction, delta_per: Fraction, periods: int = 1
) -> float:
    """The largest advantage of a guess whether a person is in the data, over a coin, whose advantage is 0.

    >>> per = Fraction("0.15"), Fraction("1e-10")
    >>> round(decision_advantage(Fraction(300), Fraction(30), *per), 2)
    0.65
    >>> round(decision_advantage(Fraction(3000), Fraction(300), *per), 4)
    0.9996

    The largest difference between the chances to say "in" of somebody who is and of somebody who is not, from 0 to 1:
    a guess between two cases that are as likely is right with probability (1 + this)/2 at most. `k_star`, `l_star`:
    limits of a period in units; `periods`: how many periods touch the same data. The least of three true bounds on
    the total variation of rho-zCDP with l* delta_per: sqrt(rho/2) (Pinsker), sqrt(1 - exp(-rho)) (Bretagnolle and
    Huber), and (exp(e) - 1 + 2 delta(e))/(exp(e) + 1) for some e (Kairouz, Oh and Viswanath 2015, Theorem 2.1).
    ValueError for parameters out of range.
    """
    if min(k_star, l_star, delta_per) < 0 or eps_per <= 0 or periods < 1:
        raise ValueError("limits and delta_per are not negative, eps_per and periods above 0")
    rho = information_rho(eps_per, k_star * periods)
    fails = float(l_star * delta_per * periods)
    at_any = min(_between(float(e), float(zcdp_delta(rho, e)[0])) for e in _EPSILONS)
    found = min(math.sqrt(rho / 2), math.sqrt(-math.expm1(-float(rho))), at_any)
    # Floats round to the nearest: a part in 10^12 more is on the safe side.
    return min(1.0, (found + fails) * (1 + 1e-12))


def _between(epsilon: float, delta: float) -> float:
    return (math.expm1(epsilon) + 2 * delta) / (math.exp(epsilon) + 1)
