"""Queries whose answer no row decides: tools ask for a table's columns, or whether the table is there.

In:  SELECT * FROM (SELECT * FROM users) AS q WHERE 0 = 1
Out: no rows
In:  SELECT 1 FROM users LIMIT 1
Out: the row of SELECT 1

In:  SELECT COUNT(*) FROM users WHERE user_id IS NULL
Out: 0, where the backend lets no user_id be NULL
In:  SELECT COUNT(*) FROM (SELECT user_id FROM users GROUP BY user_id HAVING COUNT(*) > 1) AS q
Out: 0, where the backend lets no user_id be there twice

All of them say what is declared, and nothing of the rows.
"""

from __future__ import annotations

import operator
from collections.abc import Callable

from sqlglot import exp

from rewriter.ir.measure import Count, DistinctItems, Measure, Total
from rewriter.ir.relation import Grouped, Source
from rewriter.ir.texts import sql_text
from rewriter.ir.trees import walk
from rewriter.logical.plan import AggregateNode
from rewriter.refusal import Refusal
from rewriter.statements.value_listing import asks_for_nothing
from rewriter.syntax.parse import parse_query

_COMPARED: dict[type[exp.Expr], Callable[[int, int], bool]] = {
    exp.EQ: operator.eq,
    exp.NEQ: operator.ne,
    exp.LT: operator.lt,
    exp.LTE: operator.le,
    exp.GT: operator.gt,
    exp.GTE: operator.ge,
}
_PLAIN = (
    *(exp.Column, exp.Star, exp.Identifier, exp.Literal, exp.Boolean, exp.Null, exp.Alias, exp.Paren),
    *(exp.Add, exp.Sub, exp.Mul, exp.Div, exp.DPipe, exp.Neg, exp.Not),
    *(exp.Cast, exp.DataType, exp.DataTypeParam, exp.Ordered, exp.Order, exp.Distinct),
)
"""What has no value without a row: no aggregate is among it, by whatever name it may be called."""
_SETS = (exp.Tuple, exp.Rollup, exp.Cube, exp.GroupingSets)
_PROBE = {"expressions", "from_", "limit"}
_CONSTANT = (exp.Literal, exp.Boolean, exp.Null, exp.Alias, exp.Identifier)


def without_rows(text: str) -> bool:
    """Whether the query of a text has no rows, whatever it reads; False for a text that is not a query of ours.

    >>> without_rows("SELECT * FROM t WHERE 1=0"), without_rows("SELECT COUNT(*) FROM t WHERE false")
    (True, False)
    """
    try:
        return asks_for_nothing(text) or has_no_rows(parse_query(text))
    except Refusal:
        return False


def has_no_rows(tree: exp.Expr) -> bool:
    """Whether a query has no rows, by its LIMIT or by a condition of constants.

    >>> [has_no_rows(parse_query(f"SELECT a FROM t {end}")) for end in ("FETCH FIRST 0 ROWS ONLY", "LIMIT 1")]
    [True, False]
    """
    if _limit(tree) == 0:
        return True
    if isinstance(tree, exp.Subquery):
        return not tree.args.get("joins") and has_no_rows(tree.this)
    if isinstance(tree, exp.SetOperation):
        sides = [has_no_rows(side) for side in (tree.this, tree.expression)]
        if isinstance(tree, exp.Except):
            return sides[0]
        return any(sides) if isinstance(tree, exp.Intersect) else all(sides)
    if not isinstance(tree, exp.Select) or not _a_row_for_a_row(tree):
        return False
    where, source = tree.args.get("where"), tree.args.get("from_")
    if where is not None and _truth(where.this) is False:
        return True
    alone = not tree.args.get("joins") and not tree.args.get("laterals")
    return source is not None and alone and has_no_rows(source.this)


def _a_row_for_a_row(tree: exp.Select) -> bool:
    """Whether a SELECT has no row of no rows: it has keys, and no set of none, or nothing that could aggregate."""
    group = tree.args.get("group")
    if group is not None:
        others = any(part for name, part in group.args.items() if name != "expressions")
        return (
            bool(group.expressions)
            and not others
            and not any(isinstance(k, _SETS) for k in group.expressions)
        )
    clauses = [*tree.expressions, *(tree.args.get(part) for part in ("order", "distinct"))]
    parts = (node for clause in clauses if clause is not None for node in walk(clause))
    return tree.args.get("having") is None and all(type(node) in _PLAIN or _compares(node) for node in parts)


def _compares(node: exp.Expr) -> bool:
    return isinstance(node, (exp.Predicate, exp.Connector)) and isinstance(node, exp.Binary)


def probe(text: str) -> str | None:
    """SELECT of the same constants without a table, where a text asks for one row of constants of a table.

    >>> probe("SELECT 1 FROM t LIMIT 1"), probe("SELECT 1 FROM t"), probe("SELECT a FROM t LIMIT 1")
    ('SELECT 1', None, None)
    """
    try:
        tree = parse_query(text)
    except Refusal:
        return None
    if not isinstance(tree, exp.Select) or {name for name, part in tree.args.items() if part} != _PROBE:
        return None
    constant = all(isinstance(node, _CONSTANT) for item in tree.expressions for node in walk(item))
    if _limit(tree) != 1 or not constant or not isinstance(tree.args["from_"].this, exp.Table):
        return None
    return sql_text(exp.Select(expressions=tree.expressions), "postgres")


def is_empty(node: AggregateNode) -> bool:
    """Whether a node counts rows that a constraint of the backend forbids: rows of one table in which a column is NULL
    that may not be, or units that have a unique key more than once."""
    relation = node.relation
    if len(relation.sources) != 1 or relation.semi_joins:
        return False
    (source,) = relation.sources
    forbidden = _is_null if source.derived is None else _repeats_a_key
    counts = all(isinstance(m, (Count, DistinctItems)) or _counts_rows(m) for m in node.measures)
    return counts and any(forbidden(condition, source) for condition in relation.conditions)


def _is_null(condition: exp.Expr, source: Source) -> bool:
    return (
        isinstance(condition, exp.Is)
        and not condition.args.get("negate")
        and isinstance(condition.this, exp.Column)
        and isinstance(condition.expression, exp.Null)
        and source.column(condition.this.name).required
    )


def _repeats_a_key(condition: exp.Expr, source: Source) -> bool:
    """COUNT(*) > 1 of the rows of one table with the same unit and, perhaps, other columns."""
    grouped, most = source.derived, condition.args.get("expression")
    if not isinstance(grouped, Grouped) or len(grouped.relation.sources) != 1:
        return False
    (rows,) = grouped.relation.sources
    counted = {f.name for f in grouped.aggregates if f.value == exp.Count(this=exp.Star())}
    return (
        isinstance(condition, exp.GT)
        and isinstance(condition.this, exp.Column)
        and condition.this.name in counted
        and isinstance(most, exp.Literal)
        and most.name.isdigit()
        and int(most.name) >= 1
        and rows.derived is None
        and any(
            key
            <= {*rows.table.unit, *(f.value.name for f in grouped.keys if isinstance(f.value, exp.Column))}
            for key in rows.table.keys
        )
    )


def _counts_rows(measure: Measure) -> bool:
    return isinstance(measure, Total) and measure.value is None


def _limit(tree: exp.Expr) -> int | None:
    clause = tree.args.get("limit")
    number = None if clause is None else clause.args.get("expression") or clause.args.get("count")
    return int(number.name) if isinstance(number, exp.Literal) and number.name.isdigit() else None


def _truth(condition: exp.Expr) -> bool | None:
    """Whether a condition of constants is true; None where that depends on rows, or is not seen."""
    condition = condition.unnest()
    if isinstance(condition, exp.Boolean):
        return bool(condition.this)
    if isinstance(condition, exp.Not):
        inner = _truth(condition.this)
        return None if inner is None else not inner
    if isinstance(condition, (exp.And, exp.Or)):
        decides = isinstance(condition, exp.Or)
        sides = [_truth(side) for side in (condition.this, condition.expression)]
        return decides if decides in sides else None if None in sides else not decides
    compared = _COMPARED.get(type(condition))
    if compared is None:
        return None
    sides_of = [side.unnest() for side in (condition.this, condition.expression)]
    if not all(
        isinstance(side, exp.Literal) and side.name.isdigit() and not side.is_string for side in sides_of
    ):
        return None
    return compared(*(int(side.name) for side in sides_of))
