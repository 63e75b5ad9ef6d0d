"""The mutants that `make mutants` runs detectors on are mistakes in the code as it is."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.mutants.mutant import ROOT, Mutant, mutants

ALL = list(mutants())


def test_how_many_there_are() -> None:
    assert Counter(mutant.made for mutant in ALL) == {
        "leaks": 3,
        "by_hand": 20,
        "by_tool": 20,
        "failures": 11,
    }
    assert len({mutant.name for mutant in ALL}) == len(ALL)


@pytest.mark.parametrize("mutant", ALL, ids=lambda mutant: mutant.name)
def test_a_mutant_changes_the_code_and_compiles(mutant: Mutant) -> None:
    for edit in mutant.edits:
        text = (ROOT / edit.file).read_text()
        mutated = edit.applied(text)
        assert mutated != text
        compile(mutated, edit.file, "exec")
