"""Enforces the bounds on one unit's contribution in the emitted SQL, even if the calculus is wrong.

A price assumes that a unit is in at most delta0 groups, that it adds at most so much to each, and that its removal
changes no row of another unit. Where that was inferred wrongly the SQL costs accuracy, never privacy. The proofs are
in enforcement.md.

- `Held` says how the SQL keeps a unit to its groups: a keyed rank keeps delta0 of them, a minimum keeps one.
- `reach` says between which numbers a unit's part of a sum is clamped.
- `check_units` refuses to write SQL in which rows of several units meet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from rewriter.binder.contribution_bounds import Bound, apart_on_unit
from rewriter.ir.measure import Moment
from rewriter.ir.relation import Relation, SemiJoin, equated, is_inner_unit, kinds


@dataclass(frozen=True)
class Held:
    """In how many groups the SQL keeps a unit: `most` (None: any number), `ranked` by a keyed order of its own.

    Without a rank the calculus has inferred a single group. Then a unit's rows are combined regardless of
    their groups, so the inference only predicts which group that is.
    """

    most: int | None
    ranked: bool

    @property
    def one(self) -> bool:
        """Whether a unit's rows are put together without a rank."""
        return self.most == 1 and not self.ranked

    def grouped(self, keys: Sequence[str]) -> Sequence[str]:
        """The keys that a unit's rows are grouped by, beside the unit."""
        return () if self.one else keys


def held(bound: Bound, keys: Sequence[object], delta0: int | None) -> Held:
    """How a unit is kept to the `delta0` groups of `keys` that a price assumes; None assumes nothing.

    >>> held(Bound(1, False), ("country",), 1).one, held(Bound(3, True), ("device",), 3)
    (True, Held(most=3, ranked=True))
    >>> held(Bound(1, False), (), 1), held(Bound(None, False), ("device",), None)
    (Held(most=None, ranked=False), Held(most=None, ranked=False))
    """
    if not keys or delta0 is None:
        return Held(None, False)
    return Held(delta0, bound.enforce or delta0 != 1)


def reach(measure: Moment) -> tuple[int, int]:
    """The least and the most that a unit with rows can add to a group's sum: up to tau rows of the clamped value.

    >>> from rewriter.ir.measure import FixedPoint
    >>> value = FixedPoint(exp.column("x"), 0, -5, 10)
    >>> [reach(Moment(value, None, power, centred, 2)) for power in (1, 2) for centred in (False, True)]
    [(-10, 20), (-30, 30), (0, 200), (0, 450)]
    """
    lo, hi = measure.value.lo or 0, 1 if measure.value.hi is None else measure.value.hi
    if measure.centred:
        lo, hi = lo - hi, hi - lo
    if measure.power == 2:
        lo, hi = (0 if lo <= 0 <= hi else min(lo * lo, hi * hi)), max(lo * lo, hi * hi)
    return min(lo, measure.tau * lo), max(hi, measure.tau * hi)


def check_units(relation: Relation) -> None:
    """Raises ValueError where private rows are joined, or looked up, other than on the unit of one kind.

    The analysis refuses such queries with a message; this check stops the ones that it missed.
    """
    if len(kinds(relation)) > 1:
        raise ValueError("private rows of two kinds of units meet")
    if relation.private and apart_on_unit(relation) is not None:
        raise ValueError("private rows are joined on something else than the unit")
    for join in relation.semi_joins:
        if join.relation.private and not _looks_at_own_rows(join, relation):
            raise ValueError("private rows are looked up by something else than the unit")


def _looks_at_own_rows(join: SemiJoin, relation: Relation) -> bool:
    equalities = [columns for columns in map(equated, join.across) if columns is not None]
    pairs: list[tuple[exp.Expr, exp.Expr]] = [*equalities, *((two, one) for one, two in equalities)]
    if join.value is not None and join.output is not None:
        pairs.append((join.value, join.output))
    return any(is_inner_unit(one, relation) and is_inner_unit(two, join.relation) for one, two in pairs)


def check_window(window: exp.Expr, relation: Relation) -> None:
    """Raises ValueError for a window over rows of several units."""
    if not any(is_inner_unit(part, relation) for part in window.args["partition_by"]):
        raise ValueError("a window is not partitioned by the unit")
