"""A node's released rows, as they are stored with their payment and shown."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from fractions import Fraction
from typing import Any

from budget.account import Charge, in_words
from dpproxy.engine.bins import Bins
from dpproxy.engine.cap_notes import (
    BEYOND,
    CONTRADICTED,
    DERIVED,
    LEFT_OUT,
    LESS_WEIGHT,
    NOT_COVERED,
    ROWS_OF_UNIT,
    SWAMPED,
    UNKNOWN,
)
from dpproxy.engine.precision import combined
from dpproxy.engine.result.postprocess import OutputColumn, written
from dpproxy.engine.selection.groups import SUM, Choice, MeasuredColumn, Place
from mechanisms.histogram import Cost

Texts = tuple[str | None, ...]


@dataclass(frozen=True)
class ReleasedTable:
    """The released rows of one node. The ledger stores the release; the other attributes depend on who asks.

    Attributes:
        keys: the key columns, a tuple of texts each; all columns have the same length.
        measured: the released values of each measure, one for each row.
        counts: the places of the measures that are counts of rows or units.
        mechanism: the mechanisms' names.
        notes: sentences for the notice.
        cost: what the release cost.
        lowered: the number of groups that could be released, where LIMIT asked for more; None otherwise.
        times: how many times a running count covers.

    Not stored, since a release serves other queries too:
        columns: the outputs, functions of what was measured.
        charged, left: this payment, and the balance after it.
        replayed: a paid answer was returned without a charge.
        threshold: about what a count had to exceed to be released.
        fewer: why there are fewer rows than LIMIT asked for.
        caps: how much of one unit counts at most.
        level: what its measures cost, where the session asks for an error.
        source: what it was computed from, where it was not bought itself.
        derived, unknown: the shown columns that have an interval of their own, and those without a known one.
        doubt: what was bought that would imply it, but contradicts itself.
    """

    keys: tuple[Texts, ...]
    measured: Mapping[Place, MeasuredColumn]
    counts: tuple[int, ...]
    mechanism: str
    notes: tuple[str, ...]
    cost: Cost
    lowered: int | None = None
    times: int = 0
    columns: tuple[OutputColumn, ...] = ()
    charged: Charge | None = None
    left: Charge | None = None
    replayed: bool = False
    threshold: int | None = None
    fewer: str = ""
    caps: str = ""
    level: str = ""
    source: str = ""
    derived: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    doubt: str = ""

    @staticmethod
    def nothing(keys: int, columns: int) -> ReleasedTable:
        """An answer without rows, free of charge.

        >>> [column.values for column in ReleasedTable.nothing(1, 1).columns]
        [()]
        """
        free = Cost(Fraction(0), Fraction(0), Fraction(0))
        return ReleasedTable(((),) * keys, {}, (), "nothing", (), free, columns=(OutputColumn(()),) * columns)

    def dump(self) -> bytes:
        """The bytes that the ledger stores."""
        stored = {
            "keys": self.keys,
            "measured": [_stored(place, m) for place, m in self.measured.items()],
            "counts": self.counts,
            "mechanism": self.mechanism,
            "notes": self.notes,
            "cost": [str(part) for part in astuple(self.cost) if part is not None],
            "lowered": self.lowered,
            "times": self.times,
        }
        return json.dumps(stored, separators=(",", ":")).encode()

    @staticmethod
    def load(stored: bytes) -> ReleasedTable:
        """Reads the bytes that `dump` made.

        >>> counts = {(0, None): MeasuredColumn((7,), (1.5,))}
        >>> one = ReleasedTable((("a",),), counts, (0,), "KnownLap", (), Cost(*[Fraction(1)] * 2))
        >>> ReleasedTable.load(one.dump()) == one
        True
        >>> median = {(0, Fraction(1, 2)): MeasuredColumn((7,), bins=Bins(0, 64, 4), ends=((5, 9),))}
        >>> ReleasedTable.load(replace(one, measured=median).dump()).measured == median
        True
        """
        read = json.loads(stored)
        return ReleasedTable(
            tuple(map(tuple, read["keys"])),
            dict(map(_loaded, read["measured"])),
            tuple(read["counts"]),
            read["mechanism"],
            tuple(read["notes"]),
            Cost(*map(Fraction, read["cost"])),
            read["lowered"],
            read.get("times", 0),
        )

    @staticmethod
    def combined(tables: Sequence[ReleasedTable]) -> ReleasedTable:
        """One answer from independent measurements of the same groups; the first decides all but the values."""
        first, charges = tables[0], [table.charged for table in tables if table.charged is not None]
        measured = {place: combined([table.measured[place] for table in tables]) for place in first.measured}
        of_columns = {note for column in first.measured.values() for note in column.notes}
        kept = [note for note in first.notes if note not in of_columns]
        return replace(
            first,
            measured=measured,
            notes=tuple(dict.fromkeys([*kept, *(note for m in measured.values() for note in m.notes)])),
            cost=Cost.sum(table.cost for table in tables),
            charged=Charge.sum(charges) if charges else None,
            left=next((table.left for table in reversed(tables) if table.left is not None), None),
            replayed=all(table.replayed for table in tables),
        )

    def choice(self, place: int) -> Choice | None:
        """What was chosen for the total at a place, which may be no length; None for what needs no choice."""
        total = self.measured.get((place, SUM))
        return Choice(total.centre, total.length) if total and (total.length or total.absent) else None

    def suppressed(self, least: int) -> ReleasedTable:
        """Without the rows that have a count below `least` (post-processing); ranks are no counts.

        >>> counted = {(0, None): MeasuredColumn((2, 30), (1.0, 1.0))}
        >>> shown = ReleasedTable((("a", "b"),), counted, (0,), "KnownLap", (), Cost(*[Fraction(1)] * 2))
        >>> shown.suppressed(10).keys
        (('b',),)
        """
        counted = [self.measured[place, None] for place in self.counts]
        if least <= 0 or not counted or not all(c.deviations for c in counted):
            return self
        kept = [n for n in range(len(counted[0].values)) if all(c.values[n] >= least for c in counted)]
        columns = tuple(
            replace(
                c,
                values=tuple(c.values[n] for n in kept),
                deviations=tuple(c.deviations[n] for n in kept if c.deviations),
                ends=tuple(c.ends[n] for n in kept if c.ends),
            )
            for c in self.columns
        )
        return replace(self, keys=tuple(tuple(k[n] for n in kept) for k in self.keys), columns=columns)

    def deviations(self) -> str:
        """The standard deviation of each output's noise, for people; empty where none is known."""
        return ", ".join(filter(None, (_span(column, 1) for column in self.columns)))

    def noise(self) -> str:
        """Standard deviation and 95% interval of each output by its name, for people, and what caps keep out of them.

        Empty where none is known.

        >>> spread = OutputColumn((None,), name="stddev", clip="about 900 rows", less="its rows")
        >>> one = ReleasedTable(((),), {}, (), "UnitMoments", (), Cost(*[Fraction(1)] * 2), columns=(spread,))
        >>> one.noise().rpartition("; ")[2]
        'stddev is NULL where the noise would swamp it: form fewer groups, or ask about more units'
        """
        told = ", ".join(dict.fromkeys(f"{c.name} {text}" for c in self.columns if (text := _told(c))))
        above = ((DERIVED, self.derived), (UNKNOWN, self.unknown))
        of_others = [text.format(", ".join(names)) for text, names in above if names]
        kept_out = [self._capped(bool(told))] if self.caps and (told or of_others) else []
        clips = [c for c in self.columns if c.clip]
        sums = [f"{c.clip} in {c.aggregate or c.name}" for c in clips if not c.less]
        less = [
            (f"in {c.aggregate or c.name} a unit of more than {c.clip} has less weight than {c.less}", c.less)
            for c in clips
            if c.less
        ]
        units, means = ([text for text, of in less if (of == ROWS_OF_UNIT) == mean] for mean in (False, True))
        for clipped, text in ((sums, LEFT_OUT), (units, "{}"), (means, LESS_WEIGHT)):
            kept_out += (
                [text.format(", ".join(dict.fromkeys(clipped))) + f", {NOT_COVERED}"] if clipped else []
            )
        swamped = [c.name for c in self.columns if (c.deviations or c.clip) and None in c.values]
        kept_out += [SWAMPED.format(", ".join(dict.fromkeys(swamped)))] if swamped else []
        return "; ".join(filter(None, [told, *kept_out, *of_others]))

    def _capped(self, interval: bool) -> str:
        return f"{self.caps}: {BEYOND}" + (f", {NOT_COVERED}" if interval else "")

    def warning(self) -> str:
        """Which outputs have rows that are not told from 0, as their interval is wider than the value; what was bought
        that contradicts itself; or that there are no groups, nor rows that are joined with them. Empty for none.

        >>> counted = (OutputColumn((7, 900), (10.0, 10.0), "n", 1.96),)
        >>> ReleasedTable((("a", "b"),), {}, (), "KnownLap", (), Cost(*[Fraction(1)] * 2), columns=counted).warning()
        'dpproxy: the noise may exceed the value in 1 of 2 rows of n'
        """
        if self.keys and not self.keys[0] and self.mechanism != "nothing":
            of = f" of {names}" if (names := ", ".join(filter(None, (c.name for c in self.columns)))) else ""
            return f"dpproxy: no group{of} is large enough to be shown, nor what is joined with such groups"
        told = [
            f"in {within} of {len(c.values)} row{'s' * (len(c.values) != 1)} of {c.name}"
            for c in self.columns
            if (within := c.within_noise)
        ]
        said = [f"the noise may exceed the value {', '.join(dict.fromkeys(told))}"] if told else []
        said += [CONTRADICTED.format(self.doubt)] if self.doubt else []
        return f"dpproxy: {'; '.join(said)}" if said else ""

    def notice(self) -> str:
        """One line for the analyst: mechanism, noise, charge, what is left."""
        if self.mechanism == "nothing":
            return "dpproxy: the answer has no rows, nothing was charged"
        parts = [self.mechanism, *filter(None, [self.noise() or (self.caps and self._capped(False))])]
        parts += [f"threshold {self.threshold}"] if self.threshold is not None else []
        parts += self.notes
        parts += filter(None, [self.fewer, self.level])
        if self.lowered is not None:
            parts.append(f"at most {self.lowered} rows, fewer than LIMIT asks for")
        if self.source:
            parts.append(f"{self.source}: no charge")
        elif self.replayed:
            parts.append("answered before in this epoch: no charge")
        if self.charged is not None and not self.replayed:
            if self.left is None:
                parts.append(f"charged {self.charged}")
            else:
                parts.append("charged {}; {} left".format(*in_words(self.charged, self.left)))
        return "dpproxy: " + "; ".join(parts)


_UNITS = {"date": " days", "timestamp": " seconds", "interval": " seconds"}


def _told(column: OutputColumn) -> str:
    """The noise of a column, in words.

    >>> _told(OutputColumn((7, 9), (10.0, 10.0), "n", 1.96))
    '+- 19.6 with 95% (standard deviation 10.0)'
    >>> _told(OutputColumn((7,), (60.0,), "stay", 2, kind="interval"))
    '+- 120.0 seconds with 95% (standard deviation 60.0)'
    >>> _told(OutputColumn((7,), ends=((5, 12),))), _told(OutputColumn((7, 9), ends=((5, 12), (8, 9))))
    ('from 5 to 12 with 95%', 'in intervals of 1.0 to 7.0 with 95%')
    """
    if len(column.ends) == 1 and column.factor == 1:
        low, high = (written(end, column.kind) for end in column.ends[0])
        return f"from {low} to {high} with 95%"
    if column.ends:
        wide = sorted(float((high or 0) - (low or 0)) * column.factor for low, high in column.ends)
        unit = _UNITS.get(column.kind, "")
        sizes = dict.fromkeys((_figure(wide[0]), _figure(wide[-1])))
        return f"in intervals of {' to '.join(sizes)}{unit} with 95%"
    deviation, interval = _span(column, 1), _span(column, column.width)
    if not deviation:
        return ""
    unit = _UNITS.get(column.kind, "")
    return (
        f"+- {interval}{unit} with 95% (standard deviation {deviation})"
        if column.width
        else (f"standard deviation {deviation}{unit}")
    )


def _span(column: OutputColumn, factor: float) -> str:
    known = [d * factor * column.factor for d in column.deviations if d == d]
    if not known:
        return ""
    low, high = _figure(min(known)), _figure(max(known))
    return high if low == high else f"{low} to {high}"


def _figure(value: float) -> str:
    """A size with one decimal, and two digits where it is less than 1.

    >>> [_figure(value) for value in (1234.56, 1, 0.96, 0.0312, 0)]
    ['1234.6', '1.0', '0.96', '0.031', '0.0']
    """
    decimals = 1 - math.floor(math.log10(value)) if 0 < value < 1 else 1
    return f"{value:.{decimals}f}"


def _stored(place: Place, measured: MeasuredColumn) -> list[object]:
    bins = measured.bins
    cut = None if bins is None else [bins.lo, bins.size, bins.levels]
    fraction = None if place[1] is None else str(place[1])
    shown: list[object] = [
        place[0],
        fraction,
        measured.values,
        measured.deviations,
        measured.notes,
        cut,
        measured.width,
    ]
    more: list[object] = [measured.absent, measured.centre, measured.length, measured.ends, measured.common]
    while more and not more[-1]:
        more.pop()
    return [*shown, *more]


def _loaded(stored: list[Any]) -> tuple[Place, MeasuredColumn]:
    place, fraction, values, deviations, notes, cut, *rest = stored
    bins = None if cut is None else Bins(*cut)
    at = (place, None if fraction is None else Fraction(fraction))
    rest[4:5] = [tuple(map(tuple, ends)) for ends in rest[4:5]]
    return at, MeasuredColumn(tuple(values), tuple(deviations), tuple(notes), bins, *rest)
