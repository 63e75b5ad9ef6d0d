"""A trail as a file of JSON lines: one head, then limits, balances and entries, every amount in whole micro-units."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, TextIO
from uuid import UUID

from budget.account import Charge, EntryRow, Limit, LimitRow
from budget.audit import Balance
from budget.trail import Trail
from dpproxy.reporting.rows import OutputError

VERSION = 3
_READ = (1, 2, VERSION)
_KINDS = ("head", "limit", "balance", "entry")


@dataclass(frozen=True)
class TrailFile:
    """A trail that was read, and with which noise the deployment ran."""

    trail: Trail
    noise: str


def write_trail(file: TextIO, trail: Trail, noise: str) -> None:
    """Writes a trail; `noise`: the deployment's, on which one of the accountings rests."""
    head = {"version": VERSION, "at": trail.at.isoformat(), "noise": noise, "pinned": dict(trail.pinned)}
    _line(file, "head", head)
    for account, rows in trail.limits.items():
        for row in rows:
            told = {"time": row.time.isoformat(), **vars(row.limit), "frozen": row.frozen}
            _line(file, "limit", {"account": account, **told})
    for one in trail.balances:
        _line(
            file,
            "balance",
            {
                "account": one.account,
                "used": _amounts(one.used),
                "reserved": _amounts(one.reserved),
                "period": one.period,
                "first": one.first,
            },
        )
    for entry in trail.entries:
        _line(file, "entry", _entry(entry))


@contextmanager
def read_trail(file: Path) -> Iterator[TrailFile]:
    """A trail whose entries are read as they are consumed; raises OutputError for what is none."""
    with file.open(encoding="utf-8") as opened:
        lines = _lines(file, opened)
        with _understood(file):
            kind, head = next(lines, ("", {}))
            if kind != "head" or head["version"] not in _READ:
                raise ValueError("it does not begin like one of this version")
            limits: dict[str, list[LimitRow]] = {}
            balances: list[Balance] = []
            first = None
            for kind, told in lines:
                if kind == "limit":
                    limits.setdefault(told["account"], []).append(_limit(told))
                elif kind == "balance":
                    period = _whole(told["period"])
                    first_period = _whole(told.get("first", period))
                    used, reserved = _charge(told["used"]), _charge(told["reserved"])
                    balances.append(Balance(told["account"], used, reserved, period, first_period))
                else:
                    first = told
                    break
            at, noise = datetime.fromisoformat(head["at"]), str(head["noise"])
            pinned = {str(name): str(value) for name, value in head["pinned"].items()}
        yield TrailFile(Trail(at, pinned, limits, balances, _entries(file, first, lines)), noise)


def _lines(file: Path, opened: TextIO) -> Iterator[tuple[str, dict[str, Any]]]:
    for line in opened:
        with _understood(file):
            ((kind, told),) = json.loads(line).items()
            if kind not in _KINDS or not isinstance(told, dict):
                raise ValueError(f"a line of kind {kind}")
        yield kind, told


def _entries(
    file: Path, first: dict[str, Any] | None, lines: Iterator[tuple[str, dict[str, Any]]]
) -> Iterator[EntryRow]:
    number = 0
    if first is not None:
        for kind, told in ((kind, told) for part in ([("entry", first)], lines) for kind, told in part):
            with _understood(file):
                if kind != "entry":
                    raise ValueError(f"a line of kind {kind} among the entries")
                entry = _entry_of(told)
                if entry.number <= number:
                    raise ValueError(f"entry {entry.number} after entry {number}")
            number = entry.number
            yield entry


@contextmanager
def _understood(file: Path) -> Iterator[None]:
    try:
        yield
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise OutputError(f"{file} is no trail: {error}") from None


def _line(file: TextIO, kind: str, told: Mapping[str, object]) -> None:
    file.write(json.dumps({kind: told}, ensure_ascii=False) + "\n")


def _entry(entry: EntryRow) -> dict[str, object]:
    return {
        **vars(entry),
        "reservation": str(entry.reservation),
        "at_most": _amounts(entry.at_most),
        "charged": _amounts(entry.charged),
        "time": entry.time.isoformat(),
    }


def _entry_of(told: dict[str, Any]) -> EntryRow:
    if told["kind"] not in ("reserve", "settle", "spend", "release", "replay"):
        raise ValueError(f"an entry of kind {told['kind']}")
    return EntryRow(
        number=_whole(told["number"]),
        reservation=UUID(told["reservation"]),
        account=str(told["account"]),
        own=bool(told["own"]),
        kind=told["kind"],
        at_most=_charge(told["at_most"]),
        charged=_charge(told["charged"]),
        period=_whole(told["period"]),
        time=datetime.fromisoformat(told["time"]),
        mechanism=told["mechanism"],
        query=told["query"],
        replayed=bool(told["replayed"]),
    )


def _limit(told: dict[str, Any]) -> LimitRow:
    information, calls = _whole(told["information"]), _whole(told["calls"])
    limit = Limit(information, calls, told["period"], told["mode"], _whole(told.get("epsilon", 0)))
    return LimitRow(datetime.fromisoformat(told["time"]), limit, bool(told["frozen"]))


def _amounts(charge: Charge) -> list[int]:
    return [charge.information, charge.calls, charge.epsilon]


def _charge(told: object) -> Charge:
    """Older versions do not tell the pure epsilon."""
    if not isinstance(told, list) or len(told) not in (2, 3):
        raise ValueError(f"{told} is no amount")
    return Charge(*map(_whole, told))


def _whole(value: object) -> int:
    if type(value) is not int:
        raise ValueError(f"{value} is not whole")
    return value
