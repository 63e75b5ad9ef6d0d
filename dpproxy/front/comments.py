"""Comments in the front: how queries can use each table and column.

Why: docs/decisions/what-clients-see.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from rewriter.policy import Column, Table


def table_words(table: Table, *, clips: bool) -> str:
    """What a table is to a query, in words; with `clips` the rows of a unit are not cut.

    >>> table_words(Table("public", "t", (), True, ("t",), in_front=True), clips=True)
    '(public)'
    """
    if table.public:
        return "(public)" if table.in_front else "(public, read by the backend only)"
    if table.privacy_unit is None:
        return "(private)"
    rows = None if clips else table.max_rows_per_unit
    bound = f", at most {rows} rows of a unit count" if rows is not None else ""
    kind = f", a {table.kind}" if table.kind else ""
    return f"(private, the unit is {table.privacy_unit}{kind}{bound})"


def column_words(table: Table, column: Column, *, clips: bool) -> str:
    """What a column is to a query, in words, empty for a public table's; with `clips` the rows of a unit are not cut.

    >>> t = Table("public", "t", (), False, ("t",), max_groups_per_unit={frozenset({"device"}): 3})
    >>> column_words(t, Column("device", "text"), clips=True)
    'unknown domain, a unit counts in at most 3'
    >>> column_words(t, Column("amount", "bigint", range=("0", "9"), bounds=(Fraction(0), Fraction(5)), scale=0),
    ...              clips=True)
    'known domain, 0 to 9 and NULL, in sums a row counts 0 to 5'
    >>> column_words(t, Column("country", "text", True, ("US", "DE")), clips=True)
    'known domain of 2 values and NULL'
    >>> column_words(t, Column("visit", "bigint", of_unit=True), clips=True)
    'unknown domain, each value belongs to one unit'
    """
    if table.public:
        return ""
    return ", ".join(_column(table, column, clips=clips))


def _column(table: Table, column: Column, *, clips: bool) -> Iterator[str]:
    if column.name == table.privacy_unit:
        yield f"privacy unit, which {table.path[0].column} leads to" if column.virtual else "privacy unit"
        if table.max_rows_per_unit is not None and not clips:
            yield f"at most {table.max_rows_per_unit} rows of a unit count"
        if table.max_rows_per_unit_per_group is not None and not clips:
            yield f"at most {table.max_rows_per_unit_per_group} in one group"
        return
    if column.name in table.unit_parts:
        yield "part of the privacy unit"
    yield _domain(column)
    yield from _groups(table, column)
    if column.of_unit:
        yield "each value belongs to one unit"
    if column.bounds is not None:
        yield f"in sums a row counts {_span(column.bounds)}{_decimals(column)}"
    if column.unit_bounds is not None:
        yield f"in sums a unit counts {_span(column.unit_bounds)} in a group{_decimals(column)}"
    horizon = table.horizon
    if horizon is not None and horizon.column == column.name:
        most = f"at most {horizon.events_per_unit} events of a unit"
        yield f"running counts from {horizon.first} to {horizon.last} with {most}"


def _domain(column: Column) -> str:
    null = " and NULL" if column.nullable else ""
    if column.domain is not None:
        return f"known domain of {len(column.domain)} values{null}"
    if column.domain_from is not None:
        (_, name), source = column.domain_from
        return f"known domain, {name}.{source}{null}"
    if column.range is not None:
        return f"known domain, {column.range[0]} to {column.range[1]}{null}"
    return "unknown domain"


def _groups(table: Table, column: Column) -> Iterator[str]:
    """In how many groups a unit counts: by this column alone, and together with others."""
    for columns, most in table.max_groups_per_unit.items():
        others = sorted(columns - {column.name})
        if column.name in columns:
            together = f" with {', '.join(others)}" if others else ""
            yield f"a unit counts in at most {most}{together}"


def _span(bounds: tuple[Fraction, Fraction]) -> str:
    return " to ".join(_number(end) for end in bounds)


def _number(value: Fraction) -> str:
    """Every number of the policy is a decimal."""
    places = 0
    while (value * 10**places).denominator != 1:
        places += 1
    return f"{float(value):.{places}f}" if places else str(value.numerator)


def _decimals(column: Column) -> str:
    return f" with {column.scale} decimals" if column.scale else ""
