"""Canonical form: spellings of the same condition become one, so that the same question has one release key.

It never changes an answer: only the order of IN lists, duplicates in them, the side of a constant, parentheses
and the spelling of constants.
"""

from __future__ import annotations

from sqlglot import exp

from rewriter.expression import CASTS
from rewriter.relation import leaves

TURNED: dict[type[exp.Expr], type[exp.Binary]] = {
    exp.EQ: exp.EQ,
    exp.NEQ: exp.NEQ,
    exp.LT: exp.GT,
    exp.LTE: exp.GTE,
    exp.GT: exp.LT,
    exp.GTE: exp.LTE,
}


def canonical(condition: exp.Expr) -> exp.Expr:
    """The canonical form of one base-form conjunct.

    >>> canonical(exp.condition("(3 < a)")).sql(), canonical(exp.condition("a IN (2, 1, 2)")).sql()
    ('a > 3', 'a IN (1, 2)')
    """
    condition = condition.copy().transform(_constant).unnest()
    turned = TURNED.get(type(condition))
    if turned is not None and not leaves(condition.this) and leaves(condition.expression):
        return turned(this=condition.expression.copy(), expression=condition.this.copy())
    if isinstance(condition, exp.In) and condition.expressions:
        listed = {e.sql(): e for e in condition.expressions}
        copy = condition.copy()
        copy.set("expressions", [listed[text].copy() for text in sorted(listed)])
        return copy
    return condition


def _constant(node: exp.Expr) -> exp.Expr:
    """A cast of a constant text to a number or text, in parentheses or not, as the plain constant."""
    inner = node.this if isinstance(node, exp.Paren) else node
    if isinstance(inner, exp.Cast) and isinstance(inner.this, exp.Literal) and inner.this.is_string:
        target, text = CASTS.get(inner.to.this), inner.this.this
        if target == "text" or (target == "int" and text.isdigit()):
            return exp.Literal(this=text, is_string=target == "text")
    return inner if isinstance(inner, exp.Literal) else node
