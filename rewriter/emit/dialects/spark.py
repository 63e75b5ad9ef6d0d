"""Spark's SQL: every cast is a try_cast, and sums are of decimals, since a BIGINT would wrap."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from rewriter.emit.dialects.base import Usual, cell_type
from rewriter.emit.expressions.functions import calendar, dates, when
from rewriter.emit.expressions.spark import SparkWriter, micros
from rewriter.ir.relation import Relation, leaf
from rewriter.ir.trees import alias, case, cast, not_, select, walk
from rewriter.policy import Column
from rewriter.scalar import float_guards
from rewriter.scalar.typecheck import Parameters

SECRET, CELLS = "dpproxy_secret", "dpproxy_cells"
"""The views of a session in which the backend binds the secret of the keyed order, and the cells: a0, a1... by row."""
_ADDENDS = "DECIMAL(28, 0)"
"""Sums of these have 38 digits: 10^10 of the largest BIGINT."""
_ZONELESS = {exp.DType.TIMESTAMP: exp.DType.TIMESTAMPNTZ, exp.DType.TIMESTAMPTZ: exp.DType.TIMESTAMPLTZ}


class SparkDialect(Usual):
    """Emitted SQL for Spark 4.0 and later, under the settings that the backend pins."""

    partial = True

    def sql(self, query: exp.Expr) -> str:
        return _tried(query).sql("spark", pretty=True, copy=False)

    def scanned(self, alias: str, column: Column) -> exp.Expr:
        value = leaf(alias, column.name)
        if column.type == "date":
            return when(dates(value), value.copy())
        return when(calendar(value), value.copy()) if column.type.startswith("timestamp") else value

    def expression(self, node: exp.Expr, relation: Relation, parameters: Parameters) -> exp.Expr:
        return SparkWriter(relation, parameters).write(node)

    def cell(self, value: exp.Expr, kind: str) -> exp.Expr:
        return cast(value, cell_type(kind))

    def key(self, value: exp.Expr, kind: str) -> exp.Expr:
        if kind == "float":
            return exp.Add(this=value, expression=float_guards.double("0"))
        if kind == "text":
            return exp.Anonymous(this="TRY_VALIDATE_UTF8", expressions=[value])
        if kind == "date":
            return when(dates(value), value)
        return when(calendar(value), value) if kind in ("timestamp", "timestamptz") else value

    def text(self, value: exp.Expr, kind: str) -> exp.Expr:
        if kind == "float":
            return _bits(value)
        if kind == "timestamptz":
            value = cast(value, "TIMESTAMP")
        text = cast(value, "VARCHAR")
        return _trimmed(text) if kind == "number" else text

    def secret(self, place: int) -> exp.Expr:
        return select("secret", source=SECRET).subquery()

    def cells(self, columns: Sequence[tuple[str, str]]) -> exp.Select:
        typed = [
            alias(cast(exp.column(f"a{number}"), target), name)
            for number, (name, target) in enumerate(columns)
        ]
        return select("cell", *typed, source=CELLS)

    def days(self, value: exp.Expr) -> exp.Expr:
        return exp.Anonymous(this="UNIX_DATE", expressions=[value])

    def seconds(self, value: exp.Expr) -> exp.Expr:
        million = float_guards.double("1e6")
        return exp.Div(this=cast(micros(value), "DOUBLE"), expression=million, typed=True)

    def addend(self, value: exp.Expr) -> exp.Expr:
        return cast(value, _ADDENDS)


def _tried(query: exp.Expr) -> exp.Expr:
    """Casts that give NULL where a value does not fit; timestamps without a zone where PostgreSQL's have none."""
    for kind in walk(query, exp.DataType):
        kind.set("this", _ZONELESS.get(kind.this, kind.this))
    for part in walk(query, exp.Cast):
        tried = exp.TryCast(this=part.this, to=part.args["to"], safe=True)
        query = tried if part is query else query
        part.replace(tried)
    return query


def _bits(value: exp.Expr) -> exp.Expr:
    """The 64 bits of a float, one text for all that are not a number and for both zeros.

    Spark has no function for them; they are read from its hexadecimal form, [-]0xH.HHHp[-]E.
    """
    double = exp.Add(this=cast(value.copy(), "DOUBLE"), expression=float_guards.double("0"))
    form = exp.Anonymous(this="FORMAT_STRING", expressions=[exp.Literal.string("%a"), double])

    def found(pattern: str) -> exp.Expr:
        return exp.Anonymous(
            this="REGEXP_EXTRACT",
            expressions=[form.copy(), exp.Literal.string(pattern), exp.Literal.number(1)],
        )

    def padded(text: exp.Expr, length: int, side: str) -> exp.Expr:
        ends = [text, exp.Literal.number(length), exp.Literal.string("0")]
        return exp.Anonymous(this=side, expressions=ends)

    def binary(text: exp.Expr) -> exp.Expr:
        bases = [exp.Literal.number(16), exp.Literal.number(2)]
        return exp.Anonymous(this="CONV", expressions=[text, *bases])

    small = exp.Anonymous(this="CONTAINS", expressions=[form.copy(), exp.Literal.string("0x0.")])
    power = exp.Add(this=cast(found("p(-?[0-9]+)$"), "INT"), expression=exp.Literal.number(1023))
    exponent = case((small, exp.Literal.number(0)), otherwise=power)
    high = padded(exp.Anonymous(this="BIN", expressions=[cast(exponent, "BIGINT")]), 11, "LPAD")
    low = padded(binary(padded(found("[.]([0-9a-f]+)p"), 13, "RPAD")), 52, "LPAD")
    negative = exp.Anonymous(this="STARTSWITH", expressions=[form.copy(), exp.Literal.string("-")])
    sign = case((negative, exp.Literal.string("1")), otherwise=exp.Literal.string("0"))
    bits = exp.DPipe(this=exp.DPipe(this=sign, expression=high), expression=low)
    texts = {"NaN": "NaN", "Infinity": f"0{'1' * 11}{'0' * 52}", "-Infinity": f"1{'1' * 11}{'0' * 52}"}
    choice = exp.case()
    for name, text in texts.items():
        choice = choice.when(value.copy().eq(float_guards.double(name)), exp.Literal.string(text))
    return choice.when(not_(exp.Is(this=value.copy(), expression=exp.null())), bits)


def _trimmed(text: exp.Expr) -> exp.Expr:
    """A number's text without the zeros that end its fraction."""
    fraction = exp.Anonymous(this="CONTAINS", expressions=[text, exp.Literal.string(".")])

    def without(inner: exp.Expr, end: str) -> exp.Expr:
        return exp.Trim(this=inner, expression=exp.Literal.string(end), position="TRAILING")

    return case((fraction, without(without(text.copy(), "0"), ".")), otherwise=text.copy())


SPARK = SparkDialect()
