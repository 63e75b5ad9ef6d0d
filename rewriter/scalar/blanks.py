"""Texts of character(n), which PostgreSQL fills up with blanks and compares without them.

In rows they have no blanks at their ends, and neither have the constants that they are compared with. What would see
PostgreSQL's blanks is refused, and so is a comparison with a varchar, at whose end blanks would not count either.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sqlglot import exp

from rewriter.ir.parameter import Parameter, Parameters
from rewriter.ir.relation import Relation, leaf_of
from rewriter.ir.trees import kinds, walk
from rewriter.ir.types import padded
from rewriter.scalar.aggregates import AGGREGATES, argument
from rewriter.scalar.function_checks import PADDED
from rewriter.scalar.functions import BY_TYPE, COMPARISONS
from rewriter.syntax.desugar import LISTED

TypeName = Callable[[exp.Column], str]
"""The type of a column as format_type prints it; "" where it is not known."""
_SEEING = kinds(exp.Like, exp.ILike, exp.RegexpLike, exp.RegexpILike, exp.Concat, exp.ConcatWs)
_CHOOSING = kinds(exp.Case, exp.Coalesce, exp.Nullif, exp.Greatest, exp.Least)


def without_blanks(value: Parameter) -> Parameter:
    """A constant as engines get it: one of character(n) without the blanks at its end.

    >>> without_blanks(Parameter("character(3)", "a  ")).value, without_blanks(Parameter("text", "a  ")).value
    ('a', 'a  ')
    """
    if value.value is None or not padded(value.type):
        return value
    return replace(value, value=value.value.rstrip(" "))


def unpadded(node: exp.Expr, *relations: Relation) -> exp.Expr:
    """A base-form expression whose constants have no blanks at their ends where they are of character(n), or compared
    with such a text."""

    def type_name(column: exp.Column) -> str:
        alias, name = leaf_of(column)
        sources = (s for relation in relations for s in relation.sources if s.alias == alias)
        return next((s.column(name).type for s in sources), "")

    for cast in walk(node, exp.Cast):
        if cast.to.this == exp.DType.BPCHAR and isinstance(cast.this, exp.Literal):
            cast.set("this", exp.Literal.string(cast.this.this.rstrip(" ")))
    for comparison in [p for p in walk(node) if type(p) in COMPARISONS and not p.meta_get(LISTED)]:
        compared = [*comparison.iter_expressions()]
        if any(_is_padded(one, type_name, ()) for one in compared):
            for one in compared:
                constant = _without_cast(one)
                if isinstance(constant, exp.Literal) and constant.is_string:
                    one.replace(exp.Literal.string(constant.this.rstrip(" ")))
    return node


def seen(part: exp.Expr, type_name: TypeName, parameters: Parameters) -> str | None:
    """Why an operator or function is refused whose value depends on PostgreSQL's blanks; None where it does not."""
    if type(part) in COMPARISONS:
        compared = [*part.iter_expressions()]
        own = {id(one) for one in compared if _is_padded(one, type_name, parameters)}
        others = [one for one in compared if own and id(one) not in own]
        return PADDED if any(_may_end_in_blanks(one, type_name, parameters) for one in others) else None
    if type(part) in _CHOOSING:
        values = BY_TYPE[type(part)].parts(part)
    else:
        values = [*part.iter_expressions()] if type(part) in _SEEING else []
    return PADDED if any(_is_padded(one, type_name, parameters) for one in values) else None


def _is_padded(node: exp.Expr, type_name: TypeName, parameters: Parameters) -> bool:
    node = node.unnest()
    if isinstance(node, exp.Column):
        return padded(type_name(node))
    if isinstance(node, exp.Parameter):
        return bool(parameters) and padded(parameters[int(node.name) - 1].type)
    if isinstance(node, exp.Cast):
        return bool(node.to.this == exp.DType.BPCHAR)
    known = AGGREGATES.get(type(node))
    own = known is not None and known.result is None and isinstance(node.this, exp.Expr)
    return own and _is_padded(argument(node), type_name, parameters)


def _without_cast(node: exp.Expr) -> exp.Expr:
    """A constant without a cast to varchar."""
    node = node.unnest()
    varying = isinstance(node, exp.Cast) and node.to.this == exp.DType.VARCHAR and not node.to.expressions
    return node.this.unnest() if varying else node


def _may_end_in_blanks(node: exp.Expr, type_name: TypeName, parameters: Parameters) -> bool:
    """Whether a value beside one of character(n) has blanks at its end that do not count."""
    node = _without_cast(node)
    if isinstance(node, exp.Literal):
        return node.is_string and node.this.endswith(" ")
    if isinstance(node, exp.Parameter):
        parameter = parameters[int(node.name) - 1]
        return parameter.type.startswith("character varying") and not parameter.meets(_ends_bare)
    if isinstance(node, exp.Column):
        return type_name(node).startswith("character varying")
    return isinstance(node, exp.Cast) and node.to.this == exp.DType.VARCHAR


def _ends_bare(text: str) -> bool:
    return not text.endswith(" ")
