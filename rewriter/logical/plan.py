"""The result of the split: DP nodes in base form, references to the proxy's own tables, what stands above them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from sqlglot import exp

from rewriter.binder.constants import Constant
from rewriter.binder.contribution_bounds import Bound
from rewriter.ir.measure import Count, Measure, Output
from rewriter.ir.relation import Relation
from rewriter.scalar.typecheck import Parameter, Parameters
from rewriter.statements.value_listing import ValueListing
from rewriter.syntax.round_trip import spellings

SYSTEM = "dpproxy"
SYSTEM_TABLES = ("budget", "releases", "last_release")
NODE, SETS = "node", "sets"
Sets = tuple[tuple[int, ...], ...]
"""Of each grouping set the places of its keys among all keys of the query."""


@dataclass(frozen=True)
class AggregateNode:
    """A DP node in base form: what it releases about each group, and the columns that are made of that.

    `bound`: what one unit can do to its groups. `k`: LIMIT + OFFSET in top-k form, which orders by the count
    `order_by` (its place among the measures, None without that form); `counts`: whether that count is shown.
    Without measures the groups themselves are released. `names`: what the client calls the outputs, or what they are
    inside of, "" where nothing shows them; `factors`: what is shown under such a name for each 1 of the output.
    `listing`: that is the whole statement, a bare list of values. `present`: the groups have to be those in the data,
    not those of a domain.
    """

    relation: Relation
    keys: tuple[exp.Expr, ...]
    measures: tuple[Measure, ...]
    outputs: tuple[Output, ...]
    bound: Bound
    k: int | None
    order_by: int | None
    counts: bool
    names: tuple[str, ...] = ()
    factors: tuple[Fraction, ...] = ()
    present: bool = False
    listing: ValueListing | None = None

    @property
    def selecting(self) -> int | None:
        """The index of the measure that selects the groups of an unknown domain; None if `UNITS` must be added.

        It is the count that ORDER BY sorts by, or the only measure if that is a count, else the count of units.
        """
        if self.order_by is not None and isinstance(self.measures[self.order_by], Count):
            return self.order_by
        if len(self.measures) == 1 and isinstance(self.measures[0], Count):
            return 0
        return next((n for n, m in enumerate(self.measures) if m == UNITS), None)


UNITS = Count(None, 1)
"""The number of units in a group."""


@dataclass(frozen=True)
class SystemTableNode:
    """A reference to one of the proxy's own tables (dpproxy.budget and the like).

    `most`: of its rows in order of time, how many the statement reads at most, the last of them where it reads the
    `newest`; None for all.
    """

    name: str
    most: int | None = None
    newest: bool = False


@dataclass(frozen=True)
class LogicalPlan:
    """One statement, analysed. Nothing of it changes any more.

    Attributes:
        tree: our reading of the client's text.
        nodes: what must be released, in order.
        above: the same statement over released rows, each node's in the place that `released_rows` made.
        parameters: the client's.
        constants: what the front has to evaluate for the nodes.
        statements: the SELECT of each constant, over released rows.
        values: the parameters and, behind them, the constants, as base forms name them.
        orders: that of the keys of each GROUP BY.
    """

    tree: exp.Query
    nodes: tuple[AggregateNode | SystemTableNode, ...]
    above: exp.Query
    parameters: Parameters
    constants: tuple[Constant, ...]
    statements: tuple[exp.Select, ...]
    values: tuple[Parameter, ...]
    orders: tuple[Sequence[int], ...]

    def spellings(self) -> Iterator[str]:
        """Our reading of the statement's text as text."""
        return spellings(self.tree)


def released(index: int) -> str:
    """The name of node `index`'s released rows in the presentation."""
    return f"_r{index}"


def released_rows(index: int, sets: Sets = ()) -> exp.Table:
    """The place of node `index`'s released rows in FROM; no name of the client's is taken for it.

    With several `sets`, the keys of each of the nodes from `index` on, it is all their rows.
    """
    table = exp.table_(released(index))
    table.meta[NODE] = index
    table.meta[SETS] = sets
    return table
