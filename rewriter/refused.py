"""Refusals about whole queries: rows that would leave, rows of different units that would mix."""

from __future__ import annotations

from sqlglot import exp

from rewriter.grammar import position
from rewriter.policy import Table
from rewriter.refusal import Refusal
from rewriter.relation import Relation


def row_level(relation: Relation, tree: exp.Expr, code: str = "PV010") -> Refusal:
    """PV010 for rows in the result (PV011 for groups that are units), PV015 for rows that a condition looks at."""
    table = base_table(relation)
    if code == "PV010" and tree.args.get("group") is not None:
        return unit_groups(table, tree)
    column = next((c.name for c in table.columns if not c.hidden and c.name != table.privacy_unit), "x")
    name = table.name
    return Refusal(
        code,
        f'row-level output from private table "{name}" is not allowed'
        if code == "PV010"
        else f'subquery reads private table "{name}" across units',
        hint=f"Aggregate it, e.g. SELECT {column}, COUNT(DISTINCT {table.privacy_unit}) FROM {name} "
        f"GROUP BY {column} ORDER BY 2 DESC LIMIT 10.",
        position=position(tree),
    )


def unit_groups(table: Table, tree: exp.Expr) -> Refusal:
    """PV011: the groups of a query are units."""
    unit = table.privacy_unit
    return Refusal(
        "PV011",
        f'privacy unit column "{table.name}.{unit}" cannot be released or be a final grouping key',
        hint=f"Use COUNT(DISTINCT {unit}), or GROUP BY {unit} in a subquery and aggregate its result.",
        position=position(tree.args.get("group") or tree),
    )


def refuse_limited(relation: Relation) -> None:
    """PV014 where a query builds on private rows that a LIMIT or OFFSET has cut."""
    if relation.limit is not None:
        raise mixes("OFFSET" if isinstance(relation.limit, exp.Offset) else "LIMIT", relation, relation.limit)


def base_table(relation: Relation) -> Table:
    """A private table that the relation reads, for a message."""
    source = next(s for s in relation.sources if s.private)
    return source.table if source.derived is None else base_table(source.derived.relation)


def uncorrelated(node: exp.Expr) -> Refusal:
    """PV015: a subquery in WHERE that is neither per unit nor public."""
    return Refusal(
        "PV015",
        "this subquery in WHERE is not supported on private rows",
        hint="Use <unit> IN (SELECT <unit> FROM ...), EXISTS correlated on the unit, or a plain SELECT from "
        "a public table.",
        position=position(node),
    )


def mixes(what: str, relation: Relation, node: exp.Expr) -> Refusal:
    """PV014: LIMIT, a window and the like, where one unit's rows would decide about another's."""
    unit = base_table(relation).privacy_unit
    return Refusal(
        "PV014",
        f"{what} over private rows mixes different units",
        hint=f"Move it outside the aggregate, or GROUP BY {unit} in a subquery.",
        position=position(node),
    )


def not_grouped(node: exp.Expr) -> Refusal:
    """42803, as PostgreSQL has it."""
    return Refusal(
        "42803",
        "this column must appear in the GROUP BY clause or be used in an aggregate function",
        hint="Add it to GROUP BY, or count it.",
        position=position(node),
    )
