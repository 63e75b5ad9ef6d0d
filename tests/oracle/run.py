"""The oracle's loop: data sets by turns in each engine, statements by what became of those before."""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import psycopg

from dpproxy.engine.planner import BoundNode
from rewriter.refusal import Refusal
from tests.branches import Arc
from tests.oracle.ask import TooLarge, planned
from tests.oracle.check import check
from tests.oracle.composite import of_both
from tests.oracle.explore import Explorer, Reached
from tests.oracle.pairs import Pair
from tests.oracle.reduce import reduced
from tests.oracle.world import WORLDS, Server, World

AT_ONCE = 150
"""Statements asked of a data set."""


@dataclass
class Row:
    """What was tried in one engine. `counting`: nodes in which a removed unit exceeds a bound before ranks
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
    """A broken promise: the data set and the statement, as small as it could be made, and what is wrong; found after
    `seconds`."""

    world: str
    sql: str
    broken: tuple[tuple[str, str], ...]
    seconds: float


@dataclass
class Tally:
    """How much was tried, by engine; what became of the other statements, how far they went, and what was found.

    `failed`: nodes at which the backend raised, in some databases of a data set or in all, each a violation.
    """

    rows: dict[str, Row] = field(default_factory=dict)
    refused: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    crashes: dict[str, str] = field(default_factory=dict)
    violations: list[Violation] = field(default_factory=list)
    reached: dict[Pair, Reached] = field(default_factory=dict)
    branches: set[Arc] = field(default_factory=set)

    def row(self, engine: str) -> Row:
        """The row of an engine."""
        return self.rows.setdefault(engine, Row())

    def add(self, other: Tally) -> None:
        """Takes over what another process has found."""
        for engine, row in other.rows.items():
            self.row(engine).add(row)
        self.refused += other.refused
        self.failed += other.failed
        self.crashes = other.crashes | self.crashes
        self.violations += other.violations
        self.branches |= other.branches
        for pair, reached in other.reached.items():
            self.reached.setdefault(pair, Reached()).add(reached)


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
    tally, started, explorer = Tally(), time.monotonic(), Explorer(seed)
    for number in range(data_sets):
        name = f"{seed}-{engines[number % len(engines)]}-{number}"
        if not going(tally):
            break
        with world_of(name, server, folder) as world:
            if not any(not t.public for t in world.policy.tables.values()):
                tally.refused["data set"] += 1
                continue
            for _ in range(AT_ONCE):
                if not going(tally):
                    break
                sql, tree = explorer.statement(world.columns)
                explorer.learn(sql, tree, tried(sql, world, tally, started, explorer))
    tally.reached, tally.branches = explorer.reached, explorer.branches.seen
    return tally


@contextmanager
def world_of(name: str, server: Server, folder: Path) -> Iterator[World]:
    """The data set called `name`: the engine is the last part but one."""
    with WORLDS[name.split("-")[-2]](server, folder, name) as world:
        yield world


def again(name: str, sql: str) -> Tally:
    """One statement again, over the data set that a violation names."""
    tally = Tally()
    with server_of_its_own() as (server, folder), world_of(name, server, folder) as world:
        tried(sql, world, tally, time.monotonic(), Explorer(""))
    return tally


def tried(sql: str, world: World, tally: Tally, started: float, explorer: Explorer) -> str:
    """Plans and checks a statement; how it was refused, or nothing."""
    asked = of_both(sql) if world.name.startswith("composite") else sql
    row = tally.row(world.engine.name)
    row.statements += 1
    try:
        with explorer.watched():
            nodes = planned(asked, world)
    except Refusal as refusal:
        return _refused(tally, refusal.code)
    except (psycopg.errors.DataError, psycopg.errors.ProgrammingError):
        return _refused(tally, "front")
    except TooLarge:
        return _refused(tally, "cells")
    except Exception as error:
        what = type(error).__name__
        if f"{what}: {error}" not in tally.crashes:
            tally.crashes[f"{what}: {error}"] = f"{world.name}: {reduced(asked, _crashes(world, what))}"
        return "crash"
    row.accepted += 1
    try:
        broken = _broken(nodes, asked, world, row, tally)
    except Refusal as refusal:  # as its queries are written, which is before anything is paid
        return _refused(tally, refusal.code)
    if broken:
        small = reduced(asked, _breaks(world))
        with suppress(Refusal, psycopg.Error):
            broken = _broken(planned(small, world), small, world, Row(), Tally())
        tally.violations.append(Violation(world.name, small, tuple(broken), time.monotonic() - started))
        row.violations += 1
    return ""


def _refused(tally: Tally, code: str) -> str:
    tally.refused[code] += 1
    return code


def _broken(
    nodes: Sequence[BoundNode], sql: str, world: World, row: Row, tally: Tally
) -> list[tuple[str, str]]:
    """What is wrong with the queries of a statement's nodes."""
    broken: list[tuple[str, str]] = []
    for node in nodes:
        outcome = check(node, world, Random(sql))
        broken += outcome.broken
        if outcome.failed:
            tally.failed[outcome.failed] += 1
        if outcome.slow:
            tally.refused["slow"] += 1
            continue
        row.nodes += 1
        row.counting += outcome.exceeds
        row.half += outcome.exceeds and outcome.half
    return broken


def _breaks(world: World) -> Callable[[str], bool]:
    """Whether a statement breaks a promise."""

    def breaks(sql: str) -> bool:
        try:
            return bool(_broken(planned(sql, world), sql, world, Row(), Tally()))
        except (Refusal, psycopg.Error, TooLarge):
            return False

    return breaks


def _crashes(world: World, what: str) -> Callable[[str], bool]:
    """Whether a statement makes the rewriter raise an error of this type."""

    def crashes(sql: str) -> bool:
        try:
            planned(sql, world)
        except (Refusal, psycopg.Error, TooLarge):
            return False
        except Exception as error:
            return type(error).__name__ == what
        return False

    return crashes
