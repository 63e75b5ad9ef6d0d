"""Aggregates through the whole path: their answers are near the truth, and cost what their mechanisms say."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from hashlib import sha256
from pathlib import Path

import duckdb
import pytest

from dpproxy.deployment.service import Service, configured
from dpproxy.engine.measurement.base import GroupBound
from dpproxy.engine.measurement.quantiles import QuantileMeter
from dpproxy.engine.options import terms
from dpproxy.engine.planner import BoundNode, Planner
from rewriter.ir.measure import ROW
from tests.dpproxy.engine.test_executor import Analyst
from tests.dpproxy.serving import POLICY, make

pytestmark = pytest.mark.service

USERS = 3000
MORE = """
[budget]
information = 100
calls = 20
period = "none"

[tables.orders]
privacy_unit = "person_id"
max_rows_per_unit = 4
max_rows_per_unit_per_group = 2
[tables.orders.columns]
shop = { domain = ["north", "south"] }
item = {}
amount = { bounds = [0, 100], scale = 2 }
pieces = { range = [0, 9] }
placed = { range = ["2024-01-01", "2024-12-31"] }
[tables.homes]
privacy_unit = "person_id"
[tables.calls]
privacy_unit = "person_id"
"""
ROWS = """
INSERT INTO orders SELECT i // 2, ['north', 'south'][1 + i % 2], 'item ' || (i % 5), (i % 100) + 0.25,
  i % 10, DATE '2024-01-01' + CAST(i % 366 AS INTEGER) FROM range(6000) r(i)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("aggregates")
    make(folder, POLICY + MORE)
    with duckdb.connect(folder / "people.duckdb") as connection:
        connection.execute(
            "CREATE TABLE orders (person_id INTEGER NOT NULL, shop VARCHAR, item VARCHAR, amount DOUBLE, "
            "pieces INTEGER, placed DATE)"
        )
        connection.execute(ROWS)
        connection.execute("CREATE TABLE homes (person_id INTEGER PRIMARY KEY, street VARCHAR NOT NULL)")
        connection.execute("CREATE TABLE calls (person_id INTEGER NOT NULL, minutes INTEGER)")
        connection.execute("INSERT INTO calls SELECT i // 10, 11 FROM range(10000) r(i)")
        connection.execute("INSERT INTO calls SELECT 1000 + i // 1000, 1 FROM range(100000) r(i)")
        connection.execute(f"INSERT INTO homes SELECT i, 'street ' || (i % 16) FROM range({USERS}) r(i)")
    return folder


@pytest.fixture(scope="module")
def service(folder: Path) -> Iterator[Service]:
    with Service.start(configured(folder / "dpproxy.toml"), alone=True) as running:
        yield running


@pytest.fixture
def ann(service: Service, request: pytest.FixtureRequest) -> Analyst:
    """An analyst of the test's own, with a full budget."""
    return Analyst(service, f"ann {sha256(request.node.name.encode()).hexdigest()[:40]}")


@pytest.mark.parametrize(
    ("aggregate", "error", "information"),
    [
        ("SUM(amount)", 40_000, 1),
        ("SUM(2 * amount)", 80_000, 1),
        ("AVG(amount)", 8, 1),
        ("SUM(pieces)", 4000, 1),
        ("SUM(CASE WHEN pieces > 4 THEN 1 ELSE 0 END)", 400, 1),
        ("VAR_POP(amount)", 300, 1),
        ("STDDEV_POP(amount)", 8, 1),
        ("PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY amount)", 40, 1),
        ("PERCENTILE_DISC(0.9) WITHIN GROUP (ORDER BY pieces)", 4, 1),
        ("MAX(amount)", 40, 1),
        ("COUNT(DISTINCT item)", 400, Fraction(1)),
    ],
)
def test_an_aggregate_is_near_the_truth(
    folder: Path, ann: Analyst, aggregate: str, error: float, information: Fraction
) -> None:
    """One length in a hundred is far too long, and an average NULL with it: then two other accounts have to be near."""
    with duckdb.connect(folder / "people.duckdb", read_only=True) as connection:
        (true,) = connection.execute(f"SELECT {aggregate} FROM orders").fetchall()[0]

    def is_near(analyst: Analyst) -> bool:
        ((value,),) = analyst.ask(f"SELECT {aggregate} FROM orders")
        return value is not None and abs(float(value) - float(true)) < error

    assert is_near(ann) or all(is_near(Analyst(ann.service, f"{ann.name} {n}")) for n in "ab")
    assert ann.used() == (float(information), 0)


def test_aggregates_of_one_value_share_their_sums(ann: Analyst) -> None:
    sql = "SELECT shop, AVG(amount), SUM(amount), COUNT(amount), AVG(amount) * COUNT(amount) FROM orders GROUP BY shop"
    for _, average, total, count, product in ann.ask(sql):
        assert abs(float(average) - 50) < 15
        assert abs(float(total) - float(average) * float(count)) < 0.02 * float(total)
        assert math.isclose(float(product), float(average) * float(count))
    assert ann.used() == (1, 0), "one release of joint moments"


def test_an_average_that_depends_on_the_number_of_rows_is_off_and_says_so(ann: Analyst) -> None:
    """1,000 people with 10 calls of 11 minutes, 100 with 1,000 calls of one minute: 2.06 in truth (unit_moments.md).

    A far too long length, one in fifty, brings an average near the truth: three accounts do not all draw one.
    """
    accounts = [ann, *(Analyst(ann.service, f"{ann.name} {n}") for n in "ab")]
    averages = [float(a.ask("SELECT AVG(minutes) FROM calls")[0][0] or 0) for a in accounts]
    assert max(averages) > 5
    assert re.search(
        r"in avg a unit of more than about \d+ rows has less weight than its rows: where such units differ from the "
        "others, it is not that of all rows, and the interval does not cover it",
        ann.notices[0],
    )


@pytest.mark.parametrize("aggregate", ["COUNT(*)", "SUM(minutes)", "AVG(minutes)"])
def test_where_there_are_too_few_units_there_is_no_number(ann: Analyst, aggregate: str) -> None:
    told = {}
    for minutes in range(20, 26):
        ((number,),) = ann.ask(f"SELECT {aggregate} FROM calls WHERE minutes > {minutes}")
        told[number] = ann.notices[0]
    why = "avg is NULL where the noise would swamp it|no length of units' totals serves so few units"
    assert re.search(why, told[None])


def test_sums_of_unknown_groups_come_after_their_selection(ann: Analyst) -> None:
    rows = ann.ask(
        "SELECT item, COUNT(*) AS n, AVG(pieces) FROM orders GROUP BY item ORDER BY n DESC LIMIT 3"
    )
    assert len(rows) == 3
    assert all(item.startswith("item ") and abs(float(n) - 1200) < 900 for item, n, _ in rows)
    information, calls = ann.used()
    assert calls == 1
    assert information == pytest.approx(1.9 + 2 + 2 + 1 + 1), "units of three groups, rows and moments"


def test_rows_of_unknown_groups_are_counted_where_there_are_units_enough(ann: Analyst) -> None:
    """187 units with two rows each: fewer rows than a threshold of 4 times that on units asks for."""
    rows = ann.ask("SELECT street, COUNT(*) FROM orders JOIN homes USING (person_id) GROUP BY street")
    assert sorted(street for street, _ in rows) == sorted(f"street {n}" for n in range(16))
    deviation = float(re.findall(r"standard deviation ([\d.]+)", ann.notices[0])[0])
    assert all(abs(float(n) - 375) < 100 + 6 * deviation for _, n in rows), (
        "a long length is drawn now and then"
    )
    assert ann.used() == (2, 1)


def test_every_day_is_there_for_one_unit(ann: Analyst) -> None:
    """Some 16 units a day, each on two days: the noise is that of two days, not of a year."""
    rows = ann.ask("SELECT placed, COUNT(DISTINCT person_id) AS n FROM orders GROUP BY placed")
    (notice,) = ann.notices
    assert len(rows) == 366
    deviation = float(re.findall(r"standard deviation ([\d.]+)", notice)[0])
    assert abs(sum(float(n) for _, n in rows) - 6000) < len(rows) * deviation, "none is shown below 0"
    assert "has less weight than one unit in each, and the interval does not cover it" in notice
    (total,) = ann.ask(
        "SELECT SUM(n) FROM (SELECT placed, COUNT(DISTINCT person_id) AS n FROM orders GROUP BY placed) AS days"
    )
    assert float(total[0]) == sum(float(n) for _, n in rows)
    assert ann.used() == (1, 0), "one release"


def test_values_of_a_small_domain_are_counted_one_by_one(ann: Analyst) -> None:
    sql = (
        "SELECT COUNT(DISTINCT shop), COUNT(DISTINCT pieces), COUNT(DISTINCT pieces) FILTER (WHERE pieces < 4) "
        "FROM orders"
    )
    ((shops, pieces, few),) = ann.ask(sql)
    (notice,) = ann.notices
    assert (int(shops), int(pieces)) == (2, 10)
    assert int(few) in (4, 5), "of the six values that nobody has, one may be counted"
    assert re.search(r"values that fewer than about \d+ units have are not counted", notice)
    assert ann.used() == (3, 0), "one unit for each"
    plan = "\n".join(line for (line,) in ann.ask(f"EXPLAIN {sql}"))
    assert "the units of each of 2 values" in plan


def test_dates_have_quantiles(ann: Analyst) -> None:
    rows = ann.ask(
        "SELECT MIN(placed), PERCENTILE_DISC(0.5) WITHIN GROUP (ORDER BY placed), MAX(placed) FROM orders"
    )
    first, middle, last = rows[0]
    assert "2024-01-01" <= first <= "2024-05-01"
    assert "2024-03-01" <= middle <= "2024-10-31"
    assert "2024-09-01" <= last <= "2024-12-31"
    assert ann.used() == (1, 0)


def test_groups_are_listed_by_what_is_present_or_by_their_domain(ann: Analyst) -> None:
    assert [shop for (shop,) in ann.ask("SELECT DISTINCT shop FROM orders ORDER BY 1")] == ["north", "south"]
    assert "the declared values, whether they are in the data or not" in ann.notices[0]
    assert ann.used() == (0, 0)
    present = ann.ask("SELECT DISTINCT shop FROM orders ORDER BY 1", {"dpproxy.distinct_values": "present"})
    assert present == [("north",), ("south",)]
    information, calls = ann.used()
    assert (information, calls) == (10, 3)
    assert {item for (item,) in ann.ask("SELECT item FROM orders GROUP BY item")} == {
        f"item {n}" for n in range(5)
    }
    assert ann.used() == (20, 6)


def test_quantiles_and_distinct_counts_go_by_group(ann: Analyst) -> None:
    rows = ann.ask(
        "SELECT shop, PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY amount), COUNT(DISTINCT pieces) "
        "FROM orders GROUP BY shop"
    )
    assert all(abs(float(middle) - 50) < 45 and 0 <= int(n) <= 10 for _, middle, n in rows), "there are ten"
    assert ann.used() == (1 + 2, 0), "a unit's rows have one weight over all shops"


def test_an_average_by_a_count_that_only_orders_is_of_the_count_not_of_its_rank(ann: Analyst) -> None:
    rows = ann.ask("SELECT item, AVG(pieces) FROM orders GROUP BY item ORDER BY COUNT(pieces) DESC LIMIT 3")
    assert len(rows) == 3
    # One average in some hundreds is NULL: a length far too long was chosen.
    shown = [float(average) for _, average in rows if average is not None]
    assert all(1 < average < 8 for average in shown), "of 0 to 9, whatever the item"


def test_up_to_three_quantiles_are_chosen_and_ascend(ann: Analyst) -> None:
    columns = [f"PERCENTILE_CONT({f}) WITHIN GROUP (ORDER BY amount)" for f in (0.75, 0.5, 0.25)]
    rows = ann.ask(f"SELECT shop, {', '.join(columns)} FROM orders GROUP BY shop")
    assert "QuantileChoice;" in ann.notices[0]
    for _, high, middle, low in rows:
        assert float(low) <= float(middle) <= float(high)
        assert abs(float(middle) - 50) < 15
    assert ann.used() == (1, 0)
    ann.ask(f"SELECT {', '.join(columns)}, PERCENTILE_CONT(0.1) WITHIN GROUP (ORDER BY amount) FROM orders")
    assert "QuantileTree;" in ann.notices[0]
    ann.ask("SELECT MAX(amount) FROM orders WHERE pieces > 1")
    assert "QuantileTree;" in ann.notices[0]
    ann.ask("SELECT PERCENTILE_CONT(0.12345) WITHIN GROUP (ORDER BY amount) FROM orders")
    assert "QuantileTree;" in ann.notices[0], "a choice takes fractions of three digits"


def test_quantiles_share_the_price_of_one(service: Service) -> None:
    """In rho: n choices at eps/sqrt(n) cost no more than one unit together (quantile.md)."""
    planner = Planner(service.checked.policy, service.front, service.checked.backend.dialect)
    for fractions in ([0.5], [0.25, 0.5], [0.1, 0.5, 0.9]):
        columns = ", ".join(f"PERCENTILE_CONT({f}) WITHIN GROUP (ORDER BY amount)" for f in fractions)
        planner.prepare(f"SELECT {columns} FROM orders", ())
        (node,) = planner.plan(f"SELECT {columns} FROM orders", (), ())
        assert isinstance(node, BoundNode)
        settings = terms(service.config.privacy, {}).settings
        meter = QuantileMeter(node, 0, settings, GroupBound(None), 1024)
        choices = meter.choices(1)
        assert len(choices) == len(fractions)
        assert sum(one.eps_per**2 for one in choices) <= settings.eps_per**2
        assert all(one.eps_per**2 > settings.eps_per**2 / (len(fractions) + 1) for one in choices)
        assert all(one.tau == ROW * 4 for one in choices), "what all rows of a unit weigh"
        laplace = replace(meter, settings=replace(settings, noise="laplace"))
        assert not laplace.choices(1)


def test_explain_says_that_a_variance_may_be_null(ann: Analyst) -> None:
    for aggregate, said in (("STDDEV(amount)", True), ("AVG(amount)", False)):
        plan = "\n".join(line for (line,) in ann.ask(f"EXPLAIN SELECT {aggregate} FROM orders"))
        assert ("May be NULL: a variance or standard deviation that the noise would swamp" in plan) == said
    assert ann.used() == (0, 0)
