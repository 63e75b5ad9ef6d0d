"""The clients' data: a policy over every type, and the statements that fill either backend with the same rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import duckdb
import psycopg

from dpproxy.embedded.server import Embedded
from tests.clients.kinds import KINDS, MOODS

USERS = 4000
COUNTRIES = ("DE", "FR", "IN", "US")
ANALYST, PASSWORD = "ann", "red-pencil"
TOLERANCE = 30
"""About nine standard deviations of the noise that the policy below asks for."""

POLICY = """
[backend]
url = "{url}"
[privacy]
epsilon_per = 2
[budget]
information = 100000
calls = 10000

[tables."app.users"]
privacy_unit = "user_id"
[tables."app.users".columns]
country = {{ domain = ["DE", "FR", "IN", "US"] }}
age = {{ range = [18, 97] }}
balance = {{ bounds = [0, 1000], scale = 2 }}
email = {{ hidden = true }}
mood = {{ domain_from = "type", nullable = true }}

[tables."app.events"]
privacy_unit = "user_id"
max_rows_per_unit = 10
max_rows_per_unit_per_group = 2
max_groups_per_unit = {{ kind = 2, "kind, ts" = 4 }}
horizon = {{ ts = ["2024-01-01", "2024-12-31"], events_per_unit = 20 }}
[tables."app.events".columns]
ts = {{ range = ["2024-01-01", "2024-12-31"] }}
article_id = {{ domain_from = "app.articles.article_id" }}

[tables."app.typed"]
privacy_unit = "user_id"
[tables."app.typed".columns]
e = {{ domain_from = "type", nullable = true }}

[tables."app.articles"]
public = true

[tables."app.samples"]
public = true
[tables."app.samples".columns]
e = {{ domain_from = "type" }}
"""


def _schema(duck: bool) -> Iterator[str]:
    moods = ", ".join("'" + mood.replace("'", "''") + "'" for mood in MOODS)
    columns = ", ".join(f"{kind.name} {kind.duckdb if duck else kind.type}" for kind in KINDS)
    yield "CREATE SCHEMA app"
    yield f"CREATE TYPE app.mood AS ENUM ({moods})"
    yield (
        "CREATE TABLE app.users (user_id BIGINT PRIMARY KEY, email VARCHAR NOT NULL, country VARCHAR, "
        "age INTEGER NOT NULL, balance NUMERIC(12,2), mood app.mood)"
    )
    yield "CREATE TABLE app.articles (article_id INTEGER PRIMARY KEY, title VARCHAR NOT NULL, published DATE)"
    yield (
        "CREATE TABLE app.events (event_id UUID PRIMARY KEY, user_id BIGINT NOT NULL REFERENCES app.users (user_id), "
        "article_id INTEGER REFERENCES app.articles (article_id), ts TIMESTAMP NOT NULL, kind VARCHAR, "
        "amount DOUBLE PRECISION)"
    )
    yield f"CREATE TABLE app.typed (user_id BIGINT PRIMARY KEY, {columns})"
    yield f"CREATE TABLE app.samples (id INTEGER PRIMARY KEY, {columns})"
    yield "COMMENT ON TABLE app.users IS 'People who signed up'"
    yield "COMMENT ON COLUMN app.users.country IS 'where they live'"


def _rows(duck: bool) -> Iterator[str]:
    names = ", ".join(f"'{name}'" for name in COUNTRIES)
    country = f"[{names}][1 + g % 4]" if duck else f"(ARRAY[{names}])[1 + g % 4]"
    series = f"generate_series(1, {USERS}) AS r(g)"
    yield (
        "INSERT INTO app.users SELECT g, 'u' || CAST(g AS VARCHAR) || '@x.org', "
        f"{country}, 18 + g % 80, g % 1000, 'sad' FROM {series}"
    )
    yield (
        "INSERT INTO app.articles SELECT g, 't' || CAST(g AS VARCHAR), DATE '2024-01-01' "
        "FROM generate_series(1, 50) AS r(g)"
    )
    yield (
        f"INSERT INTO app.events SELECT {'uuid()' if duck else 'gen_random_uuid()'}, 1 + g % {USERS}, 1 + g % 50, "
        "TIMESTAMP '2024-01-01' + g * INTERVAL '1 minute', 'click', g * 0.1 "
        f"FROM generate_series(1, {2 * USERS}) AS r(g)"
    )
    values = [
        ", ".join(_literal(kind.values[i], kind.duckdb if duck else kind.type) for kind in KINDS)
        for i in (0, 1)
    ]
    nulls = ", ".join("NULL" for _ in KINDS)
    for row, one in enumerate((*values, nulls)):
        yield f"INSERT INTO app.samples VALUES ({row}, {one})"
    for row, one in enumerate(values):
        yield f"INSERT INTO app.typed SELECT g, {one} FROM {series} WHERE g % 2 = {row}"


def _literal(value: str, kind: str) -> str:
    quoted = "'" + value.replace("'", "''") + "'"
    if kind == "BLOB":
        return "unhex('" + value[2:] + "')"
    if kind.endswith("[]") and kind.isupper():
        quoted = f"'[{value[1:-1]}]'"
    return f"CAST({quoted} AS {kind})"


def statements() -> Iterator[str]:
    """The schema and the rows in PostgreSQL's words."""
    yield from _schema(False)
    yield from _rows(False)


def fill_duckdb(file: Path) -> str:
    """Writes the data to a DuckDB file; gives the backend's url."""
    with duckdb.connect(file) as connection:
        for statement in (*_schema(True), *_rows(True)):
            connection.execute(statement)
    return f"duckdb:///{file}"


def fill_postgres(server: Embedded, database: str, *made: str) -> str:
    """Makes a database of the statements `made`, or else of the data, and a role that may only read it.

    Gives the backend's url.
    """
    with psycopg.connect(server.conninfo(), autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {database}".encode())
        admin.execute(f"CREATE ROLE {database}_reader LOGIN PASSWORD 'reader'".encode())
    reader = f"{database}_reader"
    with psycopg.connect(server.conninfo(dbname=database), autocommit=True) as connection:
        for statement in made or statements():
            connection.execute(statement.encode())
        connection.execute(f"GRANT USAGE ON SCHEMA app TO {reader}".encode())
        connection.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA app TO {reader}".encode())
        connection.execute(b"ANALYZE")
    return f"postgresql://{reader}:reader@/{database}?host={quote(str(server.socket_dir), safe='')}"
