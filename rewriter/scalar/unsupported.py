"""Aggregates that are not answered: those without a mechanism (PV018), and functions that PostgreSQL lacks (42883)."""

from __future__ import annotations

from sqlglot import exp

from rewriter.refusal import Refusal
from rewriter.syntax.allowlist import describe, position

SUPPORTED = (
    "Supported: COUNT, COUNT(DISTINCT), SUM, AVG, VARIANCE, STDDEV, PERCENTILE_CONT, PERCENTILE_DISC, and MIN and MAX "
    "of bounded numbers, dates and texts."
)


def unavailable(node: exp.Expr, hint: str | None = None, form: str = "") -> Refusal:
    """PV018: an aggregate that has no differentially private implementation here; `hint` says what comes near to it."""
    if isinstance(node, exp.Median):
        return no_such_function("median", "in PostgreSQL", position(node), hint)
    name = f"{describe(node)} with {form}" if form else describe(node)
    return Refusal(
        "PV018",
        f"{name} has no differentially private implementation",
        hint=f"{hint} {SUPPORTED}" if hint else SUPPORTED,
        position=position(node),
    )


def available(what: str, at: int | None) -> Refusal:
    """PV018 for a use of an aggregate that has a mechanism for other types or forms."""
    return Refusal(
        "PV018", f"{what} has no differentially private implementation", hint=SUPPORTED, position=at
    )


def no_such_function(name: str, how: str, at: int | None, hint: str | None = None) -> Refusal:
    """42883, as PostgreSQL has it: no function of this name takes such arguments."""
    return Refusal("42883", f"function {name} {how} does not exist", hint=hint or SUPPORTED, position=at)
