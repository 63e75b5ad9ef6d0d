"""Aggregate calls -> the measures of a node, each once however often it is used, and the outputs made of them.

In:  AVG(amount), SUM(amount), COUNT(amount), VAR_POP(amount)
Out: the sum of amount, the number of rows that have one, the sum of its squares; four outputs
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import ceil, floor
from typing import Literal

from sqlglot import exp

from rewriter.binder.contribution_bounds import Bound, one_row_per_unit, rows_per_group
from rewriter.binder.rejections import clamped, unit_name
from rewriter.binder.value_ranges import Ranges
from rewriter.effort import spend
from rewriter.ir.measure import (
    Count,
    DistinctItems,
    FixedPoint,
    Function,
    Joint,
    Measure,
    Moment,
    Output,
    Quantiles,
    Total,
)
from rewriter.ir.relation import Relation, leaves
from rewriter.ir.texts import sql_text
from rewriter.ir.trees import walk
from rewriter.ir.types import DATED, Type
from rewriter.logical.aggregate_calls import Call, argument, conjunction, present
from rewriter.refusal import Refusal
from rewriter.scalar.typecheck import Parameters, type_of
from rewriter.scalar.value_interval import Interval
from rewriter.syntax.pasted import instead, written

LARGEST = 10**75
"""The largest bound of a value, and the largest constant that it is multiplied with: the square of a value is held by a
double, in which engines compute, and noise has its size."""
MOST = 1 << 40
"""The largest value that is added up, in units of its scale."""
MOST_SQUARED = 1 << 20
MOST_GUESSED = 1 << 20
"""The largest value where the policy says nothing of decimals: more would be lost in the noise."""
MOST_ANCHOR = 1 << 20
"""The largest row of a clipped total: the longest vector that noise can be drawn for has some 70,000 of them."""
LEAST_SHARE = 64
"""A row counts for at least this part of the largest one in the length of a vector of joint moments."""
MOST_WEIGHT = 1 << 6
"""The most rows that those of one unit count for in quantiles: the noise of more could not be drawn."""
UNKNOWN_SCALE = 3
"""The decimals of a number of which the policy says nothing, neither decimals nor bounds."""
FINEST = 9
VARIANCES: tuple[Function, ...] = ("var_samp", "var_pop", "stddev_samp", "stddev_pop")
Part = Literal["count", "units", "items", "sum", "whole", "squares", "joint", "quantiles", "distinct"]
Slot = tuple[Part, str]
"""Which measure: what is measured, and the text of values and condition that tells two of them apart."""


def measures_of(
    calls: list[Call],
    relation: Relation,
    keys: tuple[exp.Expr, ...],
    bound: Bound,
    parameters: Parameters,
    clips: bool,
) -> tuple[tuple[Measure, ...], tuple[Output, ...]]:
    """The measures and outputs of `calls`, one output a call, over groups of `keys`, a unit in `bound` of them.

    With `clips`, numbers of rows and sums are totals of units that are clipped as a whole. Raises Refusal: PV016 where
    a value needs finite bounds and has none, PV017 where nothing bounds the rows of a unit and something has to.
    """
    collector = _Collector(relation, keys, bound, parameters, clips)
    collector.join(calls)
    used = [collector.slots_of(c) for c in calls]
    collector.centre()
    built = [collector.built(s) for s in collector.slots]
    measures = tuple(dict.fromkeys(built))
    outputs = []
    for call, slots in zip(calls, used, strict=True):
        spend(len(measures) // 10)
        if abs(call.factor) > LARGEST:
            raise unbounded(call, type_of(argument(call.text), relation, parameters))
        slots = collector.completed(call, slots)
        places = tuple(measures.index(collector.built(s)) for s in slots)
        outputs.append(Output(call.function, places, call.text, call.factor, call.fraction, _of_rows(call)))
    return measures, tuple(outputs)


@dataclass
class _Collector:
    relation: Relation
    keys: tuple[exp.Expr, ...]
    bound: Bound
    parameters: Parameters
    clips: bool
    slots: dict[Slot, Call] = field(default_factory=dict)
    fractions: dict[Slot, list[Fraction | None]] = field(default_factory=dict)
    centred: set[str] = field(default_factory=set)
    kept: dict[Slot, Measure] = field(default_factory=dict)
    joint: dict[str, Call] = field(default_factory=dict)
    totalled: set[str] = field(default_factory=set)
    squared: set[str] = field(default_factory=set)

    def join(self, calls: list[Call]) -> None:
        """Note what is averaged under clips: its count, sum and squares are one joint measure."""
        for call in calls:
            if (call.function == "avg" or call.function in VARIANCES) and self._clips(call):
                self.joint[_name(call)] = call
                if call.function in VARIANCES:
                    self.squared.add(_name(call))
        self.totalled = {self._joint_name(call) for call in calls if call.function != "avg"}

    def _clips(self, call: Call) -> bool:
        """Whether units' totals are clipped: not where a unit has one row, whose value is bounded."""
        if not self.clips or not one_row_per_unit(self.relation):
            return self.clips
        found = Ranges.of(self.relation, self.parameters, call.argument).interval(call.values[0])
        return found.lo is None or found.hi is None

    def _joint_slot(self, call: Call) -> Slot | None:
        """The joint measure that a call is part of."""
        name = self._joint_name(call)
        return self._slot("joint", name, self.joint[name]) if name in self.joint else None

    def _joint_name(self, call: Call) -> str:
        """The name of the joint measure that a call is part of, if there is one of this name."""
        if call.function in ("sum", "avg", *VARIANCES):
            return _name(call)
        if call.function == "count" and not call.values and not call.units:
            return next((name for name, one in self.joint.items() if self._counts(call, one)), "")
        return ""

    def _counts(self, count: Call, averaged: Call) -> bool:
        """Whether a count of rows is of those that have the value that is averaged."""
        names = {_name(self._count_of(averaged))}
        if self.relation.required(averaged.values[0]):
            names.add(_name(replace(averaged, values=())))
        return _name(count) in names

    def slots_of(self, call: Call) -> list[Slot]:
        """The measures that a call needs, each noted once."""
        name = _name(call)
        if (joint := self._joint_slot(call)) is not None:
            return [joint]
        if call.function == "count":
            kind: Part = "items" if call.values else "units" if call.units else "count"
            return [self._slot(kind, name, call)]
        if call.function == "distinct":
            return [self._slot("distinct", name, call)]
        if call.function in ("cont", "disc"):
            slot = self._slot("quantiles", name, call)
            self.fractions.setdefault(slot, []).append(call.fraction)
            return [slot]
        if call.function == "sum":
            return [self._slot("whole" if self._of_unit(call) else "sum", name, call)]
        squares = [self._slot("squares", name, call)] if call.function in VARIANCES else []
        return [*squares, self._slot("sum", name, call), self._counted(call)]

    def _slot(self, part: Part, name: str, call: Call) -> Slot:
        self.slots.setdefault((part, name), call)
        return part, name

    def _counted(self, call: Call) -> Slot:
        """The count of the rows that have a value."""
        count = self._count_of(call)
        return self._slot("count", _name(count), count)

    def _count_of(self, call: Call) -> Call:
        condition = conjunction(call.argument, present(call.values[0], self.relation))
        return replace(call, function="count", argument=condition, values=())

    def _of_unit(self, call: Call) -> bool:
        value = call.values[0]
        if not isinstance(value, exp.Column):
            return False
        column = self.relation.source(value.table).column(value.name)
        return column.unit_bounds is not None and column.bounds is None

    def centre(self) -> None:
        """Centre the sums whose rows are counted, too: that halves the noise."""
        counted = {name for part, name in self.slots if part == "count"}
        for (part, name), call in list(self.slots.items()):
            if part == "sum" and not self._clips(call) and _name(self._count_of(call)) in counted:
                self.centred.add(name)

    def completed(self, call: Call, slots: list[Slot]) -> list[Slot]:
        """The measures of a call, with the count that undoes the centring of a sum."""
        if call.function == "sum" and slots[0][0] == "sum" and slots[0][1] in self.centred:
            return [*slots, self._counted(call)]
        return slots

    def built(self, slot: Slot) -> Measure:
        """The measure in a slot."""
        if slot not in self.kept:
            self.kept[slot] = self._built(slot, self.slots[slot])
        return self.kept[slot]

    def _built(self, slot: Slot, call: Call) -> Measure:
        part, name = slot
        if part in ("count", "items") and self.clips and not one_row_per_unit(self.relation, self.keys):
            return Total(None, call.argument, 1, items=call.values)
        if part == "joint":
            fixed, anchor = self._anchored(call)
            least = max(1, anchor // LEAST_SHARE)
            return Joint(fixed, call.argument, name in self.squared, least, name not in self.totalled)
        if part == "sum" and self._clips(call):
            fixed, anchor = self._anchored(call)
            return Total(fixed, call.argument, anchor)
        if part in ("count", "units", "items"):
            tau = 1 if part == "units" else self._most(call)
            return Count(call.argument, tau, call.values)
        if part == "distinct":
            return DistinctItems(call.values, call.argument)
        if part == "quantiles":
            fractions = tuple(dict.fromkeys(self.fractions[slot]))
            weighted = self.clips and not one_row_per_unit(self.relation)
            most = self._weight(call) if weighted else self._most(call)
            return Quantiles(self._fixed(call, MOST), call.argument, fractions, most, weighted=weighted)
        if part == "whole":
            return Moment(self._of_units(call), call.argument, 1, False, 1, whole=True)
        most = MOST_SQUARED if ("squares", name) in self.slots else MOST
        # Rows come first: bounds of the values alone would not help.
        tau = self._most(call)
        fixed = self._fixed(call, most)
        if part == "squares":
            return Moment(fixed, call.argument, 2, True, tau)
        return Moment(fixed, call.argument, 1, name in self.centred, tau)

    def _anchored(self, call: Call) -> tuple[FixedPoint, int]:
        """What is added up and the least length of a unit's vector: the largest row, where bounds are declared."""
        value = call.values[0]
        ranges = Ranges.of(self.relation, self.parameters, call.argument)
        found = self._interval(call, ranges)
        if found.lo is not None and found.hi is not None:
            fixed = fixed_point(value, found, MOST, MOST_ANCHOR)
            return fixed, max(abs(fixed.lo or 0), abs(fixed.hi or 0), 1)
        if ranges.pending(value):
            return FixedPoint(value, 0, None, None), 1
        scale = UNKNOWN_SCALE if found.scale is None else found.scale
        if self._since_1970(value):
            scale = 0  # with decimals, the seconds of today are beyond the largest value
        guess = self._interval(call, replace(ranges, guessed=True))
        size = Fraction(1) if guess.lo is None or guess.hi is None else max(abs(guess.lo), abs(guess.hi))
        while size * Fraction(10) ** scale > MOST_ANCHOR:
            scale -= 1
        return FixedPoint(value, scale, 1 - MOST, MOST - 1), max(1, ceil(size * Fraction(10) ** scale))

    def _since_1970(self, value: exp.Expr) -> bool:
        """Whether seconds since 1970 are in a value."""
        epochs = (part for part in walk(value, exp.Extract) if part.name.upper() == "EPOCH")
        return any(type_of(part.expression, self.relation, self.parameters) in DATED for part in epochs)

    def _weight(self, call: Call) -> int:
        """How many rows all of a unit's count for, where nothing has to bound them: what is declared, else one."""
        try:
            return min(self._most(call), MOST_WEIGHT)
        except Refusal:
            return 1

    def _most(self, call: Call) -> int:
        """The most rows of a unit in a group."""
        try:
            return rows_per_group(self.relation, self.bound, self.keys)
        except Refusal as refusal:
            raise _repeated(refusal, call, self.relation) from None

    def _of_units(self, call: Call) -> FixedPoint:
        value = call.values[0]
        column = next(self.relation.source(a).column(c) for a, c in leaves(value))
        lo, hi = column.unit_bounds or (Fraction(0), Fraction(1))
        return fixed_point(value, Interval(lo, hi, column.scale), MOST)

    def _fixed(self, call: Call, most: int) -> FixedPoint:
        value = call.values[0]
        ranges = Ranges.of(self.relation, self.parameters, call.argument)
        found = self._interval(call, ranges)
        if found.lo is None or found.hi is None:
            if ranges.pending(value):
                return FixedPoint(value, 0, None, None)
            raise unbounded(call, type_of(value, self.relation, self.parameters))
        return fixed_point(value, found, most)

    def _interval(self, call: Call, ranges: Ranges) -> Interval:
        """The bounds of what a call adds up; PV016 for those that no double holds, in which engines compute."""
        found = ranges.interval(call.values[0])
        if any(end is not None and abs(end) > LARGEST for end in (found.lo, found.hi)):
            raise unbounded(call, type_of(call.values[0], self.relation, self.parameters))
        return found


def fixed_point(value: exp.Expr, found: Interval, most: int, largest: int = MOST) -> FixedPoint:
    """`value` with as many decimals as it has and as fit: no bound above `largest`, no range above `most`.

    >>> fixed_point(exp.column("x"), Interval(Fraction(0), Fraction(100), 2), MOST).hi
    10000
    """
    lo, hi = found.lo or Fraction(0), found.hi or Fraction(0)
    scale, most = (FINEST, min(most, MOST_GUESSED)) if found.scale is None else (found.scale, most)
    while _too_large(lo, hi, scale, most, largest):
        scale -= 1
    unit = Fraction(10) ** scale
    least = floor(lo * unit)
    return FixedPoint(value, scale, least, max(ceil(hi * unit), least + 1))


def undeclared_end(value: FixedPoint, relation: Relation) -> float | None:
    """Up to where a value counts that has no bounds; None where it has some, or is of a type that holds none beyond."""
    if value.lo != 1 - MOST or value.hi != MOST - 1:
        return None
    small = not walk(value.value, exp.Parameter) and type_of(value.value, relation, ()) in (
        Type.INT2,
        Type.INT4,
    )
    return None if small else float(MOST) / 10**value.scale


def _too_large(lo: Fraction, hi: Fraction, scale: int, most: int, largest: int) -> bool:
    unit = Fraction(10) ** scale
    return max(abs(lo), abs(hi)) * unit >= largest - 1 or (most < MOST and (hi - lo) * unit >= most - 2)


def _repeated(refusal: Refusal, call: Call, relation: Relation) -> Refusal:
    """PV017 with the place of a call, and what counts units in its place."""
    node = call.node.this if isinstance(call.node, exp.Filter) else call.node
    unit, hint = unit_name(relation), refusal.hint
    if isinstance(node, exp.Count) and unit is not None:
        counted = instead(f"COUNT(DISTINCT {unit})", written(node))
        hint = f"Count the units, {counted}. {hint}"
    return Refusal(refusal.code, refusal.message, detail=refusal.detail, hint=hint, position=call.at)


def unbounded(call: Call, of: Type) -> Refusal:
    """PV016: a call over values of type `of` that have no finite bounds."""
    hint = "The data owner can declare bounds."
    node = call.node.this if isinstance(call.node, exp.Filter) else call.node
    shown = "the aggregate" if node is None else written(node)
    if node is not None:
        bounded, value = node.copy(), written(argument(node))
        if call.values and call.values[0] == exp.Extract(
            this=exp.var("EPOCH"), expression=argument(call.text)
        ):
            value = f"EXTRACT(EPOCH FROM {value})"
        argument(bounded).replace(exp.var(clamped(value, of)))
        hint = (
            f"Bound the value, e.g. {instead(written(bounded), shown)}; or the data owner can declare bounds."
        )
    return Refusal(
        "PV016",
        f"{shown} needs finite bounds",
        detail="Without them one person's value could be of any size, and no noise would hide it.",
        hint=hint,
        position=call.at,
    )


def _name(call: Call) -> str:
    values = ", ".join(sql_text(v) for v in call.values)
    return f"{values} | {sql_text(call.argument) if call.argument is not None else ''}"


def _of_rows(call: Call) -> bool:
    return call.function == "count" and not call.units and not call.values
