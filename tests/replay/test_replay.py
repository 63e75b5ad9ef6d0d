"""The short run of record and replay, and what it must notice."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.oracle.world import Server
from tests.replay.mutants import MUTANTS, TERMS
from tests.replay.recorder import Recorder
from tests.replay.replay import Tally, replayed
from tests.replay.run import of_corpora, of_generator, of_world
from tests.replay.world import WITH, WITHOUT, World, audited, world, world_of

pytestmark = pytest.mark.statistical

SHORT = 12
"""Statements of the short run."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    started = Server(tmp_path_factory.mktemp("server"), ledgers=True)
    yield started
    started.close()


@pytest.fixture(scope="module")
def people(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world("audited-duckdb-0", audited(), TERMS, server, tmp_path_factory.mktemp("data")) as made:
        yield made


def short(tally: Tally) -> bool:
    return tally.statements < SHORT


def test_nothing_but_paid_draws_tells_a_unit_in_generated_statements(server: Server, tmp_path: Path) -> None:
    tally = Tally()
    with world_of("data-0-duckdb-3", server, tmp_path) as made:
        of_world(made, of_generator(made), tally, short, time.monotonic())
    assert not tally.findings
    assert tally.answered > SHORT // 2
    assert tally.replays >= tally.statements
    assert max(row.tight for row in tally.rows.values()) > 0.9


def test_nothing_but_paid_draws_tells_a_unit_in_the_corpora(
    server: Server, shared: Path, tmp_path: Path
) -> None:
    tally = Tally()
    with world_of("corpora-0-postgresql-1", server, tmp_path, shared) as made:
        of_world(made, of_corpora(made, shared), tally, short, time.monotonic())
    assert not tally.findings
    assert tally.answered > SHORT // 4


def found(people: World, recorder: Recorder, number: int, sql: str) -> list[str]:
    return replayed(people, (WITHOUT, WITH), f"analyst {number}", sql, {}, recorder, Tally())


def test_what_the_mutants_are_asked_is_right(people: World) -> None:
    asked = {mutant.sql: mutant for mutant in MUTANTS}.values()
    with Recorder().active() as recorder:
        for number, mutant in enumerate(asked, 1000):
            assert not found(people, recorder, number, mutant.asked(number)), mutant.sql


@pytest.mark.parametrize("number", range(len(MUTANTS)), ids=lambda n: MUTANTS[n].name)
def test_a_mutant_is_found(number: int, people: World) -> None:
    with MUTANTS[number].active(), Recorder().active() as recorder:
        assert found(people, recorder, number, MUTANTS[number].asked(number))


@pytest.mark.parametrize("name", ["a guard that is left out", "a cap on rows that one unit decides"])
def test_a_failure_that_one_unit_decides_is_counted(name: str, people: World) -> None:
    (mutant,) = (one for one in MUTANTS if one.name == name)
    tally = Tally()
    with mutant.active(), Recorder().active() as recorder:
        wrong = replayed(people, (WITHOUT, WITH), name, mutant.asked(2000), {}, recorder, tally)
    assert tally.failed == {"some": 1}
    assert wrong[0] == "the backend raised with, of without, with"
