"""Limits that differ between file and ledger: an account keeps its initial limits until they are set."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from budget.account import AccountRow, LedgerError
from budget.ledger import Ledger
from budget.schema import is_current
from budget.units import micro_limit, shown
from dpproxy.config.sections import Budget, Config, Privacy
from dpproxy.deployment.service import BoundConfig
from dpproxy.embedded.server import Embedded
from dpproxy.engine.bounded_range import UNSAID, Accounting, accountable
from mechanisms import randomness


@dataclass(frozen=True)
class LedgerComparison:
    """A ledger compared with a configuration: the parameters that guarantees may use, and the differences (`told`)."""

    privacy: Privacy
    told: Sequence[str]


def beside_ledger(checked: BoundConfig) -> LedgerComparison:
    """Compares a running ledger with the configuration. No ledger is started, made or migrated.

    Without a running ledger its past noise is unknown, so no guarantee depends on that noise.
    """
    config = checked.config
    data_dir = config.path(config.ledger.data_dir)
    conninfo = config.ledger.url
    if not conninfo:
        running = Embedded.attached(data_dir)
        conninfo = "" if running is None else running.conninfo()
    if not conninfo or not is_current(conninfo):
        new = not config.ledger.url and not (data_dir / "cluster").exists()
        return (
            LedgerComparison(config.privacy, ())
            if new
            else LedgerComparison(accountable(config.privacy, UNSAID), _unsaid(config))
        )
    try:
        ledger = Ledger.open(conninfo, checked.pinned, instance=f"check {randomness.random_bytes(16).hex()}")
    except LedgerError as error:
        return LedgerComparison(accountable(config.privacy, UNSAID), [str(error)])
    try:
        accounting = Accounting.read(config.privacy, ledger.history)
        return LedgerComparison(accounting.together, [*drift(config.budget, ledger.accounts.all())])
    finally:
        ledger.close()


def _unsaid(config: Config) -> Sequence[str]:
    if config.privacy.noise != "laplace":
        return ()
    return (
        "the ledger does not run, and may hold releases with Gaussian noise: the bounded-range accounting, which "
        "noise = laplace has, is left out",
    )


def drift(budget: Budget, rows: Sequence[AccountRow]) -> Iterator[str]:
    """A line for each account whose limits in the ledger are not those of the file, and what would set them.

    `rows`: of `Ledger.accounts.all`. An account of a team that the file no longer names is told of, too.
    """
    for row in rows:
        link = budget.limit(row.account)
        if link is None:
            yield f"{row.account} is in the ledger, and the file no longer names it: nothing is charged to it"
            continue
        held = row.limit
        wanted = {
            "information": (shown(micro_limit(link.information)), shown(held.information)),
            "calls": (shown(micro_limit(link.calls)), shown(held.calls)),
            "period": (link.period, held.period),
            "mode": (link.mode, held.mode),
        }
        other = {name: pair for name, pair in wanted.items() if pair[0] != pair[1]}
        if other:
            told = ", ".join(f"{name} {there} (file: {here})" for name, (here, there) in other.items())
            options = " ".join(f"--{name} {here}" for name, (here, _) in other.items())
            name = row.account.removeprefix("analyst:")
            yield f"{row.account} has its limits from the ledger: {told}; dpproxy budget set {name} {options}"
