"""PostgreSQL with the rows, and the proxy over the same rows in one of its backends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import psycopg

from tests.dpproxy.serving import serving
from tests.oracle.world import Server
from tests.truth import data
from tests.truth.generator import COLUMNS

SETTINGS = """
[server]
auth = "trust"
[privacy]
epsilon_per = 1
delta_per = 1e-6
query_information = 500
usual_information = 500
d_bar = 5000
query_calls = 50
usual_calls = 50
epoch = "forever"
[budget]
information = 1000000
calls = 100000
mode = "track"
"""
LEVEL = "ENUM ({})".format(", ".join(f"'{label}'" for label in data.LEVELS))
VIEWS = {
    "adults": "SELECT * FROM people WHERE colour <> 'redx'::varchar(3)",
    "consenting": (
        "SELECT id, colour, lev, CASE WHEN ok THEN 'yes' ELSE 'no' END AS said FROM people WHERE ok IS NOT FALSE"
    ),
    "upperlevels": (
        "SELECT id, name, lev, age + 1 AS age FROM people WHERE lev >= 'medium' AND name ~* '^[a-z]+$'"
    ),
}
"""An owner's views, where the backend has PostgreSQL's SQL, and the columns that statements read."""
VIEW_COLUMNS = {
    "adults": COLUMNS["people"],
    "consenting": {"colour": "text", "lev": "enum", "said": "text"},
    "upperlevels": {"name": "text", "lev": "enum", "age": "int"},
}


@dataclass(frozen=True)
class World:
    """Where to ask. `views`: the owner's views and the columns that statements read; `enums`: whether levels are of an
    enumerated type, not texts."""

    truth: psycopg.Connection
    port: int
    views: Mapping[str, dict[str, str]]
    enums: bool

    def analyst(self, name: str) -> psycopg.Connection:
        """A session of an analyst with the proxy."""
        return psycopg.connect(
            host="127.0.0.1", port=self.port, user=name, dbname="any", autocommit=True, prepare_threshold=None
        )


@contextmanager
def world(server: Server, folder: Path, engine: str, seed: str) -> Iterator[World]:
    """The data set `seed`, by an engine's name: duckdb, postgresql or spark."""
    rows, enums = data.rows(Random(seed)), engine != "spark"
    with (
        server.database() as name,
        psycopg.connect(server.embedded.conninfo(dbname=name), autocommit=True) as truth,
    ):
        types = {
            "char4": "char(4)" if engine == "postgresql" else "text",
            "level": "level" if enums else "text",
        }
        fill(truth, rows, types)
        for view, text in VIEWS.items():
            truth.execute(f"CREATE VIEW {view} AS {text}".encode())
        truth.execute(b"GRANT USAGE ON SCHEMA public TO reader")
        truth.execute(b"GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader")
        truth.execute(b"CREATE SCHEMA possible")
        truth.execute(b"SET search_path = possible, public")
        fill(truth, data.possible(rows), types, "possible.", keyed=False)
        truth.execute(b"SET timezone = 'UTC'")
        truth.execute(b"SET statement_timeout = '10s'")
        policy, views = data.POLICY, {}
        for with_enums, without in () if enums else data.WITHOUT_ENUMS:
            policy = policy.replace(with_enums, without)
        if engine == "postgresql":
            url, views = server.databases.url(name), VIEW_COLUMNS
            policy += "".join(f"[tables.{view}]\n" for view in VIEWS)
        else:
            types = {"char4": "varchar", "level": "level" if enums else "varchar"}
            in_duckdb(folder / "data.duckdb", rows, types)
            url = "duckdb:///data.duckdb"
        if engine == "spark":
            url = in_spark(folder / "data.duckdb")
        (folder / "dpproxy.toml").write_text(f'[backend]\nurl = "{url}"\n{SETTINGS}{policy}')
        with serving(["serve", "--port", "0"], folder=folder, program=("-m", "tests.truth.exact")) as proxy:
            yield World(truth, proxy.port, views, enums)


def fill(
    connection: psycopg.Connection,
    rows: data.Rows,
    types: Mapping[str, str],
    schema: str = "",
    *,
    keyed: bool = True,
) -> None:
    """Makes the tables in PostgreSQL.

    `types`: of short texts, which DuckDB does not pad, and of levels; `keyed`: private ones have a key.
    """
    if keyed:
        connection.execute(f"CREATE TYPE level AS {LEVEL}".encode())
    for table, columns in data.TABLES.items():
        declared = columns.format(**types)
        if not keyed and table == "people":
            declared = declared.replace(" PRIMARY KEY", "")
        connection.execute(f"CREATE TABLE {schema}{table} ({declared})".encode())
        with connection.cursor().copy(f"COPY {schema}{table} FROM STDIN".encode()) as copy:
            for row in rows[table]:
                copy.write_row(row)
        connection.execute(f"ANALYZE {schema}{table}".encode())


def in_spark(file: Path) -> str:
    """Makes the tables of a DuckDB file in a Spark of this process, whose URL it gives."""
    from tests import spark_server

    with spark_server.owner() as session, duckdb.connect(file) as connection:
        connection.execute("SET timezone = 'UTC'")
        spark_server.copied(connection, session)
    return spark_server.url()


def in_duckdb(file: Path, rows: data.Rows, types: Mapping[str, str]) -> None:
    """Makes the tables in a DuckDB file."""
    with duckdb.connect(file) as connection:
        connection.execute("SET timezone = 'UTC'")
        connection.execute(f"CREATE TYPE level AS {LEVEL}")
        for table, columns in data.TABLES.items():
            connection.execute(f"CREATE TABLE {table} ({columns.format(**types)})")
            stored = [row[1] for row in connection.execute(f"DESCRIBE {table}").fetchall()]
            unnested = ", ".join(f"unnest(${n + 1}::{t}[])" for n, t in enumerate(stored))
            listed: list[Any] = [list(column) for column in zip(*rows[table], strict=True)]
            connection.execute(f"INSERT INTO {table} SELECT {unnested}", listed)
