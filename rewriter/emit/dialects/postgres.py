"""PostgreSQL's SQL: it has no TRY, so every expression is written in a form that cannot raise."""

from __future__ import annotations

from sqlglot import exp

from rewriter.emit.dialects.base import Bound, collated
from rewriter.emit.expressions.postgres import PostgresWriter
from rewriter.ir.relation import Relation, leaf
from rewriter.ir.trees import and_, case, cast, func, paren
from rewriter.policy import Column
from rewriter.scalar.kinds import enumerable, kind_of_type
from rewriter.scalar.typecheck import Parameters

_STAND_INS = {
    "int": "0",
    "number": "0",
    "float": "0",
    "text": "",
    "bool": "false",
    "date": "2000-01-01",
    "timestamp": "2000-01-01 00:00:00",
    "timestamptz": "2000-01-01 00:00:00",
    "time": "00:00:00",
    "uuid": "00000000-0000-0000-0000-000000000000",
}
"""A value of each kind that stands for NULL in a join; whether it was NULL is compared beside it."""

HELD = "1e28"
"""What the cells' DECIMAL of 38 digits, ten of them behind the point, can hold."""


class PostgresDialect(Bound):
    """Emitted SQL for PostgreSQL 15 and later, under the settings that the backend pins."""

    def sql(self, query: exp.Expr) -> str:
        return query.sql("postgres", pretty=True, copy=False)

    def scanned(self, alias: str, column: Column) -> exp.Expr:
        value = leaf(alias, column.name)
        found = kind_of_type(column.type)
        if found == "text[]":
            return _bytewise(value)
        return _bytewise(cast(value, "TEXT")) if found == "text" else value

    def expression(self, node: exp.Expr, relation: Relation, parameters: Parameters) -> exp.Expr:
        return PostgresWriter(relation, parameters).write(node)

    def cell(self, value: exp.Expr, kind: str) -> exp.Expr:
        if kind != "number":
            return cast(value, _CELLS.get(kind, "TEXT"))
        held = exp.LT(this=exp.Abs(this=value), expression=cast(exp.Literal.string(HELD), "DECIMAL"))
        rounded = func("ROUND", value.copy(), exp.Literal.number(10))
        return case((held, rounded))

    def key(self, value: exp.Expr, kind: str) -> exp.Expr:
        if kind == "float":
            return exp.Add(this=value, expression=exp.Literal.number("0.0"))
        if kind == "number":
            return exp.Anonymous(this="TRIM_SCALE", expressions=[value])
        if kind == "interval":
            return _justified(value)
        return cast(value, "TEXT") if _opaque(kind) else value

    def least(self, value: exp.Expr, kind: str) -> exp.Expr:
        if kind == "bool":
            return exp.LogicalAnd(this=value)
        if kind == "uuid":
            return cast(exp.Min(this=cast(value, "TEXT")), "UUID")
        return exp.Min(this=value)

    def same(self, left: exp.Expr, right: exp.Expr, kind: str) -> exp.Expr:
        equal = exp.EQ(this=_filled(left, kind), expression=_filled(right, kind))
        absent = (paren(exp.Is(this=side.copy(), expression=exp.null())) for side in (left, right))
        return and_(equal, exp.EQ(this=next(absent), expression=next(absent)))

    def text(self, value: exp.Expr, kind: str) -> exp.Expr:
        if kind == "float":
            return _bits(value)
        if kind == "timestamptz":
            value = cast(value, "TIMESTAMP")
        if kind == "number":
            value = exp.Anonymous(this="TRIM_SCALE", expressions=[value])
        return cast(value, "TEXT")

    def ordered(self, value: exp.Expr, kind: str) -> exp.Expr:
        if _opaque(kind):
            value = cast(value, "TEXT")
        return _bytewise(value) if kind == "text" or _opaque(kind) else value


_CELLS = {
    "int": "BIGINT",
    "float": "DOUBLE",
    "bool": "BOOLEAN",
    "date": "DATE",
    "timestamp": "TIMESTAMP",
    "timestamptz": "TIMESTAMP",
    "time": "TIME",
    "uuid": "UUID",
}


def _opaque(kind: str) -> bool:
    """Whether values of a kind are grouped by their texts."""
    return kind == "other" or (kind != "interval" and not enumerable(kind))


def _justified(value: exp.Expr) -> exp.Expr:
    """One of the intervals that are equal, whichever row comes first; NULL beyond a hundred thousand years."""
    ends = [cast(exp.Literal.string(f"{sign}100000 years"), "INTERVAL") for sign in ("-", "")]
    near = exp.Between(this=value, low=ends[0], high=ends[1])
    return case((near, exp.Anonymous(this="JUSTIFY_INTERVAL", expressions=[value.copy()])))


def _bytewise(value: exp.Expr) -> exp.Expr:
    return collated(value, "C")


def _filled(value: exp.Expr, kind: str) -> exp.Expr:
    stand_in = cast(exp.Literal.string(_STAND_INS.get(kind, "")), _CELLS.get(kind, "TEXT"))
    if kind == "number":
        stand_in = cast(exp.Literal.number(0), "DECIMAL")
    return func("COALESCE", value.copy(), stand_in)


def _bits(value: exp.Expr) -> exp.Expr:
    """The 64 bits of a float, one text for all that are not a number and for both zeros."""
    double = exp.Add(this=cast(value, "DOUBLE"), expression=exp.Literal.number("0.0"))
    sent = exp.Anonymous(this="FLOAT8SEND", expressions=[double])
    digits = exp.Anonymous(this="ENCODE", expressions=[sent, exp.Literal.string("hex")])
    bits = cast(paren(exp.DPipe(this=exp.Literal.string("x"), expression=digits)), "BIT(64)")
    unordered = exp.EQ(this=value.copy(), expression=cast(exp.Literal.string("NaN"), "DOUBLE"))
    return case((unordered, exp.Literal.string("NaN")), otherwise=cast(bits, "TEXT"))


POSTGRES = PostgresDialect()
