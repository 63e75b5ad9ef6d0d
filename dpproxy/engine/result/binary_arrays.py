"""Released columns as PostgreSQL's binary arrays, which no setting of a session can change the meaning of."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np

from mechanisms.histogram import Counts

INT8_ARRAY = 1016
TEXT_ARRAY = 1009
_INT8, _TEXT = 20, 25
_ELEMENT = np.dtype([("length", ">i4"), ("value", ">i8")])
_NULL = struct.pack(">i", -1)


def int8_array(values: Counts | Sequence[int | None]) -> bytes:
    """The binary form of an int8[]; `values`: int64, shape (n,), or whole numbers and NULLs.

    >>> int8_array(np.array([7])).hex(" ", 4)
    '00000001 00000000 00000014 00000001 00000001 00000008 00000000 00000007'
    >>> int8_array([None]).hex(" ", 4)
    '00000001 00000001 00000014 00000001 00000001 ffffffff'
    """
    if not isinstance(values, np.ndarray) and None in values:
        parts = (_NULL if v is None else struct.pack(">iq", 8, v) for v in values)
        return _header(len(values), True, _INT8) + b"".join(parts)
    elements = np.empty(len(values), dtype=_ELEMENT)
    elements["length"] = 8
    elements["value"] = values
    return _header(len(values), False, _INT8) + elements.tobytes()


def text_array(values: Sequence[str | None]) -> bytes:
    """The binary form of a text[] in UTF-8, with NULLs; raises UnicodeEncodeError for a lone surrogate.

    Without the character U+0000, which DuckDB's texts can have and PostgreSQL's cannot.

    >>> text_array(["a" + chr(0)]) == text_array(["a"])
    True
    >>> text_array(["é", None]).hex(" ", -4)
    '00000001 00000001 00000019 00000002 00000001 00000002 c3a9ffff ffff'
    """
    parts = [_header(len(values), None in values, _TEXT)]
    for value in values:
        if value is None:
            parts.append(_NULL)
        else:
            encoded = value.replace("\0", "").encode()
            parts.append(struct.pack(">i", len(encoded)))
            parts.append(encoded)
    return b"".join(parts)


def _header(length: int, nulls: bool, element: int) -> bytes:
    """Dimensions, whether there are NULLs, the element's OID; then the dimension's length and lower bound."""
    if length == 0:
        return struct.pack(">iiI", 0, 0, element)
    return struct.pack(">iiIii", 1, nulls, element, length, 1)
