"""Which line of policy would turn a refusal into an answer: tested, not guessed.

Candidates come from the refusal's code and from the names in the statement; a line is shown if the statement, planned
again under a policy with it, is answered. The values in it are examples: the owner decides what is possible.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dpproxy.backends.base import BackendTable
from dpproxy.config.sections import Config, ConfigError, Privacy, content, validated
from dpproxy.config.values import NUMBERS, TEXTS, base
from dpproxy.owner.assess.assessor import Assessor
from dpproxy.owner.assess.listed import Listed
from dpproxy.owner.init.toml import quoted, toml_key
from rewriter.policy import Column, Policy, Table
from rewriter.refusal import Refusal
from rewriter.statements.lexer import tokens

MOST_LINES = 3
BOUNDED, LIMITED, MISSING = "PV016", "PV017", ("42P01", "42703")
SCANNED, ALLOWED = "PV024", "PV025"
UNDECLARED = ("PV017", "PV022", "PV023", SCANNED)
_TIMES = ("date", "timestamp")


@dataclass(frozen=True)
class PolicyLine:
    """A line of dpproxy.toml: `key` = `value` in section `path`; `meaning`: what it says, and what to mind."""

    path: tuple[str, ...]
    key: str
    value: Any
    meaning: str

    def within(self, said: Mapping[str, Any]) -> dict[str, Any]:
        """A file's content with the line added; existing declarations of a column stay."""
        changed = deepcopy(dict(said))
        place = changed
        for part in self.path:
            place = place.setdefault(part, {})
        known = place.get(self.key)
        together = isinstance(known, dict) and isinstance(self.value, dict) and "hidden" not in known
        place[self.key] = {**known, **self.value} if together and known else self.value
        return changed


@dataclass(frozen=True)
class Advice:
    """Lines, with their sections' heads, that together turn a refusal into an answer; `keys`: how many are set."""

    lines: tuple[str, ...]
    meanings: tuple[str, ...]
    keys: int


def advice(assessor: Assessor, listed: Listed, refusal: Refusal) -> Advice | None:
    """The fewest lines found, at most three; None where no line of policy would do."""
    said = content(assessor.checked.config.file)
    found: list[PolicyLine] = []
    while len(found) < MOST_LINES:
        outcomes = [*_tried(assessor, listed, refusal, said)]
        turned = next((line for line, left in outcomes if left is None), None)
        if turned is not None:
            found.append(turned)
            return _told(found, content(assessor.checked.config.file))
        nearer = next(((line, left) for line, left in outcomes if left and _further(refusal, left)), None)
        if nearer is None:
            return None
        found.append(nearer[0])
        said, refusal = nearer[0].within(said), nearer[1]
    return None


def _told(lines: list[PolicyLine], said: Mapping[str, Any]) -> Advice:
    meanings = tuple(dict.fromkeys(line.meaning for line in lines))
    return Advice(written(lines, said), meanings, len({(line.path, line.key) for line in lines}))


def written(lines: Iterable[PolicyLine], said: Mapping[str, Any]) -> tuple[str, ...]:
    """Lines as they go into a file with this content, each section's head before its own.

    >>> written([PolicyLine(("tables", "events", "columns"), "amount", {"bounds": [0, 100]}, "")], {})
    ('[tables.events.columns]', 'amount = { bounds = [0, 100] }')
    """
    sections: dict[tuple[str, ...], list[str]] = {}
    for line in lines:
        said = line.within(said)
        keys = sections.setdefault(line.path, [])
        keys += [] if line.key in keys else [line.key]
    found = []
    for path, keys in sections.items():
        place: Any = said
        for part in path:
            place = place[part]
        found.append(f"[{'.'.join(map(toml_key, path))}]")
        found += [f"{toml_key(key)} = {_toml(place[key])}" for key in keys]
    return tuple(found)


def _further(before: Refusal, after: Refusal) -> bool:
    """Whether planning got past what it was refused for."""
    return after.code in (BOUNDED, *UNDECLARED, *MISSING) and (
        before.code,
        before.message,
        before.detail,
    ) != (
        after.code,
        after.message,
        after.detail,
    )


def _tried(
    assessor: Assessor, listed: Listed, refusal: Refusal, said: Mapping[str, Any]
) -> Iterator[tuple[PolicyLine, Refusal | None]]:
    """Each candidate with what planning says under it, up to the first that turns the refusal."""
    for line in candidates(assessor, listed, refusal, said):
        try:
            config: Config = validated(assessor.checked.config.file, line.within(said))
            left = assessor.refusal(listed, config)
        except ConfigError:
            continue
        yield line, left
        if left is None:
            return


def candidates(
    assessor: Assessor, listed: Listed, refusal: Refusal, said: Mapping[str, Any]
) -> Iterator[PolicyLine]:
    """Lines that may help, the likeliest first."""
    try:
        words = {(token.name or token.text).lower() for token in tokens(listed.text)}
    except Refusal:
        return
    policy = assessor.checked.policy
    tables = [t for t in policy.tables.values() if t.name.lower() in words and not t.public]
    if refusal.code in MISSING:
        yield from _missing(assessor, words, policy)
    if refusal.code == BOUNDED:
        yield from _bounds(tables, words, refusal)
    if refusal.code == LIMITED:
        yield from _rows(tables, refusal)
    if refusal.code == "PV022":
        yield PolicyLine(
            ("privacy",), "delta_per", Fraction(1, 10**10), "groups of unknown domain fail with this"
        )
    if refusal.code == "PV018" and assessor.checked.config.privacy.noise == "laplace":
        yield PolicyLine(("privacy",), "noise", "gaussian", "another guarantee: see dpproxy advise")
    if refusal.code == ALLOWED:
        yield from _allowances(assessor.checked.config.privacy)
    if refusal.code in UNDECLARED:
        yield from _domains(tables, words)
        if refusal.code != SCANNED:
            yield from _groups(tables, words, said)
    if refusal.code == SCANNED:
        yield PolicyLine(
            ("privacy",), "scans", "charge", "lists that tools send automatically are then charged"
        )


def _bounds(tables: list[Table], words: set[str], refusal: Refusal) -> Iterator[PolicyLine]:
    """Those of columns that the refusal names come first."""
    found = []
    for table in tables:
        for column in _named(table, words):
            said = (column.domain, column.range, column.bounds)
            if column.name != table.privacy_unit and all(part is None for part in said):
                found.append((column.name not in refusal.message, table, column))
    for _, table, column in sorted(found, key=lambda one: one[0]):
        kind = base(column.type)
        if kind in NUMBERS:
            yield _column(table, column, {"bounds": [0, 100]}, "what a row's value is cut to")
        elif kind.startswith(_TIMES):
            yield _column(table, column, {"range": _year()}, "what dates there can be")


def _rows(tables: list[Table], refusal: Refusal) -> Iterator[PolicyLine]:
    meaning = "more rows of one unit do not count"
    for table in sorted(tables, key=lambda t: f'"{t.name}"' not in refusal.message):
        if table.max_rows_per_unit is None:
            yield PolicyLine(_section(table), "max_rows_per_unit", 100, meaning)
        if table.max_rows_per_unit_per_group is None:
            yield PolicyLine(_section(table), "max_rows_per_unit_per_group", 10, meaning)


def _allowances(privacy: Privacy) -> Iterator[PolicyLine]:
    """Each kind with what a query without LIMIT may spend."""
    for kind, most in privacy.allowances:
        if most is not None and most < privacy.query_information:
            said = {kind: privacy.query_information}
            yield PolicyLine(("privacy",), "allowances", said, "most that a query may spend on this kind")


def _domains(tables: list[Table], words: set[str]) -> Iterator[PolicyLine]:
    for table in tables:
        for column in _named(table, words):
            if column.domain or column.domain_from or column.range or column.name == table.privacy_unit:
                continue
            kind = base(column.type)
            if kind in TEXTS:
                meaning = "all values that can be: analysts see them, others are no group"
                yield _column(table, column, {"domain": ["A", "B", "C"]}, meaning)
            elif kind in ("smallint", "integer", "bigint"):
                yield _column(table, column, {"range": [0, 30]}, "all values that can be")
            elif kind.startswith(_TIMES):
                yield _column(table, column, {"range": _year()}, "what dates there can be")


def _groups(tables: list[Table], words: set[str], said: Mapping[str, Any]) -> Iterator[PolicyLine]:
    for table in tables:
        known = said.get("tables", {}).get(_section(table)[1], {}).get("max_groups_per_unit", {})
        for column in _named(table, words):
            if column.name != table.privacy_unit and column.name not in known:
                yield PolicyLine(
                    _section(table),
                    "max_groups_per_unit",
                    {column.name: 5},
                    f"a unit with more values of {column.name} counts in 5 of them",
                )


def _missing(assessor: Assessor, words: set[str], policy: Policy) -> Iterator[PolicyLine]:
    """Tables that the backend has and the policy does not show, and hidden columns."""
    for table in policy.tables.values():
        for column in table.columns:
            if column.hidden and column.name.lower() in words and table.name.lower() in words:
                yield PolicyLine(
                    (*_section(table), "columns"), column.name, {}, "analysts may use the column then"
                )
    for name, backend in assessor.checked.schema.tables.items():
        if name not in policy.tables and backend.name.lower() in words:
            yield from _shown(backend, policy)


def _shown(backend: BackendTable, policy: Policy) -> Iterator[PolicyLine]:
    section = ("tables", backend.name if backend.schema == "public" else f"{backend.schema}.{backend.name}")
    meaning = "rows of units, protected as the others are"
    if not policy.unit_clips:
        meaning += "; their number needs a bound, too"
    for key in backend.foreign_keys:
        target = policy.tables.get(key.target)
        if target is not None and not target.public and len(key.columns) == 1:
            way = f"{key.columns[0]} -> {_section(target)[1]}.{key.target_columns[0]}"
            yield PolicyLine(section, "privacy_unit_path", [way], meaning)
    units = {t.privacy_unit for t in policy.tables.values() if t.privacy_unit is not None and not t.kind}
    for column in backend.columns:
        if column.name in units:
            yield PolicyLine(section, "privacy_unit", column.name, meaning)
    if not any(column.name in units for column in backend.columns) and not backend.foreign_keys:
        yield PolicyLine(section, "public", True, "only if its rows are nobody's: anybody may read them then")


def _named(table: Table, words: set[str]) -> list[Column]:
    return [c for c in table.columns if c.name.lower() in words]


def _section(table: Table) -> tuple[str, str]:
    return "tables", table.name if table.schema == "public" else f"{table.schema}.{table.name}"


def _column(table: Table, column: Column, said: dict[str, Any], meaning: str) -> PolicyLine:
    return PolicyLine((*_section(table), "columns"), column.name, said, meaning)


def _year() -> list[dt.date]:
    return [dt.date(2024, 1, 1), dt.date(2024, 12, 31)]


def _toml(value: object) -> str:
    """A value on one line.

    >>> _toml({"domain": ["a", 'b"'], "nullable": True, "scale": 2}), _toml(Fraction(1, 10**10))
    ('{ domain = ["a", "b\\\\""], nullable = true, scale = 2 }', '1e-10')
    """
    if isinstance(value, dict):
        return (
            "{ " + ", ".join(f"{toml_key(k)} = {_toml(v)}" for k, v in value.items()) + " }"
            if value
            else "{}"
        )
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Fraction):
        return str(value) if value.denominator == 1 else f"{float(value):g}"
    if isinstance(value, dt.date | dt.datetime):
        return f'"{value.isoformat()}"'
    if isinstance(value, str):
        return quoted(value)
    return str(value)
