"""Two runs of one statement with the same released values: what each step's true numbers moved, against what was paid.

The loss of a step is what zero-concentrated privacy says of the numbers that it hid in both runs, in rho; where a pure
epsilon is claimed, in epsilon too. A group that one run alone has counts as 0 in the other one.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from mechanisms.continual import UnknownDomainBinary
from mechanisms.square_root import factor
from tests.replay.recorder import BOTTOM, Block, Run, Step

TOLD = 3
"""How many findings of one kind a comparison names."""


class Loss(NamedTuple):
    """What a step loses, in rho and in epsilon (None for Gaussian noise)."""

    rho: Fraction
    epsilon: Fraction | None


NOTHING = Loss(Fraction(0), Fraction(0))


@dataclass(frozen=True)
class Paid:
    """A block's loss as a share of its price, where 1 is all of it, and in rho."""

    name: str
    kinds: tuple[str, ...]
    share: float
    rho: Fraction


def losses(one: Run, other: Run) -> Iterator[tuple[Paid, str]]:
    """The loss of each block as a share of its price, with what is wrong about it, or nothing."""
    for block, opposite in zip(one.blocks, other.blocks, strict=False):
        if block.cost is None or opposite.cost is None:
            continue
        steps = {step.path: step for step in opposite.steps}
        pairs = [(step, steps.pop(step.path, None)) for step in block.steps]
        found = [loss(*pair) for pair in [*pairs, *((step, None) for step in steps.values())]]
        rho = sum((one.rho for one in found), Fraction(0))
        price = block.cost.information * block.eps_per**2 / 8
        kinds = tuple(sorted({step.kind for step in block.steps}))
        wrong = (
            "" if rho <= price else f"{block.name} loses rho {float(rho):.6g}, and pays {float(price):.6g}"
        )
        if not wrong and block.cost.epsilon is not None:
            lost = sum((one.epsilon or Fraction(0) for one in found), Fraction(0))
            most = block.cost.epsilon * block.eps_per
            gaussian = any(one.epsilon is None and one.rho for one in found)
            if gaussian or lost > most:
                wrong = f"{block.name} loses epsilon {float(lost):.6g}, and pays {float(most):.6g}"
        yield Paid(block.name, kinds, float(rho / price) if price else float(rho > 0), rho), wrong


def loss(step: Step, other: Step | None) -> Loss:
    """What the numbers that a step hid in two runs lose."""
    moved = dict(_moved(step, other))
    sizes = [abs(value) for value in moved.values()]
    match step.kind:
        case "laplace":
            epsilons = [size / step.law for size in sizes if size]
            return Loss(sum((e * e for e in epsilons), Fraction(0)) / 2, sum(epsilons, Fraction(0)))
        case "gaussian":
            if step.common is not None:
                return NOTHING  # the step that it is about has it
            return Loss(_gaussian(list(moved.values()), step), None)
        case "gumbel":
            shared = [moved[name] for name in moved if other is None or name in other.called()]
            spread = Fraction(max(shared) - min(shared)) / step.law if shared else Fraction(0)
            return Loss(step.picks * spread**2 / 8, step.picks * spread)
        case _:
            return Loss(_running(step, moved), None)


def _moved(step: Step, other: Step | None) -> Iterator[tuple[object, int]]:
    """By how much the number of each place differs, where it was released in either run."""
    mine = dict(zip(step.called(), step.hidden or (), strict=False))
    others = {} if other is None else dict(zip(other.called(), other.hidden or (), strict=False))
    for name in mine.keys() | others.keys():
        values = [known.get(name, step.absent) for known in (mine, others)]
        if None not in values:
            yield name, (values[0] or 0) - (values[1] or 0)


def _gaussian(moved: Sequence[int], step: Step) -> Fraction:
    """Where a draw on all numbers follows, the numbers may have moved by what that one hides, at its price."""
    ways = [Fraction(sum(size * size for size in moved), 2) / Fraction(step.law)]
    if step.shared is not None:
        for t in (-1, 1):
            apart = Fraction(sum((size - t) ** 2 for size in moved), 2) / Fraction(step.law)
            ways.append(apart + Fraction(t * t, 2) / Fraction(step.shared.law))
    return min(ways)


def _running(step: Step, moved: dict[object, int]) -> Fraction:
    """What the events of an item lose: through the nodes of the tree that they are in, or through the square root."""
    mechanism, moments = step.law
    if not moments or moments != list(range(1, len(moments) + 1)):
        return Fraction(0)  # a later look: its first times were looked at before
    counts = [moved.get(moment, 0) for moment in moments]
    events = np.array([after - before for before, after in pairwise([0, *counts])], dtype=np.int64)
    if isinstance(mechanism, UnknownDomainBinary):
        total = 0
        for level in range(mechanism.partial_sums):
            for start in range(0, len(events), 2 << level):
                total += int(events[start : start + (1 << level)].sum()) ** 2
        return Fraction(total, 2) / Fraction(mechanism.sigma_squared)
    entries = np.array(factor(mechanism.horizon).entries[: len(events)], dtype=object)
    through = np.convolve(events.astype(object), entries)[: len(events)] if len(events) else events
    return Fraction(sum(int(v) ** 2 for v in through), 2) / Fraction(mechanism.sigma_squared)


def differences(one: Run, other: Run) -> Iterator[str]:
    """What differs that is computed from released values and public ones alone, or is to be the same anyway."""
    private = _names(one) ^ _names(other)
    if len(one.queries) != len(other.queries):
        yield f"{len(one.queries)} and {len(other.queries)} queries"
    for (sql, arrays), (again, arrays_again) in zip(one.queries, other.queries, strict=False):
        bound, bound_again = _rows(arrays, one.marks), _rows(arrays_again, other.marks)
        # Groups that one run alone has may be the only ones that a round of a selection sets aside.
        set_aside = bool(bound) != bool(bound_again) and not (bound | bound_again) - private
        if sql != again and not set_aside:
            yield "the SQL of a query differs"
        if (bound ^ bound_again) - private:
            yield "what is bound to a query differs"
    if [b.name for b in one.blocks] != [b.name for b in other.blocks]:
        yield f"other measurements: {[b.name for b in one.blocks]} and {[b.name for b in other.blocks]}"
    for block, opposite in zip(one.blocks, other.blocks, strict=False):
        yield from _drawn(block, opposite)
        if block.cost != opposite.cost:
            yield f"{block.name} costs {block.cost} and {opposite.cost}"
    for table, again_table in zip(one.releases, other.releases, strict=False):
        if (table.keys, table.notes, table.cost) != (again_table.keys, again_table.notes, again_table.cost):
            yield "the groups, the notes or the cost of a release differ"
        if table.measured != again_table.measured:
            yield "the values of a release differ"


def _rows(arrays: Sequence[Iterable[str | None]], marks: Mapping[str, Hashable]) -> set[object]:
    """What is bound, row by row, in no order: the backend gives rows in none. Marks are the groups that they are of."""
    columns: list[tuple[object, ...]] = [tuple(array) for array in arrays]
    if len(columns) == 1 and all(text in marks for text in columns[0]):
        return {marks[str(text)] for text in columns[0]}
    return set(zip(*columns, strict=True)) if len(set(map(len, columns))) == 1 else set(enumerate(columns))


def _names(run: Run) -> set[object]:
    """The groups of unknown domains: those that one run alone has may be set aside by it alone, for the backend."""
    return {name for step in run.steps if step.kind == "gaussian" for name in step.names or ()}


def _drawn(one: Block, other: Block) -> Iterator[str]:
    """Draws whose number the data decide: of a domain that is public none may."""
    of_public = [[(s.path, s.kind, s.size) for s in b.steps if s.names is None] for b in (one, other)]
    if of_public[0] != of_public[1]:
        yield f"{one.name} draws {len(of_public[0])} and {len(of_public[1])} times, or other numbers of them"
    other_steps = {step.path: step for step in other.steps}
    for step in one.steps:
        twin = other_steps.get(step.path)
        if twin is None:
            continue
        if step.law != twin.law and step.kind != "running":
            yield f"{one.name}: the noise of {step.path} has other parameters"
        if step.kind == "gumbel" and step.names is not None:
            yield from _alone(step, twin)
            yield from _alone(twin, step)


def _alone(step: Step, other: Step) -> Iterator[str]:
    """A group that one run alone has must be no better than bottom, which hides it but for delta."""
    scores = dict(zip(step.called(), step.hidden or (), strict=True))
    shared = set(other.called())
    for name, score in scores.items():
        if name not in shared and (score or 0) > (scores.get(BOTTOM) or 0):
            yield f"a group of {score} is in one run alone, and bottom at {scores.get(BOTTOM)}"
