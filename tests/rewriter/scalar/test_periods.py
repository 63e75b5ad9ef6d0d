"""Which periods begin with a moment, and which a function of a time can be read off."""

from __future__ import annotations

import pytest
from sqlglot import exp

from rewriter.scalar.periods import FINER, deciding


def periods(text: str, *, cut: bool = False) -> list[str]:
    return [
        period.begin.args["unit"].name.lower()
        for period in deciding(exp.condition(text))
        if isinstance(period.begin, exp.TimestampTrunc) and cut == (period.cut is not None)
    ]


@pytest.mark.parametrize(
    ("moment", "begun"),
    [
        ("2024-01-01 00:00:00", ["minute", "hour", "day", "week", "month", "quarter", "year"]),
        ("2024-04-01 00:00:00", ["minute", "hour", "day", "week", "month", "quarter"]),
        ("2024-05-01 00:00:00", ["minute", "hour", "day", "month"]),
        ("2024-05-06 00:00:00", ["minute", "hour", "day", "week"]),
        ("2024-05-06 12:00:00", ["minute", "hour"]),
        ("2024-05-06 12:30:00", ["minute"]),
        ("2024-05-06 12:30:01", []),
        ("no time", []),
    ],
)
def test_periods_that_begin_with_a_moment(moment: str, begun: list[str]) -> None:
    assert periods(f"t >= CAST('{moment}' AS TIMESTAMP)") == begun
    assert periods(f"t < CAST('{moment}' AS TIMESTAMP)") == begun
    assert not periods(f"t <= CAST('{moment}' AS TIMESTAMP)"), "a time within the period is beyond its begin"
    assert not periods(f"t > CAST('{moment}' AS TIMESTAMP)")
    known = moment != "no time"
    undecided = [grain for grain in FINER if grain not in begun] if known else []
    assert periods(f"t >= CAST('{moment}' AS TIMESTAMP)", cut=True) == undecided, "but for one period"
    assert periods(f"t > CAST('{moment}' AS TIMESTAMP)", cut=True) == (list(FINER) if known else [])


@pytest.mark.parametrize("grain", FINER)
def test_functions_of_periods(grain: str) -> None:
    found = periods(f"TIMESTAMP_TRUNC(t, {grain.upper()})")
    assert found == list(FINER[grain])
    assert ("week" in found) == (grain == "week"), "weeks are in no month"
