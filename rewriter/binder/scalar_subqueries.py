"""Correlated scalar subqueries: a LEFT JOIN with their value for the row's unit, or for its public key.

In:  SELECT COUNT(*) FROM users u WHERE (SELECT COUNT(*) FROM events e WHERE e.user_id = u.user_id) > 3
Out: users LEFT JOIN a source with a row a unit and its column a0 = COUNT(*), under COALESCE(a0, 0) > 3

A unit without rows has no group: COUNT of nothing is 0, every other aggregate NULL, as the LEFT JOIN has it.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace

from sqlglot import exp

from rewriter.binder.constants import one_row
from rewriter.binder.joins import implied, owned
from rewriter.binder.names import lookup, resolve
from rewriter.binder.per_unit_groups import PerUnitGroups
from rewriter.binder.rejections import uncorrelated
from rewriter.binder.scan_filter import apart
from rewriter.ir.relation import UNIT, Relation, Source, equated, is_inner_unit, leaf, leaves
from rewriter.ir.trees import folded, walk
from rewriter.refusal import Refusal
from rewriter.scalar.typecheck import Parameters

PLAIN_PARTS = {"expressions", "from_", "joins", "where"}


def scalars(part: object) -> list[exp.Subquery]:
    """The scalar subqueries in a part of a query, not those inside of other subqueries."""
    if isinstance(part, exp.Subquery):
        return [part]
    if isinstance(part, (exp.Query, exp.Exists, exp.Any, exp.All)):
        return []
    if isinstance(part, exp.In):
        part = [part.this, *part.expressions]
    elif isinstance(part, exp.Expr):
        if part.is_primitive or isinstance(part, exp.Column):
            return []
        part = list(part.iter_expressions())
    return [found for one in part for found in scalars(one)] if isinstance(part, list) else []


def may_look_around(subquery: exp.Subquery, relation: Relation) -> exp.Select | None:
    """The SELECT of a scalar subquery over tables whose WHERE may name columns of the rows around; None for others."""
    select = subquery.this
    if not isinstance(select, exp.Select) or len(select.expressions) != 1:
        return None
    if any(value for part, value in select.args.items() if part not in PLAIN_PARTS):
        return None
    clause, condition = select.args.get("from_"), select.args.get("where")
    if clause is None or condition is None or condition.find(exp.Query):
        return None
    items = [clause.this, *(j.this for j in select.args.get("joins") or [])]
    if not all(isinstance(i, exp.Table) for i in items):
        return None
    own = {folded(i.args["alias"].this if i.args.get("alias") else i.this) for i in items}
    around = {field.name for field in relation.fields}
    for column in walk(condition, exp.Column):
        table = folded(column.args.get("table"))
        if table not in own if table else folded(column.this) in around:
            return select
    return None


def looks_around(select: exp.Select, inner: Relation, relation: Relation) -> bool:
    """Whether WHERE reads a column of `relation`, the rows around; each column is then qualified in place."""
    own = {s.alias for s in inner.sources}
    columns = [lookup(column, inner, relation) for column in walk(select.args["where"], exp.Column)]
    return any(alias not in own for alias, _ in leaves(*columns))


def looked_up(
    relation: Relation, inner: Relation, subquery: exp.Subquery, alias: str, parameters: Parameters
) -> tuple[Relation, exp.Expr]:
    """`relation` joined with the value of a scalar subquery over `inner` for each row, and the base form of that value.

    `inner`'s conditions may read the rows of `relation`. Raises PV015 where the subquery is neither an aggregate of
    the rows of the same unit nor a column of the one row with a key.
    """
    select = subquery.this
    inside, across = apart(relation, inner, subquery)
    if inside.semi_joins or inside.limit is not None or relation.filled is not None:
        raise uncorrelated(subquery)
    if one_row(select) is not None and inner.private:
        return _aggregated(relation, inside, across, subquery, alias, parameters)
    return _keyed(relation, inside, across, subquery)


def _aggregated(
    relation: Relation,
    inside: Relation,
    across: Sequence[exp.Expr],
    subquery: exp.Subquery,
    alias: str,
    parameters: Parameters,
) -> tuple[Relation, exp.Expr]:
    """An exact aggregate of the rows of the outer row's unit that have its values in whatever else is compared."""
    both = replace(relation, sources=relation.sources + inside.sources)
    across = (*across, *implied(across, both))
    units = [_outer_unit(condition, relation, inside) for condition in across]
    outer = next((unit for unit in units if unit is not None), None)
    if outer is None:
        raise uncorrelated(subquery)
    own = {s.alias for s in inside.sources}
    pairs = [_sides(c, own, subquery) for c, unit in zip(across, units, strict=True) if unit is None]
    groups = PerUnitGroups(owned(inside, subquery), tuple(here for here, _ in pairs), alias, parameters)
    try:
        value = groups.value(subquery.this.expressions[0].unalias().copy())
    except Refusal as refusal:
        if refusal.code in ("42P01", "42703", "42803"):
            raise uncorrelated(subquery) from None
        raise
    counts = {f.name for f in groups.found.values() if isinstance(f.value, exp.Count)}

    def filled(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column) or node.name not in counts:
            return node
        return exp.Coalesce(this=node.copy(), expressions=[exp.Literal.number(0)])

    met = [leaf(alias, f"k{number}").eq(there) for number, (_, there) in enumerate(pairs)]
    on = (leaf(alias, UNIT).eq(outer), *met)
    source = replace(groups.relation().sources[0], on=on)
    return replace(relation, sources=(*relation.sources, source)), value.transform(filled)


def _keyed(
    relation: Relation, inside: Relation, across: Sequence[exp.Expr], subquery: exp.Subquery
) -> tuple[Relation, exp.Expr]:
    """A column of the one row of a table that has the outer row's key, or its unit."""
    item = subquery.this.expressions[0].unalias()
    if len(inside.sources) != 1 or not isinstance(item, exp.Column):
        raise uncorrelated(subquery)
    source = inside.sources[0]
    value = resolve(item.copy(), inside)
    on_unit = source.single and any(_outer_unit(c, relation, inside) for c in across)
    if not isinstance(value, exp.Column) or not (on_unit if source.private else _on_key(across, source)):
        raise uncorrelated(subquery)
    added = replace(source, on=(*inside.conditions, *across))
    return replace(relation, sources=(*relation.sources, added)), value


def _sides(condition: exp.Expr, own: Set[str], subquery: exp.Subquery) -> tuple[exp.Expr, exp.Expr]:
    """What the inner rows and the outer rows have in common by a condition, else PV015."""
    if isinstance(condition, exp.EQ):
        for here, there in (condition.unnest_operands(), condition.unnest_operands()[::-1]):
            read, outer = ({alias for alias, _ in leaves(side)} for side in (here, there))
            if read and read <= own and not outer & own:
                return here, there
    raise uncorrelated(subquery)


def _outer_unit(condition: exp.Expr, relation: Relation, inside: Relation) -> exp.Column | None:
    """The outer rows' unit where a condition is its equality with the inner rows', else None."""
    columns = equated(condition)
    if columns is None:
        return None
    own = {s.alias for s in inside.sources}
    here, there = columns if columns[0].table in own else columns[::-1]
    met = here.table in own and is_inner_unit(here, inside) and is_inner_unit(there, relation)
    return there if met else None


def _on_key(across: Sequence[exp.Expr], source: Source) -> bool:
    """Whether conditions equate a unique key of a public table with columns of the outer rows."""
    pairs = [columns for columns in map(equated, across) if columns is not None]
    names = {c.name for pair in pairs for c in pair if c.table == source.alias}
    return any(key <= names for key in source.table.keys)
