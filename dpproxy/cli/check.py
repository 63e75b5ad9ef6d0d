"""`dpproxy check`: what works, what does not, and what it guarantees, on one page; the classes of columns after it."""

from __future__ import annotations

import sys
import textwrap
from dataclasses import asdict, astuple

from dpproxy.catalog.build_policy import unit_words
from dpproxy.deployment.service import BoundConfig
from dpproxy.owner.check import (
    classes,
    guarantees,
    limits_of,
    print_guarantees,
    rows_per_unit,
    shown_name,
)
from dpproxy.owner.check_warnings import providers, warnings
from dpproxy.owner.limit_drift import beside_ledger
from dpproxy.owner.overview import answered, changes, enough, learnt
from dpproxy.reporting.tables import print_json, print_table

_WIDTH = 110


def report(checked: BoundConfig, *, details: bool, as_json: bool) -> None:
    """Prints what a checked configuration means; `details`: every column's class, and every accounting."""
    policy, privacy, budget = checked.policy, checked.config.privacy, checked.config.budget
    limits, found = limits_of(budget, privacy), beside_ledger(checked)
    told = [
        *checked.warnings,
        *warnings(checked, limits, found.privacy),
        *found.told,
        *providers(checked.config),
    ]
    tables = tuple(policy.tables.values())
    columns = classes(policy, checked.config.tables, privacy)
    bounds = guarantees(limits, found.privacy)
    if as_json:
        print_json(
            {
                "tables": {shown_name(table): rows_per_unit(table, policy) for table in tables},
                "answered": [asdict(one) for one in answered(policy, privacy)],
                "changes": [asdict(one) for one in changes(policy, checked.schema, privacy)],
                "columns": [asdict(column) for column in columns],
                "guarantees": [asdict(bound) for bound in bounds],
                "learnt": [*learnt(found.privacy, limits)],
                "warnings": told,
            }
        )
        return
    _print_page(checked)
    print(f"\nWhat the limits guarantee to each {unit_words(policy)}")
    for line in learnt(found.privacy, limits):
        _print_item(line)
    if details:
        print()
        for table in tables:
            rows = [astuple(column)[1:] for column in columns if column.table == shown_name(table)]
            title = f"{shown_name(table)}: {rows_per_unit(table, policy)}"
            print_table(title, ("column", "type", "domain", "groups of a unit", "bounds", "cost"), rows)
        print("Cost: of counting units by the column, in information units.")
        print_guarantees(f"Guarantee for each {unit_words(policy)}, by the limits", bounds)
    else:
        print(
            "\nThe class and price of every column, and the guarantee by each accounting: dpproxy check --details"
        )
    for warning in told:
        print(f"dpproxy: warning: {warning}", file=sys.stderr)


def _print_page(checked: BoundConfig) -> None:
    policy, privacy = checked.policy, checked.config.privacy
    print("What works: COUNT(*), COUNT(DISTINCT unit) and, by column,")
    for one in answered(policy, privacy):
        print(f"  {one.table}: {one.rows}")
        for words, names in (
            ("groups, all of them", one.listed),
            ("groups by day, month or interval, all of them", one.parted),
            ("groups that enough units have", one.found),
            ("sums and averages", one.summed),
            ("medians, MIN and MAX", one.ranked),
            ("to join by and to count", one.keys),
        ):
            if names:
                _print_item(f"{words}: {', '.join(names)}", 4)
    least = enough(privacy)
    if least is not None:
        _print_item(f"Enough: about {least:,} units, and more where a unit is in several groups.")
    public = [shown_name(table) for table in policy.tables.values() if table.public]
    if public:
        _print_item(f"public, every SELECT free of charge: {', '.join(public)}")
    print("\nWhat does not, and an example of the line of dpproxy.toml that changes it")
    place = None
    for change in changes(policy, checked.schema, privacy):
        if change.table != place:
            place = change.table
            print(f"  {change.lines[0]}" if place else "  What the file does not name")
        _print_item(f"{change.what}: {', '.join(change.names)}", 4)
        for line in change.lines[bool(place) :]:
            print(f"      {line}")


def _print_item(text: str, indent: int = 2) -> None:
    start = " " * indent
    print(
        textwrap.fill(
            text, _WIDTH, initial_indent=start, subsequent_indent=f"{start}  ", break_long_words=False
        )
    )
