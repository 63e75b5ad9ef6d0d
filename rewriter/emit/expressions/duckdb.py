"""Expressions over private rows for DuckDB: TRY surrounds each part that could raise."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from sqlglot import exp

from rewriter.emit.dialects.base import CELL_TYPES
from rewriter.emit.expressions.base import Guarded, operation
from rewriter.emit.expressions.functions import Forms, number, when
from rewriter.ir.trees import case, cast, func, paren
from rewriter.scalar.array_literal import elements
from rewriter.scalar.comparable import alike_operands
from rewriter.scalar.functions import COMPARISONS, FUNCTIONS
from rewriter.scalar.interval import measured
from rewriter.scalar.kinds import enumerable, kind_of_type
from rewriter.scalar.numeric_width import INTEGERS
from rewriter.scalar.typecheck import Parameter

TRIED = tuple(function.node for function in FUNCTIONS if function.tried)
"""What may raise beside arithmetic and comparisons."""


class DuckDBWriter(Forms):
    """DuckDB 1.4 and later."""

    exact = CELL_TYPES["number"]
    knows_nan = False

    def write(self, node: exp.Expr) -> exp.Expr:
        written = super().write(node)
        if isinstance(node, COMPARISONS) and node.args.get("query") is None:
            risky = not alike_operands(node, self.relation, self.parameters)
        else:
            risky = isinstance(node, TRIED) and not isinstance(written, exp.Column) and self.may_raise(node)
        return self.tried(written, node) if risky else written

    def may_raise(self, node: exp.Expr) -> bool:
        """Whether the form of `node` itself converts or computes something."""
        if isinstance(node, exp.Cast):
            return not isinstance(node.this, exp.Literal) and self.kind(node.this) != self.kind(node)
        if isinstance(node, (exp.Coalesce, exp.Case, exp.Nullif, exp.Greatest, exp.Least)):
            return self.kind(node) in ("number", "float", "other")
        return self.width(node) not in INTEGERS or not isinstance(node, (exp.Add, exp.Sub))

    def tried(self, written: exp.Expr, node: exp.Expr) -> exp.Expr:
        """TRY cannot stand around an aggregate, nor does it twice."""
        if node.find(exp.AggFunc) is not None or (
            isinstance(written, exp.Anonymous) and written.name == "TRY"
        ):
            return written
        return exp.Anonymous(this="TRY", expressions=[written])

    def parameter(self, parameter: Parameter) -> exp.Expr:
        value, found = parameter.value, kind_of_type(parameter.type)
        return (
            super().parameter(parameter)
            if value is None or enumerable(found)
            else typed(value, parameter.type)
        )

    def beside(self, node: exp.Expr, type_name: str, target: str) -> exp.Expr:
        if isinstance(node, exp.Literal) and node.is_string and not enumerable(kind_of_type(type_name)):
            return typed(node.this, type_name)
        return super().beside(node, type_name, target)

    def computed(self, node: exp.Expr, parts: Sequence[exp.Expr], of: str) -> Guarded:
        """Each operation has its own TRY: DuckDB may compute a repeated expression once, outside the enclosing TRY."""
        if not isinstance(node, exp.Binary):
            return Guarded(self.tried(type(node)(this=parts[0]), node))
        left, right = parts
        if isinstance(node, exp.Div) and of == "number":
            left, right = _scaled(left, right)
        if isinstance(node, (exp.Div, exp.Mod)):
            right = func("NULLIF", right, number(0))
        if isinstance(node, exp.Div) and of in INTEGERS:
            return Guarded(self.tried(exp.IntDiv(this=left, expression=right), node))
        return Guarded(self.tried(operation(node, left, right), node))

    def close(self, part: Guarded, node: exp.Expr) -> exp.Expr:
        if self.width(node) != "real":
            return part.closed()
        return self.tried(Guarded(cast(part.value, "REAL"), part.guards).closed(), node)

    def days_between(self, first: exp.Expr, second: exp.Expr) -> exp.Expr:
        return cast(paren(exp.Sub(this=first, expression=second)), "INT")

    def half_even(self, value: exp.Expr) -> exp.Expr:
        return exp.Anonymous(this="ROUND_EVEN", expressions=[value, number(0)])

    def cut_number(self, value: exp.Expr, places: int) -> exp.Expr:
        return exp.Anonymous(this="TRUNC", expressions=[value, *([number(places)] if places else [])])

    def decimal(self, value: exp.Expr) -> exp.Expr:
        parts = [exp.Literal.string("%.15g"), cast(value.copy(), "DOUBLE")]
        digits = exp.Anonymous(this="PRINTF", expressions=parts)
        return cast(digits, self.exact)

    def spelt(self, value: exp.Expr, of: str) -> exp.Expr:
        text = cast(value, "TEXT")
        return era_last(text) if of in ("date", "timestamp") else text

    def stored(self, node: exp.Expr) -> exp.DataType:
        if node.args["to"].this == exp.DType.DECIMAL:
            return exp.DataType.build(self.exact)
        return exp.DataType(this=node.args["to"].this)

    def field(self, value: exp.Expr, field: str) -> exp.Expr:
        if field == "epoch":
            micros: exp.Expr = exp.Anonymous(this="EPOCH_US", expressions=[value])
        elif field == "second":
            micros = exp.Extract(this=exp.var("MICROSECOND"), expression=value)
        else:
            return exp.Extract(this=exp.var(field.upper()), expression=value)
        whole = cast(micros, "DECIMAL(28, 0)")
        return paren(exp.Mul(this=whole, expression=exp.Literal.number("0.000001")))

    def substring(self, node: exp.Expr) -> exp.Expr:
        """Positions before the first count, where DuckDB would count from the end."""
        start, length = self.write(node.args["start"]), node.args.get("length")
        first = when(exp.LT(this=start.copy(), expression=number(1)), number(1)).else_(start.copy())
        if length is None:
            return exp.Substring(this=self.write(node.this), start=first)
        size = self.write(length)
        before = exp.Sub(this=first.copy(), expression=paren(start.copy()))
        left = exp.Sub(this=paren(size.copy()), expression=paren(before))
        rest = exp.Greatest(this=left, expressions=[number(0)], ignore_nulls=True)
        asked = exp.GTE(this=paren(size.copy()), expression=number(0))
        return exp.Substring(this=self.write(node.this), start=first, length=when(asked, rest))

    def pattern(self, node: exp.Expr) -> str:
        return f"(?s){super().pattern(node)}"

    def matched(self, node: exp.Expr) -> exp.Expr:
        pattern = exp.Literal.string(self.pattern(node))
        return exp.Anonymous(this="REGEXP_MATCHES", expressions=[self.write(node.this), pattern])


def typed(text: str, type_name: str) -> exp.Expr:
    """A constant of a type whose texts DuckDB reads otherwise than PostgreSQL prints them.

    >>> typed("\\\\x00ff", "bytea").sql("duckdb"), typed("1 year 2 mons", "interval").sql("duckdb")
    ("UNHEX('00ff')", "CAST('14 months 0 days 0 microseconds' AS INTERVAL)")
    >>> typed('{1,NULL}', "integer[]").sql("duckdb")
    "CAST([CAST('1' AS INT), NULL] AS INT[])"
    """
    found = kind_of_type(type_name)
    if found == "bytea":
        return exp.Anonymous(this="UNHEX", expressions=[exp.Literal.string(text.removeprefix("\\x"))])
    if found == "interval":
        months, days, micros = measured(text) or (0, 0, 0)
        text = f"{months} months {days} days {micros} microseconds"
    of = exp.DataType.build(CELL_TYPES["number"] if found == "number" else type_name, dialect="postgres")
    if found.endswith("[]"):
        element = type_name.removesuffix("[]")
        listed = elements(text, dimensions=1) or []
        parts = [exp.null() if one is None else typed(one, element) for one in listed]
        return cast(exp.Array(expressions=parts), of)
    return cast(exp.Literal.string(text), of)


def era_last(text: exp.Expr) -> exp.Expr:
    """The text of a date or timestamp with its era behind the time, where PostgreSQL has it."""
    era = exp.Literal.string(" (BC)")
    without = exp.DPipe(
        this=func("REPLACE", text.copy(), era, exp.Literal.string("")),
        expression=exp.Literal.string(" BC"),
    )
    return case((func("CONTAINS", text, era.copy()), without), otherwise=text.copy())


def _scaled(left: exp.Expr, right: exp.Expr) -> tuple[exp.Expr, exp.Expr]:
    """Both sides of a division by a constant, without digits behind the constant's point: DuckDB divides doubles."""
    if not isinstance(right, exp.Literal) or "." not in right.this:
        return left, right
    digits = len(right.this.partition(".")[2])
    if digits > 10:
        return left, right
    by = number(10**digits)
    return paren(exp.Mul(this=left, expression=by)), exp.Literal.number(
        str(int(Decimal(right.this) * 10**digits))
    )
