"""Queries of a benchmark that nobody here wrote, asked as they stand on both backends: a part of docs/coverage.md."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.progress import track

from benchmarks.corpora.coverage import CorpusStatement, Outcome, asked
from benchmarks.corpora.errors import Rows, asking, configuration, filled, true_rows
from benchmarks.deployed import ENGINES
from dpproxy.deployment.service import configured
from dpproxy.owner.assess.advice import advice
from dpproxy.owner.assess.assessor import assessing
from dpproxy.owner.assess.listed import Listed
from rewriter.refusal import CATALOGUE

HEADS = (
    "query",
    "rows, of true ones",
    "price in units",
    "relative error",
    "refused: why, and the policy that would allow it",
)


@dataclass(frozen=True)
class Suite:
    """A benchmark: `policy` is a file's content without [backend], `preface` says what was asked of which data.

    `unanswerable`: by its number, why no differentially private system can answer a query.
    """

    title: str
    preface: str
    schema: str
    policy: str
    unanswerable: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True)
class QueryOutcome:
    """What became of a query, on each engine; `lines`: what in the policy would turn its refusal into an answer;
    `unanswerable`: why nothing can."""

    truth: Rows
    outcomes: tuple[Outcome, ...]
    lines: str = ""
    unanswerable: str = ""

    @property
    def unnamed(self) -> list[str]:
        """Undocumented codes."""
        return [one.code for one in self.outcomes if one.code and one.code not in CATALOGUE]


def run(
    suite: Suite, files: Mapping[str, Path], queries: Sequence[str], console: Console
) -> list[QueryOutcome]:
    """Asks all queries over the rows of CSV files, by table, on both engines; each account can pay for everything."""
    with filled(suite.schema, files) as world:
        truths = [true_rows(world.server, world.database, sql) for sql in queries]
        places = [
            configuration(world.folder / engine, url, suite.policy)
            for engine, url in zip(ENGINES, world.urls, strict=True)
        ]
        found = []
        for engine, file in zip(ENGINES, places, strict=True):
            with asking(file) as ask:
                pairs = track(
                    [*zip(queries, truths, strict=True)], f"{suite.title} on {engine}", console=console
                )
                found.append(
                    [asked(ask, CorpusStatement(suite.title, sql, True), truth) for sql, truth in pairs]
                )
        outcomes = [*zip(*found, strict=True)]
        lines = _turning(
            places[0], [sql for sql, (one, *_) in zip(queries, outcomes, strict=True) if one.code]
        )
    return [
        QueryOutcome(truth, of_it, lines.get(sql, ""), suite.unanswerable.get(number, ""))
        for number, (sql, truth, of_it) in enumerate(zip(queries, truths, outcomes, strict=True), 1)
    ]


def _turning(file: Path, refused: Sequence[str]) -> dict[str, str]:
    """The lines of policy that would turn refusals into answers, by statement."""
    lines = {}
    with assessing(configured(file)) as assessor:
        for sql in refused:
            listed = Listed(sql)
            refusal = assessor.assess(listed).refusal
            told = advice(assessor, listed, refusal) if refusal is not None else None
            if told is not None:
                lines[sql] = " ".join(told.lines)
    return lines


def part(suite: Suite, found: Sequence[QueryOutcome]) -> str:
    """The suite's part of the page."""
    lines = [f"## {suite.title}", "", suite.preface, "", *summary(found), ""]
    lines += ["| " + " | ".join(HEADS) + " |", "|" + "---|" * len(HEADS)]
    lines += ["| " + " | ".join(_row(number, one)) + " |" for number, one in enumerate(found, 1)]
    return "\n".join(lines)


def summary(found: Sequence[QueryOutcome]) -> Iterator[str]:
    """A line for each engine."""
    fair = [not one.unanswerable for one in found]
    for engine, outcomes in zip(ENGINES, zip(*(one.outcomes for one in found), strict=True), strict=True):
        answered = [one for one in outcomes if not one.code]
        codes = Counter(one.code for one in outcomes if one.code)
        prices, errors = (
            [one.price for one in answered],
            [one.error for one in answered if one.error is not None],
        )
        possible = sum(can and one.rows for can, one in zip(fair, outcomes, strict=True))
        yield (
            f"- {engine}: of {len(outcomes)} queries {sum(one.rows for one in answered)} answered, "
            f"{sum(not one.rows for one in answered)} empty although the true answer has rows, {codes.total()} refused "
            f"({', '.join(f'{code} {n}' for code, n in codes.most_common())}), "
            f"errors with an undocumented code {sum(n for code, n in codes.items() if code not in CATALOGUE)}; "
            f"median price {median(prices or [0]):g}, median relative error {median(errors or [0]):.2%}"
            + ("." if all(fair) else f"; of the {sum(fair)} that can be answered at all {possible} are.")
        )


def _row(number: int, found: QueryOutcome) -> Iterator[str]:
    yield f"Q{number}"
    yield _each("refused" if one.code else f"{one.released} of {len(found.truth)}" for one in found.outcomes)
    yield _each("" if one.code else f"{one.price:g}" for one in found.outcomes)
    yield _each("" if one.error is None else f"{one.error:.2%}" for one in found.outcomes)
    refused = _each(f"{one.code} {one.why}" if one.code else "" for one in found.outcomes)
    refused += f" → `{found.lines}`" if found.lines else ""
    refused += f" (cannot be answered: it {found.unanswerable})" if found.unanswerable else ""
    yield refused.strip().replace("|", "\\|")


def _each(texts: Iterator[str]) -> str:
    """The engines' texts, once where they are equal.

    >>> _each(iter(["a", "b"])), _each(iter(["a", "a"])), _each(iter(["", ""]))
    ('a / b', 'a', '')
    """
    return " / ".join(dict.fromkeys(texts))
