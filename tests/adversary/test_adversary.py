"""The short walk of the adversary, and some of the mistakes that it must notice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.adversary.__main__ import walked
from tests.adversary.deployment import Pair, pair
from tests.adversary.mutants import MUTANTS, Mutant, anybodys_stream, cap_of_rows, without_a_guard
from tests.adversary.walk import STREAM, Tally, Walk
from tests.oracle.world import Server

pytestmark = [pytest.mark.service, pytest.mark.statistical]

STEPS = 10
SOON = [
    mutant
    for mutant in MUTANTS
    if mutant.name
    in (
        "the charge forgotten after a reload",
        "a role's cursor read by another",
        "a rung charged once too few",
    )
]
"""Those that take few steps."""


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    folder: Path = tmp_path_factory.mktemp("adversary")
    server = Server(folder / "server", ledgers=True)
    try:
        with pair(server, folder) as made:
            yield made
    finally:
        server.close()


def test_an_adversary_learns_no_more_than_is_charged(both: Pair) -> None:
    tally = Tally()
    walked("1", both, tally, STEPS)
    assert not tally.findings, tally.findings[0]
    assert tally.answered > STEPS // 2
    assert tally.tight > 0.9


@pytest.mark.parametrize("mutant", SOON, ids=lambda mutant: mutant.name)
def test_a_mistake_of_the_accounting_is_found(mutant: Mutant, both: Pair) -> None:
    tally = Tally()
    walked("2", both, tally, STEPS, mutant)
    assert tally.findings


FIRST, SECOND, THIRD, FOURTH = (
    STREAM.replace(" GROUP", f" WHERE room <> 'room {n}' GROUP") for n in range(1, 5)
)
ANN, BOB, EVE = range(3)


def asked(seed: str, made: Pair, *questions: tuple[int, str] | None) -> list[str]:
    """What is wrong after sessions have asked; None: the epoch ends."""
    walk = Walk(seed, made, Tally())
    try:
        for one in questions:
            if one is None:
                walk._tomorrow()
            else:
                said = walk._ask(one[0], [one[1]])
                assert (said.rows, said.error) == ([], "")
    finally:
        walk.close()
    return [finding.what for finding in walk.tally.findings]


def test_streams_without_rows_are_told_apart(both: Pair) -> None:
    """Their answers have the same bytes: one that was paid for does not pass for one that was not, nor hide it."""
    assert not asked("3", both, (BOB, FIRST), (EVE, SECOND), (ANN, FIRST), None, (ANN, FIRST))
    with anybodys_stream():
        found = asked("4", both, (BOB, THIRD), (EVE, FOURTH), (EVE, THIRD))
    assert any("analyst:eve knows what costs" in what for what in found), found


@pytest.mark.parametrize(
    ("active", "asks"),
    [
        (without_a_guard, "SELECT COUNT(*) FROM orders WHERE pieces * 2000000 > 5"),
        (
            cap_of_rows,
            "SELECT town, COUNT(DISTINCT person_id) FROM orders WHERE person_id > -2 GROUP BY town",
        ),
    ],
)
def test_a_failure_that_one_unit_decides_is_found(
    active: Callable[[], AbstractContextManager[object]], asks: str, both: Pair
) -> None:
    tally = Tally()
    with active():
        walk = Walk("5", both, tally)
        try:
            walk._ask(ANN, [asks])
        finally:
            walk.close()
    assert tally.failed == {"one": 1}
    assert "the backend raised with" in [finding.what for finding in tally.findings]
