"""PostgreSQL's dialect for reading clients' texts: function calls keep the names as written."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from inspect import signature
from typing import ClassVar

from sqlglot import TokenType, exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.dialects.postgres import Postgres
from sqlglot.parsers.postgres import PostgresParser

from rewriter.effort import spend
from rewriter.statements.lexer import PARAMETER_MARK

CALLED = "called"
"""The mark of a function call: its name as the client wrote it."""

UNKNOWN = "unknown"
"""The mark of IS UNKNOWN, which is IS NULL to the parser."""

WRITTEN = "written"
"""The mark of what PostgreSQL keeps apart from another spelling: of date_trunc and to_char the unit or format as the
client wrote it, which may be in lower case, of timezone(zone, x) and age(x) their names."""

BY_THEIR_NAMES = ("TO_TIMESTAMP", "TO_DATE", "TO_HEX", "DATE_ADD", "LOG10", "DIV", "IFNULL")
"""Functions that the parser would take for others, or for one without its name."""


STRINGS = (exp.ByteString, exp.RawString)


def plain_type(node: exp.DataType) -> bool:
    """Put the type that it is in the place of pg_catalog's name; whether it had one."""
    kind = node.args.get("kind")
    if isinstance(kind, exp.Dot) and kind.this.name == "pg_catalog" and not kind.expression.args["quoted"]:
        node.replace(exp.DataType.build(kind.expression.name, dialect="postgres"))
        return True
    return False


TO_CHARS = 1
"""The place of a format among to_char's arguments. The parser's signs would not keep the letters of all of them."""

_FORMAT = re.compile(r'(YYYY|yyyy|MM|mm|DDD|ddd|DD|dd|HH24|hh24|MI|mi|SS|ss|[^A-Za-z"\\])*')
"""Formats that mean the same in capitals: each keyword in letters of one case, and no quoted text."""


def _in_capitals(place: int, build: Callable[..., exp.Expr]) -> Callable[..., exp.Expr]:
    """A builder of date_trunc or to_char that reads its unit or format, at `place`, in capitals, and keeps the text
    where PostgreSQL means the same by both."""
    takes_dialect = "dialect" in signature(build).parameters

    def built(args: list[exp.Expr], dialect: Dialect) -> exp.Expr:
        read = partial(build, dialect=dialect) if takes_dialect else build
        text = args[place] if place < len(args) else None
        if not (isinstance(text, exp.Literal) and text.is_string):
            return read(args)
        written = text.this
        alike = _FORMAT.fullmatch(written) is not None
        if place == TO_CHARS and not alike and "%" not in written:
            return exp.TimeToStr(this=args[0], format=text)
        if alike:
            args = [*args[:place], exp.Literal.string(written.upper()), *args[place + 1 :]]
        node = read(args)
        if isinstance(node, (exp.TimestampTrunc, exp.DateTrunc)):
            alike = written.lower() == node.args["unit"].name.lower()
        if alike:
            node.meta[WRITTEN] = written
        return node

    return built


def _binned(args: list[exp.Expr]) -> exp.Expr:
    """date_bin, whose origin the parser would take for a unit."""
    if len(args) != 3:
        return exp.Anonymous(this="date_bin", expressions=args)
    return exp.DateBin(this=args[0], expression=args[1], origin=args[2])


def _zone_first(args: list[exp.Expr]) -> exp.Expr:
    """timezone(zone, x), which is x AT TIME ZONE zone."""
    if len(args) != 2:
        return exp.Anonymous(this="timezone", expressions=args)
    node = exp.AtTimeZone(this=args[1], zone=args[0])
    node.meta[WRITTEN] = "timezone"
    return node


def _until_today(args: list[exp.Expr]) -> exp.Expr:
    """age(x), which is age(CURRENT_DATE, x)."""
    if len(args) != 1:
        return exp.Anonymous(this="age", expressions=args)
    node = exp.Anonymous(this="age", expressions=[exp.CurrentDate(), *args])
    node.meta[WRITTEN] = "age"
    return node


_ATOMS = frozenset({TokenType.VAR, TokenType.IDENTIFIER, TokenType.NUMBER, TokenType.STRING})
_LAST = frozenset(
    {
        *(TokenType.SENTINEL, TokenType.COMMA, TokenType.R_PAREN, TokenType.ALIAS, TokenType.FROM),
        *(TokenType.WHERE, TokenType.GROUP_BY, TokenType.HAVING, TokenType.ORDER_BY, TokenType.ASC),
        *(TokenType.DESC, TokenType.LIMIT, TokenType.WHEN, TokenType.THEN, TokenType.ELSE, TokenType.END),
    }
)
"""What may follow an expression, and is no operator."""
_OPERAND = _LAST | {TokenType.AND, TokenType.OR, TokenType.EQ, TokenType.NEQ, TokenType.LTE, TokenType.GTE}
"""What may follow what is compared. The parser knows << by its two signs, so that < is left out."""


class Reading(Postgres):
    """The dialect of `parse`; texts are written in PostgreSQL's own.

    >>> Reading().parse("SELECT date_part('year', pow(x, 2))")[0].sql("postgres")
    "SELECT DATE_PART('year', POWER(x, 2))"
    """

    ORIGINAL_NAME_META_KEY = CALLED

    class Tokenizer(Postgres.Tokenizer):
        SINGLE_TOKENS: ClassVar = {**Postgres.Tokenizer.SINGLE_TOKENS, PARAMETER_MARK: TokenType.PARAMETER}

    class Parser(PostgresParser):
        FUNCTIONS: ClassVar = {
            **{n: f for n, f in PostgresParser.FUNCTIONS.items() if n not in BY_THEIR_NAMES},
            "DATE_TRUNC": _in_capitals(0, PostgresParser.FUNCTIONS["DATE_TRUNC"]),
            "DATE_BIN": _binned,
            "TIMEZONE": _zone_first,
            "AGE": _until_today,
            "EVERY": exp.LogicalAnd.from_arg_list,
            "TO_CHAR": _in_capitals(TO_CHARS, PostgresParser.FUNCTIONS["TO_CHAR"]),
        }
        FUNCTION_PARSERS: ClassVar = {
            n: f for n, f in PostgresParser.FUNCTION_PARSERS.items() if n != "DATE_PART"
        }

        def _parse_statement(self) -> exp.Expr | None:
            # The parser would try to read an expression first, which a SELECT never is.
            if self._curr.token_type is TokenType.SELECT:
                return self._parse_query_modifiers(self._parse_select())
            return super()._parse_statement()

        def _parse_disjunction(self) -> exp.Expr | None:
            return self._parse_only(_LAST) or super()._parse_disjunction()

        def _parse_range(self, this: exp.Expr | None = None, parse_is: bool = False) -> exp.Expr | None:
            return (this is None and self._parse_only(_OPERAND)) or super()._parse_range(this, parse_is)

        def _parse_only(self, before: frozenset[TokenType]) -> exp.Expr | None:
            """A name or a constant right before one of these, as most operands are: what has a higher precedence is not
            looked for, level by level."""
            if self._next.token_type in before and self._curr.token_type in _ATOMS:
                return self._parse_atom()
            return None

        def _advance(self, times: int = 1) -> None:
            # The parser tries some constructs in several ways, each of which tries nested constructs in several ways.
            spend()
            super()._advance(times)

        def _parse_bracket(self, this: exp.Expr | None = None) -> exp.Expr | None:
            if this is not None and self._curr.token_type == TokenType.L_BRACKET:
                # Everything before a subscript is read again for each subscript.
                spend(self._index)
            return super()._parse_bracket(this)

        def _parse_null(self) -> exp.Expr | None:
            found = super()._parse_null()
            if isinstance(found, exp.Null) and self._prev.token_type == TokenType.UNKNOWN:
                found.meta[UNKNOWN] = True
            return found
