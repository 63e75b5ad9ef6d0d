"""The columns that measures need: what each row counts or adds, and what each unit contributes to a group.

A sum's column is an integer, the value in fixed point, or a stored decimal, so that no sum depends on the order of
rows. `k` numbers a unit's rows in each group by a keyed order, where at most tau of them may count.

Why: docs/decisions/order-decides-nothing.md and docs/decisions/rows-are-cut-not-sums.md.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from sys import float_info

from sqlglot import exp

from rewriter.binder.contribution_bounds import one_row_per_unit
from rewriter.canonical.normalize import canonical
from rewriter.emit.context import Context, Output
from rewriter.emit.enforcement import Held, reach
from rewriter.emit.engines.base import Engine
from rewriter.emit.engines.parts import digested, divided, double
from rewriter.ir.measure import (
    Count,
    DistinctItems,
    FixedPoint,
    Joint,
    Measure,
    Moment,
    Quantiles,
    Running,
    Total,
    named,
    parts,
)
from rewriter.ir.relation import UNIT, Relation
from rewriter.ir.texts import sql_text
from rewriter.ir.trees import alias, and_, case, cast, coalesce, column, copied, grouped, not_, paren, select
from rewriter.ir.types import FLOATS, INTEGERS, STAMPS, Type
from rewriter.logical.plan import AggregateNode
from rewriter.scalar.timestamps import written_date, written_stamp
from rewriter.scalar.typecheck import Parameters, check_order, type_of

LARGEST_SUM = 1 << 61
"""Where the sum over all units is clamped: nothing in the backend can overflow."""
_SIZED = re.compile(r"numeric\((\d+),(\d+)\)")
Summed = Moment | Total | Joint | Quantiles


def unmeasured(node: AggregateNode) -> AggregateNode:
    """A node's groups alone."""
    return replace(node, measures=(), outputs=())


def summed(node: AggregateNode) -> dict[tuple[FixedPoint, exp.Expr | None], Summed]:
    """The different values that a node adds up or cuts into bins, each with the first of its measures."""
    found: dict[tuple[FixedPoint, exp.Expr | None], Summed] = {}
    for measure in node.measures:
        if isinstance(measure, (Moment, Total, Joint, Quantiles)) and measure.value is not None:
            found.setdefault((measure.value, measure.argument), measure)
    return found


def row_columns(emitter: Context, node: AggregateNode) -> list[Output]:
    """x0.. of the counts, 1 or the item where a row counts, and y0.. of the values, each NULL where it does not."""
    outputs: list[Output] = []
    for number, measure in enumerate(node.measures):
        items = measure.items if isinstance(measure, (Count, Total, DistinctItems)) else ()
        adds = isinstance(measure, (Moment, Total, Joint, Quantiles)) and measure.value is not None
        if not adds and (measure.argument is not None or items):
            item = item_of(emitter, items, node.relation) if items else exp.Literal.number(1)
            outputs.append((f"x{number}", _where(emitter, measure.argument, node.relation, item)))
    for number, ((value, argument), measure) in enumerate(summed(node).items()):
        finite = isinstance(measure, (Total, Joint))
        fixed = fixed_point(emitter, value, node.relation, finite=finite)
        outputs.append((f"y{number}", _where(emitter, argument, node.relation, fixed)))
    return outputs


def _where(emitter: Context, argument: exp.Expr | None, relation: Relation, value: exp.Expr) -> exp.Expr:
    if argument is None:
        return value
    return case((emitter.written(canonical(argument), relation), value))


def item_type(emitter: Context, items: Sequence[exp.Expr], relation: Relation) -> Type:
    """The type of `item_of`, of integers or texts."""
    found = type_of(items[0], relation, emitter.parameters) if len(items) == 1 else Type.TEXT
    return found if found in INTEGERS else Type.TEXT


def item_of(emitter: Context, items: Sequence[exp.Expr], relation: Relation) -> exp.Expr:
    """An item: an integer, else a text: its value's, or those of a row value with their lengths, NULL kept apart."""
    check_order(items, relation, emitter.parameters)
    alone = item_type(emitter, items, relation)
    if alone in INTEGERS:
        return emitter.dialect.key(emitter.written(canonical(items[0]), relation), alone)
    texts = []
    for item in items:
        found = type_of(item, relation, emitter.parameters)
        value = emitter.dialect.key(emitter.written(canonical(item), relation), found)
        text = emitter.dialect.text(value, found)
        texts.append(digested(text) if found in {Type.TEXT, Type.LITERAL} or not found.enumerable else text)
    if len(texts) == 1:
        return texts[0]
    joined: exp.Expr = exp.Literal.string("")
    for text in texts:
        size = cast(coalesce(exp.Length(this=text), exp.Literal.number(-1)), "VARCHAR")
        for part in (
            size,
            exp.Literal.string("|"),
            coalesce(copied(text), exp.Literal.string("")),
        ):
            joined = exp.DPipe(this=joined, expression=part)
    return joined


def fixed_point(emitter: Context, value: FixedPoint, relation: Relation, *, finite: bool = False) -> exp.Expr:
    """floor(10^scale x + 1/2) of the clamped value as a BIGINT, NULL where it is NULL.

    NaN and infinities are NULL if `finite`, else clamped: NaN to hi. If `finite`, stored decimals stay as they are, to
    be multiplied by `unit_of` once they have been added up. LEAST and GREATEST pass over NULL, so that it has to be
    kept apart.
    """
    lo, hi = (0, 1) if value.lo is None or value.hi is None else (value.lo, value.hi)
    found = type_of(value.value, relation, emitter.parameters)
    given = emitter.written(canonical(value.value), relation)
    narrow = found in emitter.dialect.narrowed
    sizes = "DECIMAL" if narrow else "DOUBLE"
    if isinstance(given, exp.Column) and _plainly(value, found, relation):
        nan = finite and found is Type.NUMERIC and emitter.dialect.knows_nan
        return _cut(given, value.scale, lo, hi, nan=nan, stored=finite and found is Type.NUMERIC)
    if found is Type.DATE:
        clamped = _clamped(given, written_date(lo, value.scale), written_date(hi, value.scale), "DATE")
        number = emitter.dialect.days(clamped)
    elif found in STAMPS:
        given = given if found is Type.TIMESTAMP else cast(given, "TIMESTAMP")
        clamped = _clamped(given, written_stamp(lo, value.scale), written_stamp(hi, value.scale), "TIMESTAMP")
        number = emitter.dialect.seconds(clamped)
    elif found in INTEGERS and value.scale == 0:
        number = _clamped(given, str(lo), str(hi), "BIGINT")
    else:
        number = _clamped(cast(given, sizes), _decimal(lo, value.scale), _decimal(hi, value.scale), sizes)
        number = double(number, narrow=True) if narrow else number
    number = _scaled(number, value.scale) if found not in INTEGERS or value.scale else number
    present: exp.Expr = not_(exp.Is(this=copied(given), expression=exp.null()))
    if finite and found in FLOATS | {Type.NUMERIC}:
        # NaN is larger than all numbers in every engine; NULL is not within the bound either.
        size = exp.Abs(this=cast(copied(given), sizes))
        present = exp.LTE(this=size, expression=_literal(repr(float_info.max), sizes))
    return case((present, cast(number, "BIGINT")))


def unit_of(value: FixedPoint, relation: Relation, parameters: Parameters) -> int:
    """What the sum of a finite value's column is multiplied by to be one in fixed point."""
    found = type_of(value.value, relation, parameters)
    return 10**value.scale if found is Type.NUMERIC and _plainly(value, found, relation) else 1


def _plainly(value: FixedPoint, found: Type, relation: Relation) -> bool:
    """Whether a column is an integer in fixed point as it is stored: of 15 digits, which a double holds as well."""
    if found in INTEGERS:
        return value.scale == 0
    size = stored_digits(value.value, relation)
    return size is not None and size[1] <= value.scale <= 15 - size[0] + size[1]


def stored_digits(value: exp.Expr, relation: Relation) -> tuple[int, int] | None:
    """How many digits a stored exact number has in all and behind the point, where its type says it."""
    source = relation.source(value.table) if isinstance(value, exp.Column) else None
    if source is None or source.derived is not None or value.name == UNIT:
        return None
    stored = source.column(value.name)
    size = _SIZED.fullmatch(stored.type) if stored.expression is None else None
    return None if size is None else (int(size[1]), int(size[2]))


def _cut(column: exp.Expr, scale: int, lo: int, hi: int, *, nan: bool, stored: bool) -> exp.Expr:
    """A column within lo and hi, in fixed point or as it is `stored`. A comparison costs engines less than LEAST and
    GREATEST.

    `nan`: the column can be NaN, which is larger than all numbers and has no value.
    """
    low, high = (exp.Literal.number(_decimal(end, scale)) for end in (lo, hi))
    units = exp.Mul(this=column, expression=exp.Literal.number(10**scale)) if scale else column
    within, least, most = (
        (column, copied(low), copied(high)) if stored else (cast(units, "BIGINT"), signed(lo), signed(hi))
    )
    above: exp.Expr = exp.GT(this=copied(column), expression=copied(high))
    if nan:
        above = and_(above, exp.NEQ(this=copied(column), expression=_literal("NaN", "DECIMAL")))
    return case(
        (exp.Between(this=copied(column), low=low, high=high), within),
        (exp.LT(this=copied(column), expression=copied(low)), least),
        (above, most),
    )


def _clamped(value: exp.Expr, lo: str, hi: str, target: str) -> exp.Expr:
    above = exp.Greatest(this=value, expressions=[_literal(lo, target)], ignore_nulls=True)
    return exp.Least(this=above, expressions=[_literal(hi, target)], ignore_nulls=True)


def _literal(text: str, target: str) -> exp.Expr:
    return cast(exp.Literal.string(text), target)


def _scaled(number: exp.Expr, scale: int) -> exp.Expr:
    """floor(10^scale x + 1/2).

    >>> [_scaled(exp.column("x"), scale).sql("duckdb") for scale in (2, -2)]
    ['FLOOR(x * 100 + 0.5)', 'FLOOR((CAST(x AS DOUBLE) + 50) / 100)']
    """
    power = 10 ** abs(scale)
    if scale < 0:
        # The half comes first: PostgreSQL raises where a quotient is too small for a double, as 1e-320 / 10 is.
        above = exp.Add(this=cast(number, "DOUBLE"), expression=exp.Literal.number(power // 2))
        return exp.Floor(this=divided(paren(above), exp.Literal.number(power)))
    if scale > 0:
        number = exp.Mul(this=number, expression=exp.Literal.number(power))
    return exp.Floor(this=exp.Add(this=number, expression=exp.Literal.number("0.5")))


def _decimal(units: int, scale: int) -> str:
    """units 10^-scale in digits.

    >>> _decimal(-5, 2), _decimal(5, -2)
    ('-0.05', '500')
    """
    if scale <= 0:
        return str(units * 10**-scale)
    digits = str(abs(units)).rjust(scale + 1, "0")
    return f"{'-' if units < 0 else ''}{digits[:-scale]}.{digits[-scale:]}"


def numbered_rows(
    emitter: Context, node: AggregateNode, keys: list[str], types: list[Type], kept: Held
) -> list[tuple[str, exp.Query]]:
    """`k`: the rows with the number _k0.. of each in its unit and group, those with a value first; or nothing."""
    ranks, bounds = [], []
    together = [UNIT, *kept.grouped(keys)]
    for number, measure in enumerate(summed(node).values()):
        if isinstance(measure, (Total, Joint)):
            raise ValueError("clipped totals have queries of their own")
        if not _whole(measure) and not one_row_per_unit(node.relation):
            rank = numbered(emitter, node, keys, types, f"y{number}", together)
            ranks.append(alias(rank, f"_k{number}"))
            bounds.append(measure.tau)
    return with_ranks("r", together, ranks, min(bounds)) if ranks else []


def with_ranks(
    source: str, together: Sequence[str], ranks: Sequence[exp.Expr], tau: int
) -> list[tuple[str, exp.Query]]:
    """`k`: the rows of `source` with their `ranks` among those `together`; 1 where there are at most `tau` of them.

    Hashing and sorting take most of the time, so only groups of more than `tau` rows are ranked.
    """
    size = exp.Window(
        this=exp.Count(this=exp.Star()), partition_by=[column(t) for t in together], over="OVER"
    )
    few = exp.LTE(this=column("_rows"), expression=exp.Literal.number(tau))
    firsts = [alias(exp.Literal.number(1), rank.alias_or_name) for rank in ranks]
    whole = select("*", *firsts, source="n").where(few, copy=False)
    cut = select("*", *ranks, source="n").where(not_(copied(few)), copy=False)
    counted = select("*", alias(size, "_rows"), source=source)
    return [("n", counted), ("k", exp.union(whole, cut, distinct=False, copy=False))]


def _whole(measure: Summed) -> bool:
    return isinstance(measure, Moment) and measure.whole


def numbered(
    emitter: Context,
    node: AggregateNode,
    keys: list[str],
    types: list[Type],
    value: str,
    together: Sequence[str],
) -> exp.Window:
    """A row's number among those `together`: rows with a value first, by a keyed order of it; ties are equal values."""
    absent = case((exp.Is(this=column(value), expression=exp.null()), exp.Literal.number(1)))
    order: list[exp.Expr] = [exp.Ordered(this=absent.else_(exp.Literal.number(0)))]
    unit = (column(UNIT), emitter.unit_type(node.relation))
    named_keys = [(column(k), found) for k, found in zip(keys, types, strict=True)]
    order += emitter.keyed_order([*named_keys, (column(value), Type.INT8)], of=unit)
    return exp.Window(
        this=exp.RowNumber(),
        partition_by=[column(t) for t in together],
        order=exp.Order(expressions=order),
        over="OVER",
    )


Counted = tuple[tuple[int, Count | Moment], ...]
"""Counts and sums by their places, over the columns of rows; a sum's condition is a row's number, where it counts."""


def counted(node: AggregateNode) -> Counted:
    """The counts and sums of a node, over the columns that `row_columns` gives its rows."""
    values, found = list(summed(node)), list[tuple[int, Count | Moment]]()
    for number, measure in enumerate(node.measures):
        if isinstance(measure, Count):
            own = column(f"x{number}")
            argument = None if measure.argument is None and not measure.items else own
            found.append((number, Count(argument, measure.tau, (own,) if measure.items else ())))
        elif isinstance(measure, Moment):
            place = values.index((measure.value, measure.argument))
            value = replace(measure.value, value=column(f"y{place}"))
            ranked = not measure.whole and not one_row_per_unit(node.relation)
            argument = column(f"_k{place}") if ranked else None
            found.append((number, replace(measure, value=value, argument=argument)))
    return tuple(found)


@lru_cache(maxsize=100)
def per_unit(
    dialect: Engine,
    keys: tuple[str, ...],
    types: tuple[Type, ...],
    measures: Counted,
    source: str,
    kept: Held,
) -> str:
    """`pu`: one row a unit and group, or one a unit, each count and sum of it clamped, in v0..."""
    columns: list[exp.Expr] = [column(UNIT)]
    for key, found in zip(keys, types, strict=True):
        one = alias(dialect.least(column(key), found), key)
        columns.append(one if kept.one else column(key))
    for number, measure in measures:
        value = _count(measure) if isinstance(measure, Count) else _sum(measure, dialect)
        columns.append(alias(value, f"v{number}"))
    by = (column(k) for k in kept.grouped(keys))
    return dialect.fragment(grouped(select(*columns, source=source), column(UNIT), *by))


def _count(measure: Count) -> exp.Expr:
    rows: exp.Expr = exp.Star() if measure.argument is None else copied(measure.argument)
    if measure.items:
        rows = exp.Distinct(expressions=[rows])
    return exp.Least(
        this=exp.Count(this=rows), expressions=[exp.Literal.number(measure.tau)], ignore_nulls=True
    )


def _sum(measure: Moment, dialect: Engine) -> exp.Expr:
    value, rank = copied(measure.value.value), measure.argument
    if measure.centred:
        lo, hi = measure.value.lo or 0, 1 if measure.value.hi is None else measure.value.hi
        double = exp.Mul(this=exp.Literal.number(2), expression=value)
        value = paren(exp.Sub(this=double, expression=signed(lo + hi)))
    if measure.power == 2:
        value = exp.Mul(this=value, expression=copied(value))
    if rank is not None:
        among = exp.LTE(this=copied(rank), expression=exp.Literal.number(measure.tau))
        value = case((among, value))
    total: exp.Expr = exp.Sum(this=dialect.addend(value))
    if rank is None:
        least, most = reach(measure)
        above = exp.Greatest(this=copied(total), expressions=[signed(least)], ignore_nulls=True)
        clamped = exp.Least(this=above, expressions=[signed(most)], ignore_nulls=True)
        present = not_(exp.Is(this=total, expression=exp.null()))
        total = case((present, clamped))
    return coalesce(total, exp.Literal.number(0))


def signed(value: int) -> exp.Expr:
    """A whole constant that may stand behind an operator."""
    number = exp.Literal.number(abs(value))
    return paren(exp.Neg(this=number)) if value < 0 else number


def total(number: int, measure: Measure, dialect: Engine) -> exp.Expr:
    """The sum over units of what a measure counts; one of numbers ends at 2^61, so that nothing overflows."""
    value: exp.Expr = column(f"v{number}")
    value = exp.Sum(this=dialect.addend(value) if isinstance(measure, Moment) else value)
    if isinstance(measure, Moment):
        # Of no rows SUM is NULL, which GREATEST passes over: the clamp would make a number of it.
        value = coalesce(value, exp.Literal.number(0))
        above = exp.Greatest(this=value, expressions=[signed(-LARGEST_SUM)], ignore_nulls=True)
        value = exp.Least(this=above, expressions=[signed(LARGEST_SUM)], ignore_nulls=True)
    return cast(value, "BIGINT")


def measure_text(emitter: Context, measure: Measure, relation: Relation) -> str:
    """The text of everything that decides a measure's values, except which quantiles the mechanism reads from bins.

    No expression has a semicolon outside of quotes, so that different measures have different texts.
    """
    written = [sql_text(emitter.written(canonical(p), relation)) for p in parts(measure)]
    said: dict[str, object] = {"condition": measure.argument is not None}
    if isinstance(measure, (Moment, Total, Joint, Quantiles)) and measure.value is not None:
        said |= {"scale": measure.value.scale, "lo": measure.value.lo, "hi": measure.value.hi}
    if isinstance(measure, (Count, Moment, Quantiles)):
        said["tau"] = measure.tau
    if isinstance(measure, Moment):
        said |= {"centred": measure.centred, "whole": measure.whole}
    elif isinstance(measure, Quantiles):
        said["weighted"] = measure.weighted
    elif isinstance(measure, Joint):
        said |= {"squares": measure.squares, "least": measure.least}
        said |= {"averages": True} if measure.averages else {}
    elif isinstance(measure, Total):
        said["anchor"] = measure.anchor
    elif isinstance(measure, Running):
        said |= {"time": measure.time, "events": measure.events}
    return "; ".join([named(measure), *written, *(f"{name} {value}" for name, value in said.items())])
