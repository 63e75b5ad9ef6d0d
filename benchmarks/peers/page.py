"""The peers' part of docs/benchmarks.md."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.peers.tasks import DELTA, EPSILON, REPEATS, TASKS, GroupValues, Outcome, top

HEAD = ("task", "peer", "seconds (first)", "median error", "right groups")
PREFACE = """## Peers

Written by `make bench-peers` on {machine}, load average before the busiest peer {load:.1f}.
The data are {rows:,} visits of {people:,} people. Each question was asked {repeats} times, and each answer is
({epsilon:g}, {delta:g}) differentially private on its own. Each peer chooses its own noise. For every peer, neighbours
differ by all rows of one person."""
COLUMNS = """The columns:

- *seconds*: the median time from the call to the rows, with the first call in brackets. The system is already running,
  and its data are loaded into a database or a data frame. dpproxy's times include reservation and settlement.
- *median error*: the median relative error over all released groups of all answers. Where an answer is a single number,
  there are only as many values as repetitions, and another run can change their median by half.
- *right groups*: how many of the true groups were released, as a median over the answers. Countries are public,
  articles are private.
- *lines*: lines of code of the adapter that sets up the peer and asks all questions. dpproxy's include its policy."""


@dataclass(frozen=True)
class Figures:
    """Of one peer at one task: seconds (median, first), median relative error, right groups of so many."""

    seconds: float
    first: float
    error: float
    right: float
    wanted: int


def figures(outcome: Outcome, task: str, truth: GroupValues) -> Figures | None:
    """A peer's answers held against the truth; None where there is none.

    `truth`: by group, of all groups; of the top-10 articles, the ten largest are right.
    """
    if task not in outcome.answers:
        return None
    answers = outcome.answers[task]
    wanted = set(top(truth) if task.startswith("top-10") else truth)
    errors = [
        abs(value - truth.get(group, 0)) / max(truth.get(group, 0), 1)
        for groups in answers
        for group, value in groups.items()
    ]
    return Figures(
        statistics.median(outcome.seconds[task]),
        outcome.seconds[task][0],
        statistics.median(errors) if errors else float("nan"),
        statistics.median(len(wanted & groups.keys()) for groups in answers),
        len(wanted),
    )


@dataclass(frozen=True)
class Run:
    """What was measured: outcomes, ours first, each with the lines that it takes, the truth by task, how many people
    there are, and the highest load average before a peer was asked."""

    outcomes: Sequence[tuple[Outcome, int]]
    truth: Mapping[str, GroupValues]
    people: int
    load: float

    def of(self, outcome: Outcome, task: str) -> Figures | None:
        """A peer's figures at a task."""
        return figures(outcome, task, self.truth[task])

    @property
    def rows(self) -> list[Sequence[str]]:
        """The table's rows, task by task."""
        return [self._row(one, task) for task in TASKS for one, _ in self.outcomes]

    def _row(self, one: Outcome, task: str) -> Sequence[str]:
        found = self.of(one, task)
        if found is None:
            reason = f"cannot: {one.cannot[task]}" if task in one.cannot else f"failed: {one.failed[task]}"
            return task, one.peer, "-", reason, "-"
        seconds = f"{found.seconds:.2f} ({found.first:.2f})"
        return task, one.peer, seconds, f"{100 * found.error:.2g}%", f"{found.right:g} of {found.wanted}"


def part(run: Run, rows: int, machine: str) -> str:
    """The part of the page, as Markdown."""
    about = {"epsilon": EPSILON, "delta": DELTA, "repeats": REPEATS, "people": run.people, "load": run.load}
    lines = [PREFACE.format(rows=rows, machine=machine, **about), "", *findings(run), "", COLUMNS, ""]
    lines += table(HEAD, run.rows)
    lines += ["", "![Error and seconds by task and peer](benchmarks/peers.svg)", ""]
    peers = [
        (one.peer, one.bounds, one.lacks, str(count) if one.answers else "-") for one, count in run.outcomes
    ]
    lines += table(("peer", "contribution bounds", "what it cannot express", "lines"), peers)
    return "\n".join(lines)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table."""
    return [
        "| " + " | ".join(head) + " |",
        "|" + "---|" * len(head),
        *("| " + " | ".join(r) + " |" for r in rows),
    ]


def findings(run: Run) -> Iterator[str]:
    """What the figures say, in a few sentences: ours beside the others."""
    ours = [one for one, _ in run.outcomes if one.peer.startswith("dpproxy")]
    others = [one for one, _ in run.outcomes if one not in ours]
    times = [[f.seconds for one in of for task in TASKS if (f := run.of(one, task))] for of in (ours, others)]
    if all(times):
        yield (
            f"- dpproxy answers in {_span(times[0])} s, the others in {_span(times[1])} s. Its prices and its noise"
            " are designed for an account of many answers, theirs for a single answer."
        )
        yield from (
            f"- Error of groups, {one.peer}: {_compared(run, one, others)}." for one in ours if one.answers
        )
    for task in TASKS:
        if silent := [one.peer for one, _ in run.outcomes if task not in one.answers]:
            yield f"- Not answered: {task} by {', '.join(silent)}."


def _compared(run: Run, one: Outcome, others: Sequence[Outcome]) -> str:
    """From which task to which one's error is how many times the smallest of the others; of groups, not of the few
    answers that are one number."""
    ratios = []
    for task in TASKS:
        mine = run.of(one, task)
        theirs = [found.error for other in others if (found := run.of(other, task))]
        if mine and mine.wanted > 1 and theirs and min(theirs):
            ratios.append((mine.error / min(theirs), task))
    if not ratios:
        return "compared with none"
    (low, low_task), (high, high_task) = min(ratios), max(ratios)
    return f"{low:.1f} ({low_task}) to {high:.1f} ({high_task}) times the smallest of theirs"


def _span(values: Sequence[float]) -> str:
    return f"{min(values):.2f} to {max(values):.2f}"
