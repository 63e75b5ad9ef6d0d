"""What is asked of the engines: a DP node with its cells, and the bounds that its measures promise."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

from dpproxy.backends.base import text
from rewriter.emit.histogram import histogram_query
from rewriter.ir.measure import Count, Moment, Quantiles
from rewriter.logical.key_domains import known_cells
from rewriter.logical.plan import UNITS, AggregateNode
from rewriter.logical.split import split_query
from rewriter.plan import Cells, HistogramQuery
from rewriter.policy import Policy
from rewriter.refusal import Refusal
from rewriter.scalar.typecheck import Parameter
from tests.rewriter.engine import texts
from tests.stability.engine import DuckDBEngine, Engine, PostgresEngine

Histogram = dict[tuple[str | None, ...], tuple[int, ...]]
RANK_KEY = "secret"
WHOLE = 10_000_000
"""More groups than there are: the histogram before it is cut to the largest."""


@dataclass(frozen=True)
class Question:
    """A node of the statement `sql`; `cells` is None for an unknown domain."""

    sql: str
    node: AggregateNode
    cells: Cells | None
    policy: Policy
    parameters: tuple[Parameter, ...]

    @property
    def counted(self) -> AggregateNode:
        """The node with its measures of one number a group, and the units, which say what groups there are."""
        numbers = tuple(m for m in self.node.measures if isinstance(m, (Count, Moment)))
        return replace(self.node, measures=(*numbers, UNITS), order_by=len(numbers))

    @cached_property
    def queries(self) -> dict[str, HistogramQuery]:
        """What each engine runs, before the histogram is cut to the largest groups."""
        delta0 = self.node.bound.value
        return {
            name: histogram_query(
                self.counted, self.policy, self.parameters, self.cells, delta0, WHOLE, dialect
            )
            for name, dialect in ((e.name, e.dialect) for e in (DuckDBEngine, PostgresEngine))
        }

    @property
    def asked(self) -> Hashable:
        """All that a check depends on: what the engines run, and what the bounds are."""
        queries = tuple((name, query.sql, query.arrays) for name, query in self.queries.items())
        return queries, self.cells, self.node.bound, self.counted.measures

    def histogram(self, engine: Engine) -> Histogram:
        """The node's histogram without noise, over every cell of a known domain; raises BackendRaised."""
        query = self.queries[engine.name]
        bound: list[object] = [*map(list, query.arrays), *([RANK_KEY] if query.rank_key else [])]
        found = engine.run(query.sql, bound)
        if self.cells is not None:
            cells = list(self.cells)
            return {cells[row[0] - 1]: tuple(row[1:]) for row in found}
        width = len(self.node.keys)
        return {tuple(map(text, row[:width])): tuple(row[width:]) for row in found}


def questions(
    sql: str, policy: Policy, front: PostgresEngine, parameters: Sequence[Parameter] = ()
) -> list[Question]:
    """The nodes of a statement, its constants made of the exact data; raises Refusal, and psycopg.Error where
    PostgreSQL cannot say a constant or the domain."""
    found = []
    logical = split_query(
        sql,
        policy,
        parameters,
        lambda _, constant: front.constant(constant, parameters),
        lambda _, constant: front.rows(constant, parameters),
    )
    for constant in logical.constants:
        if constant.calls:
            front.refuse_changing(constant.statement().sql("postgres"), parameters, rows=constant.whole)
    for node in logical.nodes:
        if isinstance(node, AggregateNode):
            _refuse_boundless(node)
            cells = cells_of(node, policy, front, logical.values)
            found.append(Question(sql, node, cells, policy, logical.values))
    return found


def _refuse_boundless(node: AggregateNode) -> None:
    """As at the price: a bound that is a NULL parameter is none."""
    if any(isinstance(m, (Moment, Quantiles)) and m.value.lo is None for m in node.measures):
        raise Refusal("PV016", "an aggregate needs finite bounds")


def cells_of(
    node: AggregateNode, policy: Policy, front: PostgresEngine, parameters: Sequence[Parameter]
) -> Cells | None:
    """The cells of a node's known domain as texts, None for an unknown one."""
    if not node.keys:
        return ((),)
    return known_cells(node.relation, node.keys, policy, parameters, partial(texts, front.connection))
