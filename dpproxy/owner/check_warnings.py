"""Declarations that the owner may not have meant: warnings of `dpproxy check`, not errors."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import Iterator
from fractions import Fraction

from budget.accounting import guarantee
from dpproxy.catalog.build_policy import unit_words
from dpproxy.config.sections import AccountLimit, Config, Privacy
from dpproxy.config.values import NUMBERS, base
from dpproxy.deployment.login_methods import directory_of, tokens_of
from dpproxy.deployment.service import BoundConfig
from dpproxy.owner.attacker_advantage import together
from dpproxy.owner.people import other_people
from dpproxy.server.issuer import Issuer, KeysUnavailable
from dpproxy.server.ldap import DirectoryError
from rewriter.policy import UNBOUNDED, Column, Table

MOST_EPSILON = 50
"""A guarantee beyond this epsilon is hardly one."""
FAR_BELOW = 10
"""A cap of rows in a group cuts where a unit may have this many times as many rows in all."""
_FLOATS = ("real", "double precision")


def warnings(checked: BoundConfig, limits: list[AccountLimit], privacy: Privacy) -> Iterator[str]:
    """One line for each; `limits`: the accounts that the file names, `privacy`: what their guarantee rests on."""
    for name, table in checked.policy.tables.items():
        shown = name[1] if name[0] == "public" else ".".join(name)
        yield from _floats(shown, table)
        if not table.public and table.view is None:
            yield from _times(shown, table)
            yield from _caps(shown, table, clips=checked.policy.unit_clips)
            yield from _narrow(shown, table, clips=checked.policy.unit_clips)
            yield from _units_missing(shown, table)
            yield from _nulls_dropped(shown, table, checked.config)
            yield from _other_people(shown, table, checked)
    yield from _weak(privacy, limits)
    yield from _uncapped(checked.config, limits)
    yield from _open_key(checked.config)


def providers(config: Config) -> Iterator[str]:
    """One line for each identity provider or directory that cannot be asked now; asks it, for some seconds."""
    tokens = tokens_of(config)
    if tokens is not None and isinstance(tokens.keys, Issuer):
        try:
            asyncio.run(tokens.keys.fetched())
        except KeysUnavailable as error:
            yield f"identity.tokens: nobody could log in by a token now: {error}"
    directory = directory_of(config)
    if directory is not None:
        try:
            asyncio.run(directory.reach())
        except DirectoryError as error:
            yield f"identity.ldap: nobody could log in by the directory now: {error}"


def _floats(shown: str, table: Table) -> Iterator[str]:
    """Warns of keys that are floats, in which numbers that look alike need not be equal."""
    types = {column.name: column.type for column in table.columns}
    keyed = {name for key in (*table.keys, *table.declared_keys) for name in key}
    keyed |= {column for hop in table.path[:1] for column, _ in hop.pairs}
    keyed |= {column.name for column in table.columns if column.domain_from is not None}
    for name in sorted(keyed):
        if types.get(name) in _FLOATS:
            yield f"{shown}.{name} is a key of type {types[name]}: values that look alike need not be equal"


def _times(shown: str, table: Table) -> Iterator[str]:
    ranged = [c.name for c in table.columns if c.range is not None and base(c.type) not in NUMBERS]
    one_row = any(key <= set(table.unit) for key in table.keys)
    if table.horizon is None and not one_row:
        for name in ranged:
            yield (
                f"{shown}.{name} has a range and no horizon: running counts take the query's own range, "
                f"and need its bounds{'' if table.max_rows_per_unit else ' and max_rows_per_unit'}"
            )


def _caps(shown: str, table: Table, *, clips: bool) -> Iterator[str]:
    """Where row caps cut: a group gets few of the rows that a unit may have."""
    whole, group = table.max_rows_per_unit, table.max_rows_per_unit_per_group
    if not clips and whole is not None and group is not None and group * FAR_BELOW <= whole:
        yield (
            f"{shown}: max_rows_per_unit_per_group = {group} is far below max_rows_per_unit = {whole}: a unit's rows "
            "beyond it in a group are not counted, and no interval covers them"
        )


def _narrow(shown: str, table: Table, *, clips: bool) -> Iterator[str]:
    """Bounds that cut values which the policy itself expects, or sums that need no bounds."""
    for column in table.columns:
        ends = _ends(column)
        if column.bounds is not None and ends and (ends[0] < column.bounds[0] or column.bounds[1] < ends[1]):
            yield f"{shown}.{column.name}: bounds cut values of its own domain, and no interval covers that"
        if column.unit_bounds is not None and clips:
            yield (
                f"{shown}.{column.name}: unit_bounds cut the sum of a unit in each group, and no interval covers that; "
                "without them the length of a unit's sums is found privately"
            )


def _ends(column: Column) -> tuple[Fraction, Fraction] | None:
    """The least and the greatest number of a declared domain."""
    if base(column.type) not in NUMBERS or not (declared := column.range or column.domain):
        return None
    try:
        values = [Fraction(value) for value in declared if value not in UNBOUNDED]
    except ValueError:  # NaN, infinity
        return None
    return (min(values), max(values)) if values else None


def _units_missing(shown: str, table: Table) -> Iterator[str]:
    """The unit's columns, or the first of the path to it."""
    first = [column for column, _ in table.path[0].pairs] if table.path else table.unit
    for column in table.columns:
        if column.name in first and column.nullable:
            yield f"{shown}.{column.name} may be NULL: such rows are nobody's, and do not count"


def _nulls_dropped(shown: str, table: Table, config: Config) -> Iterator[str]:
    """Declared domains without NULL, of columns that may be NULL; `nullable = false` says that it is meant."""
    declared = config.tables[shown].columns if shown in config.tables else {}
    for column in table.columns:
        known = column.domain is not None or column.domain_from is not None or column.range is not None
        silent = column.name not in declared or declared[column.name].nullable is None
        if known and silent and not column.nullable and not column.required:
            yield (
                f"{shown}.{column.name} may be NULL: rows where it is are in no group, as if they were not there; "
                "nullable = true makes NULL a group, nullable = false says that it is meant"
            )


def _other_people(shown: str, table: Table, checked: BoundConfig) -> Iterator[str]:
    """Columns that analysts see and that lead to people whom nothing protects."""
    end = table.path[-1].target if table.path else (table.schema, table.name)
    unit = {*table.unit, *(column for hop in table.path[:1] for column, _ in hop.pairs)}
    backend = checked.schema.tables[table.schema, table.name]
    of_others = {n for n, t in checked.policy.tables.items() if not t.public and t.kind != table.kind}
    shown_columns = {column.name for column in table.columns if not column.hidden} - unit
    for column in backend.columns:
        if column.name in shown_columns and (how := other_people(backend, column, end, of_others)):
            protected = unit_words(checked.policy, table.kind)
            yield (
                f"{shown}.{column.name} {how}: only the {protected} of {end[1]} is protected, and "
                "groups by it tell of single others; hidden = true hides it"
            )


def _weak(privacy: Privacy, limits: list[AccountLimit]) -> Iterator[str]:
    """Limits that are hardly any; a wide cap over everybody is better than none."""
    for limit in limits:
        if limit.mode == "enforce" and limit.account != "dataset":
            bounds = guarantee(
                *(
                    limit.information,
                    limit.calls,
                    privacy.epsilon_per,
                    privacy.delta_per,
                    privacy.delta_prime,
                ),
                bounded_range_only=privacy.noise == "laplace",
                epsilon_star=limit.epsilon,
            )
            epsilon = min(bound.epsilon for bound in bounds)
            if epsilon > MOST_EPSILON:
                yield f"{limit.account}: the limits guarantee epsilon {_ceiling(epsilon)}, which is hardly anything"


def _uncapped(config: Config, limits: list[AccountLimit]) -> Iterator[str]:
    """Nothing caps everybody together, unless the configuration's own warnings say so of the names that it lets in."""
    if config.server.auth != "trust" and not config.identity.services and (said := together(limits)):
        yield said


def _ceiling(value: Fraction) -> int:
    return -(-value.numerator // value.denominator)


def _open_key(config: Config) -> Iterator[str]:
    for path in (config.path(config.privacy.key_file), config.file):
        if (
            path.exists()
            and (mode := stat.S_IMODE(path.stat().st_mode)) & 0o077
            and _secret(config, path.name)
        ):
            yield f"{path} can be read by others (mode {mode:04o}): chmod 600 {path}"


def _secret(config: Config, name: str) -> bool:
    """The key, or a file with a password in a URL."""
    urls = (config.backend.url, config.front.url, config.ledger.url)
    passwords = any(":" in url.partition("://")[2].rpartition("@")[0] for url in urls)
    return name != config.file.name or passwords
