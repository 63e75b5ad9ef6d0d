"""One attack, for seconds."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.latency import availability

pytestmark = pytest.mark.service


def test_a_bystander_is_answered_beside_an_attack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(availability, "SECONDS", 7)
    row = availability.measured("two GSSENCRequests at once, 4 times", tmp_path)
    plain, private, logins, health = row[2], row[4], row[5], row[6]
    assert all(one.startswith("0 of ") and not one.endswith(" 0") for one in (plain, private, logins, health))
    assert not row[-1].startswith("alive")
