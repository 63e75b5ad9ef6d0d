"""`make reproduce-sql`: the IMDb and Amazon Fashion figures of `make reproduce`, asked in SQL through the proxy.

Every draw is a statement of its own, with fresh noise. Exit code 1 where a figure through SQL is not within sampling
error of the library's.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from scipy.stats import ks_2samp, ttest_ind

from benchmarks.data import DataMissing, columns, folder, item_sets, table
from benchmarks.deployed import ENGINES, Ask, on
from benchmarks.papers.distinct import BETA, L_MAX, TRIALS
from benchmarks.papers.partition import DELTA, DELTA0
from dpproxy.reporting.rows import RowSet
from mechanisms.count_release import PrivateCountRelease
from mechanisms.distinct_count import PersonLevelDistinctCount
from mechanisms.histogram import Histogram
from mechanisms.item_sets import encoded
from mechanisms.partition_selection import DPSips
from mechanisms.randomness import Stream

PAGE = Path(__file__).parent.parent.parent / "docs" / "reproduction-sql.md"
NAMES = ("imdb", "fashion")
LEVEL = 1e-3
"""Of the two-sample test by which a figure is held against the library's."""
MANY = 20
"""Draws whose distribution is compared; of fewer it is their mean."""
PREFACE = f"""# Reproduction through SQL

The IMDb and Amazon Fashion figures of [reproduction.md](reproduction.md), measured by SQL queries to two proxies, one
over DuckDB and one over PostgreSQL. `make reproduce-sql` writes this page; DPPROXY_SHARED names the folder with the
data sets. The policy sets the papers' parameters: `epsilon_per = 1`, `query_information = 0.8` (rho 0.1),
`delta_per = 1e-5`, `max_items_per_unit = 100` (delta0, l_max), `mechanisms = "paper"`.

Each figure is the median of several draws, whose number is in brackets. From {MANY} draws on, the 10% and 90% quantiles
stand around the median. Each draw through SQL is a separate statement, with noise from the deployment's secret key.
*p* is the smaller p-value of two tests: the library's draws against DuckDB's, and against PostgreSQL's. The test is
Kolmogorov and Smirnov's, or Student's for fewer than {MANY} draws. A *p* below {LEVEL} counts as a difference.
"""


@dataclass(frozen=True)
class Experiment:
    """A statement with a place for a condition, what the paper says of its figures, and how often it is asked."""

    title: str
    sql: str
    paper: dict[str, str]
    draws: dict[str, int]
    """By engine, and "library"."""


PARTITION = Experiment(
    "Partition selection, IMDb",
    "SELECT DISTINCT item FROM imdb WHERE user_id <> {}",
    {"DPSips, rho 0.1, delta 1e-5, delta0 100": "7,759"},
    {"library": 10, "DuckDB": 4, "PostgreSQL": 2},
)
FASHION = Experiment(
    "Distinct count, Amazon Fashion",
    "SELECT COUNT(DISTINCT item) FROM fashion WHERE user_id <> {}",
    {
        "private l, matching, eps 1": "7 / 9 / 13",
        "private count without offset, matching": "1,221 / 1,319 / 1,394",
        "lower bound, matching": "-",
    },
    {"library": TRIALS, "DuckDB": 100, "PostgreSQL": 100},
)
IMDB = Experiment(
    "Distinct count, IMDb",
    "SELECT COUNT(DISTINCT item) FROM imdb WHERE user_id <> {}",
    {
        "private l, matching, eps 1": "12 / 16 / 21",
        "private count without offset, matching": "99.94% of the words",
        "lower bound, matching": "-",
    },
    {"library": TRIALS, "DuckDB": 3, "PostgreSQL": 2},
)
COUNTS = Experiment(
    "Counts, IMDb",
    "SET dpproxy.query_calls = 0.1; SELECT item, COUNT(DISTINCT user_id) FROM imdb WHERE user_id <> {} GROUP BY item",
    {"PCR: released, rho 0.1, delta 1e-6": "reference: 919", "PCR: share beyond 10%": "reference: 6.6%"},
    {"library": 20, "DuckDB": 5, "PostgreSQL": 3},
)
EXPERIMENTS = (PARTITION, FASHION, IMDB, COUNTS)
DISTINCT = PersonLevelDistinctCount(Fraction(1), L_MAX, BETA, "matching")


def read(experiment: Experiment, answer: RowSet) -> list[float]:
    """The figures of one answer, in the order of the experiment's."""
    if experiment is PARTITION:
        return [len(answer.rows)]
    if experiment is COUNTS:
        return [len(answer.rows), _beyond([(int(i or 0), int(n or 0)) for i, n in answer.rows])]
    lower = int(answer.rows[0][0] or 0)
    said = re.search(r"each unit counted for at most (\d+) values?", " ".join(answer.notices))
    assert said is not None, answer.notices
    bound = int(said[1])
    return [bound, lower + DISTINCT.offset(bound), lower]


def library(experiment: Experiment) -> Iterator[list[float]]:
    """The figures of draws of the library."""
    root = Stream(bytes(32)).child("sql", experiment.title)
    draws = [root.child(n) for n in range(experiment.draws["library"])]
    if experiment is PARTITION:
        selection = DPSips(Fraction(1), DELTA, Fraction(4, 5), Fraction(1), DELTA0)
        persons, items = columns(f"SELECT user_id, item_id FROM {table('imdb50k_words')}")
        for number, stream in enumerate(draws):
            # The order in which a person's items are cut is drawn as well.
            sets, _ = encoded(number.to_bytes(32, "big"), persons, items)
            yield [len(selection.release(sets, stream).indices)]
    elif experiment is COUNTS:
        yield from _counted(draws)
    else:
        counts = DISTINCT.counts(item_sets("imdb50k_words" if experiment is IMDB else "amazon_fashion_words"))
        for stream in draws:
            release = DISTINCT.release_counts(counts, stream)
            yield [release.bound, release.lower_bound + release.offset, max(release.lower_bound, 0)]


def _counted(draws: Sequence[Stream]) -> Iterator[list[float]]:
    mechanism = PrivateCountRelease(
        eps_per=Fraction(1), information=Fraction(4, 5), delta_per=DELTA, calls=Fraction(1, 10)
    )
    items, counts = columns(
        f"SELECT item_id, COUNT(*) AS n FROM {table('imdb50k_words')} GROUP BY 1 ORDER BY 2 DESC, 1"
    )
    top = Histogram(counts[: mechanism.fetch].astype(np.int64), len(counts) < mechanism.fetch)
    for stream in draws:
        release = mechanism.release(top, stream)
        assert release.values is not None
        rows = zip(items[release.indices].tolist(), release.values.tolist(), strict=True)
        yield [len(release.indices), _beyond(list(rows))]


def _beyond(rows: Sequence[tuple[int, int]]) -> float:
    """The share, in percent, of the counts of words that are more than 10% off."""
    truth = _persons()
    off = sum(abs(n - truth[item]) > truth[item] / 10 for item, n in rows)
    return 100 * off / max(len(rows), 1)


@lru_cache(maxsize=1)
def _persons() -> dict[int, int]:
    """In how many reviews each word is."""
    words, counts = columns(f"SELECT item_id, COUNT(*) FROM {table('imdb50k_words')} GROUP BY 1")
    return dict(zip(words.tolist(), counts.tolist(), strict=True))


def asked(experiment: Experiment, ask: Ask, engine: str) -> Iterator[list[float]]:
    """The figures of draws through SQL."""
    for number in range(experiment.draws[engine]):
        yield read(experiment, ask(experiment.sql.format(-1 - number)))


def shown(values: Sequence[float]) -> str:
    """The median of draws, with quantiles where there are many.

    >>> shown([1, 2, 9]), shown(range(101))
    ('2', '10 / 50 / 90')
    """
    points = [10, 50, 90] if len(values) >= MANY else [50]
    return " / ".join(f"{x:,.0f}" if x >= 10 else f"{x:,.3g}" for x in np.percentile(values, points))


def agreement(found: Mapping[str, Sequence[float]]) -> float:
    """The smallest p-value of the library's draws against each engine's.

    >>> agreement({"library": range(100), "DuckDB": range(100), "PostgreSQL": range(50, 150)}) < 1e-6
    True
    >>> agreement({"library": [10, 11, 12, 11, 10], "DuckDB": [20, 21], "PostgreSQL": [11, 12]}) < 1e-3
    True
    """
    return min(_p_value(found["library"], found[engine]) for engine in ENGINES)


def _p_value(left: Sequence[float], right: Sequence[float]) -> float:
    many = min(len(left), len(right)) >= MANY
    return float((ks_2samp(left, right) if many else ttest_ind(left, right)).pvalue)


Row = tuple[str, str, str, str, str, str, str]
HEAD = ("experiment", "figure", "paper", "library", *(f"through SQL on {e}" for e in ENGINES), "p")


def rows(found: dict[str, dict[str, list[list[float]]]]) -> Iterator[tuple[Row, bool]]:
    """The table's rows, and whether the figure agrees."""
    for experiment in EXPERIMENTS:
        for place, (figure, paper) in enumerate(experiment.paper.items()):
            draws = {way: [d[place] for d in drawn] for way, drawn in found[experiment.title].items()}
            p = agreement(draws)
            texts = [f"{shown(draws[way])} ({len(draws[way])})" for way in ("library", *ENGINES)]
            yield (experiment.title, figure, paper, texts[0], texts[1], texts[2], f"{p:.2g}"), p >= LEVEL


def main() -> int:
    """Draw, print, write the page; 0 where all agrees, also where the data sets are missing, which is said."""
    console = Console(width=170)
    try:
        folder()
    except DataMissing as missing:
        console.print(f"skipped: {missing}")
        return 0
    found: dict[str, dict[str, list[list[float]]]] = {e.title: {} for e in EXPERIMENTS}
    parts = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*parts, console=console) as progress:
        task = progress.add_task("", total=sum(sum(e.draws.values()) for e in EXPERIMENTS))

        def gathered(way: str, experiment: Experiment, drawn: Iterator[list[float]]) -> None:
            progress.update(task, description=f"{way}: {experiment.title}")
            for one in drawn:
                found[experiment.title].setdefault(way, []).append(one)
                progress.advance(task)

        for experiment in EXPERIMENTS:
            gathered("library", experiment, library(experiment))
        for engine in ENGINES:
            with tempfile.TemporaryDirectory() as place, on(engine, Path(place), NAMES) as ask:
                for experiment in EXPERIMENTS:
                    gathered(engine, experiment, asked(experiment, ask, engine))
    return report(list(rows(found)), console)


def report(listed: Sequence[tuple[Row, bool]], console: Console) -> int:
    """Print and write the table; 1 where a figure does not agree."""
    shown_table = Table(*HEAD, title="The papers' results, the library's, and those through SQL")
    lines = [PREFACE, "| " + " | ".join(HEAD) + " |", "|" + "---|" * len(HEAD)]
    for row, _ in listed:
        shown_table.add_row(*row)
        lines.append("| " + " | ".join(row) + " |")
    PAGE.write_text("\n".join(lines) + "\n")
    console.print(shown_table)
    differing = [f"{row[0]}, {row[1]}" for row, agrees in listed if not agrees]
    console.print(f"differing: {'; '.join(differing)}" if differing else "no figure differs")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
