"""Spellings of PostgreSQL that are others in disguise, in base form.

In:  x = ANY (ARRAY[1, 2]), x BETWEEN SYMMETRIC 3 AND 1, CASE x WHEN 1 THEN 2 END, DATE(x), date_part('year', x)
Out: x IN (1, 2), (x BETWEEN 3 AND 1 OR x BETWEEN 1 AND 3), CASE WHEN x = 1 THEN 2 END, CAST(x AS DATE),
     CAST(EXTRACT(YEAR FROM x) AS DOUBLE PRECISION)
"""

from __future__ import annotations

from sqlglot import exp


def plain(node: exp.Expr) -> exp.Expr:
    """The expression without such spellings.

    >>> plain(exp.maybe_parse("x <> ALL (ARRAY[1, 2])", dialect="postgres")).sql()
    'NOT x IN (1, 2)'
    """
    return node.transform(_plain)


def _plain(node: exp.Expr) -> exp.Expr:
    if isinstance(node, (exp.EQ, exp.NEQ)):
        return _listed(node)
    if isinstance(node, exp.Between) and node.args.get("symmetric"):
        low, high = node.args["low"], node.args["high"]
        ways = [exp.Between(this=node.this.copy(), low=a.copy(), high=b.copy()) for a, b in _ways(low, high)]
        return exp.paren(exp.or_(*ways))
    if isinstance(node, exp.Case) and node.this is not None:
        ifs = [
            exp.If(this=exp.EQ(this=node.this.copy(), expression=i.this), true=i.args["true"])
            for i in node.args["ifs"]
        ]
        return exp.Case(ifs=ifs, default=node.args.get("default"))
    if isinstance(node, exp.Date) and not node.expressions and node.args.get("zone") is None:
        return exp.cast(node.this, "DATE")
    if isinstance(node, exp.Anonymous) and node.name.lower() == "date_part":
        return _part(node)
    return node


def _part(node: exp.Anonymous) -> exp.Expr:
    """date_part of a field that is written down: EXTRACT, as a floating point number."""
    if len(node.expressions) != 2 or not node.expressions[0].is_string:
        return node
    field, value = node.expressions
    return exp.cast(exp.Extract(this=exp.var(field.name.upper()), expression=value), "DOUBLE")


def _ways(low: exp.Expr, high: exp.Expr) -> tuple[tuple[exp.Expr, exp.Expr], ...]:
    return (low, high), (high, low)


def _listed(node: exp.Binary) -> exp.Expr:
    """`= ANY` and `<> ALL` of a list that is written down."""
    right, equal = node.expression, isinstance(node, exp.EQ)
    if isinstance(right, exp.Any) and equal:
        array = right.this.unnest()
    elif (
        isinstance(right, exp.Anonymous)
        and right.name.upper() == ("SOME" if equal else "ALL")
        and len(right.expressions) == 1
    ):
        array = right.expressions[0].unnest()
    else:
        return node
    if not isinstance(array, exp.Array) or not array.expressions:
        return node
    found = exp.In(this=node.this, expressions=array.expressions)
    return found if equal else exp.not_(found)
