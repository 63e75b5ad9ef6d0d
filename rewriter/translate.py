"""Which values DuckDB compares without a conversion that could raise."""

from __future__ import annotations

import re

from sqlglot import exp

from rewriter.expression import COMPARISONS, Parameters, kind, operands, readable
from rewriter.relation import Relation

TOTAL = (
    exp.Column,
    exp.Identifier,
    exp.Literal,
    exp.Boolean,
    exp.Null,
    exp.Parameter,
    exp.Paren,
    exp.And,
    exp.Or,
    exp.Not,
    exp.Is,
    exp.Like,
    exp.ILike,
    exp.Lower,
    exp.Upper,
    exp.Trim,
    exp.Length,
    exp.DPipe,
    exp.AggFunc,
    exp.Star,
    exp.Distinct,
)
"""What cannot raise, whatever the values of its parts."""

SMALL_NUMBER = re.compile(r"\d{1,15}(\.\d{1,10})?")
"""A constant that every integer can be compared with as a DECIMAL of 38 digits."""


def total(node: exp.Expr, relation: Relation, parameters: Parameters) -> bool:
    """Whether no value can make DuckDB raise in computing `node`; what aggregates are made of is left out."""
    if isinstance(node, COMPARISONS):
        if not readable(node, relation, parameters) or not alike_operands(node, relation, parameters):
            return False
    elif not isinstance(node, TOTAL):
        return False
    elif isinstance(node, exp.AggFunc):
        return True
    return all(total(part, relation, parameters) for part in node.iter_expressions())


def alike_operands(comparison: exp.Expr, relation: Relation, parameters: Parameters) -> bool:
    """Whether a comparison converts constants only, or numbers to DOUBLE."""
    compared = operands(comparison)
    small = [isinstance(o, exp.Literal) and SMALL_NUMBER.fullmatch(o.this) is not None for o in compared]
    kinds = {kind(o, relation, parameters) for o, s in zip(compared, small, strict=True) if not s}
    return alike(kinds - {"literal"})


def alike(kinds: set[str]) -> bool:
    """Whether values of `kinds` can be compared in DuckDB without a conversion that raises.

    >>> alike({"int", "float"}), alike({"int", "number"})
    (True, False)
    """
    return kinds <= {"int", "float"} or (len(kinds) == 1 and not kinds & {"number", "other"})
