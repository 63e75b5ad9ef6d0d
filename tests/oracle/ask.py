"""A statement's DP nodes as the proxy plans them, and the queries that the backend runs for each."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeGuard

from sqlglot import exp

from dpproxy.engine.planner import BoundNode
from rewriter.emit.histogram import check_dialect
from rewriter.ir.measure import (
    Count,
    DistinctItems,
    Joint,
    Measure,
    Moment,
    Quantiles,
    Running,
    Total,
    Vector,
)
from rewriter.logical.key_domains import domain_queries
from rewriter.logical.lasting_streams import within_horizon
from rewriter.logical.plan import UNITS, AggregateNode, LogicalPlan
from rewriter.logical.split import split_query
from rewriter.plan import Cells, HistogramQuery
from rewriter.refusal import Refusal
from rewriter.scalar.typecheck import Parameter
from tests.oracle.world import World
from tests.rewriter.engine import texts
from tests.stability.question import cells_of

WHOLE = 10_000_000
"""More groups than there are."""
CELLS = 600
"""Nodes with more cells are left out: they cost time and show nothing else."""
BINS, MOST_ITEMS, MOST_GROUPS = 64, 3, 3
"""How finely a quantile's range is cut, and how many items and selected groups of one unit count."""
SCALE, LENGTHS = 1 << 10, (1, 6)
"""What clipped vectors are multiplied by, and to how many anchors they are clipped."""
STEPS, PLACES = 4, 164
"""How finely lengths and averages are told apart, and how many places there are for them."""
CENTRE = 3
WIDE = 1 << 40
_NAMES = re.compile(r"^(?:WITH |\), )\"?(\w+)\"? AS \($", re.MULTILINE)
_PARAMETER = re.compile(r"\$\d+")
Asked = Literal["histogram", "bins", "items", "weights", "running", "places", "clipped"]


class TooLarge(Exception):
    """A node over more cells than are looked at."""


@dataclass(frozen=True)
class Query:
    """One of a node's queries: `asked` for its measures; `node` is the node with those alone.

    `lengths`: of the clipped vector that each column is a part of, its number and its length times SCALE.
    """

    asked: Asked
    node: BoundNode
    written: HistogramQuery
    lengths: tuple[tuple[int, int], ...] = ()

    @property
    def measures(self) -> tuple[Measure, ...]:
        """What the query measures, in the order of its columns."""
        return self.node.aggregate.measures

    @property
    def ctes(self) -> list[str]:
        """The names of its parts, in order."""
        return _NAMES.findall(self.written.sql)

    def values(self) -> list[object]:
        """What is bound to its parameters."""
        arrays: list[object] = [list(a) for a in self.written.arrays]
        return [*arrays, "secret"] if self.written.rank_key else arrays

    def part(self, name: str) -> str:
        """The SQL of all rows of the part `name`; parameters that it does not read are named all the same."""
        end = self.written.sql.rindex("\n)\nSELECT") + 3
        before = self.written.sql[:end]
        types = ["VARCHAR[]"] * len(self.written.arrays) + ["VARCHAR"] * self.written.rank_key
        places = [(f"${n}", of) for n, of in enumerate(types, 1)]
        read = set(_PARAMETER.findall(before))
        numbered = self.node.dialect.numbered
        unread = [f"(CAST({n} AS {of}) IS NULL OR TRUE)" for n, of in places if numbered and n not in read]
        return f"{before}SELECT * FROM {name}" + (f" WHERE {' AND '.join(unread)}" if unread else "")


def planned(sql: str, world: World) -> list[BoundNode]:
    """The nodes of a statement.

    Raises Refusal; TooLarge; psycopg.Error where the front does not take the statement, or cannot say a constant.
    """
    world.front.connection.execute(f"PREPARE asked AS {sql}".encode())
    world.front.connection.execute("DEALLOCATE asked")
    front = world.front
    logical = split_query(
        sql, world.policy, (), lambda _, c: front.constant(c, ()), lambda _, c: front.rows(c, ())
    )
    return [_planned(node, logical, world) for node in logical.nodes if isinstance(node, AggregateNode)]


def _planned(node: AggregateNode, logical: LogicalPlan, world: World) -> BoundNode:
    summed = (m for m in node.measures if isinstance(m, (Moment, Total, Joint, Quantiles)))
    if any(m.value is not None and m.value.lo is None for m in summed):
        raise Refusal("PV016", "an aggregate needs finite bounds")
    check_dialect(node, world.policy, logical.values, world.engine.dialect)
    cells: Cells | None = None
    times: tuple[str, ...] = ()
    if node.measures and isinstance(node.measures[0], Running):
        times = _times(node, node.measures[0], logical.values, world)
    else:
        cells = cells_of(node, world.policy, world.front, logical.values)
    if cells is not None and len(cells) > CELLS:
        raise TooLarge
    return BoundNode(
        node, cells, "", (), b"", world.policy, logical.values, world.engine.dialect, times=times
    )


def _times(
    node: AggregateNode, measure: Running, values: tuple[Parameter, ...], world: World
) -> tuple[str, ...]:
    time = node.keys[measure.time]
    queries = domain_queries(within_horizon(node.relation, time), (time,), world.policy, values)
    rows = [row for _, query in queries or () for row in texts(world.front.connection, query.sql("postgres"))]
    return tuple(text for (text,) in rows if text is not None)


def unclamped(query: Query) -> Query:
    """The histogram of a query's measures with no value clamped: its part `r` has the values as they are."""
    measures = tuple(map(_unclamped, query.measures))
    wide = replace(
        query.node, aggregate=replace(query.node.aggregate, measures=(*measures, UNITS), order_by=None)
    )
    return Query("histogram", wide, wide.histogram(range(len(measures) + 1), WHOLE))


def clamps(measure: Measure) -> bool:
    """Whether the clamp of a measure's values may bind: where the query has a clamp of its own it does not."""
    if not isinstance(measure, (Moment, Quantiles)):
        return False
    return measure.value.value.find(exp.Least) is None


def _unclamped(measure: Measure) -> Measure:
    if isinstance(measure, (Moment, Quantiles)):
        return replace(measure, value=replace(measure.value, lo=-WIDE, hi=WIDE))
    return measure


def counted(node: BoundNode) -> Query:
    """The query of a node's units and of its measures of one number a group, over all groups that there are."""
    numbers = [m for m in node.aggregate.measures if isinstance(m, (Count, Moment))]
    asked = replace(node, aggregate=replace(node.aggregate, measures=(UNITS, *numbers), outputs=()))
    return Query("histogram", asked, asked.histogram(range(len(numbers) + 1), WHOLE))


def others(node: BoundNode, cells: Cells) -> Iterator[Query]:
    """The queries of the other measures, over these cells."""
    over = node.over(cells)
    for place, measure in enumerate(node.aggregate.measures):
        one = replace(over, aggregate=replace(over.aggregate, measures=(measure,), outputs=()))
        if isinstance(measure, Quantiles):
            yield Query("bins", one, over.bins(place, BINS))
        elif isinstance(measure, DistinctItems):
            yield Query("items", one, over.items(place, MOST_ITEMS))
    yield from _vectors(over)
    if any(map(_of_units, node.aggregate.measures)):
        totals = (Total(None, m.argument, 1, once=True) for m in node.aggregate.measures if _of_units(m))
        yield from _vectors(replace(over, aggregate=replace(over.aggregate, measures=tuple(totals))))


def _of_units(measure: Measure) -> TypeGuard[Count]:
    """Whether a measure is a count of units, which is asked as a clipped total where its domain is large."""
    return isinstance(measure, Count) and measure.tau == 1 and not measure.items


def _vectors(over: BoundNode) -> Iterator[Query]:
    """The queries of all clipped totals together: of lengths, of averages, and of sums at some lengths."""
    totals = [(n, m) for n, m in enumerate(over.aggregate.measures) if isinstance(m, (Total, Joint))]
    if not totals:
        return
    asked = replace(over, aggregate=replace(over.aggregate, measures=tuple(m for _, m in totals), outputs=()))
    vectors = [Vector(n) if isinstance(m, Total) else Vector(n, CENTRE, m.least) for n, m in totals]
    joint = [v for v in vectors if isinstance(over.aggregate.measures[v.place], Joint)]
    if joint:
        yield Query("places", asked, over.averages(joint, STEPS, PLACES))
    yield Query("places", asked, over.lengths(vectors, STEPS, PLACES))
    for times in LENGTHS:
        clips, lengths = [], []
        for number, (_, measure) in enumerate(totals):
            length = times * (measure.anchor if isinstance(measure, Total) else measure.least)
            parts = 1 if isinstance(measure, Total) else 2 + measure.squares
            clips.append((length, SCALE))
            lengths += [(number, length * SCALE)] * parts
        yield Query("clipped", asked, over.clipped(vectors, clips), tuple(lengths))


def selected(node: BoundNode, left_out: Sequence[str], turn: int, *, marked: bool = False) -> Query:
    """The query of a round of partition selection; `left_out`: marks."""
    written = node.weights(left_out, most_groups(node), turn, 1, None, marked=marked)
    return Query("weights", node, written)


def most_groups(node: BoundNode) -> int:
    """How many groups of one unit partition selection looks at."""
    return MOST_GROUPS if node.delta0 is None else min(node.delta0, MOST_GROUPS)


def streamed(node: BoundNode) -> Query:
    """The query of a running count."""
    return Query("running", node, node.running(len(node.times)))
