"""What the commands print: rows as a table, CSV or JSON."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Sequence
from enum import StrEnum

from rich.console import Console
from rich.table import Table
from rich.text import Text

from dpproxy.reporting.rows import RowSet

_INTEGERS, _FLOATS, _BOOLEAN = (20, 21, 23, 26), (700, 701), 16
_NUMBERS = (*_INTEGERS, *_FLOATS, 1700)
_UNBOUNDED = 100_000
"""Columns of a console that is no terminal: what reads it wraps lines itself, or not."""


class Format(StrEnum):
    """How rows are printed."""

    table = "table"
    csv = "csv"
    json = "json"


def console(width: int = _UNBOUNDED) -> Console:
    """Standard output: as wide as the terminal, or `width` columns where it is none."""
    return Console() if sys.stdout.isatty() else Console(width=width)


def print_table(
    title: str | None,
    columns: Sequence[str],
    rows: Sequence[Sequence[str | None]],
    right: Sequence[int] = (),
    width: int = _UNBOUNDED,
) -> None:
    """Prints rows under their column names; `right`: positions that are aligned to the right; `width`: where standard
    output is no terminal, what is longer is wrapped."""
    table = Table(title=title, title_justify="left", title_style="bold")
    for position, name in enumerate(columns):
        table.add_column(Text(name), justify="right" if position in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text("") if value is None else Text(value) for value in row))
    console(width).print(table)


def print_json(value: object) -> None:
    """Prints one JSON document."""
    print(json.dumps(value, indent=2, ensure_ascii=False))


def print_result(result: RowSet, form: Format) -> None:
    """Prints the rows of an answer on standard output, its notices on standard error."""
    for notice in result.notices:
        print(f"NOTICE: {notice}", file=sys.stderr)
    match form:
        case Format.table:
            right = [position for position, oid in enumerate(result.oids) if oid in _NUMBERS]
            print_table(None, result.columns, result.rows, right)
        case Format.csv:
            writer = csv.writer(sys.stdout, lineterminator="\n")
            writer.writerow(result.columns)
            writer.writerows(result.rows)
        case Format.json:
            rows = [list(map(as_json, row, result.oids)) for row in result.rows]
            print_json({"columns": result.columns, "rows": rows, "notices": result.notices})


def as_json(value: str | None, oid: int) -> object:
    """A value as JSON has it: integers, finite floats and booleans as such, everything else as text.

    `value`: PostgreSQL's text of it; `oid`: its type. Numeric stays text: JSON's readers would round it.

    >>> as_json("7", 20), as_json("0.5", 701), as_json("NaN", 701), as_json("t", 16), as_json("1.50", 1700)
    (7, 0.5, 'NaN', True, '1.50')
    """
    if value is None:
        return None
    if oid in _INTEGERS:
        return int(value)
    if oid in _FLOATS and value not in ("NaN", "Infinity", "-Infinity"):
        return float(value)
    return value == "t" if oid == _BOOLEAN else value
