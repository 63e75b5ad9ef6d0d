"""Row values, lists of them, VALUES, ANY and ALL as plain conditions.

In:  (a, b) IN ((1, 2), (3, 4)) AND c IN (VALUES (5), (6)) AND d = ANY (SELECT ...) AND (a, b) >= (1, 2)
Out: (a = 1 AND b = 2 OR a = 3 AND b = 4) AND c IN (5, 6) AND d IN (SELECT ...) AND (a > 1 OR a = 1 AND b >= 2)
"""

from __future__ import annotations

from sqlglot import exp

from rewriter.effort import spend
from rewriter.ir.trees import and_, or_, walk
from rewriter.refusal import Refusal
from rewriter.syntax.allowlist import position

_STRICT: dict[type[exp.Expr], type[exp.Binary]] = {
    exp.LT: exp.LT,
    exp.LTE: exp.LT,
    exp.GT: exp.GT,
    exp.GTE: exp.GT,
}
"""The comparison of all values but the last, of rows in order."""
_KINDS = (exp.In, exp.EQ, exp.NEQ, *_STRICT)


def plain_lists(condition: exp.Expr) -> exp.Expr:
    """The condition with comparisons of single values alone; the very same where it has no others.

    >>> from sqlglot import parse_one
    >>> plain_lists(parse_one("(a, b) IN ((1, 2))", dialect="postgres")).sql()
    '(a = 1 AND b = 2)'
    >>> plain_lists(parse_one("(a, b, c) <= (1, 2, 3)", dialect="postgres")).sql()
    '(a < 1 OR (a = 1 AND (b < 2 OR (b = 2 AND c <= 3))))'
    """
    if not any(_plain(n) is not None for n in walk(condition, *_KINDS)):
        return condition
    copy = condition.copy()
    root = exp.paren(copy, copy=False)
    root.parent = condition.parent
    for node in walk(copy, *_KINDS):
        plain = _plain(node)
        if plain is not None:
            node.replace(plain)
    found: exp.Expr = root.this
    return found


def _plain(node: exp.Expr) -> exp.Expr | None:
    """A comparison with a list or a subquery in its plain form, None where it has it."""
    if isinstance(node, exp.In):
        rows = _rows(node) if node.expressions else None
        return None if rows is None else _written(node, rows)
    if isinstance(node.this, exp.Tuple) and isinstance(node.expression, exp.Tuple):
        return _compared(node)
    if type(node) in _STRICT:
        return None
    other, wanted = node.args.get("expression"), exp.Any if isinstance(node, exp.EQ) else exp.All
    if not isinstance(other, wanted) or not isinstance(other.this, exp.Query):
        return None
    query = other.this.copy()
    found = exp.In(
        this=node.this.copy(), query=query if isinstance(query, exp.Subquery) else query.subquery()
    )
    return found if isinstance(node, exp.EQ) else exp.not_(found)


def _rows(node: exp.In) -> list[exp.Expr] | None:
    """The rows that `node` lists, where they are row values or come from VALUES; None for a plain list."""
    listed = node.expressions
    if len(listed) == 1 and isinstance(listed[0], exp.Values):
        return [row if len(row.expressions) > 1 else row.expressions[0] for row in listed[0].expressions]
    return listed if isinstance(node.this, exp.Tuple) else None


def _written(node: exp.In, rows: list[exp.Expr]) -> exp.Expr:
    if not isinstance(node.this, exp.Tuple):
        return exp.In(this=node.this.copy(), expressions=[row.copy() for row in rows])
    return exp.paren(exp.or_(*(exp.and_(*_pairs(node, row, exp.EQ)) for row in rows)))


def _pairs(node: exp.Expr, row: exp.Expr, comparison: type[exp.Expr]) -> list[exp.Expr]:
    """The values of a row on the left of `node` compared with those of another row."""
    values, parts = node.this.expressions, row.expressions if isinstance(row, exp.Tuple) else []
    if len(parts) != len(values):
        raise Refusal("42601", "unequal number of entries in row expressions", position=position(node))
    # A long value is written once for each row of a list.
    spend(sum(len(walk(part)) for part in (*values, *parts)))
    pairs = zip(values, parts, strict=True)
    return [comparison(this=v.copy(), expression=p.copy()) for v, p in pairs]


def _compared(node: exp.Expr) -> exp.Expr:
    """Two rows compared by their first values that differ; NULL where one of these, or before them, is NULL."""
    if isinstance(node, (exp.EQ, exp.NEQ)):
        joined = exp.and_ if isinstance(node, exp.EQ) else exp.or_
        return exp.paren(joined(*_pairs(node, node.expression, type(node))))
    steps = zip(
        _pairs(node, node.expression, _STRICT[type(node)]),
        _pairs(node, node.expression, exp.EQ),
        strict=True,
    )
    found = _pairs(node, node.expression, type(node))[-1]
    for strict, equal in reversed(list(steps)[:-1]):
        found = or_(strict, and_(equal, found))
    return exp.paren(found)
