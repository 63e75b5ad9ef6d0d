"""`make reproduce` and `make reproduce-sql`, small: a figure of the sample data, and one draw in SQL."""

from __future__ import annotations

from pathlib import Path
from statistics import median

import pytest

from benchmarks.deployed import on
from benchmarks.papers import audience, figures_in_sql
from benchmarks.papers.report import Report


@pytest.mark.statistical
def test_a_figure_of_the_sample_data(tmp_path: Path) -> None:
    report = Report(tmp_path / "reproduction")
    assert len([*audience.run(report, trials=4)]) == audience.STEPS
    assert {file.suffix for file in report.folder.iterdir()} == {".png", ".csv"}
    page = report.markdown("# Reproduction")
    assert "Audience Engagements, Figure 3" in page
    assert "twice as many" in page
    assert report.table().row_count == len(report.rows)


@pytest.mark.service
def test_a_draw_in_sql_is_near_the_librarys(shared: Path, tmp_path: Path) -> None:
    """The median of five: the chosen bound has a long tail."""
    if not (shared / "data" / "amazon_fashion_words.parquet").exists():
        pytest.skip("DPPROXY_SHARED has no data set amazon_fashion_words")
    experiment = figures_in_sql.FASHION
    with on("DuckDB", tmp_path, ("fashion",)) as ask:
        draws = [figures_in_sql.read(experiment, ask(experiment.sql.format(-n))) for n in range(1, 6)]
    library = [figures for figures, _ in zip(figures_in_sql.library(experiment), range(20), strict=False)]
    for ours, theirs in zip(zip(*draws, strict=True), zip(*library, strict=True), strict=True):
        assert min(theirs) / 2 < median(ours) < 2 * max(theirs)
