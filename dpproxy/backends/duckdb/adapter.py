"""DuckDB in this process: read-only, cut off from files, network and Python, its configuration locked."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import cast

import duckdb
import numpy as np

from dpproxy.backends.base import (
    MOST_OF_MESSAGE,
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
    first_line,
    interrupting,
    masked,
    not_of_a_row,
    public_rows,
    quoted,
    row_query,
    text,
)
from dpproxy.backends.duckdb.instance import LINGER_SECONDS, DuckDBSettings, Instance, fitted_arrays
from dpproxy.backends.duckdb.schema import described, others, read_schema, read_views
from rewriter.emit.engines.base import Engine
from rewriter.emit.engines.duckdb import DUCKDB
from rewriter.plan import HistogramQuery
from rewriter.policy import Table, TableName

log = logging.getLogger(__name__)

RAISING = "common_subexpressions"
"""An optimizer that computes a repeated expression once, outside of its TRY, so that a row could make it raise."""
UNSAFE = f"{RAISING},statistics_propagation"
"""With one that simplifies by the least and largest values of columns. DuckDB 2.0.0 cannot bind some of its results:
whether a query raised would reveal them. So a query that raises with statistics is run again without."""
_BATCH = 10_000
_EVERY = 0.02
"""Seconds between interrupts."""
_AS_TEXT = {
    *("date", "time", "timetz", "time with time zone", "time_ns", "timestamp"),
    *("timestamp with time zone", "interval", "enum", "uuid", "decimal", "float", "double"),
}
_STAMPS = {"timestamp_s", "timestamp_ms", "timestamp_ns"}
_DATED = {"date", "timestamp", "timestamp with time zone"}
_LISTS = {"list", "array"}
_ARRAYS = {"integer", "bigint", "varchar"}
"""Types that DuckDB prints like PostgreSQL reads, and that Python's own types cannot hold in full; types that
arrays hold as they are."""


class DuckDBBackend(PublicCounts):
    """A DuckDB file.

    `memory`: DuckDB's own limit, e.g. "4GB"; `slots`: how many queries run at once; `linger`: seconds for which the
    file stays open after its last use.
    """

    dialect: Engine = DUCKDB

    def __init__(
        self,
        path: Path,
        *,
        memory: str,
        slots: int,
        threads: int | None = None,
        linger: float = LINGER_SECONDS,
    ) -> None:
        self.path = path
        settings: DuckDBSettings = {
            "python_enable_replacements": "false",
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "allow_community_extensions": "false",
            "temp_directory": "",
            "memory_limit": memory,
            **({} if threads is None else {"threads": str(threads)}),
        }
        self._slots = Slots(slots)
        self._quick = Instance(path, {**settings, "disabled_optimizers": RAISING}, linger)
        self.careful = Instance(path, {**settings, "disabled_optimizers": UNSAFE}, linger)

    def place(self, near: Path | None) -> str:
        """The file, by its path from the folder `near` where that is given."""
        path = self.path.resolve()
        return f"DuckDB file {path if near is None else os.path.relpath(path, near.resolve())}"

    def schema(self) -> BackendSchema:
        """Tables, columns, constraints and comments; raises BackendUnavailable."""
        with self._quick.cursor() as cursor, suppress(duckdb.Error):
            return read_schema(cursor)
        raise BackendUnavailable(f"DuckDB file {self.path}: its schema could not be read")

    def views(self) -> Mapping[TableName, frozenset[TableName]]:
        """Views and the tables that they read; raises BackendUnavailable."""
        with self._quick.cursor() as cursor, suppress(duckdb.Error):
            return read_views(cursor)
        raise BackendUnavailable(f"DuckDB file {self.path}: its views could not be read")

    def computed(self, table: BackendTable, name: str, expression: str) -> BackendColumn:
        """The column that an expression computes from a row; raises ValueError, BackendUnavailable."""
        called = sorted(self.dialect.called_functions(expression))
        query = row_query(table, name, expression, self.dialect)
        with self._quick.cursor() as cursor:
            try:
                if found := others(cursor, called):
                    raise ValueError(not_of_a_row(found))
                return described(cursor, name, f"FROM {query}")
            except duckdb.Error as error:
                raise ValueError(f"DuckDB does not take it: {first_line(error)}") from None

    def read_public(self, table: Table) -> Iterator[Row]:
        """The rows of a *public* table, its visible columns in their order; ValueError for another.

        Raises BackendUnavailable, BackendError.
        """
        visible = [column.name for column in table.columns if not column.hidden]
        shown = ", ".join(map(quoted, visible))
        query = f"SELECT {shown or '1'} FROM {public_rows(table, visible, self.dialect)}"
        with self._quick.cursor() as cursor:

            def begin() -> object:
                # The positions of the projection are names of columns outside of DuckDB's relations.
                relation = cursor.sql(query)
                return cursor.execute(relation.project(_projection(relation)).sql_query())

            def batch() -> list[Row]:
                return [tuple(map(text, row)) for row in cursor.fetchmany(_BATCH)]

            masked(Cancellation(), begin)
            while rows := masked(Cancellation(), batch):
                yield from rows

    def repeats(self, table: Table, columns: Sequence[str]) -> bool:
        """As elsewhere, of the values as they are read."""
        read = [self.dialect.scanned("s", column) for column in table.columns if column.name in columns]
        key = ", ".join(map(self.dialect.sql, read))
        query = f"SELECT 1 FROM {public_rows(table, columns, self.dialect)} GROUP BY {key} HAVING count(*) > 1 LIMIT 1"
        return bool(self._number(f"SELECT count(*) AS n FROM ({query}) AS r"))

    def open(self, turn: Turn = NOBODYS) -> DuckDBSlot:
        """Takes a slot, waiting for a free one; raises BackendUnavailable, Cancelled."""
        return DuckDBSlot(self, turn, self._slots, self._quick)

    def close(self) -> None:
        """Ends the instances, unless a slot is still taken."""
        self._quick.close()
        self.careful.close()

    def check(
        self, query: HistogramQuery, cursor: duckdb.DuckDBPyConnection, *, careful: bool = False
    ) -> None:
        """Raises BackendError where the file that is attached lacks a key that `query` rests on."""
        instance = self.careful if careful else self._quick
        if query.unique and not query.unique <= instance.unique(cursor):
            raise BackendError("changed", "a key of the privacy unit's path is no longer unique")

    def _number(self, query: str) -> int:
        with self._quick.cursor() as cursor:
            rows = masked(Cancellation(), cursor.execute(query).fetchall)
        return int(rows[0][0])


class DuckDBSlot(HeldSlot[duckdb.DuckDBPyConnection]):
    """One query at a time on a cursor of its own, whose temporary tables end with it.

    Why: docs/decisions/totals-are-kept-for-a-release.md.
    """

    def __init__(self, backend: DuckDBBackend, turn: Turn, slots: Slots, instance: Instance) -> None:
        super().__init__(slots, turn, instance.take, instance.let_go)
        self._backend = backend
        self._keeps = True
        self._kept: tuple[str, Sequence[object]] | None = None

    def fetch(self, query: HistogramQuery, rank_key: str, cancellation: Cancellation, most: int) -> Fetched:
        """Runs a histogram query: `query.arrays` are $1.., `rank_key` the last parameter where it is wanted.

        No more than `most` rows and one are read. Raises BackendError, without what DuckDB said; Cancelled.
        """
        quick = self.held

        def run() -> Fetched:
            self._backend.check(query, quick)
            parameters = bound(query, rank_key)
            try:
                sql = self._rest(query, parameters) or query.sql
                with fitted_arrays(quick, sql):
                    return _fetched(quick, sql, parameters, query, most)
            except duckdb.OutOfMemoryException:
                raise
            except duckdb.Error as error:
                if cancellation.cancelled:
                    raise
                log.warning("a query is run again without statistics: %s", type(error).__name__)
                raised = BackendError(kind_of(error), str(error)[:MOST_OF_MESSAGE])
            with (
                self._backend.careful.cursor() as cursor,
                interrupting(cancellation, cursor.interrupt, _EVERY),
            ):
                self._backend.check(query, cursor, careful=True)
                try:
                    return _fetched(cursor, query.sql, parameters, query, most)
                except duckdb.InterruptException:
                    if cancellation.timed_out:
                        raise
                    # Whoever cancels now may know, by the time that it takes, that it has failed before.
                    raise raised from None

        with interrupting(cancellation, quick.interrupt, _EVERY):
            return masked(cancellation, run, kind_of)

    def _rest(self, query: HistogramQuery, parameters: Sequence[object]) -> str | None:
        """The query over what is kept of it in memory, None where nothing is; raises duckdb.Error."""
        if query.kept is None or not self._keeps:
            return None
        kept = query.kept.sql, parameters
        if kept != self._kept:
            self._kept = None
            create = f"CREATE OR REPLACE TEMP TABLE {DUCKDB.kept_table} AS FROM (\n{query.kept.sql}\n) AS q"
            statement = _only(self.held, create, duckdb.StatementType.CREATE)
            try:
                with fitted_arrays(self.held, create):
                    self.held.execute(statement, _named(statement, parameters))
            except duckdb.OutOfMemoryException:
                self._keeps = False  # the whole query needs less memory
                return None
            self._kept = kept
        return query.kept.rest


def kind_of(error: Exception) -> FailureKind:
    """The kind of an error, by its class: DuckDB has stopped, or knows no table or column, or else has failed.

    >>> kind_of(duckdb.OutOfMemoryException()), kind_of(duckdb.BinderException()), kind_of(duckdb.ConversionException())
    ('stopped', 'undefined', 'failed')
    """
    if isinstance(error, duckdb.CatalogException | duckdb.BinderException):
        return "undefined"
    stopped = duckdb.OutOfMemoryException | duckdb.IOException | duckdb.InterruptException | MemoryError
    return "stopped" if isinstance(error, stopped) else "failed"


def _only(cursor: duckdb.DuckDBPyConnection, sql: str, kind: duckdb.StatementType) -> duckdb.Statement:
    """The one statement of a text; raises BackendError for others; duckdb.Error."""
    statements = cursor.extract_statements(sql)
    if [one.type for one in statements] != [kind]:
        raise BackendError
    return statements[0]


def _named(statement: duckdb.Statement, parameters: Sequence[object]) -> dict[str, object]:
    """Those of the parameters $1.. that a statement has."""
    return {name: parameters[int(name) - 1] for name in statement.named_parameters}


def _fetched(
    cursor: duckdb.DuckDBPyConnection,
    sql: str,
    parameters: Sequence[object],
    query: HistogramQuery,
    most: int,
) -> Fetched:
    """Runs one SELECT; raises BackendError for other statements; duckdb.Error."""
    statement = _only(cursor, f"FROM (\n{sql}\n) AS q LIMIT {most + 1}", duckdb.StatementType.SELECT)
    named = _named(statement, parameters)
    if query.integers:
        fetched = _as_arrays(cursor.execute(statement, named))
        if any(isinstance(column, list) for column in fetched.columns):
            raise BackendError
        return fetched
    relation = cursor.sql(statement, params=named)
    if all(str(kind.id) in _ARRAYS for kind in relation.types):
        return _as_arrays(relation)
    rows = relation.project(_projection(relation)).fetchall()
    # zip(*rows) would make an iterator of each row, all at once: three times as slow.
    columns = tuple([row[place] for row in rows] for place in range(len(relation.types)))
    return Fetched(columns, len(rows))


def _as_arrays(found: duckdb.DuckDBPyRelation | duckdb.DuckDBPyConnection) -> Fetched:
    """Rows of integers and texts, column by column."""
    columns = tuple(map(_complete, found.fetchnumpy().values()))
    return Fetched(columns, len(columns[0]) if columns else 0)


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
    value = f"TRY_CAST(#{number} AS TIMESTAMP)" if kind in _STAMPS else f"#{number}"
    if kind not in _AS_TEXT | _STAMPS:
        return value
    shown = f"CAST({value} AS VARCHAR)"
    if kind not in _DATED | _STAMPS:
        return shown
    # PostgreSQL has the era behind the time.
    without = f"replace({shown}, ' (BC)', '') || ' BC'"
    return f"CASE WHEN contains({shown}, ' (BC)') THEN {without} ELSE {shown} END"
