"""Drivers of the DB-API and what is built on them."""

from __future__ import annotations

import io
import ssl
from collections.abc import Mapping
from importlib import import_module
from typing import Any, ClassVar

from tests.clients.client import (
    BY_AGE,
    BY_COUNTRY,
    REFUSED,
    ROWS,
    SAMPLES,
    USERS_COLUMNS,
    PythonClient,
    check_ages,
    check_countries,
)
from tests.clients.native import assert_same
from tests.clients.world import ANALYST, DATABASE, PASSWORD

COPIED = f"COPY ({BY_COUNTRY}) TO STDOUT"


class Psycopg3(PythonClient):
    """psycopg 3, results in text."""

    name = "psycopg 3"
    module = package = "psycopg"
    binary: ClassVar[bool] = False

    def open(self) -> Any:
        return self.world.connect()

    def rows(self, sql: str, *parameters: object) -> list[tuple[Any, ...]]:
        prepared = True if parameters else None
        cursor = self.connection.cursor(binary=self.binary)
        return list(cursor.execute(sql, parameters or None, prepare=prepared).fetchall())

    def describe(self) -> None:
        connection, text = self.connection.pgconn, BY_COUNTRY.format("$1").encode()
        with self.world.counts.expected(0):
            connection.prepare(b"asked", text)
            described = connection.describe_prepared(b"asked")
            assert [described.fname(i) for i in range(described.nfields)] == [b"country", b"n"]
            assert [described.ftype(1), described.param_type(0)] == [20, 20]

    def portions(self) -> None:
        with self.world.counts.expected(2):
            check_ages(self.connection.cursor().stream(BY_AGE.format("%s"), (self.world.fresh(),), size=1))
            with self.connection.transaction(), self.connection.cursor("portions") as cursor:
                cursor.itersize = 7
                check_ages(cursor.execute(BY_AGE.format(self.world.fresh())))

    def copy(self) -> None:
        question = COPIED.format(self.world.fresh())
        with self.world.counts.expected(1), self.connection.cursor().copy(question) as copy:
            check_countries(list(copy.rows()))


class Psycopg3Binary(Psycopg3):
    """psycopg 3, results in binary."""

    name = "psycopg 3, binary"
    binary = True

    def copy(self) -> None:
        with self.world.counts.expected(1):
            question = COPIED.format(self.world.fresh()) + " (FORMAT binary)"
            with self.connection.cursor().copy(question) as copy:
                copy.set_types(["text", "int8"])
                check_countries(list(copy.rows()))


class Psycopg2(PythonClient):
    """psycopg2: the simple protocol, parameters written into the text."""

    name = "psycopg2"
    module, package = "psycopg2", "psycopg2-binary"
    without: ClassVar[Mapping[str, str]] = {"describe": "it has no call for it"}

    def open(self) -> Any:
        connection = self.driver.connect(self.world.url)
        connection.autocommit = True
        return connection

    def portions(self) -> None:
        self.connection.autocommit = False
        try:
            with self.world.counts.expected(1), self.connection.cursor("portions") as cursor:
                cursor.itersize = 7
                cursor.execute(BY_AGE.format(self.world.fresh()))
                check_ages(cursor)
            self.connection.commit()
        finally:
            self.connection.autocommit = True

    def copy(self) -> None:
        with self.world.counts.expected(1):
            out = io.StringIO()
            self.connection.cursor().copy_expert(COPIED.format(self.world.fresh()), out)
            check_countries(line.split("\t") for line in out.getvalue().splitlines())


class Pg8000(PythonClient):
    """pg8000: pure Python, extended protocol."""

    name = "pg8000"
    module, package = "pg8000.dbapi", "pg8000"
    without: ClassVar[Mapping[str, str]] = {
        "describe": "it has no call for it",
        "portions": "it always fetches everything",
    }

    def open(self) -> Any:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        connection = self.driver.connect(
            ANALYST,
            host="127.0.0.1",
            port=self.world.port,
            password=PASSWORD,
            database=DATABASE,
            ssl_context=context,
        )
        connection.autocommit = True
        return connection

    def code(self, error: Exception) -> str:
        said = error.args[0]
        return str(said["C"]) if isinstance(said, dict) else str(error)

    def copy(self) -> None:
        with self.world.counts.expected(1):
            out = io.BytesIO()
            self.connection.cursor().execute(COPIED.format(self.world.fresh()), stream=out)
            check_countries(line.split("\t") for line in out.getvalue().decode().splitlines())


class Psqlodbc(PythonClient):
    """psqlODBC, the driver of Power BI, Excel and Tableau's generic connection, through unixODBC."""

    name = "psqlODBC"
    module = package = "pyodbc"
    placeholder = "?"
    without: ClassVar[Mapping[str, str]] = {
        "copy": "ODBC has no COPY",
        "describe": "pyodbc has no call for it",
    }

    def array(self, values: list[str]) -> object:
        """ODBC has no arrays but their texts."""
        return "{" + ",".join(values) + "}"

    @classmethod
    def missing(cls) -> str | None:
        found = super().missing()
        if found is None and "PostgreSQL Unicode" not in import_module(cls.module).drivers():
            return "odbc-postgresql"
        return found

    def open(self) -> Any:
        return self.driver.connect(
            f"Driver=PostgreSQL Unicode;Server=127.0.0.1;Port={self.world.port};Database={DATABASE};"
            f"Uid={ANALYST};Pwd={PASSWORD};SSLmode=require;BoolsAsChar=0;MaxVarcharSize=8190",
            autocommit=True,
        )

    def code(self, error: Exception) -> str:
        return str(error.args[0])

    def browse(self) -> None:
        with self.world.counts.expected(0):
            cursor = self.connection.cursor()
            tables = {row.table_name for row in cursor.tables(schema="app", tableType="TABLE")}
            assert tables == {"users", "events", "typed", "articles", "samples"}
            assert [row.column_name for row in cursor.columns(schema="app", table="users")] == USERS_COLUMNS
            assert [row.column_name for row in cursor.primaryKeys("users", schema="app")] == ["user_id"]

    def portions(self) -> None:
        with self.world.counts.expected(1):
            cursor = self.connection.cursor()
            cursor.execute(BY_AGE.format(self.world.fresh()))
            check_ages([*cursor.fetchmany(7), *cursor.fetchall()])
            cursor.close()

    def transaction(self) -> None:
        """The driver puts a savepoint before each statement by itself."""
        self.connection.autocommit = False
        with self.world.counts.expected(2):
            check_countries(self.rows(BY_COUNTRY.format(self.world.fresh())))
            assert self.failing(ROWS) == REFUSED
            check_countries(self.rows(BY_COUNTRY.format(self.world.fresh())))
            self.connection.commit()


class Adbc(PythonClient):
    """ADBC: Arrow, by COPY (query) TO STDOUT (FORMAT binary)."""

    name = "ADBC"
    module, package = "adbc_driver_postgresql.dbapi", "adbc-driver-postgresql"
    placeholder = "$1"

    def open(self) -> Any:
        return self.driver.connect(self.world.url, autocommit=True)

    def code(self, error: Exception) -> str:
        return str(getattr(error, "sqlstate", None))

    def browse(self) -> None:
        with self.world.counts.expected(0):
            found = self.connection.adbc_get_objects(
                depth="columns", db_schema_filter="app", table_name_filter="users"
            ).read_all()
            schemas = [s for catalog in found.to_pylist() for s in catalog["catalog_db_schemas"] or ()]
            (table,) = (t for schema in schemas for t in schema["db_schema_tables"] or ())
            assert [column["column_name"] for column in table["table_columns"]] == USERS_COLUMNS

    def describe(self) -> None:
        with self.world.counts.expected(0):
            schema = self.connection.cursor().adbc_execute_schema(BY_COUNTRY.format(self.world.fresh()))
            assert schema.names == ["country", "n"]
            assert str(schema.field("n").type) == "int64"

    def portions(self) -> None:
        with self.world.counts.expected(1), self.connection.cursor() as cursor:
            cursor.execute(BY_AGE.format(self.world.fresh()))
            reader = cursor.fetch_record_batch()
            check_ages((r["age"], r["n"]) for batch in reader for r in batch.to_pylist())

    def copy(self) -> None:
        with self.world.counts.expected(1), self.connection.cursor() as cursor:
            cursor.execute(BY_COUNTRY.format(self.world.fresh()))
            table = cursor.fetch_arrow_table()
            check_countries((r["country"], r["n"]) for r in table.to_pylist())


class SqlAlchemy(PythonClient):
    """SQLAlchemy over psycopg."""

    name = "SQLAlchemy"
    module = package = "sqlalchemy"
    without: ClassVar[Mapping[str, str]] = {
        "copy": "it has no COPY of its own",
        "describe": "it has no call for it",
    }

    def open(self) -> Any:
        url = self.world.url.replace("postgresql://", "postgresql+psycopg://")
        self.engine = self.driver.create_engine(url)
        return self.engine.connect().execution_options(isolation_level="AUTOCOMMIT")

    def close(self) -> None:
        super().close()
        self.engine.dispose()

    def rows(self, sql: str, *parameters: object) -> list[tuple[Any, ...]]:
        text = self.driver.text(sql.replace("%s", ":p0"))
        found = self.connection.execute(text, {f"p{n}": value for n, value in enumerate(parameters)})
        return [tuple(row) for row in found.all()]

    def code(self, error: Exception) -> str:
        return str(getattr(error.orig, "sqlstate", None)) if hasattr(error, "orig") else str(error)

    def browse(self) -> None:
        with self.world.counts.expected(0):
            inspector = self.driver.inspect(self.engine)
            tables = {"users", "events", "typed", "articles", "samples"}
            assert set(inspector.get_table_names("app")) == tables
            assert [c["name"] for c in inspector.get_columns("users", "app")] == USERS_COLUMNS
            assert inspector.get_pk_constraint("users", "app")["constrained_columns"] == ["user_id"]
            referred = {key["referred_table"] for key in inspector.get_foreign_keys("events", "app")}
            assert referred == {"users", "articles"}
            reflected = self.driver.MetaData()
            reflected.reflect(self.engine, schema="app")
            assert {table.name for table in reflected.tables.values()} == tables

    def portions(self) -> None:
        with self.world.counts.expected(1), self.engine.connect() as connection:
            text = self.driver.text(BY_AGE.format(self.world.fresh()))
            found = connection.execution_options(stream_results=True, yield_per=7).execute(text)
            check_ages(tuple(row) for row in found)

    def transaction(self) -> None:
        with self.world.counts.expected(2), self.engine.connect() as connection, connection.begin():
            outer, self.connection = self.connection, connection
            try:
                check_countries(self.rows(BY_COUNTRY.format(self.world.fresh())))
                nested = connection.begin_nested()
                assert self.failing(ROWS) == REFUSED
                nested.rollback()
                check_countries(self.rows(BY_COUNTRY.format(self.world.fresh())))
            finally:
                self.connection = outer


class Pandas(SqlAlchemy):
    """pandas.read_sql over SQLAlchemy."""

    name = "pandas"
    module = package = "pandas"
    without: ClassVar[Mapping[str, str]] = {
        **SqlAlchemy.without,
        "transaction": "it leaves them to SQLAlchemy",
    }

    def open(self) -> Any:
        self.pandas, self.driver = self.driver, import_module("sqlalchemy")
        return super().open()

    def rows(self, sql: str, *parameters: object) -> list[tuple[Any, ...]]:
        text = self.driver.text(sql.replace("%s", ":p0"))
        values = {f"p{n}": value for n, value in enumerate(parameters)}
        frame = self.pandas.read_sql(text, self.connection, params=values)
        return list(frame.itertuples(index=False, name=None))

    def portions(self) -> None:
        with self.world.counts.expected(1), self.engine.connect() as connection:
            text = self.driver.text(BY_AGE.format(self.world.fresh()))
            streaming = connection.execution_options(stream_results=True)
            frames = self.pandas.read_sql(text, streaming, chunksize=7)
            check_ages(row for frame in frames for row in frame.itertuples(index=False, name=None))

    def code(self, error: Exception) -> str:
        return super().code(error.__cause__ if isinstance(error.__cause__, Exception) else error)

    def types(self) -> None:
        frame = self.pandas.read_sql(self.driver.text(SAMPLES), self.connection, coerce_float=False)
        assert_same(list(frame.astype(object).itertuples(index=False, name=None)))
