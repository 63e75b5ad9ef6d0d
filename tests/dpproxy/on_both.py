"""A service over rows that the same statements make in DuckDB and in PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import duckdb

from dpproxy.deployment.service import Service, configured
from tests.dpproxy.postgres_data import databases

ENGINES = ("duckdb", "postgres")


@contextmanager
def service_on(engine: str, folder: Path, schema: Sequence[str], policy: str) -> Iterator[Service]:
    """A running service over the outcome of `schema`, in PostgreSQL's words; `policy` has a place for the URL.

    Divisions of integers by 2 are written as DuckDB has them.
    """
    with ExitStack() as stack:
        if engine == "postgres":
            server = stack.enter_context(databases(folder / "server"))
            url = server.url(server.make(schema))
        else:
            url = "duckdb:///rows.duckdb"
            with duckdb.connect(folder / "rows.duckdb") as connection:
                for statement in schema:
                    connection.execute(statement.replace(" / 2", " // 2"))
        (folder / "dpproxy.toml").write_text(policy.format(url))
        yield stack.enter_context(Service.start(configured(folder / "dpproxy.toml"), alone=True))
