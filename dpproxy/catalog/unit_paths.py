"""The path from a table's rows to their privacy unit: hops along enforced keys, one unit for all tables of a kind.

Why: docs/decisions/paths-need-keys.md, docs/decisions/kinds-do-not-meet.md, docs/decisions/spark-keeps-no-keys.md.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain, count

from dpproxy.backends.base import BackendTable
from dpproxy.catalog.columns import Mistake
from dpproxy.config.sections import TableSection, nearest
from dpproxy.config.values import TEXTS, comparable
from dpproxy.pgwire.identifiers import NAME_BYTES
from rewriter.ir.types import Type, type_named
from rewriter.policy import Column, Hop, Table, TableName

_HOP = re.compile(r"\s*(\S.*?)\s*->\s*(\S.*)\.([^.]*\S)\s*\Z")
_HOP_OF_SEVERAL = re.compile(r"\s*\(([^()]*)\)\s*->\s*(\S.*?)\s*\(([^()]*)\)\s*\Z")
_CASELESS = "citext"
_UNIT_TYPES = (
    *("smallint", "integer", "bigint", "numeric", *TEXTS, "uuid", "bytea", "date"),
    _CASELESS,
)
"""Types whose values are equal in the backend where they are in the SQL that we write."""

_DECIMAL = re.compile(r"DECIMAL\((\d+),(\d+)\)\Z")
_DIGITS = {
    **{"TINYINT": 3, "UTINYINT": 3, "SMALLINT": 5, "USMALLINT": 5, "INTEGER": 10, "UINTEGER": 10},
    **{"BIGINT": 19, "UBIGINT": 20, "HUGEINT": 39, "UHUGEINT": 39, "BIGNUM": 999},
}
"""The digits of DuckDB's whole numbers."""
_MOST_DIGITS = 38
"""Of a DECIMAL of DuckDB's, in which it compares one with another number."""

Sections = Mapping[TableName, tuple[str, TableSection, BackendTable]]
"""By name: a table's key in the file, its section, the backend's table."""


def resolve_paths(sections: Sections, tables: Mapping[TableName, Table]) -> dict[TableName, Table]:
    """The tables with their paths to the privacy unit, each led on to where the unit is a column of its own.

    The privacy unit of a table with a path is its own column where the path compares nothing but that
    column's value, and otherwise the column at the path's end: under that column's name or, where a column of the table
    is called so, as a virtual column of another name. Raises Mistake.
    """
    resolved = dict(tables)
    for name, table in tables.items():
        if not table.public:
            path = _path(name, sections)
            _check_on_the_way(name, path, sections)
            unit, own = _unit(name, path, sections)
            parts = unit if own and len(unit) > 1 else ()
            table = replace(table, path=path, privacy_unit=", ".join(unit), kind=_kind(name, path, sections))
            table = replace(table, composite=len(unit) > 1, unit_parts=parts)
            if not own and len(unit) == 1:
                table = _at_the_end(table, tables[path[-1].target], unit[0])
            resolved[name] = table
    _check_one_unit(sections, resolved)
    return _caseless(sections, resolved)


def _caseless(sections: Sections, tables: dict[TableName, Table]) -> dict[TableName, Table]:
    """The tables, where columns that name units or lead to them are read as the backend compares them."""
    leading: dict[TableName, set[str]] = defaultdict(set)
    for name, table in tables.items():
        place = name
        for hop in table.path:
            for column, target_column in hop.pairs:
                leading[place].add(column)
                leading[hop.target].add(target_column)
            place = hop.target
        if not table.public:
            leading[place].update(sections[place][1].unit)
    for name, columns in leading.items():
        known = {c.name for c in sections[name][2].columns if c.caseless} & columns
        kept = tuple(replace(c, caseless=c.name in known) for c in tables[name].columns)
        tables[name] = replace(tables[name], columns=kept)
    return tables


def _path(name: TableName, sections: Sections) -> tuple[Hop, ...]:
    hops: list[Hop] = []
    place, seen = name, {name}
    while sections[place][1].privacy_unit_path:
        for written in sections[place][1].privacy_unit_path:
            hop = _hop(written, place, name, sections)
            hops.append(hop)
            place = hop.target
            if place in seen:
                raise Mistake(_key(name, sections), f'the path comes back to table "{place[1]}"')
            seen.add(place)
    return tuple(hops)


def _at_the_end(table: Table, end: Table, unit: str) -> Table:
    """The table whose unit is the column `unit` of `end`, which its path leads to."""
    if table.column(unit) is None:
        return _without_key(table, frozenset([unit]))
    name, held = _free_name(table, f"{end.name}_{unit}"), end.column(unit)
    shown = () if held is None else (Column(name, held.type, nullable=False, declared=False, virtual=True),)
    return replace(table, privacy_unit=name, columns=(*table.columns, *shown))


def _free_name(table: Table, wanted: str) -> str:
    """`wanted`, or the first of `wanted`_2, _3 ... that no column has; some engines do not tell names apart by case."""
    taken = {column.name.lower() for column in table.columns}
    ends = chain([""], (f"_{number}" for number in count(2)))
    # PostgreSQL would cut a name that is too long.
    names = (wanted.encode()[: NAME_BYTES - len(end)].decode(errors="ignore") + end for end in ends)
    return next(name for name in names if name.lower() not in taken)


def _without_key(table: Table, key: frozenset[str]) -> Table:
    """A column that is hidden so that its name can mean the path's end has no information about the unit's rows."""
    kept = tuple(known for known in table.keys if known != key)
    return replace(table, keys=kept, declared_keys=tuple(k for k in table.declared_keys if k != key))


def _key(name: TableName, sections: Sections) -> str:
    return f"tables.{sections[name][0]}.privacy_unit_path"


def _hop(written: str, place: TableName, start: TableName, sections: Sections) -> Hop:
    key = _key(start, sections)
    several = _HOP_OF_SEVERAL.match(written)
    match = several or _HOP.match(written)
    if match is None:
        several_columns = '"(year, number) -> orders (year, number)"'
        raise Mistake(key, f'a hop is written like "user_id -> users.user_id", or {several_columns}')
    listed, table, targets = match.groups()
    columns, keys = (_listed(names) if several else (names,) for names in (listed, targets))
    if len(columns) != len(keys) or len(set(columns)) != len(columns) or len(set(keys)) != len(keys):
        raise Mistake(key, f"{written}: each column refers to one of the key")
    tables = {section[0]: name for name, section in sections.items()}
    if table not in tables:
        raise Mistake(key, f'the file has no table "{table}"', nearest(table, tables))
    target = tables[table]
    for column, target_column in zip(columns, keys, strict=True):
        types = [
            _type(key, sections[place][2], column),
            _type(key, sections[target][2], target_column),
        ]
        if not _alike(*types, of_several=len(keys) > 1):
            raise Mistake(key, f"{written}: types {types[0]} and {types[1]} are not alike")
        _check_compared(key, _native(sections[place][2], column), _native(sections[target][2], target_column))
    _, section, backend = sections[target]
    if section.public:
        raise Mistake(key, f'table "{table}" is public: the path does not lead to a privacy unit')
    # A second target row would give a row to somebody else too, unless it only says that the unit exists.
    vouched = frozenset(_listed(section.vouched_key or ""))
    kept = backend.enforced(frozenset(keys)) or vouched == frozenset(keys)
    if not kept and (set(keys) != set(section.unit) or section.privacy_unit_path):
        shown = ", ".join(keys)
        if not backend.keeps_keys:
            say = f'vouched_key = "{shown}" in [tables.{table}], if it never repeats'
            raise Mistake(key, f"this backend keeps no keys: vouch for {table}.{shown} by {say}")
        raise Mistake(key, f"the backend has to keep {table}.{shown} unique: make it the primary key")
    return Hop(columns[0], target, keys[0], tuple(zip(columns[1:], keys[1:], strict=True)))


def _listed(names: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in names.split(","))


def _type(key: str, table: BackendTable, name: str) -> str:
    column = table.column(name)
    if column is not None and column.expression is not None:
        raise Mistake(key, f'"{name}" is computed: it can neither name a privacy unit nor lead to one')
    if column is not None and column.type is None:
        told = f'"{table.name}"."{name}" has type {column.native}'
        raise Mistake(key, f"{told}, which can neither name a privacy unit nor lead to one: use another key")
    if column is None or column.type is None:
        known = nearest(name, [column.name for column in table.columns])
        raise Mistake(key, f'table "{table.name}" has no column "{name}"', known)
    if column.folds:
        # The database treats several texts as equal, while every unit is bounded by its text.
        told = f'the collation of "{table.name}"."{name}" makes one value of several texts'
        raise Mistake(
            key, f"{told}, so that one person would be many units: give the column another collation"
        )
    return _CASELESS if column.caseless else column.type


def _alike(one: str, other: str, *, of_several: bool) -> bool:
    """Whether values of two types are equal in the backend where they are in our SQL; of columns that name a unit
    together, whether the SQL brings them to one type."""
    alike = one == other or (_CASELESS not in (one, other) and comparable(one, other))
    named = type_named(one), type_named(other)
    numeric = Type.NUMERIC in named
    return alike and (not of_several or (one == other if numeric else named[0].family == named[1].family))


def _native(table: BackendTable, name: str) -> str:
    column = table.column(name)
    return "" if column is None else column.native


def _check_compared(key: str, one: str, other: str) -> None:
    """Raises Mistake for two of DuckDB's types that it cannot compare without an error that a row could decide."""
    if not _compared(one, other):
        raise Mistake(
            key,
            f"DuckDB raises an error where it compares a {one} with a {other} and one number does not fit: "
            "give the columns one type",
        )


def _compared(one: str, other: str) -> bool:
    """Whether DuckDB compares every value of two of its types of numbers; True for what is no such type.

    >>> _compared("BIGINT", "HUGEINT"), _compared("BIGINT", "DECIMAL(19,19)"), _compared("BIGINT", "DECIMAL(20,20)")
    (True, True, False)
    >>> _compared("UBIGINT", "UHUGEINT"), _compared("UHUGEINT", "BIGINT"), _compared("numeric", "bigint")
    (True, False, True)
    """
    found = [_DECIMAL.match(native) for native in (one, other)]
    whole = [
        _DIGITS.get(t) if d is None else int(d[1]) - int(d[2])
        for t, d in zip((one, other), found, strict=True)
    ]
    if one == other or None in whole:
        return True
    if any(found):
        return max(n or 0 for n in whole) + max(0 if d is None else int(d[2]) for d in found) <= _MOST_DIGITS
    return "UHUGEINT" not in (one, other) or all(native.startswith("U") for native in (one, other))


def _unit(name: TableName, path: tuple[Hop, ...], sections: Sections) -> tuple[tuple[str, ...], bool]:
    """The columns of the privacy unit, and whether they are the table's own or at the path's end."""
    file_key, section, backend = sections[name]
    key = f"tables.{file_key}.privacy_unit"
    written = section.unit
    if not path:
        for column in written:
            if backend.column(column) is None:
                known = nearest(column, [column.name for column in backend.columns])
                raise Mistake(key, f'the table has no column "{column}"', known)
        if len(set(written)) != len(written):
            raise Mistake(key, "a column is named twice")
        return written, True
    end = sections[path[-1].target][1].unit
    if not end:
        raise Mistake(key, f'the path ends at table "{path[-1].target[1]}", which names no privacy_unit')
    if _same_value(path, end):
        first = tuple(_following(path, part) for part in end)
        if written not in ((), first):
            raise Mistake(key, f'the path starts from column "{", ".join(first)}"', first[0])
        return first, True
    if written not in ((), end):
        raise Mistake(key, f'the path leads to "{", ".join(end)}"', end[0])
    return end, False


def _following(path: tuple[Hop, ...], column: str) -> str:
    """The first column of a path that compares one value all along, to `column` at its end."""
    for hop in reversed(path):
        column = next(one for one, target in hop.pairs if target == column)
    return column


def _same_value(path: tuple[Hop, ...], end: tuple[str, ...]) -> bool:
    """Whether every hop compares the same values, so that the first columns hold the unit itself."""
    following = [*([column for column, _ in hop.pairs] for hop in path[1:]), end]
    keys = ({target for _, target in hop.pairs} for hop in path)
    return all(key == set(columns) for key, columns in zip(keys, following, strict=True))


def _kind(name: TableName, path: tuple[Hop, ...], sections: Sections) -> str:
    """The kind of a table's units: what the table says where the path ends, empty where it says nothing."""
    end = path[-1].target if path else name
    written, kind = sections[name][1].privacy_unit_kind, sections[end][1].privacy_unit_kind or ""
    if path and written not in (None, kind):
        place = f"tables.{sections[end][0]}"
        key = f"tables.{sections[name][0]}.privacy_unit_kind"
        raise Mistake(key, f"the path leads to {place}, which says what kind its units are")
    return kind


def _check_on_the_way(name: TableName, path: tuple[Hop, ...], sections: Sections) -> None:
    """A path agrees with the ways of the tables that it leads through: their rows have the unit that it finds.

    Otherwise a unit that is removed would take rows away along which others' rows find theirs.
    """
    for number, hop in enumerate(path[:-1], 1):
        own = _path(hop.target, sections)
        ways = [(path[number:], path[-1].target), (own, own[-1].target if own else hop.target)]
        (short, end), (long, far) = sorted(ways, key=lambda way: len(way[0]))
        unit, further = sections[end][1].unit, long[len(short) :]
        same = not further or (
            {column for column, _ in further[0].pairs} == set(unit)
            and _same_value(further, sections[far][1].unit)
        )
        if long[: len(short)] != short or not same:
            through = sections[hop.target][0]
            raise Mistake(
                _key(name, sections),
                f"it leads through {through}, whose rows [tables.{through}] gives to another unit: end it there",
            )


def _check_one_unit(sections: Sections, tables: Mapping[TableName, Table]) -> None:
    """Every private table of a kind ends at a unit of the same names and types."""
    first: dict[str, tuple[tuple[str, ...], list[str], list[str]]] = {}
    for name, table in tables.items():
        if table.public:
            continue
        key = f"tables.{sections[name][0]}.privacy_unit"
        end = table.path[-1].target if table.path else name
        unit = sections[end][1].unit
        found = [_type(key, sections[end][2], part) for part in unit]
        for one in found:
            if one.split("(")[0] not in _UNIT_TYPES:
                could = "an integer, numeric, text, varchar, char, citext, uuid, bytea or date can"
                raise Mistake(key, f"a column of type {one} cannot name a privacy unit: {could}")
        own = [_native(sections[end][2], part) for part in unit]
        names, types, natives = first.setdefault(table.kind, (unit, found, own))
        several = len(unit) > 1
        if unit != names or not all(_alike(*t, of_several=several) for t in zip(found, types, strict=True)):
            raise Mistake(
                key,
                f"{_shown(unit, found)} and {_shown(names, types)} are two privacy units; lead one to the other by "
                "privacy_unit_path, or name the kind of each by privacy_unit_kind if they are not the same persons",
            )
        for pair in zip(own, natives, strict=True):
            _check_compared(key, *pair)


def _shown(unit: Sequence[str], types: Sequence[str]) -> str:
    return f'"{", ".join(unit)}" ({", ".join(types)})'
