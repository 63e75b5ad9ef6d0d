"""How an answer gets to the error that was asked for: level by level, reading released values alone.

Each level is reserved and settled by itself, so that nothing is reserved that is not used. The first is a level that
this account has paid for before, or the least. The next depends on what was released: it is a function of answers that
are paid for (post-processing), and each step is charged before it is taken (adaptive composition).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from budget.account import Charge
from budget.units import micro, shown
from dpproxy.config.precision import LEVELS, Target
from dpproxy.engine.optimizer import combines
from dpproxy.engine.postprocess import OutputColumn
from dpproxy.engine.precision import excess, higher
from dpproxy.engine.release_plan import ReleasePlan, charge
from dpproxy.engine.released_table import ReleasedTable
from dpproxy.engine.select_running import RunningSelection
from mechanisms.histogram import Cost

HOPE = 4
"""Where more than so many times the highest level seems needed, nothing more is spent. It only seems so: what is known
at a low level is noisy."""


@dataclass(frozen=True)
class Climb:
    """The search of the least level at which an answer's error is small enough.

    Attributes:
        target: the error that is asked for.
        plans: how the node is answered at each level that the owner and the analyst let it have, ascending.
    """

    target: Target
    plans: Mapping[Fraction, ReleasePlan]

    def marks(self) -> dict[bytes, Fraction]:
        """By the request key that it is complete with, each level."""
        return {(plan, *plan.rungs)[-1].request_key: level for level, plan in self.plans.items()}

    def answer(
        self,
        paid: Collection[Fraction],
        buy: Callable[[ReleasePlan], ReleasedTable],
        affordable: Callable[[Charge], bool],
    ) -> ReleasedTable:
        """The answer at the first level that is enough, or at the last that is affordable.

        `paid`: levels that are free.
        """
        # Groups are not found, and values not chosen, with less than the usual precision: intervals do not cover that.
        usual = Fraction(1)
        least = min(self.plans) if combines(self.plans[usual]) != "never" else usual
        plan = self.plans[max(paid, default=least)]
        results = [buy(plan)]
        while (needed := excess(results[-1].columns, self.target)) is not None and needed > 1:
            if plan.level * needed > HOPE * max(self.plans):
                break
            further = (self.plans[level] for level in higher(plan.level, needed, self.plans))
            better = next((one for one in further if affordable(_missing(plan, one))), None)
            if better is None:
                break
            plan = better
            results.append(buy(plan))
        charged = [result.charged for result in results if result.charged is not None]
        return replace(
            results[-1],
            charged=Charge.sum(charged) if charged else None,
            replayed=all(result.replayed for result in results),
            level=self._said(plan.level, needed, results[-1].columns),
        )

    def _said(self, level: Fraction, needed: Fraction | None, columns: Sequence[OutputColumn]) -> str:
        """What became of the target."""
        at = f"{shown(micro(level))} information unit{'s' * (level != 1)} a measure"
        if needed is None:
            return f"{at}; no error is known that {self.target} could be compared with"
        if needed <= 1:
            return f"{at} for an error of {self.target}" + _half(columns)
        enough = next((step for step in LEVELS if step >= needed * level), None)
        more = f"more than {LEVELS[-1]}" if enough is None else f"about {shown(micro(enough))}"
        return f"{at}, too few for an error of {self.target}{_half(columns)}, which needs {more}"


def climbs(plan: ReleasePlan) -> bool:
    """Whether the precision of a plan's answer can be bought: not of one that is free, nor of one for an allowance."""
    return plan.free is None and not plan.open_ended and not isinstance(plan.selection, RunningSelection)


def _missing(plan: ReleasePlan, further: ReleasePlan) -> Charge:
    """What a further level costs who has paid for a plan."""
    paid = {rung.request_key for rung in (plan, *plan.rungs)}
    steps = (further, *further.rungs)
    return charge(Cost.sum(step.cost_at_most for step in steps if step.request_key not in paid))


def _half(columns: Sequence[OutputColumn]) -> str:
    return " in half of the rows at least" if any(len(column.values) > 1 for column in columns) else ""
