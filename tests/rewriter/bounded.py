"""The shop with what sums need: bounds of amounts and of a unit's quantities, few rows a unit, and a horizon."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from rewriter.policy import Column, Horizon, Policy
from tests.rewriter.shop import EVENTS, POLICY

MOST_ROWS = 400
"""More than the outlier has: no clamp binds."""
TAU = 3
"""Fewer: clamps bind."""


def _bounded(column: Column) -> Column:
    if column.name == "amount":
        return replace(column, bounds=(Fraction(-5), Fraction(100)), scale=2)
    if column.name == "quantity":
        return replace(column, unit_bounds=(Fraction(-(10**12)), Fraction(10**12)), scale=0)
    return column


def _policy(rows: int, horizon: Horizon | None) -> Policy:
    events = replace(
        EVENTS,
        columns=tuple(map(_bounded, EVENTS.columns)),
        horizon=horizon,
        max_rows_per_unit=rows,
        max_rows_per_unit_per_group=rows,
    )
    return Policy({**POLICY.tables, ("public", "events"): events})


MEASURED = _policy(MOST_ROWS, Horizon("ts", "2024-01-01", "2024-03-31", MOST_ROWS))
TIGHT = _policy(TAU, None)
