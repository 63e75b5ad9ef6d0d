"""Aggregate calls over private rows: what each of them computes, independently of the groups.

In:  SUM(0.95 * CASE WHEN action = 'buy' THEN amount ELSE 0 END) FILTER (WHERE amount < 50)
Out: 0.95 times the sum of amount over rows WHERE amount < 50 AND action = 'buy'
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction

from sqlglot import exp

from rewriter.binder.composite_units import by_unit
from rewriter.binder.names import resolve
from rewriter.binder.rejections import stored_column, top_values, unit_name
from rewriter.binder.suggestions import counted_values
from rewriter.binder.value_ranges import bounded
from rewriter.effort import PARSED, spend
from rewriter.ir.measure import Function
from rewriter.ir.relation import Relation, events_of, is_event, is_inner_unit, is_unit, leaves
from rewriter.ir.types import DATED, NUMBERS, Type
from rewriter.refusal import Refusal
from rewriter.scalar.aggregates import AGGREGATES
from rewriter.scalar.constant_factor import constant_of, scaled
from rewriter.scalar.typecheck import Parameters, check, check_condition, check_order, type_of
from rewriter.scalar.unsupported import SUPPORTED, available, no_such_function, unavailable
from rewriter.syntax.allowlist import describe, own_parts, position
from rewriter.syntax.desugar_rows import plain_lists
from rewriter.syntax.pasted import instead, written

ORDERED = NUMBERS | DATED


@dataclass(frozen=True)
class Call:
    """An aggregate call: `function` of `values` over the rows whose `argument` is true (None: all), times `factor`.

    count without values is of rows, `units` of units; count of values is of different ones among a unit's rows,
    distinct among all. `fraction` is the quantile that is asked for; `text` the call in base form; `node` the client's.
    """

    function: Function
    text: exp.Expr
    argument: exp.Expr | None
    values: tuple[exp.Expr, ...] = ()
    factor: Fraction = Fraction(1)
    fraction: Fraction | None = None
    units: bool = False
    node: exp.Expr | None = field(default=None, compare=False)

    @property
    def at(self) -> int | None:
        """Where the call begins in the client's text."""
        return None if self.node is None else position(self.node)


def read_call(node: exp.Expr, relation: Relation, parameters: Parameters, clips: bool) -> Call:
    """Read an aggregate call with its FILTER; with `clips`, different events are counted unit by unit.

    Raises Refusal: PV018 for aggregates without a mechanism, 42883 and 42803 for calls that PostgreSQL refuses.
    """
    spend(PARSED)
    call, condition = node, None
    if isinstance(node, exp.Filter):
        call, condition = node.this, resolve(plain_lists(node.expression.this), relation)
        check_condition(condition, relation, parameters)
    order = call.expression if isinstance(call, exp.WithinGroup) else None
    function = call.this if isinstance(call, exp.WithinGroup) else call
    _refuse_nested(function, order)
    reader = _CallReader(relation, parameters, condition, position(node), clips)
    return replace(_read(reader, call, order), node=node)


def argument(call: exp.Expr) -> exp.Expr:
    """The argument of an aggregate call without FILTER.

    >>> argument(exp.Sum(this=exp.column("x"))).sql()
    'x'
    """
    if isinstance(call, exp.WithinGroup):
        return argument(call.expression.expressions[0])
    value: exp.Expr = call.this
    if isinstance(value, exp.Distinct):
        value = value.expressions[0]
    return argument(value) if isinstance(value, exp.Order) else value


def _read(reader: _CallReader, call: exp.Expr, order: exp.Expr | None) -> Call:
    function = call.this if isinstance(call, exp.WithinGroup) else call
    if isinstance(function, exp.Count):
        return reader.count(function)
    known = AGGREGATES.get(type(function))
    if known is not None and known.released is not None:
        return reader.sum(function, known.released)
    if isinstance(function, (exp.Min, exp.Max)) and not function.expressions:
        return reader.extreme(function)
    if isinstance(function, (exp.PercentileCont, exp.PercentileDisc)) and order is not None:
        return reader.percentile(function, order)
    raise unavailable(call, reader.instead_of(call))


def _refuse_nested(function: exp.Expr, order: exp.Expr | None) -> None:
    for part in (*function.iter_expressions(), *([order] if order is not None else [])):
        inner = next((n for n in own_parts(part) if isinstance(n, (exp.AggFunc, exp.Window))), None)
        if inner is not None:
            what = "window function" if isinstance(inner, exp.Window) else "aggregate function"
            raise Refusal(
                "42803",
                f"{what} calls cannot be nested in aggregate functions",
                hint="Aggregate in a subquery, and its result outside.",
                position=position(inner),
            )


@dataclass
class _CallReader:
    relation: Relation
    parameters: Parameters
    condition: exp.Expr | None
    at: int | None
    clips: bool

    def value(self, node: exp.Expr) -> exp.Expr:
        """The base form of an argument; CASE WHEN c THEN x END is x over the rows where c."""
        value = resolve(node, self.relation).unnest()
        check(value, self.relation, self.parameters)
        branch = _only_branch(value)
        if branch is not None and _is_null(value.args.get("default")):
            self.condition = conjunction(self.condition, branch.this)
            value = branch.args["true"].unnest()
        return value

    def instead_of(self, call: exp.Expr) -> str | None:
        """A hint to what stands for an aggregate without a mechanism, None where nothing does."""
        function = call.this if isinstance(call, exp.WithinGroup) else call
        if isinstance(function, exp.Median):
            # The parser's text of MEDIAN is what is suggested.
            shown, value = written(function.this), self.value(function.this)
            within = bounded(value, shown, self.relation, self.parameters)
            return f"Write {instead(f'PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY {within})', f'MEDIAN({shown})')}."
        if isinstance(function, (exp.LogicalAnd, exp.LogicalOr)) and not isinstance(call.parent, exp.Filter):
            unit, condition = unit_name(self.relation), written(function.this)
            condition = condition if isinstance(function, exp.LogicalOr) else f"NOT ({condition})"
            counted = f"COUNT(DISTINCT {unit}) FILTER (WHERE {condition})"
            return None if unit is None else f"Count the units, e.g. {instead(counted, written(call))}."
        if isinstance(function, (exp.Mode, exp.ArrayAgg, exp.GroupConcat)):
            value = resolve(argument(call).copy(), self.relation).unnest()
            column = stored_column(value, self.relation)
            if column is None or column[1] in events_of(column[0]):
                return None
            select = call.parent_select
            listed = select and counted_values(select, argument(call), unit_name(self.relation))
            return f"Ask for its values: `{listed or top_values(*column)}`."
        return None

    def type_of(self, value: exp.Expr) -> Type:
        return type_of(value, self.relation, self.parameters)

    def count(self, node: exp.Count) -> Call:
        if isinstance(node.this, exp.Distinct):
            return self._distinct(node.this)
        if node.this is None or node.expressions:
            raise no_such_function("count", "with these arguments", self.at)
        if not isinstance(node.this, exp.Star):
            value = self.value(node.this)
            self.condition = conjunction(self.condition, present(value, self.relation))
        return Call("count", _counted(), self.condition)

    def _distinct(self, node: exp.Distinct) -> Call:
        if len(node.expressions) != 1:
            listed = ", ".join(map(written, node.expressions))
            new, old = f"COUNT(DISTINCT ({listed}))", f"COUNT(DISTINCT {listed})"
            raise no_such_function("count", "with several arguments", self.at, f"Write {instead(new, old)}.")
        item = node.expressions[0]
        if isinstance(item, exp.Tuple):
            values = tuple(by_unit([self.value(e) for e in self._fields(item)], self.relation))
            check_order(values, self.relation, self.parameters, item)
            owned = [is_inner_unit(v, self.relation) for v in values]
            if not all(owned):
                return self._items(values, apart=any(owned))
        else:
            values = (self.value(item),)
            check_order(values, self.relation, self.parameters, item)
            self.condition = conjunction(self.condition, present(values[0], self.relation))
            if not is_unit(values[0], self.relation):
                return self._items(values, apart=False)
        return Call("count", _counted(), self.condition, units=True)

    def _items(self, values: tuple[exp.Expr, ...], *, apart: bool) -> Call:
        """How many different items there are; `apart`: no two units share one, so that each unit's are counted."""
        apart = apart or (self.clips and any(is_event(v, self.relation) for v in values))
        return Call("count" if apart else "distinct", _counted(), self.condition, values)

    def _fields(self, item: exp.Tuple) -> list[exp.Expr]:
        for part in item.expressions:
            if _only_branch(part.unnest()) is not None:
                raise available("COUNT(DISTINCT ...) of a row value with CASE in it", self.at)
        return list(item.expressions)

    def sum(self, node: exp.Expr, function: Function) -> Call:
        """Sums and what is made of them; of differences of times in seconds."""
        if isinstance(node.this, exp.Distinct):
            raise unavailable(node, form="DISTINCT")
        if isinstance(node.this, exp.Star) or node.this is None:
            raise no_such_function(describe(node).removeprefix("function "), "of no argument", self.at)
        value = self.value(node.this)
        text = type(node)(this=value.copy())
        if self.type_of(value) is Type.INTERVAL and isinstance(node, (exp.Sum, exp.Avg)):
            if not isinstance(value, exp.Sub):
                raise unavailable(node, form="intervals that are no differences of times")
            value = exp.Extract(this=exp.var("EPOCH"), expression=value)
        if self.type_of(value) not in NUMBERS:
            raise no_such_function(
                describe(node).removeprefix("function "),
                f"of {self.type_of(value).family}",
                self.at,
                "Aggregate numbers.",
            )
        if function == "sum":
            return self._sum(value, text)
        core, factor = scaled(value, self.type_of)
        return Call(function, text, self.condition, (core,), factor)

    def _sum(self, value: exp.Expr, text: exp.Expr) -> Call:
        """SUM, where rows that add 0 need not be counted; a sum of a constant is a count."""
        core, factor = scaled(value, self.type_of)
        branch = _only_branch(core)
        while branch is not None and (
            _is_null(core.args.get("default")) or _is_zero(core.args.get("default"))
        ):
            self.condition = conjunction(self.condition, branch.this)
            core, more = scaled(branch.args["true"].unnest(), self.type_of)
            factor *= more
            branch = _only_branch(core)
        constant = constant_of(core)
        if constant is not None:
            return Call("count", text, self.condition, factor=factor * constant)
        return Call("sum", text, self.condition, (core,), factor)

    def extreme(self, node: exp.Expr) -> Call:
        """MIN and MAX are the quantiles 0 and 1; of texts they are read off the list of those that are released."""
        if isinstance(node.this, exp.Distinct):
            node = type(node)(this=node.this.expressions[0])
        value = self.value(node.this)
        if self.type_of(value) is Type.TEXT and leaves(value):
            return Call("extreme", type(node)(this=value.copy()), self.condition, (value,))
        fraction = Fraction(0 if isinstance(node, exp.Min) else 1)
        return self._quantile("disc", type(node)(this=value.copy()), value, fraction)

    def percentile(self, node: exp.Expr, order: exp.Expr) -> Call:
        if len(order.expressions) != 1 or node.this is None:
            raise no_such_function(describe(node).removeprefix("function "), "with these arguments", self.at)
        ordered = order.expressions[0]
        value = self.value(ordered.this)
        fraction = self._fraction(node, order)
        if fraction is not None and ordered.args.get("desc"):
            fraction = 1 - fraction
        function: Function = "cont" if isinstance(node, exp.PercentileCont) else "disc"
        if function == "cont" and self.type_of(value) not in NUMBERS:
            raise no_such_function(
                "percentile_cont",
                f"of {self.type_of(value).family}",
                self.at,
                _discrete(node, order) if self.type_of(value) in DATED else SUPPORTED,
            )
        inner = exp.Order(expressions=[exp.Ordered(this=value.copy())])
        text = exp.WithinGroup(this=type(node)(this=node.this.copy()), expression=inner)
        return self._quantile(function, text, value, fraction)

    def _quantile(
        self, function: Function, text: exp.Expr, value: exp.Expr, fraction: Fraction | None
    ) -> Call:
        if self.type_of(value) not in ORDERED:
            raise available(f"{describe(text)} of {self.type_of(value).family}", self.at)
        return Call(function, text, self.condition, (value,), fraction=fraction)

    def _fraction(self, function: exp.Expr, order: exp.Expr) -> Fraction | None:
        """The quantile that is wanted; None for a parameter whose value is not known yet."""
        node = resolve(function.this, self.relation).unnest()
        if isinstance(node, exp.Parameter):
            text = self.parameters[int(node.name) - 1].value
        else:
            text = node.this if isinstance(node, exp.Literal) else "?"
        if text is None:
            return None
        try:
            fraction = Fraction(text)
        except (ValueError, ZeroDivisionError):
            raise Refusal(
                "PV018",
                "a percentile that is no plain number has no differentially private implementation",
                hint=f"Ask for each percentile by itself, e.g. {_at_half(function, order)}; percentiles of one column "
                "are paid for once.",
                position=self.at,
            ) from None
        if not 0 <= fraction <= 1:
            raise Refusal("22003", "percentile value is not between 0 and 1", position=self.at)
        return fraction


def _at_half(function: exp.Expr, order: exp.Expr) -> str:
    """A hint to the median in place of a percentile."""
    half = type(function)(this=exp.Literal.number("0.5"))
    return _instead_of_percentile(half, function, order)


def _discrete(function: exp.Expr, order: exp.Expr) -> str:
    """A hint to PERCENTILE_DISC in place of PERCENTILE_CONT."""
    return f"Write {_instead_of_percentile(exp.PercentileDisc(this=function.this.copy()), function, order)}."


def _instead_of_percentile(new: exp.Expr, old: exp.Expr, order: exp.Expr) -> str:
    pair = (exp.WithinGroup(this=f.copy(), expression=order.copy()) for f in (new, old))
    return instead(*map(written, pair))


def _counted() -> exp.Expr:
    return exp.Count(this=exp.Star())


def _only_branch(value: exp.Expr) -> exp.If | None:
    """The branch of CASE WHEN ... THEN ... [ELSE ...] END with one condition."""
    if isinstance(value, exp.Case) and value.this is None and len(value.args["ifs"]) == 1:
        branch: exp.If = value.args["ifs"][0]
        return branch
    return None


def _is_null(node: exp.Expr | None) -> bool:
    return node is None or isinstance(node.unnest(), exp.Null)


def _is_zero(node: exp.Expr | None) -> bool:
    return node is not None and constant_of(node) == 0


def present(value: exp.Expr, relation: Relation) -> exp.Expr | None:
    """`value IS NOT NULL`, or None where it cannot be NULL.

    >>> present(exp.Literal.number(1), Relation(())) is None
    True
    """
    if isinstance(value, exp.Literal) or is_inner_unit(value, relation):
        return None
    return exp.not_(exp.Is(this=value.copy(), expression=exp.null()))


def conjunction(left: exp.Expr | None, right: exp.Expr | None) -> exp.Expr | None:
    """Both conditions, where None is true.

    >>> conjunction(None, exp.true()).sql()
    'TRUE'
    """
    if left is None or right is None:
        return left if right is None else right
    return exp.and_(left, right)
