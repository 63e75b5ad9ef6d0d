"""The simulated ledger's server, and connections to it that look like psycopg's.

A transaction takes place at once, between two awaits of its client. So do the two of a round trip that seals one that
does not wait for the disk, but for one await between them, at which the server may crash and forget the first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, Self
from uuid import UUID, uuid4

import psycopg
from psycopg import errors, pq

from budget import (
    generations,
    memberships,
    origins,
    statements,
    statements_accounts,
    statements_streams,
    store,
)
from budget.store import Row
from tests.simulator.statements import KNOWN, spelled
from tests.simulator.tables import State, Transaction

SCHEME = "simulated:"
Batch = Sequence[tuple[str, Any]]
_KEY = re.compile(r"decode\('([0-9a-f]*)', 'hex'\)")
_LOCK = "INSERT INTO dpproxy_ledger.computing (key) VALUES "
_PIN = "INSERT INTO dpproxy_ledger.pinned (name, value) VALUES (%s, %s) ON CONFLICT (name) DO NOTHING"
_NAMES = {
    spelled(text): name.strip("_")
    for module in (statements, statements_streams, statements_accounts, origins, generations, memberships)
    for name, text in vars(module).items()
    if isinstance(text, str) and spelled(text) in KNOWN
}


class Surroundings:
    """What a server and its clients stand in. This one is the real world, in which nothing goes wrong."""

    def now(self) -> datetime:
        """The server's clock."""
        return datetime.now(UTC)

    def uuid(self) -> UUID:
        """A uuid that nobody has had."""
        return uuid4()

    def pause(self, point: str) -> None:
        """An await of a client: others may run, and its process may die here."""

    def pause_server(self, point: str) -> None:
        """An await of the server: others may run, and the server may die here; the client's death changes nothing."""

    def wait(self, until: Callable[[], bool], seconds: float) -> bool:
        """Waits; whether it came to that."""
        return until()

    def cut(self, point: str) -> bool:
        """Whether the network is cut here."""
        return False

    def races(self) -> bool:
        """Whether a statement's snapshot was too early for what was committed since it was sent."""
        return False

    def owner(self) -> object:
        """Who connects: with its death its connections end."""
        return None

    def committed(self, state: State, transaction: Transaction) -> None:
        """A transaction was committed."""


class Server:
    """A server with one ledger."""

    def __init__(self, around: Surroundings) -> None:
        self.around = around
        self.state, self.disk = State(), State()
        self.life, self.position, self.durable = 0, 0, 0
        self.commits: dict[UUID, int] = {}
        """Where the log has the commit of each reservation."""
        self.places: dict[int, int] = {}
        """The same of each entry, by its number."""
        self.computing: dict[bytes, Connection] = {}
        self.let_go: set[bytes] = set()
        """Keys of single flight that were lost with the server while somebody held them."""
        self._log: list[Transaction] = []
        for states in (self.state, self.disk):
            states.tables["pinned"]["ledger"] = {"name": "ledger", "value": "simulated"}

    def connect(self) -> Connection:
        """A connection; OperationalError where the network is cut."""
        return Connection(self)

    def run(self, batch: Batch, arrived: int) -> list[list[Row]]:
        """The rows of each statement that has some; raises errors of psycopg."""
        results: list[list[Row]] = []
        current: Transaction | None = None
        for sql, values in batch:
            match sql:
                case "BEGIN":
                    current = self._begin(arrived)
                case "SET LOCAL synchronous_commit = off":
                    assert current is not None
                    current.waits = False
                case "COMMIT" | "COMMIT AND CHAIN":
                    assert current is not None
                    self._commit(current)
                    if sql == "COMMIT AND CHAIN":
                        life = self.life
                        self.around.pause_server("server: before the seal")
                        if life != self.life:
                            raise errors.AdminShutdown("the server has crashed")
                        current = self._begin(arrived)
                case _:
                    alone = current or self._begin(arrived)
                    try:
                        results.append(self._rows(alone, sql, values))
                    except errors.Error:
                        alone.undo()
                        raise
                    if current is None:
                        self._commit(alone)
        return results

    def _rows(self, transaction: Transaction, sql: str, values: Any) -> list[Row]:
        if sql == _PIN:
            name, value = values
            transaction.insert("pinned", name, {"name": name, "value": value})
            return []
        if sql not in KNOWN:
            if "pg_roles" in sql:
                return []
            raise NotImplementedError(f"the simulated ledger does not know: {sql[:200]}")
        return KNOWN[sql](transaction, values or {})

    def _begin(self, arrived: int) -> Transaction:
        around = self.around
        return Transaction(self.state, around.now(), around.uuid, self.position + 1, arrived, around.races)

    def _commit(self, transaction: Transaction) -> None:
        if not transaction.written:
            return
        self.position += 1
        for table, _, _, row in transaction.written:
            if table == "entry" and row is not None:
                self.places[row["number"]] = self.position
                if row["stage"] == 0:
                    self.commits.setdefault(row["reservation"], self.position)
        self._log.append(transaction)
        if transaction.waits:
            self.flush()
        self.around.committed(self.state, transaction)

    def flush(self) -> None:
        """Has all that was committed on disk."""
        for transaction in self._log:
            for table, key, _, row in transaction.written:
                if row is None:
                    self.disk.tables[table].pop(key, None)
                else:
                    self.disk.tables[table][key] = row
        self.disk.number = self.state.number
        self._log.clear()
        self.durable = self.position

    def crash(self) -> None:
        """Forgets what is not on disk, and ends all connections."""
        self.restore(self.disk)

    def restore(self, copy: State) -> None:
        """Has the rows of another moment from now on."""
        self.life += 1
        self.state, self.disk = copy.copy(), copy.copy()
        self._log.clear()
        self.let_go |= self.computing.keys()
        self.computing.clear()

    def disconnect(self, owner: object) -> None:
        """Ends what a process that died has connected."""
        self.computing = {key: one for key, one in self.computing.items() if one.owner is not owner}

    def snapshot(self, state: State, sql: str, values: Any) -> list[Row]:
        """The rows of a statement over a state."""
        return self._rows(Transaction(state, self.around.now(), self.around.uuid), sql, values)


class Cursor:
    """The rows of a statement."""

    def __init__(self, rows: list[Row] | None = None) -> None:
        self.rows = rows
        self.itersize = 0

    @property
    def description(self) -> object:
        """Not None where there are rows."""
        return self.rows

    def fetchall(self) -> list[Row]:
        """All rows."""
        return list(self.rows or [])

    def fetchone(self) -> Row | None:
        """The first row."""
        return next(iter(self.rows or []), None)

    def nextset(self) -> None:
        """There is one set of rows."""


class Connection:
    """A connection as `budget` uses it."""

    def __init__(self, server: Server) -> None:
        self._server, self._around = server, server.around
        self.closed, self.owner = False, server.around.owner()
        self.info = SimpleNamespace(transaction_status=pq.TransactionStatus.IDLE)
        self._pipelined: list[tuple[str, Any, Cursor]] | None = None
        self._snapshot: State | None = None
        self._around.pause("connect")
        if self._around.cut("connect"):
            raise errors.ConnectionTimeout("the network is cut")
        self._life = server.life

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends it."""
        self.closed = True
        self._let_go()

    def execute(self, query: str | bytes, values: Any = None) -> Cursor:
        """Runs a statement, or keeps it for the end of the pipeline."""
        sql = spelled(query.decode() if isinstance(query, bytes) else query)
        if _LOCK in sql:
            return self._lock(sql)
        if sql.startswith("BEGIN ISOLATION LEVEL REPEATABLE READ"):
            self._trip([], "snapshot")
            self._snapshot = self._server.state.copy()
            return Cursor()
        if self._pipelined is not None:
            self._pipelined.append((sql, values, Cursor()))
            return self._pipelined[-1][2]
        return Cursor(self._trip([(sql, values)], _name(sql))[0])

    @contextmanager
    def pipeline(self) -> Iterator[None]:
        """Sends what is executed within as one round trip."""
        self._pipelined = []
        try:
            yield
            batch = [(sql, values) for sql, values, _ in self._pipelined]
            named = [sql for sql, _ in batch if sql in KNOWN]
            self.info.transaction_status = pq.TransactionStatus.INERROR
            rows = iter(self._trip(batch, " + ".join(map(_name, named))))
            for sql, _, cursor in self._pipelined:
                cursor.rows = next(rows) if sql in KNOWN else None
            self.info.transaction_status = pq.TransactionStatus.IDLE
        finally:
            self._pipelined = None

    @contextmanager
    def cursor(self, name: str) -> Iterator[Any]:
        """A cursor over the snapshot."""
        connection = self

        class Named(Cursor):
            def execute(self, query: str | bytes, values: Any = None) -> None:
                sql = spelled(query.decode() if isinstance(query, bytes) else query)
                connection._trip([], _name(sql))
                assert connection._snapshot is not None
                self.rows = connection._server.snapshot(connection._snapshot, sql, values)

            def __iter__(self) -> Iterator[Row]:
                return iter(self.rows or [])

        yield Named()

    def rollback(self) -> None:
        """Ends a transaction, and lets go what it holds."""
        self._snapshot = None
        self._trip([], "rollback")
        self._let_go()
        self.info.transaction_status = pq.TransactionStatus.IDLE

    def _trip(self, batch: Batch, name: str) -> list[list[Row]]:
        around, server = self._around, self._server
        arrived = server.position
        around.pause(f"{name}: before it is sent")
        self._check(f"{name}: before")
        try:
            rows = server.run(batch, arrived) if batch else []
        except errors.AdminShutdown:
            self._lose()
        around.pause(f"{name}: before its result is read")
        self._check(f"{name}: after")
        return rows

    def _check(self, point: str) -> None:
        if self.closed or self._life != self._server.life or self._around.cut(point):
            self._lose()

    def _lose(self) -> None:
        self.close()
        raise psycopg.OperationalError("the connection is lost")

    def _let_go(self) -> None:
        held = self._server.computing
        for key in [key for key, one in held.items() if one is self]:
            del held[key]

    def _lock(self, sql: str) -> Cursor:
        """Takes a key of single flight, or fails after a second; then the rows that are looked for."""
        self._trip([], "single flight")
        self.info.transaction_status = pq.TransactionStatus.INTRANS
        lock, _, look = sql[sql.index(_LOCK) + len(_LOCK) :].partition(";")
        key, server = bytes.fromhex(_KEY.findall(lock)[0]), self._server
        free = self._around.wait(lambda: key not in server.computing or self._life != server.life, 1.0)
        self._check("single flight: waiting")
        if not free:
            raise errors.LockNotAvailable("another process has the key")
        server.computing[key] = self
        if not look:
            return Cursor()
        account, *_ = _KEY.findall(look)
        asked, _, stored = look.partition("UNION ALL")
        requests, releases = (
            [bytes.fromhex(found) for found in _KEY.findall(part)]
            for part in (asked.partition("IN (")[2], stored)
        )
        tables = server.state.tables
        known = [
            (r["request_key"],)
            for r in tables["request"].values()
            if r["account"] == bytes.fromhex(account).decode() and r["request_key"] in requests
        ]
        self._around.pause("single flight: before its result is read")
        self._check("single flight: after")
        return Cursor([*known, *((r,) for r in releases if r in tables["answer"])])


def _name(sql: str) -> str:
    return _NAMES.get(sql, " ".join(sql.split()[:4]))


_servers: dict[str, Server] = {}
_connect = store.Pool.connect


def served(server: Server, name: str) -> str:
    """A conninfo by which a ledger reaches a server from now on, in place of one of this name."""
    _servers[SCHEME + name] = server
    setattr(store.Pool, "connect", _either)  # noqa: B010
    return SCHEME + name


def _either(pool: store.Pool) -> Any:
    conninfo = pool._conninfo
    return _servers[conninfo].connect() if conninfo.startswith(SCHEME) else _connect(pool)
