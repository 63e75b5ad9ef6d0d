"""Published answers in the front: ordinary tables of a separate schema, with comments and metadata."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass

import psycopg

from budget.publications import Columns, PublishedAnswer
from budget.units import shown
from dpproxy.backends.base import Row
from dpproxy.front.clone import SYSTEM
from dpproxy.front.statement import run
from dpproxy.pgwire.identifiers import identifier, literal, qualified
from rewriter.refusal import Refusal
from rewriter.statements.published_table import SCHEMA

NOTES = f"{SYSTEM}.{SCHEMA}"
"""The table that lists all of them."""
_AGAIN = {"epoch": "refreshed each epoch", "period": "refreshed each period", "once": "asked once"}


@dataclass(frozen=True)
class Load:
    """Rows for a table: the values as PostgreSQL writes them, in the order of `columns`."""

    table: str
    columns: Sequence[str]
    rows: Iterable[Row]


Work = Generator["str | Load", Sequence[Row], None]
"""Statements for the front, in one transaction; each is answered with its rows before the next is asked for."""


def placed(name: str, columns: Columns, rows: Iterable[Row], reader: str) -> Work:
    """Puts an answer into the front, replacing a table of its name; `told` writes comments and metadata.

    A table with the same columns stays, so that who reads it is not disturbed. `reader`: the role that may read it.
    """
    table = qualified((SCHEMA, name))
    there = yield (
        "SELECT attname::text, format_type(atttypid, atttypmod) FROM pg_attribute "
        f"WHERE attrelid = to_regclass({literal(table)}) AND attnum > 0 AND NOT attisdropped ORDER BY attnum"
    )
    if tuple(map(tuple, there)) == columns:
        yield f"DELETE FROM {table}"
    else:
        yield f"DROP TABLE IF EXISTS {table}"
        written = ", ".join(f"{identifier(column)} {kind}" for column, kind in columns)
        yield f"CREATE TABLE {table} ({written})"
        yield f"GRANT SELECT ON {table} TO {identifier(reader)}"
    yield Load(table, [column for column, _ in columns], rows)
    yield f"ANALYZE {table}"


def told(published: PublishedAnswer) -> Work:
    """Writes comments and the list of published answers: query, age, and time of the next refresh."""
    table = qualified((SCHEMA, published.name))
    yield f"COMMENT ON TABLE {table} IS {literal(age(published))}"
    for name, _ in published.columns:
        said = published.comments.get(name)
        yield f"COMMENT ON COLUMN {table}.{identifier(name)} IS {'NULL' if said is None else literal(said)}"
    yield f"DELETE FROM {NOTES} WHERE name = {literal(published.name)}"
    values = (
        *(published.name, published.publisher, published.refresh, published.released_at.isoformat()),
        published.due_at.isoformat() if published.due_at else None,
        *(shown(published.charged.information), shown(published.charged.calls)),
        *(published.failure, published.query, str(published.version)),
    )
    written = ", ".join("NULL" if value is None else literal(value) for value in values)
    yield f"INSERT INTO {NOTES} VALUES ({written})"


def removed(name: str) -> Work:
    """Takes a published answer out of the front."""
    yield f"DROP TABLE IF EXISTS {qualified((SCHEMA, name))}"
    yield f"DELETE FROM {NOTES} WHERE name = {literal(name)}"


def renamed(name: str, other: str) -> Work:
    """Renames the table; `told` writes comments and metadata."""
    yield f"ALTER TABLE {qualified((SCHEMA, name))} RENAME TO {identifier(other)}"
    yield f"DELETE FROM {NOTES} WHERE name = {literal(name)}"


def age(published: PublishedAnswer) -> str:
    """The table's comment: the publisher's own, and how old the answer is."""
    again = _AGAIN[published.refresh]
    when = f"published by {published.publisher}, released {published.released_at:%Y-%m-%d %H:%M} UTC, {again}"
    failed = f"; the last refresh failed: {published.failure}" if published.failure else ""
    own = published.comments.get("")
    return (f"{own} " if own else "") + f"({when}{failed})"


def done(admin: psycopg.Connection, step: str | Load) -> Sequence[Row]:
    """Does one step of the work; the rows of a query."""
    if isinstance(step, str):
        cursor = run(admin, step)
        return cursor.fetchall() if cursor.description else ()
    columns = ", ".join(map(identifier, step.columns))
    with admin.cursor().copy(f"COPY {step.table} ({columns}) FROM STDIN".encode()) as copy:
        for row in step.rows:
            copy.write_row(row)
    return ()


def in_use() -> Refusal:
    """The error where the table stays locked."""
    return Refusal(
        "55P03",
        "a transaction that has read this published table is still open",
        hint="End it, this session's own or another's, and try again.",
    )


def depended_on() -> Refusal:
    """The error where a table cannot be removed, for answers published before columns were checked."""
    return Refusal(
        "2BP01",
        "another published table has a column of this table's row type",
        hint="Drop that table first: SELECT attrelid::regclass FROM pg_attribute WHERE atttypid >= 16384",
    )
