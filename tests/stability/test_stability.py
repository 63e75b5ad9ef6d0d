"""The short run of the stability harness: some units, on both engines, and what the harness must notice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from dpproxy.embedded.server import Embedded
from rewriter.binder.contribution_bounds import Bound
from rewriter.ir.measure import Count
from tests.rewriter.grammar_whole import Whole
from tests.stability.compare import violations
from tests.stability.corpora import accepted
from tests.stability.generated import Outcome, generated, nodes
from tests.stability.harness import check
from tests.stability.question import Question, questions
from tests.stability.world import World, corpora_world, shop_world

pytestmark = pytest.mark.statistical


STATEMENTS, UNITS = 200, 2


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedded]:
    started = Embedded.start(tmp_path_factory.mktemp("server"), durable=False)
    yield started
    started.stop()


@pytest.fixture(scope="module")
def shop(server: Embedded) -> Iterator[World]:
    with shop_world(server, 30) as world:
        yield world


def test_no_unit_moves_more_than_its_bound_in_the_corpora(
    server: Embedded, shared: Path, tmp_path: Path
) -> None:
    corpora = shared / "corpora"
    with corpora_world(server, corpora, tmp_path, users=400) as world:
        asked = list(accepted(world, corpora))
        tally = check(world, asked, world.some(UNITS, 1))
    assert not tally.violations
    assert tally.questions > 100
    assert tally.comparisons == tally.questions * UNITS * len(world.engines)


def test_no_generated_statement_crashes_or_breaks_a_bound(shop: World) -> None:
    outcome = generated(shop, STATEMENTS, UNITS, seed=20261121)
    assert not outcome.tally.violations
    assert outcome.answered > STATEMENTS // 15


@seed(4)
@settings(
    max_examples=60, deadline=None, database=None, suppress_health_check=list(HealthCheck), print_blob=False
)
@given(rng=st.randoms(use_true_random=False))
def test_no_statement_that_hypothesis_shapes_breaks_a_bound(shop: World, rng: Random) -> None:
    whole, outcome = Whole(rng), Outcome()
    asked = list(nodes(whole.statement(), whole.parameters, shop, outcome))
    outcome.tally.add(check(shop, asked, shop.units[:1], agree=False))
    assert not outcome.tally.violations


def only(sql: str, world: World) -> Question:
    (question,) = questions(sql, world.policy, world.postgres)
    return question


def test_the_harness_notices_bounds_that_are_too_small(shop: World) -> None:
    groups = only("SELECT device, COUNT(*) FROM events GROUP BY device", shop)
    rows = only("SELECT COUNT(*) FROM events", shop)
    (measure,) = rows.node.measures
    assert isinstance(measure, Count)
    lies = (
        (groups, replace(groups.node, bound=Bound(2, True))),
        (rows, replace(rows.node, measures=(replace(measure, tau=measure.tau // 5),))),
    )
    for question, lie in lies:
        whole = question.histogram(shop.duckdb)
        with shop.duckdb.without(shop.units[0]):
            fewer = question.histogram(shop.duckdb)
        with shop.duckdb.alone(shop.units[0]):
            alone = question.histogram(shop.duckdb)
        assert not list(violations(question, whole, fewer, alone))
        assert list(violations(replace(question, node=lie), whole, fewer, alone))
        assert list(violations(question, whole, fewer, {})), "cells that others own"


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT SUM(LEAST(GREATEST(quantity, 1), 9)) FROM events WHERE user_id = 7",
        "SELECT VAR_SAMP(LEAST(GREATEST(birth_year, 1950), 2000)) FROM users WHERE user_id = 7",
    ],
)
def test_a_sum_of_no_rows_is_nothing(sql: str, shop: World) -> None:
    question = only(sql, shop)
    for engine in shop.engines:
        with engine.without(7):
            assert set(question.histogram(engine).values()) == {(0,) * len(question.counted.measures)}
    assert not check(shop, [question], [7]).violations
