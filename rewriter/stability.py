"""The stability calculus' transfer functions: FROM, JOIN, WHERE and per-unit subqueries, each on relations.

Every row of a private relation depends on the rows of one privacy unit and on public data (the
relation is decomposable). Each function here keeps that or refuses.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count

from sqlglot import exp

from rewriter.bounds import joined_on_unit
from rewriter.expression import Parameters, check_condition
from rewriter.grammar import position
from rewriter.policy import Column, Table
from rewriter.refusal import Refusal
from rewriter.relation import (
    UNIT,
    Derived,
    Field,
    Relation,
    SemiJoin,
    Source,
    conjuncts,
    is_inner_unit,
    leaf,
    leaves,
)
from rewriter.resolve import folded, resolve


def aliases() -> Iterator[str]:
    """Source aliases of one statement: t0, t1, ...

    >>> next(aliases())
    't0'
    """
    return (f"t{n}" for n in count())


def scan(table: Table, alias: str, name: str, renamed: Sequence[str] = ()) -> Relation:
    """A scan of `table`, seen under `name`; `renamed` are the analyst's column aliases.

    A private table has one row a unit where its unit column is a key of the backend, or declared as one and
    then enforced in the SQL. Rows without a unit are dropped.
    """
    unit = frozenset({table.privacy_unit}) if table.privacy_unit else frozenset()
    single = not table.public and unit in (*table.keys, *table.declared_keys)
    visible = [c.name for c in table.columns if not c.hidden and c.name != UNIT]
    names = [*renamed, *visible[len(renamed) :]]
    fields = tuple(Field(shown, leaf(alias, c)) for shown, c in zip(names, visible, strict=False))
    return Relation((Source(alias, table, single),), scope=((name, fields),))


def join(left: Relation, right: Relation, node: exp.Join, parameters: Parameters) -> Relation:
    """The join of two relations; refuses what keeps public rows that no unit owns (PV021)."""
    side, kind, method = (str(node.args.get(k) or "").upper() for k in ("side", "kind", "method"))
    if kind not in ("", "INNER", "CROSS", "OUTER") or method not in ("", "NATURAL"):
        raise Refusal("0A000", f"{kind or method} JOIN is not supported", position=position(node))
    columns = [folded(i) for i in node.args.get("using") or ()]
    if method == "NATURAL":
        columns = [n for n in _names(left) if n in _names(right)]
    merged = {name: _named(left, name) for name in columns}
    equalities = [exp.EQ(this=_named(left, n), expression=_named(right, n)) for n in columns]
    earlier = [*left.merged.items(), *right.merged.items()]
    both = replace(
        left,
        sources=left.sources + right.sources,
        scope=left.scope + right.scope,
        merged={**merged, **{n: v for n, v in earlier if n not in merged}},
        semi_joins=left.semi_joins + right.semi_joins,
    )
    on = (*equalities, *(_condition(c, both, parameters) for c in conjuncts(node.args.get("on"))))
    if side in ("RIGHT", "FULL") or (side == "LEFT" and right.private and not left.private):
        public = (left if side != "RIGHT" or not left.private else right).sources[0].table
        raise Refusal(
            "PV021",
            f'{side} JOIN keeps rows of public table "{public.name}" that belong to no unit'
            if public.public
            else f"{side} JOIN of private tables is not supported",
            hint="Use INNER JOIN, or LEFT JOIN with the private table on the left.",
            position=position(node),
        )
    if side == "LEFT":
        if not _plain(right):
            raise Refusal(
                "0A000", "LEFT JOIN of a subquery is not supported on private tables", position=position(node)
            )
        outer = replace(right.sources[0], on=on)
        return replace(both, sources=(*left.sources, outer), conditions=left.conditions)
    return replace(both, conditions=left.conditions + right.conditions + on)


def _plain(relation: Relation) -> bool:
    """Whether a relation is one table's own columns, which a LEFT JOIN makes NULL together."""
    plain = all(isinstance(f.value, exp.Column) for _, fields in relation.scope for f in fields)
    return plain and not (
        len(relation.sources) != 1
        or relation.conditions
        or relation.semi_joins
        or relation.sources[0].derived is not None
    )


def _names(relation: Relation) -> list[str]:
    return [f.name for _, fields in relation.scope for f in fields]


def _named(relation: Relation, name: str) -> exp.Expr:
    return resolve(exp.column(exp.to_identifier(name, quoted=True)), relation)


def _condition(node: exp.Expr, relation: Relation, parameters: Parameters) -> exp.Expr:
    resolved = resolve(node, relation)
    check_condition(resolved, relation, parameters)
    return resolved.unnest()


def where(
    relation: Relation, condition: exp.Expr, parameters: Parameters, outer: Relation | None = None
) -> Relation:
    """The rows that satisfy one row-local conjunct."""
    resolved = resolve(condition, relation, outer).unnest()
    if outer is None or leaves(resolved) <= {(s.alias, c) for s in relation.sources for c in _all(s)}:
        check_condition(resolved, relation, parameters)
    return replace(relation, conditions=(*relation.conditions, resolved))


def _all(source: Source) -> set[str]:
    return {UNIT, *(c.name for c in source.table.columns)}


def require_unit_joins(relation: Relation, at: exp.Expr) -> None:
    """Refuse (PV012) private tables that are not joined on the privacy unit."""
    apart = joined_on_unit(relation)
    if apart is not None:
        unit = next((s.table.privacy_unit for s in relation.sources if s.private), "the privacy unit")
        raise Refusal(
            "PV012",
            f'private tables "{apart[0]}" and "{apart[1]}" must be joined on the privacy unit',
            detail="A join on anything else would let one person's rows decide about another's.",
            hint=f"Add AND {apart[0]}.{unit} = {apart[1]}.{unit} (an equality under OR, or through a function, "
            "does not count).",
            position=position(at),
        )


def semi_join(
    relation: Relation, value: exp.Expr, inner: Relation, output: exp.Expr, negated: bool
) -> Relation:
    """`value [NOT] IN (SELECT output FROM inner)`: public rows with any value, private ones on the unit.

    A unit that a LEFT JOIN can make NULL will not do: NULL in the list decides NOT IN for every row, and NULL
    before it depends on whether the list is empty.
    """
    if inner.private and not (is_inner_unit(value, relation) and is_inner_unit(output, inner)):
        table = next(s.table for s in inner.sources if s.private)
        raise Refusal(
            "PV015",
            f'subquery in WHERE reads private table "{table.name}" across units',
            hint=f"Correlate on the privacy unit: {table.privacy_unit} IN (SELECT {table.privacy_unit} ...).",
            position=position(value),
        )
    added = SemiJoin(value, inner, output, negated)
    return replace(relation, semi_joins=(*relation.semi_joins, added))


def exists(relation: Relation, inner: Relation, negated: bool, at: exp.Expr) -> Relation:
    """[NOT] EXISTS over private rows that are correlated with the outer ones by equality of the unit, and only so."""
    own = {s.alias for s in inner.sources}
    inside = [c for c in inner.conditions if {a for a, _ in leaves(c)} <= own]
    across = [c for c in inner.conditions if c not in inside]
    units = [_correlated_unit(c, relation, inner) for c in across]
    outside = any(a not in own for j in inner.semi_joins for a, _ in leaves(j.value))
    if not across or outside or any(u is None for u in units):
        table = next((s.table for s in inner.sources if s.private), inner.sources[0].table)
        raise Refusal(
            "PV015",
            f'EXISTS reads table "{table.name}" across units',
            hint=f"Correlate on the privacy unit alone: WHERE x.{table.privacy_unit} = y.{table.privacy_unit}.",
            position=position(at),
        )
    closed = replace(inner, conditions=tuple(inside))
    require_unit_joins(closed, at)
    output, value = units[0] or (exp.null(), exp.null())
    return semi_join(relation, value, closed, output, negated)


def _correlated_unit(
    condition: exp.Expr, relation: Relation, inner: Relation
) -> tuple[exp.Expr, exp.Expr] | None:
    if not isinstance(condition, exp.EQ):
        return None
    own = {s.alias for s in inner.sources}
    for here, there in ((condition.this, condition.expression), (condition.expression, condition.this)):
        if not (isinstance(here, exp.Column) and isinstance(there, exp.Column)):
            return None
        if here.table in own and is_inner_unit(here, inner) and is_inner_unit(there, relation):
            return here, there
    return None


def per_unit(
    relation: Relation,
    alias: str,
    outputs: Sequence[tuple[str, exp.Expr, Column | None]],
    having: exp.Expr | None,
) -> Relation:
    """A subquery grouped by the unit (and perhaps more): each group belongs to one unit, so its aggregates are exact.

    `outputs` are (name, base form, column): the column, whose name is unique, is None where the output is the unit
    itself or a constant.
    """
    named = [(Field(c.name, v), v.find(exp.AggFunc) is not None) for _, v, c in outputs if c is not None]
    keys = tuple(f for f, aggregate in named if not aggregate)
    private = next(s.table for s in relation.sources if s.private)
    unit_type = next((c.type for c in private.columns if c.name == private.privacy_unit), "bigint")
    columns = [c for _, _, c in outputs if c is not None]
    table = Table(
        schema="",
        name=private.name,
        columns=(Column(UNIT, unit_type, nullable=False, hidden=True), *columns),
        public=False,
        backend_name=(),
        privacy_unit=UNIT,
    )
    aggregates = tuple(f for f, aggregate in named if aggregate)
    source = Source(alias, table, single=not keys, derived=Derived(relation, keys, aggregates, having))
    shown = []
    for name, value, column in outputs:
        constant = column is None and not leaves(value)
        shown.append(Field(name, value if constant else leaf(alias, UNIT if column is None else column.name)))
    return Relation((source,), scope=(("", tuple(shown)),))
