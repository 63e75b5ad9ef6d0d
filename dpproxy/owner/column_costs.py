"""What counting units by one column costs: the price of each column's class, without looking at data."""

from __future__ import annotations

import datetime as dt
from fractions import Fraction

from dpproxy.config.sections import Privacy
from dpproxy.config.values import NUMBERS, base
from dpproxy.engine.options import usual_terms
from mechanisms.choose import CELLS_WITHOUT_K, MechanismSettings, NoMechanism, choose
from mechanisms.histogram import Mechanism
from rewriter.policy import Column, Table

TOP = 10
"""The LIMIT of the example where a column needs one."""
_DAY, _MANY = 86_400, 10 * CELLS_WITHOUT_K


def cost(table: Table, column: Column, privacy: Privacy, *, one_row: bool) -> str:
    """The price of SELECT column, COUNT(DISTINCT unit) ... GROUP BY column, in words.

    `one_row`: the table has one row a unit. Units are of information; calls are named where there are any.

    >>> table = Table("public", "u", (), False, ("u",), privacy_unit="id")
    >>> [cost(table, column, Privacy(), one_row=False) for column in (
    ...     Column("c", "text", False, ("x", "y")), Column("d", "text"), Column("id", "bigint"))]
    ['1.5', 'top 10: 15.35 and 1 call; no LIMIT: up to 10 and 3 calls', '1 to count units']
    >>> cost(table, Column("d", "text"), Privacy(), one_row=True)
    '1 and 1 call'
    """
    if table.public:
        return "free"
    if column.name == table.privacy_unit:
        return "1 to count units"
    delta0 = 1 if one_row else table.max_groups_per_unit.get(frozenset({column.name}))
    size = _size(column)
    terms = usual_terms(privacy)
    settings = terms.settings
    if size is not None and delta0 is not None:
        delta0 = min(delta0, size)
    whole = _chosen(settings, size, delta0, None)
    if whole is not None:
        return _price(whole)
    top = _chosen(settings, size, delta0, min(TOP, privacy.max_k))
    if top is None:
        return "not answered with delta_per = 0"
    usual = terms.allowance
    calls = "" if size is not None else f" and {_calls(usual.calls)}"
    without = f"up to {_number(usual.information)}{calls}"
    if privacy.noise == "laplace":
        without = "refused" if size is None else _number(Fraction(size))
    return f"top {min(TOP, privacy.max_k)}: {_price(top)}; no LIMIT: {without}"


def _chosen(
    settings: MechanismSettings, size: int | None, delta0: int | None, k: int | None
) -> Mechanism | None:
    try:
        return choose(settings, domain_size=size, delta0=delta0, tau=1, k=k, counts=True)
    except NoMechanism:
        return None


def _size(column: Column) -> int | None:
    """The cells of a known domain; of one whose size is not said by the policy, many."""
    null = int(column.nullable)
    if column.domain is not None:
        return len(column.domain) + null
    if column.domain_from is not None:
        return _MANY
    if column.range is None:
        return None
    first, last = column.range
    if base(column.type) in ("smallint", "integer", "bigint"):
        return int(last) - int(first) + 1 + null
    if column.type == "date":
        return (dt.date.fromisoformat(last) - dt.date.fromisoformat(first)).days + 1 + null
    # A range of fractions or of moments is known once a query cuts it into parts.
    return None if base(column.type) in NUMBERS else _MANY


def _price(mechanism: Mechanism) -> str:
    most = mechanism.cost_at_most
    return _number(most.information) + (f" and {_calls(most.calls)}" if most.calls else "")


def _calls(calls: Fraction) -> str:
    return f"{_number(calls)} call" + ("" if calls == 1 else "s")


def _number(value: Fraction) -> str:
    return str(value) if value.denominator == 1 else f"{float(value):g}"
