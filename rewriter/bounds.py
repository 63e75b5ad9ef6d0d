"""The closure rules of the stability calculus: in how many groups one privacy unit can be, with how many rows.

Between neighbouring databases all rows of one unit are there or not. For a relation in which every row
belongs to one unit, removing it changes exactly its own rows, so for GROUP BY C the number of changed
groups is at most g(C) and each changes by at most the clamp tau.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from sqlglot import exp

from rewriter.expression import kind_of_type
from rewriter.refusal import Refusal
from rewriter.relation import UNIT, Leaf, Relation, Source, leaves, unit_column, unit_source

EXACT = (exp.Identifier, exp.Paren, exp.Add, exp.Sub, exp.Mul, exp.Mod, exp.Neg)


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
    """Private columns that `wanted` are a function of; None where a public column is no function of them.

    A column that a LEFT JOIN can make NULL is a function of all that its ON reads, too.
    """
    done: set[Leaf] = set()
    expanded: set[str] = set()
    todo = set(wanted)
    while todo:
        alias, name = todo.pop()
        source = relation.source(alias)
        if source.private:
            done.add((alias, name))
        if alias not in expanded:
            expanded.add(alias)
            partners = frozenset() if source.private else key_partners(relation, alias)
            if partners is None:
                return None
            todo |= partners | {(a, c) for a, c in leaves(*(source.on or ())) if a != alias}
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
            if not isinstance(side, exp.Column) or side.table != alias or any(a == alias for a, _ in others):
                continue
            if _exactly_comparable(side, other, relation):
                equated.setdefault(side.name, others)
    for key in source.table.keys:
        if key <= equated.keys():
            return frozenset(leaf for name in key for leaf in equated[name])
    return None


def _exactly_comparable(key: exp.Column, other: exp.Expr, relation: Relation) -> bool:
    """Whether no two values of `key` equal one of `other`: 2^53 and 2^53 + 1 are the same DOUBLE."""
    wanted = kind_of_type(relation.source(key.table).column(key.name).type)
    for part in other.walk():
        if isinstance(part, exp.Column):
            if kind_of_type(relation.source(part.table).column(part.name).type) != wanted:
                return False
        elif isinstance(part, exp.Literal):
            if not part.is_string and not part.this.isdigit():
                return False
        elif not isinstance(part, EXACT):
            return False
    return True


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
    """None if all private sources are joined on the privacy unit, else the names of two tables that are not.

    A LEFT JOIN keeps the rows of its left side whatever its ON says, so that only inner conditions join those.
    """
    inner = [s for s in relation.sources if s.private and s.on is None]
    group = {s.alias: s.alias for s in inner}

    def root(alias: str) -> str:
        while group[alias] != alias:
            alias = group[alias]
        return alias

    for one, other in _unit_equalities(relation.conditions, relation):
        if one in group and other in group:
            group[root(one)] = root(other)
    apart = [s for s in inner if root(s.alias) != root(inner[0].alias)]
    apart += [
        s
        for s in relation.sources
        if s.private
        and s.on is not None
        and not any(s.alias in pair for pair in _unit_equalities(s.on, relation))
    ]
    return (inner[0].table.name, apart[0].table.name) if apart else None


def _unit_equalities(conditions: tuple[exp.Expr, ...], relation: Relation) -> list[tuple[str, str]]:
    """The pairs of different sources whose units `conditions` equate."""
    pairs = []
    for condition in conditions:
        sides = [unit_source(e, relation) for e in condition.iter_expressions()]
        if isinstance(condition, exp.EQ) and len(sides) == 2 and sides[0] and sides[1]:
            pairs.append((sides[0].alias, sides[1].alias))
    return [(one, other) for one, other in pairs if one != other]
