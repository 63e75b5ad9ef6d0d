"""`make spark`'s scale run, small: a thousand users, one worker."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console

from benchmarks.scale.spark import asked, made
from tests.spark_server import serving, with_spark

pytestmark = pytest.mark.service


@with_spark
def test_a_thousand_users_on_spark(tmp_path: Path) -> None:
    with serving("local[2]") as server:
        pairs = made(server.url, 1, tmp_path / "pairs", Console(quiet=True))
        run = asked(server, 1, pairs, 1)
    assert run.pairs == pairs > 10_000
    assert run.groups > 0
    assert run.seconds > 0
