"""What a mutant is."""

from __future__ import annotations

from dataclasses import dataclass

from tests.audit.finding import Check


@dataclass(frozen=True)
class Mutant:
    """What is wrong, and the check (whose true twin is among the cases) that must see it."""

    name: str
    check: Check
