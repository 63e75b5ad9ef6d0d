"""What of a configuration changes while it is served, and what only a restart changes.

Why: docs/decisions/policies-change-in-place.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from dpproxy.config.sections import Config, ConfigError
from rewriter.policy import Policy, Table, TableName

_WHOLE = ("budget", "identity", "report", "tables")
_KEYS: Mapping[str, frozenset[str]] = {
    "server": frozenset(["tls_cert", "tls_key", "tls_client_ca", "error_columns"]),
    "privacy": frozenset(
        [
            *(
                "query_information",
                "query_calls",
                "usual_information",
                "usual_calls",
                "most_units_per_answer",
            ),
            *(
                "allowances",
                "relative_error",
                "d_bar",
                "max_k",
                "max_items_per_unit",
                "least_weight",
            ),
            *("quantile_bins", "min_units", "nonnegative", "scans"),
        ]
    ),
}


def is_reloaded(section: str, key: str) -> bool:
    """Whether a reload changes a setting.

    >>> is_reloaded("budget", "information"), is_reloaded("server", "port")
    (True, False)
    """
    return section in _WHOLE or key in _KEYS.get(section, ())


def check_settings(before: Config, after: Config) -> None:
    """Raises ConfigError for a setting that differs and that only a restart changes."""
    for section in (name for name in Config.model_fields if name not in ("file", *_WHOLE)):
        old, new = getattr(before, section), getattr(after, section)
        for key in type(old).model_fields:
            if not is_reloaded(section, key) and getattr(old, key) != getattr(new, key):
                raise ConfigError(
                    after.file, f"{section}.{key}", "only a restart changes it; nothing was changed"
                )


def check_policy(file: Path, before: Policy, after: Policy) -> None:
    """Raises ConfigError where the neighbours would be others, or names mean other tables in sessions that go on."""
    for name, table in after.tables.items():
        known = before.tables.get(name)
        if known is not None and _unit(known) != _unit(table):
            raise _restart(file, name, "its privacy unit is another")
        if not table.public and table.kind not in _kinds(before):
            raise _restart(file, name, "its privacy unit is of a kind that no table has yet")
    for where in {*before.search_path} ^ {*after.search_path}:
        name = next(name for name in (*after.tables, *before.tables) if name[0] == where)
        raise _restart(file, name, f'schema "{where}" is not in the search path of running sessions')
    if before.search_path != after.search_path:
        raise _restart(file, next(iter(after.tables)), "running sessions look names up in the other order")


def _unit(table: Table) -> tuple[object, ...]:
    return table.public, table.privacy_unit, table.unit_parts, table.path, table.kind


def _kinds(policy: Policy) -> set[str | None]:
    return {table.kind for table in policy.tables.values() if not table.public}


def _restart(file: Path, name: TableName, why: str) -> ConfigError:
    key = name[1] if name[0] == "public" else ".".join(name)
    return ConfigError(file, f"tables.{key}", f"{why}: only a restart changes it; nothing was changed")
