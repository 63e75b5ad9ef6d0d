"""Known domains: queries over public tables and constants whose rows are the cells of GROUP BY.

The front evaluates them, so the images of expressions (CASE, EXTRACT, date_trunc, arithmetic) are PostgreSQL's own.
Nothing in them depends on private data: declared domains, public tables and the query's constants only. Keys that
neither a public table nor a condition ties together have a query each: their product is not made.

In:  GROUP BY country, of which the policy declares the domain US, DE, FR, LI
Out: SELECT DISTINCT v FROM (VALUES ('US'), ('DE'), ('FR'), ('LI') UNION ALL SELECT NULL), put to the front

Why: docs/decisions/domains-come-from-the-front.md.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from sqlglot import exp

from rewriter.binder.listed_rows import in_postgres
from rewriter.canonical.normalize import canonical_conjuncts, conditions_met
from rewriter.effort import spend
from rewriter.ir.relation import Leaf, ListedRows, Relation, SemiJoin, Source, equated, leaf, leaf_of, leaves
from rewriter.ir.texts import fragment, sql_text
from rewriter.ir.trees import (
    alias,
    and_,
    cast,
    copied,
    crossed,
    data_type,
    join,
    limited,
    not_,
    paren,
    rebuilt,
    select,
    walk,
)
from rewriter.ir.trees import column as column_of
from rewriter.ir.types import FLOATS, HELD, INTEGERS, STAMPS, Type, padded, type_named, unpadded
from rewriter.plan import Cell, Factor, Product
from rewriter.policy import Column, Policy, labels
from rewriter.refusal import Refusal
from rewriter.scalar import time_zones
from rewriter.scalar.array_literal import elements
from rewriter.scalar.function_checks import constant_text, plain_pattern
from rewriter.scalar.functions import BY_TYPE, LOGICAL
from rewriter.scalar.parameter_literal import with_constants
from rewriter.scalar.typecheck import Parameters, Types, type_of

MAX_CELLS = 1_000_000
MOST_PERIODS = 5 * MAX_CELLS
"""Of a series of times, of which PostgreSQL reads a million in some 0.3 seconds, and orders them in more."""
GRAINS = ("minute", "hour", "day", "week", "month", "quarter", "year")
STEPS = {"quarter": "3 months", "week": "7 days"}
SHORTEST = {
    "minute": dt.timedelta(minutes=1),
    "hour": dt.timedelta(hours=1),
    "day": dt.timedelta(days=1),
    "week": dt.timedelta(days=7),
    "month": dt.timedelta(days=28),
    "quarter": dt.timedelta(days=90),
    "year": dt.timedelta(days=365),
}
_TICK = exp.Interval(this=exp.Literal.string("1 microsecond"))


def known_cells(
    relation: Relation,
    keys: tuple[exp.Expr, ...],
    policy: Policy,
    parameters: Parameters,
    rows: Callable[[str], Sequence[Cell]],
    most: int = MAX_CELLS,
) -> Product | None:
    """The cells of `keys`, None where one has an unknown domain or where there are more than `most` of them.

    WHERE conditions over enumerated columns narrow the domain; rows outside it are dropped later. `rows` runs a query
    at the front.
    """
    queries = domain_queries(relation, keys, policy, parameters)
    if queries is None:
        return None
    try:
        return _cells(queries, relation, keys, parameters, rows, most)
    except Refusal as refusal:
        if not refusal.code.startswith("22"):
            raise
    # A condition raises for a public row, which the backend's form of it would not, nor another order of conditions.
    queries = domain_queries(relation, keys, policy, parameters, narrowed=False)
    return None if queries is None else _cells(queries, relation, keys, parameters, rows, most)


def _cells(
    queries: Sequence[tuple[tuple[int, ...], exp.Select]],
    relation: Relation,
    keys: tuple[exp.Expr, ...],
    parameters: Parameters,
    rows: Callable[[str], Sequence[Cell]],
    most: int,
) -> Product | None:
    numbers = {n for n, k in enumerate(keys) if type_of(k, relation, parameters) is Type.NUMERIC}
    factors: list[Factor] = []
    for places, query in queries:
        factor = Factor(places, tuple(rows(sql_text(limited(query, most + 1), "postgres"))))
        if len(factor.cells) > most or not _held(factor, numbers):
            return None
        factors.append(factor)
        most //= max(len(factor.cells), 1)
    return Product(tuple(factors))


def domain_queries(
    relation: Relation,
    keys: tuple[exp.Expr, ...],
    policy: Policy,
    parameters: Parameters,
    *,
    narrowed: bool = True,
) -> list[tuple[tuple[int, ...], exp.Select]] | None:
    """The places of each set of keys that belong together, and SELECT DISTINCT of their cells, MAX_CELLS + 1 at most;
    None where a key has an unknown domain.

    `narrowed`: by all that public rows decide, not by conditions on the keys alone.
    """
    if not all(type_of(k, relation, parameters).enumerable for k in keys):
        return None
    dimensions = _Dimensions(relation, policy, parameters)
    images = [dimensions.label(k) for k in keys]
    if any(i is None for i in images):
        return None
    if narrowed:
        dimensions.reach()
    # In canonical form, so that each spelling of a question has the same factors.
    written = conditions_met(relation if relation.filled is None else replace(relation, filled=None))
    conditions = [dimensions.exact(c, narrowed=narrowed) for c in written]
    if narrowed:
        conditions += dimensions.own_domains(written)
        conditions += [dimensions.among(semi) for semi in relation.semi_joins]
    return _factored(
        [i for i in images if i is not None],
        [c for c in conditions if c is not None],
        dimensions.outer_joins(narrowed=narrowed),
        dimensions,
    )


def _factored(
    images: list[exp.Expr],
    conditions: list[exp.Expr],
    outer: dict[str, exp.Expr],
    dimensions: _Dimensions,
) -> list[tuple[tuple[int, ...], exp.Select]]:
    """The queries of the images, apart as far as they, the conditions and the `outer` joins, which are the conditions
    of FROM items by name, read different FROM items."""
    items, found = dimensions.from_items(), []

    def read_by(node: exp.Expr) -> set[str]:
        return {column.table for column in walk(node, exp.Column)} & items.keys()

    read_by_images, read_by_conditions = [*map(read_by, images)], [*map(read_by, conditions)]
    groups: list[set[str]] = []
    for read in (*read_by_images, *read_by_conditions, *({name, *read_by(on)} for name, on in outer.items())):
        tied = [g for g in groups if g & read]
        groups = [*(g for g in groups if not g & read), read.union(*tied)]
    for number, own in enumerate(read_by_images):
        group = next((g for g in groups if g & own), set())
        places = [n for n, read in enumerate(read_by_images) if (read & group if group else n == number)]
        if places[0] != number:
            continue
        query = select(*(alias(images[n], f"g{n}") for n in places)).distinct(copy=False)
        for name in (name for name in items if name in group and name not in outer):
            crossed(query, items[name])
        for name in (name for name in outer if name in group):
            join(query, items[name], outer[name], side="LEFT")
        tying = [c for c, read in zip(conditions, read_by_conditions, strict=True) if read & group]
        query = query.where(*tying, copy=False) if tying else query
        order = [exp.Ordered(this=exp.Literal.number(n + 1)) for n in range(len(places))]
        query.set("order", exp.Order(expressions=order))
        found.append((tuple(places), limited(query, MAX_CELLS + 1)))
    return found


def _held(factor: Factor, numbers: set[int]) -> bool:
    """Whether the backend's DECIMAL holds the numbers of its cells to the last digit."""
    at = [n for n, place in enumerate(factor.places) if place in numbers]
    return all(HELD.fullmatch(cell[n] or "0") is not None for cell in factor.cells for n in at)


@dataclass
class _Dimensions:
    """The enumerated sets: one FROM item for each public source, column or other finite set."""

    relation: Relation
    policy: Policy
    parameters: Parameters
    columns: dict[Leaf, exp.Expr] = field(default_factory=dict)
    series: dict[tuple[Leaf, str], set[str]] = field(default_factory=dict)
    items: dict[str, exp.Expr] = field(default_factory=dict)

    def image(self, node: exp.Expr) -> exp.Expr | None:
        """`node` over enumerated columns, or None."""
        spend()
        if not leaves(node):
            return with_constants(node, self.parameters)
        if isinstance(node, exp.Column):
            return self._column(node)
        if isinstance(node, exp.Escape):
            return self.image(self._without_escape(node))
        grain = self._grain(node)
        if grain is not None:
            return self._timed(node, grain)
        saved = dict(self.columns), {k: set(v) for k, v in self.series.items()}, dict(self.items)
        image = self._parts(node)
        if image is None:
            self.columns, self.series, self.items = saved
            image = self._static(node)
        return image

    def _without_escape(self, node: exp.Escape) -> exp.Expr:
        """LIKE with an escape of its own, as one with the backslash: it is no operand of ESCAPE, and has no value."""
        inner = node.this.unnest()
        like = inner.this.unnest() if isinstance(inner, exp.Not) else inner
        found = copied(like)
        escape, text = (constant_text(part, self.parameters) for part in (node.expression, like.expression))
        if text is not None:
            found.set("expression", exp.Literal.string(plain_pattern(text, escape or "\\")))
        return found if like is inner else not_(paren(found))

    def label(self, key: exp.Expr) -> exp.Expr | None:
        """The image of a key; of an enumerated type its text, whose order does not depend on others."""
        image = self.image(key)
        enumerated = Types(self.relation, self.parameters).enum(key) is not None
        return cast(image, "TEXT") if image is not None and enumerated else image

    def from_items(self) -> dict[str, exp.Expr]:
        """The FROM items by name, the series of timestamps with the finest grain that their uses need."""
        items = dict(self.items)
        for (at, zone), grains in self.series.items():
            name = self._name(at) + zone
            items[name] = self._series(at, zone, _finest(grains), name)
        return items

    def reach(self) -> None:
        """Join the public tables by whose key the query equates them to what is enumerated, directly or by others: none
        of them makes more rows. One that a LEFT JOIN adds decides nothing unless a condition reads it."""
        read = {name for name, _ in leaves(*self.relation.conditions)}
        found = True
        while found:
            found = False
            for source in self.relation.sources:
                if source.alias in self.items or not (source.on is None or source.alias in read):
                    continue
                key = self._equated_key(source)
                found = (key is not None and self._column(key) is not None) or found

    def _equated_key(self, source: Source) -> exp.Column | None:
        """The key of a public source that a condition of its join equates to something known."""
        if source.private:
            return None
        pairs = map(equated, self.relation.conditions if source.on is None else source.on)
        turned = (pair[::step] for pair in pairs if pair is not None for step in (1, -1))
        return next(
            (
                there
                for here, there in turned
                if there.table == source.alias and self._is_key(there) and self._known(here, narrowed=True)
            ),
            None,
        )

    def outer_joins(self, *, narrowed: bool) -> dict[str, exp.Expr]:
        """The public tables among the items that a LEFT JOIN adds, each with the image of its condition.

        What is not known of the condition may be true or not, so that it has both values as an item of FROM; where
        all is known the item keeps a row for the join to begin with. Public tables that it reads are items as well.
        """
        for source in reversed(self.relation.sources):
            if source.on is not None and not source.private and source.alias in self.items:
                for alias, name in sorted(leaves(*source.on)):
                    if not self.relation.source(alias).private:
                        self._public(self.relation.source(alias), name)
        found: dict[str, exp.Expr] = {}
        for source in self.relation.sources:
            if source.on is None or source.private or source.alias not in self.items:
                continue
            written = canonical_conjuncts(source.on, self.relation)
            known = [c for c in (self.exact(c, narrowed=narrowed) for c in written) if c is not None]
            values: list[exp.Expr] = [exp.true(), exp.false()] if len(known) < len(written) else [exp.true()]
            name = f"{source.alias}_on"
            self.items[name] = _listed(select("*", source=_values(values)), name)
            found[source.alias] = and_(*known, column_of("v", name))
        return found

    def _is_key(self, column: exp.Column) -> bool:
        return frozenset({column.name}) in self.relation.source(column.table).table.keys

    def exact(self, condition: exp.Expr, *, narrowed: bool = True) -> exp.Expr | None:
        """A WHERE condition over enumerated columns and tables among the items, or None where it needs another one."""
        if not leaves(condition) or walk(condition, exp.Query) or self._pending(condition):
            return None
        if not self._known(condition, narrowed):
            return None
        whole = isinstance(condition, (exp.Column, exp.Escape))
        return self.image(condition) if whole else self._parts(condition)

    def among(self, semi: SemiJoin) -> exp.Expr | None:
        """[NOT] IN and EXISTS of rows of public tables as a condition over what is enumerated, None for others."""
        rows, value, shown = semi.relation, semi.value, semi.output or exp.Literal.number(1)
        own = {source.alias for source in rows.sources}
        met = (*rows.conditions, *semi.across)
        around: list[exp.Expr] = [leaf(*at) for at in leaves(*semi.across) if at[0] not in own]
        around += [] if value is None else [value]
        scans = [scan for s in rows.sources if s.on is None and (scan := self._scan(s)) is not None]
        if (
            rows.private
            or rows.semi_joins
            or rows.filled
            or len(scans) < len(rows.sources)
            or self._pending(*met, *around, shown)
            or not all(self._known(one, narrowed=True) for one in around)
        ):
            return None

        def image(node: exp.Expr) -> exp.Expr | None:
            return self._column(node) if isinstance(node, exp.Column) and node.table not in own else None

        query = select(with_constants(shown, self.parameters))
        for source, scan in zip(rows.sources, scans, strict=True):
            crossed(query, exp.alias_(scan, source.alias, table=True, copy=False))
        query = query.where(*(copied(with_constants(c, self.parameters), image) for c in met), copy=False)
        found: exp.Expr = exp.Exists(this=query)
        if value is not None:
            found = exp.In(this=self.image(value), query=query.subquery(copy=False))
        return not_(found) if semi.negated else found

    def _pending(self, *conditions: exp.Expr) -> bool:
        """Whether parameters in conditions have no values yet: without them a condition would leave no cell, and the
        price would be that of nothing."""
        named = [p for condition in conditions for p in walk(condition, exp.Parameter)]
        parameters = (self.parameters[int(p.name) - 1] for p in named)
        return any(p.value is None and not p.null for p in parameters)

    def _known(self, node: exp.Expr, narrowed: bool) -> bool:
        """Whether an expression reads enumerated columns, periods of enumerated times and public tables among the items
        alone."""
        if isinstance(node, exp.Column):
            at = leaf_of(node)
            found = at in self.columns or (narrowed and at[0] in self.items)
            return found and not self._waits(self.relation.source(at[0]))
        if self._of_a_series(node):
            return True
        return all(self._known(part, narrowed) for part in node.iter_expressions())

    def _waits(self, source: Source) -> bool:
        """Whether the rows of a source are not evaluated yet: a condition on them would leave no cell."""
        arrays = source.derived.columns if isinstance(source.derived, ListedRows) else ()
        return any(self.parameters[int(form.name) - 1].value is None for form in arrays)

    def _of_a_series(self, node: exp.Expr) -> bool:
        """Whether a value is one of a time whose periods are enumerated for the keys: days, or what they need."""
        grain = self._grain(node)
        if grain is None:
            return False
        at, zone = self._time(node)
        grains = self.series.get((at, zone))
        if grains is None:
            return False
        finest = _finest({*grains, grain})
        low, high = self._bounds(at, self.relation.source(at[0]).column(at[1]))
        few = GRAINS.index(finest) >= GRAINS.index("day") and _periods(low, high, finest) <= MAX_CELLS
        return few or finest == _finest(grains)

    def own_domains(self, conditions: Sequence[exp.Expr]) -> list[exp.Expr | None]:
        """Where a public column is equated to a private one of its type: what is known of that one's values."""
        found: list[exp.Expr | None] = []
        for columns in map(equated, self.relation.conditions):
            for private, public in (columns, columns[::-1]) if columns is not None else ():
                source, other = (self.relation.source(c.table) for c in (private, public))
                there = other.alias in self.items and other.on is None and not self._waits(other)
                if source.private and there:
                    column = source.column(private.name)
                    found += self._declared_values(column, public) if self._alike(private, public) else []
                    found += self._same_conditions(conditions, private, public)
        return found

    def _alike(self, one: exp.Expr, other: exp.Expr) -> bool:
        return self._type(one).family == self._type(other).family

    def _declared_values(self, column: Column, public: exp.Column) -> list[exp.Expr]:
        """The conditions on a public column that the declaration of a private one makes."""
        table = self.relation.source(public.table).table
        if column.domain_from == ((table.schema, table.name), public.name):
            return []
        rows = self._declared(column)
        if rows is not None:
            value = cast(exp.column("v", table="d"), data_type(column.type, "postgres"))
            own = select(value, source=_listed(rows, "d")).subquery(copy=False)
            return [exp.In(this=public.copy(), query=own)]
        if column.range is None or type_named(column.type) not in INTEGERS | {Type.DATE}:
            return []
        low, high = (
            cast(exp.Literal.string(end), data_type(column.type, "postgres")) for end in column.range
        )
        return [exp.Between(this=public.copy(), low=low, high=high)]

    def _same_conditions(
        self, conditions: Sequence[exp.Expr], private: exp.Column, public: exp.Column
    ) -> Iterator[exp.Expr | None]:
        """The conditions on a private column alone, as conditions on the public one of its value."""
        for condition in conditions:
            if leaves(condition) == {(private.table, private.name)} and self._alike(private, public):
                yield self.exact(
                    copied(condition, lambda n: public.copy() if isinstance(n, exp.Column) else None)
                )

    def _parts(self, node: exp.Expr) -> exp.Expr | None:
        known = True

        def image(part: exp.Expr) -> exp.Expr:
            nonlocal known
            found = self.image(part) if known else None
            known = found is not None
            return found or exp.Null()

        made = rebuilt(node, image)
        return made if known else None

    def _column(self, node: exp.Column) -> exp.Expr | None:
        at = (node.table, node.name)
        if at not in self.columns:
            found = self._enumerate(at)
            if found is None:
                return None
            self.columns[at] = found
        return copied(self.columns[at])

    def _enumerate(self, at: Leaf) -> exp.Expr | None:
        source = self.relation.source(at[0])
        if not source.private:
            return self._public(source, at[1])
        for partner in self._public_partners(at):
            found = self._column(leaf(*partner)) if self._alike(leaf(*at), leaf(*partner)) else None
            if found is not None:
                return found
        column = source.column(at[1])
        rows = self._declared(column) or self._numbers(at, column) or self._listed(at, column)
        if rows is None:
            return None
        if (column.nullable or source.on is not None) and not self._compared(at):
            rows = rows.union(select(exp.null()), distinct=False, copy=False)
        return cast(self._item(at, rows), data_type(unpadded(column.type), "postgres"))

    def _item(self, at: Leaf, rows: exp.Query) -> exp.Column:
        name = self._name(at)
        self.items[name] = _listed(rows, name)
        return column_of("v", name)

    def _name(self, at: Leaf) -> str:
        names = [c.name for c in self.relation.source(at[0]).table.columns]
        return f"{at[0]}_{names.index(at[1])}"

    def _public(self, source: Source, name: str) -> exp.Expr | None:
        scan = self._scan(source)
        if scan is None:
            return None
        self.items.setdefault(source.alias, exp.alias_(scan, source.alias, table=True, copy=False))
        value = leaf(source.alias, name)
        return cast(value, "TEXT") if padded(source.column(name).type) else value

    def _scan(self, source: Source) -> exp.Expr | None:
        """The rows of a public source as an item of FROM, None where the front does not have them."""
        table = source.table
        if isinstance(source.derived, ListedRows):
            arrays = [self.parameters[int(form.name) - 1].value for form in source.derived.columns]
            # Before they are known there is one row, since of no groups the price would be nothing.
            texts = [[None] if a is None else elements(a) or [] for a in arrays]
            return in_postgres(table.columns, texts).subquery(copy=False)
        if not table.in_front:
            return None
        return exp.Table(
            this=exp.to_identifier(table.name, quoted=True), db=exp.to_identifier(table.schema, quoted=True)
        )

    def _public_partners(self, at: Leaf) -> list[Leaf]:
        found = []
        for condition in self.relation.conditions:
            sides = (
                (condition.this, condition.args.get("expression")) if isinstance(condition, exp.EQ) else ()
            )
            names = [(s.table, s.name) for s in sides if isinstance(s, exp.Column)]
            if len(names) == 2 and at in names:
                other = names[1 - names.index(at)]
                if not self.relation.source(other[0]).private and self.relation.source(other[0]).on is None:
                    found.append(other)
        return found

    def _declared(self, column: Column) -> exp.Query | None:
        if column.domain is not None:
            return select("*", source=exp.Var(this=_texts(column.domain)))
        if column.domain_from is not None:
            (schema, name), target = column.domain_from
            if not self.policy.tables[schema, name].in_front:
                return None
            value = column_of(target, quoted=True)
            scan = exp.Table(
                this=exp.to_identifier(name, quoted=True), db=exp.to_identifier(schema, quoted=True)
            )
            listed = labels(column.type)
            if listed is None:
                present: exp.Expr = exp.not_(value.copy().is_(exp.null()))
            else:
                # No other text is a value of the type.
                texts: list[exp.Expr] = [exp.Literal.string(label) for label in listed]
                present = exp.In(this=cast(value.copy(), "TEXT"), expressions=texts)
            return select(value, source=scan).distinct(copy=False).where(present, copy=False)
        if column.range is None and type_named(column.type) is Type.BOOL:
            return select("*", source=_values([exp.true(), exp.false()]))
        return None

    def _numbers(self, at: Leaf, column: Column) -> exp.Query | None:
        found = type_named(column.type)
        if found not in INTEGERS and found is not Type.DATE:
            return None
        low, high = self._bounds(at, column)
        if not low or not high:
            return None
        if found is Type.DATE:
            return self._calendar(low, high, "day") if _periods(low, high, "day") <= MOST_PERIODS else None
        if _span(low, high) > MAX_CELLS:
            return None
        ends = [cast(_extreme(f, e), "BIGINT") for f, e in ((exp.Greatest, low), (exp.Least, high))]
        return select("*", source=exp.Table(this=exp.GenerateSeries(start=ends[0], end=ends[1])))

    def _calendar(self, low: list[exp.Expr], high: list[exp.Expr], grain: str) -> exp.Query:
        starts: list[exp.Expr] = [cast(e, "TIMESTAMP") for e in low]
        ends: list[exp.Expr] = [e if isinstance(e, exp.Sub) else cast(e, "TIMESTAMP") for e in high]
        start = exp.TimestampTrunc(this=_extreme(exp.Greatest, starts), unit=exp.var(grain))
        step = exp.Interval(this=exp.Literal.string(STEPS.get(grain, f"1 {grain}")))
        series = exp.GenerateSeries(start=start, end=_extreme(exp.Least, ends), step=step)
        return select("*", source=exp.Table(this=series))

    def _bounds(self, at: Leaf, column: Column) -> tuple[list[exp.Expr], list[exp.Expr]]:
        low: list[exp.Expr] = []
        high: list[exp.Expr] = []
        timed = type_named(column.type) in STAMPS
        if column.range is not None:
            first, last = column.range
            last = f"{last} 23:59:59.999999" if timed and len(last) == 10 else last
            ends: list[exp.Expr] = [exp.Literal.string(first), exp.Literal.string(last)]
            if type_named(column.type) in INTEGERS:
                ends = [cast(e, "BIGINT") for e in ends]
            low.append(ends[0])
            high.append(ends[1])
        for operator, value in self._comparisons(at):
            if operator in (exp.GT, exp.GTE, exp.EQ):
                low.append(value)
            if operator in (exp.LTE, exp.EQ) or (operator is exp.LT and not timed):
                high.append(value.copy())
            elif operator is exp.LT:
                high.append(exp.Sub(this=cast(value, "TIMESTAMP"), expression=copied(_TICK)))
        return low, high

    def _comparisons(self, at: Leaf) -> list[tuple[type[exp.Expr], exp.Expr]]:
        """Comparisons of the column with a constant among the WHERE conjuncts, the column on the left."""
        turned: dict[type[exp.Expr], type[exp.Expr]] = {
            exp.GT: exp.LT,
            exp.GTE: exp.LTE,
            exp.LT: exp.GT,
            exp.LTE: exp.GTE,
            exp.EQ: exp.EQ,
        }
        found: list[tuple[type[exp.Expr], exp.Expr]] = []
        for condition in self.relation.conditions:
            if isinstance(condition, exp.Between) and self._is(condition.this, at):
                found += [(exp.GTE, condition.args["low"]), (exp.LTE, condition.args["high"])]
            elif type(condition) in turned and self._is(condition.this, at):
                found.append((type(condition), condition.expression))
            elif type(condition) in turned and self._is(condition.expression, at):
                found.append((turned[type(condition)], condition.this))
        return [
            (o, with_constants(v, self.parameters))
            for o, v in found
            if not leaves(v) and not walk(v, exp.Query)
        ]

    def _compared(self, at: Leaf) -> bool:
        return bool(self._comparisons(at)) or self._members(at) is not None

    @staticmethod
    def _is(node: exp.Expr, at: Leaf) -> bool:
        node = node.unnest()
        return isinstance(node, exp.Column) and (node.table, node.name) == at

    def _members(self, at: Leaf) -> list[exp.Expr] | None:
        """The constants that one of the WHERE conjuncts leaves to the column."""
        found = (self._left(condition, at) for condition in self.relation.conditions)
        return next((members for members in found if members is not None), None)

    def _left(self, condition: exp.Expr, at: Leaf) -> list[exp.Expr] | None:
        """The constants of `column = constant`, of `column IN (...)`, of these under AND and OR; None for others."""
        condition = condition.unnest()
        if isinstance(condition, exp.And):
            one, other = (self._left(side, at) for side in (condition.this, condition.expression))
            return one if other is None else other
        if isinstance(condition, exp.Or):
            one, other = (self._left(side, at) for side in (condition.this, condition.expression))
            return None if one is None or other is None else one + other
        if isinstance(condition, exp.EQ):
            turned = self._is(condition.expression, at)
            column, listed = condition.this, [condition.expression]
            column, listed = (listed[0], [column]) if turned else (column, listed)
        elif isinstance(condition, exp.In):
            column, listed = condition.this, condition.expressions
        else:
            return None
        if not listed or not self._is(column, at) or any(leaves(e) or walk(e, exp.Query) for e in listed):
            return None
        return [with_constants(e, self.parameters) for e in listed]

    def _listed(self, at: Leaf, column: Column) -> exp.Query | None:
        members = self._members(at)
        if members is None or type_named(column.type) in FLOATS | {Type.OTHER, Type.BRIEF}:
            return None
        typed: list[exp.Expr] = [cast(m, data_type(column.type, "postgres")) for m in members]
        return select("*", source=_values(typed))

    def _grain(self, node: exp.Expr) -> str | None:
        """The grain at which `node` is a function of the private timestamp column it wraps, or None."""
        function = BY_TYPE.get(type(node))
        if function is None or function.grain is None:
            return None
        column = self._stamp(_moment(node))
        if column is None or not self.relation.source(column.table).private:
            return None
        grain = function.grain(with_constants(node, self.parameters))
        return grain if grain in GRAINS else None

    def _stamp(self, moment: exp.Expr) -> exp.Column | None:
        """The timestamp column that a moment is, or is the time of in a zone."""
        if isinstance(moment, exp.AtTimeZone):
            moment = _moment(moment) if self._type(moment) is Type.TIMESTAMP else moment
        if not isinstance(moment, exp.Column) or self._type(moment) not in STAMPS:
            return None
        return moment

    def _type(self, node: exp.Expr) -> Type:
        return type_of(node, self.relation, self.parameters)

    def _time(self, node: exp.Expr) -> tuple[Leaf, str]:
        """The column of the time that `node` is a function of, and the zone of its clock, if that is another one."""
        moment = _moment(node)
        inner = self._stamp(moment)
        assert inner is not None
        zone = with_constants(moment.args["zone"], self.parameters).name if moment is not inner else ""
        return (inner.table, inner.name), zone

    def _timed(self, node: exp.Expr, grain: str) -> exp.Expr | None:
        (at, zone), moment = self._time(node), _moment(node)
        source = self.relation.source(at[0])
        low, high = self._bounds(at, source.column(at[1]))
        # Each period of a truncated time is a value of its own.
        most = MAX_CELLS if isinstance(node, (exp.TimestampTrunc, exp.DateTrunc)) else MOST_PERIODS
        if not low or not high or _periods(low, high, grain) > most:
            return self._static(node)
        self.series.setdefault((at, zone), set()).add(grain)
        value = exp.column("v", table=self._name(at) + zone)
        copy = with_constants(node, self.parameters)
        _moment(copy).replace(
            cast(value, "TIMESTAMPTZ" if self._type(moment) is Type.TIMESTAMPTZ else "TIMESTAMP")
        )
        return copy

    def _series(self, at: Leaf, zone: str, grain: str, name: str) -> exp.Expr:
        """The begins of the periods in which a column lies, by the clock of a zone where there is one."""
        source = self.relation.source(at[0])
        column = source.column(at[1])
        low, high = (
            [_by_clock(end, zone) for end in ends] if zone else ends for ends in self._bounds(at, column)
        )
        rows = self._calendar(low, high, grain)
        if (column.nullable or source.on is not None) and not self._comparisons(at):
            rows = rows.union(select(exp.null()), distinct=False, copy=False)
        return _listed(rows, name)

    def _static(self, node: exp.Expr) -> exp.Expr | None:
        """A finite set that the form of the expression gives: booleans, fields of a date, constant branches."""
        function = BY_TYPE.get(type(node))
        values: list[exp.Expr] | None = None
        if type(node) in LOGICAL:
            values = [exp.true(), exp.false()]
        elif function is not None and function.values is not None:
            values = function.values(node, self._type, self.parameters)
        if values is None:
            return None
        rows: exp.Query = select("*", source=_values(values))
        if self._may_be_null(node):
            rows = rows.union(select(exp.null()), distinct=False, copy=False)
        name = f"s{len(self.items)}"
        self.items[name] = _listed(rows, name)
        return column_of("v", name)

    def _may_be_null(self, node: exp.Expr) -> bool:
        if isinstance(node, exp.Case):
            return node.args.get("default") is None
        return any(
            self.relation.source(a).on is not None or self.relation.source(a).column(c).nullable
            for a, c in leaves(node)
        )


def _moment(node: exp.Expr) -> exp.Expr:
    """The operand of a function of time, as it is at UTC; the time in another zone is one of its own."""
    inner: exp.Expr = node.args[BY_TYPE[type(node)].operand].unnest()
    while _same_at_utc(inner):
        inner = inner.this.unnest()
    return inner


def _same_at_utc(node: exp.Expr) -> bool:
    """Whether a timestamp is another type of its operand."""
    if isinstance(node, exp.AtTimeZone):
        return time_zones.at_utc(node)
    return isinstance(node, exp.Cast) and node.to.this in (exp.DType.TIMESTAMP, exp.DType.TIMESTAMPTZ)


def _by_clock(end: exp.Expr, zone: str) -> exp.Expr:
    """A moment as the time in a zone."""
    moment = exp.AtTimeZone(this=cast(end, "TIMESTAMP"), zone=exp.Literal.string("UTC"))
    return exp.AtTimeZone(this=moment, zone=exp.Literal.string(zone))


def _finest(grains: set[str]) -> str:
    if len(grains) > 1 and "week" in grains:
        grains = {"day", *grains}
    return min(grains, key=GRAINS.index)


def _extreme(function: type[exp.Func], ends: list[exp.Expr]) -> exp.Expr:
    return ends[0] if len(ends) == 1 else function(this=ends[0], expressions=ends[1:])


def _span(low: list[exp.Expr], high: list[exp.Expr]) -> int:
    """How many integers lie between bounds, as far as they are plain constants."""
    lows, highs = ([n for n in map(_integer, ends) if n is not None] for ends in (low, high))
    return min(highs) - max(lows) if lows and highs else 0


def _periods(low: list[exp.Expr], high: list[exp.Expr], grain: str) -> float:
    """How many periods lie between bounds at most, as far as they are plainly written moments."""
    lows, highs = ([m for m in map(_instant, ends) if m is not None] for ends in (low, high))
    return (min(highs) - max(lows)) / SHORTEST[grain] if lows and highs else math.inf


def _instant(bound: exp.Expr) -> dt.datetime | None:
    inner = bound.this if isinstance(bound, exp.Sub) and bound.expression == _TICK else bound
    while isinstance(inner, (exp.Cast, exp.Paren)):
        inner = inner.this
    try:
        found = dt.datetime.fromisoformat(inner.name if isinstance(inner, exp.Literal) else "")
    except ValueError:
        return None
    return found if found.tzinfo is None else found.astimezone(dt.UTC).replace(tzinfo=None)


def _integer(bound: exp.Expr) -> int | None:
    inner = bound.this if isinstance(bound, (exp.Cast, exp.Paren)) else bound
    if isinstance(inner, exp.Neg):
        value = _integer(inner.this)
        return None if value is None else -value
    text = inner.this if isinstance(inner, exp.Literal) else ""
    return int(text) if text.lstrip("-").isdecimal() else None


def _values(values: list[exp.Expr]) -> exp.Expr:
    return exp.Values(expressions=[exp.Tuple(expressions=[v]) for v in values], alias=_of_v("c"))


@lru_cache(maxsize=100)
def _texts(values: tuple[str, ...]) -> str:
    """Declared values, which many statements read, as an item of FROM."""
    return fragment(_values([exp.Literal.string(value) for value in values]), "postgres")


def _listed(rows: exp.Query, name: str) -> exp.Subquery:
    """A query of one column as the FROM item `name`, whose column is v."""
    return exp.Subquery(this=rows, alias=_of_v(name))


def _of_v(name: str) -> exp.TableAlias:
    return exp.TableAlias(this=exp.to_identifier(name), columns=[exp.to_identifier("v")])
