"""One data set in one engine: the whole database, and for each removed unit the one without it and the one with nobody
else, under the policy that the proxy itself would build over it.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from pathlib import Path
from random import Random
from threading import Timer
from typing import Any, Protocol
from unittest.mock import patch

import duckdb
import psycopg

from dpproxy.backends.duckdb.adapter import RAISING, UNSAFE
from dpproxy.catalog.build_policy import build_policy, open_backend
from dpproxy.config.sections import ConfigError
from dpproxy.deployment.service import configured
from dpproxy.embedded.binaries import find_binaries
from dpproxy.embedded.server import Embedded
from rewriter.emit.engines import base
from rewriter.emit.engines.duckdb import DUCKDB
from rewriter.emit.engines.postgres import POSTGRES
from rewriter.policy import Policy
from tests.dpproxy.postgres_data import READER, Databases
from tests.oracle import composite, data
from tests.oracle.data import PRIVATE, PUBLIC, Rows, Shape
from tests.stability.engine import BackendRaised, PostgresEngine

WHOLE = "w"
FEW = 2
"""Units that are removed in Spark, where a database takes seconds."""
SECONDS = 10
"""What one query may take."""
Found = list[tuple[Any, ...]]


def without(place: int) -> str:
    """The database in which removed unit number `place` has no rows."""
    return f"n{place}"


def alone(place: int) -> str:
    """The database in which nobody else has rows."""
    return f"a{place}"


class TooSlow(Exception):
    """A query that was ended."""


class Engine(Protocol):
    """An engine with databases by name, all of one data set."""

    @property
    def name(self) -> str:
        """What it is called."""

    @property
    def dialect(self) -> base.Engine:
        """How it is written to."""

    def run(self, database: str, sql: str, values: Sequence[object]) -> tuple[list[str], Found]:
        """The names of a query's columns and its rows; BackendRaised for an error."""


class Filled(Engine, Protocol):
    """An engine whose databases are made here."""

    def fill(self, schema: str, tables: Mapping[str, str], rows: Rows) -> None:
        """Makes a database of these rows."""

    def stored(self, tables: Mapping[str, str], rows: Rows) -> None:
        """Makes tables that a schema is read from."""


@dataclass(frozen=True)
class World:
    """A data set in an engine. `removed`: the spellings of each removed unit; `front`: the public tables as the front
    has them; `refused`: what of the policy the proxy does not take, by its message; `name`: what it was made from."""

    name: str
    engine: Engine
    policy: Policy
    front: PostgresEngine
    removed: tuple[frozenset[object], ...]
    refused: tuple[str, ...]

    @property
    def columns(self) -> Mapping[str, frozenset[str]]:
        """The columns that analysts see, by table."""
        return {
            name: frozenset(c.name for c in table.columns if not c.hidden)
            for (_, name), table in self.policy.tables.items()
        }


class DuckDBData:
    """A DuckDB file with a schema a database; queries run in one thread, as the proxy runs them."""

    name, dialect = "duckdb", DUCKDB

    def __init__(self, folder: Path) -> None:
        file, self._schema = (folder / name for name in ("data.duckdb", "schema.duckdb"))
        for old in (file, self._schema):
            old.unlink(missing_ok=True)
        self.connection = duckdb.connect(file, config={"threads": "1", "disabled_optimizers": RAISING})
        self._cursors: dict[str, duckdb.DuckDBPyConnection] = {}

    def fill(self, schema: str, tables: Mapping[str, str], rows: Rows) -> None:
        """Makes a database of these rows."""
        self.connection.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
        for name, columns in tables.items():
            self.connection.execute(f"CREATE TABLE {schema}.{name} ({columns})")
            types = [r[1] for r in self.connection.execute(f"DESCRIBE {schema}.{name}").fetchall()]
            unnested = ", ".join(f"unnest(${n + 1}::{t}[])" for n, t in enumerate(types))
            listed = [list(c) for c in zip(*rows[name], strict=True)] or [[] for _ in types]
            self.connection.execute(f"INSERT INTO {schema}.{name} SELECT {unnested}", listed)

    def stored(self, tables: Mapping[str, str], rows: Rows) -> None:
        """Makes tables that a schema is read from, in a file of their own; the public ones have rows."""
        with duckdb.connect(self._schema) as connection:
            for name, columns in tables.items():
                connection.execute(f"CREATE TABLE {name} ({columns})")
                if name in PUBLIC:
                    places = ", ".join("?" * len(rows[name][0]))
                    connection.executemany(f"INSERT INTO {name} VALUES ({places})", rows[name])

    def run(self, database: str, sql: str, values: Sequence[object]) -> tuple[list[str], Found]:
        """As the proxy does: what raises is run once more without statistics."""
        if database not in self._cursors:
            self._cursors[database] = self.connection.cursor()
            self._cursors[database].execute(f"SET schema = '{database}'")
        cursor = self._cursors[database]
        limit = Timer(SECONDS, cursor.interrupt)
        limit.start()
        try:
            return self._twice(cursor, sql, values)
        except duckdb.InterruptException:
            raise TooSlow from None
        except duckdb.Error as error:
            raise BackendRaised(f"{type(error).__name__}: {error}") from error
        finally:
            limit.cancel()

    def _twice(
        self, cursor: duckdb.DuckDBPyConnection, sql: str, values: Sequence[object]
    ) -> tuple[list[str], Found]:
        try:
            return _fetched(cursor, sql, values)
        except duckdb.InterruptException:
            raise
        except duckdb.Error:
            cursor.execute(f"SET disabled_optimizers = '{UNSAFE}'")
        try:
            return _fetched(cursor, sql, values)
        finally:
            cursor.execute(f"SET disabled_optimizers = '{RAISING}'")


def _fetched(
    cursor: duckdb.DuckDBPyConnection, sql: str, values: Sequence[object]
) -> tuple[list[str], Found]:
    found = cursor.execute(_parsed(sql), values).fetchall()
    return [column[0] for column in cursor.description or ()], found


@lru_cache(maxsize=32)
def _parsed(sql: str) -> duckdb.Statement:
    """A query as DuckDB reads it: reading takes a third of its time, and each query runs in several databases."""
    (statement,) = duckdb.extract_statements(sql)
    return statement


class PostgresData:
    """A PostgreSQL database with a schema a database."""

    name, dialect = "postgresql", POSTGRES

    def __init__(self, conninfo: str) -> None:
        self._conninfo = conninfo
        self._connections: dict[str, psycopg.Connection] = {}
        self.connection = self._open("public")

    def _open(self, path: str) -> psycopg.Connection:
        connection = psycopg.connect(self._conninfo, autocommit=True, prepare_threshold=None)
        for statement in (
            "SET timezone = 'UTC'",
            "SET jit = off",
            f"SET statement_timeout = '{SECONDS}s'",
            f"SET search_path = {path}",
        ):
            connection.execute(statement.encode())
        return connection

    def fill(self, schema: str, tables: Mapping[str, str], rows: Rows) -> None:
        """Makes a database of these rows; of rows that the key takes for one the first stays."""
        self.connection.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}".encode())
        for name, columns in tables.items():
            self.connection.execute(f"CREATE TABLE {schema}.{name} ({columns})".encode())
            if rows[name]:
                places = ", ".join(["%s"] * len(rows[name][0]))
                insert = f"INSERT INTO {schema}.{name} VALUES ({places}) ON CONFLICT DO NOTHING"
                self.connection.cursor().executemany(insert.encode(), rows[name])

    def stored(self, tables: Mapping[str, str], rows: Rows) -> None:
        """Makes tables that a schema is read from, which another role may read."""
        self.fill("public", tables, rows)
        for right in ("USAGE ON SCHEMA public", "SELECT ON ALL TABLES IN SCHEMA public"):
            self.connection.execute(f"GRANT {right} TO {READER}".encode())

    def equal(self, of: str, one: object, other: object) -> bool:
        """Whether the database takes two values of a type for one."""
        base, _, collation = of.partition(" COLLATE ")
        collate = f" COLLATE {collation}" if collation else ""
        query = f"SELECT CAST(%s AS {base}){collate} = CAST(%s AS {base})"
        ((same,),) = self.connection.execute(query.encode(), (one, other)).fetchall()
        return bool(same)

    def run(self, database: str, sql: str, values: Sequence[object]) -> tuple[list[str], Found]:
        """The names of a query's columns and its rows; BackendRaised for an error."""
        if database not in self._connections:
            self._connections[database] = self._open(f"{database}, public")
        try:
            cursor = psycopg.RawCursor(self._connections[database])
            found = cursor.execute(sql.encode(), values or None).fetchall()
            return [column.name for column in cursor.description or ()], found
        except psycopg.errors.QueryCanceled:
            raise TooSlow from None
        except psycopg.Error as error:
            raise BackendRaised(f"{error.sqlstate} {error}") from error

    def close(self) -> None:
        for connection in (self.connection, *self._connections.values()):
            connection.close()


class Server:
    """A PostgreSQL for a run: an installed one that knows collations of its own is taken before the wheel's.

    `ledgers`: it takes ledgers too, which ask for a server that forgets nothing in a crash.
    """

    def __init__(self, folder: Path, *, ledgers: bool = False) -> None:
        self._folder = folder
        self._others = ExitStack()
        installed = next((b for m in (15, 16, 17) if (b := find_binaries(m)) is not None), None)
        with patch(
            "dpproxy.embedded.server.find_binaries", lambda major=None: installed or find_binaries(major)
        ):
            self.embedded = Embedded.start(folder / "server", durable=ledgers)
        self.databases = Databases(self.embedded)
        with psycopg.connect(self.embedded.conninfo(), autocommit=True) as admin:
            self.collated = tuple(_collated(admin))

    @contextmanager
    def database(self) -> Iterator[str]:
        """A new database with the collations and types that there are."""
        name = self.databases.make([])
        with self.databases.owner(name) as owner:
            list(_collated(owner))
        try:
            yield name
        finally:
            with self.databases.owner("postgres") as owner:
                owner.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)".encode())

    @cached_property
    def spark(self) -> str:
        """The URL of a Spark server, started when it is first asked for."""
        from tests.oracle.spark import serving_small

        return self._others.enter_context(serving_small()).url

    def close(self) -> None:
        """Stops all that was started."""
        self._others.close()
        self.embedded.stop()


MAKE = (
    ("text COLLATE ci", "CREATE COLLATION ci (provider=icu, locale='und-u-ks-level2', deterministic=false)"),
    (
        "varchar(9) COLLATE ai",
        "CREATE COLLATION ai (provider=icu, locale='und-u-ks-level1', deterministic=false)",
    ),
    ("citext", "CREATE EXTENSION citext"),
    ("folded", "CREATE DOMAIN folded AS text COLLATE ci"),
    ("char(7)", "SELECT 1"),
    ("varchar(9)", "SELECT 1"),
)


def _collated(admin: psycopg.Connection) -> Iterator[str]:
    for name, statement in MAKE:
        with suppress(psycopg.Error):
            admin.execute(statement.encode())
            yield name


@contextmanager
def duckdb_world(server: Server, folder: Path, seed: str) -> Iterator[World]:
    """The data set `seed` in DuckDB."""
    rng = Random(seed)
    of = _shape(rng, data.COLLATED["duckdb"], "VARCHAR", seed)
    with server.database() as front:
        made = DuckDBData(folder)
        url = "duckdb:///schema.duckdb"
        try:
            with _world(server, front, made, of, rng, folder, url, seed, operator.eq) as world:
                yield world
        finally:
            made.connection.close()


@contextmanager
def postgres_world(server: Server, folder: Path, seed: str) -> Iterator[World]:
    """The data set `seed` in PostgreSQL."""
    rng = Random(seed)
    of = _shape(rng, server.collated, "text", seed)
    with server.database() as front, server.database() as name:
        made = PostgresData(server.embedded.conninfo(dbname=name))
        url = server.databases.url(name)
        try:
            with _world(
                server, front, made, of, rng, folder, url, seed, partial(made.equal, of.unit)
            ) as world:
                yield world
        finally:
            made.close()


def _shape(rng: Random, available: Sequence[str], plain: str, seed: str) -> Shape:
    """The shape of a data set; one whose name begins with "composite" has units of two columns."""
    of = data.shape(rng, available, plain)
    return replace(of, unit="bigint", composite=True) if seed.startswith("composite") else of


@contextmanager
def _world(
    server: Server,
    front: str,
    engine: Filled,
    of: Shape,
    rng: Random,
    folder: Path,
    url: str,
    seed: str,
    equal: Callable[[object, object], bool],
) -> Iterator[World]:
    tables, rows = data.tables(of, engine.name), data.rows(rng, of)
    text = data.policy(engine.name)
    listed = data.units(of)
    removed: list[frozenset[object]] = []
    for unit in listed[: FEW if engine.name == "spark" else data.HEAVY]:
        removed.append(frozenset(u for u in listed if u == unit or (not of.numbered and equal(u, unit))))

    def shaped(found: Rows) -> Rows:
        return composite.composed(found) if of.composite else found

    if of.composite:
        tables = composite.declared(tables, data.PLAIN[engine.name])
        text = composite.policy(text)
    engine.fill(WHOLE, tables, shaped(rows))
    for place, spelt in enumerate(removed):
        engine.fill(without(place), tables, shaped(data.remaining(rows, spelt, keep=False)))
        engine.fill(alone(place), tables, shaped(data.remaining(rows, spelt, keep=True)))
    engine.stored(tables, shaped(rows))
    policy, refused = accepted(folder, url, text)
    if of.composite:
        removed = [frozenset(s for u in spelt for s in composite.spellings(u)) for spelt in removed]
    fronted = PostgresEngine(
        server.embedded.conninfo(dbname=front), front_schema(policy), front_rows(policy, rows), (), ""
    )
    try:
        yield World(seed, engine, policy, fronted, tuple(removed), refused)
    finally:
        fronted.close()


def front_schema(policy: Policy) -> list[str]:
    """The tables as the front has them: in the types that the policy says."""
    return [
        f"CREATE TABLE {table.name} ("
        + ", ".join(f"{c.name} {c.type}" for c in table.columns if not c.hidden)
        + ")"
        for table in policy.tables.values()
    ]


def front_rows(policy: Policy, rows: Rows) -> dict[str, list[tuple[Any, ...]]]:
    """The public rows, their visible columns."""
    found = {}
    for table in policy.tables.values():
        if table.public:
            shown = [n for n, c in enumerate(table.columns) if not c.hidden]
            found[table.name] = [tuple(row[n] for n in shown) for row in rows[table.name]]
    return found


HIDE = 40


def accepted(folder: Path, url: str, written: str) -> tuple[Policy, tuple[str, ...]]:
    """The policy as far as the proxy takes it: a column that is refused is declared without a domain, then hidden, a
    table left out. With what was refused."""
    sections = {
        m[1]: m[0]
        for m in re.finditer(r"\[tables\.(\w+)\]\n(?:(?!\n\[tables\.\w+\]\n).)*", written, re.DOTALL)
    }
    refused: list[str] = []
    for _ in range(HIDE):
        file = folder / "dpproxy.toml"
        file.write_text(f'[backend]\nurl = "{url}"\n' + "\n".join(sections.values()))
        config = configured(file)
        backend = open_backend(config, slots=1)
        try:
            policy = build_policy(config, backend.schema(), backend)
            tables = {k: replace(t, backend_name=(t.name,)) for k, t in policy.tables.items()}
            return replace(policy, tables=tables), tuple(refused)
        except ConfigError as error:
            refused.append(str(error).removeprefix(str(file)))
            _give_way(sections, str(error))
        finally:
            backend.close()
    raise AssertionError(f"no policy is taken: {refused}")


def _give_way(sections: dict[str, str], message: str) -> None:
    """Takes back what a message of the configuration is about."""
    found = re.search(r"tables\.(\w+)(?:\.columns\.(\w+))?", message)
    assert found is not None, message
    table, column = found[1], found[2]
    if column is None:
        del sections[table]
        return
    line = re.compile(rf"^{column} = (.*)$", re.MULTILINE)
    declared, header = line.search(sections[table]), f"[tables.{table}.columns]"
    if declared is None:
        if header not in sections[table]:
            sections[table] += f"\n{header}\n"
        sections[table] = sections[table].replace(header, f"{header}\n{column} = {{ hidden = true }}")
    elif "hidden" in declared[1]:
        del sections[table]
    else:
        given = "{ hidden = true }" if declared[1] == "{}" else "{}"
        sections[table] = line.sub(f"{column} = {given}", sections[table])


@contextmanager
def spark_world(server: Server, folder: Path, seed: str) -> Iterator[World]:
    """The data set `seed` in Spark, where pyspark is installed."""
    from tests.oracle.spark import SparkData

    url = server.spark
    rng = Random(seed)
    of = data.shape(rng, (), "string")
    with server.database() as front:
        made = SparkData(url)
        try:
            with _world(server, front, made, of, rng, folder, url, seed, operator.eq) as world:
                yield world
        finally:
            made.close()


WORLDS = {"duckdb": duckdb_world, "postgresql": postgres_world, "spark": spark_world}
__all__ = ["PRIVATE", "WORLDS", "Server", "World", "alone", "without"]
