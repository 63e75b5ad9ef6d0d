"""`dpproxy budget approve`: a second person approves the limits of the file, and from then on has to."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dpproxy.config.approval import ApprovedLimits
from dpproxy.config.owner_password import ScryptVerifier
from dpproxy.config.sections import Config
from dpproxy.deployment.service import opened_vault
from dpproxy.owner.accounts import limit_link
from dpproxy.reporting.rows import OutputError
from dpproxy.reporting.tables import print_json, print_table


def approve(config: Config, password: Callable[[Sequence[str] | None], str], *, stop: bool) -> None:
    """Approves the limits of the file, or says that one person is enough from now on.

    `password`: asks the second person, who is shown what would be raised, None where nothing was approved yet: then
    it is their new password. Raises OutputError for a wrong or a short one, and for accounts whose limits in the ledger
    are above those of the file.
    """
    wanted = ApprovedLimits.of(config.budget)
    with opened_vault(config, approving=True) as vault:
        approvals, accounts = vault.ledger.approvals, vault.ledger.accounts
        latest = approvals.in_force()
        if latest is None or latest.limits is None:
            if stop:
                raise OutputError("nobody has approved anything: one person is enough already")
            verifier = str(ScryptVerifier.make(password(None)))
        else:
            verifier = latest.verifier
            raised = [*wanted.above(ApprovedLimits.read(latest.limits))]
            if not ScryptVerifier.read(verifier).holds(password(raised)):
                raise OutputError("this is not the password of the second person")
        for row in accounts.all():
            if not stop and not wanted.allows(limit_link(row.account, row.limit)):
                raise OutputError(
                    f"{row.account} has more than the file says: dpproxy check has what makes them agree"
                )
        approvals.add(verifier, None if stop else str(wanted))


def approvals(config: Config, *, as_json: bool) -> None:
    """Prints what was approved, and when."""
    with opened_vault(config, approving=True) as vault:
        rows = vault.ledger.approvals.all()
    if as_json:
        print_json([{"time": row.at.isoformat(), "limits": row.limits} for row in rows])
        return
    print_table(
        "Approved limits",
        ("from (UTC)", "limits"),
        [(f"{r.at:%Y-%m-%d %H:%M:%S}", _words(r.limits)) for r in rows],
    )


def _words(limits: str | None) -> str:
    if limits is None:
        return "one person is enough"
    found = ApprovedLimits.read(limits).accounts
    return "\n".join(
        f"{'any analyst' if name == 'analyst:' else name}: {float(units):g} information, {float(calls):g} calls, "
        f"period {period}, {mode}"
        for name, (units, calls, period, mode) in found.items()
    )
