"""Constant factors: SUM(0.95 * x) is 0.95 times SUM(x), so that both are one measure."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from sqlglot import exp

from rewriter.ir.types import INTEGERS, Type


def constant_of(node: exp.Expr) -> Fraction | None:
    """The value of arithmetic on numbers that are written down, None for anything else.

    >>> constant_of(exp.condition("(1 - 0.05) * 2"))
    Fraction(19, 10)
    """
    node = node.unnest()
    if isinstance(node, exp.Literal) and not node.is_string:
        return Fraction(node.this)
    if isinstance(node, exp.Neg):
        inner = constant_of(node.this)
        return None if inner is None else -inner
    if isinstance(node, (exp.Add, exp.Sub, exp.Mul)):
        left, right = constant_of(node.this), constant_of(node.expression)
        if left is None or right is None:
            return None
        if isinstance(node, exp.Mul):
            return left * right
        return left + right if isinstance(node, exp.Add) else left - right
    return None


def scaled(value: exp.Expr, type_of: Callable[[exp.Expr], Type]) -> tuple[exp.Expr, Fraction]:
    """An expression as another one times a constant; integers are not divided, since PostgreSQL rounds there.

    >>> core, factor = scaled(exp.condition("-(2 * (x * 0.5))"), lambda _: Type.NUMERIC)
    >>> core.sql(), factor
    ('x', Fraction(-1, 1))
    """
    factor = Fraction(1)
    while True:
        value = value.unnest()
        if isinstance(value, exp.Neg):
            value, factor = value.this, -factor
            continue
        sides = (value.this, value.expression) if isinstance(value, (exp.Mul, exp.Div)) else (value, value)
        before, after = (constant_of(s) for s in sides)
        if isinstance(value, exp.Mul) and before and after is None:
            value, factor = sides[1], factor * before
        elif isinstance(value, exp.Mul) and after and before is None:
            value, factor = sides[0], factor * after
        elif isinstance(value, exp.Div) and after and before is None and type_of(value) not in INTEGERS:
            value, factor = sides[0], factor / after
        else:
            return value, factor
