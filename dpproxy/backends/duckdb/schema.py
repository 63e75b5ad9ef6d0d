"""The schema of a DuckDB file, in PostgreSQL's words."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import duckdb

from dpproxy.backends.base import BackendColumn, BackendSchema, BackendTable, BackendUnavailable, ForeignKey
from rewriter.policy import TableName, enumerated

_TYPES = {
    "BOOLEAN": "boolean",
    "TINYINT": "smallint",
    "UTINYINT": "smallint",
    "SMALLINT": "smallint",
    "USMALLINT": "integer",
    "INTEGER": "integer",
    "UINTEGER": "bigint",
    "BIGINT": "bigint",
    "UBIGINT": "numeric(20,0)",
    "HUGEINT": "numeric(39,0)",
    "UHUGEINT": "numeric(39,0)",
    "BIGNUM": "numeric",
    "FLOAT": "real",
    "DOUBLE": "double precision",
    "VARCHAR": "text",
    "BLOB": "bytea",
    "UUID": "uuid",
    "JSON": "json",
    "DATE": "date",
    "TIME": "time without time zone",
    "TIME WITH TIME ZONE": "time with time zone",
    "INTERVAL": "interval",
    "TIMESTAMP": "timestamp without time zone",
    "TIMESTAMP_S": "timestamp without time zone",
    "TIMESTAMP_MS": "timestamp without time zone",
    "TIMESTAMP_NS": "timestamp without time zone",
    "TIMESTAMP WITH TIME ZONE": "timestamp with time zone",
}
_DECIMAL = re.compile(r"DECIMAL\((\d+),(\d+)\)\Z")
_LIST = re.compile(r"(.+)\[\d*\]\Z", re.DOTALL)
_TOKENS = re.compile(r'"(?:[^"]|"")*"' r"|'(?:[^']|'')*'" r"""|[(),]|[^\s"'(),]+""")
_NAME_BYTES = 63
"""The longest name or label that PostgreSQL has."""
_BYTEWISE = ("C", "POSIX", "BINARY")
_CONVERTED = ("TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS")
"""Types that are read as a TIMESTAMP, which makes one value of several: no key of them is a key of what is read."""


def front_type(native: str) -> str | None:
    """The front's type for a DuckDB type, as format_type prints it; None where PostgreSQL has none.

    >>> [front_type(t) for t in ("HUGEINT", "DECIMAL(9,2)", "INTEGER[3]", "STRUCT(x INTEGER)", "ENUM('a')[]")]
    ['numeric(39,0)', 'numeric(9,2)', 'integer[]', None, None]
    """
    if native in _TYPES:
        return _TYPES[native]
    if decimal := _DECIMAL.match(native):
        return f"numeric({decimal[1]},{decimal[2]})"
    element = _LIST.match(native)
    kind = front_type(element[1]) if element else None
    return None if kind is None or kind.endswith("]") else f"{kind}[]"


def read_schema(cursor: duckdb.DuckDBPyConnection) -> BackendSchema:
    """Tables with columns, primary, unique and foreign keys and comments; main is PostgreSQL's public.

    Raises BackendUnavailable where two tables would get one name.
    """
    columns = _with_enums(cursor, _columns(cursor))
    keys = _keys(cursor)
    tables = {}
    for database, schema, name, comment in _rows(
        cursor,
        "SELECT database_name, schema_name, table_name, comment FROM duckdb_tables() "
        "WHERE NOT internal AND NOT temporary AND database_name = current_database() "
        "ORDER BY ALL",
    ):
        seen = (_front_schema(schema), name)
        if seen in tables:
            raise BackendUnavailable(f'tables of schemas "main" and "public" are both called "{name}"')
        # "x"."t" is ambiguous to DuckDB where the file and a schema in it are both called x.
        parts = (database, schema, name) if database == schema else (schema, name)
        primary, unique, foreign = _told_apart(seen, columns, keys[seen])
        tables[seen] = BackendTable(*seen, parts, tuple(columns[seen]), primary, unique, foreign, comment)
    views = {}
    for schema, name, comment, text in _rows(
        cursor,
        "SELECT schema_name, view_name, comment, sql FROM duckdb_views() "
        "WHERE NOT internal AND NOT temporary AND database_name = current_database() ORDER BY ALL",
    ):
        seen = (_front_schema(schema), name)
        if seen not in tables:
            shown = tuple(columns[seen])
            views[seen] = BackendTable(*seen, (schema, name), shown, comment=comment, definition=text)
    return BackendSchema(tables, views, "duckdb")


def read_views(cursor: duckdb.DuckDBPyConnection) -> dict[TableName, frozenset[TableName]]:
    """Views and the tables in the text of each, over other views too; without those that read something else."""
    named = {
        (_front_schema(schema), name): _named_tables(cursor, written.partition(" AS ")[2])
        for schema, name, written in _rows(
            cursor,
            "SELECT schema_name, view_name, sql FROM duckdb_views() "
            "WHERE NOT internal AND NOT temporary AND database_name = current_database() ORDER BY ALL",
        )
    }

    def behind(name: TableName) -> frozenset[TableName] | None:
        if name not in named:
            return frozenset([name])
        parts = None if (found := named[name]) is None else [behind(one) for one in found]
        return None if parts is None or None in parts else frozenset().union(*filter(None, parts))

    return {name: tables for name in named if (tables := behind(name)) is not None}


def _named_tables(cursor: duckdb.DuckDBPyConnection, query: str) -> set[TableName] | None:
    """The tables and views that a query names, None for one that is not read or that calls a table function."""
    try:
        ((tree,),) = cursor.execute("SELECT json_serialize_sql($1)", [query]).fetchall()
    except duckdb.Error:
        return None
    found, common, nodes = set(), set(), [json.loads(tree)]
    if nodes[0].get("error"):
        return None
    while nodes:
        node = nodes.pop()
        if isinstance(node, list):
            nodes += node
        elif isinstance(node, dict):
            if node.get("type") == "TABLE_FUNCTION":
                return None
            if node.get("type") == "BASE_TABLE":
                found.add((node["schema_name"], node["table_name"]))
            common |= {("", entry["key"]) for entry in node.get("cte_map", {}).get("map", ())}
            nodes += node.values()
    return {(_front_schema(schema or "main"), name) for schema, name in found - common}


def _columns(cursor: duckdb.DuckDBPyConnection) -> dict[TableName, list[BackendColumn]]:
    columns: dict[TableName, list[BackendColumn]] = defaultdict(list)
    written = {
        (schema, table): text
        for schema, table, text in _rows(
            cursor,
            "SELECT schema_name, table_name, sql FROM duckdb_tables() WHERE database_name = current_database()",
        )
    }
    folding = {name: _collated(text) for name, text in written.items()}
    computed = {name: _generated(text) for name, text in written.items()}
    for schema, table, name, native, nullable, comment in _rows(
        cursor,
        "SELECT schema_name, table_name, column_name, data_type, is_nullable, comment FROM duckdb_columns() "
        "WHERE NOT internal AND database_name = current_database() "
        "ORDER BY schema_name, table_name, column_index",
    ):
        if name in computed.get((schema, table), ()):
            # It is computed where it is read, and raises for a row that was changed since it was inserted.
            continue
        column = replace(
            _column(cursor, name, native),
            nullable=bool(nullable),
            comment=comment,
            folds=name in folding.get((schema, table), ()),
        )
        columns[_front_schema(schema), table].append(column)
    return columns


def _column(cursor: duckdb.DuckDBPyConnection, name: str, native: str) -> BackendColumn:
    """A column of a type. ENUM (SELECT ...) and tables from data frames with categories take its values from rows."""
    if not native.startswith("ENUM(") or native.endswith("]"):
        return BackendColumn(name, front_type(native), native)
    return BackendColumn(name, "text", native, values=_enum_values(cursor, native), copied=True, sized=True)


def described(cursor: duckdb.DuckDBPyConnection, name: str, query: str) -> BackendColumn:
    """The one column of a query, which is not run; raises duckdb.Error."""
    ((_, native, *_),) = _rows(cursor, f"DESCRIBE {query}")
    return _column(cursor, name, native)


def others(cursor: duckdb.DuckDBPyConnection, called: Sequence[str]) -> list[str]:
    """Which of these names in lower case are macros, whose text may read tables, or volatile functions."""
    found = cursor.execute(
        "SELECT DISTINCT function_name FROM duckdb_functions() WHERE list_contains($1, lower(function_name)) "
        "AND (function_type IN ('macro', 'table_macro') AND NOT internal OR stability = 'VOLATILE') ORDER BY ALL",
        [list(called)],
    )
    return [name for (name,) in found.fetchall()]


def _generated(written: str) -> frozenset[str]:
    """The columns that are computed as they are read, in DuckDB's own text of a table; DuckDB exposes it nowhere else.

    >>> _generated("CREATE TABLE t(a INTEGER, generated INTEGER, n INTEGER GENERATED ALWAYS AS((a + 1)));")
    frozenset({'n'})
    """
    marked = ("GENERATED", "ALWAYS")
    return frozenset(name for name, *words in _said(written) if tuple(map(str.upper, words)) == marked)


def _collated(written: str) -> frozenset[str]:
    """The columns with a collation in DuckDB's own text of a table; DuckDB exposes it nowhere else.

    >>> sorted(_collated("CREATE TABLE t(a VARCHAR COLLATE NOCASE, b VARCHAR DEFAULT('(' COLLATE DE), c DATE);"))
    ['a', 'b']
    >>> _collated("CREATE TABLE t(a VARCHAR DEFAULT('a COLLATE b'), b VARCHAR COLLATE C);")
    frozenset()
    """
    return frozenset(
        name
        for name, before, token in _said(written)
        if before.upper() == "COLLATE" and _unquoted(token).upper() not in _BYTEWISE
    )


def _said(written: str) -> Iterator[tuple[str, str, str]]:
    """Of each token behind a column's name in the text of a table: the name, the token before, and the token."""
    name, depth, before = "", 0, ""
    for token in _TOKENS.findall(written):
        starts = depth == 1 and before in ("(", ",")
        depth += (token == "(") - (token == ")")
        if starts:
            name = _unquoted(token)
        else:
            yield name, before, token
        before = token


def _with_enums(
    cursor: duckdb.DuckDBPyConnection, columns: Mapping[TableName, list[BackendColumn]]
) -> Mapping[TableName, list[BackendColumn]]:
    """The columns with the names of their enumerated types: one for each list of labels, since DuckDB compares columns
    of equal ones. A type without a name is called as the first column that has it."""
    names = {
        tuple(listed): (_front_schema(schema), name)
        for schema, name, listed in _rows(
            cursor,
            "SELECT schema_name, type_name, labels FROM duckdb_types() "
            "WHERE labels IS NOT NULL AND NOT internal AND database_name = current_database() ORDER BY ALL DESC",
        )
    }
    called: dict[tuple[str, ...], str | None] = {}
    taken = {*columns}
    for (where, table), listed in sorted(columns.items()):
        for column in listed:
            if column.values is not None and column.values not in called:
                schema, name = names.get(column.values, (where, f"{table}_{column.name}"))
                while (schema, name) in taken:
                    name += "_"
                taken.add((schema, name))
                held = all(
                    len(word.encode()) <= _NAME_BYTES and "\0" not in word for word in (name, *column.values)
                )
                called[column.values] = enumerated(schema, name, column.values) if held else None
    return {
        table: [c if c.values is None else replace(c, enum=called[c.values]) for c in listed]
        for table, listed in columns.items()
    }


def _enum_values(cursor: duckdb.DuckDBPyConnection, native: str) -> tuple[str, ...]:
    """`native` is DuckDB's own text of the type, quoted by DuckDB."""
    return tuple(value for (value,) in _rows(cursor, f"SELECT unnest(enum_range(CAST(NULL AS {native})))"))


_Keys = tuple[tuple[str, ...] | None, tuple[tuple[str, ...], ...], tuple[ForeignKey, ...]]


def _keys(cursor: duckdb.DuckDBPyConnection) -> dict[TableName, _Keys]:
    keys: dict[TableName, _Keys] = defaultdict(lambda: (None, (), ()))
    for schema, table, kind, columns, target, target_columns in _rows(
        cursor,
        "SELECT schema_name, table_name, constraint_type, constraint_column_names, referenced_table, "
        "referenced_column_names FROM duckdb_constraints() "
        "WHERE database_name = current_database() ORDER BY constraint_index",
    ):
        name = (_front_schema(schema), table)
        primary, unique, foreign = keys[name]
        if kind == "PRIMARY KEY":
            primary = tuple(columns)
        elif kind == "UNIQUE":
            unique += (tuple(columns),)
        elif kind == "FOREIGN KEY":
            # DuckDB has foreign keys within one schema only.
            foreign += (ForeignKey(tuple(columns), (_front_schema(schema), target), tuple(target_columns)),)
        keys[name] = (primary, unique, foreign)
    for name, columns in _unique_indexes(cursor):
        primary, unique, foreign = keys[name]
        keys[name] = (primary, (*unique, columns), foreign)
    return keys


def _told_apart(name: TableName, columns: Mapping[TableName, Sequence[BackendColumn]], keys: _Keys) -> _Keys:
    """The keys of a table whose values stay apart as they are read."""

    def apart(table: TableName, key: Sequence[str]) -> bool:
        return not any(c.name in key and c.native in _CONVERTED for c in columns[table])

    primary, unique, foreign = keys
    return (
        primary if primary is not None and apart(name, primary) else None,
        tuple(key for key in unique if apart(name, key)),
        tuple(f for f in foreign if apart(name, f.columns) and apart(f.target, f.target_columns)),
    )


def _unique_indexes(cursor: duckdb.DuckDBPyConnection) -> list[tuple[TableName, tuple[str, ...]]]:
    """Unique indexes over columns. An index over an expression says nothing about columns; DuckDB's text of it, which
    starts with a parenthesis, is no column's name."""
    return [
        ((_front_schema(schema), table), tuple(map(_unquoted, expressions)))
        for schema, table, expressions in _rows(
            cursor,
            "SELECT schema_name, table_name, CAST(expressions AS VARCHAR[]) FROM duckdb_indexes() "
            "WHERE is_unique AND database_name = current_database() ORDER BY ALL",
        )
        if not any(expression.startswith("(") for expression in expressions)
    ]


def _unquoted(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') else name


def _front_schema(schema: str) -> str:
    return "public" if schema == "main" else schema


def _rows(cursor: duckdb.DuckDBPyConnection, query: str) -> list[tuple[Any, ...]]:
    return cursor.execute(query).fetchall()
