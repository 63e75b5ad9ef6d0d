"""What the data owner declares, as the rewriter reads it: tables, the privacy unit, domains and bounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

TableName = tuple[str, str]
"""(schema, table) as analysts see them."""


@dataclass(frozen=True)
class Column:
    """A column of a table.

    `type` is the type in the front, as PostgreSQL's format_type prints it ("bigint", "text", "date",
    "timestamp without time zone"). At most one of `domain` (literals as PostgreSQL prints them),
    `domain_from` and `range` (both ends included) is set; none of them means an unknown domain.
    `nullable`: NULL is a cell of the domain (declared), or, without a domain, may occur in the data.
    `declared`: the owner has named the column, with or without saying more of it, or in bounds of its groups.
    `bounds`: between which a row's value is clamped, `unit_bounds` a unit's sum in a group; `scale`: the
    decimals that sums keep.
    """

    name: str
    type: str
    nullable: bool = True
    domain: tuple[str, ...] | None = None
    domain_from: tuple[TableName, str] | None = None
    range: tuple[str, str] | None = None
    hidden: bool = False
    bounds: tuple[Fraction, Fraction] | None = None
    unit_bounds: tuple[Fraction, Fraction] | None = None
    scale: int | None = None
    declared: bool = True


@dataclass(frozen=True)
class Hop:
    """One step of a privacy unit path: `column` refers to `target_column` of `target`."""

    column: str
    target: TableName
    target_column: str


@dataclass(frozen=True)
class Horizon:
    """The life of a stream: events of `column` from `first` to `last`, of one unit at most `events_per_unit`."""

    column: str
    first: str
    last: str
    events_per_unit: int


@dataclass(frozen=True)
class Table:
    """A table that the policy shows.

    `keys` are column sets that cannot repeat: constraints of the backend, or, for a public table,
    checked on its rows. `declared_keys` are the owner's word alone and are enforced in the SQL where a
    proof rests on them. `backend_name` is the table's name parts in the backend. Bounds that are None are not declared.
    A private table has a `privacy_unit` column; with a `path` the unit is found along it.
    """

    schema: str
    name: str
    columns: tuple[Column, ...]
    public: bool
    backend_name: tuple[str, ...]
    in_front: bool = False
    privacy_unit: str | None = None
    path: tuple[Hop, ...] = ()
    keys: tuple[frozenset[str], ...] = ()
    declared_keys: tuple[frozenset[str], ...] = ()
    max_rows_per_unit: int | None = None
    max_rows_per_unit_per_group: int | None = None
    max_groups_per_unit: Mapping[frozenset[str], int] = field(default_factory=dict)
    horizon: Horizon | None = None
    comment: str | None = None

    def column(self, name: str) -> Column | None:
        """The visible column called `name`, or None.

        >>> Table("public", "t", (Column("a", "text"),), True, ("t",)).column("a").type
        'text'
        """
        return next((c for c in self.columns if c.name == name and not c.hidden), None)


@dataclass(frozen=True)
class Policy:
    """Every table that analysts can see, by (schema, table); `search_path` is the order of lookup."""

    tables: Mapping[TableName, Table]
    search_path: tuple[str, ...] = ("public",)

    def find(self, schema: str | None, name: str) -> Table | None:
        """The table that an analyst means by `name`, or None.

        >>> t = Table("public", "t", (), True, ("t",))
        >>> Policy({("public", "t"): t}).find(None, "t") is t
        True
        """
        schemas = (schema,) if schema else self.search_path
        return next((self.tables[s, name] for s in schemas if (s, name) in self.tables), None)
