"""The allow-list of query structure, the fields of dates, and how a part of a statement is named in a refusal."""

from __future__ import annotations

import re

from sqlglot import exp

from rewriter.ir.trees import walk
from rewriter.ir.types import Type

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
    exp.Order: frozenset({"this", "expressions"}),
    exp.Ordered: frozenset({"this", "desc", "nulls_first"}),
    exp.Limit: frozenset({"expression"}),
    exp.Offset: frozenset({"expression"}),
    exp.Fetch: frozenset({"direction", "count", "limit_options"}),
    exp.LimitOptions: frozenset({"percent", "rows", "with_ties"}),
    exp.Distinct: frozenset({"expressions", "on"}),
}
"""Query structure, anywhere in a statement that reads private tables."""

CONSTANT = "constant"
"""The mark of a part of the client's tree that stands for a constant: the base form in its place."""

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


def field_span(name: str, of: Type) -> tuple[int, int] | None:
    """The least and the greatest value of a field of type `of`; None where the type bounds none.

    The distance of two times has any number of days, may be negative, and may have no month and no day:
    it has none of the fields' ends that dates have.

    >>> field_span("day", Type.TIMESTAMP), field_span("day", Type.INTERVAL), field_span("month", Type.AGE)
    ((1, 31), None, None)
    """
    return None if of in (Type.INTERVAL, Type.AGE) else EXTRACTED.get(name.lower())


FIELDS = {
    Type.TIMESTAMP: frozenset(EXTRACTED),
    Type.DATE: frozenset(EXTRACTED) - {"hour", "minute", "second"},
    Type.TIME: frozenset({"hour", "minute", "second"}),
    Type.TIMESTAMPTZ: frozenset(EXTRACTED),
    Type.INTERVAL: frozenset({"epoch", "day", "hour", "minute", "second"}),
    Type.AGE: frozenset({"year", "month", "day"}),
}
"""The fields that values of a type have; PostgreSQL raises at others once a row reaches them."""


def surplus(node: exp.Expr, allowed: frozenset[str]) -> str | None:
    """The first argument of `node` that is set and not in `allowed`, or None.

    >>> surplus(exp.Neg(this=exp.Null()), frozenset({"this"})) is None
    True
    """
    if node.args.keys() <= allowed:
        return None
    return next((k for k, v in node.args.items() if k not in allowed and v not in (None, False, [])), None)


def position(node: exp.Expr) -> int | None:
    """Where `node` begins in the client's text, counted from 1, if the parser kept it."""
    starts = [start for n in walk(node) if (start := n.meta_get("start")) is not None]
    return min(starts) + 1 if starts else None


def is_constant(node: exp.Expr) -> bool:
    """Whether a part of the client's tree stands for something else."""
    return node._meta is not None and node._meta.get(CONSTANT) is not None


def own_parts(node: exp.Expr) -> list[exp.Expr]:
    """The parts of an expression of the client's tree, without those that stand for something else."""
    return [part for part in walk(node, stop=is_constant) if not is_constant(part)]


def describe(node: exp.Expr) -> str:
    """The construct's name for a refusal in PostgreSQL's words, never its content.

    >>> describe(exp.Anonymous(this="my_udf")), describe(exp.column("a") - 1), describe(exp.column("a").is_(exp.null()))
    ('function my_udf', 'operator -', 'IS')
    """
    if isinstance(node, exp.Anonymous):
        return f"function {node.name.lower()}"
    if isinstance(node, (exp.WithinGroup, exp.Filter, exp.Paren)):
        return describe(node.this)
    name = next((said for kind, said in _NAMES.items() if isinstance(node, kind)), None)
    if name is not None:
        return name
    if isinstance(node, (exp.DDL, exp.DML)):
        return node.key.upper()
    if isinstance(node, exp.Binary):
        kept = {key: value for key, value in node.args.items() if not isinstance(value, exp.Expr)}
        sides = {"this": exp.column("x"), "expression": exp.column("y")}
        text = str(type(node)(**(kept | sides)).sql("postgres"))
        if text.startswith("x ") and text.endswith(" y"):
            sign = text[2:-2]
            return sign if sign[0].isalpha() else f"operator {sign}"
    if not isinstance(node, exp.Func):
        return "this expression"
    text = str(node.sql("postgres"))
    word = re.match(r"\w*", text)
    called = word[0] if word is not None else ""
    return f"function {called.lower()}" if text[len(called) :].startswith("(") else called.upper()


def describe_surplus(node: exp.Expr, part: str) -> str:
    """What is called as `part` of a construct that is not on the allow-list, for a refusal.

    >>> describe_surplus(exp.Table(), "sample"), describe_surplus(exp.Fetch(), "other")
    ('TABLESAMPLE', 'this form of FETCH')
    """
    return _PARTS.get(part, f"this form of {describe(node)}")


_NAMES: dict[type[exp.Expr], str] = {
    exp.Cast: "CAST",
    exp.Extract: "EXTRACT",
    exp.Subquery: "a subquery in this place",
    exp.Exists: "EXISTS in this place",
    exp.Window: "a window function",
    exp.Star: "*",
    exp.Tuple: "a row value",
    exp.Dot: "field selection",
    exp.Interval: "interval arithmetic",
    exp.AtTimeZone: "AT TIME ZONE",
    exp.Literal: "a constant",
    exp.UnicodeString: "a constant in U&'...'",
    exp.National: "a constant in N'...'",
    exp.BitString: "a constant in B'...'",
    exp.HexString: "a constant in X'...'",
    exp.Null: "NULL",
    exp.Boolean: "a boolean constant",
    exp.Column: "a column",
    exp.Parameter: "a parameter",
    exp.Placeholder: "a parameter",
    exp.DataType: "a type",
    exp.Not: "NOT",
    exp.Neg: "operator -",
    exp.BitwiseNot: "operator ~",
    exp.Between: "BETWEEN",
    exp.In: "IN",
    exp.Any: "ANY",
    exp.ArrayContains: "ANY",
    exp.All: "ALL",
    exp.Bracket: "a subscript",
    exp.Slice: "a slice",
    exp.Alias: "an alias",
    exp.TableAlias: "an alias",
    exp.Table: "a table",
    exp.Values: "VALUES",
    exp.Lateral: "LATERAL",
    exp.TableSample: "TABLESAMPLE",
    exp.Into: "SELECT INTO",
    exp.Lock: "FOR UPDATE or FOR SHARE",
    exp.Select: "SELECT",
    exp.Union: "UNION",
    exp.Intersect: "INTERSECT",
    exp.Except: "EXCEPT",
    exp.From: "FROM",
    exp.Join: "JOIN",
    exp.With: "WITH",
    exp.CTE: "WITH",
    exp.Where: "WHERE",
    exp.Group: "GROUP BY",
    exp.Having: "HAVING",
    exp.Order: "ORDER BY",
    exp.Ordered: "ORDER BY",
    exp.Limit: "LIMIT",
    exp.Offset: "OFFSET",
    exp.Fetch: "FETCH",
    exp.Distinct: "DISTINCT",
    exp.WindowSpec: "a window's frame",
}
_PARTS = {
    "sample": "TABLESAMPLE",
    "locks": "FOR UPDATE or FOR SHARE",
    "into": "SELECT INTO",
    "laterals": "LATERAL",
    "windows": "WINDOW",
}
