"""`dpproxy init --domains`: which values a column has, by a private query that the owner's account pays for."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dpproxy.backends.base import quoted as identifier
from dpproxy.config.identity import OWNER
from dpproxy.config.sections import Config
from dpproxy.config.values import LISTED, NUMBERS, TEXTS, base
from dpproxy.deployment.service import BoundConfig, Service
from dpproxy.owner.init.toml import quoted
from dpproxy.owner.init.units import shown
from dpproxy.reporting.rows import OutputError, RowSet
from dpproxy.reporting.tables import print_json
from rewriter.policy import Column, Policy, Table


@dataclass(frozen=True)
class ReleasedDomain:
    """The released values of a column, and the notice."""

    table: str
    column: str
    values: tuple[str, ...]
    number: bool
    notices: tuple[str, ...]

    @property
    def entry(self) -> str:
        """A line for [tables.T.columns]."""
        values = self.values if self.number else map(quoted, self.values)
        return f"{quoted(self.column)} = {{ domain = [{', '.join(values)}] }}"


def domains(config: Config, wanted: Sequence[str], *, as_json: bool) -> None:
    """Prints domains to paste, of the columns `wanted` (TABLE.COLUMN), or of every text of unknown domain.

    Each one is bought by SELECT DISTINCT on the way of every analyst's query; the file is not touched. Raises
    OutputError for columns that can have no such domain, ClientError for what is refused or cannot be paid.
    """
    checked = BoundConfig.open(config)
    checked.backend.close()
    columns, found = _wanted(checked.policy, wanted), []
    with Service.start(config, alone=False) as service:
        for table, column in columns:
            name = ".".join(map(identifier, (table.schema, table.name)))
            statement = f"SELECT DISTINCT {identifier(column.name)} FROM {name}"
            answer = asyncio.run(service.ask(OWNER, statement))
            number = base(column.type) in NUMBERS
            place = shown((table.schema, table.name))
            one = ReleasedDomain(place, column.name, _values(answer), number, tuple(answer.notices))
            found.append(one)
            if not as_json:
                _print(one)
    if as_json:
        print_json(
            [{"column": f"{f.table}.{f.column}", "domain": f.values, "notices": f.notices} for f in found]
        )


def _wanted(policy: Policy, names: Sequence[str]) -> list[tuple[Table, Column]]:
    possible = {f"{shown((t.schema, t.name))}.{c.name}": (t, c) for t, c in _possible(policy)}
    if not names:
        names = [name for name, (_, column) in possible.items() if base(column.type) in TEXTS]
    for name in names:
        if name not in possible:
            known = ", ".join(possible) or "there is none"
            raise OutputError(f"{name} is no visible column of unknown domain of a private table ({known})")
    return [possible[name] for name in names]


def _possible(policy: Policy) -> Iterator[tuple[Table, Column]]:
    for table in policy.tables.values():
        for column in table.columns:
            unknown = column.domain is None and column.domain_from is None and column.range is None
            free = not table.public and not column.hidden and column.name != table.privacy_unit
            if unknown and free and base(column.type) in LISTED:
                yield table, column


def _values(answer: RowSet) -> tuple[str, ...]:
    return tuple(sorted(value for (value,) in answer.rows if value is not None))


def _print(one: ReleasedDomain) -> None:
    for notice in one.notices:
        print(f"# {one.table}.{one.column}: {' '.join(notice.split())}")
    if one.values:
        print(
            f"# Under [tables.{quoted(one.table)}.columns], if these are all values that you want to be known:"
        )
        print(one.entry)
    else:
        print(f"# {one.table}.{one.column}: no value is that of enough units")
