"""`dpproxy audit`: balances and guarantees recomputed from a trail, without the ledger."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from budget.units import shown
from dpproxy.owner.audit import Audited, audited
from dpproxy.owner.check import print_guarantees
from dpproxy.reporting.tables import print_json, print_table


def audit(file: Path, *, as_json: bool) -> None:
    """Prints what a trail comes to; raises OutputError for the first thing in it that contradicts the rest."""
    found = audited(file)
    if as_json:
        print_json({"accounts": [_plain(one) for one in found], "differences": 0})
        return
    rows = [
        (
            one.balance.account,
            unit,
            shown(getattr(one.limit.limit, unit)),
            shown(getattr(one.balance.used, unit)),
            shown(getattr(one.balance.reserved, unit)),
            str(one.entries),
        )
        for one in found
        for unit in one.limit.limit.units
    ]
    heads = ("account", "unit", "limit", "used in its last period", "reserved", "entries")
    print_table("Accounts, recomputed", heads, rows, right=(2, 3, 4, 5))
    bounds = [bound for one in found for bound in one.guarantee]
    print_guarantees("Guarantee, by the limits", bounds)
    print(
        f"{sum(one.entries for one in found)} entries of {len(found)} accounts: all balances are what they come to."
    )


def _plain(one: Audited) -> dict[str, object]:
    balance, limit = one.balance, one.limit.limit
    return {
        "account": balance.account,
        "entries": one.entries,
        "limit": {unit: shown(getattr(limit, unit)) for unit in limit.units},
        "used": {unit: shown(getattr(balance.used, unit)) for unit in limit.units},
        "reserved": {unit: shown(getattr(balance.reserved, unit)) for unit in limit.units},
        "period": limit.period,
        "mode": limit.mode,
        "guarantee": [asdict(bound) for bound in one.guarantee],
    }
