"""What each question costs for an error: its errors at the levels up to 8 units a measure, and what the least costs."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from benchmarks.accuracy.asking import PAID, deployment, truths
from benchmarks.accuracy.error import Answer, error_of, nothing
from benchmarks.accuracy.page import percent
from benchmarks.accuracy.questions import Question
from dpproxy.deployment.service import Service
from dpproxy.server.local_client import ClientError

LEVELS = ("0.25", "0.5", "1", "2", "4", "8")
ERRORS = (0.1, 0.05)
MOST = 8
"""Information units that a question may cost to be called useful."""
PREFACE = """The same questions at the levels of `dpproxy.units`: the error of the worst column, and what the whole
answer costs at the least level whose error is below 10% and below 5%. Before there were levels, every question had one
price: that of level 1."""


@dataclass
class Precise:
    """A question's errors of its worst column, one a key, and the largest price, by level."""

    question: Question
    errors: dict[str, list[float]] = field(default_factory=dict)
    prices: dict[str, float] = field(default_factory=dict)

    def price(self, error: float) -> float | None:
        """What the least level costs at which the median error is below this; None where none is."""
        enough = (self.prices[level] for level in LEVELS if median(self.errors[level]) < error)
        return next(enough, None)


def measured(file: Path, policy: Path, asked: Sequence[Question], keys: int) -> list[Precise]:
    """Every question at every level, of so many deployments with a key of its own."""
    truth = truths(file, asked)
    found = [Precise(one) for one in asked]
    for _ in range(keys):
        with tempfile.TemporaryDirectory(prefix="precision-") as folder:
            config = deployment(Path(folder), policy, file, 1)
            with Service.start(config, alone=True) as service:
                for one in found:
                    for level in LEVELS:
                        _ask(service, one, level, truth[one.question.id])
    return found


def _ask(service: Service, one: Precise, level: str, truth: Answer) -> None:
    question = one.question
    try:
        # An analyst a level: what is bought at another is not taken off the price.
        sql = f"/* dpproxy.units = {level}, dpproxy.reuse = off */ {question.sql}"
        rows = asyncio.run(service.ask(f"level {level}", sql))
        error = error_of(Answer(rows.columns, rows.rows), truth, question.keys)
        paid = [PAID.search(notice) for notice in rows.notices]
        price = sum(float(match[1]) for match in paid if match is not None)
        one.prices[level] = max(price, one.prices.get(level, 0))
    except ClientError:
        error = nothing(truth, question.keys)
        one.prices.setdefault(level, 0)
    assert error is not None
    one.errors.setdefault(level, []).append(max(error.columns))


def written_for_levels(found: Sequence[Precise], machine: str, keys: int) -> str:
    """The part's section of the page."""
    heads = ("question", *(f"at {level}" for level in LEVELS), "units for 10%", "units for 5%")
    lines = [
        "## What precision costs",
        "",
        PREFACE,
        "",
        f"{keys} keys, on {machine}.",
        "",
        *_summary(found),
        "",
    ]
    lines += ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    return "\n".join([*lines, *("| " + " | ".join(_row(one)) + " |" for one in found)])


def _summary(found: Sequence[Precise]) -> Iterator[str]:
    usual = sum(median(one.errors["1"]) < ERRORS[0] for one in found)
    for error in ERRORS:
        prices = [one.price(error) for one in found]
        within = [price for price in prices if price is not None and price <= MOST]
        yield (
            f"- {len(within)} of {len(found)} questions are below {error:.0%} for at most {MOST} units"
            + (f" each, the median of them for {median(within):g}." if within else ".")
        )
    yield f"- At one level for all, that of one unit a measure, {usual} are below 10%."


def _row(one: Precise) -> Iterator[str]:
    yield one.question.what
    for level in LEVELS:
        yield percent(median(one.errors[level]))
    for error in ERRORS:
        price = one.price(error)
        yield "" if price is None else f"{price:g}"
