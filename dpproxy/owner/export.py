"""Every entry of the ledger as CSV, JSON or Parquet, or the trail that an audit replays."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import TextIO

from budget.account import EntryRow
from budget.units import UNBOUNDED, shown
from dpproxy.backends.parquet import write_parquet
from dpproxy.config.sections import Config
from dpproxy.deployment.service import opened_vault
from dpproxy.owner.accounts import existing
from dpproxy.owner.audit_trail import write_trail
from dpproxy.reporting.rows import OutputError

COLUMNS: Mapping[str, str] = {
    "number": "BIGINT",
    "time": "TIMESTAMPTZ",
    "account": "VARCHAR",
    "own": "BOOLEAN",
    "kind": "VARCHAR",
    "reservation": "UUID",
    "mechanism": "VARCHAR",
    "query": "VARCHAR",
    "at_most_information": "DECIMAL(38, 6)",
    "at_most_calls": "DECIMAL(38, 6)",
    "information": "DECIMAL(38, 6)",
    "calls": "DECIMAL(38, 6)",
    "period": "BIGINT",
    "replayed": "BOOLEAN",
    "at_most_epsilon": "DECIMAL(38, 6)",
    "epsilon": "DECIMAL(38, 6)",
}
"""The columns of an export, with their types in Parquet. Amounts are in units; NULL where there is no pure epsilon."""


class ExportFormat(StrEnum):
    """How an export is written."""

    csv = "csv"
    json = "json"
    parquet = "parquet"
    trail = "trail"


def export(
    config: Config,
    form: ExportFormat,
    output: Path | None,
    name: str | None,
    since: datetime | None,
    until: datetime | None,
) -> None:
    """Writes the entries of all accounts, or of one, to a file or to standard output; raises OutputError."""
    if form is ExportFormat.parquet and output is None:
        raise OutputError("Parquet needs a file: name one by --output")
    if form is ExportFormat.trail and (name, since, until) != (None, None, None):
        raise OutputError("a trail is of the whole ledger: leave out NAME, --from and --to")
    with opened_vault(config) as vault:
        if form is ExportFormat.trail:
            with vault.ledger.history.trail() as trail, _opened(output) as file:
                write_trail(file, trail, config.privacy.noise)
            return
        account = None if name is None else existing(vault.ledger, config, name).account
        rows = map(_texts, vault.ledger.history.entries(account, since, until))
        if form is ExportFormat.parquet and output is not None:
            write_parquet(output, COLUMNS, rows)
            return
        with _opened(output) as file:
            (_csv if form is ExportFormat.csv else _json)(file, rows)


def _opened(output: Path | None) -> AbstractContextManager[TextIO]:
    return nullcontext(sys.stdout) if output is None else output.open("w", encoding="utf-8", newline="")


def _texts(entry: EntryRow) -> tuple[str | None, ...]:
    return (
        str(entry.number),
        entry.time.isoformat(),
        entry.account,
        _boolean(entry.own),
        entry.kind,
        str(entry.reservation),
        entry.mechanism,
        entry.query,
        shown(entry.at_most.information),
        shown(entry.at_most.calls),
        shown(entry.charged.information),
        shown(entry.charged.calls),
        str(entry.period),
        _boolean(entry.replayed),
        *(
            None if amount.epsilon == UNBOUNDED else shown(amount.epsilon)
            for amount in (entry.at_most, entry.charged)
        ),
    )


def _boolean(value: bool) -> str:
    return "true" if value else "false"


def _csv(file: TextIO, rows: Iterable[tuple[str | None, ...]]) -> None:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(rows)


def _json(file: TextIO, rows: Iterable[tuple[str | None, ...]]) -> None:
    """One array; numbers that are not whole stay text, which no reader rounds."""
    file.write("[")
    for number, row in enumerate(_objects(rows)):
        file.write((",\n" if number else "\n") + json.dumps(row, ensure_ascii=False))
    file.write("\n]\n")


def _objects(rows: Iterable[tuple[str | None, ...]]) -> Iterator[dict[str, object]]:
    for row in rows:
        yield {
            name: int(value)
            if value is not None and kind == "BIGINT"
            else value == "true"
            if kind == "BOOLEAN"
            else value
            for (name, kind), value in zip(COLUMNS.items(), row, strict=True)
        }
