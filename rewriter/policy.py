"""The data owner's declarations in the form that the rewriter reads: tables, the privacy unit, domains and bounds."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache

TableName = tuple[str, str]
"""(schema, table) as analysts see them."""
UNBOUNDED = (str(2**31 - 1), str(2**63 - 1))
"""Ends that a declared range has from its column's type alone: they bound no sum."""
_ENUMERATED = re.compile(r"""enum ("(?:[^"]|"")*"\."(?:[^"]|"")*")\((.*)\)(\[\])?""", re.DOTALL)
_QUOTED = re.compile(r'"((?:[^"]|"")*)"')
_LABEL = re.compile(r"'((?:[^']|'')*)'")


def enumerated(schema: str, name: str, listed: Sequence[str]) -> str:
    """The name of an enumerated type: what it is called in the front, and its labels in their order.

    >>> print(enumerated("app", "level", ["low", "it's"]))
    enum "app"."level"('low','it''s')
    """
    parts = (part.replace('"', '""') for part in (schema, name))
    written = ",".join("'" + label.replace("'", "''") + "'" for label in listed)
    return "enum " + ".".join(f'"{part}"' for part in parts) + f"({written})"


@lru_cache(maxsize=1000)
def labels(name: str) -> tuple[str, ...] | None:
    """The labels of an enumerated type in their order, None for any other type.

    >>> labels(enumerated("app", "level", ["low", "it's"])), labels("text")
    (('low', "it's"), None)
    """
    found = _ENUMERATED.fullmatch(name)
    if found is None or found[3]:
        return None
    return tuple(label.replace("''", "'") for label in _LABEL.findall(found[2]))


def enum_name(name: str) -> TableName:
    """The schema and the name of an enumerated type; ValueError for any other type.

    >>> enum_name(enumerated("app", "my level", ["low"]))
    ('app', 'my level')
    """
    found = _ENUMERATED.fullmatch(name)
    if found is None:
        raise ValueError(f"{name} is no enumerated type")
    schema, own = (part.replace('""', '"') for part in _QUOTED.findall(found[1]))
    return schema, own


def front_name(name: str) -> str:
    """What a type is called in SQL of the front.

    >>> front_name(enumerated("app", "level", ["low"]) + "[]"), front_name("numeric(9,2)")
    ('"app"."level"[]', 'numeric(9,2)')
    """
    found = _ENUMERATED.fullmatch(name)
    return name if found is None else found[1] + (found[3] or "")


def shown_type(name: str) -> str:
    """What people read of a type.

    >>> shown_type(enumerated("public", "level", ["low"])), shown_type(enumerated("app", "level", ["low"]))
    ('level', 'app.level')
    """
    return name if labels(name) is None else ".".join(enum_name(name)).removeprefix("public.")


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes:
        name: its name.
        type: its type in the front, as PostgreSQL's format_type prints it ("bigint", "text", "date",
            "timestamp without time zone"); that of an enumerated type by `enumerated`.
        nullable: NULL is a cell of the domain (declared) or, without a domain, may occur in the data.
        domain: the values of a known domain, literals as PostgreSQL prints them.
        domain_from: the public column whose values are the domain.
        range: the first and last value of the domain, both included. At most one of the three is set, none for an
            unknown domain.
        hidden: analysts do not see it.
        bounds: the interval that sums clamp a row's value to.
        ends: what the values of a computed column lie between, None where nothing says.
        unit_bounds: the interval that sums clamp a unit's total in a group to.
        scale: the decimals that sums keep.
        magnitude: about how large a value is, where nothing bounds it: the shortest length that totals are clipped to.
        of_unit: every value, of an event such as a visit or an order, belongs to one unit.
        declared: the owner has named the column, with or without details, or in bounds of its groups.
        required: the backend lets it not be NULL.
        caseless: it names a unit or leads to one, and the backend compares its texts in lower case; so they are read.
        sized: its type in the backend bounds its texts where `type` does not say it, as an enumerated one does.
        virtual: the unit at the end of the table's path, under a name of ours; the backend's table has no such column.
        expression: the owner's SQL that computes it from a row of the backend's table, which has no such column. Never
            shown to analysts, as `Table.where`.
    """

    name: str
    type: str
    nullable: bool = True
    domain: tuple[str, ...] | None = None
    domain_from: tuple[TableName, str] | None = None
    range: tuple[str, str] | None = None
    hidden: bool = False
    bounds: tuple[Fraction, Fraction] | None = None
    ends: tuple[Fraction | None, Fraction | None] = (None, None)
    unit_bounds: tuple[Fraction, Fraction] | None = None
    scale: int | None = None
    magnitude: Fraction | None = None
    of_unit: bool = False
    declared: bool = True
    caseless: bool = False
    required: bool = False
    sized: bool = False
    virtual: bool = False
    expression: str | None = None


@dataclass(frozen=True)
class Hop:
    """One step of a privacy unit path: `column` refers to `target_column` of `target`, with `more` pairs of columns
    where the key is of several."""

    column: str
    target: TableName
    target_column: str
    more: tuple[tuple[str, str], ...] = ()

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """Each column with the target's."""
        return ((self.column, self.target_column), *self.more)


@dataclass(frozen=True)
class Horizon:
    """The life of a stream: events of `column` from `first` to `last`, of one unit at most `events_per_unit`."""

    column: str
    first: str
    last: str
    events_per_unit: int


@dataclass(frozen=True)
class Table:
    """A table that the policy shows. Bounds that are None are not declared.

    Attributes:
        schema, name, columns: as analysts see them.
        public: its rows belong to no unit.
        backend_name: the parts of its name in the backend.
        in_front: the front has its rows.
        privacy_unit: the column of a private table that names the unit; with a `path` the unit is found along it, and
            no stored column but the first of the path is meant.
        composite: several columns name the unit together; `privacy_unit` is then words for them, and no column.
        unit_parts: these columns, where they are the table's own.
        path: the references that lead to the unit.
        kind: the kind of unit, where there are several: rows of different kinds never meet in one aggregate.
        keys: column sets that cannot repeat: constraints of the backend or, for a public table, checked on its rows.
        declared_keys: column sets that do not repeat by the owner's word alone; the SQL enforces them where a proof
            rests on them.
        max_rows_per_unit, max_rows_per_unit_per_group: the most rows of one unit that count, in all and in one group.
        max_groups_per_unit: the most values of a column set that one unit has.
        horizon: the times of running counts.
        where: the owner's condition in the backend's SQL on each row of it; the others do not exist. Never shown to
            analysts: a list of those who opted out is a secret.
        view: of a view the query that its rows are, over other tables of the policy; never shown to analysts. It has
            no rows of its own, and its unit is that of what it reads.
        comment: the backend's comment.
    """

    schema: str
    name: str
    columns: tuple[Column, ...]
    public: bool
    backend_name: tuple[str, ...]
    in_front: bool = False
    privacy_unit: str | None = None
    composite: bool = False
    unit_parts: tuple[str, ...] = ()
    path: tuple[Hop, ...] = ()
    kind: str = ""
    keys: tuple[frozenset[str], ...] = ()
    declared_keys: tuple[frozenset[str], ...] = ()
    max_rows_per_unit: int | None = None
    max_rows_per_unit_per_group: int | None = None
    max_groups_per_unit: Mapping[frozenset[str], int] = field(default_factory=dict)
    horizon: Horizon | None = None
    where: str | None = None
    view: str | None = None
    comment: str | None = None

    @property
    def unit(self) -> tuple[str, ...]:
        """The columns of the table that name the unit; none of a public table, or where they are another table's."""
        return self.unit_parts if self.composite or self.privacy_unit is None else (self.privacy_unit,)

    def column(self, name: str) -> Column | None:
        """The visible column called `name`, or None.

        >>> Table("public", "t", (Column("a", "text"),), True, ("t",)).column("a").type
        'text'
        """
        return next((c for c in self.columns if c.name == name and not c.hidden), None)


@dataclass(frozen=True)
class Policy:
    """Every table that analysts can see, by (schema, table).

    Attributes:
        tables: the tables.
        search_path: the order of lookup.
        unit_clips: numbers of rows and sums are of units' vectors, clipped to a length that is found for each question;
            otherwise they need declared bounds of a unit's rows and values.
    """

    tables: Mapping[TableName, Table]
    search_path: tuple[str, ...] = ("public",)
    unit_clips: bool = False

    def __hash__(self) -> int:
        # A policy is a key of what is kept for it. It is compared by all that it has, which cannot all be hashed.
        return hash(self.search_path)

    @property
    def secretive(self) -> bool:
        """Whether SQL of the owner's is part of it, which analysts may not see."""
        computed = any(c.expression is not None for t in self.tables.values() for c in t.columns)
        return computed or any((t.where, t.view) != (None, None) for t in self.tables.values())

    def find(self, schema: str | None, name: str) -> Table | None:
        """The table that an analyst means by `name`, or None.

        >>> t = Table("public", "t", (), True, ("t",))
        >>> Policy({("public", "t"): t}).find(None, "t") is t
        True
        """
        schemas = (schema,) if schema else self.search_path
        return next((self.tables[s, name] for s in schemas if (s, name) in self.tables), None)
