"""A SELECT's parts in base form: its conditions one by one, its fields, its rows under a client's name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from rewriter.binder.names import output_name, resolve, starred
from rewriter.binder.rejections import refuse_limited, uncorrelated
from rewriter.ir.relation import Field, Relation, leaves
from rewriter.scalar.typecheck import Parameters, check


def correlated(relation: Relation) -> bool:
    """Whether a relation's conditions read rows of a query around it."""
    own = {s.alias for s in relation.sources}
    read = {a for a, _ in leaves(*relation.conditions)}
    for semi in relation.semi_joins:
        read |= {a for a, _ in leaves(*semi.outside)} - {s.alias for s in semi.relation.sources}
    return not read <= own


def refuse_outer(tree: exp.Select, relation: Relation) -> None:
    """Refuse groups of rows that a condition ties to an outer query's."""
    if correlated(relation):
        raise uncorrelated(tree)


def split(condition: exp.Expr | None) -> tuple[exp.Expr, ...]:
    """The analyst's own AND-ed conditions, not copied: they are qualified in place."""
    if condition is None:
        return ()
    inner = condition
    while isinstance(inner, exp.Paren):
        inner = inner.this
    if isinstance(inner, exp.And):
        return split(inner.this) + split(inner.expression)
    return (inner,)


def projected(relation: Relation, tree: exp.Select, parameters: Parameters) -> Relation:
    """The relation with the SELECT list's fields as its scope."""

    fields: list[Field] = []
    for item in tree.expressions:
        value = item.unalias()
        if isinstance(value, exp.Star) or (
            isinstance(value, exp.Column) and isinstance(value.this, exp.Star)
        ):
            fields += starred(value, relation)
        else:
            base = resolve(value, relation)
            check(base, relation, parameters)
            fields.append(Field(output_name(item), base))
    return replace(relation, scope=(("", tuple(fields)),), merged={})


def shown_as(relation: Relation | None, name: str, renamed: Sequence[str]) -> Relation | None:
    """A subquery's relation under the analyst's name for it."""

    if relation is None:
        return None
    refuse_limited(relation)
    fields = [f for _, fs in relation.scope for f in fs]
    names = [*renamed, *(f.name for f in fields[len(renamed) :])]
    shown = tuple(Field(n, f.value) for n, f in zip(names, fields, strict=False))
    return replace(relation, scope=((name, shown),), merged={})
