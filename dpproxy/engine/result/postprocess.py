"""Released columns as functions of released measures: post-processing, exact until a value is shown."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import MAX_PREC, Context, Decimal
from fractions import Fraction

from dpproxy.engine.cap_notes import ROWS_OF_UNIT
from dpproxy.engine.selection.groups import ROWS, SQUARES, SUM, MeasuredColumn, Place
from mechanisms import numeric
from rewriter.api import type_of
from rewriter.ir.measure import Count, Joint, Moment, Output, Quantiles, Total
from rewriter.ir.parameter import Parameters
from rewriter.ir.types import Type
from rewriter.logical.plan import AggregateNode
from rewriter.plan import SIZES, Size

Value = int | Fraction | None
INTEGERS = ("smallint", "integer", "bigint")
_DIGITS, _DECIMALS, _EXACT = Context(prec=40), 16, Context(prec=MAX_PREC)
_EPOCH = dt.datetime(1970, 1, 1)
_DAY = 86400
_KINDS = {Type.DATE: "date", Type.TIMESTAMP: "timestamp", Type.TIMESTAMPTZ: "timestamp"}


@dataclass(frozen=True)
class OutputColumn:
    """One released column: its values, and the standard deviation of each one's noise, empty where it is not known.

    `name`: the client's; `factor`: what is shown under it for each 1 of the aggregate; `aggregate`: the aggregate's own
    name, where there is a factor; `width`: of the 95% interval to both sides, in standard deviations, 0 where it is not
    known; `ends`: in place of that the ends of the intervals themselves, of the type `kind`; `clip`: what one unit
    counts for at most over all groups, in words; `less`: a unit beyond that has less weight than this, empty where only
    what it has above that is left out; `common`: the standard deviation of the part of the noise that all rows share.
    """

    values: tuple[Value, ...]
    deviations: tuple[float, ...] = ()
    name: str = ""
    width: float = 0
    clip: str = ""
    less: str = ""
    factor: float = 1
    aggregate: str = ""
    ends: tuple[tuple[Value, Value], ...] = ()
    kind: str = "numeric"
    common: float = 0

    def size(self, of: Size) -> tuple[Value | float, ...]:
        """Of each value's noise the standard deviation, half the width of its 95% interval, or that interval's ends;
        None where it is not known.

        >>> OutputColumn((7,), (10.0,), width=2).size("w"), OutputColumn((7,), ends=((5, 12),)).size("w")
        ((20.0,), (5,))
        >>> parts = OutputColumn((7,), (5.0,), width=2, common=3.0)
        >>> parts.size("own_e"), parts.size("common_w")
        ((4.0,), (6.0,))
        """
        part, _, of_part = of.rpartition("_")
        if part:
            common = [min(self.common, d) for d in self.deviations]
            own = [math.sqrt(d**2 - c**2) for d, c in zip(self.deviations, common, strict=True)]
            return replace(self, deviations=tuple(own if part == "own" else common)).size(SIZES[of_part])
        if of != "e" and self.ends:
            pairs = zip(self.values, self.ends, strict=True)
            sides = [
                (max((high or 0) - (v or 0), (v or 0) - (low or 0)), low, high) for v, (low, high) in pairs
            ]
            return tuple(side["wlh".index(of)] for side in sides)
        times = {"e": 1.0, "w": self.width}.get(of, 0.0)
        known = [d * times if times and not math.isnan(d) else None for d in self.deviations]
        return tuple(known) or (None,) * len(self.values)

    @property
    def within_noise(self) -> int:
        """How many values are within their own interval of 0; a 0 whose interval is below 1/2 is told."""
        known = zip(self.values, self.deviations, strict=False)
        widths = ((abs(float(v)), self.width * d) for v, d in known if v is not None)
        return sum(0 < size <= width or (not size and width >= 1 / 2) for size, width in widths)


def outputs(
    node: AggregateNode, measured: Mapping[Place, MeasuredColumn], parameters: Parameters = ()
) -> tuple[OutputColumn, ...]:
    """The columns of a node's outputs, in their order."""
    names = node.names or ("",) * len(node.outputs)
    factors = node.factors or (Fraction(1),) * len(node.outputs)
    return tuple(
        _Column(node, output, measured, parameters).named(name, factor)
        for output, name, factor in zip(node.outputs, names, factors, strict=True)
    )


@dataclass(frozen=True)
class _Column:
    node: AggregateNode
    output: Output
    measured: Mapping[Place, MeasuredColumn]
    parameters: Parameters

    def named(self, name: str, factor: Fraction) -> OutputColumn:
        """The column with its name, a constant that it is shown times, and the width of its interval."""
        columns = [m for (place, _), m in self.measured.items() if place in self.output.measures]
        widths = [m.width for m in columns] or [0.0]
        column = self.shown()
        return replace(
            column,
            name=name or self.output.function,
            width=max(widths) if min(widths) else 0,
            kind="interval" if self._counts_seconds() else column.kind,
            clip=self._clip(),
            less=self._less(),
            factor=float(factor),
            aggregate="" if factor == 1 else self.output.function,
        )

    def _counts_seconds(self) -> bool:
        """Whether what is added up is an interval, which is measured in seconds."""
        summed = self.output.function in ("sum", "avg")
        return summed and (
            type_of(self.output.call.this, self.node.relation, self.parameters) is Type.INTERVAL
        )

    def _clip(self) -> str:
        """The length that units' vectors were clipped to: of a total in its own units, of joint moments in rows."""
        measure, place = self._measure(0), self.output.measures[0]
        if not isinstance(measure, (Total, Joint)) or not (length := self.measured[place, SUM].length):
            return ""
        if isinstance(measure, Joint):
            return f"about {_number(self.measured[place, ROWS].length, 'row')}"
        if measure.once:
            return f"about {length**2} group{'s' if length > 1 else ''}"
        if measure.value is not None:
            return _size(length / 10**measure.value.scale)
        return _number(length, "different value" if measure.items else "row")

    def _less(self) -> str:
        """What a unit beyond the clip has less weight than: in an average its rows, in counts of units itself."""
        if self.output.function not in ("count", "sum"):
            return ROWS_OF_UNIT
        measure = self._measure(0)
        return "one unit in each" if isinstance(measure, Total) and measure.once else ""

    def shown(self) -> OutputColumn:
        kind = self.output.function
        if any(m.absent for (place, _), m in self.measured.items() if place in self.output.measures):
            return OutputColumn((None,) * len(self._values(0)))
        if isinstance(self._measure(0), Joint):
            return self._joint()
        if kind == "count" or (kind == "sum" and isinstance(self._measure(0), Count)):
            return self._count()
        if isinstance(self._measure(0), Total):
            return self._total_sum()
        if kind == "sum":
            return self._sum()
        if kind == "avg":
            return self._average()
        if kind in ("distinct", "running"):
            return OutputColumn(self._values(0), self._deviations(0))
        if kind in ("cont", "disc"):
            return self._quantile()
        return OutputColumn(tuple(map(self._spread, *(self._values(n) for n in range(3)))))

    def _measure(self, place: int) -> object:
        return self.node.measures[self.output.measures[place]]

    def _values(self, place: int) -> tuple[int, ...]:
        return self.measured[self.output.measures[place], None].values

    def _deviations(self, place: int) -> tuple[float, ...]:
        return self.measured[self.output.measures[place], None].deviations

    @property
    def _moment(self) -> Moment:
        moment = next(m for m in map(self._measure, range(2)) if isinstance(m, Moment) and m.power == 1)
        assert moment.value.lo is not None
        assert moment.value.hi is not None
        return moment

    @property
    def _ends(self) -> tuple[int, int]:
        value = self._moment.value
        return value.lo or 0, value.hi or 0

    @property
    def _unit(self) -> Fraction:
        first = self._measure(0)
        value = first.value if isinstance(first, (Total, Joint)) else self._moment.value
        return self.output.factor / Fraction(10) ** (0 if value is None else value.scale)

    def _count(self) -> OutputColumn:
        factor = _plain(self.output.factor)
        values = tuple(_plain(v * factor) for v in self._values(0))
        size = abs(float(factor))
        common = self.measured[self.output.measures[0], None].common
        return OutputColumn(values, tuple(d * size for d in self._deviations(0)), common=common * size)

    def _total(self, moment: int, count: int) -> Fraction:
        lo, hi = self._ends
        return numeric.uncentred(moment, count, lo, hi) if self._moment.centred else Fraction(moment)

    def _sum(self) -> OutputColumn:
        unit, size = _plain(self._unit), len(self._values(0))
        if not self._moment.centred:
            values = tuple(_plain(v * unit) for v in self._values(0))
            return OutputColumn(values, tuple(d * abs(float(unit)) for d in self._deviations(0)))
        middle = sum(self._ends) / 2
        pairs = zip(self._deviations(0), self._deviations(1), strict=True)
        spread = tuple(math.hypot(m / 2, middle * c) * abs(float(unit)) for m, c in pairs)
        totals = (self._total(self._values(0)[n], self._values(1)[n]) for n in range(size))
        return OutputColumn(tuple(_plain(t * unit) for t in totals), spread)

    def _total_sum(self) -> OutputColumn:
        unit = _plain(self._unit)
        values = tuple(_plain(v * unit) for v in self._values(0))
        return OutputColumn(values, tuple(d * abs(float(unit)) for d in self._deviations(0)))

    def _joint(self) -> OutputColumn:
        """A column of joint moments: of what rows have above a centre the sum, their number, the sum of its squares."""
        place, kind, unit = self.output.measures[0], self.output.function, self._unit
        sums, rows = self.measured[place, SUM], self.measured[place, ROWS]
        centre, size = sums.centre, abs(float(unit))
        if kind == "count":
            factor = _plain(self.output.factor)
            spread = tuple(d * abs(float(factor)) for d in rows.deviations)
            return OutputColumn(tuple(_plain(n * factor) for n in rows.values), spread)
        pairs = list(zip(sums.values, rows.values, sums.deviations, rows.deviations, strict=True))
        if kind == "sum":
            totals = tuple(_plain((s + centre * n) * unit) for s, n, _, _ in pairs)
            return OutputColumn(totals, tuple(math.hypot(d, centre * e) * size for _, _, d, e in pairs))
        # Where the noise leaves nothing of the number of rows, it leaves nothing of an average.
        above = [Fraction(s, n) if n > rows.width * e else None for s, n, _, e in pairs]
        if kind == "avg":
            means = tuple(None if a is None else _plain((centre + a) * unit) for a in above)
            spread = tuple(
                math.nan if a is None else math.hypot(d, float(a) * e) / n * size
                for a, (_, n, d, e) in zip(above, pairs, strict=True)
            )
            return self._within(OutputColumn(means, spread))
        squares = self.measured[place, SQUARES].values
        return OutputColumn(tuple(map(self._variance, above, squares, rows.values)))

    def _within(self, column: OutputColumn) -> OutputColumn:
        """Averages within the bounds of the value; NULL where the noise is larger than these are wide."""
        measure, unit = self._measure(0), self._unit
        assert isinstance(measure, Joint)
        ends = sorted([(measure.value.lo or 0) * unit, (measure.value.hi or 0) * unit])
        width = float(ends[1] - ends[0])
        values = tuple(
            None if v is None or d > width else _plain(min(max(Fraction(v), ends[0]), ends[1]))
            for v, d in zip(column.values, column.deviations, strict=True)
        )
        return replace(column, values=values)

    def _variance(self, above: Fraction | None, squares: int, rows: int) -> Value:
        """VAR or STDDEV of one group from its average above the centre, and the squares about the centre."""
        function = self.output.function
        if above is None:
            return None
        fixed = numeric.variance(Fraction(squares), above * rows, rows, sample=function.endswith("samp"))
        if fixed is None:
            return None
        variance = fixed * self._unit**2
        return variance if function.startswith("var") else Fraction(math.sqrt(variance))

    def _average(self) -> OutputColumn:
        lo, hi = self._ends
        pairs = list(zip(self._values(0), self._values(1), strict=True))
        means = [numeric.average(self._total(m, c), c, lo, hi) for m, c in pairs]
        middle = Fraction(lo + hi, 2) if self._moment.centred else Fraction(0)
        half = 2 if self._moment.centred else 1
        spread = []
        for (_, count), mean, m, c in zip(
            pairs, means, self._deviations(0), self._deviations(1), strict=True
        ):
            known = math.nan if mean is None else math.hypot(m / half, float(mean - middle) * c) / count
            spread.append(known * abs(float(self._unit)))
        values = tuple(None if mean is None else _plain(mean * self._unit) for mean in means)
        return OutputColumn(values, tuple(spread))

    def _quantile(self) -> OutputColumn:
        """The value shown for the bin that holds the quantile, within the range."""
        measure, fraction = self._measure(0), self.output.fraction
        assert isinstance(measure, Quantiles)
        assert fraction is not None
        chosen = self.measured[self.output.measures[0], fraction]
        assert chosen.bins is not None
        unit, real = self.output.factor / Fraction(10) ** measure.value.scale, self.output.function == "disc"
        most = measure.value.hi or 0
        values = (
            min(chosen.bins.shown(place, fraction, real=real), Fraction(most)) for place in chosen.values
        )
        bins = chosen.bins
        ends = [(bins.ends(first)[0], min(bins.ends(last)[1], most)) for first, last in chosen.ends]
        sides = [sorted((low * unit, high * unit)) for low, high in ends]
        return OutputColumn(
            tuple(_plain(v * unit) for v in values),
            ends=tuple((_plain(low), _plain(high)) for low, high in sides),
            kind=_KINDS.get(type_of(measure.value.value, self.node.relation, self.parameters), "numeric"),
        )

    def _spread(self, squares: int, moment: int, count: int) -> Value:
        """VAR or STDDEV of one group; centred moments are of 2x - lo - hi."""
        function = self.output.function
        sample = function.endswith("samp")
        fixed = numeric.variance(Fraction(squares), Fraction(moment), count, sample=sample)
        if fixed is None:
            return None
        variance = fixed * self._unit**2 / (4 if self._moment.centred else 1)
        return variance if function.startswith("var") else Fraction(math.sqrt(variance))


def _size(number: float) -> str:
    """
    >>> _size(0.25), _size(12_800.0), _size(53_817_371_000.0)
    ('0.25', '12,800', '53,817,371,000')
    """
    return f"{number:,.0f}" if number >= 10**6 else f"{number:,.10g}"


def _number(number: int, of: str) -> str:
    """
    >>> _number(1, "row"), _number(12_800, "row")
    ('1 row', '12,800 rows')
    """
    return f"{number:,} {of}{'s' if number != 1 else ''}"


def _plain(value: Fraction | int) -> int | Fraction:
    return int(value) if value == int(value) else Fraction(value)


def written(value: Value, type_name: str) -> str | None:
    """A value as PostgreSQL reads it as the type; dates count in days, timestamps in seconds since 1970,
    intervals in seconds.

    >>> written(Fraction(5, 2), "bigint"), written(Fraction(1, 3), "numeric"), written(19723, "date")
    ('2', '0.3333333333333333', '2024-01-01')
    >>> written(Fraction(-180_001, 2), "interval"), written(Fraction(10**40, 3), "numeric")[-20:]
    ('-1 days -3600.5 seconds', '333.3333333333333333')
    """
    if value is None:
        return None
    if type_name in INTEGERS:
        return str(round(value))
    if type_name == "date":
        return (_EPOCH + dt.timedelta(days=math.floor(value))).date().isoformat()
    if type_name.startswith("timestamp"):
        return (_EPOCH + dt.timedelta(seconds=float(value))).isoformat(" ")
    if type_name == "interval":
        days = int(value / _DAY)
        return f"{days} days {_decimal(round(Fraction(value - days * _DAY), 6))} seconds"
    if type_name in ("double precision", "real"):
        return repr(float(value))
    return _decimal(Fraction(value))


def _decimal(value: Fraction) -> str:
    exact = _DIGITS.divide(Decimal(value.numerator), Decimal(value.denominator))
    if Fraction(exact) == value:
        return format(exact, "f")
    return format(Decimal(round(value * 10**_DECIMALS)).scaleb(-_DECIMALS, _EXACT), "f")


def column(values: Sequence[Value], type_name: str) -> tuple[str | None, ...]:
    """A column's values as PostgreSQL reads them as the type."""
    return tuple(written(v, type_name) for v in values)
