"""The error of one answer: the release is drawn several times from a discarded key and compared with the truth.

For the data owner's eyes: true numbers are compared here, and only the errors of released ones are reported.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from dpproxy.engine.release_plan import ReleasePlan
from dpproxy.engine.result.postprocess import OutputColumn, Value, outputs
from dpproxy.engine.result.released_table import ReleasedTable
from dpproxy.engine.selection.groups import Fetch
from dpproxy.owner.assess import plain
from mechanisms import randomness
from rewriter.ir.measure import Moment, Quantiles
from rewriter.logical.plan import AggregateNode
from rewriter.plan import Cells

DRAWS, MANY = 5, 10_000
"""How often a release is drawn: once where there are more groups than `MANY`."""
_TIMES = ("date", "timestamp")


@dataclass(frozen=True)
class ColumnAccuracy:
    """A released column: its median relative error over groups and draws, None where nothing can be compared."""

    name: str
    error: float | None


@dataclass(frozen=True)
class Fit:
    """A DP node's release: how many groups there are, how many are released, and the errors of their columns.

    `threshold`: about what a group needs, None where every one is released or the data decide; `information` and
    `calls`: what it costs on average. Errors of numbers are relative to the true ones, of dates to their range.
    """

    mechanism: str
    groups: int
    released: float
    threshold: int | None
    columns: tuple[ColumnAccuracy, ...]
    information: float
    calls: float


@dataclass(frozen=True)
class Truth:
    """A node's exact rows: its groups, the largest first where nothing else orders them, and its outputs."""

    cells: Cells
    columns: tuple[OutputColumn, ...]


def truth(one: ReleasePlan, fetch: Fetch) -> Truth:
    """The node's exact rows, without any protection."""
    cells = plain.groups(one, fetch)
    return Truth(cells, outputs(one.node.aggregate, plain.measured(one, cells, fetch), one.node.parameters))


def fit(one: ReleasePlan, types: Sequence[str], exact: Truth, fetch: Fetch) -> Fit:
    """How well the node's release does against the exact rows; `types`: of its outputs, in PostgreSQL's words.

    Raises BackendError, ValueError for rows that are not as asked for.
    """
    aggregate = one.node.aggregate
    rows = {cell: n for n, cell in enumerate(exact.cells)}
    draws = DRAWS if len(exact.cells) <= MANY else 1
    results = [_drawn(one, fetch) for _ in range(draws)]
    columns = tuple(
        ColumnAccuracy(
            output.name, _error(results, rows, exact.columns[n], n, _width(aggregate, n, types[n]))
        )
        for n, output in enumerate(exact.columns)
    )
    return Fit(
        one.name,
        len(exact.cells),
        sum(_size(result, aggregate) for result in results) / draws,
        one.threshold,
        columns,
        float(sum(result.cost.information for result in results)) / draws,
        float(sum(result.cost.calls for result in results)) / draws,
    )


def _drawn(one: ReleasePlan, fetch: Fetch) -> ReleasedTable:
    if one.free is not None:
        return one.free
    stream = randomness.seed(randomness.random_bytes(32), one.release_key, randomness.random_bytes(16))
    return one.shown(one.release(fetch, stream))


def _size(result: ReleasedTable, aggregate: AggregateNode) -> int:
    if result.keys:
        return len(result.keys[0])
    return len(result.columns[0].values) if result.columns else int(not aggregate.keys)


def _error(
    results: Sequence[ReleasedTable],
    rows: dict[tuple[str | None, ...], int],
    exact: OutputColumn,
    n: int,
    width: float,
) -> float | None:
    """The median of |x - t| over `width`, where that is 0 over |t|: of true values that are not 0, if there are any."""
    errors: list[float] = []
    at_nothing: list[float] = []
    for result in results:
        column = result.columns[n]
        cells: Sequence[tuple[str | None, ...]] = [*zip(*result.keys, strict=True)]
        for cell, value in zip(cells or [()] * len(column.values), column.values, strict=True):
            true = _at(exact, rows.get(cell))
            if value is not None and true is not None:
                found = at_nothing if true == 0 else errors
                found.append(abs(float(value) - float(true)) / (width or max(abs(float(true)), 1.0)))
    return median(errors or at_nothing) if errors or at_nothing else None


def _at(exact: OutputColumn, row: int | None) -> Value:
    """The true value of a group, 0 of one that has no rows."""
    return 0 if row is None else exact.values[row]


def _width(aggregate: AggregateNode, n: int, type_name: str) -> float:
    """The range of a column of dates, 0 for numbers."""
    if not type_name.startswith(_TIMES):
        return 0
    measures = [aggregate.measures[place] for place in aggregate.outputs[n].measures]
    values = [m.value for m in measures if isinstance(m, (Moment, Quantiles))]
    return max(float((v.hi or 0) - (v.lo or 0)) / 10.0**v.scale for v in values) if values else 0
