"""How an answer gets to the error that was asked for: level by level, reading released values alone.

Each level is reserved and settled by itself, so that nothing is reserved that is not used. The first is a level that
this account has paid for before, or the least. The next depends on what was released: it is a function of answers that
are paid for (post-processing), and each step is charged before it is taken (adaptive composition).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from budget.account import Charge, Exhausted, Frozen
from budget.units import micro, micro_limit, shown
from dpproxy.config.precision import LEVELS, Target
from dpproxy.engine.optimizer import combines
from dpproxy.engine.precision import FAR, excess, higher
from dpproxy.engine.release_plan import ReleasePlan, charge
from dpproxy.engine.result.postprocess import OutputColumn
from dpproxy.engine.result.released_table import ReleasedTable
from dpproxy.engine.selection.groups import CountSelection
from dpproxy.engine.selection.running import RunningSelection
from mechanisms.histogram import Cost
from mechanisms.top_counts import TopCounts

HOPE = 4
"""Where more than so many times the highest level seems needed, nothing more is spent. It only seems so: what is known
at a low level is noisy."""


@dataclass
class Climb:
    """The search of the least level at which an answer's error is small enough.

    Attributes:
        target: the error that is asked for.
        plans: how the node is answered at each level that the owner lets it have, ascending.
        most: information units that the answer may cost, what was paid for it before included.
        paid: the request keys of its measurements that the account has paid for.
        doubt: what was bought that would imply the answer, but contradicts itself, once that was looked for.
    """

    target: Target
    plans: Mapping[Fraction, ReleasePlan]
    most: Fraction
    paid: set[bytes]
    doubt: str = ""

    @property
    def first(self) -> ReleasePlan:
        """The highest level that is paid for, or the least that is tried.

        Groups are not found, and values not chosen, with less than the usual precision, since intervals do not cover
        that; but for the ranks of counts that are shown, which are more exact than these.
        """
        owned = [plan for plan in self.plans.values() if not self._missing(plan)]
        if owned:
            return owned[-1]
        least, usual = self.plans[min(self.plans)], self.plans[Fraction(1)]
        if self.most < Cost.sum((least.price, usual.price)).information:  # too little for a second look
            within = [plan for plan in self.plans.values() if plan.price.information <= self.most]
            return within[-1] if within else least
        selection = usual.selection
        ranked = isinstance(selection, CountSelection) and isinstance(selection.mechanism, TopCounts)
        return least if ranked or combines(usual) != "never" else usual

    def first_price(self) -> Charge:
        """What a first look costs."""
        return charge(Cost.sum(step.cost_at_most for step in self._missing(self.first)))

    def bound(self) -> Charge:
        """The most that may yet be charged."""
        first = self.first_price()
        calls = max(plan.price.calls for plan in self.plans.values()) * len(self.plans)
        left = max(0, micro_limit(self.most) - self._spent())
        return Charge(max(first.information, left), max(first.calls, charge(Cost(Fraction(0), calls)).calls))

    def answer(
        self,
        buy: Callable[[ReleasePlan], ReleasedTable],
        affordable: Callable[[Charge], bool],
        enough: Callable[[], ReleasedTable | None],
    ) -> ReleasedTable:
        """The answer at the first level that is enough, or at the last that is affordable.

        `enough`: an answer that is enough and need not be bought, None without one.
        """
        plan, before = self.first, FAR
        if self._missing(plan) and (free := enough()) is not None:
            return free
        results = [self._bought(plan, buy)]
        while (needed := excess(results[-1].columns, self.target)) is not None and needed > 1:
            if plan.level * needed > HOPE * max(self.plans) or (plan.level > 1 and needed >= before):
                break  # out of reach, or a higher level has not helped
            further = (self.plans[level] for level in higher(plan.level, needed, self.plans))
            better = next((one for one in further if self._within(one, affordable)), None)
            if better is None:
                break
            replayed = all(result.charged is None for result in results)
            if replayed and self._missing(better) and (free := enough()) is not None:
                return free
            try:
                results.append(self._bought(better, buy))
            except (Exhausted, Frozen):
                break  # others have spent what was left
            plan, before = better, needed
        charged = [result.charged for result in results if result.charged is not None]
        return replace(
            results[-1],
            charged=Charge.sum(charged) if charged else None,
            replayed=all(result.replayed for result in results),
            doubt=self.doubt,
            level=self._said(plan.level, needed, results[-1].columns),
        )

    def met(self, result: ReleasedTable) -> bool:
        """Whether the error of an answer is small enough, as far as it is known."""
        needed = excess(result.columns, self.target)
        return needed is not None and needed <= 1

    def _bought(self, plan: ReleasePlan, buy: Callable[[ReleasePlan], ReleasedTable]) -> ReleasedTable:
        result = buy(plan)
        self.paid |= {step.request_key for step in (plan, *plan.rungs)}
        return result

    def _missing(self, plan: ReleasePlan) -> list[ReleasePlan]:
        return [step for step in (plan, *plan.rungs) if step.request_key not in self.paid]

    def _spent(self) -> int:
        """What was paid for the answer so far, in micro-units of information."""
        steps = {step.request_key: step for plan in self.plans.values() for step in (plan, *plan.rungs)}
        return sum(charge(step.cost_at_most).information for key, step in steps.items() if key in self.paid)

    def _within(self, plan: ReleasePlan, affordable: Callable[[Charge], bool]) -> bool:
        needed = charge(Cost.sum(step.cost_at_most for step in self._missing(plan)))
        return self._spent() + needed.information <= micro_limit(self.most) and affordable(needed)

    def _said(self, level: Fraction, needed: Fraction | None, columns: Sequence[OutputColumn]) -> str:
        """What became of the target, by the names of the columns that were compared with it."""
        at = f"{shown(micro(level))} information unit{'s' * (level != 1)} a measure"
        if needed is None:
            return f"{at}; no error is known that {self.target} could be compared with"
        half = ", in half of the rows at least" if any(len(column.values) > 1 for column in columns) else ""
        error = f"an error of {self.target} of {', '.join(dict.fromkeys(c.name for c in columns))}{half}"
        if needed <= 1:
            return f"{at} for {error}"
        enough = next((step for step in LEVELS if step >= needed * level), None)
        more = f"more than {LEVELS[-1]}" if enough is None else f"about {shown(micro(enough))}"
        return f"{at}, too few for {error}: it needs {more}"


def climbs(plan: ReleasePlan) -> bool:
    """Whether the precision of a plan's answer can be bought: not of one that is free, nor of one for an allowance."""
    return plan.free is None and not plan.open_ended and not isinstance(plan.selection, RunningSelection)
