"""The simulated ledger's tables: transactions, a log of what they wrote, and what of it is on disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg import errors

Fields = dict[str, Any]
"""A row by the names of its columns. It is never changed, but replaced."""
Table = dict[Any, Fields]
TABLES = (
    *("pinned", "account", "limit_change", "entry", "mark", "answer", "request", "epoch", "held", "look"),
    *("stream_paid", "choice", "statement", "owned", "policy", "membership", "analyst", "flushed", "failure"),
)
AMOUNTS = ("information", "calls", "epsilon")
ONCE = {
    "pinned": "pinned_once",
    "account": "account_once",
    "entry": "entry_once",
    "mark": "mark_once",
    "answer": "answer_once",
    "request": "request_once",
    "epoch": "epoch_once",
    "held": "held_once",
    "look": "look_in_order",
    "stream_paid": "stream_paid_once",
    "choice": "choice_once",
    "statement": "statement_once",
    "owned": "owned_once",
    "analyst": "analyst_once",
    "failure": "failure_once",
}
"""What a table's key is called where it is violated."""


class _Named:
    """The diagnosis of an error, which names a constraint."""

    def __init__(self, constraint: str) -> None:
        self.constraint_name = constraint


class Unique(errors.UniqueViolation):
    """A row of this key is there."""

    def __init__(self, constraint: str) -> None:
        super().__init__(constraint)
        self._constraint = constraint

    @property
    def diag(self) -> Any:
        return _Named(self._constraint)


class Check(errors.CheckViolation):
    """A row that a constraint forbids."""

    def __init__(self, constraint: str) -> None:
        super().__init__(constraint)
        self._constraint = constraint

    @property
    def diag(self) -> Any:
        return _Named(self._constraint)


@dataclass
class State:
    """All rows at one moment, and the last number that was given to one."""

    tables: dict[str, Table] = field(default_factory=lambda: {name: {} for name in TABLES})
    number: int = 0

    def copy(self) -> State:
        """The same rows, apart."""
        return State({name: dict(table) for name, table in self.tables.items()}, self.number)


@dataclass
class Transaction:
    """A transaction under way: its writes are in the state, and undone if it fails.

    Attributes:
        state: the rows, which it sees alone.
        now: the server's clock.
        random: gives uuids.
        position: where its commit will stand in the log.
        arrived: where the log ended when the client sent it.
        races: whether what was committed since `arrived` may be too late for a snapshot.
        waits: whether the commit waits for the disk.
    """

    state: State
    now: datetime
    random: Callable[[], UUID]
    position: int = 0
    arrived: int = 0
    races: Callable[[], bool] = lambda: False
    waits: bool = True
    written: list[tuple[str, Any, Fields | None, Fields | None]] = field(default_factory=list)

    def numbers(self) -> int:
        """The number of a new row, which no rollback gives back."""
        self.state.number += 1
        return self.state.number

    def rows(self, table: str) -> Iterator[Fields]:
        """All rows of a table, in the order in which they were made."""
        return iter(list(self.state.tables[table].values()))

    def get(self, table: str, key: Any) -> Fields | None:
        """The row of a key."""
        return self.state.tables[table].get(key)

    def insert(self, table: str, key: Any, row: Fields) -> bool:
        """Adds a row unless there is one of this key; whether it did."""
        if key in self.state.tables[table]:
            return False
        self.put(table, key, row)
        return True

    def insert_new(self, table: str, key: Any, row: Fields) -> None:
        """Adds a row; UniqueViolation where there is one of this key."""
        if not self.insert(table, key, row):
            raise Unique(ONCE[table])

    def put(self, table: str, key: Any, row: Fields | None) -> None:
        """Sets, or without a row deletes, the row of a key."""
        rows = self.state.tables[table]
        self.written.append((table, key, rows.get(key), row))
        if row is None:
            rows.pop(key, None)
        else:
            rows[key] = row

    def move(self, account: Fields, **changed: Any) -> Fields:
        """Changes an account; CheckViolation beyond its limits."""
        row = {**account, **changed}
        for unit in AMOUNTS:
            for kind in ("limit", "used", "reserved"):
                if row[f"{kind}_{unit}"] < 0:
                    raise Check(f"account_{kind}_{unit}_check")
        if row["mode"] != "track" and not within(row):
            raise Check("account_within_limits")
        self.put("account", row["name"], row)
        return row

    def enter(self, **row: Any) -> int:
        """Adds an entry; its number. UniqueViolation, CheckViolation."""
        number = self.numbers()
        if row["information"] > row["at_most_information"] or row["calls"] > row["at_most_calls"]:
            raise Check("entry_within_reservation")
        if row["epsilon"] > row["at_most_epsilon"]:
            raise Check("entry_within_epsilon")
        if row["information"] > 2 * row["epsilon"]:
            raise Check("entry_units")
        if (row["reservation"], row["account"], row["stage"]) in self.state.tables["entry"]:
            raise Unique("entry_once")
        empty = dict.fromkeys(
            ("instance", "lease_until", "mechanism", "query", "release_key", "noise", "attributed")
        )
        filled = {**empty, "replayed": False, "number": number, **row}
        self.put("entry", (row["reservation"], row["account"], row["stage"]), filled)
        return number

    def entries(self, reservation: UUID, stage: int) -> list[Fields]:
        """The entries of a reservation."""
        return [e for e in self.rows("entry") if e["reservation"] == reservation and e["stage"] == stage]

    def undo(self) -> None:
        """Takes back all that it wrote."""
        for table, key, before, _ in reversed(self.written):
            if before is None:
                self.state.tables[table].pop(key, None)
            else:
                self.state.tables[table][key] = before
        self.written.clear()


def within(row: Fields) -> bool:
    """Whether an account is within its limits: those of calls, and either filter."""
    held = {unit: row[f"used_{unit}"] + row[f"reserved_{unit}"] for unit in AMOUNTS}
    either = held["information"] <= row["limit_information"] or held["epsilon"] <= row["limit_epsilon"]
    return bool(either and held["calls"] <= row["limit_calls"])


def left(row: Fields) -> tuple[int, int, int]:
    """What an account has left, of each unit."""
    values = [row[f"limit_{u}"] - row[f"used_{u}"] - row[f"reserved_{u}"] for u in AMOUNTS]
    return values[0], values[1], values[2]


def amounts(row: Fields, kind: str = "") -> tuple[int, int, int]:
    """Three amounts of a row whose names begin alike."""
    return tuple(row[f"{kind}{unit}"] for unit in AMOUNTS)


def named(kind: str, values: Sequence[int]) -> Fields:
    """Three amounts as columns whose names begin alike."""
    return {f"{kind}{unit}": value for unit, value in zip(AMOUNTS, values, strict=True)}
