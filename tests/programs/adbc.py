"""ADBC: what its DB-API and its catalog functions ask."""

from __future__ import annotations

from typing import Any

import adbc_driver_postgresql.dbapi as adbc
import pyarrow

from tests.programs.actions import COUNTRIES, URL, action, near, run

CONNECTION: Any = adbc.connect(URL, autocommit=True)
BY_COUNTRY = "SELECT country, COUNT(*) AS n FROM app.users GROUP BY country"


def asked(text: str, *parameters: object) -> Any:
    """The Arrow table of an answer."""
    with CONNECTION.cursor() as cursor:
        cursor.execute(text, parameters or None)
        return cursor.fetch_arrow_table()


@action("fetch_arrow_table")
def table() -> None:
    assert set(asked(BY_COUNTRY)["country"].to_pylist()) == COUNTRIES


@action("fetchall")
def rows() -> None:
    with CONNECTION.cursor() as cursor:
        cursor.execute(BY_COUNTRY)
        near(sum(n for _, n in cursor.fetchall()), 4000)


@action("fetch_df")
def frame() -> None:
    with CONNECTION.cursor() as cursor:
        cursor.execute(BY_COUNTRY)
        near(cursor.fetch_df().n.sum(), 4000)


@action("record batches")
def batches() -> None:
    with CONNECTION.cursor() as cursor:
        cursor.execute(BY_COUNTRY)
        assert sum(batch.num_rows for batch in cursor.fetch_record_batch()) == 4


@action("parameters")
def parameters() -> None:
    near(
        asked("SELECT COUNT(*) AS n FROM app.users WHERE age > $1 AND country IN ($2,$3)", 57, "DE", "US")[
            "n"
        ][0].as_py(),
        1000,
    )


@action("schema of a query that is not executed")
def schema() -> None:
    with CONNECTION.cursor() as cursor:
        assert cursor.adbc_execute_schema(BY_COUNTRY).names == ["country", "n"]


@action("get_objects")
def objects() -> None:
    found = (
        CONNECTION.adbc_get_objects(depth="columns", db_schema_filter="app", table_name_filter="users")
        .read_all()
        .to_pylist()
    )
    (users,) = (t for c in found for s in c["catalog_db_schemas"] or () for t in s["db_schema_tables"] or ())
    assert [column["column_name"] for column in users["table_columns"]] == [
        "user_id",
        "country",
        "age",
        "balance",
        "mood",
    ]
    assert users["table_constraints"]


@action("get_table_schema")
def table_schema() -> None:
    assert (
        CONNECTION.adbc_get_table_schema("users", db_schema_filter="app").field("age").type == pyarrow.int32()
    )


@action("get_table_types and get_info")
def info() -> None:
    assert "table" in CONNECTION.adbc_get_table_types()
    assert CONNECTION.adbc_get_info()["vendor_name"] == "PostgreSQL"


@action("a transaction")
def transaction() -> None:
    with adbc.connect(URL) as connection, connection.cursor() as cursor:
        cursor.execute(BY_COUNTRY)
        assert len(cursor.fetchall()) == 4
        connection.commit()


@action("a public table")
def public() -> None:
    assert asked("SELECT * FROM app.articles").num_rows == 50


@action("rows of a table")
def private() -> None:
    asked("SELECT * FROM app.users")


@action("ingest")
def ingest() -> None:
    with CONNECTION.cursor() as cursor:
        cursor.adbc_ingest("mine", pyarrow.table({"a": [1]}))


if __name__ == "__main__":
    run("adbc-driver-postgresql", "pyarrow")
