"""Quantiles: laws of tree and choice, the norms and ranges of their proofs, and mutants."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mechanisms.histogram import Cost, Histogram
from mechanisms.noise import Integers, discrete_gaussian
from mechanisms.quantile import QuantileChoice, QuantileTree, tree_interval, tree_quantile
from mechanisms.randomness import Stream
from tests.mechanisms.goodness import ALPHA, gaussian_law, laplace_law, p_value, power, stream
from tests.mechanisms.scripted import Untouched

Noise = Literal["gaussian", "laplace"]
LEVELS = 14


def true_nodes(counts: Integers) -> Integers:
    rows = [counts]
    while len(rows[0]) > 1:
        rows.insert(0, rows[0].reshape(-1, 2).sum(axis=1))
    return np.concatenate(rows)


def residuals(tree: QuantileTree) -> list[int]:
    counts = np.arange(tree.cells) * 7 % 1000
    release = tree.release(Histogram(counts, complete=True), stream("tree", type(tree).__name__, tree.noise))
    assert release.values is not None
    return [int(x) for x in release.values - true_nodes(counts)]


class Less(QuantileTree):
    """10% less noise."""

    factor = Fraction(9, 10)

    def _draw(self, stream: Stream, n: int) -> Integers:
        return discrete_gaussian(stream, self.sigma_squared * self.factor**2, n)


class More(Less):
    factor = Fraction(11, 10)


class BareRoot(QuantileTree):
    """The number of rows without noise."""

    def _draw(self, stream: Stream, n: int) -> Integers:
        noise = super()._draw(stream, n)
        noise[0] = 0
        return noise


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_tree_law(noise: Noise) -> None:
    """sigma = 2 sqrt(15), b = 2 * 15: n 32,767 nodes, alpha 1e-4; power against 10% off either way over 0.99."""
    tree = QuantileTree(Fraction(1), 1, LEVELS, noise)
    law = gaussian_law(60.0) if noise == "gaussian" else laplace_law(30.0)
    assert p_value(residuals(tree), law) > ALPHA
    for factor in (0.9, 1.1):
        lie = gaussian_law(60 * factor**2) if noise == "gaussian" else laplace_law(30 * factor)
        assert power(law, lie, 2 * tree.cells - 1) > 0.99
    if noise == "gaussian":
        for mutant in (Less, More):
            assert p_value(residuals(mutant(Fraction(1), 1, LEVELS, noise)), law) < ALPHA


def roots(tree: QuantileTree) -> list[int]:
    drawn = [tree.release(Histogram(np.full(2, 50), True), stream("roots", n)) for n in range(400)]
    return [int(release.values[0]) for release in drawn if release.values is not None]


def test_the_root_is_noised() -> None:
    law = {100 + x: p for x, p in gaussian_law(8.0).items()}
    assert p_value(roots(QuantileTree(Fraction(1), 1, 1, "gaussian")), law) > ALPHA
    assert p_value(roots(BareRoot(Fraction(1), 1, 1, "gaussian")), law) < ALPHA


def test_norms_of_the_tree() -> None:
    """A person of tau rows changes all nodes by at most (levels + 1) tau^2 in squares, reached in one bin."""
    tree = QuantileTree(Fraction(1), 3, 4, "gaussian")
    norms = []
    for row in [*stream("rows").words(300 * 3).reshape(300, 3).tolist(), [5, 5, 5]]:
        change = true_nodes(np.bincount([x % 16 for x in row], minlength=16).astype(np.int64))
        norms.append(int((change**2).sum()))
        assert change.sum() == 5 * 3
    assert max(norms) == 5 * 9 == tree.sigma_squared / 4
    assert QuantileTree(Fraction(1), 3, 4, "laplace").scale == 2 * 5 * 3


@pytest.mark.statistical
@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(st.integers(0, 9), min_size=16, max_size=16), st.fractions(0, 1, max_denominator=20))
def test_tree_quantile_of_true_counts(counts: list[int], quantile: Fraction) -> None:
    """Without noise it is the bin in which the cumulative count reaches q N."""
    nodes = true_nodes(np.array(counts, dtype=np.int64))
    found = tree_quantile(nodes, quantile)
    upto = np.cumsum(counts)
    reached = quantile * int(upto[-1])
    if upto[-1]:
        assert upto[found] >= reached
        assert upto[found] - counts[found] <= reached


def test_tree_quantiles_of_noisy_counts() -> None:
    """Within 2% of 100,000 rows in rank; any number of them, at one price."""
    tree = QuantileTree(Fraction(1, 2), 1, 10, "gaussian")
    counts = np.bincount((stream("values").words(100_000) % np.uint64(1024)).astype(np.int64) ** 2 // 1024)
    release = tree.release(Histogram(np.pad(counts, (0, 1024 - len(counts))), True), stream("noisy"))
    assert release.values is not None
    assert release.cost == Cost(Fraction(1), Fraction(0))
    upto = np.cumsum(np.pad(counts, (0, 1024 - len(counts))))
    for percent in range(5, 100, 5):
        found = tree_quantile(release.values, Fraction(percent, 100))
        assert upto[found] >= 1000 * (percent - 2)
        assert (upto[found - 1] if found else 0) <= 1000 * (percent + 2)


ROWS = np.array([3, 0, 4, 2, 6])
CHOICE = QuantileChoice(Fraction(1), 2, 5, Fraction(2, 3))


def score(counts: Integers, i: int, quantile: Fraction) -> Fraction:
    """By definition: minus the distance of q N from the ranks in bin i, times q's denominator."""
    below, upto = int(counts[:i].sum()), int(counts[: i + 1].sum())
    rank = quantile * int(counts.sum())
    return -max(below - rank, rank - upto, Fraction(0)) * quantile.denominator


def choice_law(choice: QuantileChoice, counts: Integers) -> dict[int, float]:
    weights = {
        i: math.exp(float(score(counts, i, choice.quantile) / choice.beta)) for i in range(choice.cells)
    }
    return {i: weight / sum(weights.values()) for i, weight in weights.items()}


def choices(choice: QuantileChoice, draws: int = 3000) -> list[int]:
    root = stream("choice", type(choice).__name__)
    return [int(choice.release(Histogram(ROWS, True), root.child(i)).indices[0]) for i in range(draws)]


class HalfChoice(QuantileChoice):
    """As if all scores moved in one direction."""

    @property
    def beta(self) -> Fraction:
        return super().beta / 2


@pytest.mark.statistical
def test_choice_law() -> None:
    """alpha 1e-4, n 3,000; power against half the scale over 0.99."""
    law = choice_law(CHOICE, ROWS)
    assert p_value(choices(CHOICE), law) > ALPHA
    half = HalfChoice(Fraction(1), 2, 5, Fraction(2, 3))
    assert power(law, choice_law(half, ROWS), 3000) > 0.99
    assert p_value(choices(half), law) < ALPHA


def ranges(kind: type[QuantileChoice]) -> float:
    """The widest interval of log-likelihood ratios over random neighbours, in units of eps_per."""
    widest = 0.0
    for row in stream("neighbours").words(400 * 9).reshape(400, 9).tolist():
        tau = 1 + row[0] % 3
        quantile = Fraction(row[1] % 7, 6)
        choice = kind(Fraction(1), tau, 5, quantile)
        low = np.array([x % 5 for x in row[2:7]])
        high = low + np.bincount([row[7 + n % 2] // (n + 1) % 5 for n in range(tau)], minlength=5)
        one, other = choice_law(choice, low), choice_law(choice, high)
        ratios = [math.log(one[i] / other[i]) for i in one]
        widest = max(widest, max(ratios) - min(ratios))
    return widest


def test_the_choice_has_bounded_range() -> None:
    """Over 400 pairs at most eps_per; half the scale exceeds it."""
    assert 0.5 < ranges(QuantileChoice) <= 1 + 1e-9
    assert ranges(HalfChoice) > 1


@pytest.mark.parametrize("quantile", [Fraction(0), Fraction(1, 2), Fraction(1)])
def test_choices_of_many_rows_are_right(quantile: Fraction) -> None:
    choice = QuantileChoice(Fraction(1), 1, 4, quantile)
    counts = np.array([0, 10**6, 10**6, 0])
    found = {int(choice.release(Histogram(counts, True), stream("many", i)).indices[0]) for i in range(20)}
    # the ends of the range lie in the empty bins beside it as well
    assert found <= {Fraction(0): {0, 1}, Fraction(1, 2): {1, 2}, Fraction(1): {2, 3}}[quantile]


@pytest.mark.parametrize(
    "arguments",
    [(Fraction(1), 0, 3, "gaussian"), (Fraction(1), 1, 21, "gaussian"), (Fraction(1), 1, 3, "normal")],
)
def test_trees_out_of_range(arguments: Any) -> None:
    with pytest.raises(ValueError, match="must"):
        QuantileTree(*arguments)


@pytest.mark.parametrize("quantile", [Fraction(-1, 2), Fraction(3, 2), 0.5, Fraction(1, 1001)])
def test_quantiles_out_of_range(quantile: Any) -> None:
    with pytest.raises(ValueError, match="must"):
        QuantileChoice(Fraction(1), 1, 5, quantile)
    if quantile != Fraction(1, 1001) and quantile != 0.5:
        with pytest.raises(ValueError, match="lies"):
            tree_quantile(np.array([1, 1, 0]), quantile)


@pytest.mark.parametrize("counts", [[777, 1], [777, -1, 1, 1], [2**53, 2**53, 777, 1]])
def test_bad_counts(counts: list[int]) -> None:
    for mechanism in (
        QuantileTree(Fraction(1), 1, 2, "gaussian"),
        QuantileChoice(Fraction(1), 1, 4, Fraction(1)),
    ):
        with pytest.raises(ValueError, match=r"count|cell") as error:
            mechanism.release(Histogram(np.array(counts), True), Untouched())
        assert "777" not in str(error.value)


SPREADS = {
    "even": np.full(64, 40),
    "few values": np.bincount([3, 3, 40, 41, 60], minlength=64) * 300,
    "halves": np.bincount([10, 50], minlength=64) * 500,
    "skewed": (4000 / np.arange(1, 65) ** 1.5).astype(np.int64),
    "few rows": np.bincount([5, 20, 21, 22, 50], minlength=64),
}
QUANTILES = (Fraction(0), Fraction(1, 10), Fraction(1, 2), Fraction(19, 20), Fraction(1))
COVERED = 178
"""Of 200 intervals of at least 95%, fewer hold the true value with a probability below 1e-4."""


def quantiles(counts: Integers, fraction: Fraction) -> tuple[float, int]:
    """PERCENTILE_CONT and PERCENTILE_DISC of rows whose values are their bins."""
    values = np.repeat(np.arange(len(counts)), counts)
    ceiling = math.ceil(fraction * len(values))
    return float(np.quantile(values, float(fraction))), int(values[max(ceiling, 1) - 1])


@pytest.mark.parametrize("spread", SPREADS)
@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_intervals_of_a_tree_hold_the_quantiles(spread: str, noise: Noise) -> None:
    tree = QuantileTree(Fraction(1, 2), 1, 6, noise)
    margin = (1.96 if noise == "gaussian" else 2.12) * tree.stddev
    held, narrow, wide = dict.fromkeys(QUANTILES, 0), 0, 0
    for number in range(200):
        drawn = stream("intervals", spread, noise, number)
        nodes = tree.release(Histogram(SPREADS[spread], True), drawn).values
        assert nodes is not None
        for fraction in QUANTILES:
            first, last = tree_interval(nodes, fraction, margin, slack=1)
            held[fraction] += all(first <= q <= last for q in quantiles(SPREADS[spread], fraction))
        wide += (
            tree_interval(nodes, Fraction(1, 2), margin)[1] - tree_interval(nodes, Fraction(1, 2), margin)[0]
        )
        first, last = tree_interval(nodes, Fraction(1, 2), margin / 4)
        narrow += first <= quantiles(SPREADS[spread], Fraction(1, 2))[1] <= last
    assert min(held.values()) >= COVERED
    if spread == "even":
        assert wide / 200 < 20, "bins, of 64"
        assert narrow < COVERED, "a quarter of the margin is seen"


@pytest.mark.parametrize("spread", SPREADS)
def test_a_choice_is_within_its_ranks(spread: str) -> None:
    counts = SPREADS[spread]
    choice = QuantileChoice(Fraction(1, 2), 1, 64, Fraction(1, 4))
    target, upto = float(choice.quantile) * counts.sum(), np.cumsum(counts)
    far = []
    for number in range(200):
        place = int(choice.release(Histogram(counts, True), stream("ranks", spread, number)).indices[0])
        far.append(max(upto[place] - counts[place] - target, target - upto[place], 0))
    assert sum(f <= choice.ranks() for f in far) >= COVERED
