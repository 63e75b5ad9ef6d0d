"""Correlated aggregates across units: the groups of all that they are asked for, released before.

In:  SELECT COUNT(*) FROM sales s JOIN items i USING (item) WHERE i.brand = 'A' AND
     s.price > (SELECT 1.3 * AVG(t.price) FROM sales t WHERE t.item = i.item AND t.year = 2024)
Out: sales and items LEFT JOIN
     (SELECT i.item AS k0, 1.3 * AVG(t.price) FROM sales t, items i
      WHERE t.year = 2024 AND t.item = i.item AND i.brand = 'A' GROUP BY i.item) ON k0 = i.item

What is compared with columns of public tables is grouped by these, under the conditions that the query around has on
them: so no group is asked for that no row can look up.

Why: docs/decisions/correlated-aggregates-are-groups.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import replace

from sqlglot import exp

from rewriter.binder.composite_units import units_equated
from rewriter.binder.constants import one_row
from rewriter.binder.joins import implied
from rewriter.binder.names import item_name, lookup, output_name, resolve
from rewriter.binder.rejections import uncorrelated
from rewriter.binder.select_parts import split
from rewriter.ir.relation import UNIT, Relation, is_inner_unit, leaves, shown_name
from rewriter.ir.trees import alias, walk
from rewriter.scalar.typecheck import Parameters, check_condition

Pair = tuple[exp.Expr, exp.Expr]
"""What a correlated condition equates: an expression of the inner rows and one of the rows around, both as written."""


def across_units(select: exp.Select, inner: Relation, relation: Relation) -> list[Pair] | None:
    """The equalities of an aggregate's rows with the rows around; None where one ties them to the unit of these, where
    a condition is no equality, and for what is no aggregate."""
    if one_row(select) is None:
        return None
    both = replace(relation, sources=relation.sources + inner.sources)
    own = {s.alias for s in inner.sources}
    pairs: list[Pair] = []
    equal: list[exp.Expr] = []
    for condition in split(select.args["where"].this):
        if _read(condition, inner, relation) <= own:
            continue
        if not isinstance(condition, exp.EQ):
            return None
        here, there = condition.unnest_operands()
        if not _read(here, inner, relation) <= own:
            here, there = there, here
        read = _read(here, inner, relation), _read(there, inner, relation)
        if not read[0] or not read[0] <= own or read[1] & own:
            return None
        if isinstance(here, exp.Column) and isinstance(there, exp.Column):
            bases = lookup(here, inner), lookup(there, relation)
            equal.append(exp.EQ(this=bases[0], expression=bases[1]))
            units = is_inner_unit(bases[0], inner) and is_inner_unit(bases[1], relation)
            if units or implied(equal, both):
                return None
        pairs.append((here, there))
    whole = any(name == UNIT for _, name in leaves(*units_equated(equal, inner, relation)))
    return None if whole else pairs


def _read(node: exp.Expr, inner: Relation, relation: Relation) -> Set[str]:
    """The sources that the columns of an expression are of; their names are then qualified in place."""
    return {source for source, _ in leaves(*(lookup(c, inner, relation) for c in walk(node, exp.Column)))}


def grouped(
    tree: exp.Select,
    subquery: exp.Subquery,
    relation: Relation,
    inner: Relation,
    pairs: Sequence[Pair],
    name: str,
    public: Callable[[exp.Expr], bool],
) -> exp.Subquery:
    """The derived table `name` of the aggregate of a subquery of `tree`, behind all that its rows have in common with
    the rows around, k0 ..; `public`: whether a subquery reads public tables alone."""
    select, own = subquery.this, {s.alias for s in inner.sources}
    value = select.expressions[0].unalias()
    partly = any(isinstance(part, exp.Count) for part in walk(value)) and not isinstance(value, exp.Count)
    # Where there is no row, what is computed from a count would be computed from 0.
    if partly or not _read(value, inner, relation) <= own:
        raise uncorrelated(subquery)
    items = _public_items(tree, relation, inner, [there for _, there in pairs])
    keys = [there if items else here for here, there in pairs]
    conditions = [c for c in split(select.args["where"].this) if items or _read(c, inner, relation) <= own]
    conditions += _on(items, tree, relation, public)
    query = select.copy()
    query.set(
        "expressions",
        [
            *(alias(k.copy(), f"k{n}") for n, k in enumerate(keys)),
            alias(value.copy(), output_name(value), quoted=True),
        ],
    )
    for item in items.values():
        query.append("joins", exp.Join(this=item.copy(), kind="CROSS"))
    query.set("where", exp.Where(this=exp.and_(*conditions)) if conditions else None)
    query.set("group", exp.Group(expressions=[key.copy() for key in keys]))
    rows = exp.Subquery(this=query, alias=exp.TableAlias(this=exp.to_identifier(name, quoted=True)))
    # CTEs are found by the parents.
    rows.parent = subquery.parent
    return rows


def _public_items(
    tree: exp.Select, relation: Relation, inner: Relation, compared: Sequence[exp.Expr]
) -> dict[str, exp.Table]:
    """The public tables of FROM whose keys are `compared`, by their sources' names; nothing if anything else is.

    Without a key a value could be that of several of their rows, each of which would repeat the inner rows.
    """
    listed = [tree.args["from_"].this, *(join.this for join in tree.args.get("joins") or [])]
    tables = {item_name(i): i for i in listed if isinstance(i, exp.Table)}
    taken = {name for name, _ in inner.scope}
    columns = leaves(*(lookup(c, relation) for c in compared if isinstance(c, exp.Column)))
    if not all(isinstance(c, exp.Column) for c in compared):
        return {}
    found: dict[str, exp.Table] = {}
    for place in sorted({source for source, _ in columns}):
        source = relation.source(place)
        name = shown_name(source, relation)
        stored = source.table.public and source.derived is None and source.on is None
        keyed = any(key <= {c for s, c in columns if s == place} for key in source.table.keys)
        if not stored or not keyed or name not in tables or name in taken:
            return {}
        found[place] = tables[name]
    return found


def _on(
    items: dict[str, exp.Table], tree: exp.Select, relation: Relation, public: Callable[[exp.Expr], bool]
) -> list[exp.Expr]:
    """The conditions of WHERE that read these tables alone, and other public ones by IN."""
    clause = tree.args.get("where")
    found = []
    for condition in split(clause.this if clause else None) if items else ():
        listed = isinstance(condition, exp.In) and condition.args.get("query") is not None
        own = condition.this if listed and public(condition.args["query"]) else condition
        read = set() if own.find(exp.Query) else _read(own, relation, relation)
        if read and read <= items.keys():
            found.append(condition)
    return found


def looked_up_rows(
    relation: Relation,
    rows: Relation,
    compared: Sequence[exp.Expr],
    subquery: exp.Subquery,
    parameters: Parameters,
) -> tuple[Relation, exp.Expr]:
    """`relation` LEFT JOIN the released `rows`, whose last column is the value; 0 for a count of no rows."""
    (source,), (*keys, value) = rows.sources, (field.value for field in rows.fields)
    on = tuple(
        exp.EQ(this=key, expression=resolve(there, relation))
        for key, there in zip(keys, compared, strict=True)
    )
    both = replace(relation, sources=(*relation.sources, source))
    for condition in on:
        check_condition(condition, both, parameters)
    table = replace(source.table, keys=(frozenset(key.name for key in keys),))
    joined = replace(relation, sources=(*relation.sources, replace(source, table=table, on=on)))
    if isinstance(subquery.this.expressions[0].unalias(), exp.Count):
        value = exp.Coalesce(this=value, expressions=[exp.Literal.number(0)])
    return joined, value


def looked_up_above(rows: exp.Subquery, pairs: Sequence[Pair], subquery: exp.Subquery) -> exp.Expr:
    """The value of a correlated aggregate as a subquery over the released `rows`; 0 for a count of no rows."""
    (*_, value) = rows.this.expressions
    met = [exp.column(f"k{n}", table=rows.alias).eq(there) for n, (_, there) in enumerate(pairs)]
    found = exp.select(exp.column(exp.to_identifier(value.alias, quoted=True), table=rows.alias)).from_(rows)
    looked_up: exp.Expr = found.where(*met, copy=False).subquery(copy=False)
    if isinstance(subquery.this.expressions[0].unalias(), exp.Count):
        looked_up = exp.Coalesce(this=looked_up, expressions=[exp.Literal.number(0)])
    return looked_up
