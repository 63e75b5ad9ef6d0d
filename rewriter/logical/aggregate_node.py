"""A SELECT that aggregates private rows becomes a DP node, and its expressions read the released columns.

In:  SELECT country, AVG(amount) AS a FROM ... GROUP BY country HAVING COUNT(*) > 9
Out: a node (country; sum and number of amounts, rows), and
     SELECT _r0.g0 AS country, _r0.c0 AS a FROM <released> AS _r0 WHERE _r0.c1 > 9

Grouping sets are a node each, whose rows are put together again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction

from sqlglot import exp

from rewriter.binder.contribution_bounds import groups_per_unit, one_row_per_unit
from rewriter.binder.group_by import Grouping, refuse_unit_keys
from rewriter.binder.names import output_name, resolve
from rewriter.binder.rejections import clamped, not_grouped
from rewriter.binder.value_ranges import Ranges
from rewriter.effort import spend
from rewriter.ir.measure import Output, Running
from rewriter.ir.relation import Relation, leaf, leaves
from rewriter.ir.texts import sql_text
from rewriter.ir.trees import and_, column, copied, folded, not_, paren, walk
from rewriter.ir.types import NUMBERS, Type
from rewriter.logical.above import Replacements
from rewriter.logical.aggregate_calls import Call, read_call
from rewriter.logical.limit import limit_of
from rewriter.logical.measures import LARGEST, measures_of
from rewriter.logical.paired_values import ADDED, PAIRED, PairedValues, around
from rewriter.logical.plan import AggregateNode, released, released_rows
from rewriter.logical.running_counts import Known, running_count
from rewriter.refusal import Refusal
from rewriter.scalar.constant_factor import constant_of
from rewriter.scalar.typecheck import Parameters, type_of
from rewriter.scalar.unsupported import available, no_such_function
from rewriter.syntax.allowlist import CONSTANT, describe, is_constant, own_parts, position
from rewriter.syntax.desugar_rows import plain_lists
from rewriter.syntax.pasted import instead, written

_REAL = (exp.DType.DECIMAL, exp.DType.DOUBLE)
Listed = tuple[exp.Expr, exp.Expr | None]
"""Texts, and the condition of FILTER on the rows that they are of."""


def dp_nodes(
    tree: exp.Select,
    relation: Relation,
    groups: Grouping,
    index: int,
    parameters: Parameters,
    nested: Callable[[exp.Expr], None],
    further: Callable[[AggregateNode], int],
    known: Known,
    clips: bool,
    replacements: Replacements,
) -> list[AggregateNode]:
    """Nodes `index`.. for an aggregating SELECT, one a grouping set; `replacements` get what lets it read their rows.

    `nested` analyses a query nested in its expressions, `further` takes a node that stands for a part of them and gives
    its place, `known` says whether keys have a known domain, `clips` whether units' totals are clipped. Raises Refusal
    for what no mechanism answers.
    """
    refuse_unit_keys(tree, relation, groups.keys)
    writer = ReleasedExpressionRewriter(relation, groups, index, parameters, nested, clips, replacements)
    if len(groups.sets) == 1:
        writer.running = running_count(tree, relation, groups.keys, parameters, writer.key_of, known)
    for item in tree.expressions:
        if isinstance(item, exp.Star):
            raise Refusal("42803", "SELECT * cannot be grouped: name the grouping columns", position=1)
        writer.rewrite(item.unalias())
    having = tree.args.get("having")
    if having is not None:
        writer.rewrite(having.this)
    shown = len(writer.calls)
    _rewrite_order(tree, writer)
    for part in ("limit", "offset"):
        if tree.args.get(part) is not None:
            nested(tree.args[part])
    ordering = _ordering_count(tree, writer) if len(groups.sets) == 1 else None
    k = None if ordering is None else limit_of(tree, parameters)
    replacements.rows[id(tree)] = released_rows(index, groups.sets)
    names, factors = _names(tree, writer)
    nodes = [_node(writer, places, ordering, k, shown, names, factors) for places in groups.sets]
    if writer.extremes and not groups.keys and not writer.calls:
        # One row, for which there is nothing else to ask.
        replacements.rows[id(tree)] = None
        nodes = []
    for listed, calls in writer.extremes.items():
        node = writer.list_node(tree, listed)
        place = further(node) if nodes else index
        nodes = nodes or [node]
        if groups.keys:
            replacements.joins.setdefault(id(tree), []).append(writer.extremes_joined(place))
        for call in calls:
            replacements.parts[id(call)] = writer.extreme_of(call, place)
    return nodes


def _node(
    writer: ReleasedExpressionRewriter,
    places: tuple[int, ...],
    ordering: int | None,
    k: int | None,
    shown: int,
    names: tuple[str, ...],
    factors: tuple[Fraction, ...],
) -> AggregateNode:
    """The node of one grouping set; `ordering`: the output that ORDER BY puts first, shown if before `shown`."""
    keys = tuple(writer.groups.keys[p] for p in places)
    bound = groups_per_unit(writer.relation, keys, writer.parameters)
    if writer.running is not None:
        output = Output("running", (0,), exp.cast(exp.Count(this=exp.Star()), "DECIMAL"))
        return AggregateNode(
            writer.relation, keys, (writer.running,), (output,), bound, None, None, True, names=names
        )
    calls = list(writer.calls.values())
    measures, outputs = measures_of(calls, writer.relation, keys, bound, writer.parameters, writer.clips)
    order_by = None if ordering is None or k is None else outputs[ordering].measures[0]
    counts = ordering is None or ordering < shown
    return AggregateNode(
        writer.relation, keys, measures, outputs, bound, k, order_by, counts, names=names, factors=factors
    )


def _names(
    tree: exp.Select, writer: ReleasedExpressionRewriter
) -> tuple[tuple[str, ...], tuple[Fraction, ...]]:
    """What the SELECT calls each output, which it lists by itself or times a constant, and that constant.

    Others are called after what they are inside of, "" where that is not listed.
    """
    if writer.running is not None:
        listed = [output_name(e) for e in tree.expressions if isinstance(e.unalias(), exp.Window)]
        return tuple([*listed, ""][:1]), ()
    names, factors = [""] * len(writer.calls), [Fraction(1)] * len(writer.calls)
    multiples = [(item, *_multiple(item.unalias())) for item in tree.expressions]
    calls = list(writer.calls)
    # Those that are listed by themselves first.
    for item, node, factor, cut in sorted(multiples, key=lambda one: one[0].unalias() is not one[1]):
        place = writer.places.get(id(node))
        large = abs(factor) > LARGEST
        if place is None or names[place] or large or (cut and writer.integral(calls[place])):
            continue
        names[place], factors[place] = output_name(item), abs(factor)
    for place, call in enumerate(calls):
        inside = [output_name(item) for item in tree.expressions if place in writer.inside(item)]
        if inside and not names[place]:
            names[place] = f"{call.function} inside of {', '.join(dict.fromkeys(inside))}"
    return tuple(names), tuple(factors)


def _multiple(node: exp.Expr) -> tuple[exp.Expr, Fraction, bool]:
    """An expression as another one times a constant, and whether PostgreSQL cuts the digits off if that is an integer.

    >>> core, factor, cut = _multiple(exp.condition("-SUM(x) * 100 / (4 + 4)"))
    >>> core.sql(), factor, cut
    ('SUM(x)', Fraction(-25, 2), True)
    """
    factor, cut = Fraction(1), False
    while True:
        if isinstance(node, exp.Paren):
            node = node.this
        elif isinstance(node, exp.Cast) and node.to.this in _REAL and not node.to.expressions:
            node, cut = node.this, False
        elif isinstance(node, exp.Neg):
            node, factor = node.this, -factor
        elif isinstance(node, exp.Div) and (by := constant_of(node.expression)):
            node, factor, cut = node.this, factor / by, _whole(node.expression)
        elif isinstance(node, exp.Mul) and (by := constant_of(node.expression)):
            node, factor, cut = node.this, factor * by, cut and _whole(node.expression)
        elif isinstance(node, exp.Mul) and (by := constant_of(node.this)):
            node, factor, cut = node.expression, factor * by, cut and _whole(node.this)
        else:
            return node, factor, cut


def _whole(constant: exp.Expr) -> bool:
    return all(number.is_int for number in walk(constant, exp.Literal))


@dataclass
class ReleasedExpressionRewriter:
    """Rewrites the expressions of a node's SELECT over its released columns; `calls` are the aggregates so far."""

    relation: Relation
    groups: Grouping
    index: int
    parameters: Parameters
    nested: Callable[[exp.Expr], None]
    clips: bool
    replacements: Replacements
    running: Running | None = None
    calls: dict[Call, Call] = field(default_factory=dict)
    places: dict[int, int] = field(default_factory=dict)
    extremes: dict[Listed, list[exp.Expr]] = field(default_factory=dict)
    """MIN and MAX of texts, by the texts whose list each of them is read off."""

    def rewrite(self, node: exp.Expr) -> None:
        spend()
        looked_up = is_constant(node) and leaves(node.meta[CONSTANT])
        if isinstance(node, exp.Query) and not looked_up:
            self.nested(node)
            return
        key = self.key_of(node)
        if key is not None:
            resolve(node, self.relation)
            self._replace(node, f"g{key}")
        elif isinstance(node, exp.Window):
            self._window(node)
        elif isinstance(node, exp.Grouping):
            self._bits(node)
        elif isinstance(node, (exp.AggFunc, exp.Filter, exp.WithinGroup)):
            self._aggregate(node)
        elif isinstance(node, exp.Column) or looked_up:
            raise not_grouped(node)
        else:
            for part in node.iter_expressions():
                self.rewrite(part)

    def key_of(self, node: exp.Expr) -> int | None:
        """The place of the key that an expression is, or None."""
        if any(isinstance(n, (exp.AggFunc, exp.Window, exp.Query)) for n in own_parts(node)) or (
            not walk(node, exp.Column) and not self._constant(node)
        ):
            return None
        try:
            text = sql_text(resolve(copied(node), self.relation))
        except Refusal:
            return None
        return next((n for n, key in enumerate(self.groups.texts) if key == text), None)

    def _constant(self, node: exp.Expr) -> bool:
        return sql_text(node) in self.groups.texts

    def _window(self, node: exp.Window) -> None:
        if self.running is not None:
            self._replace(node, "c0")
            return
        function = node.this.this if isinstance(node.this, exp.Filter) else node.this
        others = [v for k, v in node.args.items() if k != "this" and isinstance(v, exp.Expr)]
        listed = node.args.get("partition_by") or []
        condition = [node.this.expression] if isinstance(node.this, exp.Filter) else []
        for part in [*function.iter_expressions(), *others, *listed, *condition]:
            self.rewrite(part)

    def _aggregate(self, node: exp.Expr) -> None:
        function = node.this if isinstance(node, exp.Filter) else node
        if isinstance(function, PAIRED):
            self.replacements.parts[id(node)] = self._paired(node, function)
            return
        call = read_call(node, self.relation, self.parameters, self.clips)
        if call.function == "extreme":
            if len(self.groups.sets) > 1:
                raise available(f"{describe(call.text)} of text under grouping sets", position(node))
            self.extremes.setdefault((call.values[0], call.argument), []).append(node)
            return
        self.places[id(node)] = self._place(call)
        self._replace(node, f"c{self.places[id(node)]}")

    def _place(self, call: Call) -> int:
        self.calls.setdefault(call, call)
        return list(self.calls).index(call)

    def _paired(self, node: exp.Expr, function: exp.Expr) -> exp.Expr:
        """An aggregate of pairs of values over the rows that have both, from others over these rows."""
        sides = function.this, function.expression
        values = [resolve(side, self.relation) for side in sides]
        if not all(type_of(value, self.relation, self.parameters) in NUMBERS for value in values):
            raise no_such_function(
                describe(function).removeprefix("function "), "of these types", position(node)
            )
        both: list[exp.Expr] = [
            not_(exp.Is(this=paren(copied(side)), expression=exp.null())) for side in sides
        ]
        condition = None
        if isinstance(node, exp.Filter):
            condition = resolve(plain_lists(node.expression.this), self.relation)
            both = [paren(copied(node.expression.this)), *both]
        if not self.clips:
            self._refuse_unbounded(function, Ranges.of(self.relation, self.parameters, condition))

        def measured(call: exp.Expr) -> exp.Expr:
            counted = exp.Filter(this=call, expression=exp.Where(this=and_(*map(copied, both))))
            read = read_call(counted, self.relation, self.parameters, self.clips)
            return column(f"c{self._place(read)}", table=released(self.index))

        # Without values of parameters: the presentation is the same for all of them.
        unbound = [replace(p, value=None) for p in self.parameters]
        ranges = Ranges.of(self.relation, unbound, condition)
        y, x = (around(side, ranges.interval(value)) for side, value in zip(sides, values, strict=True))
        averages = self.clips and not one_row_per_unit(self.relation)
        return PairedValues(y, x, measured, averages).value(function)

    def _refuse_unbounded(self, function: exp.Expr, ranges: Ranges) -> None:
        """PV016 where a value that is added up has no finite bounds; those of one do not bound a product."""
        bounded = function.copy()
        for name in ADDED.get(type(function), ("this", "expression")):
            value = resolve(copied(function.args[name]), self.relation)
            found = ranges.interval(value)
            if (found.lo is None or found.hi is None) and not ranges.pending(value):
                shown = written(function.args[name])
                bounded.set(name, exp.var(clamped(shown, ranges.type_of(value))))
        if bounded != function:
            raise Refusal(
                "PV016",
                f"{written(function)} needs finite bounds",
                detail="Without them one person's value could be of any size, and no noise would hide it.",
                hint=f"Bound the values, e.g. {instead(written(bounded), written(function))}; or the data owner can "
                "declare bounds.",
                position=position(function),
            )

    def list_node(self, tree: exp.Select, listed: Listed) -> AggregateNode:
        """The node that releases which texts are in which group; units' keys and events are no texts to list."""
        value, condition = listed
        refuse_unit_keys(tree, self.relation, tuple(leaf(a, c) for a, c in sorted(leaves(value))))
        met = () if condition is None else (condition,)
        relation = replace(self.relation, conditions=self.relation.conditions + met)
        keys = (*self.groups.keys, value)
        bound = groups_per_unit(relation, keys, self.parameters)
        return AggregateNode(relation, keys, (), (), bound, None, None, True, present=True)

    def extremes_joined(self, place: int) -> exp.Join:
        """The join with the first and last text of each group, out of the list of node `place`.

        Keys are compared as texts of whole rows: their NULLs are equal then, and PostgreSQL can hash them.
        """
        keys = [f"g{n}" for n in range(len(self.groups.keys))]
        own = [column(key, table=released(place)) for key in keys]
        text = column(f"g{len(keys)}", table=released(place))
        ends = [exp.alias_(exp.Min(this=text), "low"), exp.alias_(exp.Max(this=text.copy()), "high")]
        found = exp.select(*own, *ends).from_(released_rows(place), copy=False).group_by(*own)
        rows = [
            exp.cast(exp.Anonymous(this="ROW", expressions=[column(k, table=t) for k in keys]), "TEXT")
            for t in (f"_m{place}", released(self.index))
        ]
        return exp.Join(this=found.subquery(f"_m{place}"), on=rows[0].eq(rows[1]), side="LEFT")

    def extreme_of(self, node: exp.Expr, place: int) -> exp.Expr:
        """MIN or MAX of the texts of node `place`'s list: of the group that it stands in, or of all."""
        call = node.this if isinstance(node, exp.Filter) else node
        if self.groups.keys:
            return column("low" if isinstance(call, exp.Min) else "high", table=f"_m{place}")
        found = exp.select(type(call)(this=column("g0", table=released(place))))
        found.set("from_", exp.From(this=released_rows(place)))
        return found.subquery(copy=False)

    def inside(self, item: exp.Expr) -> set[int]:
        """The places of the aggregates in an item of the SELECT."""
        return {self.places[id(part)] for part in walk(item) if id(part) in self.places}

    def integral(self, call: Call) -> bool:
        """Whether PostgreSQL gives an aggregate as an integer."""
        if call.function != "sum":
            return call.function == "count"
        return type_of(call.values[0], self.relation, self.parameters) in (Type.INT2, Type.INT4)

    def _bits(self, node: exp.Grouping) -> None:
        """GROUPING(a, b): which of its arguments a row is not grouped by, as binary digits."""
        places = [self.key_of(e) for e in node.expressions]
        if None in places:
            raise Refusal(
                "42803",
                "arguments to GROUPING must be grouping expressions of the associated query level",
                hint="Name columns of GROUP BY.",
                position=position(node),
            )
        digits: exp.Expr = exp.Literal.number(0)
        for place in places:
            if len(self.groups.sets) > 1:
                bit = column(f"z{place}", table=released(self.index))
                digits = exp.paren(
                    exp.Add(this=exp.Mul(this=digits, expression=exp.Literal.number(2)), expression=bit)
                )
        for part in node.expressions:
            resolve(part, self.relation)
        self.replacements.parts[id(node)] = digits

    def _replace(self, node: exp.Expr, name: str) -> None:
        self.replacements.parts[id(node)] = column(name, table=released(self.index))


def _rewrite_order(tree: exp.Select, writer: ReleasedExpressionRewriter) -> None:
    """ORDER BY items: ordinals and output names stay, expressions read the released columns."""
    order = tree.args.get("order")
    names = {output_name(e) for e in tree.expressions}
    for item in order.expressions if order is not None else []:
        target = item.this
        named = isinstance(target, exp.Column) and not target.table and folded(target.this) in names
        if not named and not isinstance(target, exp.Literal):
            writer.rewrite(target)


def _ordering_count(tree: exp.Select, writer: ReleasedExpressionRewriter) -> int | None:
    """The count that is the first item of ORDER BY, descending, or None."""
    order = tree.args.get("order")
    if order is None or not order.expressions[0].args.get("desc"):
        return None
    target = order.expressions[0].this
    if (
        isinstance(target, exp.Literal)
        and target.this.isdigit()
        and 1 <= int(target.this) <= len(tree.expressions)
    ):
        target = tree.expressions[int(target.this) - 1].unalias()
    elif isinstance(target, exp.Column) and not target.table:
        name = folded(target.this)
        target = next((e.unalias() for e in tree.expressions if output_name(e) == name), target)
    place = writer.places.get(id(target))
    if place is None:
        return None
    call = list(writer.calls)[place]
    return place if call.function == "count" and call.factor == 1 else None
