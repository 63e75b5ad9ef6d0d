"""Some histories find nothing, the same seed is the same history, and the mistakes of `mutants.py` are found."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from time import process_time

import pytest

from tests.simulator.__main__ import run
from tests.simulator.compare import compare, postgresql
from tests.simulator.mutants import mutated
from tests.simulator.parts import Parts, parts
from tests.simulator.world import Reached

pytestmark = pytest.mark.service

SECONDS = 3.0
SOON = (
    "charged after the answer has left",
    "no wait for the mark",
    "the mark is not flushed",
    "the same noise at every attempt",
    "a crash gives back what was drawn",
    "no commit waits for the disk",
    "shared accounts pay nothing",
    "a stored answer is free for all",
    "a failure is not noted",
)
"""Mutants that are found within a second; the others by `make simulate-mutants`."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Parts]:
    with parts(tmp_path_factory.mktemp("simulator")) as started:
        yield started


def test_histories_find_nothing(made: Parts) -> None:
    """Always the same seeds, so that the suite fails for what was changed; `make simulate` has others."""
    first, begun, seed = 2000, process_time(), 0
    while process_time() - begun < SECONDS:
        said, _ = run(made, first + seed, Reached())
        assert said is None, f"{said}: python -m tests.simulator --seed {first + seed}"
        seed += 1


def test_a_seed_is_a_history(made: Parts) -> None:
    traces = [run(made, seed, Reached())[1].world.trace for seed in (3, 4, 3)]
    assert traces[0] == traces[2] != traces[1]


@pytest.mark.parametrize("name", SOON)
def test_mistakes_are_found(made: Parts, name: str) -> None:
    with mutated(name):
        assert any(run(made, seed, Reached())[0] for seed in range(20))


def test_the_ledger_is_as_postgresqls(tmp_path: Path) -> None:
    with postgresql(tmp_path) as other:
        assert sum(compare(seed, other) for seed in range(6)) > 60
