"""Queries whose answer no row decides: tools ask for a table's columns, or whether the table is there.

In:  SELECT * FROM (SELECT * FROM users) AS q WHERE 0 = 1
Out: no rows
In:  SELECT user_id, country FROM users WHERE country = NULL
Out: no rows
In:  SELECT 1 FROM users LIMIT 1
Out: the row of SELECT 1

In:  SELECT COUNT(*) FROM users WHERE user_id IS NULL
Out: 0, where the backend lets no user_id be NULL
In:  SELECT COUNT(*), SUM(birth_year) FROM users WHERE country = NULL
Out: 0 and NULL
In:  SELECT COUNT(*) FROM (SELECT user_id FROM users GROUP BY user_id HAVING COUNT(*) > 1) AS q
Out: 0, where the backend lets no user_id be there twice

All of them say what is declared, and nothing of the rows.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from itertools import product

from sqlglot import exp

from rewriter.ir.measure import Count, DistinctItems, Measure, Output, Total
from rewriter.ir.relation import Grouped, Source
from rewriter.ir.texts import sql_text
from rewriter.ir.trees import walk
from rewriter.logical.plan import AggregateNode
from rewriter.refusal import Refusal
from rewriter.statements.value_listing import asks_for_nothing
from rewriter.syntax.desugar import plain
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
_ANY: frozenset[bool | None] = frozenset([True, False, None])
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
    if where is not None and never_true(where.this):
        return True
    alone = not tree.args.get("joins") and not tree.args.get("laterals")
    return source is not None and alone and has_no_rows(source.this)


def leaves_a_row(tree: exp.Expr) -> bool:
    """Whether a query has a row after its LIMIT where it has one before it, by what is written alone.

    >>> [leaves_a_row(parse_query(f"SELECT a FROM t {end}")) for end in ("LIMIT 2", "", "LIMIT 0", "LIMIT 2 OFFSET 1")]
    [True, True, False, False]
    """
    unlimited = tree.args.get("limit") is None or (_limit(tree) or 0) > 0
    return unlimited and tree.args.get("offset") is None


def never_true(condition: exp.Expr) -> bool:
    """Whether no row meets a condition, by its constants alone.

    >>> never_true(exp.condition("a <> NULL OR FALSE")), never_true(exp.condition("a <> NULL OR b"))
    (True, False)
    """
    return True not in _outcomes(condition)


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
    """Whether a node's rows are none: a condition of constants is never true, or a constraint of the backend forbids
    them, of one table in which a column is NULL that may not be, or of units that have a unique key more than once."""
    relation = node.relation
    if relation.filled is not None or not all(_is_known(output, node) for output in node.outputs):
        return False
    if any(map(never_true, relation.conditions)):
        return True
    if len(relation.sources) != 1 or relation.semi_joins:
        return False
    (source,) = relation.sources
    forbidden = _is_null if source.derived is None else _repeats_a_key
    return any(forbidden(condition, source) for condition in relation.conditions)


def _is_known(output: Output, node: AggregateNode) -> bool:
    """Whether an output of no rows is known from its function: 0 of a count by itself, NULL of others."""
    if output.function not in ("count", "distinct"):
        return output.function != "running"
    measures = [node.measures[place] for place in output.measures]
    return all(isinstance(m, (Count, DistinctItems)) or _counts_rows(m) for m in measures)


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


def _outcomes(condition: exp.Expr) -> frozenset[bool | None]:
    """What a condition can be on some row, by its constants alone: true, false or, as None, NULL.

    >>> from sqlglot import parse_one
    >>> [sorted(map(str, _outcomes(parse_one(c)))) for c in ("a = NULL", "a NOT IN (1, NULL)", "a > 1 AND FALSE")]
    [['None'], ['False', 'None'], ['False']]
    """
    condition = condition.unnest()
    if isinstance(condition, exp.Boolean):
        return frozenset([bool(condition.this)])
    if _null(condition):
        return frozenset([None])
    if isinstance(condition, exp.Not):
        return frozenset(None if one is None else not one for one in _outcomes(condition.this))
    if isinstance(condition, (exp.And, exp.Or)):
        sides = [_outcomes(side) for side in (condition.this, condition.expression)]
        return frozenset(_joined(pair, isinstance(condition, exp.Or)) for pair in product(*sides))
    if isinstance(condition, exp.In) and condition.expressions:
        if _null(condition.this):
            return frozenset([None])
        return frozenset([True, None]) if any(map(_null, condition.expressions)) else _ANY
    if isinstance(condition, exp.Between):
        return frozenset([False, None]) if any(map(_null, condition.iter_expressions())) else _ANY
    compared = _COMPARED.get(type(condition))
    if compared is None:
        return _ANY
    if isinstance(condition.expression, (exp.Any, exp.All, exp.Anonymous)):
        listed = plain(condition.copy())
        return _ANY if type(listed) is type(condition) else _outcomes(listed)
    operands = [side.unnest() for side in (condition.this, condition.expression)]
    if any(map(_null, operands)):
        return frozenset([None])
    if not all(
        isinstance(side, exp.Literal) and side.name.isdigit() and not side.is_string for side in operands
    ):
        return _ANY
    return frozenset([compared(*(int(side.name) for side in operands))])


def _joined(sides: tuple[bool | None, ...], decides: bool) -> bool | None:
    """AND, or OR where `decides`: the value of one side that decides it, else NULL where one is NULL."""
    return decides if decides in sides else None if None in sides else not decides


def _null(node: exp.Expr) -> bool:
    """Whether NULL is written, perhaps as a value of some type."""
    node = node.unnest()
    return isinstance(node, exp.Null) or (isinstance(node, exp.Cast) and _null(node.this))
