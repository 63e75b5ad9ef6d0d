"""Arrays as PostgreSQL prints them, read and written."""

from __future__ import annotations

import re
from collections.abc import Iterable

_BOUNDS = re.compile(r"\s*(\[-?\d+:-?\d+\])+=")
_QUOTED, _BARE = r'"(?P<quoted>(?:[^"\\]|\\.)*)"', r'(?P<bare>[^\s{},"\\]+(?:\s+[^\s{},"\\]+)*)'
_TOKEN = re.compile(rf"\s*(?:(?P<sign>[{{}},])|{_QUOTED}|{_BARE})\s*", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_SPECIAL, _BEFORE = re.compile(r'["\\]'), r"\\\g<0>"
_AFTER = {
    "": ("{",),
    "{": ("{", "}", "value"),
    "}": ("}", ","),
    ",": ("{", "value"),
    "value": ("}", ","),
}
"""What may stand behind what."""


def array_text(values: Iterable[str | None]) -> str:
    """The text of an array of texts.

    >>> print(array_text(["a", None, "x, y"]))
    {"a",NULL,"x, y"}
    >>> elements(array_text(["", "NULL", chr(92) + chr(34)]))[2] == chr(92) + chr(34)
    True
    """
    return "{" + ",".join("NULL" if v is None else f'"{_SPECIAL.sub(_BEFORE, v)}"' for v in values) + "}"


def elements(text: str, *, dimensions: int = 6) -> list[str | None] | None:
    """The elements of an array, in their order; None for a text that is none, or one of more dimensions.

    An array of one dimension has no bounds of its own.

    >>> elements('{1,NULL,"a, b"}'), elements("[0:1]={{1,2},{3,4}}"), elements("{}"), elements("{1,")
    (['1', None, 'a, b'], ['1', '2', '3', '4'], [], None)
    >>> elements("{{1}}", dimensions=1), elements("[0:0]={1}", dimensions=1)
    (None, None)
    """
    bounds = _BOUNDS.match(text)
    if bounds and dimensions == 1:
        return None
    found: list[str | None] = []
    place, depth, before = bounds.end() if bounds else 0, 0, ""
    while place < len(text):
        token = _TOKEN.match(text, place)
        sign = "" if token is None else token["sign"] or "value"
        if token is None or sign not in _AFTER[before] or (before == "}" and depth == 0):
            return None
        depth += (sign == "{") - (sign == "}")
        if depth > dimensions:
            return None
        if sign == "value":
            found.append(_value(token))
        place, before = token.end(), sign
    return found if before == "}" and depth == 0 else None


def _value(token: re.Match[str]) -> str | None:
    if token["quoted"] is not None:
        return _ESCAPED.sub(r"\1", token["quoted"])
    return None if token["bare"].upper() == "NULL" else str(token["bare"])
