"""What `dpproxy init --preset` writes: parameters and budgets for whom, and with which guarantee."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from dpproxy.config.sections import Budget, Limits, Privacy


class Name(StrEnum):
    """The presets."""

    cautious = "cautious"
    paper = "paper"
    small_data = "small-data"


@dataclass(frozen=True)
class Preset:
    """A deployment's [privacy] and [budget], and `words` for whom they are."""

    words: str
    privacy: Privacy
    budget: Budget


DEFAULT = Preset("", Privacy(), Budget())
PRESETS: Mapping[Name, Preset] = {
    Name.cautious: Preset(
        "cautious: for data about health, belief or money, and where everybody together has to be bounded. "
        "A third of the default's epsilon_per: noise three times as large, so for counts of thousands.",
        Privacy(epsilon_per=Fraction(5, 100)),
        Budget(
            information=Fraction(100),
            calls=Fraction(10),
            dataset=Limits(information=Fraction(300), calls=Fraction(30)),
        ),
    ),
    Name.paper: Preset(
        "paper: the budgets of LinkedIn's Audience Engagements API, for many analysts of many groups. "
        "As a number its guarantee is weak: it was made for data of millions, each of whom is in few answers.",
        Privacy(),
        Budget(information=Fraction(3000), calls=Fraction(300)),
    ),
    Name.small_data: Preset(
        "small-data: for some thousand people. Few answers with little noise (a standard deviation of 4 on a count) "
        "in place of many with much.",
        Privacy(epsilon_per=Fraction(1, 2), query_information=Fraction(10), query_calls=Fraction(1)),
        Budget(
            information=Fraction(30),
            calls=Fraction(5),
            dataset=Limits(information=Fraction(60), calls=Fraction(10)),
        ),
    ),
}
