"""Per-unit subqueries: GROUP BY the unit, or DISTINCT with it, whose exact aggregates stay private rows."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from rewriter.aggregate import per_unit_column
from rewriter.expression import Parameters, check, check_condition
from rewriter.grammar import describe, position
from rewriter.refusal import Refusal
from rewriter.refused import mixes, not_grouped
from rewriter.relation import Field, Relation, is_inner_unit, leaves
from rewriter.resolve import output_name, resolve
from rewriter.stability import per_unit
from rewriter.translate import total


def grouped_by_unit(
    tree: exp.Select, relation: Relation, keys: tuple[exp.Expr, ...], alias: str, parameters: Parameters
) -> Relation:
    """The relation of a SELECT whose GROUP BY has the unit among its keys: one row a unit and other keys."""
    if tree.args.get("distinct") is not None:
        raise mixes("DISTINCT", relation, tree.args["distinct"])
    texts = {k.sql() for k in keys}
    fields = []
    for item in tree.expressions:
        value = resolve_aggregates(item.unalias(), relation, parameters)
        if value.find(exp.AggFunc) is None and leaves(value) and value.sql() not in texts:
            raise not_grouped(item)
        fields.append(Field(output_name(item), value))
    shown = {f.value.sql() for f in fields}
    if any(k.sql() not in shown and not is_inner_unit(k, relation) for k in keys):
        raise Refusal("0A000", "select every GROUP BY column of a per-unit subquery", position=position(tree))
    having = tree.args.get("having")
    condition = None if having is None else resolve_aggregates(having.this, relation, parameters)
    if condition is not None:
        check_condition(condition, relation, parameters)
    limit = tree.args.get("limit") or tree.args.get("offset")
    return replace(_per_unit(relation, fields, alias, condition, parameters), limit=limit)


def distinct_with_unit(
    tree: exp.Select, relation: Relation, rows: Relation, alias: str, parameters: Parameters
) -> Relation:
    """The relation of SELECT DISTINCT with the unit among its columns, else PV018.

    `rows` is the relation without DISTINCT.
    """
    fields = [f for _, fields in rows.scope for f in fields]
    if not any(is_inner_unit(f.value, relation) for f in fields):
        raise Refusal(
            "PV018",
            "SELECT DISTINCT over private rows (partition selection) is not available yet",
            hint="Count the units of each value: SELECT x, COUNT(DISTINCT <unit>) ... GROUP BY x "
            "ORDER BY 2 DESC LIMIT 10.",
            position=position(tree),
        )
    return _per_unit(relation, fields, alias, None, parameters)


def _per_unit(
    relation: Relation, fields: list[Field], alias: str, having: exp.Expr | None, parameters: Parameters
) -> Relation:
    outputs = []
    for number, one in enumerate(fields):
        column = None
        if not is_inner_unit(one.value, relation) and (leaves(one.value) or one.value.find(exp.AggFunc)):
            column = per_unit_column(Field(f"x{number}", one.value), relation, parameters)
        outputs.append((one.name, one.value, column))
    return per_unit(relation, alias, outputs, having)


def resolve_aggregates(node: exp.Expr, relation: Relation, parameters: Parameters) -> exp.Expr:
    """The base form of a per-unit SELECT or HAVING expression: row-local parts and exact aggregates of one unit."""
    if isinstance(node, exp.Count):
        inner = node.this
        if isinstance(inner, exp.Star):
            return exp.Count(this=exp.Star())
        if isinstance(inner, exp.Distinct) and len(inner.expressions) == 1:
            value = resolve_aggregates(inner.expressions[0], relation, parameters)
            return exp.Count(this=exp.Distinct(expressions=[value]))
        return exp.Count(this=resolve_aggregates(inner, relation, parameters))
    if isinstance(node, (exp.Min, exp.Max)) and not node.expressions:
        return type(node)(this=resolve_aggregates(node.this, relation, parameters))
    if isinstance(node, exp.AggFunc):
        raise Refusal(
            "PV018", f"{describe(node)} in a per-unit subquery is not available yet", position=position(node)
        )
    if node.find(exp.AggFunc) is None:
        value = resolve(node, relation)
        check(value, relation, parameters)
        return value
    computed = _computed(node, relation, parameters)
    if not total(computed, relation, parameters):
        raise Refusal(
            "PV020",
            "comparison of different types over per-unit aggregates is not allowed",
            hint="It could fail on one person's rows; compare in WHERE around the subquery.",
            position=position(node),
        )
    return computed


def _computed(node: exp.Expr, relation: Relation, parameters: Parameters) -> exp.Expr:
    """An expression over aggregates, in base form."""
    if not isinstance(
        node,
        (exp.Paren, exp.And, exp.Or, exp.Not, exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between),
    ):
        raise Refusal(
            "PV018",
            f"{describe(node)} over per-unit aggregates is not available yet",
            position=position(node),
        )
    copy = node.copy()
    for key, part in node.args.items():
        if isinstance(part, exp.Expr):
            copy.set(key, resolve_aggregates(part, relation, parameters))
    return copy
