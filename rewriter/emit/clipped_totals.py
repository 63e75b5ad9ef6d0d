"""The queries of clipped totals: units' averages, the lengths of their vectors, the sums of the clipped vectors.

All totals of a node are read in one scan. `pu` has one row a unit and group: v, the unit's total, and for joint moments
the sum s and number m of its rows with a value, and squares z, each with its number behind it; `u` the same by cell,
weighted totals times the multiplier of the cell. DuckDB keeps `u` for the other queries of the release, other engines
make it again. `t` has the vectors' parts, those of joint moments about a centre: v, w and z; `n` the squares q of the
lengths of each unit's vectors over all cells, added up in whole numbers. Without keys, where `u` has one row a unit,
`n` has their squares beside their parts. What one unit adds is a function of its own rows alone, and the last query
clips it to the lengths that the price assumes, whatever was declared or inferred: clipped_totals.md. Why:
docs/decisions/totals-are-kept-for-a-release.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import chain

from sqlglot import exp

from rewriter.emit.engines.base import Engine
from rewriter.emit.measures import LARGEST_SUM, signed, summed, unit_of
from rewriter.emit.other_queries import CellQuery, QueryContext
from rewriter.ir.measure import Joint, Total, Vector
from rewriter.ir.relation import UNIT
from rewriter.ir.trees import alias, case, cast, coalesce, column, copied, grouped, join, paren, select
from rewriter.logical.plan import AggregateNode
from rewriter.plan import Cells, HistogramQuery

LARGEST_TOTAL = 1 << 50
"""What a unit's total in a group is clamped to: a double holds it, and no square overflows."""
MOST_WEIGHT = 1 << 6
"""The most that a total is multiplied by: the product is within a BIGINT before it is clamped again."""
MARGIN = 1e-12
"""By how much the factor of a clipped vector is too small: more than all rounding of doubles adds up to."""


@dataclass(frozen=True)
class Vectors:
    """The vectors of units for several totals of a node over `cells`, which one scan adds up."""

    node: AggregateNode
    vectors: Sequence[Vector]
    cells: Cells
    backend: QueryContext

    @property
    def read(self) -> Sequence[int]:
        """The places of the totals that are added up: all of the node where they are kept for its other queries."""
        if not self.backend.dialect.kept_table:
            return [vector.place for vector in self.vectors]
        return [n for n, measure in enumerate(self.node.measures) if isinstance(measure, (Total, Joint))]

    @property
    def numbers(self) -> Sequence[int]:
        """What stands behind the names of each vector's parts."""
        read = self.read
        return [read.index(vector.place) for vector in self.vectors]

    @property
    def measures(self) -> tuple[Total | Joint, ...]:
        """The total of each vector."""
        found = tuple(self.node.measures[vector.place] for vector in self.vectors)
        return tuple(m for m in found if isinstance(m, (Total, Joint)))

    @property
    def anchors(self) -> tuple[int, ...]:
        """The least length that each vector may be clipped to."""
        pairs = zip(self.measures, self.vectors, strict=True)
        return tuple(m.anchor if isinstance(m, Total) else vector.row * vector.fine for m, vector in pairs)

    @property
    def alone(self) -> bool:
        """Whether a unit has at most one row of `u`: `pu`, which groups by the unit and the keys, has one then."""
        return not self.node.keys

    @cached_property
    def measured(self) -> CellQuery:
        """What their lengths and their sums are read from."""
        return _measured(self)


def averages_query(vectors: Vectors, steps: int, most: int) -> HistogramQuery:
    """The rows (vector, place, units): how many units have their average over all cells at a place.

    Place 0 has averages up to 1/2 in size, place +-(n + 1) those of a size next to 2^(n/steps), `most` all larger ones.
    """
    numbers = vectors.numbers
    query = _totals(vectors)
    if vectors.alone:
        query.add("n", select(*(column(f"{name}{n}") for name in "sm" for n in numbers), source="u"))
    else:
        addend = vectors.backend.dialect.addend
        sums = [alias(exp.Sum(this=addend(column(f"s{n}"))), f"s{n}") for n in numbers]
        rows = [alias(exp.Sum(this=column(f"m{n}")), f"m{n}") for n in numbers]
        query.add("n", grouped(select(*sums, *rows, source="u"), column(UNIT)))
    turns, means, counted = _places_of_averages(vectors.backend.dialect, tuple(numbers), steps, most)
    query.add("l", turns)
    query.add("a", means)
    return query.written(counted, vectors.cells, len(numbers) * (2 * most + 1), integers=True)


@lru_cache(maxsize=1000)
def _places_of_averages(
    dialect: Engine, numbers: tuple[int, ...], steps: int, most: int
) -> tuple[str, str, str]:
    """`l`, the sum and number of each unit's values by vector, `a`, their average, and the number of units by place."""
    turns = _in_turn("n", s=[f"s{n}" for n in numbers], m=[f"m{n}" for n in numbers])
    both = [cast(column(name), "DOUBLE") for name in ("s", "m")]
    mean = alias(exp.Div(this=both[0], expression=both[1], typed=True), "a")
    means = select("i", mean, source="l").where(exp.GT(this=column("m"), expression=_zero()), copy=False)
    size = exp.Greatest(this=exp.Abs(this=column("a")), expressions=[_double(0.5)], ignore_nulls=True)
    power = exp.Mul(this=exp.Ln(this=size), expression=_double(steps / math.log(2)))
    number = exp.Floor(this=exp.Add(this=power, expression=_double(1.5)))
    least = exp.Least(this=number, expressions=[_double(most)], ignore_nulls=True)
    place = exp.Greatest(this=least, expressions=[_double(1)], ignore_nulls=True)
    signs = case((exp.GT(this=column("a"), expression=_double(0.5)), place))
    signs = signs.when(exp.LT(this=column("a"), expression=_double(-0.5)), exp.Neg(this=copied(place)))
    counted = _counted(signs.else_(_double(0)), "place", "a")
    return dialect.fragment(turns), dialect.fragment(means), dialect.fragment(counted)


def lengths_query(vectors: Vectors, steps: int, most: int) -> HistogramQuery:
    """The rows (vector, bin, units): how many units have a vector that is not 0, by its length.

    Bin n has the lengths up to anchor 2^(n/steps), rounded to an integer, that no bin before it has; all longer ones
    are in the bin `most`.
    """
    query = vectors.measured.begun()
    squares = tuple(f"q{n}" for n in vectors.numbers)
    turns, counted = _bins_of_lengths(vectors.backend.dialect, squares, vectors.anchors, steps, most)
    query.add("l", turns)
    return query.written(counted, vectors.cells, len(squares) * (most + 1), integers=True)


@lru_cache(maxsize=1000)
def _bins_of_lengths(
    dialect: Engine, squares: tuple[str, ...], anchors: tuple[int, ...], steps: int, most: int
) -> tuple[str, str]:
    """`l`, the square of each unit's length by vector, and the number of units by bin."""
    turns = _in_turn("n", anchors=anchors, q=squares)
    # Ends of bins are integers: a length is within one if the next integer is.
    length = exp.Ceil(this=exp.Sqrt(this=cast(column("q"), "DOUBLE")))
    above = exp.Greatest(
        this=exp.Sub(this=length, expression=_double(0.5)), expressions=[_double(0.5)], ignore_nulls=True
    )
    ratio = exp.Div(this=above, expression=column("b"), typed=True)
    number = exp.Ceil(this=exp.Mul(this=exp.Ln(this=ratio), expression=_double(steps / math.log(2))))
    last = exp.Least(this=number, expressions=[_double(most)], ignore_nulls=True)
    within = exp.Greatest(this=_double(0), expressions=[last], ignore_nulls=True)
    counted = _counted(within, "bin", "l").where(exp.GT(this=column("q"), expression=_zero()), copy=False)
    return dialect.fragment(turns), dialect.fragment(counted)


def clipped_query(vectors: Vectors, clips: Sequence[tuple[int, int]]) -> HistogramQuery:
    """The rows (cell, sums...) of the cells in which a unit has a total: trunc(scale y min(1, length/|y|)) over units.

    `clips`: length and scale of each vector, whose parts come one after the other. A vector that is short enough is
    multiplied in whole numbers; of a longer one each part is rounded towards 0.
    """
    clipped = zip(vectors.numbers, map(_parts, vectors.measures), clips, strict=True)
    source = "n" if vectors.alone else _source(vectors)
    summed = _clipped_sums(vectors.backend.dialect, source, tuple(clipped))
    return vectors.measured.begun().written(summed, vectors.cells, len(vectors.cells), integers=True)


@lru_cache(maxsize=100)
def _clipped_sums(
    dialect: Engine, source: str, clipped: tuple[tuple[int, tuple[str, ...], tuple[int, int]], ...]
) -> str:
    """The sums over units of the parts of clipped vectors, by cell; of each vector its number, parts and clip."""
    columns: list[exp.Expr] = []
    for number, names, (length, scale) in clipped:
        square = column(f"q{number}", table="n")
        short = exp.LTE(this=square, expression=exp.Literal.number(length**2))
        root = exp.Sqrt(this=cast(copied(square), "DOUBLE"))
        factor = paren(exp.Div(this=_double(scale * length * (1 - MARGIN)), expression=root, typed=True))
        for name in names:
            total = column(f"{name}{number}", table=source)
            whole = exp.Mul(this=total, expression=exp.Literal.number(scale))
            size = exp.Mul(this=exp.Abs(this=cast(copied(total), "DOUBLE")), expression=copied(factor))
            sign = case((exp.LT(this=copied(total), expression=_zero()), signed(-1)), otherwise=signed(1))
            shortened = exp.Mul(this=cast(exp.Floor(this=size), "BIGINT"), expression=sign)
            part = case((copied(short), whole), otherwise=shortened)
            summed = exp.Sum(this=dialect.addend(part))
            columns.append(alias(cast(_clamped(summed, LARGEST_SUM), "BIGINT"), f"c{len(columns)}"))
    selected = select(column("cell", table=source), *columns, source=source)
    if source != "n":
        same = exp.EQ(this=column(UNIT, table=source), expression=column(UNIT, table="n"))
        selected = join(selected, "n", same)
    return dialect.fragment(grouped(selected, column("cell", table=source)))


def _parts(measure: Total | Joint) -> tuple[str, ...]:
    if isinstance(measure, Total):
        return ("v",)
    return ("v", "w", "z") if measure.squares else ("v", "w")


def _source(vectors: Vectors) -> str:
    """Where the parts of the vectors are."""
    return "t" if any(isinstance(measure, Joint) for measure in vectors.measures) else "u"


def _measured(vectors: Vectors) -> CellQuery:
    """The query up to `n`, the squares q0, q1 ... of the lengths."""
    query, exact, source = _totals(vectors, about=True), vectors.backend.dialect.exact, _source(vectors)
    vector_of = list(zip(vectors.numbers, vectors.measures, vectors.vectors, strict=True))
    if source != "u":
        about = [part for number, measure, of in vector_of for part in _about(number, measure, of, exact)]
        query.add(source, select("cell", UNIT, *about, source="u"))
    parts: list[exp.Expr] = []
    lengths: list[exp.Expr] = []
    for number, measure, _ in vector_of:
        columns = [column(f"{name}{number}") for name in _parts(measure)]
        squares = [exp.Mul(this=exact(one), expression=exact(copied(one))) for one in columns]
        square: exp.Expr = squares[0]
        for other in squares[1:]:
            square = exp.Add(this=square, expression=other)
        parts += map(copied, columns)
        lengths.append(alias(square if vectors.alone else exp.Sum(this=square), f"q{number}"))
    if vectors.alone:
        query.add("n", select("cell", *parts, *lengths, source=source))
    else:
        query.add("n", grouped(select(column(UNIT), *lengths, source=source), column(UNIT)))
    return query


def _about(
    number: int, measure: Total | Joint, vector: Vector, exact: Callable[[exp.Expr], exp.Expr]
) -> Iterator[exp.Expr]:
    """The parts of a vector, of joint moments about their centre."""
    if isinstance(measure, Total):
        yield column(f"v{number}")
        return
    total, rows = column(f"s{number}"), column(f"m{number}")
    taken = exp.Mul(this=exact(rows), expression=signed(vector.centre))
    away: exp.Expr = exp.Sub(this=exact(total), expression=taken)
    if vector.fine > 1:
        away = exp.Mul(this=paren(away), expression=signed(vector.fine))
    yield alias(cast(_clamped(away, LARGEST_TOTAL), "BIGINT"), f"v{number}")
    weighed = exp.Mul(this=exact(copied(rows)), expression=signed(vector.row * vector.fine))
    yield alias(cast(_clamped(weighed, LARGEST_TOTAL), "BIGINT"), f"w{number}")
    if measure.squares:
        yield column(f"z{number}")


def _in_turn(source: str, anchors: Sequence[int] = (), **columns: Sequence[str]) -> exp.Select:
    """For each row and vector i, from 0: the vector's column under each name, and its anchor b."""
    (number, *_) = columns.values()
    turns = exp.values([(n,) for n in range(len(number))], alias="t", columns=["i"])
    shown = [alias(_of_turn([column(c) for c in of]), name) for name, of in columns.items()]
    if anchors:
        shown.append(alias(_of_turn([_double(anchor) for anchor in anchors]), "b"))
    return join(select("i", *shown, source=source), turns, kind="CROSS")


def _of_turn(values: Sequence[exp.Expr]) -> exp.Expr:
    """The value of the vector i."""
    if len(values) == 1:
        return values[0]
    chosen = exp.Case(this=column("i"))
    for number, value in enumerate(values):
        chosen = chosen.when(exp.Literal.number(number), value)
    return chosen


def _totals(vectors: Vectors, *, about: bool = False) -> CellQuery:
    """The query up to `u`, each unit's totals by cell; `about`: with squares, which are about a centre."""
    measures = tuple(
        m for place in vectors.read if isinstance(m := vectors.node.measures[place], (Total, Joint))
    )
    node = replace(vectors.node, measures=measures, outputs=())
    asked = dict(zip(vectors.numbers, vectors.vectors, strict=True))
    weights = {f"m{n}": vector.multipliers for n, vector in asked.items() if vector.multipliers}
    if not all(1 <= m <= MOST_WEIGHT for of_cells in weights.values() for m in of_cells):
        raise ValueError("a total is multiplied by an integer from 1 to 64")
    query = CellQuery(node, vectors.backend, len(node.keys), typed=True, units_later=True, numbers=weights)
    keys = [column(k) for k in query.keys]
    values = dict(
        chain.from_iterable(
            _written(vectors.backend, node, n, asked.get(n) if about else None) for n in range(len(measures))
        )
    )
    rows = "r"
    if len(measures) == 1 and isinstance(only := measures[0], Total) and only.items:
        # Engines hash rows faster, and in parallel, than they sort those of a COUNT(DISTINCT ...).
        query.add(
            "e", select(column(UNIT), *(copied(k) for k in keys), "x0", source="r").distinct(copy=False)
        )
        rows = "e"
    shown = (alias(value, name) for name, value in values.items())
    units = select(column(UNIT), *keys, *shown, source=rows)
    query.add("pu", grouped(units, column(UNIT), *map(copied, keys)))
    columns = [
        _weighted(name, of) if (of := f"m{name[1:]}") in weights else column(name, table="pu")
        for name in values
    ]
    cells = query.by_cell("pu", vectors.cells).select(column(UNIT, table="pu"), *columns, copy=False)
    query.add("u", query.emitter.of_known_units(cells, "pu"))
    query.keep()
    return query


def _weighted(name: str, multiplier: str) -> exp.Expr:
    """A unit's total by what its cell multiplies it: one integer, of which the length and the sums are made alike."""
    product = exp.Mul(this=column(name, table="pu"), expression=column(multiplier, table="d"))
    return alias(cast(_clamped(product, LARGEST_TOTAL), "BIGINT"), name)


def _written(
    backend: QueryContext, node: AggregateNode, number: int, vector: Vector | None
) -> Iterator[tuple[str, exp.Expr]]:
    """A unit's totals in a group as BIGINTs by name, 0 where it has none; squares are about the centre of `vector`."""
    dialect, measure = backend.dialect, node.measures[number]
    assert isinstance(measure, (Total, Joint))
    if isinstance(measure, Total) and measure.value is None:
        plain = measure.argument is None and not measure.items
        counted: exp.Expr = exp.Star() if plain else column(f"x{number}")
        if measure.items:
            counted = exp.Distinct(expressions=[counted])
        most = 1 if measure.once else LARGEST_TOTAL
        yield f"v{number}", cast(_clamped(exp.Count(this=counted), most), "BIGINT")
        return
    assert measure.value is not None
    name = f"y{list(summed(node)).index((measure.value, measure.argument))}"
    unit = unit_of(measure.value, node.relation, backend.parameters)
    summand = column(name) if unit > 1 else dialect.addend(column(name))
    total = cast(_clamped(dialect.whole(exp.Sum(this=summand), unit), LARGEST_TOTAL), "BIGINT")
    if isinstance(measure, Total):
        yield f"v{number}", total
        return
    yield f"s{number}", total
    yield f"m{number}", cast(exp.Count(this=column(name)), "BIGINT")
    if vector is None or not measure.squares:
        return
    exact = dialect.exact
    away = paren(exp.Sub(this=exact(dialect.whole(column(name), unit)), expression=signed(vector.centre)))
    square = exp.Mul(this=away, expression=copied(away))
    fine = exp.Mul(this=cast(square, "DOUBLE"), expression=_double(vector.fine))
    ratio = exp.Div(this=fine, expression=_double(vector.row), typed=True)
    nearest = exp.Add(this=ratio, expression=exp.Literal.number("0.5"))
    whole = cast(exp.Floor(this=_clamped(nearest, LARGEST_TOTAL)), "BIGINT")
    squares = _clamped(exp.Sum(this=dialect.addend(whole)), LARGEST_TOTAL)
    yield f"z{number}", cast(squares, "BIGINT")


def _counted(value: exp.Expr, name: str, source: str) -> exp.Select:
    """How many rows of each vector have each whole value."""
    whole = alias(cast(value, "BIGINT"), name)
    counted = select("i", whole, alias(exp.Count(this=exp.Star()), "units"), source=source)
    return grouped(counted, exp.Literal.number(1), exp.Literal.number(2))


def _clamped(value: exp.Expr, most: int) -> exp.Expr:
    """A value within +-most, 0 where it is NULL."""
    above = exp.Greatest(this=coalesce(value, _zero()), expressions=[signed(-most)], ignore_nulls=True)
    return exp.Least(this=above, expressions=[signed(most)], ignore_nulls=True)


def _zero() -> exp.Expr:
    return exp.Literal.number(0)


def _double(value: float) -> exp.Expr:
    return cast(exp.Literal.string(repr(float(value))), "DOUBLE")
