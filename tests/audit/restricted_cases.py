"""UnkLap and UnkGauss: what one person can do to slots, threshold row and order; laws of noise and of release."""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

import numpy as np

from mechanisms.histogram import Cost, Histogram
from mechanisms.randomness import Stream
from mechanisms.unknown_domain import UnkGauss, UnkLap
from tests.audit.claims import Claim, bounded_range, concentrated, pure
from tests.audit.experiment import Experiment
from tests.audit.finding import Check
from tests.audit.fit import Exact, Fit
from tests.audit.neighbours import UNKNOWN_VIEWS, Fetch, Table, changed, fetched, released, sum_over
from tests.audit.rare import Rare, newcomers
from tests.mechanisms.goodness import gaussian_law, laplace_law
from tests.mechanisms.laws import thresholded

EPS, DELTA = Fraction(2), Fraction(1, 10)
Kind = type[UnkLap] | type[UnkGauss]
CROWD = 60
"""Elements at the threshold, whose number would tell where it lies."""
TIES = 100
"""Elements tied at d_bar, few of which come out at a time."""
TIED = dict.fromkeys(range(2 * TIES), 9)


def _at_threshold(kind: Kind, bar: int) -> Table:
    """Crowd around the noisy threshold of a row with count `bar`, b = sigma = 1."""
    offset = kind(EPS, DELTA, 1, 1, CROWD).threshold
    return {**dict.fromkeys(range(CROWD), 9 + offset), CROWD: bar}


class Neighbours(NamedTuple):
    """Two tables and the parameters at which they are looked at."""

    tau: int
    delta0: int
    d_bar: int
    left: Table
    right: Table
    eps: Fraction = EPS

    def mechanism(self, kind: Kind) -> UnkLap | UnkGauss:
        return kind(self.eps, DELTA, self.tau, self.delta0, self.d_bar)


def neighbours(kind: Kind) -> dict[str, Neighbours]:
    """Give the worst cases by name; T of a mechanism is public and may appear in them."""
    threshold = kind(EPS, DELTA, 3, 1, 2).threshold
    return {
        "absent/1": Neighbours(1, 1, 2, {}, {0: 1}),
        "absent/tau": Neighbours(3, 1, 2, {}, {0: 3}),
        "T-tau/T": Neighbours(3, 1, 2, {0: threshold - 3}, {0: threshold}),
        "T-1/T": Neighbours(3, 1, 2, {0: threshold - 1, 1: 1}, {0: threshold, 1: 1}),
        "ties at d_bar and d_bar+1": Neighbours(1, 1, 2, {0: 9, 1: 9, 2: 9, 3: 9}, {0: 9, 1: 9, 2: 10, 3: 9}),
        "ties, all but the first": Neighbours(1, 2, 2, {0: 9, 1: 9, 2: 9, 3: 9}, {0: 9, 1: 9, 2: 10, 3: 10}),
        "a crowd of ties at d_bar": Neighbours(1, 1, TIES, TIED, {**TIED, 2 * TIES - 1: 10}, Fraction(1, 2)),
        "fewer than d_bar+1 keys": Neighbours(1, 1, 3, {0: 4, 1: 3}, {0: 4, 1: 3, 2: 1}),
        "the threshold row moves": Neighbours(1, 1, CROWD, _at_threshold(kind, 9), _at_threshold(kind, 10)),
        "delta0 new keys": Neighbours(2, 3, 4, {0: 30}, {0: 30, 1: 2, 2: 2, 3: 2}),
        "equals part": Neighbours(1, 1, 3, {0: 12, 1: 12}, {0: 12, 1: 13}),
        "+tau on delta0 keys": Neighbours(2, 3, 4, {0: 20, 1: 15, 2: 9, 3: 9}, {0: 22, 1: 17, 2: 11, 3: 9}),
        "slot and threshold with tau 2": Neighbours(2, 1, 1, {0: 1, 1: 2}, {0: 3, 1: 2}),
    }


WHAT = tuple(neighbours(UnkLap))
NEWS = ("absent/1", "absent/tau", "fewer than d_bar+1 keys", "delta0 new keys")


def restricted(base: Kind, what: str, kind: Kind | None = None, fetch: Fetch = fetched) -> Experiment:
    """One unit and one call; UnkLap is (eps_per/2, delta_per)-DP by its theorem as well."""
    pair = neighbours(base)[what]
    mechanism = pair.mechanism(kind or base)
    sides = released(mechanism, pair.left, fetch), released(mechanism, pair.right, fetch)
    views = {**UNKNOWN_VIEWS, "sum": sum_over(changed(pair.left, pair.right))}
    samples = 4000 if what == "equals part" else 2000
    return Experiment(base.__name__, what, _claims(base, pair.eps), sides, views, samples)


def news(base: Kind, what: str, kind: Kind | None = None, fetch: Fetch = fetched) -> Rare:
    """What only the second table has comes out with delta_per at most."""
    pair = neighbours(base)[what]
    new = frozenset(pair.right) - frozenset(pair.left)
    draw = released(pair.mechanism(kind or base), pair.right, fetch)
    return newcomers(base.__name__, what, float(DELTA), draw, new)


def _claims(base: Kind, eps: Fraction) -> tuple[Claim, ...]:
    price = Cost(Fraction(1), Fraction(1))
    if base is UnkGauss:
        return concentrated(price, eps, DELTA)
    return (pure(eps / 2, DELTA), *bounded_range(price, eps, DELTA))


def joint_law(base: Kind, kind: Kind | None = None) -> Fit:
    """Two elements against the noisy threshold: what comes out, enumerated, b = sigma = 1, T computed here."""
    top = (7, 6, 2)
    mechanism = (kind or base)(EPS, DELTA, 1, 1, 2)

    def draw(stream: Stream, n: int) -> list[tuple[tuple[int, int | None], ...]]:
        outcomes = released(mechanism, dict(enumerate(top)))(stream, n)
        return [outcome.rows for outcome in outcomes]

    def law() -> dict[tuple[tuple[int, int], ...], float]:
        noise = gaussian_law(1.0, 9) if base is UnkGauss else laplace_law(1.0, 14)
        return thresholded(top, smallest_threshold(noise, 1, 1, float(DELTA)), noise, noise)

    return Fit(base.__name__, "what comes out of two", "enumerated", draw, law, 6000)


def noise(base: Kind, kind: Kind | None = None) -> Fit:
    """The noise on counts far above the threshold, at tau 2, delta0 3, eps_per 2."""

    def draw(stream: Stream, n: int) -> list[int]:
        counts = np.full(n + 1, 10**7, dtype=np.int64)
        counts[-1] = 0
        mechanism = (kind or base)(EPS, DELTA, 2, 3, n)
        release = mechanism.release(Histogram(counts, complete=False), stream)
        assert release.values is not None
        return [int(x) for x in release.values - 10**7]

    law = (lambda: gaussian_law(12.0)) if base is UnkGauss else (lambda: laplace_law(6.0))
    return Fit(base.__name__, "noise", "N(0, 12)" if base is UnkGauss else "Lap(6)", draw, law, 150_000)


def smallest_threshold(noise: dict[int, float], tau: int, delta0: int, delta: float) -> int:
    """Give the smallest T with delta0 Pr[X - Y > T - tau] <= delta, by convolving the masses of the noise."""
    masses = np.array([noise[x] for x in sorted(noise)])
    difference = np.convolve(masses, masses[::-1])
    tails = np.cumsum(difference[::-1])[::-1][len(masses) :]  # Pr[X - Y > n] at n = 0, 1, ...
    return tau + int(np.argmax(delta0 * tails <= delta))


def threshold(base: Kind, tau: int, delta0: int, kind: Kind | None = None) -> Exact:
    """T at eps_per 0.15, delta_per 1e-10, against a convolution of the noise in floating point."""
    eps, delta = Fraction(3, 20), Fraction(1, 10**10)
    ours = (kind or base)(eps, delta, tau, delta0, 10).threshold

    def compute() -> tuple[str, bool]:
        scale = 2 * tau / float(eps)
        if base is UnkGauss:
            law = gaussian_law(scale**2 * delta0, int(14 * scale * delta0**0.5))
        else:
            law = laplace_law(scale * delta0, int(60 * scale * delta0))
        least = smallest_threshold(law, tau, delta0, float(delta))
        return f"T = {ours}, least {least}", ours == least

    return Exact(
        base.__name__, f"threshold (tau {tau}, delta0 {delta0})", "least T with tail <= delta", compute
    )


def _cases(base: Kind) -> tuple[Check, ...]:
    return (
        *(restricted(base, what) for what in WHAT),
        *(news(base, what) for what in NEWS),
        joint_law(base),
        noise(base),
        *(threshold(base, tau, delta0) for tau, delta0 in ((1, 1), (2, 3))),
    )


CASES: tuple[Check, ...] = (*_cases(UnkLap), *_cases(UnkGauss))
