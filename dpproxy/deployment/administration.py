"""What the owner's session by psql shows of a deployment: counts, accounts and settings, never rows or secrets."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families
from pydantic import BaseModel

from budget.account import LedgerError
from budget.units import shown
from dpproxy import __version__
from dpproxy.config.owner_password import load, verifier_path
from dpproxy.config.sections import Config, ConfigError
from dpproxy.deployment.control import NoServer, tell
from dpproxy.deployment.in_place import is_reloaded
from dpproxy.engine.rollback_guard import RollbackGuardedLedger
from dpproxy.server.admin import Rows
from dpproxy.telemetry import metrics
from rewriter.refusal import Refusal

_SECRET = ("url",)
"""Keys whose values may hold a password."""
_COUNTED = (
    *("dpproxy_answers", "dpproxy_refusals", "dpproxy_releases", "dpproxy_charged_units"),
    "dpproxy_backend_failures",
)
_SECTIONS = ("server", "backend", "front", "ledger", "privacy", "budget", "audit")


class Owner:
    """The owner's view of a deployment, from any of its processes.

    `config`: gives the configuration that is served by now.
    """

    def __init__(
        self, config: Callable[[], Config], ledger: RollbackGuardedLedger, counted: metrics.Metrics
    ) -> None:
        self._config, self._ledger, self._counted = config, ledger, counted

    def exists(self, role: str) -> bool:
        """Whether a role has a password."""
        config = self._config()
        return verifier_path(config.path(config.privacy.key_file), role).exists()

    def holds(self, role: str, password: str) -> bool:
        """Whether it is the password of a role; False where there is none."""
        config = self._config()
        try:
            verifier = load(verifier_path(config.path(config.privacy.key_file), role))
        except ConfigError:
            return False
        return verifier is not None and verifier.holds(password)

    def show(self, subject: str) -> Rows:
        """STATS, POOLS, BUDGETS, LIMITS, FAILURES, CONFIG or VERSION; raises Refusal for any other."""
        match subject:
            case "STATS":
                return Rows("SHOW", ("counter", "of", "value"), [*self._stats()])
            case "POOLS":
                return Rows("SHOW", ("pool", "used", "most"), [*self._pools()])
            case "BUDGETS" | "LIMITS" | "FAILURES":
                names, rows = {
                    "BUDGETS": (_BUDGET, self._budgets),
                    "LIMITS": (_LIMIT, self._limits),
                    "FAILURES": (_FAILURE, self._failures),
                }[subject]
                try:
                    return Rows("SHOW", names, [*rows()])
                except LedgerError:
                    raise Refusal("57P03", "the ledger cannot be used") from None
            case "CONFIG":
                return Rows("SHOW", ("key", "value", "reloadable"), [*_settings(self._config())])
            case "VERSION":
                return Rows("SHOW", ("version",), [(f"dpproxy {__version__}",)])
        raise Refusal("42601", "there is nothing of this name to show", hint="SHOW HELP")

    def tell(self, word: str) -> None:
        """Has the owner process reload, pause, resume or shut down; raises Refusal with the reason why it has not."""
        try:
            failure = tell(self._config(), word)
        except NoServer as error:
            failure = str(error)
        if failure:
            raise Refusal("F0000", failure)

    def _samples(self) -> Iterator[tuple[str, str, float]]:
        """Every sample of the metrics: name, value of its label, value."""
        folder = os.environ.get(metrics.SHARED)
        page = metrics.page_of_all(Path(folder)) if folder else metrics.page_of(self._counted)
        for family in text_string_to_metric_families(page.decode()):
            for sample in family.samples:
                yield sample.name, "".join(sample.labels.values()), sample.value

    def _stats(self) -> Iterator[tuple[str, str, str]]:
        for name, label, value in self._samples():
            if name.removesuffix("_total") in _COUNTED and (value or "refusals" not in name):
                yield name.removeprefix("dpproxy_").removesuffix("_total"), label, f"{value:g}"
            elif name in ("dpproxy_statement_seconds_sum", "dpproxy_statement_seconds_count"):
                yield name.removeprefix("dpproxy_"), "", f"{value:g}"

    def _pools(self) -> Iterator[tuple[str, str, str]]:
        values = {name: f"{value:g}" for name, _, value in self._samples()}
        yield "sessions", values["dpproxy_sessions"], str(self._config().server.max_sessions)
        yield "backend", values["dpproxy_backend_slots_busy"], values["dpproxy_backend_slots"]

    def _budgets(self) -> Iterator[tuple[str | None, ...]]:
        for row in self._ledger.accounts.all():
            refreshes = None if row.refreshes_at is None else f"{row.refreshes_at:%Y-%m-%d %H:%M:%S}"
            for unit in row.limit.units:
                amounts = [
                    shown(getattr(part, unit)) for part in (row.limit, row.used, row.reserved, row.left)
                ]
                frozen = "yes" if row.frozen else "no"
                yield row.account, unit, *amounts, row.limit.period, refreshes, row.limit.mode, frozen

    def _limits(self) -> Iterator[tuple[str | None, ...]]:
        had = self._ledger.accounts.all_limits()
        changes = [(account, row) for account, rows in had.items() for row in rows]
        for account, row in sorted(changes, key=lambda change: change[1].time):
            limit = row.limit
            amounts = (shown(limit.information), shown(limit.calls), shown(limit.epsilon))
            frozen = "yes" if row.frozen else "no"
            yield f"{row.time:%Y-%m-%d %H:%M:%S}", account, *amounts, limit.period, limit.mode, frozen

    def _failures(self) -> Iterator[tuple[str | None, ...]]:
        """Without questions and the backend's messages, which may hold values of rows."""
        for row in self._ledger.failures.all(_MOST_FAILURES):
            stops = [who for who, yes in (("login", row.stops_login), ("analyst", row.stops_account)) if yes]
            who = (row.login.removeprefix("analyst:"), row.account.removeprefix("analyst:"))
            cleared = None if row.cleared_at is None else f"{row.cleared_at:%Y-%m-%d %H:%M:%S}"
            told = "yes" if row.told else "no"
            ended = (cleared, row.cleared_by)
            yield f"{row.at:%Y-%m-%d %H:%M:%S}", *who, row.kind, told, " and ".join(stops) or None, *ended


_MOST_FAILURES = 1000
_FAILURE = ("failed_at", "login", "analyst", "kind", "told", "stops", "cleared_at", "cleared_by")
_LIMIT = ("since", "account", "information", "calls", "epsilon", "period", "mode", "frozen")
_BUDGET = ("account", "unit", "limit", "used", "reserved", "left", "period", "refreshes_at", "mode", "frozen")


def _settings(config: Config) -> Iterator[tuple[str, str, str]]:
    for section in _SECTIONS:
        values = getattr(config, section)
        for key in type(values).model_fields:
            value = getattr(values, key)
            if isinstance(value, BaseModel | dict | None):
                continue
            written = "(set)" if key in _SECRET and value else str(value)
            yield f"{section}.{key}", written, "yes" if is_reloaded(section, key) else "no"
