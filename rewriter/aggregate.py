"""Counting aggregates: which rows of a unit count, and how far one unit can move the count."""

from __future__ import annotations

from sqlglot import exp

from rewriter.bounds import Bound, rows_per_group
from rewriter.expression import Parameters, check, check_condition, kind
from rewriter.grammar import describe, position
from rewriter.policy import Column
from rewriter.refusal import Refusal
from rewriter.refused import base_table
from rewriter.relation import Field, Relation, is_inner_unit, is_unit
from rewriter.resolve import resolve

MAX_LIMIT = 2**62


def count_measure(
    node: exp.Expr, relation: Relation, bound: Bound, parameters: Parameters
) -> tuple[exp.Expr | None, int]:
    """(condition, tau) of COUNT(*), COUNT(x) or COUNT(DISTINCT unit), with or without FILTER; PV018 for all else.

    The condition says which rows count (None: all). tau is 1 for persons, else the clamp on one unit's rows.
    """
    condition: exp.Expr | None = None
    count = node
    if isinstance(node, exp.Filter):
        condition = resolve(node.expression.this, relation)
        check_condition(condition, relation, parameters)
        count = node.this
    if not isinstance(count, exp.Count) or count.expressions:
        raise _unavailable(count)
    inner = count.this
    if isinstance(inner, exp.Distinct):
        return _and(condition, _unit_condition(inner, count, relation, parameters)), 1
    if not isinstance(inner, exp.Star):
        value = resolve(inner, relation)
        check(value, relation, parameters)
        condition = _and(condition, _present(value, relation))
    return condition, rows_per_group(relation, bound)


def _unit_condition(
    distinct: exp.Distinct, count: exp.Expr, relation: Relation, parameters: Parameters
) -> exp.Expr | None:
    """Which rows make a unit count in COUNT(DISTINCT unit) or COUNT(DISTINCT CASE WHEN ... THEN unit END)."""
    if len(distinct.expressions) != 1:
        raise _unavailable(count)
    value = resolve(distinct.expressions[0], relation).unnest()
    check(value, relation, parameters)
    condition: exp.Expr | None = None
    if (
        isinstance(value, exp.Case)
        and not value.args.get("default")
        and not value.this
        and len(value.args["ifs"]) == 1
    ):
        condition, value = value.args["ifs"][0].this, value.args["ifs"][0].args["true"].unnest()
    if not is_unit(value, relation):
        unit = base_table(relation).privacy_unit
        raise Refusal(
            "PV018",
            "COUNT(DISTINCT x) of something else than the privacy unit is not available yet",
            hint=f"Count the units: COUNT(DISTINCT {unit}).",
            position=position(count),
        )
    return _and(condition, _present(value, relation))


def _present(value: exp.Expr, relation: Relation) -> exp.Expr | None:
    """`value IS NOT NULL`, or None where it cannot be NULL."""
    if isinstance(value, exp.Literal):
        return None
    if is_inner_unit(value, relation):
        return None
    return exp.not_(exp.Is(this=value.copy(), expression=exp.null()))


def _and(left: exp.Expr | None, right: exp.Expr | None) -> exp.Expr | None:
    if left is None or right is None:
        return left if right is None else right
    return exp.and_(left, right)


def _unavailable(node: exp.Expr) -> Refusal:
    return Refusal(
        "PV018",
        f"{describe(node)} over private rows is not available",
        hint="Available now: COUNT(DISTINCT <privacy unit>), COUNT(*) and COUNT(x).",
        position=position(node),
    )


def limit_of(tree: exp.Select, parameters: Parameters) -> int | None:
    """LIMIT + OFFSET as a number, None without a constant LIMIT; 2201W and 2201X for negative ones."""
    limit = _constant(tree.args.get("limit"), "2201W", "LIMIT", parameters)
    offset = _constant(tree.args.get("offset"), "2201X", "OFFSET", parameters)
    if limit is None or limit == 0:
        return limit
    return min(limit + (offset or 0), MAX_LIMIT)


def _constant(clause: exp.Expr | None, code: str, name: str, parameters: Parameters) -> int | None:
    if clause is None:
        return None
    value = clause.args.get("count") if isinstance(clause, exp.Fetch) else clause.args.get("expression")
    negative = isinstance(value, exp.Neg)
    value = value.this if isinstance(value, exp.Neg) else value
    if isinstance(value, exp.Parameter):
        text = parameters[int(value.name) - 1].value or ""
    else:
        text = value.this if isinstance(value, exp.Literal) and not value.is_string else ""
    if negative or text.startswith("-"):
        raise Refusal(code, f"{name} must not be negative", position=position(clause))
    return int(text) if text.isdigit() else None


def per_unit_column(field: Field, relation: Relation, parameters: Parameters) -> Column:
    """The column that an output of a per-unit subquery becomes: its name, and its type as far as it is known."""
    value = field.value
    if isinstance(value, exp.Count):
        return Column(field.name, "bigint", nullable=False)
    inner = value.this if isinstance(value, exp.AggFunc) else value
    if isinstance(inner, exp.Column):
        base = relation.source(inner.table).column(inner.name)
        return Column(field.name, base.type) if isinstance(value, exp.AggFunc) else _renamed(base, field.name)
    names = {"int": "bigint", "number": "numeric", "float": "double precision", "bool": "boolean"}
    found = kind(inner, relation, parameters)
    return Column(
        field.name, names.get(found, "timestamp without time zone" if found == "timestamp" else found)
    )


def _renamed(column: Column, name: str) -> Column:
    return Column(name, column.type, column.nullable, column.domain, column.domain_from, column.range)
