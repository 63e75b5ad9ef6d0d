"""Contribution bounds: in how many groups one privacy unit can be, and with how many rows in each.

Why it exists. Noise has to hide whether a unit's rows are there. For that the mechanism needs two numbers about a
GROUP BY, before anything is read: the most groups that one unit can be in (delta0, here g(C) for the keys C), and the
most rows that it has in one of them (tau). They decide which mechanism answers, its noise and its price. This module
infers both from the policy and the form of the query. The rules and their proofs are in contribution_bounds.md.

Model. A `Relation` is a list of sources joined under conditions, and each of its rows belongs to one unit. So removing
a unit removes its own rows and nothing else, and all that has to be counted are the groups and rows of *one* unit.
`Bound.value` is that number, None where nothing bounds it. It is an upper bound: any rule that applies may be used, and
the least result is taken.

What happens in order, in `groups_per_unit(relation, keys)`:
1. `_determining` replaces the columns that the keys read by private columns which determine them. A public column is
   determined by what its unique key is equated to (`key_partners`); if no key is, nothing bounds the groups.
2. `_source_bound` bounds each source by itself: 1 where a unit has one row of it, or where only the unit is read; else
   what the subquery it comes from allows (`_derived_bound`), or what the policy declares (`max_groups_per_unit`).
3. The bounds of the sources are multiplied.
4. If that gave None, keys with few possible values are left out of 1 to 3 and multiplied in by their number (`_size`).

`rows_per_group` gives tau: 1 where a unit has at most one row in a group (`one_row_per_unit`), else the largest row
limit that the policy declares for a source; PV017 where it declares none.

In:  the rows of events by device, of which the policy declares max_groups_per_unit = {device: 3}
Out: 3 groups of one unit, which the SQL has to enforce

Example. events declares max_groups_per_unit = {device: 3} and max_rows_per_unit = 1000; articles is public with the
primary key article_id; users has one row a unit.

    events e JOIN users u ON e.user_id = u.user_id GROUP BY u.country
        u.country is of a source with one row a unit: g = 1, inferred. All rows of a unit are in one group: tau = 1000.
    events e GROUP BY e.device, e.action, with the domain of action {view, like, share}
        declared for device, nothing for action: None; action has 3 values and NULL, so that g = 3 * 4 = 12, enforced.
    events e JOIN articles a ON a.article_id = e.article_id GROUP BY a.topic
        topic is a function of e.article_id, of which nothing is declared: None, though articles may have few topics.

Invariants.
1. A bound is a forecast, never the guard. The SQL enforces what the price assumes (rewriter/emit/enforcement.py), so
   that a wrong bound costs accuracy, not privacy.
2. Of finite bounds, `enforce` is False only for a 1 that follows from the form of the query. For that the SQL needs no
   rank of a unit's groups; it takes one group of each unit. Any other finite bound is enforced by a rank.
3. Nothing here depends on data: the policy and the query's text are public.

Traps.
- `Bound(1, False)` means more than 1: *all* rows of a unit are in one group. `rows_per_group` then takes the limit on
  rows per unit, otherwise the one on rows per unit and group.
- A row limit bounds no groups, although it could: docs/decisions/rows-are-no-groups.md.
- A LEFT JOIN gives NULL where its ON fails: columns of its right side depend on all that ON reads.
- An equality need not determine a key: 2^53 and 2^53 + 1 are equal as doubles (`_exactly_comparable`).
- NULL is a group of its own: `_size` counts it as a value.
- Two public tables that are joined by each other's keys say nothing of how many of their rows a private one joins.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from math import prod

from sqlglot import exp

from rewriter.ir.parameter import Parameters
from rewriter.ir.relation import (
    UNIT,
    Derived,
    FullJoin,
    Grouped,
    Leaf,
    Relation,
    RowSubquery,
    SetOperation,
    Source,
    is_inner_unit,
    leaves,
    parts,
    unit_column,
    unit_source,
)
from rewriter.ir.trees import walk
from rewriter.ir.types import Type, type_named
from rewriter.policy import Table
from rewriter.refusal import Refusal
from rewriter.scalar.functions import LOGICAL
from rewriter.scalar.typecheck import type_of
from rewriter.syntax.allowlist import field_span

# What computes a value of integers and texts exactly; anything else may map two keys to one value.
EXACT = (exp.Identifier, exp.Paren, exp.Add, exp.Sub, exp.Mul, exp.Mod, exp.Neg)


@dataclass(frozen=True)
class Bound:
    """At most `value` (None: unbounded). `enforce`: the SQL has to enforce it by a rank."""

    value: int | None
    enforce: bool


def groups_per_unit(relation: Relation, keys: tuple[exp.Expr, ...], parameters: Parameters = ()) -> Bound:
    """g(C) of contribution_bounds.md: the most groups of `keys` that one unit can be in.

    None if all keys have few values and nothing else bounds them: the domain then is the bound, and its size is known
    once its cells are (mechanisms/choose.py).
    """
    whole = _groups(relation, keys)
    if whole.value is not None:
        return whole
    sizes = [(k, _size(k, relation, parameters)) for k in keys]
    rest = tuple(k for k, size in sizes if size is None)
    others = _groups(relation, rest) if rest else whole
    if others.value is None:
        return whole
    return Bound(others.value * prod(size for _, size in sizes if size is not None), True)


def _groups(relation: Relation, keys: tuple[exp.Expr, ...]) -> Bound:
    needed = _determining(relation, leaves(*keys))
    if needed is None:
        return Bound(None, False)
    bounds = [
        _source_bound(s, frozenset(c for a, c in needed if a == s.alias), relation) for s in relation.sources
    ]
    if any(b.value is None for b in bounds):
        return Bound(None, False)
    return Bound(prod(b.value for b in bounds if b.value is not None), any(b.enforce for b in bounds))


def _size(key: exp.Expr, relation: Relation, parameters: Parameters) -> int | None:
    """How many values `key` can have whatever the data, NULL among them; None for many or unknown."""
    if isinstance(key, exp.Column):
        column = relation.source(key.table).column(key.name)
        if column.domain is not None:
            return len(column.domain) + 1
        return 3 if type_named(column.type) is Type.BOOL else None
    if isinstance(key, exp.Extract):
        if any(int(p.name) > len(parameters) for p in walk(key, exp.Parameter)):
            return None  # of a subquery's group: what is not known to be a date's may be any interval's
        span = field_span(key.name, type_of(key.expression, relation, parameters))
        return None if span is None else span[1] - span[0] + 2
    if isinstance(key, exp.Case):
        branches = [i.args["true"] for i in key.args["ifs"]]
        branches += [key.args["default"]] if key.args.get("default") else []
        return None if leaves(*branches) else len(branches) + 1
    return 3 if type(key) in LOGICAL else None


def _source_bound(source: Source, columns: frozenset[str], relation: Relation) -> Bound:
    """g of columns of one source."""
    # A unit has one value of its own name.
    columns -= {UNIT, unit_column(source.table), *source.table.unit_parts}
    if not columns or _single(source, relation):
        return Bound(1, False)
    if source.derived is not None:
        options = [b for b in (_derived_bound(source.derived, columns),) if b.value is not None]
        numbered = _numbered_rows(source, relation)
        options += [] if numbered is None else [Bound(numbered, True)]
        return min(options, key=lambda b: b.value or 0, default=Bound(None, False))
    declared = source.table.max_groups_per_unit
    singles = [min((n for names, n in declared.items() if c in names), default=None) for c in columns]
    options_declared = [n for names, n in declared.items() if columns <= names]
    if all(n is not None for n in singles):
        options_declared.append(prod(n for n in singles if n is not None))
    return Bound(min(options_declared, default=None), True)


def _derived_bound(derived: Derived, columns: frozenset[str]) -> Bound:
    """g of columns of a subquery, by the columns of the relation that they are computed from."""
    if isinstance(derived, Grouped):
        # An aggregate is a function of the unit and all keys.
        keys = [
            f.value
            for f in derived.keys
            if f.name in columns or any(a.name in columns for a in derived.aggregates)
        ]
        return groups_per_unit(derived.relation, tuple(keys))
    if isinstance(derived, RowSubquery):
        read = [f.value for f in derived.fields if f.name in columns]
        for window in (f.value for f in derived.windows if f.name in columns):
            # Numbers, ranks and running aggregates may be another value in each row.
            if not isinstance(window.this, exp.AggFunc) or window.args.get("order") is not None:
                return Bound(None, False)
            read += window.args["partition_by"]
        return groups_per_unit(derived.relation, tuple(read))
    if isinstance(derived, SetOperation):
        one, other = (_derived_bound(side, columns) for side in (derived.left, derived.right))
        if issubclass(derived.operator, exp.Union):
            return _sum(one, other)
        return other if one.value is None and issubclass(derived.operator, exp.Intersect) else one
    if isinstance(derived, FullJoin):
        return _outer_bound(derived, [f.value for f in derived.fields if f.name in columns])
    # Rows of no unit.
    return Bound(None, False)


def _outer_bound(outer: FullJoin, read: list[exp.Expr]) -> Bound:
    """g of columns of a FULL JOIN: those of each side, or all of that side NULL."""
    reached = []
    for source in (outer.left, outer.right):
        own = tuple(v for v in read if {a for a, _ in leaves(v)} == {source.alias})
        # Joined on the unit alone, a side has rows for all rows of a unit or for none.
        if own and (outer.on or any(name != UNIT for _, name in leaves(*own))):
            reached.append(_sum(groups_per_unit(Relation((source,)), own), Bound(1, False)))
    if any(b.value is None for b in reached):
        return Bound(None, False)
    if not reached:
        return Bound(1, False)
    return Bound(prod(b.value or 1 for b in reached), True)


def _sum(one: Bound, other: Bound) -> Bound:
    if one.value is None or other.value is None:
        return Bound(None, False)
    return Bound(one.value + other.value, True)


def _single(source: Source, relation: Relation) -> bool:
    """Whether a unit has at most one row of `source` in the relation: in the source itself, or by a condition."""
    return source.single or _numbered_rows(source, relation) == 1


def _numbered_rows(source: Source, relation: Relation) -> int | None:
    """r if the relation keeps at most r rows of a unit, by ROW_NUMBER() <= r over all rows of the unit; else None."""
    if not isinstance(source.derived, RowSubquery):
        return None
    inner = source.derived.relation
    numbers = {
        f.name
        for f in source.derived.windows
        if isinstance(f.value.this, exp.RowNumber)
        and all(is_inner_unit(p, inner) for p in f.value.args["partition_by"])
    }
    found = []
    for condition in source.on if source.on is not None else relation.met:
        if not isinstance(condition, (exp.EQ, exp.LTE, exp.LT)) or not isinstance(
            condition.expression, exp.Literal
        ):
            continue
        side, text = condition.this.unnest(), condition.expression.this
        if (
            isinstance(side, exp.Column)
            and side.table == source.alias
            and side.name in numbers
            and text.isdigit()
        ):
            # `= n` keeps one row, whatever n.
            found.append(1 if isinstance(condition, exp.EQ) else int(text) - isinstance(condition, exp.LT))
    return max(min(found), 1) if found else None


def _determining(relation: Relation, wanted: frozenset[Leaf]) -> frozenset[Leaf] | None:
    """Private columns that determine `wanted`; None where they do not determine one of its public columns.

    A column that a LEFT JOIN can make NULL is also determined by all that its ON reads.
    """
    done: set[Leaf] = set()
    expanded: set[str] = set()
    found = key_partners(relation)
    todo = set(wanted)
    while todo:
        alias, name = todo.pop()
        source = relation.source(alias)
        if source.private:
            done.add((alias, name))
        if alias not in expanded:
            expanded.add(alias)
            partners = frozenset() if source.private else found.get(alias)
            if partners is None:
                return None
            todo |= partners | {(a, c) for a, c in leaves(*(source.on or ())) if a != alias}
    return frozenset(done)


def key_partners(relation: Relation) -> dict[str, frozenset[Leaf]]:
    """The public sources of which a private row joins at most one row, by what a unique key of theirs is equated to:
    columns of private sources, or of public ones that were found before.

    Two public sources that have each other's keys are found from neither: each row joins all pairs of theirs.
    """
    found: dict[str, frozenset[Leaf]] = {}
    known = {s.alias for s in relation.sources if s.private}
    left = [s for s in relation.sources if not s.private]
    while more := {s.alias: p for s in left if (p := equated_to_key(relation, s, known)) is not None}:
        found |= more
        known |= more.keys()
        left = [s for s in left if s.alias not in more]
    return found


def equated_to_key(relation: Relation, source: Source, known: Set[str]) -> frozenset[Leaf] | None:
    """The columns of `known` sources that a unique key of a public one is equated to; None where none is."""
    equated: dict[str, frozenset[Leaf]] = {}
    for condition in source.on if source.on is not None else relation.met:
        if not isinstance(condition, exp.EQ):
            continue
        for side, other in ((condition.this, condition.expression), (condition.expression, condition.this)):
            others = leaves(other)
            if not isinstance(side, exp.Column) or side.table != source.alias:
                continue
            if {a for a, _ in others} <= known and _exactly_comparable(side, other, relation):
                equated.setdefault(side.name, others)
    for key in source.table.keys:
        if key <= equated.keys():
            return frozenset(leaf for name in key for leaf in equated[name])
    return None


def _exactly_comparable(key: exp.Column, other: exp.Expr, relation: Relation) -> bool:
    """Whether at most one value of `key` equals a value of `other`: 2^53 and 2^53 + 1 are equal as DOUBLE."""
    wanted = type_named(relation.source(key.table).column(key.name).type).family
    for part in walk(other):
        if isinstance(part, exp.Column):
            if type_named(relation.source(part.table).column(part.name).type).family != wanted:
                return False
        elif isinstance(part, exp.Literal):
            if not part.is_string and not part.this.isdigit():
                return False
        elif not isinstance(part, EXACT):
            return False
    return True


def rows_per_group(relation: Relation, bound: Bound, keys: tuple[exp.Expr, ...] = ()) -> int:
    """tau of COUNT(*) and COUNT(x): the most rows of one unit that count in one group; PV017 if nothing says.

    1 where every private source has one row a unit (and group of `keys`) and no public join multiplies it; else the
    largest declaration of the private tables: max_rows_per_unit where the unit determines the group (it holds
    all of the unit's rows), max_rows_per_unit_per_group otherwise.
    """
    if one_row_per_unit(relation, keys):
        return 1
    whole = bound == Bound(1, False)
    many = [s for s in relation.sources if s.private and not _single(s, relation)]
    if not many:
        raise Refusal(
            "PV017",
            "COUNT(*) over a join that repeats a privacy unit's rows has no declared bound",
            hint="Join public tables by a key, so that they repeat no row.",
        )
    return max(_rows(s, relation, whole) for s in many)


def _rows(source: Source, relation: Relation, whole: bool) -> int:
    """The most rows of a unit in a source: all of them if `whole`, else those in one group."""
    numbered = _numbered_rows(source, relation)
    if source.derived is None:
        return _declared(source.table, whole)
    if isinstance(source.derived, Grouped):
        groups = groups_per_unit(source.derived.relation, tuple(f.value for f in source.derived.keys))
        if groups.value is not None:
            return groups.value
    if numbered is not None:
        return numbered
    counts = [_all_rows(r, whole) for r in parts(source.derived)]
    if isinstance(source.derived, SetOperation):
        return sum(counts) if issubclass(source.derived.operator, exp.Union) else counts[0]
    return max(counts)


def _all_rows(relation: Relation, whole: bool) -> int:
    if one_row_per_unit(relation):
        return 1
    many = [_rows(s, relation, whole) for s in relation.sources if s.private and not _single(s, relation)]
    if not many:
        raise Refusal(
            "PV017",
            "COUNT(*) over a join that repeats a privacy unit's rows has no declared bound",
            hint="Join public tables by a key, so that they repeat no row.",
        )
    return max(many)


def _declared(table: Table, whole: bool) -> int:
    total, group = table.max_rows_per_unit, table.max_rows_per_unit_per_group
    tau = total if whole else (group or total)
    if tau is None:
        name = "max_rows_per_unit" if whole else "max_rows_per_unit_per_group"
        raise Refusal(
            "PV017",
            f'one privacy unit can have any number of rows in "{table.name}"',
            detail=f"The policy declares no {name} for it.",
            hint=f"The data owner can declare {name}.",
        )
    return tau


def one_row_per_unit(relation: Relation, keys: tuple[exp.Expr, ...] = ()) -> bool:
    """Whether each unit has at most one row in the whole relation, or in each group of `keys`.

    True where every private source has one row a unit, or a unique key within the unit and `keys`, and every public
    source is joined by a unique key, so that it multiplies no row.
    """
    given = {(k.table, k.name) for k in keys if isinstance(k, exp.Column)}

    def keyed(source: Source) -> bool:
        own = {c for a, c in given if a == source.alias}
        own |= {UNIT, unit_column(source.table) or UNIT, *source.table.unit_parts}
        inner = source.on is None and not isinstance(source.derived, FullJoin)
        return inner and any(key <= own for key in source.table.keys)

    joined = key_partners(relation)
    return all(_single(s, relation) or keyed(s) if s.private else s.alias in joined for s in relation.sources)


def apart_on_unit(relation: Relation) -> tuple[Source, Source] | None:
    """None if all private sources are joined on the privacy unit, else two that are not.

    A LEFT JOIN keeps every row of its left side, so that its ON joins nothing but its own right side.
    """
    inner = [s for s in relation.sources if s.private and s.on is None]
    if len(inner) == len(relation.sources) == 1:
        return None
    group = {s.alias: s.alias for s in inner}

    # Union-find over the inner sources: equating units is transitive.
    def root(alias: str) -> str:
        while group[alias] != alias:
            alias = group[alias]
        return alias

    for one, other in _unit_equalities(relation.met, relation):
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
    return (inner[0], apart[0]) if apart else None


def _unit_equalities(conditions: tuple[exp.Expr, ...], relation: Relation) -> list[tuple[str, str]]:
    """The pairs of different sources whose units `conditions` equate."""
    pairs = []
    for condition in conditions:
        sides = [unit_source(e, relation) for e in condition.iter_expressions()]
        if isinstance(condition, exp.EQ) and len(sides) == 2 and sides[0] and sides[1]:
            pairs.append((sides[0].alias, sides[1].alias))
    return [(one, other) for one, other in pairs if one != other]
