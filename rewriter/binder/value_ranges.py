"""Value ranges: between which bounds an expression lies, from declarations, conditions and its own form.

In:  amount * 2, with amount declared in [-5, 100] with 2 decimals, WHERE amount <= 50
Out: [-10, 100], in multiples of 1/100

Why it exists. The noise of a sum grows with the largest value that a row can add, and the bins of a quantile need two
ends. Both have to be known before anything is read, and narrow ranges make good answers: for any x both of
`LEAST(GREATEST(x, 0), 100)` and `WHERE x BETWEEN 0 AND 100` give [0, 100]. If an end stays unknown, the aggregate is
refused (PV016).

Model. Interval arithmetic with exact fractions. An `Interval` (rewriter/scalar/value_interval.py) holds every value of
the expression that is not NULL, in the rows for which all conditions of the query are true, if the declarations hold.
It goes from `lo` to `hi`, both included, None where an end is unknown. `scale` is the most decimals that a value has,
None for any number; sums are added in fixed point with that scale. Dates count in days since 1970-01-01, timestamps in
seconds since then.

What happens in order, in `Ranges.interval(node)`:
1. If parameters make the expression always NULL, or a condition never true, it is [0, 0]: there is nothing to add.
2. `_interval` computes the range by the form of the expression: a column has what the policy declares (`_declared`), a
   literal is itself, a function or operator has the rule of its row in the registry, which combines the ranges of its
   operands (rewriter/scalar/function_ranges.py). A form without a rule has no ends.
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
- NULL has no value and no range, but it removes operands of GREATEST and LEAST: one bounds the result only where it is
  never NULL (`extreme` of function_ranges.py).
- Conditions are matched by the text of the expression in base form: `x + 1 <= 9` narrows `x + 1` and not `x`.
- OR narrows nothing: only conditions that all rows meet are facts.
- `<` narrows like `<=`. That is one value more than needed, and right for any scale.
- Two ranges that do not meet give one point, not an empty interval: later steps need ends, and no row has the value.
- Before parameters are bound ends may be missing that a value will give (`pending`); such a sum is not refused yet.
- The largest value of an integer type as an end is no declaration (`UNBOUNDED`).
- A quotient has no ends unless the range of its divisor excludes 0.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from sqlglot import exp

from rewriter.binder.contribution_bounds import Bound, rows_per_group
from rewriter.binder.rejections import clamped
from rewriter.effort import spend
from rewriter.ir.relation import Relation, conjuncts, leaves
from rewriter.ir.texts import sql_text
from rewriter.ir.trees import walk
from rewriter.ir.types import INTEGERS, STAMPS, ZONELESS, Type, type_named
from rewriter.policy import UNBOUNDED, Column
from rewriter.refusal import Refusal
from rewriter.scalar.aggregates import AGGREGATES, argument
from rewriter.scalar.functions import BY_TYPE
from rewriter.scalar.nullability import always_null, never_true
from rewriter.scalar.timestamps import DAY
from rewriter.scalar.typecheck import Parameters, type_of
from rewriter.scalar.value_interval import NOTHING, Interval, parsed, written

COMPARED = (exp.EQ, exp.GT, exp.GTE, exp.LT, exp.LTE)


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
            return NOTHING
        found = self._interval(node)
        # A condition compares values with an expression over columns; a constant is its value anyway.
        for fact in self.facts if leaves(node) else ():
            found = self._narrowed(found, fact.unnest(), node)
        return found

    def type_of(self, node: exp.Expr) -> Type:
        """The type of a part."""
        return type_of(node, self.relation, self.parameters)

    def constant(self, node: exp.Expr, of: Type) -> Fraction | None:
        """The value of an expression without columns, converted to the type `of`; None for any other expression."""
        node = node.unnest()
        if leaves(node) or walk(node, exp.Query):
            return None
        if isinstance(node, exp.Literal) and node.is_string:
            return parsed(node.this, of).point
        value, own = self._interval(node).point, self.type_of(node)
        # Which local time a timestamptz is depends on the session, and a text is no number.
        if value is None or {own, of} & {Type.TIMESTAMPTZ, Type.TEXT}:
            return None
        if own is of or not {own, of} & ZONELESS:
            return value
        return value * DAY if (own, of) == (Type.DATE, Type.TIMESTAMP) else value / DAY

    def under(self, condition: exp.Expr) -> Ranges:
        """The same over the rows for which a condition is true as well."""
        return replace(self, facts=(*self.facts, *conjuncts(condition)))

    def pending(self, *nodes: exp.Expr) -> bool:
        """Whether a range may become finite once the values of parameters are known."""
        used = [p for n in (*nodes, *self.facts) for p in walk(n, exp.Parameter)]
        found = (self.parameters[int(p.name) - 1] for p in used)
        return any(p.value is None and not p.null for p in found)

    def _absent(self, node: exp.Expr) -> bool:
        """Whether parameters of the query make `node` always NULL, or one of the conditions never true."""
        if not self.parameters:
            return False

        def point(part: exp.Expr) -> Fraction | None:
            return self.constant(part, self.type_of(part))

        facts = self.facts if leaves(node) else ()
        return always_null(node, self.parameters, point) or any(
            never_true(fact, self.parameters, point) for fact in facts
        )

    def _narrowed(self, found: Interval, fact: exp.Expr, node: exp.Expr) -> Interval:
        """`found`, the range of `node`, narrowed by one condition, if that compares `node` with constants."""
        text, of = sql_text(node), self.type_of(node)
        about = isinstance(fact, (*COMPARED, exp.Between, exp.In)) and sql_text(fact.this.unnest()) == text
        if about and isinstance(fact, exp.Between):
            return found.within(self.constant(fact.args["low"], of), self.constant(fact.args["high"], of))
        if about and isinstance(fact, exp.In):
            values = [self.constant(e, of) for e in fact.expressions]
            known = [v for v in values if v is not None]
            return found.within(min(known), max(known)) if known and len(known) == len(values) else found
        if not isinstance(fact, COMPARED):
            return found
        if about:
            value, turned = self.constant(fact.expression, of), False
        elif sql_text(fact.expression.unnest()) == text:
            value, turned = self.constant(fact.this, of), True
        else:
            return found
        above = isinstance(fact, (exp.LT, exp.LTE) if turned else (exp.GT, exp.GTE))
        below = isinstance(fact, (exp.GT, exp.GTE) if turned else (exp.LT, exp.LTE))
        return found.within(None if below else value, None if above else value)

    def _interval(self, node: exp.Expr) -> Interval:
        if isinstance(node, exp.Paren):
            return self.interval(node.this)
        if isinstance(node, exp.Literal):
            return written(node.this)
        if isinstance(node, exp.Parameter):
            parameter = self.parameters[int(node.name) - 1]
            return parsed(parameter.value, type_named(parameter.type))
        if isinstance(node, exp.Column):
            column = self.relation.source(node.table).column(node.name)
            found, size = _declared(column), column.magnitude if self.guessed else None
            return found if size is None or found.lo is not None else replace(found, lo=-size, hi=size)
        if isinstance(node, (exp.Min, exp.Max, exp.Avg)):
            inner = self.interval(node.this)
            return replace(inner, scale=None) if isinstance(node, exp.Avg) else inner
        function = BY_TYPE.get(type(node))
        return Interval() if function is None or function.range is None else function.range(node, self)


def bounded(value: exp.Expr, shown: str, relation: Relation, parameters: Parameters) -> str:
    """The text of a base form for a hint: as it is `shown`, between bounds where nothing else bounds it."""
    found = Ranges.of(relation, parameters).interval(value)
    unknown = found.lo is None or found.hi is None
    return clamped(shown, type_of(value, relation, parameters)) if unknown else shown


def of_aggregate(call: exp.Expr, relation: Relation, parameters: Parameters) -> Interval:
    """The range of an exact aggregate or window function over the rows of one unit, by their declared number."""
    try:
        most = Fraction(rows_per_group(relation, Bound(1, False)))
    except Refusal:
        most = None
    rule = AGGREGATES[type(call)].range
    if rule is None:
        return Interval()
    read = Ranges.of(relation, parameters).interval(argument(call)) if call.this else Interval()
    return rule(read, most)


def _declared(column: Column) -> Interval:
    found = type_named(column.type)
    scale = _scale(column, found)
    if column.bounds is not None:
        return Interval(*column.bounds, scale)
    if column.ends != (None, None):
        return Interval(*column.ends, scale)
    if column.range is not None:
        first, last = (None if e in UNBOUNDED else parsed(e, found).point for e in column.range)
        return Interval(first, last, scale)
    values = [parsed(e, found).point for e in column.domain or ()]
    known = [v for v in values if v is not None]
    return (
        Interval(min(known), max(known), scale)
        if known and len(known) == len(values)
        else Interval(scale=scale)
    )


def _scale(column: Column, found: Type) -> int | None:
    if column.scale is not None:
        return column.scale
    if found in INTEGERS or found is Type.DATE:
        return 0
    if found in STAMPS:
        return 6
    _, comma, digits = column.type.removesuffix(")").partition(",")
    return int(digits) if comma and digits.isdigit() else None
