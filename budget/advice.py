"""What the parameters mean to an attacker, by [AEA] section 8.3: estimates, not guarantees."""

from __future__ import annotations

import math
from fractions import Fraction


def averaging_attack(eps_per: Fraction, repeats: int) -> float:
    """Probability that the mean of `repeats` fresh Laplace counts lies within 1/2 of the truth; [AEA] 8.3.1.

    >>> round(averaging_attack(Fraction("0.15"), 30), 4)
    0.1155

    Counts carry Lap(2/eps_per); the mean is taken as normal, as in the paper (exactly: 0.117 here).
    `repeats`: epochs in which unchanged data are asked the same query. ValueError for parameters out of
    range.
    """
    if eps_per <= 0 or repeats < 1:
        raise ValueError("eps_per is above 0 and there is at least one repeat")
    return math.erf(float(eps_per) * math.sqrt(repeats) / 8)


def close_count(eps_per: Fraction) -> float:
    """Probability p = 1 - exp(-eps_per/4) that one Laplace count lies within 1/2 of the truth; [AEA] 8.3.2.

    >>> round(close_count(Fraction("0.15")), 6)
    0.036806
    """
    if eps_per <= 0:
        raise ValueError("eps_per is above 0")
    return -math.expm1(-float(eps_per) / 4)


def differencing_limit(eps_per: Fraction) -> int:
    """The k up to which two top-k answers should share less than one close count: 1/p^2; [AEA] 8.3.2.

    >>> differencing_limit(Fraction("0.15"))
    738
    """
    return math.floor(1 / close_count(eps_per) ** 2)


def differencing_budget(eps_per: Fraction) -> int:
    """The information budget of a differencing attack: two top-k answers at 2k + 1; [AEA] 8.3.2.

    >>> differencing_budget(Fraction("0.15"))
    2954
    """
    return 4 * differencing_limit(eps_per) + 2


def unique_count_shown(l_star: Fraction, delta_per: Fraction, eps_per: Fraction) -> float:
    """Probability at most l* delta_per exp(-eps_per) that any count of one person is ever shown; [AEA] 8.3.3.

    >>> round(unique_count_shown(Fraction(30), Fraction("1e-10"), Fraction("0.15")) * 1e9, 2)
    2.58
    """
    if min(l_star, delta_per, eps_per) < 0:
        raise ValueError("limits and parameters are not negative")
    return float(l_star * delta_per) * math.exp(-float(eps_per))
