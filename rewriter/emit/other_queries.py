"""Queries other than the histogram of counts and sums: bins, items, weights, events.

Bins for quantiles, each unit's items for numbers of different values, weights for partition selection, and events by
time for running counts. In all of them a unit has at most the rows, items and groups that the proofs allow it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Self

from sqlglot import exp

from rewriter.emit.enforcement import held
from rewriter.emit.engines.base import Engine
from rewriter.emit.histogram import Emitter, domain
from rewriter.emit.measures import item_type, numbered, signed, unmeasured, with_ranks
from rewriter.ir.measure import ROW, DistinctItems, Quantiles, Running
from rewriter.ir.relation import UNIT
from rewriter.ir.trees import alias, and_, cast, column, copied, grouped, join, not_, paren, select
from rewriter.ir.types import INTEGERS, Type
from rewriter.logical.plan import AggregateNode
from rewriter.plan import Cells, CellTexts, HistogramQuery, Kept
from rewriter.policy import Policy
from rewriter.scalar.typecheck import Parameters, type_of

ONE = 1 << 20
"""Weight 1 in fixed point, as the mechanism counts it."""


@dataclass(frozen=True)
class QueryContext:
    """The context of a query: policy, parameters and dialect."""

    policy: Policy
    parameters: Parameters
    dialect: Engine


def bins_query(
    node: AggregateNode, place: int, cells: Cells, bins: int, delta0: int | None, backend: QueryContext
) -> HistogramQuery:
    """The rows (cell, bin, count) of the bins that are not empty: [lo, hi] of the quantiles `place` in `bins` parts.

    `cells` are numbered from 1, bins from 0; bin b of n holds the values v with floor((v - lo) n/(hi - lo + 1)) = b.
    Of weighted quantiles a count is one of weights: a row of a unit with n rows in all cells has
    floor(2^20 min(1, tau/n)), so that the weights of a unit are at most 2^20 tau.
    """
    measure = node.measures[place]
    assert isinstance(measure, Quantiles)
    query = CellQuery(replace(node, measures=(measure,), outputs=()), backend, len(node.keys), typed=True)
    lo, hi = measure.value.lo or 0, 1 if measure.value.hi is None else measure.value.hi
    offset = paren(exp.Sub(this=column("y0"), expression=signed(lo)))
    spread = exp.Mul(this=offset, expression=exp.Literal.number(bins))
    number = cast(exp.IntDiv(this=paren(spread), expression=exp.Literal.number(hi - lo + 1)), "BIGINT")
    if measure.weighted:
        return _weighted(query, number, measure.tau, cells, len(cells) * bins)
    together = [UNIT, *query.keys]
    rank = numbered(query.emitter, query.node, query.keys, query.types, "y0", together)
    query.add("p", select("*", *query.group_number(delta0), source="r").where(_present("y0"), copy=False))
    query.add_all(with_ranks("p", together, [alias(rank, "_k")], measure.tau))
    kept = select(*(column(k) for k in query.keys), alias(number, "bin"), source="k")
    kept = query.within(kept.where(_at_most("_k", measure.tau), copy=False), delta0)
    query.add("b", kept)
    counted = query.by_cell("b", cells).select(
        column("bin", table="b"), alias(exp.Count(this=exp.Star()), "c"), copy=False
    )
    counted = grouped(counted, exp.Literal.number(1), exp.Literal.number(2))
    return query.written(counted, cells, len(cells) * bins, integers=True)


def _weighted(query: CellQuery, number: exp.Expr, tau: int, cells: Cells, most: int) -> HistogramQuery:
    """The weights of the bins, `most` at most: `u` has the rows of a unit by cell and bin, `n` all of them."""
    keys = [column(k) for k in query.keys]
    binned = select(column(UNIT), *keys, alias(number, "bin"), source="r").where(_present("y0"), copy=False)
    query.add("p", binned)
    columns = [column(name, table="p") for name in (UNIT, "bin")]
    counted = query.by_cell("p", cells).select(*columns, alias(exp.Count(this=exp.Star()), "m"), copy=False)
    query.add("u", grouped(counted, exp.Literal.number(1), *map(copied, columns)))
    rows = alias(cast(exp.Sum(this=column("m")), "BIGINT"), "n")
    query.add("n", grouped(select(column(UNIT), rows, source="u"), column(UNIT)))
    whole = exp.Greatest(
        this=column("n", table="n"), expressions=[exp.Literal.number(tau)], ignore_nulls=True
    )
    each = cast(exp.IntDiv(this=exp.Literal.number(ROW * tau), expression=whole), "BIGINT")
    weight = exp.Sum(this=exp.Mul(this=column("m", table="u"), expression=each))
    shown = [column(name, table="u") for name in ("cell", "bin")]
    same = exp.EQ(this=column(UNIT, table="u"), expression=column(UNIT, table="n"))
    weights = join(select(*shown, alias(cast(weight, "BIGINT"), "c"), source="u"), "n", same)
    return query.written(grouped(weights, *map(copied, shown)), cells, most, integers=True)


def items_query(
    node: AggregateNode, place: int, cells: Cells, most: int, delta0: int | None, backend: QueryContext
) -> HistogramQuery:
    """The rows (cell, unit, item), each once, of the items `place`: of one unit in a cell at most `most`."""
    measure = node.measures[place]
    assert isinstance(measure, DistinctItems)
    query = CellQuery(replace(node, measures=(measure,), outputs=()), backend, len(node.keys), typed=True)
    together = [column(UNIT), *(column(k) for k in query.keys)]
    query.add(
        "e",
        select(*together, column("x0"))
        .distinct(copy=False)
        .from_(exp.table_("r"), copy=False)
        .where(_present("x0"), copy=False),
    )
    query.add("c", select("*", *query.group_number(delta0), source="e"))
    item = item_type(query.emitter, measure.items, node.relation)
    order = query.emitter.keyed_order([(column("x0"), item)], of=query.unit)
    rank = alias(_ranked("ROW_NUMBER", together, order), "_k")
    query.add_all(with_ranks("c", [UNIT, *query.keys], [rank], most))
    unit: exp.Expr = column(UNIT, table="k")
    if query.unit[1] not in INTEGERS:
        unit = backend.dialect.text(*backend.dialect.told(unit, query.unit[1]))
    found = query.by_cell("k", cells).select(
        alias(unit, "unit"), alias(column("x0", table="k"), "item"), copy=False
    )
    return query.written(query.within(found.where(_at_most("_k", most), copy=False), delta0), cells, None)


def weights_query(
    node: AggregateNode,
    left_out: Sequence[str],
    delta0: int,
    turn: int,
    backend: QueryContext,
    floor: int = 1,
    largest: int | None = None,
    *,
    marked: bool = False,
) -> HistogramQuery:
    """The rows (keys..., weight) of a round of partition selection, without the groups `left_out` since earlier ones.

    `left_out` are marks, which the rows of earlier rounds had behind their weight where these were `marked`: a keyed
    hash of 32 letters of a group's keys, so that no label goes back to the backend, however long or strange it is.

    Each unit keeps at most `delta0` of its groups, by an order that is another one each `turn`, and adds
    floor(2^20/sqrt(n)) to each of its n. Groups of less weight than `floor` are left out; with 0 none is, not even one
    that no unit keeps. `largest`: to how many groups each unit's set is cut before all else, by the same order in each
    turn; None for any number.
    """
    query = CellQuery(unmeasured(node), backend, 1 if left_out else 0)
    keys = [column(k) for k in query.keys]
    query.add("e", select(column(UNIT), *keys).distinct(copy=False).from_(exp.table_("r"), copy=False))
    source = "e"
    if largest is not None:
        query.first_groups("e", "s0", "s", "set", largest)
        source = "s"
    if left_out:
        query.add("d", backend.dialect.fragment(backend.dialect.cells([("mark", "VARCHAR")])))
        known = select(exp.Literal.number(1), source="d").where(
            column("mark", "d").eq(query.mark()), copy=False
        )
        rest = select(column(UNIT), *map(copied, keys), source=source)
        query.add("f", rest.where(not_(exp.Exists(this=known)), copy=False))
        source = "f"
    query.first_groups(source, "c", "w", str(turn), delta0)
    summed = "w"
    if not floor:
        summed, nothing = "z", alias(cast(exp.Null(), "BIGINT"), "n")
        every = select(*map(copied, keys), nothing, source=source)
        kept = select(*map(copied, keys), "n", source="w")
        query.add("z", exp.union(kept, every, distinct=False, copy=False))
    root = exp.Sqrt(this=cast(column("n"), "DOUBLE"))
    each = cast(exp.Floor(this=exp.Div(this=exp.Literal.number(ONE), expression=root)), "BIGINT")
    total: exp.Expr = cast(exp.Sum(this=each), "BIGINT")
    if not floor:
        total = exp.Coalesce(this=total, expressions=[exp.Literal.number(0)])
    shown = [alias(total, "weight"), *([alias(query.mark(), "mark")] if marked else [])]
    weights = grouped(select(*keys, *shown, source=summed), *map(copied, keys))
    if floor > 1:
        weights = weights.having(
            exp.GTE(this=exp.Sum(this=copied(each)), expression=exp.Literal.number(floor))
        )
    return query.written(weights, tuple((mark,) for mark in left_out), None)


def running_query(node: AggregateNode, times: Sequence[str | None], backend: QueryContext) -> HistogramQuery:
    """The rows (keys but the time..., time, count) of a running count: how many rows each item has at each time.

    `times` are those of the time's domain in ascending order, numbered from 1. Of one unit the first rows count, so
    that later ones change nothing of what was counted before.
    """
    measure = node.measures[0]
    assert isinstance(measure, Running)
    query = CellQuery(node, backend, 1)
    name, of = query.keys[measure.time], query.types[measure.time]
    dialect = backend.dialect
    query.add("d", domain(dialect, ("t",), (of,)))
    same = dialect.same(column("t", table="d"), dialect.cell(column(name, table="r"), of), of)
    match = and_(column("_n", table="d").eq(1), same)
    every = exp.Column(this=exp.Star(), table=exp.to_identifier("r"))
    rows = join(select(every, column("cell", table="d"), source="r"), "d", match)
    query.add("j", rows.where(column("x0").eq(1), copy=False) if measure.argument is not None else rows)
    order = [exp.Ordered(this=column("cell")), *query.emitter.keyed_order(query.named, of=query.unit)]
    query.add("k", select("*", alias(_ranked("ROW_NUMBER", [column(UNIT)], order), "_k"), source="j"))
    shown = [*(column(k) for k in query.keys if k != name), column("cell")]
    count = alias(exp.Count(this=exp.Star()), "c")
    counted = select(*shown, count, source="k").where(_at_most("_k", measure.events), copy=False)
    return query.written(grouped(counted, *map(copied, shown)), tuple((t,) for t in times), None)


class CellQuery:
    """A query in the making over the rows `r` of a node; `arrays` parameters come before the secret's.

    `typed`: keys are in the type of their cells, so that a unit is bounded in cells, of which several keys can be one.
    `units_later`: as in `Emitter.rows`. `numbers`: columns of the cells by name, whose arrays follow those of the keys.
    """

    def __init__(
        self,
        node: AggregateNode,
        backend: QueryContext,
        arrays: int,
        *,
        typed: bool = False,
        units_later: bool = False,
        numbers: Mapping[str, Sequence[int]] = MappingProxyType({}),
    ) -> None:
        self.node, self.backend, self.arrays, self._numbers = node, backend, arrays, numbers
        self.emitter = Emitter(backend.policy, backend.parameters, arrays + len(numbers) + 1, backend.dialect)
        self.keys = [f"g{n}" for n in range(len(node.keys))]
        self.types = [type_of(k, node.relation, backend.parameters) for k in node.keys]
        self.named = [(column(k), of) for k, of in zip(self.keys, self.types, strict=True)]
        self.unit = (column(UNIT), self.emitter.unit_type(node.relation))
        rows = self.emitter.rows(node, typed=typed, units_later=units_later)
        self._ctes: list[tuple[str, str]] = []
        self._kept = 0
        self.add("r", rows)

    def keep(self) -> None:
        """Mark what was added so far, of which the last is read from here on, as what other queries begin with."""
        if self.backend.dialect.kept_table:
            self._kept = len(self._ctes)

    def add(self, name: str, body: exp.Query | str) -> None:
        self._ctes.append((name, self.backend.dialect.fragment(body)))

    def add_all(self, named: Sequence[tuple[str, exp.Query]]) -> None:
        for name, body in named:
            self.add(name, body)

    def begun(self) -> Self:
        """A query that begins as this one does."""
        made = copy(self)
        made._ctes = list(self._ctes)
        return made

    def group_number(self, delta0: int | None) -> list[exp.Expr]:
        """_d, a group's number among those of its unit, by a keyed order where there may be several."""
        kept = held(self.node.bound, self.keys, delta0)
        if kept.most is None:
            return []
        order: list[exp.Expr] = [
            exp.Ordered(this=self.backend.dialect.ordered(copied(k), of)) for k, of in self.named
        ]
        if kept.ranked:
            order = self.emitter.keyed_order(self.named, of=self.unit)
        return [alias(_ranked("DENSE_RANK", [column(UNIT)], order), "_d")]

    def within(self, select: exp.Select, delta0: int | None) -> exp.Select:
        kept = held(self.node.bound, self.keys, delta0)
        return select if kept.most is None else select.where(_at_most("_d", kept.most), copy=False)

    def first_groups(self, source: str, counted: str, name: str, salt: str, most: int) -> None:
        """Add `name`, over `counted`: the groups of each unit in `source` with their number n, of more than `most` the
        first by a keyed order with `salt`."""
        keys = [column(k) for k in self.keys]
        number = exp.Window(this=exp.Count(this=exp.Star()), partition_by=[column(UNIT)], over="OVER")
        self.add(counted, select(column(UNIT), *keys, alias(number, "n"), source=source))
        keyed = self.emitter.hashed([(exp.Literal.string(salt), Type.TEXT), self.unit, *self.named])
        dialect = self.backend.dialect
        order = [dialect.ordered(keyed, Type.TEXT), *(dialect.ordered(copied(k), of) for k, of in self.named)]
        rank = _ranked("ROW_NUMBER", [column(UNIT)], [exp.Ordered(this=o) for o in order])
        # Hashing and sorting take most of the time, so only units with items to leave out are ranked.
        ranked = select("*", alias(rank, "_k"), source=counted).where(not_(_at_most("n", most)), copy=False)
        shown = [column(UNIT), *map(copied, keys)]
        whole = select(*shown, column("n"), source=counted).where(_at_most("n", most), copy=False)
        size = alias(exp.Literal.number(most), "n")
        cut = select(*map(copied, shown), size, source=ranked.subquery("q", copy=False))
        self.add(
            name, exp.union(whole, cut.where(_at_most("_k", most), copy=False), distinct=False, copy=False)
        )

    def mark(self) -> exp.Expr:
        """A group's keyed hash."""
        return self.emitter.hashed([(exp.Literal.string("mark"), Type.TEXT), *self.named])

    def by_cell(self, name: str, cells: Cells) -> exp.Select:
        """SELECT the number of its cell FROM `name`, whose keys are typed; rows outside of the cells are dropped."""
        if not self.keys:
            return select(alias(exp.Literal.number(1), "cell"), source=name)
        dialect = self.backend.dialect
        self.add("d", domain(dialect, tuple(self.keys), tuple(self.types), tuple(self._numbers)))
        same = [
            dialect.same(column(k, table="d"), column(k, table=name), of)
            for k, of in zip(self.keys, self.types, strict=True)
        ]
        match = and_(column("_n", table="d").eq(1), *same)
        return join(select(column("cell", table="d"), source="d"), name, match)

    def written(
        self, query: exp.Select | str, cells: Cells, most: int | None, *, integers: bool = False
    ) -> HistogramQuery:
        """The query over bound cells; `most`: as in `HistogramQuery`."""
        dialect, text, kept = self.backend.dialect, self.backend.dialect.fragment(query), None
        if self._kept:
            *before, (name, last) = self._ctes[: self._kept]
            again = (name, f"SELECT * FROM {dialect.kept_table}")
            kept = Kept(dialect.sql(last, before), dialect.sql(text, [again, *self._ctes[self._kept :]]))
        numbers = [tuple(map(str, of_cells)) for of_cells in self._numbers.values()]
        return HistogramQuery(
            dialect.sql(text, self._ctes),
            (*(CellTexts(cells, n) for n in range(self.arrays)), *numbers),
            self.emitter.rank_used,
            most,
            integers,
            self.emitter.unique,
            self.emitter.trials,
            kept,
        )


def _ranked(function: str, partition: Sequence[exp.Expr], order: Sequence[exp.Expr]) -> exp.Window:
    return exp.Window(
        this=exp.Anonymous(this=function),
        partition_by=list(partition),
        order=exp.Order(expressions=list(order)),
        over="OVER",
    )


def _present(name: str) -> exp.Expr:
    return not_(exp.Is(this=column(name), expression=exp.null()))


def _at_most(name: str, most: int) -> exp.Expr:
    return exp.LTE(this=column(name), expression=exp.Literal.number(most))
