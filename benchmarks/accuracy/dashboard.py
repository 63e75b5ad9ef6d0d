"""What a session over dashboards costs where bought answers are used again, and how good its answers are."""

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

WISHES = ("off", "on", "always")
PREFACE = """42 charts, filters, drill-downs and figures of three dashboards over the sample data
([benchmarks/accuracy/dashboard.yaml](../benchmarks/accuracy/dashboard.yaml)), asked in order by one analyst for each
value of `dpproxy.reuse`: what each statement costs, and the median error of its worst column."""


@dataclass
class Charted:
    """A statement's prices and errors, one a key, by the value of dpproxy.reuse."""

    question: Question
    prices: dict[str, list[float]] = field(default_factory=dict)
    errors: dict[str, list[float]] = field(default_factory=dict)

    def free(self, wish: str) -> bool:
        """Whether it was bought with no key."""
        return not any(self.prices[wish])


def charted(file: Path, policy: Path, asked: Sequence[Question], keys: int) -> list[Charted]:
    """Every statement of so many deployments with a key of its own, by an analyst for each wish."""
    truth = truths(file, asked)
    found = [Charted(one) for one in asked]
    for _ in range(keys):
        with tempfile.TemporaryDirectory(prefix="dashboard-") as folder:
            config = deployment(Path(folder), policy, file, 1)
            with Service.start(config, alone=True) as service:
                for wish in WISHES:
                    for one in found:
                        _ask(service, one, wish, truth[one.question.id])
    return found


def _ask(service: Service, one: Charted, wish: str, truth: Answer) -> None:
    rows = asyncio.run(service.ask(f"reuse {wish}", f"/* dpproxy.reuse = {wish} */ {one.question.sql}"))
    error = error_of(Answer(rows.columns, rows.rows), truth, one.question.keys) or nothing(
        truth, one.question.keys
    )
    paid = [PAID.search(notice) for notice in rows.notices]
    one.prices.setdefault(wish, []).append(sum(float(match[1]) for match in paid if match is not None))
    one.errors.setdefault(wish, []).append(max(error.columns) if error is not None else 0)


def written_for_dashboards(found: Sequence[Charted], machine: str, keys: int) -> str:
    """The part's section of the page."""
    heads = ("statement", *(f"{name}, {wish}" for wish in WISHES for name in ("units", "error")))
    lines = ["## Dashboards", "", PREFACE, "", f"{keys} keys, on {machine}.", "", *_summary(found), ""]
    lines += ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    return "\n".join([*lines, *("| " + " | ".join(_row(one)) + " |" for one in found)])


def _summary(found: Sequence[Charted]) -> Iterator[str]:
    whole = sum(median(one.prices["off"]) for one in found)
    for wish in WISHES[1:]:
        cost, free = sum(median(one.prices[wish]) for one in found), [one for one in found if one.free(wish)]
        fresh, implied = (median(median(one.errors[of]) for one in free) for of in ("off", wish))
        yield (
            f"- `dpproxy.reuse = {wish}`: {cost:g} units in place of {whole:g}, a factor of {whole / cost:.1f}. "
            f"{len(free)} of {len(found)} statements are free: the median of their errors is {percent(implied)}, "
            f"that of fresh answers {percent(fresh)}."
        )


def _row(one: Charted) -> Iterator[str]:
    yield one.question.what
    for wish in WISHES:
        yield f"{median(one.prices[wish]):g}"
        yield percent(median(one.errors[wish]))
