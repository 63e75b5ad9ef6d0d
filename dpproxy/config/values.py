"""Values of dpproxy.toml: exact decimals, durations, and literals as PostgreSQL prints them."""

from __future__ import annotations

import datetime as dt
import ipaddress
import re
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Literal
from uuid import UUID

import numpy as np
from pydantic import ConfigDict

SECTION = ConfigDict(extra="forbid", frozen=True, strict=True, arbitrary_types_allowed=True)
"""How every section is read: exactly, and an unknown key is a mistake."""
_LARGEST_EXPONENT = 400
MEMORY = r"^(\d+(\.\d+)?) ?([KMGT]i?B)$"
"""How an amount of memory is written."""
_DURATION = re.compile(r"(\d{1,9}) ?(ms|s|min|h|d)\Z")
_UNIT_MS = {"ms": 1, "s": 1_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_INTEGERS = {"smallint": 15, "integer": 31, "bigint": 63}
_NUMERIC = re.compile(r"numeric(?:\((\d+),(\d+)\))?\Z")
_LENGTH = re.compile(r"character(?: varying)?\((\d+)\)\Z")
_TIMESTAMPS = ("timestamp without time zone", "timestamp with time zone")
_DAY_END = dt.time(23, 59, 59, 999_999)

RANGED = (*_INTEGERS, "numeric", "real", "double precision", "date", *_TIMESTAMPS)
"""Types, without their modifiers, that a range may be declared for."""
TEXTS = ("text", "character varying", "character")
"""Types of texts, without their modifiers."""
LISTED = (*RANGED, *TEXTS, "boolean", "uuid", "time without time zone")
"""Types, without their modifiers, that a domain may be declared for."""
NUMBERS = (*_INTEGERS, "numeric", "real", "double precision")
"""Types, without their modifiers, that bounds may be declared for."""


def base(kind: str) -> str:
    """A type without its modifier; of an enumerated one that of its labels.

    >>> base("numeric(9,2)"), base("character varying(8)"), base("bigint")
    ('numeric', 'character varying', 'bigint')
    """
    if kind.startswith("enum "):
        return "text"
    return kind.split("(", 1)[0] if kind.startswith(("numeric", "character")) else kind


def comparable(left: str, right: str) -> bool:
    """Whether equality between two types is exact and the same in every database.

    >>> comparable("bigint", "integer"), comparable("bigint", "text")
    (True, False)
    """
    bases = {base(left), base(right)}
    return left == right or bases <= {*_INTEGERS, "numeric"} or bases <= set(TEXTS)


def is_loopback(host: str) -> bool:
    """Whether an address can only be reached from this machine.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0"), is_loopback("::1")
    (True, True, False, True)
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def exact(written: str) -> Fraction:
    """A decimal as it is written, without rounding; ValueError for inf, nan and exponents past 400.

    >>> exact("1e-10") * 10**10
    Fraction(1, 1)
    """
    try:
        value = Decimal(written)
    except InvalidOperation as error:
        raise ValueError(f"{written} is no decimal") from error
    if not value.is_finite() or abs(value.adjusted()) > _LARGEST_EXPONENT:
        raise ValueError(f"{written} is no number to count with")
    return Fraction(value)


def duration(written: str) -> dt.timedelta:
    """A duration such as "5min", in ms, s, min, h or d.

    >>> duration("5min")
    datetime.timedelta(seconds=300)
    """
    match = _DURATION.match(written)
    if match is None:
        raise ValueError('a duration is written like "5min" (ms, s, min, h or d)')
    return dt.timedelta(milliseconds=int(match[1]) * _UNIT_MS[match[2]])


def memory_bytes(written: str) -> int:
    """An amount of memory such as "512MB", in KB, MB, GB, TB, or KiB and so on, in bytes.

    >>> memory_bytes("1.5 MB"), memory_bytes("1KiB")
    (1500000, 1024)
    """
    match = re.fullmatch(MEMORY, written)
    if match is None:
        raise ValueError(
            'an amount of memory is written like "512MB" (KB, MB, GB, TB, or KiB, MiB, GiB, TiB)'
        )
    unit = match[3]
    return int(Fraction(match[1]) * (1024 if "i" in unit else 1000) ** ("KMGT".index(unit[0]) + 1))


def literal(value: object, kind: str, *, end: Literal["first", "last"] = "first") -> str:
    """A value of dpproxy.toml as PostgreSQL prints it in a column of type `kind`.

    `end`: which end of the day a date on a timestamp column means. Raises ValueError for a value that the
    type cannot hold.

    >>> literal(Fraction(3, 2), "numeric(9,2)")
    '1.50'
    >>> literal("2024-12-31", "timestamp without time zone", end="last")
    '2024-12-31 23:59:59.999999'
    """
    simple = base(kind)
    if simple in _INTEGERS:
        return _integer(value, _INTEGERS[simple])
    if simple == "numeric":
        return _numeric(value, kind)
    if simple in ("real", "double precision"):
        number = _number(value)
        shortest = repr(float(number)) if simple == "double precision" else str(np.float32(float(number)))
        return shortest.removesuffix(".0")
    if simple in _TIMESTAMPS:
        return _timestamp(value, end, zoned=simple == _TIMESTAMPS[1])
    match simple, value:
        case (("text" | "character varying" | "character"), str()) if "\0" not in value:
            return _text(value, kind)
        case "boolean", bool():
            return "true" if value else "false"
        case "date", dt.date() | str() if not isinstance(value, dt.datetime):
            return (dt.date.fromisoformat(value) if isinstance(value, str) else value).isoformat()
        case "time without time zone", dt.time():
            return value.isoformat()
        case "uuid", str():
            return str(UUID(value))
    raise ValueError(f"{_shown(value)} is no value of type {kind}")


def order(written: str, kind: str) -> Fraction | str:
    """What a literal of a ranged type is compared by.

    >>> order("10", "bigint") > order("9", "bigint")
    True
    """
    return exact(written) if base(kind) in NUMBERS else written


def _shown(value: object) -> str:
    return str(value) if isinstance(value, Fraction) else repr(value)


def _text(value: str, kind: str) -> str:
    if base(kind) == "character":
        value = value.rstrip(" ")
    most = _LENGTH.match(kind)
    if most is not None and len(value) > int(most[1]):
        raise ValueError(f"{_shown(value)} does not fit {kind}")
    return value


def _number(value: object) -> Fraction:
    if isinstance(value, bool) or not isinstance(value, int | Fraction):
        raise ValueError(f"{_shown(value)} is no number")
    return Fraction(value)


def _integer(value: object, bits: int) -> str:
    number = _number(value)
    if number.denominator != 1 or not -(2**bits) <= number < 2**bits:
        raise ValueError(f"{_shown(value)} is no integer of {bits + 1} bits")
    return str(number.numerator)


def _numeric(value: object, kind: str) -> str:
    number = _number(value)
    match = _NUMERIC.match(kind)
    if match is None or match[1] is None:
        return _decimal(number, None)
    digits, scale = int(match[1]), int(match[2])
    if (number * 10**scale).denominator != 1 or abs(number) >= 10 ** (digits - scale):
        raise ValueError(f"{_shown(value)} does not fit {kind}")
    return _decimal(number, scale)


def _decimal(number: Fraction, scale: int | None) -> str:
    """Exact: every number of the file is a decimal."""
    places = scale if scale is not None else 0
    while scale is None and (number * 10**places).denominator != 1:
        places += 1
    scaled = abs(number * 10**places).numerator
    digits = str(scaled).rjust(places + 1, "0")
    sign = "-" if number < 0 else ""
    return sign + (f"{digits[:-places]}.{digits[-places:]}" if places else digits)


def _timestamp(value: object, end: Literal["first", "last"], *, zoned: bool) -> str:
    if isinstance(value, str):
        try:
            value = dt.date.fromisoformat(value)
        except ValueError:
            value = dt.datetime.fromisoformat(str(value))
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        value = dt.datetime.combine(value, _DAY_END if end == "last" else dt.time())
    if not isinstance(value, dt.datetime) or (value.tzinfo is not None and not zoned):
        raise ValueError(f"{_shown(value)} is no timestamp with{'' if zoned else 'out'} time zone")
    if value.tzinfo is not None:
        value = value.astimezone(dt.UTC).replace(tzinfo=None)
    written = value.isoformat(" ")
    written = written.rstrip("0") if "." in written else written
    return written + ("+00" if zoned else "")
