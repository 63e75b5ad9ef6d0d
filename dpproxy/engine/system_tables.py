"""What an analyst reads of their own account: the tables of the schema dpproxy, column by column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

from budget.account import BudgetRow, ReleaseRow
from budget.accounts import Accounts
from budget.history import History
from dpproxy.engine.last_release import MOST, LastRelease, LastRow


def system_columns(
    name: str, account: str, accounts: Accounts, history: History, last: LastRelease
) -> list[Sequence[object]]:
    """The columns of dpproxy.budget, dpproxy.releases or dpproxy.last_release; raises LedgerError."""
    match name:
        case "budget":
            return _columns_of(BudgetRow, accounts.budget(account))
        case "releases":
            return _columns_of(ReleaseRow, history.releases(account))
    return _columns_of(LastRow, last.rows or [LastRow.kept(row) for row in history.latest(account, MOST)])


def _columns_of(
    kind: type[BudgetRow | ReleaseRow | LastRow], rows: Sequence[object]
) -> list[Sequence[object]]:
    return [[getattr(row, field.name) for row in rows] for field in fields(kind)]
