"""What a budget guarantees: (rho, delta) to (epsilon, delta), by three accountings, never too small.

Formulas and proofs: accounting.md, with corrections to [AEA] Theorem 2 and [PCR] Theorem 6. Every bound is
evaluated in interval arithmetic (60 digits) and its upper end is what is returned; floats only search for the
order alpha, and every alpha > 1 gives a true bound.

Why: docs/decisions/delta-prime-once.md, docs/decisions/no-tighter-accounting.md,
docs/decisions/two-filters.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from mpmath.ctx_iv import MPIntervalContext
from mpmath.libmp import to_rational

from budget.units import MOST_UNITS

_iv = MPIntervalContext()
_iv.dps = 60

BOUNDED_RANGE = "bounded range"
ZCDP_SIMPLE = "zCDP"
ZCDP_TIGHT = "zCDP, tight"


@dataclass(frozen=True)
class PrivacyBound:
    """One row of the table: (`epsilon`, `delta`) by one `accounting`; `smallest` marks the best epsilon.

    `alpha` is the order at which the tight accounting attains its bound, None for the others.
    """

    accounting: str
    epsilon: Fraction
    delta: Fraction
    alpha: Fraction | None = None
    smallest: bool = False


def information_rho(eps_per: Fraction, units: Fraction) -> Fraction:
    """The rho of `units` information units, eps_per^2/8 each.

    >>> information_rho(Fraction("0.15"), Fraction(3000))
    Fraction(135, 16)
    """
    return units * eps_per**2 / 8


def bounded_range_epsilon(steps: int, eps_per: Fraction, delta_prime: Fraction) -> Fraction:
    """Epsilon of `steps` adaptive eps_per-BR steps at slack `delta_prime`; [AEA] Theorem 2, corrected.

    >>> shown_up(bounded_range_epsilon(3000, Fraction("0.15"), Fraction("1e-9")), 6)
    '34.8813'

    eps = min(k e, k (t - 1 - ln t) + e sqrt(k/2 ln(1/delta'))) with t = e/(1 - exp(-e)). ValueError for
    parameters out of range.
    """
    _check(eps_per, delta_prime)
    if steps == 0:
        return Fraction(0)
    e, k = _interval(eps_per), _interval(Fraction(steps))
    t = e / (1 - _iv.exp(-e))
    optimal = k * (t - 1 - _iv.log(t)) + e * _iv.sqrt(k / 2 * -_iv.log(_interval(delta_prime)))
    return min(steps * eps_per, _upper(optimal))


def zcdp_simple_epsilon(rho: Fraction, delta_prime: Fraction) -> Fraction:
    """Epsilon of rho-zCDP at slack `delta_prime`: rho + 2 sqrt(rho ln(1/delta')); [PCR] Theorem 6, corrected.

    >>> shown_up(zcdp_simple_epsilon(information_rho(Fraction("0.15"), Fraction(3000)), Fraction("1e-9")), 6)
    '34.8839'
    """
    _check(rho, delta_prime)
    return _upper(_interval(rho) + 2 * _iv.sqrt(_interval(rho) * -_iv.log(_interval(delta_prime))))


def zcdp_epsilon(rho: Fraction, delta_prime: Fraction) -> tuple[Fraction, Fraction | None]:
    """Epsilon of rho-zCDP at slack `delta_prime`, tight, and the alpha that attains it.

    >>> epsilon, alpha = zcdp_epsilon(information_rho(Fraction("0.15"), Fraction(3000)), Fraction("1e-9"))
    >>> shown_up(epsilon, 6), float(round(alpha, 4))
    ('33.7819', 2.5317)

    Canonne-Kamath-Steinke Prop. 7 ([SIPS] eq. 4-5) solved for epsilon: the least over alpha > 1 of
    alpha rho + (ln(1/delta') + (alpha-1) ln(alpha-1) - alpha ln alpha)/(alpha-1). Alpha is None at rho = 0.
    """
    _check(rho, delta_prime)
    if rho == 0:
        return Fraction(0), None
    alpha = _best_alpha(float(rho), float(delta_prime))
    a = _interval(alpha)
    slack = -_iv.log(_interval(delta_prime)) + (a - 1) * _iv.log(a - 1) - a * _iv.log(a)
    return max(Fraction(0), _upper(a * _interval(rho) + slack / (a - 1))), alpha


def zcdp_delta(rho: Fraction, epsilon: Fraction) -> tuple[Fraction, Fraction | None]:
    """Slack delta' of rho-zCDP at `epsilon`, tight, and the alpha that attains it.

    >>> delta, alpha = zcdp_delta(Fraction("0.1"), Fraction("1.765"))
    >>> shown_up(delta, 5), float(round(alpha, 3))
    ('3.9552e-05', 9.86)

    delta' = inf over alpha > 1 of exp((alpha-1)(alpha rho - eps))/(alpha-1) (1-1/alpha)^alpha. Alpha is None
    at rho = 0.
    """
    if rho < 0 or epsilon < 0:
        raise ValueError("rho and epsilon are not negative")
    if rho == 0:
        return Fraction(0), None
    alpha = _delta_alpha(float(rho), float(epsilon))
    a, r, e = _interval(alpha), _interval(rho), _interval(epsilon)
    exponent = (a - 1) * (a * r - e) - _iv.log(a - 1) + a * _iv.log(1 - 1 / a)
    return min(Fraction(1), _upper(_iv.exp(exponent))), alpha


def guarantee(
    k_star: Fraction,
    l_star: Fraction,
    eps_per: Fraction,
    delta_per: Fraction,
    delta_prime: Fraction,
    *,
    bounded_range_only: bool = False,
    periods: int = 1,
    epsilon_star: Fraction = Fraction(0),
) -> tuple[PrivacyBound, ...]:
    """The guarantee of an account's limits, by every accounting that applies, all at the same total delta.

    >>> per = Fraction("0.15"), Fraction("1e-10"), Fraction("1e-9")
    >>> for row in guarantee(Fraction(300), Fraction(30), *per):
    ...     print(row.accounting, shown_up(row.epsilon, 4), shown_up(row.delta, 4), row.smallest)
    zCDP 9.207 4e-09 False
    zCDP, tight 8.656 4e-09 True

    Args:
        k_star: information units.
        l_star: call units.
        eps_per, delta_per: the parameters of one unit.
        delta_prime: slack of the conversion, so that the total is l* delta_per + delta'.
        bounded_range_only: every mechanism that the configuration can reach is of bounded range (noise = laplace,
            none with a rho of its own). Only then does [AEA] Theorem 2 apply; a started step counts whole.
        periods: how many periods touch the data while they are kept (`retention_periods`). The calls' delta and rho*
            are taken that often, and the sum is converted once.
        epsilon_star: pure epsilon in units of eps_per, the limit of the second filter (`epsilon_limit`), 0 where there
            is none. Several periods may end by either filter each, so that their rho is that of `reach`.

    ValueError for parameters out of range.
    """
    if min(k_star, l_star, delta_per, epsilon_star) < 0 or periods < 1:
        raise ValueError("limits and delta_per are not negative, periods at least 1")
    delta = l_star * delta_per * periods + delta_prime
    spent = k_star if periods == 1 else reach(k_star, epsilon_star)
    rho = information_rho(eps_per, spent * periods)
    rows = [PrivacyBound(ZCDP_SIMPLE, zcdp_simple_epsilon(rho, delta_prime), delta)]
    epsilon, alpha = zcdp_epsilon(rho, delta_prime)
    rows.append(PrivacyBound(ZCDP_TIGHT, epsilon, delta, alpha))
    if bounded_range_only:
        # A started fraction of a step counts as a step, in each period by itself.
        composed = bounded_range_epsilon(math.ceil(spent) * periods, eps_per, delta_prime)
        summed = max(Fraction(math.ceil(k_star)), epsilon_star) * periods * eps_per
        rows.insert(0, PrivacyBound(BOUNDED_RANGE, min(composed, summed), delta))
    # A period that ends by the second filter has its epsilon.
    rows = [replace(row, epsilon=max(row.epsilon, epsilon_star * eps_per)) for row in rows]
    best = min(rows, key=lambda row: row.epsilon)
    return tuple(replace(row, smallest=row is best) for row in rows)


def epsilon_limit(k_star: Fraction, eps_per: Fraction, delta_prime: Fraction) -> Fraction:
    """The pure epsilon, in units of eps_per, that guarantees what k* units of bounded range do: Theorem 7.

    >>> per = Fraction("0.15"), Fraction("1e-9")
    >>> [shown_up(epsilon_limit(Fraction(k), *per), 5) for k in (1, 4, 20, 300)]
    ['1', '4', '13.349', '0']

    0 where such a limit admits nothing that k* units do not: two units have at least one eps_per.
    """
    bounds = guarantee(k_star, Fraction(0), eps_per, Fraction(0), delta_prime, bounded_range_only=True)
    epsilon = min(row.epsilon for row in bounds) / eps_per
    return epsilon if 2 * epsilon > k_star else Fraction(0)


def reach(k_star: Fraction, epsilon_star: Fraction) -> Fraction:
    """The most information units of a period, whichever filter admits them.

    >>> reach(Fraction(4), Fraction(3)), reach(Fraction(300), Fraction(0))
    (Fraction(6, 1), Fraction(300, 1))
    """
    return max(k_star, MOST_UNITS * epsilon_star)


def retention_periods(retention_days: int, period_days: int | None) -> int:
    """How many periods can touch data kept for `retention_days`: ceil(R/P) + 1, or 1 where periods never end.

    >>> retention_periods(30, 30), retention_periods(30, 7), retention_periods(30, None)
    (2, 6, 1)
    """
    if retention_days < 1 or (period_days is not None and period_days < 1):
        raise ValueError("retention and period are at least a day")
    return 1 if period_days is None else -(-retention_days // period_days) + 1


def solve(
    epsilon: Fraction,
    delta: Fraction,
    k_star: Fraction,
    l_star: Fraction,
    *,
    bounded_range_only: bool = False,
) -> tuple[Fraction, Fraction, Fraction]:
    """The parameters (eps_per, delta_per, delta') whose budget (k*, l*) guarantees (epsilon, delta).

    >>> solve(Fraction(9), Fraction("4e-9"), Fraction(300), Fraction(30))[0]
    Fraction(157699, 1000000)

    delta_per = delta/(2 l*), delta' = delta/2; eps_per is the largest multiple of 1e-6 (rounded down, against
    the spender) whose smallest bound is at most epsilon. ValueError where nothing is guaranteed so.
    """
    if epsilon <= 0 or k_star <= 0 or l_star <= 0 or not 0 < delta < 1:
        raise ValueError("epsilon, k*, l* are above 0 and delta is between 0 and 1")
    delta_per, slack = delta / (2 * l_star), delta / 2

    def holds(millionths: int) -> bool:
        eps_per = Fraction(millionths, 1_000_000)
        rows = guarantee(k_star, l_star, eps_per, delta_per, slack, bounded_range_only=bounded_range_only)
        return min(row.epsilon for row in rows) <= epsilon

    high = 1
    while holds(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    if low == 0:
        raise ValueError("no eps_per of a millionth or more guarantees so little")
    return Fraction(low, 1_000_000), delta_per, slack


def shown_up(value: Fraction, digits: int) -> str:
    """A bound for people, rounded up to `digits` significant ones: it never looks smaller than it is.

    >>> shown_up(Fraction(1, 3), 3), shown_up(Fraction(4, 10**9), 2), shown_up(Fraction(0), 3)
    ('0.334', '4e-09', '0')
    """
    if value == 0:
        return "0"
    exponent = math.floor(math.log10(value.numerator) - math.log10(value.denominator)) - digits + 1
    scaled = math.ceil(value / Fraction(10) ** exponent)
    if scaled >= 10**digits:
        exponent += 1
        scaled = math.ceil(value / Fraction(10) ** exponent)
    # The decimal digits are exact by now; float only spells them (at most 15).
    return f"{float(Fraction(scaled) * Fraction(10) ** exponent):.{digits}g}"


def _check(amount: Fraction, delta_prime: Fraction) -> None:
    if amount < 0 or not 0 < delta_prime < 1:
        raise ValueError("rho and epsilon are not negative and delta' is between 0 and 1")


def _interval(value: Fraction) -> Any:
    return _iv.mpf(value.numerator) / _iv.mpf(value.denominator)


def _upper(interval: Any) -> Fraction:
    """The upper end, exactly: rounded against the spender."""
    numerator, denominator = to_rational(interval._mpi_[1])
    return Fraction(int(numerator), int(denominator))


def _rational_alpha(excess: float) -> Fraction:
    return 1 + Fraction(excess).limit_denominator(10**12)


def _best_alpha(rho: float, delta_prime: float) -> Fraction:
    """Golden section over ln(alpha - 1): epsilon is quasi-convex in alpha (ln delta' is convex in it)."""

    def epsilon(x: float) -> float:
        excess = math.exp(x)
        alpha = 1 + excess
        return alpha * rho + x - (math.log(delta_prime) + alpha * math.log(alpha)) / excess

    low, high, ratio = -18.0, 25.0, (math.sqrt(5) - 1) / 2
    for _ in range(120):
        width = (high - low) * ratio
        left, right = high - width, low + width
        low, high = (low, right) if epsilon(left) < epsilon(right) else (left, high)
    return _rational_alpha(math.exp((low + high) / 2))


def _delta_alpha(rho: float, epsilon: float) -> Fraction:
    """Bisection over ln(alpha - 1): the derivative (2 alpha - 1) rho - eps + ln(1 - 1/alpha) increases."""
    low, high = -18.0, 25.0
    for _ in range(120):
        middle = (low + high) / 2
        excess = math.exp(middle)
        slope = (2 * excess + 1) * rho - epsilon - math.log1p(1 / excess)
        low, high = (low, middle) if slope > 0 else (middle, high)
    return _rational_alpha(math.exp((low + high) / 2))
