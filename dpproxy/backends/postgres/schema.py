"""The schema of a PostgreSQL database: tables that the role may read, their columns and what the server enforces.

Views are known by their texts. Left out are foreign tables and those with foreign partitions or children, partitions
by themselves, tables under row level security, and columns that the role may not read or that are computed as they are
read.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import psycopg

from dpproxy.backends.base import BackendColumn, BackendSchema, BackendTable, ForeignKey
from rewriter.plan import UniqueKey
from rewriter.policy import TableName, enumerated

Connection = psycopg.Connection[tuple[Any, ...]]
_SHOWN = {
    *(
        "boolean",
        "smallint",
        "integer",
        "bigint",
        "real",
        "double precision",
        "text",
        "bytea",
        "uuid",
        "json",
    ),
    *("jsonb", "date", "interval"),
}
_SIZED = ("numeric", "character varying", "character", "timestamp", "time")
_TABLES = """
SELECT n.nspname, c.relname, c.oid::bigint, pg_catalog.obj_description(c.oid, 'pg_class'),
    c.relkind = 'r' AND EXISTS (SELECT FROM pg_catalog.pg_inherits AS i WHERE i.inhparent = c.oid) AS inherited
FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
    AND pg_catalog.has_schema_privilege(n.oid, 'USAGE') AND pg_catalog.has_any_column_privilege(c.oid, 'SELECT')
    AND NOT pg_catalog.row_security_active(c.oid)
    AND NOT EXISTS (
        WITH RECURSIVE parts(oid) AS (
            SELECT c.oid UNION SELECT i.inhrelid FROM pg_catalog.pg_inherits AS i JOIN parts AS p ON i.inhparent = p.oid
        ) SELECT FROM parts AS p JOIN pg_catalog.pg_class AS f ON f.oid = p.oid WHERE f.relkind = 'f')
ORDER BY n.nspname, c.relname
"""
"""A remote row that does not fit its type raises where a condition, which is sent along, leads to it: an exact bit."""
_BASE = """
WITH RECURSIVE base(oid, type, typmod) AS (
    SELECT oid, oid, -1 FROM pg_catalog.pg_type WHERE typtype <> 'd'
    UNION ALL
    SELECT t.oid, b.type, CASE WHEN b.typmod = -1 THEN t.typtypmod ELSE b.typmod END
    FROM pg_catalog.pg_type AS t JOIN base AS b ON b.oid = t.typbasetype WHERE t.typtype = 'd'
), citext(oid) AS (
    SELECT t.oid FROM pg_catalog.pg_type AS t
    JOIN pg_catalog.pg_depend AS d ON d.classid = 'pg_catalog.pg_type'::pg_catalog.regclass AND d.objid = t.oid
        AND d.refclassid = 'pg_catalog.pg_extension'::pg_catalog.regclass AND d.deptype = 'e'
    JOIN pg_catalog.pg_extension AS e ON e.oid = d.refobjid
    WHERE t.typname = 'citext' AND e.extname = 'citext'
), finer(indexrelid) AS (
    SELECT i.indexrelid FROM pg_catalog.pg_index AS i
    CROSS JOIN unnest(i.indkey::int2[], i.indclass::oid[]) AS k(attnum, class)
    JOIN pg_catalog.pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
    JOIN base AS b ON b.oid = a.atttypid JOIN citext AS c ON c.oid = b.type
    JOIN pg_catalog.pg_opclass AS o ON o.oid = k.class WHERE o.opcintype <> c.oid
)"""
"""`base`: the types within domains; `finer`: indexes that compare citext by its bytes, and so keep no key of it."""
_COLUMNS = f"""{_BASE}
SELECT a.attrelid::bigint, a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod),
    pg_catalog.format_type(b.type, CASE WHEN b.oid = b.type THEN a.atttypmod ELSE b.typmod END),
    NOT a.attnotnull OR EXISTS (
        SELECT FROM pg_catalog.pg_constraint AS k WHERE k.conrelid = a.attrelid AND k.contype = 'n'
            AND NOT k.convalidated AND a.attnum = ANY (k.conkey)) OR EXISTS (
        SELECT FROM pg_catalog.pg_inherits AS h JOIN pg_catalog.pg_class AS c ON c.oid = h.inhparent
        WHERE c.oid = a.attrelid AND c.relkind = 'r'),
    CASE WHEN t.typtype = 'e' THEN pg_catalog.to_json(ARRAY(
        SELECT e.enumlabel::text FROM pg_catalog.pg_enum AS e WHERE e.enumtypid = t.oid ORDER BY e.enumsortorder)) END,
    pg_catalog.col_description(a.attrelid, a.attnum), a.attgenerated = 'v', n.nspname, t.typname,
    EXISTS (SELECT FROM pg_catalog.pg_collation AS l WHERE l.oid = a.attcollation AND NOT l.collisdeterministic),
    b.type IN (SELECT oid FROM citext)
FROM pg_catalog.pg_attribute AS a JOIN base AS b ON b.oid = a.atttypid
JOIN pg_catalog.pg_type AS t ON t.oid = b.type JOIN pg_catalog.pg_namespace AS n ON n.oid = t.typnamespace
WHERE a.attnum > 0 AND NOT a.attisdropped AND a.attrelid = $1
    AND pg_catalog.has_column_privilege(a.attrelid, a.attnum, 'SELECT')
ORDER BY a.attnum
"""
_KEYS = f"""{_BASE}
SELECT i.indisprimary, pg_catalog.to_json(ARRAY(
    SELECT a.attname::text FROM pg_catalog.unnest(i.indkey::int2[]) WITH ORDINALITY AS k(attnum, place)
    JOIN pg_catalog.pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
    WHERE k.place <= i.indnkeyatts ORDER BY k.place))
FROM pg_catalog.pg_index AS i
WHERE i.indrelid = $1 AND i.indisunique AND i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL
    AND i.indexrelid NOT IN (SELECT indexrelid FROM finer)
ORDER BY i.indexrelid
"""
_UNIQUE = f"""{_BASE}
SELECT count(*) FROM unnest($1::text[], $2::text[], $3::text[]) AS wanted(space, name, named)
WHERE EXISTS (
    SELECT FROM pg_catalog.pg_namespace AS n JOIN pg_catalog.pg_class AS c ON c.relnamespace = n.oid
    JOIN pg_catalog.pg_index AS i ON i.indrelid = c.oid
    WHERE n.nspname = wanted.space AND c.relname = wanted.name
        AND i.indisunique AND i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL
        AND i.indexrelid NOT IN (SELECT indexrelid FROM finer)
        AND i.indnkeyatts = pg_catalog.jsonb_array_length(wanted.named::jsonb)
        AND wanted.named::jsonb = (
            SELECT pg_catalog.jsonb_agg(a.attname::text ORDER BY a.attname::text COLLATE "C")
            FROM pg_catalog.generate_series(0, i.indnkeyatts - 1) AS k
            JOIN pg_catalog.pg_attribute AS a ON a.attrelid = c.oid AND a.attnum = i.indkey[k]
            WHERE i.indisprimary OR a.attnotnull)
        AND NOT (c.relkind = 'r' AND EXISTS (SELECT FROM pg_catalog.pg_inherits AS h WHERE h.inhparent = c.oid)))
"""
_FOREIGN = """
SELECT n.nspname, t.relname, pg_catalog.to_json(ARRAY(
        SELECT a.attname::text FROM pg_catalog.unnest(c.conkey) WITH ORDINALITY AS k(attnum, place)
        JOIN pg_catalog.pg_attribute AS a ON a.attrelid = c.conrelid AND a.attnum = k.attnum ORDER BY k.place)),
    pg_catalog.to_json(ARRAY(
        SELECT a.attname::text FROM pg_catalog.unnest(c.confkey) WITH ORDINALITY AS k(attnum, place)
        JOIN pg_catalog.pg_attribute AS a ON a.attrelid = c.confrelid AND a.attnum = k.attnum ORDER BY k.place))
FROM pg_catalog.pg_constraint AS c JOIN pg_catalog.pg_class AS t ON t.oid = c.confrelid
JOIN pg_catalog.pg_namespace AS n ON n.oid = t.relnamespace
WHERE c.conrelid = $1 AND c.contype = 'f' AND c.convalidated AND c.conparentid = 0
    AND coalesce(pg_catalog.to_jsonb(c) ->> 'conenforced', 'true') = 'true'
ORDER BY c.oid
"""
_DEFINED = """
SELECT n.nspname, c.relname, c.oid::bigint, pg_catalog.obj_description(c.oid, 'pg_class'),
    pg_catalog.pg_get_viewdef(c.oid)
FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.relkind = 'v' AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
    AND pg_catalog.has_schema_privilege(n.oid, 'USAGE') AND pg_catalog.has_any_column_privilege(c.oid, 'SELECT')
ORDER BY n.nspname, c.relname
"""
"""Under the pinned search_path the texts name tables with their schemas."""
_VIEWS = """
WITH RECURSIVE direct(view, base) AS (
    SELECT DISTINCT r.ev_class, d.refobjid
    FROM pg_catalog.pg_rewrite AS r JOIN pg_catalog.pg_depend AS d ON d.classid = 'pg_catalog.pg_rewrite'::regclass
        AND d.objid = r.oid AND d.refclassid = 'pg_catalog.pg_class'::regclass AND d.refobjid <> r.ev_class
    JOIN pg_catalog.pg_class AS c ON c.oid = r.ev_class WHERE c.relkind = 'v'
), reads(view, base) AS (
    SELECT view, base FROM direct UNION SELECT r.view, d.base FROM reads AS r JOIN direct AS d ON d.view = r.base
)
SELECT n.nspname, v.relname, m.nspname, b.relname
FROM reads AS r JOIN pg_catalog.pg_class AS v ON v.oid = r.view
JOIN pg_catalog.pg_namespace AS n ON n.oid = v.relnamespace
JOIN pg_catalog.pg_class AS b ON b.oid = r.base JOIN pg_catalog.pg_namespace AS m ON m.oid = b.relnamespace
WHERE b.relkind <> 'v' AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
    AND pg_catalog.has_schema_privilege(n.oid, 'USAGE') AND pg_catalog.has_any_column_privilege(v.oid, 'SELECT')
ORDER BY 1, 2, 3, 4
"""

_TYPE = f"""{_BASE}
SELECT NULL, $3, pg_catalog.format_type($1::oid, $2::int4),
    pg_catalog.format_type(b.type, CASE WHEN b.oid = b.type THEN $2::int4 ELSE b.typmod END), true,
    CASE WHEN t.typtype = 'e' THEN pg_catalog.to_json(ARRAY(
        SELECT e.enumlabel::text FROM pg_catalog.pg_enum AS e WHERE e.enumtypid = t.oid ORDER BY e.enumsortorder)) END,
    NULL, false, n.nspname, t.typname, false, b.type IN (SELECT oid FROM citext)
FROM base AS b JOIN pg_catalog.pg_type AS t ON t.oid = b.type
JOIN pg_catalog.pg_namespace AS n ON n.oid = t.typnamespace WHERE b.oid = $1::oid
"""
"""As _COLUMNS, of a type that no column has."""
_OTHERS = """
SELECT DISTINCT proname FROM pg_catalog.pg_proc WHERE pg_catalog.lower(proname::text) = ANY ($1::text[])
    AND (provolatile = 'v' OR provolatile = 's' AND pronamespace <> 'pg_catalog'::pg_catalog.regnamespace) ORDER BY 1
"""
"""A stable function of somebody's own may read tables; those of PostgreSQL itself depend on time and settings."""


def front_type(base: str) -> str | None:
    """The front's type for a PostgreSQL type without domains around it; None where it has none there.

    >>> [front_type(t) for t in ("numeric(9,2)", "character(3)", "bigint[]", "inet", "integer[][]")]
    ['numeric(9,2)', 'character(3)', 'bigint[]', None, None]
    """
    element, array, _ = base.partition("[]")
    if array and element.startswith("character("):
        element = "text"
    shown = element in _SHOWN or any(element == s or element.startswith((f"{s}(", f"{s} ")) for s in _SIZED)
    return element + array if shown and base.count("[]") <= 1 else None


def read_schema(connection: Connection) -> BackendSchema:
    """Tables with columns, primary, unique and foreign keys and comments; raises psycopg.Error.

    A table that others inherit from has no keys, and each of its columns may be NULL: the server enforces both on
    its own rows only.
    """
    tables: dict[TableName, BackendTable] = {}
    for schema, name, number, comment, inherited in connection.execute(_TABLES.encode()).fetchall():
        primary, unique = (None, ()) if _true(inherited) else _keys(connection, number)
        columns = tuple(_column(row) for row in connection.execute(_COLUMNS.encode(), (number,)).fetchall())
        tables[schema, name] = BackendTable(
            schema, name, (schema, name), columns, primary, unique, _foreign(connection, number), comment
        )
    views: dict[TableName, BackendTable] = {}
    for schema, name, number, comment, text in connection.execute(_DEFINED.encode()).fetchall():
        columns = tuple(_column(row) for row in connection.execute(_COLUMNS.encode(), (number,)).fetchall())
        views[schema, name] = BackendTable(
            schema, name, (schema, name), columns, comment=comment, definition=text
        )
    return BackendSchema(tables, views)


def read_views(connection: Connection) -> dict[TableName, frozenset[TableName]]:
    """Views that the role may read, and the tables behind each; raises psycopg.Error."""
    views: dict[TableName, set[TableName]] = defaultdict(set)
    for schema, name, base_schema, base in connection.execute(_VIEWS.encode()).fetchall():
        views[schema, name].add((base_schema, base))
    return {name: frozenset(bases) for name, bases in views.items()}


def described(connection: Connection, name: str, query: str) -> BackendColumn:
    """The one column of a query that the role may run; raises ValueError with what the server says of another."""
    try:
        answer = connection.execute(f"{query} LIMIT 0".encode()).pgresult
    except psycopg.Error as error:
        raise ValueError(f"PostgreSQL does not take it: {error.diag.message_primary}") from None
    assert answer is not None
    row = connection.execute(_TYPE.encode(), (answer.ftype(0), answer.fmod(0), name)).fetchone()
    if row is None:
        raise ValueError("has no type")
    return _column(row)


def others(connection: Connection, called: Sequence[str]) -> list[str]:
    """Which of these names in lower case are functions that may depend on more than their arguments and the time."""
    return [str(name) for (name,) in connection.execute(_OTHERS.encode(), (list(called),)).fetchall()]


def keeps_unique(connection: Connection, keys: frozenset[UniqueKey]) -> bool:
    """Whether the server keeps each of `keys` unique in the snapshot of the connection's transaction.

    Raises psycopg.Error.
    """
    if not keys:
        return True
    asked = [[*parts, json.dumps(names)] for parts, names in sorted(keys)]
    row = connection.execute(_UNIQUE.encode(), [list(one) for one in zip(*asked, strict=True)]).fetchone()
    return row is not None and int(row[0]) == len(keys)


def _column(row: tuple[Any, ...]) -> BackendColumn:
    _, name, native, base, nullable, values, comment, computed, schema, type_name, folds, caseless = row
    listed = None if values is None else tuple(_list(values))
    kind = front_type("text" if _true(caseless) else base)
    if listed is not None:
        kind = enumerated(schema, type_name, listed)
    return BackendColumn(
        name,
        None if _true(computed) else kind,
        native,
        _true(nullable),
        listed,
        comment,
        _true(folds),
        _true(caseless),
        sized=listed is not None,
    )


def _keys(connection: Connection, number: int) -> tuple[tuple[str, ...] | None, tuple[tuple[str, ...], ...]]:
    found = defaultdict(list)
    for primary, columns in connection.execute(_KEYS.encode(), (number,)).fetchall():
        found[_true(primary)].append(tuple(_list(columns)))
    return (found[True][0] if found[True] else None), tuple(found[False])


def _foreign(connection: Connection, number: int) -> tuple[ForeignKey, ...]:
    rows = connection.execute(_FOREIGN.encode(), (number,)).fetchall()
    return tuple(
        ForeignKey(tuple(_list(columns)), (schema, name), tuple(_list(targets)))
        for schema, name, columns, targets in rows
    )


def _true(value: object) -> bool:
    return value in (True, "t")


def _list(value: object) -> list[str]:
    found = json.loads(value) if isinstance(value, str) else value
    return [str(one) for one in found] if isinstance(found, list) else []
