"""One data set as three databases of one engine: without one privacy unit, with it, and with it beyond every bound.

Each is asked on the product's own way, by an engine with a ledger of its own; policy, front and keys are the same.
"""

from __future__ import annotations

import csv
import datetime as dt
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import duckdb
import psycopg

from budget.ledger import Ledger
from dpproxy.backends.base import Backend
from dpproxy.config.highwater_file import MarkFile
from dpproxy.config.key_file import Keys
from dpproxy.deployment.service import BoundConfig, configured
from dpproxy.engine.executor import QueryEngine
from dpproxy.engine.planner import Planner
from dpproxy.engine.rollback_guard import RollbackGuardedLedger
from dpproxy.front.front import Front
from rewriter.plan import HistogramQuery
from tests.audit import sql_world
from tests.oracle import data
from tests.oracle.world import Server, accepted

WITHOUT, WITH, BEYOND = SIDES = ("without", "with", "beyond")
Rows = Mapping[str, Sequence[tuple[object, ...]]]
KEYS = Keys(bytes(range(32)))
LARGE_TEXT = "a text that nobody else has"
EXTREME = {
    "int": (-(2**31), 2**31 - 1),
    "bigint": (-(2**63), 2**63 - 1),
    "double": (float("nan"), float("inf"), float("-inf"), 1.7e308, -1.7e308, 5e-324),
    "date": (dt.date(1, 1, 1), dt.date(9999, 12, 31)),
    "timestamp": (dt.datetime(1, 1, 2), dt.datetime(9999, 12, 30)),
    "text": (LARGE_TEXT, ""),
}
"""What the values of the unit that is beyond every bound are, by the first word of their type."""


@dataclass(frozen=True)
class Data:
    """A data set without its rows' places: definitions, the policy's tables, and the rows of each side."""

    tables: Mapping[str, str]
    policy: str
    sides: Mapping[str, Rows]


@dataclass(frozen=True)
class World:
    """The engines that answer, by side; `name`: what the data were made from, the engine last but one."""

    name: str
    engines: Mapping[str, QueryEngine]
    columns: Mapping[str, frozenset[str]]
    epsilon_per: Any

    @property
    def backend(self) -> str:
        """What the engine of the data is called."""
        return self.name.split("-")[-2]


def privacy(rng: Random) -> str:
    """Terms under which small groups are seen: each turns on other mechanisms."""
    noise = rng.choice(("gaussian", "gaussian", "gaussian", "laplace"))
    terms = {
        "epsilon_per": "3",
        "delta_per": "1e-9",
        "delta_prime": "1e-9",
        "noise": f'"{noise}"',
        "mechanisms": rng.choice(('"clipped"', '"clipped"', '"paper"')),
        "partition_selection": rng.choice(('"sips"', '"sips"', '"pruned"')),
        "quantile_bins": "64",
        "max_items_per_unit": rng.choice(("2", "9")),
        "scans": '"charge"',
    }
    return "[privacy]\n" + "".join(f"{name} = {value}\n" for name, value in terms.items()) + BUDGET


BUDGET = '\n[budget]\nmode = "track"\n'


def generated(rng: Random, engine: str) -> Data:
    """The oracle's awkward rows; one of the units that have many is removed."""
    of = replace(data.shape(rng, (), data.PLAIN[engine]), unit="bigint")
    rows = data.rows(rng, of)
    unit = rng.choice(data.units(of)[: data.HEAVY + 4])
    tables = data.tables(of, engine)
    fewer = data.remaining(rows, frozenset((unit,)), keep=False)
    beyond = {name: [*listed] for name, listed in fewer.items()}
    visits = {row[0] for row in rows["visits"] if row[1] == unit}
    owner = {"people": 0, "visits": 1, "notes": 0, "cards": 0}
    for name, place in owner.items():
        kept = {place, 0} if name == "visits" else {place}
        beyond[name] += extreme(rng, tables[name], [r for r in rows[name] if r[place] == unit], kept)
    beyond["lines"] += extreme(rng, tables["lines"], [r for r in rows["lines"] if r[1] in visits], {0, 1})
    return Data(tables, data.policy(engine), {WITHOUT: fewer, WITH: rows, BEYOND: beyond})


def corpora(rng: Random, shared: Path, folder: Path, users: int = 150) -> Data:
    """The corpora's users, of whom one is removed: the outlier, or another."""
    source = shared / "corpora"
    make = [sys.executable, str(source / "make_data.py"), str(folder), "--users", str(users)]
    subprocess.run(make, check=True, timeout=120)
    schema = re.sub(r"--[^\n]*|REFERENCES users", "", (source / "schema.sql").read_text())
    tables = dict(re.findall(r"CREATE TABLE (\w+) \((.*?)\);", schema, re.DOTALL))
    rows = {name: _read(folder / f"{name}.csv") for name in tables}
    unit = str(rng.choice((42, rng.randrange(1, users))))
    owner = {"users": 0, "events": 1}
    fewer = dict(rows) | {n: [r for r in rows[n] if r[p] != unit] for n, p in owner.items()}
    beyond: dict[str, Sequence[tuple[object, ...]]] = dict(fewer)
    for name, place in owner.items():
        own: list[tuple[object, ...]] = [r for r in rows[name] if r[place] == unit]
        beyond[name] = [*fewer[name], *extreme(rng, tables[name], own, {0, place})]
    policy = (source / "dpproxy.toml").read_text()
    return Data(tables, policy[policy.index("[tables") :], {WITHOUT: fewer, WITH: rows, BEYOND: beyond})


def audited() -> Data:
    """The audit's people, and one of them at and beyond every bound."""
    sides, tables = {}, {}
    for side, statements in ((WITHOUT, sql_world.DATA), (WITH, sql_world.DATA + sql_world.PERSON)):
        with duckdb.connect() as connection:
            connection.execute(statements)
            names = [str(row[0]) for row in connection.execute("SHOW TABLES").fetchall()]
            sides[side] = {n: connection.execute(f"SELECT * FROM {n}").fetchall() for n in names}
        tables = dict(re.findall(r"CREATE TABLE (\w+) \((.*?)\);", statements, re.DOTALL))
    policy = sql_world.POLICY[sql_world.POLICY.index("[tables") :]
    return Data(tables, policy.replace("seconds = { bounds", "seconds = { unit_bounds"), sides)


def _read(path: Path) -> list[tuple[object, ...]]:
    with path.open(newline="") as file:
        return [tuple(v or None for v in row) for row in list(csv.reader(file))[1:]]


def extreme(
    rng: Random, columns: str, rows: Sequence[tuple[object, ...]], kept: set[int]
) -> list[tuple[object, ...]]:
    """The rows with values beyond every bound; those in the columns `kept` stay, which name rows and units."""
    types = [part.split()[1].lower() for part in columns.split(", ")]
    kinds = ["text" if kind in ("varchar", "string") else kind for kind in types]
    drawn = [
        tuple(v if n in kept or v is None else rng.choice(EXTREME[kinds[n]]) for n, v in enumerate(row))
        for row in rows
    ]
    return [*drawn] if 0 in kept else [*drawn, *rows]


@contextmanager
def world_of(name: str, server: Server, folder: Path, shared: Path | None = None) -> Iterator[World]:
    """The data set `name`, "corpora-..." or any other, on the engine that its last part but one names."""
    rng = Random(name)
    terms = privacy(rng)
    of_corpora = shared is not None and name.startswith("corpora")
    with TemporaryDirectory(dir=folder) as made:
        found = (
            corpora(rng, shared, Path(made)) if shared and of_corpora else generated(rng, name.split("-")[-2])
        )
        with world(name, found, terms, server, Path(made)) as deployed:
            yield deployed


@contextmanager
def world(name: str, made: Data, terms: str, server: Server, folder: Path) -> Iterator[World]:
    """A data set under a policy of its tables and `terms`."""
    with ExitStack() as stack:
        front = stack.enter_context(server.database())
        backends = _filled(stack, server, folder, name.split("-")[-2], made)
        accepted(folder, backends[WITHOUT], made.policy)
        policy = (folder / "dpproxy.toml").read_text().split("\n", 2)[2]
        checked = {}
        for side in made.sides:
            here = folder / side
            here.mkdir(exist_ok=True)
            text = f'[backend]\nurl = "{backends[side]}"\nmemory = "200MB"\n{terms}\n{policy}'
            (here / "dpproxy.toml").write_text(text)
            checked[side] = stack.enter_context(_bound(here / "dpproxy.toml"))
        yield _world(stack, server, name, front, checked, folder)


@contextmanager
def _bound(file: Path) -> Iterator[BoundConfig]:
    found = BoundConfig.open(configured(file))
    try:
        yield found
    finally:
        found.backend.close()


def _world(
    stack: ExitStack, server: Server, name: str, front: str, checked: Mapping[str, BoundConfig], folder: Path
) -> World:
    first = checked[WITHOUT]
    clone = stack.enter_context(Front.connect(server.embedded.conninfo(dbname=front)))
    clone.clone(first.policy, first.schema)
    for table in first.policy.tables.values():
        if table.in_front:
            clone.load_public(table, first.backend.read_public(table))
    planner = Planner(first.policy, clone, first.backend.dialect)
    engines = {}
    nonces: dict[str, bytes] = {}
    for side, found in checked.items():
        database = stack.enter_context(server.database())
        ledger = Ledger.open(server.embedded.conninfo(dbname=database), first.pinned, instance=side)
        stack.callback(ledger.close)
        # A plan is noted with its keys at the statement, and the sides share their planner.
        ledger.epochs._nonces = nonces
        guarded = RollbackGuardedLedger(ledger, MarkFile(folder / side / "key", *KEYS.all))
        stack.callback(guarded.close)
        generation = guarded.generations.begin(side)
        backend: Any = Moved(found.backend, side) if name.split("-")[-2] == "spark" else found.backend
        engines[side] = QueryEngine(
            first.config, planner, backend, guarded, KEYS, lambda epoch: None, generation
        )
    columns = {
        table: frozenset(c.name for c in found.columns if not c.hidden)
        for (_, table), found in first.policy.tables.items()
    }
    return World(name, engines, columns, first.config.privacy.epsilon_per)


def _filled(stack: ExitStack, server: Server, folder: Path, engine: str, made: Data) -> dict[str, str]:
    """The databases of an engine, by side: their URLs."""
    if engine == "spark":
        return _in_spark(made, server.spark)
    urls = {}
    for side, rows in made.sides.items():
        if engine == "duckdb":
            file = folder / f"{side}.duckdb"
            file.unlink(missing_ok=True)
            with duckdb.connect(file) as connection:
                _into_duckdb(connection, made.tables, rows)
            urls[side] = f"duckdb:///{file}"
        else:
            name = stack.enter_context(server.database())
            with psycopg.connect(server.embedded.conninfo(dbname=name), autocommit=True) as owner:
                _into_postgres(owner, made.tables, rows)
            urls[side] = server.databases.url(name)
    return urls


def _into_duckdb(connection: duckdb.DuckDBPyConnection, tables: Mapping[str, str], rows: Rows) -> None:
    for name, columns in tables.items():
        connection.execute(f"CREATE TABLE {name} ({columns})")
        types = [r[1] for r in connection.execute(f"DESCRIBE {name}").fetchall()]
        unnested = ", ".join(f"CAST(unnest(${n + 1}) AS {t})" for n, t in enumerate(types))
        if rows[name]:
            connection.execute(
                f"INSERT INTO {name} SELECT {unnested}", [list(c) for c in zip(*rows[name], strict=True)]
            )


def _into_postgres(owner: psycopg.Connection, tables: Mapping[str, str], rows: Rows) -> None:
    for name, columns in tables.items():
        owner.execute(f"CREATE TABLE {name} ({columns})".encode())
        with owner.cursor().copy(f"COPY {name} FROM STDIN".encode()) as copy:
            for row in rows[name]:
                copy.write_row(row)
    owner.execute(b"GRANT USAGE ON SCHEMA public TO reader")
    owner.execute(b"GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader")


def _in_spark(made: Data, url: str) -> dict[str, str]:
    """A database a side; the schema is read from the default one, which has the public rows."""
    from tests.oracle.spark import arrow
    from tests.spark_server import owner

    with owner(url) as session:
        for database, rows in (
            ("default", made.sides[WITHOUT]),
            *((f"side_{s}", r) for s, r in made.sides.items()),
        ):
            session.sql(f"CREATE DATABASE IF NOT EXISTS {database}")
            for name, columns in made.tables.items():
                session.sql(f"DROP TABLE IF EXISTS {database}.{name}")
                frame = session.createDataFrame(arrow(columns, rows[name]))
                frame.coalesce(1).write.saveAsTable(f"{database}.{name}")
    return dict.fromkeys(SIDES, url)


class Moved:
    """Spark over the tables of one side, which no URL names."""

    def __init__(self, backend: Backend, side: str) -> None:
        self._backend, self._database = backend, f"`side_{side}`"

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    @contextmanager
    def open(self) -> Iterator[Any]:
        """A slot whose queries are about the side."""
        with self._backend.open() as slot:
            yield SimpleNamespace(fetch=lambda query, *rest: slot.fetch(self._moved(query), *rest))

    def _moved(self, query: HistogramQuery) -> HistogramQuery:
        return replace(query, sql=query.sql.replace("`default`", self._database))
