"""Worlds in which each column of each table has, row by row, the largest, smallest and strangest values of its type.

A row has one spoiled value, or all of its values are spoiled. What each statement sends to a backend has to run there
without an error: whether one comes would tell something of the person whose row it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import Any

import duckdb
import psycopg

from dpproxy.backends.base import BackendError, Cancellation, Slot
from dpproxy.backends.duckdb.adapter import _fetched
from dpproxy.backends.duckdb.schema import front_type
from rewriter.emit.clipped_totals import Vectors, averages_query, clipped_query, lengths_query
from rewriter.emit.engines.base import Engine
from rewriter.emit.histogram import histogram_query
from rewriter.emit.other_queries import QueryContext, bins_query, items_query, running_query, weights_query
from rewriter.ir.measure import Count, DistinctItems, Joint, Moment, Quantiles, Running, Total, Vector
from rewriter.logical.key_domains import known_cells
from rewriter.logical.plan import AggregateNode
from rewriter.logical.split import split_query
from rewriter.plan import Cells, HistogramQuery
from rewriter.policy import Column, Policy, Table, enumerated
from rewriter.refusal import Refusal
from rewriter.scalar.typecheck import Parameter, Parameters
from tests.rewriter.engine import MANY, texts
from tests.rewriter.values import VALUES

ENUM = "ENUM('b c', 'a')"
LETTERS = ("''", "'a'", "repeat('x', 400001)", "repeat('\U0001f600', 275000)", "repeat('a,\"\\', 133333)")
WHOLE = {
    "smallint": (-(1 << 15), (1 << 15) - 1, 0),
    "integer": (-(1 << 31), (1 << 31) - 1, 0, -1),
    "bigint": (-(1 << 63), (1 << 63) - 1, 0),
}
FLOATS = ("NaN", "Infinity", "-Infinity", "-0", "5e-324", "-5e-324", "1.7976931348623157e308", "1e154")
REALS = ("NaN", "Infinity", "-Infinity", "-0", "1e-45", "3.4028235e38", "-3.4028235e38")
NUMERICS = ("1e131071", "-1e131071", "1e-16383", "NaN", "Infinity", "-Infinity", "0.000", "1e38", "1e-40")
DAYS = ("4713-01-01 BC", "5874897-12-31", "infinity", "-infinity", "0001-01-01", "9999-12-31")
MOMENTS = (
    "4713-01-01 00:00:00 BC",
    "294276-12-31 23:59:59.999999",
    "infinity",
    "-infinity",
    "0001-01-01 00:00:00",
    "9999-12-31 23:59:59.999999",
)
LASTING = (
    "-178000000 years",
    "178000000 years",
    "2147483647 days",
    "-2147483648 days",
    "1 mon -30 days",
    "0",
)
DEEP = "repeat('[', 900) || repeat(']', 900)"


def _typed(values: Sequence[object], of: str) -> tuple[str, ...]:
    return tuple(f"CAST('{value}' AS {of})" for value in values)


POSTGRES_VALUES: dict[str, tuple[str, ...]] = {
    **{of: _typed(values, of) for of, values in WHOLE.items()},
    "numeric": (
        *_typed(NUMERICS, "numeric"),
        "CAST(repeat('9', 131072) || '.' || repeat('9', 16383) AS numeric)",
    ),
    "numeric(9,2)": _typed(("NaN", "9999999.99", "-9999999.99"), "numeric(9,2)"),
    "numeric(1000,500)": ("CAST(repeat('9', 500) || '.' || repeat('9', 500) AS numeric(1000,500))",),
    "double precision": _typed(FLOATS, "double precision"),
    "real": _typed(REALS, "real"),
    "text": LETTERS,
    "character varying(20)": ("''", "repeat('\U0001f600', 20)"),
    "character varying(200000)": ("repeat('\U0001f600', 200000)",),
    "character(5)": ("''", "repeat('\U0001f600', 5)"),
    "character(300000)": ("''", "repeat('\U0001f600', 300000)"),
    "boolean": ("true", "false"),
    "date": _typed(DAYS, "date"),
    "timestamp without time zone": _typed(MOMENTS, "timestamp"),
    "timestamp with time zone": _typed(MOMENTS, "timestamptz"),
    "time without time zone": _typed(("24:00", "00:00", "23:59:59.999999"), "time"),
    "time with time zone": _typed(("24:00-15:59", "00:00+15:59"), "timetz"),
    "interval": _typed(LASTING, "interval"),
    "uuid": _typed((f"{'0' * 8}-0000-0000-0000-{'0' * 12}", f"{'f' * 8}-ffff-ffff-ffff-{'f' * 12}"), "uuid"),
    "bytea": ("''", "CAST(repeat('x', 500000) AS bytea)", "'\\x00ff'"),
    "json": (
        "CAST('\"' || repeat('x', 400001) || '\"' AS json)",
        f"CAST({DEEP} AS json)",
        "'null'",
        "CAST('[' || repeat('1e131000,', 50000) || '1]' AS json)",
    ),
    "jsonb": (
        "CAST('[' || repeat('1e131000,', 8299) || '1]' AS jsonb)",
        f"CAST({DEEP} AS jsonb)",
        "'null'",
        "CAST('\"' || repeat('x', 400001) || '\"' AS jsonb)",
    ),
    "integer[]": (
        "'{}'",
        "array_fill(2147483647, ARRAY[1001])",
        "array_fill(-2147483648, ARRAY[10, 10, 10])",
        "'{NULL}'",
    ),
    "numeric[]": ("'{}'", "array_fill(CAST('1e131000' AS numeric), ARRAY[8300])", "'{NaN,NULL,Infinity}'"),
    "text[]": (
        "'{}'",
        "ARRAY[NULL, '', repeat('\"', 200001)]",
        "array_fill(repeat('\\', 399), ARRAY[1000])",
        "array_fill(CAST('x' AS text), ARRAY[1001])",
        "'[-5:-4][3:3]={{a},{NULL}}'",
    ),
    "bytea[]": ("'{}'", "ARRAY[CAST(repeat('x', 500000) AS bytea), NULL]"),
    "date[]": ("'{infinity,-infinity,NULL}'", "array_fill(CAST('5874897-12-31' AS date), ARRAY[1001])"),
    "json[]": ("ARRAY[CAST('\"' || repeat('x', 400001) || '\"' AS json), NULL]", "'{}'"),
    "jsonb[]": ("array_fill(CAST('[' || repeat('1e131000,', 99) || '1]' AS jsonb), ARRAY[100])", "'{NULL}'"),
}
DUCKDB_DAYS = ("5877642-06-25 (BC)", "5881580-07-10", "infinity", "-infinity", "0001-01-01", "9999-12-31")
DUCKDB_MOMENTS = (
    "290309-12-22 (BC) 00:00:00",
    "294247-01-10 04:00:54.775806",
    "infinity",
    "-infinity",
    "0001-01-01 00:00:00",
    "9999-12-31 23:59:59.999999",
)
DUCKDB_VALUES: dict[str, tuple[str, ...]] = {
    "SMALLINT": _typed(WHOLE["smallint"], "SMALLINT"),
    "INTEGER": _typed(WHOLE["integer"], "INTEGER"),
    "BIGINT": _typed(WHOLE["bigint"], "BIGINT"),
    "TINYINT": _typed((-128, 127), "TINYINT"),
    "UBIGINT": _typed(((1 << 64) - 1, 0), "UBIGINT"),
    "HUGEINT": _typed((-(1 << 127), (1 << 127) - 1, 0), "HUGEINT"),
    "UHUGEINT": _typed(((1 << 128) - 1, 0), "UHUGEINT"),
    "BIGNUM": (
        "CAST(repeat('9', 400) AS BIGNUM)",
        "CAST('-' || repeat('9', 50000) AS BIGNUM)",
        "CAST('7' AS BIGNUM)",
    ),
    "DECIMAL(38,0)": _typed(("9" * 38, "-" + "9" * 38, 0), "DECIMAL(38,0)"),
    "DECIMAL(38,38)": _typed(("0." + "9" * 38, "-0." + "9" * 38, "0." + "0" * 37 + "1"), "DECIMAL(38,38)"),
    "DECIMAL(38,10)": _typed(("9" * 28 + "." + "9" * 10, "-" + "9" * 28, "0.0000000001"), "DECIMAL(38,10)"),
    "DECIMAL(9,2)": _typed(("9999999.99", "-9999999.99"), "DECIMAL(9,2)"),
    "DOUBLE": _typed(FLOATS, "DOUBLE"),
    "FLOAT": _typed(REALS, "FLOAT"),
    "VARCHAR": (*LETTERS, "chr(0)", "'x' || chr(0) || 'y'"),
    "BOOLEAN": ("true", "false"),
    "DATE": _typed(DUCKDB_DAYS, "DATE"),
    "TIMESTAMP": _typed(DUCKDB_MOMENTS, "TIMESTAMP"),
    "TIMESTAMP WITH TIME ZONE": _typed(DUCKDB_MOMENTS, "TIMESTAMPTZ"),
    "TIMESTAMP_S": _typed(("290309-12-22 (BC) 00:00:00", "294247-01-10 04:00:54", "infinity"), "TIMESTAMP_S"),
    "TIMESTAMP_MS": _typed(
        ("290309-12-22 (BC) 00:00:00", "294247-01-10 04:00:54", "infinity"), "TIMESTAMP_MS"
    ),
    "TIMESTAMP_NS": _typed(
        ("1677-09-22 00:00:00", "2262-04-11 23:47:16.854775806", "infinity"), "TIMESTAMP_NS"
    ),
    "TIME": _typed(("24:00:00", "00:00:00", "23:59:59.999999"), "TIME"),
    "TIME WITH TIME ZONE": _typed(("23:59:59-15:59", "00:00:00+15:59"), "TIMETZ"),
    "INTERVAL": _typed(
        ("-178956970 years", "178956970 years", "2147483647 days", "1 month -30 days", "0 days"), "INTERVAL"
    ),
    "UUID": _typed((f"{'0' * 8}-0000-0000-0000-{'0' * 12}", f"{'f' * 8}-ffff-ffff-ffff-{'f' * 12}"), "UUID"),
    "BLOB": ("''::BLOB", "encode(repeat('x', 500000))", "'\\x00\\xFF'::BLOB"),
    "JSON": ("to_json(repeat('x', 400001))", f"CAST({DEEP} AS JSON)", "'null'::JSON"),
    ENUM: ("'a'", "'b c'"),
    "INTEGER[]": ("[]", "[2147483647 for i in range(1001)]", "[NULL, -2147483648]"),
    "DECIMAL(38,10)[]": ("[]", f"[{'9' * 28}.5::DECIMAL(38,10), NULL]"),
    "BIGNUM[]": ("[CAST(repeat('9', 50000) AS BIGNUM), NULL]",),
    "VARCHAR[]": ("[]", "[NULL, '', repeat('\"', 200001)]", "[chr(0)]", "['x' for i in range(1001)]"),
    "BLOB[]": ("[encode(repeat('x', 500000)), NULL]",),
    "TIMESTAMP_NS[]": ("['2262-04-11 23:47:16.854775806'::TIMESTAMP_NS, NULL, 'infinity'::TIMESTAMP_NS]",),
    "DATE[]": ("['infinity'::DATE, '5877642-06-25 (BC)'::DATE]",),
    "DOUBLE[]": ("['nan'::DOUBLE, '-0'::DOUBLE, 'infinity'::DOUBLE]",),
    "INTEGER[3]": ("[1, NULL, 3]::INTEGER[3]",),
    "FLOAT[3]": ("['nan', NULL, '-0']::FLOAT[3]",),
}
SPARK_DAYS = ("0001-01-01", "9999-12-31", "-262143-01-01", "+262142-12-31")
SPARK_MOMENTS = (
    "0001-01-01 00:00:00",
    "9999-12-31 23:59:59.999999",
    "-262143-01-01 00:00:00",
    "+262142-12-31 23:59:59",
)
SPARK_VALUES: dict[str, tuple[str, ...]] = {
    "TINYINT": _typed((-128, 127), "TINYINT"),
    "SMALLINT": _typed(WHOLE["smallint"], "SMALLINT"),
    "INT": _typed(WHOLE["integer"], "INT"),
    "BIGINT": _typed(WHOLE["bigint"], "BIGINT"),
    "DECIMAL(38,0)": DUCKDB_VALUES["DECIMAL(38,0)"],
    "DECIMAL(38,38)": DUCKDB_VALUES["DECIMAL(38,38)"],
    "DECIMAL(38,10)": DUCKDB_VALUES["DECIMAL(38,10)"],
    "DECIMAL(9,2)": DUCKDB_VALUES["DECIMAL(9,2)"],
    "DOUBLE": _typed(FLOATS, "DOUBLE"),
    "FLOAT": _typed(REALS, "FLOAT"),
    "STRING": (*(text.replace("\\", "\\\\") for text in LETTERS), "chr(0)"),
    "BOOLEAN": ("true", "false"),
    "DATE": _typed(SPARK_DAYS, "DATE"),
    "TIMESTAMP_NTZ": _typed(SPARK_MOMENTS, "TIMESTAMP_NTZ"),
    "TIMESTAMP": _typed(SPARK_MOMENTS, "TIMESTAMP"),
}
NATIVE = {
    "smallint": "SMALLINT",
    "integer": "INTEGER",
    "bigint": "BIGINT",
    "text": "VARCHAR",
    "numeric": "DECIMAL(38,10)",
    "numeric(9,2)": "DECIMAL(9,2)",
    "double precision": "DOUBLE",
    "real": "FLOAT",
    "boolean": "BOOLEAN",
    "date": "DATE",
    "timestamp without time zone": "TIMESTAMP",
    "timestamp with time zone": "TIMESTAMP WITH TIME ZONE",
    "time without time zone": "TIME",
}
"""DuckDB's types of the columns of other tests."""
ODD_STATEMENTS = (
    "SELECT count({c}) FROM odd",
    "SELECT count(*) FROM odd WHERE {c} IS NULL",
    "SELECT {c}, count(*) FROM odd GROUP BY {c}",
    "SELECT {c}, count(*) AS n FROM odd GROUP BY {c} ORDER BY n DESC LIMIT 5",
    "SELECT {c}, k, sum(k) FROM odd GROUP BY {c}, k",
    "SELECT count(DISTINCT {c}) FROM odd",
    "SELECT count(DISTINCT ({c}, k)) FROM odd",
    "SELECT count(*) FROM (SELECT DISTINCT id, {c} FROM odd) x",
    "SELECT {c}, count(*) FROM (SELECT DISTINCT id, {c} FROM odd) x GROUP BY {c}",
    "SELECT count(*) FROM (SELECT id, {c}, count(*) AS n FROM odd GROUP BY id, {c}) x WHERE n > 1",
    "SELECT count(*) FROM (SELECT id, count(DISTINCT {c}) AS n FROM odd GROUP BY id) x WHERE n > 1",
    "SELECT count(*) FROM (SELECT id, min({c}) AS a, max({c}) AS b FROM odd GROUP BY id) x WHERE a = b",
    "SELECT count(*) FROM (SELECT id, max({c}) OVER (PARTITION BY id) AS b FROM odd) x WHERE b IS NULL",
    "SELECT count(*) FROM (SELECT id, row_number() OVER (PARTITION BY id ORDER BY {c}) AS r FROM odd) x WHERE r = 1",
    "SELECT count(*) FROM (SELECT id, rank() OVER (PARTITION BY id ORDER BY {c} DESC) AS r FROM odd) x WHERE r = 1",
    "SELECT count(*) FROM (SELECT id, row_number() OVER (PARTITION BY id, {c} ORDER BY k) AS r FROM odd) x WHERE r = 1",
    "SELECT count(*) FROM (SELECT id, lag({c}) OVER (PARTITION BY id ORDER BY k) AS m FROM odd) x WHERE m IS NULL",
    "SELECT count(*) FROM (SELECT DISTINCT ON (id) id, k FROM odd ORDER BY id, {c}) x",
    "SELECT count(*) FROM (SELECT DISTINCT ON (id, {c}) id, k FROM odd) x",
    "SELECT count(*) FROM (SELECT id, {c} FROM odd UNION SELECT id, {c} FROM odd) x",
    "SELECT count(*) FROM (SELECT id, {c} FROM odd INTERSECT SELECT id, {c} FROM odd WHERE k > 1) x",
    "SELECT count(*) FROM (SELECT id, {c} FROM odd UNION ALL SELECT id, {c} FROM odd WHERE k > 1) x",
    "SELECT count(*) FROM odd a JOIN odd b ON a.id = b.id AND a.{c} = b.{c}",
    "SELECT count(*) FROM odd a JOIN odd b ON a.id = b.id AND a.{c} IS NOT DISTINCT FROM b.{c}",
    "SELECT count(*) FROM odd a WHERE {c} IN (SELECT {c} FROM odd b WHERE a.id = b.id)",
    "SELECT count(*) FROM odd WHERE {c} > (CASE WHEN k > 1 THEN {c} END)",
    "SELECT count(*) FROM odd WHERE coalesce({c}, {c}) IS NOT NULL AND nullif({c}, {c}) IS NULL",
    "SELECT count(*) FROM odd WHERE greatest({c}, {c}) IS NOT NULL",
    "SELECT {c}::text, count(*) FROM odd GROUP BY 1",
    "SELECT count(*) FROM odd WHERE {c}::text || 'x' = 'y'",
    "SELECT count(*) FROM odd WHERE {c}::float8 > 1",
    "SELECT count(*) FROM odd WHERE {c}::numeric(12,2) > 1",
    "SELECT count(*) FROM odd WHERE {c}::numeric::numeric(38,10) > 1 OR {c}::numeric(38,38) > 0",
    "SELECT count(*) FROM odd WHERE {c}::numeric(38,0) > 1 OR {c} = '{{1,2}}' OR {c} = '{{}}'",
    "SELECT count(*) FROM odd WHERE {c} * 2 + 1 > 1 OR {c} / 3 > 1 OR -{c} > 0",
    "SELECT sum(least(greatest({c}, 0), 10)), avg(least(greatest({c}, 0), 10)) FROM odd",
    "SELECT count(*) FROM odd WHERE {c} > 1e300",
    "SELECT count(*) FROM odd WHERE {c} BETWEEN -1.5 AND 99999999999999999999999",
    "SELECT upper({c}), count(*) FROM odd GROUP BY 1",
    "SELECT count(*) FROM odd WHERE {c} ILIKE '%a_b%' OR {c} ~ '(a|b)*$' OR replace({c}, 'a', 'bb') = 'x'",
    "SELECT extract(epoch FROM {c}), count(*) FROM odd GROUP BY 1",
    "SELECT date_trunc('week', {c}), count(*) FROM odd GROUP BY 1",
    "SELECT count(*) FROM odd WHERE {c} > '2024-01-01' OR {c} + interval '1 day' > '2024-01-01'",
    "SELECT count(*) FROM odd WHERE 'x' = ANY ({c})",
)
LARGE = {
    "text": ("repeat('x', 300000000)",),
    "bytea": ("CAST(repeat('x', 300000000) AS bytea)",),
    "json": ("CAST('\"' || repeat('x', 300000000) || '\"' AS json)",),
    "text[]": ("ARRAY[repeat('x', 300000000)]",),
    "VARCHAR": ("repeat('x', 300000000)",),
    "BLOB": ("encode(repeat('x', 300000000))",),
    "JSON": ("to_json(repeat('x', 300000000))",),
    "VARCHAR[]": ("[repeat('x', 300000000)]",),
}
"""Values that take seconds and gigabytes."""
PLACES = 4
"""Bins, items and lengths of the queries that have them."""


@dataclass(frozen=True)
class World:
    """Tables of an engine by a policy; `together`: some rows have spoiled values alone."""

    policy: Policy
    types: dict[str, dict[str, str]]
    values: dict[str, tuple[str, ...]]
    together: bool = True

    def made(self) -> Iterator[str]:
        """CREATE and INSERT statements."""
        for table, columns in self.types.items():
            written = ", ".join(f"{name} {of}" for name, of in columns.items())
            yield f"CREATE TABLE {table} ({written})"
            for row in self.rows(columns):
                yield f"INSERT INTO {table} VALUES ({', '.join(row)})"

    def rows(self, columns: dict[str, str]) -> Iterator[list[str]]:
        """One spoiled value beside ordinary ones, for each column and value; then all of them spoiled."""
        numbers = count(1)

        def ordinary(of: str) -> str:
            values = self.values[of]
            return f"CAST({next(numbers)} AS {of})" if of.lower() == "bigint" else values[-1]

        for name, of in columns.items():
            for value in (*self.values[of], "NULL"):
                yield [value if name == other else ordinary(kind) for other, kind in columns.items()]
        most = max(len(self.values[of]) for of in columns.values())
        for place in range(most if self.together else 0):
            yield [self.values[of][place % len(self.values[of])] for of in columns.values()]


def odd(values: dict[str, tuple[str, ...]]) -> World:
    """A table with a column of each type."""
    duck = "VARCHAR" in values
    native = {"id": "BIGINT" if duck else "bigint", "k": "INTEGER" if duck else "integer"}
    native |= {f"c{n}": of for n, of in enumerate(values)}
    columns = []
    for name, of in native.items():
        if of == ENUM:
            columns.append(Column(name, enumerated("public", "odd_type", ("b c", "a")), sized=True))
            continue
        columns.append(Column(name, (front_type(of) or of) if duck else of))
    table = Table("public", "odd", tuple(columns), False, ("odd",), privacy_unit="id", max_rows_per_unit=5)
    return World(Policy({("public", "odd"): table}), {"odd": native}, values)


def odd_spark(front_type: Callable[[str], str | None]) -> World:
    """A table with a column of each type that is shown of Spark's; `front_type`: what each is in the front."""
    native = {"id": "BIGINT", "k": "INT"} | {f"c{n}": of for n, of in enumerate(SPARK_VALUES)}
    columns = tuple(Column(name, front_type(of.lower()) or "") for name, of in native.items())
    table = Table("public", "odd", columns, False, ("odd",), privacy_unit="id", max_rows_per_unit=5)
    return World(Policy({("public", "odd"): table}), {"odd": native}, SPARK_VALUES)


def of_policy(policy: Policy, values: dict[str, tuple[str, ...]]) -> World:
    """The tables of a policy of other tests."""
    duck = values is DUCKDB_VALUES
    types = {
        table.backend_name[-1]: {c.name: NATIVE[c.type] if duck else c.type for c in table.columns}
        for table in policy.tables.values()
    }
    return World(policy, types, values)


def functions() -> Policy:
    return Policy({("public", "vals"): replace(VALUES, max_rows_per_unit=5)})


def nodes_of(sql: str, policy: Policy) -> list[tuple[AggregateNode, Parameters]]:
    """The nodes of a statement that is not refused."""
    listed = [Parameter("integer[]", "{2,1,1}", name="n"), Parameter("text[]", "{a,NULL,b}", name="label")]
    try:
        found = split_query(sql, policy, read_rows=lambda *_: listed)
    except Refusal:
        return []
    return [(n, found.values) for n in found.nodes if isinstance(n, AggregateNode)]


def emitted(
    node: AggregateNode, values: Parameters, policy: Policy, dialect: Engine, front: psycopg.Connection
) -> Iterator[HistogramQuery]:
    """All that an engine is asked about a node. Its cells are those of the front, or none."""
    backend, delta0, wide = QueryContext(policy, values, dialect), node.bound.value, len(node.keys)
    cells: Cells | None = None if node.keys else ((),)
    if node.keys:
        with suppress(psycopg.Error):  # a domain that PostgreSQL cannot read is refused
            cells = known_cells(node.relation, node.keys, policy, values, partial(texts, front))
    listed: Cells = cells or ((None,) * wide,)
    if node.measures and isinstance(node.measures[0], Running):
        yield running_query(node, ("2024-01-01", None), backend)
        return
    if not node.measures and node.keys:
        yield weights_query(node, (), 3, 0, backend)
        yield weights_query(node, ("mark",), 3, 1, backend, marked=True)
        return
    numbers = tuple(m for m in node.measures if isinstance(m, (Count, Moment)))
    if numbers:
        counted = replace(node, measures=numbers, order_by=0)
        yield histogram_query(counted, policy, values, cells, delta0, 10, dialect)
        if cells is None:
            yield histogram_query(counted, policy, values, listed, delta0, 10, dialect)
    for place, measure in enumerate(node.measures):
        if isinstance(measure, Quantiles) and measure.value.lo is not None:
            yield bins_query(node, place, listed, PLACES, delta0, backend)
        elif isinstance(measure, DistinctItems):
            yield items_query(node, place, listed, PLACES, delta0, backend)
    units = tuple(
        Total(None, m.argument, 1, once=True) for m in numbers if isinstance(m, Count) and not m.items
    )
    for totals in (node, replace(node, measures=units)):
        yield from _totals(totals, listed, backend)


def _totals(node: AggregateNode, cells: Cells, backend: QueryContext) -> Iterator[HistogramQuery]:
    measures = [(n, m) for n, m in enumerate(node.measures) if isinstance(m, (Total, Joint))]
    if not measures or any(m.value is not None and m.value.lo is None for _, m in measures):
        return
    vectors = [Vector(n) if isinstance(m, Total) else Vector(n, -7, m.least) for n, m in measures]
    every = Vectors(node, vectors, cells, backend)
    yield lengths_query(every, PLACES, 64)
    joint = [v for v in vectors if isinstance(node.measures[v.place], Joint)]
    if joint:
        yield averages_query(replace(every, vectors=joint), PLACES, 64)
    yield clipped_query(every, [(3 * anchor, 1024) for anchor in every.anchors])


Asked = duckdb.DuckDBPyConnection | psycopg.Connection | Slot


def run(query: HistogramQuery, engine: Asked) -> None:
    """Run a query and fetch its rows; raises what the engine raises."""
    bound: list[Any] = [list(a) for a in query.arrays] + (["secret"] if query.rank_key else [])
    if isinstance(engine, psycopg.Connection):
        psycopg.RawCursor(engine).execute(query.sql.encode(), bound or None)
    elif isinstance(engine, duckdb.DuckDBPyConnection):
        _fetched(engine, query.sql, bound, query, MANY)
    else:
        engine.fetch(query, "secret", Cancellation(), MANY)


def failures(
    statements: Sequence[str],
    world: World,
    dialect: Engine,
    engine: Asked,
    front: psycopg.Connection,
) -> tuple[int, list[str]]:
    """How many queries were run for the statements that are answered, and those at which the engine raised."""
    queries, found = 0, []
    for sql in statements:
        nodes = nodes_of(sql, world.policy)
        if not nodes or not accepted(sql, front):
            continue
        for node, values in nodes:
            try:
                asked = list(emitted(node, values, world.policy, dialect, front))
            except Refusal:
                continue
            for query in asked:
                queries += 1
                try:
                    run(query, engine)
                except (duckdb.Error, psycopg.Error, BackendError) as error:
                    said = error.message if isinstance(error, BackendError) and error.message else str(error)
                    found.append(f"{sql}\n    {type(error).__name__}: {said[:300]}")
    return queries, found


def accepted(sql: str, front: psycopg.Connection) -> bool:
    """Whether PostgreSQL itself takes a statement over the types of the front."""
    try:
        with front.transaction(force_rollback=True):
            front.execute(f"PREPARE q AS {sql}".encode())
    except psycopg.Error:
        return False
    front.execute("DEALLOCATE q")
    return True
