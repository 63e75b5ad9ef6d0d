"""The interface of a backend: its schema, its public rows, and histogram queries."""

from __future__ import annotations

import datetime as dt
import logging
import math
import threading
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from types import TracebackType
from typing import Generic, Literal, Protocol, Self, TypeVar
from uuid import UUID

import numpy as np

from mechanisms.histogram import Counts
from rewriter.emit.engines.base import Engine
from rewriter.plan import HistogramQuery, UniqueKey
from rewriter.policy import Column, Table, TableName

log = logging.getLogger("dpproxy.backends.base")

Result = TypeVar("Result")
Held = TypeVar("Held")
MOST_OF_MESSAGE = 2000
"""Characters of an engine's message that are kept for the owner."""
Row = tuple[str | None, ...]
"""One row of a public table, each value as PostgreSQL reads it."""


class BackendUnavailable(Exception):
    """The backend was not reached: nothing ran, nothing is charged. The text names no data."""


FailureKind = Literal["failed", "stopped", "undefined", "changed"]
"""failed: the backend raised; stopped: it ran into its time-out, out of memory, or was lost; undefined: it knew no
such table or column before it read a row; changed: a key that the query rests on is no longer there."""


class BackendError(Exception):
    """The backend was reached and failed. Its message is withheld: it may depend on private data (PV090).

    `message`: for the owner alone, and no part of the error's text.
    """

    def __init__(self, kind: FailureKind = "failed", message: str = "") -> None:
        self.kind, self.message = kind, message
        super().__init__("the backend could not run this query")


class Cancelled(Exception):
    """The query was cancelled, or timed out, after the backend was reached."""


class Cancellation:
    """A flag that any thread may raise, with hooks that run when it is raised.

    >>> cancellation, seen = Cancellation(), []
    >>> withdraw = cancellation.on_cancel(lambda: seen.append("stopped"))
    >>> cancellation.cancel()
    >>> cancellation.cancelled, seen
    (True, ['stopped'])
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cancelled = self._timed_out = False
        self._hooks: list[Callable[[], None]] = []

    @property
    def cancelled(self) -> bool:
        """Whether `cancel` was called."""
        return self._cancelled

    @property
    def timed_out(self) -> bool:
        """Whether it was time that ran out, and no client that cancelled before."""
        return self._timed_out

    def cancel(self, *, timed_out: bool = False) -> None:
        """Raises the flag and runs the hooks, once."""
        with self._lock:
            hooks, self._hooks = self._hooks, []
            self._timed_out = self._timed_out or (timed_out and not self._cancelled)
            self._cancelled = True
        for hook in hooks:
            hook()

    def on_cancel(self, hook: Callable[[], None]) -> Callable[[], None]:
        """Has `hook` run at `cancel` (now, if that was before); returns a function that withdraws it."""
        with self._lock:
            late = self._cancelled
            if not late:
                self._hooks.append(hook)
        if late:
            hook()

        def withdraw() -> None:
            with self._lock:
                if hook in self._hooks:
                    self._hooks.remove(hook)

        return withdraw


@dataclass(frozen=True)
class BackendColumn:
    """A column as the backend has it.

    Attributes:
        name: its name.
        type: its type in the front, None where PostgreSQL has none.
        native: the backend's name of its type.
        nullable: it may be NULL.
        values: the values of an enumerated type, in its order.
        copied: its values may have been copied from rows as the type was made, as DuckDB does it.
        enum: the enumerated type that it has in the front if the owner says that such values may be known.
        comment: the backend's comment.
        folds: its collation takes different texts for equal, as one that ignores case does.
        caseless: its type takes texts for equal that are in lower case, as citext does.
        sized: its type bounds its texts where `type` does not say it, as an enumerated one does.
        expression: the owner's SQL that computes it; the backend's table has no such column.
    """

    name: str
    type: str | None
    native: str
    nullable: bool = True
    values: tuple[str, ...] | None = None
    comment: str | None = None
    folds: bool = False
    caseless: bool = False
    copied: bool = False
    enum: str | None = None
    sized: bool = False
    expression: str | None = None


@dataclass(frozen=True)
class ForeignKey:
    """`columns` refer to `target_columns` of `target`."""

    columns: tuple[str, ...]
    target: TableName
    target_columns: tuple[str, ...]


@dataclass(frozen=True)
class BackendTable:
    """A table as the backend has it, under the name that analysts see.

    `backend_name`: its parts there; `keeps_keys`: whether the backend enforces keys at all; `definition`: the text of a
    view, in the backend's SQL.
    """

    schema: str
    name: str
    backend_name: tuple[str, ...]
    columns: tuple[BackendColumn, ...]
    primary_key: tuple[str, ...] | None = None
    unique: tuple[tuple[str, ...], ...] = ()
    foreign_keys: tuple[ForeignKey, ...] = ()
    comment: str | None = None
    keeps_keys: bool = True
    definition: str | None = None

    def column(self, name: str) -> BackendColumn | None:
        """The column called `name`, or None."""
        return next((column for column in self.columns if column.name == name), None)

    def enforced(self, columns: frozenset[str], *, but: frozenset[str] = frozenset()) -> bool:
        """Whether the backend keeps rows from repeating in `columns`, NULLs included, outside of rows
        where a column of `but` is NULL.

        >>> a, b = BackendColumn("a", "bigint", "BIGINT", False), BackendColumn("b", "bigint", "BIGINT")
        >>> t = BackendTable("public", "t", ("main", "t"), (a, b), ("a",), (("b",),))
        >>> t.enforced(frozenset("a")), t.enforced(frozenset("b"))
        (True, False)
        >>> t.enforced(frozenset("b"), but=frozenset("b"))
        True
        """
        if self.primary_key is not None and frozenset(self.primary_key) == columns:
            return True
        filled = but | {column.name for column in self.columns if not column.nullable}
        return any(frozenset(key) == columns for key in self.unique) and columns <= filled


@dataclass(frozen=True)
class BackendSchema:
    """Every table and every view of a backend by (schema, name); never data.

    `dialect`: the SQL of the views' texts, as sqlglot calls it.
    """

    tables: Mapping[TableName, BackendTable] = field(default_factory=dict)
    views: Mapping[TableName, BackendTable] = field(default_factory=dict)
    dialect: str = "postgres"

    @property
    def relations(self) -> Mapping[TableName, BackendTable]:
        """Tables and views."""
        return {**self.views, **self.tables}

    @property
    def unique(self) -> frozenset[UniqueKey]:
        """The keys that the backend keeps from repeating."""
        return frozenset(
            (table.backend_name, tuple(sorted(key)))
            for table in self.tables.values()
            for key in (table.primary_key, *table.unique)
            if key is not None and table.enforced(frozenset(key))
        )


@dataclass(frozen=True, repr=False)
class Fetched:
    """The rows of a histogram query, column by column: sensitive, so it has no repr of its contents.

    Without rows there may be no columns.
    """

    columns: tuple[Sequence[object], ...]
    rows: int

    def first(self, most: int) -> Fetched:
        """The first `most` rows."""
        if self.rows <= most:
            return self
        return Fetched(tuple(column[:most] for column in self.columns), most)

    def counts(self, position: int) -> Counts:
        """Column `position` (from 0) as int64, shape (rows,); raises BackendError for what does not fit.

        >>> Fetched(([3, 1],), 2).counts(0)
        array([3, 1])
        """
        column = self._column(position)
        if isinstance(column, np.ndarray) and column.dtype.kind == "i" and not np.ma.isMaskedArray(column):
            return column.astype(np.int64, copy=False)
        if any(type(value) is not int for value in column):
            raise BackendError
        try:
            return np.fromiter(column, dtype=np.int64, count=self.rows)
        except OverflowError:
            pass
        raise BackendError

    def texts(self, position: int, rows: np.ndarray | None = None) -> tuple[str | None, ...]:
        """Column `position` (from 0) as PostgreSQL reads its values; `rows`: of which ones, by number.

        >>> Fetched((["a", None, True],), 3).texts(0)
        ('a', None, 'true')
        >>> Fetched((["a", None, True],), 3).texts(0, np.array([2]))
        ('true',)
        """
        column = self._column(position)
        return tuple(map(text, column if rows is None else (column[row] for row in rows.tolist())))

    def codes(self, position: int) -> Counts:
        """Column `position` (from 0) as numbers, shape (rows,): equal ones for equal values, in no order that means
        anything.

        >>> Fetched((["b", "a", "b"],), 3).codes(0)
        array([0, 1, 0])
        """
        column = self._column(position)
        if isinstance(column, np.ndarray) and column.dtype.kind == "i" and not np.ma.isMaskedArray(column):
            return column.astype(np.int64, copy=False)
        known: dict[object, int] = {}
        numbered = (known.setdefault(value, len(known)) for value in column)
        return np.fromiter(numbered, dtype=np.int64, count=self.rows)

    def _column(self, position: int) -> Sequence[object]:
        return self.columns[position] if self.rows else ()


class Slot(AbstractContextManager["Slot"], Protocol):
    """An open way to the backend; leaving it gives the slot back."""

    def fetch(self, query: HistogramQuery, rank_key: str, cancellation: Cancellation, most: int) -> Fetched:
        """Runs a histogram query: its first `most` rows, and one more that shows that there are more.

        `rank_key` is the secret of the keyed order, bound last where the query wants it. Raises BackendError (also
        where `query.unique` does not hold for what the query reads), Cancelled.
        """


@dataclass(frozen=True)
class Turn:
    """Whose turn it is at the slots, "" for the proxy itself, and what ends the wait for it."""

    login: str = ""
    cancellation: Cancellation = field(default_factory=Cancellation)


NOBODYS = Turn()


class Slots:
    """So many slots, of which a login has all but one at most; those who wait have turns by login.

    >>> slots = Slots(3)
    >>> for login in ("ann", "ann", "ben"):
    ...     slots.acquire(login, Cancellation())
    >>> gone = Cancellation()
    >>> gone.cancel()
    >>> slots.acquire("ben", gone)
    Traceback (most recent call last):
    dpproxy.backends.base.Cancelled
    >>> slots.release("ann")
    >>> slots.acquire("ben", Cancellation())
    """

    def __init__(self, number: int) -> None:
        self._free, self._each = number, max(number - 1, 1)
        self._held = Counter[str]()
        self._waiting: dict[str, deque[object]] = {}
        self._changed = threading.Condition()

    @property
    def waiting(self) -> int:
        """How many wait."""
        with self._changed:
            return sum(map(len, self._waiting.values()))

    def acquire(self, login: str, cancellation: Cancellation) -> None:
        """Takes a slot, waiting for one; raises Cancelled once that is cancelled, which ends the wait."""
        withdraw, ticket = cancellation.on_cancel(self._notify), object()
        with self._changed:
            self._waiting.setdefault(login, deque()).append(ticket)
            self._changed.wait_for(lambda: cancellation.cancelled or self._next() is ticket)
            queue = self._waiting.pop(login)
            queue.remove(ticket)
            if queue:
                self._waiting[login] = queue  # behind the other logins
            taken = not cancellation.cancelled
            if taken:
                self._free -= 1
                self._held[login] += 1
            self._changed.notify_all()
        withdraw()
        if not taken:
            raise Cancelled

    def release(self, login: str) -> None:
        """Gives a slot back."""
        with self._changed:
            self._free += 1
            self._held[login] -= 1
            if not self._held[login]:
                del self._held[login]
            self._changed.notify_all()

    def _next(self) -> object:
        able = (q[0] for login, q in self._waiting.items() if not login or self._held[login] < self._each)
        return next(able, None) if self._free else None

    def _notify(self) -> None:
        with self._changed:
            self._changed.notify_all()


class HeldSlot(Generic[Held]):
    """A slot with a cursor, connection or session of its own; a context manager that gives both back, once.

    `slots`: of the backend; `turn`: the login that takes one, and what ends its wait; `take`, `let_go`: functions that
    take a connection and give it back.
    """

    def __init__(
        self, slots: Slots, turn: Turn, take: Callable[[], Held], let_go: Callable[[Held], None]
    ) -> None:
        self._slots, self._login, self._let_go = slots, turn.login, let_go
        self._held: Held | None = None
        slots.acquire(turn.login, turn.cancellation)
        try:
            self._held = take()
        except BaseException:
            slots.release(turn.login)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        held, self._held = self._held, None
        if held is not None:
            try:
                self._let_go(held)
            finally:
                self._slots.release(self._login)

    @property
    def held(self) -> Held:
        """The connection; ValueError after it was given back."""
        if self._held is None:
            raise ValueError("the slot was given back")
        return self._held


class Backend(Protocol):
    """The database that holds the data."""

    @property
    def dialect(self) -> Engine:
        """The SQL dialect of its histogram queries."""

    def place(self, near: Path | None) -> str:
        """The identity of the data, without passwords; a file by its path, relative to the folder `near` if given."""

    def schema(self) -> BackendSchema:
        """Tables, columns, constraints and comments; raises BackendUnavailable."""

    def views(self) -> Mapping[TableName, frozenset[TableName]]:
        """Views by (schema, name), and the tables that each reads, over other views too; raises BackendUnavailable."""

    def computed(self, table: BackendTable, name: str, expression: str) -> BackendColumn:
        """The column `name` that an expression of the backend's SQL computes from a row of a table.

        Raises ValueError with the reason where it is no function of one row, or not understood; BackendUnavailable.
        """

    def count(self, table: Table) -> int:
        """How many rows a *public* table has; ValueError for another."""

    def repeats(self, table: Table, columns: Sequence[str]) -> bool:
        """Whether rows of a *public* table agree in `columns`, NULLs alike; ValueError for another."""

    def read_public(self, table: Table) -> Iterator[Row]:
        """The rows of a *public* table, its visible columns in their order; ValueError for another."""

    def open(self, turn: Turn = NOBODYS) -> Slot:
        """Takes a slot; raises BackendUnavailable and Cancelled, which is before the backend was reached."""

    def close(self) -> None:
        """Closes all connections."""


def masked(
    cancellation: Cancellation,
    run: Callable[[], Result],
    kind_of: Callable[[Exception], FailureKind] = lambda error: "failed",
) -> Result:
    """The result of `run`. Every failure is raised as BackendError or Cancelled, outside of the handler,
    so that neither cause nor context of the original goes along; the owner's log has its type alone.

    `kind_of`: the kind of an engine's error. A BackendError of `run` is no effect of a cancellation.
    """
    result: list[Result] = []
    failed, raised, ours = "", BackendError(), False
    try:
        result.append(run())
    except BackendError as error:
        failed, raised, ours = type(error).__name__, BackendError(error.kind, error.message), True
    except Exception as error:
        failed, raised = type(error).__name__, BackendError(kind_of(error), str(error)[:MOST_OF_MESSAGE])
    if cancellation.cancelled and not ours:
        raise Cancelled
    if not result:
        log.warning("a query failed at the backend: %s", failed)
        raise raised
    return result[0]


@contextmanager
def interrupting(cancellation: Cancellation, interrupt: Callable[[], object], every: float) -> Iterator[None]:
    """Calls `interrupt` at a cancellation, then each `every` seconds: an interrupt between two statements is lost."""
    done = threading.Event()

    def keep_on() -> None:
        while not done.is_set():
            interrupt()
            done.wait(every)

    interrupter = threading.Thread(target=keep_on, name="interrupts the backend", daemon=True)
    withdraw = cancellation.on_cancel(interrupter.start)
    try:
        yield
    finally:
        withdraw()
        done.set()
        if interrupter.ident is not None:
            interrupter.join()


def quoted(name: str) -> str:
    """An identifier in SQL.

    >>> quoted('a"b')
    '"a""b"'
    """
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A text in SQL.

    >>> literal("it's")
    "'it''s'"
    """
    return "'" + text.replace("'", "''") + "'"


def bound(query: HistogramQuery, rank_key: str) -> list[object]:
    """The parameters of a query: its arrays are $1.., the secret of the keyed order is last where it is wanted."""
    return [*map(list, query.arrays), *([rank_key] if query.rank_key else ())]


def public_rows(table: Table, columns: Sequence[str], dialect: Engine) -> str:
    """The rows of a *public* table with these columns, as an item of FROM; ValueError for another."""
    if not table.public:
        raise ValueError(f'table "{table.schema}"."{table.name}" is private: only histograms of it are read')
    return dialect.sql(dialect.rows(table, columns, "s"))


def row_query(table: BackendTable, name: str, expression: str, dialect: Engine) -> str:
    """The query of which a computed column's type is described; it is not run.

    The expression also stands in WHERE, where no engine takes aggregates, windows or functions that give rows.
    """
    column = Column(name, "", expression=expression)
    parts = (table.schema, table.name, (column,), True, table.backend_name)
    return dialect.sql(dialect.rows(Table(*parts, where=f"({expression}) IS NOT NULL"), [name], "s"))


def not_of_a_row(functions: Sequence[str]) -> str:
    """Why an expression with these functions is refused."""
    return f"calls {functions[0]}, which may depend on more than the row and the time"


def first_line(error: object) -> str:
    """The first line of an error's text.

    >>> first_line("no column x" + chr(10) + "LINE 1: ...")
    'no column x'
    """
    return next(iter(str(error).strip().splitlines()), "")


class PublicCounts(ABC):
    """Counts of *public* rows, by the same SQL on every engine."""

    dialect: Engine

    @abstractmethod
    def _number(self, query: str) -> int:
        """The integer that a query gives; raises BackendUnavailable, BackendError."""

    def _quoted(self, name: str) -> str:
        return quoted(name)

    def count(self, table: Table) -> int:
        """How many rows a *public* table has; ValueError for another.

        Raises BackendUnavailable, BackendError.
        """
        return self._number(f"SELECT count(*) AS n FROM {public_rows(table, (), self.dialect)}")

    def repeats(self, table: Table, columns: Sequence[str]) -> bool:
        """Whether rows of a *public* table agree in `columns`, NULLs alike; ValueError for another.

        Raises BackendUnavailable, BackendError.
        """
        key = ", ".join(map(self._quoted, columns))
        rows = public_rows(table, columns, self.dialect)
        query = f"SELECT 1 AS x FROM {rows} GROUP BY {key} HAVING count(*) > 1 LIMIT 1"
        return bool(self._number(f"SELECT count(*) AS n FROM ({query}) AS r"))


def text(value: object) -> str | None:
    """A value as text that PostgreSQL reads as the same value of its type.

    >>> [text(v) for v in (None, True, 7, Decimal("1E+2"), float("inf"), b"a", [1, None, 'x"'])]
    [None, 'true', '7', '100', 'Infinity', '\\\\x61', '{"1",NULL,"x\\\\""}']
    """
    match value:
        case None:
            return None
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case float():
            return repr(float(value)) if math.isfinite(value) else _not_finite(value)
        case int() | np.integer() | UUID():
            return str(value)
        case Decimal():
            return format(value, "f") if value.is_finite() else _not_finite(float(value))
        case bytes() | bytearray() | memoryview():
            return "\\x" + bytes(value).hex()
        case dt.datetime():
            return value.isoformat(" ")
        case dt.date() | dt.time():
            return value.isoformat()
        case dt.timedelta():
            seconds = value.seconds + Decimal(value.microseconds) / 1_000_000
            return f"{value.days} days {seconds} seconds"
        case list() | tuple():
            return "{" + ",".join(map(_element, value)) + "}"
    raise BackendError


def _not_finite(value: float) -> str:
    return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")


def _element(value: object) -> str:
    written = text(value)
    if written is None:
        return "NULL"
    if isinstance(value, list | tuple):
        return written
    return '"' + written.replace("\\", "\\\\").replace('"', '\\"') + '"'


class Adapter(Protocol):
    """The package of an engine."""

    @property
    def SCHEMES(self) -> tuple[str, ...]:
        """The schemes of its URLs."""
        ...

    @property
    def EXAMPLE(self) -> str:
        """A URL, in quotes."""
        ...

    def connect(
        self,
        url: str,
        *,
        folder: Path,
        memory: str,
        slots: int,
        seconds: float,
        owner_writes: bool,
        password_file: Path | None,
    ) -> Backend | None:
        """The backend behind a URL, None where the URL is no such; raises BackendUnavailable."""
        ...
