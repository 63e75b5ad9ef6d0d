"""Statements that contain a query: DECLARE, COPY, PREPARE and EXECUTE, parsed by their words.

Why: docs/decisions/carriers.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rewriter.statements.lexer import Token, TokenKind, statement_tokens
from rewriter.statements.short_texts import remembered

Word = Literal["DECLARE", "COPY", "PREPARE", "EXECUTE"]
WORDS: dict[str, Word] = {"DECLARE": "DECLARE", "COPY": "COPY", "PREPARE": "PREPARE", "EXECUTE": "EXECUTE"}
_NAME_BYTES = 63
_OPTIONS = {"BINARY", "ASENSITIVE", "INSENSITIVE", "NO", "SCROLL"}
_OPENING, _CLOSING = ("(", "["), (")", "]")


@dataclass(frozen=True)
class Utility:
    """A statement around a query.

    `name`: of the cursor or statement, `written` as in the text; `head` and `tail` stand before and after the
    `body`, which begins at `offset` and may have `parameters`; an EXECUTE has `arguments` in place of a body.
    """

    word: Word
    name: str = ""
    written: str = ""
    head: str = ""
    body: str = ""
    tail: str = ""
    offset: int = 0
    parameters: bool = False
    arguments: tuple[str, ...] = ()

    def around(self, query: str) -> str:
        """The statement with another query in it."""
        return f"{self.head}{query}{self.tail}"


@remembered
def utility(text: str) -> Utility | None:
    """Takes a statement apart; None for any other, and for what PostgreSQL would not read either.

    Raises Refusal as `tokens` does.

    >>> found = utility("DECLARE c CURSOR WITH HOLD FOR SELECT 1")
    >>> found.name, found.body, found.around("SELECT 2")
    ('c', 'SELECT 1', 'DECLARE c CURSOR WITH HOLD FOR SELECT 2')
    >>> utility("COPY (SELECT 1) TO STDOUT (FORMAT csv)").tail
    ') TO STDOUT (FORMAT csv)'
    >>> utility("EXECUTE s(1, f(2, 3))").arguments
    ('1', 'f(2, 3)')
    """
    found = statement_tokens(text)
    word = WORDS.get(found[0].word) if found else None
    if word == "DECLARE":
        return _declare(text, found)
    if word == "COPY":
        return _copy(text, found)
    if word == "PREPARE":
        return _prepare(text, found)
    return _execute(text, found) if word == "EXECUTE" else None


def fetched(text: str) -> str | None:
    """The name of the portal that a FETCH or MOVE reads; None where it has no name that can be read.

    Raises Refusal as `tokens` does.

    >>> fetched("/* /* c */ */ FETCH ALL IN P;")
    'p'
    """
    return name_of(statement_tokens(text)[-1])


def _declare(text: str, found: list[Token]) -> Utility | None:
    words = [token.word for token in found]
    at = 2
    while words[at : at + 1] and words[at] in _OPTIONS:
        at += 1
    if words[at : at + 1] != ["CURSOR"]:
        return None
    at += 1
    if words[at : at + 2] in (["WITH", "HOLD"], ["WITHOUT", "HOLD"]):
        at += 2
    name = name_of(found[1])
    if name is None or words[at : at + 1] != ["FOR"] or len(found) == at + 1:
        return None
    start, end = found[at + 1].start, found[-1].end
    return Utility(
        "DECLARE", name, found[1].text, text[:start], text[start:end], "", start, _parameters(found)
    )


def _copy(text: str, found: list[Token]) -> Utility | None:
    if len(found) < 2 or found[1].text != "(":
        return None
    close = closing(found, 1)
    words = [token.word for token in found[close + 1 : close + 3]]
    if close <= 2 or words != ["TO", "STDOUT"]:
        return None
    start, end = found[2].start, found[close - 1].end
    tail = text[found[close].start : found[-1].end]
    return Utility("COPY", "", "", text[:start], text[start:end], tail, start, _parameters(found))


def _prepare(text: str, found: list[Token]) -> Utility | None:
    at = 2
    if len(found) > 2 and found[2].text == "(":
        at = closing(found, 2) + 1
    name = name_of(found[1]) if len(found) > at + 1 else None
    if name is None or found[at].word != "AS":
        return None
    start, end = found[at + 1].start, found[-1].end
    return Utility(
        "PREPARE", name, found[1].text, text[:start], text[start:end], "", start, _parameters(found)
    )


def _execute(text: str, found: list[Token]) -> Utility | None:
    name = name_of(found[1]) if len(found) > 1 else None
    if name is None:
        return None
    if len(found) == 2:
        return Utility("EXECUTE", name, found[1].text)
    if found[2].text != "(" or closing(found, 2) != len(found) - 1:
        return None
    return Utility("EXECUTE", name, found[1].text, arguments=_arguments(text, found[3:-1]))


def _parameters(found: list[Token]) -> bool:
    return any(token.kind is TokenKind.PARAMETER for token in found)


def _arguments(text: str, found: list[Token]) -> tuple[str, ...]:
    groups: list[list[Token]] = [[]]
    depth = 0
    for token in found:
        depth += (token.text in _OPENING) - (token.text in _CLOSING)
        if token.text == "," and depth == 0:
            groups.append([])
        else:
            groups[-1].append(token)
    return tuple(text[group[0].start : group[-1].end] for group in groups if group)


def closing(found: list[Token], opening: int) -> int:
    """Where the parenthesis at `opening` is closed; -1 if it never is."""
    depth = 0
    for at in range(opening, len(found)):
        depth += (found[at].text == "(") - (found[at].text == ")")
        if depth == 0:
            return at
    return -1


def name_of(token: Token) -> str | None:
    """A name as PostgreSQL keeps it; None for what is none, or too long to be kept whole."""
    name = token.name or ""
    return name if 0 < len(name.encode(errors="replace")) <= _NAME_BYTES else None
