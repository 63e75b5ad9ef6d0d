"""Refusals about whole queries: private rows in the result, and mixing of rows of different units."""

from __future__ import annotations

from sqlglot import exp

from rewriter.ir.relation import (
    Grouped,
    Relation,
    Source,
    events_of,
    is_event,
    is_inner_unit,
    is_unit,
    parts,
    unit_column,
    unit_source,
)
from rewriter.ir.trees import not_, paren
from rewriter.ir.types import DATED, Type, type_named
from rewriter.policy import Table
from rewriter.refusal import Refusal
from rewriter.syntax.allowlist import position
from rewriter.syntax.pasted import identifier, instead, table_name, written


def row_level(relation: Relation, tree: exp.Expr, code: str = "PV010") -> Refusal:
    """PV010 for rows in the result (PV011 for groups that are units), PV015 for rows that a condition reads."""
    table = base_table(relation)
    if code == "PV010" and tree.args.get("group") is not None:
        return _of_events(relation, tree) or unit_groups(table, tree)
    return Refusal(
        code,
        f'row-level output from private table "{table.name}" is not allowed'
        if code == "PV010"
        else f'subquery reads private table "{table.name}" across units',
        hint=f"Aggregate it, e.g. `{example(table)}`.",
        position=position(tree),
    )


def example(table: Table) -> str:
    """A query on a private table that is answered, by a column of which many rows can have one value.

    >>> from rewriter.policy import Column
    >>> columns = Column("Id", "uuid"), Column("Ward", "text")
    >>> example(Table("public", "Stays", columns, False, (), privacy_unit="Id", keys=(frozenset({"Id"}),)))
    'SELECT "Ward", COUNT(DISTINCT "Id") FROM "Stays" GROUP BY "Ward" ORDER BY 2 DESC LIMIT 10'
    """
    single = events_of(table) | {visible_unit(table)}
    columns = [
        c for c in table.columns if not (c.hidden or c.name in single) and type_named(c.type).enumerable
    ]
    if not columns:
        return f"SELECT {_counted(table)} FROM {table_name(table)}"
    known = (c.name for c in columns if c.domain or c.domain_from or c.range)
    return top_values(table, next(known, columns[0].name))


def top_values(table: Table, column: str) -> str:
    """A query for the values of a column that most units have.

    >>> table = Table("Main", "stays", (), False, (), privacy_unit="id", path=())
    >>> top_values(table, "Ward")
    'SELECT "Ward", COUNT(*) FROM "Main".stays GROUP BY "Ward" ORDER BY 2 DESC LIMIT 10'
    """
    name = identifier(column)
    return (
        f"SELECT {name}, {_counted(table)} FROM {table_name(table)} GROUP BY {name} ORDER BY 2 DESC LIMIT 10"
    )


def _counted(table: Table) -> str:
    unit = visible_unit(table)
    if table.unit_parts and all(table.column(part) for part in table.unit_parts):
        return f"COUNT(DISTINCT ({', '.join(map(identifier, table.unit_parts))}))"
    return "COUNT(*)" if unit is None else f"COUNT(DISTINCT {identifier(unit)})"


def visible_unit(table: Table) -> str | None:
    """The column by which analysts name the privacy unit of a table's rows, None where there is none."""
    unit = unit_column(table)
    return unit if unit is not None and table.column(unit) is not None else None


def unit_name(relation: Relation, of: Source | None = None, *, qualified: bool = False) -> str | None:
    """What the privacy unit of a relation's rows, or of the source `of`, is called in the statement; None without a
    name for it. `qualified`: for use in a subquery."""
    for alias, fields in relation.scope:
        for field in fields:
            source = unit_source(field.value, relation)
            found = is_inner_unit(field.value, relation) if of is None else source is of
            if found and isinstance(field.value, exp.Column):
                name = identifier(field.name)
                return (
                    f"{identifier(alias)}.{name}"
                    if alias and (qualified or len(relation.scope) > 1)
                    else name
                )
    return None


def stored_column(value: exp.Expr, relation: Relation) -> tuple[Table, str] | None:
    """The private table and its column that a base form shows, if it shows nothing else and no unit."""
    source = relation.source(value.table) if isinstance(value, exp.Column) else None
    if source is None or not source.private or source.derived is not None or is_unit(value, relation):
        return None
    return source.table, value.name


def clamped(value: str, of: Type) -> str:
    """A value of type `of` between bounds, for the example of a hint.

    >>> clamped("age", Type.INT4)
    'LEAST(GREATEST(age, 0), 100)'
    """
    low, high = _ENDS.get(of, ("0", "100"))
    return f"LEAST(GREATEST({value}, {low}), {high})"


_ENDS = {
    Type.DATE: ("DATE '2000-01-01'", "DATE '2029-12-31'"),
    Type.TIMESTAMPTZ: ("'2000-01-01'", "'2029-12-31 23:59:59'"),
    Type.TIMESTAMP: ("TIMESTAMP '2000-01-01 00:00:00'", "TIMESTAMP '2029-12-31 23:59:59'"),
}


def unit_groups(table: Table, tree: exp.Expr) -> Refusal:
    """PV011: the groups of a query are units."""
    unit, rows = visible_unit(table), table_name(table)
    hint = "Group by the unit in a subquery and aggregate its result."
    if unit is not None:
        name = identifier(unit)
        hint = (
            f"Count the units, `SELECT COUNT(DISTINCT {name}) FROM {rows}`, or aggregate over groups of units, e.g. "
            f"`SELECT n, COUNT(*) FROM (SELECT {name}, COUNT(*) AS n FROM {rows} GROUP BY {name}) AS t GROUP BY n "
            "ORDER BY 2 DESC LIMIT 10`."
        )
    return Refusal(
        "PV011",
        f'privacy unit column "{table.name}.{table.privacy_unit}" cannot be released or be a final grouping key',
        hint=hint,
        position=position(tree.args.get("group") or tree),
    )


def _of_events(relation: Relation, tree: exp.Expr) -> Refusal | None:
    """PV010 where the groups of a query are events or rows, each of one unit."""
    derived = relation.sources[0].derived
    if not isinstance(derived, Grouped):
        return None
    events = (key.value for key in derived.keys if is_event(key.value, derived.relation))
    stored = next((s for s in (stored_column(e, derived.relation) for e in events) if s is not None), None)
    return None if stored is None else event_groups(*stored, tree)


def event_groups(table: Table | None, column: str, tree: exp.Expr) -> Refusal:
    """PV010: the groups of a query are events, or rows, by a column of `table` or of a subquery."""
    if table is not None and frozenset({column}) in (*table.keys, *table.declared_keys):
        return row_groups(table, column, tree)
    name, hint = identifier(column), "Group by it in a subquery and aggregate its result."
    if table is not None:
        hint = (
            f"Aggregate the groups, e.g. `SELECT n, COUNT(*) FROM (SELECT {name}, COUNT(*) AS n "
            f"FROM {table_name(table)} GROUP BY {name}) AS t GROUP BY n ORDER BY 2 DESC LIMIT 10`."
        )
    return Refusal(
        "PV010",
        f'every group of "{column if table is None else f"{table.name}.{column}"}" belongs to one unit',
        hint=hint,
        position=position(tree.args.get("group") or tree),
    )


def row_groups(table: Table, column: str, tree: exp.Expr) -> Refusal:
    """PV010: the groups of a query are rows."""
    return Refusal(
        "PV010",
        f'every group of "{table.name}.{column}" is one row',
        hint=f"Group by a column that many rows share, e.g. `{example(table)}`.",
        position=position(tree.args.get("group") or tree),
    )


def refuse_limited(relation: Relation) -> None:
    """PV014 where a query builds on private rows that a LIMIT or OFFSET has cut."""
    if relation.limit is not None:
        raise mixes("OFFSET" if isinstance(relation.limit, exp.Offset) else "LIMIT", relation, relation.limit)


def refuse_two_kinds(one: Relation, other: Relation, at: exp.Expr) -> None:
    """PV013 where rows of two relations belong to units of two kinds, so that no bound on one unit holds for both."""
    if not (one.private and other.private):
        return
    tables = base_table(one), base_table(other)
    if tables[0].kind == tables[1].kind:
        return
    names = " and ".join(f'"{table.name}"' for table in tables)
    raise Refusal(
        "PV013",
        f"private tables {names} belong to two kinds of privacy units",
        detail="What one unit can change is bounded for one kind: a row of the other kind could decide about the rows "
        "of many units.",
        hint=f"Aggregate each by itself, e.g. `{example(tables[0])}` and `{example(tables[1])}`, and combine the "
        "released rows: a join of two aggregates, or a condition on a released number, is answered.",
        position=position(at),
    )


def base_table(relation: Relation) -> Table:
    """A private table that the relation reads, for a message."""
    return stored_table(next(s for s in relation.sources if s.private))


def stored_table(source: Source) -> Table:
    """A table or view that a source's rows come from, for a message."""
    if source.view is not None:
        return source.view
    return source.table if source.derived is None else base_table(parts(source.derived)[0])


def uncorrelated(node: exp.Expr) -> Refusal:
    """PV015: a subquery in WHERE that is neither per unit nor public."""
    return Refusal(
        "PV015",
        "this subquery in WHERE is not supported on private rows",
        hint=_of_quantified(node)
        or "Compare the privacy unit with the units of a subquery by IN, correlate EXISTS on the unit, or an "
        "aggregate on the unit or by equality with columns of known domain, or read a public table.",
        position=position(node),
    )


def _of_quantified(node: exp.Expr) -> str | None:
    """A hint to what stands for ANY and ALL over the query `node` or its array; None in other places.

    In:  price > ANY (SELECT price FROM products)
    Out: price > (SELECT MIN(price) FROM products)
    In:  u.age > ALL (SELECT x FROM events e WHERE e.user_id = u.user_id)
    Out: NOT EXISTS (SELECT 1 FROM events AS e WHERE e.user_id = u.user_id AND (u.age > x) IS NOT TRUE)
    """
    around, select = node.parent, node.unnest()
    while isinstance(around, (exp.Subquery, exp.Paren, exp.Array)):
        around = around.parent
    compared = around.parent if isinstance(around, (exp.Any, exp.All)) else None
    if compared is None or not isinstance(select, exp.Select) or len(select.expressions) != 1:
        return None
    value, shown = compared.this, select.expressions[0].unalias()
    if isinstance(compared, exp.EQ) and isinstance(around, exp.Any):
        listed = exp.In(this=value.copy(), query=select.copy().subquery())
        return f"Write {instead(written(listed), written(compared))}."
    plain = not any(select.args.get(part) for part in ("group", "having", "limit", "offset"))
    plain = plain and not shown.find(exp.AggFunc, exp.Star)
    if not plain or not isinstance(compared, (exp.GT, exp.GTE, exp.LT, exp.LTE)):
        return None
    if isinstance(around, exp.All) and _is_correlated(select):
        # A largest value would be NULL where there is none, of which ALL is true.
        if not all(c.table for c in value.find_all(exp.Column)):
            return None
        each = paren(type(compared)(this=value.copy(), expression=shown.copy()))
        one = select.copy()
        one.set("expressions", [exp.Literal.number(1)])
        one = one.where(not_(exp.Is(this=each, expression=exp.true())), copy=False)
        return f"Write {instead(written(not_(exp.Exists(this=one))), written(compared))}."
    least = isinstance(compared, (exp.GT, exp.GTE)) == isinstance(around, exp.Any)
    one = select.copy()
    one.set("expressions", [(exp.Min if least else exp.Max)(this=shown.copy())])
    for part in ("order", "distinct"):
        one.set(part, None)
    end = written(type(compared)(this=value.copy(), expression=one.subquery()))
    return f"Compare with the {'least' if least else 'largest'} of them, {instead(end, written(compared))}."


def _is_correlated(select: exp.Select) -> bool:
    """Whether a query names a table that is not in its own FROM."""
    source, joins = select.args.get("from_"), select.args.get("joins") or ()
    own = {item.this.alias_or_name for item in (source, *joins) if item is not None}
    return any(c.table and c.table not in own for c in select.find_all(exp.Column))


def mixes(what: str, relation: Relation, node: exp.Expr, hint: str | None = None) -> Refusal:
    """PV014: LIMIT, a window and the like, if rows of one unit would decide about rows of another."""
    table = base_table(relation)
    unit = visible_unit(table)
    if hint is None and unit is None:
        hint = "Move it outside of the aggregate."
    return Refusal(
        "PV014",
        f"{what} over private rows mixes different units",
        hint=hint
        or f"Move it outside of the aggregate, or number the rows of each unit: `{_numbered(table)}`.",
        position=position(node),
    )


def _numbered(table: Table) -> str:
    """A query that takes the first rows of each unit of `table`, whose unit is visible."""
    unit = visible_unit(table)
    times = (c.name for c in table.columns if not c.hidden and c.name != unit and type_named(c.type) in DATED)
    first = next(times, None)
    order = "" if first is None else f" ORDER BY {identifier(first)}"
    number = f"ROW_NUMBER() OVER (PARTITION BY {identifier(unit or '')}{order})"
    return f"SELECT COUNT(*) FROM (SELECT {number} AS n FROM {table_name(table)}) AS t WHERE n <= 3"


def mixed(tree: exp.Expr, private: Relation | None) -> Refusal:
    """PV019: a set operation of private rows with public or released ones."""
    name = type(tree).__name__.upper() + ("" if tree.args.get("distinct", True) else " ALL")
    table = base_table(private).name if private is not None else "the private table"
    return Refusal(
        "PV019",
        f"{name} mixes private and public rows",
        hint=f'Aggregate the rows of "{table}" first, or add the public rows outside.',
        position=position(tree),
    )


def recursive(cte: exp.Expr) -> Refusal:
    """PV014: a recursive CTE that reads private or released rows, or CTEs behind it."""
    return Refusal(
        "PV014",
        "a recursive query that reads private tables or their aggregates mixes different units",
        hint="Let the recursive part of WITH read public tables alone, and join its rows with the private ones.",
        position=position(cte),
    )


def unlike(node: exp.Expr) -> Refusal:
    """PV020: IN a subquery whose values the backend would have to convert."""
    return Refusal(
        "PV020",
        "IN a subquery of another type is not allowed on private rows",
        hint="Compare integers with integers, or texts with texts; CAST character(n) to text.",
        position=position(node),
    )


def not_grouped(node: exp.Expr) -> Refusal:
    """42803, as PostgreSQL has it."""
    return Refusal(
        "42803",
        "this column must appear in the GROUP BY clause or be used in an aggregate function",
        hint="Add it to GROUP BY, or count it.",
        position=position(node),
    )
