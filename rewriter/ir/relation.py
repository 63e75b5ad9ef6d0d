"""Relations over private rows: sources, conditions and fields, with every expression in base form.

Base form: a leaf column is `alias.column` of one source, whatever derived tables, aliases and USING
the analyst wrote around it. A query of selections, projections and joins over private tables is one Relation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from rewriter.effort import spend
from rewriter.ir.trees import column, walk
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

    `table` is a table of the policy; with `derived` the rows come from a subquery that carries the unit instead, and
    `table` only names its columns. `on` are the conjuncts of a LEFT JOIN whose right side this is. `copies` are the
    columns other than the unit's own that hold the unit or NULL. `view` is the view whose rows a subquery has: its name
    is all that analysts see of it.
    """

    alias: str
    table: Table
    single: bool
    derived: Derived | None = None
    on: tuple[exp.Expr, ...] | None = None
    copies: frozenset[str] = frozenset()
    view: Table | None = None

    @property
    def private(self) -> bool:
        return not self.table.public

    def column(self, name: str) -> Column:
        """The column called `name`; hidden ones too, since paths use them.

        The unit of a scan, `_o`, may be another table's column, whose type is not known here.
        """
        if name == UNIT and self.private and self.derived is None:
            return Column(UNIT, "record" if self.table.composite else "", nullable=False, hidden=True)
        return next(c for c in self.table.columns if c.name == name)


@dataclass(frozen=True)
class Grouped:
    """A subquery whose groups each belong to one unit: the keys other than the unit, and exact per-unit aggregates."""

    relation: Relation
    keys: tuple[Field, ...]
    aggregates: tuple[Field, ...]


@dataclass(frozen=True)
class RowSubquery:
    """A subquery of rows: fields of each, and windows over the rows of its unit, in base form."""

    relation: Relation
    fields: tuple[Field, ...]
    windows: tuple[Field, ...] = ()


@dataclass(frozen=True)
class SetOperation:
    """A set operation of two subqueries whose fields are called alike, each with its own unit."""

    operator: type[exp.SetOperation]
    distinct: bool
    left: RowSubquery
    right: RowSubquery


@dataclass(frozen=True)
class FullJoin:
    """The FULL JOIN of two sources on the unit, and on the equalities `on`; a row's unit is that of either side."""

    left: Source
    right: Source
    on: tuple[exp.Expr, ...]
    fields: tuple[Field, ...]


@dataclass(frozen=True)
class ListedRows:
    """Rows without a unit that the front has evaluated: each column a parameter, the array of its values."""

    columns: tuple[exp.Parameter, ...]


Derived = Grouped | RowSubquery | SetOperation | FullJoin | ListedRows


def parts(derived: Derived) -> tuple[Relation, ...]:
    """The relations that a derived source's rows come from; none where the front has evaluated them."""
    if isinstance(derived, ListedRows):
        return ()
    if isinstance(derived, (Grouped, RowSubquery)):
        return (derived.relation,)
    if isinstance(derived, SetOperation):
        return derived.left.relation, derived.right.relation
    return Relation((derived.left,)), Relation((derived.right,))


@dataclass(frozen=True)
class SemiJoin:
    """The condition `value [NOT] IN (SELECT output FROM relation WHERE across)`, or [NOT] EXISTS without a value.

    `across` are the conditions that read the rows outside, too: per unit, or against public rows.
    """

    value: exp.Expr | None
    relation: Relation
    output: exp.Expr | None
    negated: bool
    across: tuple[exp.Expr, ...] = ()

    @property
    def outside(self) -> tuple[exp.Expr, ...]:
        """The expressions over outer rows that the condition reads."""
        return (*self.across, *([self.value] if self.value is not None else []))


@dataclass(frozen=True)
class ZeroFill:
    """Public tables (their aliases) that a LEFT JOIN keeps the rows of, where private rows are met under `on`."""

    kept: frozenset[str]
    on: tuple[exp.Expr, ...]


@dataclass(frozen=True)
class Relation:
    """Rows of `sources` joined under `conditions` (AND); `scope` is what names mean: (table alias, fields), in order.

    `merged` are the columns that USING or NATURAL joined, which an unqualified name finds first; `limit` is a LIMIT or
    OFFSET on the rows, which nothing may be built on. With `filled` the groups are the public rows, met or not. `noted`
    is what passes have found out about it.
    """

    sources: tuple[Source, ...]
    conditions: tuple[exp.Expr, ...] = ()
    semi_joins: tuple[SemiJoin, ...] = ()
    limit: exp.Expr | None = None
    scope: tuple[tuple[str, tuple[Field, ...]], ...] = ()
    merged: Mapping[str, exp.Expr] = field(default_factory=dict)
    filled: ZeroFill | None = None
    noted: dict[str, tuple[exp.Expr, ...]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @property
    def private(self) -> bool:
        return any(s.private for s in self.sources)

    @property
    def met(self) -> tuple[exp.Expr, ...]:
        """All conditions under which a row of each source makes a row of the relation."""
        return self.conditions if self.filled is None else (*self.conditions, *self.filled.on)

    @property
    def fields(self) -> tuple[Field, ...]:
        """The fields in scope, in order."""
        return tuple(f for _, fields in self.scope for f in fields)

    def source(self, alias: str) -> Source:
        return next(s for s in self.sources if s.alias == alias)

    def required(self, value: exp.Expr) -> bool:
        """Whether a value is a stored column that the backend keeps from being NULL, and no outer join fills up."""
        if not isinstance(value, exp.Column):
            return False
        source = self.source(value.table)
        return source.on is None and source.derived is None and source.column(value.name).required


def kinds(relation: Relation) -> frozenset[str]:
    """The kinds of units whose rows a relation is made of, or that decide about them."""
    found = {s.table.kind for s in relation.sources if s.private and s.derived is None}
    inner = [part for s in relation.sources if s.derived is not None for part in parts(s.derived)]
    inner += [join.relation for join in relation.semi_joins]
    return frozenset(found.union(*map(kinds, inner)))


def shown_name(source: Source, relation: Relation) -> str:
    """What the client calls a source in the query: its alias, or the table's name."""
    for name, fields in relation.scope:
        if name and any(isinstance(f.value, exp.Column) and f.value.table == source.alias for f in fields):
            return name
    return (source.view or source.table).name


UNIT = "_o"
"""The column of every private source that names the privacy unit a row belongs to."""


def stored_name(relation: Relation, alias: str, name: str) -> str:
    """What analysts call a column that subqueries of rows hand on under names of their own."""
    derived = relation.source(alias).derived
    if isinstance(derived, RowSubquery):
        value = next((field.value for field in derived.fields if field.name == name), None)
        if isinstance(value, exp.Column):
            return stored_name(derived.relation, value.table, value.name)
    return name


def leaf(alias: str, name: str) -> exp.Column:
    """The base-form column `name` of source `alias`.

    >>> leaf("t0", "Age").sql()
    '"t0"."Age"'
    """
    return column(name, alias, quoted=True)


def leaves(*expressions: exp.Expr) -> frozenset[Leaf]:
    """The base columns that expressions depend on.

    >>> sorted(leaves(leaf("t0", "a").eq(leaf("t1", "b"))))
    [('t0', 'a'), ('t1', 'b')]
    """
    found = set()
    for one in expressions:
        nodes = walk(one, stop=_ends_base_form)
        columns = [node for node in nodes if isinstance(node, exp.Column)]
        spend(len(nodes) + 2 * len(columns))
        found |= set(map(leaf_of, columns))
    return frozenset(found)


def leaf_of(column: exp.Column) -> Leaf:
    """The source and the name that a base column has: those of `leaf`.

    >>> leaf_of(leaf("t0", "a"))
    ('t0', 'a')
    """
    args = column.args
    name, table = args["this"], args.get("table")
    return table.args["this"] if table else "", name.args[
        "this"
    ] if name.__class__ is exp.Identifier else name.name


def _ends_base_form(node: exp.Expr) -> bool:
    """Whether no base column is inside of a node: it is one itself, or a query, which has columns of its own."""
    return isinstance(node, (exp.Column, exp.Query))


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


def equated(condition: exp.Expr) -> tuple[exp.Column, exp.Column] | None:
    """The two columns whose equality a condition is, or None.

    >>> [c.name for c in equated(exp.condition("a = b")) or ()]
    ['a', 'b']
    """
    if not isinstance(condition, exp.EQ):
        return None
    one, other = condition.this, condition.expression
    return (one, other) if isinstance(one, exp.Column) and isinstance(other, exp.Column) else None


def is_unit(expression: exp.Expr, relation: Relation) -> bool:
    """Whether a base-form expression is the privacy unit of its source's rows."""
    return unit_source(expression, relation) is not None


def unit_source(expression: exp.Expr, relation: Relation) -> Source | None:
    """The source of `relation` whose privacy unit a base-form expression is, or None.

    It is where it is the unit column of the source, or the column that refers to the unit directly. COALESCE of the
    units of a FULL JOIN's two sides is the unit as well; each alone is the unit or NULL.
    """
    expression = expression.unnest()
    if isinstance(expression, exp.Coalesce):
        sides = (expression.this, *expression.expressions)
        sources = [unit_source(side, relation) for side in sides]
        return sources[0] if sources[0] and all(s is sources[0] for s in sources) else None
    if not isinstance(expression, exp.Column):
        return None
    alias, name = leaf_of(expression)
    source = next((s for s in relation.sources if s.alias == alias), None)
    if source is None or not source.private:
        return None
    return source if name in (UNIT, unit_column(source.table), *source.copies) else None


def is_inner_unit(expression: exp.Expr, relation: Relation) -> bool:
    """Whether an expression is the unit of a source, and never NULL: no LEFT or FULL JOIN makes it so."""
    source = unit_source(expression, relation)
    return source is not None and source.on is None and _covers(expression.unnest(), source)


def _covers(expression: exp.Expr, source: Source) -> bool:
    """Whether a unit of `source` is never NULL: it is the source's own, or those of both sides of a FULL JOIN."""
    parts = [expression]
    if isinstance(expression, exp.Coalesce):
        parts = [part.unnest() for part in (expression.this, *expression.expressions)]
    if any(part.name not in source.copies for part in parts):
        return True
    if not isinstance(source.derived, FullJoin):
        return False
    shown = {f.name: f.value for f in source.derived.fields}
    values = [shown[part.name] for part in parts]
    found = {v.table for v in values if isinstance(v, exp.Column) and v.name == UNIT}
    return found == {source.derived.left.alias, source.derived.right.alias}


def is_event(expression: exp.Expr, relation: Relation) -> bool:
    """Whether an expression is a column of which each value belongs to one unit: a declared event, a row's key, or what
    leads to the unit."""
    expression = expression.unnest()
    if not isinstance(expression, exp.Column) or expression.name == UNIT:
        return False
    source = next((s for s in relation.sources if s.alias == expression.table), None)
    if source is None or not source.private:
        return False
    stored = source.derived is None and expression.name in events_of(source.table)
    return stored or source.column(expression.name).of_unit


def events_of(table: Table) -> frozenset[str]:
    """The columns of a stored private table of which each value belongs to one unit."""
    keys = (key for key in (*table.keys, *table.declared_keys) if len(key) == 1)
    first = {hop.column for hop in table.path[:1] if not hop.more}
    return frozenset(first).union(*keys, (c.name for c in table.columns if c.of_unit))


def leads_to_unit(source: Source, column: str) -> bool:
    """Whether a column of a scan is the reference that the path to its unit begins with."""
    path = source.table.path if source.derived is None else ()
    return bool(path) and path[0].column == column and not path[0].more


def unit_column(table: Table) -> str | None:
    """The table's column that holds the privacy unit: its own or a virtual one; None without one, or where several
    hold it."""
    if table.composite:
        return None
    virtual = any(c.virtual and c.name == table.privacy_unit for c in table.columns)
    return table.privacy_unit if virtual or len(table.path) <= 1 else None
