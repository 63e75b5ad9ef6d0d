"""pgAdmin: its server, asked as its pages do."""

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
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPCookieProcessor, Request, build_opener

from tests.programs.actions import URL, action, near, run

CONFIG = """
DATA_DIR = {folder!r}
SQLITE_PATH = DATA_DIR + "/pgadmin4.db"
SESSION_DB_PATH = DATA_DIR + "/sessions"
STORAGE_DIR = DATA_DIR + "/storage"
LOG_FILE = DATA_DIR + "/pgadmin4.log"
AZURE_CREDENTIAL_CACHE_DIR = KERBEROS_CCACHE_DIR = DATA_DIR
WTF_CSRF_ENABLED = MASTER_PASSWORD_REQUIRED = USE_OS_SECRET_STORAGE = UPGRADE_CHECK_ENABLED = False
"""
BY_COUNTRY = "SELECT country, COUNT(*) AS n FROM app.users GROUP BY country"
OPENER = build_opener(HTTPCookieProcessor(CookieJar()))
HELD: dict[str, Any] = {}


def call(method: str, path: str, body: object = None) -> Any:
    """What the server answers to a request; raises AssertionError where that is no success."""
    sent = None if body is None else json.dumps(body).encode()
    url, headers = f"http://127.0.0.1:{HELD['port']}{path}", {"Content-Type": "application/json"}
    try:
        with OPENER.open(Request(url, sent, headers, method=method), timeout=120) as response:
            text = response.read().decode()
    except HTTPError as error:
        raise AssertionError(f"{error.code}: {error.read().decode()[:1500]}") from error
    return json.loads(text) if text[:1] in "[{" else text


def nodes(path: str) -> dict[str, Any]:
    """The number of each node below one of the tree, by its label."""
    return {node["label"]: node["_id"] for node in call("GET", f"/browser/{path}")["data"]}


def tool(number: int, sql: str, **explain: bool) -> dict[str, Any]:
    """What the query tool shows of a statement, in a tab of its own."""
    place = f"/1/{HELD['server']}/{HELD['database']}"
    call("POST", f"/sqleditor/initialize/sqleditor/{number}{place}", {"dbname": "dpproxy"})
    plan = (
        {"format": "json", "analyze": False, "verbose": False, "costs": False, **explain} if explain else None
    )
    call("POST", f"/sqleditor/query_tool/start/{number}", {"sql": sql, "explain_plan": plan})
    return polled(number)


def polled(number: int) -> dict[str, Any]:
    """What a tab shows once its statement has ended; raises AssertionError with its error."""
    for _ in range(300):
        found = call("GET", f"/sqleditor/poll/{number}")["data"]
        if found["status"] != "Busy":
            assert found["status"] == "Success", found
            return dict(found)
        time.sleep(0.1)
    raise AssertionError("it is busy")


def read(name: str, kind: str = "obj") -> Any:
    """What a tab of a table shows."""
    number = HELD["tables"][name]
    return call("GET", f"/browser/table/{kind}/{HELD['tree']}{number}")


@action("connect")
def connect() -> None:
    place = urlsplit(URL)
    call("GET", "/browser/")
    server = {
        "gid": 1,
        "name": "shop",
        "host": place.hostname,
        "port": place.port,
        "username": place.username,
        "password": place.password,
        "db": place.path[1:],
        "sslmode": "require",
        "connect_now": True,
        "connection_params": [{"name": "sslmode", "value": "require"}],
    }
    HELD["server"] = call("POST", "/browser/server/obj/1/", server)["node"]["_id"]


@action("the tree down to the tables")
def tree() -> None:
    server = HELD["server"]
    HELD["database"] = nodes(f"database/nodes/1/{server}/")["dpproxy"]
    call("POST", f"/browser/database/connect/1/{server}/{HELD['database']}", {})
    schema = nodes(f"schema/nodes/1/{server}/{HELD['database']}/")["app"]
    HELD["tree"] = f"1/{server}/{HELD['database']}/{schema}/"
    HELD["tables"] = nodes(f"table/nodes/{HELD['tree']}")
    assert {"users", "events", "articles"} <= HELD["tables"].keys()


@action("columns and constraints of a table")
def columns() -> None:
    users = f"{HELD['tree']}{HELD['tables']['users']}/"
    assert set(nodes(f"column/nodes/{users}")) == {"user_id", "country", "age", "balance", "mood"}
    assert "users_pkey" in nodes(f"primary_key/nodes/{users}")


@action("properties of a table")
def properties() -> None:
    assert read("users")["description"] == "People who signed up"


@action("SQL of a table")
def sql() -> None:
    assert "country text" in read("users", "sql")


@action("statistics and dependencies of a table")
def statistics() -> None:
    read("users", "stats")
    read("events", "dependency")
    read("users", "dependent")


@action("count of rows")
def count() -> None:
    near(read("users", "count_rows")["data"]["total_rows"], 4000)


@action("roles and settings of the server")
def roles() -> None:
    assert "ann" in nodes(f"role/nodes/1/{HELD['server']}/")
    call("GET", f"/dashboard/config/{HELD['server']}")


@action("dashboard: graphs")
def graphs() -> None:
    charts = "session_stats,tps_stats,ti_stats,to_stats,bio_stats"
    place = f"{HELD['server']}/{HELD['database']}"
    assert call("GET", f"/dashboard/dashboard_stats/{place}?chart_names={charts}")["session_stats"]


@action("dashboard: sessions")
def sessions() -> None:
    assert call("GET", f"/dashboard/activity/{HELD['server']}/{HELD['database']}")


@action("dashboard: locks and prepared transactions")
def locks() -> None:
    for kind in ("locks", "prepared"):
        call("GET", f"/dashboard/{kind}/{HELD['server']}/{HELD['database']}")


@action("query tool, with notices")
def query() -> None:
    found = tool(1001, BY_COUNTRY)
    assert found["rows_affected"] == 4, found
    assert "dpproxy:" in str(found["additional_messages"]), found


@action("query tool: explain")
def explain() -> None:
    found = tool(1002, BY_COUNTRY, buffers=False)
    ((document,),) = found["result"]
    (node,) = json.loads(document)[0]["Plan"]["Plans"]
    assert "information unit" in node["Cost"]


@action("query tool: explain analyze")
def analyze() -> None:
    tool(1003, BY_COUNTRY, analyze=True)


@action("query tool: completion and history")
def completion() -> None:
    asked = ["SELECT * FROM app.us", "SELECT * FROM app.us"]
    assert "users" in str(call("POST", "/sqleditor/autocomplete/1001", asked))
    call("GET", "/sqleditor/query_history/1001")


@action("query tool: download as CSV")
def download() -> None:
    found = call("POST", "/sqleditor/query_tool/download/1001", {"query": BY_COUNTRY, "filename": "a.csv"})
    assert "DE" in found


@action("view data of a public table")
def public() -> None:
    assert view(1004, "articles")["rows_affected"] == 50


@action("view data")
def private() -> None:
    view(1005, "users")


def view(number: int, table: str) -> dict[str, Any]:
    """View Data, all rows."""
    place = f"1/{HELD['server']}/{HELD['database']}/{HELD['tables'][table]}"
    call("POST", f"/sqleditor/initialize/viewdata/{number}/3/table/{place}", {})
    call("GET", f"/sqleditor/view_data/start/{number}")
    return polled(number)


@contextmanager
def serving(folder: str) -> Iterator[None]:
    """A server for one user without a login, as the desktop program starts it."""
    Path(folder, "config_local.py").write_text(CONFIG.format(folder=folder))
    with socket.create_server(("127.0.0.1", 0)) as free:
        HELD["port"] = free.getsockname()[1]
    settings = {"PYTHONPATH": folder, "PGADMIN_SERVER_MODE": "OFF", "PGADMIN_INT_PORT": str(HELD["port"])}
    program = str(Path(sys.executable).with_name("pgadmin4"))
    server = subprocess.Popen([program], env={**os.environ, **settings})
    try:
        for _ in range(120):
            try:
                call("GET", "/misc/ping")
                break
            except URLError:
                time.sleep(1)
        yield
    finally:
        server.terminate()
        server.wait(60)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made, serving(made):
        run("pgadmin4")
