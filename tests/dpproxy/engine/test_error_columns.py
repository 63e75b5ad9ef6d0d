"""dpproxy.error_columns: the noise beside the answer, for nothing, where a client learns of the columns in time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.dpproxy.serving import COUNT, POLICY, Running, make, serving

pytestmark = pytest.mark.service

SERVER = '[server]\nauth = "trust"\nerror_columns = ["bi_*"]\n'
MORE = "[budget.dataset]\ninformation = 300\ncalls = 30\n"
ON = "SET dpproxy.error_columns = on"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder: Path = tmp_path_factory.mktemp("errors")
    make(folder, SERVER + POLICY + MORE)
    with serving(["serve", "-c", str(folder / "dpproxy.toml"), "--port", "0"], folder=folder) as running:
        yield running


def names(cursor: psycopg.Cursor[tuple[object, ...]]) -> list[str]:
    return [column.name for column in cursor.description or []]


def used(connection: psycopg.Connection) -> list[tuple[object, ...]]:
    return connection.execute("SELECT used FROM dpproxy.budget ORDER BY unit DESC").fetchall()


def test_columns_are_added_for_nothing(server: Running) -> None:
    with server.connect("ann") as connection:
        connection.prepare_threshold = None
        without = connection.execute(COUNT.encode()).fetchall()
        paid = used(connection)
        connection.execute(ON.encode())
        found = connection.execute(COUNT.encode())
        assert names(found) == ["town", "n", "n_stddev"]
        rows = found.fetchall()
        assert [row[:2] for row in rows] == without
        assert all(abs(float(str(row[2])) - 2 / 0.15) < 0.01 for row in rows)
        assert used(connection) == paid
        for setting in ("off", "off", "on", "on", "off"):
            connection.execute(f"SET dpproxy.error_columns = {setting}".encode())
            shown = connection.execute(COUNT.encode())
            assert names(shown) == ["town", "n", *["n_stddev"] * (setting == "on")]
            assert [row[:2] for row in shown.fetchall()] == without
        in_one_string = connection.execute(f"{ON}; {COUNT}".encode())
        assert in_one_string.nextset()
        assert names(in_one_string) == ["town", "n", "n_stddev"]
        assert used(connection) == paid


@pytest.mark.parametrize(
    ("sql", "columns"),
    [
        (
            "SELECT COUNT(*), 2 * COUNT(*) AS twice FROM people",
            ["count", "twice", "count_stddev", "twice_stddev"],
        ),
        (
            "SELECT town, 100.0 * COUNT(*) / SUM(COUNT(*)) OVER () AS share, ROUND(AVG(LEAST(person_id::int, 9)), 1) "
            "AS mean, RANK() OVER (ORDER BY COUNT(*)) AS place FROM people GROUP BY town ORDER BY share",
            ["town", "share", "mean", "place", "share_stddev", "mean_stddev"],
        ),
        (
            'SELECT town AS "a b", AVG(person_id::int) FILTER (WHERE person_id BETWEEN 1 AND 9) AS "m n" FROM people '
            "GROUP BY town",
            ["a b", "m n", "m n_stddev"],
        ),
        ("SELECT n FROM (SELECT COUNT(*) AS n FROM people) AS q", ["n", "n_stddev"]),
        (
            "WITH q AS (SELECT town, COUNT(*) AS n FROM people GROUP BY town) "
            "SELECT AVG(n), MAX(n), COUNT(*) AS towns FROM q",
            ["avg", "max", "towns", "avg_stddev", "max_low", "max_high"],
        ),
        ("SELECT MAX(LEAST(GREATEST(person_id::int, 0), 9)) FROM people", ["max", "max_low", "max_high"]),
        ("SELECT DISTINCT COUNT(*) FROM people GROUP BY town", ["count"]),
        ("SELECT COUNT(*) AS n FROM people UNION ALL SELECT 1", ["n"]),
        ("SELECT town, COUNT(*) AS n FROM people GROUP BY ROLLUP (town)", ["town", "n", "n_stddev"]),
        ("SELECT room, COUNT(*) FROM rooms GROUP BY room", ["room", "count"]),
    ],
)
def test_outputs_that_the_outermost_select_shows_by_themselves_have_one(
    server: Running, sql: str, columns: list[str]
) -> None:
    with server.connect("bob") as connection:
        connection.execute(ON.encode())
        found = connection.execute(sql.encode())
        assert names(found) == columns
        assert found.fetchall()


def test_a_login_of_the_policy_has_them_without_asking(server: Running) -> None:
    with server.connect("bi_ann") as connection:
        assert names(connection.execute(COUNT.encode())) == ["town", "n", "n_stddev"]
        connection.execute(b"SET dpproxy.error_columns = off")
        assert names(connection.execute(COUNT.encode())) == ["town", "n"]
        connection.execute(b"RESET dpproxy.error_columns")
        assert names(connection.execute(COUNT.encode())) == ["town", "n", "n_stddev"]


def test_constants_and_order_are_kept(server: Running) -> None:
    sql = (
        "SELECT town, COUNT(*) AS n FROM people WHERE person_id > (SELECT COUNT(*) FROM people) - 600 "
        "GROUP BY town ORDER BY 2 DESC LIMIT 2"
    )
    with server.connect("cal") as connection:
        plain = connection.execute(sql.encode()).fetchall()
        connection.execute(ON.encode())
        rows = connection.execute(sql.encode()).fetchall()
        assert [row[:2] for row in rows] == plain
        assert len(rows[0]) == 3


def test_functions_show_them_where_they_are_asked_for(server: Running) -> None:
    with server.connect("fay") as connection:
        plain = connection.execute(COUNT.encode()).fetchall()
        paid = used(connection)
        asked = COUNT.replace(
            " FROM",
            ", dp_low(COUNT(*)), pg_catalog.dp_high(COUNT(*)), dp_stddev(COUNT(*)), "
            "100.0 * dp_high(COUNT(*) - COUNT(*)) AS nothing, dp_high(COUNT(*) / 7) AS cut, "
            "dp_high(COUNT(*) / 7.0) AS whole FROM",
        )
        shown = connection.execute(f"{asked} DESC, dp_stddev(COUNT(*))".encode(), prepare=True)
        assert names(shown) == ["town", "n", "dp_low", "dp_high", "dp_stddev", "nothing", "cut", "whole"]
        rows = shown.fetchall()
        assert [row[:2] for row in rows[::-1]] == plain
        for _, n, low, high, deviation, nothing, cut, whole in rows:
            assert whole == pytest.approx(high / 7)
            assert cut == pytest.approx(n // 7 + (high - n) / 7 + 1)
            assert abs(deviation - 2 / 0.15) < 0.01
            assert (n - low, high - n) == pytest.approx((1.96 * deviation,) * 2)
            assert nothing == 0
        assert used(connection) == paid


@pytest.mark.parametrize(
    "call",
    ["dp_low(RANK() OVER (ORDER BY COUNT(*)))", "dp_stddev(LN(COUNT(*)))", "dp_low(dp_low(COUNT(*)))"],
)
def test_where_none_is_known_the_call_is_refused_free_of_charge(server: Running, call: str) -> None:
    with server.connect("guy") as connection:
        connection.execute("SELECT 1")
        paid = used(connection)
        with pytest.raises(psycopg.errors.FeatureNotSupported, match="is known for this expression"):
            connection.execute(f"SELECT town, {call} FROM people WHERE person_id < 77 GROUP BY town".encode())
        assert used(connection) == paid


@pytest.mark.parametrize("sql", ["SELECT dp_low(7)", "SELECT dp_stddev(floor) FROM rooms"])
def test_what_is_not_released_by_the_statement_has_none(server: Running, sql: str) -> None:
    with (
        server.connect("hal") as connection,
        pytest.raises(psycopg.errors.FeatureNotSupported, match="of the same query"),
    ):
        connection.execute(sql.encode())


def test_the_extended_protocol_keeps_the_columns_that_it_has_told(server: Running) -> None:
    """Describe of a statement answers before any setting can be asked for."""
    with server.connect("dan") as connection:
        connection.execute(ON.encode())
        found = connection.execute(COUNT.encode(), prepare=True)
        assert names(found) == ["town", "n"]
        assert len(found.fetchall()) == 3
        notice = connection.execute("SELECT noise FROM dpproxy.last_release").fetchall()
        assert "n +- 26.1 with 95%" in str(notice)


def test_cursors_and_prepared_statements_show_what_their_query_says(server: Running) -> None:
    with server.connect("eve") as connection, connection.transaction():
        connection.execute(ON.encode())
        connection.execute(f"DECLARE c CURSOR FOR {COUNT}".encode())
        assert names(connection.execute("FETCH ALL FROM c")) == ["town", "n"]
        connection.execute(f"PREPARE p AS {COUNT}".encode())
        assert names(connection.execute("EXECUTE p")) == ["town", "n"]
