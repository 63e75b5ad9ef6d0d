"""UnitClip: sums over cells in which each unit's whole vector is clipped to one length, chosen privately.

Nothing has to be declared: neither how large a value is nor how many rows a unit has. Proof sheet: unit_clip.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import ClassVar

import numpy as np

from mechanisms.histogram import Cost, Counts, NoiseFamily, Release
from mechanisms.noise import LARGEST, discrete_gaussian, gaussian_stddev, gumbel_order
from mechanisms.randomness import Stream
from mechanisms.validation import LARGEST_COUNT, check_bounds, check_epsilon, exact_texts

CHOICE, CHOICE_OF_ONE = Fraction(4, 25), Fraction(1, 4)
"""The share of the price that the choice of a length costs, of several cells and of one: its scale is rational at 1/4,
1, 4, 16 and 64 units."""
LEAST_SCALED = 1 << 10
"""Sums are taken in units of 1/K, K the least power of two with K times the anchor at least this."""
LARGEST_TOTAL = 1 << 50
"""A unit's total in a cell is clamped to this, so that nothing overflows and a double holds it."""
LARGEST_SUM = 1 << 61
STEPS = 4
"""Candidate lengths to a factor of 2."""
POWER = Fraction(5, 2)
"""A length C weighs C^-POWER before any data."""
PATIENCE, PATIENCE_OF_ONE = Fraction(2), Fraction(6, 5)
"""How many standard deviations of the noise may lie above a length, in units in any of several cells, and of one cell:
what is lost there is hidden by the noise."""
PATIENCE_ALONE = Fraction(1)
"""The same where a unit is in one of several cells."""
NONE = 64
"""The weight of "none" in anchors^-POWER."""


@dataclass(frozen=True, kw_only=True)
class UnitClip:
    """Gaussian noise on the sums of units' vectors, each clipped to a length that an exponential mechanism chooses.

    >>> clip = UnitClip(eps_per=Fraction(3, 20), anchor=1, cells=1)
    >>> clip.scale, clip.choice_scale, clip.allowed, clip.length_of(20)
    (1024, Fraction(40, 3), 19, 32)

    Attributes:
        anchor: b, the least length, in units of the measure's scale.
        cells: how many cells a vector has.
        groups: G, a public number of cells, 1 where the groups were found in the data.
        alone: a unit has rows in one cell only.
        price: information units for all of it.
        length: a length that was chosen and paid for before, or that is fixed: the whole price is spent on noise.
        patience: how many standard deviations of the noise may lie above a length, where it is not the usual number.
        ratios: only ratios of the sums are read, which short vectors tell as well: few units are no reason for none.

    `choose` and `release` together cost `price` information units; `choose` alone, where no length serves, `choice` of
    it, which is 4/25, and 1/4 for one cell.
    ValueError for parameters out of range. (unit_clip.md, Theorem 3)
    """

    name: ClassVar[str] = "UnitClip"
    noise_family: ClassVar[NoiseFamily] = "gaussian"

    eps_per: Fraction
    anchor: int
    cells: int
    groups: int = 1
    alone: bool = False
    price: Fraction = Fraction(1)
    length: int | None = None
    patience: Fraction | None = None
    ratios: bool = False

    def __post_init__(self) -> None:
        check_epsilon(self.eps_per)
        check_bounds(cells=self.cells, groups=self.groups)
        if type(self.anchor) is not int or not 1 <= self.anchor <= LARGEST_TOTAL:
            raise ValueError("anchor must be an integer from 1 to 2^50")
        if not isinstance(self.price, Fraction) or not Fraction(1, 64) <= self.price <= 4096:
            raise ValueError("price must be a Fraction from 1/64 to 4096")
        if self.patience is not None and not (isinstance(self.patience, Fraction) and self.patience > 0):
            raise ValueError("patience must be a positive Fraction")
        if self.length is not None and (
            type(self.length) is not int or not 1 <= self.length <= self._longest
        ):
            raise ValueError("length must be a positive integer whose noise is below 2^40")
        if not self.lengths:
            raise ValueError("anchor and eps_per together must give noise of a scale below 2^40")

    @cached_property
    def scale(self) -> int:
        """K: what totals are multiplied by before they are clipped."""
        return 1 << max(0, ((LEAST_SCALED - 1) // self.anchor).bit_length())

    @property
    def _longest(self) -> int:
        """The largest length whose noise can be drawn: K C sigma < 2^40."""
        most = Fraction(LARGEST**2) / (self.scale**2 * self.sigma_squared)
        return min(LARGEST_TOTAL, math.isqrt(math.ceil(most) - 1))

    def length_of(self, place: int) -> int:
        """b 2^(place/4), rounded to an integer.

        >>> [UnitClip(eps_per=Fraction(1), anchor=10, cells=1).length_of(n) for n in range(6)]
        [10, 12, 14, 17, 20, 24]
        """
        return _length_of(self.anchor, place)

    @cached_property
    def lengths(self) -> tuple[int, ...]:
        """The candidates, ascending; equal ones only once. Bin n holds the units that are longer than length n - 1."""
        return _lengths(self.anchor, self._longest)

    @property
    def places(self) -> int:
        """How many multiples of the anchor, a fourth of an octave apart, it takes to reach the last candidate."""
        return STEPS * (self.lengths[-1] // self.anchor).bit_length()

    def binned(self, places: Counts, units: Counts) -> Counts:
        """Give the units of each bin from those whose vectors have at most the length of a place, but not of the last.

        `places`, `units`: int64 of one shape; places from 0, those beyond the last candidate are longer than all.
        """
        ends = np.array([self.length_of(int(place)) for place in places.tolist()], dtype=np.int64)
        counts = np.zeros(self.bins, dtype=np.int64)
        np.add.at(counts, np.searchsorted(self.lengths, ends), units)
        return counts

    @property
    def bins(self) -> int:
        """Into how many bins units fall by the length of their vectors: one a candidate, and one above the last."""
        return len(self.lengths) + 1

    @cached_property
    def sigma_squared(self) -> Fraction:
        """Variance of the noise, in lengths squared."""
        share = 1 if self.length is not None else 1 - self.choice
        return 4 / (share * self.price * self.eps_per**2)

    @property
    def choice(self) -> Fraction:
        """The share of the price that the choice of a length costs."""
        return CHOICE_OF_ONE if self.groups == 1 else CHOICE

    @property
    def slopes(self) -> tuple[int, int]:
        """By how much a score falls for each unit above a length beyond m0, and for each that is missing there.

        In one cell m0 is too small beside the scale of the choice to tell that a length is too long.
        """
        return (1, 0) if self.groups == 1 else (2, 1)

    @cached_property
    def choice_scale(self) -> Fraction:
        """s of the choice: both slopes together, by s, are sqrt(8 rho_1); rounded up."""
        return sum(self.slopes) * root_up(1 / (self.choice * self.price * self.eps_per**2))

    @cached_property
    def allowed(self) -> int:
        """m0: how many units are to lie above a length."""
        usual = PATIENCE_OF_ONE if self.groups == 1 else PATIENCE_ALONE if self.alone else PATIENCE
        factor = self.patience or usual
        per_cell = self.groups**2 if self.alone else self.groups
        return math.ceil(root_up(factor**2 * self.sigma_squared * per_cell))

    @property
    def units_needed(self) -> int:
        """About how many units with rows it takes until a length 1,000 times the anchor is chosen rather than none; of
        ratios until any is."""
        if self.ratios:
            return math.ceil(float(self.choice_scale / self.slopes[0]) * math.log(1000 * NONE))
        return self.allowed + math.ceil(float(POWER * self.choice_scale / self.slopes[0]) * math.log(1000))

    @property
    def cost_of_choice(self) -> Cost:
        """What is paid where the choice is "none"."""
        return Cost(Fraction(0) if self.length is not None else self.choice * self.price, Fraction(0))

    @property
    def cost_at_most(self) -> Cost:
        return Cost(self.price, Fraction(0))

    def stddev(self, length: int) -> float:
        """Standard deviation of each sum's noise once the length is known, in units of the measure's scale."""
        return gaussian_stddev((self.scale * length) ** 2 * self.sigma_squared) / self.scale

    @property
    def parameters(self) -> tuple[tuple[str, str], ...]:
        texts = exact_texts(
            self, sigma_squared=self.sigma_squared, choice=self.choice, allowed=self.allowed, power=POWER
        )
        # Answers from before there was such a field have keys without it.
        return tuple(text for text in texts if text != ("ratios", "False"))

    @cached_property
    def weights(self) -> tuple[Fraction, ...]:
        """The weight of each candidate, and of "none" behind them, where m0 units lie above.

        >>> [str(weight) for weight in UnitClip(eps_per=Fraction(1), anchor=1, cells=1).weights[:4]]
        ['1', '1/5', '1/15', '1/32']
        """
        return _weights(self.anchor, self._longest)

    def scores(self, units: Counts) -> Counts:
        """Minus how far the number of units above each candidate is from m0, by the slopes; for "none" that of all, and
        of ratios by the first slope how many of them are within m0.

        ValueError as of `choose`. One more unit lowers a score by the first slope, raises it by the second, or leaves
        it. (unit_clip.md, Theorem 1)
        """
        if units.dtype != np.int64 or units.shape != (self.bins,) or units.min() < 0:
            raise ValueError("units must be int64, one count for each bin")
        if int(units.max()) > LARGEST_COUNT // (2 * self.bins):
            raise ValueError("counts of units must add up to at most 2^52")
        above = units[::-1].cumsum()[::-1]  # above[n]: units in bin n or later
        beyond = np.append(above[1:], above[0]) - self.allowed
        more, fewer = self.slopes
        scores: Counts = -(more * np.maximum(beyond, 0) + fewer * np.maximum(-beyond, 0))
        if self.ratios:
            scores[-1] -= more * min(int(above[0]), self.allowed)
        return scores

    def choose(self, units: Counts, stream: Stream) -> int | None:
        """Choose a length, None for none; ValueError unless there is a count for each bin and no length was given.

        `units`: int64, shape (bins,): how many units have a vector that is not 0 and longer than the candidate before
        their bin, at most as long as their own. Position i has weight C_i^-POWER exp(score_i/s).
        """
        if self.length is not None:
            raise ValueError("a length was given: nothing is left of the price to choose one")
        scores = self.scores(units)
        (place,) = gumbel_order(stream.child("length"), scores, self.choice_scale, 1, self.weights).tolist()
        return None if place == len(self.lengths) else self.lengths[place]

    def release(self, sums: Counts, length: int, stream: Stream) -> Release:
        """Release a noisy sum for every cell, in units of the measure's scale, rounded to the nearest.

        `sums`: int64, shape (cells,), of trunc(K y min(1, length/|y|)) over all units; ValueError otherwise.
        """
        if sums.dtype != np.int64 or sums.shape != (self.cells,):
            raise ValueError("sums must be int64, one for each cell")
        if sums.min() < -LARGEST_SUM or sums.max() > LARGEST_SUM:
            raise ValueError("sums must be at most 2^61 in size")
        if not 1 <= length <= self._longest or self.length not in (None, length):
            raise ValueError("the length must be the one given, or one whose noise is below 2^40")
        noisy = sums + discrete_gaussian(
            stream.child("noise"), (self.scale * length) ** 2 * self.sigma_squared, self.cells
        )
        values = (2 * noisy + self.scale) // (2 * self.scale)
        return Release(np.arange(self.cells), values, self.stddev(length), self.cost_at_most)


def clipped(totals: Counts, length: int, scale: int) -> Counts:
    """One unit's clipped vector, trunc(K y min(1, length/|y|)), as the backends compute it.

    >>> clipped(np.array([300, -400]), 100, 1024).tolist()
    [61439, -81919]

    `totals`: int64, at most LARGEST_TOTAL in size. Squares are added exactly; the factor has a margin of 1e-12.
    """
    square = sum(int(y) ** 2 for y in totals.tolist())
    if square <= length**2:
        return scale * totals
    factor = scale * length * (1 - 1e-12) / math.sqrt(square)
    return np.trunc(totals.astype(np.float64) * factor).astype(np.int64)


def _powered(length: int) -> int:
    """length^POWER, rounded down."""
    return math.isqrt(length ** (2 * POWER).numerator)


def root_up(square: Fraction) -> Fraction:
    """The square root, exact where it is rational, else rounded up to a multiple of 2^-40."""
    top, bottom = square.as_integer_ratio()
    root = Fraction(math.isqrt(top), math.isqrt(bottom))
    if root**2 == square:
        return root
    return Fraction(math.isqrt((top << 80) // bottom) + 1, 1 << 40)


def _length_of(anchor: int, place: int) -> int:
    return (math.isqrt(math.isqrt((anchor << 1) ** STEPS << place)) + 1) // 2


@lru_cache(maxsize=1000)
def _lengths(anchor: int, longest: int) -> tuple[int, ...]:
    found: list[int] = []
    for place in range(STEPS * LARGEST_TOTAL.bit_length()):
        length = _length_of(anchor, place)
        if length > longest:
            break
        if not found or length > found[-1]:
            found.append(length)
    return tuple(found)


@lru_cache(maxsize=1000)
def _weights(anchor: int, longest: int) -> tuple[Fraction, ...]:
    weights = [Fraction(1, _powered(length)) for length in _lengths(anchor, longest)]
    return *weights, Fraction(NONE, _powered(anchor))
