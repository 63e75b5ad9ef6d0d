"""polars: read_database through its engines, and what becomes of the answers."""

from __future__ import annotations

from typing import Any

import adbc_driver_postgresql.dbapi as adbc
import polars as pl
import sqlalchemy

from tests.programs.actions import COUNTRIES, URL, action, near, run

BY_COUNTRY = "SELECT country, COUNT(*) AS n, AVG(age) AS age FROM app.users GROUP BY country ORDER BY country"
ENGINE = sqlalchemy.create_engine(URL.replace("postgresql:", "postgresql+psycopg2:"))


def counted(frame: Any) -> None:
    """Asserts the answer to BY_COUNTRY."""
    assert set(frame["country"]) == COUNTRIES
    near(frame["n"].sum(), 4000)


@action("read_database_uri by connectorx")
def by_connectorx() -> None:
    counted(pl.read_database_uri(BY_COUNTRY, URL))


@action("read_database_uri by ADBC")
def by_adbc() -> None:
    counted(pl.read_database_uri(BY_COUNTRY, URL, engine="adbc"))


@action("read_database of an ADBC connection")
def of_adbc() -> None:
    with adbc.connect(URL) as connection:
        counted(pl.read_database(BY_COUNTRY, connection))


@action("read_database of an SQLAlchemy engine")
def of_sqlalchemy() -> None:
    counted(pl.read_database(BY_COUNTRY, ENGINE))


@action("parameters")
def parameters() -> None:
    text = "SELECT COUNT(*) AS n FROM app.users WHERE age > :age AND country IN (:one,:two)"
    options = {"parameters": {"age": 57, "one": "DE", "two": "US"}}
    near(pl.read_database(text, ENGINE, execute_options=options)["n"][0], 1000)


@action("batches")
def batches() -> None:
    counted(pl.concat(pl.read_database(BY_COUNTRY, ENGINE, iter_batches=True, batch_size=2)))


@action("schema_overrides")
def overrides() -> None:
    frame = pl.read_database(BY_COUNTRY, ENGINE, schema_overrides={"n": pl.Int32})
    assert frame.schema["n"] == pl.Int32


@action("dates and times")
def times() -> None:
    text = "SELECT DATE_TRUNC('month', ts) AS month, COUNT(*) AS n FROM app.events GROUP BY 1 ORDER BY 1"
    frame = pl.read_database_uri(text, URL)
    assert frame["month"].dtype == pl.Datetime
    assert frame.height == 12


@action("numerics, arrays and nulls of a public table")
def types() -> None:
    frame = pl.read_database("SELECT i8, n, ts, ai, ta FROM app.samples ORDER BY id", ENGINE)
    assert frame.height == 3


@action("group_by and join of answers")
def joined() -> None:
    frame = pl.read_database_uri(BY_COUNTRY, URL)
    assert frame.join(frame.group_by("country").len(), on="country").height == 4


@action("lists of a public table")
def public() -> None:
    assert pl.read_database_uri("SELECT * FROM app.articles", URL).height == 50


@action("error columns")
def errors() -> None:
    options = {"options": "-cdpproxy.error_columns=on"}
    frame = pl.read_database(BY_COUNTRY, sqlalchemy.create_engine(ENGINE.url, connect_args=options))
    assert "n_stddev" in frame.columns, frame.columns


@action("rows of a table")
def rows() -> None:
    pl.read_database_uri("SELECT * FROM app.users", URL, engine="adbc")


@action("write_database")
def write() -> None:
    pl.DataFrame({"a": [1]}).write_database("app.mine", ENGINE)


if __name__ == "__main__":
    run("polars", "connectorx", "adbc-driver-postgresql")
