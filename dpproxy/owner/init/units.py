"""Who is protected, and how each table's rows lead to them: from names, keys and foreign keys, never from rows.

Why: docs/decisions/guesses-are-not-made-public.md.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from dpproxy.backends.base import BackendSchema, BackendTable
from dpproxy.config.sections import nearest
from dpproxy.owner.init.names import called_after, called_as, in_a_role
from dpproxy.owner.people import called_after_persons
from dpproxy.reporting.rows import OutputError
from rewriter.policy import TableName


@dataclass(frozen=True)
class Place:
    """A column of a table."""

    table: TableName
    column: str

    def __str__(self) -> str:
        return f"{shown(self.table)}.{self.column}"


@dataclass(frozen=True)
class Way:
    """The hop by which a private table's rows lead on to the privacy unit, None for the table of the units."""

    column: str
    target: Place | None


@dataclass(frozen=True)
class Layout:
    """What is proposed for each table: private by its way, public, or left out for a reason.

    `guessed`: private tables whose way no foreign key says; `paths`, `dimensions`: tables that the owner may make
    private by a way of more than one hop, or public, each for a reason. They are left out until then.
    `views`: views of the backend over tables that are private or public, with these.
    """

    unit: Place
    private: Mapping[TableName, Way]
    public: tuple[TableName, ...]
    left_out: Mapping[TableName, str]
    guessed: frozenset[TableName] = frozenset()
    paths: Mapping[TableName, Way] = field(default_factory=dict)
    dimensions: Mapping[TableName, str] = field(default_factory=dict)
    views: Mapping[TableName, tuple[TableName, ...]] = field(default_factory=dict)


def shown(name: TableName) -> str:
    """A table's name as dpproxy.toml has it.

    >>> shown(("public", "users")), shown(("app", "users"))
    ('users', 'app.users')
    """
    return name[1] if name[0] == "public" else ".".join(name)


def candidates(schema: BackendSchema) -> list[Place]:
    """Keys of one column of tables that are called after persons: one of them is the privacy unit, surely so if
    there is one only."""
    return [
        Place(name, key)
        for name, table in schema.tables.items()
        if called_after_persons(table.name) and (key := single_key(table)) is not None
    ]


def single_key(table: BackendTable) -> str | None:
    """The one column that the backend keeps from repeating, the primary key before others; None without one."""
    keys = [key for key in (table.primary_key, *table.unique) if key is not None and len(key) == 1]
    return next((key[0] for key in keys if table.enforced(frozenset(key))), None)


def place(schema: BackendSchema, written: str) -> Place:
    """The column that an owner means by TABLE.COLUMN; raises OutputError for one that is not there."""
    key, _, column = written.rpartition(".")
    name = table_called(schema, key)
    if schema.tables[name].column(column) is None:
        known = nearest(column, [c.name for c in schema.tables[name].columns])
        hint = f"; did you mean {key}.{known}?" if known else ""
        raise OutputError(f"{key} has no column {column}{hint}")
    return Place(name, column)


def table_called(schema: BackendSchema, written: str) -> TableName:
    """The table that an owner means; raises OutputError for one that is not there."""
    names = {shown(name): name for name in schema.tables}
    if written not in names:
        close = nearest(written, names)
        raise OutputError(
            f"the backend has no table {written or '(none)'}" + (f"; did you mean {close}?" if close else "")
        )
    return names[written]


def layout(
    schema: BackendSchema, unit: Place, links: Sequence[Place], public: Collection[TableName]
) -> Layout:
    """Leads every table to the unit along the backend's foreign keys and, where a table has none, by a column that is
    called as the unit's key.

    A wrong guess of that kind still divides the rows by what the column holds, which is what the unit is. A guess over
    a second table, or that a table is public, would not be safe: these are proposed to the owner alone (guesses.py).

    `links`: columns of which the owner says that they hold the unit; `public`: tables of which the owner says
    that their rows are nobody's. A table that leads to the unit in several ways, or in one that a path cannot
    take, is left out, and so is one that leads nowhere: rows become public by the owner's word alone. Raises
    OutputError for a public table that leads to the unit.
    """
    leading = _leading(schema, unit, links)
    guesses, doubtful = _called_as_unit(schema, unit, {*leading, *public})
    links = [*links, *(Place(name, column) for name, column in guesses.items())]
    leading = _leading(schema, unit, links)
    for name in public:
        if name in leading:
            raise OutputError(
                f"{shown(name)} refers to {shown(unit.table)}, so that its rows are somebody's: it is not public"
            )
    linked = {link.table: link.column for link in links}
    private = {unit.table: Way(unit.column, None)}
    left_out: dict[TableName, str] = {}
    for name in [n for n in leading if n != unit.table]:
        if name in linked:
            private[name] = Way(linked[name], unit)
        elif isinstance(found := _only_way(schema, name, leading), Way):
            private[name] = found
        else:
            left_out[name] = found
    _drop_dead_ends(private, left_out)
    for name in schema.tables:
        if name not in leading and name not in public:
            left_out[name] = doubtful.get(name, f"no foreign key leads to {unit}")
    guessed = frozenset(guesses) & private.keys()
    return Layout(unit, private, tuple(n for n in schema.tables if n in public), left_out, guessed)


def _called_as_unit(
    schema: BackendSchema, unit: Place, known: Collection[TableName]
) -> tuple[dict[TableName, str], dict[TableName, str]]:
    """By table, the one column that is called as the unit's key; and why there is none of tables with several."""
    guesses, doubtful = {}, {}
    holder = schema.tables[unit.table]
    for name, table in schema.tables.items():
        if name in known:
            continue
        found = [c for c in table.columns if called_as(c, holder, unit.column)]
        roles = [c for c in table.columns if in_a_role(c, holder, unit.column)]
        if len(found) != 1 or roles:
            if found or roles:
                named = ", ".join(c.name for c in (*found, *roles))
                doubtful[name] = f"its rows may be several units', by the names of {named}"
            continue
        (column,) = found
        others = [
            shown(other)
            for other, target in schema.tables.items()
            if other not in (unit.table, name)
            and (key := single_key(target)) is not None
            and called_after(column, target, key)
        ]
        if others:
            doubtful[name] = f"{column.name} may be of {', '.join([shown(unit.table), *others])}"
        else:
            guesses[name] = column.name
    return guesses, doubtful


def _leading(schema: BackendSchema, unit: Place, links: Sequence[Place]) -> list[TableName]:
    """The tables whose rows refer to the unit's table, directly or not, whatever the foreign keys look like."""
    found = [unit.table, *(link.table for link in links if link.table != unit.table)]
    grown = True
    while grown:
        more = [
            name
            for name, table in schema.tables.items()
            if name not in found and any(key.target in found for key in table.foreign_keys)
        ]
        found += more
        grown = bool(more)
    return found


def _only_way(schema: BackendSchema, name: TableName, leading: Collection[TableName]) -> Way | str:
    """The way of a table, or why there is none."""
    keys = [k for k in schema.tables[name].foreign_keys if k.target in leading and k.target != name]
    ways = [f"{', '.join(key.columns)} -> {shown(key.target)}" for key in keys]
    if len(keys) > 1:
        return f"its rows may be several units': {'; '.join(ways)}"
    key = keys[0]
    target = schema.tables[key.target]
    if not target.enforced(frozenset(key.target_columns)):
        return f"a path needs a foreign key to a key without NULLs, unlike {ways[0]}"
    if len(key.columns) > 1:
        hop = f"({', '.join(key.columns)}) -> {shown(key.target)} ({', '.join(key.target_columns)})"
        return f'its rows may lead to the unit by privacy_unit_path = ["{hop}"]'
    return Way(key.columns[0], Place(key.target, key.target_columns[0]))


def _drop_dead_ends(private: dict[TableName, Way], left_out: dict[TableName, str]) -> None:
    """A table whose way leads to one that is left out is left out."""
    dead = [n for n, way in private.items() if way.target is not None and way.target.table not in private]
    while dead:
        for name in dead:
            way = private.pop(name)
            assert way.target is not None
            left_out[name] = f"it leads to {shown(way.target.table)}, which is left out"
        dead = [n for n, way in private.items() if way.target is not None and way.target.table not in private]
