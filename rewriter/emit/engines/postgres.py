"""PostgreSQL's SQL: it has no TRY, so every expression is written in a form that cannot raise."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from math import inf

from sqlglot import exp

from rewriter.binder.listed_rows import in_postgres
from rewriter.emit.engines.base import LONGEST, MOST_ELEMENTS, Engine
from rewriter.emit.engines.parts import (
    Guarded,
    at_most,
    bin_arguments,
    collated,
    digested,
    number,
    operation,
    when,
)
from rewriter.ir.trees import and_, case, cast, coalesce, column, copied, func, or_, paren, select
from rewriter.ir.types import FLOATS, INTEGERS, SPAN, UNTOLD, Type, longest, type_named
from rewriter.policy import Column, labels
from rewriter.refusal import Refusal
from rewriter.scalar import float_guards, letters
from rewriter.syntax.allowlist import position

LARGEST = "1e38"
"""Numerics from here on are NULL in arithmetic: products of many could be beyond what a numeric holds."""
SMALLEST = "1e-38"
"""What is divided by is at least this large: a chain of divisions by less could be beyond that as well."""
MOST_PLACES = 38
"""Digits behind the point of what is so large or 0; neither a parameter nor a part of a time has more."""
_SIZED = re.compile(r"numeric\((\d+)(?:,(\d+))?\)")
MOST_DIGITS = "1e131000"
"""A numeric has some 70 digits more."""
FLOAT_ENDS = {Type.FLOAT4: ("1.5e-45", "3.4028234e38"), Type.FLOAT8: ("2e-323", "1.797693134862315e308")}
"""Between them the size of an exact number is cast to a float without an error, if it is not zero."""
_STAND_INS = {
    "BIGINT": "0",
    "DOUBLE": "0",
    "BOOLEAN": "false",
    "DATE": "2000-01-01",
    "TIMESTAMP": "2000-01-01 00:00:00",
    "TIME": "00:00:00",
    "UUID": "00000000-0000-0000-0000-000000000000",
}
"""A value of each type of cells that stands for NULL in a join; whether it was NULL is compared beside it."""

HELD = "1e28"
"""What the cells' DECIMAL of 38 digits, ten of them behind the point, can hold."""


SAMPLE = "".join(map(chr, (*range(32, 0x19B), *range(0x19C, 0x250), *range(0x370, 0x530)))) + " ΑΣ"
"""Letters of common alphabets. A locale that has other cases has them for some of these: a Turkish i, SS for ß, ς for a
Σ at the end of a word, or none beyond ASCII."""


class Postgres(Engine):
    """PostgreSQL 15 and later, under the settings that the backend pins; columns of text come with collation C."""

    name = "postgres"
    fenced = True
    joins_in = False
    texts = "TEXT"
    both = "BTRIM"
    narrowed = frozenset({Type.NUMERIC})
    operand_types: Mapping[Type, str] = {
        Type.INT2: "BIGINT",
        Type.INT4: "BIGINT",
        Type.INT8: "DECIMAL",
        Type.NUMERIC: "DECIMAL",
    }
    result_types: Mapping[Type, str] = {
        Type.INT2: "SMALLINT",
        Type.INT4: "INT",
        Type.INT8: "BIGINT",
        Type.FLOAT4: "REAL",
    }

    def read(self, value: exp.Expr, column: Column) -> exp.Expr:
        found = type_named(column.type)
        if found is Type.TEXT_ARRAY:
            return self.bytewise(value)
        if found is not Type.TEXT:
            return value
        text = self.printed(value, found)
        if not column.caseless:
            return self.bytewise(text)
        # As citext does it.
        lowered = exp.Lower(this=collated(text, "default"))
        return self.bytewise(when(at_most(_bytes(copied(text)), LONGEST // 3), lowered))

    def short(self, value: exp.Expr, of: Type) -> Sequence[exp.Expr]:
        if of is Type.TEXT:
            # Of character(n) before it is cast, which makes a new value.
            return [at_most(_bytes(value), LONGEST)]
        if of is Type.BYTEA:
            return [at_most(_bytes(value), LONGEST // 2)]
        if of is Type.JSON:
            # Compressed, it is at most 255 times shorter: what is printed is never a gigabyte.
            stored = exp.Anonymous(this="PG_COLUMN_SIZE", expressions=[value])
            return [at_most(stored, LONGEST + 4), at_most(_bytes(self.printed(copied(value), of)), LONGEST)]
        if of.element is None or of in UNTOLD:
            return []
        count = exp.Anonymous(this="CARDINALITY", expressions=[value])
        size = self.element_size(column("_e"), of.element)
        return [at_most(count, MOST_ELEMENTS), *([] if size is None else [_together(value, size)])]

    def element_size(self, element: exp.Expr, of: Type) -> exp.Expr | None:
        """How long the text of an array's element is within that of the array; None where all are short."""
        if of is Type.NUMERIC:
            return _bytes(self.printed(element, of))
        if of is Type.JSON:
            # Elements are not compressed by themselves.
            return number(2) * exp.Anonymous(this="PG_COLUMN_SIZE", expressions=[element])
        # Bytes are two digits; before quotes and backslashes stands another one.
        return number(2) * _bytes(element) if of in (Type.TEXT, Type.BYTEA) else None

    def listed(self, columns: Sequence[Column], texts: Sequence[Sequence[str | None]]) -> exp.Select:
        # Enumerated values are texts here: the front's types are not the backend's.
        return in_postgres([c if labels(c.type) is None else replace(c, type="text") for c in columns], texts)

    def cell(self, value: exp.Expr, of: Type) -> exp.Expr:
        if of in INTEGERS:
            # Compared with a BIGINT as it is; a cast would be computed for every row.
            return value
        if of is not Type.NUMERIC:
            return cast(value, _cell(of))
        return when(_held(value), func("ROUND", copied(value), exp.Literal.number(10)))

    def label(self, value: exp.Expr, of: Type) -> exp.Expr:
        return when(_held(value), copied(value)) if of is Type.NUMERIC else value

    def converted(self, value: exp.Expr, own: Type, target: Type) -> exp.Expr:
        if target not in FLOATS:
            return value
        number = cast(copied(value), target.postgres)
        if own is not Type.NUMERIC:
            return number
        size = exp.Abs(this=value)
        ends = [_exact(end) for end in FLOAT_ENDS[target]]
        between = exp.Between(this=size, low=ends[0], high=ends[1])
        # NaN is greater than Infinity.
        special = exp.GTE(this=copied(size), expression=_exact("Infinity"))
        return when(or_(float_guards.zero(value), between, special), number)

    def key(self, value: exp.Expr, of: Type) -> exp.Expr:
        if of is Type.NUMERIC:
            return exp.Anonymous(this="TRIM_SCALE", expressions=[value])
        if of is Type.INTERVAL:
            return _justified(value)
        return self.printed(value, of) if _opaque(of) else super().key(value, of)

    def told(self, value: exp.Expr, of: Type) -> tuple[exp.Expr, Type]:
        if of in (Type.JSONB, Type.JSONB_ARRAY):
            name = "HASH_ARRAY_EXTENDED" if of.element else "JSONB_HASH_EXTENDED"
            hashed = exp.Anonymous(this=name, expressions=[value, number(0)])
            return self.printed(hashed, Type.INT8), Type.TEXT
        if of is Type.TEXT:
            return digested(value), of
        if _opaque(of) and of is not Type.RECORD:
            return digested(self.printed(value, of)), Type.TEXT
        return value, of

    def least(self, value: exp.Expr, of: Type) -> exp.Expr:
        if of is Type.BOOL:
            return exp.LogicalAnd(this=value)
        if of is Type.UUID:
            return cast(exp.Min(this=self.printed(value, of)), "UUID")
        return exp.Min(this=value)

    def same(self, left: exp.Expr, right: exp.Expr, of: Type) -> exp.Expr:
        equal = exp.EQ(this=_filled(left, of), expression=_filled(right, of))
        absent = (paren(exp.Is(this=copied(side), expression=exp.null())) for side in (left, right))
        return and_(equal, exp.EQ(this=next(absent), expression=next(absent)))

    def bits(self, value: exp.Expr) -> exp.Expr:
        double = exp.Add(this=cast(value, "DOUBLE"), expression=exp.Literal.number("0.0"))
        sent = exp.Anonymous(this="FLOAT8SEND", expressions=[double])
        digits = exp.Anonymous(this="ENCODE", expressions=[sent, exp.Literal.string("hex")])
        bits = cast(paren(exp.DPipe(this=exp.Literal.string("x"), expression=digits)), "BIT(64)")
        unordered = exp.EQ(this=copied(value), expression=cast(exp.Literal.string("NaN"), "DOUBLE"))
        return case((unordered, exp.Literal.string("NaN")), otherwise=self.printed(bits, Type.BRIEF))

    def digits(self, value: exp.Expr) -> exp.Expr:
        return self.printed(exp.Anonymous(this="TRIM_SCALE", expressions=[value]), Type.NUMERIC)

    def ordered(self, value: exp.Expr, of: Type) -> exp.Expr:
        if _opaque(of):
            value = self.printed(value, of)
        return self.bytewise(value) if of is Type.TEXT or _opaque(of) else value

    def literal(self, node: exp.Expr) -> exp.Expr:
        return copied(node)

    def operand(self, node: exp.Expr, of: Type) -> Guarded:
        part = super().operand(node, of)
        if of is not Type.NUMERIC or self.bounded(node):
            return part
        return Guarded(
            part.value, (exp.LT(this=exp.Abs(this=copied(part.value)), expression=_exact(LARGEST)),)
        )

    def bounded(self, node: exp.Expr) -> bool:
        """Whether a numeric has few digits by its type or because it is a constant."""
        if isinstance(node, exp.Column):
            return self.sized_column(node) is not None
        return isinstance(node, (exp.Literal, exp.Parameter, exp.Extract, exp.Neg))

    def sized_column(self, node: exp.Column) -> int | None:
        """The digits behind the point of a column that has few in all by its type."""
        found = _SIZED.fullmatch(self.relation.source(node.table).column(node.name).type)
        if found is None or not int(found[2] or 0) <= int(found[1]) <= MOST_PLACES:
            return None
        return int(found[2] or 0)

    def fine(self, divisor: exp.Expr) -> bool:
        """Whether a divisor can be smaller than `SMALLEST`, and is no constant that is written down."""
        while isinstance(divisor, (exp.Paren, exp.Neg)):
            divisor = divisor.this
        return not isinstance(divisor, exp.Literal) and self.places(divisor) > MOST_PLACES

    def places(self, node: exp.Expr) -> float:
        """How many digits a number has behind the point at most."""
        node = node.unnest()
        if self.type_of(node) in INTEGERS:
            return 0
        if isinstance(node, exp.Column):
            found = self.sized_column(node)
            return inf if found is None else found
        if isinstance(node, exp.Literal) and not node.is_string:
            return max(0, -int(Decimal(node.name).as_tuple().exponent))
        if isinstance(node, (exp.Parameter, exp.Extract)):
            return MOST_PLACES
        if isinstance(node, (exp.Neg, exp.Abs)):
            return self.places(node.this)
        if isinstance(node, (exp.Add, exp.Sub, exp.Mod, exp.Mul)):
            both = self.places(node.this), self.places(node.expression)
            return sum(both) if isinstance(node, exp.Mul) else max(both)
        return inf

    def promoted(self, part: Guarded, before: Type, after: Type) -> Guarded:
        if self.computed_in(before) == self.computed_in(after):
            return part
        if before is not Type.NUMERIC:
            return Guarded(cast(part.value, self.computed_in(after)), part.guards)
        size = exp.Abs(this=copied(part.value))
        large = and_(
            exp.LT(this=size, expression=_exact("1e300")),
            exp.GT(this=copied(size), expression=_exact("1e-300")),
        )
        held = or_(float_guards.zero(part.value), large)
        return Guarded(cast(part.value, "DOUBLE"), (*part.guards, held))

    def computed(self, node: exp.Expr, parts: Sequence[exp.Expr], of: Type) -> Guarded:
        guards: tuple[exp.Expr, ...] = ()
        if isinstance(node, exp.Div) and of is Type.NUMERIC and self.fine(node.expression):
            # By a smaller divisor the quotient has up to 16,383 digits more: after some divisions, too many.
            guards = (exp.GTE(this=exp.Abs(this=copied(parts[1])), expression=_exact(SMALLEST)),)
        elif isinstance(node, (exp.Div, exp.Mod)):
            guards = (exp.NEQ(this=copied(parts[1]), expression=number(0)),)
        if isinstance(node, exp.Div) and of is Type.INT8:
            value: exp.Expr = exp.Anonymous(this="DIV", expressions=list(parts))
        elif isinstance(node, exp.Binary):
            value = operation(node, parts[0], parts[1])
        else:
            value = type(node)(this=parts[0])
        if of in INTEGERS and not isinstance(node, exp.Mod):
            ends = number(-SPAN[of]), number(SPAN[of] - 1)
            guards = (*guards, exp.Between(this=paren(copied(value)), low=ends[0], high=ends[1]))
        return Guarded(value, guards)

    def folding(self, value: exp.Expr) -> exp.Expr:
        return collated(value, "default")

    def cased(self, node: exp.Expr) -> exp.Expr:
        value = self.write(node.this)
        cased = type(node)(this=collated(value, "default"))
        if not self.is_short(node.this):
            # A letter's other case has three times its bytes at most.
            cased = when(at_most(_bytes(copied(value)), LONGEST // 3), cased)
        # In parentheses: COLLATE stands neither in POSITION nor behind BETWEEN without.
        return paren(collated(cased, "C"))

    def is_short(self, node: exp.Expr) -> bool:
        """Whether a node is a stored column whose type says that its texts are short."""
        source = self.relation.source(node.table) if isinstance(node, exp.Column) else None
        most = (
            None if source is None or source.derived is not None else longest(source.column(node.name).type)
        )
        return most is not None and 4 * most <= LONGEST // 3

    def rounded(self, node: exp.Expr) -> exp.Expr:
        return self.roundable(node, super().rounded(node))

    def rounded_to_whole(self, node: exp.Expr) -> exp.Expr:
        return self.roundable(node, super().rounded_to_whole(node))

    def to_number(self, node: exp.Expr, source: Type, sizes: Sequence[int]) -> exp.Expr:
        found = super().to_number(node, source, sizes)
        return self.roundable(node, found) if sizes else found

    def roundable(self, node: exp.Expr, found: exp.Expr) -> exp.Expr:
        """What is rounded, NULL where a numeric has so many digits that one more might be too many."""
        if self.type_of(node.this) is not Type.NUMERIC or self.bounded(node.this.unnest()):
            return found
        size = exp.Abs(this=self.write(node.this))
        endless = exp.GTE(this=copied(size), expression=_exact("Infinity"))
        return when(or_(exp.LT(this=size, expression=_exact(MOST_DIGITS)), endless), found)

    def days_between(self, first: exp.Expr, second: exp.Expr) -> exp.Expr:
        return exp.Sub(this=first, expression=second)

    def bin_of(self, stamp: exp.Expr, stride: int, origin: int) -> exp.Expr:
        return exp.Anonymous(this="DATE_BIN", expressions=bin_arguments(stamp, stride, origin))

    def pieced(self, stamp: exp.Expr, pattern: str) -> exp.Expr:
        return exp.Anonymous(this="TO_CHAR", expressions=[stamp, exp.Literal.string(pattern)])

    def half_even(self, value: exp.Expr) -> exp.Expr:
        return exp.Round(this=value)

    def cut_number(self, value: exp.Expr, places: int) -> exp.Expr:
        return exp.Anonymous(this="TRUNC", expressions=[value, number(places)])

    def decimal(self, value: exp.Expr) -> exp.Expr:
        return cast(copied(value), "DECIMAL")

    def field(self, value: exp.Expr, field: str) -> exp.Expr:
        return exp.Extract(this=exp.var(field.upper()), expression=value)

    def searched(self, node: exp.Expr) -> exp.Expr:
        return exp.EQ(this=self.write(node.expression), expression=exp.Any(this=paren(self.write(node.this))))

    def substring(self, node: exp.Expr) -> exp.Expr:
        start, length = self.write(node.args["start"]), node.args.get("length")
        if length is None:
            return exp.Substring(this=self.write(node.this), start=start)
        size = self.write(length)
        known = when(exp.GTE(this=size, expression=number(0)), copied(size))
        return exp.Substring(this=self.write(node.this), start=start, length=known)

    def matched(self, node: exp.Expr) -> exp.Expr:
        value = paren(self.bytewise(self.write(node.this)))
        return exp.RegexpLike(this=value, expression=exp.Literal.string(self.pattern(node)))

    def extracted(self, node: exp.Expr) -> exp.Expr:
        value = paren(self.bytewise(self.write(node.this)))
        pattern = exp.Literal.string(self.pattern(node))
        return exp.Anonymous(this="SUBSTRING", expressions=[value, pattern])

    def moment(self, seconds: exp.Expr) -> exp.Expr:
        return exp.Anonymous(this="TO_TIMESTAMP", expressions=[seconds])

    def bytewise(self, value: exp.Expr) -> exp.Expr:
        return collated(value, "C")


def _together(array: exp.Expr, size: exp.Expr) -> exp.Expr:
    """Whether the sizes of all elements, each `size` of `_e`, are no more than `LONGEST` together."""
    elements = exp.Anonymous(this="UNNEST", expressions=[copied(array)])
    rows = exp.Table(this=elements, alias=exp.TableAlias(this=exp.to_identifier("_e")))
    few = at_most(exp.Sum(this=size), LONGEST)
    return select(coalesce(few, exp.true()), source=rows).subquery(copy=False)


def _bytes(text: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this="OCTET_LENGTH", expressions=[text])


def _exact(text: str) -> exp.Expr:
    return cast(exp.Literal.string(text), "DECIMAL")


def _cell(of: Type) -> str:
    return "TEXT" if of.cell == "VARCHAR" else of.cell


def _held(value: exp.Expr) -> exp.Expr:
    """Whether a cell can hold an exact number."""
    return exp.LT(this=exp.Abs(this=value), expression=cast(exp.Literal.string(HELD), "DECIMAL"))


def _opaque(of: Type) -> bool:
    """Whether values of a type are grouped by their texts."""
    return of in UNTOLD or (of is not Type.INTERVAL and not of.enumerable)


def _justified(value: exp.Expr) -> exp.Expr:
    """One of the intervals that are equal, whichever row comes first; NULL beyond a hundred thousand years."""
    ends = [cast(exp.Literal.string(f"{sign}100000 years"), "INTERVAL") for sign in ("-", "")]
    near = exp.Between(this=value, low=ends[0], high=ends[1])
    return case((near, exp.Anonymous(this="JUSTIFY_INTERVAL", expressions=[copied(value)])))


def _filled(value: exp.Expr, of: Type) -> exp.Expr:
    stand_in = cast(exp.Literal.string(_STAND_INS.get(_cell(of), "")), _cell(of))
    if of is Type.NUMERIC:
        stand_in = cast(exp.Literal.number(0), "DECIMAL")
    return coalesce(copied(value), stand_in)


class OtherLetters(Postgres):
    """PostgreSQL in a locale that gives letters other cases than the front's: what the front would make of a cell or a
    constant is not what is found in rows."""

    partial = True

    def cased(self, node: exp.Expr) -> exp.Expr:
        raise _refused(f"{type(node).__name__.lower()}()", node)

    def like(self, node: exp.Expr, escape: str = "\\") -> exp.Expr:
        if isinstance(node, exp.ILike):
            raise _refused("ILIKE", node)
        return super().like(node, escape)


def _refused(what: str, node: exp.Expr) -> Refusal:
    return Refusal(
        "PV020",
        f"{what} is not supported on this database",
        detail="The database's locale gives letters other cases than the locale C.UTF-8 does.",
        hint="Use ~* in place of ILIKE, or let the owner declare a column that lower() or upper() computes.",
        position=position(node),
    )


POSTGRES = Postgres()
OTHER_LETTERS = OtherLetters()


def with_letters(lowered: str, capitals: str) -> Engine:
    """The engine of a database that makes these of `SAMPLE`.

    >>> with_letters(SAMPLE, SAMPLE) is OTHER_LETTERS
    True
    """
    cased = ("".join(map(case, SAMPLE)) for case in (letters.lower, letters.upper))
    return POSTGRES if (lowered, capitals) == tuple(cased) else OTHER_LETTERS
