"""The table of clients by features: what each does, and what it cannot do with any PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tests.clients.asyncpg_client import Asyncpg
from tests.clients.client import FEATURES, Client
from tests.clients.programs import NodePostgres, Pgjdbc, PgjdbcSimple, Psql
from tests.clients.python_clients import (
    Adbc,
    Pandas,
    Pg8000,
    Psqlodbc,
    Psycopg2,
    Psycopg3,
    Psycopg3Binary,
    SqlAlchemy,
)
from tests.clients.world import World

CLIENTS: tuple[type[Client], ...] = (
    Psql,
    Psycopg3,
    Psycopg3Binary,
    Psycopg2,
    Asyncpg,
    Pg8000,
    SqlAlchemy,
    Pandas,
    Adbc,
    Pgjdbc,
    PgjdbcSimple,
    NodePostgres,
    Psqlodbc,
)


@dataclass(frozen=True)
class Cell:
    """What came of one feature of one client: "ok", "-" where it has no such thing, "FAILED" or "skipped"."""

    client: str
    feature: str
    outcome: str
    reason: str = ""


def tried(client: type[Client], feature: str, world: World) -> Cell:
    """One cell, on a connection of its own."""
    if feature in client.without:
        return Cell(client.name, feature, "-", client.without[feature])
    try:
        one = client(world)
        try:
            getattr(one, feature)()
        finally:
            one.close()
    except Exception as error:
        said = " ".join(f"{type(error).__name__}: {error}".split())
        return Cell(client.name, feature, "FAILED", said[:500])
    return Cell(client.name, feature, "ok")


def cells(world: World, clients: Sequence[type[Client]] = CLIENTS) -> Iterator[Cell]:
    """Every cell of a table; one "skipped" for a client that is not installed."""
    for client in clients:
        missing = client.missing()
        if missing is not None:
            yield Cell(client.name, "", "skipped", f"{missing} is not installed")
            continue
        for feature in FEATURES:
            yield tried(client, feature, world)


def printed(found: Sequence[Cell], say: Callable[[str], None] = print) -> None:
    """Prints a table, then every reason in it."""
    width = max(len(cell.client) for cell in found)
    say(" ".join([" " * width, *(f"{feature:>11}" for feature in FEATURES)]))
    for client in dict.fromkeys(cell.client for cell in found):
        outcomes = {cell.feature: cell.outcome for cell in found if cell.client == client}
        row = [f"{outcomes.get(feature, 'skipped'):>11}" for feature in FEATURES]
        say(" ".join([f"{client:{width}}", *row]))
    for cell in found:
        if cell.reason:
            say(f"{cell.client} {cell.feature}: {cell.outcome}: {cell.reason}")
