"""Constants among private rows: expressions that PostgreSQL evaluates, and released numbers that a later node uses."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

import duckdb
import pytest

from dpproxy.deployment.service import Service, configured
from dpproxy.engine.request import QueryRequest
from rewriter.refusal import Refusal
from tests.dpproxy.engine.test_executor import Analyst
from tests.dpproxy.serving import POLICY, make

pytestmark = pytest.mark.service

BUDGET = """
[budget]
information = 30
calls = 4
period = "none"

[tables.trips]
privacy_unit = "person_id"
max_rows_per_unit = 5
[tables.trips.columns]
went = { range = ["2020-01-01", "2020-12-31"] }
moment = { range = ["2020-01-01", "2020-10-26"] }
born = { range = ["2001-01-01", "2001-12-31"] }
"""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder: Path = tmp_path_factory.mktemp("constants")
    file = make(folder, POLICY + BUDGET)
    with duckdb.connect(folder / "people.duckdb") as connection:
        connection.execute(
            "CREATE TABLE trips (person_id INTEGER NOT NULL, went TIMESTAMP, moment TIMESTAMPTZ NOT NULL, "
            "born DATE NOT NULL)"
        )
        connection.execute(
            "INSERT INTO trips SELECT i, TIMESTAMP '2020-01-01' + to_days(CAST(i % 300 AS INTEGER)), "
            "TIMESTAMPTZ '2020-01-01 00:30:00+00' + to_days(CAST(i % 300 AS INTEGER)), "
            "DATE '2001-01-01' + CAST(i % 365 AS INTEGER) FROM range(900) r(i)"
        )
    with Service.start(configured(file), alone=True) as running:
        yield running


@pytest.fixture
def ann(service: Service, request: pytest.FixtureRequest) -> Analyst:
    """An analyst of the test's own, with a full budget."""
    return Analyst(service, f"ann {sha256(request.node.name.encode()).hexdigest()[:40]}")


def only(rows: list[tuple[str, ...]]) -> float:
    assert len(rows) == 1
    return float(rows[0][0])


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("went < CAST('2020-01-31' AS date) - INTERVAL '10' day", 60),
        ("went < date_trunc('month', DATE '2020-02-29' + 1)", 180),
        ("went < now() - INTERVAL '1 day'", 900),
        ("went::date >= current_date", 0),
        ("went < TO_TIMESTAMP('2020-02-01 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US')", 93),
        ("went < TIMESTAMPTZ '2020-02-01 02:00:00+02' AND went >= TO_DATE('01.01.2020', 'DD.MM.YYYY')", 93),
        ("went >= to_timestamp(1580515200) AND went < make_timestamptz(2020, 3, 1, 0, 0, 0)", 87),
        ("went < 'today'::date AND went < TIMESTAMP 'Feb 1, 2020' AND went::date > DATE '01 Jan 2020'", 90),
        (
            "went > date_trunc('month', now()) - make_interval(years => 1000) AND went < statement_timestamp()",
            900,
        ),
        (
            "went < timezone('Asia/Tokyo', TIMESTAMP '2020-02-01 09:00') AND went < now() AT TIME ZONE 'UTC'",
            93,
        ),
        ("went < '2020-02-01'::timestamptz AND person_id < length(repeat('x', 50)) + ascii(chr(50))", 28),
        ("EXTRACT(epoch FROM now() - went) > 86400 * 365", 900),
        ("to_char(went, 'YYYY-MM') LIKE '2020' || '-0' || 2::text", 87),
        ("to_char(went, 'YYYY-MM') ILIKE concat('%', 0, '2')", 87),
        ("to_char(went, 'YYYY-MM') ~ ('^' || upper('2020') || '-02$')", 87),
        ("to_char(went, 'YYYY') = '2020'::char(6)", 900),
        ("to_char(went, 'YYYY-MM') <> ALL (string_to_array('2020-01,2020-02', ','))", 720),
        ("NOT person_id % 10 <> ALL (regexp_split_to_array('1;2', ';')::int[])", 180),
        (
            "person_id % 10 = ANY (ARRAY[1] || array_append(ARRAY[2], 3)) AND 0 < ALL (coalesce('{1,2}'::int[]))",
            270,
        ),
        (
            "to_char(went, 'YYYY-MM') LIKE SOME (CASE WHEN 1 > 2 THEN NULL ELSE string_to_array('%-01,%-02', ',') END)",
            180,
        ),
        ("person_id <> ALL (coalesce(NULL, ARRAY[]::int[]))", 900),
        ("person_id <> ALL (string_to_array('1,', ',', '')::int[])", 0),
        ("person_id < (SELECT 10 * MAX(room) + 70 FROM rooms)", 100),
        ("EXISTS (SELECT 1 FROM rooms WHERE floor = 1)", 900),
        ("NOT EXISTS (SELECT 1 FROM rooms WHERE floor = 1)", 0),
        ("person_id IN (SELECT room * 2 FROM rooms GROUP BY room ORDER BY room LIMIT 3)", 3),
        ("person_id NOT IN (SELECT MAX(room) FROM rooms)", 899),
        ("person_id NOT IN (SELECT room FROM rooms WHERE floor = 7 LIMIT 1)", 900),
        ("person_id NOT IN (SELECT NULLIF(room, 0) FROM rooms GROUP BY room)", 0),
        ("person_id >= 600 OR person_id / 100 IN (SELECT room FROM rooms WHERE room = 3)", 400),
        ("NOT (person_id < 600 AND person_id NOT IN (SELECT room FROM rooms WHERE floor = 7))", 300),
        ("person_id < 600 AND (person_id < 0 OR EXISTS (SELECT 1 FROM rooms WHERE floor = 1))", 600),
        ("CASE WHEN person_id / 100 IN (SELECT room FROM rooms) THEN false ELSE person_id < 700 END", 300),
    ],
)
def test_what_reads_no_private_row_is_evaluated_by_the_front(
    ann: Analyst, condition: str, expected: int
) -> None:
    assert (
        abs(only(ann.ask(f"SELECT COUNT(DISTINCT person_id) FROM trips WHERE {condition}")) - expected) < 90
    )
    assert ann.used() == (1, 0)


MONTHS = [f"2020-{month:02}" for month in range(1, 11)]
NAMES = ["April", "August", "February", "January", "July", "June", "March", "May", "October", "September"]


@pytest.mark.parametrize(
    ("key", "groups"),
    [
        ("to_char(moment, 'yyyy-mm')", MONTHS),
        ("to_char(timezone('America/New_York', moment), 'YYYY-MM')", ["2019-12", *MONTHS]),
        (
            "date_trunc('month', moment, 'America/New_York')",
            [f"{month}-01 0{5 - (month > '2020-03')}:00:00+00" for month in ("2019-12", *MONTHS)],
        ),
        (
            "date_trunc('month', moment AT TIME ZONE 'America/New_York')::date",
            [f"{m}-01" for m in ("2019-12", *MONTHS)],
        ),
        ("date_trunc('MONTH', moment::timestamptz)::date", [f"{month}-01" for month in MONTHS]),
        ("to_char(moment, 'FMMonth')", NAMES),
        ("to_char(went - interval '1 day', 'Q')", ["1", "2", "3", "4"]),
        (
            "to_char(moment AT TIME ZONE $$Asia/Tokyo$$, 'Dy')",
            ["Fri", "Mon", "Sat", "Sun", "Thu", "Tue", "Wed"],
        ),
        (
            "date_bin(interval '100 days', moment, '2020-01-01')",
            [f"2020-0{d} 00:00:00+00" for d in ("1-01", "4-10", "7-19")],
        ),
        (
            "(date_bin('150 days', went, timestamp '2021-01-01'))::date",
            ["2019-10-09", "2020-03-07", "2020-08-04"],
        ),
        ("date_trunc('year', born + interval '1 day')::date", ["2001-01-01", "2002-01-01"]),
        ("extract(year from age(date '2021-12-31', born))", ["20"]),
        ("EXTRACT(YEAR FROM age(CURRENT_DATE, born)) > 10", ["t"]),
        ("EXTRACT(YEAR FROM age(born)) > 10", ["t"]),
        ("to_char(moment, 'YYYY') SIMILAR TO '20(20|30)'", ["t"]),
    ],
)
def test_keys_of_time(ann: Analyst, key: str, groups: list[str]) -> None:
    sql = f"SELECT {key} AS k, COUNT(DISTINCT person_id) FROM trips GROUP BY k ORDER BY 1"
    rows = ann.ask(sql, {"dpproxy.units": "4"})
    found = [group for group, _ in rows if group not in (None, "f")]
    assert found[: len(groups)] == groups
    assert abs(sum(float(people) for _, people in rows) - 900) < 500


def test_a_declared_range_of_moments_bounds_them(ann: Analyst) -> None:
    ((least,),) = ann.ask("SELECT MIN(timezone('Asia/Tokyo', moment))::date FROM trips")
    assert "2019-12-30" < least < "2020-10-27"


AGE = "EXTRACT(YEAR FROM CURRENT_DATE) - EXTRACT(YEAR FROM went)"


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT {AGE} AS age, COUNT(DISTINCT person_id) FROM trips GROUP BY 1",
        f"SELECT {AGE} AS age, COUNT(DISTINCT person_id) FROM trips GROUP BY age ORDER BY 2",
        f"SELECT {AGE}, COUNT(DISTINCT person_id) FROM trips GROUP BY {AGE} HAVING {AGE} > 0 ORDER BY {AGE}",
        f"SELECT age, COUNT(DISTINCT person_id) FROM (SELECT person_id, {AGE} AS age FROM trips) AS t GROUP BY age",
        f"WITH t AS (SELECT person_id, {AGE} AS a FROM trips) SELECT a, COUNT(DISTINCT person_id) FROM t GROUP BY 1",
        "SELECT age, COUNT(*) FROM (SELECT person_id, date_part('year', current_date) - date_part('year', MAX(went)) "
        "AS age FROM trips GROUP BY person_id HAVING MAX(went) < current_date - 1) AS t GROUP BY age",
    ],
)
def test_keys_may_hang_on_the_day(ann: Analyst, sql: str) -> None:
    ((age, people),) = ann.ask(sql)
    assert int(age) == datetime.now(UTC).year - 2020
    assert abs(float(people) - 900) < 90
    assert ann.used() == (1, 0)


def test_sets_of_keys_and_keys_that_are_selected_alone(ann: Analyst) -> None:
    years = str(datetime.now(UTC).year - 2020)
    rows = ann.ask(f"SELECT {AGE} AS age, COUNT(DISTINCT person_id) FROM trips GROUP BY ROLLUP (age)")
    assert [age for age, _ in rows] == [years, None]
    assert ann.ask(f"SELECT DISTINCT {AGE} AS age FROM trips") == [(years,)]


def test_what_is_no_key_is_none_though_it_hangs_on_the_day(ann: Analyst) -> None:
    with pytest.raises(Refusal) as caught:
        ann.ask(f"SELECT {AGE} + 1, COUNT(DISTINCT person_id) FROM trips GROUP BY current_date")
    assert caught.value.code == "42803"
    assert ann.used() == (0, 0)


def test_a_released_number_is_a_constant_of_the_next_node(ann: Analyst) -> None:
    question = (
        "SELECT COUNT(*) FROM people WHERE person_id < (SELECT COUNT(*) / 2 FROM people WHERE town = 'Ulm')"
    )
    first = ann.ask(question)
    assert abs(only(first) - 150) < 160
    assert len(ann.notices) == 2
    assert ann.used() == (2, 0)
    assert ann.ask(question) == first
    assert ann.used() == (2, 0)


def test_a_released_row_beside_private_rows_is_constants(ann: Analyst) -> None:
    rows = ann.ask(
        "WITH size AS (SELECT COUNT(*) AS n, 3 AS three FROM people) SELECT town, COUNT(*) FROM people CROSS JOIN size "
        "WHERE person_id * three < n AND n > 100 GROUP BY town"
    )
    assert len(rows) == 3
    assert abs(sum(float(n) for _, n in rows) - 300) < 250
    assert ann.used() == (2, 0)


def test_noise_does_not_decide_whether_a_later_node_has_bounds(ann: Analyst) -> None:
    """Of nobody's seconds the deviation is 0 or NULL half of the time."""
    for person in range(5):
        answer = ann.ask(
            f"WITH m AS (SELECT AVG(seconds) AS a, STDDEV(seconds) AS s FROM visits WHERE person_id < {-person}) "
            "SELECT AVG((seconds - a) / s) FROM visits CROSS JOIN m WHERE s > 1"
        )
        assert len(answer) == 1


def test_released_keys_are_a_list(ann: Analyst) -> None:
    rows = ann.ask(
        "SELECT COUNT(*) FROM people "
        "WHERE town IN (SELECT town FROM people GROUP BY town ORDER BY COUNT(*) DESC LIMIT 2)"
    )
    assert abs(only(rows) - 600) < 120
    assert ann.used() == (1.5, 0), "the counts of two towns have half of what tells their sum"


def test_parameters_reach_constants(service: Service, ann: Analyst) -> None:
    sql = "SELECT COUNT(*) FROM people WHERE person_id < (SELECT MAX(room) + $1 FROM rooms)"
    answering = service.answering
    answering.prepare(sql, (23,))
    answer = answering.execute(QueryRequest(sql, (23,), ann.name, ("97",), {}))
    assert abs(int.from_bytes(answer.arrays[0][-8:], "big", signed=True) - 100) < 90


@pytest.mark.parametrize(
    ("condition", "code"),
    [
        ("person_id < random()", "PV020"),
        ("person_id < 10 * floor(random()) + 5", "PV020"),
        ("now() < clock_timestamp()", "PV020"),
        ("now() < timeofday()::timestamp", "PV020"),
        ("lower(current_user) = 'ann'", "PV020"),
        ("current_setting('TimeZone') = 'UTC'", "PV020"),
        ("person_id < pg_backend_pid()", "PV020"),
        ("person_id < length(dpproxy.text_of(1))", "PV020"),
        ("person_id < length(repeat('x', 1000000)) AND repeat('x', 1000000) <> 'y'", "54000"),
        ("person_id < every(true)::int", "42803"),
        ("now() < TO_DATE('never', 'YYYY')", "22007"),
        ("person_id < (SELECT 1 / 0)", "22012"),
        ("person_id < (SELECT room FROM rooms)", "21000"),
        ("EXISTS (SELECT 1 FROM rooms WHERE rooms.floor = people.person_id OFFSET 1)", "PV015"),
        ("person_id < (SELECT person_id FROM people)", "PV010"),
        ("person_id IN (SELECT room, floor FROM rooms GROUP BY room, floor)", "42601"),
        ("person_id < 0 OR person_id IN (SELECT person_id FROM people)", "PV015"),
        ("person_id < 0 OR EXISTS (SELECT 1 FROM people p WHERE p.person_id = 3)", "PV015"),
        ("person_id < 0 OR EXISTS (SELECT 1 FROM rooms WHERE rooms.floor = people.person_id)", "PV015"),
        (
            "person_id < 0 OR person_id IN (SELECT room FROM rooms WHERE rooms.floor = people.person_id)",
            "PV015",
        ),
        ("person_id < 0 OR (person_id, 1) IN (SELECT room, floor FROM rooms)", "PV015"),
        ("person_id < 0 OR person_id IN (SELECT room, floor FROM rooms)", "42601"),
    ],
)
def test_what_is_no_constant_is_refused(ann: Analyst, condition: str, code: str) -> None:
    with pytest.raises(Refusal) as refused:
        ann.ask(f"SELECT COUNT(*) FROM people WHERE {condition}")
    assert refused.value.code == code
    assert ann.used() == (0, 0)


def test_nothing_is_paid_where_a_later_stage_could_not_be(ann: Analyst) -> None:
    for number in range(29):
        ann.ask(f"SELECT COUNT(*) FROM people WHERE person_id <> {number}")
    with pytest.raises(Refusal) as refused:
        ann.ask(
            "SELECT COUNT(*) FROM people WHERE person_id < (SELECT COUNT(*) FROM people WHERE person_id > 3)"
        )
    assert refused.value.code == "PV001"
    assert ann.used() == (29, 0)
