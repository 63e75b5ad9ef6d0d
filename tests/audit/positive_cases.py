"""PositiveHistogram: every group against a fixed threshold."""

from __future__ import annotations

from fractions import Fraction
from typing import Literal

import numpy as np

from mechanisms.histogram import Cost, Histogram
from mechanisms.positive_histogram import PositiveHistogram
from mechanisms.randomness import Stream
from tests.audit.claims import bounded_range, concentrated, pure
from tests.audit.experiment import Experiment
from tests.audit.finding import Check
from tests.audit.fit import Exact, Fit
from tests.audit.neighbours import UNKNOWN_VIEWS, Table, changed, released, sum_over
from tests.audit.rare import Rare, newcomers
from tests.mechanisms.goodness import gaussian_law, laplace_law

EPS, DELTA = Fraction(2), Fraction(1, 10)
Noise = Literal["gaussian", "laplace"]
Kind = type[PositiveHistogram]
NAME = "PositiveHistogram"


def _threshold(noise: Noise) -> int:
    return PositiveHistogram(EPS, DELTA, 3, 1, 50, noise).threshold


def _pairs(noise: Noise) -> dict[str, tuple[int, int, Table, Table]]:
    """Give tau, delta0 and two tables by name."""
    threshold = _threshold(noise)
    return {
        "absent/tau": (3, 1, {}, {0: 3}),
        "T-tau/T": (3, 1, {0: threshold - 3}, {0: threshold}),
        "T-1/T": (3, 1, {0: threshold - 1, 1: 1}, {0: threshold, 1: 1}),
        "equals part": (1, 1, {0: 12, 1: 12}, {0: 12, 1: 13}),
        "delta0 new keys": (2, 3, {0: 30}, {0: 30, 1: 2, 2: 2, 3: 2}),
        "+tau on delta0 keys": (2, 3, {0: 20, 1: 15, 2: 9, 3: 9}, {0: 22, 1: 17, 2: 11, 3: 9}),
    }


WHAT = tuple(_pairs("laplace"))
NEWS = ("absent/tau", "delta0 new keys")


def positive(noise: Noise, what: str, kind: Kind = PositiveHistogram) -> Experiment:
    """One unit and one call; with Laplace noise (eps_per/2, delta_per)-DP as well."""
    tau, delta0, left, right = _pairs(noise)[what]
    mechanism = kind(EPS, DELTA, tau, delta0, 50, noise)
    price = Cost(Fraction(1), Fraction(1))
    claims = concentrated(price, EPS, DELTA)
    if noise == "laplace":
        claims = (pure(EPS / 2, DELTA), *bounded_range(price, EPS, DELTA))
    views = {**UNKNOWN_VIEWS, "sum": sum_over(changed(left, right))}
    sides = released(mechanism, left), released(mechanism, right)
    return Experiment(NAME, f"{what}, {noise}", claims, sides, views)


def news(noise: Noise, what: str, kind: Kind = PositiveHistogram) -> Rare:
    """What only the second table has comes out with delta_per at most."""
    tau, delta0, left, right = _pairs(noise)[what]
    draw = released(kind(EPS, DELTA, tau, delta0, 50, noise), right)
    return newcomers(NAME, f"{what}, {noise}", float(DELTA), draw, frozenset(right) - frozenset(left))


def noise_law(noise: Noise, kind: Kind = PositiveHistogram) -> Fit:
    """The noise on counts far above the threshold, at tau 2, delta0 3, eps_per 2."""

    def draw(stream: Stream, n: int) -> list[int]:
        counts = np.full(n, 10**7, dtype=np.int64)
        release = kind(EPS, DELTA, 2, 3, n, noise).release(Histogram(counts, complete=True), stream)
        assert release.values is not None
        return [int(x) for x in release.values - 10**7]

    law = (lambda: gaussian_law(12.0)) if noise == "gaussian" else (lambda: laplace_law(6.0))
    return Fit(NAME, f"noise, {noise}", "N(0, 12)" if noise == "gaussian" else "Lap(6)", draw, law, 150_000)


def threshold(noise: Noise, tau: int, delta0: int, kind: Kind = PositiveHistogram) -> Exact:
    """T at eps_per 0.15, delta_per 1e-10: the smallest with delta0 Pr[X > T - tau] <= delta, by plain sums."""
    eps, delta = Fraction(3, 20), Fraction(1, 10**10)
    ours = kind(eps, delta, tau, delta0, 10, noise).threshold

    def compute() -> tuple[str, bool]:
        scale = 2 * tau / float(eps)
        if noise == "gaussian":
            law = gaussian_law(scale**2 * delta0, int(14 * scale * delta0**0.5))
        else:
            law = laplace_law(scale * delta0, int(60 * scale * delta0))
        masses = np.array([law[x] for x in sorted(law) if x > 0])
        tails = np.cumsum(masses[::-1])[::-1]  # Pr[X > n] at n = 0, 1, ...
        least = tau + int(np.argmax(delta0 * tails <= float(delta)))
        return f"T = {ours}, least {least}", ours == least

    return Exact(
        NAME, f"threshold (tau {tau}, delta0 {delta0}), {noise}", "least T with tail <= delta", compute
    )


def _cases(noise: Noise) -> tuple[Check, ...]:
    return (
        *(positive(noise, what) for what in WHAT),
        *(news(noise, what) for what in NEWS),
        noise_law(noise),
        threshold(noise, 1, 1),
        threshold(noise, 2, 3),
    )


CASES: tuple[Check, ...] = (*_cases("gaussian"), *_cases("laplace"))
