"""Statements that differ in constants are planned by one template, which gives each of them what it gets by itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from benchmarks.latency.planning import KEYS, TERMS
from dpproxy.engine.optimizer import plan_release
from dpproxy.engine.planner import BoundNode, Planner, PreparedQuery
from dpproxy.front.front import Front
from rewriter.policy import Policy
from rewriter.refusal import Refusal
from tests.dpproxy import shop

pytestmark = pytest.mark.service

READS = ("describe", "agrees", "parameter_types", "evaluate")
SHARED = (
    "SELECT placed::date, COUNT(*) FROM orders WHERE placed >= '{day}' GROUP BY 1 ORDER BY 1",
    "SELECT country, COUNT(*) AS n FROM users WHERE birth_year BETWEEN {n} AND 2000 GROUP BY country LIMIT 5",
    "SELECT COUNT(*) FROM users WHERE country IN ('AT', '{text}') AND birth_year <> {n}",
    "SELECT p.color, SUM(i.price) FROM orders o JOIN items i USING (order_id) JOIN products p USING (product_id) "
    "WHERE o.placed < DATE '{day}' AND p.name = '{text}' GROUP BY p.color",
    "SELECT COUNT(*) FROM orders -- asked by {n}\nWHERE placed >= TIMESTAMP '{day}'",
    "SELECT AVG(price) FROM items WHERE price BETWEEN {n} AND 50",
    "SELECT COUNT(*) FROM users WHERE birth_year > {n} AND 1 = 0",
)
APART = (
    "SELECT COUNT(*) FROM orders a JOIN orders b USING (user_id) WHERE a.order_id = {n} AND b.order_id = 3",
    "SELECT * FROM (SELECT country, COUNT(*) AS c FROM users GROUP BY country) AS x WHERE c > {n}",
    "SELECT COUNT(*) FROM orders WHERE placed < CAST('{day}' AS date) + INTERVAL '1 month' AND order_id > {n}",
    "SELECT COUNT(*) FROM users WHERE birth_year > {n} OR country = '{text}'",
    "SELECT n, COUNT(*) FROM (SELECT user_id, ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY placed) AS n "
    "FROM orders) AS o WHERE n <= {n} GROUP BY n",
)
CONSTANTS = (("1970", "2024-02-01", "DE"), ("1950", "2024-03-01", "it's"), ("1980", "2024-05-01", "ÜS"))


class CountedFront:
    """A front that counts how often it reads a statement."""

    def __init__(self, front: Front) -> None:
        self._front, self.reads, self.away = front, 0, False

    def __getattr__(self, name: str) -> Any:
        self.reads += name in READS
        if self.away:
            raise Refusal("57P03", "the front cannot be reached")
        return getattr(self._front, name)


class Shop:
    """The shop's planners, with nothing in their caches."""

    def __init__(self, policy: Policy, front: Front, dialect: Any) -> None:
        self.front = CountedFront(front)
        self._made = policy, self.front, dialect

    def planner(self) -> Planner:
        return Planner(*self._made)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    folder = tmp_path_factory.mktemp("templates")
    _, backend, policy = shop.opened(shop.make(folder))
    with Front.start(folder / "front", sessions=4) as front:
        front.clone(policy, backend.schema())
        for table in policy.tables.values():
            if table.in_front:
                front.load_public(table, backend.read_public(table))
        dialect = backend.dialect
        backend.close()
        yield Shop(policy, front, dialect)


def written(statement: str, constants: tuple[str, str, str]) -> str:
    n, day, text = constants
    return statement.format(n=n, day=day, text=text.replace("'", "''"))


def planned(planner: Planner, sql: str) -> tuple[PreparedQuery, list[object]]:
    """What is prepared, and all that makes the releases: keys, price and SQL."""
    prepared = planner.prepare(sql, ())
    found: list[object] = []
    for node in planner.plan(sql, (), ()):
        assert isinstance(node, BoundNode)
        plan = plan_release(node, TERMS, KEYS)
        queries = [(q.sql, q.arrays, q.unique) for q in plan.queries()]
        found.append((plan.request_key, plan.release_key, plan.price, queries, node.shown, node.types))
    return prepared, found


def learnt(world: Shop, statement: str) -> Planner:
    """A planner that has planned the statement with the first two kinds of constants."""
    planner = world.planner()
    for constants in CONSTANTS[:2]:
        planned(planner, written(statement, constants))
    return planner


@pytest.mark.parametrize("statement", SHARED)
def test_the_third_statement_is_planned_without_reading_it_again(world: Shop, statement: str) -> None:
    sql = written(statement, CONSTANTS[2])
    alone, expected = planned(world.planner(), sql)
    planner = learnt(world, statement)
    before = world.front.reads
    prepared, found = planned(planner, sql)
    assert (world.front.reads, found) == (before, expected)
    assert (prepared.presentation, prepared.columns) == (alone.presentation, alone.columns)
    assert prepared.array_oids == alone.array_oids
    shown = planner.prepare(sql, (), errors=True), world.planner().prepare(sql, (), errors=True)
    assert shown[0].presentation == shown[1].presentation


@pytest.mark.parametrize("statement", APART)
def test_others_are_planned_by_themselves(world: Shop, statement: str) -> None:
    sql = written(statement, CONSTANTS[2])
    expected = planned(world.planner(), sql)
    planner = learnt(world, statement)
    before = world.front.reads
    assert planned(planner, sql) == expected
    assert world.front.reads > before


def outcome(planner: Planner, sql: str) -> object:
    """What is planned for a statement, or how it is refused."""
    try:
        return planned(planner, sql)[1]
    except Refusal as refusal:
        return refusal.code, refusal.message


MINUTES = (
    "SELECT date_trunc('minute', seen), COUNT(*) FROM app.visits "
    "WHERE seen >= TIMESTAMP '{day}' AND seen < TIMESTAMP '{text}' GROUP BY 1"
)
TWICE = "SELECT COUNT(*) FROM users WHERE birth_year > {n} AND birth_year <> {day} AND country = '{text}'"


@pytest.mark.parametrize(
    ("statement", "others", "last"),
    [
        (
            MINUTES,
            (("", "2024-01-01", "2024-01-02"), ("", "2024-02-01", "2024-02-02")),
            ("", "1000-01-01", "2999-01-01"),
        ),
        (TWICE, (("1970", "1971", "DE"), ("1980", "1981", "FR")), ("1990", "1990", "US")),
        (SHARED[0], CONSTANTS[:2], ("", "2024-05-01 ", "")),
    ],
)
def test_constants_that_are_unlike_the_others_are_planned_as_they_are_by_themselves(
    world: Shop, statement: str, others: tuple[tuple[str, str, str], ...], last: tuple[str, str, str]
) -> None:
    planner = world.planner()
    for constants in others:
        planned(planner, written(statement, constants))
    assert outcome(planner, written(statement, last)) == outcome(world.planner(), written(statement, last))


def test_a_number_is_no_text(world: Shop) -> None:
    planner = world.planner()
    for country in ("DE", "FR"):
        planned(planner, f"SELECT COUNT(*) FROM users WHERE country = '{country}'")
    with pytest.raises(Refusal, match="operator does not exist"):
        planner.prepare("SELECT COUNT(*) FROM users WHERE country = 5", ())


def test_what_was_prepared_by_itself_is_planned_by_itself(world: Shop) -> None:
    planner, sql = world.planner(), written(SHARED[0], CONSTANTS[2])
    prepared = planner.prepare(sql, ())
    for constants in CONSTANTS[:2]:
        planned(planner, written(SHARED[0], constants))
    assert prepared.template is None
    assert planned(planner, sql) == planned(world.planner(), sql)
    assert planner.prepare(sql, (), errors=True).template is None


def test_a_front_that_is_away_is_no_reason_for_another_plan(world: Shop) -> None:
    planner, sql = learnt(world, SHARED[0]), written(SHARED[0], CONSTANTS[2])
    planner.prepare(sql, ())
    planner._plans.clear()
    world.front.away = True
    try:
        with pytest.raises(Refusal, match="cannot be reached"):
            planner.plan(sql, (), ())
    finally:
        world.front.away = False
    assert planned(planner, sql)[1] == planned(world.planner(), sql)[1]


def test_a_template_that_is_forgotten_changes_no_plan(world: Shop) -> None:
    planner, sql = learnt(world, SHARED[2]), written(SHARED[2], CONSTANTS[2])
    assert planner.prepare(sql, ()).template is not None
    planner._templates.clear()
    planner._plans.clear()
    assert planned(planner, sql)[1] == planned(world.planner(), sql)[1]


@pytest.mark.parametrize("day", ["2024-02-30", "1/2/2024", "tomorrow", "2024-02-03 04:05:06"])
def test_a_constant_that_is_not_printed_plainly_is_read_by_postgresql(world: Shop, day: str) -> None:
    def told(planner: Planner) -> object:
        sql = written(SHARED[0], ("", day, ""))
        try:
            return planned(planner, sql)[1]
        except Refusal as refusal:
            return refusal.code, refusal.message, refusal.position

    assert told(learnt(world, SHARED[0])) == told(world.planner())


def test_templates_are_those_of_the_public_rows(world: Shop) -> None:
    planner = learnt(world, SHARED[0])
    planner.forget()
    before = world.front.reads
    planned(planner, written(SHARED[0], CONSTANTS[2]))
    assert world.front.reads > before


def test_an_explained_statement_has_the_same_plan(world: Shop) -> None:
    planner, sql = learnt(world, SHARED[1]), written(SHARED[1], CONSTANTS[2])
    (explained,) = planner.plan(f"EXPLAIN {sql}", (), ())
    assert planner.plan(sql, (), ()) == (explained,)
    assert planner.prepare(f"EXPLAIN {sql}", ()).explain == "TEXT"
