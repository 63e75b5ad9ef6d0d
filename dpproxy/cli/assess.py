"""`dpproxy assess`: the owner's statements tested against policy and data; a report as text, page or JSON."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.progress import track

from dpproxy.config.sections import Config
from dpproxy.owner.assess.listed import Listed
from dpproxy.owner.assess.page import page, write_private
from dpproxy.owner.assess.report import NOT_PRIVATE, Account, Report, Row, assessment
from dpproxy.reporting.tables import print_json, print_table

_SHORT = 100


def assess(
    config: Config, file: Path, html: Path | None, *, cubes: bool, progress: bool, as_json: bool
) -> None:
    """Assesses the statements of a file and prints the report.

    `html`: where a page is written as well, readable by its owner alone; `cubes`: proposes cubes; `progress`: a line
    for each statement on standard error, where that is no terminal, which shows a bar. Raises OutputError,
    ConfigError, and what starting backend and front raises.
    """
    made = assessment(config, file, partial(_watched, progress=progress), with_cubes=cubes)
    if html is not None:
        write_private(html, page(made))
    if as_json:
        print_json({"not_private": NOT_PRIVATE, **asdict(made)})
    else:
        _print(made)
        if html is not None:
            print(f"\n{html} is written, for its owner's eyes (mode 0600).")


def _watched(statements: Sequence[Listed], *, progress: bool) -> Iterator[Listed]:
    if not progress or sys.stderr.isatty():
        yield from track(statements, "assessing", console=Console(stderr=True), transient=True)
        return
    for number, one in enumerate(statements, 1):
        print(f"{number} of {len(statements)}: {_short(one.text)}", file=sys.stderr, flush=True)
        yield one


def _print(made: Report) -> None:
    print(NOT_PRIVATE + "\n")
    print(f"{made.file}: {made.format}, {len(made.rows)} statements; protected is each {made.unit}.")
    for over in made.passed_over:
        print(f"Passed over: {over}.")
    print_table("Outcome", ("statements", ""), [(str(n), word) for word, n in made.counts], right=(0,))
    if made.quality:
        rows = [(str(n), word) for word, n in made.quality]
        print_table(
            "Error of the answered ones, against the true numbers", ("statements", ""), rows, right=(0,)
        )
    print(f"Asking everything once costs at most {made.price}; {made.budget}.\n")
    if made.accounts:
        print_accounts(made.accounts)
    for cube in made.cubes:
        print(
            f"Bought first (price {cube.price}), this has one analyst pay {cube.after} in place of {cube.before}"
        )
        print(
            f"for {cube.statements} statements over its tables, with dpproxy.reuse = always:\n  {cube.sql};\n"
        )
    _print_refused([row for row in made.rows if row.outcome == "refused"], made)
    answered = [row for row in made.rows if row.outcome == "answered"]
    if answered:
        heads = ("statement", "price", "rows", "error", "mechanism")
        lines = [(_short(row.text), row.price, row.groups, row.error, row.mechanism) for row in answered]
        print_table("Answered", heads, lines, right=(1, 2, 3))
    waiting = [row for row in made.rows if row.outcome == "needs values"]
    if waiting:
        tried = [(_short(row.text), row.price, _short(row.message)) for row in waiting]
        print_table("Need values", ("statement", "price", "tried"), tried, right=(1,))


def print_accounts(accounts: Sequence[Account]) -> None:
    """Prints what accounts would pay for the statements of a log."""
    title = "What accounts would pay for the answered ones, in information units, by dpproxy.reuse"
    rows = [(one.name, str(one.statements), one.off, one.on, one.always) for one in accounts]
    print_table(title, ("account", "statements", "off", "on", "always"), rows, right=(1, 2, 3, 4))


def _print_refused(rows: Sequence[Row], made: Report) -> None:
    if not rows:
        return
    title = f"Refused ({made.turned} of {len(rows)} would be answered with a line of policy)"
    lines = [(row.code, _short(row.text), row.message, _policy(row) or row.hint) for row in rows]
    print_table(title, ("code", "statement", "why", "what would help"), lines)
    if made.turned:
        print("Values in lines of policy are examples: write what is possible, not what is in the data.\n")


def _policy(row: Row) -> str:
    return "\n".join(row.lines)


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHORT else line[: _SHORT - 1] + "…"
