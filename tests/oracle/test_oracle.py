"""The short run of the oracle, and what it must notice."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from dpproxy.engine.planner import BoundNode
from rewriter.binder.contribution_bounds import Bound
from tests.oracle.ask import planned
from tests.oracle.check import Outcome, check
from tests.oracle.derivation import Weights, mutated
from tests.oracle.explore import Explorer
from tests.oracle.generator import KINDS, Generator
from tests.oracle.operators import SEEDS, TABLE, listed
from tests.oracle.pairs import Pair, pairs
from tests.oracle.run import Tally, run, tried
from tests.oracle.statement import Statements
from tests.oracle.world import Engine, Found, Server, World, duckdb_world, postgres_world
from tests.stability.engine import BackendRaised

pytestmark = pytest.mark.service

STATEMENTS = 15
"""Of each engine."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    started = Server(tmp_path_factory.mktemp("oracle"))
    yield started
    started.close()


@pytest.fixture(scope="module")
def world(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A data set in DuckDB whose units are numbers."""
    with duckdb_world(server, tmp_path_factory.mktemp("data"), "plain-duckdb-0") as made:
        assert all(isinstance(u, int) for unit in made.removed for u in unit)
        yield made


def test_a_unit_does_what_its_price_assumes_and_nothing_to_others(server: Server, tmp_path: Path) -> None:
    tally = Tally()
    for engine in ("duckdb", "postgresql"):

        def going(found: Tally, engine: str = engine) -> bool:
            return found.row(engine).statements < STATEMENTS

        tally.add(run("ci", [engine], going, server, tmp_path, data_sets=1))
    assert not tally.violations, "\n".join(f"{v.world}: {v.broken[0][0]}\n{v.sql}" for v in tally.violations)
    assert not tally.crashes
    assert all(row.accepted > STATEMENTS // 2 for row in tally.rows.values())
    counting = sum(row.counting for row in tally.rows.values())
    assert counting > STATEMENTS // 6
    assert sum(row.half for row in tally.rows.values()) > counting // 2


COMPOSITE = 4
"""Of each engine, about units that two columns name."""


def test_a_unit_of_two_columns_does_what_its_price_assumes(server: Server, tmp_path: Path) -> None:
    for engine in ("duckdb", "postgresql"):

        def going(found: Tally, engine: str = engine) -> bool:
            return found.row(engine).statements < COMPOSITE

        tally = run("composite", [engine], going, server, tmp_path, data_sets=1)
        assert not tally.violations, "\n".join(
            f"{v.world}: {v.broken[0][0]}\n{v.sql}" for v in tally.violations
        )
        assert not tally.crashes
        row = tally.row(engine)
        assert row.accepted >= COMPOSITE // 2


def test_a_statement_has_the_relation_that_it_is_asked_for(world: World) -> None:
    for kind in KINDS:
        for number in range(5):
            sql, kinds = Generator(Random(f"{kind} {number}"), world.columns).statement(kind)
            assert (sql, kinds) == Generator(Random(f"{kind} {number}"), world.columns).statement(kind)
            assert kind in kinds or kind in ("table", "semi join"), sql


def test_every_accepted_pair_of_operators_is_reached(world: World) -> None:
    reached = set[Pair]()
    for sql in SEEDS.read_text().splitlines():
        planned(sql, world)
        reached |= pairs(sql)
    for pair, (accepted, codes) in listed(TABLE.read_text()).items():
        assert pair in reached if accepted else codes, pair


def test_a_derivation_is_repeated_by_its_seed_and_along_a_guide(world: World) -> None:
    statements = Statements(world.columns, Weights())
    for number in range(30):
        sql, tree = statements.statement(Random(number))
        assert statements.statement(Random(number)) == (sql, tree)
        assert statements.statement(Random(-1), tree) == (sql, tree)
        made = mutated(tree, [tree], Random(number))
        assert statements.statement(Random(number), made)[0].startswith(("SELECT", "WITH"))


def test_a_violation_is_reported_by_a_small_statement(world: World) -> None:
    broken = capped(replace(world, engine=Mutated(world.engine, r"LEAST\(COUNT\(\*\), 1\)", "COUNT(*)")))
    sql = (
        "SELECT v.place % 5, COUNT(*), COUNT(DISTINCT v.person) FROM visits v "
        "WHERE v.visit > 0 AND v.place IS NOT NULL GROUP BY 1"
    )
    tally = Tally()
    assert not tried(sql, broken, tally, 0, Explorer(""))
    (violation,) = tally.violations
    assert violation.broken
    assert len(violation.sql) < len(sql) / 1.5


def checked(node: BoundNode, world: World) -> Outcome:
    return check(node, world, Random(1))


class Mutated:
    """An engine that runs another query than the one it is sent."""

    def __init__(self, engine: Engine, right: str, wrong: str) -> None:
        self.name, self.dialect = f"mutated {right} {wrong}", engine.dialect
        self._engine, self._right, self._wrong = engine, re.compile(right), wrong
        self.times = 0

    def run(self, database: str, sql: str, values: Sequence[object]) -> tuple[list[str], Found]:
        written, times = self._right.subn(self._wrong, sql)
        self.times += times
        return self._engine.run(database, written, values)


MOODS = "SELECT place % 5, COUNT(*), SUM(LEAST(GREATEST(visit, 1), 9)) FROM visits GROUP BY place % 5"


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        (r"q\._n <= 2", "q._n <= 20"),
        (r"LEAST\(COUNT\(\*\), 1\)", "COUNT(*)"),
        (r"_k0 <= 1\b", "_k0 <= 10"),
        (r'"_o" AS "_o"', '1 AS "_o"'),
        (r"PARTITION BY _o$", "PARTITION BY 1"),
        (r'"t0"\."visit"', "(COUNT(*) OVER () % 9)"),
        (r"CAST\(SUM\(v0\)", "CAST(SUM(v0) * COUNT(*)"),
    ],
)
def test_a_query_that_bounds_less_or_mixes_units_is_noticed(world: World, right: str, wrong: str) -> None:
    noticed(MOODS, capped(world), right, wrong)


def capped(world: World) -> World:
    """The same data under declared caps of rows."""
    return replace(world, policy=replace(world.policy, unit_clips=False))


def noticed(sql: str, world: World, right: str, wrong: str) -> None:
    """The queries of a statement bound a unit, and no more when `right` in them is `wrong`."""
    (node,) = planned(sql, world)
    assert checked(node, world).exceeds
    assert not checked(node, world).broken
    mutated = Mutated(world.engine, f"(?m){right}", wrong)
    assert checked(node, replace(world, engine=mutated)).broken
    assert mutated.times


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        (r"n\.q1 <= \d+", "TRUE"),
        (r"CAST\(FLOOR\(\s+ABS\(CAST\(u", "CAST(2 * FLOOR(ABS(CAST(u"),
        (r"SUM\(CAST\(v1", "MAX(CAST(v1"),
        (r"(SUM\(CAST\(v0 AS INT128\) \* CAST\(v0 AS INT128\)\))", r"SUM(\1) OVER ()"),
        (r"ON u\._o = n\._o", "ON u._o >= n._o"),
        (r"(SUM\([^()]*CASE\s+WHEN n\.q0)", r"COUNT(*) * \1"),
    ],
)
def test_a_clipped_query_that_bounds_less_or_mixes_units_is_noticed(
    world: World, right: str, wrong: str
) -> None:
    noticed(MOODS, world, right, wrong)


def test_a_label_that_others_rows_decide_is_noticed(world: World) -> None:
    (node,) = planned("SELECT trade, COUNT(*) FROM people GROUP BY trade", world)
    assert not checked(node, world).broken
    mutated = Mutated(
        world.engine, r"(?m)^  g0,$", "  (SELECT CAST(COUNT(*) AS VARCHAR) FROM r) || g0 AS g0,"
    )
    assert checked(node, replace(world, engine=mutated)).broken


@pytest.mark.parametrize(
    ("sql", "rank"),
    [
        (
            "SELECT PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY LEAST(GREATEST(visit, 1), 900)) FROM visits",
            "_k",
        ),
        ("SELECT COUNT(DISTINCT visit) FROM visits", "_k"),
        ("SELECT place, COUNT(DISTINCT visit) FROM visits GROUP BY place", "_d"),
        ("SELECT DISTINCT mood FROM visits", "n"),
        (
            "SELECT v.kind, date_trunc('week', v.seen), SUM(COUNT(*)) OVER (PARTITION BY v.kind"
            " ORDER BY date_trunc('week', v.seen)) FROM visits v GROUP BY 1, 2",
            "_k",
        ),
    ],
)
def test_ranks_of_all_measures_are_checked(sql: str, rank: str, world: World) -> None:
    world = capped(world)
    (node,) = planned(sql, world)
    outcome = checked(node, world)
    assert outcome.exceeds
    assert outcome.half
    assert not outcome.broken
    mutated = Mutated(world.engine, rf"\b{rank} <= \d+", f"{rank} <= 100")
    assert checked(node, replace(world, engine=mutated)).broken


def test_a_row_that_makes_the_backend_raise_is_noticed(world: World) -> None:
    """A guard that is left out: visit 1 alone is beyond the largest number."""
    (node,) = planned(
        "SELECT COUNT(*) FROM visits WHERE (3 - LEAST(visit, 3)) * 5000000000000000000 > 7", world
    )
    assert not checked(node, world).broken
    outcome = checked(node, replace(world, engine=Mutated(world.engine, r"\bTRY\(", "(")))
    assert outcome.failed == "some"
    assert "OutOfRange" in outcome.broken[0][0]
    outcome = checked(node, replace(world, engine=Mutated(world.engine, r"\bTRY\(", "error(")))
    assert (outcome.failed, bool(outcome.broken)) == ("all", True), (
        "what fails for nobody's rows is wrong, too"
    )


class Capped:
    """An engine that refuses a query with more rows than it takes; `found`: the most that came."""

    def __init__(self, engine: Engine, most: int) -> None:
        self.name, self.dialect = f"capped {most}", engine.dialect
        self._engine, self._most = engine, most
        self.found = 0

    def run(self, database: str, sql: str, values: Sequence[object]) -> tuple[list[str], Found]:
        columns, rows = self._engine.run(database, sql, values)
        if "SELECT * FROM" not in sql:  # no part of a query
            self.found = max(self.found, len(rows))
            if len(rows) > self._most:
                raise BackendRaised("more rows than are taken")
        return columns, rows


def test_a_cap_that_a_unit_decides_is_noticed(world: World) -> None:
    """All rows of the whole database but one."""
    (node,) = planned("SELECT COUNT(DISTINCT visit) FROM visits", world)
    every = Capped(world.engine, 10**9)
    assert not checked(node, replace(world, engine=every)).broken
    outcome = checked(node, replace(world, engine=Capped(world.engine, every.found - 1)))
    assert outcome.failed == "some"
    assert outcome.broken


def test_a_bound_that_is_too_small_is_kept_by_the_sql_and_noticed_without(world: World) -> None:
    (node,) = planned("SELECT kind, place, COUNT(*) FROM visits GROUP BY kind, place", world)
    assert not checked(node, world).broken
    lie = replace(node, aggregate=replace(node.aggregate, bound=Bound(1, False)))
    assert ["was inferred" in what for what, _ in checked(lie, world).broken] == [True]
    apart = Mutated(world.engine, r"MIN\((g\d)\) AS \1", r"\1")
    apart = Mutated(apart, r"(FROM r\s+GROUP BY\s+_o)\b", r"\1, g0, g1")
    assert checked(lie, replace(world, engine=apart)).broken
    assert apart.times


def test_a_unit_in_text_that_the_engine_folds_is_removed_whole(server: Server, tmp_path: Path) -> None:
    if "citext" not in server.collated:
        pytest.skip("this PostgreSQL has no citext")
    for number in range(40):
        with postgres_world(server, tmp_path, f"folded-postgresql-{number}") as made:
            if any(len(unit) > 1 for unit in made.removed):
                return
    raise AssertionError("no data set has units that the engine folds")
