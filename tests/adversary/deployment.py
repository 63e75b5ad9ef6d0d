"""One product over each of two databases that differ in one privacy unit, which an adversary asks through SQL.

Both are whole services with sessions, ledger, front and published answers, of one policy and one key. They share a
clock.
"""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import duckdb
import psycopg

from dpproxy.backends.duckdb.instance import LINGER_SECONDS
from dpproxy.config.key_file import save_keys
from dpproxy.deployment import service as deployed
from dpproxy.deployment.service import Service, configured
from dpproxy.engine.published_tables import Publishing
from dpproxy.server.listener import Server as Listener
from tests.adversary.book import Book, Guarded
from tests.oracle.world import Server
from tests.replay.recorder import Recorder
from tests.replay.world import KEYS

WITHOUT, WITH = SIDES = ("without", "with")
TEAMS = {"ann": "red", "bob": "red", "eve": "blue"}
SERVICE = "bi"
"""A login that may act for every analyst."""
PUBLISHERS = ("ann", "eve")
EPSILON_PER = 3
POLICY = """
[backend]
url = "duckdb:///data.duckdb"
memory = "200MB"
[ledger]
url = "{ledger}"
[front]
url = "{front}"
[server]
auth = "trust"
port = 0
[privacy]
epsilon_per = 3
delta_per = 1e-9
epoch = "day"
quantile_bins = 64
most_units_per_answer = 16
[identity.services.bi]
analysts = ["ann", "bob", "eve"]
[budget]
information = 100000
calls = 100000
period = "none"
[budget.dataset]
[budget.teams.red]
members = ["ann", "bob"]
[budget.teams.blue]
members = ["eve"]
[budget.analysts.ann]
publish = true
[budget.analysts.eve]
publish = true
[tables.orders]
privacy_unit = "person_id"
max_rows_per_unit = 4
[tables.orders.columns]
shop = {{ domain = {shops} }}
town = {{}}
pieces = {{ bounds = [0, {pieces}] }}
amount = {{ bounds = [0, {amount}], scale = 0 }}
[tables.visits]
privacy_unit = "person_id"
horizon = {{ day = ["2024-01-01", "2024-12-31"], events_per_unit = {events} }}
"""
POLICIES = (
    {"shops": '["north", "south", "west"]', "pieces": "9", "amount": "1000000000", "events": "4"},
    {"shops": '["north", "south", "west"]', "pieces": "5", "amount": "1000000000", "events": "4"},
    {"shops": '["north", "south"]', "pieces": "9", "amount": "400000000", "events": "8"},
)
"""What a reload changes: domains, bounds, and what a unit adds to a stream."""
STILL_RUNNING, BOUGHT = "still running after", re.compile(r"bought [\d-]+ [\d:]+ UTC")
"""A notice that time alone decides, and what a notice says of the ledger's own clock."""
BEGIN = datetime(2024, 3, 1, 12, tzinfo=UTC)
CROWD = 60
ORDERS = "person_id INTEGER NOT NULL, shop VARCHAR, town VARCHAR, pieces INTEGER, amount BIGINT"
ROWS = f"""
CREATE TABLE orders ({ORDERS});
CREATE TABLE visits (person_id INTEGER NOT NULL, room VARCHAR NOT NULL, day DATE NOT NULL);
INSERT INTO orders SELECT i, ['north', 'south'][1 + i % 2], 'town ' || i % 3, i % 10, i * 9000000
    FROM range(1, {CROWD + 1}) r(i);
INSERT INTO visits SELECT i, 'room ' || i % 2, DATE '2024-02-20' + CAST(i % 4 AS INTEGER)
    FROM range(1, {CROWD + 1}) r(i);
"""
PERSON = """
INSERT INTO orders SELECT 0, ['north', 'west'][1 + i % 2], 'town ' || i % 5, 100 * i, 5000000000 FROM range(12) r(i);
INSERT INTO visits SELECT 0, 'room ' || i % 3, DATE '2024-02-20' + CAST(i % 4 AS INTEGER) FROM range(9) r(i);
"""
"""One unit beyond every bound."""
MORE = """
INSERT INTO orders SELECT {n} + i, ['south', 'west'][1 + i % 2], 'town ' || i % 4, i % 10, i * 7000000
    FROM range(1, 11) r(i);
INSERT INTO visits SELECT {n} + i, 'room ' || i % 3, DATE '{day}' FROM range(1, 11) r(i);
"""
MORE_OF_PERSON = """
INSERT INTO orders VALUES (0, 'south', 'town 1', 7, 900000000);
INSERT INTO visits VALUES (0, 'room 1', DATE '{day}');
"""
"""What the owner adds: days that are over stay as they are."""


@dataclass
class Clock:
    """The time of both sides."""

    now: datetime = BEGIN

    @contextmanager
    def active(self) -> Iterator[None]:
        """The product tells the time by this clock where it decides about epochs and refreshes."""
        told = SimpleNamespace(now=lambda zone: self.now)
        with ExitStack() as stack:
            for module in ("engine.epochs", "engine.published_tables", "deployment.service"):
                stack.enter_context(patch(f"dpproxy.{module}.datetime", told))
            yield


@dataclass
class Said:
    """What a client got of a statement: rows as text, notices, and an error's code and message."""

    rows: list[tuple[str | None, ...]] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    error: str = ""

    @property
    def failed(self) -> bool:
        """Whether it failed at the backend, or its rows were too many."""
        return "PV090" in self.error


class Side:
    """The product over one of the databases, and its sessions."""

    def __init__(self, name: str, folder: Path, service: Service, book: Book, policy: dict[str, str]) -> None:
        self.name, self.service, self.book = name, service, book
        self._folder, self._urls = folder, policy
        self._sessions: dict[int, psycopg.Connection[Any]] = {}
        self._loop, self._server = asyncio.new_event_loop(), service.server()
        self._ready: Future[int] = Future()
        self._thread = threading.Thread(target=self._serve, args=(self._server,))
        self._thread.start()
        self._port = self._ready.result(20)

    def _serve(self, server: Listener) -> None:
        asyncio.set_event_loop(self._loop)
        self._ready.set_result(self._loop.run_until_complete(server.start())[1])
        self._loop.run_forever()
        self._loop.run_until_complete(server.drain(1))
        self._loop.run_until_complete(asyncio.sleep(0.05))
        self._loop.close()

    def close(self) -> None:
        """Ends the sessions and the listener."""
        for number in [*self._sessions]:
            self.leave(number)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def enter(self, number: int, login: str) -> None:
        """Session `number` of a login."""
        self._sessions[number] = psycopg.connect(
            host="127.0.0.1",
            port=self._port,
            user=login,
            dbname="dpproxy",
            autocommit=True,
            prepare_threshold=None,
        )

    def leave(self, number: int) -> None:
        """Ends a session."""
        self._sessions.pop(number).close()

    def ask(self, number: int, payer: str, statements: Sequence[str]) -> Said:
        """Statements of a session whose role is `payer`; the rows of the last one."""
        said, session = Said(), self._sessions[number]
        self.book.begin(payer)

        def noticed(notice: psycopg.errors.Diagnostic) -> None:
            message = notice.message_primary or ""
            if STILL_RUNNING not in message:
                said.notices.append(BOUGHT.sub("bought", message))

        session.add_notice_handler(noticed)
        try:
            for statement in statements:
                cursor = session.execute(statement.encode())
                said.rows = (
                    [tuple(None if v is None else str(v) for v in row) for row in cursor.fetchall()]
                    if cursor.description
                    else []
                )
        except psycopg.Error as error:
            said.error, said.rows = f"{error.sqlstate} {error.diag.message_primary}", []
        finally:
            session.remove_notice_handler(noticed)
            if session.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
                session.execute(b"ROLLBACK")
        return said

    def reload(self, number: int) -> None:
        """The owner changes the policy in place."""
        write(self._folder, self._urls, number)
        self.service.reload(configured(self._folder / "dpproxy.toml"))
        done: Future[None] = Future()

        def carry_on() -> None:
            self.service.carry_on(self._server)
            done.set_result(None)

        self._loop.call_soon_threadsafe(carry_on)
        done.result(20)

    def load(self, statements: str) -> None:
        """The owner adds rows."""
        deadline = time.monotonic() + 5
        while True:
            time.sleep(LINGER_SECONDS * 2)
            try:
                with duckdb.connect(self._folder / "data.duckdb") as connection:
                    connection.execute(statements)
                return
            except duckdb.Error:
                if time.monotonic() > deadline:
                    raise

    def refresh(self, now: datetime) -> Said:
        """Published answers that are due are bought again, each by its publisher: what everybody reads of failures."""
        self.service.publishing.refresh_due(now)
        found = self.service.ledger.publications.all()
        return Said(error=", ".join(f"{one.name}: {one.failure}" for one in found if one.failure))

    def used(self, account: str) -> int:
        """What an account has been charged, in micro-units of information."""
        return self.service.ledger.accounts.get(account).used.information


def write(folder: Path, urls: dict[str, str], number: int) -> None:
    """Writes policy `number`."""
    (folder / "dpproxy.toml").write_text(POLICY.format(**urls, **POLICIES[number]))


@dataclass
class Pair:
    """Both sides, the one that is recorded first, and how long they have lived."""

    sides: dict[str, Side]
    clock: Clock
    recorder: Recorder
    days: int = 0
    loads: int = 0

    def tomorrow(self) -> None:
        """The epoch ends."""
        self.days += 1
        self.clock.now = BEGIN + timedelta(days=self.days)

    def load(self) -> None:
        """The owner adds rows of today: of new units, and of the one that only one side has."""
        self.loads += 1
        day = self.clock.now.date()
        for side in self.sides.values():
            extra = MORE_OF_PERSON if side.name == WITH else ""
            side.load((MORE + extra).format(n=1000 * self.loads, day=day))


@contextmanager
def pair(server: Server, folder: Path, order: Sequence[str] = SIDES) -> Iterator[Pair]:
    """A fresh deployment of both sides, of which the first is recorded; the recorder is active."""
    clock, recorder = Clock(), Recorder()
    with ExitStack() as stack:
        stack.enter_context(clock.active())
        stack.enter_context(recorder.active())
        sides = {}
        for name in order:
            here = folder / name
            save_keys(here / ".dpproxy" / "key", KEYS)
            with duckdb.connect(here / "data.duckdb") as connection:
                connection.execute(ROWS + (PERSON if name == WITH else ""))
            urls = {
                part: server.embedded.conninfo(dbname=stack.enter_context(server.database()))
                for part in ("ledger", "front")
            }
            write(here, urls, 0)
            book = Book(recorder, {n: (f"analyst:{n}", f"team:{t}", "dataset") for n, t in TEAMS.items()})
            made = type("Ledger", (Guarded,), {"book": book})
            with patch.object(deployed, "RollbackGuardedLedger", made):
                service = stack.enter_context(Service.start(configured(here / "dpproxy.toml"), alone=True))
            sides[name] = Side(name, here, service, book, urls)
            stack.callback(sides[name].close)
        stack.enter_context(_refreshed_by_publishers({id(s.service.ledger): s.book for s in sides.values()}))
        yield Pair(sides, clock, recorder)


@contextmanager
def _refreshed_by_publishers(books: dict[int, Book]) -> Iterator[None]:
    """A refresh is what its publisher asks."""
    original = Publishing._refresh

    def refresh(self: Publishing, published: Any, now: datetime, *, due: bool) -> bool:
        books[id(self._ledger)].reader = published.publisher
        return original(self, published, now, due=due)

    with patch.object(Publishing, "_refresh", refresh):
        yield
