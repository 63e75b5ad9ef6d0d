"""What the owner may add to a proposal: tables that private ones refer to, as public, and ways over several tables.

Neither is taken without the owner. A foreign key says that a table is referred to, not that its rows are nobody's
(orders refer to addresses, too), and a row that is public by mistake cannot be taken back. A way over a second table
by names alone may give one person's rows to another.

Why: docs/decisions/guesses-are-not-made-public.md.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from dpproxy.backends.base import BackendSchema, BackendTable
from dpproxy.owner.init.columns import by_its_name, holds_contacts
from dpproxy.owner.init.names import called_as, in_a_role
from dpproxy.owner.init.units import Layout, Place, Way, shown, single_key
from dpproxy.owner.people import called_after_people, other_people, words
from rewriter.policy import TableName

_PERSONAL = {
    *("birth", "birthdate", "birthday", "born", "dob", "firstname", "forename", "gender", "lastname", "sex"),
    *("surname", "fullname"),
}


def with_guesses(schema: BackendSchema, plan: Layout) -> Layout:
    """The layout, with what can be offered to the owner taken from what is left out."""
    paths = dict(_paths(schema, plan))
    left_out = {name: why for name, why in plan.left_out.items() if name not in paths}
    dimensions: dict[TableName, str] = {}
    referring, open_ones = {*plan.private, *paths}, set(left_out)
    while referring:
        reasons = {name: _referred(schema, name, referring) for name in left_out if name in open_ones}
        referred = {name: why for name, why in reasons.items() if why is not None}
        personal = {name: found for name in referred if (found := _personal(schema, name, plan))}
        left_out |= {name: f"{referred[name]}, but {found}" for name, found in personal.items()}
        referring = referred.keys() - personal
        dimensions |= {name: referred[name] for name in left_out if name in referring}
        open_ones -= referred.keys()
    closed = _closed(schema, dimensions, plan.public)
    left_out = {
        name: f"{dimensions[name]}, but it refers to a table that is none of these"
        if name in dimensions
        else why
        for name, why in left_out.items()
        if name not in closed
    }
    return replace(plan, left_out=left_out, paths=paths, dimensions=closed)


def with_views(plan: Layout, views: Mapping[TableName, Collection[TableName]]) -> Layout:
    """The layout with those of the backend's views that read private and public tables alone."""
    known = {*plan.private, *plan.public}
    found = {name: tuple(sorted(bases)) for name, bases in views.items() if bases and known.issuperset(bases)}
    return replace(plan, views=found)


def _paths(schema: BackendSchema, plan: Layout) -> Iterator[tuple[TableName, Way]]:
    """Of each table without a foreign key that leads on, the one column that is called as a private table's key."""
    keys = _keys(schema, plan)
    for name in plan.left_out:
        table = schema.tables[name]
        if any(key.target in plan.private for key in table.foreign_keys):
            continue
        found = [
            (column.name, Place(target, key))
            for target, key in keys.items()
            for column in table.columns
            if called_as(column, schema.tables[target], key)
        ]
        unit = schema.tables[plan.unit.table]
        roles = any(in_a_role(c, schema.tables[t], k) for t, k in keys.items() for c in table.columns)
        units = any(
            called_as(c, unit, plan.unit.column) or in_a_role(c, unit, plan.unit.column)
            for c in table.columns
        )
        if len(found) == 1 and not roles and not units:
            ((column, target),) = found
            yield name, Way(column, target)


def _keys(schema: BackendSchema, plan: Layout) -> dict[TableName, str]:
    """The keys of private tables other than that of the units."""
    return {n: key for n in plan.private if n != plan.unit.table and (key := single_key(schema.tables[n]))}


def _referred(schema: BackendSchema, name: TableName, referring: Collection[TableName]) -> str | None:
    """How a table is referred to: by a foreign key or, for a guess, by a column that is called as its key."""
    target, key = schema.tables[name], single_key(schema.tables[name])
    for other in referring:
        for foreign in schema.tables[other].foreign_keys:
            if foreign.target == name:
                return f"{shown(other)}.{', '.join(foreign.columns)} refers to it"
    for other in referring:
        for column in schema.tables[other].columns:
            if key is not None and called_as(column, target, key):
                return f"a guess, no foreign key says so: {shown(other)}.{column.name} is called as its key"
    return None


def _personal(schema: BackendSchema, name: TableName, plan: Layout) -> str | None:
    """Why the rows of a table may be somebody's; None where nothing in the schema says so."""
    table, keys = schema.tables[name], {plan.unit.table: plan.unit.column, **_keys(schema, plan)}
    if called_after_people(name[1]):
        return "it is called after people"
    if holds_contacts(table):
        return "it is called after something of a person"
    for column in table.columns:
        found = words(column.name)
        if set(found) & _PERSONAL or "".join(found) in _PERSONAL:
            return f"{column.name} is something of a person"
        if by_its_name(column) and column.name != single_key(table) and not _is_reference(table, column.name):
            return f"{column.name} is something of a person"
        for target, key in keys.items():
            private = schema.tables[target]
            if in_a_role(column, private, key) or called_as(column, private, key):
                return f"{column.name} may lead to {shown(target)}"
        if how := other_people(table, column, plan.unit.table):
            return f"{column.name} {how}"
    for other in plan.private:
        for foreign in schema.tables[other].foreign_keys:
            if foreign.target == name and schema.tables[other].enforced(frozenset(foreign.columns)):
                return f"each of its rows is of one row of {shown(other)}"
            if foreign.target == name and foreign.columns in schema.tables[other].unique:
                return f"each of its rows is of one row of {shown(other)}"
    return None


def _is_reference(table: BackendTable, column: str) -> bool:
    return any(column in key.columns for key in table.foreign_keys)


def _closed(
    schema: BackendSchema, dimensions: Mapping[TableName, str], public: Collection[TableName]
) -> dict[TableName, str]:
    """The dimensions that refer to dimensions and public tables alone."""
    kept = dict(dimensions)
    while bad := [
        name
        for name in kept
        if any(k.target not in {name, *kept, *public} for k in schema.tables[name].foreign_keys)
    ]:
        for name in bad:
            del kept[name]
    return kept
