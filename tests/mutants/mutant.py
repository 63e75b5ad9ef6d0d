"""Mutants of the code as data: the .toml files beside this one. Each replaces texts that occur once."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
FILES = ("leaks", "by_hand", "by_tool", "failures")


@dataclass(frozen=True)
class Edit:
    """`old` becomes `new` in `file`, a path in the repository."""

    file: str
    old: str
    new: str

    def applied(self, text: str) -> str:
        """The text with the edit; ValueError unless `old` occurs once."""
        if text.count(self.old) != 1:
            raise ValueError(f"{self.file} has {text.count(self.old)} times: {self.old}")
        return text.replace(self.old, self.new)


@dataclass(frozen=True)
class Mutant:
    """One mistake.

    `made`: the file that it stands in. `breaks`: what it breaks, "" for a tool's. `equivalent`: why no statement and no
    history can tell it from the code, "" if one can.
    """

    name: str
    made: str
    edits: tuple[Edit, ...]
    breaks: str = ""
    equivalent: str = ""


def mutants() -> Iterator[Mutant]:
    """All of them, in order."""
    for made in FILES:
        for read in tomllib.loads((Path(__file__).parent / f"{made}.toml").read_text())["mutant"]:
            edits = tuple(Edit(**edit) for edit in read.pop("edits"))
            yield Mutant(made=made, edits=edits, **read)
