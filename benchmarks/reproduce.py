"""`make reproduce`: the papers' results and ours in one table, plots and numbers into docs/reproduction/."""

from __future__ import annotations

import sys
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks import audience, counts, distinct, partition
from benchmarks.data import DataMissing, folder
from benchmarks.report import Report

DOCS = Path(__file__).parent.parent / "docs"
EXPERIMENTS = (partition, distinct, counts, audience)
PREFACE = """# Reproduction

What the papers report, and what the mechanisms here give on the same or the nearest data, written by `make reproduce`
(DPPROXY_SHARED names the folder with the data sets). The noise is seeded: a second run gives the same numbers, times
excepted. Through SQL, on both backends: [reproduction-sql.md](reproduction-sql.md).

- *paper*: the paper's value; "reference" is an independent floating-point implementation on the same data, where the
  paper used others.
- IMDb's words were not cut as in the papers: 158,935 different ones here, 194,532 in DP-SIPS, 98,726 in the distinct
  count paper. Amazon Fashion has the paper's numbers.
- The distinct counts released by the paper spread less than ours at eps 1, around nearly the same median: ours choose
  l by the generalised exponential mechanism as the paper states it. Our greedy count is larger because every person
  goes through her items in an order of her own.
- DPSU, GW, Plume, sampling and Race-to-the-Top are written in floating point under `benchmarks/`, for comparison
  only. DPSU and GW aim 3 sigma, or 3/epsilon, above the threshold. Plume takes its bounds from the data without
  privacy, as in Private Count Release.
- The articles and job titles of Audience Engagements are LinkedIn's; here they are products by households, and each
  household's favourite category, from the sample data.
"""


def main() -> int:
    """Run all experiments; 0, also where the data sets are missing, which is said."""
    console = Console()
    try:
        folder()
    except DataMissing as missing:
        console.print(f"skipped: {missing}")
        return 0
    report = Report(DOCS / "reproduction")
    parts = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*parts, console=console) as progress:
        task = progress.add_task("", total=sum(experiment.STEPS for experiment in EXPERIMENTS))
        for experiment in EXPERIMENTS:
            progress.update(task, description=experiment.__name__.removeprefix("benchmarks."))
            for _ in experiment.run(report):
                progress.advance(task)
    console.print(report.table())
    (DOCS / "reproduction.md").write_text(report.markdown(PREFACE))
    console.print(f"written: {DOCS / 'reproduction.md'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
