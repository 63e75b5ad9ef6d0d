"""What every backend does; docs/backends.md says how another one joins."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import duckdb
import numpy as np
import pytest

from dpproxy.backends import connect
from dpproxy.backends.base import (
    Backend,
    BackendError,
    BackendUnavailable,
    Cancellation,
    Cancelled,
    Fetched,
    ForeignKey,
)
from dpproxy.backends.duckdb.adapter import DuckDBBackend
from rewriter.plan import HistogramQuery
from rewriter.policy import Column, Table, enumerated
from tests.dpproxy.postgres_data import databases
from tests.spark_server import owner, url, with_spark

pytestmark = pytest.mark.service

Make = Callable[[Sequence[str]], Backend]
SPARK_ENDLESS = "SELECT count(*) FROM range(100000000000) AS a CROSS JOIN range(1000000) AS b"
ENDLESS = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n % 7 + 1 FROM r) SELECT count(*) FROM r"
SHOP = (
    "CREATE SCHEMA app",
    "CREATE TYPE size AS ENUM ('small', 'it''s large')",
    "CREATE TABLE users (user_id BIGINT PRIMARY KEY, country TEXT, birth_year INTEGER, email TEXT)",
    "CREATE TABLE products (product_id INTEGER PRIMARY KEY, name TEXT NOT NULL, color TEXT)",
    "CREATE TABLE orders (order_id BIGINT PRIMARY KEY, user_id BIGINT REFERENCES users (user_id), placed TIMESTAMP)",
    "CREATE TABLE items (order_id BIGINT REFERENCES orders (order_id), product_id INTEGER REFERENCES "
    "products (product_id), size size, price DECIMAL(9, 2), UNIQUE (order_id, product_id))",
    "CREATE TABLE app.visits (visitor BIGINT, page TEXT, seen TIMESTAMP WITH TIME ZONE)",
    "COMMENT ON TABLE users IS 'Who buys'",
    "COMMENT ON COLUMN users.country IS 'Where it''s sent'",
    "INSERT INTO users VALUES (1, 'DE', 1970, 'a@b'), (2, 'FR', NULL, 'c@d'), (3, NULL, 1990, NULL)",
    "INSERT INTO products VALUES (1, 'cup', 'red'), (2, 'plate', 'red'), (3, 'fork', NULL)",
)
SPARK_SHOP = (
    "CREATE TABLE users (user_id BIGINT, country STRING COMMENT 'Where it''s sent', birth_year INT, email STRING) "
    "USING parquet COMMENT 'Who buys'",
    "CREATE TABLE products (product_id INT, name STRING, color STRING) USING parquet",
    "CREATE TABLE orders (order_id BIGINT, user_id BIGINT, placed TIMESTAMP_NTZ, weight FLOAT) USING parquet",
    "CREATE TABLE items (order_id BIGINT, product_id INT, size CHAR(5), price DECIMAL(9, 2), label VARCHAR(7), "
    "tags ARRAY<STRING>, name STRING COLLATE UTF8_LCASE) USING parquet",
    "CREATE DATABASE IF NOT EXISTS app",
    "CREATE TABLE app.visits (visitor BIGINT, page STRING, seen TIMESTAMP_LTZ) USING parquet",
    *SHOP[-2:],
)


@pytest.fixture(scope="module", params=["duckdb", "postgres", pytest.param("spark", marks=with_spark)])
def make(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Make]:
    folder: Path = tmp_path_factory.mktemp(request.param)
    opened: list[Backend] = []

    def of_url(url: str) -> Backend:
        opened.append(connect(url, folder=folder, memory="500MB", slots=2, seconds=60))
        return opened[-1]

    if request.param == "duckdb":

        def made(statements: Sequence[str]) -> Backend:
            name = f"data{len(opened)}.duckdb"
            with duckdb.connect(folder / name) as database:
                for statement in statements:
                    database.execute(statement)
            return of_url(f"duckdb:///{name}")

        yield made
    elif request.param == "spark":
        with owner() as session:

            def made_in_spark(statements: Sequence[str]) -> Backend:
                for statement in SPARK_SHOP if statements is SHOP else map(in_spark, statements):
                    if found := re.match(r"CREATE TABLE (\S+)", statement):
                        session.sql(f"DROP TABLE IF EXISTS {found[1]}")
                    session.sql(statement)
                return of_url(url())

            yield made_in_spark
        for backend in opened:
            backend.close()
    else:
        with databases(folder / "server") as server:
            yield lambda statements: of_url(server.url(server.make(statements)))
            for backend in opened:
                backend.close()


def in_spark(sql: str) -> str:
    """A plain statement in Spark's words."""
    ends = re.sub(r"generate_series\((\d+), (\d+)\)", lambda m: f"range({m[1]}, {int(m[2]) + 1})", sql)
    return ends.replace(" AS TEXT", " AS STRING").replace(" UNIQUE", "")


def spoken(backend: Backend, sql: str, spark: str = "") -> str:
    """A statement in the backend's words; `spark`: those of Spark, where they are others altogether."""
    return (spark or in_spark(sql)) if backend.dialect.partial else sql


@pytest.fixture(scope="module")
def backend(make: Make) -> Backend:
    return make(SHOP)


def fetch(backend: Backend, sql: str, *arrays: tuple[str | None, ...], most: int = 1000) -> Fetched:
    with backend.open() as slot:
        return slot.fetch(HistogramQuery(spoken(backend, sql), arrays, False, None), "", Cancellation(), most)


def public(*columns: Column, name: str = "products") -> Table:
    return Table("public", name, columns, True, ("public", name), in_front=True)


def of(backend: Backend, table: Table) -> Table:
    """The table under the name that it has in the backend."""
    name = backend.schema().tables[table.schema, table.name].backend_name
    return Table(table.schema, table.name, table.columns, table.public, name, privacy_unit=table.privacy_unit)


def test_schema(backend: Backend) -> None:
    tables = backend.schema().tables
    if backend.dialect.partial:
        pytest.skip("Spark has no keys and no enumerated types")
    assert set(tables) == {
        *(("public", name) for name in ("users", "products", "orders", "items")),
        ("app", "visits"),
    }
    users, items = tables["public", "users"], tables["public", "items"]
    assert (users.comment, users.columns[1].comment) == ("Who buys", "Where it's sent")
    assert [column.type for column in users.columns] == ["bigint", "text", "integer", "text"]
    assert users.primary_key == ("user_id",)
    assert [column.nullable for column in users.columns] == [False, True, True, True]
    assert items.primary_key is None
    assert items.unique == (("order_id", "product_id"),)
    assert items.foreign_keys == (
        ForeignKey(("order_id",), ("public", "orders"), ("order_id",)),
        ForeignKey(("product_id",), ("public", "products"), ("product_id",)),
    )
    size = items.column("size")
    assert size is not None
    labels = ("small", "it's large")
    named = enumerated("public", "size", labels)
    in_front = ("text", named) if isinstance(backend, DuckDBBackend) else (named, None)
    assert (size.type, size.enum, size.values) == (*in_front, labels)
    assert size.copied is isinstance(backend, DuckDBBackend)
    seen = tables["app", "visits"].column("seen")
    assert seen is not None
    assert seen.type == "timestamp with time zone"


@pytest.mark.parametrize("make", [pytest.param("spark", marks=with_spark)], indirect=True)
def test_schema_of_spark(make: Make) -> None:
    tables = make(SPARK_SHOP).schema().tables
    users, items = tables["public", "users"], tables["public", "items"]
    assert (users.comment, users.columns[1].comment) == ("Who buys", "Where it's sent")
    assert users.backend_name == ("spark_catalog", "default", "users")
    assert [column.type for column in items.columns] == [
        *("bigint", "integer", None, "numeric(9,2)", "character varying(7)", None, None)
    ]
    assert (users.primary_key, users.unique, users.keeps_keys) == (None, (), False)
    assert all(column.nullable for column in users.columns)
    orders, visits = tables["public", "orders"], tables["app", "visits"]
    assert [column.type for column in orders.columns[2:]] == ["timestamp without time zone", "real"]
    assert visits.columns[2].type == "timestamp with time zone"


@pytest.mark.parametrize("make", ["duckdb", "postgres"], indirect=True)
def test_unique_indexes_over_columns_are_constraints(make: Make) -> None:
    backend = make(
        (
            'CREATE TABLE t ("a b" INTEGER, c INTEGER, d INTEGER)',
            'CREATE UNIQUE INDEX i ON t ("a b", c)',
            "CREATE UNIQUE INDEX j ON t ((d + 1))",
            "CREATE INDEX k ON t (d)",
        )
    )
    assert backend.schema().tables["public", "t"].unique == (("a b", "c"),)


def test_arrays_and_the_rank_key_are_bound(backend: Backend) -> None:
    sql = (
        "SELECT x, y, CAST($3 AS TEXT) FROM (SELECT unnest(CAST($1 AS TEXT[])) AS x, "
        "unnest(CAST($2 AS TEXT[])) AS y) AS q ORDER BY y"
    )
    view = "SELECT a0, a1, (SELECT secret FROM dpproxy_secret) AS s FROM dpproxy_cells ORDER BY cell"
    query = HistogramQuery(spoken(backend, sql, view), (("é", None, ""), ("1", "2", "3")), True, None)
    with backend.open() as slot:
        fetched = slot.fetch(query, "secret", Cancellation(), 10)
    assert fetched.rows == 3
    assert fetched.texts(0) == ("é", None, "")
    assert fetched.texts(2) == ("secret",) * 3


def test_counts_are_int64_in_the_order_that_was_asked_for(backend: Backend) -> None:
    sql = (
        "SELECT CAST(i AS TEXT) AS g, CAST(sum(i % 7919) AS BIGINT) AS c FROM generate_series(0, 199999) AS t(i) "
        "GROUP BY i ORDER BY c DESC, i"
    )
    fetched = fetch(backend, sql, most=200_000)
    counts = fetched.counts(1)
    assert counts.dtype == np.int64
    assert counts.shape == (200_000,)
    assert (np.diff(counts) <= 0).all()
    assert fetched.texts(0)[0] == "7918"


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("CAST('infinity' AS DATE)", "infinity"),
        ("CAST('2024-01-01 10:00:00.5' AS TIMESTAMP)", "2024-01-01 10:00:00.5"),
        ("CAST('2024-01-01 10:00:00+02' AS TIMESTAMPTZ)", "2024-01-01 08:00:00+00"),
        ("CAST('24:00:00' AS TIME)", "24:00:00"),
        ("CAST(0.1 AS REAL)", "0.1"),
        ("CAST(1.50 AS DECIMAL(9,2))", "1.50"),
        ("CAST('A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11' AS UUID)", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
        ("7", "7"),
        ("true", "true"),
        ("CAST(NULL AS INTEGER)", None),
    ],
)
def test_keys_as_postgresql_reads_them(backend: Backend, value: str, written: str | None) -> None:
    if backend.dialect.partial:
        if any(word in value for word in ("infinity", " TIME)", "UUID")):
            pytest.skip("Spark has no such values")
        value = value.replace("TIMESTAMPTZ", "TIMESTAMP_LTZ")
    assert fetch(backend, f"SELECT {value}").texts(0) == (written,)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT CAST(email AS INTEGER) FROM users",
        "SELECT no_such_column FROM users",
        "SELEC 1",
        "CREATE TABLE t (x INTEGER)",
        "DELETE FROM users",
        "INSERT INTO users VALUES (9)",
        "SELECT 1; SELECT 2; CREATE TABLE t (x INTEGER)",
    ],
)
def test_what_the_backend_says_is_withheld(backend: Backend, sql: str) -> None:
    raising = "SELECT raise_error(email) FROM users" if "CAST" in sql else ""
    with pytest.raises(BackendError) as caught:
        fetch(backend, spoken(backend, sql, raising))
    assert str(caught.value) == "the backend could not run this query"
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)


def test_a_slot_works_on_after_an_error(backend: Backend) -> None:
    with backend.open() as slot:
        with pytest.raises(BackendError):
            slot.fetch(HistogramQuery("SELEC", (), False, None), "", Cancellation(), 10)
        assert slot.fetch(HistogramQuery("SELECT 1", (), False, None), "", Cancellation(), 10).rows == 1


def test_one_row_more_than_asked_for_shows_that_there_are_more(backend: Backend) -> None:
    sql = "SELECT i FROM generate_series(1, {}) AS t(i)"
    assert fetch(backend, sql.format(5), most=5).rows == 5
    assert fetch(backend, sql.format(0), most=5).counts(0).tolist() == []
    assert fetch(backend, sql.format(2000), most=5).rows == 6
    assert len(fetch(backend, sql.format(2000), most=5).counts(0)) == 6


def test_a_fetched_histogram_is_not_shown(backend: Backend) -> None:
    fetched = fetch(backend, "SELECT 4711")
    assert "4711" not in repr(fetched) + str(fetched)


@pytest.mark.parametrize("seconds", [0.0, 0.3])
def test_cancelling(backend: Backend, seconds: float) -> None:
    cancellation = Cancellation()
    query = HistogramQuery(spoken(backend, ENDLESS, SPARK_ENDLESS), (), False, None)
    timer = threading.Timer(seconds, cancellation.cancel)
    if seconds:
        timer.start()
    else:
        cancellation.cancel()
    started = time.monotonic()
    with backend.open() as slot:
        with pytest.raises(Cancelled) as caught:
            slot.fetch(query, "", cancellation, 10)
        assert slot.fetch(HistogramQuery("SELECT 1", (), False, None), "", Cancellation(), 10).rows == 1
    assert time.monotonic() - started < 10
    assert caught.value.__context__ is None


def test_no_hook_stays_behind(backend: Backend) -> None:
    cancellation = Cancellation()
    with backend.open() as slot:
        slot.fetch(HistogramQuery("SELECT 1", (), False, None), "", cancellation, 10)
    threads = threading.active_count()
    cancellation.cancel()
    assert threading.active_count() == threads


def test_the_time_zone_is_utc(backend: Backend) -> None:
    sql = "SELECT current_setting('TimeZone'), CAST(CAST('2024-01-01 00:00:00+00' AS TIMESTAMPTZ) AS TEXT)"
    zoned = "CAST('2024-01-01 00:00:00+00' AS TIMESTAMP_LTZ)"
    fetched = fetch(backend, spoken(backend, sql, f"SELECT current_timezone(), {zoned}"))
    assert fetched.texts(0) == ("UTC",)
    assert fetched.texts(1) == ("2024-01-01 00:00:00+00",)


def test_slots_are_bounded(backend: Backend) -> None:
    taken = threading.Event()

    def third() -> None:
        with backend.open():
            taken.set()

    thread = threading.Thread(target=third)
    with backend.open():
        with backend.open():
            thread.start()
            assert not taken.wait(0.2)
        assert taken.wait(5)
    thread.join()


def test_a_slot_that_was_given_back(backend: Backend) -> None:
    with backend.open() as slot:
        pass
    with pytest.raises(ValueError, match="given back"):
        slot.fetch(HistogramQuery("SELECT 1", (), False, None), "", Cancellation(), 1)


def test_public_rows(backend: Backend) -> None:
    columns = (Column("name", "text"), Column("color", "text"), Column("product_id", "integer", hidden=True))
    table = of(backend, public(*columns))
    assert sorted(backend.read_public(table), key=str) == [("cup", "red"), ("fork", None), ("plate", "red")]
    assert backend.count(table) == 3
    assert not backend.repeats(table, ["product_id"])
    assert backend.repeats(table, ["color"])
    assert not backend.repeats(table, ["color", "name"])


def test_public_rows_that_the_owner_lets_pass(backend: Backend) -> None:
    """The condition and what is computed may read columns that the policy does not know."""
    twice = Column("twice", "integer", expression="product_id * 2")
    table = replace(of(backend, public(Column("name", "text"), twice)), where="color = 'red'")
    assert sorted(backend.read_public(table)) == [("cup", "2"), ("plate", "4")]
    assert backend.count(table) == 2
    assert not backend.repeats(table, ["twice"])
    assert backend.repeats(replace(table, columns=(replace(twice, expression="product_id * 0"),)), ["twice"])


@pytest.mark.parametrize(
    ("expression", "kind"),
    [
        ("birth_year > 1980 AND users.email IS NULL", "boolean"),
        ("birth_year * 2", "integer"),
        ("lower(country)", "text"),
        ("CAST(CASE WHEN country IN ('DE', 'FR') THEN 1.5 END AS DECIMAL(5, 2))", "numeric(5,2)"),
        ("CAST(current_date AS date)", "date"),
    ],
)
def test_expressions_have_the_backends_types(backend: Backend, expression: str, kind: str) -> None:
    found = backend.computed(backend.schema().tables["public", "users"], "x", expression)
    assert (found.name, found.type, found.nullable) == ("x", kind, True)


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("no_such_column IS NULL", "does not take it"),
        ("x", "does not take it"),
        ("country +", "not understood"),
        ("country IS NULL) OR (true", "not understood"),
        ("country IS NULL; SELECT 1", "not understood"),
        ("country IS NULL AS y", "not understood"),
        ("country IS NULL -- for now", "comment"),
        ("country = 'D\nE'", "line break"),
        ("EXISTS (SELECT 1 FROM orders)", "subquery"),
        ("user_id IN (SELECT user_id FROM orders)", "subquery"),
        ("count(*) > 1", r"\*"),
        ("country = $1", "parameter"),
        ("max(birth_year) > 1", "does not take it"),
        ("row_number() OVER () > 1", "does not take it"),
        ("random() < 0.5", "random, which may depend on more"),
    ],
)
def test_expressions_that_are_none_of_one_row(backend: Backend, expression: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        backend.computed(backend.schema().tables["public", "users"], "x", expression)


def test_functions_of_the_backends_own_may_read_tables(make: Make) -> None:
    """A macro, or a function in SQL that is not immutable, has a text that reads what it likes."""
    made = make(("CREATE TABLE t (x INTEGER)",))
    if made.dialect.partial:
        pytest.skip("functions of Spark's users are in the JVM or in Python")
    functions: tuple[str, ...]
    if isinstance(made, DuckDBBackend):
        functions = ("CREATE MACRO spy(y) AS (SELECT count(*) FROM t) > y",)
    else:
        body = "FUNCTION {} LANGUAGE sql {} RETURN {}"
        functions = (
            "CREATE "
            + body.format("spy(y INTEGER) RETURNS BOOLEAN", "STABLE", "(SELECT count(*) > y FROM t)"),
            "CREATE " + body.format("pure(y INTEGER) RETURNS INTEGER", "IMMUTABLE", "y + 1"),
        )
    backend = make(("CREATE TABLE t (x INTEGER)", *functions))
    schema = "main" if isinstance(made, DuckDBBackend) else "public"
    table = backend.schema().tables["public", "t"]
    for call in (f"{schema}.spy(x)", f'{schema}."spy"(x)', f"NOT {schema}.SPY (x)"):
        with pytest.raises(ValueError, match="calls spy"):
            backend.computed(table, "x", call)
    if schema == "public":
        assert backend.computed(table, "x", "public.pure(x)").type == "integer"


def test_nulls_repeat(make: Make) -> None:
    backend = make(("CREATE TABLE t (x INTEGER UNIQUE)", "INSERT INTO t VALUES (1), (NULL), (NULL)"))
    assert backend.repeats(of(backend, public(Column("x", "integer"), name="t")), ["x"])


def test_public_rows_are_read_in_portions(make: Make) -> None:
    backend = make(
        ("CREATE TABLE t (x INTEGER)", "INSERT INTO t SELECT i FROM generate_series(1, 25000) AS g(i)")
    )
    rows = backend.read_public(of(backend, public(Column("x", "integer"), name="t")))
    assert next(rows)[0] is not None
    assert sum(1 for _ in rows) == 24_999


def test_a_public_table_that_is_gone(backend: Backend) -> None:
    with pytest.raises(BackendError) as caught:
        next(backend.read_public(public(Column("x", "integer"), name="gone")))
    assert caught.value.__context__ is None


def test_rows_of_private_tables_are_not_read(backend: Backend) -> None:
    users = of(
        backend, Table("public", "users", (Column("email", "text"),), False, (), privacy_unit="user_id")
    )
    with pytest.raises(ValueError, match="private"):
        next(backend.read_public(users))
    with pytest.raises(ValueError, match="private"):
        backend.count(users)
    with pytest.raises(ValueError, match="private"):
        backend.repeats(users, ["email"])


@pytest.mark.parametrize(
    "url",
    [
        *("duckdb:///none.duckdb", "postgresql://reader@localhost:1/none"),
        pytest.param("sc://127.0.0.1:1/;token=secret", marks=with_spark),
    ],
)
def test_a_backend_that_is_not_there(tmp_path: Path, url: str) -> None:
    backend = connect(url, folder=tmp_path, memory="500MB", slots=1)
    for _ in range(2):
        with pytest.raises(BackendUnavailable) as caught:
            backend.open()
        assert "secret" not in str(caught.value)
    with pytest.raises(BackendUnavailable):
        backend.schema()


@pytest.mark.parametrize(
    "url", ["", "data.duckdb", "duckdb://data", "mysql://x/y", "sc://", "postgresql://%zz"]
)
def test_urls_that_are_not_served(tmp_path: Path, url: str) -> None:
    with pytest.raises(BackendUnavailable) as caught:
        connect(url, folder=tmp_path, memory="500MB", slots=1)
    assert "%zz" not in str(caught.value)
