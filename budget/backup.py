"""A ledger as files of an archive: saved in one snapshot while it is used, put back in one transaction.

The files are PostgreSQL's COPY in text form, so that neither the server's version nor its place matters. Nothing is
migrated by `save`; `restore` migrates within its transaction, so that a backup of an earlier version is an upgrade.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Self
from zipfile import ZipFile

import psycopg
from psycopg import errors, sql

from budget import schema
from budget.account import LedgerError, LedgerUnavailable
from budget.statements import REACH_HELD
from budget.store import LOST, Row

_TABLES = """
SELECT relname FROM pg_class
WHERE relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = 'dpproxy_ledger') AND relkind = 'r' ORDER BY oid
"""
"""As they were made, so that what others refer to comes first."""
_ENDS = """
SELECT value, (SELECT COALESCE(max(number), 0) FROM dpproxy_ledger.entry),
    to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS')
FROM dpproxy_ledger.pinned WHERE name = 'ledger'
"""
_NUMBERED = """
SELECT relname, attname FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
WHERE relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = 'dpproxy_ledger') AND relkind = 'r'
    AND attidentity <> ''
"""
_ACCEPTED = """
INSERT INTO dpproxy_ledger.pinned (name, value)
SELECT 'accepted ' || count(*) FILTER (WHERE name LIKE 'accepted %') + 1, max(value) FILTER (WHERE name = 'data')
FROM dpproxy_ledger.pinned HAVING bool_or(name = 'data')
"""
"""Begins running counts again, as `Origins.accept`: the last step of one may be missing though its charge is there."""
_OTHERS = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND usename IS NOT NULL AND pid <> pg_backend_pid()
"""
_SETTINGS = "-c lock_timeout=10s -c timezone=UTC"
_IN_USE = "the ledger is in use: stop every proxy and command that uses it, then restore"


class BackupError(Exception):
    """A backup that cannot be made, or is none that can be put back."""


@dataclass(frozen=True)
class Saved:
    """What a backup holds of a ledger.

    Attributes:
        version: of its schema.
        ledger: its id.
        entry: the number of its last entry.
        at: when it was saved (UTC).
        tables: SHA-256 of the file of each table, in the order in which they were made.
    """

    version: int
    ledger: str
    entry: int
    at: str
    tables: Mapping[str, str]

    def dump(self) -> str:
        """One line of JSON."""
        return json.dumps(vars(self))

    @classmethod
    def load(cls, text: str) -> Self:
        """What `dump` wrote.

        >>> one = Saved(15, "a ledger", 7, "2026-01-01 00:00:00", {"entry": "ab"})
        >>> Saved.load(one.dump()) == one
        True
        """
        return cls(**json.loads(text))


def save(conninfo: str, archive: ZipFile) -> Saved:
    """Writes every table of a ledger, as of one moment; proxies go on meanwhile.

    Raises BackupError where there is no ledger, LedgerUnavailable.
    """
    try:
        with psycopg.connect(conninfo, options=_SETTINGS, connect_timeout=10) as connection:
            version = schema.version_of(connection)
            if not version:
                raise BackupError("there is no ledger to back up")
            connection.rollback()
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            ((ledger, entry, at),) = connection.execute(_ENDS).fetchall()
            names = [name for (name,) in connection.execute(_TABLES).fetchall()]
            tables = {name: _write(connection, archive, name) for name in names}
            return Saved(version, ledger, entry, at, tables)
    except LOST as error:
        raise LedgerUnavailable(f"the ledger cannot be saved ({type(error).__name__})") from error


def restore(conninfo: str, archive: ZipFile, saved: Saved) -> None:
    """Puts a ledger in the place of the one that there is, or leaves that as it is.

    What was held when it was saved counts as having reached the backend, since its answer may have been sent. Running
    counts begin again.
    Raises BackupError for other files than were saved, or a newer version's; LedgerError where the ledger is in use, or
    the login may not make its schema; LedgerUnavailable.
    """
    if not 0 < saved.version <= len(schema.MIGRATIONS):
        raise BackupError(f"the backup is of a ledger of version {saved.version}, made by a newer dpproxy")
    try:
        with psycopg.connect(conninfo, options=_SETTINGS, connect_timeout=10) as connection:
            connection.execute("DROP SCHEMA IF EXISTS dpproxy_ledger CASCADE")
            if connection.execute(_OTHERS).fetchone() != (0,):
                raise LedgerError(_IN_USE)
            _fill(connection, archive, saved)
            schema.apply(connection, saved.version, len(schema.MIGRATIONS))
            schema.grant(connection)
            connection.execute(REACH_HELD)
            connection.execute(_ACCEPTED)
    except errors.LockNotAvailable as error:
        raise LedgerError(_IN_USE) from error
    except errors.InsufficientPrivilege as error:
        raise LedgerError("this login may not make the ledger's schema: restore as its owner") from error
    except (errors.DataError, errors.IntegrityError) as error:
        raise BackupError("the backup contradicts itself") from error
    except LOST as error:
        raise LedgerUnavailable(f"the ledger cannot be restored ({type(error).__name__})") from error


def _fill(connection: psycopg.Connection[Row], archive: ZipFile, saved: Saved) -> None:
    schema.apply(connection, 0, saved.version)
    if [name for (name,) in connection.execute(_TABLES).fetchall()] != [*saved.tables]:
        raise BackupError("the backup has other tables than a ledger of its version")
    for name in ("migration", "pinned"):
        connection.execute(sql.SQL("DELETE FROM {}").format(_table(name)))
    for name, digest in saved.tables.items():
        if _read(connection, archive, name) != digest:
            raise BackupError(f"the backup is damaged: {member(name)} is not what was saved")
    for name, column in connection.execute(_NUMBERED).fetchall():
        statement = "SELECT setval(pg_get_serial_sequence({}, {}), max({})) FROM {}"
        parts = f"dpproxy_ledger.{name}", column, sql.Identifier(column), _table(name)
        connection.execute(sql.SQL(statement).format(*parts))


def member(table: str) -> str:
    """The file of a table in an archive."""
    return f"ledger/{table}"


def _write(connection: psycopg.Connection[Row], archive: ZipFile, name: str) -> str:
    copy = sql.SQL("COPY {} TO STDOUT").format(_table(name))
    digest = sha256()
    with (
        archive.open(member(name), "w", force_zip64=True) as file,
        connection.cursor() as cursor,
        cursor.copy(copy) as rows,
    ):
        for part in rows:
            digest.update(part)
            file.write(part)
    return digest.hexdigest()


def _read(connection: psycopg.Connection[Row], archive: ZipFile, name: str) -> str:
    copy = sql.SQL("COPY {} FROM STDIN").format(_table(name))
    digest = sha256()
    with archive.open(member(name)) as file, connection.cursor() as cursor, cursor.copy(copy) as rows:
        while part := file.read(1 << 20):
            digest.update(part)
            rows.write(part)
    return digest.hexdigest()


def _table(name: str) -> sql.Identifier:
    return sql.Identifier("dpproxy_ledger", name)
