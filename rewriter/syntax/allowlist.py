"""Allow-lists: node types, their arguments and functions. What is not listed is refused."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from rewriter.effort import spend
from rewriter.refusal import Refusal

STRUCTURE: dict[type[exp.Expr], frozenset[str]] = {
    exp.Select: frozenset(
        [
            "with_",
            "expressions",
            "from_",
            "joins",
            "where",
            "group",
            "having",
            "order",
            "limit",
            "offset",
            "distinct",
        ]
    ),
    exp.Union: frozenset(["with_", "this", "expression", "distinct", "order", "limit", "offset"]),
    exp.Intersect: frozenset(["with_", "this", "expression", "distinct", "order", "limit", "offset"]),
    exp.Except: frozenset(["with_", "this", "expression", "distinct", "order", "limit", "offset"]),
    exp.Subquery: frozenset({"this", "alias", "with_", "joins"}),
    exp.From: frozenset({"this"}),
    exp.Join: frozenset(["this", "side", "kind", "on", "using", "method"]),
    exp.Table: frozenset(["this", "db", "alias", "joins"]),
    exp.TableAlias: frozenset({"this", "columns"}),
    exp.With: frozenset({"expressions", "recursive"}),
    exp.CTE: frozenset({"this", "alias", "materialized"}),
    exp.Where: frozenset({"this"}),
    exp.Group: frozenset({"expressions", "all"}),
    exp.Having: frozenset({"this"}),
    exp.Order: frozenset({"expressions"}),
    exp.Ordered: frozenset({"this", "desc", "nulls_first"}),
    exp.Limit: frozenset({"expression"}),
    exp.Offset: frozenset({"expression"}),
    exp.Fetch: frozenset({"direction", "count", "limit_options"}),
    exp.LimitOptions: frozenset({"percent", "rows", "with_ties"}),
    exp.Distinct: frozenset({"expressions", "on"}),
}
"""Query structure, anywhere in a statement that reads private tables."""

ROW_LOCAL: dict[type[exp.Expr], frozenset[str]] = {
    exp.Column: frozenset({"this", "table"}),
    exp.Identifier: frozenset({"this", "quoted"}),
    exp.Literal: frozenset({"this", "is_string"}),
    exp.Boolean: frozenset({"this"}),
    exp.Null: frozenset(),
    exp.Parameter: frozenset({"this"}),
    exp.Paren: frozenset({"this"}),
    exp.And: frozenset({"this", "expression"}),
    exp.Or: frozenset({"this", "expression"}),
    exp.Not: frozenset({"this"}),
    exp.EQ: frozenset({"this", "expression"}),
    exp.NEQ: frozenset({"this", "expression"}),
    exp.LT: frozenset({"this", "expression"}),
    exp.LTE: frozenset({"this", "expression"}),
    exp.GT: frozenset({"this", "expression"}),
    exp.GTE: frozenset({"this", "expression"}),
    exp.NullSafeEQ: frozenset({"this", "expression"}),
    exp.NullSafeNEQ: frozenset({"this", "expression"}),
    exp.Between: frozenset({"this", "low", "high", "symmetric"}),
    exp.In: frozenset({"this", "expressions"}),
    exp.Is: frozenset({"this", "expression", "negate"}),
    exp.Like: frozenset({"this", "expression", "negate"}),
    exp.ILike: frozenset({"this", "expression", "negate"}),
    exp.Add: frozenset({"this", "expression"}),
    exp.Sub: frozenset({"this", "expression"}),
    exp.Mul: frozenset({"this", "expression"}),
    exp.Div: frozenset({"this", "expression", "typed", "safe"}),
    exp.Mod: frozenset({"this", "expression"}),
    exp.Neg: frozenset({"this"}),
    exp.Abs: frozenset({"this"}),
    exp.Floor: frozenset({"this"}),
    exp.Ceil: frozenset({"this"}),
    exp.Case: frozenset({"this", "ifs", "default"}),
    exp.If: frozenset({"this", "true"}),
    exp.Coalesce: frozenset({"this", "expressions"}),
    exp.Nullif: frozenset({"this", "expression"}),
    exp.Lower: frozenset({"this"}),
    exp.Upper: frozenset({"this"}),
    exp.Length: frozenset({"this"}),
    exp.Trim: frozenset({"this", "position", "expression"}),
    exp.Substring: frozenset({"this", "start", "length"}),
    exp.DPipe: frozenset({"this", "expression", "safe"}),
    exp.Extract: frozenset({"this", "expression"}),
    exp.TimestampTrunc: frozenset({"this", "unit"}),
    exp.DateTrunc: frozenset({"this", "unit"}),
    exp.Cast: frozenset({"this", "to", "_type"}),
    exp.Var: frozenset({"this"}),
    exp.DataType: frozenset({"this", "nested", "expressions"}),
    exp.DataTypeParam: frozenset({"this"}),
    exp.Date: frozenset({"this"}),
    exp.Interval: frozenset({"this", "unit"}),
    exp.Any: frozenset({"this"}),
    exp.All: frozenset({"this"}),
    exp.Array: frozenset({"expressions", "bracket_notation"}),
    exp.Escape: frozenset({"this", "expression"}),
    exp.Round: frozenset({"this", "decimals"}),
    exp.Trunc: frozenset({"this", "decimals"}),
    exp.Sign: frozenset({"this"}),
    exp.Sqrt: frozenset({"this"}),
    exp.Ln: frozenset({"this"}),
    exp.Exp: frozenset({"this"}),
    exp.Pow: frozenset({"this", "expression"}),
    exp.Greatest: frozenset({"this", "expressions", "ignore_nulls"}),
    exp.Least: frozenset({"this", "expressions", "ignore_nulls"}),
    exp.WidthBucket: frozenset({"this", "min_value", "max_value", "num_buckets"}),
    exp.Concat: frozenset({"expressions", "safe", "coalesce"}),
    exp.Left: frozenset({"this", "expression"}),
    exp.Right: frozenset({"this", "expression"}),
    exp.Replace: frozenset({"this", "expression", "replacement"}),
    exp.SplitPart: frozenset({"this", "delimiter", "part_index"}),
    exp.Pad: frozenset({"this", "expression", "fill_pattern", "is_left"}),
    exp.StrPosition: frozenset({"this", "substr"}),
    exp.StartsWith: frozenset({"this", "expression"}),
    exp.RegexpLike: frozenset({"this", "expression"}),
    exp.RegexpILike: frozenset({"this", "expression"}),
    exp.RegexpReplace: frozenset({"this", "expression", "replacement", "modifiers", "single_replace"}),
    exp.TimeToStr: frozenset({"this", "format"}),
    exp.Anonymous: frozenset({"this", "expressions"}),
}
"""Expressions over private rows."""

PLAIN = (
    exp.Literal,
    exp.Parameter,
    exp.Null,
    exp.Boolean,
    exp.Neg,
    exp.Paren,
    exp.Cast,
    exp.DataType,
    exp.Var,
)
"""A constant that is written down as such."""

FOLDED = (
    exp.Add,
    exp.Sub,
    exp.Mul,
    exp.Div,
    exp.Mod,
    exp.Neg,
    exp.Paren,
    exp.Cast,
    exp.DataType,
    exp.Interval,
    exp.CurrentDate,
    exp.CurrentTimestamp,
    exp.Localtimestamp,
    exp.AtTimeZone,
    exp.TimestampTrunc,
    exp.DateTrunc,
    exp.Extract,
    exp.Case,
    exp.If,
    exp.Coalesce,
    exp.Nullif,
    exp.Greatest,
    exp.Least,
    exp.Abs,
    exp.Floor,
    exp.Ceil,
    exp.Round,
    exp.Sqrt,
    exp.Pow,
    exp.Lower,
    exp.Upper,
    exp.Concat,
    exp.DPipe,
)
"""Expressions that the front evaluates once where they read no column; none of them changes within a statement."""

CHANGING = (exp.CurrentDate, exp.CurrentTimestamp, exp.Localtimestamp)
"""What has another value in the next statement."""

CONSTANT = "constant"
"""The mark of a part of the client's tree that stands for a constant: the base form in its place."""

BY_NAME = ("age", "make_date", "date_part", "some", "all")
"""Functions and operators that the parser knows by their name only."""

TRUNCATIONS = ("second", "minute", "hour", "day", "week", "month", "quarter", "year")
EXTRACTED: dict[str, tuple[int, int] | None] = {
    "year": None,
    "isoyear": None,
    "quarter": (1, 4),
    "month": (1, 12),
    "week": (1, 53),
    "day": (1, 31),
    "doy": (1, 366),
    "dow": (0, 6),
    "isodow": (1, 7),
    "hour": (0, 23),
    "minute": (0, 59),
    "second": None,
    "epoch": None,
    "decade": None,
    "century": None,
}
"""Fields of EXTRACT with the values they can take whatever the date."""

FIELDS = {
    "timestamp": frozenset(EXTRACTED),
    "date": frozenset(EXTRACTED) - {"hour", "minute", "second"},
    "time": frozenset({"hour", "minute", "second"}),
    "timestamptz": frozenset(EXTRACTED),
    "interval": frozenset({"epoch", "day", "hour", "minute", "second"}),
    "age": frozenset({"year", "month", "day"}),
}
"""The fields that a kind of value has; PostgreSQL raises at others once a row reaches them."""


def surplus(node: exp.Expr, allowed: frozenset[str]) -> str | None:
    """The first argument of `node` that is set and not in `allowed`, or None.

    >>> surplus(exp.Neg(this=exp.Null()), frozenset({"this"})) is None
    True
    """
    return next((k for k, v in node.args.items() if v not in (None, False, []) and k not in allowed), None)


def position(node: exp.Expr) -> int | None:
    """Where `node` begins in the client's text, counted from 1, if the parser kept it."""
    starts = [n.meta["start"] for n in node.walk() if "start" in n.meta]
    return min(starts) + 1 if starts else None


def own_parts(node: exp.Expr) -> Iterator[exp.Expr]:
    """The parts of an expression of the client's tree, without those that stand for something else."""
    return (part for part in node.walk(prune=lambda n: CONSTANT in n.meta) if CONSTANT not in part.meta)


def check_row_local(node: exp.Expr) -> None:
    """Refuse (PV020) an expression over private rows that has a node or an argument outside the allow-list."""
    for part in own_parts(node):
        spend()
        allowed = ROW_LOCAL.get(type(part))
        if allowed is None:
            raise not_row_local(part)
        if isinstance(part, exp.Anonymous) and part.name.lower() not in BY_NAME:
            raise not_row_local(part)
        extra = surplus(part, allowed)
        if extra is not None:
            raise Refusal(
                "PV020",
                f"{describe(part)} with {extra} is not allowed on private rows",
                position=position(part),
            )


def not_row_local(part: exp.Expr) -> Refusal:
    """PV020 for what is not on the allow-list."""
    return Refusal(
        "PV020",
        f"{describe(part)} is not allowed on private rows",
        hint="Use comparisons, AND/OR/NOT, IN, BETWEEN, LIKE, ~, CASE, COALESCE, EXTRACT, date_trunc, "
        "LOWER, UPPER, SUBSTRING, ROUND and arithmetic; other functions work on the released rows.",
        position=position(part),
    )


def describe(node: exp.Expr) -> str:
    """The construct's name for a refusal, never its content.

    >>> describe(exp.Anonymous(this="my_udf"))
    'function my_udf'
    """
    if isinstance(node, (exp.Cast, exp.Extract, exp.Like, exp.ILike)):
        return type(node).__name__.upper()
    if isinstance(node, exp.Anonymous):
        return f"function {node.name.lower()}"
    if isinstance(node, (exp.WithinGroup, exp.Filter)):
        return describe(node.this)
    if isinstance(node, exp.Func):
        return f"function {node.sql('postgres').partition('(')[0].lower()}"
    names: dict[type[exp.Expr], str] = {
        exp.Subquery: "a subquery in this place",
        exp.Exists: "EXISTS in this place",
        exp.Window: "a window function",
        exp.Star: "*",
        exp.Tuple: "a row value",
        exp.Dot: "field selection",
        exp.Interval: "interval arithmetic",
    }
    return names.get(type(node), type(node).__name__)
