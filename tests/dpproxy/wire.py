"""What the tests of the wire share: a front with a guarded table, a server in a thread, raw connections.

The answering here is deterministic and takes no budget, so that the tests see every step that is taken.
"""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
import struct
import threading
import time
from collections.abc import Hashable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import psycopg
import uvloop

from dpproxy.backends.base import BackendColumn, BackendSchema, BackendTable, Cancellation
from dpproxy.engine.request import QueryRequest
from dpproxy.front.front import Front
from dpproxy.pgwire import messages as m
from dpproxy.pgwire.auth import ClientScram, ScramVerifier
from dpproxy.pgwire.startup import startup_packet
from dpproxy.server.impersonation import Identity
from dpproxy.server.listener import Rooms, Server, ServerSettings
from dpproxy.server.login_methods import LoginMethods
from dpproxy.server.session import Session
from rewriter.policy import Column, Policy, Table
from rewriter.refusal import Refusal

COUNTRIES = ("US", "DE", "FR", "IN", None)
BY_COUNTRY = "SELECT country, count(*) AS n FROM people GROUP BY country ORDER BY n DESC"
OLDER = "SELECT country, count(*) AS n FROM people WHERE age > $1 GROUP BY country ORDER BY n DESC"
BY_AGE = "SELECT age, count(*) AS n FROM people GROUP BY age ORDER BY age"
FAILING = "SELECT country, count(*) / (count(*) - count(*)) AS n FROM people GROUP BY country"
SLOW = "SELECT country, count(*) AS slow FROM people GROUP BY country"
NOTED = "SELECT country, count(*) AS noted FROM people GROUP BY country"
EXHAUSTED = "SELECT country, count(*) AS dear FROM people GROUP BY country"
BROKEN = "SELECT country, count(*) AS broken FROM people GROUP BY country"
CHANGING = "SELECT country, count(*) AS changing FROM people GROUP BY country"
ROWS = "SELECT * FROM people"
ENDLESS = "SELECT count(*) FROM generate_series(1, 1000000) a, generate_series(1, 1000000) b"
AGES = 2000
EXPECTED = [("US", 500), ("DE", 400), ("FR", 300), ("IN", 200), (None, 100)]

ARTICLES = 5000
# Counts a session's rows by a setting that no step gets, and sets its units to 2 at the 15th.
_ROWS = "current_setting('extra_float_digits')::int"
_CHANGE = f"""length(
    set_config('extra_float_digits', least({_ROWS} + 1, 3)::text, false)
    || set_config('dpproxy.units', CASE WHEN {_ROWS} < 0 THEN '1' ELSE '2' END, false)
)"""


def start_front(folder: Path) -> Front:
    """A front with the tables `people` (private) and `articles` (public), and `scratch` to copy into."""
    people = (BackendColumn("id", "bigint", "", False), *_columns(country="text", age="integer"))
    articles = (BackendColumn("id", "integer", "", False), *_columns(title="text"))
    schema = BackendSchema(
        {
            ("public", "people"): BackendTable("public", "people", ("people",), people, ("id",)),
            ("public", "articles"): BackendTable("public", "articles", ("articles",), articles, ("id",)),
        }
    )
    public = Table("public", "articles", _shown(articles), True, ("articles",), in_front=True)
    private = Table("public", "people", _shown(people), False, ("people",), privacy_unit="id")
    front = Front.start(folder)
    try:
        front.clone(Policy({("public", "people"): private, ("public", "articles"): public}), schema)
        front.load_public(public, ((str(i), f"title {i}") for i in range(1, ARTICLES + 1)))
        with admin(front) as connection:
            connection.execute("CREATE TABLE scratch (a int); GRANT SELECT, INSERT ON scratch TO PUBLIC")
    except BaseException:
        front.close()
        raise
    return front


def _columns(**types: str) -> tuple[BackendColumn, ...]:
    return tuple(BackendColumn(name, kind, "") for name, kind in types.items())


def _shown(columns: Sequence[BackendColumn]) -> tuple[Column, ...]:
    return tuple(Column(column.name, column.type or "", column.nullable) for column in columns)


def admin(front: Front) -> psycopg.Connection[tuple[Any, ...]]:
    """A superuser's connection to the front."""
    return psycopg.connect(front._conninfo, autocommit=True)


@dataclass(frozen=True)
class Planned:
    """A presentation and its arrays' types."""

    presentation: str
    array_oids: tuple[int, ...]


@dataclass(frozen=True)
class Released:
    """Arrays and notices of a step."""

    arrays: tuple[bytes, ...]
    notices: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass
class Scripted:
    """Answers a few statements on `people`, always alike, and keeps what it was asked."""

    steps: list[tuple[str, tuple[str | None, ...], Mapping[str, str]]] = field(default_factory=list)
    prepared: int = 0
    askers: list[QueryRequest] = field(default_factory=list)
    outcomes: list[str] = field(default_factory=list)
    answered: dict[Hashable, Released] = field(default_factory=dict)
    repeated: int = 0
    begun: threading.Event = field(default_factory=threading.Event)
    go_on: threading.Event = field(default_factory=threading.Event)

    def classify(self, text: str) -> str:
        """Private is what reads `people`."""
        if re.match(r"\s*(drop|delete)\b", text, re.I):
            raise Refusal("25006", "the proxy is read-only", hint="ask with SELECT", position=1)
        if len(text) > 16384:
            raise Refusal("54000", "statement is too long")
        return "private" if re.search(r"\bfrom\s+people\b", text, re.I) else "relay"

    def prepare(self, text: str, oids: tuple[int, ...], errors: bool = False) -> Planned:
        """The statement with `people` replaced by the arrays."""
        self.prepared += 1
        k = len(oids)
        if text.strip() == ROWS:
            raise Refusal("PV010", "row-level output", detail="rule 43", hint="aggregate it", position=8)
        if text.startswith("SELECT age"):
            source = f"ROWS FROM (unnest(${k + 1}::int8[]), unnest(${k + 2}::int8[])) AS u(age, n)"
            return Planned(f"SELECT age::int, n FROM {source} ORDER BY age", (m.INT8_ARRAY,) * 2)
        source = f"ROWS FROM (unnest(${k + 1}), unnest(${k + 2})) AS u(country, n)"
        value = "n / (n - n)" if " / " in text else f"n + 0 * {_CHANGE}" if text == CHANGING else "n"
        name = re.findall(r" AS (\w+)", text)[0]
        limit = "".join(re.findall(r" LIMIT \S+", text))
        unused = f" WHERE ${k} IS NOT NULL" if k else ""
        text = f"SELECT country, {value} AS {name} FROM {source}{unused} ORDER BY n DESC{limit}"
        return Planned(text, (m.TEXT_ARRAY, m.INT8_ARRAY))

    def known(self, text: str, oids: tuple[int, ...], errors: bool = False) -> Planned | None:
        """Nothing is cached here."""
        return None

    def execute(self, asker: QueryRequest) -> Released:
        """The answer, which `again` repeats."""
        self.answered[_asked(asker)] = released = self._execute(asker)
        return released

    def again(self, asker: QueryRequest) -> Released | None:
        """What `execute` gave before; a step like any other."""
        if _asked(asker) not in self.answered:
            return None
        self.repeated += 1
        return self._execute(asker)

    def _execute(self, asker: QueryRequest) -> Released:
        """Five countries, or AGES ages; a first parameter is added to the counts."""
        text, parameters = asker.text, asker.parameters
        self.steps.append((text, parameters, asker.settings))
        self.askers.append(asker)
        if text == EXHAUSTED:
            raise Refusal("PV001", "privacy budget exhausted", hint="wait")
        if text == BROKEN:
            asker.stages.enter("fetch")
            raise ZeroDivisionError("a secret: 42")
        if text == SLOW:
            self._wait(asker.cancellation)
        if text.startswith("SELECT age"):
            return Released((int8_array(range(AGES)), int8_array([7] * AGES)))
        more = int(parameters[0] or 0) if "age > $1" in text else 0
        counts = [count + more for _, count in EXPECTED]
        rows = (m.text_array(COUNTRIES), int8_array(counts))
        return Released(rows, ("noise of 3", "in full"), ("in vain",)) if text == NOTED else Released(rows)

    def _wait(self, cancellation: Cancellation) -> None:
        self.begun.set()
        woken = threading.Event()
        withdraw = cancellation.on_cancel(woken.set)
        deadline = time.monotonic() + 10
        while not (woken.wait(0.005) or self.go_on.is_set()) and time.monotonic() < deadline:
            pass
        withdraw()
        self.outcomes.append("cancelled" if cancellation.cancelled else "done")
        if cancellation.cancelled:
            raise Refusal("57014", "canceling statement due to user request")


def _asked(asker: QueryRequest) -> Hashable:
    return asker.analyst, asker.text, asker.oids, asker.parameters, tuple(asker.settings.items())


def int8_array(values: Sequence[int]) -> bytes:
    """An int8[] in binary."""
    head = struct.pack(">iiIii", 1, 0, 20, len(values), 1)
    return head + m.encoded([struct.pack(">q", value) for value in values])


VERIFIERS = {"ann": str(ScramVerifier.make("pencil", b"salt" * 4))}


SERVICES = {"bi": ("ann", "bob", "on_demand_*")}


class Served:
    """A server on a port of its own, in a thread with its own event loop."""

    def __init__(self, front: Front, *, methods: LoginMethods | None = None, **settings: Any) -> None:
        self.answering = Scripted()
        rooms = Rooms(
            answering=self.answering,
            front=front.address,
            database=front.database,
            role_for=front.role_for,
            verifier=VERIFIERS.get,
            fake_salt_key=bytes(32),
            identity=Identity(SERVICES, front.let_take),
            methods=methods or LoginMethods(),
        )
        self.settings = replace(ServerSettings(port=0, auth="trust"), **settings)
        self.port = 0
        self.server = Server(self.settings, rooms)
        self.loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._run)
        self._ready: Future[int] = Future()
        self._thread.start()
        self.port = self._ready.result(10)

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        _, port = self.loop.run_until_complete(self.server.start())
        self._ready.set_result(port)
        self.loop.run_forever()
        self.loop.run_until_complete(asyncio.sleep(0.05))
        self.loop.close()

    def drain(self, seconds: float = 5) -> Future[None]:
        """Begins the drain."""
        return asyncio.run_coroutine_threadsafe(self.server.drain(seconds), self.loop)

    def stop(self) -> None:
        """Drains and ends the thread."""
        self.answering.go_on.set()
        self.drain(0.2).result(20)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()

    def conninfo(self, **more: Any) -> str:
        """For libpq."""
        values = {"host": "127.0.0.1", "port": self.port, "user": "ann", "dbname": "shop", **more}
        return " ".join(f"{key}='{value}'" for key, value in values.items())

    def connect(self, **more: Any) -> psycopg.Connection[tuple[Any, ...]]:
        """A psycopg connection."""
        options = {key: more.pop(key) for key in ("autocommit",) if key in more}
        return psycopg.connect(self.conninfo(**more), **options)

    def raw(self, **more: str) -> Raw:
        """A raw connection, logged in by trust."""
        raw = Raw.open(self.port)
        raw.send(startup_packet({"user": "ann", "database": "shop", **more}))
        raw.until("Z")
        return raw

    @property
    def sessions(self) -> int:
        """Live sessions."""
        return len(self.server._sessions)

    def session(self) -> Session:
        """The only session."""
        eventually(lambda: self.sessions == 1)
        return next(iter(self.server._sessions.values()))


@contextmanager
def served(front: Front, **settings: Any) -> Iterator[Served]:
    """A server for the length of a test."""
    server = Served(front, **settings)
    try:
        yield server
    finally:
        server.stop()


@dataclass
class Raw:
    """A connection that speaks messages."""

    socket: socket.socket
    buffer: bytes = b""
    key: bytes = b""

    @classmethod
    def open(cls, port: int) -> Self:
        """Connects, says nothing."""
        return cls(socket.create_connection(("127.0.0.1", port), timeout=10))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Hangs up."""
        self.socket.close()

    def secure(self) -> None:
        """SSLRequest and handshake."""
        self.send(struct.pack(">ii", 8, m.SSL_REQUEST))
        assert self.socket.recv(1) == b"S"
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        self.socket = context.wrap_socket(self.socket)

    def send(self, *parts: bytes) -> None:
        """Sends in one piece."""
        self.socket.sendall(b"".join(parts))

    def receive(self) -> tuple[str, bytes] | None:
        """The next message as (kind, whole message), or None at the end."""
        while len(self.buffer) < 5 or len(self.buffer) < 1 + int.from_bytes(self.buffer[1:5], "big"):
            try:
                more = self.socket.recv(65536)
            except ConnectionResetError:
                return None
            if not more:
                return None
            self.buffer += more
        size = 1 + int.from_bytes(self.buffer[1:5], "big")
        raw, self.buffer = self.buffer[:size], self.buffer[size:]
        return chr(raw[0]), raw

    def until(self, kind: str) -> list[tuple[str, bytes]]:
        """Every message up to the first of `kind`, or to the end."""
        seen: list[tuple[str, bytes]] = []
        while (one := self.receive()) is not None:
            seen.append(one)
            if one[0] == "K":
                self.key = one[1][5:]
            if one[0] == kind:
                break
        return seen

    def query(self, text: str) -> list[tuple[str, bytes]]:
        """A simple query and its responses."""
        self.send(query(text))
        return self.until("Z")

    def kinds(self, kind: str = "Z") -> str:
        """The kinds of the messages up to the first of `kind`."""
        return "".join(one for one, _ in self.until(kind))

    def is_silent(self, seconds: float = 0.1) -> bool:
        """Whether nothing comes for a while."""
        if self.buffer:
            return False
        self.socket.settimeout(seconds)
        try:
            self.buffer += self.socket.recv(65536)
            return False
        except TimeoutError:
            return True
        finally:
            self.socket.settimeout(10)

    def scram(self, password: str) -> list[tuple[str, bytes]]:
        """Answers a SCRAM request; every message up to ReadyForQuery or the end."""
        scram = ClientScram(password)
        first = scram.first()
        asked = self.receive()
        assert asked is not None
        if asked[0] == "E":
            return [asked]
        self.send(m.message("p", m.cstring("SCRAM-SHA-256") + struct.pack(">i", len(first)) + first))
        server_first = self.receive()
        assert server_first is not None
        self.send(m.message("p", scram.final(server_first[1][9:])))
        return self.until("Z")


def query(text: str) -> bytes:
    """A simple query."""
    return m.message("Q", m.cstring(text))


SYNC, FLUSH = m.message("S"), m.message("H")


def bound(
    portal: str, statement: str, values: Sequence[bytes | None] = (), formats: tuple[int, ...] = ()
) -> bytes:
    """A Bind with text results."""
    return m.bind(portal, statement, m.Values(formats, len(values), m.encoded(list(values))))


def shape(seen: Sequence[tuple[str, bytes]]) -> str:
    """The kinds of messages, rows in a row as one."""
    return re.sub("D+", "D", "".join(kind for kind, _ in seen))


def rows(seen: Sequence[tuple[str, bytes]]) -> list[tuple[str | None, ...]]:
    """The rows among messages, as text."""
    found: list[tuple[str | None, ...]] = []
    for kind, raw in seen:
        if kind == "D":
            position, values = 7, []
            for _ in range(int.from_bytes(raw[5:7], "big")):
                (length,) = struct.unpack_from(">i", raw, position)
                position += 4
                values.append(None if length < 0 else raw[position : position + length].decode())
                position += max(length, 0)
            found.append(tuple(values))
    return found


def errors(seen: Sequence[tuple[str, bytes]]) -> list[dict[str, str]]:
    """The errors among messages."""
    return [m.split_fields(raw) for kind, raw in seen if kind == "E"]


def eventually(condition: Any, seconds: float = 30.0) -> None:
    """Waits until a condition holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.005)
