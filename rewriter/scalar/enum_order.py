"""The order of enumerated types: labels are texts to every engine, so that their order is written out.

In:  lev >= 'medium' AND lev < other, where lev and other have the labels low, medium, high in this order
Out: lev IN ('medium', 'high') AND CASE WHEN lev = 'low' THEN 1 ... END < CASE WHEN other = 'low' THEN 1 ... END

So a condition names the labels that it is about: its release key changes with their order where its answer does.

Why: docs/decisions/what-clients-see.md.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import replace

from sqlglot import exp

from rewriter.ir.relation import Relation
from rewriter.ir.trees import copied, kinds, paren, walk
from rewriter.policy import front_name, labels
from rewriter.refusal import Refusal
from rewriter.scalar.typecheck import Types, operands
from rewriter.syntax.allowlist import position
from rewriter.syntax.desugar import plain

MOST_LABELS = 1000
"""Of a type whose order is written out for each row."""
_MEANT: dict[type[exp.Expr], Callable[[int, int], bool]] = {
    exp.LT: operator.lt,
    exp.LTE: operator.le,
    exp.GT: operator.gt,
    exp.GTE: operator.ge,
}
_ORDERS = kinds(*_MEANT, exp.Between)


def in_declared_order(node: exp.Expr, relation: Relation, outer: Relation | None = None) -> exp.Expr:
    """A base-form expression, which is used up, whose comparisons of enumerated values follow the declared order."""
    found = [part for part in walk(node) if type(part) in _ORDERS]
    if not found:
        return node
    if outer is not None:
        relation = replace(relation, sources=relation.sources + outer.sources)
    types = Types(relation, ())
    # Operands before what is made of them.
    for part in reversed(found):
        of = next(filter(None, map(types.enum, operands(part))), None)
        if of is not None:
            made = _between(part, of) if isinstance(part, exp.Between) else _compared(part, of)
            if part is node:
                node = made
            else:
                part.replace(made)
    return node


def place_of(value: exp.Expr, of: str, at: exp.Expr) -> exp.Expr:
    """The place of a value among the labels of its type, from 1. Raises Refusal 54000 for too many of them."""
    listed = labels(of) or ()
    if len(listed) > MOST_LABELS:
        raise Refusal(
            "54000",
            f"enumerated types of more than {MOST_LABELS} labels are not ordered on private rows",
            hint="List the labels that are meant: x IN ('a', 'b').",
            position=position(at),
        )
    ifs = [_if(_text(label), exp.Literal.number(n)) for n, label in enumerate(listed, 1)]
    return exp.Case(this=value, ifs=ifs)


def label_at(place: exp.Expr, of: str) -> exp.Expr:
    """The label at a place: the other way round."""
    ifs = [_if(exp.Literal.number(n), _text(label)) for n, label in enumerate(labels(of) or (), 1)]
    return exp.Case(this=place, ifs=ifs)


def _between(node: exp.Between, of: str) -> exp.Expr:
    low, high = node.args["low"], node.args["high"]
    least = _compared(exp.GTE(this=copied(node.this), expression=low), of)
    return paren(exp.And(this=least, expression=_compared(exp.LTE(this=node.this, expression=high), of)))


def _compared(node: exp.Expr, of: str) -> exp.Expr:
    left, right = node.this, node.expression
    listed = labels(of) or ()
    for value, constant, turned in ((left, right, False), (right, left, True)):
        text = _constant(constant)
        if text is not None:
            if text not in listed:
                message = f'invalid input value for enum {front_name(of)}: "{text}"'
                raise Refusal("22P02", message, position=position(node))
            at, meant = listed.index(text), _MEANT[type(node)]
            return _among(
                value, [one for n, one in enumerate(listed) if (meant(at, n) if turned else meant(n, at))]
            )
    return type(node)(this=plain(place_of(left, of, node)), expression=plain(place_of(right, of, node)))


def _among(value: exp.Expr, listed: Sequence[str]) -> exp.Expr:
    """Whether a value is one of some labels, NULL where it is NULL."""
    if not listed:
        return exp.NEQ(this=value, expression=copied(value))
    return exp.In(this=value, expressions=list(map(_text, listed)))


def _constant(node: exp.Expr) -> str | None:
    """The text of a constant, which is a cast one where it is a column of a subquery."""
    node = node.unnest()
    inner = node.this if isinstance(node, exp.Cast) else node
    return inner.this if isinstance(inner, exp.Literal) and inner.is_string else None


def _text(label: str) -> exp.Expr:
    return exp.Literal.string(label)


def _if(this: exp.Expr, true: exp.Expr) -> exp.If:
    return exp.If(this=this, true=true)
