"""The stability calculus' transfer functions for scans and WHERE, each on relations; joins.py has FROM.

Every row of a private relation depends on the rows of one privacy unit and on public data (the
relation is decomposable). Each function here keeps that or refuses.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count

from sqlglot import exp

from rewriter.binder.composite_units import units_equated
from rewriter.binder.joins import implied, of_another_unit, owned
from rewriter.binder.names import item_name, resolve
from rewriter.binder.rejections import base_table, refuse_two_kinds, unit_name, visible_unit
from rewriter.ir.relation import UNIT, Field, Relation, SemiJoin, Source, equated, is_inner_unit, leaf, leaves
from rewriter.ir.texts import sql_text
from rewriter.policy import Table
from rewriter.refusal import Refusal
from rewriter.scalar.typecheck import Parameters, check_condition
from rewriter.syntax.allowlist import position
from rewriter.syntax.pasted import identifier


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
    single = not table.public and frozenset(table.unit) in (*table.keys, *table.declared_keys)
    visible = [c.name for c in table.columns if not c.hidden and c.name != UNIT]
    names = [*renamed, *visible[len(renamed) :]]
    fields = tuple(Field(shown, leaf(alias, c)) for shown, c in zip(names, visible, strict=False))
    return Relation((Source(alias, table, single),), scope=((name, fields),))


def where(
    relation: Relation, condition: exp.Expr, parameters: Parameters, outer: Relation | None = None
) -> Relation:
    """The rows that satisfy one row-local conjunct."""
    resolved = resolve(condition, relation, outer).unnest()
    around = () if outer is None else outer.sources
    check_condition(resolved, replace(relation, sources=relation.sources + around), parameters)
    return replace(relation, conditions=(*relation.conditions, resolved))


def semi_join(
    relation: Relation, value: exp.Expr, inner: Relation, output: exp.Expr, negated: bool, at: exp.Expr
) -> Relation:
    """`value [NOT] IN (SELECT output FROM inner)`: public rows with any value, private ones on the unit or an event.

    The unit must not become NULL by a LEFT JOIN: NULL in the list decides NOT IN for every row, and NULL
    before it depends on whether the list is empty. Where `inner` is correlated on the unit, both can be anything. An
    event that may be NULL is refused under NOT IN: the rows of other units would decide, which our SQL does not read.
    """
    inside, across = apart(relation, inner, value)
    on_unit = is_inner_unit(value, relation) and is_inner_unit(output, inner)
    if inner.private and not on_unit:
        null = _may_be_null(output, inner) or _may_be_null(value, relation)
        listed = [] if negated and null else [value.copy().eq(output)]
        across = (*across, *_units((*across, *listed), relation, inner))
    if inner.private and not (on_unit or _on_unit(across, relation, inner)):
        raise Refusal(
            "PV015",
            f'subquery in WHERE reads private table "{base_table(inner).name}" across units',
            hint=_correlation(at, relation, inner, (*across, value.copy().eq(output))),
            position=position(value),
        )
    added = SemiJoin(value, owned(inside, value) if inner.private else inside, output, negated, across)
    return replace(relation, semi_joins=(*relation.semi_joins, added))


def exists(relation: Relation, inner: Relation, negated: bool, at: exp.Expr) -> Relation:
    """[NOT] EXISTS over public rows, or over private ones that are correlated with the outer ones on the unit."""
    inside, across = apart(relation, inner, at)
    if inner.private:
        across = (*across, *_units(across, relation, inner))
        if not _on_unit(across, relation, inner):
            raise _across(relation, inner, at, across)
        inside = owned(inside, at)
        columns = equated(across[0]) if len(across) == 1 else None
        if columns is not None:
            inner_first = columns[0].table in {s.alias for s in inner.sources}
            output, value = columns if inner_first else columns[::-1]
            added = SemiJoin(value, inside, output, negated)
            return replace(relation, semi_joins=(*relation.semi_joins, added))
    added = SemiJoin(None, inside, None, negated, across)
    return replace(relation, semi_joins=(*relation.semi_joins, added))


def row_in(
    relation: Relation, values: Sequence[exp.Expr], inner: Relation, negated: bool, at: exp.Expr
) -> Relation:
    """`(a, b) [NOT] IN (SELECT x, y ...)` as [NOT] EXISTS; NOT IN is false where a comparison is not known to fail."""
    if len(values) != len(inner.fields):
        raise Refusal("42601", "subquery has too few or too many columns", position=position(at))
    equal = tuple(
        exp.EQ(this=v, expression=f.value.copy()) for v, f in zip(values, inner.fields, strict=True)
    )
    inside, across = apart(relation, inner, at)
    met = units_equated((*across, *equal), relation, inner)
    if not negated:
        met = (*met, *_units(met, relation, inner))
    if inner.private and not _on_unit(met, relation, inner):
        raise _across(relation, inner, at, met)
    if negated:
        unknown = exp.not_(exp.Is(this=exp.paren(exp.and_(*equal)), expression=exp.false()))
        # Units are never NULL, so that their equality is known; by itself the SQL can be seen to rest on it.
        met = (
            *(e for e in met if e in across or (inner.private and _on_unit((e,), relation, inner))),
            unknown,
        )
    added = SemiJoin(None, owned(inside, at) if inner.private else inside, None, negated, met)
    return replace(relation, semi_joins=(*relation.semi_joins, added))


def apart(relation: Relation, inner: Relation, at: exp.Expr) -> tuple[Relation, tuple[exp.Expr, ...]]:
    """`inner` with its own conditions only, and those that read the outer rows, too; PV013 for two kinds of units."""
    refuse_two_kinds(relation, inner, at)
    own = {s.alias for s in inner.sources}
    inside = tuple(c for c in inner.conditions if {a for a, _ in leaves(c)} <= own)
    across = tuple(c for c in inner.conditions if not {a for a, _ in leaves(c)} <= own)
    reachable = own | {s.alias for s in relation.sources}
    nested = any(
        a not in own | {s.alias for s in j.relation.sources}
        for j in inner.semi_joins
        for a, _ in leaves(*j.outside)
    )
    if nested or any(not {a for a, _ in leaves(c)} <= reachable for c in across):
        raise _across(relation, inner, at)
    return replace(inner, conditions=inside), units_equated(across, relation, inner)


def _units(conditions: Sequence[exp.Expr], relation: Relation, inner: Relation) -> list[exp.Expr]:
    """The equalities of units that equalities of references and events of outer and inner rows imply."""
    return implied(conditions, replace(relation, sources=relation.sources + inner.sources))


def _may_be_null(value: exp.Expr, relation: Relation) -> bool:
    value = value.unnest()
    if not isinstance(value, exp.Column):
        return True
    source, present = relation.source(value.table), f"{sql_text(value)} IS NOT NULL"
    asked = any(sql_text(condition) == present for condition in relation.conditions)
    return not asked and (source.on is not None or source.column(value.name).nullable)


def _on_unit(conditions: Sequence[exp.Expr], relation: Relation, inner: Relation) -> bool:
    """Whether one of `conditions` is the equality of the outer rows' unit and the inner rows'."""
    own = {s.alias for s in inner.sources}
    for condition in conditions:
        columns = equated(condition)
        if columns is None:
            continue
        here, there = columns if columns[0].table in own else columns[::-1]
        if here.table in own and is_inner_unit(here, inner) and is_inner_unit(there, relation):
            return True
    return False


def _correlation(at: exp.Expr, relation: Relation, inner: Relation, met: Sequence[exp.Expr]) -> str:
    """How the subquery of IN or EXISTS is tied to the unit of the rows around it, with which `met` compares its own."""
    another = of_another_unit(met, relation, inner)
    if another is not None:
        return another
    select = (at.args.get("query") or at.this).unnest()
    item = select.args["from_"].this if isinstance(select, exp.Select) else None
    outer = unit_name(relation, qualified=True)
    name = item_name(item) if isinstance(item, exp.Table) else ""
    source = next((s for s in inner.sources if s.private), None)
    own = None if source is None or source.derived is not None else visible_unit(source.table)
    hidden = not name or any(alias == name for alias, _ in relation.scope) or len(inner.sources) > 1
    if outer is None or own is None or hidden:
        return "Compare privacy units by IN, or correlate the subquery on them, each table under a name of its own."
    return f"Add `{identifier(name)}.{identifier(own)} = {outer}` to the subquery's WHERE."


def _across(relation: Relation, inner: Relation, at: exp.Expr, met: Sequence[exp.Expr] = ()) -> Refusal:
    table = base_table(inner) if inner.private else inner.sources[0].table
    return Refusal(
        "PV015",
        f'subquery in WHERE reads table "{table.name}" across units',
        hint=_correlation(at, relation, inner, met)
        if inner.private
        else "Correlate with the rows of the query around it, not with those further out.",
        position=position(at),
    )
