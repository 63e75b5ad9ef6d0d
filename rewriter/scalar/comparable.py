"""Which values DuckDB compares without a conversion that could raise."""

from __future__ import annotations

import re

from sqlglot import exp

from rewriter.ir.types import FLOATS, INTEGERS, Type
from rewriter.scalar.typecheck import Types, operands

SMALL_NUMBER = re.compile(r"\d{1,15}(\.\d{1,10})?")
"""A constant that every integer can be compared with as a DECIMAL of 38 digits."""


CONVERTED = frozenset({Type.NUMERIC, Type.NUMERIC_ARRAY, Type.OTHER, Type.OTHER_ARRAY, Type.BRIEF})
"""Types that stand for several of DuckDB's, one of which may not hold a value of another."""


def alike_operands(comparison: exp.Expr, types: Types) -> bool:
    """Whether a comparison converts constants only, or numbers to DOUBLE."""
    compared = operands(comparison)
    small = [isinstance(o, exp.Literal) and SMALL_NUMBER.fullmatch(o.this) is not None for o in compared]
    return alike({types.of(o) for o, s in zip(compared, small, strict=True) if not s} - {Type.LITERAL})


def alike(types: set[Type]) -> bool:
    """Whether values of `types` can be compared in DuckDB without a conversion that raises.

    >>> alike({Type.INT4, Type.FLOAT8}), alike({Type.INT4, Type.NUMERIC})
    (True, False)
    """
    one = len({found.family for found in types}) == 1
    return types <= INTEGERS | FLOATS or (one and not types & CONVERTED)
