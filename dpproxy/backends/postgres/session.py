"""A session of PostgreSQL as a backend: its pinned settings, and checks that its role has no dangerous rights."""

from __future__ import annotations

from typing import Any

import psycopg

from rewriter.emit.engines.base import Engine
from rewriter.emit.engines.postgres import SAMPLE, with_letters

OLDEST = 15
_PINNED = {
    "search_path": "pg_catalog",
    "default_transaction_read_only": "on",
    "TimeZone": "UTC",
    "DateStyle": "ISO, YMD",
    "IntervalStyle": "postgres",
    "bytea_output": "hex",
    "extra_float_digits": "1",
    "standard_conforming_strings": "on",
    "lc_numeric": "C",
    "lc_time": "C",
    "enable_nestloop": "off",
    "from_collapse_limit": "20",
    "join_collapse_limit": "20",
    "row_security": "off",
    "array_nulls": "on",
    "transform_null_equals": "off",
    "jit": "off",
    "xmlbinary": "base64",
}
UNTIMED = (
    "SELECT pg_catalog.set_config('transaction_timeout', '0', false) FROM pg_catalog.pg_settings "
    "WHERE name = 'transaction_timeout'"
)
"""The time of a query is limited by `statement_timeout`; this other limit is of PostgreSQL 17 and later."""
ROOM = (
    "SELECT pg_catalog.set_config('work_mem', '64MB', false) FROM pg_catalog.pg_settings "
    "WHERE name = 'work_mem' AND source = 'default'"
)
"""Units have more totals by group than a plain query has groups: without room for them PostgreSQL writes them to disk.
What the owner has set stays."""
_WRITES = "INSERT, UPDATE, DELETE, TRUNCATE"
_FILES = "pg_write_all_data, pg_read_server_files, pg_write_server_files, pg_execute_server_program"
_CHECKS = (
    (
        "SELECT pg_catalog.current_setting('server_encoding') <> 'UTF8'",
        "its encoding is not UTF8, so that ties would not be broken as everywhere else",
    ),
    (
        "SELECT rolsuper OR rolcreaterole OR rolcreatedb OR rolreplication FROM pg_catalog.pg_roles "
        "WHERE rolname = current_user",
        "the role is a superuser or may create roles, databases or replicas",
    ),
    (
        "SELECT bool_or(pg_catalog.pg_has_role(oid, 'MEMBER')) FROM pg_catalog.pg_roles "
        f"WHERE rolname = ANY (pg_catalog.string_to_array('{_FILES}', ', '))",
        "the role may write all tables or reach the server's files or programs",
    ),
    (
        "SELECT bool_or(pg_catalog.has_schema_privilege(oid, 'CREATE')) FROM pg_catalog.pg_namespace "
        "WHERE nspname !~ '^pg_'",
        "the role may create things in a schema",
    ),
    (
        f"SELECT bool_or(pg_catalog.has_table_privilege(oid, '{_WRITES}')) FROM pg_catalog.pg_class "
        "WHERE relkind IN ('r', 'p', 'v', 'm', 'f') AND relnamespace IN (SELECT oid FROM pg_catalog.pg_namespace "
        "WHERE nspname !~ '^pg_' AND nspname <> 'information_schema')",
        "the role may write to a table",
    ),
)
_HINT = "make one that may only read: CREATE ROLE reader LOGIN; GRANT SELECT ON ... TO reader"


def pinned(seconds: float) -> dict[str, str]:
    """The settings of a session whose longest query takes `seconds`, 0 for no limit.

    >>> pinned(1.5)["statement_timeout"], pinned(0)["TimeZone"]
    ('1500', 'UTC')
    """
    limit = str(round(seconds * 1000))
    return {
        **_PINNED,
        "statement_timeout": limit,
        "lock_timeout": limit,
        "idle_in_transaction_session_timeout": "0",
    }


def dialect(connection: psycopg.Connection[tuple[Any, ...]]) -> Engine:
    """The engine of a database, by the cases that its locale gives to letters; raises psycopg.Error."""
    row = connection.execute(
        b"SELECT pg_catalog.lower(s), pg_catalog.upper(s) FROM (SELECT $1::text) AS x(s)", (SAMPLE,)
    )
    return with_letters(*(row.fetchone() or ("", "")))


def objection(connection: psycopg.Connection[tuple[Any, ...]]) -> str:
    """Why the proxy does not work with this server and role; nothing where it does.

    Raises psycopg.Error.
    """
    for query, told in _CHECKS:
        row = connection.execute(query.encode()).fetchone()
        if row is not None and row[0] in (True, "t"):
            return told + (f" ({_HINT})" if "role" in told else "")
    try:
        connection.execute(b"SELECT pg_catalog.md5('')")
    except psycopg.errors.ExternalRoutineException:
        return "md5 is switched off there (FIPS), which ties are broken with"
    return ""
