"""Two databases that differ in one person's rows, and a proxy over each of them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb

from dpproxy.backends.base import Backend
from dpproxy.config.sections import Privacy
from dpproxy.deployment.service import BoundConfig, Service, configured
from dpproxy.engine.planner import BoundNode, Planner

CROWD = 40
POLICY = """
[backend]
url = "duckdb:///data.duckdb"
memory = "200MB"
[privacy]
epsilon_per = 0.25
[budget]
mode = "track"
[tables.people]
privacy_unit = "person_id"
unique = ["person_id"]
[tables.people.columns]
town = { domain = ["Ulm", "Bonn", "Jena"] }
[tables.visits]
privacy_unit = "person_id"
max_rows_per_unit = 3
max_groups_per_unit = { "room" = 2 }
[tables.visits.columns]
seconds = { bounds = [0, 60], scale = 0 }
day = { range = ["2024-01-01", "2024-01-03"] }
[tables.hobbies]
privacy_unit = "person_id"
[tables.hobbies.columns]
hobby = {}
kind = { domain = ["a", "b", "c", "d", "e", "f", "g", "h"] }
"""
DATA = f"""
CREATE TABLE people (person_id INTEGER PRIMARY KEY, town VARCHAR NOT NULL);
INSERT INTO people SELECT i, ['Ulm', 'Bonn', 'Jena'][1 + i % 3] FROM range(1, {CROWD + 1}) r(i);
CREATE TABLE visits (person_id INTEGER NOT NULL, room INTEGER NOT NULL, seconds INTEGER NOT NULL, day DATE NOT NULL);
INSERT INTO visits SELECT i, i % 4, 30, DATE '2024-01-01' + CAST(i % 3 AS INTEGER) FROM range(1, 17) r(i);
CREATE TABLE hobbies (person_id INTEGER NOT NULL, hobby VARCHAR NOT NULL, kind VARCHAR NOT NULL);
INSERT INTO hobbies SELECT i, 'hobby ' || j, ['a', 'b', 'c'][1 + j] FROM range(1, {CROWD + 1}) r(i), range(3) s(j)
    WHERE i > 2 * j;
"""
PERSON = """
INSERT INTO people VALUES (0, 'Ulm');
INSERT INTO visits SELECT 0, j, 1000000, DATE '2024-01-01' + CAST(j % 3 AS INTEGER) FROM range(300) s(j), range(4);
INSERT INTO hobbies SELECT 0, 'hobby ' || j, ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'][1 + j] FROM range(8) s(j);
"""
"""One person at and beyond every bound: more rows, groups and seconds than the policy declares."""
SHARED = {"0", "1", "2", "3", "hobby 0", "hobby 1", "hobby 2"}
"""Rooms and hobbies that others have as well."""
LOOSE = {
    "epsilon_per": Fraction(2),
    "delta_per": Fraction(1, 10),
    "d_bar": 320,
    "query_information": Fraction(1),
    "query_calls": Fraction(1),
    "max_items_per_unit": 3,
    "quantile_bins": 8,
}
"""Parameters at which few samples tell much."""


@dataclass(frozen=True)
class World:
    """Without the person and with them: the proxies (of both or of the first), and backends for draws that go around
    front and ledger."""

    services: tuple[Service, ...]
    backends: tuple[Backend, Backend]
    planner: Planner
    clipping: Planner
    privacy: Privacy

    def node(self, sql: str, clips: bool) -> BoundNode:
        """The one node of a statement without constants: the same for both sides, whose policies are one."""
        planner = self.clipping if clips else self.planner
        planner.prepare(sql, ())
        (node,) = planner.plan(sql, (), ())
        assert isinstance(node, BoundNode)
        return node

    def ask(self, side: int, sql: str) -> tuple[tuple[str | None, ...], ...]:
        """The rows of a statement on the whole way, front, ledger and stored keys included."""
        return tuple(asyncio.run(self.services[side].ask("analyst", sql)).rows)


@contextmanager
def world(*, whole: bool) -> Iterator[World]:
    """Makes the databases and starts the proxies: of both sides if `whole`, else of the first, for its front."""
    with TemporaryDirectory() as name, ExitStack() as stack:
        files = [_deployed(Path(name) / str(side), rows) for side, rows in enumerate((DATA, DATA + PERSON))]
        proxies = files if whole else files[:1]
        services = [stack.enter_context(Service.start(configured(f), alone=True)) for f in proxies]
        backends = [BoundConfig.open(configured(f)).backend for f in files]
        for backend in backends:
            stack.callback(backend.close)
        first = services[0]
        planner, clipping = (
            Planner(
                replace(first.checked.policy, unit_clips=clips), first.front, first.checked.backend.dialect
            )
            for clips in (False, True)
        )
        privacy = first.config.privacy.model_copy(update=LOOSE)
        yield World(tuple(services), (backends[0], backends[1]), planner, clipping, privacy)


def _deployed(folder: Path, rows: str) -> Path:
    folder.mkdir()
    with duckdb.connect(folder / "data.duckdb") as connection:
        connection.execute(rows)
    file = folder / "dpproxy.toml"
    file.write_text(POLICY)
    return file
