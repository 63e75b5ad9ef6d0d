"""Discrete Laplace and Gaussian as Canonne, Kamath and Steinke write them down: plain Python, one sample at a time.

The yardstick of benchmarks/latency/noise.py. Random integers come from the standard library.
"""

from __future__ import annotations

import math
import random
from fractions import Fraction


class PlainSampler:
    """Algorithms 1 to 3 of "The Discrete Gaussian for Differential Privacy" (2020), exact in rational arithmetic.

    >>> sampler = PlainSampler(seed=1)
    >>> -2000 < sampler.laplace(Fraction(40, 3)) < 2000
    True
    """

    def __init__(self, seed: int) -> None:
        """Start from a seed, so that a benchmark can be run again."""
        self._random = random.Random(seed)

    def laplace(self, scale: Fraction) -> int:
        """Draw one discrete Laplace sample of a rational scale (Algorithm 2)."""
        t, s = scale.numerator, scale.denominator
        while True:
            u = self._random.randrange(t)
            if not self._bernoulli_exp(Fraction(u, t)):
                continue
            v = 0
            while self._bernoulli_exp(Fraction(1)):
                v += 1
            magnitude = (u + t * v) // s
            negative = self._random.randrange(2) == 1
            if not (negative and magnitude == 0):
                return -magnitude if negative else magnitude

    def gaussian(self, sigma_squared: Fraction) -> int:
        """Draw one discrete Gaussian sample (Algorithm 3)."""
        t = math.isqrt(math.floor(sigma_squared)) + 1
        while True:
            y = self.laplace(Fraction(t))
            away = abs(y) - sigma_squared / t
            if self._bernoulli_exp(away * away / (2 * sigma_squared)):
                return y

    def _bernoulli_exp(self, gamma: Fraction) -> bool:
        """Decide an event of probability exp(-gamma), gamma >= 0 (Algorithm 1)."""
        while gamma > 1:
            if not self._bernoulli_exp(Fraction(1)):
                return False
            gamma -= 1
        k = 1
        while self._bernoulli(gamma / k):
            k += 1
        return k % 2 == 1

    def _bernoulli(self, p: Fraction) -> bool:
        return self._random.randrange(p.denominator) < p.numerator
