"""What may find a mutant, in the order in which it is asked: a row each. A new one is a row."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from tests.mutants.mutant import ROOT, Mutant

Command = Sequence[str]
"""Empty where a detector has nothing to run for a mutant."""
PYTEST = (sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-m", "not slow")
BESIDE = {
    "rewriter": (
        "tests/rewriter/test_golden.py",
        "tests/rewriter/test_passes.py",
        "tests/rewriter/test_executed.py",
    ),
    "dpproxy/pgwire": ("tests/dpproxy/server",),
}
"""Tests that stand elsewhere than the code of a folder."""


@dataclass(frozen=True)
class Detector:
    """A program that fails on a copy of the repository with a mutant, within `seconds` of it.

    `ends`: whether it takes far less time on the code as it is, so that a mutant with which it does not end is found.
    `needs`: a path without which it is not there yet, or the target of the Makefile that it runs.
    """

    name: str
    seconds: int
    command: Callable[[Mutant], Command]
    needs: str
    ends: bool = False

    @property
    def missing(self) -> bool:
        """Whether this repository has not got it."""
        made = self.needs.endswith(":") and f"\n{self.needs}" in (ROOT / "Makefile").read_text()
        return not made and not (ROOT / self.needs).exists()


def own(mutant: Mutant) -> Command:
    """The examples in a mutant's files, and the tests that are named as they are."""
    found = [ROOT / edit.file for edit in mutant.edits]
    for edit in mutant.edits:
        path = PurePath(edit.file)
        room = ROOT / "tests" / path.parent
        found += [f for f in sorted(room.glob("test_*.py")) if path.stem.removesuffix("s") in f.stem]
    return [*PYTEST, *(str(f.relative_to(ROOT)) for f in found)] if found else []


def near(mutant: Mutant) -> Command:
    """The tests of the rooms of a mutant's files, and those that stand elsewhere."""
    files: list[str] = []
    for edit in mutant.edits:
        beside = (t for folder, tests in BESIDE.items() if edit.file.startswith(folder) for t in tests)
        files += [f"tests/{PurePath(edit.file).parent}", *beside]
    return [*PYTEST, *(f for f in dict.fromkeys(files or ["tests/mutants"]) if (ROOT / f).exists())]


def tests(*paths: str) -> Callable[[Mutant], Command]:
    """A pytest of its own over these files and folders."""
    return lambda _: [*PYTEST, *paths]


def make(target: str, *settings: str) -> Callable[[Mutant], Command]:
    """A target of the Makefile."""
    return lambda _: ["make", "--silent", target, *settings]


def oracle(seconds: int, engines: str) -> Callable[[Mutant], Command]:
    """Random statements without noise, with and without one unit, up to the first broken bound."""
    asked = ("--seconds", str(seconds), "--engines", engines, "--seed", "28", "--until-violation")
    return lambda _: [sys.executable, "-m", "tests.oracle", *asked]


DETECTORS = (
    Detector("own", 300, own, "tests", ends=True),
    Detector("near", 300, near, "tests"),
    Detector("worlds", 60, tests("tests/rewriter/emit/test_small_worlds.py"), "tests/rewriter/emit"),
    Detector(
        "spoiled",
        300,
        tests("tests/rewriter/test_spoiled.py", "tests/rewriter/emit/test_printed.py"),
        "tests/rewriter/test_spoiled.py",
    ),
    Detector("oracle", 180, oracle(120, "duckdb"), "tests/oracle"),
    Detector("stability", 120, tests("tests/stability"), "tests/stability"),
    Detector("audit", 300, tests("tests/audit"), "tests/audit"),
    Detector("simulator", 180, make("simulate", "SECONDS=120"), "simulate:"),
    Detector("replay", 180, make("replay", "SECONDS=120"), "replay:"),
    Detector("adversary", 180, make("adversary", "SECONDS=120"), "adversary:"),
    Detector(
        "engine", 600, tests("tests/dpproxy/engine", "tests/dpproxy/server", "tests/budget"), "tests/dpproxy"
    ),
)


def chosen(names: str) -> list[Detector]:
    """The detectors of these names, in order, all for ""; ValueError for a name that no detector has."""
    wanted = [name for name in names.split(",") if name]
    if unknown := set(wanted) - {detector.name for detector in DETECTORS}:
        raise ValueError(f"no detector is called {', '.join(sorted(unknown))}")
    return [d for d in DETECTORS if not wanted or d.name in wanted]
