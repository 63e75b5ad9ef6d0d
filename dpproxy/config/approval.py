"""What of a file's limits a second person has to approve: all that lets anybody spend more than was approved last.

Why it is decided by the ledger: docs/decisions/a-second-person-raises-limits.md.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dpproxy.config.sections import AccountLimit, Budget

ANYBODY = "analyst:"
"""The account of an analyst who is not named."""
Amounts = tuple[Fraction, Fraction, str, str]
"""Information units, calls, period and mode."""


@dataclass(frozen=True)
class ApprovedLimits:
    """The limits of a file: by account, and who is in which team."""

    accounts: Mapping[str, Amounts]
    teams: Mapping[str, frozenset[str]]

    @classmethod
    def of(cls, budget: Budget) -> ApprovedLimits:
        """Those of [budget]."""
        names = [ANYBODY, *(f"analyst:{name}" for name in budget.analysts)]
        names += [*(f"team:{name}" for name in budget.teams), *(["dataset"] if budget.dataset else [])]
        limits = [limit for name in names if (limit := budget.limit(name)) is not None]
        teams = {
            f"team:{name}": frozenset(
                [*(f"member {m}" for m in team.members), *(f"group {g}" for g in team.groups)]
            )
            for name, team in budget.teams.items()
        }
        return cls({limit.account: _amounts(limit) for limit in limits}, teams)

    @classmethod
    def read(cls, text: str) -> ApprovedLimits:
        """Those that `str` has written."""
        said: dict[str, Any] = json.loads(text)
        accounts = {
            name: (Fraction(units), Fraction(calls), period, mode)
            for name, (units, calls, period, mode) in said["accounts"].items()
        }
        return cls(accounts, {name: frozenset(members) for name, members in said["teams"].items()})

    def __str__(self) -> str:
        accounts = {
            name: [str(u), str(c), period, mode] for name, (u, c, period, mode) in self.accounts.items()
        }
        teams = {name: sorted(members) for name, members in self.teams.items()}
        return json.dumps({"accounts": accounts, "teams": teams}, sort_keys=True)

    def above(self, approved: ApprovedLimits) -> Iterator[str]:
        """What would let anybody spend more than was approved, in words.

        >>> before = ApprovedLimits.of(Budget(information=Fraction(9)))
        >>> list(ApprovedLimits.of(Budget(information=Fraction(10))).above(before))
        ['any analyst: 10 information, approved 9']
        >>> list(ApprovedLimits.of(Budget(information=Fraction(8))).above(before))
        []
        """
        for name in dict.fromkeys((*self.accounts, *approved.accounts)):
            if name.startswith("analyst:"):
                mine, theirs = (one.accounts.get(name, one.accounts[ANYBODY]) for one in (self, approved))
                yield from _raised("any analyst" if name == ANYBODY else name, mine, theirs)
        for name, theirs in approved.accounts.items():
            if not name.startswith("analyst:"):
                if name not in self.accounts:
                    yield f"{name} is no longer limited"
                    continue
                yield from _raised(name, self.accounts[name], theirs)
                for member in sorted(
                    approved.teams.get(name, frozenset()) - self.teams.get(name, frozenset())
                ):
                    yield f"{name} no longer has {member}"

    def allows(self, limit: AccountLimit) -> bool:
        """Whether an account may have this limit."""
        usual = self.accounts[ANYBODY] if limit.account.startswith("analyst:") else None
        approved = self.accounts.get(limit.account, usual)
        return approved is None or not any(_raised(limit.account, _amounts(limit), approved))


def _amounts(limit: AccountLimit) -> Amounts:
    return limit.information, limit.calls, limit.period, limit.mode


def _raised(name: str, mine: Amounts, approved: Amounts) -> Iterator[str]:
    (information, calls, period, mode), (most, most_calls, approved_period, approved_mode) = mine, approved
    for word, new, old in (("information", information, most), ("calls", calls, most_calls)):
        if new > old:
            yield f"{name}: {float(new):g} {word}, approved {float(old):g}"
    if period != approved_period:
        yield f"{name}: period {period}, approved {approved_period}"
    if mode != approved_mode and mode != "enforce":
        yield f"{name}: mode {mode}, approved {approved_mode}"
