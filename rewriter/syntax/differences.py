"""The parts of a text one by one in our spelling, to find the one that PostgreSQL reads otherwise.

In:  SELECT AVG(age * 2 ^ 2) FROM users WHERE age > 3
Out: `AVG(age * 2 ^ 2)` and, within it, `age * 2 ^ 2`, then `users` and `age > 3`, each as our tree of it is written
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from rewriter.refusal import Refusal
from rewriter.statements.lexer import Token, statement_tokens
from rewriter.syntax.parse import parse_query
from rewriter.syntax.round_trip import spellings

_CLAUSES = (
    "with select distinct from join inner left right full cross natural on using where group by having order limit "
    "offset fetch union intersect except all over window partition rows range"
)
_CONNECTIVES = "and or not case when then else end asc desc nulls"


@dataclass(frozen=True)
class Stretch:
    """A part of a text from `start` to `end`."""

    start: int
    end: int

    def spellings(self, text: str) -> Iterator[str]:
        """The whole text, with this part as our tree of it is written; nothing where it is no expression by itself.

        >>> list(Stretch(7, 12).spellings("SELECT  a+ b FROM t"))
        ['SELECT a + b FROM t']
        """
        try:
            tree = parse_query(f"SELECT {text[self.start : self.end]}")
        except Refusal:
            return
        for spelling in spellings(tree):
            yield text[: self.start] + spelling.removeprefix("SELECT ") + text[self.end :]

    def holds(self, other: Stretch) -> bool:
        """Whether another part is within this one."""
        return self.start <= other.start and other.end <= self.end


def stretches(text: str) -> Iterator[Stretch]:
    """The parts of a text between commas and keywords, each before those within it.

    >>> text = "SELECT a, f(b + 1, 2) FROM t WHERE c AND d"
    >>> [text[s.start : s.end] for s in stretches(text)]
    ['a', 'f(b + 1, 2)', 'b + 1', '2', 't', 'c AND d', 'c', 'd']
    """
    return _within(statement_tokens(text))


def _within(tokens: Sequence[Token]) -> Iterator[Stretch]:
    for clause in _between(tokens, _CLAUSES):
        parts = [*_between(clause, _CONNECTIVES)]
        yield Stretch(clause[0].start, clause[-1].end)
        for part in parts:
            if part != clause:
                yield Stretch(part[0].start, part[-1].end)
            for opened, closed in _parentheses(part):
                yield from _within(part[opened + 1 : closed])


def _between(tokens: Sequence[Token], words: str) -> Iterator[Sequence[Token]]:
    """What stands between commas and words outside of parentheses."""
    inside = {place for opened, closed in _parentheses(tokens) for place in range(opened, closed + 1)}
    marks = {",", *words.upper().split()}
    ends = [n for n, t in enumerate(tokens) if n not in inside and t.word in marks]
    yield from (part for a, b in pairwise((-1, *ends, len(tokens))) if (part := tokens[a + 1 : b]))


def _parentheses(tokens: Sequence[Token]) -> Iterator[tuple[int, int]]:
    """The places of the outermost pairs of parentheses and brackets."""
    opened: list[int] = []
    for place, token in enumerate(tokens):
        if token.text in ("(", "["):
            opened.append(place)
        elif token.text in (")", "]") and opened:
            start = opened.pop()
            if not opened:
                yield start, place
