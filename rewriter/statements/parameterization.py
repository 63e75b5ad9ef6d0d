"""Statements that differ only in the constants of their conditions, as one statement with parameters.

In:  SELECT COUNT(*) FROM events WHERE ts >= DATE '2024-01-01' AND action = 'view'
Out: SELECT COUNT(*) FROM events WHERE ts >= $1::DATE AND action = $2, and the constants
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from itertools import pairwise

from rewriter.statements.lexer import Token, TokenKind, tokens

INT4 = 23
_SMALL = re.compile(r"0|[1-9][0-9]{0,8}")
_MIDNIGHT = re.compile(r"([12][0-9]{3}-[0-9]{2}-[0-9]{2})( 00:00:00)?")
_COMPARED = frozenset(["=", "<", ">", "<=", ">=", "<>", "!="])
_BEHIND = frozenset(["AND", ")", ",", ";", "::", "GROUP", "ORDER", "HAVING", "LIMIT", "UNION", ""])
"""What may follow a constant that is a whole side of its comparison."""
_CLAUSES = frozenset(
    [
        "SELECT",
        "GROUP",
        "ORDER",
        "HAVING",
        "LIMIT",
        "OFFSET",
        "FETCH",
        "WINDOW",
        "UNION",
        "INTERSECT",
        "EXCEPT",
    ]
)
"""What ends a WHERE."""


@dataclass(frozen=True)
class Parameterized:
    """A statement with parameters in place of constants: `oids` are their types, 0 where PostgreSQL is to infer one,
    and `constants` their texts."""

    text: str
    oids: tuple[int, ...]
    constants: tuple[str, ...]

    def values(self, types: Sequence[str]) -> tuple[str, ...] | None:
        """The constants as PostgreSQL prints them in these types, None unless it is plain how and no two are equal."""
        found = [
            one for c, t in zip(self.constants, types, strict=True) if (one := _printed(c, t)) is not None
        ]
        # Of equal constants the same condition may be made, which is one.
        return tuple(found) if len({*found}) == len(types) else None


@lru_cache(maxsize=8)
def parameterized(text: str) -> Parameterized | None:
    """The statement with parameters in place of the constants that its WHERE clauses compare something with.

    Its blanks and comments are one space each. None where there are no such constants, for a statement that has
    parameters, window functions or literals with escapes, and for one with OR, or with a condition in parentheses under
    NOT: constants decide the order of alternatives. Raises Refusal for a text that `tokens` refuses.

    >>> parameterized("SELECT 1 FROM t WHERE a BETWEEN 2 AND 3 AND b IN ('x', 'it''s') LIMIT 4")
    Parameterized(text='SELECT 1 FROM t WHERE a BETWEEN $1 AND $2 AND b IN ($3, $4) LIMIT 4', \
oids=(23, 23, 0, 0), constants=('2', '3', 'x', "it's"))
    """
    found = tokens(text)
    words = [t.word for t in found]
    if "WHERE" not in words or not {"OVER", "OR"}.isdisjoint(words):
        return None
    if any(t.kind in (TokenKind.CODED, TokenKind.PARAMETER) for t in found):
        return None
    if ("NOT", "(") in pairwise(words):
        return None
    written: list[Token | None] = [*found]
    oids: list[int] = []
    constants: list[str] = []
    for place, cast in _compared(found):
        token = found[place]
        constant = token.value if token.kind is TokenKind.TEXT else token.text
        if constant is None or (token.kind is TokenKind.NUMBER and not _SMALL.fullmatch(constant)):
            continue
        constants.append(constant)
        oids.append(INT4 if token.kind is TokenKind.NUMBER else 0)
        written[place] = token._replace(text=f"${len(constants)}{cast and '::'}{cast}")
        if cast:
            written[place - 1] = None
    if not constants:
        return None
    parts: list[str] = []
    end = 0
    for read, token_written in zip(found, written, strict=True):
        if token_written is not None:
            parts += [" " if parts and end < read.start else "", token_written.text]
        end = read.end
    return Parameterized("".join(parts), tuple(oids), tuple(constants))


def _compared(found: Sequence[Token]) -> Iterator[tuple[int, str]]:
    """The places of the constants that a WHERE compares something with, and the type of those written DATE '...'."""
    words = ["", "", "", *(t.word for t in found), ""]
    conditions, listed, ranged = [False], [False], False
    for place, token in enumerate(found, 3):
        # Behind AS and a point any word is a name.
        word = "" if words[place - 1] in ("AS", ".") else words[place]
        if word == "(":
            conditions.append(conditions[-1])
            listed.append(words[place - 1] == "IN" and words[place - 2] not in ("AS", "."))
        elif word == ")" and len(conditions) > 1:
            conditions.pop()
            listed.pop()
        elif word == "WHERE":
            # What is aggregated has an order of its own, which the constants of a FILTER decide.
            conditions[-1] = words[place - 2 : place] != ["FILTER", "("]
        elif word in _CLAUSES:
            conditions[-1] = listed[-1] = False
        if word == "BETWEEN":
            ranged = True
        constant = token.kind is TokenKind.NUMBER or (token.kind is TokenKind.TEXT and token.text[0] == "'")
        if not constant or not conditions[-1] or words[place + 1] not in _BEHIND:
            continue
        cast = words[place - 1] if words[place - 1] in ("DATE", "TIMESTAMP") else ""
        operator = place - 2 if cast else place - 1
        before = words[operator]
        if before == "AND" and ranged:
            ranged = False
        elif before in _COMPARED:
            if found[operator - 4].kind in (TokenKind.NUMBER, TokenKind.TEXT):
                # 1 = 1 is no condition, and 1 = 0 has no rows.
                continue
        elif before != "BETWEEN" and not (listed[-1] and before in ("(", ",")):
            continue
        yield place - 3, cast


def _printed(constant: str, type_name: str) -> str | None:
    """How PostgreSQL prints a value that is written like this, None unless it is plain."""
    if type_name in ("text", "character varying"):
        return constant
    if type_name in ("integer", "bigint"):
        return constant if _SMALL.fullmatch(constant) else None
    match = _MIDNIGHT.fullmatch(constant)
    if match is None or not _is_day(match[1]):
        return None
    if type_name == "timestamp without time zone":
        return f"{match[1]} 00:00:00"
    return match[1] if type_name == "date" and not match[2] else None


def _is_day(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True
