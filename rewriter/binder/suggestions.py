"""Statements for hints that are made of the client's own: the same rows, asked for in another way."""

from __future__ import annotations

from collections.abc import Container, Sequence

from sqlglot import exp

from rewriter.binder.constants import visible
from rewriter.binder.names import item_name
from rewriter.binder.rejections import visible_unit
from rewriter.ir.trees import folded, walk
from rewriter.policy import Policy
from rewriter.syntax.pasted import identifier, table_name, written

SUMMED = (exp.Count, exp.Sum, exp.Avg, exp.Min, exp.Max)


def over_same_rows(select: exp.Select, keys: Sequence[exp.Expr], values: Sequence[exp.Expr]) -> exp.Select:
    """The rows of a SELECT's FROM and WHERE, with `values` of each group of `keys`.

    >>> from rewriter.syntax.parse import parse_query
    >>> select = parse_query("SELECT DISTINCT a, COUNT(*) OVER (PARTITION BY a) FROM t WHERE b = 1")
    >>> over_same_rows(select, [select.expressions[0]], [exp.Count(this=exp.Star())]).sql()
    'SELECT a, COUNT(*) FROM t WHERE b = 1 GROUP BY a'
    """
    kept = {part: select.args[part] for part in ("from_", "joins", "where") if select.args.get(part)}
    query = exp.Select(expressions=[*keys, *values], **kept).copy()
    if keys:
        query.set("group", exp.Group(expressions=[key.copy() for key in keys]))
    ctes = [cte.copy() for cte in visible(select)]
    if ctes:
        query.set("with_", exp.With(expressions=ctes))
    return query


def counted_values(select: exp.Select, value: exp.Expr, unit: str | None) -> str | None:
    """The values that most units have, in each group of a SELECT if it has groups; None where these are not plain.

    >>> from rewriter.syntax.parse import parse_query
    >>> select = parse_query("SELECT a, MODE() WITHIN GROUP (ORDER BY b) FROM t GROUP BY a")
    >>> counted_values(select, exp.column("b"), "id")
    'SELECT a, b, COUNT(DISTINCT id) FROM t GROUP BY a, b ORDER BY 3 DESC LIMIT 10'
    """
    group = select.args.get("group")
    if group is not None and any(values for part, values in group.args.items() if part != "expressions"):
        return None
    shown = [item.unalias() for item in select.expressions]
    keys = [item for item in shown if not item.find(exp.AggFunc, exp.Query)] if group is not None else []
    counted = exp.var("COUNT(*)" if unit is None else f"COUNT(DISTINCT {unit})")
    query = over_same_rows(select, [*keys, value], [counted])
    largest = exp.Ordered(this=exp.Literal.number(len(keys) + 2), desc=True, nulls_first=True)
    query.set("order", exp.Order(expressions=[largest]))
    return written(query.limit(10))


def distinct_windows(select: exp.Select) -> str | None:
    """SELECT DISTINCT of aggregates over partitions, with the keys of these beside them, as GROUP BY; None for others.

    >>> from rewriter.syntax.parse import parse_query
    >>> distinct_windows(parse_query("SELECT DISTINCT a, COUNT(*) OVER (PARTITION BY a) AS n FROM t"))
    'SELECT a, COUNT(*) AS n FROM t GROUP BY a'
    """
    distinct, others = select.args.get("distinct"), ("group", "having", "order", "limit", "offset")
    if distinct is None or distinct.args.get("on") or any(select.args.get(part) for part in others):
        return None
    shown = [item.unalias() for item in select.expressions]
    windows = [item for item in shown if isinstance(item, exp.Window)]
    keys = [item for item in shown if not isinstance(item, exp.Window)]
    if not all(
        isinstance(w.this, SUMMED) and set(w.args.get("partition_by") or []) == set(keys) for w in windows
    ):
        return None
    if any(w.args.get("order") for w in windows) or any(key.find(exp.Window) for key in keys):
        return None
    query = over_same_rows(
        select, keys, [i for i in select.expressions if isinstance(i.unalias(), exp.Window)]
    )
    for window in [w for item in query.expressions for w in item.find_all(exp.Window)]:
        window.replace(window.this)
    return written(query)


def first_row_of_units(select: exp.Expr, policy: Policy, others: Container[str]) -> str | None:
    """A hint to what stands for one value of a private table by ORDER BY and LIMIT, which is correlated with other
    rows; None for other subqueries. `others`: names that are no tables.

    In:  (SELECT e.action FROM events e WHERE e.user_id = u.user_id ORDER BY e.ts LIMIT 1)
    Out: SELECT DISTINCT ON (user_id) user_id, action AS first FROM events ORDER BY user_id, ts
    """
    clause, order = select.args.get("from_"), select.args.get("order")
    plain = isinstance(select, exp.Select) and len(select.expressions) == 1 and not select.args.get("joins")
    if not plain or clause is None or order is None or select.args.get("limit") is None:
        return None
    item = clause.this
    name = folded(item.this) if isinstance(item, exp.Table) else ""
    table = None if not name or name in others else policy.find(folded(item.args.get("db")) or None, name)
    unit = None if table is None or table.public else visible_unit(table)
    if table is None or unit is None:
        return None
    if select.args.get("group") or select.expressions[0].find(exp.AggFunc, exp.Window, exp.Query, exp.Star):
        return None
    value, *ordered = (part.copy() for part in (select.expressions[0].unalias(), *order.expressions))
    for column in (column for part in (value, *ordered) for column in walk(part, exp.Column)):
        if folded(column.args.get("table")) not in ("", item_name(item)):
            return None
        column.set("table", None)
    by = ", ".join([identifier(unit), *map(written, ordered)])
    rows = f"SELECT DISTINCT ON ({identifier(unit)}) {identifier(unit)}, {written(value)} AS first"
    return (
        f"Take the first row of each unit in a subquery, e.g. `SELECT first, COUNT(*) FROM ({rows} FROM "
        f"{table_name(table)} ORDER BY {by}) AS t GROUP BY first`; or use an aggregate."
    )
