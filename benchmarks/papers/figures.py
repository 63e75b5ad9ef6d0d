"""`make reproduce`: the papers' results and ours in one table, plots and numbers into docs/reproduction/."""

from __future__ import annotations

import sys
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks.data import DataMissing, folder
from benchmarks.papers import audience, counts, distinct, partition
from benchmarks.papers.report import Report

DOCS = Path(__file__).parent.parent.parent / "docs"
EXPERIMENTS = (partition, distinct, counts, audience)
PREFACE = """# Reproduction

The results that the papers report, compared with ours on the same data, or on the most similar data that is public.
`make reproduce` writes this page; DPPROXY_SHARED names the folder with the data sets. The noise is seeded: a second run
gives the same numbers, except for times. [reproduction-sql.md](reproduction-sql.md) has results through SQL, on both
backends.

- *paper*: the paper's value. "reference" is the result of an independent floating-point implementation on our data,
  where the paper used other data.
- IMDb's reviews were split into words differently from the papers: we have 158,935 distinct words, DP-SIPS 194,532, the
  distinct count paper 98,726. For Amazon Fashion our numbers are the paper's.
- Distinct counts at eps 1 have nearly the paper's median, but spread more widely: we choose l by the generalised
  exponential mechanism as the paper states it. Our greedy count is larger because each person's items are visited in an
  order of their own.
- DPSU, GW, Plume, sampling and Race-to-the-Top are floating-point implementations under `benchmarks/`, for comparison
  only. DPSU and GW aim 3 sigma, or 3/epsilon, above the threshold. Plume takes its bounds from the data without
  privacy, as in the paper on Private Count Release.
- Audience Engagements measured articles and job titles of LinkedIn. We use the sample data instead: the products that
  households buy, and each household's favourite category.
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
