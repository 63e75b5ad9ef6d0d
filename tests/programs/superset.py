"""Superset: its server's REST API, as its pages call it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

import psycopg2

from tests.programs.actions import COUNTRIES, URL, action, near, run

CONFIG = """
SECRET_KEY = "for one test"
SQLALCHEMY_DATABASE_URI = "sqlite:///{folder}/superset.db?check_same_thread=false"
WTF_CSRF_ENABLED = TALISMAN_ENABLED = RATELIMIT_ENABLED = False
"""
COUNT = {"expressionType": "SQL", "sqlExpression": "COUNT(*)", "label": "n"}
MONTHS = {
    "columnType": "BASE_AXIS",
    "expressionType": "SQL",
    "label": "ts",
    "sqlExpression": "ts",
    "timeGrain": "P1M",
}
HELD: dict[str, Any] = {}


def call(method: str, path: str, body: object = None) -> Any:
    """What the server answers to a request; raises AssertionError where that is no success."""
    connection = HTTPConnection("127.0.0.1", HELD["port"], timeout=120)
    headers = {"Content-Type": "application/json", **HELD.get("session", {})}
    connection.request(method, path, None if body is None else json.dumps(body), headers)
    response = connection.getresponse()
    text = response.read().decode()
    assert response.status < 300, f"{response.status}: {text[:1500]}"
    return json.loads(text)


def login() -> None:
    """Logs in as a page does, with a cookie."""
    connection = HTTPConnection("127.0.0.1", HELD["port"], timeout=120)
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    connection.request("POST", "/login/", "username=admin&password=admin", form)
    cookie = connection.getresponse().getheader("Set-Cookie") or ""
    HELD["session"]["Cookie"] = cookie.partition(";")[0]


def dataset(table: str, schema: str = "app", **more: str) -> int:
    """The number of a new dataset."""
    body = {"database": HELD["database"], "schema": schema, "table_name": table, **more}
    return int(call("POST", "/api/v1/dataset/", body)["id"])


def rows(table: str, **query: Any) -> list[dict[str, Any]]:
    """What a chart over a dataset shows."""
    asked = {
        "datasource": {"id": HELD[table], "type": "table"},
        "queries": [{"filters": [], "metrics": [COUNT], "row_limit": 10000, "columns": [], **query}],
        "force": True,
    }
    (result,) = call("POST", "/api/v1/chart/data", asked)["result"]
    assert result["error"] is None, result["error"]
    return list(result["data"])


@action("a database with its test of the connection")
def database() -> None:
    login = {"username": "admin", "password": "admin", "provider": "db"}
    token = call("POST", "/api/v1/security/login", login)["access_token"]
    HELD["session"] = {"Authorization": f"Bearer {token}"}
    body = {"database_name": "shop", "sqlalchemy_uri": URL.replace("postgresql:", "postgresql+psycopg2:")}
    call("POST", "/api/v1/database/test_connection/", body)
    HELD["database"] = call("POST", "/api/v1/database/", {**body, "expose_in_sqllab": True})["id"]


@action("schemas and tables")
def tables() -> None:
    path = f"/api/v1/database/{HELD['database']}"
    assert "app" in call("GET", f"{path}/schemas/")["result"]
    found = call("GET", f"{path}/tables/?q=(schema_name:app)")["result"]
    assert {"users", "events", "articles"} <= {table["value"] for table in found}


@action("columns of a table with comments")
def columns() -> None:
    found = call("GET", f"/api/v1/database/{HELD['database']}/table_metadata/?name=users&schema=app")
    assert "known domain, 18 to 97" in {column["comment"] for column in found["columns"]}


@action("datasets of tables")
def datasets() -> None:
    HELD["users"], HELD["events"], HELD["articles"] = map(dataset, ("users", "events", "articles"))


@action("a dataset of a query with GROUP BY")
def virtual() -> None:
    HELD["virtual"] = dataset(
        "by_age", sql="SELECT country, age, COUNT(*) AS people FROM app.users GROUP BY country, age"
    )
    total = {
        "expressionType": "SIMPLE",
        "aggregate": "SUM",
        "column": {"column_name": "people"},
        "label": "n",
    }
    near(rows("virtual", metrics=[total])[0]["n"], 4000)


@action("a dataset of a query of rows")
def virtual_rows() -> None:
    dataset("adults", sql="SELECT country, age, balance FROM app.users WHERE age >= 58")


@action("SQL Lab")
def lab() -> None:
    asked = {
        "database_id": HELD["database"],
        "sql": "SELECT country, COUNT(*) AS n FROM app.users GROUP BY country",
        "queryLimit": 1000,
        "client_id": "lab",
        "schema": "app",
    }
    found = call("POST", "/api/v1/sqllab/execute/", asked)["data"]
    assert {row["country"] for row in found} == COUNTRIES


@action("big number")
def number() -> None:
    near(rows("users")[0]["n"], 4000)


@action("pie")
def pie() -> None:
    assert {
        row["country"] for row in rows("users", columns=["country"], orderby=[[COUNT, False]])
    } == COUNTRIES


@action("bar of two dimensions")
def bar() -> None:
    old = {"expressionType": "SQL", "label": "old", "sqlExpression": "age >= 58"}
    assert len(rows("users", columns=["country", old])) == 8


@action("table of an average and a sum")
def table() -> None:
    metrics = [
        {"expressionType": "SIMPLE", "aggregate": of, "column": {"column_name": "age"}, "label": of}
        for of in ("AVG", "SUM")
    ]
    for row in rows("users", columns=["country"], metrics=metrics):
        near(row["AVG"], 57)


@action("time series by month")
def months() -> None:
    found = rows("events", columns=[MONTHS], time_range="2024-01-01 : 2025-01-01", granularity="ts")
    assert len(found) == 12
    near(found[0]["n"], 8000)


@action("time series by week")
def weeks() -> None:
    weekly = {**MONTHS, "timeGrain": "P1W"}
    assert len(rows("events", columns=[weekly], time_range="2024-01-01 : 2024-02-05", granularity="ts")) == 5


@action("time series of a timestamptz")
def moments() -> None:
    HELD["typed"] = dataset("typed")
    moment = {**MONTHS, "label": "tz", "sqlExpression": "tz"}
    found = rows("typed", columns=[moment], time_range="2024-01-01 : 2025-01-01", granularity="tz")
    assert len(found) == 12
    near(max(row["n"] for row in found), 2000)


@action("time series by month and kind")
def series() -> None:
    assert rows("events", columns=[MONTHS, "kind"], time_range="2024-01-01 : 2025-01-01", granularity="ts")


@action("adhoc column with a time grain")
def adhoc() -> None:
    column = {
        "expressionType": "SQL",
        "label": "when",
        "sqlExpression": "ts",
        "timeGrain": "P1M",
        "columnType": "BASE_AXIS",
    }
    assert len(rows("events", columns=[column])) == 12


@action("adhoc column of an expression")
def expression() -> None:
    column = {"expressionType": "SQL", "label": "when", "sqlExpression": "date_trunc('month', ts)"}
    assert len(rows("events", columns=[column])) == 12


@action("filters and HAVING")
def filters() -> None:
    found = rows(
        "users",
        columns=["country"],
        filters=[{"col": "country", "op": "IN", "val": ["DE", "US"]}, {"col": "age", "op": ">=", "val": 58}],
        extras={"having": "COUNT(*) > 100", "where": "balance < 1000"},
    )
    assert {row["country"] for row in found} == {"DE", "US"}


@action("shares of the whole")
def shares() -> None:
    contribution = {"operation": "contribution", "options": {"orientation": "column", "columns": ["n"]}}
    found = rows("users", columns=["country"], post_processing=[contribution])
    assert abs(sum(row["n"] for row in found) - 1) < 0.01


def banded(table: str, low: str, value: str, high: str, **query: Any) -> None:
    """Asserts that a chart has three metrics for a band, by the names that Superset's forecasts have."""
    shown = {"n": value, "n__yhat_lower": low, "n__yhat_upper": high}
    metrics = [{"expressionType": "SQL", "sqlExpression": sql, "label": name} for name, sql in shown.items()]
    found = rows(table, metrics=metrics, **query)
    assert found
    assert all(row["n__yhat_lower"] < row["n"] < row["n__yhat_upper"] for row in found), found


@action("time series with its interval as a band")
def band() -> None:
    monthly = {"columns": [MONTHS], "time_range": "2024-01-01 : 2025-01-01", "granularity": "ts"}
    banded("events", "dp_low(COUNT(*))", "COUNT(*)", "dp_high(COUNT(*))", **monthly)


@action("a published answer with its interval as a band")
def published() -> None:
    connection = psycopg2.connect(URL)
    connection.autocommit = True
    by_country = "SELECT country, COUNT(*) AS people FROM app.users GROUP BY country"
    connection.cursor().execute(f"CREATE TABLE published.peoples AS {by_country}")
    connection.close()
    HELD["published"] = dataset("peoples", "published")
    half = "1.96 * SQRT(SUM(people_stddev ^ 2))"
    banded(
        "published",
        f"SUM(people) - {half}",
        "SUM(people)",
        f"SUM(people) + {half}",
        columns=["country"],
    )


@action("distinct count and median")
def distinct() -> None:
    people = {
        "expressionType": "SIMPLE",
        "aggregate": "COUNT_DISTINCT",
        "column": {"column_name": "user_id"},
        "label": "n",
    }
    middle = {
        "expressionType": "SQL",
        "sqlExpression": "PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY age)",
        "label": "m",
    }
    (row,) = rows("users", metrics=[people, middle])
    near(row["n"], 4000)
    near(row["m"], 57)


@action("values of a filter")
def values() -> None:
    found = call("GET", f"/api/v1/datasource/table/{HELD['users']}/column/country/values/")["result"]
    assert set(found) == COUNTRIES


@action("samples of a public table")
def public_samples() -> None:
    login()
    found = call("POST", f"/datasource/samples?datasource_type=table&datasource_id={HELD['articles']}", {})
    assert found["result"]["rowcount"] == 50


@action("samples")
def samples() -> None:
    call("POST", f"/datasource/samples?datasource_type=table&datasource_id={HELD['users']}", {})


@action("a table of raw records")
def raw() -> None:
    rows("users", columns=["country", "age"], metrics=None)


@action("a saved chart on a dashboard")
def dashboard() -> None:
    params = {
        "datasource": f"{HELD['users']}__table",
        "viz_type": "pie",
        "groupby": ["country"],
        "metric": "count",
    }
    chart = {
        "datasource_id": HELD["users"],
        "datasource_type": "table",
        "slice_name": "by country",
        "viz_type": "pie",
    }
    number = call("POST", "/api/v1/chart/", {**chart, "params": json.dumps(params)})["id"]
    board = call("POST", "/api/v1/dashboard/", {"dashboard_title": "Shop", "published": True})["id"]
    call("PUT", f"/api/v1/chart/{number}", {"dashboards": [board]})
    assert [one["id"] for one in call("GET", f"/api/v1/dashboard/{board}/charts")["result"]] == [number]


@contextmanager
def serving(folder: Path) -> Iterator[int]:
    """A server with an administrator, and its port."""
    (folder / "config.py").write_text(CONFIG.format(folder=folder))
    environment = {**os.environ, "SUPERSET_CONFIG_PATH": str(folder / "config.py"), "FLASK_APP": "superset"}
    program = str(Path(sys.executable).with_name("superset"))
    admin = (
        "fab create-admin --username admin --password admin --firstname a --lastname b --email a@example.org"
    )
    for command in ("db upgrade", admin, "init"):
        subprocess.run([program, *command.split()], env=environment, check=True)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = subprocess.Popen([program, "run", "--port", str(port), "--with-threads"], env=environment)
    try:
        HELD["port"] = port
        for _ in range(120):
            try:
                call("GET", "/api/v1/menu/")
                break
            except AssertionError:
                break
            except (OSError, HTTPException):
                time.sleep(1)
        yield port
    finally:
        server.terminate()
        server.wait(60)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made, serving(Path(made)):
        run("apache-superset", "psycopg2-binary")
