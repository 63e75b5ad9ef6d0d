"""Which values DuckDB compares without a conversion that could raise."""

from __future__ import annotations

import re

from sqlglot import exp

from rewriter.ir.relation import Relation
from rewriter.scalar.typecheck import Parameters, kind, operands

SMALL_NUMBER = re.compile(r"\d{1,15}(\.\d{1,10})?")
"""A constant that every integer can be compared with as a DECIMAL of 38 digits."""


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
