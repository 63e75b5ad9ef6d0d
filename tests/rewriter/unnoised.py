"""Answers without noise on either engine: what mechanisms would add noise to, shown as it is."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import partial
from itertools import pairwise
from typing import Any

import duckdb
import psycopg

from dpproxy.backends.base import text
from mechanisms import numeric
from rewriter.emit.engines.base import Engine
from rewriter.emit.engines.duckdb import DUCKDB
from rewriter.emit.engines.postgres import POSTGRES
from rewriter.emit.histogram import histogram_query, types_query
from rewriter.emit.other_queries import QueryContext, bins_query, items_query, running_query, weights_query
from rewriter.ir.measure import Count, DistinctItems, Moment, Output, Quantiles, Running
from rewriter.logical.key_domains import domain_queries, known_cells
from rewriter.logical.plan import UNITS, AggregateNode
from rewriter.logical.presentation import ReleasedColumns, node_columns, present
from rewriter.logical.split import split_query
from rewriter.plan import Cells, HistogramQuery
from rewriter.policy import Policy
from tests.rewriter.engine import described, executed, texts

BINS = 1 << 12
MANY = 1_000_000
Row = tuple[Any, ...]
Run = Callable[[HistogramQuery], list[Row]]


@dataclass(frozen=True)
class Judge:
    """A backend of one dialect, and the front: `run` gives the rows of an emitted query."""

    policy: Policy
    dialect: Engine
    run: Run
    front: psycopg.Connection

    @property
    def backend(self) -> QueryContext:
        return QueryContext(self.policy, (), self.dialect)


def on_duckdb(policy: Policy, connection: duckdb.DuckDBPyConnection, front: psycopg.Connection) -> Judge:
    """The judge whose backend is DuckDB."""
    return Judge(policy, DUCKDB, lambda q: connection.execute(q.sql, _bound(q)).fetchall(), front)


def on_postgres(policy: Policy, front: psycopg.Connection) -> Judge:
    """The judge whose backend is PostgreSQL."""
    return Judge(
        policy,
        POSTGRES,
        lambda q: psycopg.RawCursor(front).execute(q.sql.encode(), _bound(q)).fetchall(),
        front,
    )


def _bound(query: HistogramQuery) -> list[Any]:
    return [list(a) for a in query.arrays] + (["secret"] if query.rank_key else [])


def answer(sql: str, judge: Judge) -> list[Row]:
    """What an analyst would get if mechanisms added nothing."""
    logical = split_query(sql, judge.policy)
    columns: list[ReleasedColumns] = []
    arrays: list[list[Any]] = []
    for node in logical.nodes:
        assert isinstance(node, AggregateNode)
        columns.append(node_columns(node, described(judge.front, types_query(node, logical.values, 0))))
        keys, shown = released(node, judge, [c.type for c in columns[-1][len(node.keys) :]])
        arrays += [[row[n] for row in keys] for n in range(len(node.keys))]
        plain = [c.transport == "int8" for c in columns[-1][len(node.keys) :]]
        arrays += [[int(v) for v in c] if p else list(c) for c, p in zip(shown, plain, strict=True)]
    presentation = present(logical, columns, None)
    return executed(judge.front, presentation.sql, (), arrays)


def released(node: AggregateNode, judge: Judge, types: Sequence[str]) -> tuple[Cells, list[Sequence[Any]]]:
    """The groups of a node and its outputs as texts."""
    if node.measures and isinstance(node.measures[0], Running):
        return running(node, judge)
    groups = cells_of(node, judge)
    measured = {
        place: histogram(node, place, groups, judge)
        for place, measure in enumerate(node.measures)
        if isinstance(measure, (Count, Moment))
    }
    found: list[Sequence[Any]] = []
    for output, type_name in zip(node.outputs, types, strict=True):
        measure = node.measures[output.measures[0]]
        if isinstance(measure, Quantiles):
            found.append([written(v, type_name) for v in quantiles(node, output, groups, judge)])
        elif isinstance(measure, DistinctItems):
            found.append(distinct(node, output.measures[0], groups, judge))
        else:
            columns = zip(*(measured[p] for p in output.measures), strict=True)
            found.append([written(computed(node, output, values), type_name) for values in columns])
    return groups, found


def computed(node: AggregateNode, output: Output, values: Sequence[int]) -> Fraction | None:
    """An output from the exact values of its measures."""
    moment = next((m for m in (node.measures[p] for p in output.measures) if isinstance(m, Moment)), None)
    if moment is None:
        return values[0] * output.factor
    assert moment.value.lo is not None
    assert moment.value.hi is not None
    unit = output.factor / Fraction(10) ** moment.value.scale
    if output.function == "sum" and not moment.centred:
        return values[0] * unit
    count, total = values[-1], values[-2]
    whole = (
        numeric.uncentred(total, count, moment.value.lo, moment.value.hi)
        if moment.centred
        else Fraction(total)
    )
    if output.function == "sum":
        return whole * unit
    if output.function == "avg":
        return None if count == 0 else whole / count * unit
    sample = output.function.endswith("samp")
    found = numeric.variance(Fraction(values[0]), Fraction(total), count, sample=sample)
    if found is None:
        return None
    variance = found * unit**2 / 4
    return variance if output.function.startswith("var") else Fraction(math.sqrt(variance))


def written(value: Fraction | None, type_name: str) -> str | None:
    """A value as PostgreSQL reads it as the type."""
    if value is None:
        return None
    if type_name == "bigint" or type_name == "integer":
        return str(round(value))
    if type_name == "date":
        return str(dt.date(1970, 1, 1) + dt.timedelta(days=math.floor(value)))
    if type_name.startswith("timestamp"):
        return str(dt.datetime(1970, 1, 1) + dt.timedelta(seconds=float(value)))
    return str(Decimal(value.numerator) / Decimal(value.denominator))


def cells_of(node: AggregateNode, judge: Judge) -> Cells:
    """The cells of a known domain; of an unknown one all groups that there are."""
    if not node.keys:
        return ((),)
    cells = known_cells(node.relation, node.keys, judge.policy, (), partial(texts, judge.front))
    if cells is not None:
        return cells
    if not node.measures:
        return selected(node, judge)
    counted = replace(node, measures=(UNITS,), order_by=0)
    rows = judge.run(histogram_query(counted, judge.policy, (), None, node.bound.value, MANY, judge.dialect))
    return tuple(tuple(text(v) for v in row[:-1]) for row in rows)


def selected(node: AggregateNode, judge: Judge) -> Cells:
    """All groups, in two rounds of which the second leaves out what came out of the first."""
    marked = judge.run(weights_query(node, (), MANY, 0, judge.backend, marked=True))
    kept = _groups([row[:-1] for row in marked[::2]])
    second = _groups(judge.run(weights_query(node, [row[-1] for row in marked[::2]], MANY, 1, judge.backend)))
    assert not set(kept) & set(second)
    return (*kept, *second)


def _groups(rows: list[Row]) -> Cells:
    assert all(row[-1] > 0 for row in rows)
    return tuple(tuple(text(v) for v in row[:-1]) for row in rows)


def histogram(node: AggregateNode, place: int, groups: Cells, judge: Judge) -> list[int]:
    """A count or sum of each group."""
    one = replace(node, measures=(node.measures[place],), order_by=None)
    query = histogram_query(one, judge.policy, (), groups, node.bound.value, None, judge.dialect)
    found = {row[0]: row[1] for row in judge.run(query)}
    assert sorted(found) == list(range(1, len(groups) + 1))
    return [found[n + 1] for n in range(len(groups))]


def quantiles(node: AggregateNode, output: Output, groups: Cells, judge: Judge) -> list[Fraction | None]:
    """The middle of the bin that holds the quantile of each group, None without values."""
    measure = node.measures[output.measures[0]]
    assert isinstance(measure, Quantiles)
    lo, hi = measure.value.lo, measure.value.hi
    assert lo is not None
    assert hi is not None
    assert output.fraction is not None
    rows = judge.run(bins_query(node, output.measures[0], groups, BINS, node.bound.value, judge.backend))
    assert all(0 <= row[1] < BINS and row[2] > 0 for row in rows)
    found: list[Fraction | None] = []
    for cell in range(1, len(groups) + 1):
        bins = [b for c, b, n in sorted(rows) if c == cell for _ in range(n)]
        place = max(math.ceil(output.fraction * len(bins)), 1) - 1
        value = None if not bins else lo + Fraction(bins[place] * 2 + 1, 2 * BINS) * (hi - lo + 1)
        found.append(None if value is None else value / Fraction(10) ** measure.value.scale)
    return found


def distinct(node: AggregateNode, place: int, groups: Cells, judge: Judge) -> list[int]:
    """How many different items there are in each group."""
    rows = judge.run(items_query(node, place, groups, MANY, node.bound.value, judge.backend))
    assert len(set(rows)) == len(rows)
    return [len({item for cell, _, item in rows if cell == n + 1}) for n in range(len(groups))]


def running(node: AggregateNode, judge: Judge) -> tuple[Cells, list[Sequence[Any]]]:
    """The running count of each item at the times at which it has rows."""
    measure = node.measures[0]
    assert isinstance(measure, Running)
    queries = domain_queries(node.relation, (node.keys[measure.time],), judge.policy, ())
    assert queries is not None
    times = [t for (t,) in texts(judge.front, queries[0][1].sql("postgres")) if t is not None]
    assert all(a < b for a, b in pairwise(times))
    rows = judge.run(running_query(node, times, judge.backend))
    keys, counts = [], []
    for *item, time, _ in rows:
        key = [text(v) for v in item]
        key.insert(measure.time, times[time - 1])
        keys.append(tuple(key))
        counts.append(sum(r[-1] for r in rows if list(r[:-2]) == item and r[-2] <= time))
    return tuple(keys), [[str(c) for c in counts]]
