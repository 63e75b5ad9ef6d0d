"""Per-unit subqueries: GROUP BY the unit or an event, or DISTINCT with one, whose exact aggregates stay private rows.

The unit is always among the keys, so that no group has rows of two units, whatever the policy says of an event.

In:  SELECT user_id, COUNT(*) + 1 AS n FROM events GROUP BY user_id HAVING MAX(amount) > 9
Out: a source with a row a unit and its columns a0 = COUNT(*), a1 = MAX(amount), under the condition a1 > 9,
     with the fields user_id and n = a0 + 1
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from sqlglot import exp

from rewriter.binder.composite_units import per_unit
from rewriter.binder.group_by import aggregates
from rewriter.binder.names import output_name, plainly, resolve
from rewriter.binder.output_columns import computed_column, refuse_intervals, row_column
from rewriter.binder.rejections import base_table, example, mixes, not_grouped
from rewriter.binder.subquery_source import derived_source
from rewriter.binder.windows import Windows, windowed
from rewriter.ir.relation import UNIT, Field, Grouped, Relation, conjuncts, is_inner_unit, leaf, leaves
from rewriter.ir.texts import sql_text
from rewriter.ir.trees import walk
from rewriter.refusal import Refusal
from rewriter.scalar.aggregates import AGGREGATES, CONDITION, MOST, argument, words
from rewriter.scalar.functions import check_row_local
from rewriter.scalar.typecheck import Parameters, check, check_condition, check_extreme, check_order, type_of
from rewriter.syntax.allowlist import describe, position


def grouped_by_unit(
    tree: exp.Select,
    relation: Relation,
    keys: tuple[exp.Expr, ...],
    aliases: tuple[str, str],
    parameters: Parameters,
) -> Relation:
    """The relation of a SELECT whose GROUP BY has the unit or an event among its keys: one row a unit and other keys.

    `aliases` are those of the groups and of windows over them, where the SELECT list has some.
    """
    if tree.args.get("distinct") is not None:
        raise mixes("DISTINCT", relation, tree.args["distinct"])
    groups = PerUnitGroups(relation, keys, aliases[0], parameters)
    layer = Windows(aliases[1], groups.value)
    windows = any(walk(item, exp.Window) for item in tree.expressions)
    value = layer.value if windows else groups.value
    shown = [(output_name(item), value(item.unalias())) for item in tree.expressions]
    having = tree.args.get("having")
    condition = None if having is None else groups.value(having.this)
    found = groups.relation()
    if condition is not None:
        condition = plainly(condition, found)
        check_condition(condition, found, parameters)
        found = replace(found, conditions=conjuncts(condition))
    if windows:
        return replace(windowed(layer, shown, found, parameters), limit=_limit(tree))
    shown = [(name, plainly(one, found)) for name, one in shown]
    for _, one in shown:
        check(one, found, parameters)
    return replace(found, scope=(("", tuple(Field(n, v) for n, v in shown)),), limit=_limit(tree))


def _limit(tree: exp.Select) -> exp.Expr | None:
    return tree.args.get("limit") or tree.args.get("offset")


def distinct_with_unit(
    tree: exp.Select, relation: Relation, rows: Relation, alias: str, parameters: Parameters
) -> Relation:
    """The relation of SELECT DISTINCT with the unit among its columns, else PV018.

    `rows` is the relation without DISTINCT.
    """
    values = tuple(f.value for f in rows.fields)
    check_order(values, rows, parameters, tree)
    if not any(is_inner_unit(v, rows) for v in per_unit(values, rows)):
        raise Refusal(
            "PV018",
            "SELECT DISTINCT over private rows (partition selection) is not available yet",
            hint=f"Count the units of each value, e.g. `{example(base_table(rows))}`.",
            position=position(tree),
        )
    groups = PerUnitGroups(rows, values, alias, parameters)
    fields = tuple(Field(f.name, groups.keyed(f.value, tree)) for f in rows.fields)
    return replace(groups.relation(), scope=(("", fields),))


@dataclass
class PerUnitGroups:
    """The groups of a per-unit subquery, which will be source `alias`, and the aggregates asked of them so far."""

    rows: Relation
    keys: tuple[exp.Expr, ...]
    alias: str
    parameters: Parameters
    found: dict[str, Field] = field(default_factory=dict)

    def value(self, node: exp.Expr) -> exp.Expr:
        """The base form of an expression of the SELECT list or of HAVING, over the groups."""
        if isinstance(node, exp.Filter):
            return self._aggregate(node.this, node.expression.this)
        if isinstance(node, (exp.AggFunc, exp.WithinGroup)):
            return self._aggregate(node, None)
        if not aggregates(node):
            value = resolve(node, self.rows)
            if leaves(value):
                check(value, self.rows, self.parameters)
            return self.keyed(value, node)
        copy = node.copy()
        for key, part in node.args.items():
            if isinstance(part, exp.Expr):
                copy.set(key, self.value(part))
            elif isinstance(part, list):
                copy.set(key, [self.value(p) if isinstance(p, exp.Expr) else p for p in part])
        check_row_local(copy)
        return copy

    def keyed(self, value: exp.Expr, at: exp.Expr) -> exp.Expr:
        """A base form over the rows as one over the groups: keys become their columns."""
        if not leaves(value):
            return value
        if is_inner_unit(value, self.rows):
            return leaf(self.alias, UNIT)
        place = next((n for n, k in enumerate(self.keys) if sql_text(k) == sql_text(value)), None)
        if place is not None:
            return leaf(self.alias, f"k{place}")
        if isinstance(value, exp.Column):
            raise not_grouped(at)
        copy = value.copy()
        for key, part in value.args.items():
            if isinstance(part, exp.Expr):
                copy.set(key, self.keyed(part, at))
            elif isinstance(part, list):
                copy.set(key, [self.keyed(p, at) if isinstance(p, exp.Expr) else p for p in part])
        return copy

    def _aggregate(self, call: exp.Expr, condition: exp.Expr | None) -> exp.Expr:
        value = exact(call, condition, self.rows, self.parameters)
        found = self.found.setdefault(sql_text(value), Field(f"a{len(self.found)}", value))
        return leaf(self.alias, found.name)

    def relation(self) -> Relation:
        """The groups as rows of one source."""
        listed = [
            Field(f"k{n}", k)
            for n, k in enumerate(self.keys)
            if leaves(k) and not is_inner_unit(k, self.rows)
        ]
        for one in listed:
            refuse_intervals(one.value, self.rows, self.parameters)
        columns = [row_column(f.name, f.value, self.rows, self.parameters) for f in listed]
        for one in self.found.values():
            column = computed_column(one.name, one.value, self.rows, self.parameters)
            # A group has a row.
            if isinstance(one.value, exp.Count) and isinstance(one.value.this, exp.Star):
                column = replace(column, range=("1", MOST))
            elif isinstance(one.value, (exp.Min, exp.Max)):
                picked = row_column(one.name, argument(one.value), self.rows, self.parameters)
                column = replace(column, nullable=picked.nullable)
            columns.append(column)
        grouped = Grouped(self.rows, tuple(listed), tuple(self.found.values()))
        names = [f.name for f in listed]
        source = derived_source(self.alias, grouped, columns, self.rows, single=not names, key=names)
        return Relation((source,))


def exact(call: exp.Expr, condition: exp.Expr | None, relation: Relation, parameters: Parameters) -> exp.Expr:
    """The base form of a per-unit aggregate; its FILTER becomes a CASE in its argument.

    Raises Refusal PV018 for aggregates whose result the order of rows decides, and for those not available.
    """
    known = AGGREGATES.get(type(call))
    if known is None or not known.grouped or call.expressions:
        raise Refusal(
            "PV018",
            f"{describe(call)} in a per-unit subquery is not available yet",
            hint=f"Available per unit: {', '.join(words(windowed=False))}.",
            position=position(call),
        )
    only = None if condition is None else resolve(condition, relation)
    if only is not None:
        check_condition(only, relation, parameters)
    inner = call.this
    distinct = isinstance(inner, exp.Distinct)
    if isinstance(inner, exp.Star):
        return exp.Count(this=exp.Star() if only is None else exp.case().when(only, exp.Literal.number(1)))
    if distinct and len(inner.expressions) != 1:
        raise Refusal("42883", "an aggregate takes one argument", position=position(call))
    value = resolve(inner.expressions[0] if distinct else inner, relation)
    check(value, relation, parameters)
    found = type_of(value, relation, parameters)
    if distinct:
        check_order([value], relation, parameters, call)
    if isinstance(call, (exp.Min, exp.Max)):
        check_extreme(call, value, relation, parameters)
    if not isinstance(call, exp.Count):
        refuse_intervals(value, relation, parameters)
    if known.takes is CONDITION:
        check_condition(value, relation, parameters)
    elif known.takes is not None and found not in known.takes:
        raise Refusal("42883", f"{describe(call)} takes numbers", position=position(call))
    if only is not None:
        value = exp.case().when(only, value)
    return type(call)(this=exp.Distinct(expressions=[value]) if distinct else value)
