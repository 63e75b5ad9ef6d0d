"""How functions over private rows are written: the forms that engines share, and those that differ."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from sqlglot import exp

from rewriter.emit.dialects.expressions import Guarded, Writer, divided
from rewriter.ir.trees import and_, case, cast, func, not_, or_, paren
from rewriter.ir.types import FLOATS, INTEGERS, SPAN, ZONELESS, Type
from rewriter.scalar import float_guards, regexp
from rewriter.scalar.function_checks import constant_text, whole_constant
from rewriter.scalar.interval import interval_text

LONGEST_JOINED = 100_000
"""Characters of a text that others are joined to: the whole stays within what a value may have."""
LONGEST_REPLACED = 1_000_000
FIRST, LAST = "0001-01-01", "9999-12-31"
_TRIMS = {"LEADING": "LTRIM", "TRAILING": "RTRIM"}


def number(value: int) -> exp.Expr:
    """A whole constant.

    >>> number(-3).sql()
    '-3'
    """
    literal = exp.Literal.number(abs(value))
    return exp.Neg(this=literal) if value < 0 else literal


def calendar(value: exp.Expr) -> exp.Expr:
    """Whether a date or timestamp is of the years 1 to 9999."""
    last = cast(exp.Literal.string(f"{LAST} 23:59:59.999999"), "TIMESTAMP")
    first = cast(exp.Literal.string(FIRST), "TIMESTAMP")
    return exp.Between(this=value.copy(), low=first, high=last)


def dates(value: exp.Expr) -> exp.Expr:
    """Whether a date is of the years 1 to 9999."""
    ends = [cast(exp.Literal.string(text), "DATE") for text in (FIRST, LAST)]
    return exp.Between(this=value.copy(), low=ends[0], high=ends[1])


def when(guard: exp.Expr, value: exp.Expr) -> exp.Case:
    """`value` where the guard holds, else NULL."""
    return case((guard, value))


class Forms(Writer):
    """The functions of the grammar."""

    def like(self, node: exp.Expr, escape: str = "\\") -> exp.Expr:
        value = self.folding(self.write(node.this)) if isinstance(node, exp.ILike) else self.write(node.this)
        found = type(node)(this=value, expression=self.write(node.expression))
        escaped = exp.Escape(this=found, expression=exp.Literal.string(escape))
        return not_(paren(escaped)) if node.args.get("negate") else escaped

    def escape(self, node: exp.Expr) -> exp.Expr:
        inner = node.this.unnest()
        negated = isinstance(inner, exp.Not)
        like = inner.this.unnest() if negated else inner
        found = self.like(like, constant_text(node.expression, self.parameters) or "\\")
        return not_(paren(found)) if negated else found

    def nullif(self, node: exp.Expr) -> exp.Expr:
        equal = self.write(exp.EQ(this=node.this.copy(), expression=node.expression.copy()))
        return case((equal, exp.null()), otherwise=self.write(node.this))

    def date_form(self, node: exp.Expr) -> exp.Expr:
        left, right = node.this, node.expression
        types = self.type(left), self.type(right)
        first, second = self.write(left), self.write(right)
        if types == (Type.DATE, Type.DATE):
            return when(and_(dates(first), dates(second)), self.days_between(first, second))
        if Type.INTERVAL in types:
            moved, by = (first, second) if types[1] is Type.INTERVAL else (second, first)
            return when(calendar(moved), type(node)(this=cast(moved, "TIMESTAMP"), expression=by))
        if {*types} <= ZONELESS:
            ends = [cast(value, "TIMESTAMP") for value in (first, second)]
            return when(and_(calendar(first), calendar(second)), exp.Sub(this=ends[0], expression=ends[1]))
        date, steps = (first, second) if types[0] is Type.DATE else (second, first)
        near = exp.Between(this=steps, low=number(-700_000), high=number(100_000_000))
        added = type(node)(this=date, expression=cast(steps.copy(), "INT"))
        return when(and_(dates(date), near), added)

    def rounded_to_whole(self, node: exp.Expr) -> exp.Expr:
        if self.type(node.this) in INTEGERS:
            return cast(self.write(node.this), "DOUBLE")
        return type(node)(this=self.write(node.this))

    def rounded(self, node: exp.Expr) -> exp.Expr:
        value, digits = self.write(node.this), node.args.get("decimals")
        if self.type(node.this) is Type.NUMERIC or digits is not None:
            places = whole_constant(digits, self.parameters) or 0
            return exp.Round(this=cast(value, self.exact), decimals=number(places))
        return cast(value, "DOUBLE") if self.type(node.this) in INTEGERS else self.half_even(value)

    def truncated_number(self, node: exp.Expr) -> exp.Expr:
        value, digits = self.write(node.this), node.args.get("decimals")
        if self.type(node.this) is not Type.NUMERIC and digits is None:
            return exp.Anonymous(this="TRUNC", expressions=[cast(value, "DOUBLE")])
        return self.cut_number(cast(value, self.exact), whole_constant(digits, self.parameters) or 0)

    def sign(self, node: exp.Expr) -> exp.Expr:
        value = self.write(node.this)
        if self.type(node.this) is Type.NUMERIC:
            return cast(exp.Sign(this=value), self.exact)
        signs = case((self.undefined(value, self.type(node.this)), number(0)))
        signs = signs.when(exp.GT(this=value.copy(), expression=number(0)), number(1))
        signs = signs.when(exp.LT(this=value.copy(), expression=number(0)), number(-1))
        return cast(signs.when(float_guards.zero(value), number(0)), "DOUBLE")

    def undefined(self, value: exp.Expr, of: Type) -> exp.Expr:
        """Whether a value is NaN."""
        if of in INTEGERS:
            return exp.false()
        nan = (
            cast(exp.Literal.string("NaN"), self.exact) if of is Type.NUMERIC else float_guards.double("NaN")
        )
        return exp.EQ(this=value.copy(), expression=nan)

    def root(self, node: exp.Expr) -> exp.Expr:
        part = self.as_float(node.this)
        return self.function(
            part, lambda v: exp.GTE(this=v.copy(), expression=number(0)), exp.Sqrt(this=part.value)
        )

    def logarithm(self, node: exp.Expr) -> exp.Expr:
        part = self.as_float(node.this)
        # Spark's LOG is the natural one.
        common = exp.Anonymous(this="LOG10", expressions=[part.value])
        found = exp.Ln(this=part.value) if isinstance(node, exp.Ln) else common
        return self.function(part, lambda v: exp.GT(this=v.copy(), expression=number(0)), found)

    def exponential(self, node: exp.Expr) -> exp.Expr:
        part = self.as_float(node.this)

        def within(value: exp.Expr) -> exp.Expr:
            reach = exp.Between(this=value.copy(), low=number(-700), high=number(700))
            return or_(float_guards.special(value), reach)

        return self.function(part, within, exp.Exp(this=part.value))

    def power(self, node: exp.Expr) -> exp.Expr:
        exponent = node.expression.unnest()
        negative = isinstance(exponent, exp.Neg)
        text = constant_text(exponent.this if negative else exponent, self.parameters) or "1"
        power = -float(text) if negative else float(text)
        part = self.as_float(node.this)
        raised = exp.Pow(this=part.value, expression=float_guards.double(repr(power)))
        return self.function(part, lambda v: float_guards.power(v, power), raised)

    def bucket(self, node: exp.Expr) -> exp.Expr:
        exact = self.type(node.this) is Type.NUMERIC
        value = self.write(node.this) if exact else self.as_float(node.this).closed()
        low, high, count = (node.args[name].copy() for name in ("min_value", "max_value", "num_buckets"))
        low, high = (self.plain(end, exact) for end in (low, high))
        count = number(whole_constant(count, self.parameters) or 1)
        above = paren(exp.Sub(this=value.copy(), expression=low.copy()))
        whole = paren(exp.Sub(this=high.copy(), expression=low.copy()))
        step = divided(exp.Mul(this=above, expression=count), whole)
        inside = exp.Add(this=cast(exp.Floor(this=step), "INT"), expression=number(1))
        found = exp.case()
        if not exact or self.knows_nan:
            found = found.when(self.undefined(value, Type.NUMERIC if exact else Type.FLOAT8), exp.null())
        found = found.when(exp.LT(this=value.copy(), expression=low.copy()), number(0))
        beyond = exp.Add(this=count.copy(), expression=number(1))
        found = found.when(exp.GTE(this=value.copy(), expression=high.copy()), beyond)
        if not exact:
            # A smaller value would underflow a double after the division.
            found = found.when(exp.LT(this=above.copy(), expression=float_guards.double("1e-290")), number(1))
        return found.when(exp.GTE(this=value.copy(), expression=low.copy()), inside)

    def plain(self, node: exp.Expr, exact: bool) -> exp.Expr:
        """A constant number in a type."""
        return cast(self.write(node), self.exact if exact else "DOUBLE")

    def cast(self, node: exp.Expr) -> exp.Expr:
        source, target = self.type(node.this), self.type(node)
        sizes = [whole_constant(s.this, self.parameters) or 0 for s in node.args["to"].expressions]
        if node.args["to"].this == exp.DType.INTERVAL:
            return self.interval(node)
        if source is Type.LITERAL:
            return cast(self.write(node.this), self.stored(node))
        if target in INTEGERS and source is not Type.BOOL:
            return self.to_integer(node, source)
        if target is Type.NUMERIC:
            return self.to_number(node, source, sizes)
        if target in FLOATS:
            part = self.fitted(node.this, target)
            guards = (float_guards.narrows(part.value),) if target is Type.FLOAT4 else ()
            return cast(Guarded(part.value, (*part.guards, *guards)).closed(), self.stored(node))
        value = self.write(node.this)
        if target is Type.TEXT:
            text = self.spelt(value, source)
            return exp.Left(this=text, expression=number(sizes[0])) if sizes else text
        if target is Type.TIMESTAMP and source is Type.DATE:
            return when(dates(value), cast(value, "TIMESTAMP"))
        return cast(value, self.stored(node))

    def to_integer(self, node: exp.Expr, source: Type) -> exp.Expr:
        """A number as an integer: PostgreSQL rounds numerics half away from zero, doubles half to even."""
        of, value = self.type(node), self.write(node.this)
        most = SPAN[of]
        if source in INTEGERS:
            within: exp.Expr = exp.Between(this=value, low=number(-most), high=number(most - 1))
        elif of is Type.INT8 and source in FLOATS:
            within = and_(
                exp.GTE(this=value, expression=float_guards.double(str(-most))),
                exp.LT(this=value.copy(), expression=float_guards.double(str(most))),
            )
        else:
            exact = source is Type.NUMERIC
            low, high = (self.plain_text(f"{end}.5", exact) for end in (-most, most - 1))
            least = (exp.GT if exact else exp.GTE)(this=value, expression=low)
            within = and_(least, exp.LT(this=value.copy(), expression=high))
        if source is Type.NUMERIC:
            return when(within, cast(exp.Round(this=value.copy()), self.stored(node)))
        return when(within, cast(value.copy(), self.stored(node)))

    def plain_text(self, text: str, exact: bool) -> exp.Expr:
        """A constant number written as a text."""
        return cast(exp.Literal.string(text), self.exact if exact else "DOUBLE")

    def to_number(self, node: exp.Expr, source: Type, sizes: Sequence[int]) -> exp.Expr:
        value = self.write(node.this)
        if source in FLOATS:
            value = when(
                exp.LT(this=float_guards.size(value), expression=float_guards.double("1e28")),
                self.decimal(value),
            )
        elif source is not Type.NUMERIC:
            value = cast(value, self.exact)
        if not sizes:
            return value
        rounded = exp.Round(this=value, decimals=number(sizes[1] if len(sizes) > 1 else 0))
        most = 10 ** (sizes[0] - (sizes[1] if len(sizes) > 1 else 0))
        return when(exp.LT(this=exp.Abs(this=rounded.copy()), expression=number(most)), rounded)

    def extract(self, node: exp.Expr) -> exp.Expr:
        value, field = self.write(node.expression), node.name.lower()
        found = self.type(node.expression)
        if found in (Type.INTERVAL, Type.AGE, Type.TIME):
            return self.field(value, field)
        if found is Type.DATE:
            moment = cast(value.copy(), "TIMESTAMP") if field == "epoch" else value.copy()
            return when(dates(value), self.field(moment, field))
        return when(calendar(value), self.field(value, field))

    def truncated_time(self, node: exp.Expr) -> exp.Expr:
        value, copy = self.write(node.this), node.copy()
        copy.set("this", cast(value, "TIMESTAMP") if self.type(node.this) is Type.DATE else value)
        return when(dates(value) if self.type(node.this) is Type.DATE else calendar(value), copy)

    def interval(self, node: exp.Expr) -> exp.Expr:
        text = interval_text(node, self.parameters) or ""
        return exp.Cast(this=exp.Literal.string(text), to=exp.DataType(this=exp.DType.INTERVAL))

    def shown(self, node: exp.Expr) -> exp.Expr:
        value = self.write(node.this)
        guard = dates(value) if self.type(node.this) is Type.DATE else calendar(value)
        return when(guard, exp.TimeToStr(this=cast(value, "TIMESTAMP"), format=node.args["format"].copy()))

    def named(self, node: exp.Expr) -> exp.Expr:
        parts = [self.write(e) for e in node.expressions]
        if node.name.lower() == "age":
            ends = [cast(part, "TIMESTAMP") for part in parts]
            finite = and_(*(calendar(part) for part in parts))
            return when(finite, exp.Anonymous(this="AGE", expressions=ends))
        return self.made_date(*parts)

    def made_date(self, year: exp.Expr, month: exp.Expr, day: exp.Expr) -> exp.Expr:
        def divides(by: int) -> exp.Expr:
            return exp.EQ(this=exp.Mod(this=paren(year.copy()), expression=number(by)), expression=number(0))

        leap = or_(and_(divides(4), not_(divides(100))), divides(400))
        short = case((leap, number(29)), otherwise=number(28))
        last = case((exp.EQ(this=month.copy(), expression=number(2)), short))
        months = [number(n) for n in (4, 6, 9, 11)]
        last = last.when(exp.In(this=month.copy(), expressions=months), number(30)).else_(number(31))
        known = [
            exp.Between(this=part.copy(), low=number(1), high=high)
            for part, high in ((year, number(9999)), (month, number(12)), (day, last))
        ]
        parts = [cast(part, "INT") for part in (year, month, day)]
        return when(and_(*known), exp.Anonymous(this="MAKE_DATE", expressions=parts))

    def trim(self, node: exp.Expr) -> exp.Expr:
        characters = node.args.get("expression")
        removed = exp.Literal.string(" ") if characters is None else self.write(characters)
        name = _TRIMS.get(str(node.args.get("position") or ""), self.both)
        return exp.Anonymous(this=name, expressions=[self.write(node.this), removed])

    def side(self, node: exp.Expr) -> exp.Expr:
        """LEFT and RIGHT."""
        return self.parts(node)

    def joined(self, node: exp.Expr) -> exp.Expr:
        concat = isinstance(node, exp.Concat)
        parts = [
            self.joinable(part, concat)
            for part in (node.expressions if concat else [node.this, node.expression])
        ]
        if concat:
            parts = [func("COALESCE", part, exp.Literal.string("")) for part in parts]
        found = parts[0]
        for part in parts[1:]:
            found = exp.DPipe(this=found, expression=part)
        return paren(found)

    def joinable(self, node: exp.Expr, alone: bool) -> exp.Expr:
        value = self.write(node)
        if not isinstance(node, exp.Column) or self.type(node) is not Type.TEXT:
            return cast(value, "TEXT")
        short = exp.LTE(this=exp.Length(this=value.copy()), expression=number(LONGEST_JOINED))
        return when(short, cast(value, "TEXT"))

    def replaced(self, node: exp.Expr) -> exp.Expr:
        value = self.write(node.this)
        short = exp.LTE(this=exp.Length(this=value), expression=number(LONGEST_REPLACED))
        texts = [self.write(node.args[name]) for name in ("expression", "replacement")]
        return when(short, exp.Anonymous(this="REPLACE", expressions=[value.copy(), *texts]))

    def pattern(self, node: exp.Expr) -> str:
        found = regexp.tokens(constant_text(node.expression, self.parameters) or "x") or []
        return regexp.either_case(found) if isinstance(node, exp.RegexpILike) else "".join(found)

    def integer(self, node: exp.Expr) -> exp.Expr:
        """A whole number of 32 bits."""
        return self.write(node) if self.type(node) in INTEGERS else cast(self.write(node), "INT")

    exact = "DECIMAL"
    """The type of exact numbers."""
    knows_nan = True
    """Whether an exact number can be NaN."""
    both = "TRIM"
    """The function that trims both ends."""

    def folding(self, value: exp.Expr) -> exp.Expr:
        """A text whose letters have two cases."""
        return value

    def cased(self, node: exp.Expr) -> exp.Expr:
        """LOWER and UPPER."""
        return type(node)(this=self.write(node.this))

    def bytewise(self, value: exp.Expr) -> exp.Expr:
        """A text that is compared and searched by its bytes, whatever its own collation."""
        return value

    @abstractmethod
    def days_between(self, first: exp.Expr, second: exp.Expr) -> exp.Expr:
        """How many days a date is after another."""

    @abstractmethod
    def half_even(self, value: exp.Expr) -> exp.Expr:
        """A double rounded to the nearest whole number, halves to even ones."""

    @abstractmethod
    def cut_number(self, value: exp.Expr, places: int) -> exp.Expr:
        """An exact number without the digits behind `places`."""

    @abstractmethod
    def decimal(self, value: exp.Expr) -> exp.Expr:
        """A double as the exact number of its first 15 digits."""

    def spelt(self, value: exp.Expr, of: Type) -> exp.Expr:
        """A value of a type as PostgreSQL prints it."""
        return cast(value, "TEXT")

    @abstractmethod
    def stored(self, node: exp.Expr) -> exp.DataType:
        """The engine's type of a cast."""

    @abstractmethod
    def field(self, value: exp.Expr, field: str) -> exp.Expr:
        """EXTRACT of a value of years 1 to 9999, an exact number."""

    @abstractmethod
    def substring(self, node: exp.Expr) -> exp.Expr:
        """SUBSTRING by places."""

    @abstractmethod
    def matched(self, node: exp.Expr) -> exp.Expr:
        """Whether a regular expression is found."""

    def regexp_replaced(self, node: exp.Expr) -> exp.Expr:
        """What a regular expression finds in a text that is not too long, replaced."""
        value = self.write(node.this)
        short = exp.LTE(this=exp.Length(this=value), expression=number(LONGEST_REPLACED))
        texts = [exp.Literal.string(self.pattern(node)), self.write(node.args["replacement"])]
        modifiers = node.args.get("modifiers")
        flags = (
            []
            if modifiers is None
            else [exp.Literal.string(constant_text(modifiers, self.parameters) or "g")]
        )
        parts = [self.bytewise(value.copy()), *texts, *flags]
        return when(short, exp.Anonymous(this="REGEXP_REPLACE", expressions=parts))
