"""Expressions over private rows for PostgreSQL, which has no TRY: no form can raise for any value."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from rewriter.emit.dialects.base import collated
from rewriter.emit.expressions.base import Guarded, operation
from rewriter.emit.expressions.functions import Forms, number, when
from rewriter.ir.trees import and_, cast, or_, paren
from rewriter.scalar import float_guards
from rewriter.scalar.numeric_width import INTEGERS, SPAN

COMPUTED = {"int2": "BIGINT", "int4": "BIGINT", "int8": "DECIMAL", "number": "DECIMAL"}
CLOSED = {"int2": "SMALLINT", "int4": "INT", "int8": "BIGINT", "real": "REAL"}
LARGEST = "1e38"
"""Numerics from here on are NULL in arithmetic: products of many could be beyond what a numeric holds."""


class PostgresWriter(Forms):
    """PostgreSQL 15 and later; columns of text come with collation C."""

    both = "BTRIM"

    def literal(self, node: exp.Expr) -> exp.Expr:
        return node.copy()

    def types(self, of: str) -> str:
        return COMPUTED.get(of, "DOUBLE")

    def operand(self, node: exp.Expr, of: str) -> Guarded:
        value = self.write(node)
        if of in INTEGERS or of == "real":
            return Guarded(cast(value, self.types(of)))
        if of == "number" and not self.bounded(node):
            return Guarded(value, (exp.LT(this=exp.Abs(this=value.copy()), expression=_exact(LARGEST)),))
        return Guarded(value)

    def bounded(self, node: exp.Expr) -> bool:
        """Whether a numeric has few digits by its type or because it is a constant."""
        if isinstance(node, exp.Column):
            return "(" in self.relation.source(node.table).column(node.name).type
        return isinstance(node, (exp.Literal, exp.Parameter, exp.Extract, exp.Neg))

    def promoted(self, part: Guarded, before: str, after: str) -> Guarded:
        if self.types(before) == self.types(after):
            return part
        if before != "number":
            return Guarded(cast(part.value, self.types(after)), part.guards)
        size = exp.Abs(this=part.value.copy())
        large = and_(
            exp.LT(this=size, expression=_exact("1e300")),
            exp.GT(this=size.copy(), expression=_exact("1e-300")),
        )
        held = or_(float_guards.zero(part.value), large)
        return Guarded(cast(part.value, "DOUBLE"), (*part.guards, held))

    def computed(self, node: exp.Expr, parts: Sequence[exp.Expr], of: str) -> Guarded:
        guards: tuple[exp.Expr, ...] = ()
        if isinstance(node, (exp.Div, exp.Mod)):
            guards = (exp.NEQ(this=parts[1].copy(), expression=number(0)),)
        if isinstance(node, exp.Div) and of == "int8":
            value: exp.Expr = exp.Anonymous(this="DIV", expressions=list(parts))
        elif isinstance(node, exp.Binary):
            value = operation(node, parts[0], parts[1])
        else:
            value = type(node)(this=parts[0])
        if of in INTEGERS and not isinstance(node, exp.Mod):
            ends = number(-SPAN[of]), number(SPAN[of] - 1)
            guards = (*guards, exp.Between(this=paren(value.copy()), low=ends[0], high=ends[1]))
        return Guarded(value, guards)

    def close(self, part: Guarded, node: exp.Expr) -> exp.Expr:
        stored = CLOSED.get(self.width(node))
        value = part.value if stored is None else cast(part.value, stored)
        return Guarded(value, part.guards).closed()

    def folding(self, value: exp.Expr) -> exp.Expr:
        return collated(value, "default")

    def cased(self, node: exp.Expr) -> exp.Expr:
        return collated(type(node)(this=collated(self.write(node.this), "default")), "C")

    def days_between(self, first: exp.Expr, second: exp.Expr) -> exp.Expr:
        return exp.Sub(this=first, expression=second)

    def half_even(self, value: exp.Expr) -> exp.Expr:
        return exp.Round(this=value)

    def cut_number(self, value: exp.Expr, places: int) -> exp.Expr:
        return exp.Anonymous(this="TRUNC", expressions=[value, number(places)])

    def decimal(self, value: exp.Expr) -> exp.Expr:
        return cast(value.copy(), "DECIMAL")

    def stored(self, node: exp.Expr) -> exp.DataType:
        return exp.DataType(this=node.args["to"].this)

    def field(self, value: exp.Expr, field: str) -> exp.Expr:
        return exp.Extract(this=exp.var(field.upper()), expression=value)

    def substring(self, node: exp.Expr) -> exp.Expr:
        start, length = self.write(node.args["start"]), node.args.get("length")
        if length is None:
            return exp.Substring(this=self.write(node.this), start=start)
        size = self.write(length)
        known = when(exp.GTE(this=size, expression=number(0)), size.copy())
        return exp.Substring(this=self.write(node.this), start=start, length=known)

    def matched(self, node: exp.Expr) -> exp.Expr:
        value = paren(self.bytewise(self.write(node.this)))
        return exp.RegexpLike(this=value, expression=exp.Literal.string(self.pattern(node)))

    def bytewise(self, value: exp.Expr) -> exp.Expr:
        return collated(value, "C")


def _exact(text: str) -> exp.Expr:
    return cast(exp.Literal.string(text), "DECIMAL")
