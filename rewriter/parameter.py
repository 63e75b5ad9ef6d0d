"""The client's parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Parameter:
    """A client's parameter: its type's name in the front and its value as canonical text."""

    type: str
    value: str | None


Parameters = Sequence[Parameter]
