"""Values as a client's own types, compared with what they are in PostgreSQL."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np

from tests.clients.kinds import KINDS, Kind

_INTERVAL = re.compile(r"(?:(-?\d+) days?)?(?: ?(\d\d):(\d\d):(\d\d(?:\.\d+)?))?(?: ?[\d.]+ ?secs?)?\Z")


def assert_same(rows: Sequence[Sequence[Any]]) -> None:
    """Asserts that two rows are the values of KINDS, in whatever types the client gives them."""
    assert len(rows) == 2, rows
    for place, row in enumerate(rows):
        for kind, found in zip(KINDS, row, strict=True):
            wanted = native(kind, kind.values[place])
            assert _plain(kind, found) == wanted, f"{kind.name}: {found!r} is not {wanted!r}"


def native(kind: Kind, text: str) -> Any:
    """A value as Python has it, from PostgreSQL's text of it."""
    match kind.front:
        case "smallint" | "integer" | "bigint":
            return int(text)
        case "real":
            return np.float32(text)
        case "double precision":
            return float(text)
        case "boolean":
            return {"t": True, "true": True, "1": True, "f": False, "false": False, "0": False}[text]
        case "date":
            return dt.date.fromisoformat(text)
        case "time without time zone":
            return dt.time.fromisoformat(text)
        case "timestamp without time zone" | "timestamp with time zone":
            return _instant(text)
        case "interval":
            return _interval(text)
        case "uuid":
            return UUID(text)
        case "json" | "jsonb":
            return json.loads(text)
        case "bytea":
            return bytes.fromhex(text.removeprefix("\\x"))
        case "integer[]" | "text[]":
            return _list(text, kind.front)
    return Decimal(text) if kind.front.startswith("numeric") else text


def _plain(kind: Kind, found: Any) -> Any:
    """What a driver gives, in the types of `native`."""
    if isinstance(found, str):
        return native(kind, found)
    if isinstance(found, dt.datetime):
        return found.astimezone(dt.UTC).replace(tzinfo=None) if found.tzinfo else found
    if isinstance(found, memoryview | bytearray):
        return bytes(found)
    if hasattr(found, "to_pydatetime"):
        return _plain(kind, found.to_pydatetime())
    if kind.front == "interval" and not isinstance(found, dt.timedelta):
        months, days, nanoseconds = found
        assert months == 0
        return dt.timedelta(days=days, microseconds=nanoseconds // 1000)
    if kind.front == "real":
        return np.float32(found)
    return list(found) if isinstance(found, tuple | np.ndarray) else found


def _instant(text: str) -> dt.datetime:
    text = re.sub(r"([+-]\d\d)$", r"\1:00", text.replace("T", " ").replace("Z", "+00"))
    found = dt.datetime.fromisoformat(text)
    return found.astimezone(dt.UTC).replace(tzinfo=None) if found.tzinfo else found


def _interval(text: str) -> dt.timedelta:
    text = re.sub(r"\b0 (years|mons) ", "", text).replace(" 0 hours 0 mins 0.0 secs", "")
    text = re.sub(r"(\d+) hours (\d+) mins ([\d.]+) secs", r"0\1:0\2:0\3", text)
    match = _INTERVAL.match(text)
    assert match is not None, text
    days, hours, minutes, seconds = match.groups()
    return dt.timedelta(
        days=int(days or 0), hours=int(hours or 0), minutes=int(minutes or 0), seconds=float(seconds or 0)
    )


def _list(text: str, kind: str) -> list[Any]:
    parts = re.findall(r'"((?:[^"\\]|\\.)*)"|([^,{}]+)', text[1:-1])
    values = [plain or re.sub(r"\\(.)", r"\1", quoted) for quoted, plain in parts]
    found = [None if plain == "NULL" else value for value, (_, plain) in zip(values, parts, strict=True)]
    return [v if v is None else int(v) for v in found] if kind == "integer[]" else found
