"""One attack, for seconds."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.latency import availability

pytestmark = pytest.mark.service


def test_a_bystander_is_answered_beside_an_attack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in (("BEFORE", 1), ("DURING", 2), ("AFTER", 1)):
        monkeypatch.setattr(availability, name, seconds)
    row = availability.measured("8 pipelining: Sync", tmp_path)
    for failed in row[-3:-1]:
        assert all(one.startswith("0 of ") and not one.endswith(" 0") for one in failed.split(", "))
    assert not row[-1].startswith("alive")
