"""Private subqueries as sources: a table of their columns, with the unit in the hidden column _o."""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

from rewriter.binder.composite_units import unit_parts
from rewriter.binder.contribution_bounds import one_row_per_unit
from rewriter.binder.output_columns import row_column
from rewriter.binder.rejections import base_table
from rewriter.ir.relation import (
    UNIT,
    Derived,
    Field,
    Relation,
    RowSubquery,
    Source,
    is_inner_unit,
    is_unit,
    leaf,
)
from rewriter.ir.texts import sql_text
from rewriter.policy import Column, Table
from rewriter.scalar.typecheck import Parameters


def unit_type(relation: Relation) -> str:
    """The type of the privacy unit, as far as its own tables say it."""
    private = next(s.table for s in relation.sources if s.private)
    if private.composite:
        return "record"
    return next((c.type for c in private.columns if c.name == private.privacy_unit), "bigint")


def derived_source(
    alias: str,
    derived: Derived,
    columns: Iterable[Column],
    relation: Relation,
    *,
    single: bool,
    key: Iterable[str] | None = None,
    copies: frozenset[str] = frozenset(),
) -> Source:
    """The source `alias` of a subquery whose unit is that of `relation`.

    `key`: the columns that no two rows of a unit share; `copies`: those that hold the unit or NULL.
    """
    table = Table(
        schema="",
        name=next(s.table.name for s in relation.sources if s.private),
        columns=(Column(UNIT, unit_type(relation), nullable=False, hidden=True), *columns),
        public=False,
        backend_name=(),
        privacy_unit=UNIT,
        composite=base_table(relation).composite,
        unit_parts=unit_parts(derived),
        keys=() if key is None else (frozenset({UNIT, *key}),),
    )
    return Source(alias, table, single, derived, copies=copies)


def as_rows(relation: Relation, alias: str, parameters: Parameters) -> Relation:
    """The relation as one source, a subquery: every field is a column of it, whatever it was computed from.

    Constants become columns, too, so that an outer join makes them NULL together with the subquery's rows.
    """
    fields: dict[str, Field] = {}
    for field in relation.fields:
        if not is_inner_unit(field.value, relation):
            fields.setdefault(sql_text(field.value), Field(f"x{len(fields)}", field.value))
    for value in relation.merged.values():
        if not is_inner_unit(value, relation):
            fields.setdefault(sql_text(value), Field(f"x{len(fields)}", value))

    def shown(value: exp.Expr) -> exp.Expr:
        return leaf(alias, UNIT if is_inner_unit(value, relation) else fields[sql_text(value)].name)

    columns = [row_column(f.name, f.value, relation, parameters) for f in fields.values()]
    copies = frozenset(f.name for f in fields.values() if is_unit(f.value, relation))
    rows = RowSubquery(relation, tuple(fields.values()))
    source = derived_source(alias, rows, columns, relation, single=one_row_per_unit(relation), copies=copies)
    scope = tuple((name, tuple(Field(f.name, shown(f.value)) for f in fs)) for name, fs in relation.scope)
    return Relation((source,), scope=scope, merged={n: shown(v) for n, v in relation.merged.items()})
