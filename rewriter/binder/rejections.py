"""Refusals about whole queries: private rows in the result, and mixing of rows of different units."""

from __future__ import annotations

import re

from sqlglot import exp

from rewriter.ir.relation import Relation, Source, parts, unit_column
from rewriter.ir.types import type_named
from rewriter.policy import Table
from rewriter.refusal import Refusal
from rewriter.syntax.allowlist import position


def row_level(relation: Relation, tree: exp.Expr, code: str = "PV010") -> Refusal:
    """PV010 for rows in the result (PV011 for groups that are units), PV015 for rows that a condition reads."""
    table = base_table(relation)
    if code == "PV010" and tree.args.get("group") is not None:
        return unit_groups(table, tree)
    return Refusal(
        code,
        f'row-level output from private table "{table.name}" is not allowed'
        if code == "PV010"
        else f'subquery reads private table "{table.name}" across units',
        hint=f"Aggregate it, e.g. {example(table)}.",
        position=position(tree),
    )


def example(table: Table) -> str:
    """A query on a private table that is answered, by a column of which many rows can have one value.

    >>> from rewriter.policy import Column
    >>> columns = Column("Id", "uuid"), Column("Ward", "text")
    >>> example(Table("public", "Stays", columns, False, (), privacy_unit="Id", keys=(frozenset({"Id"}),)))
    'SELECT "Ward", COUNT(DISTINCT "Id") FROM "Stays" GROUP BY "Ward" ORDER BY 2 DESC LIMIT 10'
    """
    shown = [column for column in table.columns if not column.hidden]
    unit = next((c.name for c in shown if c.virtual or c.name == unit_column(table)), None)
    counted = "COUNT(*)" if unit is None else f"COUNT(DISTINCT {_quoted(unit)})"
    single = {name for key in (*table.keys, *table.declared_keys) if len(key) == 1 for name in key}
    columns = [c for c in shown if c.name != unit and c.name not in single and type_named(c.type).enumerable]
    name = _quoted(table.name)
    if not columns:
        return f"SELECT {counted} FROM {name}"
    known = (c.name for c in columns if c.domain or c.domain_from or c.range)
    column = _quoted(next(known, columns[0].name))
    return f"SELECT {column}, {counted} FROM {name} GROUP BY {column} ORDER BY 2 DESC LIMIT 10"


def _quoted(name: str) -> str:
    """A name as it can be written in a query."""
    return name if re.fullmatch("[a-z_][a-z0-9_]*", name) else '"' + name.replace('"', '""') + '"'


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
    return stored_table(next(s for s in relation.sources if s.private))


def stored_table(source: Source) -> Table:
    """A table that a source's rows come from, for a message."""
    return source.table if source.derived is None else base_table(parts(source.derived)[0])


def uncorrelated(node: exp.Expr) -> Refusal:
    """PV015: a subquery in WHERE that is neither per unit nor public."""
    return Refusal(
        "PV015",
        "this subquery in WHERE is not supported on private rows",
        hint="Use <unit> IN (SELECT <unit> FROM ...), EXISTS or an aggregate correlated on the unit alone, or a "
        "plain SELECT from a public table.",
        position=position(node),
    )


def mixes(what: str, relation: Relation, node: exp.Expr, hint: str | None = None) -> Refusal:
    """PV014: LIMIT, a window and the like, if rows of one unit would decide about rows of another."""
    unit = base_table(relation).privacy_unit
    per_unit = f"Move it outside the aggregate, or make it per unit: ROW_NUMBER() OVER (PARTITION BY {unit} ...) <= n."
    return Refusal(
        "PV014",
        f"{what} over private rows mixes different units",
        hint=hint or per_unit,
        position=position(node),
    )


def mixed(tree: exp.Expr, private: Relation | None) -> Refusal:
    """PV019: a set operation of private rows with public or released ones."""
    name = type(tree).__name__.upper() + ("" if tree.args.get("distinct", True) else " ALL")
    table = base_table(private).name if private is not None else "the private table"
    return Refusal(
        "PV019",
        f"{name} mixes private and public rows",
        hint=f'Aggregate the rows of "{table}" first, or add the public rows outside.',
        position=position(tree),
    )


def recursive(clause: exp.Expr) -> Refusal:
    """PV014: a recursive CTE in a statement that reads private tables."""
    return Refusal(
        "PV014",
        "WITH RECURSIVE in a query on private tables mixes different units",
        hint="Ask for the aggregates of the private tables alone, and use them in a statement of their own.",
        position=position(clause),
    )


def unlike(node: exp.Expr) -> Refusal:
    """PV020: IN a subquery whose values the backend would have to convert."""
    return Refusal(
        "PV020",
        "IN a subquery of another type is not allowed on private rows",
        hint="Compare integers with integers, or texts with texts.",
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
