"""What a check is and what it finds: the lines of the audit's table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

PRIVACY_LEVEL = 0.005
"""Probability that any statement about privacy is wrong, over everything that is looked at."""
FIT_LEVEL = 0.005
"""Probability that any true law is rejected, over all laws that are fitted. Together: 99% confidence."""


@dataclass(frozen=True)
class Levels:
    """What one look may err with, when all looks together keep to the levels (Bonferroni)."""

    privacy: float
    fit: float


@dataclass(frozen=True)
class Finding:
    """One line: what was looked at, what was claimed, what was found, in how many samples, and the verdict."""

    mechanism: str
    what: str
    claimed: str
    found: str
    samples: int
    passed: bool


class Check(Protocol):
    """An experiment, a fit or an exact computation that a mechanism passes and its mutant fails."""

    @property
    def mechanism(self) -> str:
        """The mechanism that is looked at."""

    @property
    def what(self) -> str:
        """The neighbours, the law or the quantity that is looked at."""

    @property
    def privacy_looks(self) -> int:
        """How many statements about privacy it makes."""

    @property
    def fit_looks(self) -> int:
        """How many laws it fits."""

    def run(self, levels: Levels, effort: float) -> Finding:
        """Look, with `effort` times the samples of the short audit."""
