"""Columns of a table as dpproxy.toml declares them, checked against their types in the backend."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from dpproxy.backends.base import BackendColumn, BackendTable
from dpproxy.config.sections import ColumnSection, TableSection, nearest
from dpproxy.config.values import LISTED, NUMBERS, RANGED, base, comparable, literal, order
from rewriter.policy import Column, Horizon, Table, TableName, shown_type

OF_TYPE = "type"
"""A domain_from that means the values of the column's own enumerated type."""


class Mistake(Exception):
    """A ConfigError whose file is not known yet."""

    def __init__(self, key: str, message: str, nearest: str | None = None) -> None:
        super().__init__(message)
        self.key = key
        self.message = message
        self.nearest = nearest


Computed = Callable[[BackendTable, str, str], BackendColumn]
"""The column that an expression over a row of a table computes; ValueError where it is none."""


def with_computed(place: str, section: TableSection, table: BackendTable, computed: Computed) -> BackendTable:
    """The backend's table with the columns that the file computes behind its own; raises Mistake."""
    # Some engines do not tell names apart by case.
    taken = {column.name.lower() for column in table.columns}
    found = []
    for name, declared in section.columns.items():
        if declared.expression is None:
            continue
        key = f"{place}.columns.{name}"
        if name.lower() in taken:
            raise Mistake(key, "the backend's table has such a column, and its values stay as they are")
        taken.add(name.lower())
        column = _checked(f"{key}.expression", computed, table, name, declared.expression)
        if column.type is None:
            raise Mistake(f"{key}.expression", f"PostgreSQL has no type for {column.native}")
        found.append(replace(column, expression=declared.expression))
    return replace(table, columns=(*table.columns, *found))


def check_filter(place: str, section: TableSection, table: BackendTable, computed: Computed) -> None:
    """A row filter is a condition on one row of the backend's table; raises Mistake."""
    if section.where is not None:
        column = _checked(f"{place}.where", computed, table, "kept", section.where)
        if column.type != "boolean":
            raise Mistake(f"{place}.where", f"is no condition: it has type {column.native}")


def _checked(place: str, computed: Computed, table: BackendTable, name: str, text: str) -> BackendColumn:
    try:
        return computed(table, name, text)
    except ValueError as error:
        raise Mistake(place, str(error)) from None


def build_columns(
    place: str, section: TableSection, table: BackendTable, names: Mapping[str, TableName]
) -> tuple[Column, ...]:
    """The policy's columns of a table, in the backend's order.

    `place`: the table's key in the file; `names`: the tables of the file by their keys. Raises Mistake.
    """
    for name in section.columns:
        if table.column(name) is None:
            known = nearest(name, [column.name for column in table.columns])
            raise Mistake(f"{place}.columns.{name}", "the table has no such column", known)
    return tuple(
        replace(
            _column(f"{place}.columns.{column.name}", column, section, names),
            required=table.keeps_keys and not column.nullable,
            expression=column.expression,
        )
        for column in table.columns
    )


def build_horizon(place: str, horizon: Mapping[str, object], table: BackendTable) -> Horizon:
    """A horizon is one column of dates or times with both ends, and events_per_unit; raises Mistake."""
    rest = dict(horizon)
    events = rest.pop("events_per_unit", None)
    if isinstance(events, bool) or not isinstance(events, int) or events < 1:
        raise Mistake(f"{place}.events_per_unit", "say how many events of one unit count")
    if len(rest) != 1:
        raise Mistake(place, "needs one column and events_per_unit")
    ((name, span),) = rest.items()
    column = table.column(name)
    if column is None:
        known = nearest(name, [column.name for column in table.columns])
        raise Mistake(f"{place}.{name}", "the table has no such column", known)
    if not isinstance(span, list) or len(span) != 2:
        raise Mistake(f"{place}.{name}", "needs the first and the last time")
    if column.type is None or base(column.type) not in RANGED or base(column.type) in NUMBERS:
        raise Mistake(f"{place}.{name}", f"a column of type {shown_type(str(column.type))} has no horizon")
    first, last = _range(f"{place}.{name}", span, column.type)
    return Horizon(name, first, last, events)


def _column(
    place: str, column: BackendColumn, section: TableSection, names: Mapping[str, TableName]
) -> Column:
    declared = section.columns.get(column.name, ColumnSection())
    if column.type is None and declared.model_fields_set - {"hidden"}:
        raise Mistake(place, f"is not shown: PostgreSQL has no type for {column.native}")
    if column.type is None or declared.hidden:
        kind = column.type or column.native.lower()
        return Column(column.name, kind, column.nullable, hidden=True, sized=column.sized)
    said, of_type = declared.model_fields_set - {"expression"}, declared.domain_from == OF_TYPE
    if section.public and said and not (of_type and said == {"domain_from"}):
        raise Mistake(place, "a public table's values are read from it: its columns can only be hidden")
    kind, domain = column.type, None
    _check_bounds(place, declared, kind)
    if of_type:
        domain = _type_values(f"{place}.domain_from", column)
        kind = column.enum or kind
        if section.public:
            return Column(column.name, kind, column.nullable, sized=column.sized)
    elif declared.domain_from is None and not column.copied:
        domain = column.values
    if declared.domain is not None:
        domain = _domain(f"{place}.domain", declared.domain, column)
    span = None if declared.range is None else _range(f"{place}.range", declared.range, column.type)
    source = None
    if declared.domain_from not in (None, OF_TYPE):
        source = _source(f"{place}.domain_from", declared.domain_from, names)
    sums = Column(
        column.name,
        kind,
        column.nullable,
        bounds=_ends(declared.bounds),
        unit_bounds=_ends(declared.unit_bounds),
        scale=declared.scale,
        magnitude=declared.magnitude,
        of_unit=declared.of_unit or section.vouched_key == column.name,
        declared=column.name in _named(section),
        sized=column.sized,
    )
    if domain is None and span is None and source is None:
        if declared.nullable is not None:
            raise Mistake(f"{place}.nullable", "goes with domain, domain_from or range (NULL as a cell)")
        return sums
    # The domain of a type has NULL, too, if the column may hold it.
    nullable = declared.nullable if declared.nullable is not None else declared == ColumnSection()
    return replace(sums, nullable=nullable and column.nullable, domain=domain, domain_from=source, range=span)


def _named(section: TableSection) -> set[str]:
    """The columns that the owner has declared, alone or in max_groups_per_unit."""
    together = (name.strip() for key in section.max_groups_per_unit for name in key.split(","))
    return {*section.columns, *together}


def _ends(bounds: Sequence[Fraction] | None) -> tuple[Fraction, Fraction] | None:
    return None if bounds is None else (bounds[0], bounds[1])


def _domain(place: str, values: Sequence[object], column: BackendColumn) -> tuple[str, ...]:
    kind = str(column.type)
    if base(kind) not in LISTED:
        raise Mistake(place, f"a column of type {shown_type(kind)} can have no domain")
    if not values:
        raise Mistake(place, "is empty")
    written = tuple(_literal(place, value, kind) for value in values)
    seen: set[str] = set()
    for value in written:
        if value in seen:
            raise Mistake(place, f"{value} is in it twice")
        seen.add(value)
        if column.values is not None and value not in column.values:
            raise Mistake(place, f"{value} is no value of the type", nearest(value, column.values))
    return written


def _range(place: str, ends: Sequence[object], kind: str) -> tuple[str, str]:
    if base(kind) not in RANGED:
        raise Mistake(place, f"a column of type {shown_type(kind)} can have no range")
    first = _literal(place, ends[0], kind)
    try:
        last = literal(ends[1], kind, end="last")
    except ValueError as error:
        raise Mistake(place, str(error)) from error
    if order(first, kind) > order(last, kind):  # type: ignore[operator]
        raise Mistake(place, f"{first} comes after {last}")
    return first, last


def _literal(place: str, value: object, kind: str) -> str:
    try:
        return literal(value, kind)
    except ValueError as error:
        raise Mistake(place, str(error)) from error


def _type_values(place: str, column: BackendColumn) -> tuple[str, ...]:
    if column.values is None:
        raise Mistake(place, f"{column.native} is no enumerated type")
    return column.values


def _source(place: str, written: str, names: Mapping[str, TableName]) -> tuple[TableName, str]:
    table, dot, column = written.rpartition(".")
    if not dot:
        raise Mistake(
            place, f'is written like "articles.article_id", or "{OF_TYPE}" for the values of an enumeration'
        )
    if table not in names:
        raise Mistake(place, f'the file has no table "{table}"', nearest(table, names))
    return names[table], column


def _check_bounds(place: str, declared: ColumnSection, kind: str) -> None:
    for key, bounds in (("bounds", declared.bounds), ("unit_bounds", declared.unit_bounds)):
        if bounds is not None and base(kind) not in NUMBERS:
            raise Mistake(f"{place}.{key}", f"a column of type {shown_type(kind)} can have no bounds")
    for key, value in (("scale", declared.scale), ("magnitude", declared.magnitude)):
        if value is not None and base(kind) not in NUMBERS:
            raise Mistake(f"{place}.{key}", f"a column of type {shown_type(kind)} can have no {key}")


def check_source(place: str, kind: str, table: Table, name: str) -> None:
    """A domain comes from a visible column of a public table, of a comparable type; raises Mistake."""
    if not table.public:
        raise Mistake(place, f'table "{table.name}" is private: its values are no public domain')
    target = table.column(name)
    if target is None:
        visible = [column.name for column in table.columns if not column.hidden]
        raise Mistake(place, f'table "{table.name}" shows no column "{name}"', nearest(name, visible))
    if not comparable(kind, target.type):
        raise Mistake(place, f"types {shown_type(kind)} and {shown_type(target.type)} are not alike")
