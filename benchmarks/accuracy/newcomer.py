"""A newcomer's questions under the sample data's own policy and budget: what they cost, and whether answers mislead."""

from __future__ import annotations

import asyncio
import math
import re
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import duckdb
import yaml
from scipy.stats import binom

from benchmarks.accuracy.asking import PAID
from benchmarks.accuracy.error import Answer, group_of, number_of
from dpproxy.config.sections import Config, content, validated
from dpproxy.deployment.service import Service
from dpproxy.reporting.rows import RowSet
from dpproxy.server.local_client import ClientError

HERE = Path(__file__).parent
PREFACE = """45 questions of somebody who has just connected to the sample data and read nothing
([benchmarks/accuracy/newcomer.yaml](../benchmarks/accuracy/newcomer.yaml)), asked one after the other by one analyst
under the policy's own budget, with `dpproxy.error_columns` for the judge's sake. An answer is

- *useful* if each number is off by less than 10%, or its 95% interval holds the truth and is narrower than half the
  value to each side; of names alone, if each belongs there;
- *rough* if it is not, and says so: by intervals that hold what they should, and by a warning where noise may exceed a
  value;
- *cut* if a number is further off than its interval, and the notice says what is left out of it (rows above a clip,
  values beyond declared bounds, groups that were not found; a lower bound or an estimate from below);
- *nothing* if it is empty or NULL and says why; *refused* if it is refused with a hint, free of charge;
- *misleading* if more numbers are outside of their intervals and 10% off than chance allows (p < 0.01), or one is by
  more than 4 deviations, and nothing says what is left out; if noise exceeds a value without a warning; or if nothing
  comes out and nothing says why. A number without an interval counts as outside of it."""
VERDICTS = ("useful", "rough", "cut", "nothing", "refused", "misleading")
ONE_SIDED = re.compile("a lower bound|an estimate from below")
CUT = re.compile(f"does not cover|is not counted|{ONE_SIDED.pattern}|of these alone")
WIDTH, FAR, RARE = 1.96, 4, 0.01
ENDS = ("_stddev", "_low", "_high")
"""How the names of error columns end."""


@dataclass(frozen=True)
class Asked:
    """A question; `truth`: the SQL for the bare database."""

    id: str
    what: str
    sql: str
    truth: str
    keys: tuple[str, ...] = ()


@dataclass
class Found:
    """What became of a question: a verdict and a price for each key, and the first answer in words."""

    asked: Asked
    verdicts: list[str] = field(default_factory=list)
    units: list[float] = field(default_factory=list)
    calls: list[float] = field(default_factory=list)
    shown: str = ""


@dataclass(frozen=True)
class Cell:
    """A released number, None for NULL, with the true one and the ends of its interval, None where none is stated."""

    value: float | None
    true: float
    low: float | None
    high: float | None

    @property
    def close(self) -> bool:
        """Off by less than 10%."""
        return self.value is not None and abs(self.value - self.true) < 0.1 * abs(self.true)

    @property
    def outside(self) -> bool:
        """Outside of its interval, and not close."""
        return not self.close and self._off > 1

    @property
    def far(self) -> bool:
        """So far outside that no chance explains it, and not close."""
        return not self.close and self._off > FAR / WIDTH

    @property
    def swamped(self) -> bool:
        """Not told from 0."""
        return self.low is not None and self.high is not None and self.low < 0 < self.high

    @property
    def useful(self) -> bool:
        """Close, or with an interval that holds the truth and says something."""
        if self.close or self.value is None or self.low is None or self.high is None:
            return self.close
        width = max(self.value - self.low, self.high - self.value)
        return not self.outside and width < 0.5 * abs(self.value)

    @property
    def _off(self) -> float:
        """How far the true number is away, where the end of the interval on its side is 1; without one without end."""
        if self.value is None or self.value == self.true:
            return 0
        end = self.low if self.true < self.value else self.high
        return math.inf if end in (None, self.value) else (self.true - self.value) / (end - self.value)


def newcomers_questions() -> list[Asked]:
    """The questions of newcomer.yaml."""
    entries = yaml.safe_load((HERE / "newcomer.yaml").read_text())
    return [
        Asked(e["id"], e["what"], e["sql"], e.get("truth", e["sql"]), tuple(e.get("keys", ())))
        for e in entries
    ]


def ask_newcomers(file: Path, policy: Path, keys: int) -> list[Found]:
    """Every question of so many deployments, each with a key of its own, against the truth."""
    found = [Found(one) for one in newcomers_questions()]
    with duckdb.connect(file, read_only=True) as connection:
        truths = []
        for one in found:
            cursor = connection.execute(one.asked.truth)
            truths.append(Answer([name for name, *_ in cursor.description], cursor.fetchmany(100_000)))
    for _ in range(keys):
        with (
            tempfile.TemporaryDirectory(prefix="newcomer-") as folder,
            Service.start(_deployed(Path(folder), policy, file), alone=True) as service,
        ):
            for one, truth in zip(found, truths, strict=True):
                _ask(service, one, truth)
    return found


def _deployed(folder: Path, policy: Path, file: Path) -> Config:
    """The policy as it is, over a file, with a key, a ledger and a front of its own."""
    said = dict(content(policy))
    for name in ("front", "ledger", "server"):
        said.pop(name, None)
    said["privacy"] = {**said["privacy"], "key_file": "key"}
    said["backend"] = {**said["backend"], "url": f"duckdb:///{file.absolute()}"}
    return validated(folder / "dpproxy.toml", said)


def _ask(service: Service, one: Found, truth: Answer) -> None:
    try:
        answer = asyncio.run(service.ask("newcomer", f"SET dpproxy.error_columns = on; {one.asked.sql}"))
    except ClientError as refusal:
        one.verdicts.append("refused")
        one.shown = one.shown or f"{refusal.code}"
        return
    paid = [match for notice in answer.notices if (match := PAID.search(notice))]
    one.units.append(sum(float(match[1]) for match in paid))
    one.calls.append(sum(float(match[2]) for match in paid))
    found = cells(answer, truth, one.asked.keys)
    one.verdicts.append(verdict(answer, truth, found, one.asked.keys))
    one.shown = one.shown or _shown(answer, found)


def cells(answer: RowSet, truth: Answer, keys: Sequence[str]) -> list[Cell]:
    """The numbers of an answer beside the true ones; a group that is not in the truth has 0 in it."""
    true_keys = [list(truth.columns).index(name) for name in keys]
    true_numbers = [n for n in range(len(truth.columns)) if n not in true_keys]
    there = {group_of(row, true_keys): row for row in truth.rows}
    own_keys = [answer.columns.index(name) for name in keys]
    numbers = [n for n in range(len(truth.columns)) if n not in own_keys]
    errors = _error_columns(answer.columns, len(truth.columns))
    found = []
    for row in answer.rows:
        true = there.get(group_of(row, own_keys))
        for place, n in zip(true_numbers, numbers, strict=True):
            exact = None if true is None else number_of(true[place])
            known = {end: row[at] for end, at in errors[n].items()}
            value = number_of(row[n])
            found.append(Cell(value, exact or 0, *_interval(value, known)))
    return found


def _error_columns(names: Sequence[str], own: int) -> list[dict[str, int]]:
    """The places of each of the first `own` columns' errors, which stand behind these in their order."""
    found: list[dict[str, int]] = []
    behind = own
    for name in names[:own]:
        found.append({})
        for end in ENDS:
            if names[behind : behind + 1] == [name + end]:
                found[-1][end] = behind
                behind += 1
    return found


def _interval(value: float | None, known: Mapping[str, object]) -> tuple[float | None, float | None]:
    """The ends of a number's interval by its error columns."""
    deviation, low, high = (number_of(known[end]) if end in known else None for end in ENDS)
    if value is not None and deviation is not None:
        return value - WIDTH * deviation, value + WIDTH * deviation
    return low, high


def verdict(answer: RowSet, truth: Answer, found: Sequence[Cell], keys: Sequence[str]) -> str:
    """One of VERDICTS for an answer, `found` its numbers."""
    said = " ".join(answer.notices)
    if not answer.rows or (found and all(cell.value is None for cell in found)):
        return "nothing" if re.search("are not shown|are needed|would swamp it", said) else "misleading"
    warned = "the noise may exceed" in said
    if not found:
        true = {group_of(row, [list(truth.columns).index(name) for name in keys]) for row in truth.rows}
        own = [answer.columns.index(name) for name in keys]
        return (
            "useful"
            if all(group_of(row, own) in true for row in answer.rows)
            else "rough"
            if warned
            else "misleading"
        )
    if all(cell.useful for cell in found):
        return "useful"
    # A lower bound holds whatever its noise is, and is told with an estimate from below.
    if any(cell.swamped for cell in found) and not warned and not ONE_SIDED.search(said):
        return "misleading"
    if (
        any(cell.far for cell in found)
        or binom.sf(sum(c.outside for c in found) - 1, len(found), 0.05) < RARE
    ):
        return "cut" if CUT.search(said) else "misleading"
    return "rough"


def _shown(answer: RowSet, found: Sequence[Cell]) -> str:
    if len(answer.rows) == 1 and found:
        return ", ".join(
            "NULL" if c.value is None else f"{_figure(c.value)} ({_figure(c.true)})" for c in found
        )
    close = f", {sum(cell.close for cell in found)} of {len(found)} within 10%" if found else ""
    return f"{len(answer.rows)} rows{close}"


def _figure(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def written_for_newcomers(found: Sequence[Found], machine: str, keys: int) -> str:
    """The section of the page."""
    runs = range(keys)
    spent = [sum(one.units[n] for one in found if n < len(one.units)) for n in runs]
    counted: list[Mapping[str, int]] = [Counter(one.verdicts[n] for one in found) for n in runs]
    lines = ["## A newcomer's questions", "", PREFACE, "", f"{keys} keys, on {machine}.", ""]
    lines += [
        f"- {len(found)} questions cost {median(spent):.1f} of 300 units (the median over the keys)"
        f" and {median(sum(one.calls[n] for one in found if n < len(one.calls)) for n in runs):.1f} of 30 calls.",
        "- Answers, from the fewest to the most of a key: "
        + ", ".join(f"{v} {min(c[v] for c in counted)} to {max(c[v] for c in counted)}" for v in VERDICTS)
        + ".",
        "",
        "| question | first answer (the truth) | units | calls | verdicts over the keys |",
        "|---|---|---|---|---|",
    ]
    for one in found:
        of = Counter(one.verdicts)
        said = ", ".join(f"{v}" + (f" {of[v]}" if len(of) > 1 else "") for v in VERDICTS if of[v])
        units, calls = (median(paid) if paid else 0 for paid in (one.units, one.calls))
        lines.append(f"| {one.asked.what} | {one.shown} | {units:.3g} | {calls:.2g} | {said} |")
    return "\n".join(lines)
