"""The accounting's lemmas against adversaries of few steps, whose laws are computed outcome by outcome.

A step of bounded range e that is as bad as any has two outcomes, with log ratios t and t - e for some t from 0 to e
(accounting.md, Theorem 4). An adversary chooses t of each step by the outcomes before it. Composition, both conversions
and the bounded range have to cover every such adversary, and none does that forgets one step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache
from itertools import product

import pytest

from budget.accounting import (
    bounded_range_epsilon,
    information_rho,
    zcdp_delta,
    zcdp_epsilon,
    zcdp_simple_epsilon,
)

RANGES = (Fraction(1, 2), Fraction(1), Fraction(2))
CHOICES = {1: 15, 2: 7, 3: 3}
"""By the number of steps: among how many t an adversary chooses."""
Law = list[tuple[float, float]]
Accounting = Callable[[int, Fraction, Fraction], Fraction]


def step(e: float, t: float) -> Law:
    """Both outcomes' probabilities with a unit and without it."""
    likely = math.expm1(t - e) / math.expm1(-e)
    return [(likely, likely * math.exp(-t)), (1 - likely, 1 - likely * math.exp(-t))]


@cache
def adversaries(e: Fraction, steps: int) -> list[Law]:
    """What each adversary sees with a unit and without it."""
    most = CHOICES[steps]
    choices = [step(float(e), float(e) * n / (most + 1)) for n in range(1, most + 1)]
    found: list[Law] = [[(1.0, 1.0)]]
    for _ in range(steps):
        found = [
            [(p * x, q * y) for (p, q), after in zip(first, later, strict=True) for x, y in after]
            for first in choices
            for later in product(found, repeat=2)
        ]
    return found


def beyond(e: Fraction, steps: int, epsilon: Fraction) -> float:
    """The delta at this epsilon of the worst adversary."""
    factor = math.exp(epsilon)
    return max(sum(max(0.0, p - factor * q) for p, q in law) for law in adversaries(e, steps))


def tight(steps: int, e: Fraction, slack: Fraction) -> Fraction:
    return zcdp_epsilon(information_rho(e, Fraction(steps)), slack)[0]


def simple(steps: int, e: Fraction, slack: Fraction) -> Fraction:
    return zcdp_simple_epsilon(information_rho(e, Fraction(steps)), slack)


CASES = list(product(RANGES, (1, 2, 3), map(Fraction, ("0.3", "0.1", "0.01", "0.001"))))


@pytest.mark.parametrize("accounting", [bounded_range_epsilon, simple, tight])
def test_no_adversary_is_beyond_the_guarantee(accounting: Accounting) -> None:
    for e, steps, slack in CASES:
        assert beyond(e, steps, accounting(steps, e, slack)) <= slack * (1 + 1e-9)


def test_nor_beyond_the_slack_at_a_given_epsilon() -> None:
    for e, steps, epsilon in product(RANGES, (1, 2, 3), map(Fraction, ("0.1", "0.5", "1", "3"))):
        slack, _ = zcdp_delta(information_rho(e, Fraction(steps)), epsilon)
        assert beyond(e, steps, epsilon) <= slack * (1 + 1e-9)


def test_a_step_of_bounded_range_costs_its_units() -> None:
    """Lemma B, e^2/8 of rho: Renyi divergences of all orders; a hundredth less is too little for some."""
    for e in RANGES:
        most = max(divergence(law, order) / order for law in both(e) for order in (1.001, 1.5, 2, 5, 20))
        assert most <= information_rho(e, Fraction(1))
        if e <= 1:
            assert most > information_rho(e, Fraction(95, 100))


def both(e: Fraction) -> Iterator[Law]:
    for law in adversaries(e, 1):
        yield law
        yield [(q, p) for p, q in law]


def divergence(law: Law, order: float) -> float:
    return math.log(sum(p**order * q ** (1 - order) for p, q in law)) / (order - 1)


@pytest.mark.parametrize("e", RANGES)
def test_a_step_that_is_forgotten_is_missed(e: Fraction) -> None:
    few = Fraction("0.01")
    for steps in (2, 3):
        assert beyond(e, steps, tight(steps - 1, e, few)) > few
        assert beyond(e, steps, bounded_range_epsilon(steps - 1, e, few / 10)) > few / 10
