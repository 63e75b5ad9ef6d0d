"""One statement on one side, then on its neighbours with what was released frozen; what differs is a finding."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite

from budget.account import Charge
from dpproxy.engine.executor import QueryEngine
from dpproxy.engine.release_plan import charge
from dpproxy.engine.request import QueryRequest, StepResult
from rewriter.refusal import Refusal
from tests.replay.compare import differences, losses
from tests.replay.recorder import Recorder, Run
from tests.replay.world import World

FAILED = "PV090"
"""The code of a statement that failed at the backend, or whose rows were too many."""


@dataclass(frozen=True)
class Finding:
    """What is wrong with a statement, and where to find it again."""

    place: str
    sql: str
    what: str
    seconds: float = 0


@dataclass
class Row:
    """What was tried of one mechanism. `tight`: the largest share of its price that a block has lost."""

    blocks: int = 0
    steps: int = 0
    tight: float = 0

    def add(self, other: Row) -> None:
        """Takes over what another process has tried."""
        self.blocks, self.steps = self.blocks + other.blocks, self.steps + other.steps
        self.tight = max(self.tight, other.tight)


@dataclass
class Tally:
    """How much was replayed. `nodes`: releases; `failed`: statements that failed at the backend, on some sides or on
    all, each a finding."""

    statements: int = 0
    answered: int = 0
    replays: int = 0
    nodes: int = 0
    engines: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    rows: dict[str, Row] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        """Takes over what another process has tried."""
        for name in ("statements", "answered", "replays", "nodes"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.engines += other.engines
        self.refused += other.refused
        self.failed += other.failed
        for name, row in other.rows.items():
            self.rows.setdefault(name, Row()).add(row)
        self.findings += other.findings


@dataclass(frozen=True)
class Outcome:
    """What an execution gave: its result or the code of its refusal, what it was charged, and what it did."""

    run: Run
    result: StepResult | None
    refused: str
    charged: Charge


def executed(
    engine: QueryEngine,
    analyst: str,
    sql: str,
    settings: Mapping[str, str],
    recorder: Recorder,
    script: Run | None = None,
) -> Outcome:
    """One execution, recorded, or with what `script` gave."""
    run = recorder.begin(script)
    request = QueryRequest(sql, (), analyst, (), settings)
    result, refused = None, ""
    try:
        engine.prepare(sql, ())
        result = engine.execute(request)
    except Refusal as refusal:
        refused = refusal.code
    return Outcome(run, result, refused, request.paid.charged)


def replayed(
    world: World,
    sides: Sequence[str],
    analyst: str,
    sql: str,
    settings: Mapping[str, str],
    recorder: Recorder,
    tally: Tally,
) -> list[str]:
    """Asks the first of `sides`, then the others with its outcomes; what is wrong.

    All sides must have been asked the same before by `analyst`: answers imply answers.
    """
    first = executed(world.engines[sides[0]], analyst, sql, settings, recorder)
    tally.statements += 1
    tally.engines[world.backend] += 1
    found = _alone(first)
    if first.refused:
        tally.refused[first.refused] += 1
    else:
        tally.answered += 1
        tally.nodes += len(first.run.releases)
    failed = [sides[0]] if first.refused == FAILED else []
    for side in sides[1:]:
        tally.replays += 1
        other = executed(world.engines[side], analyst, sql, settings, recorder, first.run)
        found += [f"{side}: {what}" for what in (*_alone(other), *_apart(first, other, tally))]
        failed += [side] if other.refused == FAILED else []
    if failed:
        tally.failed["all" if len(failed) == len(sides) else "some"] += 1
        found.insert(0, f"the backend raised {' and '.join(failed)}, of {', '.join(sides)}")
    return list(dict.fromkeys(found))


def _alone(outcome: Outcome) -> list[str]:
    """What is wrong with one execution: its draws, and whether what it released is what it was charged."""
    run = outcome.run
    found = list(run.findings)
    for step in run.steps:
        if step.hidden is None and step.size:
            found.append(f"a draw of {step.kind} hides nothing that is known")
    for block in run.blocks:
        if block.cost is not None and block.cost.information and not block.steps and not outcome.refused:
            found.append(f"{block.name} is paid for and draws nothing")
    if not outcome.refused and not any(block.running for block in run.blocks):
        owed = Charge.sum(charge(table.cost) for table in run.releases)
        # An answer that another account has bought is charged, too, and not released again.
        if owed.information > outcome.charged.information or owed.calls > outcome.charged.calls:
            found.append(f"what was released costs {owed}, and {outcome.charged} was charged")
    for table in run.releases:
        for column in table.measured.values():
            if any(type(value) is not int for value in column.values) or not all(
                map(isfinite, column.deviations)
            ):
                found.append("a released value is no integer, or its error is not finite")
    return found


def _apart(first: Outcome, other: Outcome, tally: Tally) -> list[str]:
    """What differs between neighbours."""
    found = list(differences(first.run, other.run))
    for paid, wrong in losses(first.run, other.run):
        row = tally.rows.setdefault(paid.name, Row())
        row.add(Row(1, 0, paid.share))
        if wrong:
            found.append(wrong)
    for block in first.run.blocks:
        tally.rows.setdefault(block.name, Row()).steps += len(block.steps)
    if first.refused != other.refused:
        found.append(f"refused with {first.refused or 'nothing'} and {other.refused or 'nothing'}")
    if first.charged != other.charged:
        found.append(f"charged {first.charged} and {other.charged}")
    if _sent(first.result) != _sent(other.result):
        found.append("what is sent differs")
    return found


def _sent(result: StepResult | None) -> StepResult | None:
    """A result without the times at which what it is computed from was bought."""
    if result is None:
        return None
    notices = tuple(re.sub(r"bought [\d-]+ [\d:]+ UTC", "bought", notice) for notice in result.notices)
    return replace(result, notices=notices)
