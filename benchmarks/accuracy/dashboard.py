"""What three dashboards cost where bought answers are used again, how good their answers are, and what several analysts
of them and the dataset pay."""

from __future__ import annotations

import asyncio
import math
import re
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from statistics import median

from benchmarks.accuracy.asking import PAID, deployment, truths
from benchmarks.accuracy.error import Answer, error_of, group_of, nothing, number_of
from benchmarks.accuracy.page import percent
from benchmarks.accuracy.questions import Question
from benchmarks.accuracy.trace import CUBE, Sent, over_cube, sent
from dpproxy.config.sections import Limits
from dpproxy.deployment.service import Service
from dpproxy.engine.selection.groups import GAUSSIAN

WISHES = ("off", "on", "always")
ANALYSTS = 4
ERRORS = "_stddev"
PREFACE = """300 statements as Superset and Metabase send them for three dashboards over the sample data
([benchmarks/accuracy/trace.py](../benchmarks/accuracy/trace.py)): the charts as they are opened, again under one filter
after the other, and what is clicked for its parts. One analyst asks all of them in order for each value of
`dpproxy.reuse`; no statement is sent twice. *Error*: the median over statements of the median error of an answer's
groups, in its worst column. *Held*: how many of the true numbers, computed without bounds of any kind, are within the
95% interval that the answer states."""
SEVERAL = f"""{ANALYSTS} analysts ask half of the 300 statements each, chosen at random, one after the other. Before:
nothing is reused, and the dataset's account pays for every purchase. After: `dpproxy.reuse = on`, and the dataset pays
once for one answer."""


CUBED = f"""A cube, bought once for two information units: `{CUBE}`.
20 questions over it, under `dpproxy.reuse = always`, are free. *Stated*: the median over an answer's groups of half its
95% interval, as a share of the value."""


@dataclass
class Charted:
    """A statement's prices, errors and numbers within their intervals, one a key, by the value of dpproxy.reuse."""

    sent: Sent
    prices: dict[str, list[float]] = field(default_factory=dict)
    errors: dict[str, list[float]] = field(default_factory=dict)
    held: dict[str, list[bool]] = field(default_factory=dict)
    stated: list[float] = field(default_factory=list)

    def cost(self, wish: str) -> float:
        return median(self.prices[wish])

    def free(self, wish: str) -> bool:
        """Whether it was bought with no key."""
        return not any(self.prices[wish])


@dataclass
class Shared:
    """What analysts and the dataset have paid, in information units: before, and after."""

    before: list[float] = field(default_factory=list)
    after: list[float] = field(default_factory=list)
    dataset: float = 0


@dataclass(frozen=True)
class Dashboards:
    """What was measured: of the trace by one analyst and by several, and of a cube."""

    charts: Sequence[Charted]
    cube: Sequence[Charted]
    shared: Shared


def charted(file: Path, policy: Path, keys: int) -> Dashboards:
    """Every statement of so many deployments with a key of its own, by an analyst for each wish; then by several."""
    found = [Charted(one) for one in sent()]
    cube = [Charted(Sent("cube", "asked", question)) for question in over_cube()]
    asked = [one.sent.question for one in (*found, *cube)]
    truth = truths(file, [replace(one, sql=_bare(one.sql)) for one in asked])
    whole = Sent("cube", "bought", Question("cube", "the cube", CUBE))
    for _ in range(keys):
        with tempfile.TemporaryDirectory(prefix="dashboard-") as folder:
            config = deployment(Path(folder), policy, file, 1)
            with Service.start(config, alone=True) as service:
                for wish in WISHES:
                    for one in found:
                        _note(one, wish, truth[one.sent.question.id], *_ask(service, one.sent, wish, wish))
                _ask(service, whole, "off", "cube")
                for one in cube:
                    _note(
                        one, "always", truth[one.sent.question.id], *_ask(service, one.sent, "always", "cube")
                    )
    return Dashboards(found, cube, _several(file, policy, found))


def _several(file: Path, policy: Path, found: Sequence[Charted]) -> Shared:
    shared = Shared()
    with tempfile.TemporaryDirectory(prefix="dashboard-") as folder:
        config = deployment(Path(folder), policy, file, 1)
        budget = config.budget.model_copy(update={"dataset": Limits()})
        with Service.start(config.model_copy(update={"budget": budget}), alone=True) as service:
            for number in range(ANALYSTS):
                places = sorted(Random(number).sample(range(len(found)), len(found) // 2))
                shared.before.append(sum(found[place].cost("off") for place in places))
                paid = [_ask(service, found[place].sent, "on", f"analyst {number}")[1] for place in places]
                shared.after.append(sum(paid))
            shared.dataset = service.ledger.accounts.get("dataset").used.information / 10**6
    return shared


def _ask(service: Service, one: Sent, wish: str, analyst: str) -> tuple[Answer, float]:
    """The answer with columns of errors, and its price."""
    sql = f"SET dpproxy.error_columns = on; SET dpproxy.reuse = {wish}; {one.question.sql}"
    rows = asyncio.run(service.ask(analyst, sql))
    paid = [PAID.search(notice) for notice in rows.notices]
    return Answer(rows.columns, rows.rows), sum(float(match[1]) for match in paid if match is not None)


def _note(one: Charted, wish: str, truth: Answer, answer: Answer, paid: float) -> None:
    keys = one.sent.question.keys
    shown = [n for n, name in enumerate(answer.columns) if not name.endswith(ERRORS)]
    plain = Answer([answer.columns[n] for n in shown], [[row[n] for n in shown] for row in answer.rows])
    error = error_of(plain, truth, keys) or nothing(truth, keys)
    one.prices.setdefault(wish, []).append(paid)
    one.errors.setdefault(wish, []).append(max(error.columns) if error is not None else 0)
    intervals = [*_intervals(answer, truth, keys)]
    one.held.setdefault(wish, []).extend(size >= abs(value - true) for value, size, true in intervals)
    one.stated.append(
        median(size / abs(value) if value else math.inf for value, size, _ in intervals or [(0, 0, 0)])
    )


def _intervals(answer: Answer, truth: Answer, keys: Sequence[str]) -> Iterator[tuple[float, float, float]]:
    """Each number that has an interval, half the width of that, and the true number; a group of no rows has 0."""
    true = {group_of(row, [truth.columns.index(key) for key in keys]): row for row in truth.rows}
    for row in answer.rows:
        there = true.get(group_of(row, [answer.columns.index(key) for key in keys]))
        for place, name in enumerate(answer.columns):
            if name.endswith(ERRORS) and (spread := number_of(row[place])) is not None:
                of = name.removesuffix(ERRORS)
                value = number_of(row[answer.columns.index(of)])
                exact = 0 if there is None else number_of(there[truth.columns.index(of)]) or 0
                yield value or 0, GAUSSIAN * spread, exact


def _bare(sql: str) -> str:
    """A statement as DuckDB reads it, which has another schema."""
    sql = re.sub(r"TO_TIMESTAMP\(('[^']*'), '[^']*'\)", r"TIMESTAMP \1", sql)
    return sql.replace('"public".', "").replace("public.", "")


def written_for_dashboards(measured: Dashboards, machine: str, keys: int) -> str:
    """The part's section of the page."""
    found, shared = measured.charts, measured.shared
    heads = ("dashboard", "sent as", "statements", *(f"units, {wish}" for wish in WISHES), "free, on")
    heads = (*heads, "error, free", "error, afresh", "held, free", "held, afresh")
    kinds = dict.fromkeys((one.sent.dashboard, one.sent.why) for one in found)
    lines = ["## Dashboards", "", PREFACE, "", f"{keys} keys, on {machine}.", ""]
    lines += [*(_summary(found, wish) for wish in WISHES[1:]), "", _table(heads)]
    lines += [
        _table((*kind, *_figures([one for one in found if (one.sent.dashboard, one.sent.why) == kind])))
        for kind in kinds
    ]
    lines += [_table(("all", "", *_figures(found))), "", SEVERAL, ""]
    lines += [_table(("", *(f"analyst {n + 1}" for n in range(ANALYSTS)), "dataset"))]
    for name, paid, dataset in (
        ("before", shared.before, sum(shared.before)),
        ("after", shared.after, shared.dataset),
    ):
        lines.append(_table((name, *(f"{one:.0f}" for one in paid), f"{dataset:.0f}")))
    lines += ["", CUBED, "", _table(("question", "groups", "units", "error", "stated", "held"))]
    lines += [
        _table(
            (
                one.sent.question.what,
                str(len(one.held["always"]) // keys),
                f"{one.cost('always'):g}",
                percent(median(one.errors["always"])),
                percent(median(one.stated)),
                _held_by([one], "always"),
            )
        )
        for one in measured.cube
    ]
    return "\n".join(lines)


def _table(cells: Sequence[str]) -> str:
    """A row of a table, with the rule below it where it is the first."""
    row = "| " + " | ".join(cells) + " |"
    return f"{row}\n|{'---|' * len(cells)}" if cells[0] in ("dashboard", "question", "") else row


def _summary(found: Sequence[Charted], wish: str) -> str:
    whole, cost = (sum(one.cost(of) for one in found) for of in ("off", wish))
    free = [one for one in found if one.free(wish)]
    return (
        f"- `dpproxy.reuse = {wish}`: {cost:.0f} units in place of {whole:.0f}, a factor of {whole / cost:.1f}. "
        f"{len(free)} of {len(found)} statements are free, with an error of {_error(free, wish)} where fresh answers "
        f"have {_error(free, 'off')}; {_held_by(free, wish)} of their numbers are within their intervals, "
        f"of fresh ones {_held_by(free, 'off')}."
    )


def _figures(found: Sequence[Charted]) -> Iterator[str]:
    free = [one for one in found if one.free("on")]
    yield str(len(found))
    yield from (f"{sum(one.cost(wish) for one in found):.0f}" for wish in WISHES)
    yield str(len(free))
    for of in ("on", "off"):
        yield _error(free, of)
    for of in ("on", "off"):
        yield _held_by(free, of)


def _error(found: Sequence[Charted], wish: str) -> str:
    return percent(median(median(one.errors[wish]) for one in found)) if found else ""


def _held_by(found: Sequence[Charted], wish: str) -> str:
    held = [one for charts in found for one in charts.held[wish]]
    return f"{sum(held) / len(held):.0%}" if held else ""
