"""Streams: which running counts are over append-only history, and which times they can be released at.

A data owner who declares the horizon of a table's time promises that events arrive in order and stay. That holds for
the rows of that table alone, each with the unit that it names itself, chosen row by row. A unit that is found along a
path, a query that joins other private rows, or one that reads a unit's other rows or the clock of a time zone, can
change for past times.

Why: docs/decisions/streams-go-on-where-the-past-stays.md.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from rewriter.ir.measure import Running, parts
from rewriter.ir.relation import Relation, leaf, leaves
from rewriter.ir.trees import walk
from rewriter.logical.plan import AggregateNode
from rewriter.policy import Horizon, Table
from rewriter.scalar.time_zones import at_utc


def running(node: AggregateNode) -> Running | None:
    """The running count that a node is, or None."""
    return next((m for m in node.measures if isinstance(m, Running)), None)


def declared_horizon(time: exp.Expr, relation: Relation) -> tuple[str, Horizon] | None:
    """The source of the time and its horizon, where the data owner declared one."""
    for alias, name in leaves(time):
        found = relation.source(alias).table.horizon
        if found is not None and found.column == name:
            return alias, found
    return None


def grain_of(time: exp.Expr) -> str | None:
    """The unit of time that a key cuts a column into: its value is where the event's unit begins; None for others.

    >>> grain_of(exp.cast(leaf("t0", "ts"), "DATE")), grain_of(leaf("t0", "day"))
    ('day', 'day')
    """
    inner, grain = time, "day"
    if isinstance(time, exp.Cast) and time.to.this == exp.DType.DATE:
        inner = time.this
    elif isinstance(time, (exp.TimestampTrunc, exp.DateTrunc)):
        inner, grain = time.this, time.args["unit"].name.lower()
    return grain if isinstance(inner, exp.Column) else None


def within_horizon(relation: Relation, time: exp.Expr) -> Relation:
    """`relation` with the rows within the horizon that the data owner declared, if there is one."""
    found = declared_horizon(time, relation)
    if found is None:
        return relation
    alias, horizon = found
    kind = relation.source(alias).column(horizon.column).type
    last = f"{horizon.last} 23:59:59.999999" if kind != "date" and len(horizon.last) == 10 else horizon.last
    column = leaf(alias, horizon.column)
    ends = (
        exp.GTE(this=column, expression=exp.Literal.string(horizon.first)),
        exp.LTE(this=column.copy(), expression=exp.Literal.string(last)),
    )
    return replace(relation, conditions=(*relation.conditions, *ends))


def lasting(node: AggregateNode) -> str | None:
    """The unit of time of a running count whose past never changes; None where that is not known."""
    found = running(node)
    if found is None or not found.horizon:
        return None
    relation, time = node.relation, node.keys[found.time]
    declared = declared_horizon(time, relation)
    private = [s for s in relation.sources if s.private]
    whole = all(s.derived is None for s in relation.sources) and not any(s.on is not None for s in private)
    alone = len(private) == 1 and not relation.semi_joins and relation.filled is None
    if declared is None or not whole or not alone or declared[0] != private[0].alias:
        return None
    if not _by_itself(private[0].table):
        return None
    # What a zone's clock showed can change with the tz database.
    read = (*node.keys, *relation.conditions, *parts(found))
    if any(not at_utc(part) for one in read for part in walk(one, exp.AtTimeZone)):
        return None
    return grain_of(time)


def _by_itself(table: Table) -> bool:
    """Whether each row is there, and of its unit, by the columns that it is stored with."""
    computed = any(column.expression is not None for column in table.columns)
    return not table.path and table.where is None and not computed


def public_tables(relation: Relation) -> tuple[Table, ...]:
    """The public tables that a relation reads, in order of name."""
    found = {(s.table.schema, s.table.name): s.table for s in relation.sources if not s.private}
    return tuple(table for _, table in sorted(found.items()))
