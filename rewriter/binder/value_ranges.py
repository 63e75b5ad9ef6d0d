"""Value ranges: between which bounds an expression lies, from declarations, conditions and its own form.

In:  amount * 2, with amount declared in [-5, 100] with 2 decimals, WHERE amount <= 50
Out: [-10, 100], in multiples of 1/100

Why it exists. The noise of a sum grows with the largest value that a row can add, and the bins of a quantile need two
ends. Both have to be known before anything is read, and narrow ranges make good answers: for any x both of
`LEAST(GREATEST(x, 0), 100)` and `WHERE x BETWEEN 0 AND 100` give [0, 100]. If an end stays unknown, the aggregate is
refused (PV016).

Model. Interval arithmetic with exact fractions. An `Interval` holds every value of the expression that is not NULL, in
the rows for which all conditions of the query are true, if the declarations hold. It goes from `lo` to `hi`, both
included, None where an end is unknown. `scale` is the most decimals that a value has, None for any number; sums are
added in fixed point with that scale. Dates count in days since 1970-01-01, timestamps in seconds since then.

What happens in order, in `Ranges.interval(node)`:
1. If parameters make the expression always NULL, or a condition never true, it is [0, 0]: there is nothing to add.
2. `_interval` computes the range by the form of the expression: a column has what the policy declares (`_declared`), a
   literal is itself, an operator combines the ranges of its operands. A form that is not known has no ends.
3. Each condition that compares this very expression with constants narrows the range (`_narrowed`).

Step 3 applies to every part on the way up, because each operand is an `interval` of its own.

Example. With `quantity` not declared:

    SUM(LEAST(GREATEST(quantity, 0), 9) * 2)
        quantity: no ends. GREATEST with 0: at least 0. LEAST with 9: [0, 9]. Times 2: [0, 18], scale 0.
    SUM(CASE WHEN quantity BETWEEN 1 AND 3 THEN quantity ELSE 0 END)
        in the branch the condition is true: [1, 3]. ELSE gives [0, 0]. The union: [0, 3].
    SUM(quantity) ... WHERE quantity <= 5
        no lower end: PV016.

Invariants.
1. A range depends on policy, text, parameters and constants: never on data. So does the noise.
2. The backend's SQL clamps values to the range (rewriter/emit/enforcement.md, Theorem 3). A range that is too narrow
   changes the answer, not the privacy; one that is too wide adds noise.
3. A wider range is always right. Where a rule is in doubt it returns None for that end.

Traps.
- NULL has no value and no range, but it removes operands: GREATEST(x, 0) is 0 for a NULL x, and LEAST(x, 9) bounds from
  above only. So an operand bounds the result only where it is never NULL (`_extreme`, `_never_null`).
- Conditions are matched by the text of the expression in base form: `x + 1 <= 9` narrows `x + 1` and not `x`.
- OR narrows nothing: only conditions that all rows meet are facts.
- `<` narrows like `<=`. That is one value more than needed, and right for any scale.
- Two ranges that do not meet give one point, not an empty interval: later steps need ends, and no row has the value.
- Before parameters are bound ends may be missing that a value will give (`pending`); such a sum is not refused yet.
- The largest value of an integer type as an end is no declaration (`UNBOUNDED`).
- A quotient has no ends unless the range of its divisor excludes 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, floor

from sqlglot import exp

from rewriter.binder.contribution_bounds import Bound, rows_per_group
from rewriter.effort import spend
from rewriter.ir.relation import Relation, conjuncts, leaves
from rewriter.policy import UNBOUNDED, Column
from rewriter.refusal import Refusal
from rewriter.scalar.kinds import CASTS, kind_of_type
from rewriter.scalar.nullability import always_null, never_true
from rewriter.scalar.timestamps import DAY, moment_of, truncated, year_of
from rewriter.scalar.typecheck import Parameters, kind
from rewriter.syntax.allowlist import EXTRACTED

End = Fraction | None
COMPARED = (exp.EQ, exp.GT, exp.GTE, exp.LT, exp.LTE)


@dataclass(frozen=True)
class Interval:
    """From `lo` to `hi`, both included, None without end; values are multiples of 10^-scale, of any number if None."""

    lo: End = None
    hi: End = None
    scale: int | None = None

    @property
    def point(self) -> Fraction | None:
        """The only value of the interval, or None if there are others."""
        return self.lo if self.lo is not None and self.lo == self.hi else None

    def within(self, lo: End, hi: End) -> Interval:
        """The intersection; the lower end of the two where they do not meet."""
        found = replace(self, lo=_extreme(max, self.lo, lo), hi=_extreme(min, self.hi, hi))
        apart = found.lo is not None and found.hi is not None and found.lo > found.hi
        return replace(self, lo=found.lo, hi=found.lo) if apart else found


@dataclass(frozen=True)
class Ranges:
    """Computes ranges of expressions, over the rows of `relation` for which all of `facts` are true.

    `guessed`: a column without ends has those that its `magnitude` says; such a range bounds nothing.
    """

    relation: Relation
    parameters: Parameters
    facts: tuple[exp.Expr, ...] = ()
    guessed: bool = False

    @staticmethod
    def of(relation: Relation, parameters: Parameters, argument: exp.Expr | None = None) -> Ranges:
        """Ranges over the rows that meet the relation's conditions and `argument`, an aggregate's FILTER."""
        return Ranges(relation, parameters, (*relation.met, *conjuncts(argument)))

    def interval(self, node: exp.Expr) -> Interval:
        """The range of an expression's values that are not NULL; [0, 0] where constants leave no such value."""
        spend()
        node = node.unnest()
        if self._absent(node):
            return _union(())
        found = self._interval(node)
        # A condition compares values with an expression over columns; a constant is its value anyway.
        for fact in self.facts if leaves(node) else ():
            found = self._narrowed(found, fact.unnest(), node)
        return found

    def pending(self, *nodes: exp.Expr) -> bool:
        """Whether a range may become finite once the values of parameters are known."""
        used = [p for n in (*nodes, *self.facts) for p in n.find_all(exp.Parameter)]
        found = (self.parameters[int(p.name) - 1] for p in used)
        return any(p.value is None and not p.null for p in found)

    def _absent(self, node: exp.Expr) -> bool:
        """Whether parameters of the query make `node` always NULL, or one of the conditions never true."""
        if not self.parameters:
            return False

        def point(part: exp.Expr) -> Fraction | None:
            return self._constant(part, kind(part, self.relation, self.parameters))

        facts = self.facts if leaves(node) else ()
        return always_null(node, self.parameters, point) or any(
            never_true(fact, self.parameters, point) for fact in facts
        )

    def _narrowed(self, found: Interval, fact: exp.Expr, node: exp.Expr) -> Interval:
        """`found`, the range of `node`, narrowed by one condition, if that compares `node` with constants."""
        text, of = node.sql(), kind(node, self.relation, self.parameters)
        about = isinstance(fact, (*COMPARED, exp.Between, exp.In)) and fact.this.unnest().sql() == text
        if about and isinstance(fact, exp.Between):
            return found.within(self._constant(fact.args["low"], of), self._constant(fact.args["high"], of))
        if about and isinstance(fact, exp.In):
            values = [self._constant(e, of) for e in fact.expressions]
            known = [v for v in values if v is not None]
            return found.within(min(known), max(known)) if known and len(known) == len(values) else found
        if not isinstance(fact, COMPARED):
            return found
        if about:
            value, turned = self._constant(fact.expression, of), False
        elif fact.expression.unnest().sql() == text:
            value, turned = self._constant(fact.this, of), True
        else:
            return found
        above = isinstance(fact, (exp.LT, exp.LTE) if turned else (exp.GT, exp.GTE))
        below = isinstance(fact, (exp.GT, exp.GTE) if turned else (exp.LT, exp.LTE))
        return found.within(None if below else value, None if above else value)

    def _constant(self, node: exp.Expr, of: str) -> Fraction | None:
        """The value of an expression without columns, converted to the kind `of`; None for any other expression."""
        node = node.unnest()
        if leaves(node) or node.find(exp.Query):
            return None
        if isinstance(node, exp.Literal) and node.is_string:
            return _parsed(node.this, of).point
        value, own = self._interval(node).point, kind(node, self.relation, self.parameters)
        # Which local time a timestamptz is depends on the session, and a text is no number.
        if value is None or {own, of} & {"timestamptz", "text"}:
            return None
        if own == of or not {own, of} & {"date", "timestamp"}:
            return value
        return value * DAY if (own, of) == ("date", "timestamp") else value / DAY

    def _interval(self, node: exp.Expr) -> Interval:
        if isinstance(node, exp.Paren):
            return self.interval(node.this)
        if isinstance(node, exp.Literal):
            return _written(node.this)
        if isinstance(node, exp.Parameter):
            parameter = self.parameters[int(node.name) - 1]
            return _parsed(parameter.value, kind_of_type(parameter.type))
        if isinstance(node, exp.Column):
            column = self.relation.source(node.table).column(node.name)
            found, size = _declared(column), column.magnitude if self.guessed else None
            return found if size is None or found.lo is not None else replace(found, lo=-size, hi=size)
        if isinstance(node, (exp.Greatest, exp.Least)):
            return self._extreme(node)
        if isinstance(node, exp.Case):
            return self._case(node)
        if isinstance(node, exp.Coalesce):
            return _union([self.interval(e) for e in (node.this, *node.expressions)])
        if isinstance(node, (exp.Nullif, exp.Min, exp.Max, exp.Avg)):
            inner = self.interval(node.this)
            return replace(inner, scale=None) if isinstance(node, exp.Avg) else inner
        if isinstance(node, (exp.Cast, exp.TimestampTrunc, exp.DateTrunc, exp.Extract)):
            return self._converted(node)
        return self._computed(node)

    def _computed(self, node: exp.Expr) -> Interval:
        if isinstance(node, exp.Neg):
            return _negated(self.interval(node.this))
        if isinstance(node, exp.Abs):
            inner = self.interval(node.this)
            ends = [None if e is None else abs(e) for e in (inner.lo, inner.hi)]
            apart = inner.lo is not None and inner.lo > 0, inner.hi is not None and inner.hi < 0
            least = ends[0] if apart[0] else ends[1] if apart[1] else Fraction(0)
            return Interval(
                least, None if None in ends else max(e for e in ends if e is not None), inner.scale
            )
        if isinstance(node, (exp.Floor, exp.Ceil)):
            return _whole(self.interval(node.this))
        if isinstance(node, exp.Length):
            return Interval(Fraction(0), None, 0)
        if isinstance(node, exp.Add):
            return _sum(self.interval(node.this), self.interval(node.expression))
        if isinstance(node, exp.Sub):
            return _sum(self.interval(node.this), _negated(self.interval(node.expression)))
        if isinstance(node, exp.Mul):
            return _product(self.interval(node.this), self.interval(node.expression))
        if isinstance(node, exp.Div):
            return self._quotient(node)
        if isinstance(node, exp.Mod):
            divisor = self.interval(node.expression).point
            size = None if divisor is None else abs(divisor)
            dividend = self.interval(node.this)
            least = (
                Fraction(0)
                if dividend.lo is not None and dividend.lo >= 0
                else None
                if size is None
                else -size
            )
            return Interval(least, size, dividend.scale)
        return Interval()

    def _quotient(self, node: exp.Div) -> Interval:
        divisor = self.interval(node.expression)
        if divisor.lo is None or divisor.hi is None or divisor.lo <= 0 <= divisor.hi:
            return Interval()
        inverse = Interval(1 / divisor.hi, 1 / divisor.lo)
        found = _product(self.interval(node.this), inverse)
        integers = kind(node, self.relation, self.parameters) == "int"
        return _whole(found) if integers else replace(found, scale=None)

    def _extreme(self, node: exp.Greatest | exp.Least) -> Interval:
        """GREATEST and LEAST ignore NULL: only an operand that is never NULL is sure to bound the result."""
        of = kind(node, self.relation, self.parameters)
        parts = [(p, self._compared(p, of)) for p in (node.this, *node.expressions)]
        whole = _union([found for _, found in parts])
        sure = [found for p, found in parts if self._never_null(p, of)]
        if isinstance(node, exp.Greatest):
            return replace(whole, lo=_extreme(max, whole.lo, *(s.lo for s in sure)))
        return replace(whole, hi=_extreme(min, whole.hi, *(s.hi for s in sure)))

    def _compared(self, node: exp.Expr, of: str) -> Interval:
        """The range of an expression as values of the kind `of`."""
        value = self._constant(node, of)
        found = self.interval(node)
        if value is None:
            return found
        return Interval(value, value, 0 if of in ("date", "timestamp") else found.scale)

    def _never_null(self, node: exp.Expr, of: str) -> bool:
        node = node.unnest()
        if isinstance(node, (exp.Greatest, exp.Least, exp.Coalesce)):
            return any(self._never_null(p, of) for p in (node.this, *node.expressions))
        return self._constant(node, of) is not None

    def _case(self, node: exp.Case) -> Interval:
        found = []
        for branch in node.args["ifs"]:
            # `CASE x WHEN 1` has values in place of conditions.
            facts = () if node.this else conjuncts(branch.this)
            under = replace(self, facts=(*self.facts, *facts))
            found.append(under.interval(branch.args["true"]))
        default = node.args.get("default")
        if default is not None:
            found.append(self.interval(default))
        nulls = [isinstance(i.args["true"].unnest(), exp.Null) for i in node.args["ifs"]]
        nulls.append(default is not None and isinstance(default.unnest(), exp.Null))
        return _union([f for f, null in zip(found, nulls, strict=False) if not null])

    def _converted(self, node: exp.Expr) -> Interval:
        if isinstance(node, exp.Extract):
            field = node.name.lower()
            span = EXTRACTED.get(field)
            if span is not None:
                return Interval(Fraction(span[0]), Fraction(span[1]), 0)
            inner = self._seconds(node.expression)
            if field not in ("year", "isoyear") or inner.lo is None or inner.hi is None:
                return Interval()
            # The ISO year of a day differs from its year by one at most, around New Year.
            near = 1 if field == "isoyear" else 0
            return Interval(Fraction(year_of(inner.lo) - near), Fraction(year_of(inner.hi) + near), 0)
        if isinstance(node, exp.Cast):
            return self._cast(node)
        inner = self._seconds(node.this)
        unit = node.args["unit"].name.lower()
        least = None if inner.lo is None else truncated(inner.lo, unit)
        return Interval(least, inner.hi, 0)

    def _seconds(self, node: exp.Expr) -> Interval:
        inner = self.interval(node)
        if kind(node, self.relation, self.parameters) == "date":
            ends = [None if e is None else e * DAY for e in (inner.lo, inner.hi)]
            return Interval(ends[0], ends[1], 0)
        return inner

    def _cast(self, node: exp.Cast) -> Interval:
        source, target = kind(node.this, self.relation, self.parameters), CASTS.get(node.to.this)
        literal = node.this.unnest()
        if isinstance(literal, exp.Literal) and literal.is_string:
            return _parsed(literal.this, target or "")
        inner = self.interval(node.this)
        if target == "date" and source == "timestamp":
            ends = [None if e is None else Fraction(floor(e / DAY)) for e in (inner.lo, inner.hi)]
            return Interval(ends[0], ends[1], 0)
        if target == "timestamp":
            return self._seconds(node.this)
        if source == "bool":
            return Interval(Fraction(0), Fraction(1), 0)
        if target == "int":
            return _whole(inner)
        return inner if target in ("float", "number", "date") else Interval()


def of_aggregate(call: exp.Expr, relation: Relation, parameters: Parameters) -> Interval:
    """The range of an exact aggregate or window function over the rows of one unit, by their declared number."""
    try:
        most = Fraction(rows_per_group(relation, Bound(1, False)))
    except Refusal:
        most = None
    if isinstance(call, (exp.Count, exp.RowNumber, exp.Rank, exp.DenseRank)):
        return Interval(Fraction(0 if isinstance(call, exp.Count) else 1), most, 0)
    if not isinstance(call, (exp.Sum, exp.Avg, exp.Min, exp.Max)):
        return Interval()
    value = call.this.expressions[0] if isinstance(call.this, exp.Distinct) else call.this
    found = Ranges.of(relation, parameters).interval(value)
    if not isinstance(call, exp.Sum):
        return replace(found, scale=None) if isinstance(call, exp.Avg) else found
    # Down to no rows with a value: 0 is among the sums.
    lo = None if found.lo is None else min(found.lo, Fraction(0))
    hi = None if found.hi is None else max(found.hi, Fraction(0))
    return Interval(_times(lo, most), _times(hi, most), found.scale)


def _times(end: End, most: Fraction | None) -> End:
    """The end of a sum of at most so many values, None of any number."""
    if not end:
        return end
    return None if most is None else end * most


def _extreme(choose: Callable[[list[Fraction]], Fraction], *ends: End) -> End:
    known = [e for e in ends if e is not None]
    return choose(known) if known else None


def _negated(one: Interval) -> Interval:
    ends = [None if e is None else -e for e in (one.hi, one.lo)]
    return Interval(ends[0], ends[1], one.scale)


def _finest(*parts: Interval) -> int | None:
    return None if any(p.scale is None for p in parts) else max(p.scale or 0 for p in parts)


def _sum(left: Interval, right: Interval) -> Interval:
    lo = None if left.lo is None or right.lo is None else left.lo + right.lo
    hi = None if left.hi is None or right.hi is None else left.hi + right.hi
    return Interval(lo, hi, _finest(left, right))


def _product(left: Interval, right: Interval) -> Interval:
    scale = None if left.scale is None or right.scale is None else left.scale + right.scale
    for one, other in ((left, right), (right, left)):
        factor = one.point
        if factor is not None:
            low, high = (None if e is None else e * factor for e in (other.lo, other.hi))
            if factor == 0:
                return Interval(factor, factor, 0)
            return Interval(low, high, scale) if factor > 0 else Interval(high, low, scale)
    ends = [left.lo, left.hi, right.lo, right.hi]
    if None in ends:
        return Interval(scale=scale)
    products = [
        a * b for a in (left.lo, left.hi) for b in (right.lo, right.hi) if a is not None and b is not None
    ]
    return Interval(min(products), max(products), scale)


def _union(parts: Sequence[Interval]) -> Interval:
    if not parts:
        return Interval(Fraction(0), Fraction(0), 0)
    lows, highs = [p.lo for p in parts], [p.hi for p in parts]
    lo = None if None in lows else min(e for e in lows if e is not None)
    hi = None if None in highs else max(e for e in highs if e is not None)
    return Interval(lo, hi, _finest(*parts))


def _whole(one: Interval) -> Interval:
    """The integers that values may be rounded to, up or down."""
    lo = None if one.lo is None else Fraction(floor(one.lo))
    return Interval(lo, None if one.hi is None else Fraction(ceil(one.hi)), 0)


def _written(text: str) -> Interval:
    try:
        value = Fraction(text)
    except (ValueError, ZeroDivisionError):
        return Interval()
    return Interval(value, value, len(text.partition(".")[2]) if "e" not in text.lower() else None)


def _parsed(text: str | None, found: str) -> Interval:
    """A constant's text as a value of a kind: a date as a number of days, or as a timestamp at the day's begin."""
    if text is None:
        return Interval()
    if found in ("date", "timestamp", "timestamptz"):
        moment = moment_of(text)
        if moment is None:
            return Interval()
        value = moment if found != "date" else Fraction(floor(moment / DAY))
        return Interval(value, value, 0)
    return _written(text) if found in ("int", "number", "float") else Interval()


def _declared(column: Column) -> Interval:
    found = kind_of_type(column.type)
    scale = _scale(column, found)
    if column.bounds is not None:
        return Interval(*column.bounds, scale)
    if column.ends != (None, None):
        return Interval(*column.ends, scale)
    if column.range is not None:
        first, last = (None if e in UNBOUNDED else _parsed(e, found).point for e in column.range)
        return Interval(first, last, scale)
    values = [_parsed(e, found).point for e in column.domain or ()]
    known = [v for v in values if v is not None]
    return (
        Interval(min(known), max(known), scale)
        if known and len(known) == len(values)
        else Interval(scale=scale)
    )


def _scale(column: Column, found: str) -> int | None:
    if column.scale is not None:
        return column.scale
    if found in ("int", "date"):
        return 0
    if found == "timestamp":
        return 6
    _, comma, digits = column.type.removesuffix(")").partition(",")
    return int(digits) if comma and digits.isdigit() else None
