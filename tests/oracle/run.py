"""The oracle's loop: data sets by turns in each engine, statements of the kind that has been covered least."""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import psycopg

from rewriter.refusal import Refusal
from tests.oracle.ask import TooLarge, planned
from tests.oracle.check import check
from tests.oracle.composite import of_both
from tests.oracle.generator import KINDS, Generator
from tests.oracle.world import WORLDS, Server, TooSlow, World

AT_ONCE = 150
"""Statements asked of a data set."""
RARELY = 0.25
"""How often the kind of a statement is drawn, where otherwise the least covered one is next."""


@dataclass
class Row:
    """What was tried of one kind in one engine. `counting`: nodes in which a removed unit exceeds a bound before ranks
    and clips; `half`: those of them in which it moves half of what it may, or more."""

    statements: int = 0
    accepted: int = 0
    nodes: int = 0
    counting: int = 0
    half: int = 0
    violations: int = 0

    def add(self, other: Row) -> None:
        """Takes over what was tried elsewhere."""
        for name in vars(self):
            setattr(self, name, getattr(self, name) + getattr(other, name))


@dataclass(frozen=True)
class Violation:
    """A broken promise: where to find the statement again, what it is and what is wrong; found after `seconds`."""

    place: str
    sql: str
    broken: tuple[tuple[str, str], ...]
    seconds: float


@dataclass
class Tally:
    """How much was tried, by engine and kind; what became of the other statements, and what was found."""

    rows: dict[tuple[str, str], Row] = field(default_factory=dict)
    refused: Counter[str] = field(default_factory=Counter)
    crashes: dict[str, str] = field(default_factory=dict)
    violations: list[Violation] = field(default_factory=list)

    def row(self, engine: str, kind: str) -> Row:
        """The row of a kind in an engine; "all" is that of all kinds, each statement once."""
        return self.rows.setdefault((engine, kind), Row())

    def add(self, other: Tally) -> None:
        """Takes over what another process has found."""
        for (engine, kind), row in other.rows.items():
            self.row(engine, kind).add(row)
        self.refused += other.refused
        self.crashes = other.crashes | self.crashes
        self.violations += other.violations


@contextmanager
def server_of_its_own() -> Iterator[tuple[Server, Path]]:
    with tempfile.TemporaryDirectory() as folder:
        server = Server(Path(folder))
        try:
            yield server, Path(folder)
        finally:
            server.close()


def run(
    seed: str,
    engines: Sequence[str],
    going: Callable[[Tally], bool],
    server: Server,
    folder: Path,
    data_sets: int = 10**9,
) -> Tally:
    """Tries statements by `seed` on each engine in turn while `going` says so; `folder` is for files."""
    tally, started = Tally(), time.monotonic()
    for number in range(data_sets):
        name = f"{seed}-{engines[number % len(engines)]}-{number}"
        if not going(tally):
            break
        with world_of(name, server, folder) as world:
            _data_set(world, tally, going, started)
    return tally


@contextmanager
def world_of(name: str, server: Server, folder: Path) -> Iterator[World]:
    """The data set called `name`: the engine is the last part but one."""
    with WORLDS[name.split("-")[-2]](server, folder, name) as world:
        yield world


def again(place: str) -> Tally:
    """One statement again, by where a violation says that it is: data set, kind and number."""
    name, kind, number = place.split("/")
    tally = Tally()
    with server_of_its_own() as (server, folder), world_of(name, server, folder) as world:
        _statement(world, kind, int(number), tally, time.monotonic())
    return tally


def _data_set(world: World, tally: Tally, going: Callable[[Tally], bool], started: float) -> None:
    if not any(not t.public for t in world.policy.tables.values()):
        tally.refused["data set"] += 1
        return
    rng = Random(world.name)
    for number in range(AT_ONCE):
        if not going(tally):
            return
        least = min(KINDS, key=lambda kind: tally.row(world.engine.name, kind).counting)
        kind = rng.choice(KINDS) if rng.random() < RARELY else least
        _statement(world, kind, number, tally, started)


def _statement(world: World, kind: str, number: int, tally: Tally, started: float) -> None:
    place = f"{world.name}/{kind}/{number}"
    generator = Generator(Random(place), world.columns)
    sql, kinds = generator.statement(kind)
    sql = of_both(sql) if world.name.startswith("composite") else sql
    rows = [tally.row(world.engine.name, k) for k in (*sorted(kinds), "all")]
    for row in rows:
        row.statements += 1
    try:
        nodes = planned(sql, world)
    except Refusal as refusal:
        tally.refused[refusal.code] += 1
        return
    except (psycopg.errors.DataError, psycopg.errors.ProgrammingError):
        tally.refused["front"] += 1
        return
    except TooLarge:
        tally.refused["cells"] += 1
        return
    except Exception as error:
        tally.crashes.setdefault(f"{type(error).__name__}: {error}", f"{place}: {sql}")
        return
    for row in rows:
        row.accepted += 1
    broken: list[tuple[str, str]] = []
    for node in nodes:
        try:
            outcome = check(node, world, Random(place))
        except TooSlow:
            tally.refused["slow"] += 1
            continue
        broken += outcome.broken
        for row in rows:
            row.nodes += 1
            row.counting += outcome.exceeds
            row.half += outcome.exceeds and outcome.half
    if broken:
        tally.violations.append(Violation(place, sql, tuple(broken), time.monotonic() - started))
        for row in rows:
            row.violations += 1
