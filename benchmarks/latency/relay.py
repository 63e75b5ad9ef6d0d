"""SELECT 1 through the relay beside the front itself, by pgbench, and the memory of 200 idle sessions.

`make bench-relay`; the served configuration is made for it, with DuckDB and `auth = "trust"`. Clients come to the relay
by TCP, so the front that it is held against is asked by TCP, too; a Unix socket, by which the relay asks its own, is a
row beside it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from unittest.mock import patch

import duckdb
import psycopg
from rich.console import Console
from rich.table import Table

from benchmarks.latency.pgbench import measured
from dpproxy.deployment.workers import reserved_port
from dpproxy.embedded import server
from dpproxy.front.front import Front

POLICY = """
[backend]
url = "duckdb:///people.duckdb"
[server]
auth = "trust"
[budget.dataset]
[tables.people]
privacy_unit = "id"
"""
SECONDS = 3
KINDS = ((1, "simple"), (1, "prepared"), (8, "simple"), (8, "prepared"))
"""Connections and protocol."""
PROCESSES = 2
SESSIONS = 200
LEAST_SHARE = 0.30
MOST_BYTES = 1.5e9


@contextmanager
def served(folder: Path, workers: int) -> Iterator[tuple[int, int]]:
    """A serving process: its id and its port."""
    with duckdb.connect(folder / "people.duckdb") as connection:
        connection.execute("CREATE TABLE people (id INTEGER PRIMARY KEY)")
    (folder / "dpproxy.toml").write_text(POLICY)
    command = [sys.executable, "-m", "dpproxy", "serve", "--port", "0", "--workers", str(workers)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent.parent)}
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    try:
        heard = ""
        while "listening on" not in heard:
            heard = process.stdout.readline()
        yield process.pid, int(heard.rsplit(":", 1)[1])
    finally:
        process.terminate()
        process.wait(60)
        process.stdout.close()


def memory(pid: int) -> int:
    """Bytes of a process and its descendants; what they share counts once."""
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    found = re.search(r"^Pss:\s+(\d+) kB", rollup, re.MULTILINE)
    assert found is not None
    children = Path(f"/proc/{pid}/task").glob("*/children")
    return int(found[1]) * 1024 + sum(
        memory(int(one)) for file in children for one in file.read_text().split()
    )


def speeds(
    folder: Path, places: Mapping[str, Mapping[str, str]], kinds: Sequence[tuple[int, str]], seconds: float
) -> tuple[Table, float]:
    """The table, and the second place's share of the first one's rate, of the last of `kinds` in the simple protocol.

    `kinds`: connections and protocol.
    """
    table = Table("connections", "protocol", "place", "statements/s", "p50 ms", "of direct")
    share = 0.0
    for clients, mode in kinds:
        rates: list[float] = []
        for name, place in places.items():
            speed = measured(folder, place, "SELECT 1;\n", clients=clients, mode=mode, seconds=seconds)
            rates.append(speed.rate)
            part = f"{speed.rate / rates[0]:.0%}"
            table.add_row(str(clients), mode, name, f"{speed.rate:.0f}", f"{speed.p50:.2f}", part)
        if mode == "simple":
            share = rates[1] / rates[0]
    return table, share


@contextmanager
def front_by_tcp(folder: Path) -> Iterator[dict[str, str]]:
    """A front that listens on 127.0.0.1 as well, as libpq's environment."""
    with reserved_port("127.0.0.1", 0) as port:
        pass
    settings = {"listen_addresses": "127.0.0.1", "port": str(port)}
    with (
        patch.object(server, "PORT", port),
        patch.dict(server._ALWAYS, settings),
        Front.start(folder) as front,
    ):
        role, password = front.role_for("bench")
        with (folder / "cluster" / "pg_hba.conf").open("a") as rules:
            rules.write("host all all 127.0.0.1/32 scram-sha-256\n")
        assert front._embedded is not None
        with psycopg.connect(front._embedded.conninfo(dbname="postgres")) as admin:
            admin.execute("SELECT pg_reload_conf()")
        yield {
            "PGHOST": "127.0.0.1",
            "PGPORT": str(port),
            "PGUSER": role,
            "PGPASSWORD": password,
            "PGDATABASE": front.database,
            "PGSSLMODE": "disable",
            "SOCKET": str(front._embedded.socket_dir),
        }


@contextmanager
def both(folder: Path, port: int, second: int | None = None) -> Iterator[dict[str, dict[str, str]]]:
    """libpq's environments of the front, of the relay with TLS off, and with it where pgbench speaks it.

    `second`: the port of a relay of more processes.
    """
    relayed = {
        "PGHOST": "127.0.0.1",
        "PGPORT": str(port),
        "PGUSER": "bench",
        "PGDATABASE": "any",
        "PGSSLMODE": "disable",
    }
    with front_by_tcp(folder / "front") as direct:
        places = {
            "front": direct,
            "relay": relayed,
            "front, Unix socket": {**direct, "PGHOST": direct["SOCKET"]},
        }
        if second is not None:
            places[f"relay, {PROCESSES} processes"] = {**relayed, "PGPORT": str(second)}
        if shutil.which("pgbench"):
            places["relay, TLS"] = {**relayed, "PGSSLMODE": "require"}
        yield places


def idle_sessions(pid: int, port: int, number: int = SESSIONS) -> tuple[int, int]:
    """Bytes before and with so many idle sessions over TLS."""
    before = memory(pid)
    with ExitStack() as stack:
        for _ in range(number):
            connection = stack.enter_context(
                psycopg.connect(host="127.0.0.1", port=port, user="bench", dbname="any", sslmode="require")
            )
            connection.execute("SELECT count(*) FROM pg_class")
            connection.rollback()
        return before, memory(pid)


def main() -> int:
    """Measures and prints; 1 if the relay, one process of it, is slower or larger than it may be."""
    console = Console()
    with tempfile.TemporaryDirectory() as name:
        folder, other = Path(name), Path(name) / "other"
        other.mkdir()
        with served(folder, 1) as (pid, port):
            with served(other, PROCESSES) as (_, second), both(folder, port, second) as places:
                table, share = speeds(folder, places, KINDS, SECONDS)
            before, after = idle_sessions(pid, port)
    console.print(table)
    console.print(
        f"{SESSIONS} idle sessions: {after / 1e6:.0f} MB in all, {(after - before) / SESSIONS / 1e6:.2f} MB each"
    )
    return int(share < LEAST_SHARE or after > MOST_BYTES)


if __name__ == "__main__":
    sys.exit(main())
