"""Detects expressions that are always NULL and predicates that are never true, because of a constant of the query.

In:  (amount - $1) / $2, where $2 is 0, or where $1 is NULL
Out: NULL for every row, whatever the data: bounds of it are not needed
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from sqlglot import exp

from rewriter.ir.parameter import Parameters
from rewriter.scalar.functions import strict_operands

_ORDERS: dict[type[exp.Expr], Callable[[Fraction, Fraction], bool]] = {
    exp.EQ: lambda a, b: a == b,
    exp.NEQ: lambda a, b: a != b,
    exp.GT: lambda a, b: a > b,
    exp.GTE: lambda a, b: a >= b,
    exp.LT: lambda a, b: a < b,
    exp.LTE: lambda a, b: a <= b,
}

Point = Callable[[exp.Expr], Fraction | None]
"""The one value that an expression without columns has, None where there is none or it is not known."""


def always_null(node: exp.Expr, parameters: Parameters, point: Point) -> bool:
    """Whether a base-form expression is NULL on every row; what PostgreSQL would raise at is NULL.

    >>> from rewriter.ir.parameter import Parameter
    >>> x = exp.column("x") / exp.Parameter(this=exp.Literal.number(1))
    >>> one, none = Parameter("numeric", "1"), Parameter("numeric", None, null=True)
    >>> always_null(x, (one,), lambda _: Fraction(1)), always_null(x, (none,), lambda _: None)
    (False, True)
    >>> always_null(x, (one,), lambda _: Fraction(0))
    True
    """
    node = node.unnest()
    if isinstance(node, exp.Null):
        return True
    if isinstance(node, exp.Parameter):
        return parameters[int(node.name) - 1].null
    if isinstance(node, (exp.Div, exp.Mod)) and point(node.expression) == 0:
        return True
    return any(always_null(part, parameters, point) for part in strict_operands(node))


def never_true(condition: exp.Expr, parameters: Parameters, point: Point) -> bool:
    """Whether no row meets a condition: a comparison with NULL, or one of constants that fails.

    >>> constants = {"2": Fraction(2), "1": Fraction(1)}
    >>> [never_true(exp.condition(c), (), lambda node: constants.get(node.sql())) for c in ("1 > 2", "1 < 2", "x > 2")]
    [True, False, False]
    """
    condition = condition.unnest()
    if type(condition) not in _ORDERS:
        return False
    sides = condition.this, condition.expression
    if any(always_null(side, parameters, point) for side in sides):
        return True
    # In this order: a parameter beside a column is not asked for its value.
    left = point(sides[0])
    right = None if left is None else point(sides[1])
    return left is not None and right is not None and not _ORDERS[type(condition)](left, right)
