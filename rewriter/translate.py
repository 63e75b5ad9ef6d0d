"""Expressions in DuckDB's terms: PostgreSQL's meaning, and no error that a row could decide.

A backend error would tell about the row that raised it, so what can raise is wrapped in TRY (NULL
instead of an error), and engine differences (integer division, LIKE's escape, modulo by zero) are
written out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from sqlglot import exp

from rewriter.dialect import CELL_TYPES
from rewriter.expression import COMPARISONS, Parameters, kind, operands, readable
from rewriter.literal import plain_constant
from rewriter.relation import Relation

TOTAL = (
    exp.Column,
    exp.Identifier,
    exp.Literal,
    exp.Boolean,
    exp.Null,
    exp.Parameter,
    exp.Paren,
    exp.And,
    exp.Or,
    exp.Not,
    exp.Is,
    exp.Like,
    exp.ILike,
    exp.Lower,
    exp.Upper,
    exp.Trim,
    exp.Length,
    exp.DPipe,
    exp.AggFunc,
    exp.Star,
    exp.Distinct,
)
"""What cannot raise, whatever the values of its parts."""

SMALL_NUMBER = re.compile(r"\d{1,15}(\.\d{1,10})?")
"""A constant that every integer can be compared with as a DECIMAL of 38 digits."""


def to_duckdb(node: exp.Expr, relation: Relation, parameters: Parameters) -> exp.Expr:
    """A base-form expression in DuckDB's terms: PostgreSQL's meaning, and NULL where PostgreSQL would raise.

    TRY cannot stand around an aggregate: `total` must hold of what is computed from aggregates.
    """
    written = _write(node, relation, parameters)
    if node.find(exp.AggFunc) is not None or total(node, relation, parameters):
        return written
    return exp.func("TRY", written)


def total(node: exp.Expr, relation: Relation, parameters: Parameters) -> bool:
    """Whether no value can make DuckDB raise in computing `node`; what aggregates are made of is left out."""
    if isinstance(node, COMPARISONS):
        if not readable(node, relation, parameters) or not _alike(operands(node), relation, parameters):
            return False
    elif not isinstance(node, TOTAL):
        return False
    elif isinstance(node, exp.AggFunc):
        return True
    return all(total(part, relation, parameters) for part in node.iter_expressions())


def _alike(operands: Sequence[exp.Expr], relation: Relation, parameters: Parameters) -> bool:
    """Whether comparing `operands` converts constants only, or numbers to DOUBLE."""
    small = [isinstance(o, exp.Literal) and SMALL_NUMBER.fullmatch(o.this) is not None for o in operands]
    kinds = {kind(o, relation, parameters) for o, s in zip(operands, small, strict=True) if not s}
    return alike(kinds - {"literal"})


def alike(kinds: set[str]) -> bool:
    """Whether values of `kinds` can be compared in DuckDB without a conversion that raises.

    >>> alike({"int", "float"}), alike({"int", "number"})
    (True, False)
    """
    return kinds <= {"int", "float"} or (len(kinds) == 1 and not kinds & {"number", "other"})


def _write(node: exp.Expr, relation: Relation, parameters: Parameters) -> exp.Expr:
    if isinstance(node, exp.Parameter):
        return plain_constant(parameters[int(node.name) - 1])
    if isinstance(node, exp.Query):
        return node.copy()
    if isinstance(node, exp.AggFunc) and not isinstance(node.this, (exp.Star, exp.Distinct)):
        return type(node)(this=to_duckdb(node.this, relation, parameters))
    if isinstance(node, exp.Distinct):
        return exp.Distinct(expressions=[to_duckdb(e, relation, parameters) for e in node.expressions])
    copy = node.copy()
    for key, value in node.args.items():
        if isinstance(value, exp.Expr):
            copy.set(key, _write(value, relation, parameters))
        elif isinstance(value, list):
            copy.set(key, [_write(v, relation, parameters) if isinstance(v, exp.Expr) else v for v in value])
    if isinstance(node, exp.Div):
        integers = kind(node, relation, parameters) == "int"
        divisor = exp.func("NULLIF", copy.expression, exp.Literal.number(0))
        return exp.paren((exp.IntDiv if integers else exp.Div)(this=copy.this, expression=divisor))
    if isinstance(node, exp.Mod):
        copy.set("expression", exp.func("NULLIF", copy.expression, exp.Literal.number(0)))
        return exp.paren(copy)
    if isinstance(node, (exp.Like, exp.ILike)):
        negate = copy.args.pop("negate", None)
        escaped = exp.Escape(this=copy, expression=exp.Literal.string("\\"))
        return exp.not_(exp.paren(escaped)) if negate else escaped
    if isinstance(node, exp.DPipe):
        return exp.DPipe(this=exp.cast(copy.this, "VARCHAR"), expression=exp.cast(copy.expression, "VARCHAR"))
    if isinstance(node, exp.Cast) and kind(node, relation, parameters) == "number":
        return exp.cast(copy.this, exp.DataType.build(CELL_TYPES["number"], dialect="duckdb"))
    if isinstance(node, exp.Substring):
        return _substring(copy)
    return copy


def _substring(node: exp.Expr) -> exp.Expr:
    """PostgreSQL's substring: positions before the first count, where DuckDB would count from the end."""
    start, length = node.args["start"], node.args.get("length")
    first = exp.case().when(
        exp.LT(this=start.copy(), expression=exp.Literal.number(1)), exp.Literal.number(1)
    )
    first = first.else_(start.copy())
    if length is None:
        return exp.Substring(this=node.this, start=first)
    before = exp.Sub(this=first.copy(), expression=exp.paren(start.copy()))
    left = exp.Sub(this=exp.paren(length.copy()), expression=exp.paren(before))
    size = exp.Greatest(this=left, expressions=[exp.Literal.number(0)], ignore_nulls=True)
    asked = exp.GTE(this=exp.paren(length.copy()), expression=exp.Literal.number(0))
    return exp.Substring(this=node.this, start=first, length=exp.case().when(asked, size))
