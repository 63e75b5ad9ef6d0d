"""The ledger's schema: made on first use, migrated version by version, used with the least privileges."""

from __future__ import annotations

from contextlib import suppress
from importlib.resources import files

import psycopg
from psycopg import errors

from budget.account import LedgerError, LedgerUnavailable, Pinned, PinnedMismatch
from budget.store import Row, unavailable

MIGRATIONS = tuple(f"{version:02}.sql" for version in range(1, 19))
ROLE = "dpproxy_ledger"
"""The role that a proxy acts as, where the schema's maker may create roles."""
_MADE_BY_ANOTHER = (
    errors.UniqueViolation,
    errors.DuplicateTable,
    errors.DuplicateSchema,
    errors.DuplicateColumn,
    errors.DeadlockDetected,
)


def prepare(connection: psycopg.Connection[Row], pinned: Pinned) -> tuple[str, bool]:
    """Brings the schema up to date and checks what is pinned; the ledger's id, and whether ROLE can be taken.

    A login that may not create a schema finds it made by another one. Raises PinnedMismatch, and LedgerError
    for a server that forgets, a schema of a newer version, or a login that may not even use it.
    """
    if connection.execute("SELECT current_setting('fsync', true)").fetchone() == ("off",):
        raise LedgerError("the ledger's server runs with fsync off: a crash would forget what was spent")
    try:
        _migrate(connection)
        return _pin(connection, pinned), _may_take_role(connection)
    except errors.InsufficientPrivilege as error:
        raise LedgerError(
            f"this login may not make the ledger's schema, nor use one: let its owner open the ledger once, then"
            f" GRANT {ROLE} TO this login"
        ) from error
    except psycopg.InternalError as error:
        raise unavailable(error) from error


def is_current(conninfo: str) -> bool:
    """Whether a database has a ledger of this version; nothing is made or migrated. False where none answers."""
    with (
        suppress(psycopg.Error),
        psycopg.connect(conninfo, autocommit=True, connect_timeout=10) as connection,
    ):
        return version_of(connection) == len(MIGRATIONS)
    return False


def _migrate(connection: psycopg.Connection[Row]) -> None:
    """Two processes that do it at once don't disturb each other."""
    for _ in range(10):
        done = version_of(connection)
        if done > len(MIGRATIONS):
            raise LedgerError(f"the ledger's schema has version {done}, made by a newer dpproxy")
        if done == len(MIGRATIONS):
            return
        with suppress(*_MADE_BY_ANOTHER), connection.transaction():
            apply(connection, done, len(MIGRATIONS))
            grant(connection)
    raise LedgerUnavailable("the ledger's schema could not be made")


def apply(connection: psycopg.Connection[Row], done: int, version: int) -> None:
    """Brings the schema from one version to a later one, within the caller's transaction; 0 is none."""
    for number in range(done, version):
        connection.execute(_file(MIGRATIONS[number]))
        connection.execute("INSERT INTO dpproxy_ledger.migration (version) VALUES (%s)", (number + 1,))


def grant(connection: psycopg.Connection[Row]) -> None:
    """Gives ROLE its privileges on a schema of this version, where it is there or may be made."""
    if _make_role(connection):
        connection.execute(_file("privileges.sql"))


def _file(name: str) -> bytes:
    return files("budget.migrations").joinpath(name).read_bytes()


def version_of(connection: psycopg.Connection[Row]) -> int:
    """The version of a database's schema, 0 where there is none."""
    try:
        row = connection.execute("SELECT max(version) FROM dpproxy_ledger.migration").fetchone()
    except (errors.UndefinedTable, errors.InvalidSchemaName):
        return 0
    return 0 if row is None or row[0] is None else int(row[0])


def _make_role(connection: psycopg.Connection[Row]) -> bool:
    """Whether ROLE is there: made by this login if it may, or before."""
    there = "SELECT 1 FROM pg_roles WHERE rolname = %s"
    may = "SELECT 1 FROM pg_roles WHERE rolname = current_user AND (rolsuper OR rolcreaterole)"
    if connection.execute(there, (ROLE,)).fetchone():
        return True
    if not connection.execute(may).fetchone():
        return False
    with connection.transaction():
        connection.execute(f"CREATE ROLE {ROLE} NOLOGIN")
        connection.execute(f"GRANT {ROLE} TO CURRENT_USER")
    return True


def _may_take_role(connection: psycopg.Connection[Row]) -> bool:
    """Whether this login is a member of ROLE, and ROLE was given its privileges here."""
    row = connection.execute(
        "SELECT pg_has_role(current_user, oid, 'MEMBER')"
        " AND has_schema_privilege(oid, 'dpproxy_ledger', 'USAGE') FROM pg_roles WHERE rolname = %s",
        (ROLE,),
    ).fetchone()
    return row is not None and bool(row[0])


def _pin(connection: psycopg.Connection[Row], pinned: Pinned) -> str:
    """Fixes the parameters of a new ledger, or checks those of an old one; the ledger's id."""
    read = "SELECT name, value FROM dpproxy_ledger.pinned"
    texts = pinned.texts()
    held: dict[str, str] = dict(connection.execute(read).fetchall())
    if not texts.keys() <= held.keys():
        for item in texts.items():
            connection.execute(
                "INSERT INTO dpproxy_ledger.pinned (name, value) VALUES (%s, %s)"
                " ON CONFLICT (name) DO NOTHING",
                item,
            )
        held = dict(connection.execute(read).fetchall())
    for name, value in texts.items():
        if held[name] != value:
            raise PinnedMismatch(
                f"the ledger was made with {name} = {held[name]}, not {value}: use a new ledger"
            )
    return held["ledger"]
