"""Private subqueries in a backend's SQL: each has the unit in the column _o in addition to its own columns.

A unit's values depend on its own rows alone. Sums use exact decimals, since the order in which an engine
adds doubles depends on other rows. A value that is too large for a decimal counts as NULL instead of raising.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from rewriter.binder.listed_rows import in_postgres
from rewriter.binder.names import of_a_column
from rewriter.canonical.normalize import canonical
from rewriter.emit.context import Context
from rewriter.emit.enforcement import check_window
from rewriter.emit.engines.parts import double
from rewriter.emit.measures import stored_digits
from rewriter.ir.relation import (
    UNIT,
    Derived,
    Field,
    FullJoin,
    Grouped,
    ListedRows,
    Relation,
    RowSubquery,
    SetOperation,
    Source,
    leaf,
    leaves,
    parts,
)
from rewriter.ir.trees import alias, and_, case, cast, copied, crossed, data_type, func, join, paren, select
from rewriter.ir.types import AMBIGUOUS, FLOATS, INTEGERS, NUMBERS, WIDENED, Type
from rewriter.policy import Column
from rewriter.scalar.aggregates import AGGREGATES
from rewriter.scalar.array_literal import elements
from rewriter.scalar.enum_order import label_at, place_of
from rewriter.scalar.typecheck import Types, check_extreme, check_order, type_of

LARGEST = "1e15"
"""Decimals of 38 digits, ten of them behind the point, add up 10^13 values of this size."""

LARGEST_SQUARED = "1e10"
"""With four digits behind the point a square has 28 digits: 10^10 of them add up in 38."""

DECIMAL, WHOLE = "DECIMAL(38, 10)", "DECIMAL(38, 0)"
EXACT = frozenset({Type.NUMERIC, Type.NUMERIC_ARRAY})
HELD_WHOLE, HELD_DECIMALS = 28, 10
"""The digits before and behind the point that the type of cells holds."""


def derived_rows(
    emitter: Context, derived: Derived, columns: Sequence[Column], *, units_later: bool
) -> exp.Query:
    """The subquery of a derived source with these columns; `units_later`: whether a unit exists may be checked in what
    reads it, since rows of a unit become rows of that unit alone."""
    if isinstance(derived, ListedRows):
        return _listed(emitter, derived, columns)
    if isinstance(derived, Grouped):
        return _grouped(emitter, derived, units_later=units_later)
    if isinstance(derived, RowSubquery):
        return _rows(emitter, derived, units_later=units_later)
    if isinstance(derived, SetOperation):
        distinct = derived.distinct or derived.operator is not exp.Union
        pairs = (derived.left, derived.right), (derived.right, derived.left)
        sides = [_side(emitter, side, other, distinct=distinct) for side, other in pairs]
        return derived.operator(this=sides[0], expression=sides[1], distinct=derived.distinct)
    return _outer(emitter, derived)


def _listed(emitter: Context, listed: ListedRows, columns: Sequence[Column]) -> exp.Select:
    """The rows that the front has evaluated, as constants."""
    arrays = [emitter.parameters[int(form.name) - 1] for form in listed.columns]
    texts = [elements(array.value or "") or [] for array in arrays]
    rows = emitter.dialect.listed(columns, texts)
    shown = [alias(emitter.dialect.scanned("s", c), c.name, quoted=True) for c in columns]
    return select(*shown, source=rows.subquery("s", copy=False))


def _grouped(emitter: Context, grouped: Grouped, *, units_later: bool) -> exp.Select:
    relation = grouped.relation
    unit = emitter.unit(relation)
    keys = [(f.name, _key(emitter, f.value, relation)) for f in grouped.keys]
    aggregates = [(f.name, _aggregate(emitter, f.value, relation)) for f in grouped.aggregates]
    used = [f.value for f in (*grouped.keys, *grouped.aggregates)]
    select = emitter.select(relation, [(UNIT, unit), *keys, *aggregates], used, units_later=units_later)
    return select.group_by(copied(unit), *(copied(value) for _, value in keys), copy=False)


def _key(emitter: Context, value: exp.Expr, relation: Relation) -> exp.Expr:
    check_order([value], relation, emitter.parameters)
    return emitter.dialect.key(
        emitter.written(canonical(value), relation), type_of(value, relation, emitter.parameters)
    )


def _settled(emitter: Context, value: exp.Expr, relation: Relation) -> exp.Expr:
    """A value such that those that are equal are the same: floats have one zero."""
    written = emitter.written(canonical(value), relation)
    found = type_of(value, relation, emitter.parameters)
    return emitter.dialect.key(written, found) if found in FLOATS else written


def _rows(emitter: Context, rows: RowSubquery, *, units_later: bool = False) -> exp.Select:
    relation = rows.relation
    outputs: list[tuple[str, exp.Expr]] = [(UNIT, emitter.unit(relation))]
    outputs += [(f.name, _settled(emitter, f.value, relation)) for f in rows.fields]
    outputs += [(f.name, _window(emitter, f.value, relation)) for f in rows.windows]
    used = [f.value for f in (*rows.fields, *rows.windows)]
    return emitter.select(relation, outputs, used, units_later=units_later)


def _side(emitter: Context, side: RowSubquery, other: RowSubquery, *, distinct: bool) -> exp.Select:
    """One side of a set operation, its numbers in the type of both sides: an engine's own conversion raises for a row
    whose value that cannot hold."""
    rows = _rows(emitter, side)
    if distinct:
        check_order([f.value for f in side.fields], side.relation, emitter.parameters)
    # The first column is the unit.
    for column, ours, theirs in zip(rows.expressions[1:], side.fields, other.fields, strict=True):
        types = [type_of(f.value, s.relation, emitter.parameters) for f, s in ((ours, side), (theirs, other))]
        if NUMBERS.issuperset(types):
            target = max(types, key=WIDENED.index)
            converts = types[0] is not target and not FLOATS.issuperset(types)
        else:
            target, converts = types[0], False
        if target in EXACT and types[0] is target:
            converts = not _one_scale(ours.value, side.relation, theirs.value, other.relation)
        if converts and target not in INTEGERS:
            column.set("this", emitter.dialect.converted(column.this, types[0], target))
    return rows


def _one_scale(value: exp.Expr, relation: Relation, beside: exp.Expr, other: Relation) -> bool:
    """Whether exact numbers are met by others without a conversion that raises: the type of cells holds them, or all
    are stored alike."""
    if not isinstance(value, exp.Column):
        return False
    digits = stored_digits(value, relation)
    if digits is not None and digits[1] <= HELD_DECIMALS and digits[0] - digits[1] <= HELD_WHOLE:
        return True
    if not isinstance(beside, exp.Column):
        return False
    sources = relation.source(value.table), other.source(beside.table)
    types = {s.column(c.name).type for s, c in zip(sources, (value, beside), strict=True)}
    return all(s.derived is None for s in sources) and len(types) == 1 and not types & AMBIGUOUS


def _outer(emitter: Context, outer: FullJoin) -> exp.Select:
    relation = Relation((outer.left, outer.right))
    units = [leaf(s.alias, UNIT) for s in relation.sources]
    used = leaves(*(f.value for f in outer.fields), *outer.on)
    left, right = (emitter.source(s, sorted(c for a, c in used if a == s.alias)) for s in relation.sources)
    shown = [alias(copied(f.value), f.name, quoted=True) for f in outer.fields]
    either = exp.Coalesce(this=copied(units[0]), expressions=[copied(units[1])])
    on = and_(units[0].eq(units[1]), *(emitter.written(c, relation) for c in outer.on))
    query = select(alias(either, UNIT, quoted=True), *shown, source=left)
    return join(query, right, on, side="FULL")


def _window(emitter: Context, window: exp.Expr, relation: Relation) -> exp.Expr:
    """A window of a unit's rows; each aggregate in its function gets the same frame."""
    check_window(window, relation)
    check_order(window.args["partition_by"], relation, emitter.parameters)
    partition = [emitter.written(p, relation) for p in window.args["partition_by"]]
    order = window.args.get("order")
    ordered = [_ordered(emitter, o, relation) for o in order.expressions] if order is not None else []

    def over(call: exp.Expr) -> exp.Expr:
        return exp.Window(
            this=call,
            partition_by=[copied(p) for p in partition],
            order=exp.Order(expressions=[copied(o) for o in ordered]) if ordered else None,
            spec=copied(window.args["spec"]) if window.args.get("spec") else None,
            over="OVER",
        )

    function = window.this
    if AGGREGATES[type(function)].grouped:
        return _aggregate(emitter, function, relation, over)
    if isinstance(function, exp.Expr) and function.this is not None and not isinstance(function, exp.Ntile):
        function = copied(function)
        function.set("this", of_a_column(_settled(emitter, window.this.this, relation)))
    return over(function)


def _ordered(emitter: Context, item: exp.Expr, relation: Relation) -> exp.Expr:
    value = emitter.written(item.this, relation)
    found = type_of(item.this, relation, emitter.parameters)
    copy, of = copied(item), Types(relation, emitter.parameters).enum(item.this)
    copy.set("this", emitter.dialect.ordered(value, found) if of is None else place_of(value, of, item))
    return copy


Over = Callable[[exp.Expr], exp.Expr]


def _plain(call: exp.Expr) -> exp.Expr:
    return call


def _aggregate(emitter: Context, call: exp.Expr, relation: Relation, over: Over = _plain) -> exp.Expr:
    """An exact aggregate of a unit's rows; `over` makes a window of each part."""
    inner = call.this
    if isinstance(inner, exp.Star):
        return over(copied(call))
    distinct = isinstance(inner, exp.Distinct)
    argument = inner.expressions[0] if distinct else inner
    if distinct:
        check_order([argument], relation, emitter.parameters)
    if isinstance(call, (exp.Min, exp.Max)):
        check_extreme(call, argument, relation, emitter.parameters)
    value = emitter.written(canonical(argument), relation)
    found = type_of(argument, relation, emitter.parameters)

    def made(function: type[exp.Expr], part: exp.Expr) -> exp.Expr:
        return over(function(this=exp.Distinct(expressions=[part]) if distinct else part))

    if isinstance(call, (exp.Count, exp.LogicalAnd, exp.LogicalOr)):
        return made(type(call), value)
    if isinstance(call, (exp.Min, exp.Max)):
        of = Types(relation, emitter.parameters).enum(argument)
        if of is not None:
            return label_at(made(type(call), place_of(value, of, call)), of)
        return made(type(call), emitter.dialect.key(value, found) if found in FLOATS else value)
    if isinstance(call, (exp.Sum, exp.Avg)):
        few = found not in INTEGERS and _few_digits(emitter, argument, relation)
        exact = _not_nan(emitter, value) if few else _exact(emitter, value, found)
        if isinstance(call, exp.Sum):
            return _sum(made, emitter.dialect.addend(exact) if found in INTEGERS else exact, found)
        return _mean(made, exact, found, few=few)
    return _spread(emitter, made, value, call, found)


Made = Callable[[type[exp.Expr], exp.Expr], exp.Expr]


def _exact(emitter: Context, value: exp.Expr, found: Type) -> exp.Expr:
    """A number such that the order in which values are added up does not matter."""
    if found in INTEGERS:
        return value
    return exp.TryCast(this=_within(emitter, value, LARGEST, found), to=data_type(DECIMAL))


def _few_digits(emitter: Context, argument: exp.Expr, relation: Relation) -> bool:
    """Whether a column is stored as exact numbers of so few digits that they are added up as they are."""
    digits = stored_digits(argument, relation)
    few = digits is not None and digits[1] <= 10 and digits[0] - digits[1] <= 15
    return few and emitter.dialect.adds_stored


def _not_nan(emitter: Context, value: exp.Expr) -> exp.Expr:
    """A stored number, NULL if it is NaN."""
    if not emitter.dialect.knows_nan:
        return value
    nan = cast(exp.Literal.string("NaN"), "DECIMAL")
    return case((exp.NEQ(this=value, expression=nan), copied(value)))


def _within(emitter: Context, value: exp.Expr, largest: str, found: Type) -> exp.Expr:
    target = "DECIMAL" if found in emitter.dialect.narrowed else "DOUBLE"
    high = cast(exp.Literal.string(largest), target)
    low = cast(exp.Literal.string(f"-{largest}"), target)
    return case((exp.Between(this=cast(copied(value), target), low=low, high=high), value))


def _sum(made: Made, exact: exp.Expr, found: Type) -> exp.Expr:
    total = made(exp.Sum, exact)
    if found in FLOATS:
        return cast(total, "DOUBLE")
    return exp.TryCast(this=total, to=data_type(WHOLE if found in INTEGERS else DECIMAL))


def _mean(made: Made, exact: exp.Expr, found: Type, *, few: bool) -> exp.Expr:
    total = made(exp.Sum, exact)
    if few:
        # The double of a sum may depend on its scale.
        total = exp.TryCast(this=total, to=data_type(DECIMAL))
    some = func("NULLIF", made(exp.Count, copied(exact)), exp.Literal.number(0))
    mean = exp.Div(this=cast(total, "DOUBLE"), expression=cast(some, "DOUBLE"))
    return mean if found in FLOATS else exp.TryCast(this=paren(mean), to=data_type(DECIMAL))


def _spread(emitter: Context, made: Made, value: exp.Expr, call: exp.Expr, found: Type) -> exp.Expr:
    """Variance or standard deviation from whole sums of x and x^2, x in units of 10^-4."""
    within = _within(emitter, value, LARGEST_SQUARED, found)
    scaled = exp.Mul(
        this=double(within, found in emitter.dialect.narrowed), expression=exp.Literal.number(10000)
    )
    fixed = exp.TryCast(this=func("ROUND", scaled), to=data_type(WHOLE))
    count, sums, squares = (
        cast(made(function, part), "DOUBLE")
        for function, part in (
            (exp.Count, fixed),
            (exp.Sum, copied(fixed)),
            (exp.Sum, exp.Mul(this=copied(fixed), expression=copied(fixed))),
        )
    )
    sample = not isinstance(call, (exp.StddevPop, exp.VariancePop))
    mean_square = exp.Div(this=exp.Mul(this=sums, expression=copied(sums)), expression=copied(count))
    around = exp.Greatest(
        this=paren(exp.Sub(this=squares, expression=mean_square)),
        expressions=[cast(exp.Literal.number(0), "DOUBLE")],
        ignore_nulls=True,
    )
    freedom = (
        paren(exp.Sub(this=copied(count), expression=exp.Literal.number(1))) if sample else copied(count)
    )
    variance = exp.Div(
        this=exp.Div(this=around, expression=freedom),
        expression=cast(exp.Literal.string("1e8"), "DOUBLE"),
    )
    enough = exp.GT(this=copied(count), expression=exp.Literal.number(1 if sample else 0))
    deviation = isinstance(call, (exp.Stddev, exp.StddevSamp, exp.StddevPop))
    result = case((enough, exp.Sqrt(this=variance) if deviation else variance))
    return result if found in FLOATS else exp.TryCast(this=result, to=data_type(DECIMAL))


def front_rows(source: Source, scanned: Callable[[Source], exp.Expr]) -> exp.Expr:
    """A derived source as a FROM item of the front, for the types of its columns alone; `scanned` writes tables."""
    derived = source.derived
    if derived is None:
        return scanned(source)
    if isinstance(derived, ListedRows):
        nothing = [[None]] * len(derived.columns)
        return in_postgres(source.table.columns, nothing).subquery(source.alias, copy=False)
    unit = next(c.type for c in source.table.columns if c.name == UNIT)
    typed = cast(exp.null(), data_type(unit, "postgres"))
    if isinstance(derived, SetOperation):
        sides = [_front_select(r.relation, r.fields, scanned) for r in (derived.left, derived.right)]
        rows: exp.Query = derived.operator(this=sides[0], expression=sides[1], distinct=False)
        rows = select(alias(typed, UNIT, quoted=True), exp.Star(), source=rows.subquery("x", copy=False))
    else:
        fields = _front_fields(derived)
        relation = (
            Relation((derived.left, derived.right)) if isinstance(derived, FullJoin) else parts(derived)[0]
        )
        rows = _front_select(relation, fields, scanned).select(alias(typed, UNIT, quoted=True), copy=False)
        if isinstance(derived, Grouped):
            rows = rows.group_by(*(copied(f.value) for f in derived.keys), copy=False)
    return rows.subquery(source.alias, copy=False)


def _front_fields(derived: Grouped | RowSubquery | FullJoin) -> Sequence[Field]:
    if isinstance(derived, Grouped):
        return (*derived.keys, *derived.aggregates)
    if isinstance(derived, FullJoin):
        return derived.fields
    return (
        *derived.fields,
        *(Field(f.name, exp.Window(this=copied(f.value.this), over="OVER")) for f in derived.windows),
    )


def _front_select(
    relation: Relation, fields: Sequence[Field], scanned: Callable[[Source], exp.Expr]
) -> exp.Select:
    query = select(*(alias(copied(f.value), f.name, quoted=True) for f in fields))
    for part in relation.sources:
        crossed(query, front_rows(part, scanned))
    return query
