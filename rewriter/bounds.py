"""The closure rules of the stability calculus: in how many groups one privacy unit can be, with how many rows.

Between neighbouring databases all rows of one unit are there or not. For a relation in which every row
belongs to one unit, removing it changes exactly its own rows, so for GROUP BY C the number of changed
groups is at most g(C) and each changes by at most the clamp tau.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from sqlglot import exp

from rewriter.refusal import Refusal
from rewriter.relation import UNIT, Leaf, Relation, Source, is_unit, leaves, unit_column


@dataclass(frozen=True)
class Bound:
    """At most `value` (None: unbounded). `enforce`: the bound rests on a declaration, so the SQL must enforce it."""

    value: int | None
    enforce: bool


def groups_per_unit(relation: Relation, keys: tuple[exp.Expr, ...]) -> Bound:
    """g(C) of sql.md section 2: the most groups of `keys` that one unit can be in.

    Columns of a public table that a unique key joins follow from the columns joined to it; columns of
    a source with one row a unit follow from the unit.
    """
    needed = _determining(relation, leaves(*keys))
    if needed is None:
        return Bound(None, False)
    bounds = [_source_bound(s, frozenset(c for a, c in needed if a == s.alias)) for s in relation.sources]
    if any(b.value is None for b in bounds):
        return Bound(None, False)
    return Bound(prod(b.value for b in bounds if b.value is not None), any(b.enforce for b in bounds))


def _source_bound(source: Source, columns: frozenset[str]) -> Bound:
    columns -= {UNIT, unit_column(source.table)}
    if not columns or source.single:
        return Bound(1, False)
    declared = source.table.max_groups_per_unit
    singles = [min((n for names, n in declared.items() if c in names), default=None) for c in columns]
    options = [n for names, n in declared.items() if columns <= names]
    if all(n is not None for n in singles):
        options.append(prod(n for n in singles if n is not None))
    return Bound(min(options, default=None), True)


def _determining(relation: Relation, wanted: frozenset[Leaf]) -> frozenset[Leaf] | None:
    """Private columns that `wanted` are a function of; None where a public column is no function of them."""
    done: set[Leaf] = set()
    expanded: set[str] = set()
    todo = set(wanted)
    while todo:
        alias, name = todo.pop()
        if relation.source(alias).private:
            done.add((alias, name))
        elif alias not in expanded:
            expanded.add(alias)
            partners = key_partners(relation, alias)
            if partners is None:
                return None
            todo |= partners
    return frozenset(done)


def key_partners(relation: Relation, alias: str) -> frozenset[Leaf] | None:
    """The columns equated to a unique key of public source `alias`, or None: then a row may meet many of its rows."""
    source = relation.source(alias)
    equated: dict[str, frozenset[Leaf]] = {}
    for condition in source.on if source.on is not None else relation.conditions:
        if not isinstance(condition, exp.EQ):
            continue
        for side, other in ((condition.this, condition.expression), (condition.expression, condition.this)):
            others = leaves(other)
            if isinstance(side, exp.Column) and side.table == alias and all(a != alias for a, _ in others):
                equated.setdefault(side.name, others)
    for key in source.table.keys:
        if key <= equated.keys():
            return frozenset(leaf for name in key for leaf in equated[name])
    return None


def rows_per_group(relation: Relation, bound: Bound) -> int:
    """tau of COUNT(*) and COUNT(x): the most rows of one unit that count in one group; PV017 if nothing says.

    1 where every private source has one row a unit and no public join multiplies it; else the largest
    declaration of the private tables: max_rows_per_unit where the unit determines the group (it holds
    all of the unit's rows), max_rows_per_unit_per_group otherwise.
    """
    if one_row_per_unit(relation):
        return 1
    whole = bound == Bound(1, False)
    many = [s for s in relation.sources if s.private and not s.single]
    if not many:
        raise Refusal(
            "PV017",
            "COUNT(*) over a join that repeats a privacy unit's rows has no declared bound",
            hint="Count the units: COUNT(DISTINCT <privacy unit column>).",
        )
    declared = []
    for source in many:
        table = source.table
        total, group = table.max_rows_per_unit, table.max_rows_per_unit_per_group
        tau = total if whole else (group or total)
        if tau is None:
            name = "max_rows_per_unit" if whole else "max_rows_per_unit_per_group"
            unit = table.privacy_unit or "the privacy unit"
            raise Refusal(
                "PV017",
                f'one privacy unit can have any number of rows in "{table.name}"',
                detail=f"The policy declares no {name} for it.",
                hint=f"Count the units, COUNT(DISTINCT {unit}), or ask the data owner to declare {name}.",
            )
        declared.append(tau)
    return max(declared)


def one_row_per_unit(relation: Relation) -> bool:
    """Whether each unit has at most one row in the whole relation.

    A public source multiplies nothing where the rows meet at most one of its rows.
    """
    return all(
        s.single if s.private else key_partners(relation, s.alias) is not None for s in relation.sources
    )


def joined_on_unit(relation: Relation) -> tuple[str, str] | None:
    """None if all private sources are joined on the privacy unit, else the names of two tables that are not."""
    private = [s for s in relation.sources if s.private]
    group = {s.alias: s.alias for s in private}

    def root(alias: str) -> str:
        while group[alias] != alias:
            alias = group[alias]
        return alias

    for alias, condition in _join_conditions(relation):
        sides = (condition.this, condition.expression)
        if isinstance(condition, exp.EQ) and all(is_unit(e, relation) for e in sides):
            left, right = (e.unnest().table for e in sides)
            if alias in (None, left, right):
                group[root(left)] = root(right)
    apart = [s for s in private if root(s.alias) != root(private[0].alias)]
    return (private[0].table.name, apart[0].table.name) if apart else None


def _join_conditions(relation: Relation) -> list[tuple[str | None, exp.Expr]]:
    """Conditions that join: inner ones between inner sources (None), and each LEFT JOIN's own."""
    outer = {s.alias for s in relation.sources if s.on is not None}
    inner = [(None, c) for c in relation.conditions if not any(a in outer for a, _ in leaves(c))]
    return [*inner, *((s.alias, c) for s in relation.sources for c in s.on or ())]
