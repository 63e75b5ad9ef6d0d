"""Answers that bought ones imply: what is free, what is not, how large the error is, and that nothing is stored."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import combinations
from pathlib import Path

import duckdb
import numpy as np
import pytest

from budget.account import Limit
from dpproxy.deployment.service import Service, configured
from dpproxy.engine.implied import MOST_LOST, added, lost, measures, sought
from dpproxy.engine.optimizer import plan_release
from dpproxy.engine.options import terms
from dpproxy.engine.planner import BoundNode, Planner
from dpproxy.engine.precision import combined
from dpproxy.engine.release_keys import ReleaseKeys
from dpproxy.engine.release_plan import ReleasePlan
from dpproxy.engine.selection.groups import MeasuredColumn, width_of
from mechanisms.histogram import Histogram
from mechanisms.known_domain import KnownGauss
from mechanisms.randomness import seed
from mechanisms.unit_clip import UnitClip, clipped, root_up
from rewriter.refusal import Refusal
from tests.dpproxy.engine.test_executor import Analyst
from tests.dpproxy.serving import POLICY, make

TABLES = """
[privacy]
nonnegative = true
min_units = 40
epsilon_per = 0.5
[budget]
information = 200
calls = 40
period = "none"
[budget.teams.pair]
members = ["team ann", "team bob"]
[budget.teams.duo]
members = ["duo ann", "duo bob"]

[tables.sales]
privacy_unit = "person_id"
[tables.sales.columns]
shop = { domain = ["north", "south", "east"], nullable = true }
day = { range = ["2024-01-01", "2024-01-12"], nullable = false }
amount = { bounds = [0, 20] }
kind = {}
seen = { range = ["2024-01-01", "2024-01-12"], nullable = false }
[tables.guests]
privacy_unit = "person_id"
unique = ["person_id"]
[tables.guests.columns]
town = { domain = ["Ulm", "Bonn", "Jena"], nullable = false }
size = { range = [1, 4], nullable = false }
tier = { domain = ["a", "b"] }
[tables.callers]
privacy_unit = "person_id"
unique = ["person_id"]
[tables.callers.columns]
place = { domain = ["Ulm", "Bonn"], nullable = false }
size = { range = [1, 4], nullable = false }
[tables.orders]
privacy_unit = "person_id"
[tables.orders.columns]
item = { range = [1, 12] }
code = { domain_from = "items.item" }
day = { range = ["2024-01-01", "2024-01-12"], nullable = false }
amount = { bounds = [0, 20] }
[tables.items]
public = true
[tables.departments]
public = true
[tables.calendar]
public = true
"""
ROWS = """
CREATE TABLE sales (person_id INTEGER NOT NULL, shop VARCHAR, day DATE NOT NULL, amount INTEGER, kind VARCHAR,
    seen TIMESTAMP NOT NULL);
INSERT INTO sales SELECT i // 8, ['north', 'south', NULL][1 + i % 3], DATE '2024-01-01' + i::INTEGER % 11,
    i % 20, 'k' || i % 3, TIMESTAMP '2024-01-01' + to_hours(i % 264) FROM range(24000) r(i);
CREATE TABLE guests (person_id INTEGER PRIMARY KEY, town VARCHAR NOT NULL, size INTEGER NOT NULL, tier VARCHAR);
INSERT INTO guests SELECT i, ['Ulm', 'Bonn', 'Jena'][1 + i % 3], 1 + i % 4, ['a', 'b', NULL][1 + i % 3]
    FROM range(3000) r(i);
-- A third of them is in a place that the policy does not declare.
CREATE TABLE callers (person_id INTEGER PRIMARY KEY, place VARCHAR NOT NULL, size INTEGER NOT NULL);
INSERT INTO callers SELECT i, ['Ulm', 'Bonn', 'Jena'][1 + i % 3], 1 + i % 4 FROM range(3000) r(i);
-- Of 57,000 rows 30,000 are of an item that is in no other table, and 3,000 of none.
CREATE TABLE orders (person_id INTEGER NOT NULL, item INTEGER, code INTEGER, day DATE NOT NULL,
    amount INTEGER NOT NULL);
INSERT INTO orders SELECT i // 8, 1 + i % 10, 1 + i % 10, DATE '2024-01-01' + i::INTEGER % 11, i % 20
    FROM range(24000) r(i);
INSERT INTO orders SELECT i // 10, 11, 11, DATE '2024-01-01' + i::INTEGER % 11, 5 FROM range(30000) r(i);
INSERT INTO orders SELECT i, NULL, NULL, DATE '2024-01-01' + i::INTEGER % 11, 5 FROM range(3000) r(i);
CREATE TABLE items (item INTEGER PRIMARY KEY, department VARCHAR, brand VARCHAR);
INSERT INTO items SELECT i, ['food', 'drink', 'home', NULL][1 + (i - 1) // 3], 'b' || ((i - 1) // 2)
    FROM range(1, 11) r(i);
CREATE TABLE departments (department VARCHAR PRIMARY KEY, floor INTEGER NOT NULL);
INSERT INTO departments VALUES ('food', 1), ('drink', 1), ('home', 2);
CREATE TABLE calendar (day DATE PRIMARY KEY, week INTEGER NOT NULL, closed BOOLEAN);
INSERT INTO calendar SELECT DATE '2023-01-01' + i::INTEGER, i // 7, i % 3 = 0 FROM range(1000) r(i)
"""
ITEMS = "FROM orders AS o JOIN items AS i ON i.item = o.item"
SALES = "SELECT shop, day, SUM(amount) AS s, COUNT(*) AS n FROM sales GROUP BY shop, day"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder: Path = tmp_path_factory.mktemp("implied")
    make(folder, POLICY + TABLES)
    with duckdb.connect(folder / "people.duckdb") as connection:
        connection.execute(ROWS)
    with Service.start(configured(folder / "dpproxy.toml"), alone=True) as running:
        yield running


@pytest.fixture
def ann(service: Service, request: pytest.FixtureRequest) -> Analyst:
    return Analyst(service, f"ann {hash(request.node.name)}")


def stored(service: Service, table: str) -> int:
    return int(service.ledger._ledger._store.rows(f"SELECT count(*) FROM dpproxy_ledger.{table}")[0][0])


def free(analyst: Analyst, sql: str, settings: dict[str, str] | None = None) -> list[tuple[str | None, ...]]:
    """The answer, which costs nothing and leaves nothing in the ledger but a note in the history."""
    tables = ("answer", "request", "owned", "choice", "mark")
    before = analyst.used(), [stored(analyst.service, table) for table in tables]
    rows = analyst.ask(sql, settings)
    notices = analyst.notices
    assert (analyst.used(), [stored(analyst.service, table) for table in tables]) == before, sql
    assert all("no charge" in notice and "bought 20" in notice for notice in notices), notices
    analyst.notices = notices
    return rows


def costs(analyst: Analyst, sql: str, settings: dict[str, str] | None = None) -> float:
    before = analyst.used()[0]
    analyst.ask(sql, settings)
    return analyst.used()[0] - before


def deviation(analyst: Analyst) -> float:
    """The least one of a column."""
    return float(analyst.notices[0].partition("standard deviation ")[2].partition(")")[0].split()[0])


def raw(service: Service, account: str) -> dict[tuple[str | None, ...], tuple[int, ...]]:
    """What was measured in the account's last answer, before anything is left out of it."""
    rows = service.ledger._ledger._store.rows(
        "SELECT answer.answer FROM dpproxy_ledger.answer AS answer JOIN dpproxy_ledger.request AS request"
        " ON request.release_key = answer.release_key WHERE request.account = %(account)s"
        " ORDER BY request.number DESC LIMIT 1",
        account=f"analyst:{account}",
    )
    read = json.loads(rows[0][0])
    measured = [one[2] for one in sorted(read["measured"], key=lambda one: (one[0], one[1] or ""))]
    return dict(zip(zip(*read["keys"], strict=True), zip(*measured, strict=True), strict=True))


@pytest.mark.service
def test_coarser_groups_and_chosen_cells_are_free(service: Service, ann: Analyst) -> None:
    shown = ann.ask(SALES)
    cells, each = raw(service, ann.name), deviation(ann)
    assert len(cells) == 48 > len(shown), "min_units leaves out some of them"
    days: dict[str, int] = {}
    for (day, _), (amount, _) in cells.items():
        days[str(day)] = days.get(str(day), 0) + amount

    def total(*places: tuple[str | None, int]) -> int:
        return sum(s for (day, shop), (s, _) in cells.items() if (shop, int(str(day)[8:])) in places)

    every = [(shop, day) for shop in ("north", "south", "east", None) for day in range(1, 13)]
    assert free(ann, "SELECT SUM(amount) FROM sales") == [(str(total(*every)),)]
    most = each * math.sqrt(48) + MOST_LOST * total(*every) / 1.96
    assert each * math.sqrt(48) < deviation(ann) < most, "noise, and what clips leave out"
    assert re.search(r"intervals allow for \d+% that clips left out", ann.notices[0])
    by_day = free(ann, "SELECT day, SUM(amount) FROM sales GROUP BY 1 ORDER BY 1")
    assert [int(str(s)) for _, s in by_day] == [days[day] for day in sorted(days)]
    assert deviation(ann) >= 2 * each - 0.1, "rounded"
    for condition, places in (
        ("shop = 'north'", [p for p in every if p[0] == "north"]),
        (
            "shop IN ('east', 'south') AND day > '2024-01-09'",
            [(s, d) for s in ("east", "south") for d in (10, 11, 12)],
        ),
        ("day BETWEEN '2024-01-02' AND '2024-01-03'", [p for p in every if p[1] in (2, 3)]),
        ("shop IS NULL AND day = date '2024-01-05'", [(None, 5)]),
        ("NOT shop = 'north'", [p for p in every if p[0] in ("east", "south")]),
        ("shop IS NULL OR extract(day from day) < 3", [p for p in every if p[0] is None or p[1] < 3]),
    ):
        assert free(ann, f"SELECT SUM(amount) FROM sales WHERE {condition}") == [(str(total(*places)),)]
        assert deviation(ann) > each * math.sqrt(len(places))
    folded = free(ann, "SELECT extract(day from day)::int / 4, SUM(amount) FROM sales GROUP BY 1 ORDER BY 1")
    assert int(str(folded[0][1])) == total(*[p for p in every if p[1] < 4])
    assert "to" in ann.notices[0].partition("standard deviation ")[2].partition(")")[0], (
        "cells of 3 and 4 days"
    )


@pytest.mark.service
def test_periods_follow_from_shorter_ones(service: Service, ann: Analyst) -> None:
    ann.ask("SELECT date_trunc('day', seen) AS day, COUNT(*) AS n FROM sales GROUP BY 1")
    cells = {int(str(day)[8:10]): n for (day,), (n,) in raw(service, ann.name).items()}
    first, second = free(ann, "SELECT date_trunc('week', seen), COUNT(*) FROM sales GROUP BY 1 ORDER BY 1")
    assert int(str(first[1])) == sum(cells[day] for day in range(1, 8))
    assert int(str(second[1])) == sum(cells[day] for day in range(8, 13))
    for condition, days in (
        ("seen >= '2024-01-03' AND seen < '2024-01-05'", (3, 4)),
        ("extract(isodow from seen) = 1", (1, 8)),
        ("seen::date <> '2024-01-02' AND to_char(seen, 'DD') < '04'", (1, 3)),
    ):
        (total,) = free(ann, f"SELECT COUNT(*) FROM sales WHERE {condition}")
        assert int(str(total[0])) == sum(cells[day] for day in days), condition
    for condition in ("seen >= '2024-01-03 12:00'", "seen <= '2024-01-05'", "extract(hour from seen) = 3"):
        assert costs(ann, f"SELECT COUNT(*) FROM sales WHERE {condition}", {"dpproxy.reuse": "always"}) == 1


@pytest.mark.service
def test_periods_that_a_range_cuts_are_bought_alone(service: Service, ann: Analyst) -> None:
    ann.ask("SELECT date_trunc('day', seen) AS day, COUNT(*) AS n FROM sales GROUP BY 1")
    days = raw(service, ann.name)
    until = "seen < '2024-01-05 20:00'"
    sql = (
        f"SELECT date_trunc('day', seen) AS day, COUNT(*) AS n FROM sales WHERE {until} GROUP BY 1 ORDER BY 1"
    )
    plan = "\n".join(str(line) for (line,) in ann.ask(f"EXPLAIN {sql}"))
    assert "Cost: at most 0.25 information units" in plan
    before = ann.used()[0]
    rows = ann.ask(sql)
    assert "combined from COUNT(*) of sales by" in ann.notices[0]
    assert ann.used()[0] == before + 0.25
    cut = raw(service, ann.name)
    assert [day for (day,) in cut] == ["2024-01-05 00:00:00"]
    assert rows == [(day, str(({**days, **cut})[(day,)][0])) for day in [str(d) for (d,) in days][:5]]
    assert free(ann, sql) == rows
    # Its other filter is true of all of the day; that the cells are some of the groups is known.
    since = f"SELECT date_trunc('day', seen) AS day, COUNT(*) AS n FROM sales WHERE seen >= '2024-01-05' AND {until}"
    assert free(ann, f"{since} GROUP BY 1", {"dpproxy.reuse": "always"}) == rows[4:]
    for asked in (
        f"SELECT COUNT(*) FROM sales WHERE {until}",
        f"SELECT COUNT(*) FROM sales WHERE NOT {until}",
    ):
        assert costs(ann, asked, {"dpproxy.reuse": "always"}) == 1, "a day is in no cell whole"
    by_half = "SELECT seen < '2024-01-05 20:00' AS early, COUNT(*) FROM sales GROUP BY 1"
    assert costs(ann, by_half, {"dpproxy.reuse": "always"}) == 1


@pytest.mark.service
def test_cells_of_an_answer_with_filters_are_those_of_fewer(service: Service, ann: Analyst) -> None:
    """By the filters that their groups do not decide themselves; and a key that a filter fixes is no further group."""
    by_day = "SELECT date_trunc('day', seen) AS day, COUNT(DISTINCT person_id) AS n FROM sales"
    first = ann.ask(f"{by_day} WHERE kind = 'k1' AND seen < '2024-01-07' GROUP BY 1 ORDER BY 1")
    narrower = (
        f"{by_day} WHERE kind = 'k1' AND seen >= '2024-01-04' AND seen < '2024-01-06' GROUP BY 1 ORDER BY 1"
    )
    assert free(ann, narrower, {"dpproxy.reuse": "always"}) == first[3:5]
    for other in ("kind = 'k2' AND seen < '2024-01-04'", "seen < '2024-01-04'", "kind = 'k1'"):
        assert costs(ann, f"{by_day} WHERE {other} GROUP BY 1", {"dpproxy.reuse": "always"}) >= 0.75
    ann.ask("SELECT size, COUNT(*) AS n FROM guests WHERE town = 'Ulm' GROUP BY size ORDER BY size")
    cells = raw(service, ann.name)
    fixed = free(ann, "SELECT town, size, COUNT(*) FROM guests WHERE town = 'Ulm' GROUP BY 1, 2 ORDER BY 2")
    assert fixed == [("Ulm", str(size), str(n)) for (size,), (n,) in cells.items()]
    assert costs(ann, "SELECT town, size, COUNT(*) FROM guests GROUP BY 1, 2") == pytest.approx(1)


@pytest.mark.service
def test_what_is_bought_is_named_and_noted(service: Service, ann: Analyst) -> None:
    ann.ask(SALES)
    free(ann, "SELECT COUNT(*) AS n FROM sales WHERE shop = 'south'")
    assert "from SUM(amount), COUNT(*) of sales by day, shop, bought 20" in ann.notices[0]
    assert "one unit counts for at most" in ann.notices[0]
    (last,) = ann.ask("SELECT replayed, notice FROM dpproxy.last_release")
    assert last[0] == "t"
    assert "from SUM(amount), COUNT(*) of sales by day, shop" in str(last[1])
    history = service.ledger.history.latest(f"analyst:{ann.name}", 5)
    assert history[0].replayed
    assert history[0].information == 0
    assert history[1].information == 2


@pytest.mark.service
def test_counts_of_units_are_added_where_a_unit_is_in_one_cell(ann: Analyst) -> None:
    by_both = "SELECT town, size, COUNT(*) AS n FROM guests GROUP BY 1, 2"
    ann.ask(by_both)
    one = deviation(ann)
    free(ann, "SELECT town, COUNT(DISTINCT person_id) FROM guests WHERE size = 2 GROUP BY town")
    assert deviation(ann) == one
    coarser = "SELECT town, COUNT(*) AS n FROM guests GROUP BY town"
    plan = "\n".join(str(line) for (line,) in ann.ask(f"EXPLAIN {coarser}"))
    assert "from COUNT(*) of guests by size, town, bought 20" in plan
    assert "with what is bought below, about the error of a fresh answer; `SET dpproxy.reuse = off`" in plan
    assert "Cost: at most 0.75 information units" in plan
    free(ann, coarser, {"dpproxy.reuse": "always"})
    assert deviation(ann) == pytest.approx(2 * one, rel=0.02)
    before = ann.used()[0]
    ann.ask(coarser)
    assert "combined from COUNT(*) of guests by size, town, and COUNT(*) of guests by town" in ann.notices[0]
    assert deviation(ann) == pytest.approx(one, rel=0.03)
    assert ann.used()[0] == before + 0.75, "four cells have twice the noise of a fresh count"
    free(ann, coarser)
    assert costs(ann, by_both, {"dpproxy.units": "4"}) == 3
    free(ann, "SELECT COUNT(*) FROM guests WHERE size <= 1")
    assert deviation(ann) == pytest.approx(one / 2 * math.sqrt(3), rel=0.03), "the mean of three rungs"
    free(ann, "SELECT size, COUNT(*) FROM guests GROUP BY size", {"dpproxy.error": "4%"})


@pytest.mark.service
@pytest.mark.parametrize(
    ("bought", "asked"),
    [
        (
            "SELECT day, COUNT(DISTINCT person_id) FROM sales GROUP BY day",
            "SELECT COUNT(DISTINCT person_id) FROM sales",
        ),
        (
            "SELECT kind, COUNT(*) FROM sales GROUP BY kind ORDER BY COUNT(DISTINCT person_id) DESC LIMIT 3",
            "SELECT COUNT(*) FROM sales",
        ),
        (
            "SELECT day, percentile_cont(0.5) WITHIN GROUP (ORDER BY amount) FROM sales GROUP BY day",
            "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY amount) FROM sales WHERE day = '2024-01-03'",
        ),
        ("SELECT day, COUNT(*) FROM sales GROUP BY day", "SELECT COUNT(*) FROM sales WHERE shop = 'north'"),
        ("SELECT day, COUNT(*) FROM sales WHERE kind = 'k1' GROUP BY day", "SELECT COUNT(*) FROM sales"),
        (
            "SELECT day, COUNT(*) FROM sales WHERE kind = 'k1' GROUP BY day",
            "SELECT COUNT(*) FROM sales WHERE kind = 'k2'",
        ),
        ("SELECT day, SUM(amount) FROM sales GROUP BY day", "SELECT SUM(amount + 1) FROM sales"),
        ("SELECT day, SUM(amount) FROM sales GROUP BY day", "SELECT SUM(amount) FROM sales WHERE amount > 3"),
        (
            "SELECT day, SUM(amount) FROM sales GROUP BY day",
            "SELECT shop, SUM(amount) FROM sales GROUP BY shop",
        ),
        (
            "SELECT day, SUM(amount) FROM sales GROUP BY day",
            "SELECT SUM(amount), COUNT(DISTINCT person_id) FROM sales",
        ),
        (
            "SELECT c, COUNT(*) FROM (SELECT person_id, count(*) > 3 AS c FROM sales GROUP BY 1) AS p GROUP BY c",
            "SELECT COUNT(*) FROM (SELECT person_id, sum(amount) > 3 AS c FROM sales GROUP BY 1) AS p WHERE c",
        ),
        ("SELECT tier, COUNT(*) FROM guests GROUP BY tier", "SELECT COUNT(*) FROM guests"),
        (
            "SELECT tier, size, COUNT(*) FROM guests GROUP BY tier, size",
            "SELECT size, COUNT(*) FROM guests WHERE tier IS DISTINCT FROM 'a' GROUP BY size",
        ),
        (
            "SELECT upper(tier), COUNT(*) FROM guests GROUP BY 1",
            "SELECT COUNT(*) FROM guests WHERE upper(tier) = 'A'",
        ),
        (
            "SELECT extract(dow from day), COUNT(*) FROM sales GROUP BY 1",
            "SELECT COUNT(*) FROM sales WHERE day < '2024-01-04'",
        ),
        *(
            ("SELECT item, COUNT(*) FROM orders GROUP BY item", asked)
            for asked in (
                # Rows of no item count, and are in no cell.
                "SELECT COUNT(*) FROM orders LEFT JOIN items USING (item)",
                "SELECT department, COUNT(*) FROM orders LEFT JOIN items USING (item) GROUP BY department",
                "SELECT COUNT(*) FROM orders AS o LEFT JOIN items AS i ON i.item = o.item WHERE i.item IS NULL",
                # No key, or not of the cells.
                "SELECT COUNT(*) FROM orders AS o JOIN items AS i ON i.item >= o.item",
                "SELECT COUNT(*) FROM orders AS o JOIN calendar AS c ON c.day = o.day AND NOT c.closed",
                "SELECT COUNT(*) FROM orders AS o JOIN calendar AS c ON c.week = o.item",
                "SELECT SUM(i.item) FROM orders AS o JOIN items AS i ON i.item = o.item",
                "SELECT COUNT(*) FROM orders AS o JOIN items AS i ON i.item = o.item AND o.amount > 3",
            )
        ),
        # Its rows may have lost some to the table.
        (f"SELECT o.item, COUNT(*) {ITEMS} GROUP BY o.item", "SELECT COUNT(*) FROM orders WHERE item < 4"),
    ],
)
def test_what_is_implied_by_nothing(ann: Analyst, bought: str, asked: str) -> None:
    ann.ask(bought, {"dpproxy.units": "1"})
    assert costs(ann, asked, {"dpproxy.reuse": "always"}) > 0


@pytest.mark.service
def test_groups_of_a_public_table_follow_from_its_key(service: Service, ann: Analyst) -> None:
    """The table joins the cells: those of no item are in no group of its, although most rows are in them."""
    ann.ask("SELECT item, SUM(amount) AS s, COUNT(*) AS n FROM orders GROUP BY item")
    cells = raw(service, ann.name)
    assert cells[("11",)][1] > 29_000

    def total(*items: int, of: int = 1) -> str:
        return str(sum(cells[(str(item),)][of] for item in items))

    food, drink, home = (1, 2, 3), (4, 5, 6), (7, 8, 9)
    by_department = "SELECT i.department, {} GROUP BY 1 ORDER BY 1".format
    assert free(ann, by_department(f"SUM(amount) {ITEMS}")) == [
        ("drink", total(*drink, of=0)),
        ("food", total(*food, of=0)),
        ("home", total(*home, of=0)),
        (None, total(10, of=0)),
    ]
    assert "from SUM(amount), COUNT(*) of orders by item, bought 20" in ann.notices[0]
    for asked, items in (
        (f"COUNT(*) {ITEMS}", range(1, 11)),
        (f"COUNT(*) {ITEMS} WHERE i.department = 'food'", food),
        (f"COUNT(*) {ITEMS} AND i.department = 'food' AND o.item > 1", (2, 3)),
        (
            "COUNT(*) FROM items JOIN orders USING (item) WHERE brand IN ('b0', 'b1')",
            range(1, 5),
        ),
        (
            "COUNT(*) FROM (SELECT item FROM items WHERE department = 'home') AS i JOIN orders USING (item)",
            home,
        ),
        (f"COUNT(*) FILTER (WHERE i.department <> 'food') {ITEMS}", (*drink, *home)),
        ("COUNT(*) FROM orders AS o JOIN items AS i ON i.item = o.item + 1", range(1, 10)),
        (f"COUNT(*) {ITEMS} JOIN departments AS d ON d.department = i.department", range(1, 10)),
        (f"COUNT(*) {ITEMS} JOIN departments AS d USING (department) WHERE d.floor = 1", (*food, *drink)),
        (
            f"COUNT(*) {ITEMS} JOIN items AS j ON j.item = o.item AND j.brand < 'b2' WHERE i.department = 'drink'",
            (4,),
        ),
        (
            "COUNT(*) FROM orders AS o LEFT JOIN items AS i ON i.item = o.item WHERE i.department = 'food'",
            food,
        ),
        ("COUNT(i.item) FROM orders AS o LEFT JOIN items AS i ON i.item = o.item", range(1, 11)),
        (
            "COUNT(*) FROM orders LEFT JOIN items AS i USING (item) WHERE item > 8 AND i.department IS NULL",
            (10, 11, 12),
        ),
    ):
        assert free(ann, f"SELECT {asked}") == [(total(*items),)], asked
    floors = free(
        ann,
        f"SELECT d.floor, COUNT(*) {ITEMS} JOIN departments AS d USING (department) GROUP BY 1 ORDER BY 1",
    )
    assert floors == [("1", total(*food, *drink)), ("2", total(*home))]
    known = "FROM orders AS o LEFT JOIN items AS i USING (item) WHERE o.item IS NOT NULL"
    assert free(ann, by_department(f"COUNT(*) {known}"))[-1] == (None, total(10, 11, 12))


@pytest.mark.service
def test_weeks_of_a_calendar_follow_from_days(service: Service, ann: Analyst) -> None:
    """A calendar has days that the data cannot have; of those no cell is missing."""
    ann.ask("SELECT day, COUNT(*) AS n FROM orders GROUP BY day")
    days = {int(str(day)[8:]): n for (day,), (n,) in raw(service, ann.name).items()}
    joined = "FROM orders AS o JOIN calendar AS c ON c.day = o.day"
    weeks = free(ann, f"SELECT c.week, COUNT(*) {joined} GROUP BY 1 ORDER BY 1")
    assert weeks == [
        ("52", str(sum(n for day, n in days.items() if day < 7))),
        ("53", str(sum(n for day, n in days.items() if day >= 7))),
    ]
    (found,) = free(ann, f"SELECT COUNT(*) {joined} WHERE NOT c.closed AND c.day >= '2024-01-03'")
    assert found == (str(sum(n for day, n in days.items() if day >= 3 and (day + 364) % 3)),)


@pytest.mark.service
def test_groups_of_a_table_that_both_join(service: Service, ann: Analyst) -> None:
    """By a column of the table that decides another one, wherever it does: of two brands it does not."""
    ann.ask(f"SELECT i.brand, COUNT(*) AS n {ITEMS} GROUP BY 1")
    brands = {brand: str(n) for (brand,), (n,) in raw(service, ann.name).items()}
    by_department = (
        f"SELECT i.department, COUNT(*) {ITEMS} WHERE i.brand IN ('b2', 'b3') GROUP BY 1 ORDER BY 1"
    )
    assert free(ann, by_department) == [("drink", brands["b2"]), ("home", brands["b3"])]
    others = f"SELECT COUNT(*) {ITEMS} WHERE i.brand <> 'b1' AND i.department = 'food'"
    assert free(ann, others) == [(brands["b0"],)]
    assert (
        costs(ann, f"SELECT COUNT(*) {ITEMS} WHERE i.department = 'food'", {"dpproxy.reuse": "always"}) == 1
    )
    assert costs(ann, "SELECT COUNT(*) FROM orders", {"dpproxy.reuse": "always"}) == 1
    # Of the table that is joined to the cells no column is a cell's: it would join nothing.
    outer = "FROM orders AS o LEFT JOIN items AS i ON i.item = o.item WHERE o.item IS NOT NULL"
    ann.ask(f"SELECT i.item, o.item AS own, COUNT(*) AS n {outer} GROUP BY 1, 2")
    pairs = raw(service, ann.name)
    food = sum(n for (_, own), (n,) in pairs.items() if own in ("1", "2", "3"))
    assert free(ann, f"SELECT COUNT(*) {outer} AND i.department = 'food'", {"dpproxy.reuse": "always"}) == [
        (str(food),)
    ]
    for key in ("i.item", "o.item"):
        bob = Analyst(service, f"bob {key}")
        bob.ask(f"SELECT {key}, COUNT(*) AS n {ITEMS} GROUP BY 1")
        items = {int(str(item)): n for (item,), (n,) in raw(service, bob.name).items()}
        rows = free(bob, f"SELECT i.department, COUNT(*) {ITEMS} GROUP BY 1 ORDER BY 1")
        assert rows[1] == ("food", str(sum(items[n] for n in (1, 2, 3))))


@pytest.mark.service
def test_items_that_no_cell_is_for_imply_nothing(service: Service, ann: Analyst) -> None:
    """The rows of a public table may be others after a restart in the same epoch."""
    table = service.checked.policy.tables["public", "items"]
    rows = list(service.checked.backend.read_public(table))
    asked = "SELECT COUNT(*) FROM orders AS o JOIN items AS i ON i.item = o.code"
    ann.ask("SELECT code, COUNT(*) AS n FROM orders GROUP BY code")
    cells = raw(service, ann.name)
    assert len(cells) == 10
    try:
        service.front.load_public(table, [*rows, ("11", "food", "b5")])
        service.answering._planner.forget()
        assert costs(ann, f"{asked} AND i.department = 'food'", {"dpproxy.reuse": "always"}) == 1
    finally:
        service.front.load_public(table, rows)
        service.answering._planner.forget()
    assert free(ann, asked) == [(str(sum(n for (n,) in cells.values())),)]


@pytest.mark.service
def test_rows_that_are_in_no_group_do_not_matter_to_a_filter_that_leaves_them_out(ann: Analyst) -> None:
    ann.ask("SELECT tier, size, COUNT(*) FROM guests WHERE size < 4 GROUP BY tier, size")
    free(ann, "SELECT size, COUNT(*) FROM guests WHERE size < 4 AND tier = 'a' GROUP BY size")
    free(ann, "SELECT tier, COUNT(*) FROM guests WHERE size < 4 GROUP BY tier", {"dpproxy.reuse": "always"})


@pytest.mark.service
def test_filters_that_both_have_and_averages(ann: Analyst) -> None:
    ann.ask("SELECT shop, AVG(amount) AS a FROM sales WHERE kind = 'k1' AND amount IS NOT NULL GROUP BY shop")
    free(ann, "SELECT AVG(amount) AS a FROM sales WHERE amount IS NOT NULL AND 'k1' = kind")
    (first,) = free(
        ann, "SELECT AVG(amount) AS a FROM sales WHERE kind = 'k1' AND shop = 'north' AND amount IS NOT NULL"
    )
    assert first[0] is None or 0 <= float(str(first[0])) <= 20
    assert costs(ann, "SELECT AVG(amount) FROM sales WHERE kind = 'k2' AND amount IS NOT NULL") == 1


@pytest.mark.service
def test_a_filter_of_a_measure_is_one_of_rows(service: Service, ann: Analyst) -> None:
    ann.ask(SALES)
    cells = raw(service, ann.name)
    north = sum(s for (_, shop), (s, _) in cells.items() if shop == "north")
    for measure in (
        "SUM(amount) FILTER (WHERE shop = 'north')",
        "SUM(CASE WHEN shop = 'north' THEN amount ELSE 0 END)",
    ):
        assert free(ann, f"SELECT {measure} FROM sales") == [(str(north),)]
    (both,) = free(ann, "SELECT COUNT(*), COUNT(*) FILTER (WHERE day < '2024-01-03') FROM sales")
    early = sum(n for (day, _), (_, n) in cells.items() if str(day) < "2024-01-03")
    assert both == (str(sum(n for _, n in cells.values())), str(early))
    ann.ask("SELECT day, SUM(amount) FILTER (WHERE kind = 'k1') AS s FROM sales GROUP BY day")
    free(ann, "SELECT SUM(amount) FROM sales WHERE kind = 'k1' AND day < '2024-01-04'")
    other = "SELECT SUM(amount) FILTER (WHERE kind = 'k2') FROM sales"
    assert costs(ann, other, {"dpproxy.reuse": "always"}) == 1


@pytest.mark.service
def test_an_account_reads_its_own_purchases_alone(service: Service) -> None:
    """Neither another account's nor those that a shared account was charged for make a question free."""
    ann, bob = Analyst(service, "team ann"), Analyst(service, "team bob")
    ann.ask(SALES)
    total = "SELECT SUM(amount) AS s FROM sales"
    plan = [str(line) for (line,) in bob.ask(f"EXPLAIN {total}")]
    assert not any("Implied" in line for line in plan)
    assert costs(bob, total, {"dpproxy.reuse": "always"}) == 1
    free(ann, total)
    service.ledger.accounts.set_limit("analyst:team ann", Limit(3_000_000, 0, "none"))
    service.ledger.accounts.freeze("analyst:team ann")
    free(ann, "SELECT COUNT(*) FROM sales")


@pytest.mark.service
def test_a_team_pays_once_for_what_two_members_buy(service: Service) -> None:
    def team() -> int:
        return service.ledger.accounts.get("team:duo").used.information

    ann, bob = Analyst(service, "duo ann"), Analyst(service, "duo bob")
    assert ann.used() == bob.used() == (0, 0)
    both, before = "SELECT day, SUM(amount) AS s, COUNT(amount) AS n FROM sales GROUP BY day", team()
    rows = ann.ask(both)
    assert team() == before + 2_000_000
    assert costs(bob, "SELECT day, COUNT(amount) AS n FROM sales GROUP BY day") == 1
    assert team() == before + 3_000_000, "another release"
    assert costs(bob, "SELECT day, SUM(amount) AS s FROM sales GROUP BY day", {"dpproxy.reuse": "off"}) == 1
    assert costs(bob, both, {"dpproxy.reuse": "off"}) == 2
    assert bob.ask(both) == rows, "as if alone, and the same numbers"
    assert team() == before + 4_000_000
    service.ledger.history.verify()


@pytest.mark.service
def test_a_session_may_want_a_fresh_answer(ann: Analyst) -> None:
    ann.ask(SALES)
    total = "SELECT SUM(amount) AS s FROM sales WHERE day < '2024-01-04'"
    plan = "\n".join(str(line) for (line,) in ann.ask(f"EXPLAIN {total}"))
    assert "Implied: from SUM(amount), COUNT(*) of sales by day, shop" in plan
    assert "Cost: at most 1 information unit and 0 calls where it is not implied" in plan
    free(ann, total)
    with pytest.raises(Refusal) as refused:
        ann.ask(total, {"dpproxy.reuse": "sometimes"})
    assert refused.value.code == "22023"
    assert costs(ann, f"/* dpproxy.reuse = off */ {total}") == 1
    ann.ask(total)
    assert "answered before" in ann.notices[0], "what it has bought itself"


@pytest.mark.service
def test_an_implied_answer_is_no_rung(ann: Analyst) -> None:
    ann.ask(SALES)
    total = "SELECT SUM(amount) AS s FROM sales"
    free(ann, total)
    assert costs(ann, total, {"dpproxy.units": "4"}) == 4, "nothing of it is paid"
    free(ann, total)
    assert "of sales, bought" in ann.notices[0], "the better source"


@pytest.mark.service
def test_what_is_looked_up_does_not_grow_with_history(service: Service, ann: Analyst) -> None:
    for day in range(1, 4):
        ann.ask(f"SELECT shop, COUNT(*) FROM sales WHERE kind = 'k{day}' GROUP BY shop")
    ann.ask(SALES)
    planner = Planner(service.checked.policy, service.front, service.checked.backend.dialect)
    asked = planned(
        service, planner, "SELECT COUNT(*) FROM sales WHERE shop = 'north' AND day = '2024-01-02'"
    )
    epoch = service.answering.epochs.turn()
    nonce, streams = service.answering.epochs.nonces(epoch)
    keys = ReleaseKeys(
        service.answering._secrets(epoch).release, nonce, streams, policy=service.answering._policy
    )
    wanted = sought(plan_release(asked.node, asked.terms, keys))
    assert len(wanted) == 2 * 4, "itself and as the rows of an average, under the filters of each subset"
    assert len(service.ledger.owned(f"analyst:{ann.name}", list(wanted))) == 1
    assert set(measures(asked)[0]) <= set(sought(asked))
    lapsed = sought(plan_release(asked.node, asked.terms, ReleaseKeys(bytes(32), b"another", b"streams")))
    assert not set(lapsed) & set(sought(asked)), "of another epoch"
    other = sought(plan_release(asked.node, asked.terms, replace(keys, policy=b"another")))
    assert not set(other) & set(wanted), "of another policy"


def planned(service: Service, planner: Planner, sql: str) -> ReleasePlan:
    planner.prepare(sql, ())
    (node,) = planner.plan(sql, (), ())
    assert isinstance(node, BoundNode)
    return plan_release(node, terms(service.config.privacy, {}), ReleaseKeys(bytes(32), b"nonce", b"streams"))


@pytest.mark.statistical
def test_intervals_of_sums_of_cells_hold_95_percent() -> None:
    """10,000 draws of 4 cells with two rungs: alpha 1e-3, and a width that is 10% too small is found."""
    draws, cells, eps = 10_000, 4, Fraction(1, 20)
    rungs = []
    for rung, units in enumerate((Fraction(1), Fraction(3))):
        mechanism = KnownGauss(eps / root_up(1 / units), 1, 1, draws * cells, "accurate")
        counts = Histogram(np.full(draws * cells, 100, dtype=np.int64), True)
        release = mechanism.release(counts, seed(bytes(32), bytes([rung]) * 32, bytes(16)))
        assert release.values is not None
        assert release.stddev is not None
        rungs.append(
            MeasuredColumn(
                tuple(release.values.tolist()),
                (release.stddev,) * (draws * cells),
                width=width_of("gaussian"),
            )
        )
    members = tuple(tuple(range(cells * n, cells * n + cells)) for n in range(draws))
    total = added(combined(rungs), members)
    errors = np.abs(np.array(total.values) - 100 * cells)

    def covered(factor: float) -> float:
        return float(np.mean(errors <= factor * total.width * np.array(total.deviations)))

    spread = 3.3 * math.sqrt(0.95 * 0.05 / draws)
    assert abs(covered(1) - 0.95) < spread
    assert covered(0.9) < 0.95 - spread


@pytest.mark.statistical
def test_intervals_allow_for_what_clips_leave_out() -> None:
    """150 draws of the total of 24 cells, of 1,500 units: noise alone holds the true total too rarely."""
    size, spread = np.random.default_rng(7).lognormal(3, 0.6, (1500, 1)), np.random.default_rng(8)
    units = size * spread.gamma(1, 1, (1500, 24))
    totals = units.astype(np.int64)
    clip = UnitClip(eps_per=Fraction(3, 20), anchor=10, cells=24, groups=24)
    norms = np.sqrt((totals.astype(float) ** 2).sum(1))
    bins = np.bincount(np.searchsorted(clip.lengths, norms[norms > 0]), minlength=clip.bins).astype(np.int64)
    sums: dict[int, np.ndarray] = {}
    held = {0: 0, 1: 0}
    for draw in range(150):
        stream = seed(bytes(32), draw.to_bytes(32, "big"), bytes(16))
        length = clip.choose(bins, stream)
        assert length is not None
        if length not in sums:
            sums[length] = sum(
                (clipped(unit, length, clip.scale) for unit in totals), np.zeros(24, dtype=np.int64)
            )
        release = clip.release(sums[length], length, stream)
        assert release.values is not None
        assert release.stddev is not None
        column = MeasuredColumn(
            tuple(release.values.tolist()), (release.stddev,) * 24, width=width_of("gaussian"), length=length
        )
        for allows in held:
            share = lost(column, clip.allowed) if allows else 0
            total = added(column, (tuple(range(24)),), share)
            held[allows] += abs(total.values[0] - int(totals.sum())) <= total.width * total.deviations[0]
    assert held[1] >= 0.9 * 150, held
    assert held[0] < 0.8 * 150, held


@pytest.mark.service
def test_only_the_measures_that_are_missing_are_bought(service: Service, ann: Analyst) -> None:
    ann.ask("SELECT day, SUM(amount) AS s FROM sales GROUP BY day")
    sums = {day: s for (day,), (s,) in raw(service, ann.name).items()}
    both = "SELECT day, COUNT(*) AS n, SUM(amount) AS s, 2 * SUM(amount) AS t FROM sales GROUP BY day ORDER BY day"
    plan = "\n".join(str(line) for (line,) in ann.ask(f"EXPLAIN {both}"))
    assert "Implied: s from SUM(amount) of sales by day, bought 20" in plan
    assert "Cost: at most 1 information unit and 0 calls" in plan
    before, rows = ann.used()[0], ann.ask(both)
    assert "s from SUM(amount) of sales by day, bought 20" in ann.notices[0]
    assert "no charge; charged 1 information unit" in ann.notices[0]
    assert ann.used()[0] == before + 1
    counts = {day: n for (day,), (n,) in raw(service, ann.name).items()}
    assert len(rows) >= 11, "the twelfth day has no rows, and its count is noise"
    for day, n, s, t in rows:
        assert (n, s, t) == (str(counts[day]), str(sums[day]), str(2 * sums[day]))
    assert free(ann, both) == rows
    assert costs(ann, "SELECT day, COUNT(*) AS n FROM sales GROUP BY day") == 0, (
        "as if it alone had been asked"
    )
    assert costs(ann, both, {"dpproxy.reuse": "off"}) == 2
    level = {"dpproxy.units": "4"}
    assert costs(ann, "SELECT shop, SUM(amount) AS s FROM sales WHERE kind = 'k0' GROUP BY shop", level) == 4
    more = "SELECT shop, SUM(amount) AS s, COUNT(amount) AS n FROM sales WHERE kind = 'k0' GROUP BY shop"
    assert costs(ann, more, level) == 4
    other = "SELECT COUNT(*) AS n, SUM(amount) AS s, MAX(amount) AS m FROM sales WHERE day < '2024-01-05'"
    assert costs(ann, other) == costs(ann, "SELECT MAX(amount) FROM sales WHERE day < '2024-01-04'") > 0


@pytest.mark.service
def test_totals_of_a_rollup_are_of_its_groups(service: Service, ann: Analyst) -> None:
    """The finest groups are bought first; of a count of units what is missing to the noise of a fresh one."""
    sql = "SELECT day, shop, SUM(amount) AS s FROM sales GROUP BY ROLLUP (day, shop)"
    settings = {"dpproxy.reuse": "always"}
    before = ann.used()[0]
    ann.ask(sql, settings)
    assert [("no charge" in notice) for notice in ann.notices] == [False, True, True]
    assert ann.used()[0] == before + 1
    cells = raw(service, ann.name)
    (total,) = [row for row in ann.ask(sql, settings) if row[0] is None and row[1] is None][-1:]
    assert total[2] == str(sum(s for (s,) in cells.values()))
    ann.ask(sql, settings)
    assert all("no charge" in notice for notice in ann.notices)
    assert costs(ann, "SELECT day, SUM(amount) AS s FROM sales GROUP BY day", settings) == 0
    units = "SELECT town, size, COUNT(*) AS n FROM guests GROUP BY ROLLUP (town, size)"
    assert costs(ann, units) == 2.5
    assert costs(ann, units) == 0
    assert costs(ann, units, {"dpproxy.reuse": "off"}) == 2


@pytest.mark.service
def test_all_of_a_rollup_has_to_be_affordable(service: Service) -> None:
    """Nothing is bought where what may not be implied is above the price that the session accepts."""
    eve = Analyst(service, "eve rollup")
    sql = "SELECT day, shop, SUM(amount) AS s FROM sales GROUP BY ROLLUP (day, shop)"
    with pytest.raises(Refusal) as refused:
        eve.ask(sql, {"dpproxy.max_cost": "2"})
    assert refused.value.code == "PV026"
    assert eve.used() == (0, 0)
    assert costs(eve, sql, {"dpproxy.max_cost": "3", "dpproxy.reuse": "always"}) == 1
    assert costs(eve, sql, {"dpproxy.max_cost": "0.5", "dpproxy.reuse": "always"}) == 0


@pytest.mark.service
def test_counts_from_several_groupings_are_combined(service: Service, ann: Analyst) -> None:
    """By inverse variance: a cell of one grouping, and the sum of four of another."""
    ann.ask("SELECT town, COUNT(*) AS n FROM guests GROUP BY town")
    (ulm,), one = raw(service, ann.name)[("Ulm",)], deviation(ann)
    ann.ask("SELECT town, size, COUNT(*) AS n FROM guests GROUP BY town, size")
    others = sum(n for (_, town), (n,) in raw(service, ann.name).items() if town == "Ulm")
    (found,) = free(ann, "SELECT COUNT(*) AS n FROM guests WHERE town = 'Ulm'")
    assert float(str(found[0])) == pytest.approx((4 * ulm + others) / 5, abs=0.51)
    assert deviation(ann) == pytest.approx(one / math.sqrt(1 + 1 / 4), rel=0.03)
    assert "COUNT(*) of guests by town, and COUNT(*) of guests by size, town, bought 20" in ann.notices[0]
    assert [row.replayed for row in service.ledger.history.latest(f"analyst:{ann.name}", 2)] == [True, True]
    before = ann.used()[0]
    ann.ask("SELECT COUNT(*) AS n FROM guests")
    assert one / 2 < deviation(ann) <= 1.03 * one
    assert ann.used()[0] == before + 0.75, "three cells, and twelve, have more noise"


@pytest.mark.service
def test_a_measurement_that_is_found_twice_has_the_noise_of_one(ann: Analyst) -> None:
    """Under its filter, and under none as that is one of its groups."""
    bought = "SELECT town, COUNT(*) AS n FROM guests WHERE town IN ('Ulm', 'Jena') GROUP BY town"
    ann.ask(bought)
    once = deviation(ann)
    free(ann, bought.replace("GROUP", "AND town <> 'Jena' GROUP"), {"dpproxy.reuse": "always"})
    assert deviation(ann) == once


@pytest.mark.service
def test_releases_that_contradict_each_other_imply_nothing(service: Service, ann: Analyst) -> None:
    by_place, by_size = (f"SELECT {key}, COUNT(*) FROM callers GROUP BY {key}" for key in ("place", "size"))
    assert costs(ann, by_place) == 1
    total = "SELECT COUNT(*) FROM callers"
    alone = free(ann, total, {"dpproxy.reuse": "always"})
    assert abs(int(alone[0][0] or 0) - 2000) < 200, "the owner's word is all that there is"
    assert costs(ann, by_size) == 1
    told = "these answers contradict each other beyond their noise, so nothing is computed from them: "
    assert told + "COUNT(*) of callers by place, bought " in "".join(sum(ann.ask("EXPLAIN " + total), ()))
    assert costs(ann, total, {"dpproxy.error": "10%"}) > 0
    assert told + "COUNT(*) of callers by place, bought " in str(ann.last.rows[0].warning)
    assert ", and COUNT(*) of callers by size, bought " in str(ann.last.rows[0].warning)
    assert abs(int(ann.ask(total)[0][0]) - 3000) < 200
    # What each of them has by itself is as it was.
    free(ann, by_size.replace("GROUP", "WHERE size < 3 GROUP"))


@pytest.mark.service
def test_what_is_bought_to_make_an_implied_answer_exact_may_contradict_it(ann: Analyst) -> None:
    total = "SELECT COUNT(*) FROM callers"
    assert costs(ann, "SELECT place, COUNT(*) FROM callers GROUP BY place") == 1
    assert costs(ann, total) > 1, "the rest, and then all of it"
    assert "contradict each other" in str(ann.last.rows[0].warning)
    assert abs(int(ann.ask(total)[0][0]) - 3000) < 200


@pytest.mark.service
def test_a_constant_key_is_no_evidence_of_all_rows(ann: Analyst) -> None:
    assert costs(ann, "SELECT 'all' AS x, COUNT(*) FROM guests GROUP BY x") > 0
    assert costs(ann, "SELECT COUNT(*) FROM guests") > 0


@pytest.mark.service
def test_the_largest_of_counts_that_were_bought(service: Service, ann: Analyst) -> None:
    ann.ask("SELECT day, COUNT(DISTINCT person_id) AS n FROM sales GROUP BY day")
    counts = {day: n for (day,), (n,) in raw(service, ann.name).items()}
    top = "SELECT day, COUNT(DISTINCT person_id) AS n FROM sales GROUP BY day ORDER BY n DESC, day LIMIT 3"
    plan = "\n".join(str(line) for (line,) in ann.ask(f"EXPLAIN {top}"))
    assert "top 3" in plan
    assert "sales by day, bought 20" in plan
    rows = free(ann, top, {"dpproxy.reuse": "always"})
    best = sorted(counts, key=lambda day: (-counts[day], str(day)))[:3]
    assert rows == [(day, str(counts[day])) for day in best]
    names = "SELECT day FROM sales GROUP BY day ORDER BY COUNT(DISTINCT person_id) DESC LIMIT 2"
    assert [day for (day,) in free(ann, names, {"dpproxy.reuse": "always"})] == best[:2]
    assert costs(ann, top) > 1, "fresh ranks are better"


@pytest.mark.service
def test_averages_sums_and_rows_follow_from_each_other(service: Service, ann: Analyst) -> None:
    """Nothing is certain of their errors beforehand, so that they are taken where any error is, or for an error."""
    settings = {"dpproxy.reuse": "always"}
    ann.ask("SELECT day, SUM(amount) AS s FROM sales GROUP BY day")
    sums = {day: s for (day,), (s,) in raw(service, ann.name).items()}
    average = "SELECT AVG(amount) AS a FROM sales WHERE day < '2024-01-06'"
    assert costs(ann, average, settings) == 1, "rows are missing"
    ann.ask("SELECT day, COUNT(amount) AS n FROM sales GROUP BY day")
    rows = {day: n for (day,), (n,) in raw(service, ann.name).items()}
    early = [day for day in sums if str(day) < "2024-01-05"]
    (found,) = free(ann, "SELECT AVG(amount) AS a FROM sales WHERE day < '2024-01-05'", settings)
    assert float(str(found[0])) == pytest.approx(sum(sums[d] for d in early) / sum(rows[d] for d in early))
    assert "SUM(amount) of sales by day, and COUNT(amount) of sales by day" in ann.notices[0]
    assert costs(ann, "SELECT AVG(amount) AS a FROM sales WHERE day < '2024-01-05'") == 1
    ann.ask("SELECT shop, AVG(amount) AS a FROM sales WHERE kind = 'k0' GROUP BY shop")
    averaged = deviation(ann)
    free(ann, "SELECT shop, AVG(amount) AS a FROM sales WHERE kind = 'k0' AND shop = 'north' GROUP BY shop")
    assert deviation(ann) >= averaged - 0.1
    total = "SELECT SUM(amount) AS s FROM sales WHERE kind = 'k0' AND shop = 'north'"
    assert costs(ann, total, settings) > 0, "what averages alone are read from says too little of sums"
    both = "SELECT shop, AVG(amount) AS a, SUM(amount) AS s FROM sales WHERE kind = 'k1' GROUP BY shop"
    ann.ask(both)
    alone = "SELECT shop, AVG(amount) AS a FROM sales WHERE kind = 'k1' GROUP BY shop"
    assert len(free(ann, alone)) == len(raw(service, ann.name)), "with sums or without them"
    ((value,),) = free(ann, total.replace("k0", "k1"), settings)
    assert value is not None
    assert costs(ann, total.replace("k0", "k1")) > 0


@pytest.mark.service
def test_rows_are_read_off_an_average(service: Service, ann: Analyst) -> None:
    """All rows off that of a column that is never NULL, else those that have a value."""
    always = {"dpproxy.reuse": "always"}
    ann.ask("SELECT item, AVG(amount) AS a, SUM(amount) AS s FROM orders WHERE item > 1 GROUP BY item")
    rows = {int(str(item)): n for (item,), (_, n) in raw(service, ann.name).items()}
    assert rows[11] == pytest.approx(30_000, rel=0.1)
    asked = "SELECT item, COUNT(*) AS n FROM orders WHERE item > 1 AND item < 6 GROUP BY item ORDER BY item"
    plan = "\n".join(str(line) for (line,) in ann.ask(f"EXPLAIN {asked}"))
    assert "from AVG(amount), SUM(amount) of orders by item" in plan
    assert free(ann, asked, always) == [(str(item), str(rows[item])) for item in range(2, 6)]
    each = deviation(ann)
    food = free(ann, f"SELECT COUNT(*) {ITEMS} WHERE i.department = 'food' AND o.item > 1", always)
    assert food == [(str(rows[2] + rows[3]),)]
    assert deviation(ann) > each
    assert costs(ann, asked) == 1
    ann.ask("SELECT day, AVG(amount) AS a FROM sales GROUP BY day")
    assert costs(ann, "SELECT COUNT(amount) FROM sales", always) == 1, "nothing but averages was asked"
    ann.ask("SELECT day, AVG(amount) AS a, COUNT(amount) AS n FROM sales GROUP BY day")
    values = raw(service, ann.name)
    assert costs(ann, "SELECT COUNT(*) FROM sales", always) == 1
    found = free(ann, "SELECT COUNT(amount) FROM sales WHERE day < '2024-01-03'", always)
    assert found == [(str(sum(n for (day,), (_, n) in values.items() if str(day) < "2024-01-03")),)]


@pytest.mark.service
def test_a_cube_answers_what_is_asked_over_it(service: Service, ann: Analyst) -> None:
    """Sums of its cells, by any of three keys and under filters on the others; the error is about what is stated."""
    keys = {
        "shop": "shop = 'north'",
        "day": "day > '2024-01-06'",
        "half": "extract(hour from seen)::int / 12 = 1",
    }
    half = "extract(hour from seen)::int / 12"
    ann.ask(f"SELECT shop, day, {half} AS half, COUNT(*) AS n FROM sales GROUP BY 1, 2, 3")
    assert len(raw(service, ann.name)) == 4 * 12 * 2
    asked = 0
    with duckdb.connect() as connection:
        connection.execute(ROWS)
        for filters in ((), *((key,) for key in keys), *combinations(keys, 2), tuple(keys)):
            where = " AND ".join(keys[key] for key in filters) or "true"
            for group in (None, *(key for key in keys if key not in filters)):
                key = half if group == "half" else group
                by = f" GROUP BY {key}" if key else ""
                sql = f"SELECT {key or 1} AS key, COUNT(*) AS n FROM sales WHERE {where}{by}"
                rows = free(ann, sql, {"dpproxy.reuse": "always"})
                most = ann.notices[0].partition("standard deviation ")[2].partition(")")[0].split()[-1]
                bare = sql.replace(f"{key or 1} AS", f"({key or 1})::text AS").replace(" / 12", " // 12")
                true = dict(connection.execute(bare).fetchall())
                for name, n in rows:
                    assert abs(float(str(n)) - true.get(name, 0)) < 5 * float(most), sql
                asked += 1
    assert asked == 20


@pytest.mark.service
def test_what_comes_to_no_length_is_bought_with_the_rest(ann: Analyst) -> None:
    """A rest of few units costs little and may be no answer, before all of its rungs are bought."""
    ann.ask("SELECT shop, COUNT(*) FILTER (WHERE shop <> 'east') FROM sales GROUP BY shop")
    sql = "SELECT shop, COUNT(*) FILTER (WHERE shop IS NOT NULL) FROM sales GROUP BY shop ORDER BY 1"
    before = ann.used()[0]
    assert {row[0] for row in ann.ask(sql)} >= {"north", "south"}
    assert 0 < ann.used()[0] - before < 3, "once"
