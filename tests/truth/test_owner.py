"""An owner's views and filters, as owners write them: the same people as the backend itself counts."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import psycopg
import pytest

from tests.dpproxy.serving import serving
from tests.oracle.world import Server
from tests.truth.compare import answer_to
from tests.truth.world import SETTINGS

VISITS = (
    "id bigint NOT NULL, seen timestamp NOT NULL, kind text NOT NULL, cancelled boolean, amount numeric(8,2)"
)
TABLES = {
    "patients": (
        "id bigint NOT NULL, status varchar(10), consent boolean, deleted_at timestamp, email text, country char(2),"
        " birth date NOT NULL, risk risk"
    ),
    "consents": "id bigint NOT NULL, given boolean NOT NULL, until date",
    "visits": VISITS,
    "archive": VISITS,
}
VIEWS = {
    "consenting": "SELECT * FROM patients WHERE consent",
    "not_refused": "SELECT * FROM patients WHERE consent IS NOT FALSE AND deleted_at IS NULL",
    "sized": "SELECT * FROM patients WHERE status <> 'opted-outside'::varchar(9)",
    "padded": "SELECT * FROM patients WHERE country = 'D'::char(2) OR country = 'DE '",
    "spelt_out": (
        "SELECT id, CASE WHEN consent THEN 'yes' WHEN consent IS NULL THEN 'unknown' ELSE 'no' END AS status"
        " FROM patients WHERE CASE WHEN deleted_at IS NULL THEN status ELSE 'gone' END <> 'gone'"
    ),
    "addressed": r"SELECT * FROM patients WHERE email ~* '^[^@ ]+@example\.(org|com)$'",
    "no_tests": "SELECT * FROM patients WHERE email NOT LIKE '%+test@%' AND email NOT ILIKE 'noreply@%'",
    "adults": "SELECT * FROM patients WHERE birth <= DATE '2006-07-05'",
    "at_risk": "SELECT id, status, risk FROM patients WHERE risk >= 'medium' AND risk <> 'none'",
    "with_consent": (
        "SELECT p.id, p.status FROM patients p LEFT JOIN consents c ON c.id = p.id"
        " WHERE coalesce(c.given, false)"
    ),
    "still_consenting": (
        "SELECT p.id, p.status FROM patients p WHERE EXISTS"
        " (SELECT 1 FROM consents c WHERE c.id = p.id AND c.given AND c.until > DATE '2024-06-01')"
    ),
    "never_asked": (
        "SELECT p.id, p.status FROM patients p WHERE NOT EXISTS (SELECT 1 FROM consents c WHERE c.id = p.id)"
    ),
    "adults_at_risk": "SELECT a.id, a.status FROM adults a WHERE a.risk IN ('high', 'medium')",
    "kept_visits": (
        "SELECT v.id, v.kind AS status, v.amount FROM visits v JOIN patients p ON p.id = v.id"
        " WHERE p.deleted_at IS NULL AND v.cancelled IS NOT TRUE"
    ),
    "all_visits": (
        "SELECT id, kind AS status, amount FROM visits WHERE NOT cancelled"
        " UNION ALL SELECT id, lower(kind), amount FROM archive"
    ),
}
"""Views of both engines."""
POSTGRESQL_ALONE = ("sized", "padded", "at_risk")
"""DuckDB has no types of such sizes, and compares enumerated values with a text as texts."""
FILTERS = {
    "undeleted": ("patients", "deleted_at IS NULL"),
    "stayed": ("patients", "consent IS NOT FALSE AND status <> 'opted-outside'::varchar(9)"),
    "european": ("patients", "CASE country WHEN 'DE' THEN true WHEN 'FR' THEN consent ELSE false END"),
    "by_address": ("patients", "NOT (email LIKE '%@example.net') AND length(email) > 12"),
    "held": ("visits", "NOT cancelled AND amount > 0.5 AND seen >= TIMESTAMP '2024-02-01'"),
}
"""Tables of the owner's file by the table that they are copies of, and their `where`."""
COMPUTED = "CASE WHEN consent THEN 'in' WHEN NOT consent THEN 'out' ELSE 'unknown' END"


def rows(rng: Random) -> Mapping[str, list[tuple[Any, ...]]]:
    """300 patients, of whom most have been asked, and their visits."""
    names = ("ann@example.org", "Bob@Example.COM", "c d@example.org", "dee+test@example.org", "noreply@x.org")
    patients = [
        (
            number,
            rng.choice(("active", "opted-out", "Active", "gone", None)),
            rng.choice((True, False, None)),
            rng.choice((None, None, dt.datetime(2024, 3, 1))),
            rng.choice((*names, "e@example.net", None)),
            rng.choice(("DE", "D", "FR", None)),
            dt.date(2024, 6, 30) - dt.timedelta(rng.choice((18 * 365, 18 * 365 - 1, rng.randrange(30_000)))),
            rng.choice(("low", "medium", "high", "none", None)),
        )
        for number in range(1, 301)
    ]
    consents = [
        (number, rng.random() < 0.7, rng.choice((None, dt.date(2024, 6, 1), dt.date(2025, 1, 1))))
        for number in range(1, 301)
        if rng.random() < 0.8
    ]

    def visits() -> list[tuple[Any, ...]]:
        return [
            (
                rng.randrange(1, 301),
                dt.datetime(2024, 1, 1) + dt.timedelta(hours=rng.randrange(8000)),
                rng.choice(("visit", "Call")),
                rng.choice((True, False, None)),
                rng.choice((None, Decimal("0.50"), Decimal(rng.randrange(10_000)).scaleb(-2))),
            )
            for _ in range(800)
        ]

    return {"patients": patients, "consents": consents, "visits": visits(), "archive": visits()}


def policy(views: Mapping[str, str]) -> str:
    """The owner's tables, filters and views."""

    def table(name: str, of: str, more: str = "", columns: str = "") -> str:
        known = {
            "patients": 'status = { domain = ["active", "opted-out", "Active", "gone"], nullable = true }\n',
            "visits": 'kind = { domain = ["visit", "Call"] }\n',
        }
        text = f'[tables.{name}]\nprivacy_unit = "id"\n{more}[tables.{name}.columns]\n'
        risk = 'risk = { domain_from = "type", nullable = true }\n' if of == "patients" else ""
        return text + risk + known.get(of, known["visits"] if of == "archive" else "") + columns

    own = "".join(table(name, name) for name in TABLES)
    computed = f'said = {{ expression = "{COMPUTED}", domain = ["in", "out", "unknown"] }}\n'
    filters = [
        table(name, of, f'where = "{where}"\n', computed if of == "patients" else "")
        for name, (of, where) in FILTERS.items()
    ]
    return own + "".join(filters) + "".join(f"[tables.{view}]\n" for view in views)


QUESTIONS = (
    "SELECT count(*), count(DISTINCT id) FROM {}",
    "SELECT {}, count(*), count(DISTINCT id) FROM {} GROUP BY 1",
)


@contextmanager
def served(folder: Path, url: str, views: Mapping[str, str]) -> Iterator[psycopg.Connection]:
    """A session with the proxy without noise."""
    (folder / "dpproxy.toml").write_text(f'[backend]\nurl = "{url}"\n{SETTINGS}{policy(views)}')
    with (
        serving(["serve", "--port", "0"], folder=folder, program=("-m", "tests.truth.exact")) as proxy,
        psycopg.connect(
            host="127.0.0.1", port=proxy.port, user="ann", dbname="any", autocommit=True
        ) as found,
    ):
        yield found


def agree(session: psycopg.Connection, counted: Mapping[str, list[tuple[Any, ...]]]) -> None:
    """Whether the proxy tells what was counted, by question."""
    assert len(counted) >= 2 * (len(VIEWS) - len(POSTGRESQL_ALONE) + len(FILTERS))
    for sql, truth in counted.items():
        told = answer_to(session, sql)
        # A declared group that nobody is in is shown with 0.
        shown = {row for row in told.rows if row[-1] or len(row) == 2}
        assert (shown, told.message) == (set(truth), ""), sql


def questions(views: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """What is asked of the proxy, and of what in the backend."""
    for view in views:
        for question in QUESTIONS:
            text = question.format(*(["status"] * (question.count("{}") - 1)), view)
            yield text, text
    for name, (of, where) in FILTERS.items():
        for question in QUESTIONS:
            key, value = ("said", COMPUTED) if of == "patients" else ("kind", "kind")
            grouped = question.count("{}") > 1
            yield (
                question.format(*([key] if grouped else []), name),
                question.format(*([value] if grouped else []), f"{of} WHERE {where}"),
            )


@pytest.mark.service
def test_postgresqls_views_and_filters_hold_the_same_people(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("owner")
    for above in (folder, folder.parent):
        above.chmod(0o755)
    with closing(Server(folder)) as server, server.database() as name:
        with server.databases.owner(name) as owner:
            owner.execute(b"CREATE TYPE risk AS ENUM ('low', 'medium', 'high', 'none')")
            data = rows(Random(57))
            for table, columns in TABLES.items():
                owner.execute(f"CREATE TABLE {table} ({columns})".encode())
                with owner.cursor().copy(f"COPY {table} FROM STDIN".encode()) as copy:
                    for row in data[table]:
                        copy.write_row(row)
            for copied, (of, _) in FILTERS.items():
                owner.execute(f"CREATE TABLE {copied} AS TABLE {of}".encode())
            for view, text in VIEWS.items():
                owner.execute(f"CREATE VIEW {view} AS {text}".encode())
            owner.execute(b"GRANT USAGE ON SCHEMA public TO reader")
            owner.execute(b"GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader")
            counted = {q: owner.execute(truth.encode()).fetchall() for q, truth in questions(VIEWS)}
        with served(folder, server.databases.url(name), VIEWS) as session:
            agree(session, counted)


@pytest.mark.service
def test_duckdbs_views_and_filters_hold_the_same_people(tmp_path: Path) -> None:
    views = {view: text for view, text in VIEWS.items() if view not in POSTGRESQL_ALONE}
    with duckdb.connect(tmp_path / "owner.duckdb") as owner:
        owner.execute("CREATE TYPE risk AS ENUM ('low', 'medium', 'high', 'none')")
        data = rows(Random(57))
        for table, columns in TABLES.items():
            owner.execute(f"CREATE TABLE {table} ({columns})")
            owner.executemany(
                f"INSERT INTO {table} VALUES ({', '.join('?' * len(data[table][0]))})", data[table]
            )
        for copied, (of, _) in FILTERS.items():
            owner.execute(f"CREATE TABLE {copied} AS TABLE {of}")
        for view, text in views.items():
            owner.execute(f"CREATE VIEW {view} AS {text}")
        counted = {q: owner.execute(truth).fetchall() for q, truth in questions(views)}
    with served(tmp_path, "duckdb:///owner.duckdb", views) as session:
        agree(session, counted)
