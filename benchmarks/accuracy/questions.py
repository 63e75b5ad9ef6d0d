"""Questions with what is known of them, read from the files beside this one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Question:
    """A question, the columns that name its groups, and errors in percent.

    `before`: with declared bounds and row caps, one a column of numbers, () where nothing came out;
    `units`: how many information units a release of it costs.
    """

    id: str
    what: str
    sql: str
    keys: tuple[str, ...] = ()
    before: tuple[float, ...] | None = None
    target: float | None = None
    units: int = 1


def questions(name: str) -> list[Question]:
    """The questions of a file of this folder."""
    return [_question(entry) for entry in yaml.safe_load((HERE / f"{name}.yaml").read_text())]


def _question(entry: dict[str, Any]) -> Question:
    before = entry.get("before")
    return Question(
        entry["id"],
        entry["what"],
        entry["sql"],
        tuple(entry.get("keys", ())),
        None if before is None else tuple(before) if isinstance(before, list) else (),
        entry.get("target"),
        entry.get("units", 1),
    )
