"""The number types of expressions, as PostgreSQL resolves them: its overflow depends on them."""

from __future__ import annotations

from sqlglot import exp

from rewriter.ir.relation import Relation
from rewriter.scalar.typecheck import Parameters, kind

NARROW = {"smallint": "int2", "integer": "int4", "real": "real"}
CAST_WIDTHS = {exp.DType.SMALLINT: "int2", exp.DType.INT: "int4", exp.DType.FLOAT: "real"}
INTEGERS = ("int2", "int4", "int8")
SPAN = {"int2": 2**15, "int4": 2**31, "int8": 2**63}
BINARY = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod)


def width(node: exp.Expr, relation: Relation, parameters: Parameters) -> str:
    """ "int2", "int4" or "int8", "number", "real" or "double", or the kind of what is no number.

    >>> width(exp.Literal.number(7), Relation(()), ()), width(exp.Literal.number(2**31), Relation(()), ())
    ('int4', 'int8')
    """
    found = kind(node, relation, parameters)
    if found not in ("int", "float"):
        return found
    narrow = _narrow(node, relation, parameters)
    if narrow is not None:
        return narrow
    return "int8" if found == "int" else "double"


def _narrow(node: exp.Expr, relation: Relation, parameters: Parameters) -> str | None:
    if isinstance(node, exp.Column):
        return NARROW.get(relation.source(node.table).column(node.name).type)
    if isinstance(node, exp.Parameter):
        return NARROW.get(parameters[int(node.name) - 1].type)
    if isinstance(node, exp.Literal):
        return "int4" if int(node.this) < SPAN["int4"] else None
    if isinstance(node, exp.Cast):
        return CAST_WIDTHS.get(node.to.this)
    if isinstance(node, (exp.Length, exp.StrPosition, exp.WidthBucket)):
        return "int4"
    if isinstance(node, (exp.Round, exp.Trunc, exp.Sign, exp.Sqrt, exp.Ln, exp.Exp, exp.Pow)):
        return None
    if isinstance(node, exp.Sub) and kind(node.this, relation, parameters) == "date":
        return "int4"
    if isinstance(node, (exp.Floor, exp.Ceil)):
        return None
    parts: list[exp.Expr] = []
    if isinstance(node, (exp.Paren, exp.Neg, exp.Abs, exp.Nullif, exp.Min, exp.Max)):
        parts = [node.this]
    elif isinstance(node, BINARY):
        parts = [node.this, node.expression]
    elif isinstance(node, exp.Case):
        parts = [i.args["true"] for i in node.args["ifs"]] + [d for d in [node.args.get("default")] if d]
    elif isinstance(node, (exp.Coalesce, exp.Greatest, exp.Least)):
        parts = [node.this, *node.expressions]
    widths = {width(p, relation, parameters) for p in parts} - {"literal"}
    return wider(widths) if widths else None


def wider(widths: set[str]) -> str:
    """The type in which numbers of several types are computed with.

    >>> wider({"int2", "int4"}), wider({"int8", "number"}), wider({"real", "int4"}), wider({"real"})
    ('int4', 'number', 'double', 'real')
    """
    if widths == {"real"}:
        return "real"
    for found in ("double", "real"):
        if found in widths:
            return "double"
    return next((w for w in ("number", "int8", "int4", "int2") if w in widths), "int8")
