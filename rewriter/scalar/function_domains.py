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
from rewriter.scalar.function_checks import whole_constant
from rewriter.scalar.parameter_literal import with_constants
from rewriter.syntax.allowlist import EXTRACTED

MOST_BUCKETS = 10_000


def buckets(node: exp.Expr, parameters: Parameters) -> list[exp.Expr] | None:
    """width_bucket: the buckets, one below and one above."""
    found = whole_constant(node.args["num_buckets"], parameters) or MOST_BUCKETS
    return [exp.Literal.number(n) for n in range(found + 2)] if found < MOST_BUCKETS else None


def fields(node: exp.Expr, parameters: Parameters) -> list[exp.Expr] | None:
    """EXTRACT of a field that each period repeats."""
    span = EXTRACTED[node.name.lower()]
    if span is None:
        return None
    return [cast(exp.Literal.number(value), "DECIMAL") for value in range(span[0], span[1] + 1)]


def branches(node: exp.Expr, parameters: Parameters) -> list[exp.Expr] | None:
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
    return None if re.search("%[HMS]", node.args["format"].name) else "day"
