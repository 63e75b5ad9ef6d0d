"""What one attacker costs everybody else: SELECT 1, private questions, logins, the console and health before, beside
and after each attack.

`make availability`, a quarter of an hour; `python -m benchmarks.latency.availability NAME...` for some of the attacks.
Each row has a proxy of its own, whose process gets SIGTERM while the attack goes on. Attacks are bounded in time and go
to loopback.
"""

from __future__ import annotations

import http.client
import os
import re
import select
import signal
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import duckdb
import psycopg
from rich.console import Console
from rich.table import Table

from benchmarks.latency.serving import FRESH, Proxy, serving
from dpproxy.deployment.workers import reserved_port
from dpproxy.pgwire import messages as m
from dpproxy.pgwire.auth import ClientScram
from dpproxy.pgwire.startup import startup_packet

SECONDS = 12.0
BEFORE, DURING, AFTER = 3.0, 6.0, 3.0
"""Seconds for which the bystander is timed; after the attack, two seconds later."""
GRACE = 60.0
"""How long a process is waited for after SIGTERM."""
PATIENCE = 15
"""Seconds after which a statement of the bystander counts as failed."""
POLICY = """
[backend]
url = "duckdb:///people.duckdb"
[server]
http = "127.0.0.1:{http}"
[budget]
mode = "track"
[tables.people]
privacy_unit = "id"
[tables.people.columns]
born = {{ range = [1900, 2020] }}
"""
PASSWORD = "correct horse battery"
GSSENC = struct.pack("!ii", 8, 80877104)


@dataclass(frozen=True)
class Target:
    """The ports of a proxy under attack, and how long it goes on."""

    port: int
    http: int
    seconds: float = SECONDS

    def connect(self) -> psycopg.Connection[Any]:
        """A session of the attacker's, who has a login."""
        return psycopg.connect(
            host="127.0.0.1",
            port=self.port,
            user="mallory",
            password=PASSWORD,
            dbname="any",
            autocommit=True,
            sslmode="disable",
        )

    def pipelined(self, number: int, sent: bytes, *, reads: bool = True) -> None:
        """Sessions that send as fast as their sockets take it."""
        kept = [self.connect() for _ in range(number)]
        sockets = [socket.socket(fileno=os.dup(one.fileno())) for one in kept]
        for one in sockets:
            one.setblocking(False)
        left = dict.fromkeys(sockets, b"")
        ends = time.monotonic() + self.seconds
        while time.monotonic() < ends:
            readable, writable, _ = select.select(sockets if reads else (), sockets, (), 0.05)
            for one in readable:
                with suppress(OSError):
                    one.recv(1 << 20)
            for one in writable:
                with suppress(OSError):
                    left[one] = left[one] or sent
                    left[one] = left[one][one.send(left[one][:65536]) :]
            if not writable:
                time.sleep(0.01)

    def guessed(
        self, number: int, addresses: int, guess: Callable[[Target, tuple[str, int], int], None]
    ) -> None:
        """Guessers without a login, who come from so many addresses in turn."""
        ends, tries = time.monotonic() + self.seconds, count()

        def one() -> None:
            while time.monotonic() < ends:
                n = next(tries)
                with suppress(OSError, http.client.HTTPException):
                    guess(self, (f"127.0.{1 + n % addresses // 250}.{1 + n % 250 % addresses}", 0), n)

        _all([one] * number)

    def sessions(self, number: int, *statements: str) -> None:
        """Sessions of one login that send statements and read nothing, again and again."""
        ends = time.monotonic() + self.seconds

        def one() -> None:
            while time.monotonic() < ends:
                with (
                    suppress(psycopg.Error),
                    self.connect() as connection,
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
                    connection = self.connect()
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


def as_owner(target: Target, source: tuple[str, int], n: int) -> None:
    """A guess at the owner's password at the port of analysts."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection(("127.0.0.1", target.port), 10, source) as plain:
        plain.sendall(struct.pack(">ii", 8, m.SSL_REQUEST))
        plain.recv(1)
        with context.wrap_socket(plain) as secured:
            secured.sendall(startup_packet({"user": "owner", "database": "dpproxy"}))
            secured.recv(1000)
            secured.sendall(m.message("p", f"guess {n}".encode() + bytes(1)))
            secured.recv(1000)


def as_analyst(target: Target, source: tuple[str, int], n: int) -> None:
    """A guess at the password of one of fifty analysts."""
    scram = ClientScram(f"guess {n}")
    with socket.create_connection(("127.0.0.1", target.port), 10, source) as plain:
        plain.sendall(startup_packet({"user": f"analyst {n % 50}", "database": "any"}))
        plain.recv(1000)
        first = scram.first()
        plain.sendall(m.message("p", b"SCRAM-SHA-256" + bytes(1) + struct.pack(">i", len(first)) + first))
        answered = plain.recv(1000)
        plain.sendall(m.message("p", scram.final(answered[9:])))
        plain.recv(1000)


def at_console(target: Target, source: tuple[str, int], n: int) -> None:
    """A guess at the owner's password at the console."""
    _log_in_at_console(target.http, f"guess {n}", source)


def _log_in_at_console(port: int, password: str, source: tuple[str, int] | None = None) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE, source_address=source)
    try:
        connection.request("GET", "/login")
        page = connection.getresponse()
        token = re.search(r'name="token" value="([^"]+)"', page.read().decode())
        head = {
            "Content-Type": "application/x-www-form-urlencoded",
            "Cookie": (page.getheader("set-cookie") or "").split(";")[0],
            "Origin": f"http://127.0.0.1:{port}",
        }
        sent = {"token": token[1] if token else "", "user": "owner", "password": password}
        connection.request("POST", "/login", urlencode(sent), head)
        answered = connection.getresponse()
        answered.read()
        return answered.status
    finally:
        connection.close()


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

PARSE = m.parse("", "SELECT 1", ())
PIPELINED = {
    "Parse": PARSE * 1000 + m.message("S"),
    "Bind and Execute": PARSE + (m.message("B", bytes(8)) + m.execute("")) * 500 + m.message("S"),
    "Sync": m.message("S") * 2000,
    "semicolons": m.message("Q", b";" * 60_000 + bytes(1)),
    "private Parse": m.parse("", "SELECT count(*) FROM people WHERE id = $1", ()) * 200 + m.message("S"),
}
ROWS = m.message("Q", b"SELECT repeat('x', 1000) FROM generate_series(1, 1000000)" + bytes(1))
DOORS = {"the owner's, at psql": as_owner, "analysts'": as_analyst, "the console's": at_console}

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
    **{
        f"{number} pipelining: {kind}": partial(Target.pipelined, number=number, sent=sent)
        for kind, sent in PIPELINED.items()
        for number in (1, 8, 40)
    },
    "8 reading rows as fast as they come": partial(Target.pipelined, number=8, sent=ROWS),
    "40 not reading what they asked for": partial(Target.pipelined, number=40, sent=ROWS, reads=False),
    **{
        f"{number} guessing at {door} door, {addresses} addresses": partial(
            Target.guessed, number=number, addresses=addresses, guess=guess
        )
        for door, guess in DOORS.items()
        for number in (16, 64)
        for addresses in (1, 5000)
    },
}


TIMED = ("SELECT 1", "private", "login", "console")
"""What the table has in ms: p50 before, p50 / p99 beside the attack, p50 after it."""
ROOT = Path(__file__).parent.parent.parent


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
    """An analyst, an owner and a health check beside an attack, for some seconds."""

    def __init__(self, proxy: Proxy, http_port: int) -> None:
        self._proxy, self._http = proxy, http_port
        self._kept: dict[str, psycopg.Connection[Any]] = {}

    def _session(self, name: str) -> psycopg.Connection[Any]:
        kept = self._kept.get(name)
        if kept is None or kept.closed:
            kept = psycopg.connect(
                host="127.0.0.1",
                port=self._proxy.port,
                user="alice",
                password=PASSWORD,
                dbname="any",
                autocommit=True,
                sslmode="disable",
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

    def _log_in_at_console(self) -> None:
        if _log_in_at_console(self._http, PASSWORD) != 303:
            raise http.client.HTTPException

    def begin(self) -> None:
        """Opens the sessions that it keeps."""
        self._ask("plain", "SELECT 1")
        self._ask("private", f"SELECT count(*) FROM people WHERE id > {next(FRESH)}")

    def close(self) -> None:
        """Ends its sessions."""
        for session in self._kept.values():
            session.close()

    def watch(self, seconds: float) -> dict[str, Seen]:
        """What it saw within so many seconds, by what it did."""
        ends = time.monotonic() + seconds
        private = "SELECT count(*) FROM people WHERE id > {}"
        works: dict[str, tuple[Callable[[], None], float]] = {
            "SELECT 1": (lambda: self._ask("plain", "SELECT 1"), 0.02),
            "private": (lambda: self._ask("private", private.format(next(FRESH))), 0.3),
            "login": (self._log_in, 0.5),
            "console": (self._log_in_at_console, 0.5),
            "health": (self._look, 0.5),
        }
        seen = {name: Seen() for name in works}
        _all([partial(_repeated, work, seen[name], pause, ends) for name, (work, pause) in works.items()])
        return seen


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
    attacker = subprocess.Popen(command, cwd=ROOT)
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
    policy = POLICY.format(http=http_port)
    (folder / "dpproxy.toml").write_text(policy)
    for command in (("user", "add", "alice"), ("user", "add", "mallory"), ("console", "password")):
        called = [sys.executable, "-m", "dpproxy", *command, "--password-stdin"]
        place = {**os.environ, "PYTHONPATH": str(ROOT)}
        subprocess.run(
            called, cwd=folder, env=place, input=PASSWORD.encode(), check=True, capture_output=True
        )
    with serving(folder, policy) as proxy:
        bystander = Bystander(proxy, http_port)
        bystander.begin()
        before = bystander.watch(BEFORE)
        with attacked(name, proxy.port, http_port):
            during = bystander.watch(DURING)
        time.sleep(2)
        after = bystander.watch(AFTER)
        with attacked(name, proxy.port, http_port):
            ended = _ended(proxy.pid)
        bystander.close()
    timed = [
        f"{before[what].at(0.5)} -> {during[what].at(0.5)} / {during[what].at(0.99)} -> {after[what].at(0.5)}"
        for what in TIMED
    ]
    failed = [", ".join(seen[what].failures for what in (*TIMED, "health")) for seen in (during, after)]
    return (name, *timed, *failed, ended)


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
        with suppress(psycopg.Error):  # the proxy goes before the attack does
            ATTACKS[name](Target(int(port), int(http_port)))
        return
    table = Table("attack", *(f"{what}, ms" for what in TIMED))
    for head in ("failed beside it", "and after it", "ends after SIGTERM"):
        table.add_column(head)
    for name in sys.argv[1:] or ATTACKS:
        with tempfile.TemporaryDirectory() as folder:
            row = measured(name, Path(folder))
            table.add_row(*row)
            print(" | ".join(row), flush=True)
    Console(width=200).print(table)


if __name__ == "__main__":
    main()
