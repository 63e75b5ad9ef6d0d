"""Fifty sessions that open a dashboard cost nothing: six queries are charged, once per refresh."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.published.dashboard import TILES, figures

pytestmark = pytest.mark.client


def test_six_queries_per_refresh_and_none_for_fifty_sessions(tmp_path: Path) -> None:
    published, opened, turned, again, without = figures(tmp_path, 50)
    assert (published.charged, turned.charged) == (len(TILES), len(TILES))
    assert published.publisher == turned.publisher > 0
    assert (opened.statements, opened.charged, again.charged) == (50 * len(TILES), 0, 0)
    assert without.charged == 50 * len(TILES), "what each of them would pay for himself"
