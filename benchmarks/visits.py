"""The data that overhead is measured on: visits of people to articles, the same rows on DuckDB and on PostgreSQL."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import duckdb

from tests.dpproxy.postgres_data import Databases

COUNTRIES = 50
SECONDS = 600
"""Visits are shorter than that."""
POLICY = """
[backend]
url = "{url}"
memory = "6GB"
[server]
auth = "trust"
statement_timeout = "30min"
max_sessions = 200
max_sessions_per_login = 200
[budget]
mode = "track"
[budget.dataset]
mode = "track"
[tables.visits]
privacy_unit = "person_id"
max_rows_per_unit = 200
max_rows_per_unit_per_group = 20
max_groups_per_unit = {{ country = 1 }}
[tables.visits.columns]
country = {{ domain = [{countries}] }}
seconds = {{ bounds = [0, 600] }}
"""
DDL = (
    "CREATE TABLE visits (person_id BIGINT NOT NULL, country {text} NOT NULL,"
    " article BIGINT NOT NULL, seconds INTEGER NOT NULL)"
)
# Ten visits a person on average; an article's share falls with its number.
ROWS = """
SELECT person_id, 'C' || hash(person_id) % {countries} AS country,
    floor(1000 * pow((hash(n, 2) % 1000000) / 1e6, 3))::BIGINT AS article, (hash(n, 3) % {seconds})::INTEGER AS seconds
FROM (SELECT i AS n, (hash(i, 1) % ({rows} // 10))::BIGINT AS person_id FROM range({rows}) AS r(i))
"""


@dataclass(frozen=True)
class Question:
    """An analytic query; {n} is a number above every visit's seconds, another for each new query.

    `most`: rows of the largest data set that it is asked of: clamped sums rank the rows of each person.
    """

    name: str
    sql: str
    most: int = 50_000_000


QUESTIONS = (
    Question("COUNT(*)", "SELECT COUNT(*) FROM visits WHERE seconds < {n}"),
    Question(
        "people by country",
        "SELECT country, COUNT(DISTINCT person_id) AS people FROM visits WHERE seconds < {n} GROUP BY country",
    ),
    Question(
        "SUM by country",
        "SELECT country, SUM(seconds) AS total FROM visits WHERE seconds < {n} GROUP BY country",
        1_000_000,
    ),
    Question(
        "top-10 articles",
        "SELECT article, COUNT(DISTINCT person_id) AS people FROM visits WHERE seconds < {n} "
        "GROUP BY article ORDER BY people DESC LIMIT 10",
    ),
)


def policy(url: str) -> str:
    """The configuration of a proxy over the data at `url`."""
    return POLICY.format(url=url, countries=", ".join(f'"C{n}"' for n in range(COUNTRIES)))


def rows_query(rows: int) -> str:
    """The rows as a query of DuckDB."""
    return ROWS.format(rows=rows, countries=COUNTRIES, seconds=SECONDS)


def make_duckdb(file: Path, rows: int) -> str:
    """Makes a file of so many rows, unless it is there; gives its URL."""
    if not file.exists():
        new = file.with_suffix(".new")
        new.unlink(missing_ok=True)
        with duckdb.connect(new) as connection:
            connection.execute(DDL.format(text="VARCHAR"))
            connection.execute(f"INSERT INTO visits {rows_query(rows)}")
        new.rename(file)
    return f"duckdb:///{file}"


def make_postgres(server: Databases, folder: Path, rows: int) -> str:
    """Makes a database of so many rows in a running server; gives the URL of a role that may read it.

    `folder`: where the rows lie as text for that long.
    """
    name = server.make([DDL.format(text="TEXT")])
    lines = folder / "rows.csv"
    with duckdb.connect() as connection:
        connection.execute(f"COPY ({rows_query(rows)}) TO '{lines}' (FORMAT csv, HEADER false)")
    into = b"COPY visits FROM STDIN (FORMAT csv)"
    with server.owner(name) as owner, lines.open("rb") as file:
        with owner.cursor() as cursor, cursor.copy(into) as copy:
            while block := file.read(1 << 20):
                copy.write(block)
        lines.unlink()
        owner.execute(b"VACUUM (ANALYZE) visits")
    return server.url(name)
