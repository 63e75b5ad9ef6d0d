"""PrivateCountRelease and KnownCountRelease: rows that must not move, the law of the walk, noise, price."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from mechanisms.count_release import KnownCountRelease, PrivateCountRelease
from mechanisms.histogram import Histogram
from mechanisms.randomness import Stream
from tests.audit.claims import concentrated
from tests.audit.experiment import Experiment
from tests.audit.finding import Check
from tests.audit.fit import Exact, Fit, coarse
from tests.audit.neighbours import ORDER_VIEWS, UNKNOWN_VIEWS, Table, changed, fetched, released, sum_over
from tests.audit.rare import Rare, newcomers
from tests.mechanisms.goodness import gaussian_law, stream

EPS_PER, DELTA_PER = Fraction(1), Fraction(1, 10)
Kind = type[PrivateCountRelease]
NAME = "PrivateCountRelease"


def release(kind: Kind = PrivateCountRelease, **changes: Any) -> PrivateCountRelease:
    """A mechanism with so few steps and so large an eps that what it does shows: rho 1/2, delta 1/10, two steps."""
    parameters = {
        "eps_per": EPS_PER,
        "delta_per": DELTA_PER,
        "information": Fraction(4),
        "calls": Fraction(1),
        "k_bar": 2,
        "tau": 1,
        "relative_error": Fraction(1, 2),
        "eps_star": Fraction(1, 2),
        "delta_star": Fraction(1, 20),
    }
    return kind(**{**parameters, **changes})


@dataclass(frozen=True)
class Pair:
    """Two tables and what differs from `release`'s parameters."""

    left: Table
    right: Table
    changes: dict[str, Any]


PAIRS = {
    "a row enters the fetched ones": Pair({0: 90, 1: 40, 2: 40, 3: 40}, {0: 90, 1: 40, 2: 40, 3: 41}, {}),
    "+1 on all keys": Pair({0: 14, 1: 12, 2: 3}, {0: 15, 1: 13, 2: 4}, {}),
    "+tau on all keys but one": Pair({0: 30, 1: 30, 2: 6}, {0: 33, 1: 30, 2: 9}, {"tau": 3}),
    "fewer than k_bar+1 keys": Pair({0: 25}, {0: 25, 1: 1}, {}),
    "absent/tau": Pair({}, {0: 3}, {"tau": 3}),
    "many of tau": Pair({}, dict.fromkeys(range(6), 3), {"tau": 3, "k_bar": 6}),
    "+1 on the only key, noise reduced": Pair(
        {0: 200}, {0: 201}, {"brownian": True, "relative_error": Fraction(1)}
    ),
}
NEWS = ("absent/tau", "many of tau", "fewer than k_bar+1 keys")


def walk(what: str, kind: Kind = PrivateCountRelease) -> Experiment:
    """The allowance is what neighbours may differ by."""
    pair = PAIRS[what]
    mechanism = release(kind, **pair.changes)
    sides = released(mechanism, pair.left), released(mechanism, pair.right)
    claims = concentrated(mechanism.cost_at_most, EPS_PER, DELTA_PER)
    views = {**UNKNOWN_VIEWS, "sum": sum_over(changed(pair.left, pair.right))}
    return Experiment(NAME, what, claims, sides, views, 300 if mechanism.brownian else 1500)


def news(what: str, kind: Kind = PrivateCountRelease) -> Rare:
    """What only the second table has comes out with delta at most: two steps of delta_star."""
    pair = PAIRS[what]
    draw = released(release(kind, **pair.changes), pair.right)
    new = frozenset(pair.right) - frozenset(pair.left)
    return newcomers(NAME, what, float(DELTA_PER), draw, new, 1500)


LAW_TABLE: Table = {0: 22, 1: 20, 2: 14, 3: 6, 4: 2}
LAW_CHANGES: dict[str, Any] = {"k_bar": 4, "calls": Fraction(2), "information": Fraction(6)}


@dataclass(frozen=True)
class Account:
    """The walk's prices, computed anew: rho of steps and counts as the paper has them."""

    mechanism: PrivateCountRelease

    def eps(self, level: int) -> Fraction:
        return self.mechanism.eps_star * (1 << level // 2) * (Fraction(99, 70) if level % 2 else 1)

    def sigma_squared(self, level: int) -> float:
        m, eps = self.mechanism, float(self.eps(level))
        wanted = float(m.relative_error) / 1.5 * (1 + math.log(m.k_bar / float(m.delta_star)) / eps)
        return (m.tau * max(wanted, 2 / eps)) ** 2

    def step(self, level: int) -> float:
        return float(self.eps(level)) ** 2 / 8

    def count(self, level: int) -> float:
        return self.mechanism.tau**2 / (2 * self.sigma_squared(level))

    def pays(self, level: int, spent: float, steps: int, released: int) -> bool:
        m = self.mechanism
        allowance = float(m.information) * float(m.eps_per) ** 2 / 8
        most = math.floor(m.calls * m.delta_per / m.delta_star)
        return spent + 2 * self.step(level) <= allowance and steps < most and released < m.k_bar

    def law(self, counts: list[int]) -> dict[tuple[int, ...], float]:
        """The places that come out, in order: an exponential mechanism a step, against bottom."""
        m, floor = self.mechanism, counts[self.mechanism.k_bar]
        law: dict[tuple[int, ...], float] = defaultdict(float)

        def go(out: tuple[int, ...], level: int, spent: float, steps: int, p: float) -> None:
            if not self.pays(level, spent, steps, len(out)):
                law[out] += p
                return
            rate = float(self.eps(level)) / m.tau
            left = [j for j in range(m.k_bar) if j not in out and counts[j] > floor]
            bottom = m.k_bar / float(m.delta_star) * math.exp(rate * (floor + m.tau))
            weights = {j: math.exp(rate * counts[j]) for j in left}
            total = bottom + sum(weights.values())
            go(out, level + 1, spent + self.step(level), steps + 1, p * bottom / total)
            for j, weight in weights.items():
                price = self.step(level) + self.count(level)
                go((*out, j), level, spent + price, steps + 1, p * weight / total)

        go((), 0, 0.0, 0, 1.0)
        return dict(law)

    def price(self, levels: list[int]) -> tuple[float, int]:
        """The rho and the steps of a walk whose elements came out at these levels."""
        spent, steps, now = 0.0, 0, 0
        for level in levels:
            spent += sum(self.step(passed) for passed in range(now, level))
            steps += level - now + 1
            spent += self.step(level) + self.count(level)
            now = level
        while self.pays(now, spent, steps, len(levels)):
            spent, steps, now = spent + self.step(now), steps + 1, now + 1
        return spent, steps


def places(kind: Kind = PrivateCountRelease) -> Fit:
    """Which keys come out in which order, every walk enumerated."""
    mechanism = release(kind, **LAW_CHANGES)

    def draw(stream: Stream, n: int) -> list[tuple[int, ...]]:
        return [tuple(label for label, _ in o.rows) for o in released(mechanism, LAW_TABLE)(stream, n)]

    def law() -> dict[tuple[int, ...], float]:
        return Account(release(**LAW_CHANGES)).law(list(LAW_TABLE.values()))

    return Fit(NAME, "keys and order", "enumerated", draw, law, 3000)


def price(tau: int, kind: Kind = PrivateCountRelease) -> Exact:
    """eps^2/8 a step, tau^2/(2 sigma^2) a count, delta_star a step: for every release of a sample."""
    mechanism = release(kind, **LAW_CHANGES, tau=tau)
    account = Account(release(**LAW_CHANGES, tau=tau))
    table = {label: count * tau for label, count in LAW_TABLE.items()}

    def due(number: int) -> bool:
        histogram = fetched(table, mechanism).histogram
        out = mechanism.release(histogram, stream("audit", "walk", tau, number))
        assert out.stddevs is not None
        levels = [_level(account, s) for s in out.stddevs.tolist()]
        rho, steps = account.price(levels)
        information = float(out.cost.information * EPS_PER**2 / 8)
        return math.isclose(information, rho, rel_tol=1e-6) and out.cost.calls == steps * Fraction(1, 2)

    def compute() -> tuple[str, bool]:
        wrong = sum(not due(number) for number in range(300))
        return f"{wrong} of 300 differ", wrong == 0

    return Exact(NAME, f"price, tau {tau}", "eps^2/8 + tau^2/(2 sigma^2)", compute)


def _level(account: Account, deviation: float) -> int:
    return min(range(12), key=lambda level: abs(math.sqrt(account.sigma_squared(level)) - deviation))


def noise(brownian: bool, kind: Kind = PrivateCountRelease) -> Fit:
    """The noise on counts at the first eps: sigma = 2/eps; reduced noise starts at 2^16 times that variance."""
    eps = Fraction(1) if brownian else Fraction(1, 100)
    variance = 4.0 * 2**16 if brownian else 4e4
    width = math.isqrt(int(variance)) // 4

    def draw(stream: Stream, n: int) -> list[int]:
        out: list[int] = []
        size = 200 if brownian else 20_000
        for number in range(-(-n // size)):
            mechanism = release(
                kind,
                k_bar=size,
                eps_star=eps,
                delta_star=Fraction(1, 1000),
                delta_per=Fraction(1, 2),
                calls=Fraction(10**6),
                information=Fraction(400),
                relative_error=Fraction(1, 10),
                brownian=brownian,
            )
            counts = np.append(np.full(size, 10**9, dtype=np.int64), 0)
            done = mechanism.release(Histogram(counts, complete=False), stream.child(number))
            assert done.values is not None
            out += [int(x) for x in (done.values - 10**9) // width]
        return out

    what, claimed = ("noise, to be reduced", "N(0, 2^18)") if brownian else ("noise", "N(0, 200^2)")
    return Fit(NAME, what, claimed, draw, lambda: coarse(gaussian_law(variance, 36 * width), width), 20_000)


def known(what: str, kind: type[KnownCountRelease] = KnownCountRelease) -> Experiment:
    """Cells of a known domain: every cell competes, no call is spent."""
    pair = PAIRS[what]
    mechanism = kind(
        eps_per=EPS_PER,
        information=Fraction(4),
        cells=len(pair.right),
        tau=pair.changes.get("tau", 1),
        relative_error=Fraction(1, 2),
        eps_star=Fraction(1, 2),
        delta_star=Fraction(1, 20),
    )
    left = {label: pair.left.get(label, 0) for label in pair.right}
    sides = released(mechanism, left), released(mechanism, pair.right)
    claims = concentrated(mechanism.cost_at_most, EPS_PER, Fraction(0))
    views = {**ORDER_VIEWS, "sum": sum_over(changed(pair.left, pair.right))}
    return Experiment(
        "KnownCountRelease", what, claims, sides, views, 3000 if what == "+tau on all keys but one" else 1000
    )


CASES: tuple[Check, ...] = (
    *(walk(what) for what in PAIRS),
    *(news(what) for what in NEWS),
    places(),
    price(1),
    price(3),
    noise(False),
    noise(True),
    *(known(what) for what in ("+1 on all keys", "+tau on all keys but one", "many of tau")),
)
