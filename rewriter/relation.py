"""Relations over private rows: sources, conditions and fields, with every expression in base form.

Base form: a leaf column is `alias.column` of one source, whatever derived tables, aliases and USING
the analyst wrote around it. A query of selections, projections and joins over private tables is one Relation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from rewriter.policy import Column, Table

Leaf = tuple[str, str]
"""(source alias, column name)."""


@dataclass(frozen=True)
class Field:
    """An output column of a relation: its name and its expression in base form."""

    name: str
    value: exp.Expr


@dataclass(frozen=True)
class Source:
    """One scan: `single` says that a unit has at most one row in it, enforced by a constraint or by our SQL.

    `table` is a table of the policy; with `derived` the rows come from a per-unit subquery instead and
    `table` only names its columns. `on` are the conjuncts of a LEFT JOIN whose right side this is.
    """

    alias: str
    table: Table
    single: bool
    derived: Derived | None = None
    on: tuple[exp.Expr, ...] | None = None

    @property
    def private(self) -> bool:
        return not self.table.public

    def column(self, name: str) -> Column:
        """The column called `name`; hidden ones too, since paths use them."""
        return next(c for c in self.table.columns if c.name == name)


@dataclass(frozen=True)
class Derived:
    """A subquery whose groups each belong to one unit: the keys beside the unit, and exact per-unit aggregates."""

    relation: Relation
    keys: tuple[Field, ...]
    aggregates: tuple[Field, ...]
    having: exp.Expr | None


@dataclass(frozen=True)
class SemiJoin:
    """The condition `value IN (SELECT output FROM relation)`, or NOT IN: per unit, or against public rows."""

    value: exp.Expr
    relation: Relation
    output: exp.Expr
    negated: bool


@dataclass(frozen=True)
class Relation:
    """Rows of `sources` joined under `conditions` (AND); `scope` is what names mean: (table alias, fields), in order.

    `merged` are the columns that USING or NATURAL joined, which an unqualified name finds first; `limit` is a LIMIT or
    OFFSET on the rows, which nothing may be built on.
    """

    sources: tuple[Source, ...]
    conditions: tuple[exp.Expr, ...] = ()
    semi_joins: tuple[SemiJoin, ...] = ()
    limit: exp.Expr | None = None
    scope: tuple[tuple[str, tuple[Field, ...]], ...] = ()
    merged: Mapping[str, exp.Expr] = field(default_factory=dict)

    @property
    def private(self) -> bool:
        return any(s.private for s in self.sources)

    def source(self, alias: str) -> Source:
        return next(s for s in self.sources if s.alias == alias)


UNIT = "_o"
"""The column of every private source that names the privacy unit a row belongs to."""


def leaf(alias: str, name: str) -> exp.Column:
    """The base-form column `name` of source `alias`.

    >>> leaf("t0", "Age").sql()
    '"t0"."Age"'
    """
    return exp.column(exp.to_identifier(name, quoted=True), table=exp.to_identifier(alias, quoted=True))


def leaves(*expressions: exp.Expr) -> frozenset[Leaf]:
    """The base columns that expressions depend on.

    >>> sorted(leaves(leaf("t0", "a").eq(leaf("t1", "b"))))
    [('t0', 'a'), ('t1', 'b')]
    """
    return frozenset(
        (c.table, c.name) for e in expressions for c in e.find_all(exp.Column) if not _inner(c, e)
    )


def _inner(column: exp.Expr, root: exp.Expr) -> bool:
    node = column.parent
    while node is not None and node is not root.parent:
        if isinstance(node, exp.Query):
            return True
        node = node.parent
    return False


def conjuncts(condition: exp.Expr | None) -> tuple[exp.Expr, ...]:
    """The AND-ed parts of a condition, without their parentheses.

    >>> [c.sql() for c in conjuncts(exp.condition("a = 1 AND (b = 2 AND c = 3)"))]
    ['a = 1', 'b = 2', 'c = 3']
    """
    if condition is None:
        return ()
    condition = condition.unnest()
    if isinstance(condition, exp.And):
        return conjuncts(condition.this) + conjuncts(condition.expression)
    return (condition,)


def is_unit(expression: exp.Expr, relation: Relation) -> bool:
    """Whether a base-form expression is the privacy unit of its source's rows."""
    return unit_source(expression, relation) is not None


def unit_source(expression: exp.Expr, relation: Relation) -> Source | None:
    """The source of `relation` whose privacy unit a base-form expression is, or None.

    It is where it is the unit column of the source, or the column that refers to the unit directly.
    """
    expression = expression.unnest()
    if not isinstance(expression, exp.Column):
        return None
    source = next((s for s in relation.sources if s.alias == expression.table), None)
    if source is not None and source.private and expression.name == unit_column(source.table):
        return source
    return None


def is_inner_unit(expression: exp.Expr, relation: Relation) -> bool:
    """Whether an expression is the unit of a source that no LEFT JOIN can extend with NULL."""
    source = unit_source(expression, relation)
    return source is not None and source.on is None


def unit_column(table: Table) -> str | None:
    """The table's own column that holds the privacy unit, if it has one (a longer path holds it elsewhere)."""
    return table.privacy_unit if len(table.path) <= 1 else None
