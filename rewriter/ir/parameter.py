"""The client's parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Parameter:
    """A client's parameter: its type's name in the front and its value as canonical text.

    Without a value it is not known yet, or NULL; `null`: it is known to be NULL, as constants of a query can be.
    `name`: that of the column whose value or values it is.
    """

    type: str
    value: str | None
    null: bool = False
    name: str = ""


Parameters = Sequence[Parameter]
