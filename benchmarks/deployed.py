"""The papers' data sets behind a proxy of their own, on DuckDB and on PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import duckdb

from benchmarks.data import ITEM, table
from dpproxy.deployment.service import Service, configured
from dpproxy.reporting.rows import RowSet
from tests.dpproxy.postgres_data import Databases, databases

Ask = Callable[[str], RowSet]
"""Runs one statement on the whole way from SQL to rows; raises ClientError."""

ENGINES = ("DuckDB", "PostgreSQL")
SETS = {"imdb": "imdb50k_words", "fashion": "amazon_fashion_words", "gowalla": "gowalla_checkins"}
"""Tables of pairs (user_id, item), each pair once."""
POLICY = """
[server]
statement_timeout = "60min"
[backend]
url = "{url}"
memory = "2GB"
max_rows = 10000000
[privacy]
mechanisms = "paper"
epsilon_per = 1
delta_per = 1e-5
query_information = 0.8
query_calls = 1
max_items_per_unit = 100
scans = "charge"
[budget]
mode = "track"
"""
"""eps 1, of which 0.8 information units are rho 0.1; delta 1e-5; delta0 and l_max 100."""


def _source(name: str) -> str:
    """A data set as a query of DuckDB."""
    columns = f"CAST(user_id AS BIGINT) AS user_id, {ITEM.get(SETS[name], 'item')} AS item"
    return f"SELECT {columns} FROM {table(SETS[name])}"


def _columns(name: str) -> str:
    kind = "TEXT" if name == "fashion" else "BIGINT"
    return f"user_id BIGINT NOT NULL, item {kind} NOT NULL"


def duckdb_url(folder: Path, names: Sequence[str]) -> str:
    """Makes a DuckDB file of data sets; gives its URL, relative to `folder`."""
    with duckdb.connect(folder / "data.duckdb") as connection:
        for name in names:
            connection.execute(f"CREATE TABLE {name} ({_columns(name)})")
            connection.execute(f"INSERT INTO {name} {_source(name)}")
    return "duckdb:///data.duckdb"


def postgres_url(server: Databases, folder: Path, names: Sequence[str]) -> str:
    """Makes a database of data sets in a running server; gives the URL of a role that may read it."""
    database = server.make([f"CREATE TABLE {name} ({_columns(name)})" for name in names])
    with duckdb.connect() as connection, server.owner(database) as owner:
        for name in names:
            rows = folder / f"{name}.csv"
            connection.execute(f"COPY ({_source(name)}) TO '{rows}' (FORMAT csv, HEADER false)")
            into = f"COPY {name} FROM STDIN (FORMAT csv)".encode()
            with rows.open("rb") as file, owner.cursor() as cursor, cursor.copy(into) as copy:
                while block := file.read(1 << 20):
                    copy.write(block)
            rows.unlink()
            owner.execute(f"ANALYZE {name}".encode())
    return server.url(database)


@contextmanager
def deployed(folder: Path, url: str, names: Sequence[str]) -> Iterator[Ask]:
    """A proxy over the data sets at `url`, its folders in `folder`."""
    tables = "".join(f'[tables.{name}]\nprivacy_unit = "user_id"\n' for name in names)
    file = folder / "dpproxy.toml"
    file.write_text(POLICY.format(url=url) + tables)
    with Service.start(configured(file), alone=True) as service:
        yield lambda sql: asyncio.run(service.ask("analyst", sql))


@contextmanager
def on(engine: str, folder: Path, names: Sequence[str]) -> Iterator[Ask]:
    """A proxy over data sets in one of ENGINES, which is filled first."""
    if engine == "DuckDB":
        with deployed(folder, duckdb_url(folder, names), names) as ask:
            yield ask
    else:
        with ExitStack() as stack:
            server = stack.enter_context(databases(folder / "server"))
            yield stack.enter_context(deployed(folder, postgres_url(server, folder, names), names))
