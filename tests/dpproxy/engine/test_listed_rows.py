"""Public rows that PostgreSQL evaluates before private ones are joined with them: calendars, VALUES, derived tables."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import duckdb
import pytest

from dpproxy.deployment.service import Service, configured
from rewriter.refusal import Refusal
from tests.dpproxy.engine.test_executor import Analyst
from tests.dpproxy.serving import POLICY, make

pytestmark = pytest.mark.service

TRIPS = """
[privacy]
epsilon_per = 3
[budget]
information = 300
calls = 4
period = "none"
[tables.trips]
privacy_unit = "person_id"
[tables.trips.columns]
went = { range = ["2020-01-01", "2020-12-31"] }
kind = { domain = ["bus", "car", "tram"] }
[tables.kinds]
public = true
"""
BUSES, CARS, TRAMS = 3000, 2000, 1000


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder: Path = tmp_path_factory.mktemp("rows")
    file = make(folder, POLICY + TRIPS)
    with duckdb.connect(folder / "people.duckdb") as connection:
        connection.execute(
            "CREATE TABLE trips (person_id INTEGER NOT NULL, went TIMESTAMP NOT NULL, kind VARCHAR, price INTEGER)"
        )
        connection.execute(
            "INSERT INTO trips SELECT i % 600, TIMESTAMP '2020-01-01' + to_days(CAST(i % 5 AS INTEGER)), "
            f"CASE WHEN i < {BUSES} THEN 'bus' WHEN i < {BUSES + CARS} THEN 'car' ELSE 'tram' END, i % 10 "
            f"FROM range({BUSES + CARS + TRAMS}) r(i)"
        )
        connection.execute(
            "CREATE TABLE kinds (kind VARCHAR NOT NULL, mode VARCHAR, seats INTEGER, made TIMESTAMP)"
        )
        connection.execute(
            "INSERT INTO kinds VALUES ('bus', 'road', 50, '2001-02-03'), ('car', 'road', 4, '2001-05-01'), "
            "('tram', 'rail', 100, '2010-01-01'), ('boat', 'sea', 20, NULL)"
        )
    with Service.start(configured(file), alone=True) as running:
        yield running


@pytest.fixture
def ann(service: Service, request: pytest.FixtureRequest) -> Analyst:
    """An analyst of the test's own, with a full budget."""
    return Analyst(service, f"ann {sha256(request.node.name.encode()).hexdigest()[:40]}")


def near(rows: list[tuple[str, ...]], wanted: dict[str | None, int]) -> None:
    assert {row[0] for row in rows} == wanted.keys()
    for key, value in rows:
        assert float(value) == pytest.approx(wanted[key], abs=max(150, 0.25 * wanted[key]))


@pytest.mark.parametrize(
    ("sql", "wanted"),
    [
        (
            "SELECT v.label, COUNT(*) FROM trips t JOIN (VALUES ('bus', 'Bus'), ('car', 'Car')) AS v(kind, label) "
            "USING (kind) GROUP BY 1",
            {"Bus": BUSES, "Car": CARS},
        ),
        (
            "SELECT m.mode, COUNT(*) FROM trips t JOIN (SELECT DISTINCT kind, mode FROM kinds) m USING (kind) "
            "GROUP BY 1",
            {"road": BUSES + CARS, "rail": TRAMS},
        ),
        (
            "WITH best AS (SELECT kind, rank() OVER (ORDER BY seats DESC) AS r FROM kinds) "
            "SELECT b.r, COUNT(*) FROM trips t JOIN best b ON b.kind = t.kind AND b.r <= 2 GROUP BY b.r",
            {"1": TRAMS, "2": BUSES},
        ),
        (
            "SELECT d.day::date, COUNT(*) FROM generate_series('2020-01-01'::date, '2020-01-03', '1 day') AS d(day) "
            "JOIN trips t ON t.went <= d.day GROUP BY 1",
            {"2020-01-01": 1200, "2020-01-02": 2400, "2020-01-03": 3600},
        ),
        (
            "WITH c AS (SELECT day::date AS day FROM generate_series('2020-01-01'::timestamp, '2020-01-08', '5 days') "
            "AS g(day)) SELECT c.day, COUNT(t.person_id) FROM c LEFT JOIN trips t ON t.went::date = c.day GROUP BY 1",
            {"2020-01-01": 1200, "2020-01-06": 0},
        ),
        (
            "SELECT g.label, COUNT(*) FROM trips t JOIN (SELECT n, 'price ' || n AS label FROM generate_series(8, 9) "
            "AS s(n)) g ON g.n = t.price GROUP BY 1",
            {"price 8": 600, "price 9": 600},
        ),
        (
            "SELECT b.name, COUNT(*) FROM trips t JOIN (VALUES ('low', 0, 2), ('high', 2, 10)) AS b(name, lo, hi) "
            "ON t.price >= b.lo AND t.price < b.hi GROUP BY 1",
            {"low": 1200, "high": 4800},
        ),
        (
            "SELECT k.mode, COUNT(*) FROM trips t LEFT JOIN (SELECT mode, MIN(kind) AS kind FROM kinds GROUP BY 1) k "
            "ON k.kind = t.kind GROUP BY 1",
            {"road": BUSES, "rail": TRAMS, "sea": 0, None: CARS},
        ),
        (
            "SELECT 'all', COUNT(*) FROM trips t JOIN (SELECT kind, AVG(price) AS a FROM trips GROUP BY kind) m "
            "ON m.kind = t.kind WHERE t.price > m.a * 1.5",
            {"all": 1800},
        ),
        (
            "SELECT date_trunc('year', k.made), COUNT(*) FROM trips t JOIN kinds k USING (kind) GROUP BY 1",
            {"2001-01-01 00:00:00": BUSES + CARS, "2010-01-01 00:00:00": TRAMS},
        ),
        # Correlated aggregates across units: by a public key, by a private column of known domain, of public rows.
        (
            "SELECT k.kind, COUNT(*) FROM trips t JOIN kinds k USING (kind) WHERE mode = 'road' AND price > "
            "(SELECT 1.5 * AVG(price) FROM trips u WHERE u.kind = k.kind) GROUP BY 1",
            {"bus": 900, "car": 600},
        ),
        (
            "SELECT 'many', COUNT(*) FROM trips t WHERE (SELECT COUNT(*) FROM trips u WHERE t.kind = u.kind) > 1500",
            {"many": BUSES + CARS},
        ),
        (
            "SELECT 'large', COUNT(*) FROM trips t JOIN kinds k ON k.kind = t.kind "
            "WHERE seats > (SELECT AVG(l.seats) FROM kinds l WHERE l.mode = k.mode)",
            {"large": BUSES},
        ),
    ],
)
def test_rows_are_joined_as_in_postgresql(ann: Analyst, sql: str, wanted: dict[str | None, int]) -> None:
    near(ann.ask(sql), wanted)


def test_equal_rows_are_one_question_however_they_are_written(ann: Analyst) -> None:
    first = ann.ask(
        "SELECT v.l, COUNT(*) FROM trips t JOIN (VALUES ('bus', 1), ('car', 2)) AS v(k, l) ON v.k = t.kind GROUP BY 1"
    )
    used = ann.used()
    again = ann.ask(
        "SELECT w.n, COUNT(*) FROM trips t JOIN (SELECT kind, row_number() OVER (ORDER BY kind)::int AS n FROM kinds "
        "WHERE kind IN ('bus', 'car')) AS w ON w.kind = t.kind GROUP BY 1"
    )
    assert sorted(again) == sorted(first)
    assert ann.used() == used
    ann.ask(
        "SELECT v.l, COUNT(*) FROM trips t JOIN (VALUES ('bus', 1), ('car', 3)) AS v(k, l) ON v.k = t.kind GROUP BY 1"
    )
    assert ann.used() > used


def test_one_row_for_each_unit_is_seen_in_the_rows(service: Service, ann: Analyst) -> None:
    """A key of the rows joins one row to each person; without one, units have vectors of any length."""
    asked = "EXPLAIN SELECT COUNT(*) FROM people p JOIN (VALUES ('Aberdeen', 1), ('{}', 2)) AS v(town, n) USING (town)"
    unique, repeated = (" ".join(line for (line,) in ann.ask(asked.format(t))) for t in ("Bath", "Aberdeen"))
    assert "KnownGauss" in unique
    assert "UnitClip" in repeated


@pytest.mark.parametrize(
    ("sql", "wanted"),
    [
        (
            "SELECT kind, (SELECT COUNT(*) FROM trips t WHERE t.kind = k.kind) FROM kinds k",
            {"bus": BUSES, "car": CARS, "tram": TRAMS, "boat": 0},
        ),
        (
            "SELECT kind, seats FROM kinds k WHERE seats > (SELECT 8 * AVG(price) FROM trips t WHERE t.kind = k.kind)",
            {"bus": 50, "tram": 100},
        ),
        (
            "SELECT k.kind, (SELECT SUM(price) FROM trips t WHERE t.kind = k.kind) FROM kinds k "
            "WHERE kind IN (SELECT kind FROM kinds WHERE mode = 'rail')",
            {"tram": 4500},
        ),
    ],
)
def test_public_rows_look_up_released_groups(ann: Analyst, sql: str, wanted: dict[str | None, int]) -> None:
    near(ann.ask(sql), wanted)
    assert ann.used() == (1, 0)


def test_public_rows_that_repeat_look_up_the_same(ann: Analyst) -> None:
    """Two kinds have one mode: what is looked up by it is counted once."""
    kinds = "(SELECT SUM(l.seats) FROM kinds l WHERE l.mode = k.mode)"
    sql = f"SELECT k.kind, COUNT(*) FROM trips t JOIN kinds k USING (kind) WHERE {kinds} = 54 GROUP BY k.kind"
    found = dict(ann.ask(sql))
    assert float(found["bus"]) == pytest.approx(BUSES, abs=150)
    assert float(found["car"]) == pytest.approx(CARS, abs=150)
    assert found.keys() == {"bus", "car"}


@pytest.mark.parametrize("join", ["JOIN", "LEFT JOIN"])
def test_groups_that_wait_for_rows_have_a_price(ann: Analyst, join: str) -> None:
    """A condition on rows that are not released yet is met by none."""
    told = ann.ask(
        f"EXPLAIN SELECT t.kind, COUNT(*) FROM trips t {join} (SELECT kind, COUNT(*) AS n FROM trips GROUP BY kind) m "
        "ON m.kind = t.kind WHERE m.n > 1500 GROUP BY t.kind"
    )
    assert sum("Price: 1 information unit" in line for (line,) in told) == 2


def test_a_list_of_public_rows_cuts_the_groups(ann: Analyst) -> None:
    """Values that no row can have are no groups."""
    listed = "SELECT kind FROM kinds WHERE seats > 30"
    near(
        ann.ask(f"SELECT kind, COUNT(*) FROM trips WHERE kind IN ({listed}) GROUP BY kind"),
        {"bus": BUSES, "tram": TRAMS},
    )
    (first, *_) = ann.ask(f"EXPLAIN SELECT kind, COUNT(*) FROM trips WHERE kind IN ({listed}) GROUP BY kind")
    assert "known domain of 2 cells" in first[0]


@pytest.mark.parametrize(
    "subquery",
    [
        "(SELECT AVG(u.price) FROM trips u WHERE u.price = t.price)",
        "(SELECT COUNT(*) + 1 FROM trips u WHERE u.kind = t.kind)",
        "(SELECT AVG(u.price) FROM trips u WHERE u.kind < t.kind)",
        "(SELECT AVG(u.price - t.price) FROM trips u WHERE u.kind = t.kind)",
    ],
)
def test_correlations_that_are_no_groups_of_known_domain(ann: Analyst, subquery: str) -> None:
    with pytest.raises(Refusal) as caught:
        ann.ask(f"SELECT COUNT(*) FROM trips t WHERE t.price > {subquery}")
    assert caught.value.code == "PV015"
    assert ann.used() == (0, 0)


@pytest.mark.parametrize(
    ("rows", "code", "said"),
    [
        ("(SELECT random() AS r FROM generate_series(1, 3))", "PV020", "random"),
        ("(SELECT setseed(0.5) IS NULL AS r, n FROM generate_series(1, 3) AS g(n))", "PV020", "setseed"),
        ("(SELECT current_setting('work_mem') AS r FROM generate_series(1, 3))", "PV020", "current_setting"),
        ("(SELECT n FROM generate_series(1, 20000) AS g(n))", "54000", "more than 10000 rows"),
        (
            "(SELECT repeat('x', 9000) AS r, n FROM generate_series(1, 200) AS g(n))",
            "54000",
            "more than 1000000",
        ),
        ("(SELECT to_jsonb(kind) AS r FROM kinds GROUP BY 1)", "0A000", 'column "r"'),
        ("(SELECT (kind || '')::char(9) AS r FROM kinds GROUP BY 1)", "0A000", 'column "r"'),
        ("(SELECT 'infinity'::date AS r FROM kinds GROUP BY 1)", "0A000", 'column "r"'),
        ("(SELECT 'NaN'::float8 AS r FROM kinds GROUP BY 1)", "0A000", 'column "r"'),
        ("(SELECT 10 ^ 30::numeric AS r FROM kinds GROUP BY 1)", "0A000", 'column "r"'),
        ("(SELECT kind FROM kinds k2 WHERE k2.kind = t.kind GROUP BY 1)", "42P01", "t"),
        ("(SELECT 1 / (seats - 4) AS r FROM kinds GROUP BY 1)", "22012", "division by zero"),
        (
            "(SELECT COUNT(*) FROM generate_series(1, 99999) a(n), generate_series(1, 99999) GROUP BY n % 2)",
            "57014",
            "",
        ),
    ],
)
def test_rows_that_cannot_be_evaluated_are_refused_before_anything_is_paid(
    ann: Analyst, rows: str, code: str, said: str
) -> None:
    with pytest.raises(Refusal) as caught:
        ann.ask(f"SELECT COUNT(*) FROM trips t JOIN {rows} x ON true")
    assert caught.value.code == code
    assert said in caught.value.message
    assert ann.used() == (0, 0)


def test_no_rows_make_no_groups(ann: Analyst) -> None:
    none = "(SELECT kind FROM kinds WHERE seats > 1000 GROUP BY 1)"
    assert ann.ask(f"SELECT x.kind, COUNT(*) FROM trips t JOIN {none} x USING (kind) GROUP BY 1") == []


def test_the_price_of_a_later_stage_is_told_before(ann: Analyst) -> None:
    lines = ann.ask(
        "EXPLAIN SELECT m.kind, COUNT(*) FROM trips t JOIN (SELECT kind, AVG(price) AS a FROM trips GROUP BY kind) m "
        "ON m.kind = t.kind WHERE t.price > m.a GROUP BY 1"
    )
    prices = [line for (line,) in lines if "Price:" in line or "Cost:" in line]
    assert len(prices) >= 3
    assert ann.used() == (0, 0)
