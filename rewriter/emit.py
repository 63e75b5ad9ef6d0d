"""A DP node -> the histogram SQL of the backend, built from expressions, never from strings.

`r` are the rows: their unit _o, keys, and what each count counts; `pu` has one row a unit and group with each
count clamped to tau; `tr` keeps at most delta0 groups a unit by a keyed order, where the bound is only declared;
`h` is the histogram. A known domain is zero-filled from `d`; an unknown one is cut to the largest
`limit` groups with ties broken by a keyed hash, then by the keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from rewriter.canonical import canonical
from rewriter.draft import NodeDraft
from rewriter.expression import Parameters, kind
from rewriter.plan import Cells, HistogramQuery
from rewriter.policy import Policy, Table
from rewriter.relation import UNIT, Derived, Field, Relation, Source, leaf, leaves
from rewriter.translate import BACKEND_TYPES, to_duckdb

Output = tuple[str, exp.Expr]


def histogram_query(
    node: NodeDraft,
    policy: Policy,
    parameters: Parameters,
    cells: Cells | None,
    delta0: int | None,
    limit: int | None,
) -> HistogramQuery:
    """The backend's query for `node`: over `cells` where the domain is known, else the largest `limit` groups.

    `delta0` is enforced by a keyed rank where the node's bound rests on a declaration.
    """
    emitter = _Emitter(
        policy, parameters, rank=1 + (len(node.keys) if cells is not None and node.keys else 0)
    )
    keys = [f"g{n}" for n in range(len(node.keys))]
    counts = [f"c{n}" for n in range(len(node.measures))]
    ctes = [("r", emitter.rows(node, typed=cells is not None)), ("pu", _per_unit(node, keys))]
    if node.bound.enforce and delta0 is not None and node.keys:
        ctes.append(("tr", emitter.truncated(keys, delta0)))
    ctes.append(("h", _histogram(keys, counts, ctes[-1][0])))
    if not keys:
        query = exp.select(exp.alias_(exp.Literal.number(1), "cell"), *(_filled(c) for c in counts)).from_(
            "h"
        )
    elif cells is not None:
        ctes.append(("d", emitter.domain(node, keys)))
        match = exp.and_(
            _of("d", "_n").eq(1), *(exp.NullSafeEQ(this=_of("d", k), expression=_of("h", k)) for k in keys)
        )
        query = (
            exp.select(_of("d", "cell"), *(_filled(c) for c in counts))
            .from_("d")
            .join("h", on=match, join_type="LEFT")
        )
    else:
        query = emitter.largest(keys, counts, counts[node.order_by]).limit(limit or 0)
    for name, body in ctes:
        query = query.with_(name, as_=body)
    arrays = (
        tuple(zip(*cells, strict=True)) if cells else tuple(() for _ in keys) if cells is not None else ()
    )
    return HistogramQuery(query.sql("duckdb", pretty=True), arrays if keys else (), emitter.rank_used, limit)


def node_text(node: NodeDraft, policy: Policy, parameters: Parameters) -> str:
    """The node in canonical form with all constants: what its release key covers beside domain and mechanism."""
    keys = [f"g{n}" for n in range(len(node.keys))]
    rows = _Emitter(policy, parameters, rank=1).rows(node, typed=False)
    return _per_unit(node, keys).with_("r", as_=rows).sql("duckdb")


def types_query(node: NodeDraft) -> str:
    """A statement of the front whose columns have the types of the node's keys; it is described, never run."""
    select = exp.select(*(exp.alias_(k.copy(), f"g{n}") for n, k in enumerate(node.keys)))
    for number, source in enumerate(node.relation.sources):
        item = _front_source(source)
        select = select.from_(item) if number == 0 else select.join(item, join_type="CROSS")
    return select.sql("postgres")


def _front_source(source: Source) -> exp.Expr:
    if source.derived is None:
        return _table((source.table.schema, source.table.name), source.alias)
    inner = exp.select(*(exp.alias_(f.value.copy(), f.name, quoted=True) for f in _outputs(source.derived)))
    for number, part in enumerate(source.derived.relation.sources):
        item = _front_source(part)
        inner = inner.from_(item) if number == 0 else inner.join(item, join_type="CROSS")
    if source.derived.keys:
        inner = inner.group_by(*(f.value.copy() for f in source.derived.keys))
    return inner.subquery(source.alias)


def _outputs(derived: Derived) -> tuple[Field, ...]:
    return (*derived.keys, *derived.aggregates)


def _table(parts: Sequence[str], alias: str) -> exp.Table:
    names = [exp.to_identifier(p, quoted=True) for p in reversed(parts)]
    table = exp.Table(**dict(zip(("this", "db", "catalog"), names, strict=False)))
    table.set("alias", exp.TableAlias(this=exp.to_identifier(alias)))
    return table


def _of(table: str, name: str) -> exp.Column:
    return exp.column(name, table=table)


def _filled(count: str) -> exp.Expr:
    return exp.alias_(exp.func("COALESCE", _of("h", count), exp.Literal.number(0)), count)


def _per_unit(node: NodeDraft, keys: list[str]) -> exp.Select:
    columns: list[exp.Expr] = [exp.column(UNIT), *(exp.column(k) for k in keys)]
    for number, measure in enumerate(node.measures):
        counted = exp.Star() if measure.argument is None else exp.column(f"x{number}")
        clamped = exp.Least(
            this=exp.Count(this=counted), expressions=[exp.Literal.number(measure.tau)], ignore_nulls=True
        )
        columns.append(exp.alias_(clamped, f"v{number}"))
    return exp.select(*columns).from_("r").group_by(UNIT, *keys)


def _histogram(keys: list[str], counts: list[str], source: str) -> exp.Select:
    sums = [
        exp.alias_(exp.cast(exp.Sum(this=exp.column(f"v{n}")), "BIGINT"), c) for n, c in enumerate(counts)
    ]
    query = exp.select(*(exp.column(k) for k in keys), *sums).from_(source)
    return query.group_by(*keys) if keys else query


@dataclass
class _Emitter:
    policy: Policy
    parameters: Parameters
    rank: int
    rank_used: bool = False

    def rank_key(self) -> exp.Expr:
        self.rank_used = True
        return exp.cast(exp.Parameter(this=exp.Literal.number(self.rank)), "VARCHAR")

    def hashed(self, columns: Sequence[exp.Expr]) -> exp.Expr:
        """MD5 of the secret and the columns' texts, NULL and the empty text kept apart by length."""
        parts: list[exp.Expr] = [self.rank_key()]
        for column in columns:
            text = exp.cast(column.copy(), "VARCHAR")
            size = exp.func("COALESCE", exp.Length(this=text), exp.Literal.number(-1))
            parts += [exp.cast(size, "VARCHAR"), exp.func("COALESCE", text.copy(), exp.Literal.string(""))]
        joined = parts[0]
        for part in parts[1:]:
            joined = exp.DPipe(
                this=exp.DPipe(this=joined, expression=exp.Literal.string("|")), expression=part
            )
        return exp.MD5(this=joined)

    def rows(self, node: NodeDraft, typed: bool) -> exp.Select:
        relation = node.relation
        outputs: list[Output] = [(UNIT, self.unit(relation))]
        for number, key in enumerate(node.keys):
            value = to_duckdb(canonical(key), relation, self.parameters)
            found = kind(key, relation, self.parameters)
            if typed:
                value = exp.TryCast(this=value, to=exp.DataType.build(_backend_type(found), dialect="duckdb"))
            elif found == "float":
                value = exp.Add(this=value, expression=exp.Literal.number("0.0"))
            outputs.append((f"g{number}", value))
        for number, measure in enumerate(node.measures):
            if measure.argument is not None:
                condition = to_duckdb(canonical(measure.argument), relation, self.parameters)
                outputs.append((f"x{number}", exp.Case().when(condition, exp.Literal.number(1))))
        used = [*node.keys, *(m.argument for m in node.measures if m.argument is not None)]
        return self.select(relation, outputs, used)

    @staticmethod
    def unit(relation: Relation) -> exp.Column:
        return leaf(next(s.alias for s in relation.sources if s.private and s.on is None), UNIT)

    def select(self, relation: Relation, outputs: Sequence[Output], used: Sequence[exp.Expr]) -> exp.Select:
        """SELECT outputs FROM the relation's sources under its conditions; `used`: base forms of the outputs."""
        conditions = sorted((canonical(c) for c in relation.conditions), key=lambda c: c.sql())
        ons = [c for s in relation.sources for c in s.on or ()]
        values = [j.value for j in relation.semi_joins]
        needed = leaves(*used, *conditions, *ons, *values)
        select = exp.select(*(exp.alias_(v, n, quoted=True) for n, v in outputs))
        first = True
        for source in relation.sources:
            item = self.source(source, sorted(c for a, c in needed if a == source.alias))
            if source.on is not None:
                on = (
                    exp.and_(*(to_duckdb(c, relation, self.parameters) for c in source.on))
                    if source.on
                    else exp.true()
                )
                select = select.join(item, on=on, join_type="LEFT")
            else:
                select = select.from_(item) if first else select.join(item, join_type="CROSS")
            first = False
        written = [to_duckdb(c, relation, self.parameters) for c in conditions]
        written += [self.semi_join(relation, number) for number in range(len(relation.semi_joins))]
        return select.where(*written) if written else select

    def semi_join(self, relation: Relation, number: int) -> exp.Expr:
        join = relation.semi_joins[number]
        output = to_duckdb(join.output, join.relation, self.parameters)
        inner = self.select(join.relation, [("x", output)], [join.output])
        found = exp.In(this=to_duckdb(join.value, relation, self.parameters), query=inner.subquery())
        return exp.not_(found) if join.negated else found

    def source(self, source: Source, columns: Sequence[str]) -> exp.Expr:
        if not source.private:
            return _table(source.table.backend_name, source.alias)
        if source.derived is not None:
            return self.derived(source.derived).subquery(source.alias)
        return self.private_scan(source, [c for c in columns if c != UNIT]).subquery(source.alias)

    def private_scan(self, source: Source, columns: Sequence[str]) -> exp.Select:
        """The rows of a private table that a unit owns, with the unit as _o."""
        table = source.table
        own = leaf("s", "").table
        scan: exp.Expr = _table(table.backend_name, own)
        unit = frozenset({table.privacy_unit or ""})
        if source.single and unit not in table.keys:
            scan = self.first_rows(table, own)
        select = exp.select(*(leaf(own, c) for c in columns)).from_(scan)
        owner, select = self.owner(table, own, select)
        return select.select(exp.alias_(owner, UNIT, quoted=True)).where(
            exp.not_(exp.Is(this=owner.copy(), expression=exp.null()))
        )

    def first_rows(self, table: Table, alias: str) -> exp.Expr:
        """One row a unit, chosen by a keyed order of that unit's own rows: the declared key, enforced."""
        names = [leaf("s0", c.name) for c in table.columns]
        unit = leaf("s0", table.privacy_unit or "")
        order = exp.Order(expressions=[exp.Ordered(this=e) for e in (self.hashed(names), *names)])
        rank = exp.Window(this=exp.RowNumber(), partition_by=[unit], order=order, over="OVER")
        ranked = (
            exp.select("*", exp.alias_(rank, "_n")).from_(_table(table.backend_name, "s0")).subquery("s1")
        )
        return exp.select("*").from_(ranked).where(_of("s1", "_n").eq(1)).subquery(alias)

    def owner(self, table: Table, alias: str, select: exp.Select) -> tuple[exp.Expr, exp.Select]:
        """The unit of a row along the table's path; rows whose path leads nowhere are dropped."""
        current = leaf(alias, table.path[0].column if table.path else table.privacy_unit or "")
        for number, hop in enumerate(table.path):
            target = self.policy.tables[hop.target]
            last = number == len(table.path) - 1
            if last and hop.target_column == target.privacy_unit:
                known = exp.select(exp.column(exp.to_identifier(hop.target_column, quoted=True)))
                known = known.from_(_table(target.backend_name, "u"))
                return current, select.where(exp.In(this=current.copy(), query=known.subquery()))
            name = f"p{number}"
            match = leaf(name, hop.target_column).eq(current)
            select = select.join(_table(target.backend_name, name), on=match)
            following = target.privacy_unit or "" if last else table.path[number + 1].column
            current = leaf(name, following)
        return current, select

    def derived(self, derived: Derived) -> exp.Select:
        relation = derived.relation
        unit = self.unit(relation)
        outputs: list[Output] = [(UNIT, unit)]
        outputs += [(f.name, to_duckdb(f.value, relation, self.parameters)) for f in _outputs(derived)]
        used = [f.value for f in _outputs(derived)] + ([derived.having] if derived.having is not None else [])
        keys = [to_duckdb(f.value, relation, self.parameters) for f in derived.keys]
        select = self.select(relation, outputs, used).group_by(unit.copy(), *keys)
        if derived.having is not None:
            select = select.having(to_duckdb(derived.having, relation, self.parameters))
        return select

    def truncated(self, keys: list[str], delta0: int) -> exp.Select:
        columns = [exp.column(k) for k in keys]
        order = [exp.Ordered(this=e) for e in (self.hashed([exp.column(UNIT), *columns]), *columns)]
        rank = exp.Window(
            this=exp.RowNumber(),
            partition_by=[exp.column(UNIT)],
            order=exp.Order(expressions=order),
            over="OVER",
        )
        ranked = exp.select("*", exp.alias_(rank, "_n")).from_("pu").subquery("q")
        return exp.select("*").from_(ranked).where(_of("q", "_n") <= delta0)

    def domain(self, node: NodeDraft, keys: list[str]) -> exp.Select:
        """The cells, bound as one array of texts a key and numbered from 1.

        Where the backend's type makes one value of several cells, only the first of them (_n = 1) counts.
        """
        first = exp.cast(exp.Parameter(this=exp.Literal.number(1)), "VARCHAR[]")
        columns: list[exp.Expr] = [
            exp.alias_(
                exp.Anonymous(this="GENERATE_SUBSCRIPTS", expressions=[first, exp.Literal.number(1)]), "cell"
            )
        ]
        for number, name in enumerate(keys):
            target = _backend_type(kind(node.keys[number], node.relation, self.parameters))
            texts = exp.cast(exp.Parameter(this=exp.Literal.number(number + 1)), "VARCHAR[]")
            typed = exp.Cast(this=texts, to=exp.DataType.build(f"{target}[]", dialect="duckdb"))
            columns.append(exp.alias_(exp.Anonymous(this="UNNEST", expressions=[typed]), name))
        rank = exp.Window(
            this=exp.RowNumber(),
            partition_by=[exp.column(k) for k in keys],
            order=exp.Order(expressions=[exp.Ordered(this=exp.column("cell"))]),
            over="OVER",
        )
        return exp.select("*", exp.alias_(rank, "_n")).from_(exp.select(*columns).subquery("c"))

    def largest(self, keys: list[str], counts: list[str], order: str) -> exp.Select:
        columns = [exp.column(k) for k in keys]
        ordered = [
            exp.Ordered(this=exp.column(order), desc=True, nulls_first=False),
            exp.Ordered(this=self.hashed(columns)),
            *(exp.Ordered(this=c.copy()) for c in columns),
        ]
        query = exp.select(*columns, *(exp.column(c) for c in counts)).from_("h").where(exp.column(order) > 0)
        return query.order_by(*ordered)


def _backend_type(found: str) -> str:
    return BACKEND_TYPES.get(found, "VARCHAR")
