"""The loop of record and replay: data sets by turns in each engine, statements of the corpora and generated ones."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random

from tests.oracle.generator import KINDS, Generator
from tests.oracle.world import Server
from tests.replay.recorder import Recorder
from tests.replay.replay import Finding, Tally, replayed
from tests.replay.world import BEYOND, WITH, WITHOUT, World, world_of
from tests.stability.corpora import FILES, entries

AT_ONCE = 120
"""Statements asked of a data set."""
TOGETHER = 40
"""Statements of one analyst, who is not charged again for what other statements imply."""
ORDERS = ((WITHOUT, WITH, BEYOND), (WITHOUT, WITH, BEYOND), (WITH, WITHOUT), (BEYOND, WITHOUT))
"""Which side is recorded, and on which the others it is replayed: a unit is added, or removed."""
SETTINGS: tuple[dict[str, str], ...] = (
    *({},) * 6,
    {"dpproxy.units": "4"},
    {"dpproxy.units": "0.25"},
    {"dpproxy.error": "10%"},
    {"dpproxy.reuse": "off"},
    {"dpproxy.reuse": "always"},
)


def run(
    seed: str,
    engines: Sequence[str],
    going: Callable[[Tally], bool],
    server: Server,
    folder: Path,
    shared: Path | None,
    data_sets: int = 10**9,
) -> Tally:
    """Replays statements by `seed` on each engine in turn while `going` says so.

    Every third data set is the corpora's, where they are and their types are the engine's.
    """
    tally, started = Tally(), time.monotonic()
    for number in range(data_sets):
        if not going(tally):
            break
        engine = engines[number % len(engines)]
        from_corpora = shared is not None and engine != "spark" and (number + number // len(engines)) % 3 == 1
        source = "corpora" if from_corpora else "data"
        with world_of(f"{source}-{seed}-{engine}-{number}", server, folder, shared) as world:
            statements = of_corpora(world, shared) if shared and from_corpora else of_generator(world)
            of_world(world, statements, tally, going, started)
    return tally


def of_generator(world: World) -> Iterator[str]:
    """Statements of the oracle's generator."""
    for number in range(AT_ONCE):
        rng = Random(f"{world.name}/{number}")
        yield Generator(rng, world.columns).statement(rng.choice(KINDS))[0]


def of_corpora(world: World, shared: Path) -> Iterator[str]:
    """Statements of the corpora, attacks among them, in an order of their own."""
    found = [entry["sql"] for file in FILES for entry in entries(shared / "corpora" / file)]
    Random(world.name).shuffle(found)
    yield from found[:AT_ONCE]


def of_world(
    world: World, statements: Iterator[str], tally: Tally, going: Callable[[Tally], bool], started: float
) -> None:
    """Replays statements until one is found to be wrong: from then on the ledgers of the sides differ."""
    rng, recorder = Random(world.name), Recorder()
    order = rng.choice(ORDERS)
    with recorder.active():
        for number, sql in enumerate(statements):
            if not going(tally):
                return
            analyst = f"analyst {number // TOGETHER}"
            wrong = replayed(world, order, analyst, sql, rng.choice(SETTINGS), recorder, tally)
            place, seconds = f"{world.name}/{number}", time.monotonic() - started
            tally.findings += [Finding(place, sql, what, seconds) for what in wrong]
            if wrong:
                return
