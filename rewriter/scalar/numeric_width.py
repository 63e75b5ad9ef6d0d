"""The number types of expressions, as PostgreSQL resolves them: its overflow depends on them."""

from __future__ import annotations

from sqlglot import exp

from rewriter.ir.relation import Relation
from rewriter.scalar.functions import BY_TYPE
from rewriter.scalar.typecheck import Parameters, kind

NARROW = {"smallint": "int2", "integer": "int4", "real": "real"}
CAST_WIDTHS = {exp.DType.SMALLINT: "int2", exp.DType.INT: "int4", exp.DType.FLOAT: "real"}
INTEGERS = ("int2", "int4", "int8")
SPAN = {"int2": 2**15, "int4": 2**31, "int8": 2**63}


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
    if isinstance(node, exp.Sub) and kind(node.this, relation, parameters) == "date":
        return "int4"
    function = BY_TYPE.get(type(node))
    if function is not None and function.width:
        return function.width
    parts = (
        [node.this]
        if isinstance(node, (exp.Paren, exp.Min, exp.Max))
        else function.parts(node)
        if function
        else []
    )
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
