"""Sorts sources, semi-joins and keys of a node, whose order has no meaning, so that equal queries are one text.

In:  FROM events e JOIN users u ON ..., and FROM users u, events e WHERE ...
Out: one relation, its sources by the names of their tables and then by what is asked of them
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from sqlglot import exp

from rewriter.canonical.normalize import canonical, text_of
from rewriter.ir.relation import (
    Derived,
    FullJoin,
    Grouped,
    ListedRows,
    Relation,
    RowSubquery,
    SemiJoin,
    SetOperation,
    Source,
    leaf,
    leaves,
    parts,
)
from rewriter.ir.trees import copied

KINDS: dict[type[Derived], str] = {
    Grouped: "Grouped",
    RowSubquery: "Rows",
    SetOperation: "Combined",
    FullJoin: "Outer",
    ListedRows: "Listed",
}
"""What sources are put in order by, and so a part of keys: another name of a class must not change it."""


def in_order(relation: Relation, used: Sequence[exp.Expr] = ()) -> Relation:
    """`relation` with its inner sources and its semi-joins in order; `used` are the expressions over it.

    Inner joins commute with one another and with a LEFT JOIN that does not read them, so that sources of LEFT JOINs
    come last, in the order in which they were written. Indistinguishable sources keep their order.
    """
    if relation.filled is not None:
        return relation
    outer = tuple(s for s in relation.sources if s.on is not None)
    inner = [s for s in relation.sources if s.on is None]
    if len(inner) > 1:
        outside = [c for j in relation.semi_joins for c in j.outside]
        on = [c for s in outer for c in s.on or ()]
        asked = [*relation.conditions, *on, *outside, *used]
        read = [(frozenset(a for a, _ in leaves(e)), e) for e in asked]

        def rank(source: Source) -> tuple[str, list[str]]:
            mine = (e for aliases, e in read if source.alias in aliases)
            return _name(source), sorted(shape(e, relation, source.alias) for e in mine)

        inner.sort(key=rank)
    joins = relation.semi_joins
    if len(joins) > 1:
        joins = tuple(sorted(joins, key=lambda j: _semi_join(j, relation)))
    return replace(relation, sources=(*inner, *outer), semi_joins=joins)


def tied(relation: Relation) -> bool:
    """Whether what is asked of the sources, constants too, decides their order in a relation or in one inside it."""
    inner = [_name(s) for s in relation.sources if s.on is None]
    nested = [part for s in relation.sources if s.derived is not None for part in parts(s.derived)]
    nested += [join.relation for join in relation.semi_joins]
    return len(set(inner)) < len(inner) or len(relation.semi_joins) > 1 or any(map(tied, nested))


def key_order(keys: Sequence[exp.Expr], relation: Relation) -> list[int]:
    """The places of `keys` in the order of their texts, independent of how they were written.

    >>> key_order([exp.column("b"), exp.column("a")], Relation(()))
    [1, 0]
    """
    places = range(len(keys))
    return sorted(places, key=lambda place: shape(keys[place], relation)) if len(keys) > 1 else [*places]


def shape(expression: exp.Expr, relation: Relation, own: str | None = None) -> str:
    """A base-form expression with the names of tables in place of aliases, and that of source `own` marked."""
    names = {s.alias: _name(s) for s in relation.sources}

    def renamed(node: exp.Expr) -> exp.Expr | None:
        if not isinstance(node, exp.Column):
            return None
        return leaf("*" if node.table == own else names.get(node.table, node.table), node.name)

    return text_of(canonical(copied(expression, renamed), copy=False))


def _name(source: Source) -> str:
    table = source.table
    kind = "" if source.derived is None else KINDS[type(source.derived)]
    columns = [] if source.derived is None else sorted(c.name for c in table.columns)
    return repr((kind, table.schema, "" if kind else table.name, columns))


def _semi_join(join: SemiJoin, outer: Relation) -> str:
    inner = join.relation
    both = replace(outer, sources=outer.sources + inner.sources)
    read: Iterable[exp.Expr] = (*inner.conditions, *join.across)
    values = [e for e in (join.value, join.output) if e is not None]
    return repr(
        (
            join.negated,
            sorted(map(_name, inner.sources)),
            [shape(v, both) for v in values],
            sorted(shape(e, both) for e in read),
        )
    )
