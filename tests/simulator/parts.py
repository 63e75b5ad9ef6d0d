"""What all histories share, made once: the policy, plans, and the backend's rows by query, from real parts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb

from budget.account import Pinned
from dpproxy.backends.base import NOBODYS, Backend, BackendError, Cancellation, Cancelled, Fetched, Turn
from dpproxy.catalog.build_policy import build_policy, open_backend
from dpproxy.config.key_file import Keys
from dpproxy.config.sections import Config
from dpproxy.deployment.service import configured
from dpproxy.engine.planner import Planner
from dpproxy.front.front import Front
from rewriter.plan import HistogramQuery
from tests.dpproxy.serving import POLICY, make
from tests.simulator.world import World

BUDGET = """
[budget]
information = 14
calls = 4
period = "day"
[budget.teams.a]
members = ["ann", "bob"]
information = 20
calls = 5
period = "week"
[budget.dataset]
information = 34
calls = 9
period = "month"
[privacy]
epoch = "day"
"""
PINNED = Pinned(Fraction("0.15"), Fraction("1e-10"), Fraction("1e-9"), "person_id")
ANALYSTS = ("ann", "bob", "cat")
SERVICE = "tool"
"""A login that acts for them."""
SLOTS = 2
STATEMENTS: tuple[tuple[str, dict[str, str]], ...] = (
    ("SELECT town, COUNT(*) AS n FROM people GROUP BY town", {}),
    ("SELECT COUNT(*) FROM people", {}),
    ("SELECT COUNT(*) FROM people WHERE town = 'Ulm'", {"dpproxy.reuse": "always"}),
    ("SELECT SUM(seconds), COUNT(*) FROM visits", {}),
    ("SELECT AVG(seconds) FROM visits", {"dpproxy.reuse": "on"}),
    ("SELECT SUM(seconds) FROM visits", {"dpproxy.error": "20%"}),
    ("SELECT COUNT(*) FROM visits", {"dpproxy.max_cost": "3"}),
    ("SELECT room, COUNT(*) FROM visits GROUP BY room ORDER BY 2 DESC LIMIT 2", {}),
    ("SELECT town, COUNT(*) FROM people GROUP BY ROLLUP (town)", {"dpproxy.reuse": "on"}),
    ("SELECT COUNT(*) FROM people WHERE person_id > (SELECT AVG(seconds) FROM visits)", {}),
    ("SELECT COUNT(*), (SELECT COUNT(*) FROM visits) FROM people", {"dpproxy.price_first": "1"}),
    ("SELECT unit, used FROM dpproxy.budget", {}),
)


class _Kept:
    """A front that is asked everything once."""

    def __init__(self, front: Front) -> None:
        self._front, self._known = front, dict[Any, Any]()

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._front, name)

        def ask(*values: Any, **named: Any) -> Any:
            key = name, repr(values), repr(named)
            if key not in self._known:
                self._known[key] = method(*values, **named)
            return self._known[key]

        return ask


class _Lasting(Planner):
    """A planner whose prepared statements outlive epochs and histories, as public rows stay as they are."""

    def forget(self) -> None:
        """Forgets prices and keys, which are made with the nonces of a history's ledger."""
        self._plans.clear()


@dataclass
class Parts:
    """The parts. `versions`: the backend's data before and after its owner has changed them."""

    config: Config
    planner: Planner
    versions: tuple[Backend, Backend]
    keys: Keys = field(default_factory=lambda: Keys(bytes(range(32))))
    fetched: dict[Any, Fetched] = field(default_factory=dict)

    def fetch(self, version: int, query: HistogramQuery, rank: str, max_rows: int) -> Fetched:
        """The rows of a query, asked once of each version."""
        key = version, query.sql, tuple(map(tuple, query.arrays)), rank
        if key not in self.fetched:
            with self.versions[version].open() as slot:
                self.fetched[key] = slot.fetch(query, rank, Cancellation(), max_rows)
        return self.fetched[key]


@contextmanager
def parts(folder: Path) -> Iterator[Parts]:
    """Starts the parts."""
    with ExitStack() as stack:
        versions = []
        for number in range(2):
            (folder / str(number)).mkdir()
            file = make(folder / str(number), POLICY + BUDGET)
            with duckdb.connect(file.parent / "people.duckdb") as connection:
                connection.execute(f"DELETE FROM people WHERE person_id < {50 * number}")
                connection.execute(f"DELETE FROM visits WHERE person_id < {50 * number}")
            versions.append(open_backend(configured(file), slots=1))
            stack.callback(versions[-1].close)
        config, backend = configured(file), versions[0]
        schema = backend.schema()
        policy = build_policy(config, schema, backend)
        front = stack.enter_context(Front.start(folder / "front", sessions=4))
        front.clone(policy, schema)
        for table in policy.tables.values():
            if table.in_front:
                front.load_public(table, backend.read_public(table))
        kept: Any = _Kept(front)
        yield Parts(config, _Lasting(policy, kept, backend.dialect), (versions[0], versions[1]))


class SimulatedBackend:
    """The backend of a history: its rows come from the real one, its failures and its slots from the world."""

    def __init__(self, parts: Parts, one: World) -> None:
        self._parts, self._world = parts, one
        self.version, self._free = 0, SLOTS
        self.failing = 0.0
        self.dialect = parts.versions[0].dialect

    def open(self, turn: Turn = NOBODYS) -> _Slot:
        """Takes a slot."""
        one = self._world
        one.pause("backend: a slot")
        one.wait(lambda: self._free > 0)
        self._free -= 1
        return _Slot(self)

    def fetch(self, query: HistogramQuery, rank: str, cancellation: Cancellation, max_rows: int) -> Fetched:
        """The rows as of a moment within."""
        one = self._world
        one.pause("backend: before the query")
        rows = self._parts.fetch(self.version, query, rank, max_rows)
        one.pause("backend: after the query")
        if cancellation.cancelled:
            raise Cancelled
        if one.random.random() < self.failing:
            raise BackendError(one.random.choice(("failed", "failed", "stopped")), "a message")
        return rows

    def give_back(self) -> None:
        """Gives a slot back."""
        self._free += 1


class _Slot:
    def __init__(self, backend: SimulatedBackend) -> None:
        self._backend = backend

    def __enter__(self) -> _Slot:
        return self

    def __exit__(self, *error: object) -> None:
        self._backend.give_back()

    def fetch(self, query: HistogramQuery, rank: str, cancellation: Cancellation, max_rows: int) -> Fetched:
        """As the backend."""
        return self._backend.fetch(query, rank, cancellation, max_rows)
