"""ClampedSum, QuantileTree and QuantileChoice: one person's rows at the edge of their bounds; noise and choice."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from mechanisms.histogram import Cost, Histogram, Mechanism
from mechanisms.numeric import ClampedSum
from mechanisms.quantile import QuantileChoice, QuantileTree
from mechanisms.randomness import Stream
from tests.audit.claims import bounded_range, concentrated
from tests.audit.experiment import Draw, Experiment
from tests.audit.finding import Check
from tests.audit.fit import Fit, coarse
from tests.audit.neighbours import KNOWN_VIEWS, Fetched, Outcome, Table, fetched, released, sum_over
from tests.mechanisms.goodness import gaussian_law, laplace_law

EPS = Fraction(1)
FREE = Fraction(0)
Noise = Literal["gaussian", "laplace"]
Spend = Literal["accurate", "cheap"]
ROWS = [3, 1, 4, 1, 5]
PERSONS: dict[str, list[int]] = {
    "far above": [10**9] * 2,
    "far below": [-(10**9)] * 2,
    "at both ends": [-2, 7],
}


def total(
    person: str,
    noise: Noise,
    spend: Spend = "accurate",
    centred: bool = False,
    kind: type[ClampedSum] = ClampedSum,
) -> Experiment:
    """Two rows of one person, clamped to [-2, 7], come to two of three keys, of which two are released."""
    mechanism = kind(
        eps_per=EPS, lo=-2, hi=7, tau=2, keys=3, delta0=2, noise=noise, spend=spend, centred=centred
    )

    def side(extra: list[int]) -> Draw:
        own = mechanism.contributions(np.array(extra, dtype=np.int64)).sum() if extra else 0
        base = int(mechanism.contributions(np.array(ROWS, dtype=np.int64)).sum())
        sums = np.array([base + int(own), base + int(own), base], dtype=np.int64)
        return lambda stream, n: [
            tuple(enumerate(values(mechanism, sums, stream.child(i)))) for i in range(n)
        ]

    exact = ClampedSum(
        eps_per=EPS, lo=-2, hi=7, tau=2, keys=3, delta0=2, noise=noise, spend=spend, centred=centred
    )
    promise = bounded_range if noise == "laplace" else concentrated
    claims = promise(exact.cost_at_most, EPS, FREE)
    views: dict[str, Callable[[Any], Hashable]] = {
        "raw": lambda o: o,
        "sum": lambda o: o[0][1] + o[1][1],
        "low bits": lambda o: tuple(value & 3 for _, value in o),
    }
    name = f"{person}, {noise}, {spend}" + (", centred" if centred else "")
    return Experiment("ClampedSum", name, claims, (side([]), side(PERSONS[person])), views, 2000)


def values(mechanism: ClampedSum, sums: np.ndarray[Any, np.dtype[np.int64]], stream: Stream) -> list[int]:
    done = mechanism.release(sums, stream).values
    assert done is not None
    return [int(x) for x in done]


def sum_noise(noise: Noise, spend: Spend, kind: type[ClampedSum] = ClampedSum) -> Fit:
    """B = tau max(|lo|, |hi|) = 14: b or sigma 28, cheap times sqrt(delta0) = 2."""

    def draw(stream: Stream, n: int) -> list[int]:
        mechanism = kind(eps_per=EPS, lo=-2, hi=7, tau=2, keys=n, delta0=4, noise=noise, spend=spend)
        return [x // 7 for x in values(mechanism, np.zeros(n, dtype=np.int64), stream)]

    variance = 28.0**2 * (4 if spend == "cheap" else 1)

    def law() -> dict[int, float]:
        return coarse(laplace_law(28.0, 1400) if noise == "laplace" else gaussian_law(variance, 1400), 7)

    claimed = "Lap(28)" if noise == "laplace" else f"N(0, {variance:.0f})"
    return Fit("ClampedSum", f"noise, {noise}, {spend}", claimed, draw, law, 60_000)


BINS: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "+tau in the first bin": ((4, 4, 4, 4), (6, 4, 4, 4)),
    "+tau in the last bin": ((4, 4, 4, 4), (4, 4, 4, 6)),
    "two rows to two bins": ((0, 9, 0, 9), (1, 9, 0, 10)),
}


def nodes(table: Table, mechanism: Mechanism) -> Fetched:
    """Every bin; what comes out are the nodes over them."""
    bins, histogram = fetched(table, mechanism)
    return Fetched(tuple(range(2 * len(bins) - 1)), histogram)


def tree(what: str, noise: Noise, kind: type[QuantileTree] = QuantileTree) -> Experiment:
    """All nodes of a tree over four bins; two rows of a person touch a node of each level twice."""
    mechanism = kind(EPS, 2, 2, noise)
    left, right = BINS[what]
    first, second = (released(mechanism, dict(enumerate(counts)), nodes) for counts in (left, right))
    price = Cost(Fraction(1), FREE)
    claims = (bounded_range if noise == "laplace" else concentrated)(price, EPS, FREE)
    moved = [0, 1, 3] if what == "+tau in the first bin" else [0, 2, 6]
    views = {**KNOWN_VIEWS, "path": sum_over(moved), "root": sum_over([0])}
    return Experiment("QuantileTree", f"{what}, {noise}", claims, (first, second), views, 2000)


def tree_noise(noise: Noise, kind: type[QuantileTree] = QuantileTree) -> Fit:
    """b = 2 tau (levels + 1)/eps, sigma^2 = (2 tau/eps)^2 (levels + 1), at tau 2 and 13 levels."""

    def draw(stream: Stream, n: int) -> list[int]:
        mechanism = kind(EPS, 2, 13, noise)
        out: list[int] = []
        for number in range(max(1, n // 2**14)):
            empty = Histogram(np.zeros(2**13, dtype=np.int64), complete=True)
            done = mechanism.release(empty, stream.child(number)).values
            assert done is not None
            out += [int(x) // 8 for x in done]
        return out

    def law() -> dict[int, float]:
        return coarse(laplace_law(56.0, 2400) if noise == "laplace" else gaussian_law(224.0, 400), 8)

    claimed = "Lap(56)" if noise == "laplace" else "N(0, 224)"
    return Fit("QuantileTree", f"noise, {noise}", claimed, draw, law, 50_000)


CHOICES: dict[str, tuple[Fraction, tuple[int, ...], tuple[int, ...]]] = {
    "median, +tau in the first bin": (Fraction(1, 2), (4, 4, 4, 4), (6, 4, 4, 4)),
    "first quartile, +tau in the last bin": (Fraction(1, 4), (1, 1, 1, 1), (1, 1, 1, 3)),
    "minimum, +tau in the first bin": (Fraction(0), (0, 3, 3, 3), (2, 3, 3, 3)),
    "maximum, from nothing": (Fraction(1), (0, 0, 0, 0), (0, 0, 1, 1)),
}


def choice(what: str, kind: type[QuantileChoice] = QuantileChoice) -> Experiment:
    """One bin: a single bounded range step."""
    quantile, left, right = CHOICES[what]
    mechanism = kind(EPS, 2, 4, quantile)
    first, second = (released(mechanism, dict(enumerate(counts))) for counts in (left, right))
    claims = bounded_range(Cost(Fraction(1), FREE), EPS, FREE)
    return Experiment("QuantileChoice", what, claims, (first, second), {"bin": _bin}, 4000)


def _bin(outcome: Outcome) -> Hashable:
    return outcome.rows[0][0]


def choice_law(kind: type[QuantileChoice] = QuantileChoice) -> Fit:
    """exp(-eps far/(2 tau max(q, 1-q))), far the rows on the wrong side of the bin, weighted by q and 1 - q."""
    counts, q = (1, 3, 2, 4), Fraction(1, 4)
    mechanism = kind(EPS, 2, 4, q)

    def draw(stream: Stream, n: int) -> list[int]:
        return [int(o.rows[0][0]) for o in released(mechanism, dict(enumerate(counts)))(stream, n)]

    def law() -> dict[int, float]:
        weights = {}
        for i in range(4):
            below, above, share = sum(counts[:i]), sum(counts[i + 1 :]), float(q)
            high = (1 - share) * below - share * (above + counts[i])
            low = share * above - (1 - share) * (below + counts[i])
            weights[i] = math.exp(-float(EPS) * max(high, low, 0) / (2 * 2 * max(share, 1 - share)))
        return {i: weight / sum(weights.values()) for i, weight in weights.items()}

    return Fit("QuantileChoice", "choice of a bin", "exp(eps s/2)", draw, law, 8000)


CASES: tuple[Check, ...] = (
    *(total(person, "gaussian") for person in PERSONS),
    total("far above", "laplace"),
    total("far above", "gaussian", "cheap"),
    total("far above", "gaussian", centred=True),
    sum_noise("gaussian", "accurate"),
    sum_noise("gaussian", "cheap"),
    sum_noise("laplace", "accurate"),
    *(tree(what, "gaussian") for what in BINS),
    tree("+tau in the first bin", "laplace"),
    tree_noise("gaussian"),
    tree_noise("laplace"),
    *(choice(what) for what in CHOICES),
    choice_law(),
)
