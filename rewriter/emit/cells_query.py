"""The front's question about released cells: which of them pass filters, and in which new groups they are.

In:  SUM(x) GROUP BY product_id was released; asked is SUM(x) by department, of rows that meet one of products
Out: SELECT n, p.department FROM <the cells> CROSS JOIN <products> AS p WHERE <the cell's product_id> = p.product_id

A question reads a cell's keys and rows of public tables: the one that the rows of a cell meet; or, where they had met
the table before they were released, any that a row of the cell can have met, which may differ.

Why: docs/decisions/implied-answers.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from sqlglot import exp

from rewriter.binder.listed_rows import in_postgres
from rewriter.emit.outline import Identity, Outline, Part, filters, listed, one_each, reads
from rewriter.ir.relation import Relation, Source, leaf, leaves
from rewriter.ir.trees import (
    alias,
    and_,
    case,
    cast,
    coalesce,
    column,
    copied,
    data_type,
    join,
    not_,
    or_,
    select,
    table_named,
)
from rewriter.ir.types import padded, unpadded
from rewriter.plan import Cell
from rewriter.policy import Column
from rewriter.scalar.periods import deciding

ALL, SOME, NONE = "0", "1", "2"
"""How many of a cell's rows pass, as far as the cell tells."""
_CELLS = "_cells"


@dataclass(frozen=True)
class CellsQuery:
    """A query of the front with a row for each cell of which rows may pass: its number, how many do (`ALL`, `SOME`,
    `NONE`) and the keys that are asked for. A cell has several rows where public rows differ in these.

    `met`: by their places the keys of cells by which public rows are found, as the question writes them.
    """

    text: str
    met: Mapping[int, exp.Expr]


@dataclass(frozen=True)
class _Made:
    """An expression over cells and public rows, `cuts` that are true of cells which do not decide it, the keys of cells
    in it by their places, and the public sources that it reads."""

    value: exp.Expr
    cuts: list[exp.Expr]
    met: dict[int, exp.Expr]
    sources: frozenset[str]

    @property
    def passes(self) -> exp.Expr:
        """As a filter: whether any of a cell's rows may pass."""
        return or_(self.value, *map(copied, self.cuts))


def cells_query(
    asked: Outline,
    left: Sequence[Part],
    kept: Sequence[Part],
    cells: Sequence[Cell],
    types: Sequence[str],
    key: Callable[[Identity], int | None],
    *,
    looked_up: bool = True,
) -> CellsQuery | None:
    """The query of the cells that pass the filters `left`; None where these, or the keys, are no functions of a cell
    and of public rows.

    `kept`: the filters that all rows in the cells have passed; `types`: of the cells' keys, in PostgreSQL; `key`: the
    place of the key that has an identity; `looked_up`: public rows are read.
    """
    tables = frozenset(s.alias for s in asked.relation.sources if looked_up and listed(s))
    types = [*map(unpadded, types)]
    writer = _Writer(asked, kept, types, key, tables)
    keys, passed = ([writer.made(part.value) for part in parts] for parts in (asked.keys, left))
    found = [one for one in (*keys, *passed) if one is not None]
    if len(found) < len(keys) + len(passed) or any(one.cuts for one in found[: len(keys)]):
        return None
    if (joins := writer.joins(frozenset().union(*(one.sources for one in found)))) is None:
        return None
    passes = found[len(keys) :]
    # What the public rows of a cell may differ in has to be seen where it fails, too.
    may = [one.passes for one in passes if joins.several and one.sources]
    must = [one.passes for one in passes if not (joins.several and one.sources)]
    cuts = [copied(cut) for one in passes for cut in one.cuts]
    whole = [(coalesce(not_(and_(*may)), exp.true()), exp.Literal.number(NONE))] if may else []
    whole += [(or_(*cuts), exp.Literal.number(SOME))] if cuts else []
    some = case(*whole, otherwise=exp.Literal.number(ALL)) if whole else exp.Literal.number(ALL)
    shown = [alias(one.value, f"k{n}") for n, one in enumerate(found[: len(keys)])]
    query = select(column("n", table=_CELLS), alias(some, "some"), *shown, source=_rows(cells, types))
    conditions = [*must, *(one.value for one in joins.links)]
    outer = {name: and_(*(one.value for one in on)) for name, on in joins.outer.items()}
    read = leaves(*(one.value for one in found), *may, *conditions, *outer.values())
    for source in asked.relation.sources:
        columns = sorted(column for name, column in read if name == source.alias)
        if source.alias in outer:
            join(query, _distinct(source, columns), outer[source.alias], side="LEFT")
        elif columns and source.alias in tables:
            join(query, _distinct(source, columns), kind="CROSS")
    query = query.where(*conditions, copy=False) if conditions else query
    query = query.distinct(copy=False) if joins.several else query
    meeting = chain(joins.links, *joins.outer.values(), (one for one in passes if one.sources & asked.apart))
    return CellsQuery(
        str(query.sql("postgres", copy=False)), {k: v for one in meeting for k, v in one.met.items()}
    )


@dataclass
class _Joins:
    """How public tables are joined to cells: the conditions of the inner ones, and the ON of each other one.

    `several`: a cell may have several rows of them.
    """

    links: list[_Made] = field(default_factory=list)
    outer: dict[str, list[_Made]] = field(default_factory=dict)
    several: bool = False


class _Writer:
    """Writes expressions of a question over cells and the public sources `tables`."""

    def __init__(
        self,
        asked: Outline,
        kept: Sequence[Part],
        types: Sequence[str],
        key: Callable[[Identity], int | None],
        tables: frozenset[str],
    ) -> None:
        self._asked, self._kept, self._types, self._key, self._tables = asked, kept, types, key, tables
        self._fixed = _constants(asked, kept)

    def made(self, asked: exp.Expr, joining: frozenset[str] = frozenset()) -> _Made | None:
        """An expression over the cells and public rows; None where it reads other rows.

        What it reads of the tables that it is `joining` stays as it is: a cell's value in its place would join nothing.
        """
        cuts: list[exp.Expr] = []
        met: dict[int, exp.Expr] = {}

        def value(node: exp.Expr) -> exp.Expr | None:
            if not isinstance(node, exp.Condition) or not leaves(node) or reads(node, joining):
                return None
            identity = self._asked.identity(node)
            if (place := self._key(identity)) is not None:
                met[place] = node
                return self._cell(place)
            for period in deciding(node):
                if (place := self._key(self._asked.identity(period.begin))) is not None:
                    met[place] = period.begin
                    begin = _as(self._cell(place), period.time, self._asked.relation)
                    if period.cut is not None:
                        cuts.append(exp.EQ(this=copied(begin), expression=copied(period.cut)))
                    return _put(node, period.time, begin)
            return copied(self._fixed[identity]) if identity in self._fixed else None

        made = copied(asked, value)
        read = frozenset(name for name, _ in leaves(made)) - {_CELLS}
        if not read <= self._tables or made.find(exp.Query):
            return None
        return _Made(made, cuts, met, read)

    def joins(self, needed: frozenset[str]) -> _Joins | None:
        """How the `needed` tables are joined to the cells, and those without which the cells were released; None where
        it is not known which of their rows the rows of a cell meet."""
        relation, apart, joins = self._asked.relation, self._asked.apart, _Joins()
        inner = frozenset(s.alias for s in relation.sources if s.on is None and s.alias in self._tables)
        todo, found = {*needed, *(apart & inner)}, set[str]()
        while name := min(todo - found, default=None):
            found.add(name)
            source = relation.source(name)
            if source.on is not None:
                on = [self.made(part.value, frozenset({name})) for part in self._asked.parts(source.on)]
                joins.outer[name] = [one for one in on if one is not None and not one.cuts]
                if len(joins.outer[name]) < len(on):
                    return None
                todo = todo.union(*(one.sources for one in joins.outer[name]))
            elif name not in apart:
                between = (
                    {a for a, _ in leaves(c)} for c in relation.conditions if reads(c, frozenset({name}))
                )
                todo = todo.union(*(read for read in between if read <= inner))
        joins.several = bool(found & inner - apart)
        if joins.several and apart & inner:
            return None
        others = (s.alias for s in relation.sources if s.alias not in joins.outer)
        if not one_each(relation, joins.outer, others):
            return None
        if joins.several:
            joins.links = list(self._links(found & inner))
            if not _linked(found & inner, joins.links):
                return None
        return joins

    def _links(self, aliases: frozenset[str] | set[str]) -> Iterable[_Made]:
        """What rows of public tables and cells have in common where a row of the cell can have met them: conditions
        that all rows pass, and keys that are columns of the tables."""
        relation, both = self._asked.relation, frozenset(aliases)
        joining = self._asked.parts(c for c in relation.conditions if not filters(c))
        for part in (*joining, *self._kept):
            made = self.made(part.value, both) if reads(part.value, both) else None
            if made is not None and not made.cuts and made.sources <= both:
                yield made
        for name in sorted(both):
            for stored in relation.source(name).table.columns:
                value = leaf(name, stored.name)
                if not stored.hidden and (place := self._key(self._asked.identity(value))) is not None:
                    # Of arrays NULL equals NULL, and they can be hashed.
                    sides = (exp.Array(expressions=[side]) for side in (value, self._cell(place)))
                    yield _Made(_equal(*sides), [], {place: value}, frozenset({name}))

    def _cell(self, place: int) -> exp.Expr:
        return cast(column(f"g{place}", table=_CELLS), data_type(self._types[place], "postgres"))


def _equal(one: exp.Expr, other: exp.Expr) -> exp.Expr:
    return exp.EQ(this=one, expression=other)


def _linked(aliases: Iterable[str], links: Sequence[_Made]) -> bool:
    """Whether equalities lead from cells to each public table: none is multiplied by another one, or by all cells."""
    left = set(aliases)
    tied = (one for one in links if isinstance(one.value, exp.EQ) and (one.met or len(one.sources) > 1))
    equalities = [one.sources for one in tied]
    while left:
        found = {name for read in equalities if len(read & left) == 1 for name in read & left}
        if not found:
            return False
        left -= found
    return True


def _constants(asked: Outline, kept: Iterable[Part]) -> dict[Identity, exp.Expr]:
    """The expressions that have one value in all rows that pass filters, with it."""
    found: dict[Identity, exp.Expr] = {}
    for condition in (part.value for part in kept):
        if isinstance(condition, (exp.EQ, exp.In)) and leaves(condition.this):
            values = condition.expressions if isinstance(condition, exp.In) else [condition.expression]
            if len(values) == 1 and isinstance(values[0], exp.Literal):
                found[asked.identity(condition.this)] = values[0]
    return found


def _rows(cells: Sequence[Cell], types: Sequence[str]) -> exp.Expr:
    """The cells with their numbers, as an item of FROM."""
    numbers: list[str | None] = [str(n) for n in range(len(cells))]
    listed = [numbers, *([cell[n] for cell in cells] for n in range(len(types)))]
    columns = [Column("n", "bigint"), *(Column(f"g{n}", of) for n, of in enumerate(types))]
    return in_postgres(columns, listed).subquery(_CELLS, copy=False)


def _distinct(source: Source, columns: Sequence[str]) -> exp.Expr:
    """The different rows of some columns of a public table, as an item of FROM."""
    table = table_named((source.table.schema, source.table.name))
    types = [source.column(name).type for name in columns]
    stored = [column(name, quoted=True) for name in columns]
    names = [
        alias(cast(one, data_type(unpadded(of), "postgres")), name, quoted=True) if padded(of) else one
        for name, one, of in zip(columns, stored, types, strict=True)
    ]
    return select(*names, source=table).distinct(copy=False).subquery(source.alias, copy=False)


def _put(node: exp.Expr, part: exp.Expr, value: exp.Expr) -> exp.Expr:
    """A copy of an expression with a value in a part's place."""
    return copied(node, lambda n: value if n is part else None)


def _as(value: exp.Expr, time: exp.Expr, relation: Relation) -> exp.Expr:
    """A date or a time in the type of a stored column."""
    if not isinstance(time, exp.Column):
        return value
    return cast(value, data_type(relation.source(time.table).column(time.name).type, "postgres"))
