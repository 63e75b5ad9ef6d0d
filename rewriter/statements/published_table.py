"""Statements on published answers, the only changes that an analyst can make: recognised by their words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NoReturn

from rewriter.refusal import Refusal
from rewriter.statements import lexer
from rewriter.statements.lexer import Token, statement_tokens
from rewriter.statements.short_texts import remembered
from rewriter.statements.utility_statement import closing, name_of

SCHEMA = "published"
PublicationKind = Literal["create", "drop", "rename", "comment", "schema"]
_QUERY = frozenset({"SELECT", "WITH", "VALUES", "TABLE", "("})
_FORMS = "CREATE TABLE published.name AS SELECT ..., ALTER TABLE published.name RENAME TO other, COMMENT ON, DROP TABLE"


@dataclass(frozen=True)
class Publication:
    """A statement on tables of the schema `published`.

    Attributes:
        kind: what it does.
        names: the tables, without their schema.
        lenient: it has IF EXISTS or IF NOT EXISTS.
        query, offset: the query of a new table, and where in the text it begins.
        other: the new name of a renamed table.
        column: the column that a comment is on, None for the table itself.
        comment: the text, None to remove it.
    """

    kind: PublicationKind
    names: tuple[str, ...] = ()
    lenient: bool = False
    query: str = ""
    offset: int = 0
    other: str = ""
    column: str | None = None
    comment: str | None = None


@remembered
def publication(text: str) -> Publication | None:
    """Reads a statement that writes; None where it is not about the schema `published`.

    Raises Refusal: 0A000 for what cannot be done there, 42601 for what cannot be read.

    >>> publication('create table "dpproxy"."published"."daily" as (select 1)').query
    'select 1'
    >>> publication("ALTER TABLE published.a RENAME TO b").other
    'b'
    >>> publication("DROP TABLE people") is None
    True
    """
    reader = _WordReader(text, statement_tokens(text))
    if not reader.about_published():
        return None
    match reader.words(2):
        case ["CREATE", "TABLE"]:
            return reader.create()
        case ["CREATE", "SCHEMA"]:
            return reader.schema()
        case ["DROP", "TABLE"]:
            return reader.drop()
        case ["ALTER", "TABLE"]:
            return reader.rename()
        case ["COMMENT", "ON"]:
            return reader.comment()
        case ["CREATE", "VIEW" | "OR" | "MATERIALIZED"]:
            raise Refusal(
                "0A000",
                "published answers are tables: a view would run its query each time it is read",
                hint="Publish a table: CREATE TABLE published.name AS, and the query; in dbt materialized='table'.",
                position=1,
            )
    reader.refuse()


class _WordReader:
    """The words of one statement, read from left to right."""

    def __init__(self, text: str, found: list[Token]) -> None:
        self._text, self._found, self._at = text, found, 0

    def about_published(self) -> bool:
        """Whether the schema is named: before a dot, or as a schema itself."""
        named = [n for n, t in enumerate(self._found) if self._name(t) == SCHEMA]
        dotted = any(self._word(n + 1) == "." for n in named)
        return dotted or (self._word(1) == "SCHEMA" and bool(named))

    def words(self, count: int) -> list[str]:
        """The next words, read."""
        self._at += count
        return [self._word(n) for n in range(self._at - count, self._at)]

    def create(self) -> Publication:
        """CREATE TABLE ... AS; PostgreSQL's grammar checks everything around its query."""
        lenient = self._skip("IF", "NOT", "EXISTS")
        name = self._table()
        if not self._skip("AS"):
            self.refuse("a published table is created AS a query, which also names its columns")
        end = len(self._found)
        if [self._word(n) for n in range(end - 3, end)] == ["WITH", "NO", "DATA"]:
            self.refuse("a published table holds an answer: WITH NO DATA it would have none")
        if [self._word(n) for n in range(end - 2, end)] == ["WITH", "DATA"]:
            end -= 2
        body = self._found[self._at : end]
        while len(body) > 1 and body[0].text == "(" and closing(body, 0) == len(body) - 1:
            body = body[1:-1]
        if not body or body[0].word not in _QUERY:
            self.refuse("a published table holds the answer to a SELECT")
        if any(token.kind is lexer.TokenKind.PARAMETER for token in body):
            raise Refusal(
                "42P02", "there is no parameter $1", hint="A published table keeps its text: write the value."
            )
        start = body[0].start
        return Publication("create", (name,), lenient, self._text[start : body[-1].end], start)

    def schema(self) -> Publication:
        """CREATE SCHEMA IF NOT EXISTS published, which is always there."""
        if not (self._skip("IF", "NOT", "EXISTS") and self._take() == SCHEMA and self._done()):
            raise Refusal(
                "42P06",
                f'schema "{SCHEMA}" already exists',
                hint=f"Write `CREATE SCHEMA IF NOT EXISTS {SCHEMA}`.",
            )
        return Publication("schema", (), True)

    def drop(self) -> Publication:
        """DROP TABLE [IF EXISTS] a, b [CASCADE]: nothing depends on a published table."""
        lenient = self._skip("IF", "EXISTS")
        names = [self._table()]
        while self._skip(","):
            names.append(self._table())
        self._skip("CASCADE") or self._skip("RESTRICT")
        self._end()
        return Publication("drop", tuple(dict.fromkeys(names)), lenient)

    def rename(self) -> Publication:
        """ALTER TABLE [IF EXISTS] a RENAME TO b."""
        lenient = self._skip("IF", "EXISTS")
        name = self._table()
        if not self._skip("RENAME", "TO"):
            self.refuse()
        other = self._take()
        self._end()
        return Publication("rename", (name,), lenient, other=other)

    def comment(self) -> Publication:
        """COMMENT ON TABLE a or COLUMN a.b IS a literal or NULL."""
        column = None
        if self._skip("TABLE"):
            name = self._table()
        elif self._skip("COLUMN"):
            parts = self._parts()
            name, column = self._in_schema(parts[:-1]), parts[-1]
        else:
            self.refuse()
        if not self._skip("IS"):
            self.refuse()
        said = self._found[self._at] if self._at < len(self._found) else None
        value = said.value if said is not None else None
        if said is None or (value is None and said.word != "NULL"):
            self.refuse("a comment is a plain literal, '...' or $$...$$, or NULL")
        self._at += 1
        self._end()
        return Publication("comment", (name,), column=column, comment=value or None)

    def refuse(
        self, message: str = "only tables can be published, renamed, commented on and dropped"
    ) -> NoReturn:
        """0A000 for what is not done in this schema."""
        raise Refusal("0A000", message, hint=f"In the schema {SCHEMA}: {_FORMS}", position=1)

    def _table(self) -> str:
        return self._in_schema(self._parts())

    def _in_schema(self, parts: list[str]) -> str:
        if len(parts) not in (2, 3) or parts[-2] != SCHEMA:
            self.refuse(f"only tables of the schema {SCHEMA} can be written, by their full name")
        return parts[-1]

    def _parts(self) -> list[str]:
        parts = [self._take()]
        while self._skip("."):
            parts.append(self._take())
        return parts

    def _take(self) -> str:
        name = self._name(self._found[self._at]) if self._at < len(self._found) else None
        if name is None:
            where = self._found[self._at].start + 1 if self._at < len(self._found) else None
            raise Refusal(
                "42601",
                "expected a name of at most 63 bytes",
                hint='Write it plainly or in "...".',
                position=where,
            )
        self._at += 1
        return name

    def _skip(self, *words: str) -> bool:
        here = [self._word(self._at + n) for n in range(len(words))]
        if here != list(words):
            return False
        self._at += len(words)
        return True

    def _end(self) -> None:
        if not self._done():
            self.refuse()

    def _done(self) -> bool:
        return self._at == len(self._found)

    def _word(self, number: int) -> str:
        """A word in upper case as it is written, so that a quoted name is no keyword."""
        if not 0 <= number < len(self._found):
            return ""
        return self._found[number].word

    def _name(self, token: Token) -> str | None:
        return name_of(token)
