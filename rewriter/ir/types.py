"""The types of values: PostgreSQL's, as far as the rewriter tells them apart, and that of constants without one."""

from __future__ import annotations

import re
from collections.abc import Collection
from enum import Enum
from functools import lru_cache

from sqlglot import exp

_Row = tuple[str, str, str, bool]


def _and_array(name: str, family: str, cell: str = "VARCHAR", enumerable: bool = True) -> tuple[_Row, _Row]:
    return (name, family, cell, enumerable), (f"{name}[]", f"{family}[]", "VARCHAR", False)


class Type(Enum):
    """A type of values.

    Attributes:
        postgres: its name as format_type prints it; "" where PostgreSQL has none.
        family: the word for it and those that differ from it in width alone. Release keys have it.
        cell: the type in which cells are compared with rows, in sqlglot's words: texts where no other is right.
        enumerable: one text stands for each value, so that values can be listed as cells.

    >>> Type.INT2.family, Type.INT4_ARRAY.family, Type.DATE.enumerable, Type.INTERVAL.enumerable
    ('int', 'int[]', True, False)
    """

    INT2, INT2_ARRAY = _and_array("smallint", "int", "BIGINT")
    INT4, INT4_ARRAY = _and_array("integer", "int", "BIGINT")
    INT8, INT8_ARRAY = _and_array("bigint", "int", "BIGINT")
    NUMERIC, NUMERIC_ARRAY = _and_array("numeric", "number", "DECIMAL(38, 10)")
    FLOAT4, FLOAT4_ARRAY = _and_array("real", "float", "DOUBLE")
    FLOAT8, FLOAT8_ARRAY = _and_array("double precision", "float", "DOUBLE")
    TEXT, TEXT_ARRAY = _and_array("text", "text")
    BOOL, BOOL_ARRAY = _and_array("boolean", "bool", "BOOLEAN")
    DATE, DATE_ARRAY = _and_array("date", "date", "DATE")
    TIMESTAMP, TIMESTAMP_ARRAY = _and_array("timestamp without time zone", "timestamp", "TIMESTAMP")
    TIMESTAMPTZ, TIMESTAMPTZ_ARRAY = _and_array("timestamp with time zone", "timestamptz", "TIMESTAMP")
    TIME, TIME_ARRAY = _and_array("time without time zone", "time", "TIME")
    UUID, UUID_ARRAY = _and_array("uuid", "uuid", "UUID")
    INTERVAL, INTERVAL_ARRAY = _and_array("interval", "interval", enumerable=False)
    BYTEA, BYTEA_ARRAY = _and_array("bytea", "bytea", enumerable=False)
    JSON, JSON_ARRAY = _and_array("json", "json", enumerable=False)
    JSONB, JSONB_ARRAY = _and_array("jsonb", "jsonb", enumerable=False)
    OTHER, OTHER_ARRAY = _and_array("", "other")
    """Types that are not computed with, of whose texts nothing is known."""
    BRIEF, BRIEF_ARRAY = _and_array("", "other", enumerable=False)
    """Types that are not computed with, whose texts have some dozens of characters; their arrays are `OTHER_ARRAY`."""
    RECORD = "record", "record", "VARCHAR", False
    """A privacy unit that several columns name."""
    AGE = "", "age", "VARCHAR", True
    """An interval as age() makes it."""
    LITERAL = "", "literal", "VARCHAR", True
    """A constant whose type is that of its surroundings."""

    def __init__(self, postgres: str, family: str, cell: str, enumerable: bool) -> None:
        self.postgres, self.family, self.cell, self.enumerable = postgres, family, cell, enumerable

    @property
    def element(self) -> Type | None:
        """The type of an array's elements; None for what is no array."""
        return Type[self.name.removesuffix("_ARRAY")] if self.name.endswith("_ARRAY") else None

    @property
    def array(self) -> Type:
        """The type of arrays of it, whatever their dimensions."""
        return self if self.element else Type[f"{self.name}_ARRAY"]


INTEGERS = frozenset({Type.INT2, Type.INT4, Type.INT8})
FLOATS = frozenset({Type.FLOAT4, Type.FLOAT8})
WIDENED = (Type.INT2, Type.INT4, Type.INT8, Type.NUMERIC, Type.FLOAT4, Type.FLOAT8)
"""The types of numbers, each before those that the rows of a set operation are converted to beside it."""
NUMBERS = frozenset(WIDENED)
TEXTUAL = frozenset({Type.TEXT, Type.LITERAL})
STAMPS = frozenset({Type.TIMESTAMP, Type.TIMESTAMPTZ})
ZONELESS = frozenset({Type.DATE, Type.TIMESTAMP})
DATED = STAMPS | ZONELESS
SPAN = {Type.INT2: 2**15, Type.INT4: 2**31, Type.INT8: 2**63}
"""How many values below zero an integer type has."""
UNTOLD = frozenset({Type.JSONB, Type.JSONB_ARRAY, Type.OTHER, Type.OTHER_ARRAY})
"""Types of which no cheap test tells how long the text of a value is: 8 bytes of jsonb can be 131,000 digits."""
UNCOMPARED = UNTOLD | {Type.JSON, Type.JSON_ARRAY}
"""Types whose values are not compared, ordered or grouped by."""
AMBIGUOUS = frozenset({"numeric(39,0)", "numeric(39,0)[]"})
"""Types in the front of more than one of DuckDB's, none of which holds the values of the other."""
CASTS = {
    exp.DType.SMALLINT: Type.INT2,
    exp.DType.INT: Type.INT4,
    exp.DType.BIGINT: Type.INT8,
    exp.DType.DECIMAL: Type.NUMERIC,
    exp.DType.DOUBLE: Type.FLOAT8,
    exp.DType.FLOAT: Type.FLOAT4,
    exp.DType.TEXT: Type.TEXT,
    exp.DType.VARCHAR: Type.TEXT,
    exp.DType.BPCHAR: Type.TEXT,
    exp.DType.BOOLEAN: Type.BOOL,
    exp.DType.DATE: Type.DATE,
    exp.DType.TIMESTAMP: Type.TIMESTAMP,
    exp.DType.TIMESTAMPTZ: Type.TIMESTAMPTZ,
    exp.DType.TIME: Type.TIME,
    exp.DType.UUID: Type.UUID,
}
"""The types that values may be cast to."""
HELD = re.compile(r"-?\d{1,28}(\.\d{1,10}0*)?")
"""Exact numbers that the type of their cells holds to the last digit."""
_NAMES = {
    **{found.postgres: found for found in Type if found.postgres},
    "character varying": Type.TEXT,
    "character": Type.TEXT,
    "bpchar": Type.TEXT,
    **dict.fromkeys(
        (
            *("time with time zone", "inet", "cidr", "macaddr", "macaddr8", "money", "oid", "pg_lsn"),
            *("int4range", "int8range", "daterange", "tsrange", "tstzrange"),
        ),
        Type.BRIEF,
    ),
}
_SIZED = re.compile(r"character(?: varying)?\((\d+)\)")


@lru_cache(maxsize=1000)
def type_named(name: str) -> Type:
    """The type that format_type prints as `name`, whatever its size. Values of an enumerated type are texts, whose
    order is `labels`.

    >>> type_named("character varying(20)"), type_named("bigint[]"), type_named("inet"), type_named("xml")
    (<Type.TEXT: ...>, <Type.INT8_ARRAY: ...>, <Type.BRIEF: ...>, <Type.OTHER: ...>)
    """
    if name.endswith("[]"):
        return type_named(name[:-2]).array
    if name.startswith("enum "):
        return Type.TEXT
    head, _, rest = name.partition("(")
    return _NAMES.get((head.strip() + rest.partition(")")[2]).strip(), Type.OTHER)


@lru_cache(maxsize=1000)
def longest(name: str) -> int | None:
    """How many characters a text of the type that format_type prints as `name` has at most, where the type says it.

    >>> longest("character varying(20)"), longest("text"), longest("character varying(20)[]")
    (20, None, None)
    """
    size = _SIZED.fullmatch(name)
    return None if size is None else int(size[1])


def padded(name: str) -> bool:
    """Whether PostgreSQL fills texts of a type up with blanks, which do not count where it compares them.

    >>> padded("character(3)"), padded("bpchar"), padded("character varying(3)"), padded("character(3)[]")
    (True, True, False, False)
    """
    return not name.endswith("[]") and name.partition("(")[0] in ("character", "bpchar")


def unpadded(name: str) -> str:
    """The type of values in rows and cells: texts of character(n) have no blanks at their ends there.

    >>> unpadded("character(3)"), unpadded("integer")
    ('text', 'integer')
    """
    return Type.TEXT.postgres if padded(name) else name


def common(types: Collection[Type]) -> Type:
    """The type of a value that is one of several, as in CASE; constants take the type of the others.

    >>> common([Type.INT4, Type.INT8]).name, common([Type.FLOAT4, Type.INT4]).name, common([Type.INT4, Type.DATE]).name
    ('INT8', 'FLOAT8', 'OTHER')
    >>> common([Type.LITERAL, Type.DATE]).name, common([Type.LITERAL]).name
    ('DATE', 'TEXT')
    """
    found = [one for one in types if one is not Type.LITERAL]
    if not found:
        return Type.TEXT
    if DATED.issuperset(found):
        return next(of for of in (Type.TIMESTAMPTZ, Type.TIMESTAMP, Type.DATE) if of in found)
    if not NUMBERS.issuperset(found):
        return found[0] if len({one.family for one in found}) == 1 else Type.OTHER
    if FLOATS.intersection(found):
        return Type.FLOAT4 if set(found) == {Type.FLOAT4} else Type.FLOAT8
    return max(found, key=WIDENED.index)


def moved(left: Type, right: Type, *, subtracted: bool) -> Type:
    """The type of a date or timestamp plus or minus something.

    >>> moved(Type.DATE, Type.DATE, subtracted=True).name, moved(Type.DATE, Type.INTERVAL, subtracted=False).name
    ('INT4', 'TIMESTAMP')
    """
    if subtracted and left is right is Type.DATE:
        return Type.INT4
    if subtracted and {left, right} <= DATED:
        return Type.INTERVAL
    if right is Type.INTERVAL or (left is Type.INTERVAL and not subtracted):
        of = left if right is Type.INTERVAL else right
        return {Type.DATE: Type.TIMESTAMP, Type.TIME: Type.OTHER}.get(of, of)
    if left is Type.DATE and right in INTEGERS:
        return Type.DATE
    return Type.DATE if right is Type.DATE and left in INTEGERS and not subtracted else Type.OTHER
