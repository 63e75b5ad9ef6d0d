"""The policy that dpproxy.toml declares, checked against the backend: names exist, declarations are possible."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from dpproxy.backends import connect
from dpproxy.backends.base import Backend, BackendColumn, BackendSchema, BackendTable, BackendUnavailable
from dpproxy.catalog.columns import (
    OF_TYPE,
    Mistake,
    build_columns,
    build_horizon,
    check_filter,
    check_source,
    with_computed,
)
from dpproxy.catalog.unit_paths import resolve_paths
from dpproxy.catalog.views import with_views
from dpproxy.config.sections import ColumnSection, Config, ConfigError, TableSection, nearest
from dpproxy.front.clone import SYSTEM
from dpproxy.pgwire.identifiers import NAME_BYTES
from rewriter.policy import Policy, Table, TableName, enum_name, labels
from rewriter.statements.published_table import SCHEMA as PUBLISHED

_SYSTEM_COLUMNS = {"tableoid", "xmin", "cmin", "xmax", "cmax", "ctid"}


class PublicData(Protocol):
    """Questions about the backend's public tables and about the owner's SQL."""

    def computed(self, table: BackendTable, name: str, expression: str) -> BackendColumn:
        """The column that an expression over a row computes; ValueError where it is none."""

    def count(self, table: Table) -> int:
        """How many rows it has."""

    def repeats(self, table: Table, columns: Sequence[str]) -> bool:
        """Whether rows agree in `columns`."""


@dataclass(frozen=True)
class _Found:
    """A table of the file and what the backend has under its name."""

    key: str
    section: TableSection
    backend: BackendTable

    @property
    def name(self) -> TableName:
        return self.backend.schema, self.backend.name


def open_backend(config: Config, *, slots: int) -> Backend:
    """The backend of [backend], not opened yet; raises ConfigError for a URL that is not served."""
    section = config.backend
    try:
        seconds = config.server.statement_timeout.total_seconds()
        return connect(
            section.url,
            folder=config.folder,
            memory=section.memory,
            slots=slots,
            seconds=seconds,
            owner_writes=section.owner_writes,
            password_file=config.path(section.password_file) if section.password_file else None,
        )
    except BackendUnavailable as error:
        raise ConfigError(config.file, "backend.url", str(error)) from error


def build_policy(config: Config, schema: BackendSchema, data: PublicData) -> Policy:
    """The policy that `config` declares over the tables of `schema`.

    `data` gives the size of public tables, whether their declared keys hold, and the types of expressions. Raises
    ConfigError for a name that the backend lacks, a bound or a domain that its type cannot have, a key or a path that
    is not kept, an expression that the backend does not take. A second call after public rows have changed checks and
    counts them again.
    """
    try:
        named = [_find(key, section, schema) for key, section in config.tables.items()]
        found = [_computing(one, data) for one in named if one.backend.definition is None]
        tables = {one.name: _table(one, found) for one in found}
        tables = resolve_paths({one.name: (one.key, one.section, one.backend) for one in found}, tables)
        _check_horizons(found, tables)
        _check_domains_from(found, tables)
        public_rows = config.front.public_rows
        for one in found:
            if one.section.public:
                tables[one.name] = _public(one, tables[one.name], data, public_rows)
        policy = _policy(config, tables)
        views = [one for one in named if one.backend.definition is not None]
        return with_views(policy, schema, {one.name: (one.key, one.section, one.backend) for one in views})
    except Mistake as mistake:
        raise ConfigError(config.file, mistake.key, mistake.message, mistake.nearest) from None


def _policy(config: Config, tables: Mapping[TableName, Table]) -> Policy:
    named = map(table_name, config.tables)
    others = dict.fromkeys(schema for schema, _ in named if schema != "public")
    return Policy(tables, (*others, "public"), unit_clips=config.privacy.unit_clips)


def policy_warnings(config: Config, schema: BackendSchema) -> tuple[str, ...]:
    """Columns that are not shown because PostgreSQL has no type for them, or not as what they are, and keys that nobody
    enforces; the mistakes are build_policy's."""
    return (*_unshown(config, schema), *_as_texts(config, schema), *_vouched(config))


def _vouched(config: Config) -> Iterator[str]:
    for key, section in config.tables.items():
        if section.vouched_key is not None:
            told = f"tables.{key}.vouched_key: nobody enforces that {section.vouched_key} is unique"
            yield f"{told}; where it repeats, a row belongs to several units and the guarantee does not hold"


def _unshown(config: Config, schema: BackendSchema) -> Iterator[str]:
    for key, section in config.tables.items():
        for column in _find(key, section, schema).backend.columns:
            declared = section.columns.get(column.name)
            if column.type is None and not (declared and declared.hidden):
                yield f"{key}.{column.name} is not shown: PostgreSQL has no type for {column.native}"


def _as_texts(config: Config, schema: BackendSchema) -> Iterator[str]:
    """Enumerated types whose labels nobody has said to be known, or that PostgreSQL cannot have."""
    for key, section in config.tables.items():
        backend = _find(key, section, schema).backend
        for column in backend.columns if backend.definition is None else ():
            declared = section.columns.get(column.name, ColumnSection())
            if not column.copied or declared.hidden:
                continue
            told = f"{key}.{column.name} is shown as text, and sorts as texts do"
            if column.enum is None:
                yield f"{told}: PostgreSQL's labels have at most {NAME_BYTES} bytes"
            elif declared.domain_from != OF_TYPE:
                yield (
                    f"{told}: its labels may have been copied from rows; if they tell nothing of a person, "
                    f'domain_from = "{OF_TYPE}" shows its type and its order'
                )


def _find(key: str, section: TableSection, schema: BackendSchema) -> _Found:
    name = table_name(key)
    place = f"tables.{key}"
    if name not in schema.relations:
        names = [table if where == "public" else f"{where}.{table}" for where, table in schema.relations]
        raise Mistake(place, "the backend has no such table", nearest(key, names))
    _check_schema(place, name[0])
    for identifier in name:
        _check_length(place, identifier)
    table = schema.relations[name]
    for column in table.columns:
        declared = section.columns.get(column.name)
        if not (declared and declared.hidden) and column.type is not None:
            _check_name(f"{place}.columns.{column.name}", column.name)
            for of in filter(labels, filter(None, (column.type, column.enum))):
                _check_schema(f"{place}.columns.{column.name}", enum_name(of)[0])
    return _Found(key, section, table)


def _check_schema(place: str, schema: str) -> None:
    if schema in (SYSTEM, PUBLISHED, "information_schema") or schema.startswith("pg_"):
        raise Mistake(place, f'schema "{schema}" is the front\'s own')


def _computing(one: _Found, data: PublicData) -> _Found:
    """What was found, with the columns that the file computes."""
    place = f"tables.{one.key}"
    check_filter(place, one.section, one.backend, data.computed)
    for name, declared in one.section.columns.items():
        if declared.expression is not None:
            _check_name(f"{place}.columns.{name}", name)
    return replace(one, backend=with_computed(place, one.section, one.backend, data.computed))


def table_name(key: str) -> TableName:
    """(schema, table) of a table's name in the file.

    >>> table_name("users"), table_name("app.users")
    (('public', 'users'), ('app', 'users'))
    """
    schema, dot, name = key.partition(".")
    return (schema, name) if dot else ("public", key)


def _check_name(place: str, column: str) -> None:
    _check_length(place, column)
    if column in _SYSTEM_COLUMNS:
        raise Mistake(place, "PostgreSQL has such a column: hide it")


def _check_length(place: str, identifier: str) -> None:
    if len(identifier.encode()) > NAME_BYTES:
        raise Mistake(place, f"PostgreSQL's names have at most {NAME_BYTES} bytes")


def _table(one: _Found, found: Sequence[_Found]) -> Table:
    section, backend, place = one.section, one.backend, f"tables.{one.key}"
    columns = build_columns(place, section, backend, {other.key: other.name for other in found})
    declared = tuple(_columns_of(f"{place}.unique", key, backend) for key in section.unique)
    if len(set(declared)) != len(declared):
        raise Mistake(f"{place}.unique", "a key is named twice")
    if section.vouched_key is not None:
        _columns_of(f"{place}.vouched_key", section.vouched_key, backend)
        if backend.keeps_keys:
            raise Mistake(f"{place}.vouched_key", "this backend keeps keys: make it a primary key there")
    table = Table(
        backend.schema, backend.name, columns, section.public, backend.backend_name, where=section.where
    )
    if section.public:
        _refuse_private_keys(place, section)
        return replace(table, declared_keys=declared, comment=backend.comment)
    if not section.unit and not section.privacy_unit_path:
        raise Mistake(place, "say public = true, or name the column of the privacy_unit")
    horizon = None
    if section.horizon is not None:
        horizon = build_horizon(f"{place}.horizon", section.horizon, backend)
    # Rows without a unit are dropped, so that a key may leave its NULLs alone.
    unit = frozenset(filter(backend.column, _own_unit(section)))
    keys = [frozenset(key) for key in (backend.primary_key, *backend.unique) if key]
    kept = tuple(dict.fromkeys(key for key in keys if backend.enforced(key, but=unit)))
    return replace(
        table,
        privacy_unit=", ".join(section.unit),
        keys=kept,
        declared_keys=tuple(key for key in declared if key not in kept),
        max_rows_per_unit=section.max_rows_per_unit,
        max_rows_per_unit_per_group=section.max_rows_per_unit_per_group,
        max_groups_per_unit=_groups(place, section, backend),
        horizon=horizon,
        comment=backend.comment,
    )


def _own_unit(section: TableSection) -> tuple[str, ...]:
    """The table's own columns that it names as its privacy unit; none where that is the path's end."""
    path, written = section.privacy_unit_path, section.unit
    starts = path[0].partition("->")[0].strip("() ").split(",") if path else ()
    return written if not path or tuple(name.strip() for name in starts) == written else ()


def _refuse_private_keys(place: str, section: TableSection) -> None:
    for key in TableSection.model_fields:
        if key in section.model_fields_set and key not in ("public", "unique", "where", "columns"):
            raise Mistake(f"{place}.{key}", "a public table has no privacy unit and needs no bounds")


def _groups(place: str, section: TableSection, backend: BackendTable) -> dict[frozenset[str], int]:
    groups: dict[frozenset[str], int] = {}
    for written, most in section.max_groups_per_unit.items():
        columns = _columns_of(f"{place}.max_groups_per_unit", written, backend)
        if columns in groups:
            raise Mistake(f"{place}.max_groups_per_unit", f"the columns {written} are named twice")
        groups[columns] = most
    return groups


def _columns_of(place: str, written: str, backend: BackendTable) -> frozenset[str]:
    """The columns of "a" or "a, b"."""
    names = [name.strip() for name in written.split(",")]
    for name in names:
        if backend.column(name) is None:
            known = nearest(name, [column.name for column in backend.columns])
            raise Mistake(place, f'the table has no column "{name}"', known)
    if len(set(names)) != len(names):
        raise Mistake(place, f"a column is named twice in {written}")
    return frozenset(names)


def _check_horizons(found: Sequence[_Found], tables: Mapping[TableName, Table]) -> None:
    """A horizon promises that rows stay. Units along a path, filters and computed columns follow the latest values.

    Why: docs/decisions/streams-go-on-where-the-past-stays.md.
    """
    for one in found:
        table = tables[one.name]
        if table.horizon is None:
            continue
        place = f"tables.{one.key}.horizon"
        if table.path:
            raise Mistake(
                place,
                f'promises that rows stay with their units, but a change of table "{table.path[0].target[1]}" can move '
                "them: name the unit by the table's own columns, without privacy_unit_path, or leave the horizon out",
            )
        if table.where is not None:
            raise Mistake(
                place, "promises that rows stay, but a row filter may drop them: leave one of both out"
            )
        if any(column.expression is not None for column in table.columns):
            raise Mistake(place, "promises that rows stay as they are, but computed columns may change")


def _check_domains_from(found: Sequence[_Found], tables: dict[TableName, Table]) -> None:
    for one in found:
        for column in tables[one.name].columns:
            if column.domain_from is not None:
                key = f"tables.{one.key}.columns.{column.name}.domain_from"
                check_source(key, column.type, tables[column.domain_from[0]], column.domain_from[1])


def _public(one: _Found, table: Table, data: PublicData, public_rows: int) -> Table:
    """Keys of a public table are checked on its rows, in which NULLs count as alike."""
    keys = []
    for key in filter(None, (one.backend.primary_key, *one.backend.unique)):
        columns = frozenset(key)
        if one.backend.enforced(columns) or not data.repeats(table, sorted(columns)):
            keys.append(columns)
    for columns in table.declared_keys:
        if columns not in keys:
            if data.repeats(table, sorted(columns)):
                names = ", ".join(sorted(columns))
                raise Mistake(f"tables.{one.key}.unique", f"{names} repeats in the table")
            keys.append(columns)
    small = data.count(table) <= public_rows
    return replace(table, keys=tuple(dict.fromkeys(keys)), declared_keys=(), in_front=small)


def unit_name(policy: Policy) -> str:
    """The name of the policy's privacy unit, the first of several kinds, which the ledger pins; empty where no table is
    private.

    >>> unit_name(Policy({}))
    ''
    """
    ends = (table.privacy_unit for table in policy.tables.values() if not table.path)
    return next(filter(None, ends), "")


def unit_words(policy: Policy, kind: str | None = None) -> str:
    """What owners read of the units, those of one kind or all: the kind, or the column's name where it has none.

    >>> patients = Table("public", "patients", (), False, ("p",), privacy_unit="id")
    >>> doctors = Table("public", "doctors", (), False, ("d",), privacy_unit="id", kind="doctor")
    >>> policy = Policy({("public", "patients"): patients, ("public", "doctors"): doctors})
    >>> unit_words(policy), unit_words(policy, "doctor")
    ('id or doctor', 'doctor')
    """
    ends = (
        table
        for table in policy.tables.values()
        if not table.public and not table.path and table.view is None and kind in (None, table.kind)
    )
    return " or ".join(dict.fromkeys(table.kind or table.privacy_unit or "" for table in ends))
