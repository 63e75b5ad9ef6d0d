"""DuckDB's way of writing: TRY stands around what a row could make raise."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from rewriter.dialect import cell_type
from rewriter.expression import Parameters
from rewriter.policy import Column, Table
from rewriter.relation import Relation, leaf
from rewriter.writer_duckdb import DuckDBWriter, era_last


class DuckDBDialect:
    """Emitted SQL for DuckDB 1.4 and later; texts compare by their bytes there."""

    def sql(self, query: exp.Expr) -> str:
        return query.sql("duckdb", pretty=True, copy=False)

    def table(self, table: Table) -> Sequence[str]:
        return table.backend_name

    def scanned(self, alias: str, column: Column) -> exp.Expr:
        return leaf(alias, column.name)

    def expression(self, node: exp.Expr, relation: Relation, parameters: Parameters) -> exp.Expr:
        return DuckDBWriter(relation, parameters).write(node)

    def cell(self, value: exp.Expr, kind: str) -> exp.Expr:
        return exp.TryCast(this=value, to=exp.DataType.build(cell_type(kind), dialect="duckdb"))

    def key(self, value: exp.Expr, kind: str) -> exp.Expr:
        return exp.Add(this=value, expression=exp.Literal.number("0.0")) if kind == "float" else value

    def same(self, left: exp.Expr, right: exp.Expr, kind: str) -> exp.Expr:
        return exp.NullSafeEQ(this=left, expression=right)

    def text(self, value: exp.Expr, kind: str) -> exp.Expr:
        if kind == "float":
            return _bits(value)
        if kind == "timestamptz":
            value = exp.cast(value, "TIMESTAMP")
        text = exp.cast(value, "VARCHAR")
        if kind in ("date", "timestamp", "timestamptz"):
            return era_last(text)
        return _trimmed(text) if kind == "number" else text

    def ordered(self, value: exp.Expr, kind: str) -> exp.Expr:
        return value


def _bits(value: exp.Expr) -> exp.Expr:
    """The 64 bits of a float, one text for all that are not a number and for both zeros."""
    double = exp.Add(this=exp.cast(value, "DOUBLE"), expression=exp.Literal.number("0.0"))
    bits = exp.cast(exp.cast(exp.paren(double), "BIT"), "VARCHAR")
    unordered = exp.func("ISNAN", value.copy())
    return exp.case().when(unordered, exp.Literal.string("NaN")).else_(bits)


def _trimmed(text: exp.Expr) -> exp.Expr:
    """A number's text without the zeros that end its fraction."""
    fraction = exp.func("CONTAINS", text, exp.Literal.string("."))
    trimmed = exp.func("RTRIM", text.copy(), exp.Literal.string("0"))
    return exp.case().when(fraction, exp.func("RTRIM", trimmed, exp.Literal.string("."))).else_(text.copy())


DUCKDB = DuckDBDialect()
