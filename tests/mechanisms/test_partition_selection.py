"""WeightedGaussian and DP-SIPS: sensitivity, thresholds, laws, and mutants that the same tests must reject."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest, norm

from mechanisms.histogram import Cost, Counts
from mechanisms.item_sets import ItemSets, encoded
from mechanisms.partition_selection import ONE, DPSips, PrunedSips, WeightedGaussian, WeightRound
from mechanisms.tails import gaussian_tail
from tests.mechanisms.goodness import ALPHA, stream
from tests.mechanisms.scripted import Untouched
from tests.mechanisms.test_item_sets import KEY, integers, random_pairs

RHO, DELTA = Fraction(1, 10), Fraction(1, 100)
DRAWS = 40_000


def mechanism(kind: type[WeightedGaussian], delta0: int = 5, delta: Fraction = DELTA) -> WeightedGaussian:
    return kind(Fraction(1), delta, 8 * RHO, Fraction(1), delta0)


def by_label(round_: WeightRound, persons: Any, items: Any) -> Counts:
    """Weights of labels 0..39."""
    sets, labels = encoded(KEY, persons, items)
    weights = np.zeros(40, dtype=np.int64)
    weights[labels] = round_.weights(sets)
    return weights


class Unfloored(WeightRound):
    """A mutant: weights rounded up."""

    def weights(self, sets: ItemSets) -> Counts:
        kept = sets.capped(self.delta0)
        each = np.ceil(ONE / np.sqrt(np.maximum(kept.degrees, 1)))
        return np.bincount(kept.items, each[kept.owners], sets.size).astype(np.int64)


def by_arrival(sets: ItemSets, delta0: int) -> ItemSets:
    """A mutant's cut: the items that most others have come first."""
    order = np.argsort(-np.bincount(sets.items, minlength=sets.size), kind="stable")
    pairs = np.sort(sets.owners * sets.size + np.argsort(order)[sets.items])
    return ItemSets(sets.offsets, order[pairs % sets.size], sets.size).capped(delta0)


class Popular(WeightRound):
    def weights(self, sets: ItemSets) -> Counts:
        return super().weights(by_arrival(sets, self.delta0))


def worst_change(round_: WeightRound) -> tuple[int, int]:
    """The most a person lifts and lowers the weights, as l2 norms squared, over 30 persons who leave."""
    persons, items = random_pairs(30, 40, 300, "selection")
    whole = by_label(round_, persons, items)
    lifts, drops = [0], [0]
    for leaver in range(30):
        stay = persons != leaver
        change = whole - by_label(round_, persons[stay], items[stay])
        lifts.append(int((change[change > 0] ** 2).sum()))
        drops.append(int((change[change < 0] ** 2).sum()))
    return max(lifts), max(drops)


def test_sensitivity() -> None:
    """One person lifts the weights by at most 2^20 in l2, nearly that much, and lowers none; mutants are caught."""
    lift, drop = worst_change(WeightRound(RHO, DELTA, 5))
    assert 0.999 * ONE**2 < lift <= ONE**2
    assert drop == 0
    assert worst_change(Unfloored(RHO, DELTA, 5))[0] > ONE**2
    assert worst_change(Popular(RHO, DELTA, 5))[1] > 0


def test_weights() -> None:
    """Hand-made: 1, 1/sqrt(2), and 1/sqrt(3) of who has five and may count for three."""
    persons = np.array([1, 2, 2, 3, 3, 3, 3, 3])
    items = np.array([0, 0, 1, 10, 11, 12, 13, 14])
    weights = by_label(WeightRound(RHO, DELTA, 3), persons, items)
    assert weights[:2].tolist() == [ONE + 741455, 741455]
    assert sorted(weights[10:15].tolist()) == [0, 0, 605395, 605395, 605395]
    assert weights.sum() == ONE + 2 * 741455 + 3 * 605395


def test_weights_are_those_of_float64() -> None:
    """What SQL computes, FLOOR(1048576 / SQRT(n)), for every n allowed."""
    n = np.arange(1, 200_001)
    sets = ItemSets(integers(0, 200_000), np.arange(200_000), 200_000)
    exact = [math.isqrt(ONE**2 // i) for i in n.tolist()]
    assert np.floor(ONE / np.sqrt(n)).astype(np.int64).tolist() == exact
    assert set(WeightRound(RHO, DELTA, 200_000).weights(sets).tolist()) == {exact[-1]}


@pytest.mark.parametrize("variance", [Fraction(1, 4), Fraction(1), Fraction(9), Fraction(1000)])
def test_a_discrete_tail_lies_below_the_continuous_one(variance: Fraction) -> None:
    """Lemma D in numbers; for Pr[X >= n] it is false."""
    sigma = float(variance) ** 0.5
    points = range(0, math.ceil(6 * sigma), 1 + int(sigma) // 3)
    assert all(float(gaussian_tail(variance, n)) <= norm.sf(n / sigma) for n in points)
    assert float(gaussian_tail(variance, 0)) > norm.sf(1 / sigma)


class Low(WeightRound):
    @cached_property
    def threshold(self) -> int:
        return super().threshold - ONE // 4


class Half(WeightRound):
    @property
    def sigma_squared(self) -> Fraction:
        return super().sigma_squared / 4


class Less(WeightRound):
    @property
    def sigma_squared(self) -> Fraction:
        return super().sigma_squared * Fraction(81, 100)


class Wide(WeightRound):
    @property
    def sigma_squared(self) -> Fraction:
        return super().sigma_squared * Fraction(121, 100)


def fits(round_: WeightRound, weight: int) -> bool:
    """Whether as many of 40,000 labels of one weight come out as the noise's tail says: alpha 1e-4."""
    truth = WeightRound(round_.rho, round_.delta, round_.delta0)
    out = len(round_.decide(np.full(DRAWS, weight), stream("fits", type(round_).__name__, weight)))
    probability = float(norm.sf((truth.threshold + 0.5 - weight) / float(truth.sigma_squared) ** 0.5))
    return float(binomtest(out, DRAWS, probability).pvalue) > ALPHA


def test_law() -> None:
    """Release probabilities from below 1% to over 99%, against noise 10% off and a threshold 0.25 off."""
    threshold = WeightRound(RHO, DELTA, 5).threshold
    for weight in (threshold - 5 * ONE, threshold - ONE, threshold + 2 * ONE, threshold + 5 * ONE):
        assert fits(WeightRound(RHO, DELTA, 5), weight)
    for mutant in (Half, Less, Wide):
        assert not fits(mutant(RHO, DELTA, 5), threshold - 3 * ONE)
    assert not fits(Low(RHO, DELTA, 5), threshold)


def exposed(round_: WeightRound, count: int) -> int:
    """In how many of 40,000 tries one of the `count` items that one person alone has comes out."""
    weight = math.isqrt(ONE**2 // count)
    out = round_.decide(np.full(DRAWS * count, weight), stream("exposed", type(round_).__name__, count))
    return len(np.unique(out // count))


def test_delta() -> None:
    """delta 0.01, nearly reached at the worst number of items: 40,000 tries, alpha 1e-4 each."""
    round_ = WeightRound(RHO, DELTA, 5)
    found = [exposed(round_, count) for count in (1, 2, 5)]
    assert all(binomtest(x, DRAWS, 0.01, alternative="greater").pvalue > ALPHA for x in found)
    assert max(found) > 0.008 * DRAWS
    low = Low(RHO, DELTA, 5)
    assert min(binomtest(exposed(low, c), DRAWS, 0.01, alternative="greater").pvalue for c in (1, 5)) < ALPHA


def test_a_floor_lifts_the_threshold() -> None:
    """Labels that one person lifts over the floor are no likelier to come out than ones that only she has."""
    floor = 3 * ONE
    assert WeightRound(RHO, DELTA, 5, floor).threshold == WeightRound(RHO, DELTA, 5).threshold + floor - 1
    with pytest.raises(ValueError, match="floor"):
        WeightRound(RHO, DELTA, 5, floor).decide(integers(floor - 1), Untouched())


@dataclass(frozen=True)
class Crowd:
    """Label i of 60 in the sets of 5 i persons with one more label of their own."""

    def pairs(self) -> tuple[Any, Any]:
        common = np.repeat(np.arange(60), 5 * np.arange(60))
        persons = np.arange(len(common))
        return np.tile(persons, 2), np.concatenate([common, 1000 + persons])


@pytest.mark.parametrize("kind", [WeightedGaussian, DPSips, PrunedSips])
def test_release(kind: type[WeightedGaussian]) -> None:
    """What many have comes out once, what one has does not; the input's order does not matter, nor does a replay."""
    persons, items = Crowd().pairs()
    order = np.argsort(stream("order").words(len(persons)))
    found = []
    for place in (slice(None), order):
        sets, labels = encoded(KEY, persons[place], items[place])
        release = mechanism(kind, delta=Fraction(1, 10**6)).release(sets, stream("release", kind.__name__))
        assert release.values is None
        assert release.stddev is None
        assert release.cost == Cost(8 * RHO, Fraction(1))
        found.append(labels[release.indices].tolist())
    assert found[0] == found[1]
    assert len(set(found[0])) == len(found[0])
    assert set(range(20, 60)) <= set(found[0]) <= set(range(1, 60))


def test_sips_goes_on_without_what_it_released() -> None:
    """After the label that all share is out, everybody's other one gets the whole weight: more come out."""
    persons = np.arange(4000)
    sets, _ = encoded(KEY, np.tile(persons, 2), np.concatenate([np.zeros(4000), 1 + persons % 300]))
    plain, sips = (
        mechanism(kind, delta=Fraction(1, 10**6)).release(sets, stream("on")).indices
        for kind in (WeightedGaussian, DPSips)
    )
    assert len(sips) > 1.5 * len(plain) > 10


def test_what_is_set_aside_gives_its_weight_to_others() -> None:
    """Everybody has one of 100 labels that 25 share, and ten labels of her own: more come out."""
    persons = np.arange(2500)
    own = np.arange(25_000) + 1000
    sets, labels = encoded(KEY, np.append(persons, own % 2500), np.append(persons % 100, own))
    found = {
        kind: kind(Fraction(1), Fraction(1, 10**6), Fraction(4), Fraction(1), 20).release(
            sets, stream("aside")
        )
        for kind in (DPSips, PrunedSips)
    }
    plain, pruned = (labels[release.indices] for release in found.values())
    assert len(pruned) > 1.2 * len(plain) > 50
    assert pruned.max() < 100


def test_labels_are_released_or_set_aside_or_neither() -> None:
    this = PrunedSips(Fraction(1), DELTA, Fraction(8), Fraction(1), 5).rounds[0]
    assert this.aside is not None
    assert this.aside < this.threshold
    weights = np.arange(1, 1000) * (ONE // 20)
    released, aside = this.sort_out(weights, stream("sorted"))
    assert released.tolist() == this.decide(weights, stream("sorted")).tolist()
    assert not {*released.tolist()} & {*aside.tolist()}
    assert 0 < len(aside) < len(weights) - len(released)
    assert not this.sort_out(np.zeros(1000, dtype=np.int64), stream("nothing"))[0].size, (
        "nothing has a weight"
    )
    with pytest.raises(ValueError, match="floor"):
        PrunedSips(Fraction(1), DELTA, Fraction(8), Fraction(1), 5, floor=2)


def test_shares_of_the_budget() -> None:
    rounds = mechanism(DPSips).rounds
    assert [this.rho / rounds[0].rho for this in rounds] == [this.delta / rounds[0].delta for this in rounds]
    assert [this.rho / RHO for this in rounds] == [Fraction(1, 13), Fraction(3, 13), Fraction(9, 13)]
    assert sum(this.delta for this in rounds) == DELTA
    assert [this.threshold for this in rounds] == sorted((this.threshold for this in rounds), reverse=True)


def test_value_of_the_design() -> None:
    """rho 0.1, delta 1e-5, delta0 100: 11.726070."""
    assert WeightRound(RHO, Fraction(1, 10**5), 100).threshold == math.ceil(ONE * 11.7260704)


def test_parameters_name_everything_that_decides() -> None:
    texts = dict(mechanism(DPSips).parameters)
    assert texts["mechanism"] == "DPSips"
    assert texts["rounds"].count(";") == 2
    others = [mechanism(WeightedGaussian), mechanism(DPSips, 6), mechanism(DPSips, delta=Fraction(1, 99))]
    assert len({other.parameters for other in [*others, mechanism(DPSips)]}) == 4


def test_nobody() -> None:
    nothing = integers()
    sets, _ = encoded(KEY, nothing, nothing)
    assert mechanism(DPSips).release(sets, stream("nobody")).indices.tolist() == []


def test_bad_input() -> None:
    one = Fraction(1)
    with pytest.raises(ValueError, match="twice"):
        mechanism(DPSips).release(ItemSets(integers(0, 2), integers(1, 1), 2), Untouched())
    round_ = WeightRound(RHO, DELTA, 5)
    for weights in (integers(0), integers(-1), integers(1 << 54), np.array([1.5]), integers(1)[None]):
        with pytest.raises(ValueError, match="weights"):
            round_.decide(weights, Untouched())
    for parameters in (
        (Fraction(0), DELTA, 5),
        (Fraction(-1), DELTA, 5),
        (Fraction(1001), DELTA, 5),
        (0.1, DELTA, 5),
        (RHO, Fraction(0), 5),
        (RHO, Fraction(1, 2), 5),
        (RHO, Fraction(1, 1 << 201), 5),
        (RHO, 0.01, 5),
        (RHO, DELTA, 0),
        (RHO, DELTA, 200_001),
        (RHO, DELTA, 5, 0),
    ):
        with pytest.raises(ValueError, match=r"rho|delta|floor"):
            WeightRound(*parameters)
    sips: Any = DPSips
    for units in ((0.5, one), (one, 0.5), (one, Fraction(51)), (Fraction(0), one), (one, Fraction(0))):
        with pytest.raises(ValueError, match=r"rho|delta|Fractions"):
            sips(one, DELTA, *units, 5)
    with pytest.raises(ValueError, match="eps_per"):
        DPSips(Fraction(17), DELTA, one, one, 5)
