"""PostgreSQL's tokens, and a text cut into its statements at them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import ClassVar

from sqlglot.dialects.postgres import Postgres
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from rewriter.refusal import Refusal

MAX_TEXT = 16 * 1024
MAX_RELAYED = 64 * 1024
"""Of a text that the front reads by itself: drivers' own statements on catalogs are longer than people's."""
MAX_NESTING = 100


class _Tokenizer(Postgres.Tokenizer):
    """PostgreSQL's tokens throughout: sqlglot would take the rest of a DECLARE or EXPLAIN as one string."""

    COMMANDS: ClassVar[set[TokenType]] = set()


def check_length(text: str, most: int) -> None:
    """Raises Refusal (54000) for a text of more than `most` bytes."""
    if len(text) > most or len(text.encode(errors="replace")) > most:
        raise Refusal(
            "54000",
            f"statement is longer than {most // 1024} kB",
            hint="Send a shorter statement, for example with fewer constants in IN (...).",
        )


def tokens(text: str, most: int = MAX_RELAYED) -> list[Token]:
    """The tokens of a text of at most `most` bytes without its comments.

    Raises Refusal for what is too long, too deep or unreadable.
    """
    check_length(text, most)
    found = _read(text)
    depth = 0
    for token in found:
        depth += (token.token_type is TokenType.L_PAREN) - (token.token_type is TokenType.R_PAREN)
        if depth > MAX_NESTING:
            raise Refusal(
                "54001", f"parentheses are nested deeper than {MAX_NESTING}", position=token.start + 1
            )
    return found


def _read(text: str) -> list[Token]:
    try:
        return _Tokenizer().tokenize(text)
    except (SqlglotError, RecursionError, ValueError) as error:
        raise Refusal(
            "42601", "the statement could not be read", hint="Check quotes and comments."
        ) from error


@dataclass(frozen=True)
class Piece:
    """One statement of a text, where it begins there, in characters, and its first word in upper case."""

    text: str
    offset: int
    word: str


@lru_cache(maxsize=1000)
def pieces(text: str, most: int = MAX_RELAYED) -> tuple[Piece, ...]:
    """The statements of a text of at most `most` bytes, without the semicolons between; one alone is the text as it is.

    Raises Refusal as `tokens` does.

    >>> [(one.text, one.offset) for one in pieces("BEGIN; SELECT ';' ;")]
    [('BEGIN', 0), ("SELECT ';'", 7)]
    >>> pieces("select 1;")
    (Piece(text='select 1;', offset=0, word='SELECT'),)
    """
    found: list[list[Token]] = [[]]
    for token in tokens(text, most):
        if token.token_type is TokenType.SEMICOLON:
            found.append([])
        else:
            found[-1].append(token)
    statements = [one for one in found if one]
    if len(statements) == 1:
        return (Piece(text, 0, statements[0][0].text.upper()),)
    return tuple(
        Piece(text[one[0].start : one[-1].end + 1], one[0].start, one[0].text.upper()) for one in statements
    )


def substitute(text: str, values: Mapping[int, str]) -> str:
    """A text of our own with expressions in place of its parameters; raises Refusal 42P02 where one is missing.

    >>> substitute("SELECT $1, '$1', $2", {1: "now()", 2: "3"})
    "SELECT now(), '$1', 3"
    """
    found = _read(text)
    parts, done = [], 0
    for mark, number in pairwise(found):
        if mark.token_type is TokenType.PARAMETER and number.start == mark.end + 1:
            if int(number.text) not in values:
                raise Refusal("42P02", f"there is no parameter ${number.text}")
            parts += [text[done : mark.start], values[int(number.text)]]
            done = number.end + 1
    return "".join([*parts, text[done:]])
