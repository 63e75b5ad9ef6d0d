"""PostgreSQL's tokens, by the rules of its own scanner (scan.l), and the split of a text into its statements.

Why: docs/decisions/strings-of-statements.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from functools import lru_cache
from typing import NamedTuple

from rewriter.refusal import Refusal
from rewriter.statements.short_texts import remembered

MAX_TEXT = 64 * 1024
MAX_NESTING = 100
PARAMETER_MARK = "\x01"
"""Stands for the $ of a parameter where sqlglot reads a text; PostgreSQL reads no text with it outside of quotes."""

_WORDS = (
    "all analyse analyze and any array as asc asymmetric authorization binary both case cast check collate collation "
    "column concurrently constraint create cross current_catalog current_date current_role current_schema current_time "
    "current_timestamp current_user default deferrable desc distinct do else end except false fetch for foreign freeze "
    "from full grant group having ilike in initially inner intersect into is isnull join lateral leading left like "
    "limit localtime localtimestamp natural not notnull null offset on only or order outer overlaps placing primary "
    "references returning right select session_user similar some symmetric system_user table tablesample then to "
    "trailing true union unique user using variadic verbose when where window with"
)
RESERVED = frozenset(_WORDS.split())
"""PostgreSQL's words that are no names of tables or columns without quotes."""


class TokenKind(Enum):
    """The kind of a token. CODED: a literal or name whose value differs from its text, such as E'', U&"" and x''."""

    WORD = auto()
    NAME = auto()
    TEXT = auto()
    CODED = auto()
    NUMBER = auto()
    PARAMETER = auto()
    SIGN = auto()


class Token(NamedTuple):
    """A token: `text` as it is written, and the place of its first character."""

    kind: TokenKind
    text: str
    start: int

    @property
    def end(self) -> int:
        """The place behind its last character."""
        return self.start + len(self.text)

    @property
    def word(self) -> str:
        """In upper case, as keywords are compared; a quoted name keeps its quotes, so that it is none."""
        return self.text.upper() if self.text.isascii() else self.text

    @property
    def name(self) -> str | None:
        """The name as PostgreSQL keeps it, but of any length; None for tokens that are no names."""
        if self.kind is TokenKind.WORD:
            ascii_only = self.text.isascii()
            return (
                self.text.lower()
                if ascii_only
                else "".join(c.lower() if c.isascii() else c for c in self.text)
            )
        return self.text[1:-1].replace('""', '"') if self.kind is TokenKind.NAME else None

    @property
    def value(self) -> str | None:
        """The value of a plain literal, '...' or $$...$$; None for any other token."""
        if self.kind is not TokenKind.TEXT:
            return None
        if self.text[0] == "'":
            return self.text[1:-1].replace("''", "'")
        tag = self.text.index("$", 1) + 1
        return self.text[tag:-tag]


# The classes of scan.l, whose bytes from \200 on are all of what is not ASCII.
_WORD = r"[A-Za-z_\x80-\U0010ffff][A-Za-z0-9_$\x80-\U0010ffff]*+"
_TAG = r"\$(?:[A-Za-z_\x80-\U0010ffff][A-Za-z0-9_\x80-\U0010ffff]*+)?\$"
_DIGITS = r"[0-9](?:_?[0-9])*+"
_GOES_ON = r"(?:[ \t\f\v]|--[^\n\r]*+)*+[\n\r](?:[ \t\n\r\f\v]++|--[^\n\r]*+[\n\r])*+'"
"""Between the parts of one literal: blanks with a line's end in them."""
_PLAIN = r"(?:[^']++|'')*+'"
_ESCAPED = r"(?:[^'\\]++|''|\\.)*+'"
_TOKEN = re.compile(
    rf"""(?: [ \t\n\r\f\v]++ | --[^\n\r]*+ | /\*(?:[^*/]++|\*(?!/)|/(?!\*))*+\*/ )*+ (?:
      (?P<WORD> (?![bBeEuUxX]) {_WORD})
    | (?P<MARK> [,()\[\];] )
    | (?P<CODED> (?: [eE]'{_ESCAPED}(?:{_GOES_ON}{_ESCAPED})*+ | [uU]&'{_PLAIN}(?:{_GOES_ON}{_PLAIN})*+
        | [bBxX]'[^']*+'(?:{_GOES_ON}[^']*+')*+ | '{_PLAIN}(?:{_GOES_ON}{_PLAIN})++ )(?!{_GOES_ON})
        | [uU]&"(?:[^"]++|"")*+" )
    | (?P<open> [eEbBxX]' | [uU]&['"] )
    | (?P<OTHER_WORD> {_WORD})
    | (?P<NUMBER> (?: 0(?:[xX](?:_?[0-9A-Fa-f])++|[oO](?:_?[0-7])++|[bB](?:_?[01])++)
        | (?:{_DIGITS}(?:\.(?!\.)(?:{_DIGITS})?)?|\.{_DIGITS})(?:[eE][+-]?{_DIGITS})? ) (?:{_WORD})?)
    | (?P<PARAMETER> \$[0-9]++(?:{_WORD})?)
    | (?P<TEXT> '{_PLAIN}(?!{_GOES_ON}) | (?P<tag>{_TAG}).*?(?P=tag))
    | (?P<NAME> "(?:[^"]++|"")*+")
    | (?P<open_too> ['"] | /\* | {_TAG})
    | (?P<SIGN> (?:(?!--|/\*)[~!@\#^&|`?+\-*/%<>=])++ | :: | :=? | \.\.? | . )
    | (?P<end> \Z) )""",
    re.VERBOSE | re.DOTALL,
)
_KINDS = {kind.name: kind for kind in TokenKind} | {"MARK": TokenKind.SIGN, "OTHER_WORD": TokenKind.WORD}
_OPERATOR_SIGNS = frozenset("~!@#^&|`?%")
_COMMENT_MARKS = re.compile(r"/\*|\*/")


def _check_length(text: str, most: int) -> None:
    """Raises Refusal (54000) for a text of more than `most` bytes."""
    if len(text) > most or len(text.encode(errors="replace")) > most:
        raise Refusal(
            "54000",
            f"statement is longer than {most // 1024} kB",
            hint="Send a shorter statement, for example with fewer constants in IN (...).",
        )


def tokens(text: str, most: int = MAX_TEXT) -> tuple[Token, ...]:
    """The tokens of a text of at most `most` bytes without its comments.

    Raises Refusal for a text that is too long, too deeply nested or unreadable.

    >>> [token.text for token in tokens("SELECT $1,$2 #-- a comment")]
    ['SELECT', '$1', ',', '$2', '#']
    """
    _check_length(text, most)
    return _tokens(text)


@lru_cache(maxsize=8)
def _tokens(text: str) -> tuple[Token, ...]:
    """Cached, because several passes read the same statement one after the other."""
    found = tuple(_scanned(text))
    depth = 0
    for token in found:
        if token.text == "(":
            depth += 1
            if depth > MAX_NESTING:
                raise Refusal(
                    "54001", f"parentheses are nested deeper than {MAX_NESTING}", position=token.start + 1
                )
        elif token.text == ")":
            depth -= 1
    return found


def statement_tokens(text: str) -> list[Token]:
    """The tokens of one statement, without the semicolons; raises Refusal as `tokens` does."""
    return [token for token in tokens(text) if token.text != ";"]


def _scanned(text: str) -> list[Token]:
    found: list[Token] = []
    at, add, new = 0, found.append, tuple.__new__
    while at < len(text):
        for match in _TOKEN.finditer(text, at):
            group, at = match.lastgroup or "end", match.end()
            if group == "end":
                return found
            written = match[group]
            if group in ("open", "open_too"):
                at = _comment_end(text, at - len(written))
                break
            if group == "SIGN" and len(written) > 1:
                found += _signs(written, at - len(written))
            else:
                add(new(Token, (_KINDS[group], written, at - len(written))))
    return found


def _signs(signs: str, start: int) -> Iterator[Token]:
    """An operator: one that ends with + or - has another sign in it that no operator of standard SQL has."""
    end = len(signs)
    while end > 1 and signs[end - 1] in "+-" and _OPERATOR_SIGNS.isdisjoint(signs[:end]):
        end -= 1
    yield Token(TokenKind.SIGN, signs[:end], start)
    for place in range(end, len(signs)):
        yield Token(TokenKind.SIGN, signs[place], start + place)


def _comment_end(text: str, start: int) -> int:
    """Where a comment with others in it ends; raises Refusal where it, or a literal or name, never does."""
    depth = 0
    for mark in _COMMENT_MARKS.finditer(text, start) if text.startswith("/*", start) else ():
        depth += 1 if mark[0] == "/*" else -1
        if depth == 0:
            return mark.end()
    raise Refusal(
        "42601",
        "a literal, a quoted name or a comment is not closed",
        hint="Check quotes and comments.",
        position=start + 1,
    )


@dataclass(frozen=True)
class Piece:
    """One statement of a text, where it begins there, in characters, and its first word in upper case."""

    text: str
    offset: int
    word: str


@remembered
def pieces(text: str, most: int = MAX_TEXT) -> tuple[Piece, ...]:
    """The statements of a text of at most `most` bytes, without the semicolons between; one alone is the text as it is.

    Raises Refusal as `tokens` does.

    >>> [(one.text, one.offset) for one in pieces("BEGIN; SELECT ';' ;")]
    [('BEGIN', 0), ("SELECT ';'", 7)]
    >>> pieces("select 1;")
    (Piece(text='select 1;', offset=0, word='SELECT'),)
    """
    found: list[list[Token]] = [[]]
    for token in tokens(text, most):
        if token.text == ";":
            found.append([])
        else:
            found[-1].append(token)
    statements = [one for one in found if one]
    if len(statements) == 1:
        return (Piece(text, 0, statements[0][0].word),)
    return tuple(Piece(text[one[0].start : one[-1].end], one[0].start, one[0].word) for one in statements)


def is_one_command(text: str) -> bool:
    """Whether no reading of a text makes more than one statement of it: nothing follows a semicolon.

    >>> is_one_command("SELECT 'a' ;\\n"), is_one_command("SELECT ';'"), is_one_command("")
    (True, False, True)
    """
    return ";" not in text.rstrip("; \t\n\r\f\v")


def readable(text: str) -> str:
    """A text without what sqlglot reads otherwise than PostgreSQL; nothing changes its place.

    sqlglot takes the `$1,$` of `$1,$2` for the beginning of a dollar quote, and knows no 0x1F and 1_000.
    Raises Refusal for a number that is too long in decimals, and as `tokens` does.

    >>> readable("SELECT 1_000 + 0x1F, '0x1F'")
    "SELECT 1000  + 31  , '0x1F'"
    """
    parts, done = [], 0
    for token in tokens(text, len(text) * 4):
        if token.kind is TokenKind.PARAMETER:
            read = PARAMETER_MARK + token.text[1:]
        elif token.kind is TokenKind.NUMBER and ("_" in token.text or token.text[1:2] in "xXoObB"):
            read = _decimal(token).ljust(len(token.text))
        else:
            continue
        parts += [text[done : token.start], read]
        done = token.end
    return "".join([*parts, text[done:]])


def _decimal(token: Token) -> str:
    """A number without underscores and in decimals, if that is not longer."""
    digits = token.text.replace("_", "")
    read = str(int(digits, 0)) if digits[1:2].isalpha() and digits[1] not in "eE" else digits
    if len(read) > len(token.text):
        raise Refusal("22003", "a number is out of range", position=token.start + 1)
    return read


def substitute(text: str, values: Mapping[int, str]) -> str:
    """A text of our own with expressions in place of its parameters; raises Refusal 42P02 where one is missing.

    >>> substitute("SELECT $1,'$1',$2", {1: "now()", 2: "3"})
    "SELECT now(),'$1',3"
    """
    parts, done = [], 0
    for token in _scanned(text):
        if token.kind is TokenKind.PARAMETER:
            number = int(token.text[1:])
            if number not in values:
                raise Refusal("42P02", f"there is no parameter ${number}")
            parts += [text[done : token.start], values[number]]
            done = token.end
    return "".join([*parts, text[done:]])
