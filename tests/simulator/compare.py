"""The simulated ledger beside PostgreSQL's: the same calls, and after each the same rows in all tables."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any
from uuid import UUID

import psycopg
from psycopg.rows import dict_row

from budget.account import (
    Charge,
    ContinualStep,
    Generation,
    LedgerError,
    Limit,
    ReplayNote,
    Reservation,
    ReserveRequest,
    Settlement,
)
from budget.ledger import Ledger
from budget.units import UNBOUNDED
from dpproxy.embedded.server import Embedded
from tests.budget.conftest import PINNED
from tests.simulator.history import limited
from tests.simulator.server import Server, Surroundings, served
from tests.simulator.tables import TABLES

BEGINS = datetime(2026, 1, 1, tzinfo=UTC)
PERSONS, SHARED = ("analyst:ann", "analyst:bob", "analyst:cat"), ("team:a", "dataset")
EPOCHS = ("e1", "e2")
UNTOLD = {"number", "position", "nonce", "session", "at"}
"""Columns that differ: numbers by what a rollback has taken, nonces, the sessions of PostgreSQL."""
STEPS = 14
FEW = {"failed": 1, "stopped": 2}
"""So many failures stop somebody here, so that short histories have it."""


class Still(Surroundings):
    """A world in which time passes when it is told."""

    def __init__(self, random: Random) -> None:
        self.time, self._random = BEGINS, random

    def now(self) -> datetime:
        """The clock."""
        return self.time

    def uuid(self) -> UUID:
        """A uuid by the seed."""
        return UUID(int=self._random.getrandbits(128))


class PostgreSQL:
    """A database with a clock that is set."""

    def __init__(self, server: Embedded) -> None:
        with psycopg.connect(server.conninfo(), autocommit=True) as connection:
            connection.execute("CREATE DATABASE compared")
            connection.execute("ALTER DATABASE compared SET search_path = faked, pg_catalog")
        self.conninfo = server.conninfo(dbname="compared")
        self._connection = psycopg.connect(self.conninfo, autocommit=True, row_factory=dict_row)
        self._connection.execute("SET timezone = 'UTC'")
        self._connection.execute("CREATE SCHEMA faked")
        self._connection.execute("CREATE TABLE faked.clock AS SELECT pg_catalog.clock_timestamp() AS now")
        self._connection.execute(
            "CREATE FUNCTION faked.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS"
            " 'SELECT now FROM faked.clock'"
        )
        self._connection.execute("GRANT USAGE ON SCHEMA faked TO PUBLIC")
        self._connection.execute("GRANT SELECT ON faked.clock TO PUBLIC")
        Ledger.open(self.conninfo, PINNED, instance="the first one").close()
        self._empty = (
            "; ".join(f"DELETE FROM dpproxy_ledger.{name}" for name in reversed(TABLES) if name != "account")
            + "; DELETE FROM dpproxy_ledger.account; INSERT INTO dpproxy_ledger.pinned VALUES ('ledger', 'simulated')"
        )

    def empty(self) -> None:
        """Removes every row."""
        self._connection.execute(self._empty.encode())

    def set(self, time: datetime) -> None:
        """Sets the clock."""
        self._connection.execute("UPDATE faked.clock SET now = %s", (time,))

    def tables(self) -> dict[str, list[dict[str, Any]]]:
        """All rows."""
        with self._connection.pipeline():
            cursors = {
                name: self._connection.execute(f"SELECT * FROM dpproxy_ledger.{name}".encode())
                for name in TABLES
            }
        return {name: cursor.fetchall() for name, cursor in cursors.items()}

    def close(self) -> None:
        """Closes the connection."""
        self._connection.close()


@contextmanager
def postgresql(folder: Path) -> Iterator[PostgreSQL]:
    """A PostgreSQL of its own."""
    with Embedded.start(folder / "compared", durable=True) as server:
        started = PostgreSQL(server)
        yield started
        started.close()


class Differs(AssertionError):
    """The two ledgers do not agree; says the seed and the step."""


Call = tuple[str, Callable[["Side"], object]]


class Side:
    """One of the two ledgers, in the hands of two processes."""

    def __init__(self, conninfo: str) -> None:
        self._conninfo = conninfo
        self.ledgers = [self._opened("first"), self._opened("second")]

    def _opened(self, instance: str) -> Ledger:
        return Ledger.open(self._conninfo, PINNED, instance=instance, connections=2)

    def reopen(self, number: int) -> int:
        """A process dies, and lives again."""
        self.ledgers[number].close()
        self.ledgers[number] = self._opened(("first", "second")[number])
        return number

    def close(self) -> None:
        """Closes the connections."""
        for ledger in self.ledgers:
            ledger.close()


class Chosen:
    """The calls of one history, by its seed."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._held: list[tuple[Reservation, Charge]] = []
        self._keys = [bytes([n]) * 32 for n in range(4)]
        self.ids: set[UUID] = set()
        """All that it has chosen."""

    def step(self) -> Call:
        """The next one."""
        random = self._random
        kinds: list[Callable[[], Call]] = [
            *[self._reserve] * 5,
            *[self._settle] * 6,
            *[self._resolve] * 3,
            *[self._read] * 3,
            *[self._owner] * 3,
            *[self._process] * 2,
        ]
        return random.choice(kinds)()

    def seeds(self) -> Iterator[Call]:
        """Makes accounts, the shared ones late at times."""
        for name in PERSONS:
            limit = self._limit()
            yield f"seed {name}", lambda side, n=name, w=limit: side.ledgers[0].accounts.seed(n, w)  # type: ignore[misc]
        if self._random.random() < 0.8:
            yield from map(self._shared, SHARED)

    def _shared(self, name: str) -> Call:
        limit, members = self._limit(), None if name == "dataset" else PERSONS[:2]
        which = self._random.randrange(2)
        return f"seed {name}", lambda side: side.ledgers[which].accounts.seed_shared(name, limit, members)

    def _limit(self) -> Limit:
        random = self._random
        information = random.choice((40, 100, 300))
        period = random.choice(("none", "day", "week", "month"))
        mode = "track" if random.random() < 0.1 else "enforce"
        return Limit(information, random.choice((3, 6, 30)), period, mode, random.choice((0, information)))  # type: ignore[arg-type]

    def _charge(self) -> Charge:
        random = self._random
        information, calls = random.randrange(1, 50), random.randrange(3)
        pure = (information + 1) // 2 + random.randrange(3)
        return Charge(information, calls, random.choice((pure, UNBOUNDED)))

    def _reserve(self) -> Call:
        random = self._random
        chain = [random.choice(PERSONS), *random.sample(SHARED, random.randrange(3))]
        charges = [self._charge() for _ in range(random.choice((1, 1, 2)))]
        if random.random() < 0.08:
            charges, looking = [Charge(0, 0)], True
        else:
            looking = random.random() < 0.2
        ids = [UUID(int=random.getrandbits(128)) for _ in charges]
        if self._held and random.random() < 0.08:
            ids[0] = random.choice(self._held)[0].id
        self.ids |= set(ids)
        generation = Generation("here", random.randrange(1, 3)) if random.random() < 0.2 else None
        request = ReserveRequest(
            chain,
            charges,
            random.random() < 0.8,
            [f"q{n}" for n in range(len(ids))],
            ["m"] * len(ids),
            ids,
            looking,
            random.choice(("", "tool")),
            generation,
            random.random() < 0.05,
            random.choice(("", "", *PERSONS)),
        )
        self._held += [(Reservation(id, chain[0], c), c) for id, c in zip(ids, charges, strict=True)]
        which = random.randrange(2)
        return f"reserve {chain} {charges}", lambda side: side.ledgers[which].reserve(request)

    def _pick(self) -> tuple[Reservation, Charge]:
        stranger = Reservation(UUID(int=self._random.getrandbits(128)), PERSONS[0], Charge(1, 1))
        if not self._held or self._random.random() < 0.03:
            return stranger, stranger.at_most
        return self._random.choice(self._held[-6:])

    def _settle(self) -> Call:
        random = self._random
        held, most = self._pick()
        part = random.randrange(5)
        information = most.information * part // 4
        pure = (
            most.epsilon
            if most.epsilon == UNBOUNDED
            else max(most.epsilon * part // 4, (information + 1) // 2)
        )
        actual = Charge(information, most.calls, min(pure, most.epsilon) if information + most.calls else 0)
        look, key = None, random.choice(self._keys)
        if random.random() < 0.2 or most == Charge(0, 0):
            after = random.randrange(3)
            look, key = ContinualStep(b"s" * 32, after), b"look %d" % after + bytes(26)
        settlement = Settlement(
            actual,
            key,
            random.choice((key, bytes(32))),
            b"answer %d" % random.randrange(1000),
            "m",
            "q",
            random.choice(EPOCHS),
            look,
            random.choice(("", "noise")),
            {b"c%d" % random.randrange(3): 1} if random.random() < 0.3 else {},
            {bytes([random.randrange(3)]) * 32: 2} if random.random() < 0.3 else {},
            "groups",
            b"sealed" if random.random() < 0.3 else None,
        )
        which = random.randrange(2)
        return f"settle {held} {settlement}", lambda side: side.ledgers[which].settle(held, settlement)

    def _resolve(self) -> Call:
        held, _ = self._pick()
        kinds = ("release", "spend", "reach", "outcome", *["fail"] * 3)
        which, kind = self._random.randrange(2), self._random.choice(kinds)
        if kind == "fail":
            failed = self._random.choice(("failed", "failed", "stopped"))
            sealed = self._random.choice((None, b"sealed"))
            return f"fail {held} {failed}", lambda side: side.ledgers[which].fail(held, failed, sealed)
        if kind == "outcome":
            return f"outcome {held}", lambda side: side.ledgers[which].outcome(held.id)
        return f"{kind} {held}", lambda side: getattr(side.ledgers[which], kind)(held)

    def _read(self) -> Call:
        random, which = self._random, self._random.randrange(2)
        account, key = random.choice(PERSONS), random.choice(self._keys)
        calls: list[Call] = [
            *[("replay", lambda side: side.ledgers[which].replay(account, key, "tool"))] * 3,
            (
                "note replays",
                lambda side: side.ledgers[which].note_replays([ReplayNote(account, key, "tool")] * 2),
            ),
            ("stored", lambda side: side.ledgers[which].stored(key)),
            ("stream", lambda side: side.ledgers[which].stream([account, "team:a"], b"s" * 32)),
            ("choices", lambda side: side.ledgers[which].choices(account, [b"c0", b"c1"])),
            ("owned", lambda side: side.ledgers[which].owned(account, [bytes(32), b"\1" * 32])),
            ("paid", lambda side: side.ledgers[which].paid(account, self._keys)),
            ("budget", lambda side: side.ledgers[which].accounts.budget(account)),
            ("releases", lambda side: side.ledgers[which].history.releases(account, most=5, newest=True)),
            ("latest", lambda side: side.ledgers[which].history.latest(account, 4)),
            ("verify", lambda side: side.ledgers[which].history.verify()),
            ("failures", lambda side: [row.at for row in side.ledgers[which].failures.all(5)]),
        ]
        name, call = random.choice(calls)
        return f"{name} {account}", call

    def _owner(self) -> Call:
        random, which = self._random, self._random.randrange(2)
        name, limit, other = random.choice((*PERSONS, *SHARED)), self._limit(), self._limit()
        generation = Generation("here", random.randrange(1, 4))
        teams, at = (
            random.sample(("a", "b"), random.randrange(3)),
            BEGINS + timedelta(hours=random.randrange(99)),
        )
        random_data, cleared = random.choice(("here", "moved")), random.choice((None, *PERSONS))
        calls: list[Call] = [
            *[("limit", lambda side: side.ledgers[which].accounts.set_limit(name, limit))] * 3,
            (
                "limits",
                lambda side: side.ledgers[which].accounts.set_limits({name: limit, PERSONS[0]: other}),
            ),
            ("freeze", lambda side: side.ledgers[which].accounts.freeze(name)),
            *[("unfreeze", lambda side: side.ledgers[which].accounts.unfreeze(name))] * 2,
            self._shared(random.choice(SHARED)),
            ("begin", lambda side: side.ledgers[which].generations.begin("here")),
            ("suspend", lambda side: side.ledgers[which].generations.suspend(generation)),
            ("resume", lambda side: side.ledgers[which].generations.resume(generation)),
            ("bought under", lambda side: side.ledgers[which].generations.bought_under("here")),
            ("note", lambda side: side.ledgers[which].memberships.note("ann", teams, at)),
            ("teams", lambda side: side.ledgers[which].memberships.teams("ann")),
            ("members", lambda side: side.ledgers[which].memberships.members("a")),
            ("prune", lambda side: side.ledgers[which].epochs.prune(EPOCHS[:1])),
            ("data", lambda side: side.ledgers[which].origins.keep_to(random_data)),
            ("accept", lambda side: side.ledgers[which].origins.accept("moved")),
            *[("clear", lambda side: side.ledgers[which].failures.clear(cleared, "the owner"))] * 2,
            ("stopped", lambda side: side.ledgers[which].failures.stopped()),
        ]
        said, call = random.choice(calls)
        return f"{said} {name} {limit}", call

    def _process(self) -> Call:
        random, which = self._random, self._random.randrange(2)
        calls: list[Call] = [
            *[("reopen", lambda side: side.reopen(which))] * 2,
            *[("recover", lambda side: side.ledgers[which].recover())] * 2,
            ("gone", lambda side: side.ledgers[which].recover("first", "second")),
            ("loss", lambda side: side.ledgers[which].charge_for_loss()),
            (
                "mark",
                lambda side: side.ledgers[which].high_water.check(side.ledgers[1 - which].high_water.now()),
            ),
        ]
        return random.choice(calls)


def compare(seed: int, other: PostgreSQL, said: Counter[str] | None = None) -> int:
    """One history on both; the number of its steps. Raises Differs."""
    random = Random(seed)
    still = Still(Random(seed))
    simulated = Server(still)
    other.empty()
    other.set(BEGINS)
    sides = [Side(served(simulated, "compared")), Side(other.conninfo)]
    chosen = Chosen(random)
    steps = [*chosen.seeds()]
    try:
        for number in range(STEPS + len(steps)):
            name, call = steps[number] if number < len(steps) else chosen.step()
            with limited(FEW):
                results = [_result(call, side) for side in sides]
            if said is not None:
                said[f"{name.split()[0]}: {results[0][0]}"] += 1
            if results[0] != results[1]:
                raise Differs(
                    f"seed {seed}, step {number}, {name}:\n  simulated  {results[0]}\n  PostgreSQL {results[1]}"
                )
            _same_rows(simulated, other, chosen.ids, f"seed {seed}, step {number}, {name}")
            still.time += timedelta(hours=random.choice((0, 0, 0, 1, 13, 25, -30, 200, 800)), microseconds=1)
            other.set(still.time)
    finally:
        for side in sides:
            side.close()
    return number + 1


def _result(call: Callable[[Side], object], side: Side) -> tuple[str, str]:
    """What a call gave, or refused with."""
    try:
        return "gives", _plain(call(side))
    except (LedgerError, ValueError) as error:
        return type(error).__name__, _plain((str(error), vars(error)))


def _plain(value: Any) -> str:
    if isinstance(value, set | frozenset):
        return repr(sorted(map(_plain, value)))
    return repr(value)


def _same_rows(simulated: Server, other: PostgreSQL, ids: set[UUID], where: str) -> None:
    for name, theirs in other.tables().items():
        ours = list(simulated.state.tables[name].values())
        columns = sorted(set().union(*ours) - UNTOLD) if ours else []
        if len(ours) != len(theirs) and name != "flushed":
            raise Differs(f"{where}: {len(ours)} rows of {name} instead of {len(theirs)}")
        if name == "flushed":
            continue
        found = [sorted(_row(name, row, columns, ids) for row in rows) for rows in (ours, theirs)]
        for mine, right in zip(*found, strict=True):
            if mine != right:
                raise Differs(f"{where}: {name}\n  simulated  {mine}\n  PostgreSQL {right}")


def _row(table: str, row: dict[str, Any], columns: list[str], ids: set[UUID]) -> str:
    values = {c: int(row[c]) if isinstance(row[c], Decimal) else row[c] for c in columns}
    if row.get("reservation") not in ids and "reservation" in values:
        values["reservation"] = None  # drawn by the server
    if table == "pinned" and row["name"].startswith("lost "):
        values["value"] = datetime.fromisoformat(row["value"])
    return repr(values)


def main(histories: int, first: int = 0) -> None:
    """Compares so many histories, from a seed on."""
    said: Counter[str] = Counter()
    begun, steps = monotonic(), 0
    with TemporaryDirectory() as folder, postgresql(Path(folder)) as other:
        for seed in range(first, first + histories):
            steps += compare(seed, other, said)
    for name, times in sorted(said.items()):
        print(f"{times:8} {name}")
    print(
        f"{histories} histories of {steps} steps were the same on both, in {(monotonic() - begun) / 60:.1f} minutes"
    )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
