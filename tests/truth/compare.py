"""Asks both sides one statement, and says how the answers differ."""

from __future__ import annotations

import datetime as dt
import itertools
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

import psycopg

from tests.truth.generator import Statement
from tests.truth.world import World

BELOW = "an estimate from below"
"""What a notice says of a distinct count in which a unit counts for a number of values that is chosen: it may miss
some of the others."""
MISSED = 0.02
RELATIVE, ABSOLUTE = 0.005, 0.5
"""How far sums and averages may be off: values are added up in fixed point, and noise of 0 does not undo that."""
DECLARED = re.compile(r"(p\.(colour|lev|age|ok)|e\.(kind|item)|[ic]\.\w+)")
"""Keys whose values are declared, so that groups without rows are shown."""
UNDECLARED = re.compile(r"\b[a-z]\.(amount|n|seen|stamp|name|born|score|bal)\b|p\.code")
FAILS = ("PV090", "XX", "58", "53", "57014", "08")
"""SQLSTATEs that no statement of an analyst may end with."""
TOO_SLOW = ("57014",)

Row = tuple[Any, ...]


@dataclass(frozen=True)
class Answer:
    """The rows and their types, or an error; `said`: the notices beside them."""

    rows: list[Row] = field(default_factory=list)
    types: tuple[str, ...] = ()
    state: str = ""
    message: str = ""
    said: str = ""


@dataclass(frozen=True)
class Finding:
    """A difference: what kind, the statement, and both answers as far as they differ."""

    kind: str
    statement: Statement
    truth: str
    told: str

    def __str__(self) -> str:
        values = ", ".join(map(repr, self.statement.values))
        asked = f"{self.statement.sql};" + (f" with {values}" if values else "")
        return f"{self.kind}: {asked}\n    truth {self.truth}\n    told  {self.told}"


class Judge:
    """Asks a world's both sides. `counted`: what came of the statements."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.counted: Counter[str] = Counter()
        self._sessions: dict[str, psycopg.Connection] = {}
        self._names = itertools.count()

    def difference(self, statement: Statement, analyst: str) -> Finding | None:
        """What the proxy tells an analyst otherwise than PostgreSQL; None where it does not, or refuses."""
        self.world.truth.execute(b"SET search_path = public")
        truth = asked(self.world.truth, statement)
        told = asked(self._session(analyst), statement)
        if told.state.startswith(FAILS):
            self.counted["failed"] += 1
            return Finding("failed", statement, f"{len(truth.rows)} rows", f"{told.state} {told.message}")
        if truth.state:
            self.counted["raises"] += 1
            return None
        if told.state:
            self.counted["refused"] += 1
            self.counted[f"refused {told.state}"] += 1
            return None
        self.counted["answered"] += 1
        return self._compared(statement, truth, told)

    def close(self) -> None:
        """Ends the sessions."""
        for session in self._sessions.values():
            session.close()

    def fresh(self) -> str:
        """An analyst who has asked nothing."""
        return f"fresh {next(self._names)}"

    def _session(self, analyst: str) -> psycopg.Connection:
        if analyst not in self._sessions or self._sessions[analyst].closed:
            for name in [n for n in self._sessions if n.startswith("fresh")]:
                self._sessions.pop(name).close()
            self._sessions[analyst] = self.world.analyst(analyst)
        return self._sessions[analyst]

    def _compared(self, statement: Statement, truth: Answer, told: Answer) -> Finding | None:
        def found(kind: str, right: object, wrong: object) -> Finding:
            return Finding(kind, statement, str(right)[:300], f"{str(wrong)[:300]} {told.said[:300]}")

        if truth.types != told.types:
            return found("types", truth.types, told.types)
        size = len(statement.keys)
        right = {keys(row, size): row[size:] for row in truth.rows}
        shown = {keys(row, size): row[size:] for row in told.rows}
        if len(shown) < len(told.rows):
            return found("a group twice", len(shown), len(told.rows))
        for key, values in right.items():
            if key not in shown and all(value is None or value == 0 for value in values):
                continue  # of no declared domain: a group comes out by the count that is shown
            if key not in shown:
                return found("a group is missing", (key, values), [*shown.items()][:5])
            below = BELOW in told.said
            if not all(
                close(v, s) or (below and missed(v, s)) for v, s in zip(values, shown[key], strict=True)
            ):
                return found("values", (key, values), (key, shown[key]))
        more = [key for key in shown if key not in right]
        for key in more:
            if not all(value is None or value == 0 for value in shown[key]):
                return found("a group too many", [*right][:5], (key, shown[key]))
        if statement.ordered:
            listed = [key for key in (keys(row, size) for row in told.rows) if key in right]
            if listed != [key for key in (keys(row, size) for row in truth.rows) if key in shown]:
                return found("the order", [*right][:8], listed[:8])
        if more and (impossible := self._impossible(statement, more)):
            return found("impossible groups", len(right), impossible[:5])
        return None

    def _impossible(self, statement: Statement, more: Sequence[Row]) -> list[Row]:
        """Groups without rows that no rows of declared values could have."""
        known = all(DECLARED.fullmatch(key) for key in statement.keys)
        tables = {key.split(".")[0] for key in statement.keys}
        # Classes are cut by items where these are grouped as well: otherwise there are more items than classes.
        source = statement.source
        source = replace(source, text=source.without or source.text)
        if not known or UNDECLARED.search(source.text) or ("c" in tables and "i" not in tables):
            return []
        self.world.truth.execute(b"SET search_path = possible, public")
        answer = asked(
            self.world.truth, replace(statement, source=source, where=(), having="", calls=("COUNT(*)",))
        )
        can_be = {keys(row, len(statement.keys)) for row in answer.rows}
        # Where no row fulfils what stands in ON, all declared groups are shown, as with WHERE.
        return [] if answer.state or not can_be else [key for key in more if key not in can_be]


def asked(connection: psycopg.Connection, statement: Statement) -> Answer:
    """What comes of a statement."""
    return answer_to(connection, statement.sql, statement.values)


def answer_to(connection: psycopg.Connection, sql: str, values: Sequence[object] = ()) -> Answer:
    """What comes of a statement."""
    said: list[str] = []

    def listen(notice: psycopg.errors.Diagnostic) -> None:
        said.append(notice.message_primary or "")

    connection.add_notice_handler(listen)
    try:
        cursor = psycopg.RawCursor(connection)
        cursor.execute(sql.encode(), values or None)
        if cursor.description is None:
            return Answer()
        types = tuple(_type(connection, column.type_code) for column in cursor.description or ())
        return Answer(cursor.fetchall(), types, said="; ".join(said))
    except psycopg.DataError as error:  # or what the client cannot read
        return Answer(state=error.sqlstate or "22000", message=str(error).split("\n")[0])
    except psycopg.Error as error:
        return Answer(state=error.sqlstate or "08006", message=str(error).split("\n")[0])
    finally:
        connection.remove_notice_handler(listen)


def _type(connection: psycopg.Connection, oid: int) -> str:
    """The name of a type; one of texts is as good as another, since DuckDB has but one."""
    found = connection.adapters.types.get(oid)
    name = "level" if found is None else found.name
    return "text" if name in ("varchar", "bpchar", "name") else name


def keys(row: Row, size: int) -> Row:
    """The keys of a group in one spelling."""
    return tuple(map(_spelt, row[:size]))


def _spelt(value: Any) -> Any:
    if isinstance(value, (Decimal, float, int)) and not isinstance(value, bool):
        number = float(value)
        return str(number) if math.isinf(number) or math.isnan(number) else float(f"{number:.9g}")
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        return value.astimezone(dt.UTC)
    return value


def same_rows(right: Answer, told: Answer) -> bool:
    """Whether two answers have the same rows in any order, each value close."""
    if right.types != told.types or len(right.rows) != len(told.rows):
        return False
    rows = [sorted(answer.rows, key=lambda row: str(keys(row, len(row)))) for answer in (right, told)]
    return all(
        _alike(a, b) for one, other in zip(*rows, strict=True) for a, b in zip(one, other, strict=True)
    )


def _alike(right: Any, told: Any) -> bool:
    numbers = all(isinstance(v, (int, float, Decimal)) and not isinstance(v, bool) for v in (right, told))
    return close(right, told) if numbers else right == told


def missed(right: Any, told: Any) -> bool:
    """Whether a distinct count misses few of the values."""
    return isinstance(right, int) and isinstance(told, int) and right * (1 - MISSED) <= told <= right


def close(right: Any, told: Any) -> bool:
    """Whether a value is PostgreSQL's; none for no rows may be 0."""
    if right is None or told is None:
        return not (right or told)
    if isinstance(right, int) and isinstance(told, int):
        return right == told
    one, other = float(right), float(told)
    if math.isnan(one) or math.isnan(other):
        return math.isnan(one) and math.isnan(other)
    return one == other or abs(one - other) <= RELATIVE * max(abs(one), abs(other)) + ABSOLUTE
