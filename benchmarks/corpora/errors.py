"""`make corpora`: the corpora's queries through SQL on both backends: how many are answered, and how far they are off.

The corpora lie in $DPPROXY_SHARED; their data are made without person 42, whose amounts are a million times anybody's.
The truth is the same statement's answer from PostgreSQL over the same data, without a proxy. Exit code 1 where less is
answered with rows than should be. How many people there are is the data generator's option: which groups are large
enough to be shown hangs on it, and others' queries ask for the events of single articles in a month.
"""

from __future__ import annotations

import asyncio
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import yaml
from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks.deployed import ENGINES
from dpproxy.deployment.service import Service, configured
from dpproxy.reporting.rows import RowSet
from dpproxy.server.local_client import ClientError
from tests.dpproxy.postgres_data import Databases, databases

TABLES = ("users", "articles", "events")
LEAST = {"legit.yaml": 1.0, "queries-by-others.yaml": 0.95}
"""The share that has to be answered with rows, where the truth has any."""
USERS = {"legit.yaml": 20_000, "queries-by-others.yaml": 300_000}
"""The people in the data of each corpus."""

PARAMETERS = {"$1": "'Engineer'", "$2": "'2024-06-01'"}
"""What stands for the parameters of statements, which are written in their places."""

Rows = Sequence[tuple[str | None, ...]]
Ask = Callable[[str], RowSet]


def queries(corpora: Path, name: str) -> list[dict[str, Any]]:
    """The entries of a corpus that should be answered."""
    entries = yaml.safe_load((corpora / name).read_text())
    wanted = [e for e in entries if e.get("sql") and e.get("answerable", "yes") == "yes"]
    for name, value in PARAMETERS.items():
        wanted = [{**e, "sql": e["sql"].replace(name, value)} for e in wanted]
    return wanted


def relative_error(released: Rows, truth: Rows) -> float | None:
    """The mean of |x - t|/max(|t|, 1) over the numbers of rows that are in both; None where there are none.

    Columns most of whose released values are among the true ones are keys; by them rows are matched. Not all need be:
    a released top 10 may have a group that is not of the true ones.

    >>> round(relative_error([("a", "11"), ("b", "6")], [("a", "10"), ("b", "5.0"), ("c", "7")]), 4)
    0.15
    >>> round(relative_error([("a", "11"), ("b", "6"), ("d", "4")], [("a", "10"), ("b", "5.0"), ("c", "7")]), 4)
    0.15
    >>> relative_error([("a", "x")], [("a", "x")]) is None
    True
    """
    if not released or not truth:
        return None
    width = range(len(truth[0]))
    true = [{row[n] for row in truth} for n in width]
    most = len(released) / 2
    keys = [n for n in width if len(truth) > 1 and sum(row[n] in true[n] for row in released) > most]
    matched = {tuple(row[n] for n in keys): row for row in truth}
    pairs = [(row, matched[key]) for row in released if (key := tuple(row[n] for n in keys)) in matched]
    measures = [n for n in width if n not in keys]
    numbers = [(number(row[n]), number(other[n])) for row, other in pairs for n in measures]
    errors = [abs(x - t) / max(abs(t), 1) for x, t in numbers if x is not None and t is not None]
    return sum(errors) / len(errors) if errors else None


def number(text: str | None) -> float | None:
    try:
        return float(text or "")
    except ValueError:
        return None


@dataclass(frozen=True)
class World:
    """Data in both engines: `urls` of the backends in their order, and the `database` of the truth."""

    folder: Path
    server: Databases
    database: str
    urls: tuple[str, str]


@contextmanager
def made(corpora: Path, users: int) -> Iterator[World]:
    """The corpora's data of so many people."""
    with tempfile.TemporaryDirectory() as name:
        data = Path(name)
        maker = [sys.executable, str(corpora / "make_data.py"), name]
        subprocess.run([*maker, "--without", "42", "--users", str(users)], check=True)
        with filled((corpora / "schema.sql").read_text(), {t: data / f"{t}.csv" for t in TABLES}) as world:
            yield world


@contextmanager
def filled(schema: str, files: Mapping[str, Path]) -> Iterator[World]:
    """Both engines with the tables of a schema, filled in their order from CSV files with a head."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        server = stack.enter_context(databases(folder / "server"))
        database = _fill_postgres(server, schema, files)
        yield World(folder, server, database, (fill_duckdb(folder, schema, files), server.url(database)))


@contextmanager
def proxy(folder: Path, url: str, corpora: Path) -> Iterator[Ask]:
    """A proxy with the corpora's policy over the data at `url`."""
    policy = (corpora / "dpproxy.toml").read_text().replace("[privacy]", '[privacy]\nscans = "charge"', 1)
    with asking(configuration(folder, url, policy)) as ask:
        yield ask


def configuration(folder: Path, url: str, policy: str) -> Path:
    """The file of a proxy with this policy over the data at `url`, in a folder that is made."""
    folder.mkdir(exist_ok=True)
    file = folder / "dpproxy.toml"
    file.write_text(f'[backend]\nurl = "{url}"\n' + policy)
    return file


@contextmanager
def asking(file: Path) -> Iterator[Ask]:
    """A proxy that an analyst asks."""
    with Service.start(configured(file), alone=True) as service:
        yield lambda sql: asyncio.run(service.ask("analyst", f"/* dpproxy.reuse = off */ {sql}"))


def fill_duckdb(folder: Path, schema: str, files: Mapping[str, Path]) -> str:
    """Makes the DuckDB file; gives its URL."""
    file = folder / "data.duckdb"
    with duckdb.connect(file) as connection:
        connection.execute(schema)
        for name, rows in files.items():
            options = "header = true, allow_quoted_nulls = false"
            connection.execute(f"INSERT INTO {name} SELECT * FROM read_csv('{rows}', {options})")
    return f"duckdb:///{file}"


def _fill_postgres(server: Databases, schema: str, files: Mapping[str, Path]) -> str:
    """Makes the database; gives its name."""
    database = server.make((schema,))
    with server.owner(database) as owner, owner.cursor() as cursor:
        for name, rows in files.items():
            with cursor.copy(f"COPY {name} FROM STDIN (FORMAT csv, HEADER)".encode()) as copy:
                copy.write(rows.read_bytes())
        cursor.execute("ANALYZE")
    return database


def true_rows(server: Databases, database: str, sql: str) -> Rows:
    """The answer of PostgreSQL itself as text; nothing where it refuses."""
    with psycopg.connect(server.server.conninfo(dbname=database), autocommit=True) as connection:
        try:
            result = connection.pgconn.exec_(sql.encode())
        except psycopg.Error:
            return []
        cells = [[result.get_value(r, c) for c in range(result.nfields)] for r in range(result.ntuples)]
    return [tuple(None if v is None else v.decode() for v in row) for row in cells]


def answered(ask: Ask, sql: str) -> Rows | str:
    """The rows of an answer, or why there is none."""
    try:
        return ask(sql).rows
    except ClientError as error:
        return error.line


def main() -> int:
    """Ask everything on both backends; print what is answered, what not, and the errors."""
    corpora = Path(os.environ["DPPROXY_SHARED"]) / "corpora"
    console = Console(width=170)
    missed = 0
    for name, least in LEAST.items():
        with ExitStack() as stack:
            world = stack.enter_context(made(corpora, USERS[name]))
            listed = queries(corpora, name)
            truths = {e["id"]: true_rows(world.server, world.database, e["sql"]) for e in listed}
            found: dict[str, dict[str, Rows | str]] = {}
            for engine, url in zip(ENGINES, world.urls, strict=True):
                with proxy(world.folder / engine, url, corpora) as ask:
                    bar = track(listed, f"{name} on {engine}", console=console, transient=True)
                    found[engine] = {e["id"]: answered(ask, e["sql"]) for e in bar}
            missed += report(name, found, truths, least, console)
    return 1 if missed else 0


def report(
    name: str,
    found: dict[str, dict[str, Rows | str]],
    truths: dict[str, Rows],
    least: float,
    console: Console,
) -> int:
    """The table of errors of a corpus and what was not answered; the number of backends that missed the goal."""
    table = Table("query", *(f"mean relative error, {engine}" for engine in ENGINES), title=name)
    missed = 0
    for query, truth in truths.items():
        table.add_row(query, *(_shown(found[engine][query], truth) for engine in ENGINES))
    console.print(table)
    for engine in ENGINES:
        refused = {q: why for q, why in found[engine].items() if isinstance(why, str)}
        empty = [q for q, rows in found[engine].items() if not rows and truths[q]]
        errors = [e for q, rows in found[engine].items() if (e := _error(rows, truths[q])) is not None]
        errors.sort()
        console.print(
            f"{name} on {engine}: {len(truths) - len(refused)} of {len(truths)} answered, {len(empty)} of them without "
            f"rows though there are some ({', '.join(empty)}); median of the {len(errors)} relative errors "
            f"{errors[len(errors) // 2] if errors else math.nan:.3g}"
        )
        for query, why in refused.items():
            console.print(f"  {query}: {why}", markup=False)
        missed += len(truths) - len(refused) - len(empty) < least * len(truths)
    return missed


def _error(rows: Rows | str, truth: Rows) -> float | None:
    return None if isinstance(rows, str) else relative_error(rows, truth)


def _shown(rows: Rows | str, truth: Rows) -> str:
    if isinstance(rows, str):
        return "refused"
    error = relative_error(rows, truth)
    return f"{error:.2%}" if error is not None else f"- ({len(rows)} rows)"


if __name__ == "__main__":
    sys.exit(main())
