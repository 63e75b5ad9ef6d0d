"""What a mark file survives, and that its mark never goes back."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from budget.account import LedgerOlder
from budget.highwater import HighWater
from dpproxy.config.highwater_file import MarkFile
from dpproxy.config.sections import ConfigError

KEY = bytes(range(32))


def replaced_by(mark: HighWater) -> Callable[[HighWater], HighWater]:
    """Takes a mark whatever the last one is."""
    return lambda _: mark


def test_a_write_that_was_cut_short_leaves_the_mark_before(tmp_path: Path) -> None:
    file = MarkFile(tmp_path / "key", KEY)
    marks = [HighWater("one", {number: "ab"}) for number in range(4)]
    file.replace(marks[0])
    for number in (1, 2, 3):
        file.advance(replaced_by(marks[number]))
        whole = file.path.read_bytes()
        assert file.read() == marks[number]
        torn = bytearray(whole)
        half = len(whole) // 2
        torn[number % 2 * half + 70] ^= 1
        file.path.write_bytes(bytes(torn))
        assert file.read() == marks[number - 1]
        file.path.write_bytes(whole)
    file.path.write_bytes(bytes(len(whole)))
    with pytest.raises(ConfigError, match="damaged"):
        file.read()


def test_a_mark_never_goes_back(tmp_path: Path) -> None:
    file = MarkFile(tmp_path / "key", KEY)
    file.replace(HighWater("one", {7: "ab"}))
    for older in (HighWater("one", {6: "ab"}), HighWater("two", {9: "ab"})):
        with pytest.raises(LedgerOlder):
            file.advance(replaced_by(older))
    assert file.read() == HighWater("one", {7: "ab"})
    assert os.stat(file.path).st_mode & 0o077 == 0
