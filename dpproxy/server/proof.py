"""That somebody is who they say, by the word of an identity provider."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class Proof:
    """A login that was proved. `groups`: as the provider names them; `as_of`: when it said so."""

    groups: frozenset[str]
    as_of: datetime
