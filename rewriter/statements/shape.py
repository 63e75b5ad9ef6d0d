"""What a statement is like, without what could be of a person: constants, comments, names that nobody declared."""

from __future__ import annotations

from collections.abc import Container, Iterator

from rewriter.refusal import Refusal
from rewriter.statements.lexer import RESERVED, Token, TokenKind, tokens

MOST_TOKENS, MOST_CHARACTERS = 200, 500
_HARMLESS = (
    "between by century current date day decade double dow doy epoch escape exists explain extract filter first "
    "following groups hour ignore interval isodow isoyear last minute month next no nulls over partition preceding "
    "precision quarter range recursive respect row rows second set sets show text time timestamp timestamptz unbounded "
    "values week within without year zone"
)
_WORDS = RESERVED | frozenset(_HARMLESS.split())
"""Words of SQL, which nobody is called."""
_CONSTANTS = (TokenKind.TEXT, TokenKind.CODED, TokenKind.NUMBER, TokenKind.PARAMETER)


def shape(text: str, known: Container[str]) -> str:
    """A statement on one line: `?` for constants and lists of them, `_` for names that `known` lacks.

    The beginning of a long one; "" for a text that cannot be read. A word before a parenthesis is a function's name.

    >>> shape("SELECT p.Age, count(*) -- Ann\\nFROM t AS p WHERE name IN ('Ann', 'Bo') AND x > 3.5", {"t", "age", "x"})
    'select _.age, count(*) from t as _ where _ in (?) and x > ?'
    """
    try:
        found = tokens(text)
    except Refusal:
        return ""
    said = "".join(_pieces(found[:MOST_TOKENS], known)).strip()
    cut = len(said) > MOST_CHARACTERS or len(found) > MOST_TOKENS
    return f"{said[: MOST_CHARACTERS - 2]} …" if cut else said


def _pieces(found: tuple[Token, ...], known: Container[str]) -> Iterator[str]:
    """Each token with the blank before it."""
    before, listed = "(", False
    for place, token in enumerate(found):
        following = found[place + 1].text if place + 1 < len(found) else ""
        constant = token.kind in _CONSTANTS
        if listed and (constant or (token.text == "," and _is_constant(found, place + 1))):
            continue
        listed = constant
        said = "?" if constant else _said(token, following, known)
        tight = before in ("(", ".", "[", "::") or said in (",", ")", ".", ";", "]", "[", "::")
        called = (
            said == "(" and place > 0 and found[place - 1].kind is TokenKind.WORD and before not in _WORDS
        )
        yield said if tight or called else f" {said}"
        before = said


def _is_constant(found: tuple[Token, ...], place: int) -> bool:
    return place < len(found) and found[place].kind in _CONSTANTS


def _said(token: Token, following: str, known: Container[str]) -> str:
    name = token.name
    if name is None:
        return token.text
    if token.kind is TokenKind.WORD and (name in _WORDS or following == "("):
        return name
    if name not in known:
        return "_"
    return name if token.kind is TokenKind.WORD else token.text
