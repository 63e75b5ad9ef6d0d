"""Enumerated types for clients, on both engines: what they see, what is compared and how it is ordered.

Answers are compared with those of the database itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import duckdb
import psycopg
import pytest
from psycopg.types.enum import EnumInfo, register_enum

from dpproxy.catalog.build_policy import policy_warnings
from dpproxy.config.sections import load
from dpproxy.deployment.service import Service, configured
from dpproxy.server.local_client import ClientError
from tests.dpproxy.postgres_data import databases
from tests.dpproxy.serving import Running, serving

pytestmark = pytest.mark.service

PEOPLE, NEAR = 4000, 30
LEVELS = ("low", "medium", "high")
MOODS = ("it's ok", "Glück", 'a "b"', "back\\slash", "")
MANY = tuple(f"ward {n:04}" for n in range(2000, 0, -1))


def _labels(listed: tuple[str, ...]) -> str:
    return ", ".join("'" + label.replace("'", "''") + "'" for label in listed)


SCHEMA = (
    'CREATE SCHEMA "Odd"',
    f"CREATE TYPE level AS ENUM ({_labels(LEVELS)})",
    f'CREATE TYPE "Odd"."My ""mood""" AS ENUM ({_labels(MOODS)})',
    f"CREATE TYPE ward AS ENUM ({_labels(MANY)})",
    "CREATE TYPE private AS ENUM ('nobody', 'sees')",
    'CREATE TABLE people (id BIGINT PRIMARY KEY, lev level NOT NULL, was level, mood "Odd"."My ""mood""" NOT NULL, '
    "ward ward NOT NULL, secret private, listed level[])",
    "CREATE TABLE visits (id BIGINT PRIMARY KEY, person BIGINT NOT NULL REFERENCES people (id), lev level NOT NULL)",
    "CREATE TABLE levels (lev level PRIMARY KEY)",
    "INSERT INTO levels VALUES ('low'), ('medium'), ('high')",
    "CREATE TABLE tickets (id INTEGER PRIMARY KEY, lev level NOT NULL REFERENCES levels (lev))",
    "INSERT INTO people SELECT g, CAST(CASE WHEN g % 4 < 2 THEN 'low' WHEN g % 4 = 2 THEN 'medium' ELSE 'high' END "
    "AS level), CAST(CASE g % 5 WHEN 0 THEN 'low' WHEN 1 THEN 'medium' WHEN 2 THEN 'high' END AS level), "
    "CAST(CASE WHEN g % 2 = 0 THEN 'it''s ok' WHEN g % 4 = 1 THEN 'Glück' ELSE '' END AS \"Odd\".\"My \"\"mood\"\"\"), "
    "CAST(CASE WHEN g % 2 = 0 THEN 'ward 1999' ELSE 'ward 0007' END AS ward), CAST('sees' AS private), NULL "
    f"FROM (SELECT CAST(s.g AS BIGINT) AS g FROM generate_series(1, {PEOPLE}) AS s(g)) AS r",
    "INSERT INTO visits SELECT 2 * id + n, id, CAST(CASE WHEN n = 0 THEN 'medium' WHEN id % 2 = 0 THEN 'low' "
    "ELSE 'high' END AS level) FROM people, (SELECT 0 AS n UNION ALL SELECT 1) AS t",
    "INSERT INTO tickets VALUES (1, 'high'), (2, 'low'), (3, 'medium')",
)
POLICY = """
[backend]
url = "{url}"
[server]
auth = "trust"
[privacy]
epsilon_per = 16
delta_per = 1e-6
query_information = 2
[budget]
mode = "track"
[budget.analysts.ann]
publish = true

[tables.people]
privacy_unit = "id"
[tables.people.columns]
lev = {{ domain_from = "type" }}
was = {{ domain_from = "type", nullable = true }}
mood = {{ domain_from = "type" }}
ward = {{ domain_from = "type" }}
secret = {{ hidden = true }}

[tables.visits]
privacy_unit_path = ["person -> people.id"]
[tables.visits.columns]
lev = {{ domain_from = "type" }}

[tables.tickets]
public = true
[tables.tickets.columns]
lev = {{ domain_from = "type" }}
"""


@dataclass(frozen=True)
class World:
    running: Running
    bare: psycopg.Connection


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[psycopg.Connection, str]]:
    with databases(tmp_path_factory.mktemp("enumerated") / "server") as server:
        name = server.make(SCHEMA)
        with server.owner(name) as owner:
            yield owner, server.url(name)


@pytest.fixture(scope="module", params=["duckdb", "postgres"])
def world(
    request: pytest.FixtureRequest,
    bare: tuple[psycopg.Connection, str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[World]:
    folder = tmp_path_factory.mktemp(request.param)
    url = bare[1]
    if request.param == "duckdb":
        filled(folder)
        url = "duckdb:///enums.duckdb"
    (folder / "dpproxy.toml").write_text(POLICY.format(url=url))
    with serving(["serve", "-c", str(folder / "dpproxy.toml"), "--port", "0"], folder=folder) as running:
        yield World(running, bare[0])


def filled(folder: Path) -> None:
    """The same data in DuckDB, which calls the schema of `level` main."""
    with duckdb.connect(folder / "enums.duckdb") as connection:
        for statement in SCHEMA:
            connection.execute(statement)


ASKED = (
    "SELECT count(*) FROM people WHERE lev >= 'medium'",
    "SELECT count(*) FROM people WHERE 'medium' > lev",
    "SELECT count(*) FROM people WHERE lev BETWEEN 'medium' AND 'high'",
    "SELECT count(*) FROM people WHERE NOT (lev > 'low' AND was < 'high')",
    "SELECT count(*) FROM people WHERE lev > was",
    "SELECT count(*) FROM people WHERE lev >= 'medium'::level",
    "SELECT count(*) FROM people WHERE lev >= (SELECT max(lev) FROM tickets)",
    "SELECT count(*) FROM people WHERE lev >= ALL (ARRAY['low', 'medium']::level[])",
    "SELECT count(*) FROM people WHERE lev::text >= 'low'",
    "SELECT count(*) FROM people WHERE coalesce(was, 'high') >= 'medium'",
    "SELECT count(*) FROM people WHERE mood < 'Glück'",
    "SELECT count(*) FROM people WHERE mood >= 'a \"b\"'",
    "SELECT count(*) FROM people WHERE ward < 'ward 1000'",
    "SELECT count(*) FILTER (WHERE lev > 'low') FROM people",
    "SELECT max(lev), min(lev) FROM people",
    "SELECT min(mood) FROM people WHERE mood > 'it''s ok'",
    "SELECT lev, count(*) FROM people GROUP BY lev ORDER BY lev",
    "SELECT lev, count(*) FROM people WHERE lev > 'low' GROUP BY lev ORDER BY lev DESC",
    "SELECT was, count(*) FROM people GROUP BY was ORDER BY was NULLS FIRST",
    "SELECT DISTINCT lev FROM people ORDER BY 1",
    "SELECT mood, count(*) FROM people GROUP BY mood HAVING count(*) > 500 ORDER BY mood",
    "SELECT lev, was, count(*) FROM people WHERE was IS NOT NULL GROUP BY lev, was ORDER BY lev, was",
    "SELECT CASE WHEN lev > 'low' THEN lev ELSE 'low' END AS k, count(*) FROM people GROUP BY k ORDER BY k",
    "SELECT q.top, count(*) FROM (SELECT person, max(lev) AS top FROM visits GROUP BY person) AS q "
    "GROUP BY q.top ORDER BY q.top",
    "SELECT count(*) FROM (SELECT person, min(lev) AS least FROM visits GROUP BY person) AS q WHERE least > 'low'",
    "SELECT lev, count(*) FROM (SELECT lev, row_number() OVER (PARTITION BY person ORDER BY lev DESC) AS n "
    "FROM visits) AS q WHERE n = 1 GROUP BY lev ORDER BY lev",
    "SELECT count(*) FROM (SELECT lev, max(lev) OVER (PARTITION BY person) AS top FROM visits) AS q WHERE lev < top",
    "SELECT t.lev, count(DISTINCT p.id) FROM people p JOIN tickets t ON p.lev = t.lev WHERE t.lev < 'high' "
    "GROUP BY t.lev ORDER BY t.lev",
    "SELECT t.id, count(DISTINCT p.id) FROM people p JOIN tickets t ON p.lev > t.lev GROUP BY t.id ORDER BY t.id",
    "SELECT x.l, count(*) FROM people p JOIN (SELECT lev AS l FROM tickets WHERE id < 3) x ON p.lev = x.l "
    "GROUP BY x.l ORDER BY x.l",
    "SELECT lev FROM tickets ORDER BY lev",
    "SELECT max(lev), min(lev), count(*) FILTER (WHERE lev >= 'medium') FROM tickets",
    'SELECT enum_range(NULL::level), enum_last(NULL::"Odd"."My ""mood""")',
)


@pytest.mark.parametrize("sql", ASKED)
def test_answers_are_those_of_the_database(world: World, sql: str) -> None:
    with world.running.connect("ann") as analyst:
        cursor = analyst.execute(sql.encode())
        found = cursor.fetchall()
    truth = world.bare.execute(sql.encode()).fetchall()
    if len(found) > len(truth):
        # Groups of a known domain that nobody is in.
        found = [row for row in found if row[-1] >= NEAR]
    assert len(found) == len(truth), (found, truth)
    for row, wanted in zip(found, truth, strict=True):
        for value, true in zip(row, wanted, strict=True):
            number = isinstance(true, int) and "tickets" not in sql.partition("people")[0]
            assert abs(value - true) < NEAR if number else value == true, (found, truth)


WRONG = (
    ("SELECT count(*) FROM people WHERE lev = 'none'", "22P02"),
    ("SELECT count(*) FROM people WHERE lev >= 'none'", "22P02"),
    ("SELECT count(*) FROM tickets WHERE lev > 'none'", "22P02"),
    ("SELECT count(*) FROM people WHERE lev = mood", "42883"),
    ("SELECT count(*) FROM people WHERE lev LIKE 'l%'", "42883"),
    ("SELECT lower(lev) FROM tickets", "42883"),
    ("SELECT count(*) FROM people WHERE greatest(lev, was) = 'low'", "PV020"),
    ("SELECT count(*) FROM people WHERE ward > (lev::text)::ward", "PV020"),
    # PostgreSQL calls it stable: it reads the catalog.
    ("SELECT count(*) FROM people WHERE lev = ANY (enum_range('medium'::level, NULL))", "PV020"),
    ("SELECT 'sees'::private", "42704"),
)


@pytest.mark.parametrize(("sql", "code"), WRONG)
def test_what_is_no_value_or_no_operation_of_the_type_is_refused(world: World, sql: str, code: str) -> None:
    with world.running.connect("bob") as analyst:
        with pytest.raises(psycopg.Error) as caught:
            analyst.execute(sql.encode())
        assert caught.value.sqlstate == code
        spent = analyst.execute("SELECT used FROM dpproxy.budget").fetchall()
    assert all(used == 0 for (used,) in spent)


@pytest.mark.parametrize("binary", [False, True])
def test_parameters_have_the_type_in_both_formats(world: World, binary: bool) -> None:
    sign = "%b" if binary else "%t"
    sql = f"SELECT count(*) FROM people WHERE lev >= {sign}"
    with world.running.connect(f"cy {binary}") as analyst:
        info = EnumInfo.fetch(analyst, "level")
        assert info is not None
        assert tuple(info.labels) == LEVELS
        register_enum(info, analyst)
        assert info.enum is not None
        for label, truth in zip(LEVELS, (PEOPLE, PEOPLE // 2, PEOPLE // 4), strict=True):
            for _ in range(3):  # psycopg prepares nothing here, the proxy plans again with each value
                row = analyst.execute(sql.encode(), (info.enum[label],), binary=binary).fetchone()
                assert row is not None
                assert abs(row[0] - truth) < NEAR
        found = analyst.execute(
            f"SELECT lev FROM people WHERE lev = ANY({sign}) GROUP BY lev ORDER BY lev".encode(),
            ([info.enum["high"], info.enum["low"]],),
            binary=binary,
        ).fetchall()
        assert found == [(info.enum["low"],), (info.enum["high"],)]
        row = analyst.execute(sql.encode(), (None,)).fetchone()
        assert row is not None
        assert abs(row[0]) < NEAR
        with pytest.raises(psycopg.errors.InvalidTextRepresentation):
            analyst.execute("SELECT count(*) FROM people WHERE lev >= %s::level", ("none",))


def test_a_parameter_buys_what_the_constant_has_bought(world: World) -> None:
    with world.running.connect("dan") as analyst:
        first = analyst.execute("SELECT count(*) FROM people WHERE lev >= 'high'").fetchall()
        spent = analyst.execute("SELECT sum(used) FROM dpproxy.budget").fetchall()
        assert (
            analyst.execute("SELECT count(*) FROM people WHERE lev >= %s::level", ("high",)).fetchall()
            == first
        )
        assert analyst.execute("SELECT count(*) FROM people WHERE lev = 'high'").fetchall() == first
        assert analyst.execute("SELECT sum(used) FROM dpproxy.budget").fetchall() == spent


def test_catalogs_show_the_types_of_visible_columns_alone(world: World) -> None:
    shown = (
        "SELECT t.oid::regtype::text, e.enumlabel FROM pg_type t JOIN pg_enum e ON e.enumtypid = t.oid "
        "WHERE t.typname <> 'private' ORDER BY 1, e.enumsortorder"
    )
    columns = (
        "SELECT attname, atttypid::regtype::text FROM pg_attribute WHERE attrelid = 'people'::regclass AND attnum > 0 "
        "AND attname NOT IN ('secret', 'listed') AND NOT attisdropped ORDER BY attname"
    )
    with world.running.connect("eve") as analyst:
        for sql in (shown, columns):
            assert analyst.execute(sql.encode()).fetchall() == world.bare.execute(sql.encode()).fetchall()
        found = analyst.execute(
            "SELECT count(*) FROM pg_enum WHERE enumlabel IN ('nobody', 'sees')"
        ).fetchone()
        assert found == (0,)
        listed = "SELECT data_type FROM dpproxy.columns WHERE table_name = 'people' AND column_name = %s"
        assert analyst.execute(listed, ("lev",)).fetchone() == ("level",)
        assert analyst.execute(listed, ("listed",)).fetchone() is None


def test_labels_that_nobody_has_said_to_be_known_are_texts(tmp_path: Path) -> None:
    """DuckDB may have copied them from rows: neither they nor their order are shown, and `check` says so. A key of such
    a column is none of one that is shown as it is."""
    filled(tmp_path)
    file = tmp_path / "dpproxy.toml"
    said = POLICY.format(url="duckdb:///enums.duckdb").replace(
        'lev = { domain_from = "type" }', "lev = {}", 2
    )
    file.write_text(f"{said}[tables.levels]\npublic = true\n")
    with Service.start(configured(file), alone=True) as service:
        warnings = [w for w in policy_warnings(load(file), service.checked.schema) if "shown as text" in w]
        assert [w.split()[0] for w in warnings] == ["people.lev", "visits.lev", "levels.lev"]
        shown = "SELECT pg_typeof(t.lev)::text, pg_typeof(l.lev)::text FROM tickets t, levels l LIMIT 1"
        assert service.front.rows(shown) == (("level", "text"),)


def test_published_labels_are_texts(world: World) -> None:
    with world.running.connect("ann") as analyst:
        analyst.execute("CREATE TABLE published.levels AS SELECT lev, count(*) AS n FROM people GROUP BY lev")
        found = analyst.execute(
            "SELECT lev, pg_typeof(lev)::text FROM published.levels ORDER BY lev"
        ).fetchall()
        analyst.execute("DROP TABLE published.levels")
    assert found == [("high", "text"), ("low", "text"), ("medium", "text")]


NAMED = (
    "CREATE SCHEMA types",
    "CREATE SCHEMA other",
    "CREATE TYPE types.kind AS ENUM ('b', 'a')",
    "CREATE TYPE other.kind AS ENUM ('z', 'y')",
    "CREATE TYPE public.date AS ENUM ('today', 'never')",
    "CREATE TYPE public.\"int[]\" AS ENUM ('[]', '(x)')",
    "CREATE DOMAIN worn AS types.kind",
    "CREATE TABLE things (id bigint PRIMARY KEY, k types.kind NOT NULL, d public.date NOT NULL, "
    'i public."int[]" NOT NULL, w worn NOT NULL)',
    "CREATE TABLE other.things (id bigint PRIMARY KEY, k other.kind NOT NULL)",
    "CREATE VIEW recent AS SELECT id, k, d FROM things WHERE d >= 'today' AND k <= 'a'",
    "INSERT INTO things SELECT g, CASE WHEN g % 2 = 0 THEN 'a' ELSE 'b' END::types.kind, 'never', '(x)', 'a' "
    "FROM generate_series(1, 2000) AS g",
    "INSERT INTO other.things SELECT g, 'y' FROM generate_series(1, 500) AS g",
)
OF_NAMES = """
[backend]
url = "{}"
[privacy]
epsilon_per = 16
delta_per = 1e-6
query_information = 2
[budget]
mode = "track"
[tables.things]
privacy_unit = "id"
[tables.recent]
[tables."other.things"]
privacy_unit = "id"
privacy_unit_kind = "thing"
"""


def said(service: Service, sql: str) -> list[tuple[str | None, ...]]:
    """What is answered, numbers in hundreds."""
    rows = asyncio.run(service.ask("ann", sql)).rows
    return [tuple(str(round(int(v), -2)) if v and v.isdigit() else v for v in row) for row in rows]


def test_types_are_told_apart_by_their_schemas_and_from_those_of_postgres(tmp_path: Path) -> None:
    with databases(tmp_path / "server") as server:
        file = tmp_path / "dpproxy.toml"
        file.write_text(OF_NAMES.format(server.url(server.make(NAMED))))
        with Service.start(configured(file), alone=True) as service:
            # "other" comes first in the path, as the policy's own schema.
            assert said(service, "SELECT k, count(*) FROM public.things GROUP BY k ORDER BY k") == [
                ("b", "1000"),
                ("a", "1000"),
            ]
            assert said(service, "SELECT max(k), min(d), max(i), max(w) FROM public.things") == [
                ("a", "today", "(x)", "a")
            ]
            assert said(service, "SELECT count(*) FROM public.things WHERE k > 'b' AND d > 'today'") == [
                ("1000",)
            ]
            assert said(service, "SELECT count(*) FROM public.things WHERE k < 'a'::types.kind") == [
                ("1000",)
            ]
            assert said(service, "SELECT count(*) FROM public.things WHERE w > 'b'") == [("2000",)]
            assert said(service, "SELECT count(*) FROM things WHERE k > 'z'") == [("500",)]
            assert said(service, "SELECT k, count(*) FROM recent WHERE k >= 'a' GROUP BY k") == [
                ("a", "1000")
            ]
            with pytest.raises(ClientError) as caught:
                said(service, "SELECT count(*) FROM things a JOIN things b ON a.id = b.id AND a.k > 'b'")
            assert caught.value.code == "22P02"


def test_a_changed_type_is_shown_by_a_reload(tmp_path: Path) -> None:
    with databases(tmp_path / "server") as server:
        name = server.make(SCHEMA)
        file = tmp_path / "dpproxy.toml"
        file.write_text(POLICY.format(url=server.url(name)))
        count = "SELECT count(*) FROM people WHERE lev {}"
        with Service.start(configured(file), alone=True) as service:
            before = said(service, count.format("= 'low'"))
            with server.owner(name) as owner:
                owner.execute("ALTER TYPE level ADD VALUE 'some' BEFORE 'medium'")
                owner.execute("ALTER TYPE level RENAME VALUE 'high' TO 'top'")
                owner.execute("UPDATE people SET lev = 'some' WHERE id % 4 = 1")
            service.reload(load(file))
            labels = "SELECT string_agg(e::text, ' ') FROM unnest(enum_range(NULL::level)) AS e"
            assert said(service, labels) == [("low some medium top",)]
            assert said(service, "SELECT lev, count(*) FROM people GROUP BY lev ORDER BY lev") == [
                ("low", "1000"),
                ("some", "1000"),
                ("medium", "1000"),
                ("top", "1000"),
            ]
            assert said(service, count.format("> 'low'")) == [("3000",)]
            # The answer to what the change does not decide is the one that was bought.
            assert said(service, count.format("= 'low'")) == before
