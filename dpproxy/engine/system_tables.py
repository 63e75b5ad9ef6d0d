"""What an analyst reads of their own account: the tables of the schema dpproxy, column by column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

from budget.account import BudgetRow, ReleaseRow
from budget.accounts import Accounts
from budget.history import History
from dpproxy.engine import refusals
from dpproxy.engine.last_release import MOST, LastRelease, LastRow
from rewriter.logical.plan import SystemTableNode

MOST_RELEASES = 100_000
"""Rows of dpproxy.releases that one statement reads."""


def system_columns(
    node: SystemTableNode,
    account: str,
    accounts: Accounts,
    history: History,
    last: LastRelease,
    *,
    times: bool = True,
) -> list[Sequence[object]]:
    """The columns of dpproxy.budget, dpproxy.releases or dpproxy.last_release.

    `times`: with the times at which answers were made, which tell how long that took; else they are NULL.
    Raises LedgerError, Refusal (54000) for more than MOST_RELEASES rows.
    """
    match node.name:
        case "budget":
            return _columns_of(BudgetRow, accounts.budget(account))
        case "releases":
            most = MOST_RELEASES + 1 if node.most is None else min(node.most, MOST_RELEASES + 1)
            rows = history.releases(account, most=most, newest=node.newest)
            if len(rows) > MOST_RELEASES:
                raise refusals.too_many_releases(MOST_RELEASES)
            return _columns_of(ReleaseRow, rows, () if times else ("time",))
    latest = last.rows or [LastRow.kept(row) for row in history.latest(account, MOST)]
    return _columns_of(LastRow, latest, () if times else ("at",))


def _columns_of(
    kind: type[BudgetRow | ReleaseRow | LastRow], rows: Sequence[object], without: Sequence[str] = ()
) -> list[Sequence[object]]:
    return [
        [None if field.name in without else getattr(row, field.name) for row in rows]
        for field in fields(kind)
    ]
