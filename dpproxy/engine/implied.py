"""Answers that are implied by what an account has bought: sums and choices of released cells, computed for nothing.

In:  SUM(x) GROUP BY week, bought; SUM(x) WHERE week <= 4 is asked
Out: the sum of four released values, with the deviation of four independent noises

The match reads text, policy and public facts alone; values are those of releases that the account has paid for.
Nothing that is computed here is stored.

Why, and what implies what: docs/decisions/implied-answers.md.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from itertools import chain, combinations, islice

from budget.account import Charge, OwnedMeasure
from dpproxy.engine.cap_notes import caps
from dpproxy.engine.group_selection import ROWS, SUM, FullDomain, MeasuredColumn, Place
from dpproxy.engine.measurement.base import SumMeasurement
from dpproxy.engine.measurement.totals import TotalsMeasurement
from dpproxy.engine.optimizer import MOST_COMPLETE, part
from dpproxy.engine.precision import combined
from dpproxy.engine.release_plan import ReleasePlan
from dpproxy.engine.released_table import ReleasedTable
from mechanisms.unit_clip import UnitClip
from rewriter.api import Measured, Outline, Part, Role, cells_query, of_units
from rewriter.plan import Cell
from rewriter.refusal import Refusal

MOST_SUBSETS = 64
"""Of a question's filters, that are looked up for each measure."""
MOST_LOST = 1 / 4
"""Of totals that clips may have left out, where an implied answer is taken in place of a fresh one."""
ROUNDING = 1.01
"""Of deviations that are compared: a mean of rungs is rounded to whole numbers."""

Rows = Callable[[str], Sequence[Cell]]
"""Runs a query over constants at the front."""
Stored = Callable[[bytes], tuple[bytes, Charge] | None]
"""Gives a stored answer by its release key."""
Members = tuple[tuple[int, ...], ...]
"""Of each cell that is asked for, the released ones that it is made of."""


@dataclass(frozen=True)
class Groups:
    """What the ledger notes of the groups in which a measure was released.

    Attributes:
        asked: the question, in words.
        keys, types: what names each key, and its type in PostgreSQL.
        units: what the measurement cost, as a level.
        alone: the form of the question says that a unit is in one group.
        caps: how much of one unit counted at most.
        allowed: by place, how many units a clip of totals may leave something out of, 0 where nothing is clipped.
        gaps: the keys by whose NULL there are rows in no group.
    """

    asked: str
    keys: tuple[str, ...]
    types: tuple[str, ...]
    units: str
    alone: bool
    caps: str
    allowed: tuple[int, ...]
    gaps: tuple[int, ...]

    @staticmethod
    def load(text: str) -> Groups:
        read = json.loads(text)
        return Groups(**read | {name: tuple(read[name]) for name in ("keys", "types", "allowed", "gaps")})


@dataclass(frozen=True)
class ImpliedAnswer:
    """An answer of which some need not be bought.

    Attributes:
        table: its rows, of the measures that are implied.
        sources: the request keys of the answers that it is computed from.
        within: its error is at most that of a fresh answer, as far as that is known beforehand.
        places: of these measures in their plan.
        rest: the plan of the other measures, which have to be bought; None without any.
    """

    table: ReleasedTable
    sources: tuple[bytes, ...]
    within: bool
    places: tuple[int, ...]
    rest: ReleasePlan | None

    @property
    def source(self) -> str:
        """Where it is from, with the names of its columns where it has not all of them."""
        if self.rest is None:
            return self.table.source
        names = dict.fromkeys(column.name for column in self.table.columns)
        return f"{', '.join(names)} {self.table.source}"

    def with_rest(self, plan: ReleasePlan, bought: ReleasedTable) -> ReleasedTable:
        """The answer of the whole `plan`, from the rest as it was bought."""
        others = [n for n in range(len(plan.node.aggregate.measures)) if n not in self.places]
        measured = {(self.places[n], at): column for (n, at), column in self.table.measured.items()}
        measured |= {(others[n], at): column for (n, at), column in bought.measured.items()}
        mechanisms = dict.fromkeys((self.table.mechanism, bought.mechanism))
        table = plan.implied(measured, ", ".join(mechanisms))
        return replace(
            table,
            caps="; ".join(dict.fromkeys(filter(None, (self.table.caps, bought.caps)))),
            source=self.source,
            charged=bought.charged,
            left=bought.left,
            replayed=bought.replayed,
        )


@dataclass(frozen=True)
class _Candidate:
    """What one question's place would be, from some groupings of the measure."""

    parts: Mapping[Fraction | None, MeasuredColumn]
    owned: tuple[OwnedMeasure, ...]
    mechanism: str
    lost: float
    within: bool

    @property
    def rank(self) -> tuple[bool, float]:
        return not self.within, max(self.parts[SUM].deviations)

    @property
    def unclipped(self) -> bool:
        """Whether it has nothing but noise, which is independent of that of other groupings."""
        return not any(column.length or column.common for column in self.parts.values())

    @property
    def groups(self) -> list[Groups]:
        """In which groups it was measured, the earliest purchase first."""
        return [Groups.load(one.groups) for one in sorted(self.owned, key=lambda one: one.bought_at)]


@dataclass(frozen=True)
class Implied:
    """By its place in a plan, the best candidate of each measure that has one."""

    plan: ReleasePlan
    best: Mapping[int, _Candidate]

    @property
    def whole(self) -> ImpliedAnswer | None:
        """The answer without a purchase, None where a measure is missing."""
        places = range(len(self.plan.node.aggregate.measures))
        return self._answer(tuple(places), None) if self.best.keys() >= set(places) else None

    def partial(self, *, always: bool) -> ImpliedAnswer | None:
        """The measures that have the error of a fresh answer, or any error, where others do not; None without both."""
        measures = set(range(len(self.plan.node.aggregate.measures)))
        taken = {place for place, one in self.best.items() if always or one.within}
        used_by = [set(output.measures) for output in self.plan.node.aggregate.outputs]
        while split := [used for used in used_by if used & taken and not used <= taken]:
            taken -= {place for used in split for place in used}
        if not taken or taken == measures:
            return None
        return self._answer(tuple(sorted(taken)), part(self.plan, sorted(measures - taken)))

    def _answer(self, places: tuple[int, ...], rest: ReleasePlan | None) -> ImpliedAnswer:
        plan = self.plan if rest is None else part(self.plan, places)
        chosen = [self.best[place] for place in places]
        measured: dict[Place, MeasuredColumn] = {
            (n, at): column for n, one in enumerate(chosen) for at, column in one.parts.items()
        }
        table = plan.implied(measured, ", ".join(dict.fromkeys(one.mechanism for one in chosen)))
        caps = (groups.caps for one in chosen for groups in one.groups)
        capped = "; ".join(dict.fromkeys(filter(None, caps)))
        return ImpliedAnswer(
            replace(table, caps=capped, source=f"from {', '.join(dict.fromkeys(map(_said, chosen)))}"),
            tuple({one.request_key: one for candidate in chosen for one in candidate.owned}),
            all(one.within for one in chosen),
            places,
            rest,
        )


Wanted = tuple[int, Role]
"""A measure's place in its plan, and what is looked for: itself, or what it can be made of."""
Sought = dict[bytes, list[tuple[Wanted, tuple[Part, ...]]]]
Noted = tuple[Mapping[bytes, int], str]
NOTHING: Noted = {}, ""


def measures(plan: ReleasePlan) -> Noted:
    """What the ledger notes when a plan is bought: its measures' places by their keys, and their groups."""
    weighted = any(isinstance(meter, TotalsMeasurement) and meter.weights for meter in plan.meters)
    if weighted or (asked := _outline(plan)) is None:
        return NOTHING  # a length of weighted vectors says nothing of what it leaves out of a sum
    if (gaps := asked.gaps(plan.node.cells or ())) is None:
        return NOTHING
    node = plan.node
    found = {
        _key(plan, measured, measured.filters): place
        for place, measured in enumerate(asked.measures)
        if measured is not None
    }
    groups = Groups(
        node.asked,
        _key_names(plan, asked),
        node.types,
        str(plan.terms.units),
        node.aggregate.bound.value == 1 and not node.aggregate.bound.enforce,
        caps(node.aggregate),
        _allowed(plan),
        gaps,
    )
    return found, json.dumps(asdict(groups), separators=(",", ":"))


def sought(plan: ReleasePlan) -> Sought:
    """The keys of measures that may imply those of a plan: by each the places, and the filters left for cells."""
    found: Sought = {}
    if (asked := _outline(plan)) is None:
        return found
    for place, itself in enumerate(asked.measures):
        forms: dict[Role, Measured] = {} if itself is None else {"itself": itself, **itself.others}
        for role, measured in forms.items():
            sizes = range(len(measured.filters) + 1)
            subsets = chain.from_iterable(combinations(measured.filters, size) for size in sizes)
            for left in islice(subsets, MOST_SUBSETS):
                kept = [part for part in measured.filters if part not in left]
                found.setdefault(_key(plan, measured, kept), []).append(((place, role), left))
    return found


def _key(plan: ReleasePlan, measured: Measured, filters: Iterable[Part]) -> bytes:
    names = sorted(plan.keys.part(part.identity) for part in filters)
    return plan.keys.measure(measured.text, measured.scanned, names)


def implied(
    plan: ReleasePlan, keys: Sought, owned: Iterable[OwnedMeasure], stored: Stored, rows: Rows
) -> Implied:
    """What of a plan follows from measures that its account owns, by the `keys` of `sought`."""
    return Implied(plan, _best(plan, keys, owned, stored, rows))


def largest(plan: ReleasePlan, answer: ImpliedAnswer) -> ImpliedAnswer:
    """The answer of a top k from that of all its groups: the k largest by the count that it has.

    Whoever buys it afresh gets better ranks.
    """
    table, place = answer.table, plan.node.aggregate.order_by
    assert place is not None
    counts = table.measured[place, SUM].values
    order = sorted(range(len(counts)), key=lambda n: -counts[n])[: plan.k]
    measured = {
        at: replace(
            column,
            values=tuple(column.values[n] for n in order),
            deviations=tuple(column.deviations[n] for n in order),
        )
        for at, column in table.measured.items()
    }
    keys = tuple(tuple(key[n] for n in order) for key in table.keys)
    shown = plan.shown(replace(table, keys=keys, measured=measured))
    return replace(answer, table=replace(shown, caps=table.caps), within=False)


def _best(
    plan: ReleasePlan, keys: Sought, owned: Iterable[OwnedMeasure], stored: Stored, rows: Rows
) -> dict[int, _Candidate]:
    """The best candidate of each place that has one."""
    groupings: dict[tuple[Wanted, tuple[Part, ...], Groups], list[OwnedMeasure]] = {}
    for one in owned:
        groups = replace(Groups.load(one.groups), asked="", units="", caps="", allowed=())
        for wanted, left in keys[one.key]:
            groupings.setdefault((wanted, left, groups), []).append(one)
    candidates: dict[Wanted, list[_Candidate]] = {}
    for ((place, role), left, groups), found in groupings.items():
        if _query(plan, left, groups, ()) is None:
            continue  # before answers are read
        if made := [*_candidates(plan, place, left, found, stored, rows)]:
            candidates.setdefault((place, role), []).extend(made)
    best = {wanted: _together(plan, wanted[0], found) for wanted, found in candidates.items()}
    places = range(len(plan.node.aggregate.measures))
    return {place: of for place in places if (of := _made(best, place)) is not None}


def _made(best: Mapping[Wanted, _Candidate], place: int) -> _Candidate | None:
    """A measure itself, or made of others: a sum of an average, an average of a sum and rows. A fresh one has its own
    length, so that nothing is certain of its error."""
    if (itself := best.get((place, "itself"))) is not None:
        return itself
    if (joint := best.get((place, "joint"))) is not None:
        total = summed(joint.parts[SUM], joint.parts[ROWS], clipped=bool(joint.lost))
        return replace(joint, parts={SUM: total}, within=False)
    sums, rows = best.get((place, "sum")), best.get((place, "rows"))
    if sums is None or rows is None:
        return None
    return _Candidate(
        {SUM: sums.parts[SUM], ROWS: rows.parts[SUM]},
        (*sums.owned, *rows.owned),
        ", ".join(dict.fromkeys((sums.mechanism, rows.mechanism))),
        max(sums.lost, rows.lost),
        False,
    )


def summed(above: MeasuredColumn, rows: MeasuredColumn, *, clipped: bool) -> MeasuredColumn:
    """The sums of what rows have above a centre, and of the centre for each row, whose noise is independent; what clips
    leave out of both, for which deviations allow where they are `clipped`, adds up.

    `length`: a unit counts for at most so much, since both parts are within one length.

    >>> above, rows = MeasuredColumn((5,), (3.0,), centre=10, length=50), MeasuredColumn((7,), (0.4,), length=8)
    >>> total = summed(above, rows, clipped=False)
    >>> total.values, total.deviations, total.centre, total.length
    ((75,), (5.0,), 0, 130)
    """
    centre = above.centre
    return replace(
        above,
        values=tuple(v + centre * n for v, n in zip(above.values, rows.values, strict=True)),
        deviations=tuple(
            d + abs(centre) * e if clipped else math.hypot(d, centre * e)
            for d, e in zip(above.deviations, rows.deviations, strict=True)
        ),
        centre=0,
        length=above.length + abs(centre) * rows.length,
    )


def _together(plan: ReleasePlan, place: int, candidates: Sequence[_Candidate]) -> _Candidate:
    """The best candidate, or of units' counts the mean of those without clips, each cell by inverse variance.

    Where rows of a unit are left out, those of different groupings differ.
    """
    best = min(candidates, key=lambda one: one.rank)
    alike = [one for one in candidates if one.unclipped]
    if not of_units(plan.node.aggregate.measures[place]) or len(alike) < 2 or not best.unclipped:
        return best
    parts = {part: combined([one.parts[part] for one in alike]) for part in best.parts}
    return _Candidate(
        parts,
        tuple(owned for one in alike for owned in one.owned),
        ", ".join(dict.fromkeys(one.mechanism for one in alike)),
        0,
        best.within or _within(plan, place, parts[SUM], Fraction(0), 0),
    )


def _said(candidate: _Candidate) -> str:
    bought = min(one.bought_at for one in candidate.owned).astimezone(dt.UTC)
    allowance = f" (intervals allow for {candidate.lost:.0%} that clips left out)" if candidate.lost else ""
    asked = ", and ".join(dict.fromkeys(groups.asked for groups in candidate.groups))
    return f"{asked}, bought {bought:%Y-%m-%d %H:%M} UTC{allowance}"


def _outline(plan: ReleasePlan) -> Outline | None:
    """The outline of a plan whose measures are noise on every cell of a known domain; None for others, and for more
    cells than the front is asked about."""
    selection = plan.selection
    whole = isinstance(selection, FullDomain) and bool(plan.meters) and selection.most <= MOST_COMPLETE
    return plan.node.outline if whole and not plan.node.waits else None


def _key_names(plan: ReleasePlan, asked: Outline) -> tuple[str, ...]:
    return tuple(plan.keys.part(key.identity).hex() for key in asked.keys)


def _candidates(
    plan: ReleasePlan,
    place: int,
    left: tuple[Part, ...],
    owned: Sequence[OwnedMeasure],
    stored: Stored,
    rows: Rows,
) -> Iterable[_Candidate]:
    """The answers of one place from measurements in the same groups; those under one length are combined."""
    by_law: dict[tuple[object, ...], list[tuple[OwnedMeasure, ReleasedTable]]] = {}
    for one in {one.release_key: one for one in owned}.values():
        if (answer := stored(one.release_key)) is None:
            continue
        table = ReleasedTable.load(answer[0])
        column = table.measured[one.place, SUM]
        if not column.absent and column.deviations:
            law = table.keys, column.length, column.centre, column.width
            by_law.setdefault(law, []).append((one, table))
    for found in by_law.values():
        (first, table), groups = found[0], Groups.load(found[0][0].groups)
        cells = tuple(zip(*table.keys, strict=True)) if table.keys else ((),)
        members = _members(plan, left, groups, cells, rows)
        if members is None:
            continue
        measure = plan.node.aggregate.measures[place]
        several = any(len(cell) > 1 for cell in members)
        if several and of_units(measure) and not groups.alone:
            continue
        places = [part for of, part in table.measured if of == first.place]
        columns = {part: combined([t.measured[o.place, part] for o, t in found]) for part in places}
        if several and any(column.common for column in columns.values()):
            continue  # counts of units, each in one cell, have no noise in common
        same = members == tuple((n,) for n in range(len(cells)))
        share = 0 if same else lost(columns.get(ROWS, columns[SUM]), groups.allowed[first.place])
        parts = {part: added(column, members, share) for part, column in columns.items()}
        units = sum((Fraction(Groups.load(o.groups).units) for o, _ in found), Fraction(0))
        yield _Candidate(
            parts,
            tuple(o for o, _ in found),
            re.sub(r" x\d+", "", table.mechanism),
            share,
            _within(plan, place, parts[SUM], units, share),
        )


def lost(column: MeasuredColumn, allowed: int) -> float:
    """About the share of totals that a clip has left out, at most: as if each of the units that the choice of a length
    allows for had a third more than that.

    It adds up over cells as noise does not. What noise adds to the vector's length is taken off.

    >>> lost(MeasuredColumn((3000, 4000), (1.0, 1.0), length=100), 20)
    0.133333
    """
    noise = sum(d * d for d in column.deviations)
    vector = max(sum(v * v for v in column.values) - noise, min(column.deviations) ** 2)
    return round(min(1.0, allowed * column.length / (3 * math.sqrt(vector))), 6)


def added(column: MeasuredColumn, members: Members, share: float = 0) -> MeasuredColumn:
    """The sums of cells, whose noise is independent; intervals are wider by `share` of a sum.

    >>> both = added(MeasuredColumn((1, 5, 7), (3.0, 4.0, 1.0), width=2), ((0, 1), (2,)))
    >>> both.values, both.deviations
    ((6, 7), (5.0, 1.0))
    """
    values = tuple(sum(column.values[n] for n in cell) for cell in members)
    noise = (math.hypot(*(column.deviations[n] for n in cell)) for cell in members)
    wider = (share * abs(value) / (column.width or 1) for value in values)
    return replace(column, values=values, deviations=tuple(map(sum, zip(noise, wider, strict=True))))


def _allowed(plan: ReleasePlan) -> tuple[int, ...]:
    """By place, how many units' vectors may be longer than the length that is chosen for them."""
    allowed = [0] * len(plan.node.aggregate.measures)
    for meter in plan.meters:
        if isinstance(meter, TotalsMeasurement):
            for place, found in zip(
                meter.places, meter.mechanisms(len(plan.node.cells or ((),))), strict=True
            ):
                clip = found if isinstance(found, UnitClip) else found.clip(found.centre_of(0))
                allowed[place] = clip.allowed
    return tuple(allowed)


def _within(plan: ReleasePlan, place: int, column: MeasuredColumn, units: Fraction, share: float) -> bool:
    """Whether the error is at most that of a fresh answer: for totals, of one that leaves out no unit more."""
    whole = plan.whole or plan
    for meter in whole.meters:
        if isinstance(meter, SumMeasurement) and place in meter.places:
            cells = len(plan.node.cells or ())
            fresh = meter.mechanisms(max(cells, 1))[meter.places.index(place)].stddev
            return fresh is not None and max(column.deviations) <= fresh * ROUNDING
    return units >= plan.level and share <= MOST_LOST


def _query(plan: ReleasePlan, left: tuple[Part, ...], groups: Groups, cells: tuple[Cell, ...]) -> str | None:
    """What the front is asked about these cells, None where the plan's groups are no functions of them."""
    asked, places = plan.node.outline, {name: n for n, name in enumerate(groups.keys)}
    assert asked is not None
    return cells_query(
        asked, left, cells, groups.types, lambda identity: places.get(plan.keys.part(identity).hex())
    )


def _missing(groups: Groups, cells: tuple[Cell, ...]) -> tuple[Cell, ...]:
    """The groups of rows that no cell is for: any cell with NULL for some of the keys that may be NULL without one.

    >>> groups = Groups("", ("a", "b"), ("text", "text"), "1", False, "", (), (1,))
    >>> _missing(groups, (("x", "1"), ("x", "2")))
    (('x', None),)
    """
    found = dict.fromkeys(cells)
    for place in groups.gaps:
        found |= dict.fromkeys((*cell[:place], None, *cell[place + 1 :]) for cell in found)
    released = set(cells)
    return tuple(cell for cell in found if cell not in released)


def _members(
    plan: ReleasePlan, left: tuple[Part, ...], groups: Groups, cells: tuple[Cell, ...], rows: Rows
) -> Members | None:
    """Of each cell of the plan the released ones that it is made of; None where they do not make all of it."""
    asked = plan.node.outline
    assert asked is not None
    wanted = tuple(plan.node.cells or ()) if plan.node.aggregate.keys else ((),)
    if not left and _key_names(plan, asked) == groups.keys and wanted == cells:
        return tuple((n,) for n in range(len(cells)))
    missing = _missing(groups, cells)
    if (query := _query(plan, left, groups, (*cells, *missing))) is None:
        return None
    try:
        passed = rows(query)
    except Refusal:
        return None  # an expression that raises for a cell
    made: dict[Cell, list[int]] = {cell: [] for cell in wanted}
    for number, *key in passed:
        missed = int(number or 0) >= len(cells)
        if missed == (tuple(key) in made):
            return None
        if not missed:
            made[tuple(key)].append(int(number or 0))
    return None if not all(made.values()) else tuple(map(tuple, made.values()))
