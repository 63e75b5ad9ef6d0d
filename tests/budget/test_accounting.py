"""The three accountings against the papers' values and against independent computations."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from budget import accounting
from budget.accounting import (
    BOUNDED_RANGE,
    ZCDP_SIMPLE,
    ZCDP_TIGHT,
    bounded_range_epsilon,
    guarantee,
    information_rho,
    retention_periods,
    shown_up,
    solve,
    zcdp_delta,
    zcdp_epsilon,
    zcdp_simple_epsilon,
)

F = Fraction
PER = F("0.15")
PAPER = information_rho(PER, F(3000))


def alpha_of(found: tuple[Fraction, Fraction | None], digits: int) -> float:
    assert found[1] is not None
    return round(float(found[1]), digits)


def test_audience_engagements_parameters() -> None:
    assert round(float(bounded_range_epsilon(3000, PER, F("1e-9"))), 4) == 34.8812
    assert round(float(zcdp_simple_epsilon(PAPER, F("1e-9"))), 4) == 34.8839
    tight = zcdp_epsilon(PAPER, F("1e-9"))
    assert round(float(tight[0]), 4) == 33.7818
    assert alpha_of(tight, 4) == 2.5317


def test_the_same_at_total_delta_7e_9() -> None:
    rows = guarantee(F(3000), F(30), PER, F("1e-10"), F("4e-9"), bounded_range_only=True)
    assert {row.delta for row in rows} == {F("7e-9")}
    epsilons = {row.accounting: round(float(row.epsilon), 4) for row in rows}
    assert epsilons[BOUNDED_RANGE] == 33.9813
    assert epsilons[ZCDP_TIGHT] == 32.8606
    assert [row.accounting for row in rows if row.smallest] == [ZCDP_TIGHT]


@pytest.mark.parametrize(
    ("rho", "epsilon", "expected"),
    [
        ("0.1", "1.765", 3.9551e-5),
        ("0.001", "0.14", 4.0054e-5),
        ("0.01", "0.495", 3.9975e-5),
        ("0.5", "4.41", 3.9058e-5),
    ],
)
def test_dp_sips_table_4(rho: str, epsilon: str, expected: float) -> None:
    delta, _ = zcdp_delta(F(rho), F(epsilon))
    assert round(float(delta), 9) == expected


def test_dp_sips_table_4_alpha() -> None:
    assert alpha_of(zcdp_delta(F("0.1"), F("1.765")), 3) == 9.860


def test_defaults_and_retention() -> None:
    (best,) = [row for row in guarantee(F(300), F(30), PER, F("1e-10"), F("1e-9")) if row.smallest]
    assert (round(float(best.epsilon), 1), float(best.delta)) == (8.7, 4e-9)
    periods = retention_periods(30, 30)
    (best,) = [
        row for row in guarantee(F(3000), F(30), PER, F("1e-10"), F("1e-9"), periods=periods) if row.smallest
    ]
    assert round(float(best.epsilon), 2) == 52.95
    assert best.delta == F("7e-9")


def test_theorem_2_only_under_its_condition() -> None:
    named = [row.accounting for row in guarantee(F(3000), F(30), PER, F("1e-10"), F("1e-9"))]
    assert named == [ZCDP_SIMPLE, ZCDP_TIGHT]


def test_a_started_step_counts_whole() -> None:
    def bounded_range(k_star: Fraction) -> Fraction:
        rows = guarantee(k_star, F(1), PER, F("1e-10"), F("1e-9"), bounded_range_only=True)
        return rows[0].epsilon

    assert bounded_range(F(299) + F(1, 10**6)) == bounded_range(F(300)) > bounded_range(F(299))


def test_few_steps_compose_purely() -> None:
    assert bounded_range_epsilon(1, PER, F("1e-9")) == PER
    assert bounded_range_epsilon(0, PER, F("1e-9")) == 0


rhos = st.fractions(min_value=F(1, 10**6), max_value=100, max_denominator=10**6)
deltas = st.integers(min_value=1, max_value=14).map(lambda power: F(1, 10**power))


@settings(max_examples=60, deadline=None)
@given(rhos, deltas)
def test_tight_is_below_simple_and_inverts(rho: Fraction, delta: Fraction) -> None:
    epsilon, _ = zcdp_epsilon(rho, delta)
    assert epsilon <= zcdp_simple_epsilon(rho, delta)
    back, _ = zcdp_delta(rho, epsilon)
    if epsilon > 0:
        assert 0.999 < float(back / delta) <= 1 + 1e-6


@settings(max_examples=60, deadline=None)
@given(rhos, deltas, st.floats(min_value=1.0001, max_value=5000))
def test_no_other_alpha_does_better(rho: Fraction, delta: Fraction, alpha: float) -> None:
    epsilon, _ = zcdp_epsilon(rho, delta)
    slack = -math.log(delta) + (alpha - 1) * math.log(alpha - 1) - alpha * math.log(alpha)
    assert float(epsilon) <= max(0.0, alpha * float(rho) + slack / (alpha - 1)) + 1e-9


def test_bounds_are_never_below_the_truth() -> None:
    """Where the value is irrational, the bound is above it by less than 1e-40, at 100 digits."""
    import mpmath

    with mpmath.workdps(100):
        log = -mpmath.log(mpmath.mpf(1) / 10**9)
        rho = mpmath.mpf(135) / 16
        truth = rho + 2 * mpmath.sqrt(rho * log)
        found = zcdp_simple_epsilon(PAPER, F("1e-9"))
        above = mpmath.mpf(found.numerator) / found.denominator - truth
        assert 0 < above < mpmath.mpf(10) ** -40


def test_nothing_spent_guarantees_everything() -> None:
    for row in guarantee(F(0), F(0), PER, F("1e-10"), F("1e-9"), bounded_range_only=True):
        assert row.epsilon == 0


@settings(max_examples=15, deadline=None)
@given(
    st.fractions(min_value=F(1, 2), max_value=40, max_denominator=100),
    st.integers(min_value=1, max_value=5000),
    st.integers(min_value=1, max_value=300),
    st.booleans(),
)
def test_solve_is_the_largest_that_holds(epsilon: Fraction, k: int, calls: int, laplace: bool) -> None:
    per, delta_per, slack = solve(epsilon, F("7e-9"), F(k), F(calls), bounded_range_only=laplace)

    def smallest(eps_per: Fraction) -> Fraction:
        rows = guarantee(F(k), F(calls), eps_per, delta_per, slack, bounded_range_only=laplace)
        assert {row.delta for row in rows} == {F("7e-9")}
        return min(row.epsilon for row in rows)

    assert smallest(per) <= epsilon < smallest(per + F(1, 10**6))


@given(st.fractions(min_value=F(1, 10**12), max_value=10**6), st.integers(min_value=1, max_value=12))
def test_shown_bounds_are_rounded_up(value: Fraction, digits: int) -> None:
    text = Fraction(shown_up(value, digits))
    assert value <= text <= value * (1 + F(10) ** (1 - digits))


@pytest.mark.parametrize(
    ("call", "arguments"),
    [
        (zcdp_epsilon, (F(-1), F("1e-9"))),
        (zcdp_epsilon, (F(1), F(0))),
        (zcdp_epsilon, (F(1), F(1))),
        (zcdp_delta, (F(1), F(-1))),
        (guarantee, (F(-1), F(1), PER, F("1e-10"), F("1e-9"))),
        (solve, (F(0), F("1e-9"), F(1), F(1))),
        (solve, (F(1), F("1e-9"), F(1), F(0))),
        (retention_periods, (0, 30)),
    ],
)
def test_parameters_out_of_range(call: object, arguments: tuple[object, ...]) -> None:
    assert callable(call)
    with pytest.raises(ValueError, match=r"not negative|above 0|at least"):
        call(*arguments)


def test_precision_is_not_shared() -> None:
    """The interval context is the module's own: whoever sets mpmath's precision changes nothing."""
    import mpmath

    before = zcdp_simple_epsilon(PAPER, F("1e-9"))
    with mpmath.workdps(5):
        mpmath.iv.dps = 5
        assert zcdp_simple_epsilon(PAPER, F("1e-9")) == before
    mpmath.iv.dps = 15
    assert accounting._iv.dps == 60
