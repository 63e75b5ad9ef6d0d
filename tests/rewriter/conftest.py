"""The shop in both engines: DuckDB as the backend, PostgreSQL as the front and as the judge of the answers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import psycopg
import pytest

from dpproxy.backends.duckdb.adapter import RAISING
from dpproxy.embedded.server import Embedded
from tests.rewriter.shop import SCHEMA, Rows, rows


def load_duckdb(data: Rows) -> duckdb.DuckDBPyConnection:
    """A DuckDB in memory that holds `data`."""
    connection = duckdb.connect(config={"threads": "1", "disabled_optimizers": RAISING})
    for statement in SCHEMA:
        connection.execute(statement)
    for table, listed in data.items():
        row = f"({', '.join('?' * len(listed[0]))})"
        values = [value for one in listed for value in one]
        connection.execute(f"INSERT INTO {table} VALUES {', '.join([row] * len(listed))}", values)
    return connection


@pytest.fixture(scope="session")
def backend() -> Iterator[duckdb.DuckDBPyConnection]:
    connection = load_duckdb(rows())
    yield connection
    connection.close()


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[psycopg.Connection]:
    """PostgreSQL with the rows that a unit owns: what the analyst's own text means on them is the truth."""
    data = rows()
    users = {r[0] for r in data["users"]}
    data["events"] = [r for r in data["events"] if r[1] in users]
    folder: Path = tmp_path_factory.mktemp("judge")
    server = Embedded.start(folder, durable=False)
    try:
        with psycopg.connect(server.conninfo(), autocommit=True) as connection:
            connection.execute("SET timezone = 'UTC'")
            for statement in SCHEMA:
                connection.execute(statement.encode())
            for table, listed in data.items():
                with connection.cursor().copy(f"COPY {table} FROM STDIN".encode()) as copy:
                    for row in listed:
                        copy.write_row(row)
            yield connection
    finally:
        server.stop()
