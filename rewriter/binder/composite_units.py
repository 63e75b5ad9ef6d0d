"""Privacy units that several columns name together: all parts of one mean the unit, some of them mean nothing.

The columns that name a unit are parts of the row `_o` (`Engine.row`), which is compared column by column. What the
calculus knows of units it knows of `_o`; here conditions and keys over all parts become ones over `_o`.

Why: docs/decisions/composite-units-are-rows.md.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import islice

from sqlglot import exp

from rewriter.ir.relation import (
    UNIT,
    Derived,
    Grouped,
    Relation,
    RowSubquery,
    SetOperation,
    equated,
    is_event,
    is_inner_unit,
    leaf,
    leaves,
)


def unit_among(values: Sequence[exp.Expr], relation: Relation) -> exp.Column | None:
    """The unit, never NULL, all of whose parts are among base forms; None where there is none.

    >>> unit_among([exp.column("hospital")], Relation(())) is None
    True
    """
    columns = {(v.table, v.name) for v in (value.unnest() for value in values) if isinstance(v, exp.Column)}
    for source in relation.sources:
        parts = source.table.unit_parts
        whole = source.private and parts and source.on is None
        if whole and columns.issuperset((source.alias, part) for part in parts):
            return leaf(source.alias, UNIT)
    return None


def by_unit(values: Sequence[exp.Expr], relation: Relation) -> list[exp.Expr]:
    """Base forms, with the unit in place of all of its parts."""
    unit = unit_among(values, relation)
    if unit is None:
        return list(values)
    parts = relation.source(unit.table).table.unit_parts
    rest = [
        v for v in values if not (isinstance(v, exp.Column) and v.table == unit.table and v.name in parts)
    ]
    return [unit, *rest]


def per_unit(values: Sequence[exp.Expr], relation: Relation) -> list[exp.Expr]:
    """Base forms by which rows are put together, the unit among them wherever they say that it is one: all of its
    parts, or an event, which belongs to one unit."""
    found = by_unit(values, relation)
    if any(is_inner_unit(value, relation) for value in found):
        return found
    # Behind a LEFT JOIN the rows without an event, of all units, are one group.
    read = {alias for value in found if is_event(value, relation) for alias, _ in leaves(value)}
    inner = (s.alias for s in relation.sources if s.on is None and s.alias in read)
    return [*(leaf(alias, UNIT) for alias in islice(inner, 1)), *found]


def units_equated(conditions: Sequence[exp.Expr], *relations: Relation) -> tuple[exp.Expr, ...]:
    """Conditions, with the equality of two units in place of those of all of their parts."""
    parts = {s.alias: s.table.unit_parts for r in relations for s in r.sources if s.private}
    found: dict[tuple[str, str], dict[tuple[str, str], list[int]]] = defaultdict(lambda: defaultdict(list))
    for number, condition in enumerate(conditions):
        one, other = sorted(equated(condition) or (), key=lambda column: column.table) or (None, None)
        if one is not None and other is not None and one.table != other.table:
            found[one.table, other.table][one.name, other.name].append(number)
    replaced: set[int] = set()
    units: list[exp.Expr] = []
    for (left, right), pairs in found.items():
        wanted = list(zip(parts.get(left, ()), parts.get(right, ()), strict=False))
        if wanted and len(parts[left]) == len(parts[right]) and pairs.keys() >= set(wanted):
            replaced.update(number for pair in wanted for number in pairs[pair])
            units.append(exp.EQ(this=leaf(left, UNIT), expression=leaf(right, UNIT)))
    return (*(c for number, c in enumerate(conditions) if number not in replaced), *units)


def unit_parts(derived: Derived) -> tuple[str, ...]:
    """The columns of a subquery that are the parts of its unit; none where it does not show all of them."""
    if isinstance(derived, SetOperation):
        left, right = unit_parts(derived.left), unit_parts(derived.right)
        return left if left == right else ()
    if not isinstance(derived, (Grouped, RowSubquery)):
        return ()
    shown = derived.keys if isinstance(derived, Grouped) else derived.fields
    unit = unit_among([f.value for f in shown], derived.relation)
    if unit is None:
        return ()
    names = {
        f.value.name: f.name for f in shown if isinstance(f.value, exp.Column) and f.value.table == unit.table
    }
    return tuple(names[part] for part in derived.relation.source(unit.table).table.unit_parts)
