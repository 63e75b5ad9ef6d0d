"""DuckDB in this process: read-only, cut off from files, network and Python, its configuration locked."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self, cast

import duckdb
import numpy as np

from dpproxy.backends.base import (
    BackendError,
    BackendSchema,
    BackendUnavailable,
    Cancellation,
    Fetched,
    PublicCounts,
    Row,
    interrupting,
    masked,
    public_name,
    quoted,
    text,
)
from dpproxy.backends.duckdb_schema import read_schema
from rewriter.dialect import Dialect
from rewriter.dialect_duckdb import DUCKDB
from rewriter.plan import HistogramQuery
from rewriter.policy import Table

UNSAFE_OPTIMIZERS = "common_subexpressions,statistics_propagation"
"""The first computes what stands twice once, outside of the TRY around it, so that a row could make it raise. The
second simplifies by the least and largest values of columns, and DuckDB 2.0.0 cannot bind some of what is left:
whether a query raised would tell of them."""
_BATCH = 10_000
_AS_TEXT = {
    *("date", "time", "timetz", "time with time zone", "time_ns", "timestamp", "timestamp_s", "timestamp_ms"),
    *("timestamp_ns", "timestamp with time zone", "interval", "enum", "uuid", "decimal", "float", "double"),
}
_LISTS = {"list", "array"}
_ARRAYS = {"integer", "bigint", "varchar"}
"""Types that DuckDB prints like PostgreSQL reads, and that Python's own types cannot hold in full; types that
arrays hold as they are."""


_DATABASE = "dpproxy_data"
"""What the file is called while it is attached."""


class DuckDB(PublicCounts):
    """A DuckDB file.

    It is attached, read-only, only while a slot is taken or the schema is read: an open file keeps the owner from
    writing. The instance that it is attached to stays, since making one takes longer than most queries. `memory`:
    DuckDB's own limit, e.g. "4GB"; `slots`: how many queries run at once.
    """

    dialect: Dialect = DUCKDB

    def __init__(self, path: Path, *, memory: str, slots: int, threads: int | None = None) -> None:
        self.path = path
        self._settings: dict[str, str | bool | int | float | list[str]] = {
            "python_enable_replacements": "false",
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "allow_community_extensions": "false",
            "temp_directory": "",
            "disabled_optimizers": UNSAFE_OPTIMIZERS,
            "memory_limit": memory,
            **({} if threads is None else {"threads": str(threads)}),
        }
        self._slots = threading.BoundedSemaphore(slots)
        self._lock = threading.Lock()
        self._instance: duckdb.DuckDBPyConnection | None = None
        self._file: Path | None = None
        self._users = 0

    def schema(self) -> BackendSchema:
        """Tables, columns, constraints and comments; raises BackendUnavailable."""
        with self._cursor() as cursor, suppress(duckdb.Error):
            return read_schema(cursor)
        raise BackendUnavailable(f"DuckDB file {self.path}: its schema could not be read")

    def read_public(self, table: Table) -> Iterator[Row]:
        """The rows of a *public* table, its visible columns in their order; ValueError for another.

        Raises BackendUnavailable, BackendError.
        """
        visible = [quoted(column.name) for column in table.columns if not column.hidden]
        query = f"SELECT {', '.join(visible)} FROM {public_name(table)}"
        with self._cursor() as cursor:

            def begin() -> object:
                # The positions of the projection are names of columns outside of DuckDB's relations.
                relation = cursor.sql(query)
                return cursor.execute(relation.project(_projection(relation)).sql_query())

            def batch() -> list[Row]:
                return [tuple(map(_text, row)) for row in cursor.fetchmany(_BATCH)]

            masked(Cancellation(), begin)
            while rows := masked(Cancellation(), batch):
                yield from rows

    def open(self) -> DuckDBSlot:
        """Takes a slot, waiting for a free one; raises BackendUnavailable."""
        self._slots.acquire()
        try:
            return DuckDBSlot(self, self._take())
        except BaseException:
            self._slots.release()
            raise

    def close(self) -> None:
        """Ends the instance, unless a slot is still taken."""
        with self._lock:
            if self._users == 0:
                self._end()

    def give_back(self, cursor: duckdb.DuckDBPyConnection) -> None:
        """Returns what `open` took."""
        try:
            self._let_go(cursor)
        finally:
            self._slots.release()

    def _number(self, query: str) -> int:
        with self._cursor() as cursor:
            rows = masked(Cancellation(), cursor.execute(query).fetchall)
        return int(rows[0][0])

    @contextmanager
    def _cursor(self) -> Iterator[duckdb.DuckDBPyConnection]:
        cursor = self._take()
        try:
            yield cursor
        finally:
            self._let_go(cursor)

    def _take(self) -> duckdb.DuckDBPyConnection:
        with self._lock:
            if self._users == 0:
                self._attach()
            assert self._instance is not None
            self._users += 1
            cursor = self._instance.cursor()
        try:
            cursor.execute(f"USE {_DATABASE}")
        except BaseException:
            self._let_go(cursor)
            raise
        return cursor

    def _let_go(self, cursor: duckdb.DuckDBPyConnection) -> None:
        with self._lock:
            cursor.close()
            self._users -= 1
            if self._users == 0 and self._instance is not None:
                try:
                    self._instance.execute(f"DETACH {_DATABASE}")
                except duckdb.Error:
                    self._end()

    def _end(self) -> None:
        if self._instance is not None:
            self._instance.close()
            self._instance = None

    def _started(self, file: Path) -> duckdb.DuckDBPyConnection:
        """An instance that can reach the file and its log, and nothing else, its configuration locked."""
        with suppress(duckdb.Error):
            instance = duckdb.connect(":memory:", config=self._settings)
            allowed = ", ".join(_literal(f"{file}{end}") for end in ("", ".wal"))
            instance.execute(f"SET allowed_paths = [{allowed}]")
            instance.execute("SET enable_external_access = false")
            instance.execute("SET GLOBAL timezone = 'UTC'")
            instance.execute("SET lock_configuration = true")
            return instance
        raise BackendUnavailable("DuckDB could not be started with these settings")

    def _attach(self) -> None:
        """Attaches the file that the path leads to now, which may be a link that its owner turns to another."""
        if not self.path.is_file():
            raise BackendUnavailable(f"there is no DuckDB file {self.path}")
        file = self.path.resolve()
        if file != self._file:
            self._end()
        if self._instance is None:
            self._instance, self._file = self._started(file), file
        try:
            self._instance.execute(f"ATTACH {_literal(str(file))} AS {_DATABASE} (READ_ONLY)")
            return
        except duckdb.Error as error:
            # Replaying a write-ahead log may quote rows, so that only one known text is told on.
            locked = "Could not set lock on file" in str(error)
            reason = "another process has it open for writing" if locked else "it could not be opened"
        raise BackendUnavailable(f"DuckDB file {self.path}: {reason}")


class DuckDBSlot:
    """One query at a time on a cursor of its own; a context manager that gives the slot back."""

    def __init__(self, backend: DuckDB, cursor: duckdb.DuckDBPyConnection) -> None:
        self._backend = backend
        self._cursor: duckdb.DuckDBPyConnection | None = cursor

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        cursor, self._cursor = self._cursor, None
        if cursor is not None:
            self._backend.give_back(cursor)

    def fetch(
        self, query: HistogramQuery, rank_key: str, cancellation: Cancellation, max_rows: int
    ) -> Fetched:
        """Runs a histogram query: `query.arrays` are $1.., `rank_key` the last parameter where it is wanted.

        Raises BackendError, without what DuckDB said, also for more than `max_rows` rows; Cancelled.
        """
        cursor = self._cursor
        if cursor is None:
            raise ValueError("the slot was given back")
        parameters: list[object] = [list(array) for array in query.arrays]
        if query.rank_key:
            parameters.append(rank_key)

        def run() -> Fetched:
            statements = cursor.extract_statements(f"FROM (\n{query.sql}\n) AS q LIMIT {max_rows + 1}")
            if [one.type for one in statements] != [duckdb.StatementType.SELECT]:
                raise BackendError
            if query.integers:
                fetched = _as_arrays(cursor.execute(statements[0], parameters), max_rows)
                if any(isinstance(column, list) for column in fetched.columns):
                    raise BackendError
                return fetched
            relation = cursor.sql(statements[0], params=parameters)
            if all(str(kind.id) in _ARRAYS for kind in relation.types):
                return _as_arrays(relation, max_rows)
            rows = relation.project(_projection(relation)).fetchall()
            if len(rows) > max_rows:
                raise BackendError
            columns = tuple(zip(*rows, strict=True)) or ((),) * len(relation.types)
            return Fetched(tuple([_plain(value) for value in column] for column in columns), len(rows))

        with interrupting(cancellation, cursor.interrupt, every=0.02):
            return masked(cancellation, run)


def _as_arrays(found: duckdb.DuckDBPyRelation | duckdb.DuckDBPyConnection, max_rows: int) -> Fetched:
    """Rows of integers and texts, column by column."""
    columns = tuple(map(_complete, found.fetchnumpy().values()))
    rows = len(columns[0]) if columns else 0
    if rows > max_rows:
        raise BackendError
    return Fetched(columns, rows)


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _complete(column: np.ndarray) -> Sequence[object]:
    """An array of integers as it is; NULLs and texts as a list."""
    if np.ma.isMaskedArray(column) or column.dtype.kind != "i":
        values: list[object] = column.tolist()
        return values
    return cast(Sequence[object], column)


def _projection(relation: duckdb.DuckDBPyRelation) -> str:
    return ", ".join(_as_read(number, str(kind.id)) for number, kind in enumerate(relation.types, 1))


def _as_read(number: int, kind: str) -> str:
    if kind in _LISTS:
        return f"CAST(#{number} AS VARCHAR[])"
    return f"CAST(#{number} AS VARCHAR)" if kind in _AS_TEXT else f"#{number}"


def _plain(value: object) -> object:
    if isinstance(value, str) and value.endswith(" (BC)"):
        return value[: -len(" (BC)")] + " BC"
    return value


def _text(value: object) -> str | None:
    return text(_plain(value))
