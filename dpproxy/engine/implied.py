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
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import cache
from itertools import chain, combinations, islice
from typing import TypeVar

from budget.account import Charge, OwnedMeasure
from dpproxy.config.precision import LEVELS
from dpproxy.engine.cap_notes import caps
from dpproxy.engine.measurement.base import SumMeasurement
from dpproxy.engine.measurement.totals import TotalsMeasurement
from dpproxy.engine.optimizer import MOST_COMPLETE, part
from dpproxy.engine.precision import combined
from dpproxy.engine.release_plan import ReleasePlan
from dpproxy.engine.result.released_table import ReleasedTable
from dpproxy.engine.selection.groups import (
    GAUSSIAN,
    LAPLACE,
    ROWS,
    SUM,
    FullDomain,
    MeasuredColumn,
    Place,
)
from mechanisms.unit_clip import UnitClip
from rewriter.api import (
    ALL,
    NONE,
    CellsQuery,
    Measured,
    Outline,
    Part,
    Role,
    cells_query,
    known_cells,
    of_units,
)
from rewriter.ir.measure import Joint
from rewriter.plan import Cell
from rewriter.refusal import Refusal

MOST_SUBSETS = 64
"""Of a question's filters, that are looked up for each measure."""
MOST_LOST = 1 / 4
"""Of totals that clips may have left out, where an implied answer is taken in place of a fresh one."""
ROUNDING = 1.01
"""Of deviations that are compared: a mean of rungs is rounded to whole numbers."""
MOST_APART = {GAUSSIAN: 6, LAPLACE: 14}
"""By the width of an interval, how many deviations two releases of one number may differ by: by chance one in a hundred
million differs by more."""

Number = TypeVar("Number", int, float)
Rows = Callable[[str], Sequence[Cell]]
"""Runs a query over constants at the front."""
Stored = Callable[[bytes], tuple[bytes, Charge] | None]
"""Gives a stored answer by its release key."""
Members = tuple[tuple[int, ...], ...]
"""Of each cell that is asked for, the released ones that it is made of; none where they do not make all of it."""
SHARES = (Fraction(1, 4), Fraction(1, 2), Fraction(3, 4))
"""Of the wanted level, at which what is missing is bought."""


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
        only: by the key of a measure, in hexadecimal digits, the cells that are its own where these are not all of its
            groups: of filters that others decide for themselves.
    """

    asked: str
    keys: tuple[str, ...]
    types: tuple[str, ...]
    units: str
    alone: bool
    caps: str
    allowed: tuple[int, ...]
    gaps: tuple[int, ...]
    only: tuple[tuple[str, tuple[int, ...]], ...] = ()

    @staticmethod
    def load(text: str) -> Groups:
        read = json.loads(text)
        only = tuple((key, tuple(cells)) for key, cells in read.pop("only", ()))
        lists = {name: tuple(read[name]) for name in ("keys", "types", "allowed", "gaps")}
        return Groups(**read | lists, only=only)

    def of(self, key: bytes) -> Groups:
        """What decides whether a measure implies another one."""
        only = tuple((name, cells) for name, cells in self.only if name == key.hex())
        return replace(self, asked="", units="", caps="", allowed=(), only=only)

    def cells_of(self, key: bytes) -> tuple[int, ...] | None:
        """The cells of a measure, None for all."""
        return dict(self.only).get(key.hex())


@dataclass(frozen=True)
class ImpliedAnswer:
    """An answer of which some need not be bought.

    Attributes:
        table: its rows, of the measures that are implied.
        sources: the request keys of the answers that it is computed from.
        within: its error is at most that of a fresh answer, as far as that is known beforehand.
        places: of these measures in their plan.
        rest: the plan of what has to be bought; None for nothing.
        joined: with the rest all is implied, with the error of a fresh answer; else the rest is the other measures.
    """

    table: ReleasedTable
    sources: tuple[bytes, ...]
    within: bool
    places: tuple[int, ...]
    rest: ReleasePlan | None
    joined: bool = False

    @property
    def source(self) -> str:
        """Where it is from, with the names of its columns where it has not all of them."""
        if self.rest is None or self.joined:
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
    """What one question's place would be, from some groupings of the measure; deviations are infinite where it is not
    known. `clipped`: about the share that clips have left out, `lost`: as much of it as deviations allow for."""

    parts: Mapping[Fraction | None, MeasuredColumn]
    owned: tuple[OwnedMeasure, ...]
    mechanism: str
    lost: float
    within: bool
    clipped: float = 0

    @property
    def rank(self) -> tuple[bool, float]:
        known = [d for d in self.parts[SUM].deviations if d < math.inf]
        return not self.within, max(known, default=math.inf)

    @property
    def unknown(self) -> frozenset[int]:
        """The cells that it does not tell."""
        return frozenset(n for n, d in enumerate(self.parts[SUM].deviations) if d == math.inf)

    @property
    def unclipped(self) -> bool:
        """Whether it has nothing but noise, which is independent of that of other groupings."""
        return not any(column.length for column in self.parts.values())

    @property
    def bought_at(self) -> dt.datetime:
        return min(one.bought_at for one in self.owned)

    @property
    def groups(self) -> list[Groups]:
        """In which groups it was measured, the earliest purchase first."""
        return [Groups.load(one.groups) for one in sorted(self.owned, key=lambda one: one.bought_at)]


@dataclass(frozen=True)
class Implied:
    """By its place in a plan, the best candidate of each measure that has one; `known`: those of all cells; `doubt`:
    what was bought that contradicts itself, empty for nothing. No candidate is made of it."""

    plan: ReleasePlan
    best: Mapping[int, _Candidate]
    doubt: str = ""

    @property
    def known(self) -> Mapping[int, _Candidate]:
        return {place: one for place, one in self.best.items() if not one.unknown}

    @property
    def whole(self) -> ImpliedAnswer | None:
        """The answer without a purchase, None where a measure is missing."""
        places = range(len(self.plan.node.aggregate.measures))
        return self._answer(tuple(places), None) if self.known.keys() >= set(places) else None

    def partial(self, *, always: bool) -> ImpliedAnswer | None:
        """The measures that have the error of a fresh answer, or any error, where others do not; None without both."""
        measures = set(range(len(self.plan.node.aggregate.measures)))
        taken = {place for place, one in self.known.items() if always or one.within}
        used_by = [set(output.measures) for output in self.plan.node.aggregate.outputs]
        while split := [used for used in used_by if used & taken and not used <= taken]:
            taken -= {place for used in split for place in used}
        if not taken or taken == measures:
            return None
        return self._answer(tuple(sorted(taken)), part(self.plan, sorted(measures - taken)))

    def joined(self) -> ImpliedAnswer | None:
        """What is implied with about the error of a fresh answer once something less than that is bought: cells that
        are missing, or counts of units at the least level that makes them exact enough. None without it."""
        plan, places = self.plan, range(len(self.plan.node.aggregate.measures))
        if plan.terms.settings.noise != "gaussian" or self.best.keys() != set(places):
            return None
        inexact = [place for place in places if not self.best[place].within]
        lacking = [place for place in places if self.best[place].unknown or place in inexact]
        if not lacking or not all(map(self._counted, inexact)):
            return None
        every = range(len(self.best[0].parts[SUM].values))
        asked = every if inexact else sorted(set(chain(*(self.best[place].unknown for place in lacking))))
        cells = None if inexact else tuple(cell for n, cell in enumerate(plan.node.cells or ()) if n in asked)
        for level in (plan.level * share for share in SHARES):
            rest = part(plan, lacking, cells, level)
            exact = (self._enough(place, rest, n, asked) for n, place in enumerate(lacking))
            if level >= LEVELS[0] and rest.level == level and measures(rest)[0] and all(exact):
                table = replace(ReleasedTable.nothing(0, 0), source=_source(self.best.values()))
                return ImpliedAnswer(table, (), True, tuple(places), rest, joined=True)
        return None

    def _counted(self, place: int) -> bool:
        """Whether nothing but noise of a known size is in a measure."""
        return of_units(self.plan.node.aggregate.measures[place]) and self.best[place].unclipped

    def _enough(self, place: int, rest: ReleasePlan, at: int, asked: Sequence[int]) -> bool:
        """Whether a measure that is at a place of the rest, of the cells `asked`, has the error of a fresh one then.

        Of totals that is so if units' vectors are as long in each cell.
        """
        owned = [self.best[place].parts[SUM].deviations[n] for n in asked]
        new, fresh = _stddev(rest, at), _stddev(self.plan, place)
        if new is None or fresh is None:
            return _as_exact(self.plan, rest.level, len(asked))
        return all((d**-2 + new**-2) ** -0.5 <= fresh * ROUNDING for d in owned)

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
            replace(table, caps=capped, source=_source(chosen)),
            tuple({one.request_key: one for candidate in chosen for one in candidate.owned}),
            all(one.within for one in chosen),
            places,
            rest,
        )


Wanted = tuple[int, Role]
"""A measure's place in its plan, and what is looked for: itself, or what it can be made of."""


@dataclass(frozen=True, eq=False)
class Match:
    """What a measure that has been bought would be for a plan.

    Attributes:
        wanted: what it is taken for.
        asked: the outline of the plan that it is a measure of.
        left, kept: the plan's filters on it: those that cells are tried against, and those that it has as well.
    """

    wanted: Wanted
    asked: Outline
    left: tuple[Part, ...]
    kept: tuple[Part, ...]


Sought = dict[bytes, list[Match]]
Noted = tuple[Mapping[bytes, int], str]
NOTHING: Noted = {}, ""


def measures(plan: ReleasePlan, rows: Rows | None = None) -> Noted:
    """What the ledger notes when a plan is bought: its measures' places by their keys, and their groups.

    `rows`: runs a query at the front; without it measures of fewer filters, which cells are of as well, are left out.
    """
    weighted = any(isinstance(meter, TotalsMeasurement) and meter.weights for meter in plan.meters)
    if weighted or not _implying(plan) or (asked := plan.node.outline) is None:
        return NOTHING  # a length of weighted vectors says nothing of what it leaves out of a sum
    node = plan.node
    cells = tuple(node.cells or ()) if node.aggregate.keys else ((),)
    if (gaps := () if node.chosen else asked.gaps(cells)) is None:
        return NOTHING
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
    found: dict[bytes, int] = {}
    only: list[tuple[str, tuple[int, ...]]] = []
    for place, measured in enumerate(asked.measures):
        if measured is None:
            continue
        for one in filter(None, (measured, measured.counted)):
            key = _key(plan, one, one.filters)
            found[key] = place
            if node.chosen:
                only.append((key.hex(), tuple(range(len(cells)))))
        for needed, of in _by_filters(plan, asked, measured, groups, cells, rows).items():
            if (key := _key(plan, measured, needed)) not in found:
                found[key] = place
                only.append((key.hex(), tuple(of)))
    return found, json.dumps(asdict(replace(groups, only=tuple(only))), separators=(",", ":"))


def _by_filters(
    plan: ReleasePlan,
    asked: Outline,
    measured: Measured,
    groups: Groups,
    cells: tuple[Cell, ...],
    rows: Rows | None,
) -> dict[tuple[Part, ...], list[int]]:
    """The cells of which all rows pass some filters, by the other ones; none of those that need all filters."""
    passed = {}
    if rows is None or not groups.keys:
        return {}
    for one in measured.filters:
        query = _query(plan, asked, (one,), (), groups, cells, looked_up=False)
        if query is not None:
            with suppress(Refusal):  # an expression that raises for a cell
                passed[one] = {int(number or 0) for number, some, *_ in rows(query.text) if some == ALL}
    found: dict[tuple[Part, ...], list[int]] = {}
    for n in range(len(cells)):
        needed = tuple(one for one in measured.filters if n not in passed.get(one, ()))
        if len(needed) < len(measured.filters):
            found.setdefault(needed, []).append(n)
    return found


def sought(plan: ReleasePlan) -> Sought:
    """The keys of measures that may imply those of a plan, and what they would be for it."""
    own = plan.node.outline if _implying(plan) else None
    return {} if own is None else _sought(plan, [own])


def sought_apart(plan: ReleasePlan) -> Sought:
    """The same of measures of fewer tables, whose cells meet the public rows of the others."""
    return _sought(plan, plan.node.outlines_apart) if _implying(plan) else {}


def _sought(plan: ReleasePlan, outlines: Iterable[Outline]) -> Sought:
    found: Sought = {}
    name = cache(plan.keys.part)
    for asked in outlines:
        for place, itself in enumerate(asked.measures):
            forms: dict[Role, Measured] = {} if itself is None else {"itself": itself, **itself.others}
            for role, measured in forms.items():
                sizes = range(len(measured.filters) + 1)
                subsets = chain.from_iterable(combinations(measured.filters, size) for size in sizes)
                for left in islice(subsets, MOST_SUBSETS):
                    kept = tuple(part for part in measured.filters if part not in left)
                    match = Match((place, role), asked, (*measured.met, *left), kept)
                    found.setdefault(_key(plan, measured, kept, name), []).append(match)
    return found


def _key(
    plan: ReleasePlan,
    measured: Measured,
    filters: Iterable[Part],
    name: Callable[[tuple[str, ...]], bytes] | None = None,
) -> bytes:
    """The key of a measure under filters; `name`: what names one of them, where many keys share it."""
    names = sorted(map(name or plan.keys.part, (part.identity for part in filters)))
    return plan.keys.measure(measured.text, measured.scanned, names)


def implied(
    plan: ReleasePlan, keys: Sought, owned: Iterable[OwnedMeasure], stored: Stored, rows: Rows
) -> Implied:
    """What of a plan follows from measures that its account owns, by the `keys` of `sought`."""
    candidates = _found(plan, keys, owned, stored, rows)
    doubts = {wanted: doubt for wanted, found in candidates.items() if (doubt := _doubt(plan, wanted, found))}
    best = {
        wanted: _together(plan, wanted[0], found)
        for wanted, found in candidates.items()
        if wanted not in doubts
    }
    places = range(len(plan.node.aggregate.measures))
    made = {place: of for place in places if (of := _made(best, place)) is not None}
    return Implied(plan, made, "; ".join(dict.fromkeys(doubts.values())))


def joint(whole: ReleasedTable, bought: ReleasedTable) -> ReleasedTable:
    """What is implied by an answer that was bought for it, among others, or was bought after all; with its price."""
    charges = [one.charged for one in (whole, bought) if one.charged is not None]
    notes = (*whole.notes, f"combined {whole.source}") if whole.source else whole.notes
    return replace(
        whole,
        notes=notes,
        source="",
        charged=Charge.sum(charges) if charges else None,
        left=bought.left if whole.left is None else whole.left,
        replayed=not charges,
    )


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


def _found(
    plan: ReleasePlan, keys: Sought, owned: Iterable[OwnedMeasure], stored: Stored, rows: Rows
) -> dict[Wanted, list[_Candidate]]:
    """The candidates of each measure, and of what it can be made of."""
    groupings: dict[tuple[Match, Groups], list[OwnedMeasure]] = {}
    for one in owned:
        groups = Groups.load(one.groups).of(one.key)
        for match in keys[one.key]:
            groupings.setdefault((match, groups), []).append(one)
    candidates: dict[Wanted, list[_Candidate]] = {}
    for (match, groups), found in groupings.items():
        if _query(plan, match.asked, match.left, match.kept, groups, ()) is None:
            continue  # before answers are read
        if made := [*_candidates(plan, match, found, stored, rows)]:
            candidates.setdefault(match.wanted, []).extend(made)
    return candidates


def _doubt(plan: ReleasePlan, wanted: Wanted, candidates: Sequence[_Candidate]) -> str:
    """Which candidate contradicts the best one, in words; empty for none. Rows have a weight in an average, which its
    length decides: they cannot."""
    measure = plan.node.aggregate.measures[wanted[0]]
    if wanted[1] != "itself" or (isinstance(measure, Joint) and measure.averages):
        return ""
    # With the one that would be told, since all pairs of a hundred with many cells take too long.
    best = min(candidates, key=lambda one: one.rank)
    for other in sorted(candidates, key=lambda one: one.bought_at):
        if other is not best and _contradict(best, other):
            return ", and ".join(map(_said, sorted((best, other), key=lambda one: one.bought_at)))
    return ""


def _contradict(one: _Candidate, other: _Candidate) -> bool:
    """Whether two candidates differ beyond chance, and beyond what clips may have left out of them, in a cell that both
    know."""
    for at, mine in one.parts.items():
        theirs = other.parts[at]
        reaches = _reach(mine, one.clipped - one.lost), _reach(theirs, other.clipped - other.lost)
        cells = zip(mine.values, theirs.values, *reaches, strict=True)
        most = MOST_APART.get(max(mine.width, theirs.width), math.inf)
        if mine.centre == theirs.centre and any(abs(a - b) > most * math.hypot(d, e) for a, b, d, e in cells):
            return True
    return False


def _reach(column: MeasuredColumn, share: float) -> list[float]:
    """The deviations of a column, with an allowance for a share of its values."""
    return [
        d + share * abs(v) / (column.width or 1)
        for v, d in zip(column.values, column.deviations, strict=True)
    ]


def _made(best: Mapping[Wanted, _Candidate], place: int) -> _Candidate | None:
    """A measure itself, or made of others: a sum or rows of an average, an average of a sum and rows.

    A fresh one has its own length, so that nothing is certain of its error.
    """
    for role in ("itself", "totals"):
        if (itself := best.get((place, role))) is not None:
            return itself
    if (joint := best.get((place, "joint"))) is not None:
        total = summed(joint.parts[SUM], joint.parts[ROWS], clipped=bool(joint.lost))
        return replace(joint, parts={SUM: total}, within=False)
    if (average := best.get((place, "average"))) is not None:
        return replace(average, within=False)
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
    """The best candidate, with cells that it does not know of from others; or of units' counts the mean of those
    without clips, each cell by inverse variance.

    Where rows of a unit are left out, those of different groupings differ.
    """
    best, *others = sorted(candidates, key=lambda one: one.rank)
    if of_units(plan.node.aggregate.measures[place]) and best.unclipped:
        alike = [one for one in candidates if one.unclipped]
        if any(one.parts[SUM].common for one in alike):
            # What is common to all groups is so only where all of them have one weight.
            alike = [one for one in alike if len(set(one.parts[SUM].deviations)) == 1] or [best]
        alike = _independent(alike)
        if len(alike) == 1:
            return alike[0]
        parts = {part: combined([one.parts[part] for one in alike]) for part in best.parts}
        return _Candidate(
            parts,
            tuple(owned for one in alike for owned in one.owned),
            ", ".join(dict.fromkeys(one.mechanism for one in alike)),
            0,
            any(one.within and not one.unknown for one in alike)
            or _within(plan, place, parts[SUM], Fraction(0), len(parts[SUM].values), 0),
        )
    for other in others:
        if best.unknown - other.unknown and _alike(best, other):
            best = _filled(best, other)
    return best


def _independent(candidates: Iterable[_Candidate]) -> list[_Candidate]:
    """Candidates of which no two have the noise of one measurement, those that know the most cells first: one may be
    found by several sets of filters."""
    taken, found = set[tuple[bytes, int]](), []
    for one in sorted(candidates, key=lambda one: (len(one.unknown), one.rank)):
        measured = {(owned.release_key, owned.place) for owned in one.owned}
        if not measured & taken:
            taken |= measured
            found.append(one)
    return found


def _alike(one: _Candidate, other: _Candidate) -> bool:
    """Whether one column can have cells of both."""
    laws = (
        {part: (c.centre, c.width, c.common) for part, c in candidate.parts.items()}
        for candidate in (one, other)
    )
    first, second = laws
    return first == second and not any(column.common for column in one.parts.values())


def _filled(one: _Candidate, other: _Candidate) -> _Candidate:
    """A candidate with the cells that it does not know of from another one.

    `length`: a unit counts for at most so much in any cell.
    """

    def cells(of: Sequence[Number], more: Sequence[Number]) -> tuple[Number, ...]:
        return tuple(b if n in one.unknown else a for n, (a, b) in enumerate(zip(of, more, strict=True)))

    parts = {
        part: replace(
            column,
            values=cells(column.values, more.values),
            deviations=cells(column.deviations, more.deviations),
            length=max(column.length, more.length),
            notes=tuple(dict.fromkeys((*column.notes, *more.notes))),
        )
        for (part, column), more in zip(one.parts.items(), (other.parts[p] for p in one.parts), strict=True)
    }
    return _Candidate(
        parts,
        (*one.owned, *other.owned),
        ", ".join(dict.fromkeys((one.mechanism, other.mechanism))),
        max(one.lost, other.lost),
        one.within and other.within,
    )


def _source(candidates: Iterable[_Candidate]) -> str:
    return f"from {', '.join(dict.fromkeys(map(_said, candidates)))}"


def _said(candidate: _Candidate) -> str:
    bought = candidate.bought_at.astimezone(dt.UTC)
    allowance = f" (intervals allow for {candidate.lost:.0%} that clips left out)" if candidate.lost else ""
    asked = ", and ".join(dict.fromkeys(groups.asked for groups in candidate.groups))
    return f"{asked}, bought {bought:%Y-%m-%d %H:%M} UTC{allowance}"


def _implying(plan: ReleasePlan) -> bool:
    """Whether a plan's measures are noise on every cell of a known domain, of no more cells than the front is asked
    about."""
    selection = plan.selection
    whole = isinstance(selection, FullDomain) and bool(plan.meters) and selection.most <= MOST_COMPLETE
    return whole and not plan.node.waits


def _key_names(plan: ReleasePlan, asked: Outline) -> tuple[str, ...]:
    return tuple(plan.keys.part(key.identity).hex() for key in asked.keys)


def _candidates(
    plan: ReleasePlan, match: Match, owned: Sequence[OwnedMeasure], stored: Stored, rows: Rows
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
        of = groups.cells_of(first.key)
        made = _members(plan, match, groups.of(first.key), cells, rows)
        members = made if of is None else _chosen(plan, match.asked, groups, made, of)
        if not any(members):
            continue
        place = match.wanted[0]
        measure = plan.node.aggregate.measures[place]
        several = any(len(cell) > 1 for cell in members)
        if several and of_units(measure) and not groups.alone:
            continue
        places = [part for of, part in table.measured if of == first.place]
        columns = {part: combined([t.measured[o.place, part] for o, t in found]) for part in places}
        if match.wanted[1] == "average":
            columns = {SUM: columns[ROWS]}
        if several and any(column.common for column in columns.values()):
            continue  # counts of units, each in one cell, have no noise in common
        same = sorted(filter(None, members)) == [(n,) for n in range(len(cells))]
        cut = lost(columns.get(ROWS, columns[SUM]), groups.allowed[first.place])
        share = 0 if same else cut
        parts = {part: added(column, members, share) for part, column in columns.items()}
        units = sum((Fraction(Groups.load(o.groups).units) for o, _ in found), Fraction(0))
        yield _Candidate(
            parts,
            tuple(o for o, _ in found),
            re.sub(r" x\d+", "", table.mechanism),
            share,
            _within(plan, place, parts[SUM], units, len(cells), share),
            cut,
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

    What is made of no cells is unknown.
    """
    values = tuple(sum(column.values[n] for n in cell) for cell in members)
    noise = tuple(math.hypot(*(column.deviations[n] for n in cell)) if cell else math.inf for cell in members)
    sums = replace(column, values=values, deviations=noise)
    return replace(sums, deviations=tuple(_reach(sums, share)))


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


def _within(
    plan: ReleasePlan, place: int, column: MeasuredColumn, units: Fraction, cells: int, share: float
) -> bool:
    """Whether the error is at most that of a fresh answer, in cells that are known: for totals, of one that leaves out
    no unit more. `units`, `cells`: the level, and over how many cells."""
    fresh = _stddev(plan, place)
    if fresh is not None:
        return max(d for d in column.deviations if d < math.inf) <= fresh * ROUNDING
    return _as_exact(plan, units, cells) and share <= MOST_LOST


def _as_exact(plan: ReleasePlan, level: Fraction, cells: int) -> bool:
    """Whether totals over so many cells have the noise of a plan's, if units' vectors are as long in each cell."""
    return level * len(plan.node.cells or ((),)) >= plan.level * min(cells, len(plan.node.cells or ((),)))


def _stddev(plan: ReleasePlan, place: int) -> float | None:
    """The deviation of a count, None where it is not known beforehand."""
    whole = plan.whole or plan
    for meter in whole.meters:
        if isinstance(meter, SumMeasurement) and place in meter.places:
            cells = len(plan.node.cells or ())
            return meter.mechanisms(max(cells, 1))[meter.places.index(place)].stddev
    return None


def _query(
    plan: ReleasePlan,
    asked: Outline,
    left: Sequence[Part],
    kept: Sequence[Part],
    groups: Groups,
    cells: tuple[Cell, ...],
    *,
    looked_up: bool = True,
) -> CellsQuery | None:
    """What the front is asked about these cells, of which all rows pass the filters that are `kept`; None where the
    plan's groups are no functions of them, and, if they are `looked_up`, of public rows."""
    places = {name: n for n, name in enumerate(groups.keys)}

    def key(identity: Sequence[str]) -> int | None:
        return places.get(plan.keys.part(identity).hex())

    return cells_query(asked, left, kept, cells, groups.types, key, looked_up=looked_up)


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


def _members(plan: ReleasePlan, match: Match, groups: Groups, cells: tuple[Cell, ...], rows: Rows) -> Members:
    """Of each cell of the plan the released ones that it is made of; none where they do not make all of it."""
    asked = match.asked
    wanted = tuple(plan.node.cells or ()) if plan.node.aggregate.keys else ((),)
    if not match.left and _key_names(plan, asked) == groups.keys and wanted == cells:
        return tuple((n,) for n in range(len(cells)))
    missing = () if groups.only else _missing(groups, cells)
    query = _query(plan, asked, match.left, match.kept, groups, (*cells, *missing))
    if query is None:
        return ()
    found: dict[int, set[tuple[str | None, ...]]] = {}
    try:
        if not _complete(plan, asked, query, cells, rows):
            return ()
        for number, *row in rows(query.text):
            found.setdefault(int(number or 0), set()).add(tuple(row))
    except Refusal:
        return ()  # an expression that raises for a cell
    made: dict[Cell, list[int]] = {cell: [] for cell in wanted}
    unknown = set()
    for n, outcomes in found.items():
        if len(outcomes) > 1:
            return ()  # of cells that are finer the others would be bought in pieces, of which no total follows
        ((some, *key),) = outcomes
        if some == NONE:
            continue
        missed = n >= len(cells)
        if missed == (tuple(key) in made):
            return ()
        if some != ALL:
            unknown.add(tuple(key))
        elif not missed:
            made[tuple(key)].append(n)
    return tuple(() if cell in unknown else tuple(of) for cell, of in made.items())


def _complete(
    plan: ReleasePlan, asked: Outline, query: CellsQuery, cells: tuple[Cell, ...], rows: Rows
) -> bool:
    """Whether all public rows that rows of the plan can meet are of released cells: a public table may have keys that
    no cell is for."""
    if not query.met:
        return True
    places = sorted(query.met)
    keys = tuple(query.met[place] for place in places)
    found = known_cells(asked.relation, keys, plan.node.policy, plan.node.parameters, rows, MOST_COMPLETE)
    released = {tuple(cell[place] for place in places) for cell in cells}
    return found is not None and released.issuperset(found)


def _chosen(
    plan: ReleasePlan, asked: Outline, groups: Groups, members: Members, of: Collection[int]
) -> Members:
    """Of the cells that are made of one each those of which it is in `of`, where there may be others."""
    if _key_names(plan, asked) != groups.keys:
        return ()  # a cell may be made of others, too
    return tuple(cell if len(cell) == 1 and cell[0] in of else () for cell in members)
