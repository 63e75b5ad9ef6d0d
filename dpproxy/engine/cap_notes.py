"""The caps of the policy that may leave rows or groups out of an answer, which no interval of the noise covers."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from rewriter.api import one_row_per_unit, undeclared_end
from rewriter.ir.measure import Count, FixedPoint, Joint, Moment, Quantiles, Running, Total
from rewriter.ir.relation import leaves, stored_name
from rewriter.logical.plan import AggregateNode

BEYOND = "the excess is not counted"
NOT_COVERED = "and the interval does not cover it"
LEFT_OUT = "one unit counts for at most {}: what it has above that is left out"
DERIVED = "the interval of {} is shown by dp_low and dp_high, or SET dpproxy.error_columns = on"
UNKNOWN = "no interval is known for {}"
SWAMPED = "{} is NULL where the noise would swamp it: form fewer groups, or ask about more units"
ROWS_OF_UNIT = "its rows"
LESS_WEIGHT = "{}: where such units differ from the others, it is not that of all rows"

CONTRADICTED = (
    "these answers contradict each other beyond their noise, so nothing is computed from them: {}. "
    "The data owner's list of values may be incomplete"
)


def caps(aggregate: AggregateNode) -> str:
    """Which caps hold for a node's numbers, where its units may have more than that; empty where they cannot."""
    return " and ".join((*_rows(aggregate), *_sums(aggregate), *_groups(aggregate), *_values(aggregate)))


def _rows(aggregate: AggregateNode) -> Iterator[str]:
    """Of the largest number of rows of a unit that any measure counts."""
    for running in (m for m in aggregate.measures if isinstance(m, Running)):
        if not one_row_per_unit(aggregate.relation):
            yield f"{_at_most(running.events, 'row')}, its first"
    most = max(_counted(aggregate), default=None)
    if most is not None and not one_row_per_unit(aggregate.relation, aggregate.keys):
        yield _at_most(most, "row") + (" in a group" if aggregate.keys else "")


def _counted(aggregate: AggregateNode) -> Iterator[int]:
    for output in aggregate.outputs:
        for measure in (aggregate.measures[place] for place in output.measures):
            # With tau 1 a count is one of units, unless it was asked for as one of rows.
            if isinstance(measure, Count):
                if measure.tau > 1 or output.rows:
                    yield measure.tau
            elif (isinstance(measure, Quantiles) and not measure.weighted) or (
                isinstance(measure, Moment) and not measure.whole
            ):
                yield measure.tau


def _sums(aggregate: AggregateNode) -> Iterator[str]:
    if any(isinstance(m, Moment) and m.whole for m in aggregate.measures):
        yield "the sum of one unit counts within its unit_bounds"


def _groups(aggregate: AggregateNode) -> Iterator[str]:
    whole = (m for m in aggregate.measures if isinstance(m, (Total, Joint)) or getattr(m, "weighted", False))
    cut = len(list(whole)) < len(aggregate.measures)
    if aggregate.keys and cut and aggregate.bound.enforce and aggregate.bound.value is not None:
        yield _at_most(aggregate.bound.value, "group")


def _values(aggregate: AggregateNode) -> Iterator[str]:
    """Of the bounds that values are clamped to, unless the query itself keeps a value within narrower ones: declared
    ones, or else those of what is added up."""
    found = {}
    for measure in aggregate.measures:
        value: FixedPoint | None = getattr(measure, "value", None)
        if value is None or getattr(measure, "whole", False):
            continue
        read = sorted(leaves(value.value))
        end = undeclared_end(value, aggregate.relation)
        if end is not None:
            plain = value.value.key == "column"
            shown = f"a value of {stored_name(aggregate.relation, *read[0])}" if plain else "each value"
            found[shown] = f"{shown} counts within {-end:.2g} to {end:.2g}"
            continue
        for alias, name in read:
            column = aggregate.relation.source(alias).table.column(name)
            if column is not None and column.bounds is not None and not _narrower(value, *column.bounds):
                lo, hi = (f"{float(bound):.15g}" for bound in column.bounds)
                shown = stored_name(aggregate.relation, alias, name)
                found[shown] = f"a value of {shown} counts within {lo} to {hi}"
    yield from found.values()


def _narrower(value: FixedPoint, lo: Fraction, hi: Fraction) -> bool:
    if value.lo is None or value.hi is None:
        return False
    step = Fraction(10) ** -value.scale  # large bounds are on a grid coarser than 1
    return lo < value.lo * step and value.hi * step < hi


def _at_most(number: int, what: str) -> str:
    """
    >>> _at_most(1, "row"), _at_most(5, "row")
    ('at most 1 row of one unit counts', 'at most 5 rows of one unit count')
    """
    return f"at most {number} {what}" + (" of one unit counts" if number == 1 else "s of one unit count")
