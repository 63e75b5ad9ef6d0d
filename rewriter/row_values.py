"""Lists of row values and of VALUES as plain conditions.

In:  (a, b) IN ((1, 2), (3, 4)) AND c IN (VALUES (5), (6))
Out: (a = 1 AND b = 2 OR a = 3 AND b = 4) AND c IN (5, 6)
"""

from __future__ import annotations

from sqlglot import exp

from rewriter.grammar import position
from rewriter.refusal import Refusal


def plain_lists(condition: exp.Expr) -> exp.Expr:
    """The condition with comparisons of single values alone; the very same where it has no others.

    >>> from sqlglot import parse_one
    >>> plain_lists(parse_one("(a, b) IN ((1, 2))", dialect="postgres")).sql()
    '(a = 1 AND b = 2)'
    """
    found = [n for n in condition.find_all(exp.In) if n.expressions and _rows(n) is not None]
    if not found:
        return condition
    copy = condition.copy()
    root = exp.paren(copy, copy=False)
    for node in [n for n in copy.find_all(exp.In) if n.expressions]:
        rows = _rows(node)
        if rows is not None:
            node.replace(_written(node, rows))
    plain: exp.Expr = root.this
    return plain.unnest() if isinstance(plain.unnest(), exp.In) else plain


def _rows(node: exp.In) -> list[exp.Expr] | None:
    """The rows that `node` lists, where they are row values or come from VALUES; None for a plain list."""
    listed = node.expressions
    if len(listed) == 1 and isinstance(listed[0], exp.Values):
        return [row if len(row.expressions) > 1 else row.expressions[0] for row in listed[0].expressions]
    return listed if isinstance(node.this, exp.Tuple) else None


def _written(node: exp.In, rows: list[exp.Expr]) -> exp.Expr:
    if not isinstance(node.this, exp.Tuple):
        return exp.In(this=node.this.copy(), expressions=[row.copy() for row in rows])
    values = node.this.expressions
    equal = []
    for row in rows:
        parts = row.expressions if isinstance(row, exp.Tuple) else []
        if len(parts) != len(values):
            raise Refusal("42601", "unequal number of entries in row expressions", position=position(node))
        pairs = zip(values, parts, strict=True)
        equal.append(exp.and_(*(exp.EQ(this=v.copy(), expression=p.copy()) for v, p in pairs)))
    return exp.paren(exp.or_(*equal))
