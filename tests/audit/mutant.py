"""What a mutant is."""

from __future__ import annotations

from dataclasses import dataclass

from tests.audit.finding import Check


@dataclass(frozen=True)
class Mutant:
    """What is wrong, and the check (whose true twin is among the cases) that must see it.

    `share`: how many of the short audit's samples it is caught in; fewer are not tried.
    """

    name: str
    check: Check
    share: float = 1 / 8
