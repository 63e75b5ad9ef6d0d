"""Statements that tools send automatically: lists of the values of one column, and LIMIT 0 for the columns alone.

In:  SELECT DISTINCT job_title FROM users ORDER BY 1 LIMIT 5000
Out: a listing with the LIMIT 5000

Profilers ask for the first and last value of each column, which for texts are read off the same list.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from rewriter.statements.lexer import statement_tokens

_PARTS = {"expressions", "from_", "distinct", "group", "order", "limit", "offset"}


@dataclass(frozen=True)
class ValueListing:
    """A bare list of one column's values, or their extremes; `limit`: what its LIMIT names, None without one."""

    limit: int | None


def listing(tree: exp.Expr, nodes: Sequence[exp.Expr]) -> ValueListing | None:
    """What a statement of these nodes lists, None where it is anything but the bare values of columns of one table.

    `SELECT DISTINCT c FROM t` or `SELECT c FROM t GROUP BY c`, with ORDER BY and LIMIT or without; or aggregates of all
    rows with MIN(c) or MAX(c) among them. A WHERE, a join, an expression, an aggregate beside c or a second column mean
    that a person has written the query.
    """
    if not isinstance(tree, exp.Select) or {name for name, part in tree.args.items() if part} - _PARTS:
        return None
    source, distinct, group = (tree.args.get(name) for name in ("from_", "distinct", "group"))
    if distinct is None and group is None and source is not None and isinstance(source.this, exp.Table):
        extremes = [node for node in nodes if isinstance(node, (exp.Min, exp.Max))]
        bare = all(
            isinstance(one.this, exp.Column) and not isinstance(one.parent, exp.Filter) for one in extremes
        )
        return ValueListing(None) if extremes and bare and not _any(nodes, exp.Subquery) else None
    if len(tree.expressions) != 1 or not isinstance(tree.expressions[0].unalias(), exp.Column):
        return None
    if (distinct is None and group is None) or (group is not None and len(group.expressions) != 1):
        return None
    if source is None or not isinstance(source.this, exp.Table):
        return None
    if (distinct is not None and distinct.args.get("on")) or _any(
        nodes, exp.AggFunc, exp.Window, exp.Subquery
    ):
        return None
    return ValueListing(_limit(tree.args.get("limit")))


def _any(nodes: Sequence[exp.Expr], *types: type[exp.Expr]) -> bool:
    return any(isinstance(node, types) for node in nodes)


def asks_for_nothing(text: str) -> bool:
    """Whether a query ends with LIMIT 0: tools use it to learn the columns, and it returns no rows whatever it reads.

    >>> asks_for_nothing("SELECT * FROM users LIMIT 0;"), asks_for_nothing("SELECT (SELECT 1 LIMIT 0)")
    (True, False)
    """
    return [token.word for token in statement_tokens(text)[-2:]] == ["LIMIT", "0"]


def _limit(clause: exp.Expr | None) -> int | None:
    number = None if clause is None else clause.args.get("expression") or clause.args.get("count")
    return int(number.name) if isinstance(number, exp.Literal) and number.name.isdigit() else None
