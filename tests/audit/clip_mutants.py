"""Mutants of lengths and moments of units, each wrong in one place."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import fields, replace
from fractions import Fraction

import numpy as np

from dpproxy.engine.precision import multipliers
from dpproxy.engine.selection.groups import MeasuredColumn
from mechanisms.histogram import Cost, Counts
from mechanisms.quantile import QuantileChoice
from mechanisms.randomness import Stream
from mechanisms.unit_clip import UnitClip
from mechanisms.unit_moments import Centre, UnitMoments
from tests.audit import clip_cases
from tests.audit.clip_cases import ANCHOR, Vector, each_clipped, weighted
from tests.audit.mutant import Mutant


def above(units: Counts) -> Counts:
    """How many units lie above each candidate, and how many there are."""
    upwards = units[::-1].cumsum()[::-1]
    return np.append(upwards[1:], upwards[0])


class DataMeasure(UnitClip):
    """A length weighs more, the more units are of it."""

    def scores(self, units: Counts) -> Counts:
        scores: Counts = super().scores(units) + np.append(units[:-1], 0)
        return scores


class ShareOfUnits(UnitClip):
    """A tenth of all units may lie above a length: that is private, yet not what is said."""

    def scores(self, units: Counts) -> Counts:
        scores: Counts = -np.maximum(above(units) - math.ceil(int(units.sum()) / 10), 0)
        return scores


class FetchedGroups(UnitClip):
    """m0 is of the groups that were found in the data."""

    def scores(self, units: Counts) -> Counts:
        return UnitClip(eps_per=self.eps_per, anchor=self.anchor, cells=self.cells, groups=self.cells).scores(
            units
        )


class TwoSided(UnitClip):
    """A length is the worse, too, the fewer than m0 units lie above it, at the scale of the other side alone."""

    @property
    def slopes(self) -> tuple[int, int]:
        return 2, 1

    @property
    def choice_scale(self) -> Fraction:
        return super().choice_scale * 2 / 3


class NoneTwice(UnitClip):
    """Of ratios each unit speaks against none at both slopes, also beyond m0."""

    def scores(self, units: Counts) -> Counts:
        scores: Counts = super().scores(units)
        scores[-1] -= sum(self.slopes) * int(units.sum())
        return scores


class OneSided(UnitClip):
    """A length is never too long."""

    def scores(self, units: Counts) -> Counts:
        scores: Counts = -2 * np.maximum(above(units) - self.allowed, 0)
        return scores


class QuarterScale(UnitClip):
    """A quarter of the choice's scale."""

    @property
    def choice_scale(self) -> Fraction:
        return super().choice_scale / 4


class FreeChoice(UnitClip):
    """The choice is not charged: the whole price goes to the noise."""

    @property
    def sigma_squared(self) -> Fraction:
        return 4 / (self.price * self.eps_per**2)


class HalfCharged(UnitClip):
    """Where no length comes out, half of the choice is charged."""

    @property
    def cost_of_choice(self) -> Cost:
        return Cost(super().cost_of_choice.information / 2, Fraction(0))


class AsIfChosen(UnitClip):
    """The noise of a length that was paid for before leaves a share for the choice of it."""

    @property
    def sigma_squared(self) -> Fraction:
        return 4 / ((1 - self.choice) * self.price * self.eps_per**2)


class LessNoise(UnitClip):
    """A third of the noise."""

    @property
    def sigma_squared(self) -> Fraction:
        return super().sigma_squared / 9


class BareLength(UnitClip):
    """No choice: the longest unit's own length."""

    def choose(self, units: Counts, stream: Stream) -> int | None:
        places = np.flatnonzero(units[:-1])
        return self.lengths[int(places[-1])] if len(places) else None


def on_totals(vectors: Sequence[Vector], length: int, scale: int) -> Counts:
    """Units' parts are added up as they are and the totals rounded."""
    totals = np.zeros(len(vectors[0]) if vectors else 1)
    for vector in vectors:
        own = math.sqrt(sum(y * y for y in vector))
        totals += np.array(vector) * (scale * min(1.0, length * (1 - 1e-12) / own) if own else 0.0)
    return np.trunc(totals).astype(np.int64)


def rounded_up(vectors: Sequence[Vector], length: int, scale: int) -> Counts:
    """The factor's margin is on the wrong side."""
    sums = np.zeros(len(vectors[0]) if vectors else 1, dtype=np.int64)
    for vector in vectors:
        square = sum(y * y for y in vector)
        factor = scale * min(1.0, length * (1 + 1e-12) / math.sqrt(square)) if square else 0.0
        sums += np.trunc(np.array(vector) * factor).astype(np.int64)
    return sums


def of_shown_cells(vectors: Sequence[Vector], length: int, scale: int) -> Counts:
    """The norm is over the cells that are shown, here all but the last."""
    sums = np.zeros(len(vectors[0]) if vectors else 1, dtype=np.int64)
    for vector in vectors:
        square = sum(y * y for y in vector[:-1] or vector)
        factor = scale * min(1.0, length * (1 - 1e-12) / math.sqrt(square)) if square else float(scale)
        sums += np.trunc(np.array(vector) * factor).astype(np.int64)
    return sums


def weighted_after(vectors: Sequence[Vector], by: Vector, length: int, scale: int) -> Counts:
    """The norm is that of the vector without its weights."""
    sums: Counts = each_clipped(vectors, length, scale) * np.array(by)
    return sums


def ceilings(vectors: Sequence[Vector], by: Vector, length: int, scale: int) -> Counts:
    """The norm is of multipliers rounded down, the sums are of the same rounded up."""
    sums = np.zeros(len(by), dtype=np.int64)
    for vector in vectors:
        square = sum((y * m) ** 2 for y, m in zip(vector, by, strict=True))
        factor = scale * min(1.0, length * (1 - 1e-12) / math.sqrt(square)) if square else 0.0
        sums += np.trunc(np.array(vector) * (np.array(by) + 1) * factor).astype(np.int64)
    return sums


def one_cell_left(vectors: Sequence[Vector], by: Vector, length: int, scale: int) -> Counts:
    """The last cell is not multiplied."""
    return weighted(vectors, (*by[:-1], 1), length, scale)


def of_the_data(column: MeasuredColumn, sums: Counts) -> Vector:
    """Weights are made of the sums themselves."""
    return multipliers(replace(column, values=tuple(sums.tolist())))


def apart(vectors: Sequence[Vector], length: int, scale: int) -> Counts:
    """Sum, number and squares are each clipped to the whole length."""
    parts = [[(vector[place],) for vector in vectors] for place in range(len(vectors[0]))]
    return np.concatenate([each_clipped(part, length, scale) for part in parts])


class RoundedDown(UnitMoments):
    """beta = floor(|c|/2)."""

    def centre_of(self, place: int) -> Centre:
        about = super().centre_of(place)
        return about._replace(row=max(abs(about.centre) // 2, self.least))


class Nothing(UnitMoments):
    """beta = |c|/2, which is 0 about 0."""

    def centre_of(self, place: int) -> Centre:
        about = super().centre_of(place)
        return about._replace(row=(abs(about.centre) + 1) // 2)


class FreeCentre(UnitMoments):
    """The centre is not charged: length and noise have the whole price."""

    def clip(self, centre: Centre, length: int | None = None) -> UnitClip:
        return replace(super().clip(centre, length), price=self.price)


class WholeCentre(UnitMoments):
    """The centre is drawn at the whole price and not at a tenth of it."""

    @property
    def _median(self) -> QuantileChoice:
        return replace(super()._median, eps_per=self.eps_per)


class LessMoments(UnitMoments):
    """A third of the noise on sums, numbers and squares."""

    def clip(self, centre: Centre, length: int | None = None) -> UnitClip:
        clip = super().clip(centre, length)
        return LessNoise(**{field.name: getattr(clip, field.name) for field in fields(clip)})


MUTANTS = (
    Mutant("base measure read from the data", clip_cases.choice_loss("one cell", DataMeasure)),
    Mutant("m0 from the number of units", clip_cases.choice_law(kind=ShareOfUnits)),
    Mutant("m0 from fetched groups", clip_cases.found_groups(FetchedGroups)),
    Mutant("two sides at the scale of one", clip_cases.choice_loss("one cell", TwoSided)),
    Mutant("two sides at the scale of one", clip_cases.choice_loss("two cells", TwoSided)),
    Mutant("none at both slopes", clip_cases.choice_loss("ratios of one cell", NoneTwice)),
    Mutant("none at both slopes", clip_cases.choice_loss("ratios of two cells", NoneTwice)),
    Mutant("one side alone", clip_cases.choice_law(kind=OneSided)),
    Mutant("a quarter of the choice's scale", clip_cases.choice("far above", kind=QuarterScale)),
    Mutant("choice not charged", clip_cases.price(None, FreeChoice)),
    Mutant("choice not charged", clip_cases.noise(None, FreeChoice)),
    Mutant("choice half charged", clip_cases.choice_loss("one cell", HalfCharged)),
    Mutant("noise beside a choice for a length paid for", clip_cases.price(ANCHOR, AsIfChosen)),
    Mutant("noise beside a choice for a length paid for", clip_cases.noise(1024, AsIfChosen)),
    Mutant("a third of the noise", clip_cases.release("in one cell", LessNoise)),
    Mutant("a third of the noise", clip_cases.release("in four cells", LessNoise)),
    Mutant("the longest unit's own length", clip_cases.whole("at the longest", BareLength)),
    Mutant("totals rounded, not units' parts", clip_cases.vectors_length(on_totals)),
    Mutant("factor rounded up", clip_cases.vectors_length(rounded_up)),
    Mutant("norm over shown cells", clip_cases.vectors_length(of_shown_cells)),
    Mutant("norm over the vector without weights", clip_cases.weighted_length(weighted_after)),
    Mutant("multipliers rounded up in the sums alone", clip_cases.weighted_length(ceilings)),
    Mutant("a cell not multiplied", clip_cases.weighted_totals(one_cell_left)),
    Mutant("weights of what was not released", clip_cases.rungs(of_the_data)),
    Mutant("beta rounded down", clip_cases.weight_of_a_row(RoundedDown)),
    Mutant("beta 0", clip_cases.weight_of_a_row(Nothing)),
    Mutant("centre not charged", clip_cases.moments_price(False, FreeCentre)),
    Mutant("centre at the whole price", clip_cases.centre("far above", WholeCentre)),
    Mutant("a third of the noise", clip_cases.moments_price(True, LessMoments)),
    Mutant("parts clipped apart", clip_cases.moments_length(apart)),
    Mutant("moments' totals rounded", clip_cases.moments_length(on_totals)),
)
