"""PrivateCountRelease's walk computed anew: the law of what comes out, and what it costs."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from fractions import Fraction

from mechanisms.count_release import PrivateCountRelease


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

    def level(self, deviation: float) -> int:
        """The level whose noise has this standard deviation."""
        return min(range(12), key=lambda level: abs(math.sqrt(self.sigma_squared(level)) - deviation))
