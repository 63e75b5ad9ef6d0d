"""What clients send that do not run here, at connect, browse and query: answered as by a plain PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from dpproxy.embedded.server import Embedded
from tests.clients.data import fill_postgres, statements
from tests.clients.world import World

LINES = Path(__file__).with_name("others.sql").read_text().splitlines()
CLIENTS = [line[3:] for line in LINES if line.startswith("-- ")]
SENT = [
    (next(LINES[i][3:] for i in range(n, -1, -1) if LINES[i].startswith("-- ")), line)
    for n, line in enumerate(LINES)
    if not line.startswith("-- ")
]
REDUCED = (
    "ALTER TABLE app.users DROP email",
    "CREATE SCHEMA published",
    "ALTER DATABASE dpproxy SET search_path = app, public",
)
"""Leaves what the policy shows."""
Answer = list[tuple[list[str], list[int], list[tuple[Any, ...]]]]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The same schema in a PostgreSQL without the proxy, for a role that may read it."""
    folder: Path = tmp_path_factory.mktemp("plain")
    with Embedded.start(folder / "server", durable=False) as server:
        yield fill_postgres(server, "dpproxy", *statements(), *REDUCED)


def answered(url: str, text: str) -> Answer:
    """The columns, their types and the rows of each result of a simple query; rows in the order of their texts."""
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = psycopg.ClientCursor(connection)
        cursor.execute(text.encode())
        found: Answer = []
        while True:
            if cursor.description is not None:
                names = [column.name for column in cursor.description]
                types = [column.type_code for column in cursor.description]
                found.append((names, types, sorted(cursor.fetchall(), key=repr)))
            if not cursor.nextset():
                return found


@pytest.mark.client
@pytest.mark.parametrize(
    ("client", "text"), SENT, ids=[f"{client}-{n}" for n, (client, _) in enumerate(SENT)]
)
def test_a_statement_is_answered_as_by_postgresql(
    on_postgres: World, plain: str, client: str, text: str
) -> None:
    with on_postgres.counts.expected(0):
        assert answered(on_postgres.url, text) == answered(plain, text)


def test_at_least_ten_other_clients_are_asked_for() -> None:
    assert len(CLIENTS) == len(set(CLIENTS)) >= 10
