"""The words of the allow-lists as analysts write them, for the documentation."""

from __future__ import annotations

from sqlglot import exp

from rewriter.syntax.allowlist import BY_NAME, EXTRACTED, ROW_LOCAL, TRUNCATIONS

WRITTEN: dict[type[exp.Expr], str] = {
    exp.And: "AND",
    exp.Or: "OR",
    exp.Not: "NOT",
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "IS NOT DISTINCT FROM",
    exp.NullSafeNEQ: "IS DISTINCT FROM",
    exp.Between: "BETWEEN",
    exp.In: "IN (...)",
    exp.Is: "IS",
    exp.Like: "LIKE",
    exp.ILike: "ILIKE",
    exp.Escape: "ESCAPE",
    exp.Any: "= ANY (...)",
    exp.All: "<> ALL (...)",
    exp.Add: "+",
    exp.Sub: "-",
    exp.Neg: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
    exp.DPipe: "||",
    exp.RegexpLike: "~",
    exp.RegexpILike: "~*",
    exp.Case: "CASE",
    exp.Cast: "CAST",
    exp.Interval: "INTERVAL",
    exp.Array: "ARRAY[...]",
    exp.TimestampTrunc: "date_trunc",
    exp.DateTrunc: "date_trunc",
    exp.TimeToStr: "to_char",
    exp.StrPosition: "strpos",
    exp.Pad: "lpad, rpad",
    exp.Pow: "power",
    exp.Anonymous: ", ".join(n for n in BY_NAME if n not in ("some", "all")),
}
UNSPOKEN = (
    *(exp.Column, exp.Identifier, exp.Literal, exp.Boolean, exp.Null, exp.Parameter, exp.Paren, exp.If),
    *(exp.Var, exp.DataType, exp.DataTypeParam),
)
"""Parts of an expression other than operators and functions."""


def row_local() -> list[str]:
    """The operators and functions that may stand on private rows, in the order of the grammar, each once.

    >>> row_local()[:3]
    ['AND', 'OR', 'NOT']
    """
    named = (
        WRITTEN.get(kind) or (kind.sql_names()[0].lower() if issubclass(kind, exp.Func) else kind.__name__)
        for kind in ROW_LOCAL
        if kind not in UNSPOKEN
    )
    return list(dict.fromkeys(named))


def fields() -> tuple[list[str], list[str]]:
    """The fields of EXTRACT that have values of their own whatever the date, and those that need a declared range.

    >>> fields()[0][:2]
    ['quarter', 'month']
    """
    return [f for f, values in EXTRACTED.items() if values], [f for f, v in EXTRACTED.items() if not v]


def truncations() -> tuple[str, ...]:
    """The units of date_trunc."""
    return TRUNCATIONS
