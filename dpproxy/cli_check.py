"""What `dpproxy check` tells of a policy: the class of each column, and what the budgets guarantee."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from dpproxy.config import ColumnSection, TableSection
from rewriter.policy import Column, Policy, Table


@dataclass(frozen=True)
class ColumnClass:
    """One column: its domain (known or unknown), how many of its groups a unit counts in, its bounds."""

    table: str
    column: str
    type: str
    domain: str
    l0: str
    bounds: str


def classes(policy: Policy, config: Mapping[str, TableSection]) -> list[ColumnClass]:
    """Every visible column, table by table; `config`: the file's [tables].

    >>> table = Table("public", "u", (Column("id", "bigint"), Column("c", "text", True, ("x", "y"))), False,
    ...               ("u",), privacy_unit="id", keys=(frozenset({"id"}),))
    >>> [(c.column, c.domain, c.l0) for c in classes(Policy({("public", "u"): table}), {})]
    [('id', 'privacy unit', '1'), ('c', 'known: 2 values and NULL', '1')]
    """
    found = []
    for table in policy.tables.values():
        name = shown_name(table)
        declared = config[name].columns if name in config else {}
        for column in table.columns:
            if not column.hidden:
                bounds = _bounds(declared.get(column.name))
                found.append(
                    ColumnClass(
                        name, column.name, column.type, _domain(table, column), _l0(table, column), bounds
                    )
                )
    return found


def shown_name(table: Table) -> str:
    """The table's name as an analyst writes it."""
    return table.name if table.schema == "public" else f"{table.schema}.{table.name}"


def rows_per_unit(table: Table) -> str:
    """How many rows of one unit count, in words.

    >>> rows_per_unit(Table("public", "u", (), False, ("u",), privacy_unit="id", keys=(frozenset({"id"}),)))
    'one row a unit'
    """
    if table.public:
        return "public"
    if _one_row_a_unit(table):
        return "one row a unit"
    per_unit, per_group = table.max_rows_per_unit, table.max_rows_per_unit_per_group
    parts = [f"{per_unit} rows a unit"] if per_unit is not None else []
    parts += [f"{per_group} a unit and group"] if per_group is not None else []
    return ", ".join(parts) or "rows of a unit not bounded: COUNT(*) is refused"


def _one_row_a_unit(table: Table) -> bool:
    return table.privacy_unit is not None and any(key <= {table.privacy_unit} for key in table.keys)


def _domain(table: Table, column: Column) -> str:
    if table.public:
        return "known: public"
    if column.name == table.privacy_unit:
        return "privacy unit"
    null = " and NULL" if column.nullable else ""
    if column.domain is not None:
        return f"known: {len(column.domain)} values{null}"
    if column.domain_from is not None:
        (_, name), target = column.domain_from
        return f"known: {name}.{target}{null}"
    if column.range is not None:
        return f"known: {column.range[0]} to {column.range[1]}{null}"
    return "unknown"


def _l0(table: Table, column: Column) -> str:
    if table.public:
        return ""
    if _one_row_a_unit(table) or column.name == table.privacy_unit:
        return "1"
    declared = table.max_groups_per_unit.get(frozenset({column.name}))
    return "unrestricted" if declared is None else str(declared)


def _bounds(column: ColumnSection | None) -> str:
    if column is None:
        return ""
    for bounds, words in ((column.bounds, "a row"), (column.unit_bounds, "a unit and group")):
        if bounds is not None:
            scale = "" if column.scale is None else f", {column.scale} decimals"
            return f"{_number(bounds[0])} to {_number(bounds[1])} {words}{scale}"
    return ""


def _number(value: Fraction) -> str:
    return str(value) if value.denominator == 1 else f"{float(value):g}"
