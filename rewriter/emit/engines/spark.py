"""Spark's SQL: NULL where PostgreSQL raises; what Spark has no equal of is refused.

Every cast is a try_cast, and sums are of decimals, since a BIGINT would wrap.

Why: docs/decisions/spark-raises-nowhere.md.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from decimal import Decimal

from sqlglot import exp

from rewriter.emit.engines.base import LONGEST, MOST_ELEMENTS, Engine
from rewriter.emit.engines.parts import (
    Guarded,
    at_most,
    calendar,
    column_type,
    dates,
    number,
    operation,
    when,
)
from rewriter.ir.relation import UNIT
from rewriter.ir.trees import alias, and_, case, cast, coalesce, copied, func, not_, paren, select, walk
from rewriter.ir.types import DATED, FLOATS, INTEGERS, NUMBERS, STAMPS, TEXTUAL, UNTOLD, Type, common
from rewriter.policy import Column
from rewriter.refusal import Refusal
from rewriter.scalar import float_guards, letters
from rewriter.scalar.function_checks import constant_text, plain_pattern
from rewriter.scalar.interval import interval_text
from rewriter.scalar.typecheck import operands
from rewriter.syntax.allowlist import position

_TRIED: dict[type[exp.Expr], str] = {exp.Add: "TRY_ADD", exp.Sub: "TRY_SUBTRACT", exp.Mul: "TRY_MULTIPLY"}
COMPUTED = NUMBERS | TEXTUAL | DATED | {Type.BOOL}
"""Of values that Spark computes with as PostgreSQL does."""
_PARTS = {"dow": "DAYOFWEEK", "isodow": "DAYOFWEEK_ISO", "isoyear": "YEAROFWEEK"}
_PATTERNS = {"%Y": "yyyy", "%m": "MM", "%d": "dd", "%H": "HH", "%M": "mm", "%S": "ss", "%j": "DDD"}
_WHOLE = "9007199254740992"
"""2^53: every double from here on is whole."""
MOST_WILDCARDS = 3
"""Of % in a pattern of LIKE, which Spark searches by trying: one more, and a long text could take hours."""
_MOVE = re.compile(r"(-?\d+) ?([a-z]+?)s?(?: +|$)", re.IGNORECASE)
_CLOCK = re.compile(r"(-?)(\d+):(\d\d):(\d\d(?:\.\d{1,6})?)")
_MONTHS = {"MONTH": 1, "MON": 1, "YEAR": 12}
_DAYS = {"DAY": 1, "WEEK": 7}
_MICROS = {
    "MICROSECOND": 1,
    "MILLISECOND": 1000,
    "SECOND": 10**6,
    "MINUTE": 60 * 10**6,
    "HOUR": 3600 * 10**6,
}
SECRET, CELLS = "dpproxy_secret", "dpproxy_cells"
"""The views of a session in which the backend binds the secret of the keyed order, and the cells: a0, a1... by row."""
_IOTAS = "".join(one for one in map(chr, range(0x1F80, 0x2000)) if one.upper() != letters.upper(one) != one)
"""Greek letters above an iota, whose capital has it as a letter of its own for Java, and at its side for PostgreSQL."""
_ZONELESS = {exp.DType.TIMESTAMP: exp.DType.TIMESTAMPNTZ, exp.DType.TIMESTAMPTZ: exp.DType.TIMESTAMPLTZ}


def micros(value: exp.Expr) -> exp.Expr:
    """A timestamp as whole microseconds since 1970; the session's zone is UTC."""
    zoned = exp.Cast(this=value, to=exp.DataType(this=exp.DType.TIMESTAMPLTZ))
    return exp.Anonymous(this="UNIX_MICROS", expressions=[zoned])


class Spark(Engine):
    """Spark 4.0 and later, under the settings that the backend pins."""

    name = "spark"
    partial = True
    numbered = False
    sums_wrap = True
    knows_nan = False
    numeric = Type.NUMERIC.cell
    both = "BTRIM"

    def settled(self, query: exp.Expr) -> exp.Expr:
        return _tried(query)

    def row(self, parts: Sequence[tuple[exp.Expr, Type]]) -> exp.Expr:
        return exp.Anonymous(this="STRUCT", expressions=super().row(parts).expressions)

    def read(self, value: exp.Expr, column: Column) -> exp.Expr:
        if column.type == "date":
            return when(dates(value), copied(value))
        return when(calendar(value), copied(value)) if column.type.startswith("timestamp") else value

    def short(self, value: exp.Expr, of: Type) -> Sequence[exp.Expr]:
        if of in (Type.TEXT, Type.BYTEA):
            return [at_most(_bytes(value), LONGEST if of is Type.TEXT else LONGEST // 2)]
        if of.element is None or of in UNTOLD:
            return []
        count = at_most(exp.Anonymous(this="SIZE", expressions=[value]), MOST_ELEMENTS)
        if of.element not in (Type.TEXT, Type.BYTEA):
            return [count]
        total, element = exp.column("a"), exp.column("x")
        size = coalesce(_bytes(element), number(0))
        longer = exp.Lambda(
            this=exp.Add(this=total, expression=number(2) * size), expressions=[total.this, element.this]
        )
        zero = cast(number(0), "BIGINT")
        parts = [copied(value), zero, longer]
        return [count, at_most(exp.Anonymous(this="REDUCE", expressions=parts), LONGEST)]

    def key(self, value: exp.Expr, of: Type) -> exp.Expr:
        if of in FLOATS:
            return exp.Add(this=value, expression=float_guards.double("0"))
        if of is Type.TEXT:
            return exp.Anonymous(this="TRY_VALIDATE_UTF8", expressions=[value])
        if of is Type.DATE:
            return when(dates(value), value)
        return when(calendar(value), value) if of in STAMPS else value

    def secret(self, place: int) -> exp.Expr:
        return select("secret", source=SECRET).subquery()

    def cells(self, columns: Sequence[tuple[str, str]]) -> exp.Select:
        typed = [
            alias(cast(exp.column(f"a{number}"), target), name)
            for number, (name, target) in enumerate(columns)
        ]
        return select("cell", *typed, source=CELLS)

    def listed(self, columns: Sequence[Column], texts: Sequence[Sequence[str | None]]) -> exp.Select:
        arrays: list[exp.Expr] = [
            exp.Anonymous(
                this="FROM_JSON", expressions=list(map(exp.Literal.string, (json.dumps(t), "array<string>")))
            )
            for t in texts
        ]
        rows = exp.Anonymous(
            this="INLINE", expressions=[exp.Anonymous(this="ARRAYS_ZIP", expressions=arrays)]
        )
        typed = [
            alias(cast(exp.column(str(place), quoted=True), column_type(column)), column.name, quoted=True)
            for place, column in enumerate(columns)
        ]
        return select(*typed, source=select(rows).subquery("z", copy=False))

    def days(self, value: exp.Expr) -> exp.Expr:
        return exp.Anonymous(this="UNIX_DATE", expressions=[value])

    def seconds(self, value: exp.Expr) -> exp.Expr:
        million = float_guards.double("1e6")
        return exp.Div(this=cast(micros(value), "DOUBLE"), expression=million, typed=True)

    def bits(self, value: exp.Expr) -> exp.Expr:
        """Spark has no function for them; they are read from its hexadecimal form, [-]0xH.HHHp[-]E."""
        double = exp.Add(this=cast(copied(value), "DOUBLE"), expression=float_guards.double("0"))
        form = exp.Anonymous(this="FORMAT_STRING", expressions=[exp.Literal.string("%a"), double])

        def found(pattern: str) -> exp.Expr:
            return exp.Anonymous(
                this="REGEXP_EXTRACT",
                expressions=[copied(form), exp.Literal.string(pattern), exp.Literal.number(1)],
            )

        def padded(text: exp.Expr, length: int, side: str) -> exp.Expr:
            ends = [text, exp.Literal.number(length), exp.Literal.string("0")]
            return exp.Anonymous(this=side, expressions=ends)

        def binary(text: exp.Expr) -> exp.Expr:
            bases = [exp.Literal.number(16), exp.Literal.number(2)]
            return exp.Anonymous(this="CONV", expressions=[text, *bases])

        small = exp.Anonymous(this="CONTAINS", expressions=[copied(form), exp.Literal.string("0x0.")])
        power = exp.Add(this=cast(found("p(-?[0-9]+)$"), "INT"), expression=exp.Literal.number(1023))
        exponent = case((small, exp.Literal.number(0)), otherwise=power)
        high = padded(exp.Anonymous(this="BIN", expressions=[cast(exponent, "BIGINT")]), 11, "LPAD")
        low = padded(binary(padded(found("[.]([0-9a-f]+)p"), 13, "RPAD")), 52, "LPAD")
        negative = exp.Anonymous(this="STARTSWITH", expressions=[copied(form), exp.Literal.string("-")])
        sign = case((negative, exp.Literal.string("1")), otherwise=exp.Literal.string("0"))
        bits = exp.DPipe(this=exp.DPipe(this=sign, expression=high), expression=low)
        texts = {"NaN": "NaN", "Infinity": f"0{'1' * 11}{'0' * 52}", "-Infinity": f"1{'1' * 11}{'0' * 52}"}
        choice = exp.case()
        for name, text in texts.items():
            choice = choice.when(copied(value).eq(float_guards.double(name)), exp.Literal.string(text))
        return choice.when(not_(exp.Is(this=copied(value), expression=exp.null())), bits)

    def digits(self, value: exp.Expr) -> exp.Expr:
        text = self.printed(value, Type.NUMERIC)
        fraction = exp.Anonymous(this="CONTAINS", expressions=[text, exp.Literal.string(".")])

        def without(inner: exp.Expr, end: str) -> exp.Expr:
            return exp.Trim(this=inner, expression=exp.Literal.string(end), position="TRAILING")

        return case((fraction, without(without(copied(text), "0"), ".")), otherwise=copied(text))

    def refused(self, node: exp.Expr, what: str) -> Refusal:
        """PV020 for what Spark computes otherwise than PostgreSQL, or not at all."""
        return Refusal(
            "PV020",
            f"{what} is not supported on Spark",
            hint="Spark computes it differently from PostgreSQL: leave it out, or compute it on the released rows.",
            position=position(node),
        )

    def write(self, node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.EQ) and all(
            isinstance(o, exp.Column) and o.name == UNIT for o in operands(node)
        ):
            # A unit has no type of its own, and is compared with units alone.
            return exp.EQ(this=super().write(node.this), expression=super().write(node.expression))
        valued = isinstance(node, (exp.Column, exp.Parameter, exp.Cast))
        if valued and self.type_of(node) not in COMPUTED:
            raise self.refused(node, "a value of this type")
        if isinstance(node, (exp.Parameter, exp.Cast)) and self.type_of(node) in DATED:
            text = constant_text(node.this if isinstance(node, exp.Cast) else node, self.parameters)
            if text is not None and _INFINITE.fullmatch(text):
                raise self.refused(node, "an infinite time")
        return super().write(node)

    def computed(self, node: exp.Expr, parts: Sequence[exp.Expr], of: Type) -> Guarded:
        if of in INTEGERS:
            return Guarded(self.whole_computed(node, parts, of))
        if not isinstance(node, exp.Binary):
            return Guarded(type(node)(this=parts[0]))
        left, right = parts
        if isinstance(node, exp.Div):
            left = cast(left, self.numeric)
        if isinstance(node, (exp.Div, exp.Mod)):
            right = func("NULLIF", right, number(0))
        if isinstance(node, exp.Div):
            right = cast(right, self.numeric)
        return Guarded(operation(node, left, right))

    def whole_computed(self, node: exp.Expr, parts: Sequence[exp.Expr], of: Type) -> exp.Expr:
        """One operation of integers of one type, NULL where it overflows."""
        zero = cast(number(0), self.computed_in(of))
        negative = exp.Anonymous(this="TRY_SUBTRACT", expressions=[zero, copied(parts[0])])
        if isinstance(node, exp.Neg):
            return negative
        if isinstance(node, exp.Abs):
            below = exp.LT(this=copied(parts[0]), expression=number(0))
            return case((below, negative), otherwise=parts[0])
        left, right = parts
        if type(node) in _TRIED:
            return exp.Anonymous(this=_TRIED[type(node)], expressions=[left, right])
        some = func("NULLIF", right, number(0))
        if isinstance(node, exp.Mod):
            return cast(paren(exp.Mod(this=left, expression=some)), self.computed_in(of))
        # -2^63 DIV -1 would be -2^63 again.
        one_less = exp.EQ(this=copied(right), expression=number(-1))
        quotient = cast(paren(exp.IntDiv(this=left, expression=some)), self.computed_in(of))
        return case((one_less, negative), otherwise=quotient)

    def compared(self, node: exp.Expr) -> exp.Expr:
        """As on other engines; a text constant is cast to the type of the other operand."""
        written = super().compared(node)
        of = common([self.type_of(o) for o in operands(node)])
        if node.args.get("query") is not None or of.cell == "VARCHAR":
            return written
        for key, value in written.args.items():
            if isinstance(value, exp.Expr):
                written.set(key, self.constant(value, of))
            elif isinstance(value, list):
                written.set(key, [self.constant(one, of) for one in value])
        return written

    def constant(self, value: exp.Expr, of: Type) -> exp.Expr:
        """A constant that is written as a text in the type of what it stands beside."""
        if not isinstance(value, exp.Literal) or not value.is_string:
            return value
        if of in DATED and _INFINITE.fullmatch(value.this):
            raise self.refused(value, "an infinite time")
        if of is not Type.TIMESTAMPTZ:
            return cast(value, of.cell)
        # Spark reads no zone behind minutes.
        return cast(exp.Literal.string(_MINUTES.sub(r"\1:00\2", value.this)), "TIMESTAMPTZ")

    def branches(self, node: exp.Expr) -> exp.Expr:
        """As on other engines; a text constant is cast to the type of the other values."""
        written, of = super().branches(node), self.type_of(node)
        if of.cell == "VARCHAR":
            return written
        for holder in (written, *written.args.get("ifs", ())):
            for key in ("this", "true", "default"):
                value = holder.args.get(key)
                if isinstance(value, exp.Expr) and not (isinstance(holder, exp.If) and key == "this"):
                    holder.set(key, self.constant(value, of))
        written.set("expressions", [self.constant(value, of) for value in written.expressions])
        return written

    def like(self, node: exp.Expr, escape: str = "\\") -> exp.Expr:
        """LIKE with a pattern in which only wildcards and the escape are escaped: Spark raises at others."""
        if isinstance(node.expression, exp.Null):
            return exp.null()
        pattern = plain_pattern(constant_text(node.expression, self.parameters) or "", escape)
        if len(re.findall(r"(?<!\\)(?:\\\\)*%", pattern)) > MOST_WILDCARDS:
            raise self.refused(node, f"LIKE with more than {MOST_WILDCARDS} %")
        value = self.write(node.this)
        if isinstance(node, exp.ILike):
            value, pattern = _lowered(value), "".join(map(letters.lower, pattern))
        found = exp.Like(this=value, expression=exp.Literal.string(pattern))
        escaped = exp.Escape(this=found, expression=exp.Literal.string("\\"))
        return not_(paren(escaped)) if node.args.get("negate") else escaped

    def cased(self, node: exp.Expr) -> exp.Expr:
        value = self.write(node.this)
        if isinstance(node, exp.Lower):
            return _lowered(value)
        letter = exp.column("c")
        upper = exp.Upper(this=copied(letter))
        single = exp.EQ(this=exp.Length(this=copied(upper)), expression=number(1))
        other = _translated(copied(letter), _IOTAS, "".join(map(letters.upper, _IOTAS)))
        capital = case((single, upper), otherwise=other)
        each = exp.Lambda(this=capital, expressions=[copied(letter.this)])
        split = exp.Anonymous(this="SPLIT", expressions=[copied(value), exp.Literal.string("")])
        made = exp.Anonymous(this="TRANSFORM", expressions=[split, each])
        joined = exp.Anonymous(this="ARRAY_JOIN", expressions=[made, exp.Literal.string("")])
        ascii_alone = exp.EQ(this=_bytes(copied(value)), expression=exp.Length(this=copied(value)))
        return case((ascii_alone, exp.Upper(this=value)), otherwise=joined)

    def date_form(self, node: exp.Expr) -> exp.Expr:
        left, right = node.this, node.expression
        types = self.type_of(left), self.type_of(right)
        if Type.INTERVAL in types:
            moved, by = (left, right) if types[1] is Type.INTERVAL else (right, left)
            return self.moved(node, moved, by)
        if types != (Type.DATE, Type.DATE) and {*types} <= DATED:
            raise self.refused(node, "the time between two timestamps")
        written = super().date_form(node)
        return written if types == (Type.DATE, Type.DATE) else _still(written, dates)

    def moved(self, node: exp.Expr, moved: exp.Expr, by: exp.Expr) -> exp.Expr:
        """A date or timestamp plus or minus a constant interval."""
        months, days, rest = _interval_parts(interval_text(by, self.parameters) or "0 days")
        seconds = exp.Literal.number(format(Decimal(rest) / 10**6, "f").lstrip("-"))
        parts = [number(0), number(months), number(0), number(days), number(0), number(0)]
        interval = exp.Anonymous(
            this="MAKE_INTERVAL", expressions=[*parts, exp.Neg(this=seconds) if rest < 0 else seconds]
        )
        value = self.write(moved)
        later = type(node)(this=cast(copied(value), "TIMESTAMP"), expression=interval)
        return _still(when(calendar(value), later), calendar)

    def lasting(self, seconds: exp.Expr) -> exp.Expr:
        return exp.Anonymous(this="MAKE_INTERVAL", expressions=[*(number(0) for _ in range(6)), seconds])

    def days_between(self, first: exp.Expr, second: exp.Expr) -> exp.Expr:
        return exp.Anonymous(this="DATEDIFF", expressions=[first, second])

    def rounded_to_whole(self, node: exp.Expr) -> exp.Expr:
        if self.type_of(node.this) is Type.NUMERIC:
            return cast(type(node)(this=self.write(node.this)), self.numeric)
        value = cast(self.write(node.this), "DOUBLE")
        return _within_whole(value, type(node)(this=copied(value)))

    def truncated_number(self, node: exp.Expr) -> exp.Expr:
        if self.type_of(node.this) is not Type.NUMERIC and node.args.get("decimals") is None:
            value = cast(self.write(node.this), "DOUBLE")
            return _within_whole(value, cast(copied(value), "BIGINT"))
        return super().truncated_number(node)

    def half_even(self, value: exp.Expr) -> exp.Expr:
        return exp.Anonymous(this="RINT", expressions=[value])

    def cut_number(self, value: exp.Expr, places: int) -> exp.Expr:
        low, high = (
            exp.Anonymous(this=name, expressions=[copied(value), number(places)])
            for name in ("FLOOR", "CEIL")
        )
        return case((exp.LT(this=value, expression=number(0)), high), otherwise=low)

    def to_integer(self, node: exp.Expr, source: Type) -> exp.Expr:
        if source not in FLOATS:
            return super().to_integer(node, source)
        guarded = super().to_integer(node, source)
        for branch in guarded.args["ifs"]:
            inner = branch.args["true"].this
            branch.args["true"].set("this", exp.Anonymous(this="RINT", expressions=[inner]))
        return guarded

    def to_number(self, node: exp.Expr, source: Type, sizes: Sequence[int]) -> exp.Expr:
        if source in FLOATS:
            raise self.refused(node, "a cast from double precision to numeric")
        return super().to_number(node, source, sizes)

    def decimal(self, value: exp.Expr) -> exp.Expr:
        raise self.refused(value, "a cast from double precision to numeric")

    def stored(self, node: exp.Expr) -> exp.DataType:
        if node.args["to"].this == exp.DType.UUID:
            raise self.refused(node, "a cast to uuid")
        return super().stored(node)

    def extract(self, node: exp.Expr) -> exp.Expr:
        if self.type_of(node.expression) not in DATED:
            raise self.refused(node, "EXTRACT from other than dates and timestamps")
        return super().extract(node)

    def field(self, value: exp.Expr, field: str) -> exp.Expr:
        if field == "epoch":
            whole = cast(micros(value), "DECIMAL(28, 0)")
            return paren(exp.Mul(this=whole, expression=exp.Literal.number("0.000001")))
        year = exp.Extract(this=exp.var("YEAR"), expression=value)
        if field in ("decade", "century"):
            by, more = (10, 0) if field == "decade" else (100, 99)
            later = paren(exp.Add(this=year, expression=number(more)))
            return exp.IntDiv(this=later, expression=number(by))
        found = exp.Extract(this=exp.var(_PARTS.get(field, field.upper())), expression=value)
        return paren(exp.Sub(this=found, expression=number(1))) if field == "dow" else found

    def truncated_time(self, node: exp.Expr) -> exp.Expr:
        value, unit = self.write(node.this), exp.Literal.string(node.args["unit"].name.upper())
        stamp = value if self.type_of(node.this) is Type.TIMESTAMP else cast(value, "TIMESTAMP")
        start = exp.Anonymous(this="DATE_TRUNC", expressions=[unit, stamp])
        return self.within_calendar(node.this, value, cast(start, "TIMESTAMP"))

    def interval(self, node: exp.Expr) -> exp.Expr:
        raise self.refused(node, "an interval in this place")

    def formatted(self, stamp: exp.Expr, pattern: str) -> exp.Expr:
        pattern = re.sub("%.", lambda match: _PATTERNS[match[0]], pattern)
        return exp.Anonymous(this="DATE_FORMAT", expressions=[stamp, exp.Literal.string(pattern)])

    def binned(self, node: exp.Expr) -> exp.Expr:
        return _still(super().binned(node), calendar)

    def bin_of(self, stamp: exp.Expr, stride: int, origin: int) -> exp.Expr:
        since = exp.Sub(this=micros(stamp), expression=number(origin))
        rest = exp.Anonymous(this="PMOD", expressions=[since, number(stride)])
        begin = exp.Sub(this=micros(copied(stamp)), expression=rest)
        return cast(exp.Anonymous(this="TIMESTAMP_MICROS", expressions=[begin]), "TIMESTAMP")

    def moment(self, seconds: exp.Expr) -> exp.Expr:
        micros = self.rounded_micros(seconds)
        return cast(exp.Anonymous(this="TIMESTAMP_MICROS", expressions=[micros]), "TIMESTAMP")

    def named(self, node: exp.Expr) -> exp.Expr:
        if node.name.lower() == "age":
            raise self.refused(node, "age()")
        return super().named(node)

    def trim(self, node: exp.Expr) -> exp.Expr:
        side = str(node.args.get("position") or "")
        if side not in ("LEADING", "TRAILING"):
            return super().trim(node)
        characters = node.args.get("expression")
        removed = exp.Literal.string(" ") if characters is None else self.write(characters)
        return exp.Trim(this=self.write(node.this), expression=removed, position=side)

    def substring(self, node: exp.Expr) -> exp.Expr:
        """Positions before the first count, where Spark would count from the end."""
        start, length = self.write(node.args["start"]), node.args.get("length")
        first = when(exp.LT(this=copied(start), expression=number(1)), number(1)).else_(copied(start))
        if length is None:
            return exp.Substring(this=self.write(node.this), start=first)
        size = self.write(length)
        end = cast(paren(copied(start)), "BIGINT") + cast(paren(copied(size)), "BIGINT")
        rest = exp.Greatest(this=paren(end - copied(first)), expressions=[number(0)], ignore_nulls=True)
        asked = exp.GTE(this=paren(copied(size)), expression=number(0))
        known = not_(exp.Is(this=copied(start), expression=exp.null()))
        found = exp.Substring(this=self.write(node.this), start=first, length=cast(rest, "INT"))
        return when(and_(asked, known), found)

    def cut(self, node: exp.Expr) -> exp.Expr:
        """A negative length of LEFT and RIGHT leaves so many characters out."""
        if isinstance(node, exp.SplitPart):
            return super().cut(node)
        value, size = self.write(node.this), self.write(node.expression)
        long = exp.Greatest(
            this=cast(exp.Length(this=copied(value)), "BIGINT") + cast(paren(copied(size)), "BIGINT"),
            expressions=[number(0)],
            ignore_nulls=True,
        )
        rest = type(node)(this=copied(value), expression=cast(long, "INT"))
        some = exp.GTE(this=paren(copied(size)), expression=number(0))
        known = not_(exp.Is(this=copied(size), expression=exp.null()))
        return case((some, type(node)(this=value, expression=size)), (known, rest))

    def cube_root(self, node: exp.Expr) -> exp.Expr:
        raise self.refused(node, "cbrt()")

    def logarithm(self, node: exp.Expr) -> exp.Expr:
        raise self.refused(node, "ln()" if isinstance(node, exp.Ln) else "log()")

    def exponential(self, node: exp.Expr) -> exp.Expr:
        raise self.refused(node, "exp()")

    def power(self, node: exp.Expr) -> exp.Expr:
        raise self.refused(node, "power()")

    def matched(self, node: exp.Expr) -> exp.Expr:
        raise self.refused(node, "a regular expression")

    def extracted(self, node: exp.Expr) -> exp.Expr:
        raise self.refused(node, "a regular expression")

    def regexp_replaced(self, node: exp.Expr) -> exp.Expr:
        raise self.refused(node, "a regular expression")


def _bytes(value: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this="OCTET_LENGTH", expressions=[value])


def _lowered(text: exp.Expr) -> exp.Expr:
    """Java makes two characters of İ, and ς of a Σ at the end of a word."""
    return exp.Lower(this=_translated(text, "İΣ", "iσ"))


def _translated(text: exp.Expr, ones: str, others: str) -> exp.Expr:
    signs = [exp.Literal.string(ones), exp.Literal.string(others)]
    return exp.Anonymous(this="TRANSLATE", expressions=[text, *signs])


def _still(written: exp.Expr, known: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
    """A date or timestamp that was moved, NULL where it has left the years 1 to 9999."""
    for branch in written.args["ifs"]:
        branch.set("this", and_(branch.this, paren(known(paren(branch.args["true"])))))
    return written


def _within_whole(value: exp.Expr, rounded: exp.Expr) -> exp.Expr:
    """Spark rounds to a BIGINT: doubles that none holds, and those that are no number, are whole as they are."""
    small = exp.LT(this=float_guards.size(value), expression=float_guards.double(_WHOLE))
    return case((small, cast(rounded, "DOUBLE")), otherwise=copied(value))


_INFINITE = re.compile("-?infinity", re.IGNORECASE)
_MINUTES = re.compile(r"( \d\d:\d\d)([+-].*)")


def _interval_parts(text: str) -> tuple[int, int, int]:
    """Months, days and microseconds of a constant interval.

    >>> _interval_parts("1 mon 2 days -03:00:00.5"), _interval_parts("1 year 2 months"), _interval_parts("90 minutes")
    ((1, 2, -10800500000), (14, 0, 0), (0, 0, 5400000000))
    """
    months = days = rest = 0
    clock = _CLOCK.search(text)
    head = text[: clock.start()] if clock else text
    if clock:
        seconds = int(clock[2]) * 3600 + int(clock[3]) * 60 + Decimal(clock[4])
        rest = int(seconds * 10**6) * (-1 if clock[1] else 1)
    for amount, unit in _MOVE.findall(head.strip()):
        name = unit.upper()
        months += int(amount) * _MONTHS.get(name, 0)
        days += int(amount) * _DAYS.get(name, 0)
        rest += int(amount) * _MICROS.get(name, 0)
    return months, days, rest


def _tried(query: exp.Expr) -> exp.Expr:
    """Casts that give NULL where a value does not fit; timestamps without a zone where PostgreSQL's have none."""
    for kind in walk(query, exp.DataType):
        kind.set("this", _ZONELESS.get(kind.this, kind.this))
    for part in walk(query, exp.Cast):
        tried = exp.TryCast(this=part.this, to=part.args["to"], safe=True)
        query = tried if part is query else query
        part.replace(tried)
    return query


SPARK = Spark()
