"""Between which bounds the value of each operator and function lies, from those of its parts.

Each rule is the `range` of rows of the registry of functions. A wider range is always right: what has no rule has no
ends. NULL has no range, but it removes operands: GREATEST(x, 0) is 0 for a NULL x, and LEAST(x, 9) bounds from above
only. So an operand bounds GREATEST and LEAST only where it is never NULL.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import floor
from typing import Protocol

from sqlglot import exp

from rewriter.ir.types import CASTS, INTEGERS, NUMBERS, STAMPS, ZONELESS, Type
from rewriter.scalar import time_zones
from rewriter.scalar.timestamps import DAY, truncated, year_of
from rewriter.scalar.value_interval import NOTHING, Interval, furthest, parsed, union
from rewriter.syntax.allowlist import field_span

NEAR = Interval(Fraction(-DAY), Fraction(DAY), 0)
"""Seconds by which a time in a zone is ahead of UTC, or behind it."""


class Ranging(Protocol):
    """What is known of the parts of an expression."""

    def interval(self, node: exp.Expr) -> Interval:
        """The range of a part's values that are not NULL."""

    def type_of(self, node: exp.Expr) -> Type:
        """The type of a part."""

    def constant(self, node: exp.Expr, of: Type) -> Fraction | None:
        """The value of a part without columns, converted to the type `of`; None for any other part."""

    def under(self, condition: exp.Expr) -> Ranging:
        """The same where a condition is true."""


def negated(node: exp.Expr, of: Ranging) -> Interval:
    """-x."""
    return of.interval(node.this).negated()


def size(node: exp.Expr, of: Ranging) -> Interval:
    """abs."""
    return of.interval(node.this).size()


def whole(node: exp.Expr, of: Ranging) -> Interval:
    """floor and ceil."""
    return of.interval(node.this).whole()


def rounded(node: exp.Expr, of: Ranging) -> Interval:
    """round and trunc, to whole numbers or to decimals."""
    inner, decimals = of.interval(node.this), node.args.get("decimals")
    if decimals is None:
        return inner.whole()
    kept = of.constant(decimals, Type.INT4)
    if kept is None or abs(kept) > 30:
        return Interval()
    unit = Fraction(10) ** int(kept)
    whole = inner.mapped(lambda end: end * unit, None).whole()
    return whole.mapped(lambda end: end / unit, max(int(kept), 0))


def sign(node: exp.Expr, of: Ranging) -> Interval:
    """sign."""
    found = of.interval(node.this).mapped(lambda end: Fraction((end > 0) - (end < 0)), 0)
    return found.within(Fraction(-1), Fraction(1))


def bucket(node: exp.Expr, of: Ranging) -> Interval:
    """width_bucket: from 0, below all buckets, to one above their number."""
    count = of.constant(node.args["num_buckets"], Type.INT4)
    return Interval(Fraction(0), None if count is None else count + 1, 0)


def not_negative(node: exp.Expr, of: Ranging) -> Interval:
    """sqrt and exp."""
    return Interval(Fraction(0))


def masked(node: exp.Expr, of: Ranging) -> Interval:
    """&: no more than an operand that is never negative."""
    masks = [m for m in map(of.interval, (node.this, node.expression)) if m.lo is not None and m.lo >= 0]
    highs = [m.hi for m in masks if m.hi is not None]
    return Interval(Fraction(0), min(highs, default=None), 0) if masks else Interval()


def length(node: exp.Expr, of: Ranging) -> Interval:
    """length, ascii, and the place of a text in another."""
    return Interval(Fraction(0), None, 0)


def sum_of(node: exp.Expr, of: Ranging) -> Interval:
    """x + y."""
    return of.interval(node.this).plus(of.interval(node.args["expression"]))


def difference(node: exp.Expr, of: Ranging) -> Interval:
    """x - y."""
    return of.interval(node.this).plus(of.interval(node.args["expression"]).negated())


def product(node: exp.Expr, of: Ranging) -> Interval:
    """x * y."""
    return of.interval(node.this).times(of.interval(node.args["expression"]))


def quotient(node: exp.Expr, of: Ranging) -> Interval:
    """x / y, which PostgreSQL cuts to an integer where both are integers."""
    inverse = of.interval(node.args["expression"]).inverse()
    if inverse is None:
        return Interval()
    found = of.interval(node.this).times(inverse)
    return found.whole() if of.type_of(node) in INTEGERS else replace(found, scale=None)


def remainder(node: exp.Expr, of: Ranging) -> Interval:
    """x % y."""
    return of.interval(node.this).remainder(of.interval(node.args["expression"]))


def first(node: exp.Expr, of: Ranging) -> Interval:
    """nullif: the first operand or NULL."""
    return of.interval(node.this)


def any_of(node: exp.Expr, of: Ranging) -> Interval:
    """coalesce."""
    return union([of.interval(e) for e in (node.this, *node.expressions)])


def extreme(node: exp.Expr, of: Ranging) -> Interval:
    """greatest and least."""
    own = of.type_of(node)
    parts = [(p, _as_type(p, of, own)) for p in (node.this, *node.expressions)]
    values = union([found for _, found in parts])
    sure = [found for p, found in parts if _never_null(p, of, own)]
    if isinstance(node, exp.Greatest):
        return replace(values, lo=furthest(max, values.lo, *(s.lo for s in sure)))
    return replace(values, hi=furthest(min, values.hi, *(s.hi for s in sure)))


def _as_type(node: exp.Expr, of: Ranging, own: Type) -> Interval:
    """The range of an expression as values of a type."""
    value, found = of.constant(node, own), of.interval(node)
    if value is None:
        return found
    return Interval(value, value, 0 if own in ZONELESS else found.scale)


def _never_null(node: exp.Expr, of: Ranging, own: Type) -> bool:
    node = node.unnest()
    if isinstance(node, (exp.Greatest, exp.Least, exp.Coalesce)):
        return any(_never_null(p, of, own) for p in (node.this, *node.expressions))
    return of.constant(node, own) is not None


def branches(node: exp.Expr, of: Ranging) -> Interval:
    """CASE: each value in the rows for which its condition is true."""
    found = []
    for branch in node.args["ifs"]:
        # `CASE x WHEN 1` has values in place of conditions.
        inside = of if node.this else of.under(branch.this)
        found.append((branch.args["true"], inside))
    default = node.args.get("default")
    if default is not None:
        found.append((default, of))
    return union(
        [inside.interval(value) for value, inside in found if not isinstance(value.unnest(), exp.Null)]
    )


def field(node: exp.Expr, of: Ranging) -> Interval:
    """EXTRACT."""
    name = node.name.lower()
    span = field_span(name, of.type_of(node.expression))
    if span is not None:
        return Interval(Fraction(span[0]), Fraction(span[1]), 0)
    inner = _seconds(node.args["expression"], of)
    if name not in ("year", "isoyear") or inner.lo is None or inner.hi is None:
        return Interval()
    # The ISO year of a day differs from its year by one at most, around New Year.
    near = 1 if name == "isoyear" else 0
    return Interval(Fraction(year_of(inner.lo) - near), Fraction(year_of(inner.hi) + near), 0)


def period(node: exp.Expr, of: Ranging) -> Interval:
    """date_trunc."""
    inner, unit = _seconds(node.this, of), node.args["unit"].name.lower()
    return Interval(None if inner.lo is None else truncated(inner.lo, unit), inner.hi, 0)


def named(node: exp.Expr, of: Ranging) -> Interval:
    """to_timestamp: its operand is in seconds."""
    return of.interval(node.expressions[0]) if node.name.lower() == "to_timestamp" else Interval()


def moment(node: exp.Expr, of: Ranging) -> Interval:
    """AT TIME ZONE: at another moment of the same day or of one beside it, unless the zone is UTC."""
    found = _seconds(node.this, of)
    return found.plus(NEAR if not time_zones.at_utc(node) else NOTHING)


def cast(node: exp.Expr, of: Ranging) -> Interval:
    """CAST."""
    source, target = of.type_of(node.this), CASTS.get(node.args["to"].this)
    literal = node.this.unnest()
    if isinstance(literal, exp.Literal) and literal.is_string:
        return parsed(literal.this, target)
    inner = of.interval(node.this)
    if target is Type.DATE and source in STAMPS:
        return inner.mapped(lambda end: Fraction(floor(end / DAY)), 0)
    if target in STAMPS:
        return _seconds(node.this, of)
    if source is Type.BOOL:
        return Interval(Fraction(0), Fraction(1), 0)
    if target in INTEGERS:
        return inner.whole()
    return inner if target in NUMBERS | {Type.DATE} else Interval()


def _seconds(node: exp.Expr, of: Ranging) -> Interval:
    """The range of a date or a time in seconds."""
    inner = of.interval(node)
    return inner.mapped(lambda end: end * DAY, 0) if of.type_of(node) is Type.DATE else inner
