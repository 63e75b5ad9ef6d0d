"""Which measurements an answer at a level has, and what they say together."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dpproxy.config.precision import LEVELS, Target
from dpproxy.engine.measurement.totals import divided
from dpproxy.engine.precision import FAR, UNKNOWN, combined, excess, higher, multipliers, steps
from dpproxy.engine.result.postprocess import OutputColumn
from dpproxy.engine.selection.groups import MeasuredColumn
from mechanisms.histogram import Histogram
from mechanisms.known_domain import KnownGauss
from mechanisms.randomness import seed
from mechanisms.unit_clip import UnitClip, root_up
from tests.mechanisms.goodness import stream

EPS = Fraction(3, 20)


def test_the_steps_of_a_level_cost_the_level() -> None:
    for level in LEVELS:
        assert steps(level, "never") == (level,)
        weighted = steps(level, "weighted")
        assert sum(weighted) == level
        assert weighted[0] >= level / 4
        for combines in ("always", "twice"):
            listed = steps(level, combines)
            assert sum(listed) == level
            assert (
                listed in (steps(level * 2, combines)[:-1], steps(level * 2, combines))
                or len(listed) == 2
                or level < 1
            )
        assert len(steps(level, "twice")) <= 2, "a length serves twice the price that it was chosen for"


@pytest.mark.parametrize("level", [level for level in LEVELS if level >= 1])
def test_a_higher_level_only_adds_to_a_lower_one(level: Fraction) -> None:
    assert steps(2 * level, "always")[: len(steps(level, "always"))] == steps(level, "always")


@pytest.mark.statistical
@pytest.mark.parametrize("level", [Fraction(1, 2), Fraction(4), Fraction(32)])
def test_rungs_together_have_the_noise_of_one_of_their_price(level: Fraction) -> None:
    """The variance and the price of one measurement for all: no rung is free, and none is wasted."""
    cells, price = 4000, Fraction(0)
    counts = Histogram(np.full(cells, 1000, dtype=np.int64), True)
    columns = []
    for rung, units in enumerate(steps(level, "always")):
        mechanism = KnownGauss(EPS / root_up(1 / units), 1, 1, cells, "accurate")
        release = mechanism.release(counts, seed(bytes(32), bytes([rung]) * 32, bytes(16)))
        assert release.values is not None
        assert release.stddev is not None
        columns.append(MeasuredColumn(tuple(release.values.tolist()), (release.stddev,) * cells))
        price += units * mechanism.cost_at_most.information
        # rho = 1/(2 sigma^2), in units of eps_per^2/8.
        assert 4 / (EPS**2 * mechanism.sigma_squared) <= units
    together = combined(columns)
    assert price == level
    wanted = 2 / float(EPS) / float(level) ** 0.5
    wanted = (wanted**2 + 1 / 12) ** 0.5
    assert together.deviations[0] == pytest.approx(wanted, rel=0.02)
    assert np.std(together.values) == pytest.approx(wanted, rel=0.06)
    assert np.mean(together.values) == pytest.approx(1000, abs=5 * wanted / cells**0.5)


@pytest.mark.statistical
def test_intervals_of_weighted_measurements_hold_in_each_cell() -> None:
    """20 draws of the rungs of 8 units, of 20 cells of each size from 0 to 50,000, with lengths that are enough: 95% of
    the intervals of each size within four deviations, and the squared errors of each within 30% of what is said."""
    true = np.tile([50_000, 4000, -900, 120, 7, 0], 20)
    sides = []
    for draw in range(20):
        columns: list[MeasuredColumn] = []
        for rung, units in enumerate(steps(Fraction(8), "weighted")):
            by = multipliers(combined(columns)) if columns else (1,) * len(true)
            clip = UnitClip(
                eps_per=EPS / root_up(1 / units), anchor=1, cells=len(true), length=100 if rung else 2
            )
            release = clip.release(
                clip.scale * true * np.array(by), clip.length or 0, stream("rungs", draw, rung)
            )
            assert release.values is not None
            assert release.stddev is not None
            columns.append(MeasuredColumn(tuple(release.values.tolist()), (release.stddev,) * len(true)))
            columns[-1] = divided(columns[-1], by)
        together = combined(columns)
        assert max(together.deviations) > 1.5 * min(together.deviations)
        sides.append((np.array(together.values) - true) / together.deviations)
    errors = np.array(sides).reshape(-1, 6)
    assert (np.abs((np.abs(errors) <= 1.96).mean(axis=0) - 0.95) < 4 * (0.95 * 0.05 / 400) ** 0.5).all()
    assert (errors**2).mean(axis=0) == pytest.approx([1] * 6, abs=0.3)


def test_what_came_to_nothing_is_left_out() -> None:
    absent, known = MeasuredColumn((0,), absent=True), MeasuredColumn((3,), (1.0,))
    assert combined([absent, absent]) is absent
    assert combined([absent, known]) is combined([known, absent]) is known


def test_how_far_an_error_is_from_its_target() -> None:
    five = Target.read("5%")
    wide = OutputColumn((1000, 10, None), (25.0, 25.0, 25.0), width=2)
    assert excess([OutputColumn((1000,), (25.0,), width=2)], five) == 1
    assert excess([wide], five) == UNKNOWN, "half of the rows"
    assert excess([OutputColumn((0, 0, 1000), (1.0,) * 3, width=2)], five) == FAR
    assert excess([OutputColumn((7,))], five) is None, "nothing is known of its error"
    assert excess([], five) is None
    assert excess([OutputColumn((None,))], five) == UNKNOWN, "a higher level may do"
    assert excess([OutputColumn((10,), (10.0,), width=2, factor=0.5)], Target.read("10")) == 1
    assert excess([OutputColumn((10,), ends=((8, 14),))], Target.read("20%")) == 4
    assert excess([OutputColumn((10,), (1.0,), width=2, factor=0.0)], Target.read("1")) is None
    assert excess([OutputColumn((20_000,), (1.0,), width=2, kind="date")], five) is None, "days have no 0"


def test_levels_rise_fourfold_at_most() -> None:
    assert higher(Fraction(1), Fraction(3, 2), LEVELS) == [2]
    assert higher(Fraction(1), Fraction(100), LEVELS) == [4, 2]
    assert higher(Fraction(32), Fraction(100), LEVELS) == [64]
    assert not higher(Fraction(64), Fraction(100), LEVELS)


@pytest.mark.parametrize("text", ["", "0", "-1", "51%", "%", "5 %%", "1/0", "nan", "1e400", "1e30000000"])
def test_an_error_that_is_none(text: str) -> None:
    with pytest.raises(ValueError, match=r"error|no "):
        Target.read(text)
