"""The pieces that expressions are built from: constants, guards, and values that may be computed under guards only."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from rewriter.ir.trees import case, cast, copied, data_type, func
from rewriter.ir.types import Type, type_named
from rewriter.policy import Column
from rewriter.scalar.timestamps import written_stamp

FIRST, LAST = "0001-01-01", "9999-12-31"
LONGEST_ITEM = 64
"""Characters of a text that is counted with DISTINCT or hashed with others."""


@dataclass(frozen=True)
class Guarded:
    """A value that may be computed only if its guards hold. A guard may be evaluated only if those before it hold."""

    value: exp.Expr
    guards: tuple[exp.Expr, ...] = ()

    def closed(self) -> exp.Expr:
        """The value, or NULL where it may not be computed."""
        found = self.value
        for guard in reversed(self.guards):
            found = case((guard, found))
        return found


def number(value: int) -> exp.Expr:
    """A whole constant.

    >>> number(-3).sql()
    '-3'
    """
    literal = exp.Literal.number(abs(value))
    return exp.Neg(this=literal) if value < 0 else literal


def column_type(column: Column, dialect: str = "postgres") -> exp.DataType:
    """The type of a column's constants: its own, of exact numbers that of cells.

    >>> [column_type(Column("x", name)).sql("duckdb") for name in ("integer", "numeric(9,2)", "character varying(9)")]
    ['INT', 'DECIMAL(38, 10)', 'TEXT']
    """
    found = type_named(column.type)
    return data_type(found.cell) if found is Type.NUMERIC else data_type(found.postgres, "postgres")


def calendar(value: exp.Expr) -> exp.Expr:
    """Whether a date or timestamp is of the years 1 to 9999."""
    last = cast(exp.Literal.string(f"{LAST} 23:59:59.999999"), "TIMESTAMP")
    first = cast(exp.Literal.string(FIRST), "TIMESTAMP")
    return exp.Between(this=copied(value), low=first, high=last)


def dates(value: exp.Expr) -> exp.Expr:
    """Whether a date is of the years 1 to 9999."""
    ends = [cast(exp.Literal.string(text), "DATE") for text in (FIRST, LAST)]
    return exp.Between(this=copied(value), low=ends[0], high=ends[1])


def double(value: exp.Expr, narrow: bool) -> exp.Expr:
    """A bounded number as a double; `narrow`: the cast raises for numbers that are closer to 0 than any double."""
    return cast(func("ROUND", value, number(40)) if narrow else value, "DOUBLE")


def when(guard: exp.Expr, value: exp.Expr) -> exp.Case:
    """`value` where the guard holds, else NULL."""
    return case((guard, value))


def at_most(value: exp.Expr, most: int) -> exp.Expr:
    return exp.LTE(this=value, expression=number(most))


def digested(text: exp.Expr) -> exp.Expr:
    """A text, or the digest of one that is longer, to be compared or hashed and nothing else.

    >>> digested(exp.column("a")).sql("postgres")
    'CASE WHEN LENGTH(a) <= 64 THEN a ELSE MD5(a) END'
    """
    short = exp.LTE(this=exp.Length(this=text), expression=number(LONGEST_ITEM))
    return case((short, copied(text)), otherwise=exp.MD5(this=copied(text)))


def divided(left: exp.Expr, right: exp.Expr) -> exp.Expr:
    """A division that is printed as one: sqlglot would cast to double otherwise.

    >>> divided(exp.column("a"), exp.column("b")).sql("postgres")
    'a / b'
    """
    return exp.Div(this=left, expression=right, typed=True)


def operation(node: exp.Expr, left: exp.Expr, right: exp.Expr) -> exp.Expr:
    """The operation of `node` over other operands."""
    return divided(left, right) if isinstance(node, exp.Div) else type(node)(this=left, expression=right)


def bin_arguments(stamp: exp.Expr, stride: int, origin: int) -> list[exp.Expr]:
    """What the engines' own functions for bins of a time take."""
    since = written_stamp(origin, 6)
    return [
        cast(exp.Literal.string(f"{stride} microseconds"), "INTERVAL"),
        stamp,
        cast(exp.Literal.string(since), "TIMESTAMP"),
    ]


def collated(value: exp.Expr, name: str) -> exp.Expr:
    """A text under a collation.

    >>> collated(exp.column("x"), "C").sql("postgres")
    'x COLLATE "C"'
    """
    return exp.Collate(this=value, expression=exp.to_identifier(name, quoted=True))
