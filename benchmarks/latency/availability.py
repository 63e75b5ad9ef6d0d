"""What one attacker costs everybody else: SELECT 1, private questions, logins and health beside each attack.

`make availability`, some ten minutes; `python -m benchmarks.latency.availability NAME...` for some of the attacks. Each
row has a proxy of its own, whose process gets SIGTERM while the attack goes on. Attacks are bounded in time and go to
loopback.
"""

from __future__ import annotations

import http.client
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import psycopg
from rich.console import Console
from rich.table import Table

from benchmarks.latency.serving import FRESH, Proxy, serving
from dpproxy.deployment.workers import reserved_port

SECONDS = 12.0
GRACE = 60.0
"""How long a process is waited for after SIGTERM."""
PATIENCE = 15
"""Seconds after which a statement of the bystander counts as failed."""
POLICY = """
[backend]
url = "duckdb:///people.duckdb"
[server]
auth = "trust"
http = "127.0.0.1:{http}"
[budget]
mode = "track"
[tables.people]
privacy_unit = "id"
[tables.people.columns]
born = {{ range = [1900, 2020] }}
"""
GSSENC = struct.pack("!ii", 8, 80877104)


@dataclass(frozen=True)
class Target:
    """The ports of a proxy under attack, and how long it goes on."""

    port: int
    http: int
    seconds: float = SECONDS

    def sessions(self, number: int, *statements: str) -> None:
        """Sessions of one login that send statements and read nothing, again and again."""
        ends = time.monotonic() + self.seconds

        def one() -> None:
            while time.monotonic() < ends:
                with (
                    suppress(psycopg.Error),
                    psycopg.connect(
                        host="127.0.0.1", port=self.port, user="mallory", dbname="any", autocommit=True
                    ) as connection,
                ):
                    for statement in statements:
                        with suppress(psycopg.Error):
                            connection.execute(statement.encode())
                time.sleep(0.01)

        _all([one] * number)

    def abandoned(self, number: int, statement: str) -> None:
        """Sessions that send a statement and go away after a second, again and again."""
        ends = time.monotonic() + self.seconds

        def one() -> None:
            while time.monotonic() < ends:
                with suppress(psycopg.Error):
                    connection = psycopg.connect(
                        host="127.0.0.1", port=self.port, user="mallory", dbname="any", autocommit=True
                    )
                    connection.pgconn.send_query(statement.encode())
                    time.sleep(1)
                    connection.close()

        _all([one] * number)

    def silent(self, port: int, number: int, first: bytes = b"") -> None:
        """Connections that send `first` and nothing more."""
        kept = []
        for _ in range(number):
            with suppress(OSError):
                kept.append(socket.create_connection(("127.0.0.1", port), 5))
                kept[-1].sendall(first)
        time.sleep(self.seconds)
        for one in kept:
            one.close()


def _all(works: list[Callable[[], None]]) -> None:
    threads = [threading.Thread(target=work, daemon=True) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _levels(step: str, number: int = 24) -> str:
    ctes = ["c0 AS (SELECT * FROM people)"]
    ctes += [f"c{n} AS ({step.format(f'c{n - 1}')})" for n in range(1, number)]
    return f"EXPLAIN WITH {', '.join(ctes)} SELECT count(*) FROM c{number - 1}"


JOINED = _levels("SELECT a.* FROM {0} a JOIN {0} b USING (id)")
UNITED = _levels("SELECT * FROM {0} UNION ALL SELECT * FROM {0}")
WAITS = (
    "EXPLAIN SELECT count(*) FROM people WHERE born > (SELECT count(*) FROM generate_series(1, 1000000000))"
)
PUBLIC = f"SELECT 1 WHERE {' AND '.join(['1 = 1'] * 6_200)}"
PRIVATE = f"SELECT count(*) FROM people WHERE {' AND '.join(['born > 1'] * 1_200)}"
MANY = ";".join(["SELECT 1"] * 7_000)
CASTS = f"SELECT count(*) FROM people WHERE born > 1900{'::int' * 400}"
LARGE = "SELECT length(repeat('x', 1000000000) || 'y')"

ATTACKS: dict[str, Callable[[Target], None]] = {
    "nothing": lambda target: time.sleep(target.seconds),
    "two GSSENCRequests at once, 4 times": lambda target: target.silent(target.port, 4, GSSENC * 2),
    "1,001 silent connections": lambda target: target.silent(target.port, 1001),
    "70 silent connections to the console": lambda target: target.silent(target.http, 70),
    "70 unfinished POSTs to the console": lambda target: target.silent(
        target.http, 70, b"POST /login HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nx"
    ),
    "36 sessions, 24 joined CTEs, gone after 1 s": lambda target: target.abandoned(36, JOINED),
    "36 sessions, 24 united CTEs, gone after 1 s": lambda target: target.abandoned(36, UNITED),
    "8 sessions, EXPLAIN with an endless constant": lambda target: target.sessions(8, WAITS),
    "200 sessions of one login": lambda target: target.sessions(200, "SELECT pg_sleep(3)"),
    "1 session, public texts of 62 kB": lambda target: target.sessions(1, PUBLIC),
    "1 session, private texts of 15 kB": lambda target: target.sessions(1, PRIVATE),
    "1 session, 7,000 statements a string": lambda target: target.sessions(1, MANY),
    "1 session, 400 casts": lambda target: target.sessions(1, CASTS),
    "3 sessions, texts of 1 GB in the front": lambda target: target.sessions(3, LARGE),
}


@dataclass
class Seen:
    """What the bystander saw: seconds of what was answered, and how much was not."""

    seconds: list[float] = field(default_factory=list)
    failed: int = 0

    def at(self, share: float) -> str:
        """A quantile in ms."""
        if not self.seconds:
            return "-"
        ordered = sorted(self.seconds)
        return f"{1000 * ordered[min(int(share * len(ordered)), len(ordered) - 1)]:.1f}"

    @property
    def failures(self) -> str:
        """How many failed, of how many."""
        return f"{self.failed} of {self.failed + len(self.seconds)}"


def _repeated(work: Callable[[], None], seen: Seen, pause: float, ends: float) -> None:
    while time.monotonic() < ends:
        began = time.monotonic()
        try:
            work()
            seen.seconds.append(time.monotonic() - began)
        except (psycopg.Error, OSError, http.client.HTTPException):
            seen.failed += 1
        time.sleep(pause)


class Bystander:
    """An analyst and a health check beside an attack, for some seconds."""

    def __init__(self, proxy: Proxy, http_port: int) -> None:
        self._proxy, self._http = proxy, http_port
        self._kept: dict[str, psycopg.Connection[Any]] = {}
        self.plain, self.private, self.logins, self.health = Seen(), Seen(), Seen(), Seen()

    def _session(self, name: str) -> psycopg.Connection[Any]:
        kept = self._kept.get(name)
        if kept is None or kept.closed:
            kept = psycopg.connect(
                host="127.0.0.1",
                port=self._proxy.port,
                user="alice",
                dbname="any",
                autocommit=True,
                connect_timeout=PATIENCE,
                options="-c dpproxy.notices=off",
            )
            self._kept[name] = kept
        return kept

    def _ask(self, name: str, sql: str) -> None:
        session = self._session(name)
        end = threading.Timer(PATIENCE, lambda: _shut(session))
        end.start()
        try:
            session.execute(sql.encode()).fetchall()
        finally:
            end.cancel()

    def _look(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._http, timeout=PATIENCE)
        try:
            connection.request("GET", "/healthz")
            if connection.getresponse().status != 200:
                raise http.client.HTTPException
        finally:
            connection.close()

    def _log_in(self) -> None:
        self._kept.pop("login", None)
        self._session("login").close()

    def begin(self) -> None:
        """Opens the sessions that it keeps."""
        self._ask("plain", "SELECT 1")
        self._ask("private", f"SELECT count(*) FROM people WHERE id > {next(FRESH)}")

    def close(self) -> None:
        """Ends its sessions."""
        for session in self._kept.values():
            session.close()

    def watch(self, seconds: float) -> None:
        """Asks and looks for so long."""
        ends = time.monotonic() + seconds
        private = "SELECT count(*) FROM people WHERE id > {}"
        _all(
            [
                lambda: _repeated(lambda: self._ask("plain", "SELECT 1"), self.plain, 0.02, ends),
                lambda: _repeated(
                    lambda: self._ask("private", private.format(next(FRESH))), self.private, 0.3, ends
                ),
                lambda: _repeated(self._log_in, self.logins, 0.5, ends),
                lambda: _repeated(self._look, self.health, 0.5, ends),
            ]
        )


def _shut(session: psycopg.Connection[Any]) -> None:
    with suppress(OSError):
        socket.socket(fileno=socket.dup(session.fileno())).shutdown(socket.SHUT_RDWR)


@contextmanager
def attacked(name: str, port: int, http_port: int) -> Iterator[subprocess.Popen[bytes]]:
    """An attack from a process of its own, begun two seconds ago."""
    command = [
        sys.executable,
        "-m",
        "benchmarks.latency.availability",
        "--attack",
        name,
        str(port),
        str(http_port),
    ]
    attacker = subprocess.Popen(command, cwd=Path(__file__).parent.parent.parent)
    try:
        time.sleep(2)
        yield attacker
    finally:
        attacker.kill()
        attacker.wait()


def measured(name: str, folder: Path) -> tuple[str, ...]:
    """A row of the table."""
    with duckdb.connect(folder / "people.duckdb") as database:
        database.execute("CREATE TABLE people (id INTEGER PRIMARY KEY, born INTEGER)")
        database.execute("INSERT INTO people SELECT i, 1930 + i % 80 FROM range(20000) AS r(i)")
    with reserved_port("127.0.0.1", 0) as http_port:
        pass
    with serving(folder, POLICY.format(http=http_port)) as proxy:
        bystander = Bystander(proxy, http_port)
        bystander.begin()
        with attacked(name, proxy.port, http_port):
            bystander.watch(SECONDS - 6)
            ended = _ended(proxy.pid)
        bystander.close()
    plain, private = bystander.plain, bystander.private
    return (
        name,
        f"{plain.at(0.5)} / {plain.at(0.99)}",
        plain.failures,
        f"{private.at(0.5)} / {private.at(0.99)}",
        private.failures,
        bystander.logins.failures,
        bystander.health.failures,
        ended,
    )


def _ended(pid: int) -> str:
    """How long a process lives after SIGTERM; SIGKILL after the grace."""
    began = time.monotonic()
    os.kill(pid, signal.SIGTERM)
    while time.monotonic() - began < GRACE:
        if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
            return f"{time.monotonic() - began:.1f} s"
        time.sleep(0.05)
    os.kill(pid, signal.SIGKILL)
    return f"alive after {GRACE:.0f} s"


def main() -> None:
    """The table."""
    if sys.argv[1:2] == ["--attack"]:
        name, port, http_port = sys.argv[2:]
        ATTACKS[name](Target(int(port), int(http_port)))
        return
    table = Table("attack", "SELECT 1, ms, p50 / p99", "failed", "private, ms, p50 / p99", "failed")
    for head in ("logins failed", "health failed", "ends after SIGTERM"):
        table.add_column(head)
    for name in sys.argv[1:] or ATTACKS:
        with tempfile.TemporaryDirectory() as folder:
            row = measured(name, Path(folder))
            table.add_row(*row)
            print(" | ".join(row), flush=True)
    Console(width=200).print(table)


if __name__ == "__main__":
    main()
