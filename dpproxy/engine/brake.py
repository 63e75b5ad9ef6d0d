"""The brake on spending: what one statement may cost, and prices that are shown before they are paid.

It decides on public facts and on what was released before. Why: docs/decisions/statements-have-a-brake.md.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from hashlib import sha256
from typing import Self

from budget.account import Charge, in_words
from budget.units import MOST, micro, micro_limit, shown
from dpproxy.config.sections import Budget, Privacy
from dpproxy.engine import refusals
from dpproxy.engine.optimizer import smaller
from dpproxy.engine.options import amount_of, usual
from dpproxy.engine.release_plan import ReleasePlan
from mechanisms.histogram import Cost

MAX_COST, PRICE_FIRST = "dpproxy.max_cost", "dpproxy.price_first"
LEAST_SHARE = Fraction(1)
"""No query without LIMIT is made to do with less."""
MINUTES, MOST_SHOWN = 10, 10_000
"""How long a price that was shown holds, and how many of them a process keeps."""


class ShownPrices:
    """The prices that analysts have seen of late, in whichever session: psql -c has one for each statement."""

    def __init__(self) -> None:
        self._shown: OrderedDict[bytes, tuple[float, int]] = OrderedDict()
        self._lock = threading.Lock()

    def accepted(self, statement: Hashable, price: int) -> bool:
        """Whether the statement was sent after this price of it, or a higher one, was shown; from now on it was.

        >>> prices = ShownPrices()
        >>> prices.accepted("SELECT 1", 20), prices.accepted("SELECT 1", 20), prices.accepted("SELECT 1", 20)
        (False, True, False)
        """
        key, now = sha256(repr(statement).encode()).digest(), time.monotonic()
        with self._lock:
            until, most = self._shown.pop(key, (now, 0))
            if now < until and price <= most:
                return True
            self._shown[key] = (now + 60 * MINUTES, price)
            if len(self._shown) > MOST_SHOWN:
                self._shown.popitem(last=False)
            return False


@dataclass(frozen=True)
class Brake:
    """What a session, or the policy where the session says nothing, lets one statement cost.

    Attributes:
        most: information units, None for no bound.
        usual: what a query without LIMIT may spend where the session says nothing.
        first: the price above which it is shown first, None for never.
        own: the session has set `most`.
        spends: the session has set what a query without LIMIT may spend.
    """

    most: Fraction | None
    usual: Cost
    first: Fraction | None
    own: bool
    spends: bool

    @classmethod
    def of(cls, privacy: Privacy, budget: Budget, analyst: str, settings: Mapping[str, str]) -> Self:
        """The brake of a session; raises Refusal (22023) for values that do not exist."""
        return cls(
            amount_of(settings, MAX_COST, budget.most_of_statement(analyst)),
            usual(privacy),
            amount_of(settings, PRICE_FIRST, budget.price_first.get(settings.get("application_name", ""))),
            MAX_COST in settings,
            any(name in settings for name in (MAX_COST, "dpproxy.query_information", "dpproxy.query_calls")),
        )

    def share(self, plans: Sequence[ReleasePlan | None]) -> Cost | None:
        """What each query without LIMIT of a statement may spend, None for all that the owner allows.

        It depends on all of the statement and on nothing that was paid before, so that the same statement asks for the
        same answers again. Where the rest of the statement leaves nothing it is the usual share, for the price's sake.
        """
        parts = {plan.request_key: plan for plan in plans if plan is not None}.values()
        open_ended = [plan.selection.cost_at_most for plan in parts if plan.selection and plan.open_ended]
        share = None if self.spends else self.usual
        if self.most is None or not open_ended:
            return share
        fixed = Cost.sum(plan.price for plan in parts).information - Cost.sum(open_ended).information
        information = (self.most - fixed) / len(open_ended)
        if information < LEAST_SHARE:
            return replace(self.usual, information=LEAST_SHARE) if not fixed else self.usual
        if share is None:
            return Cost(information, max(cost.calls for cost in open_ended))
        return replace(share, information=min(information, share.information))

    def check(
        self,
        plans: Sequence[ReleasePlan],
        needed: Charge,
        left: Charge,
        statement: Hashable,
        prices: ShownPrices,
    ) -> None:
        """PV026 for a statement that would cost more than `most`, PV027 for one whose price is to be shown first.

        `plans`: what is to be bought now; `needed`: the most that all of the statement may cost.
        """
        if self.above(needed):
            assert self.most is not None
            raise refusals.above_max_cost(
                str(needed),
                shown(micro(self.most)),
                shown(needed.information),
                self._limit(plans),
                own=self.own,
            )
        if self.first is None or needed.information <= micro_limit(self.first):
            return
        if not prices.accepted(statement, needed.information):
            least = "; ".join(dict.fromkeys(filter(None, (plan.least for plan in plans))))
            raise refusals.price_first(*in_words(needed, left), MINUTES, least)

    def above(self, needed: Charge) -> bool:
        """Whether a statement of this price is refused."""
        return self.most is not None and needed.information > micro_limit(self.most)

    def _limit(self, plans: Sequence[ReleasePlan]) -> int | None:
        """The LIMIT with which a query could be asked."""
        if len(plans) != 1 or plans[0].k is None or self.most is None:
            return None
        k = smaller(plans[0], Charge(micro_limit(self.most), MOST)).k
        return k if k is not None and k < plans[0].k else None
