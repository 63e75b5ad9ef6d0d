"""The corpora's data and the tests' shop, in both engines."""

from __future__ import annotations

import csv
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

import duckdb
import psycopg

from dpproxy.catalog.build_policy import build_policy, open_backend
from dpproxy.deployment.service import configured
from dpproxy.embedded.server import Embedded
from rewriter.policy import Policy
from tests.rewriter import shop
from tests.stability.engine import DuckDBEngine, Engine, PostgresEngine, Rows

OUTLIER = 42
PRIVATE = ("events", "users")


@dataclass(frozen=True)
class World:
    """A policy, and its data in both engines; `units` are all privacy units, the outlier first."""

    policy: Policy
    duckdb: DuckDBEngine
    postgres: PostgresEngine
    units: tuple[int, ...]

    @property
    def engines(self) -> tuple[Engine, ...]:
        return (self.duckdb, self.postgres)

    def some(self, number: int, seed: int) -> tuple[int, ...]:
        """The outlier and other units drawn by `seed`, `number` in all."""
        return (self.units[0], *Random(seed).sample(self.units[1:], number - 1))


@contextmanager
def shop_world(server: Embedded, users: int = 120) -> Iterator[World]:
    """The tests' shop with every construct of a policy."""
    others = [u for u in range(1, users + 1) if u != shop.OUTLIER]
    with _world(server, "shop", shop.POLICY, shop.SCHEMA, shop.rows(users), (shop.OUTLIER, *others)) as world:
        yield world


@contextmanager
def corpora_world(server: Embedded, corpora: Path, folder: Path, users: int) -> Iterator[World]:
    """The policy and the data of the query corpora; files are made in `folder`."""
    subprocess.run(
        [sys.executable, str(corpora / "make_data.py"), str(folder), "--users", str(users)],
        check=True,
        timeout=120,
    )
    rows = {table: _read(folder / f"{table}.csv") for table in ("users", "articles", "events")}
    schema = (corpora / "schema.sql").read_text()
    policy = _policy(corpora, folder, schema)
    statements = [s for s in schema.replace("REFERENCES users", "").split(";") if "CREATE" in s]
    others = [u for u in range(1, users + 1) if u != OUTLIER]
    with _world(server, "corpora", policy, statements, rows, (OUTLIER, *others)) as world:
        yield world


def _read(path: Path) -> list[tuple[str | None, ...]]:
    with path.open(newline="") as file:
        return [tuple(v or None for v in row) for row in list(csv.reader(file))[1:]]


def _policy(corpora: Path, folder: Path, schema: str) -> Policy:
    """The policy of the corpora's dpproxy.toml, held against an empty DuckDB file of their schema."""
    with duckdb.connect(folder / "empty.duckdb") as connection:
        connection.execute(schema)
    file = folder / "dpproxy.toml"
    file.write_text('[backend]\nurl = "duckdb:///empty.duckdb"\n' + (corpora / "dpproxy.toml").read_text())
    config = configured(file)
    backend = open_backend(config, slots=1)
    try:
        policy = build_policy(config, backend.schema(), backend)
        tables = {key: replace(table, backend_name=(table.name,)) for key, table in policy.tables.items()}
        return replace(policy, tables=tables)
    finally:
        backend.close()


@contextmanager
def _world(
    server: Embedded, name: str, policy: Policy, schema: Sequence[str], rows: Rows, units: tuple[int, ...]
) -> Iterator[World]:
    with psycopg.connect(server.conninfo(), autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name}".encode())
    postgres = PostgresEngine(server.conninfo(dbname=name), schema, rows, PRIVATE, "user_id")
    duck = DuckDBEngine(schema, rows, PRIVATE, "user_id")
    try:
        yield World(policy, duck, postgres, units)
    finally:
        postgres.close()
        duck.close()
