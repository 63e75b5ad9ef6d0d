"""Floating point arithmetic that cannot raise: PostgreSQL raises at overflow and at results too small for a double.

Each guard is exact but for results within 1e-15 of the largest double, which are NULL. Operands that are NaN or
infinite raise nowhere.
"""

from __future__ import annotations

from sqlglot import exp

_MOST = "1.7976931348623157e308"
_SAFE = "1.797693134862315e308"
_LEAST = "2e-323"


def double(text: str) -> exp.Expr:
    """A constant of type double precision.

    >>> double("1e5").sql("postgres")
    "CAST('1e5' AS DOUBLE PRECISION)"
    """
    return exp.cast(exp.Literal.string(text), "DOUBLE")


def size(value: exp.Expr) -> exp.Expr:
    """The absolute value."""
    return exp.Abs(this=value.copy())


def special(value: exp.Expr) -> exp.Expr:
    """Whether a double is infinite or NaN, which is greater than all others in both engines."""
    return exp.GT(this=size(value), expression=double(_MOST))


def zero(value: exp.Expr) -> exp.Expr:
    """Whether a number is zero."""
    return exp.EQ(this=value.copy(), expression=exp.Literal.number(0))


def sums(left: exp.Expr, right: exp.Expr) -> exp.Expr:
    """Whether left + right and left - right raise nowhere."""
    room = exp.Sub(this=double(_SAFE), expression=size(right))
    return exp.or_(special(left), special(right), exp.LTE(this=size(left), expression=room))


def multiplies(left: exp.Expr, right: exp.Expr) -> exp.Expr:
    """Whether left * right raises nowhere."""
    large = exp.GTE(this=size(right), expression=exp.Literal.number(1))
    most = exp.LTE(
        this=size(left), expression=exp.Div(this=double(_SAFE), expression=size(right), typed=True)
    )
    least = exp.GTE(
        this=size(left), expression=exp.Div(this=double(_LEAST), expression=size(right), typed=True)
    )
    safe = exp.or_(zero(left), zero(right), special(left), special(right))
    return exp.case().when(safe, exp.true()).when(large, most).else_(least)


def divides(left: exp.Expr, right: exp.Expr) -> exp.Expr:
    """Whether left / right raises nowhere."""
    large = exp.GTE(this=size(right), expression=exp.Literal.number(1))
    least = exp.GTE(this=size(left), expression=exp.Mul(this=double(_LEAST), expression=size(right)))
    most = exp.LTE(this=size(left), expression=exp.Mul(this=double(_SAFE), expression=size(right)))
    safe = exp.or_(zero(left), special(left), special(right))
    return exp.case().when(zero(right), exp.false()).when(safe, exp.true()).when(large, least).else_(most)


def narrows(value: exp.Expr) -> exp.Expr:
    """Whether a double can be made a real."""
    most = exp.LTE(this=size(value), expression=double("3.4028234e38"))
    least = exp.or_(zero(value), exp.GTE(this=size(value), expression=double("1.5e-45")))
    return exp.or_(special(value), exp.and_(most, least))


def power(value: exp.Expr, exponent: float) -> exp.Expr:
    """Whether value ^ exponent raises nowhere; results beyond 1e300 and below 1e-300 are NULL."""
    if exponent == 0:
        return exp.true()
    reach = min(300 / abs(exponent), 300.0)
    within = exp.and_(
        exp.LTE(this=size(value), expression=double(repr(10.0**reach))),
        exp.GTE(this=size(value), expression=double(repr(10.0**-reach))),
    )
    if not exponent.is_integer():
        within = exp.and_(exp.GT(this=value.copy(), expression=exp.Literal.number(0)), within)
    if exponent < 0:
        return within
    return exp.or_(zero(value), exp.GT(this=value.copy(), expression=double(_MOST)), within)
