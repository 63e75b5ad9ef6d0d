"""What a node's measures are of, apart from its groups and filters, and other groups as functions of its cells.

In:  SUM(x) of t WHERE week < 5 GROUP BY month, and the known values of a key, month
Out: SELECT n, month FROM <the values>: which of them a question by month is made of; None where week is no key

Why: docs/decisions/implied-answers.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Literal

from sqlglot import exp

from rewriter.binder.listed_rows import in_postgres
from rewriter.canonical.normalize import canonical, canonical_conjuncts, text_of
from rewriter.emit.histogram import Scanned, node_text
from rewriter.ir.measure import Count, Joint, Measure, Moment, Total
from rewriter.ir.relation import Leaf, Relation, conjuncts, leaf, leaves
from rewriter.ir.trees import alias, and_, cast, copied, data_type, or_, select
from rewriter.ir.types import INTEGERS, Type
from rewriter.logical.aggregate_calls import conjunction, present
from rewriter.logical.plan import AggregateNode
from rewriter.plan import Cell
from rewriter.policy import Column, Policy
from rewriter.scalar.parameter_literal import with_constants
from rewriter.scalar.periods import deciding
from rewriter.scalar.typecheck import Parameters, type_of

Role = Literal["itself", "joint", "sum", "rows"]
Identity = tuple[str, ...]
"""A text that equal expressions have, and how the columns are declared that it reads."""
_CELLS = "_cells"
_EXACT = (*INTEGERS, Type.NUMERIC)
"""Types of which a value that is not NULL is a number."""


@dataclass(frozen=True)
class Part:
    """A key or a filter: its expression without parameters, and what tells whether another one is the same."""

    value: exp.Expr
    identity: Identity


@dataclass(frozen=True)
class Measured:
    """A measure over a node's rows before filters and groups: its text, the stored columns that it reads, and the
    filters on the rows that it counts, its own FILTER among them.

    `others`: the measures that it could be made of: an average of a sum and of rows, a sum of an average.
    """

    text: str
    scanned: Scanned
    filters: tuple[Part, ...]
    others: Mapping[Role, Measured] = field(default_factory=dict)


@dataclass(frozen=True)
class Outline:
    """The measures and keys of a node. A filter reads one source, and no other query.

    `measures`: None for those of which other groups tell nothing.
    """

    relation: Relation
    columns: Mapping[Leaf, str]
    """How each column that they read is declared, or computed."""
    measures: tuple[Measured | None, ...] = ()
    keys: tuple[Part, ...] = ()

    def identity(self, value: exp.Expr) -> Identity:
        """The identity of an expression over the columns."""
        return (
            text_of(canonical(value, self.relation)),
            *(self.columns[leaf] for leaf in sorted(leaves(value))),
        )

    def gaps(self, cells: Sequence[Cell]) -> tuple[int, ...] | None:
        """The keys that are NULL in rows of no cell: nothing keeps them from it, and no cell is for NULL.

        None where such a key is computed, since then it is not known in what cells, if in any, these rows are.
        """
        found = []
        for place, key in enumerate(self.keys):
            columns = [self.relation.source(alias).column(name) for alias, name in leaves(key.value)]
            if all(column is not None and column.required for column in columns):
                continue
            if any(cell[place] is None for cell in cells):
                continue
            if not isinstance(key.value, exp.Column):
                return None
            found.append(place)
        return tuple(found)

    def parts(self, values: Iterable[exp.Expr]) -> tuple[Part, ...]:
        return tuple(Part(value, self.identity(value)) for value in values)


def outline(node: AggregateNode, policy: Policy, parameters: Parameters) -> Outline | None:
    """The outline of a node; None where its rows are not those of its relation alone."""
    relation = node.relation
    if relation.filled is not None or relation.limit is not None:
        return None
    filters = tuple(c for c in relation.conditions if _filters(c))
    forms = [_forms(m, relation, parameters) for m in map(plain, node.measures)]
    keys = [with_constants(k, parameters) for k in node.keys]

    def conjuncts_of(conditions: Iterable[exp.Expr]) -> tuple[exp.Expr, ...]:
        return canonical_conjuncts((with_constants(c, parameters) for c in conditions), relation)

    apart = [{role: _apart(m, relation) for role, m in of.items()} for of in forms]
    filtered = [{role: conjuncts_of((*filters, *own)) for role, (_, own) in of.items()} for of in apart]

    def column(at: Leaf) -> str:
        source = relation.source(at[0])
        if source.derived is None:
            return repr(source.column(at[1]))
        return _rows_text(node, policy, parameters, keys=(leaf(*at),))[0]

    found = Outline(
        relation,
        {at: column(at) for at in leaves(*chain(*(c for of in filtered for c in of.values())), *keys)},
    )

    def measured(
        of: Mapping[Role, tuple[Measure, object]], under: Mapping[Role, tuple[exp.Expr, ...]]
    ) -> Measured:
        made = {
            role: Measured(
                *_rows_text(node, policy, parameters, measures=(measure,)), found.parts(under[role])
            )
            for role, (measure, _) in of.items()
        }
        return replace(made.pop("itself"), others=made)

    return replace(
        found,
        measures=tuple(measured(*one) if one[0] else None for one in zip(apart, filtered, strict=True)),
        keys=found.parts(keys),
    )


def _forms(measure: Measure | None, relation: Relation, parameters: Parameters) -> dict[Role, Measure]:
    """A measure, and those that it could be made of; nothing for one of which groups cannot be added up."""
    if measure is None:
        return {}
    found: dict[Role, Measure] = {"itself": measure}
    value = measure.value if isinstance(measure, (Total, Joint)) else None
    if value is None or type_of(value.value, relation, parameters) not in _EXACT:
        return found
    if isinstance(measure, Total):
        found["joint"] = Joint(value, measure.argument, squares=False, least=1)
    elif isinstance(measure, Joint) and not measure.squares:
        rows = conjunction(measure.argument, present(value.value, relation))
        found |= {"sum": Total(value, measure.argument, 1), "rows": Total(None, rows, 1)}
    return found


def _apart(measure: Measure, relation: Relation) -> tuple[Measure, tuple[exp.Expr, ...]]:
    """A measure without the conditions of its FILTER that filter rows, and these; none that always hold."""
    own = [c for c in conjuncts(measure.argument) if not _certain(c, relation)]
    kept = [copied(c) for c in own if not _filters(c)]
    return replace(measure, argument=and_(*kept) if kept else None), tuple(filter(_filters, own))


def _certain(condition: exp.Expr, relation: Relation) -> bool:
    """Whether a condition says of a column that it is not NULL, which the backend's schema says as well."""
    if not isinstance(condition, exp.Not) or not isinstance(condition.this, exp.Is):
        return False
    return isinstance(condition.this.expression, exp.Null) and relation.required(condition.this.this)


def plain(measure: Measure) -> Measure | None:
    """A measure of rows, sums, joint moments or units; None for the others, of which groups cannot be added up.

    What its least length is says nothing of what is measured.
    """
    if isinstance(measure, Total) and measure.once:
        return None if measure.items else Count(measure.argument, 1)
    if isinstance(measure, (Count, Total)) and measure.items:
        return None
    if isinstance(measure, Total):
        return replace(measure, anchor=1)
    if isinstance(measure, Joint):
        return replace(measure, least=1)
    return measure if isinstance(measure, (Count, Moment)) else None


def of_units(measure: Measure) -> bool:
    """Whether a measure counts each unit once, in a group or at all."""
    counted = plain(measure)
    return isinstance(counted, Count) and counted.tau == 1


def cells_query(
    asked: Outline,
    filters: Sequence[Part],
    cells: Sequence[Cell],
    types: Sequence[str],
    key: Callable[[Identity], int | None],
    fixed: Mapping[Identity, exp.Expr],
) -> str | None:
    """The front's SELECT of the number of each cell that passes `filters`, 1 where only some of its rows may pass, else
    0, and the keys that are asked for; None where one of them is no function of the cell.

    `types`: of the cells' keys, in PostgreSQL; `key`: the place of the key that has an identity; `fixed`: the values of
    expressions that have one in all rows (`constants`).
    """

    def cell(place: int) -> exp.Expr:
        return cast(exp.column(f"g{place}", table=_CELLS), data_type(types[place], "postgres"))

    def over(part: Part) -> tuple[exp.Expr, list[exp.Expr]] | None:
        cuts: list[exp.Expr] = []

        def value(node: exp.Expr) -> exp.Expr | None:
            if not isinstance(node, exp.Condition) or not leaves(node):
                return None
            identity = asked.identity(node)
            if (place := key(identity)) is not None:
                return cell(place)
            for period in deciding(node):
                if (place := key(asked.identity(period.begin))) is not None:
                    begin = _as(cell(place), period.time, asked.relation)
                    if period.cut is not None:
                        cuts.append(exp.EQ(this=copied(begin), expression=copied(period.cut)))
                    return _put(node, period.time, begin)
            return copied(fixed[identity]) if identity in fixed else None

        made = copied(part.value, value)
        read = {name for name, _ in leaves(made)}
        return None if read - {_CELLS} or made.find(exp.Query) else (made, cuts)

    keys, passed = [over(part) for part in asked.keys], [over(part) for part in filters]
    if None in passed or any(found is None or found[1] for found in keys):
        return None
    numbers: list[str | None] = [str(n) for n in range(len(cells))]
    listed = [numbers, *([cell[n] for cell in cells] for n in range(len(types)))]
    columns = [Column("n", "bigint"), *(Column(f"g{n}", of) for n, of in enumerate(types))]
    rows = in_postgres(columns, listed).subquery(_CELLS, copy=False)
    conditions = [or_(made, *cuts) for made, cuts in filter(None, passed)]
    cut = [copied(one) for found in passed if found is not None for one in found[1]]
    some: exp.Expr = exp.Literal.number(0)
    if cut:
        some = exp.Case(ifs=[exp.If(this=or_(*cut), true=exp.Literal.number(1))], default=some)
    shown = [alias(found[0], f"k{n}") for n, found in enumerate(keys) if found is not None]
    query = select(exp.column("n", table=_CELLS), alias(some, "some"), *shown, source=rows)
    query = query.where(*conditions, copy=False) if conditions else query
    return str(query.sql("postgres", copy=False))


def constants(asked: Outline, filters: Iterable[Part]) -> dict[Identity, exp.Expr]:
    """The expressions that have one value in all rows that pass `filters`, with it."""
    found: dict[Identity, exp.Expr] = {}
    for condition in (part.value for part in filters):
        if isinstance(condition, (exp.EQ, exp.In)) and leaves(condition.this):
            values = condition.expressions if isinstance(condition, exp.In) else [condition.expression]
            if len(values) == 1 and isinstance(values[0], exp.Literal):
                found[asked.identity(condition.this)] = values[0]
    return found


def _put(node: exp.Expr, part: exp.Expr, value: exp.Expr) -> exp.Expr:
    """A copy of an expression with a value in a part's place."""
    return copied(node, lambda n: value if n is part else None)


def _as(value: exp.Expr, time: exp.Expr, relation: Relation) -> exp.Expr:
    """A date or a time in the type of a stored column."""
    if not isinstance(time, exp.Column):
        return value
    return cast(value, data_type(relation.source(time.table).column(time.name).type, "postgres"))


def _filters(condition: exp.Expr) -> bool:
    """Whether a condition filters the rows of one source, and joins none."""
    return len({name for name, _ in leaves(condition)}) == 1 and condition.find(exp.Query) is None


def _rows_text(
    node: AggregateNode,
    policy: Policy,
    parameters: Parameters,
    keys: tuple[exp.Expr, ...] = (),
    measures: tuple[Measure, ...] = (),
) -> tuple[str, Scanned]:
    """The text of a node's rows without filters, and of nothing else that it asks."""
    rows = replace(node.relation, conditions=tuple(c for c in node.relation.conditions if not _filters(c)))
    alone = replace(node, relation=rows, keys=keys, measures=measures, outputs=(), k=None, order_by=None)
    return node_text(alone, policy, parameters)
