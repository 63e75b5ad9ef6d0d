"""UnitMoments: numbers of rows, sums and sums of squares about a centre, of each unit one vector, clipped as a whole.

Averages and variances of any number of cells are functions of one release. Proof sheet: unit_moments.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np

from mechanisms.histogram import Cost, Counts, Histogram, NoiseFamily
from mechanisms.quantile import QuantileChoice
from mechanisms.randomness import Stream
from mechanisms.unit_clip import LEAST_SCALED, PATIENCE_OF_ONE, UnitClip, root_up
from mechanisms.validation import check_epsilon, exact_texts

CENTRE = Fraction(1, 10)
"""The share of the price that the choice of a centre costs."""
PATIENCE = 2 * PATIENCE_OF_ONE
"""Of how many standard deviations units may lie above a length: what is lost of a sum is lost of the number, too."""
PATIENCE_OF_AVERAGES = 3 * PATIENCE_OF_ONE
"""The same where nothing but averages is read, so that what both lose alike matters little."""
STEPS = 4
"""Candidate centres to a factor of 2."""
LARGEST_CENTRE = 1 << 40
PLACES = STEPS * LARGEST_CENTRE.bit_length()
"""Candidates are 0 and, of both signs, 2^(n/4) rounded to an integer, n below this."""


FINENESS = 1 << 16
"""With squares about a centre that decides beta a row counts for at least so much: values may lie much closer to each
other than to 0, and rounding Q/beta for each row takes nothing off their sum."""


class Centre(NamedTuple):
    """`centre`: what values are taken from; `row`: what a row counts for in the length of a vector, positive; `fine`: a
    power of two by which all parts of a vector are multiplied."""

    centre: int
    row: int
    fine: int = 1


@dataclass(frozen=True, kw_only=True)
class UnitMoments:
    """A private median of units' averages c, then Gaussian noise on the clipped vectors (S - c N, beta N, Q/beta).

    >>> moments = UnitMoments(eps_per=Fraction(3, 20), least=100, cells=1)
    >>> moments.centre_of(0), moments.centre_of(-9)
    (Centre(centre=0, row=100, fine=1), Centre(centre=-4, row=100, fine=1))
    >>> moments.cost_at_most.information
    Fraction(1, 1)

    Attributes:
        least: the least beta, in units of the measure's scale.
        cells, groups, alone: as of UnitClip; a vector has a part for each moment and cell.
        squares: with the sums of squares.
        averages: nothing but averages is read, neither sums nor numbers of rows.
        price: information units for all of it.

    S, N and Q are a unit's sum, number of rows and sum of (x - c)^2 in a cell; beta is max(|c|/2, least), rounded up,
    but no longer than noise can be drawn for.
    `choose_centre` costs 1/10 of `price`, the `clip` the rest. ValueError for parameters out of range.
    (unit_moments.md, Theorem 1)
    """

    name: ClassVar[str] = "UnitMoments"
    noise_family: ClassVar[NoiseFamily] = "gaussian"

    eps_per: Fraction
    least: int
    cells: int
    groups: int = 1
    alone: bool = False
    squares: bool = False
    averages: bool = False
    price: Fraction = Fraction(1)

    def __post_init__(self) -> None:
        check_epsilon(self.eps_per)
        if type(self.least) is not int or not 1 <= self.least <= LARGEST_CENTRE:
            raise ValueError("least must be an integer from 1 to 2^40")
        _ = self._median, self._largest_row  # what cannot be drawn is refused now, not after the first step

    @property
    def parts(self) -> int:
        """How many moments a vector has in each cell."""
        return 3 if self.squares else 2

    @property
    def cost_at_most(self) -> Cost:
        return Cost(self.price, Fraction(0))

    @property
    def cost_of_centre(self) -> Cost:
        return Cost(CENTRE * self.price, Fraction(0))

    @property
    def parameters(self) -> tuple[tuple[str, str], ...]:
        texts = exact_texts(self, beta=self._median.beta, centre=CENTRE, patience=self.patience)
        # Answers from before there was such a field have keys without it.
        fine = (("fineness", str(FINENESS)),) if self.squares else ()
        return (*(text for text in texts if text != ("averages", "False")), *fine)

    @property
    def patience(self) -> Fraction:
        """Of how many standard deviations units may lie above a length."""
        return PATIENCE_OF_AVERAGES if self.averages else PATIENCE

    @cached_property
    def _median(self) -> QuantileChoice:
        eps_per = 1 / root_up(1 / (CENTRE * self.price * self.eps_per**2))
        return QuantileChoice(eps_per, 1, 2 * PLACES + 1, Fraction(1, 2))

    @cached_property
    def _largest_row(self) -> int:
        """The largest beta whose noise can be drawn, so that there is a clip about every centre."""
        return self.clip(Centre(0, max(self.least, LEAST_SCALED))).lengths[-1]

    def centre_of(self, place: int) -> Centre:
        """The candidate at a place: 0 in the middle, 1, 1, 1, 2, 2, 2, 3 ... above it, the same below 0 before it."""
        size = 0
        if place:
            twice = math.isqrt(math.isqrt(2**STEPS << (abs(place) - 1)))
            size = (twice + 1) // 2
        return self.about(size if place > 0 else -size)

    def about(self, centre: int) -> Centre:
        """A centre with what a row counts for, beta."""
        row = min(max((abs(centre) + 1) // 2, self.least), self._largest_row)
        least = FINENESS if row > self.least else LEAST_SCALED
        fine = 1 << ((least - 1) // row).bit_length() if self.squares else 1
        return Centre(centre, row, fine if row * fine <= self._largest_row else 1)

    def choose_centre(self, places: Counts, units: Counts, stream: Stream) -> Centre:
        """Choose a centre; `places`, `units`: int64 of one shape, how many units have their average at a place.

        Places lie between -PLACES and PLACES; units without rows are nowhere. ValueError otherwise.
        """
        if len(places) and np.abs(places).max() > PLACES:
            raise ValueError("an average is beyond all candidates")
        counts = np.zeros(2 * PLACES + 1, dtype=np.int64)
        np.add.at(counts, places + PLACES, units)
        release = self._median.release(Histogram(counts, True), stream)
        return self.centre_of(int(release.indices[0]) - PLACES)

    def clip(self, centre: Centre, length: int | None = None) -> UnitClip:
        """What clips and releases the vectors about a centre, whose lengths are in units of the scale over `fine`.

        `length`: one that was chosen and paid for before, with the centre: the whole price is spent on noise.
        """
        return UnitClip(
            eps_per=self.eps_per,
            anchor=centre.row * centre.fine,
            cells=self.parts * self.cells,
            groups=self.groups,
            alone=self.alone,
            price=self.price if length is not None else (1 - CENTRE) * self.price,
            length=length,
            patience=self.patience,
            ratios=self.averages,
        )
