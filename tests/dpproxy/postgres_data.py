"""PostgreSQL as the place of an owner's data: databases in one server, and a role that may only read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from urllib.parse import quote

import psycopg

from dpproxy.embedded.server import Embedded

READER, PASSWORD = "reader", "only reads"


class Databases:
    """Makes databases in an embedded server; `reader` may read all of their tables."""

    def __init__(self, server: Embedded) -> None:
        self.server = server
        self._numbers = count()
        with self.owner("postgres") as owner:
            owner.execute(f"CREATE ROLE {READER} LOGIN PASSWORD '{PASSWORD}'".encode())

    @contextmanager
    def owner(self, database: str) -> Iterator[psycopg.Connection]:
        """A connection of the superuser."""
        with psycopg.connect(self.server.conninfo(dbname=database), autocommit=True) as connection:
            yield connection

    def make(self, statements: Sequence[str]) -> str:
        """A new database with the outcome of `statements`; gives its name."""
        name = f"data{next(self._numbers)}"
        with self.owner("postgres") as owner:
            owner.execute(f"CREATE DATABASE {name}".encode())
        with self.owner(name) as owner:
            for statement in statements:
                owner.execute(statement.encode())
            schemas = owner.execute("SELECT nspname FROM pg_namespace WHERE nspname !~ '^pg_'").fetchall()
            for (schema,) in schemas:
                owner.execute(f'GRANT USAGE ON SCHEMA "{schema}" TO {READER}'.encode())
                owner.execute(f'GRANT SELECT ON ALL TABLES IN SCHEMA "{schema}" TO {READER}'.encode())
        return name

    def url(self, database: str, role: str = READER, password: str = PASSWORD) -> str:
        """The URL of a database for a role."""
        host = quote(str(self.server.socket_dir), safe="")
        return f"postgresql://{role}:{quote(password)}@{host}:5432/{database}"


@contextmanager
def databases(folder: Path) -> Iterator[Databases]:
    """An empty server."""
    with Embedded.start(folder, durable=False) as server:
        yield Databases(server)
