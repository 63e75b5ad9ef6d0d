"""The two filters of an account as an adversary meets them: the worst of all adaptive sequences that they admit.

A step is a pair of laws, given as outcomes of probability P and loss ln(P/Q); the worst of a sequence is computed
exactly, outcome by outcome, over every choice of the next step. Nothing that is admitted may exceed (epsilon, delta).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import cache

import pytest

from budget.account import Charge, Limit
from budget.accounting import BOUNDED_RANGE, epsilon_limit, guarantee
from budget.units import UNBOUNDED, micro_limit, units

EPS, DELTA_PER, DELTA_PRIME = Fraction(1, 2), Fraction(1, 200), Fraction(1, 200)
UNIT = 10**6
Outcomes = tuple[tuple[float, float], ...]
Step = tuple[Charge, tuple[Outcomes, ...]]
"""A price, and the pairs of laws, of one neighbour or the other, that it has to pay for."""
Pays = Callable[[Charge, Charge], bool]


def response(epsilon: float) -> Outcomes:
    """Randomised response, the worst that is epsilon-DP."""
    likely = 1 / (1 + math.exp(-epsilon))
    return ((likely, epsilon), (1 - likely, -epsilon))


def ranged(epsilon: float, high: float) -> Outcomes:
    """Two outcomes with losses `high` and `high - epsilon`: of bounded range epsilon."""
    low = high - epsilon
    p = (math.exp(-low) - 1) / (math.exp(-low) - math.exp(-high))
    return ((p, high), (1 - p, low))


def gaussian(sigma: float, cuts: tuple[float, ...]) -> Outcomes:
    """N(1, sigma^2) against N(0, sigma^2), rounded to intervals: post-processing of a Gaussian release."""

    def parts(mean: float) -> list[float]:
        upto = [0.5 * (1 + math.erf((cut - mean) / (sigma * math.sqrt(2)))) for cut in cuts]
        return [b - a for a, b in zip([0.0, *upto], [*upto, 1.0], strict=True)]

    return tuple((p, math.log(p / q)) for p, q in zip(parts(1), parts(0), strict=True))


def called(outcomes: Outcomes, delta: float) -> Outcomes:
    """The same, after something that tells all with probability delta."""
    return ((delta, math.inf), *((p * (1 - delta), loss) for p, loss in outcomes))


E = float(EPS)
LAPLACE: Step = (Charge(UNIT, 0, UNIT // 2), (response(E / 2),))
TWO_CELLS: Step = (
    Charge(2 * UNIT, 0, UNIT),
    (tuple((p * q, x + y) for p, x in response(E / 2) for q, y in response(E / 2)),),
)
DOUBLE: Step = (Charge(4 * UNIT, 0, 2 * UNIT), (response(E),))
"""A count of half the usual noise."""
DRAW: Step = (Charge(UNIT, 0, UNIT), tuple(ranged(E, E * part) for part in (0.25, 0.5, 0.75)))
CALL: Step = (
    Charge(UNIT, UNIT, UNIT // 2),
    (called(response(E / 2), float(DELTA_PER)),),
)
GAUSS: Step = (Charge(UNIT, 0), (gaussian(2 / E, (-6.0, -2.0, 0.5, 3.0, 7.0, 12.0)),))
BOUNDED = (LAPLACE, TWO_CELLS, DRAW, CALL)
LEVELS = (*BOUNDED, DOUBLE)


def worst(steps: tuple[Step, ...], limit: Limit, epsilon: float, pays: Pays) -> float:
    """The largest delta at `epsilon` that an adaptive adversary gets from what the limit admits."""

    @cache
    def best(information: int, calls: int, pure: int, loss: float) -> float:
        left = Charge(
            max(0, limit.information - information),
            max(0, limit.calls - calls),
            max(0, limit.epsilon - pure),
        )
        found = max(0.0, -math.expm1(epsilon - loss))
        for price, laws in steps:
            if not pays(left, price):
                continue
            spent = information + price.information, calls + price.calls, min(UNBOUNDED, pure + price.epsilon)
            for law in laws:
                told = sum(p for p, more in law if more == math.inf)
                rest = (p * best(*spent, round(loss + more, 9)) for p, more in law if more < math.inf)
                found = max(found, told + sum(rest))
        return found

    return best(0, 0, 0, 0.0)


def limits(information: int, calls: int) -> Limit:
    pure = micro_limit(epsilon_limit(Fraction(information), EPS, DELTA_PRIME))
    return Limit(information * UNIT, calls * UNIT, "none", "enforce", pure)


def promised(limit: Limit, *, bounded_range_only: bool) -> tuple[float, float]:
    bounds = guarantee(
        *(units(limit.information), units(limit.calls), EPS, DELTA_PER, DELTA_PRIME),
        bounded_range_only=bounded_range_only,
        epsilon_star=units(limit.epsilon),
    )
    (best,) = (bound for bound in bounds if bound.smallest)
    return float(best.epsilon), float(best.delta)


@pytest.mark.parametrize(("information", "calls"), [(1, 1), (2, 1), (2, 2), (3, 1)])
def test_no_adaptive_sequence_exceeds_the_guarantee(information: int, calls: int) -> None:
    limit = limits(information, calls)
    assert limit.epsilon > limit.information // 2, "the second filter would admit nothing more"
    for steps, only in ((BOUNDED, True), (LEVELS, False), ((*LEVELS, GAUSS), False)):
        epsilon, delta = promised(limit, bounded_range_only=only)
        assert worst(steps, limit, epsilon, Charge.pays) <= delta


def test_the_audit_catches_what_would_break_it() -> None:
    limit = limits(2, 1)
    epsilon, delta = promised(limit, bounded_range_only=True)

    def half(step: Step) -> Step:
        price = step[0]
        return Charge(price.information, price.calls, price.epsilon // 2), step[1]

    def open_after(step: Step) -> Step:
        return Charge(step[0].information, step[0].calls, UNIT // 8), step[1]

    def without_calls(left: Charge, cost: Charge) -> bool:
        return left.pays(cost) or cost.epsilon <= left.epsilon

    # A second limit beyond the epsilon of the first, half of the pure epsilon charged, calls that are not counted.
    assert worst(BOUNDED, replace(limit, epsilon=2 * limit.epsilon), epsilon, Charge.pays) > delta
    assert worst(tuple(map(half, BOUNDED)), limit, epsilon, Charge.pays) > delta
    assert worst(BOUNDED, limit, epsilon, without_calls) > delta
    # A Gaussian release that leaves the second filter open, at less than what its units say.
    epsilon, delta = promised(limit, bounded_range_only=False)
    assert worst((LAPLACE, open_after(GAUSS)), limit, epsilon, Charge.pays) > delta


def test_the_second_filter_admits_more_laplace_counts() -> None:
    for information, more in ((1, 2), (2, 3), (3, 4)):
        limit = limits(information, 1)
        assert 2 * limit.epsilon // UNIT == more > information
    assert limits(300, 30).epsilon == 0, "twice as many units as of pure epsilon bound the same"


def test_several_periods_have_the_rho_of_either_filter() -> None:
    """Each may end by the second filter, with up to twice as many units."""
    k, pure = Fraction(2), epsilon_limit(Fraction(2), EPS, DELTA_PRIME)
    per = EPS, DELTA_PER, DELTA_PRIME
    for periods in (2, 13):
        both = guarantee(k, Fraction(1), *per, bounded_range_only=True, periods=periods, epsilon_star=pure)
        wider = guarantee(2 * pure, Fraction(1), *per, bounded_range_only=True, periods=periods)
        for found, most in zip(both, wider, strict=True):
            assert found.delta == most.delta
            if found.accounting != BOUNDED_RANGE:
                assert found.epsilon == most.epsilon
            else:
                assert found.epsilon == min(most.epsilon, k * periods * EPS)
