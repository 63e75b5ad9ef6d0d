"""Published answers as clients see them: paid for once, free for everybody, and changed by their publisher alone."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from typer.testing import CliRunner

from dpproxy.cli.app import app
from tests.dpproxy.serving import POLICY, Running, command, make, serving

pytestmark = pytest.mark.service

MORE = """
[server]
auth = "trust"
[budget]
information = 20
calls = 5
[budget.dataset]
information = 300
calls = 30
[budget.analysts.ann]
publish = true
[budget.analysts.cal]
publish = true
"""
BY_TOWN = "SELECT town, COUNT(*) AS n FROM people GROUP BY town"
Connection = psycopg.Connection[Any]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder: Path = tmp_path_factory.mktemp("published")
    make(folder, POLICY + MORE)
    with serving(["serve", "--port", "0"], folder=folder) as running:
        yield running


@pytest.fixture
def ann(server: Running) -> Iterator[Connection]:
    """Who may publish; what is left over is taken back."""
    with server.connect("ann") as connection:
        yield connection
        connection.rollback()
        for (name,) in rows(connection, "SELECT name FROM dpproxy.published WHERE publisher = 'ann'"):
            connection.execute(f'DROP TABLE published."{name}"'.encode())


@pytest.fixture
def bob(server: Running) -> Iterator[Connection]:
    """Who may not."""
    with server.connect("bob") as connection:
        yield connection


@pytest.fixture
def cals(server: Running) -> Iterator[str]:
    """What another one has published."""
    with server.connect("cal") as cal:
        cal.execute("CREATE TABLE published.cals AS SELECT 2 AS a")
        yield "cals"
        cal.execute("DROP TABLE published.cals")


def rows(connection: Connection, sql: str) -> list[tuple[Any, ...]]:
    return connection.execute(sql.encode()).fetchall()


def used(connection: Connection) -> list[tuple[Any, ...]]:
    return rows(
        connection, "SELECT used FROM dpproxy.budget WHERE account LIKE 'analyst%' ORDER BY unit DESC"
    )


def refused(connection: Connection, sql: str) -> psycopg.Error:
    with pytest.raises(psycopg.Error) as caught:
        connection.execute(sql.encode())
    return caught.value


def test_the_publisher_pays_once_and_everybody_reads(ann: Connection, bob: Connection) -> None:
    before = used(ann)
    done = ann.execute(f"CREATE TABLE published.towns AS {BY_TOWN}".encode())
    assert done.statusmessage == "SELECT 3"
    assert used(ann)[0][0] == before[0][0] + 1
    found = rows(bob, "SELECT * FROM published.towns ORDER BY town")
    assert [(town, round(stddev, 2)) for town, _, stddev in found] == [
        (t, 13.33) for t in ("Bonn", "Jena", "Ulm")
    ]
    assert [(town, n) for town, n, _ in found] == rows(ann, f"{BY_TOWN} ORDER BY town"), "what was paid for"
    joined = (
        "SELECT r.floor, SUM(t.n) FROM published.towns t JOIN rooms r ON r.room < 2 GROUP BY 1 ORDER BY 1"
    )
    total = sum(n for _, n, _ in found)
    assert rows(bob, joined) == [(0, total), (1, total)]
    assert used(bob) == [(0,), (0,)]
    assert used(ann)[0][0] == before[0][0] + 1


def test_catalogs_tell_what_it_is_and_how_old(ann: Connection, bob: Connection, server: Running) -> None:
    ann.execute("SET dpproxy.refresh = 'epoch'")
    ann.execute(f"CREATE TABLE published.towns AS {BY_TOWN}".encode())
    ann.execute("COMMENT ON TABLE published.towns IS 'People by town'")
    ann.execute("COMMENT ON COLUMN published.towns.n IS 'Give or take 26'")
    columns = rows(
        bob,
        "SELECT column_name, data_type, col_description('published.towns'::regclass, ordinal_position) "
        "FROM information_schema.columns WHERE table_schema = 'published' ORDER BY ordinal_position",
    )
    assert columns == [
        ("town", "text", None),
        ("n", "bigint", "Give or take 26"),
        ("n_stddev", "double precision", None),
    ]
    ((told, age),) = rows(
        bob,
        "SELECT obj_description('published.towns'::regclass), now() - refreshed_at < '1 min' AND next_refresh > now() "
        "FROM dpproxy.published WHERE name = 'towns'",
    )
    assert told.startswith("People by town (published by ann, released 20")
    assert told.endswith("UTC, refreshed each epoch)")
    assert age is True
    told = rows(
        bob, "SELECT publisher, refresh, information, calls, last_error, query FROM dpproxy.published"
    )
    assert [(p, r, c, e, q) for p, r, _, c, e, q in told] == [("ann", "epoch", 0, None, BY_TOWN)]


def test_psql_describes_it(ann: Connection, server: Running, psql: str) -> None:
    ann.execute(f"CREATE TABLE published.towns AS {BY_TOWN}".encode())
    url = f"host=127.0.0.1 port={server.port} user=bob dbname=dpproxy"
    said = subprocess.run(
        [psql, url, "-c", r"\d+ published.towns"], capture_output=True, text=True, check=True
    )
    assert 'Table "published.towns"' in said.stdout
    assert "n_stddev" in said.stdout


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        (f"CREATE TABLE published.more AS {BY_TOWN}", "42501"),
        ("DROP TABLE IF EXISTS published.towns", "42501"),
        ("CREATE SCHEMA IF NOT EXISTS published", "42501"),
        ("SELECT 1 AS a INTO published.more", "42501"),
        ("COPY published.towns FROM STDIN", "42501"),
        ("WITH gone AS (DELETE FROM published.towns RETURNING 1) SELECT * FROM gone", "42501"),
        ("SELECT COUNT(*) FROM people JOIN published.towns ON true", "0A000"),
    ],
)
def test_who_may_not_publish_only_reads(ann: Connection, bob: Connection, sql: str, code: str) -> None:
    ann.execute("CREATE TABLE published.towns AS SELECT 1 AS town")
    error = refused(bob, sql)
    assert error.sqlstate == code
    if sql.startswith("CREATE TABLE"):
        assert "publish = true" in str(error.diag.message_hint)
    assert rows(bob, "SELECT * FROM published.towns") == [(1,)]


@pytest.mark.parametrize(
    ("sql", "code", "position"),
    [
        (
            "CREATE TABLE published.taken AS SELECT COUNT(*) AS n FROM people WHERE person_id < 7",
            "42P07",
            None,
        ),
        ("CREATE TABLE published.x AS SELECT COUNT(*), COUNT(*) FROM people", "42701", None),
        ("CREATE TABLE published.x AS SELECT town FROM people", "PV010", "36"),
        ("CREATE TABLE published.x AS SELECT missing FROM people", "42703", "36"),
        ("CREATE TABLE published.x AS SELECT ROW(1, 2) AS r", "42P16", None),
        ("CREATE TABLE published.x AS SELECT * FROM dpproxy.budget", "0A000", None),
        ("CREATE TABLE published.x AS SELECT * FROM people JOIN published.taken ON true", "0A000", None),
        (
            "CREATE TABLE published.x AS WITH d AS (DELETE FROM rooms RETURNING 1) SELECT * FROM d",
            "0A000",
            "34",
        ),
        ("ALTER TABLE published.taken RENAME TO cals", "42P07", None),
        ("ALTER TABLE published.missing RENAME TO x", "42P01", None),
        ("ALTER TABLE published.cals RENAME TO x", "42501", None),
        ("DROP TABLE published.taken, published.cals", "42501", None),
        ("DROP TABLE published.missing", "42P01", None),
        ("COMMENT ON COLUMN published.taken.missing IS 'x'", "42703", None),
        ("COMMENT ON TABLE published.cals IS 'x'", "42501", None),
    ],
)
def test_what_cannot_be_done_costs_nothing(
    ann: Connection, cals: str, sql: str, code: str, position: str | None
) -> None:
    ann.execute("CREATE TABLE published.taken AS SELECT 1 AS a")
    before = used(ann)
    error = refused(ann, sql)
    assert (error.sqlstate, error.diag.statement_position) == (code, position)
    assert used(ann) == before
    names = rows(ann, "SELECT name FROM dpproxy.published ORDER BY name")
    assert names == [(cals,), ("taken",)]
    assert names == rows(ann, "SELECT tablename FROM pg_tables WHERE schemaname = 'published' ORDER BY 1")


def test_refreshing_by_periods_and_wrong_words(ann: Connection) -> None:
    ann.execute("SET dpproxy.refresh = 'period'")
    ann.execute("CREATE TABLE published.p AS SELECT COUNT(*) AS n FROM people")
    # The period may begin with the purchase itself, a moment after the answer's time.
    apart = "next_refresh - refreshed_at BETWEEN '29 days' AND '30 days 00:01:00'"
    assert rows(ann, f"SELECT {apart} FROM dpproxy.published") == [(True,)]
    ann.execute("SET dpproxy.refresh = 'daily'")
    assert refused(ann, "CREATE TABLE published.d AS SELECT 1 AS a").sqlstate == "22023"


def test_transactions(ann: Connection) -> None:
    ann.execute("BEGIN")
    ann.execute("CREATE TABLE published.a AS SELECT COUNT(*) AS n FROM people")
    ann.execute("ALTER TABLE published.a RENAME TO b")
    assert len(rows(ann, "SELECT n FROM published.b")) == 1
    ann.execute("ROLLBACK")
    assert len(rows(ann, "SELECT n FROM published.b")) == 1, "no ROLLBACK takes back what was paid for"
    before = used(ann)
    ann.execute("BEGIN")
    refused(ann, "SELECT nonsense")
    create = "CREATE TABLE published.c AS SELECT COUNT(*) AS n FROM people WHERE person_id < 5"
    assert refused(ann, create).sqlstate == "25P02"
    ann.execute("ROLLBACK")
    assert used(ann) == before
    for mode, code in (("READ ONLY", "25006"), ("ISOLATION LEVEL REPEATABLE READ", "0A000")):
        ann.execute(f"BEGIN {mode}".encode())
        assert refused(ann, "DROP TABLE published.b").sqlstate == code
        ann.execute("ROLLBACK")
    ann.execute("BEGIN")
    ann.execute("SELECT * FROM published.b")
    assert refused(ann, "DROP TABLE published.b").sqlstate == "55P03"
    ann.execute("ROLLBACK")
    assert len(rows(ann, "SELECT n FROM published.b")) == 1


def test_every_way_of_sending(ann: Connection) -> None:
    done = ann.execute("CREATE TABLE published.a AS SELECT 1 AS x; DROP TABLE published.a; SELECT 1")
    tags = [done.statusmessage]
    while done.nextset():
        tags.append(done.statusmessage)
    assert tags == ["SELECT 1", "DROP TABLE", "SELECT 1"]
    create = ann.execute("CREATE TABLE published.a AS SELECT COUNT(*) AS n FROM people", prepare=True)
    assert (create.statusmessage, create.description) == ("SELECT 1", None)
    lenient = ann.execute("CREATE TABLE IF NOT EXISTS published.a AS SELECT 1 AS x", binary=True)
    assert lenient.statusmessage == "CREATE TABLE AS"
    with ann.pipeline(), ann.cursor() as cursor:
        cursor.execute("ALTER TABLE published.a RENAME TO b")
        cursor.execute("COMMENT ON TABLE published.b IS 'x'")
        cursor.execute("DROP TABLE IF EXISTS published.b, published.never CASCADE")
        cursor.execute("CREATE SCHEMA IF NOT EXISTS published")
    assert rows(ann, "SELECT name FROM dpproxy.published") == []
    ann.execute("SET dpproxy.notices = off")
    said: list[str] = []
    ann.add_notice_handler(lambda notice: said.append(str(notice.message_primary)))
    ann.execute("CREATE TABLE published.a AS SELECT COUNT(*) AS n FROM people")
    assert said == []
    ann.execute("DROP TABLE IF EXISTS published.never")
    assert said == ['table "never" does not exist, skipping']


def test_values_come_through_as_they_are(ann: Connection, bob: Connection) -> None:
    values = (
        "1.50::numeric(6, 2) AS d, 0.1::float8 AS f, true AS b, NULL::text AS n, E'a\\tb\\\\N' AS t, "
        "'2024-02-29 12:00+02'::timestamptz AS z, '{1,NULL}'::int[] AS a, '\\x00ff'::bytea AS y, '1 day'::interval AS i"
    )
    ann.execute(f"CREATE TABLE published.v AS SELECT {values}".encode())
    assert rows(bob, "SELECT * FROM published.v") == rows(bob, f"SELECT {values}")
    types = (
        "SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = 'published.v'::regclass"
    )
    assert rows(bob, f"{types} AND attnum = 1") == [("numeric(6,2)",)]


def run(folder: Path, *arguments: str) -> tuple[int, str]:
    """A command in this process, with its configuration; its exit code and all that it says."""
    done = CliRunner().invoke(app, [*arguments, "-c", str(folder / "dpproxy.toml")])
    return done.exit_code, done.output


def test_commands_and_restarts(tmp_path: Path) -> None:
    make(tmp_path, POLICY + MORE)
    towns, two = tmp_path / "towns.sql", tmp_path / "two.sql"
    towns.write_text(f"{BY_TOWN};\n")
    two.write_text("SELECT 1; SELECT 2")
    code, said = run(tmp_path, "publish", "towns", "--sql", str(towns), "--refresh", "epoch")
    assert (code, "charged 1 information unit" in said) == (0, True)
    with serving(["serve", "--port", "0", "--workers", "2"], folder=tmp_path) as running:
        with running.connect("bob") as bob, running.connect("ann") as ann:
            first = rows(bob, "SELECT * FROM published.towns ORDER BY town")
            assert len(first) == 3
            with pytest.raises(psycopg.OperationalError, match='"owner" is kept for the commands'):
                running.connect("owner")
            code, said = run(tmp_path, "publish", "towns", "--sql", str(towns))
            assert (code, "already exists" in said) == (1, True)
            assert run(tmp_path, "publish", "more", "--sql", str(two))[0] == 1
            assert run(tmp_path, "published", "refresh", "towns") == (0, "")
            assert run(tmp_path, "published", "refresh", "never")[0] == 1
            assert rows(bob, "SELECT * FROM published.towns ORDER BY town") == first, (
                "the same epoch's, for nothing"
            )
            ann.execute("CREATE TABLE published.floors AS SELECT DISTINCT floor FROM rooms")
            assert len(rows(bob, "SELECT * FROM published.floors")) == 2
            listed = json.loads(run(tmp_path, "published", "list", "--json")[1])
            told = [(one["name"], one["publisher"], one["refresh"]) for one in listed]
            assert told == [("floors", "ann", "once"), ("towns", "owner", "epoch")]
            assert run(tmp_path, "published", "drop", "floors") == (0, "")
            assert run(tmp_path, "published", "drop", "floors")[0] == 1
            assert rows(bob, "SELECT name FROM dpproxy.published") == [("towns",)]
        running.stop()
    asked = command(
        "query",
        "--analyst",
        "bob",
        "--format",
        "json",
        "SELECT * FROM published.towns ORDER BY town",
        folder=tmp_path,
    )
    assert json.loads(asked.stdout)["rows"] == [list(row) for row in first]


@pytest.mark.parametrize(
    "column",
    ["x", "array_agg(x)", "NULL::published.kept", "ARRAY[NULL::public.rooms]", "NULL::dpproxy.budget"],
)
def test_no_table_hangs_on_another_one(ann: Connection, column: str) -> None:
    """A column of a row type keeps the table whose rows these are from being dropped, or given other columns."""
    ann.execute(f"CREATE TABLE published.kept AS {BY_TOWN}".encode())
    with pytest.raises(psycopg.Error) as refused:
        ann.execute(
            f"CREATE TABLE published.hanging AS SELECT {column} AS y FROM published.kept AS x".encode()
        )
    assert refused.value.sqlstate == "42P16"
    assert refused.value.diag.message_hint
    ann.execute("DROP TABLE published.kept")
