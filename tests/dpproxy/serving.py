"""A small deployment of its own for the tests of the commands: a DuckDB file, a policy, a served port."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from threading import Timer
from typing import IO

import duckdb
import psycopg
from typer.testing import CliRunner

from dpproxy.backends.duckdb.instance import LINGER_SECONDS
from dpproxy.cli.app import app
from tests import preloaded
from tests.preloaded import Fork

ROOT = Path(__file__).parent.parent.parent
USERS, TOWNS = 900, ("Ulm", "Bonn", "Jena")
POLICY = """
[backend]
url = "duckdb:///people.duckdb"

[tables.people]
privacy_unit = "person_id"
unique = ["person_id"]
[tables.people.columns]
town = { domain = ["Ulm", "Bonn", "Jena"] }

[tables.visits]
privacy_unit = "person_id"
max_rows_per_unit = 5
max_groups_per_unit = { "room" = 2 }
[tables.visits.columns]
seconds = { bounds = [0, 60.5], scale = 1 }

[tables.rooms]
public = true
unique = ["room"]
"""
COUNT = "SELECT town, COUNT(*) AS n FROM people GROUP BY town ORDER BY town"


@contextmanager
def owner_of(file: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection that may write to a file which a service has just read."""
    time.sleep(LINGER_SECONDS + 0.3)
    with duckdb.connect(file) as connection:
        yield connection


def make(folder: Path, policy: str = POLICY) -> Path:
    """Writes the database and the policy; gives the policy's path."""
    with duckdb.connect(folder / "people.duckdb") as connection:
        connection.execute("CREATE TABLE people (person_id INTEGER PRIMARY KEY, town VARCHAR NOT NULL)")
        towns = ", ".join(f"'{town}'" for town in TOWNS)
        connection.execute(f"INSERT INTO people SELECT i, [{towns}][1 + i % 3] FROM range({USERS}) r(i)")
        connection.execute("CREATE TABLE visits (person_id INTEGER NOT NULL, room INTEGER, seconds INTEGER)")
        connection.execute(f"INSERT INTO visits SELECT i, i % 4, 30 FROM range({USERS}) r(i)")
        connection.execute("CREATE TABLE rooms (room INTEGER PRIMARY KEY, floor INTEGER NOT NULL)")
        connection.execute("INSERT INTO rooms SELECT i, i % 2 FROM range(4) r(i)")
    file = folder / "dpproxy.toml"
    file.write_text(policy)
    return file


def command(*arguments: str, folder: Path = ROOT, entry: str = "") -> subprocess.CompletedProcess[str]:
    """Runs a command to its end; `entry`: its standard input."""
    with TemporaryFile("w+") as stdin, TemporaryFile("w+") as stderr:
        stdin.write(entry)
        stdin.seek(0)
        process = preloaded.start(("-m", "dpproxy", *arguments), folder=folder, entry=stdin, errors=stderr)
        limit = Timer(120, process.kill)
        limit.start()
        with process.stdout:
            said = process.stdout.read()
        status = process.wait(10)
        limit.cancel()
        stderr.seek(0)
        return subprocess.CompletedProcess(arguments, status, said, stderr.read())


def within(*arguments: str, entry: str = "") -> tuple[int, str, str]:
    """Runs a command in this process, which is sooner: its status and what it says on both outputs."""
    result = CliRunner().invoke(app, list(arguments), input=entry)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


@dataclass
class Running:
    """A serving process, the port it announced, and the URL of its console, if it said one."""

    process: Fork | subprocess.Popen[str]
    port: int
    console: str = ""

    def connect(self, user: str, password: str = "") -> psycopg.Connection:
        """A connection of an analyst."""
        return psycopg.connect(
            host="127.0.0.1", port=self.port, user=user, password=password, dbname="any", autocommit=True
        )

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Sends a signal and gives the exit status."""
        self.process.send_signal(number)
        return self.process.wait(60)


@contextmanager
def serving(
    arguments: Sequence[str],
    *,
    folder: Path = ROOT,
    root: Path = ROOT,
    program: Sequence[str] = ("-m", "dpproxy"),
    errors: IO[str] | None = None,
) -> Iterator[Running]:
    """Runs `dpproxy ARGUMENTS`, once it listens; ends it in any case.

    `root`: where the project is; `errors`: where standard error goes.
    """
    process: Fork | subprocess.Popen[str]
    if root == ROOT and program[0] != "-c":
        process = preloaded.start((*program, *arguments), folder=folder, errors=errors)
    else:
        process = subprocess.Popen(
            [sys.executable, *program, *arguments],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(root)},
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    assert process.stdout is not None
    try:
        console = ""
        for line in process.stdout:
            if line.startswith("dpproxy: console at "):
                console = line.split()[-1]
            if line.startswith("dpproxy: listening on 127.0.0.1:"):
                break
        else:
            raise AssertionError(f"nothing listens, exit status {process.wait(10)}")
        yield Running(process, int(line.rpartition(":")[2]), console)
    finally:
        process.kill()
        process.wait(60)
        process.stdout.close()
