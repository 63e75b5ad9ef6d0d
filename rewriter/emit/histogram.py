"""A DP node -> the histogram SQL of a backend, built from expressions, never from strings.

`r` are the rows: their unit _o, keys, and what each count counts; `pu` has one row a unit and group with each
count and sum clamped; `tr` keeps at most delta0 groups a unit by a keyed order. Where the calculus infers one group
a unit, `pu` has one row a unit instead: what one unit can do rests on the SQL alone (enforcement.md). `h` is the
histogram. A known domain is zero-filled from `d`; an unknown one is cut to the largest
`limit` groups with ties broken by a keyed hash, then by the keys.

In:  a node: the rows of users by country, the number of units in each of 5 cells
Out: WITH r AS (<rows>), pu AS (<a row a unit and group>), h AS (<counts>), d AS (<cells>) SELECT ... FROM d LEFT JOIN h

Why: docs/decisions/keys-are-no-engines.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from sqlglot import exp

from rewriter.canonical.normalize import canonical, canonical_conjuncts, conditions_met, text_of
from rewriter.effort import EXPANDED, spend
from rewriter.emit.context import Output, Typed
from rewriter.emit.enforcement import check_units, held
from rewriter.emit.engines.base import Engine
from rewriter.emit.engines.neutral import NEUTRAL
from rewriter.emit.measures import (
    Counted,
    counted,
    measure_text,
    numbered_rows,
    per_unit,
    row_columns,
    total,
    unmeasured,
)
from rewriter.emit.sources import derived_rows, front_rows
from rewriter.ir.measure import Joint, Measure, Moment, Quantiles
from rewriter.ir.measure import parts as read_by
from rewriter.ir.relation import UNIT, Relation, SemiJoin, Source, equated, is_inner_unit, leaf, leaves, parts
from rewriter.ir.texts import sql_text
from rewriter.ir.trees import (
    alias,
    and_,
    cast,
    coalesce,
    column,
    copied,
    crossed,
    grouped,
    join,
    limited,
    not_,
    paren,
    select,
    table_named,
    walk,
)
from rewriter.ir.types import INTEGERS, Type, type_named
from rewriter.logical.plan import AggregateNode
from rewriter.plan import Cells, CellTexts, HistogramQuery, UniqueKey
from rewriter.policy import Column, Hop, Policy, Table, TableName, front_name
from rewriter.scalar.typecheck import Parameters, check, check_order, type_of

Scanned = tuple[tuple[str, str, str, str], ...]
"""Stored columns that a node reads, in order: schema, table, column, and the family of its type."""


def histogram_query(
    node: AggregateNode,
    policy: Policy,
    parameters: Parameters,
    cells: Cells | None,
    delta0: int | None,
    limit: int | None,
    dialect: Engine,
) -> HistogramQuery:
    """The backend's query for the counts and sums of `node`: over `cells` where the domain is known, else the largest
    `limit` groups.

    `delta0`: in how many groups the price assumes a unit to be, which the SQL enforces; None for any number.
    """
    emitter = Emitter(
        policy, parameters, 1 + (len(node.keys) if cells is not None and node.keys else 0), dialect
    )
    types = [type_of(k, node.relation, parameters) for k in node.keys]
    keys, measures = [f"g{n}" for n in range(len(node.keys))], counted(node)
    counts = [f"c{n}" for n, _ in measures]
    query: exp.Query | str
    ctes: list[tuple[str, exp.Query | str]] = [
        ("r", emitter.rows(node, typed=cells is not None, units_later=True))
    ]
    kept = held(node.bound, keys, delta0)
    ctes += numbered_rows(emitter, node, keys, types, kept)
    ctes.append(("pu", per_unit(dialect, tuple(keys), tuple(types), measures, ctes[-1][0], kept)))
    if kept.ranked and kept.most is not None:
        ctes.append(("tr", emitter.truncated(node, keys, types, kept.most)))
    unchecked = tuple((table.schema, table.name) for table in emitter.unchecked.values())
    for table in emitter.unchecked.values():
        emitter.try_owners_sql(table, table.unit)
    ctes.append(("h", _histogram(policy, dialect, tuple(keys), measures, ctes[-1][0], unchecked)))
    if not keys:
        query = select(alias(exp.Literal.number(1), "cell"), *(_filled(c) for c in counts), source="h")
    elif cells is not None:
        ctes.append(("d", domain(dialect, tuple(keys), tuple(types))))
        query = _counts_of_cells(dialect, tuple(keys), tuple(types), tuple(counts))
    else:
        query = limited(emitter.largest(keys, types, counts, f"c{node.selecting or 0}"), limit or 0)
    arrays = () if cells is None else tuple(CellTexts(cells, n) for n in range(len(keys)))
    known = cells is not None or not keys
    most = (limit or 0) if not known else len(cells) if cells is not None and keys else 1
    written = [(name, dialect.fragment(body)) for name, body in ctes]
    return HistogramQuery(
        dialect.sql(query, written), arrays, emitter.rank_used, most, known, emitter.unique, emitter.trials
    )


def node_text(
    node: AggregateNode, policy: Policy, parameters: Parameters, dialect: Engine = NEUTRAL
) -> tuple[str, Scanned]:
    """The node in canonical form with all constants, and the stored columns that it reads: what its release key covers
    besides domain and mechanism.

    Both are independent of the engine: the same question has the same key on every backend.
    """
    return node_texts(node, policy, parameters, dialect)(node.measures)


def node_texts(
    node: AggregateNode, policy: Policy, parameters: Parameters, dialect: Engine = NEUTRAL
) -> Callable[[Sequence[Measure]], tuple[str, Scanned]]:
    """What gives `node_text` of a node's groups with other measures, whose rows are written once."""
    emitter = Emitter(policy, parameters, 1, dialect)
    rows = dialect.sql(emitter.rows(unmeasured(node), typed=False))

    def text(measures: Sequence[Measure]) -> tuple[str, Scanned]:
        own = replace(emitter, read=set(emitter.read))
        written = "\n".join([rows, *(measure_text(own, m, node.relation) for m in measures)])
        return written, tuple(sorted(own.read))

    return text


def shown_text(node: AggregateNode, policy: Policy, parameters: Parameters) -> str:
    """The node in canonical form for those who may not see what the owner wrote: analysts, readers of the ledger."""
    return node_text(node, policy, parameters, NEUTRAL.closed())[0]


def check_dialect(node: AggregateNode, policy: Policy, parameters: Parameters, dialect: Engine) -> None:
    """Raises Refusal where the engine has no form of the node that means what PostgreSQL's does."""
    if dialect.partial:
        Emitter(policy, parameters, 1, dialect).rows(node, typed=False)


def types_query(node: AggregateNode, parameters: Parameters, sent: int) -> str:
    """A statement of the front whose columns have the types of the node's keys and outputs; described, never run.

    Of the parameters the first `sent` are the client's; those behind them stand in it by their types alone.
    """
    columns = [alias(copied(k), f"g{n}") for n, k in enumerate(node.keys)]
    columns += [alias(copied(o.call), f"c{n}") for n, o in enumerate(node.outputs)]
    query = select(*columns)
    if node.outputs:
        grouped(query, *(exp.Literal.number(n + 1) for n in range(len(node.keys))))
    for source in node.relation.sources:
        crossed(query, _front_source(source))
    for found in walk(query, exp.Parameter) if len(parameters) > sent else ():
        if int(found.name) > sent:
            found.replace(exp.var(f"NULL::{front_name(parameters[int(found.name) - 1].type)}"))
    return sql_text(query, "postgres")


def _front_source(source: Source) -> exp.Expr:
    return front_rows(source, lambda s: table_named((s.table.schema, s.table.name), s.alias))


def _of_units(join: SemiJoin, relation: Relation) -> bool:
    """Whether all that a join compares is units, which are never NULL."""
    if join.value is None or join.output is None or join.across:
        return False
    return is_inner_unit(join.value, relation) and is_inner_unit(join.output, join.relation)


def _as_exists(join: SemiJoin, relation: Relation) -> SemiJoin:
    """[NOT] IN as [NOT] EXISTS. NOT IN is not true where a comparison is unknown."""
    if join.value is None or join.output is None:
        return join
    equal: exp.Expr = exp.EQ(this=join.value, expression=join.output)
    known = relation.required(join.value) and join.relation.required(join.output)
    if join.negated and not (known or _of_units(join, relation)):
        equal = not_(exp.Is(this=paren(equal), expression=exp.false()))
    return replace(join, value=None, output=None, across=(*join.across, equal))


def _names_unit(source: Table, hop: Hop, target: Table) -> bool:
    """Whether a reference to `target` is the unit itself, and prints as the key there does."""
    if hop.more or target.unit != (hop.target_column,):
        return False
    (here,) = (c for c in source.columns if c.name == hop.column)
    (there,) = (c for c in target.columns if c.name == hop.target_column)
    same = (here.type, here.caseless) == (there.type, there.caseless)
    return same and type_named(here.type) in {*INTEGERS, Type.TEXT, Type.UUID}


def _often_read(measure: Measure) -> bool:
    """Whether more than a sum and a number of rows is read of a measure's values."""
    return isinstance(measure, (Moment, Quantiles)) or (isinstance(measure, Joint) and measure.squares)


def _filled(count: str) -> exp.Expr:
    return alias(coalesce(column(count, "h"), exp.Literal.number(0)), count)


@lru_cache(maxsize=100)
def _histogram(
    policy: Policy,
    dialect: Engine,
    keys: tuple[str, ...],
    measures: Counted,
    source: str,
    unchecked: tuple[TableName, ...],
) -> str:
    """`h`: the counts and sums of each group over the units of `source` that the `unchecked` tables have."""
    emitter = Emitter(policy, (), 1, dialect)
    emitter.unchecked = {policy.tables[name].backend_name: policy.tables[name] for name in unchecked}
    sums = (alias(total(n, m, dialect), f"c{n}") for n, m in measures)
    query = grouped(select(*map(column, keys), *sums, source=source), *map(column, keys))
    return dialect.fragment(emitter.of_known_units(query, source))


@dataclass
class Emitter:
    """The parts of a node's query in one dialect.

    Attributes:
        policy, parameters, dialect: what it is written with.
        rank: which parameter holds the secret of the keyed order.
        rank_used: the keyed order has been written.
        unique: the keys that paths have been found to rest on so far.
        trials: the queries that fail where the owner's SQL fails for a row of a table that has been read so far.
        unchecked: the tables of units in which the units of the rows have not been looked up yet.
        read: the stored columns that have been written so far.
    """

    policy: Policy
    parameters: Parameters
    rank: int
    dialect: Engine
    rank_used: bool = False
    unique: frozenset[UniqueKey] = frozenset()
    trials: frozenset[str] = frozenset()
    unchecked: dict[tuple[str, ...], Table] = field(default_factory=dict)
    read: set[tuple[str, str, str, str]] = field(default_factory=set)

    def rank_key(self) -> exp.Expr:
        self.rank_used = True
        return self.dialect.secret(self.rank)

    def written(self, node: exp.Expr, relation: Relation) -> exp.Expr:
        """A base-form expression for the engine.

        Raises Refusal where a row could make it raise: the analysis refuses such expressions where they stand in the
        statement; this check stops those that it missed.
        """
        check(node, relation, self.parameters)
        return self.dialect.expression(node, relation, self.parameters)

    def hashed(self, values: Sequence[Typed]) -> exp.Expr:
        """MD5 of the secret and the values' texts, NULL and the empty text kept apart by length."""
        parts: list[exp.Expr] = [self.rank_key()]
        for value, found in values:
            text = self.dialect.text(copied(value), found)
            size = coalesce(exp.Length(this=text), exp.Literal.number(-1))
            parts += [cast(size, "VARCHAR"), coalesce(copied(text), exp.Literal.string(""))]
        joined = parts[0]
        for part in parts[1:]:
            joined = exp.DPipe(
                this=exp.DPipe(this=joined, expression=exp.Literal.string("|")), expression=part
            )
        return exp.MD5(this=joined)

    def keyed_order(self, values: Sequence[Typed], of: Typed | None = None) -> list[exp.Expr]:
        """ORDER BY the keyed hash of `values` (of one unit, where it is given), then by themselves."""
        hashed = self.hashed([self.dialect.told(*of), *values] if of else values)
        order = [self.dialect.ordered(hashed, Type.TEXT)]
        order += [self.dialect.ordered(copied(value), found) for value, found in values]
        return [exp.Ordered(this=one) for one in order]

    def rows(self, node: AggregateNode, typed: bool, *, units_later: bool = False) -> exp.Select:
        """The rows of a node: their unit, keys, and what measures need.

        `units_later`: whether a unit exists may be left to `of_known_units`, which has a row a unit or so to look up,
        not all of their rows.
        """
        relation = node.relation
        check_order(node.keys, relation, self.parameters)
        outputs: list[Output] = [(UNIT, self.unit(relation))]
        for number, key in enumerate(node.keys):
            value = self.written(canonical(key), relation)
            found = type_of(key, relation, self.parameters)
            value = self.dialect.key(value, found)
            value = self.dialect.cell(value, found) if typed else self.dialect.label(value, found)
            outputs.append((f"g{number}", value))
        columns = row_columns(self, node)
        outputs += columns
        used = [*node.keys, *(p for m in node.measures for p in read_by(m))]
        query = self.select(relation, outputs, used, units_later=units_later)
        if self.dialect.fenced and any(_often_read(m) for m in node.measures):
            # PostgreSQL would compute a value once for each aggregate of it. It plans no workers for what is fenced.
            query.offset(0, copy=False)
        return query

    @staticmethod
    def unit(relation: Relation) -> exp.Column:
        return leaf(next(s.alias for s in relation.sources if s.private and s.on is None), UNIT)

    def of_known_units(self, query: exp.Select, name: str) -> exp.Select:
        """A query of `name` without the rows of units that `unchecked` tables do not have."""
        for units in self.unchecked.values():
            (key,) = units.unit
            rows = self.stored_rows(units, [key], "u")
            known = self.known([column(UNIT, name)], [self.stored("u", units, key)], rows)
            query = query.where(known, copy=False)
        return query

    def select(
        self,
        relation: Relation,
        outputs: Sequence[Output],
        used: Sequence[exp.Expr],
        *,
        units_later: bool = False,
    ) -> exp.Select:
        """SELECT outputs FROM the relation's sources under its conditions; `used`: base forms of the outputs.

        `units_later`: as in `rows`. Raises ValueError where rows of several units would meet.
        """
        check_units(relation)
        spend(EXPANDED)
        conditions = conditions_met(relation)
        ons = [c for s in relation.sources for c in s.on or ()]
        outside = [c for j in relation.semi_joins for c in j.outside]
        needed = leaves(*used, *conditions, *ons, *outside)
        query = select(*(alias(v, n, quoted=True) for n, v in outputs))
        for source in relation.sources:
            columns = sorted(c for a, c in needed if a == source.alias)
            item = self.source(source, columns, units_later=units_later and source.on is None)
            if source.on is not None:
                matched = canonical_conjuncts(source.on, relation)
                on = and_(*(self.written(c, relation) for c in matched)) if matched else exp.true()
                join(query, item, on, side="LEFT")
            else:
                crossed(query, item)
        for source in relation.sources:
            # Private rows meet on their unit: rows of the table of units among them have found it.
            if units_later and source.private and source.on is None and not source.table.path:
                self.unchecked.pop(source.table.backend_name, None)
        written = sorted((self.written(c, relation) for c in conditions), key=text_of)
        written += self.same_units(relation)
        written += [self.semi_join(relation, number) for number in range(len(relation.semi_joins))]
        return query.where(*written, copy=False) if written else query

    def same_units(self, relation: Relation) -> Iterator[exp.Expr]:
        """That rows of three tables or more have the first one's unit, as conditions that an engine joins by, where the
        statement only implies it: `check_units` has found that it does."""
        scans = [s for s in relation.sources if s.on is None and s.derived is None and self._names_a_key(s)]
        if not self.dialect.relates_units or len(scans) < 3:
            return
        pairs = [columns for columns in map(equated, relation.met) if columns is not None]
        stated = [{c.table for c in pair} for pair in pairs if all(is_inner_unit(c, relation) for c in pair)]
        first, *others = (s.alias for s in scans)
        for other in others:
            if {first, other} not in stated:
                yield exp.EQ(this=leaf(first, UNIT), expression=leaf(other, UNIT))

    def _names_a_key(self, source: Source) -> bool:
        """Whether the unit of a private source is one column of the type of the unit's key: equal types compare without
        an error."""
        if not source.private:
            return False
        here = source.table
        for hop in here.path:
            there = self.policy.tables[hop.target]
            if not (_names_unit(here, hop, there) or frozenset(key for _, key in hop.pairs) in there.keys):
                return False
            here = there
        return len(here.unit) == 1

    def semi_join(self, relation: Relation, number: int) -> exp.Expr:
        """A condition on other rows. Units without such rows are found by NOT EXISTS: units are never NULL, and
        PostgreSQL searches all rows of a NOT IN for each unit if its hash table would not fit. It searches them for
        each row where the query of IN reads the rows around it."""
        join = relation.semi_joins[number]
        if (join.negated and _of_units(join, relation)) or (join.across and not self.dialect.joins_in):
            join = _as_exists(join, relation)
        both = replace(relation, sources=relation.sources + join.relation.sources)
        across = [self.written(canonical(c), both) for c in join.across]
        if join.value is None or join.output is None:
            one = exp.Literal.number(1)
            rows = self.select(join.relation, [("x", one)], join.across)
            found: exp.Expr = exp.Exists(this=rows.where(*across, copy=False) if across else rows)
        else:
            check_order([join.output], join.relation, self.parameters)
            output = self.written(join.output, join.relation)
            rows = self.select(join.relation, [("x", output)], [join.output, *join.across])
            rows = rows.where(*across, copy=False) if across else rows
            found = exp.In(this=self.written(join.value, relation), query=rows.subquery(copy=False))
        return not_(found) if join.negated else found

    def source(self, source: Source, columns: Sequence[str], *, units_later: bool = False) -> exp.Expr:
        if source.view is not None and not self.dialect.open:
            return table_named((source.view.schema, source.view.name), source.alias)
        if source.derived is not None:
            rows = derived_rows(self, source.derived, source.table.columns, units_later=units_later)
            return rows.subquery(source.alias, copy=False)
        if not source.private:
            return self.public_scan(source, columns)
        scan = self.private_scan(source, [c for c in columns if c != UNIT], units_later=units_later)
        return exp.Subquery(this=scan, alias=exp.TableAlias(this=exp.to_identifier(source.alias)))

    def public_scan(self, source: Source, columns: Sequence[str]) -> exp.Expr:
        scanned = self.columns(source, "s", columns)
        if all(isinstance(value, exp.Column) for value in scanned):
            return self.stored_rows(source.table, columns, source.alias)
        rows = self.stored_rows(source.table, columns, "s")
        return select(*scanned, source=rows).subquery(source.alias, copy=False)

    def columns(self, source: Source, of: str, columns: Sequence[str]) -> list[exp.Expr]:
        """Stored columns under their own names."""
        values = [(name, self.scanned(of, source.table, source.column(name))) for name in columns]
        return [
            value if isinstance(value, exp.Column) else alias(value, name, quoted=True)
            for name, value in values
        ]

    def private_scan(self, source: Source, columns: Sequence[str], *, units_later: bool) -> exp.Expr:
        """The rows of a private table that a unit owns, with the unit as _o."""
        table = source.table
        chosen = source.single and frozenset(table.unit) not in table.keys
        kept = self.dialect.open and self.policy.tables.get((table.schema, table.name)) is table
        if chosen or not kept:
            return self.unit_rows(table, columns, chosen=chosen, units_later=units_later)
        named = table.schema, table.name
        text, alone = _unit_rows(self.policy, self.dialect, named, tuple(columns), units_later)
        self.read |= alone.read
        self.unique |= alone.unique
        self.trials |= alone.trials
        self.unchecked |= alone.unchecked
        return copied(text)

    def unit_rows(
        self, table: Table, columns: Sequence[str], *, chosen: bool = False, units_later: bool = False
    ) -> exp.Select:
        """As `private_scan`; `chosen`: one row a unit."""
        source = Source("s", table, single=chosen)
        virtual = {c.name for c in table.columns if c.virtual}
        stored = [c for c in columns if c not in virtual]
        scan = (
            self.first_rows(table, "s")
            if chosen
            else self.stored_rows(table, [*stored, *self.leading(table)], "s")
        )
        query = select(*self.columns(source, "s", stored), source=scan)
        parts, query = self.owner(table, "s", query, units_later=units_later)
        owner = parts[0][0] if len(parts) == 1 else self.dialect.row(parts)
        shown = (alias(copied(owner), name, quoted=True) for name in columns if name in virtual)
        present = [not_(exp.Is(this=copied(part), expression=exp.null())) for part, _ in parts]
        return query.select(*shown, alias(owner, UNIT, quoted=True), copy=False).where(*present, copy=False)

    def first_rows(self, table: Table, name: str) -> exp.Expr:
        """One row a unit, chosen by a keyed order of that unit's own rows: the declared key, enforced."""
        types = [(c, type_named(c.type)) for c in table.columns]
        # Rows that differ in values alone that nobody reads are one like the other.
        told = [(c, of) for c, of in types if of not in (Type.OTHER, Type.OTHER_ARRAY)]
        values = [self.dialect.told(self.scanned("s0", table, c), of) for c, of in told]
        unit = [self.stored("s0", table, name) for name in table.unit]
        order = exp.Order(expressions=self.keyed_order(values))
        rank = exp.Window(this=exp.RowNumber(), partition_by=unit, order=order, over="OVER")
        scan = self.stored_rows(table, [c.name for c in table.columns if not c.virtual], "s0")
        ranked = select("*", alias(rank, "_n"), source=scan).subquery("s1", copy=False)
        first = select("*", source=ranked).where(column("_n", "s1").eq(1), copy=False)
        return first.subquery(name, copy=False)

    def stored_rows(self, table: Table, columns: Sequence[str], name: str) -> exp.Expr:
        """The rows of a table, with these columns, as the item `name` of FROM."""
        self.try_owners_sql(table, columns)
        return self.dialect.rows(table, columns, name)

    def try_owners_sql(self, table: Table, columns: Sequence[str]) -> None:
        trial = self.dialect.trial(table, columns)
        self.trials |= set() if trial is None else {trial}

    def stored(self, of: str, table: Table, name: str) -> exp.Expr:
        """A column of `table`, hidden ones too."""
        return self.scanned(of, table, next(c for c in table.columns if c.name == name))

    def scanned(self, of: str, table: Table, column: Column) -> exp.Expr:
        """A stored column, as a value of its type in the front."""
        found = type_named(column.type).family
        self.read.add(
            (table.schema, table.name, column.name, f"caseless {found}" if column.caseless else found)
        )
        return self.dialect.scanned(of, column)

    @staticmethod
    def leading(table: Table) -> Sequence[str]:
        """The stored columns that name the unit, or that the path to it begins with."""
        return [column for column, _ in table.path[0].pairs] if table.path else table.unit

    def owner(
        self, table: Table, of: str, query: exp.Select, *, units_later: bool
    ) -> tuple[list[Typed], exp.Select]:
        """The values that name the unit of a row, along the table's path; rows whose path leads nowhere are dropped."""

        def stored(alias: str, of: Table, names: Iterable[str]) -> list[exp.Expr]:
            return [self.stored(alias, of, name) for name in names]

        holder = self.policy.tables[table.path[-1].target] if table.path else table
        types = [type_named(next(c.type for c in holder.columns if c.name == part)) for part in holder.unit]
        current, source = stored(of, table, self.leading(table)), table
        for number, hop in enumerate(table.path):
            target = self.policy.tables[hop.target]
            last, keys = hop is table.path[-1], [key for _, key in hop.pairs]
            if last and units_later and _names_unit(source, hop, target):
                self.unchecked[target.backend_name] = target
                break
            source = target
            joined = self.dialect.joins_units and frozenset(keys) in target.keys
            if last and set(keys) == set(target.unit) and not joined:
                units = self.stored_rows(target, keys, "u")
                query = query.where(self.known(current, stored("u", target, keys), units), copy=False)
                current = [copied(current[keys.index(part)]) for part in target.unit]
                break
            self.unique |= {(target.backend_name, tuple(sorted(keys)))}
            name = f"p{number}"
            match = [key.eq(value) for key, value in zip(stored(name, target, keys), current, strict=True)]
            following = target.unit if last else [column for column, _ in table.path[number + 1].pairs]
            query = join(query, self.stored_rows(target, [*keys, *following], name), and_(*match))
            current = stored(name, target, following)
        found = list(zip(current, types, strict=True))
        if len(found) > 1:
            # A row of them is written as a text where it is hashed, and equal ones as one text.
            found = [(self.dialect.key(value, of), of) for value, of in found]
        return found, query

    @staticmethod
    def known(values: Sequence[exp.Expr], keys: Sequence[exp.Expr], units: exp.Expr) -> exp.Expr:
        """Whether `units` has a row with these keys."""
        if len(keys) == 1:
            listed = select(*keys, source=units)
            return exp.In(this=copied(values[0]), query=listed.subquery(copy=False))
        equal = [key.eq(copied(value)) for key, value in zip(keys, values, strict=True)]
        return exp.Exists(this=select(exp.Literal.number(1), source=units).where(*equal, copy=False))

    def unit_type(self, relation: Relation) -> Type:
        """The type of the privacy unit's column."""
        source = next(s for s in relation.sources if s.private and s.on is None)
        if source.derived is not None:
            return self.unit_type(parts(source.derived)[0])
        table = source.table
        holder = self.policy.tables[table.path[-1].target] if table.path else table
        if len(holder.unit) > 1:
            return Type.RECORD
        return type_named(next(c.type for c in holder.columns if c.name == holder.privacy_unit))

    def truncated(self, node: AggregateNode, keys: list[str], types: list[Type], delta0: int) -> exp.Select:
        unit = column(UNIT), self.unit_type(node.relation)
        rank = exp.Window(
            this=exp.RowNumber(),
            partition_by=[column(UNIT)],
            order=exp.Order(expressions=self.keyed_order(_typed(keys, types), of=unit)),
            over="OVER",
        )
        ranked = select("*", alias(rank, "_n"), source="pu").subquery("q", copy=False)
        return select("*", source=ranked).where(column("_n", "q") <= delta0, copy=False)

    def largest(self, keys: list[str], types: list[Type], counts: list[str], order: str) -> exp.Select:
        ordered = [
            exp.Ordered(this=column(order), desc=True, nulls_first=False),
            *self.keyed_order(_typed(keys, types)),
        ]
        columns = [column(k) for k in keys]
        query = select(*columns, *(column(c) for c in counts), source="h").where(
            column(order) > 0, copy=False
        )
        return query.order_by(*ordered, copy=False)


@lru_cache(maxsize=1000)
def domain(
    dialect: Engine, keys: tuple[str, ...], types: tuple[Type, ...], numbers: tuple[str, ...] = ()
) -> str:
    """The cells, bound as one array of texts a key and numbered from 1, with an array for each of `numbers`.

    Where the backend's type makes one value of several cells, only the first of them (_n = 1) counts.
    """
    columns = [(k, of.cell) for k, of in zip(keys, types, strict=True)]
    cells = dialect.cells([*columns, *((name, Type.INT8.cell) for name in numbers)])
    rank = exp.Window(
        this=exp.RowNumber(),
        partition_by=[column(k) for k in keys],
        order=exp.Order(expressions=[exp.Ordered(this=column("cell"))]),
        over="OVER",
    )
    return dialect.fragment(select("*", alias(rank, "_n"), source=cells.subquery("c", copy=False)))


@lru_cache(maxsize=1000)
def _counts_of_cells(
    dialect: Engine, keys: tuple[str, ...], types: tuple[Type, ...], counts: tuple[str, ...]
) -> str:
    """Each cell of `d` with its counts of `h`, 0 where it has none."""
    match = and_(
        column("_n", "d").eq(1),
        *(dialect.same(column(k, "d"), column(k, "h"), of) for k, of in zip(keys, types, strict=True)),
    )
    query = select(column("cell", "d"), *(_filled(c) for c in counts), source="d")
    return dialect.fragment(join(query, "h", match, side="LEFT"))


@lru_cache(maxsize=1000)
def _unit_rows(
    policy: Policy, dialect: Engine, table: TableName, columns: tuple[str, ...], units_later: bool
) -> tuple[exp.Var, Emitter]:
    """The text of `unit_rows` and what it has noted: statements read the same tables over and over."""
    emitter = Emitter(policy, (), 1, dialect)
    rows = emitter.unit_rows(policy.tables[table], columns, units_later=units_later)
    return exp.Var(this=dialect.fragment(rows)), emitter


def _typed(keys: list[str], types: list[Type]) -> list[Typed]:
    return [(column(k), found) for k, found in zip(keys, types, strict=True)]
