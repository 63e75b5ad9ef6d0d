"""A database that forgets one privacy unit, or all but one, for as long as it is asked to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import duckdb
import psycopg

from dpproxy.backends.duckdb.adapter import RAISING, UNSAFE
from dpproxy.front.statement import other_than_constant
from rewriter.emit.engines.duckdb import DUCKDB
from rewriter.emit.engines.postgres import POSTGRES
from rewriter.refusal import Refusal
from rewriter.scalar.array_literal import array_text
from rewriter.scalar.typecheck import Parameter
from tests.rewriter.engine import described, executed

Row = tuple[Any, ...]
Rows = Mapping[str, Sequence[Row]]
"""The rows of each table."""


class BackendRaised(Exception):
    """The engine raised at an emitted query: by what it said, which names no value."""


class DuckDBEngine:
    """DuckDB in memory; `unit` is the column of the `private` tables that names the privacy unit."""

    name, dialect = "duckdb", DUCKDB

    def __init__(self, schema: Sequence[str], rows: Rows, private: Sequence[str], unit: str) -> None:
        self._connection = duckdb.connect(config={"threads": "1", "disabled_optimizers": RAISING})
        self._private, self._unit = private, unit
        self._condition: str | None = None
        for statement in schema:
            self._connection.execute(statement)
        for table, listed in rows.items():
            columns = list(zip(*listed, strict=True))
            arrays = ", ".join(f"unnest(${n + 1}::{t}[])" for n, t in enumerate(self._types(table)))
            self._connection.execute(f"INSERT INTO {table} SELECT {arrays}", [list(c) for c in columns])

    def _types(self, table: str) -> list[str]:
        described = self._connection.execute(f"DESCRIBE {table}").fetchall()
        return [str(row[1]) for row in described]

    def run(self, sql: str, values: Sequence[object]) -> list[Row]:
        """The rows of an emitted query, asked once more without statistics where it raises, as the proxy does;
        BackendRaised for an error."""
        try:
            return self._connection.execute(sql, values).fetchall()
        except duckdb.Error:
            self._delete_again()
        self._connection.execute(f"SET disabled_optimizers = '{UNSAFE}'")
        try:
            return self._connection.execute(sql, values).fetchall()
        except duckdb.Error as error:
            self._delete_again()
            raise BackendRaised(type(error).__name__) from error
        finally:
            self._connection.execute(f"SET disabled_optimizers = '{RAISING}'")

    def _delete_again(self) -> None:
        """An error has ended the transaction."""
        if self._condition is not None:
            self._connection.execute("ROLLBACK")
            self._delete()

    @contextmanager
    def without(self, unit: int) -> Iterator[None]:
        """The neighbouring database, in which `unit` has no rows."""
        with self._deleted(f"{self._unit} = {unit}"):
            yield

    @contextmanager
    def alone(self, unit: int) -> Iterator[None]:
        """The database in which nobody but `unit` has rows."""
        with self._deleted(f"{self._unit} IS DISTINCT FROM {unit}"):
            yield

    @contextmanager
    def _deleted(self, condition: str) -> Iterator[None]:
        self._condition = condition
        self._delete()
        try:
            yield
        finally:
            self._condition = None
            self._connection.execute("ROLLBACK")

    def _delete(self) -> None:
        self._connection.execute("BEGIN")
        for table in self._private:
            self._connection.execute(f"DELETE FROM {table} WHERE {self._condition}")

    def close(self) -> None:
        """Lets go of the database."""
        self._connection.close()


@contextmanager
def _refused() -> Iterator[None]:
    """PostgreSQL's errors as the front tells them."""
    try:
        yield
    except psycopg.Error as error:
        raise Refusal(error.sqlstate or "08006", str(error)) from None


class PostgresEngine:
    """A PostgreSQL database of its own; `unit` is the column of the `private` tables that names the privacy unit."""

    name, dialect = "postgresql", POSTGRES

    def __init__(
        self, conninfo: str, schema: Sequence[str], rows: Rows, private: Sequence[str], unit: str
    ) -> None:
        self._connection = psycopg.connect(conninfo, autocommit=True, prepare_threshold=None)
        self._private, self._unit = private, unit
        for statement in ("SET timezone = 'UTC'", "SET jit = off", *schema):
            self._connection.execute(statement.encode())
        for table, listed in rows.items():
            with self._connection.cursor().copy(f"COPY {table} FROM STDIN".encode()) as copy:
                for row in listed:
                    copy.write_row(row)
            self._connection.execute(f"ANALYZE {table}".encode())

    @property
    def connection(self) -> psycopg.Connection:
        """The connection, to be asked what the analyst's own text means."""
        return self._connection

    def constant(self, sql: str, parameters: Sequence[Parameter]) -> list[Parameter]:
        """The values of a statement with one column, with their type; Refusal for what the front does not take."""
        with _refused():
            values = executed(self._connection, f"SELECT x::text FROM ({sql}) AS s(x)", parameters)
        (of,) = described(self._connection, sql, parameters)
        return [Parameter(of, value) for (value,) in values]

    def rows(self, sql: str, parameters: Sequence[Parameter]) -> list[Parameter]:
        """The columns of a statement, each as the array of its values; Refusal for what the front does not take."""
        with _refused():
            self._connection.execute(f"CREATE TEMP VIEW v AS {sql}".encode())
        query = (
            "SELECT attname::text, format_type(atttypid, atttypmod) FROM pg_attribute "
            "WHERE attrelid = 'v'::regclass ORDER BY attnum"
        )
        columns = self._connection.execute(query).fetchall()
        shown = ", ".join(f"c{n}::text" for n in range(len(columns)))
        names = ", ".join(f"c{n}" for n in range(len(columns)))
        rows = executed(self._connection, f"SELECT {shown} FROM v AS s({names})", parameters)
        self._connection.execute("DROP VIEW v")
        return [
            Parameter(f"{of}[]", array_text(row[place] for row in rows), name=name)
            for place, (name, of) in enumerate(columns)
        ]

    def refuse_changing(self, sql: str, parameters: Sequence[Parameter], *, rows: bool = False) -> None:
        """Raises Refusal for an expression, or rows, that the front would not take for a constant."""
        oids = [
            self._connection.execute("SELECT %s::regtype::oid", (p.type,)).fetchall()[0][0]
            for p in parameters
        ]
        if other_than_constant(self._connection, sql, oids, rows=rows) is not None:
            raise Refusal("PV020", "a function may change from row to row")

    def run(self, sql: str, values: Sequence[object]) -> list[Row]:
        """The rows of an emitted query; BackendRaised for an error."""
        try:
            with self._connection.transaction():
                return psycopg.RawCursor(self._connection).execute(sql.encode(), values or None).fetchall()
        except psycopg.Error as error:
            raise BackendRaised(f"{error.sqlstate} {type(error).__name__}") from error

    @contextmanager
    def without(self, unit: int) -> Iterator[None]:
        """The neighbouring database, in which `unit` has no rows."""
        with self._deleted(f"{self._unit} = {unit}"):
            yield

    @contextmanager
    def alone(self, unit: int) -> Iterator[None]:
        """The database in which nobody but `unit` has rows."""
        with self._deleted(f"{self._unit} IS DISTINCT FROM {unit}"):
            yield

    @contextmanager
    def _deleted(self, condition: str) -> Iterator[None]:
        with self._connection.transaction(force_rollback=True):
            for table in self._private:
                self._connection.execute(f"DELETE FROM {table} WHERE {condition}".encode())
            yield

    def close(self) -> None:
        """Lets go of the connection."""
        self._connection.close()


Engine = DuckDBEngine | PostgresEngine
