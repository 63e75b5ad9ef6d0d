"""What limits let anybody learn about one person, in words: an analyst, a team, everybody; in a period, in a year."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from budget.accounting import guarantee, reach, retention_periods, shown_up
from budget.advantage import decision_advantage
from dpproxy.config.sections import PERIOD_DAYS, AccountLimit, Privacy

YEAR = 365
_CERTAIN = 99.5


@dataclass(frozen=True)
class Lesson:
    """An account over some time: its guarantee, and how many of 100 guesses whether a person is in the data are right.

    `periods`: how many of the account's periods the time touches. Both are rounded up; a coin is right 50 times.
    """

    account: str
    time: str
    periods: int
    epsilon: Fraction
    delta: Fraction
    right: float

    @property
    def words(self) -> str:
        """The sentence."""
        bound = f"(epsilon {shown_up(self.epsilon, 3)}, delta {shown_up(self.delta, 2)})"
        guess = f"{self.account}, {self.time}: a guess whether a person is in the data"
        if self.right > _CERTAIN:
            return f"{guess} may be almost always right, the limits do not keep it from that {bound}"
        odds = math.ceil(self.right * 10) / 10
        return f"{guess}, a coin without the answers, is right at most {odds:g} times of 100 {bound}"


def lessons(privacy: Privacy, limit: AccountLimit) -> Iterator[Lesson]:
    """What an account's limits mean for a period and for a year in which it is used up each time; none in mode "track".

    A year touches one period more than fit into it.
    """
    if limit.mode == "track":
        return
    days = PERIOD_DAYS[limit.period]
    yield lesson(
        privacy, limit, 1, "for as long as the data are kept" if days is None else f"a {limit.period}"
    )
    if days is not None:
        yield lesson(privacy, limit, retention_periods(YEAR, days), "a year")


def lesson(privacy: Privacy, limit: AccountLimit, periods: int, time: str) -> Lesson:
    """What an account's limits mean over so many periods."""
    per = privacy.epsilon_per, privacy.delta_per
    bounds = guarantee(
        limit.information,
        limit.calls,
        *per,
        privacy.delta_prime,
        bounded_range_only=privacy.noise == "laplace",
        periods=periods,
        epsilon_star=limit.epsilon,
    )
    best = next(bound for bound in bounds if bound.smallest)
    advantage = decision_advantage(reach(limit.information, limit.epsilon), limit.calls, *per, periods)
    return Lesson(limit.account, time, periods, best.epsilon, best.delta, 50 * (1 + advantage))


def together(limits: list[AccountLimit]) -> str | None:
    """The text on collusion of all analysts, where nothing caps it."""
    if any(limit.account == "dataset" and limit.mode == "enforce" for limit in limits):
        return None
    return (
        "everybody together: nothing bounds analysts who join forces beyond the sum of their own limits; "
        "[budget.dataset] would"
    )
