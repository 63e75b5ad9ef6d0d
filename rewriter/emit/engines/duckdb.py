"""DuckDB's SQL: TRY surrounds expressions that a row could make raise."""

from __future__ import annotations

import json
from collections.abc import Sequence
from decimal import Decimal

from sqlglot import exp

from rewriter.binder.value_ranges import Ranges
from rewriter.emit.engines.base import LONGEST, MOST_ELEMENTS, Engine
from rewriter.emit.engines.parts import (
    Guarded,
    at_most,
    bin_arguments,
    collated,
    column_type,
    number,
    operation,
    when,
)
from rewriter.ir.trees import alias, case, cast, coalesce, copied, data_type, func, paren, select
from rewriter.ir.types import (
    AMBIGUOUS,
    DATED,
    FLOATS,
    INTEGERS,
    UNCOMPARED,
    UNTOLD,
    ZONELESS,
    Type,
    type_named,
)
from rewriter.policy import Column
from rewriter.scalar import float_guards
from rewriter.scalar.array_literal import elements
from rewriter.scalar.interval import measured
from rewriter.scalar.typecheck import Parameter

_DAY = 86_400_000_000
_MONTH = 30 * _DAY
"""Microseconds, by which both engines compare intervals."""
BEYOND = Decimal(10) ** 38
"""What no exact number but a BIGNUM reaches."""
_MOST_DECIMALS = 38
"""DuckDB does not plan a product of exact numbers with more, whatever they are."""


class DuckDB(Engine):
    """DuckDB 1.4 and later."""

    name = "duckdb"
    has_try = True
    joins_units = True
    relates_units = True
    # DuckDB finds it under the owner's "main" as well: a name that no table of theirs has.
    kept_table = "temp.main._dpproxy_kept"
    knows_nan = False
    numeric = Type.NUMERIC.cell
    squares = "INT128"

    def read(self, value: exp.Expr, column: Column) -> exp.Expr:
        found = type_named(column.type)
        if Type.TIMESTAMP in (found, found.element):
            # It may be stored in seconds, milliseconds or nanoseconds: DuckDB raises where it compares two of them and
            # a row has a time that one cannot hold. For stored microseconds DuckDB leaves the cast away.
            return exp.TryCast(
                this=value, to=data_type("TIMESTAMP[]" if found.element else "TIMESTAMP", "duckdb")
            )
        if column.type in ("numeric", "numeric[]"):
            # A BIGNUM may have a million digits, and is compared with no fraction; others of this type are cells'.
            return exp.TryCast(
                this=value, to=data_type(column.type.replace("numeric", Type.NUMERIC.cell), "duckdb")
            )
        if found.element is not None and found not in UNCOMPARED and column.type not in AMBIGUOUS:
            # An array of a fixed size is a list from here on: DuckDB raises where it is compared with one of another.
            return exp.TryCast(this=value, to=data_type(column.type, "postgres"))
        # A column's own collation would go along through casts and subqueries. The cast is for enumerated types, which
        # have none and take none.
        return collated(self.printed(value, found), "C") if found is Type.TEXT else value

    def short(self, value: exp.Expr, of: Type) -> Sequence[exp.Expr]:
        if of.element is None:
            size = _size(value, of)
            return [] if size is None else [at_most(size, LONGEST)]
        if of in UNTOLD:
            return []
        element = exp.column("x")
        count, size = exp.Anonymous(this="LEN", expressions=[value]), _size(element, of.element)
        if size is None:
            return [at_most(count, MOST_ELEMENTS)]
        # Before quotes and backslashes stands another one, as PostgreSQL prints them.
        doubled = size if of.element is Type.BYTEA else number(2) * size
        together = exp.Anonymous(this="LIST_SUM", expressions=[_each(copied(value), element, doubled)])
        return [at_most(count, MOST_ELEMENTS), coalesce(at_most(together, LONGEST), exp.true())]

    def listed(self, columns: Sequence[Column], texts: Sequence[Sequence[str | None]]) -> exp.Select:
        shown = []
        for column, values in zip(columns, texts, strict=True):
            array = cast(cast(exp.Literal.string(json.dumps(values)), "JSON"), "VARCHAR[]")
            target = exp.DataType(this=exp.DType.ARRAY, expressions=[column_type(column)], nested=True)
            typed = exp.Cast(this=array, to=target)
            shown.append(alias(exp.Anonymous(this="UNNEST", expressions=[typed]), column.name, quoted=True))
        return select(*shown)

    def cell(self, value: exp.Expr, of: Type) -> exp.Expr:
        if of is Type.BYTEA or of.element is not None:
            # As released texts are spelt.
            return self.text(value, of) if of is Type.BYTEA else self.braced(value)
        held = exp.TryCast(this=value, to=data_type(of.cell, "duckdb"))
        if of is not Type.NUMERIC:
            return held
        # Exact numbers that DuckDB divides are doubles. A cell is read from a double's text, and has other last digits
        # than the double itself. TYPEOF is a constant to DuckDB.
        text = exp.TryCast(this=self.printed(copied(value), of), to=data_type(of.cell, "duckdb"))
        return case((_stored_as(value, "DOUBLE"), text), otherwise=held)

    def braced(self, array: exp.Expr) -> exp.Expr:
        """An array as PostgreSQL reads it, each element in quotes."""
        element, quote = exp.column("x"), exp.Literal.string('"')
        escaped: exp.Expr = element
        for sign in ("\\", '"'):
            signs = [exp.Literal.string(sign), exp.Literal.string(f"\\{sign}")]
            escaped = exp.Anonymous(this="REPLACE", expressions=[escaped, *signs])
        quoted = exp.DPipe(this=exp.DPipe(this=quote, expression=escaped), expression=copied(quote))
        texts = _each(cast(array, "VARCHAR[]"), element, coalesce(quoted, exp.Literal.string("NULL")))
        joined = exp.Anonymous(this="ARRAY_TO_STRING", expressions=[texts, exp.Literal.string(",")])
        opened = exp.DPipe(this=exp.Literal.string("{"), expression=joined)
        return paren(exp.DPipe(this=opened, expression=exp.Literal.string("}")))

    def converted(self, value: exp.Expr, own: Type, target: Type) -> exp.Expr:
        if own is Type.NUMERIC and target is Type.FLOAT4:
            # There is no cast of a BIGNUM to a FLOAT.
            value = super().converted(value, own, Type.FLOAT8)
        return super().converted(value, own, target)

    def key(self, value: exp.Expr, of: Type) -> exp.Expr:
        if of.element is not None:
            element = exp.column("x")
            settled = self.key(element, of.element)
            return value if settled is element else _each(value, element, settled)
        if of is Type.INTERVAL:
            return _justified(value)
        # The text of a real is no text of the double that its cell is.
        return super().key(cast(value, "DOUBLE") if of in FLOATS else value, of)

    def labels(self, texts: exp.Expr, target: str) -> exp.Expr:
        if target not in ("DATE", "TIMESTAMP"):
            return texts
        label = exp.column("x")
        spellings = [exp.Literal.string(one) for one in (r"^(\S+)(.*) BC$", r"\1 (BC)\2")]
        read = exp.Anonymous(this="REGEXP_REPLACE", expressions=[copied(label), *spellings])
        return _each(texts, label, read)

    def searched(self, node: exp.Expr) -> exp.Expr:
        array = self.write(node.this)
        found = exp.Anonymous(this="LIST_CONTAINS", expressions=[array, self.write(node.expression)])
        size, some = (exp.Anonymous(this=name, expressions=[copied(array)]) for name in ("LEN", "LIST_COUNT"))
        return case((found, exp.true()), (exp.EQ(this=size, expression=some), exp.false()))

    def text(self, value: exp.Expr, of: Type) -> exp.Expr:
        if of is Type.BYTEA:
            digits = exp.Lower(this=exp.Anonymous(this="HEX", expressions=[value]))
            return paren(exp.DPipe(this=exp.Literal.string("\\x"), expression=digits))
        text = super().text(value, of)
        return era_last(text) if of in DATED else text

    def bits(self, value: exp.Expr) -> exp.Expr:
        double = exp.Add(this=cast(value, "DOUBLE"), expression=exp.Literal.number("0.0"))
        bits = self.printed(cast(paren(double), "BIT"), Type.BRIEF)
        unordered = func("ISNAN", copied(value))
        return case((unordered, exp.Literal.string("NaN")), otherwise=bits)

    def digits(self, value: exp.Expr) -> exp.Expr:
        text = self.printed(value, Type.NUMERIC)
        fraction = func("CONTAINS", text, exp.Literal.string("."))
        trimmed = func("RTRIM", copied(text), exp.Literal.string("0"))
        return case((fraction, func("RTRIM", trimmed, exp.Literal.string("."))), otherwise=copied(text))

    def parameter(self, parameter: Parameter) -> exp.Expr:
        if parameter.value is None or type_named(parameter.type).enumerable:
            return super().parameter(parameter)
        return typed(parameter.value, parameter.type)

    def beside(self, node: exp.Expr, type_name: str, target: Type | None) -> exp.Expr:
        if isinstance(node, exp.Literal) and node.is_string and not type_named(type_name).enumerable:
            return typed(node.this, type_name)
        return super().beside(node, type_name, target)

    def common(self, node: exp.Expr, target: Type | None) -> exp.Expr:
        literal = node.unnest()
        if isinstance(literal, exp.Literal) and not literal.is_string and _is_beyond(literal.this):
            return float_guards.double(literal.this)
        return super().common(node, target)

    def numeral(self, text: str) -> exp.Expr:
        return float_guards.double(text) if _is_beyond(text) else super().numeral(text)

    def whole(self, value: exp.Expr, unit: int) -> exp.Expr:
        # The double and its product are off by 2^-51 of the number, less than half of 1 up to 2^50. A decimal of 38
        # digits is multiplied and cast to BIGINT much more slowly.
        return func("ROUND", super().whole(cast(value, "DOUBLE"), unit)) if unit > 1 else value

    def computed(self, node: exp.Expr, parts: Sequence[exp.Expr], of: Type) -> Guarded:
        """Each operation has its own TRY: DuckDB may compute a repeated expression once, outside the enclosing TRY."""
        if not isinstance(node, exp.Binary):
            return Guarded(self.tried(type(node)(this=parts[0]), node))
        left, right = parts
        if isinstance(node, exp.Div) and of is Type.NUMERIC:
            left, right = _scaled(left, right)
        if isinstance(node, exp.Mul) and of is Type.NUMERIC:
            decimals = Ranges.of(self.relation, self.parameters).interval(node).scale
            if decimals is not None and decimals > _MOST_DECIMALS:
                left, right = (exp.TryCast(this=part, to=data_type(Type.NUMERIC.cell)) for part in parts)
        if isinstance(node, (exp.Div, exp.Mod)):
            right = func("NULLIF", right, number(0))
        if isinstance(node, exp.Div) and of in INTEGERS:
            return Guarded(self.tried(exp.IntDiv(this=left, expression=right), node))
        return Guarded(self.tried(operation(node, left, right), node))

    def days_between(self, first: exp.Expr, second: exp.Expr) -> exp.Expr:
        return cast(paren(exp.Sub(this=first, expression=second)), "INT")

    def bin_of(self, stamp: exp.Expr, stride: int, origin: int) -> exp.Expr:
        return exp.Anonymous(this="TIME_BUCKET", expressions=bin_arguments(stamp, stride, origin))

    def half_even(self, value: exp.Expr) -> exp.Expr:
        return exp.Anonymous(this="ROUND_EVEN", expressions=[value, number(0)])

    def cut_number(self, value: exp.Expr, places: int) -> exp.Expr:
        return exp.Anonymous(this="TRUNC", expressions=[value, *([number(places)] if places else [])])

    def decimal(self, value: exp.Expr) -> exp.Expr:
        # PostgreSQL takes six digits of a real.
        size = case(
            (_stored_as(value, "FLOAT"), exp.Literal.string("%.6g")), otherwise=exp.Literal.string("%.15g")
        )
        parts = [size, cast(copied(value), "DOUBLE")]
        digits = exp.Anonymous(this="PRINTF", expressions=parts)
        return cast(digits, self.numeric)

    def spelt(self, value: exp.Expr, of: Type) -> exp.Expr:
        text = super().spelt(value, of)
        return era_last(text) if of in ZONELESS else text

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
        first = when(exp.LT(this=copied(start), expression=number(1)), number(1)).else_(copied(start))
        if length is None:
            return self.tried(exp.Substring(this=self.write(node.this), start=first), node)
        size = self.write(length)
        before = exp.Sub(this=copied(first), expression=paren(copied(start)))
        left = exp.Sub(this=paren(copied(size)), expression=paren(before))
        rest = exp.Greatest(this=left, expressions=[number(0)], ignore_nulls=True)
        asked = exp.GTE(this=paren(copied(size)), expression=number(0))
        found = exp.Substring(this=self.write(node.this), start=first, length=when(asked, rest))
        return self.tried(found, node)

    def extracted(self, node: exp.Expr) -> exp.Expr:
        tokens, pattern = self.tokens(node), exp.Literal.string(self.pattern(node))
        value, group = self.write(node.this), number(int("(" in tokens))
        matches = exp.Anonymous(this="REGEXP_MATCHES", expressions=[value, pattern])
        parts = [copied(value), copied(pattern), group]
        return when(matches, exp.Anonymous(this="REGEXP_EXTRACT", expressions=parts))

    def moment(self, seconds: exp.Expr) -> exp.Expr:
        return exp.Anonymous(this="MAKE_TIMESTAMP", expressions=[self.rounded_micros(seconds)])

    def cased(self, node: exp.Expr) -> exp.Expr:
        cased = super().cased(node)
        if isinstance(node, exp.Lower):
            return cased
        # ß is its own capital in PostgreSQL, where no text has a U+0000.
        apart = exp.Anonymous(this="CHR", expressions=[number(0)])
        parts = [cased.this, exp.Literal.string("ß"), apart]
        cased.set("this", exp.Anonymous(this="REPLACE", expressions=parts))
        return exp.Anonymous(this="REPLACE", expressions=[cased, copied(apart), exp.Literal.string("ß")])

    def pattern(self, node: exp.Expr) -> str:
        return f"(?s){super().pattern(node)}"

    def matched(self, node: exp.Expr) -> exp.Expr:
        pattern = exp.Literal.string(self.pattern(node))
        return exp.Anonymous(this="REGEXP_MATCHES", expressions=[self.write(node.this), pattern])


def _is_beyond(number: str) -> bool:
    """Whether a number would be a BIGNUM, which DuckDB compares with no decimal; all decimals are on one side of it."""
    return abs(Decimal(number)) >= BEYOND


def typed(text: str, type_name: str) -> exp.Expr:
    """A constant of a type whose texts DuckDB reads otherwise than PostgreSQL prints them.

    >>> typed("\\\\x00ff", "bytea").sql("duckdb"), typed("1 year 2 mons", "interval").sql("duckdb")
    ("UNHEX('00ff')", "CAST('14 months 0 days 0 microseconds' AS INTERVAL)")
    >>> typed('{1,NULL}', "integer[]").sql("duckdb")
    "CAST([CAST('1' AS INT), NULL] AS INT[])"
    """
    found = type_named(type_name)
    if found is Type.BYTEA:
        return exp.Anonymous(this="UNHEX", expressions=[exp.Literal.string(text.removeprefix("\\x"))])
    if found is Type.INTERVAL:
        months, days, micros = measured(text) or (0, 0, 0)
        text = f"{months} months {days} days {micros} microseconds"
    of = exp.DataType.build(Type.NUMERIC.cell if found is Type.NUMERIC else type_name, dialect="postgres")
    if found.element is not None:
        element = type_name.removesuffix("[]")
        listed = elements(text, dimensions=1) or []
        parts = [exp.null() if one is None else typed(one, element) for one in listed]
        return cast(exp.Array(expressions=parts), of)
    return cast(exp.Literal.string(text), of)


def era_last(text: exp.Expr) -> exp.Expr:
    """The text of a date or timestamp with its era behind the time, where PostgreSQL has it."""
    era = exp.Literal.string(" (BC)")
    without = exp.DPipe(
        this=func("REPLACE", copied(text), era, exp.Literal.string("")),
        expression=exp.Literal.string(" BC"),
    )
    return case((func("CONTAINS", text, copied(era)), without), otherwise=copied(text))


def _stored_as(value: exp.Expr, name: str) -> exp.Expr:
    """Whether DuckDB's own type of a value is called `name`."""
    own = exp.Anonymous(this="TYPEOF", expressions=[copied(value)])
    return exp.EQ(this=own, expression=exp.Literal.string(name))


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


def _each(values: exp.Expr, element: exp.Column, settled: exp.Expr) -> exp.Expr:
    """A list with `settled`, an expression over `element`, in the place of each of its elements."""
    function = exp.Lambda(this=settled, expressions=[copied(element.this)])
    return exp.Anonymous(this="LIST_TRANSFORM", expressions=[values, function])


def _size(value: exp.Expr, of: Type) -> exp.Expr | None:
    """How many bytes the text of a stored value has; None where it is short by its type."""
    if of is Type.BYTEA:
        # Each byte is two digits.
        return number(2) * exp.Anonymous(this="OCTET_LENGTH", expressions=[value])
    return exp.Anonymous(this="STRLEN", expressions=[value]) if of in (Type.TEXT, Type.JSON) else None


def _justified(value: exp.Expr) -> exp.Expr:
    """One of the intervals that are equal, whichever row comes first; NULL beyond a hundred thousand years."""
    micros = exp.Anonymous(this="EPOCH_US", expressions=[value])
    left = [exp.Mod(this=copied(micros), expression=exp.Literal.number(size)) for size in (_MONTH, _DAY)]
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
    near = exp.Between(this=copied(value), low=ends[0], high=ends[1])
    return exp.Anonymous(this="TRY", expressions=[case((near, whole))])


DUCKDB = DuckDB()
