"""Spark as a backend, over Spark Connect: a session for each slot, every setting that matters pinned in it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql.connect.session import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from dpproxy.backends.base import (
    NOBODYS,
    BackendColumn,
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
    first_line,
    interrupting,
    masked,
    not_of_a_row,
    public_rows,
    row_query,
)
from dpproxy.backends.spark.schema import VOLATILE, described, named, read_schema, users_functions
from dpproxy.backends.spark.session import connected, end, place
from rewriter.emit.engines.base import Engine
from rewriter.emit.engines.spark import CELLS, SECRET, SPARK
from rewriter.plan import HistogramQuery
from rewriter.policy import Table, TableName

_UNDEFINED = ("TABLE_OR_VIEW_NOT_FOUND", "SCHEMA_NOT_FOUND", "UNRESOLVED_COLUMN")
_STOPPED = ("UNABLE_TO_ACQUIRE_MEMORY", "OPERATION_CANCELED", "INVALID_HANDLE", "RETRIES_EXCEEDED")


class SparkBackend(PublicCounts):
    """A catalog of Spark 4.0 or later.

    `url`: of Spark Connect, "sc://host:15002"; `slots`: how many queries run at once. A session lasts as long as its
    slot: a session that had read a table before would look for the files that the table had then.
    """

    dialect: Engine = SPARK

    def __init__(self, url: str, *, slots: int) -> None:
        self._url, self._place = url, place(url)
        self._slots = Slots(slots)

    def place(self, near: Path | None) -> str:
        """The server."""
        return self._place

    def schema(self) -> BackendSchema:
        """Tables, columns and comments; raises BackendUnavailable."""
        with self._session() as session, suppress(Exception):
            return read_schema(session)
        raise BackendUnavailable(f"{self._place}: its catalog could not be read")

    def views(self) -> Mapping[TableName, frozenset[TableName]]:
        """None: Spark's catalog does not say what a view reads."""
        return {}

    def computed(self, table: BackendTable, name: str, expression: str) -> BackendColumn:
        """The column that an expression computes from a row; raises ValueError, BackendUnavailable."""
        called = self.dialect.called_functions(expression)
        query = row_query(table, name, expression, self.dialect)
        with self._session() as session:
            try:
                if found := sorted(called & (VOLATILE | users_functions(session))):
                    raise ValueError(not_of_a_row(found))
                return described(session, f"SELECT * FROM {query}")
            except PySparkException as error:
                raise ValueError(f"Spark does not take it: {first_line(error)}") from None

    def read_public(self, table: Table) -> Iterator[Row]:
        """The rows of a *public* table, its visible columns in their order; ValueError for another.

        Raises BackendUnavailable, BackendError.
        """
        visible = [column for column in table.columns if not column.hidden]
        shown = [
            f"TRY_CAST({named(c.name)} AS STRING)" + (" || '+00'" if "with time zone" in c.type else "")
            for c in visible
        ]
        rows = public_rows(table, [c.name for c in visible], self.dialect)
        query = f"SELECT {', '.join(shown) or '1'} FROM {rows}"
        with self._session() as session:
            batches = masked(Cancellation(), lambda: _batches(session, query))
            while (batch := masked(Cancellation(), lambda: next(batches, None))) is not None:
                yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)

    def open(self, turn: Turn = NOBODYS) -> SparkSlot:
        """Takes a slot, waiting for a free one, with a new session; raises BackendUnavailable, Cancelled."""
        return SparkSlot(self._slots, turn, partial(connected, self._url), end)

    def close(self) -> None:
        """Nothing is held between slots."""

    def _quoted(self, name: str) -> str:
        return named(name)

    def _number(self, query: str) -> int:
        with self._session() as session:
            found = masked(Cancellation(), lambda: _collected(session, query, 1))
        return int(found.counts(0)[0])

    @contextmanager
    def _session(self) -> Iterator[SparkSession]:
        session = connected(self._url)
        try:
            yield session
        finally:
            end(session)


class SparkSlot(HeldSlot[SparkSession]):
    """One query at a time in a session of its own."""

    def fetch(self, query: HistogramQuery, rank_key: str, cancellation: Cancellation, most: int) -> Fetched:
        """Runs a histogram query: `query.arrays` are the columns of the view of cells, `rank_key` that of the secret.

        Both are rows of the session and no literals, so that no plan shows them. No more than `most` rows and one are
        given. Raises BackendError, without what Spark said; Cancelled.
        """
        session = self.held

        def run() -> Fetched:
            if query.rank_key:
                _bind(session, SECRET, {"secret": [rank_key]})
            if query.arrays:
                texts = {f"a{number}": list(array) for number, array in enumerate(query.arrays)}
                _bind(session, CELLS, texts)
            return _collected(session, query.sql, most)

        with interrupting(cancellation, lambda: _interrupt(session), 0.1):
            return masked(cancellation, run, kind_of)


def kind_of(error: Exception) -> FailureKind:
    """The kind of an error, by its condition: Spark has stopped, or knows no table or column, or else has failed."""
    if type(error).__module__.startswith("grpc") or isinstance(error, OSError | MemoryError):
        return "stopped"
    condition = str(error.getCondition() or "") if isinstance(error, PySparkException) else ""
    if condition.startswith(_UNDEFINED):
        return "undefined"
    return "stopped" if condition.startswith(_STOPPED) else "failed"


def _bind(session: SparkSession, name: str, texts: Mapping[str, Sequence[str | None]]) -> None:
    """Makes a view of columns of texts, with a number for each row from 1 on."""
    rows = len(next(iter(texts.values())))
    numbers = pa.array(range(1, rows + 1), pa.int64())
    columns = {"cell": numbers, **{key: pa.array(values, pa.string()) for key, values in texts.items()}}
    table = pa.table(columns)
    # Spark infers no schema of a table without rows.
    session.createDataFrame(table, from_arrow_schema(table.schema)).createOrReplaceTempView(name)


def _streamed(session: SparkSession, query: str) -> Iterator[StructType | pa.Table]:
    """The rows of a query as Spark makes them, their schema among them. Within the parentheses nothing but a query
    is understood."""
    frame = session.sql(f"SELECT * FROM (\n{query}\n) AS q")
    plan = frame._plan.to_proto(session.client)
    found: Iterator[StructType | pa.Table] = session.client.to_table_as_iterator(plan, {})
    return found


def _batches(session: SparkSession, query: str) -> Iterator[pa.Table]:
    return (part for part in _streamed(session, query) if isinstance(part, pa.Table))


def _collected(session: SparkSession, query: str, most: int) -> Fetched:
    parts: list[pa.Table] = []
    rows = width = 0
    for part in _streamed(session, query):
        if isinstance(part, StructType):
            width = len(part.fields)
            continue
        parts.append(part)
        rows += part.num_rows
        if rows > most:
            _interrupt(session)
            break
    if not rows:
        return Fetched(((),) * (parts[0].num_columns if parts else width), 0)
    names = [f"c{place}" for place in range(parts[0].num_columns)]
    whole = pa.concat_tables([part.rename_columns(names) for part in parts])
    return Fetched(tuple(map(_values, whole.columns)), rows).first(most + 1)


def _values(column: pa.ChunkedArray) -> Sequence[object]:
    """A column's values as `base.text` prints them; integers without NULL as an array."""
    kind = column.type
    if pa.types.is_integer(kind) and column.null_count == 0:
        values: Sequence[object] = column.to_numpy()
        return values
    if pa.types.is_timestamp(kind):
        zone = "" if kind.tz is None else "+00"
        plain = column.cast(pa.timestamp(kind.unit)).to_pylist()
        return [None if value is None else _moment(value) + zone for value in plain]
    if pa.types.is_float32(kind):
        # The shortest digits that identify the real. Python would print it as a double.
        return [None if value is None else float(str(np.float32(value))) for value in column.to_pylist()]
    listed: Sequence[object] = column.to_pylist()
    return listed


def _moment(value: dt.datetime) -> str:
    text = value.isoformat(" ")
    return text.rstrip("0") if value.microsecond else text


def _interrupt(session: SparkSession) -> None:
    with suppress(Exception):
        session.interruptAll()
