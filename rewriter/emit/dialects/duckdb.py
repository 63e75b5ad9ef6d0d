"""DuckDB's SQL: TRY surrounds expressions that a row could make raise."""

from __future__ import annotations

from sqlglot import exp

from rewriter.emit.dialects.base import Bound, cell_type, collated
from rewriter.emit.expressions.duckdb import DuckDBWriter, era_last
from rewriter.ir.relation import Relation, leaf
from rewriter.ir.trees import case, cast, data_type, func, paren
from rewriter.policy import Column
from rewriter.scalar.kinds import kind_of_type
from rewriter.scalar.typecheck import Parameters

_DAY = 86_400_000_000
_MONTH = 30 * _DAY
"""Microseconds, by which both engines compare intervals."""


class DuckDBDialect(Bound):
    """Emitted SQL for DuckDB 1.4 and later."""

    def sql(self, query: exp.Expr) -> str:
        return query.sql("duckdb", pretty=True, copy=False)

    def scanned(self, alias: str, column: Column) -> exp.Expr:
        value = leaf(alias, column.name)
        if kind_of_type(column.type) != "text":
            return value
        # A column's own collation would go along through casts and subqueries. The cast is for enumerated types, which
        # have none and take none.
        return collated(cast(value, "VARCHAR"), "C")

    def expression(self, node: exp.Expr, relation: Relation, parameters: Parameters) -> exp.Expr:
        return DuckDBWriter(relation, parameters).write(node)

    def exact(self, value: exp.Expr) -> exp.Expr:
        return cast(value, "INT128")

    def cell(self, value: exp.Expr, kind: str) -> exp.Expr:
        return exp.TryCast(this=value, to=data_type(cell_type(kind), "duckdb"))

    def key(self, value: exp.Expr, kind: str) -> exp.Expr:
        if kind.endswith("[]"):
            element = exp.column("x")
            settled = self.key(element, kind.removesuffix("[]"))
            return value if settled is element else _each(value, element, settled)
        if kind == "interval":
            return _justified(value)
        return exp.Add(this=value, expression=exp.Literal.number("0.0")) if kind == "float" else value

    def text(self, value: exp.Expr, kind: str) -> exp.Expr:
        if kind == "float":
            return _bits(value)
        if kind == "timestamptz":
            value = cast(value, "TIMESTAMP")
        if kind == "bytea":
            digits = exp.Lower(this=exp.Anonymous(this="HEX", expressions=[value]))
            return paren(exp.DPipe(this=exp.Literal.string("\\x"), expression=digits))
        text = cast(value, "VARCHAR")
        if kind in ("date", "timestamp", "timestamptz"):
            return era_last(text)
        return _trimmed(text) if kind == "number" else text


def _each(values: exp.Expr, element: exp.Column, settled: exp.Expr) -> exp.Expr:
    """A list with `settled`, an expression over `element`, in the place of each of its elements."""
    function = exp.Lambda(this=settled, expressions=[element.this.copy()])
    return exp.Anonymous(this="LIST_TRANSFORM", expressions=[values, function])


def _justified(value: exp.Expr) -> exp.Expr:
    """One of the intervals that are equal, whichever row comes first; NULL beyond a hundred thousand years."""
    micros = exp.Anonymous(this="EPOCH_US", expressions=[value])
    left = [exp.Mod(this=micros.copy(), expression=exp.Literal.number(size)) for size in (_MONTH, _DAY)]
    months = exp.IntDiv(this=micros, expression=exp.Literal.number(_MONTH))
    days = exp.IntDiv(this=paren(left[0]), expression=exp.Literal.number(_DAY))
    parts = [
        ("TO_MONTHS", cast(months, "INT")),
        ("TO_DAYS", cast(days, "INT")),
        ("TO_MICROSECONDS", left[1]),
    ]
    first, *others = (exp.Anonymous(this=name, expressions=[part]) for name, part in parts)
    whole: exp.Expr = first
    for other in others:
        whole = exp.Add(this=whole, expression=other)
    ends = [cast(exp.Literal.string(f"{sign}100000 years"), "INTERVAL") for sign in ("-", "")]
    near = exp.Between(this=value.copy(), low=ends[0], high=ends[1])
    return exp.Anonymous(this="TRY", expressions=[case((near, whole))])


def _bits(value: exp.Expr) -> exp.Expr:
    """The 64 bits of a float, one text for all that are not a number and for both zeros."""
    double = exp.Add(this=cast(value, "DOUBLE"), expression=exp.Literal.number("0.0"))
    bits = cast(cast(paren(double), "BIT"), "VARCHAR")
    unordered = func("ISNAN", value.copy())
    return case((unordered, exp.Literal.string("NaN")), otherwise=bits)


def _trimmed(text: exp.Expr) -> exp.Expr:
    """A number's text without the zeros that end its fraction."""
    fraction = func("CONTAINS", text, exp.Literal.string("."))
    trimmed = func("RTRIM", text.copy(), exp.Literal.string("0"))
    return case((fraction, func("RTRIM", trimmed, exp.Literal.string("."))), otherwise=text.copy())


DUCKDB = DuckDBDialect()
