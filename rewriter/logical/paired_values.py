"""Aggregates of pairs of values, as expressions over averages that are released.

In:  CORR(y, x)
Out: with x' = x - 50 and y' = y - 8, the middles of their bounds, over the rows that have both:
     cov = AVG(x' * y') - AVG(x') * AVG(y'), var_x = AVG(x' * x') - AVG(x') * AVG(x'), var_y likewise;
     cov / SQRT(var_x * var_y)

Where averages are not measured as such, n^2 cov = COUNT(*) * SUM(x' * y') - SUM(x') * SUM(y') stands for cov: one
number of rows serves all, and ratios need not divide by it.

What divides by variances is shown where each is known to half of itself, and the covariance to a quarter of what it is
at most; else it is NULL, since a ratio of noise looks like any other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

from sqlglot import exp

from rewriter.ir.trees import and_, case, cast, copied, func, paren
from rewriter.plan import HIGH, LOW
from rewriter.scalar.value_interval import Interval

PAIRED = (
    *(exp.Corr, exp.CovarPop, exp.CovarSamp, exp.RegrSlope, exp.RegrIntercept, exp.RegrR2),
    *(exp.RegrCount, exp.RegrAvgx, exp.RegrAvgy),
)
ADDED: dict[type[exp.Expr], tuple[str, ...]] = {
    exp.RegrCount: (),
    exp.RegrAvgx: ("expression",),
    exp.RegrAvgy: ("this",),
}
"""The arguments that are added up, of functions that do not add up both."""
DECIDED = "decided"
"""The mark of what is NULL where noise would decide it."""
_ZERO, _ONE = exp.Literal.number(0), exp.Literal.number(1)


@dataclass(frozen=True)
class Side:
    """One of both values, and the constant that it is taken from where it is squared or multiplied."""

    value: exp.Expr
    middle: exp.Expr

    @property
    def centred(self) -> exp.Expr:
        """The value less the constant."""
        value = paren(copied(self.value))
        if self.middle.name == "0":
            return value
        return paren(exp.Sub(this=value, expression=copied(self.middle)))


def around(value: exp.Expr, found: Interval) -> Side:
    """A value with about the middle of its range, in few digits.

    >>> around(exp.column("x"), Interval(Decimal("0.2"), Decimal("0.9"))).centred.sql()
    '((x) - 0.55)'
    """
    middle = Decimal(0)
    if found.lo is not None and found.hi is not None and found.lo < found.hi:
        digits = -Decimal(float((found.hi - found.lo) / 8)).adjusted()
        middle = round(Decimal(float((found.lo + found.hi) / 2)), max(digits, 0))
    return Side(value, exp.Literal.number(format(middle, "f")))


@dataclass(frozen=True)
class PairedValues:
    """Aggregates of the values y and x.

    `measured` gives the released column of an aggregate call over the rows that have both; `averages`: AVG is measured
    as such, rather than as a sum and a number of rows.
    """

    y: Side
    x: Side
    measured: Callable[[exp.Expr], exp.Expr]
    averages: bool

    def value(self, function: exp.Expr) -> exp.Expr:
        """The value of CORR, COVAR_POP or another of PAIRED, in PostgreSQL's type."""
        if isinstance(function, exp.RegrCount):
            return self._count()
        if isinstance(function, (exp.RegrAvgx, exp.RegrAvgy)):
            side = self.x if isinstance(function, exp.RegrAvgx) else self.y
            return cast(self.measured(exp.Avg(this=copied(side.value))), "DOUBLE")
        if isinstance(function, exp.CovarPop):
            return self._by_rows(self._by_rows(self._moment(self.x, self.y)))
        if isinstance(function, exp.CovarSamp):
            covariance = self._by_rows(self._by_rows(self._moment(self.x, self.y)))
            others = paren(exp.Sub(this=self._count(), expression=copied(_ONE)))
            more = exp.Add(this=covariance, expression=_divided(covariance, others))
            return case((exp.GT(this=self._count(), expression=copied(_ONE)), more))
        return self._known(self._quotient(function))

    def _quotient(self, function: exp.Expr) -> exp.Expr:
        covariance, variances = self._moment(self.x, self.y), self._variances()
        squares = _times(*variances)
        if isinstance(function, exp.Corr):
            found = _divided(covariance, exp.Sqrt(this=func("ABS", squares)))
            return func("GREATEST", func("LEAST", found, copied(_ONE)), exp.Neg(this=copied(_ONE)))
        if isinstance(function, exp.RegrR2):
            return func("LEAST", _divided(_times(covariance, covariance), squares), copied(_ONE))
        slope = _divided(covariance, variances[0])
        if isinstance(function, exp.RegrSlope):
            return slope
        y, x = (
            paren(exp.Add(this=self._by_rows(self._sum(side.centred)), expression=copied(side.middle)))
            for side in (self.y, self.x)
        )
        return exp.Sub(this=y, expression=_times(slope, x))

    def _known(self, value: exp.Expr) -> exp.Expr:
        """What divides by the variances, NULL where the noise is too large."""
        variances, covariance = self._variances(), self._moment(self.x, self.y)
        # In absolute terms: all conditions may be evaluated before the first has failed.
        most = exp.Sqrt(this=func("ABS", _times(*variances)))
        error = exp.Sub(this=_end(HIGH, covariance), expression=copied(covariance))
        sure = [exp.GT(this=_end(LOW, v), expression=_times(exp.Literal.number("0.5"), v)) for v in variances]
        near = exp.LTE(this=paren(error), expression=_times(exp.Literal.number("0.25"), most))
        known = case((and_(*sure, near), value))
        known.meta[DECIDED] = True
        return known

    def _count(self) -> exp.Expr:
        """How many rows have both values."""
        return self.measured(exp.Count(this=exp.Star()))

    def _variances(self) -> tuple[exp.Expr, exp.Expr]:
        return self._moment(self.x, self.x), self._moment(self.y, self.y)

    def _moment(self, first: Side, second: Side) -> exp.Expr:
        """The covariance of two sides, times the square of the number of rows where sums are measured."""
        product = self._sum(_times(first.centred, second.centred))
        whole = product if self.averages else _times(self._count(), product)
        sums = _times(self._sum(first.centred), self._sum(second.centred))
        return paren(exp.Sub(this=whole, expression=sums))

    def _sum(self, value: exp.Expr) -> exp.Expr:
        """The average of a value where averages are measured, else its sum."""
        call = exp.Avg(this=value) if self.averages else exp.Sum(this=value)
        return cast(self.measured(call), "DOUBLE")

    def _by_rows(self, value: exp.Expr) -> exp.Expr:
        return value if self.averages else _divided(value, self._count())


def _end(name: str, value: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this=name, expressions=[copied(value)])


def _times(left: exp.Expr, right: exp.Expr) -> exp.Expr:
    return paren(exp.Mul(this=copied(left), expression=copied(right)))


def _divided(left: exp.Expr, right: exp.Expr) -> exp.Expr:
    divisor = func("NULLIF", copied(right), copied(_ZERO))
    return paren(exp.Div(this=copied(left), expression=divisor, typed=True))
