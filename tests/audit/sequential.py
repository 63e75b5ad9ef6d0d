"""A test of a claim that may stop at any time: it bets on an event, and what it wins is evidence against the claim.

Where P(event) <= exp(epsilon) Q(event) + delta, a bet that wins 1 for an outcome of P in the event, and costs
exp(epsilon) for one of Q and delta for each pair, wins nothing on average. The capital of a gambler who stakes a part
of it on each pair, chosen by earlier pairs alone, is then above 1/level with probability `level` at most, whenever one
looks (Ville). The event is chosen by earlier batches, too. (arXiv 2509.07055)
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field

import numpy as np

from tests.audit.bounds import Event, Outcomes, choose
from tests.audit.claims import Claim
from tests.audit.experiment import Experiment
from tests.audit.finding import Finding, Levels
from tests.mechanisms.goodness import stream

STAKES = tuple(0.8 * 2.0**-n for n in range(9))
"""Shares of the largest stake, of which each has an equal part of the capital."""
CONFIDENCE = 1e-6
"""The level at which the power that was reached is told."""
FIRST = 1 / 16
"""The first batch, in samples of the short audit, only chooses events. Each further one is as large as all before."""


@dataclass
class Gambler:
    """One view in one order: what it bets on, and its capital, part by part of each stake, in logarithms.

    `hits`, `misses`, `pairs`: of the outcomes that the last event was bet on.
    """

    claims: tuple[Claim, ...]
    claim: Claim | None = None
    event: Event | None = None
    seen: list[tuple[Hashable, Hashable]] = field(default_factory=list)
    capital: list[float] = field(default_factory=lambda: [0.0] * len(STAKES))
    hits: int = 0
    misses: int = 0
    pairs: int = 0

    def bet(self, p: Outcomes, q: Outcomes) -> None:
        """Plays a batch on the event that earlier ones have chosen, then chooses the next."""
        if self.event is not None and self.claim is not None:
            wins = np.array(
                [[self.event(a), self.event(b)] for a, b in zip(p, q, strict=True)], dtype=np.int64
            )
            factor = math.exp(self.claim.epsilon)
            gains = wins[:, 0] - factor * wins[:, 1] - self.claim.delta
            for number, share in enumerate(STAKES):
                stake = share / (factor + self.claim.delta)
                self.capital[number] += float(np.log1p(stake * gains).sum())
            self.hits, self.misses = self.hits + int(wins[:, 0].sum()), self.misses + int(wins[:, 1].sum())
            self.pairs += len(wins)
        self.seen += zip(p, q, strict=True)
        self.claim, self.event = choose([a for a, _ in self.seen], [b for _, b in self.seen], self.claims)

    @property
    def evidence(self) -> float:
        """The logarithm of the capital, which began with 1."""
        most = max(self.capital)
        return most + math.log(sum(math.exp(part - most) for part in self.capital) / len(self.capital))

    def found_at(self, level: float = CONFIDENCE) -> float:
        """The least epsilon that would have been found at this level, on events as likely in Q as those bet on."""
        if not self.pairs or self.claim is None:
            return math.inf
        rate, needed = (self.misses + 1) / (self.pairs + 1), math.log(len(STAKES) / level) / self.pairs
        ceiling = math.log((1 - self.claim.delta) / rate)
        epsilon = self.claim.epsilon
        while epsilon < ceiling:
            if _growth(self.claim, min(1.0, math.exp(epsilon) * rate + self.claim.delta), rate) >= needed:
                return epsilon
            epsilon += 0.02
        return math.inf


def _growth(claim: Claim, p: float, q: float) -> float:
    """By how much the logarithm of a capital grows a pair, at the best stake; `p`, `q`: the odds of the event."""
    factor = math.exp(claim.epsilon)

    def of(stake: float) -> float:
        chances = ((1, 1, p * q), (1, 0, p * (1 - q)), (0, 1, (1 - p) * q), (0, 0, (1 - p) * (1 - q)))
        return sum(c * math.log1p(stake * (a - factor * b - claim.delta)) for a, b, c in chances)

    return max(of(share / (factor + claim.delta)) for share in STAKES)


def sequential(experiment: Experiment, levels: Levels, going: Callable[[int], bool]) -> tuple[Finding, float]:
    """Plays batches until the claim is refuted or `going`, given the samples of a side, says no; the power reached.

    All views in both orders share one level: the mean of their capitals is what is looked at.
    """
    gamblers = [(name, Gambler(experiment.claims)) for name in experiment.views for _ in range(2)]
    level = levels.privacy * experiment.privacy_looks
    batches, total, evidence = _batches(round(experiment.samples * FIRST)), 0, -math.inf
    while evidence < math.log(1 / level) and (not total or going(total)):
        number, size = next(batches)
        p, q = (
            draw(stream("sequential", experiment.mechanism, experiment.what, side, number), size)
            for side, draw in enumerate(experiment.sides)
        )
        total += size
        for place, (name, gambler) in enumerate(gamblers):
            view = experiment.views[name]
            seen = [view(o) for o in p], [view(o) for o in q]
            gambler.bet(*(seen if place % 2 == 0 else reversed(seen)))
        evidence = _mean([gambler.evidence for _, gambler in gamblers])
    name, best = max(gamblers, key=lambda one: one[1].evidence)
    found = f"capital {math.exp(min(evidence, 700)):.2g} ({name})"
    refuted = evidence >= math.log(1 / level)
    power = min(gambler.found_at() / gambler.claim.epsilon for _, gambler in gamblers if gambler.claim)
    return (
        Finding(experiment.mechanism, experiment.what, str(best.claim), found, 2 * total, not refuted),
        power,
    )


def _batches(first: int) -> Iterator[tuple[int, int]]:
    number, size = 0, max(first, 8)
    yield number, size
    while True:
        number += 1
        yield number, size
        size *= 2


def _mean(logarithms: list[float]) -> float:
    most = max(logarithms)
    return most + math.log(sum(math.exp(one - most) for one in logarithms) / len(logarithms))


def until(deadline: float) -> Callable[[int], bool]:
    """Says whether there is time for twice the samples that there are: a batch takes as long as all before it."""
    started = time.monotonic()

    def going(total: int) -> bool:
        now = time.monotonic()
        return now + (now - started) < deadline

    return going
