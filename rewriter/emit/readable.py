"""What a node asks, for people who read a history: `COUNT(*) of visits by country where age > 30, top 10`.

Nothing of it is more than analysts may see: tables and views stand under their names, without the paths to the unit,
row filters and what computes a column.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from rewriter.ir.measure import DistinctItems, Output, Total
from rewriter.ir.parameter import Parameters
from rewriter.ir.relation import (
    UNIT,
    Field,
    FullJoin,
    Grouped,
    ListedRows,
    Relation,
    RowSubquery,
    SemiJoin,
    SetOperation,
    Source,
    conjuncts,
    equated,
    is_unit,
)
from rewriter.ir.texts import sql_text
from rewriter.ir.trees import copied, walk
from rewriter.ir.types import INTEGERS, type_named
from rewriter.logical.plan import AggregateNode
from rewriter.syntax.pasted import identifier, table_name

MOST, MOST_INSIDE = 2000, 300
"""Characters, of all and of a column that a subquery computes; what is longer is cut."""


_Subquery = Grouped | RowSubquery | SetOperation | FullJoin


def readable(node: AggregateNode, parameters: Parameters) -> str:
    """The node in words and SQL, on one line; `parameters`: the values that its expressions name by number."""
    reader = _Reader(parameters)
    calls = dict.fromkeys(reader.call(output, node) for output in node.outputs)
    text = f"{', '.join(calls) or 'the values'} of {reader.rows(node.relation)}"
    if node.keys:
        text += f" by {', '.join(reader.expression(key, node.relation) for key in node.keys)}"
    text += reader.where(node.relation)
    if node.k is not None:
        text += f", top {node.k}"
    return _cut(text, MOST)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


class _Reader:
    """Writes expressions; what a subquery computes is written once, however often it is read."""

    def __init__(self, parameters: Parameters) -> None:
        self._parameters = parameters
        self._computed: dict[tuple[int, str], str | None] = {}

    def call(self, output: Output, node: AggregateNode) -> str:
        """An aggregate, by what is measured: the call of a count has no more than its type."""
        measure, relation = node.measures[output.measures[0]], node.relation
        parts = conjuncts(measure.argument)
        text = ""
        if output.function in ("count", "distinct", "running"):
            valued = [value for part in parts if (value := _of_not_null(part)) is not None]
            items = [self.expression(item, relation) for item in getattr(measure, "items", ()) or valued]
            parts = tuple(part for part in parts if _of_not_null(part) is None)
            if output.rows or output.function == "running":
                text = f"COUNT({items[0] if len(items) == 1 else '*'})"
            elif isinstance(measure, (DistinctItems, Total)) and items:
                listed = ", ".join(items)
                text = f"COUNT(DISTINCT {listed if len(items) == 1 else f'({listed})'})"
            else:
                text = f"COUNT(DISTINCT {_unit(next(s for s in relation.sources if s.private))})"
        filtered = " AND ".join(self._condition(part, relation) for part in parts)
        text = text or self.expression(output.call, relation)
        return f"{text} FILTER (WHERE {filtered})" if filtered else text

    def rows(self, relation: Relation) -> str:
        first, *others = relation.sources
        return self._source(first) + "".join(
            f", {self._source(source)}"
            if source.on is None
            else f" LEFT JOIN {self._source(source)} ON {self._all(source.on, relation)}"
            for source in others
        )

    def where(
        self, relation: Relation, across: tuple[exp.Expr, ...] = (), outer: Relation | None = None
    ) -> str:
        """The conditions with " where " before them; `across` read rows of `outer` as well."""
        found = [self._condition(c, relation) for c in relation.met if not _joins_units(c, relation)]
        found += [self._condition(condition, relation, outer) for condition in across]
        found += [self._semi_join(join, relation) for join in relation.semi_joins]
        return f" where {' AND '.join(dict.fromkeys(found))}" if found else ""

    def expression(self, node: exp.Expr, relation: Relation, outer: Relation | None = None) -> str:
        """A base-form expression, columns by their tables' names where there are several tables."""
        sources = {s.alias: s for one in (outer, relation) if one is not None for s in one.sources}
        whole = exp.Paren(this=copied(node))
        for column in [*walk(whole, exp.Column)]:
            if source := sources.get(column.table):
                column.replace(exp.var(self._column(source, column.name, qualified=len(sources) > 1)))
        for parameter in [*walk(whole, exp.Parameter)]:
            parameter.replace(self._value(int(parameter.name)))
        return sql_text(whole.this, "postgres")

    def _condition(self, node: exp.Expr, relation: Relation, outer: Relation | None = None) -> str:
        text = self.expression(node, relation, outer)
        return f"({text})" if isinstance(node, exp.Or) else text

    def _all(self, conditions: tuple[exp.Expr, ...], relation: Relation) -> str:
        return " AND ".join(self._condition(condition, relation) for condition in conditions) or "true"

    def _column(self, source: Source, name: str, *, qualified: bool) -> str:
        table = source.view or source.table
        if source.view is None and source.derived is not None and not isinstance(source.derived, ListedRows):
            key = id(source.derived), name
            if key not in self._computed:
                self._computed[key] = self._computes(source.derived, name)
            if (text := self._computed[key]) is not None:
                return text
        if name == UNIT:
            return _unit(source)
        return f"{identifier(table.name)}.{identifier(name)}" if qualified else identifier(name)

    def _computes(self, derived: _Subquery, name: str) -> str | None:
        value = next((f.value for f in _fields(derived) if f.name == name), None)
        if value is None:
            return None
        text = _cut(self.expression(value, _relation(derived)), MOST_INSIDE)
        return text if isinstance(value, exp.Column | exp.Func | exp.Literal) else f"({text})"

    def _source(self, source: Source) -> str:
        derived = source.derived
        if source.view is not None or derived is None:
            return table_name(source.view or source.table)
        match derived:
            case Grouped():
                keys = [_unit(source), *(self.expression(k.value, derived.relation) for k in derived.keys)]
                return f"({self.rows(derived.relation)} per {', '.join(keys)}{self.where(derived.relation)})"
            case RowSubquery():
                return self._rows_of(derived)
            case SetOperation():
                operator = derived.operator.key.upper() + ("" if derived.distinct else " ALL")
                return f"({self._rows_of(derived.left)} {operator} {self._rows_of(derived.right)})"
            case FullJoin():
                return f"({self._source(derived.left)} FULL JOIN {self._source(derived.right)})"
            case ListedRows():
                return "listed rows"

    def _rows_of(self, rows: RowSubquery) -> str:
        text, conditions = self.rows(rows.relation), self.where(rows.relation)
        return f"({text}{conditions})" if conditions or len(rows.relation.sources) > 1 else text

    def _semi_join(self, join: SemiJoin, relation: Relation) -> str:
        rows = self.rows(join.relation) + self.where(join.relation, join.across, relation)
        negated = "NOT " if join.negated else ""
        if join.value is None or join.output is None:
            return f"{negated}EXISTS ({rows})"
        value = self.expression(join.value, relation)
        return f"{value} {negated}IN ({self.expression(join.output, join.relation)} of {rows})"

    def _value(self, number: int) -> exp.Expr:
        parameter = self._parameters[number - 1] if number <= len(self._parameters) else None
        if parameter is None or parameter.value is None:
            return exp.var("NULL" if parameter is not None and parameter.null else f"${number}")
        number = type_named(parameter.type) in INTEGERS and parameter.value.isdigit()
        return exp.Literal(this=parameter.value, is_string=not number)


def _of_not_null(condition: exp.Expr) -> exp.Expr | None:
    """What a condition says is not NULL; None for another condition."""
    inner = condition.this.unnest() if isinstance(condition, exp.Not) else None
    return inner.this if isinstance(inner, exp.Is) and isinstance(inner.expression, exp.Null) else None


def _joins_units(condition: exp.Expr, relation: Relation) -> bool:
    """Which is what private tables are joined on anyway."""
    sides = equated(condition)
    return sides is not None and all(is_unit(side, relation) for side in sides)


def _fields(derived: _Subquery) -> Iterator[Field]:
    match derived:
        case Grouped():
            yield from (*derived.keys, *derived.aggregates)
        case RowSubquery():
            yield from (*derived.fields, *derived.windows)
        case SetOperation():
            yield from _fields(derived.left)
        case FullJoin():
            yield from derived.fields


def _relation(derived: _Subquery) -> Relation:
    if isinstance(derived, SetOperation):
        return derived.left.relation
    return Relation((derived.left, derived.right)) if isinstance(derived, FullJoin) else derived.relation


def _unit(source: Source) -> str:
    """What the unit of a source's rows is called: by the table that they come from."""
    derived = source.derived
    if derived is None or source.view is not None or isinstance(derived, ListedRows):
        return identifier((source.view or source.table).privacy_unit or UNIT)
    inner = next((s for s in _relation(derived).sources if s.private), None)
    return identifier(UNIT) if inner is None else _unit(inner)
