"""PrivateCountRelease and KnownCountRelease: rows that must not move, the law of the walk, noise, price."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from mechanisms.count_release import KnownCountRelease, PrivateCountRelease
from mechanisms.histogram import Histogram
from mechanisms.randomness import Stream
from tests.audit.claims import concentrated
from tests.audit.count_walk import Account
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
        levels = [account.level(s) for s in out.stddevs.tolist()]
        rho, steps = account.price(levels)
        information = float(out.cost.information * EPS_PER**2 / 8)
        return math.isclose(information, rho, rel_tol=1e-6) and out.cost.calls == steps * Fraction(1, 2)

    def compute() -> tuple[str, bool]:
        wrong = sum(not due(number) for number in range(300))
        return f"{wrong} of 300 differ", wrong == 0

    return Exact(NAME, f"price, tau {tau}", "eps^2/8 + tau^2/(2 sigma^2)", compute)


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
