"""Views of the backend as tables of the policy: analysed once, before any analyst may name them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from rewriter.binder.constants import Constants, no_rows, unknown
from rewriter.binder.views import view_query, view_rows
from rewriter.effort import bounded
from rewriter.ir.parameter import Parameter
from rewriter.ir.relation import UNIT
from rewriter.ir.types import CASTS, FLOATS, NUMBERS, Type, type_named
from rewriter.logical.split import QueryAnalyzer
from rewriter.policy import Column, Policy, Table, TableName
from rewriter.refusal import Refusal
from rewriter.syntax.parse import parse_query

_CONSTANTS = {**CASTS, exp.DType.CHAR: Type.TEXT}
"""The types of constants that are cast: the front gives those of char(n) without their blanks."""


@bounded()
def view_table(
    name: TableName, text: str, types: Mapping[str, str | None], hidden: Collection[str], policy: Policy
) -> Table:
    """The view `name` as a private table over the tables of `policy`.

    `text`: of `stored_text`; `types`: the front's types of its columns in the backend; `hidden`: those that are not
    shown. Raises Refusal where an analyst who wrote the text as a subquery would get one, or where a column would
    have another type than the backend gives it.
    """
    analyzer = QueryAnalyzer(policy, Constants((), _typed, no_rows))
    columns = tuple(
        Column(c, of or "", hidden=of is None or c in hidden, declared=False) for c, of in types.items()
    )
    view = Table(*name, columns, False, (), view=text)
    relation = analyzer.query(view_query(view), {})
    if relation is None:
        raise Refusal("0A000", "it gives no rows of the privacy unit, but groups of them or public rows")
    rows = view_rows(relation, view, next(analyzer.names), analyzer.parameters)
    (source,) = rows.sources
    if not rows.fields:
        raise Refusal("0A000", "it shows no column")
    shown, unit = [], None
    for field in rows.fields:
        given, column = types[field.name] or "", source.column(field.value.name)
        if field.value.name == UNIT:
            unit = field.name
            shown.append(Column(field.name, given, nullable=False, declared=False))
        elif _kind(column.type) != _kind(given):
            raise Refusal(
                "0A000",
                f'"{field.name}" is {given} in the backend, but {column.type} as PostgreSQL reads the text',
            )
        else:
            shown.append(replace(column, declared=False, virtual=False, required=False, expression=None))
    key = (frozenset([unit]),) if unit is not None and source.single else ()
    return replace(view, columns=tuple(shown), privacy_unit=unit, keys=key)


def _typed(number: int, sql: str) -> Sequence[Parameter]:
    """The type alone of a constant that is cast; PV020 for others, since there is no front yet."""
    (value,) = parse_query(sql).expressions
    of = _CONSTANTS.get(value.to.this) if isinstance(value, exp.Cast) and _written(value) else None
    return unknown(number, sql) if of is None else (Parameter(of.postgres, None),)


def _written(value: exp.Expr) -> bool:
    """Whether a value is written down, as PostgreSQL stores a constant: 'DE'::bpchar, ('ab'::varchar(2))::text."""
    inner = value.unnest()
    return isinstance(inner, exp.Literal) or (isinstance(inner, exp.Cast) and _written(inner.this))


def _kind(name: str) -> str:
    """The family of a type, one for all exact numbers: engines differ in which an expression is."""
    found = type_named(name)
    return "exact" if found in NUMBERS - FLOATS else found.family
