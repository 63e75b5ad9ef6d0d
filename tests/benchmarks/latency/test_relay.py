"""The relay and the front, a second each."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.latency import relay

pytestmark = pytest.mark.service


def test_the_relay_beside_the_front(tmp_path: Path) -> None:
    with relay.served(tmp_path, 1) as (pid, port):
        with relay.both(tmp_path, port) as places:
            table, share = relay.speeds(tmp_path, places, [(2, "simple")], 1)
        before, after = relay.idle_sessions(pid, port, 3)
    assert table.row_count == len(places)
    assert share > 0
    assert min(before, after) > 10e6
