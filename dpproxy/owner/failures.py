"""`dpproxy failures`: statements that failed at the backend, whom they have stopped, and the end of that.

Why: docs/decisions/failures-have-a-brake.md.
"""

from __future__ import annotations

from budget.failures import FailureRow
from dpproxy.config.identity import OWNER
from dpproxy.config.sections import Config
from dpproxy.deployment.service import opened_vault
from dpproxy.engine.sealed_texts import SealedTexts
from dpproxy.owner.accounts import account_named
from dpproxy.reporting.tables import print_json, print_table

MOST = 1000
"""Latest failures that are listed."""
BY_COMMAND, BY_CONSOLE = f"{OWNER}, by dpproxy failures", f"{OWNER}, at the console"
"""Who has cleared failures, as the ledger keeps it."""
_WIDTH = 140
_TIME = "%Y-%m-%d %H:%M:%S"


def show(config: Config, *, as_json: bool) -> None:
    """Prints the failures with the backend's messages, and who is stopped."""
    with opened_vault(config) as vault:
        texts, rows = SealedTexts(*vault.keys.all), vault.ledger.failures.all(MOST)
        stopped = vault.ledger.failures.stopped()
    said = [_message(row, texts) for row in rows]
    logins, analysts = list(map(_name, stopped.logins)), list(map(_name, stopped.analysts))
    if as_json:
        listed = [_plain(row, text) for row, text in zip(rows, said, strict=True)]
        print_json({"stopped": {"logins": logins, "analysts": analysts}, "failures": listed})
        return
    head = ("time", "login", "analyst", "kind", "state", "asked", "the backend said")
    lines = [(*shown(row), row.asked, text) for row, text in zip(rows, said, strict=True)]
    print_table("Statements that failed at the backend, the latest first", head, lines, width=_WIDTH)
    for who, names in (("logins", logins), ("analysts", analysts)):
        if names:
            print(f"Stopped {who}, until their failures are cleared: {', '.join(names)}.")


def clear(config: Config, name: str | None) -> None:
    """Clears the failures of a login or an analyst, or of all, and prints how many."""
    account = None if name is None else account_named(name)
    with opened_vault(config) as vault:
        cleared = vault.ledger.failures.clear(account, BY_COMMAND)
    print(f"{cleared} {'failure was' if cleared == 1 else 'failures were'} cleared.")


def shown(row: FailureRow) -> tuple[str, str, str, str, str]:
    """When, who, for whom, the kind, and what it does; nothing of the backend's message."""
    return (f"{row.at:{_TIME}}", _name(row.login), _name(row.account), row.kind, state(row))


def state(row: FailureRow) -> str:
    """What a failure does: counts, stops, or no more."""
    if row.cleared_at is not None:
        return f"cleared {row.cleared_at:{_TIME}} by {row.cleared_by}"
    stops = [who for who, yes in (("login", row.stops_login), ("analyst", row.stops_account)) if yes]
    if stops:
        return f"stops {' and '.join(stops)}"
    return "counts" if row.told else "was under way when they were stopped: not told, does not count"


def _plain(row: FailureRow, message: str) -> dict[str, object]:
    return {
        "time": row.at.isoformat(),
        "login": _name(row.login),
        "analyst": _name(row.account),
        "kind": row.kind,
        "told": row.told,
        "stops_login": row.stops_login,
        "stops_analyst": row.stops_account,
        "asked": row.asked,
        "message": message,
        "cleared_at": None if row.cleared_at is None else row.cleared_at.isoformat(),
        "cleared_by": row.cleared_by,
    }


def _message(row: FailureRow, texts: SealedTexts) -> str:
    if row.sealed is None:
        return "its process was lost" if row.cleared_at is None else ""
    message = texts.open(row.sealed, row.account, row.reservation.bytes)
    return "(sealed with a key that is no longer kept)" if message is None else message


def _name(account: str) -> str:
    return account.removeprefix("analyst:")
