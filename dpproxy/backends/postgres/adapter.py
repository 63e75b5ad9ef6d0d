"""PostgreSQL as a backend: a role that can only read, read-only transactions, settings pinned, connections kept."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any

import psycopg
from psycopg import conninfo, pq
from psycopg.types.string import TextLoader

from dpproxy.backends.base import (
    NOBODYS,
    BackendColumn,
    BackendError,
    BackendSchema,
    BackendTable,
    BackendUnavailable,
    Cancellation,
    FailureKind,
    Fetched,
    HeldSlot,
    PublicCounts,
    Row,
    Slots,
    Turn,
    bound,
    interrupting,
    masked,
    not_of_a_row,
    public_rows,
    quoted,
    row_query,
)
from dpproxy.backends.postgres.schema import described, keeps_unique, others, read_schema, read_views
from dpproxy.backends.postgres.session import OLDEST, ROOM, UNTIMED, dialect, objection, pinned
from rewriter.emit.engines.base import Engine
from rewriter.emit.engines.postgres import POSTGRES
from rewriter.plan import HistogramQuery, UniqueKey
from rewriter.policy import Table, TableName

Connection = psycopg.Connection[tuple[Any, ...]]
_Batches = Callable[[], list[tuple[Any, ...]]]
_BATCH = 500
"""Rows in memory as rows: Python's collector moves those that live longer among the old objects, and after enough of
them goes over all values fetched so far. With 10,000 it took more than half of the time of a million rows."""
_CONNECT_SECONDS = 10
_CANCEL_SECONDS = 5.0
_AS_TEXT = (
    *("date", "time", "timetz", "timestamp", "timestamptz", "interval", "numeric", "float4", "float8"),
    *("uuid", "json", "jsonb", "bytea"),
)
"""Types whose own text is what the front reads; arrays of all types are read as text too."""
_REASONS = {
    "password authentication failed": "the password is wrong",
    "no password supplied": "it wants a password",
    "does not exist": "there is no such database or role",
    "no pg_hba.conf entry": "its pg_hba.conf does not let this role in",
    "Connection refused": "nothing listens there",
    "timeout": "it does not answer",
    "too many": "it has no connection left",
}

_UNDEFINED = (
    psycopg.errors.UndefinedTable,
    psycopg.errors.UndefinedColumn,
    psycopg.errors.InvalidSchemaName,
)
_STOPPED = ("08", "40", "53", "55P03", "57", "58")
"""SQLSTATEs of lost connections, conflicts, want of memory or disk, locks, time-outs, and a server that goes down."""
_LANGUAGES = ("pl_", "plperl", "plpy", "pltcl")
"""How PostgreSQL's source files are called in which functions raise errors of their own."""
_PLACE = ("service", "host", "hostaddr", "port", "dbname", "user", "options")
"""What of a connection decides which rows are read."""


class PostgresBackend(PublicCounts):
    """A PostgreSQL database, 15 or later.

    `url`: a libpq connection URI; `slots`: how many queries run at once; `seconds`: the longest one, 0 for no limit;
    `password_file`: read for each connection. Connections are opened when they are needed and kept.
    """

    dialect: Engine = POSTGRES

    def __init__(self, url: str, *, slots: int, seconds: float, password_file: Path | None = None) -> None:
        self._parameters, self._password_file = _parameters(url), password_file
        self._settings = pinned(seconds)
        self._slots = Slots(slots)
        self._lock = threading.Lock()
        self._idle: list[Connection] = []
        self._closed = False

    def place(self, near: Path | None) -> str:
        """The database, and the role: which rows it sees may depend on it."""
        defaults = {one.keyword.decode(): (one.val or b"").decode() for one in pq.Conninfo.get_defaults()}
        found = {name: str(self._parameters.get(name) or defaults.get(name) or "") for name in _PLACE}
        return "PostgreSQL database " + " ".join(f"{name}={value}" for name, value in found.items() if value)

    def schema(self) -> BackendSchema:
        """Tables, columns, constraints and comments; raises BackendUnavailable."""
        with self._connection() as connection, suppress(psycopg.Error), connection.transaction():
            self.dialect = dialect(connection)
            return read_schema(connection)
        raise BackendUnavailable(f"{self._place}: its schema could not be read")

    def views(self) -> Mapping[TableName, frozenset[TableName]]:
        """Views and the tables that they read; raises BackendUnavailable."""
        with self._connection() as connection, suppress(psycopg.Error), connection.transaction():
            return read_views(connection)
        raise BackendUnavailable(f"{self._place}: its views could not be read")

    def computed(self, table: BackendTable, name: str, expression: str) -> BackendColumn:
        """The column that an expression computes from a row; raises ValueError, BackendUnavailable."""
        called = sorted(self.dialect.called_functions(expression))
        query = row_query(table, name, expression, self.dialect)
        with self._connection() as connection, suppress(psycopg.Error), connection.transaction():
            if found := others(connection, called):
                raise ValueError(not_of_a_row(found))
            return described(connection, name, f"SELECT * FROM {query}")
        raise BackendUnavailable(f"{self._place}: the type of an expression could not be read")

    def read_public(self, table: Table) -> Iterator[Row]:
        """The rows of a *public* table, its visible columns in their order; ValueError for another.

        Raises BackendUnavailable, BackendError.
        """
        visible = [column.name for column in table.columns if not column.hidden]
        shown = [f"CAST({quoted(name)} AS text)" for name in visible]
        query = f"SELECT {', '.join(shown) or '1'} FROM {public_rows(table, visible, self.dialect)}"
        with self._connection() as connection, self._opened(connection, query) as batches:
            while rows := masked(Cancellation(), batches):
                yield from rows

    @contextmanager
    def _opened(self, connection: Connection, query: str) -> Iterator[_Batches]:
        """`_rows` with its errors masked."""
        rows = _rows(connection, query, ())
        batches = masked(Cancellation(), rows.__enter__)
        try:
            yield batches
        finally:
            with suppress(psycopg.Error):
                rows.__exit__(None, None, None)

    def open(self, turn: Turn = NOBODYS) -> PostgresSlot:
        """Takes a slot, waiting for a free one, and a connection that answers; raises BackendUnavailable, Cancelled."""
        return PostgresSlot(self, turn, self._slots)

    def close(self) -> None:
        """Ends the connections."""
        with self._lock:
            idle, self._idle, self._closed = self._idle, [], True
        for connection in idle:
            connection.close()

    @property
    def _place(self) -> str:
        found = self._parameters
        return f"PostgreSQL database {found.get('dbname', '')} at {found.get('host', 'localhost')}"

    def renewed(self, connection: Connection) -> Connection:
        """A new connection in place of a broken one; raises BackendError."""
        connection.close()
        with suppress(BackendUnavailable):
            return self.take()
        raise BackendError("stopped", "the connection was lost")

    def _password(self) -> dict[str, Any]:
        """As the file has it now, so that it can be replaced; raises BackendUnavailable."""
        if self._password_file is None:
            return {}
        try:
            return {"password": self._password_file.read_text().strip("\r\n")}
        except (OSError, UnicodeDecodeError) as error:
            raise BackendUnavailable(
                f"{self._place}: password_file cannot be read ({type(error).__name__})"
            ) from None

    def _number(self, query: str) -> int:
        with self._connection() as connection:
            rows = masked(Cancellation(), connection.execute(query.encode()).fetchall)
        return int(rows[0][0])

    @contextmanager
    def _connection(self) -> Iterator[Connection]:
        connection, usable = self.take(), False
        try:
            yield connection
            usable = True
        finally:
            self.let_go(connection, usable)

    def take(self) -> Connection:
        """A kept connection that answers, else a new one."""
        while True:
            with self._lock:
                connection = self._idle.pop() if self._idle else None
            if connection is None:
                return self._connect()
            with suppress(psycopg.Error):
                connection.execute("SELECT 1")
                return connection
            connection.close()

    def let_go(self, connection: Connection, usable: bool) -> None:
        """Keeps a connection for the next one; ends one that is not `usable`."""
        idle = connection.pgconn.transaction_status == psycopg.pq.TransactionStatus.IDLE
        with self._lock:
            if usable and idle and not self._closed:
                self._idle.append(connection)
                return
        connection.close()

    def _connect(self) -> Connection:
        reason = ""
        try:
            connection = psycopg.connect(
                **self._parameters, **self._password(), autocommit=True, cursor_factory=psycopg.RawCursor
            )
            connection.read_only, connection.isolation_level = True, psycopg.IsolationLevel.REPEATABLE_READ
            try:
                reason = self._prepared(connection)
            except BaseException:
                connection.close()
                raise
            if not reason:
                return connection
            connection.close()
        except psycopg.Error as error:
            # libpq's messages may name hosts and roles: only known texts are passed on.
            said = str(error)
            reason = next(
                (told for text, told in _REASONS.items() if text in said), "it could not be reached"
            )
        raise BackendUnavailable(f"{self._place}: {reason}")

    def _prepared(self, connection: Connection) -> str:
        """Pins the settings; returns the objection to the server or the role, else nothing."""
        if connection.info.server_version < OLDEST * 10_000:
            return f"PostgreSQL {OLDEST} or later is needed"
        for name in _AS_TEXT:
            info = connection.adapters.types[name]
            connection.adapters.register_loader(info.oid, TextLoader)
        for info in connection.adapters.types:
            if info.array_oid:
                connection.adapters.register_loader(info.array_oid, TextLoader)
        for name, value in self._settings.items():
            connection.execute("SELECT pg_catalog.set_config($1, $2, false)", (name, value))
        connection.execute(ROOM.encode())
        connection.execute(UNTIMED.encode())
        return objection(connection)


class PostgresSlot(HeldSlot[Connection]):
    """One query at a time on a connection of its own."""

    def __init__(self, backend: PostgresBackend, turn: Turn, slots: Slots) -> None:
        super().__init__(
            slots,
            turn,
            backend.take,
            lambda connection: backend.let_go(connection, usable=not self._interrupted),
        )
        self._backend = backend
        self._interrupted = False

    def fetch(self, query: HistogramQuery, rank_key: str, cancellation: Cancellation, most: int) -> Fetched:
        """Runs a histogram query: `query.arrays` are $1.., `rank_key` the last parameter where it is wanted.

        No more than `most` rows and one are read. Raises BackendError, without what PostgreSQL said; Cancelled.
        """
        connection = self.held
        if self._interrupted or connection.closed:
            self._held = connection = self._backend.renewed(connection)
            self._interrupted = False
        parameters = bound(query, rank_key)

        def run() -> Fetched:
            columns: list[list[object]] = []
            with _rows(connection, query.sql, parameters, query.unique, query.trials) as batches:
                while (not columns or len(columns[0]) <= most) and (rows := batches()):
                    columns = columns or [[] for _ in rows[0]]
                    for column, values in zip(columns, zip(*rows, strict=True), strict=True):
                        column.extend(values)
                return Fetched(tuple(columns), len(columns[0]) if columns else 0).first(most + 1)

        with interrupting(cancellation, _interruption(connection), every=0.05):
            try:
                return masked(cancellation, run, kind_of)
            finally:
                # A cancel request may still be in transit: it must not reach another query.
                self._interrupted = cancellation.cancelled


@contextmanager
def _rows(
    connection: Connection,
    query: str,
    parameters: Sequence[object],
    unique: frozenset[UniqueKey] = frozenset(),
    trials: frozenset[str] = frozenset(),
) -> Iterator[_Batches]:
    """The next rows of a query, some at a time, in a read-only transaction of its own, as the server makes them.

    They come without a cursor, for which PostgreSQL plans no parallel workers, and as text. As binary, integers and
    texts would take 12 to 18% less of the proxy's time and as much of the server's, dates and decimals almost three
    times the proxy's, and more to become the server's own texts again.

    Raises BackendError where a column of `unique` is not kept unique in the query's own snapshot, or one of `trials`
    fails in it.
    """
    with connection.transaction(), psycopg.RawCursor(connection) as cursor:
        if not keeps_unique(connection, unique):
            raise BackendError("changed", "a key of the privacy unit's path is no longer unique")
        for trial in sorted(trials):
            cursor.execute(trial.encode())
        size = _BATCH if psycopg.capabilities.has_stream_chunked() else 1
        rows = cursor.stream(query.encode(), parameters or None, size=size)
        assert isinstance(rows, Generator)
        with closing(rows):
            yield lambda: list(islice(rows, _BATCH))


def kind_of(error: Exception) -> FailureKind:
    """The kind of an error: PostgreSQL has stopped, or knows no table or column, or else has failed.

    >>> [kind_of(error()) for error in (psycopg.errors.QueryCanceled, psycopg.errors.UndefinedTable, ValueError)]
    ['stopped', 'undefined', 'failed']

    A function of the owner's can raise any class for any row: what a language raises, or finds undefined as it runs,
    has failed.
    """
    if not isinstance(error, psycopg.Error) or (error.diag.source_file or "").startswith(_LANGUAGES):
        return "failed"
    if isinstance(error, _UNDEFINED):
        return "failed" if error.diag.context else "undefined"
    lost = error.sqlstate is None and isinstance(error, psycopg.OperationalError)
    return "stopped" if lost or (error.sqlstate or "").startswith(_STOPPED) else "failed"


def _interruption(connection: Connection) -> Callable[[], None]:
    def interrupt() -> None:
        with suppress(psycopg.Error):
            connection.cancel_safe(timeout=_CANCEL_SECONDS)

    return interrupt


def _parameters(url: str) -> dict[str, Any]:
    """The connection parameters of a URI; raises BackendUnavailable."""
    with suppress(psycopg.Error):
        found = dict(conninfo.conninfo_to_dict(url))
        return {
            "connect_timeout": _CONNECT_SECONDS,
            **found,
            "application_name": "dpproxy",
            "client_encoding": "UTF8",
        }
    raise BackendUnavailable(
        'the backend\'s url has to be like "postgresql://reader@host:5432/database"; '
        "spaces, @, : and / in a password are written %20, %40, %3A and %2F"
    )
