"""A data set in Spark: a session a database, whose tables are views of its own."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql.connect.plan import SQL
from pyspark.sql.connect.session import SparkSession

from dpproxy.backends.spark.adapter import _bind
from dpproxy.backends.spark.session import connected, end
from rewriter.emit.engines.spark import CELLS, SECRET, SPARK
from tests.oracle.data import PUBLIC, Rows
from tests.spark_server import Server, owner, serving
from tests.stability.engine import BackendRaised

TYPES = {
    "string": pa.string(),
    "bigint": pa.int64(),
    "int": pa.int32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
}


class SparkData:
    """Sessions of one server; what is bound to a query is a view in its session."""

    name, dialect = "spark", SPARK

    def __init__(self, url: str) -> None:
        self._url = url
        self._sessions: dict[str, SparkSession] = {}
        self._bound: dict[tuple[str, str], object] = {}

    def fill(self, schema: str, tables: Mapping[str, str], rows: Rows) -> None:
        """Makes a database of these rows."""
        session = self._sessions[schema] = connected(self._url)
        for name, columns in tables.items():
            session.createDataFrame(arrow(columns, rows[name])).createOrReplaceTempView(name)

    def stored(self, tables: Mapping[str, str], rows: Rows) -> None:
        """Makes tables that a schema is read from; the public ones have rows."""
        with owner(self._url) as session:
            for name, columns in tables.items():
                session.sql(f"DROP TABLE IF EXISTS {name}")
                if name in PUBLIC:
                    session.createDataFrame(arrow(columns, rows[name])).coalesce(1).write.saveAsTable(name)
                else:
                    session.sql(f"CREATE TABLE {name} ({columns}) USING parquet")

    def run(
        self, database: str, sql: str, values: Sequence[object]
    ) -> tuple[list[str], list[tuple[Any, ...]]]:
        """The names of a query's columns and its rows; BackendRaised for an error."""
        session = self._sessions[database]
        arrays = [v for v in values if isinstance(v, list)]
        try:
            if arrays:
                self._bind(database, CELLS, {f"a{n}": v for n, v in enumerate(arrays)})
            if secrets := [v for v in values if not isinstance(v, list)]:
                self._bind(database, SECRET, {"secret": secrets})
            # As a part of the plan: sent as a command, a query would be analyzed once more.
            found, _, _ = session.client.to_table(SQL(sql).to_proto(session.client), {})
        except PySparkException as error:
            raise BackendRaised(str(error)[:300]) from error
        assert found is not None
        listed = zip(*(column.to_pylist() for column in found.columns), strict=True)
        return list(found.column_names), list(listed)

    def _bind(self, database: str, name: str, texts: dict[str, list[Any]]) -> None:
        """Makes a view of columns of texts, unless it is there."""
        if self._bound.get((database, name)) == texts:
            return
        _bind(self._sessions[database], name, texts)
        self._bound[database, name] = texts

    def close(self) -> None:
        """Ends the sessions."""
        for session in self._sessions.values():
            end(session)


SMALL = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""Settings for queries over a hundred rows, each asked a few times: to compile them takes longer than to interpret."""


def serving_small() -> AbstractContextManager[Server]:
    """A server in one process: small queries take it less time than one of several executors."""
    options = [part for name, value in SMALL.items() for part in ("--conf", f"{name}={value}")]
    return serving("local[2]", options=options)


def arrow(columns: str, rows: Sequence[tuple[object, ...]]) -> pa.Table:
    """Rows as Arrow has them; a day and a time as Spark keeps them, without a zone."""
    named = [tuple(part.split()[:2]) for part in columns.split(", ")]
    listed = list(zip(*rows, strict=True)) or [()] * len(named)
    arrays = [pa.array(list(map(_plain, v)), TYPES[of]) for (_, of), v in zip(named, listed, strict=True)]
    return pa.table(dict(zip([name for name, _ in named], arrays, strict=True)))


def _plain(value: object) -> object:
    return value.replace(tzinfo=None) if isinstance(value, dt.datetime) else value
