"""Micro-units: exact, and every rounding goes against the spender."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from budget.units import MICRO, MOST, micro, micro_limit, shown, units

amounts = st.fractions(min_value=0, max_value=10**9)


@given(amounts)
def test_costs_round_up_and_limits_down_by_less_than_a_millionth(amount: Fraction) -> None:
    assert amount <= units(micro(amount)) < amount + Fraction(1, MICRO)
    assert amount - Fraction(1, MICRO) < units(micro_limit(amount)) <= amount


@given(st.integers(min_value=-MOST, max_value=MOST))
def test_what_people_see_is_exact(amount: int) -> None:
    assert Fraction(shown(amount)) == units(amount)


def test_what_people_see_is_short() -> None:
    assert [shown(amount) for amount in (0, 21_000_000, 20_500_000, 1)] == ["0", "21", "20.5", "0.000001"]


@pytest.mark.parametrize("convert", [micro, micro_limit])
@pytest.mark.parametrize("amount", [Fraction(-1, 10**9), Fraction(-5), Fraction(MOST), Fraction(10**30)])
def test_amounts_out_of_range_are_refused(convert: Callable[[Fraction], int], amount: Fraction) -> None:
    with pytest.raises(ValueError, match="out of range"):
        convert(amount)
