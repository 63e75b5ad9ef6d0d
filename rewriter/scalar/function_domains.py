"""Which values a function can have: few of them whatever its operand, or one for each period of a time.

The rules are `values` and `grain` of rows of the registry of functions. What has neither has an unknown domain as a key
of GROUP BY, which is safe.
"""

from __future__ import annotations

import re

from sqlglot import exp

from rewriter.ir.parameter import Parameters
from rewriter.ir.relation import leaves
from rewriter.ir.trees import cast
from rewriter.scalar.function_checks import Of, bins, whole_constant
from rewriter.scalar.parameter_literal import with_constants
from rewriter.scalar.time_format import pieces
from rewriter.syntax.allowlist import field_span

MOST_BUCKETS = 10_000


def buckets(node: exp.Expr, of: Of, parameters: Parameters) -> list[exp.Expr] | None:
    """width_bucket: the buckets, one below and one above."""
    found = whole_constant(node.args["num_buckets"], parameters) or MOST_BUCKETS
    return [exp.Literal.number(n) for n in range(found + 2)] if found < MOST_BUCKETS else None


def fields(node: exp.Expr, of: Of, parameters: Parameters) -> list[exp.Expr] | None:
    """EXTRACT of a field that each period repeats."""
    span = field_span(node.name, of(node.expression))
    if span is None:
        return None
    return [cast(exp.Literal.number(value), "DECIMAL") for value in range(span[0], span[1] + 1)]


def branches(node: exp.Expr, of: Of, parameters: Parameters) -> list[exp.Expr] | None:
    """CASE with constant values."""
    default = node.args.get("default")
    found = [branch.args["true"] for branch in node.args["ifs"]] + ([default] if default else [])
    return None if any(map(leaves, found)) else [with_constants(value, parameters) for value in found]


def grain_of_field(node: exp.Expr) -> str | None:
    """EXTRACT: all times of a day have one value, except for the fields of the time of day."""
    return "day" if node.name.lower() not in ("hour", "minute", "second", "epoch") else None


def grain_of_period(node: exp.Expr) -> str | None:
    """date_trunc: its unit."""
    return str(node.args["unit"].name).lower()


def grain_of_cast(node: exp.Expr) -> str | None:
    """A timestamp as a date."""
    return "day" if node.args["to"].this == exp.DType.DATE else None


def grain_of_text(node: exp.Expr) -> str | None:
    """to_char: all times of a day have one text, where its format shows no time of day."""
    return None if _shown(node.args["format"].name) & {"hour", "minute", "second"} else "day"


def texts(node: exp.Expr, of: Of, parameters: Parameters) -> list[exp.Expr] | None:
    """to_char: those that each year repeats, or each week, or each day, where its format shows nothing else."""
    shown = _shown(node.args["format"].name)
    for fields, moments in _PERIODS.items():
        if shown and shown <= fields:
            return [
                exp.TimeToStr(this=exp.cast(exp.Literal.string(m), "TIMESTAMP"), format=node.args["format"])
                for m in moments
            ]
    return None


_PERIODS = {
    frozenset({"month", "quarter"}): [f"2024-{month:02}-01" for month in range(1, 13)],
    frozenset({"dow", "isodow"}): [f"2024-01-{day:02}" for day in range(1, 8)],
    frozenset({"hour"}): [f"2024-01-01 {hour:02}:00:00" for hour in range(24)],
}
"""Fields of a time with moments at which they have all of their values."""


_SIGNS = {
    "%Y": "year",
    "%m": "month",
    "%d": "day",
    "%j": "doy",
    "%H": "hour",
    "%M": "minute",
    "%S": "second",
}
"""The fields of the parser's signs."""


def _shown(text: str) -> set[str]:
    """The fields that a format shows."""
    if "%" in text:
        return {_SIGNS[sign] for sign in re.findall("%.", text)}
    return {piece.field for piece in pieces(text) or [] if piece.pattern}


def grain_of_bin(node: exp.Expr) -> str | None:
    """date_bin: the longest period that no bin divides."""
    stride, origin = bins(node, ()) or (1, 0)
    micros = {"day": 86_400_000_000, "hour": 3_600_000_000, "minute": 60_000_000}
    return next((unit for unit, size in micros.items() if stride % size == 0 == origin % size), None)
