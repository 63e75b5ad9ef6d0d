"""What a small ledger costs beside a larger one, and what is said of curves that grow."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.latency.growth import Growth, History, histories, missed, written

SIZES = {"proxy": 10**8, "front": 10**8, "ledger": 10**8}


@pytest.mark.service
def test_a_ledger_is_filled_and_measured(tmp_path: Path) -> None:
    few, more = histories(tmp_path, (20, 60))
    assert (few.answers, more.answers) == (20, 60)
    assert min(vars(few).values()) > 0


def test_what_grows_is_named() -> None:
    first, last = History(1_000, 4, 2, 9, 1, 1), History(1_000_000, 5, 900, 9000, 100, 10)
    sizes = [(n, SIZES) for n in (0, 50, 100)]
    flat = Growth([first, History(1_000_000, 9.9, 9.9, 9000, 100, 10)], sizes, [(1, SIZES, 2.0)])
    assert missed(flat) == []
    grown = Growth([first, last], [*sizes[:2], (100, {**SIZES, "front": 10**9})], [(1, SIZES, 2.0)])
    assert missed(grown) == [
        "a page of releases takes 900.0 ms with 1,000,000 answers, 2.0 ms with 1,000",
        "100 statements take 1200 MB, half of them 300 MB",
    ]
    page = written(grown, "a machine")
    assert "- NOT met: a page of releases takes 900.0 ms" in page
    assert "| 1,000,000 | 5.0 | 900.0 | 9000 | 100.0 | 10.0 |" in page
