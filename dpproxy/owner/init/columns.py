"""The proposal for each column: hidden if name or type suggest personal data, known if the type has few values."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from dpproxy.backends.base import BackendColumn, BackendSchema, BackendTable
from dpproxy.config.values import NUMBERS, RANGED, base, comparable
from dpproxy.owner.init.units import Layout, Way, shown, single_key, words
from rewriter.policy import TableName

_CONTACT = {
    *(
        "email",
        "mail",
        "phone",
        "telephone",
        "mobile",
        "cell",
        "fax",
        "address",
        "street",
        "addr",
        "ip",
        "ipv4",
    ),
    *("ipv6", "mac", "ssn", "passport", "iban", "nino", "licence", "license", "latitude", "longitude"),
    *("password", "passwd", "passphrase", "secret", "token", "hash", "salt", "login", "username", "nickname"),
    *("bic", "card", "pan", "cvv", "imei", "imsi", "fingerprint", "signature", "photo", "avatar"),
    *("geom", "geometry", "location", "gps"),
}
_NAMES = {"name", "firstname", "lastname", "surname", "fullname", "forename", "middlename", "initials"}
_SAID = {
    "email",
    "e-mail",
    "phone",
    "telephone",
    "pii",
    "gdpr",
    "personal",
    "confidential",
    "secret",
    "password",
}
_FREE = ("bytea", "json", "jsonb", "xml")
_ENTRY_HIDDEN = "{ hidden = true }"
SYSTEM_COLUMNS = {"tableoid", "xmin", "cmin", "xmax", "cmax", "ctid"}


@dataclass(frozen=True)
class ColumnSetting:
    """One line of [tables.T.columns]: the column, what the file says of it, and why."""

    column: str
    value: str
    why: str

    @property
    def hidden(self) -> bool:
        """Whether analysts will not see the column."""
        return self.value == _ENTRY_HIDDEN


def identifying(column: BackendColumn, *, names: bool) -> str | None:
    """Why a column is hidden by its name, its comment or its type; None for one that is not.

    `names`: whether names are hidden as well: of a private table they are persons', of a public one things'.

    >>> identifying(BackendColumn("home_address", "text", "VARCHAR"), names=True)
    'by its name'
    >>> identifying(BackendColumn("country", "text", "VARCHAR"), names=True) is None
    True
    """
    if column.type is None:
        return f"PostgreSQL has no type for {' '.join(column.native.split())}"
    if base(column.type).removesuffix("[]") in _FREE or column.name in SYSTEM_COLUMNS:
        return (
            f"{column.type} holds anything"
            if column.name not in SYSTEM_COLUMNS
            else "PostgreSQL has such a column"
        )
    found = set(words(column.name))
    joined = "".join(words(column.name))
    if found & _CONTACT or any(word in joined for word in ("email", "phone", "passw", "address")):
        return "by its name"
    if names and (found & _NAMES or joined in _NAMES):
        return "by its name"
    said = set(re.findall(r"[\w-]+", (column.comment or "").lower()))
    return "by its comment" if said & _SAID else None


def private_entries(schema: BackendSchema, table: TableName, plan: Layout) -> Iterator[ColumnSetting]:
    """The entries of a private table's columns, in the backend's order."""
    found, way = schema.tables[table], plan.private[table]
    for column in found.columns:
        if column.name == way.column:
            continue
        if why := identifying(column, names=True) or _other_unit(found, column, table, plan):
            yield ColumnSetting(column.name, _ENTRY_HIDDEN, why)
        elif column.name == plan.unit.column and not (
            single_key(found) == column.name or _holds_unit(way, plan)
        ):
            yield ColumnSetting(column.name, _ENTRY_HIDDEN, f"by its name a unit, though not {plan.unit}")
        else:
            yield _open_entry(schema, found, column, plan)


def public_entries(table: BackendTable) -> Iterator[ColumnSetting]:
    """The entries of a public table: what is hidden all the same."""
    for column in table.columns:
        if why := identifying(column, names=False):
            yield ColumnSetting(column.name, _ENTRY_HIDDEN, why)


def _other_unit(table: BackendTable, column: BackendColumn, name: TableName, plan: Layout) -> str | None:
    """A reference to rows of private tables that is not the table's way names other units, perhaps."""
    for key in table.foreign_keys:
        if column.name in key.columns and (key.target in plan.private or key.target == name):
            return f"refers to {shown(key.target)}, perhaps to another unit's row"
    return None


def _holds_unit(way: Way, plan: Layout) -> bool:
    """Whether a way's column holds the unit itself, hop by hop."""
    while way.target is not None:
        following = plan.private[way.target.table]
        if following.column != way.target.column:
            return False
        way = following
    return True


def _open_entry(
    schema: BackendSchema, table: BackendTable, column: BackendColumn, plan: Layout
) -> ColumnSetting:
    kind = str(column.type)
    nullable = ", nullable = true" if column.nullable else ""
    for key in table.foreign_keys:
        if key.columns == (column.name,) and key.target in plan.public:
            target = schema.tables[key.target].column(key.target_columns[0])
            if target is not None and target.type is not None and comparable(kind, target.type):
                source = f'"{shown(key.target)}.{target.name}"'
                return ColumnSetting(
                    column.name, f"{{ domain_from = {source}{nullable} }}", f"{kind}; refers to it"
                )
    if column.values is not None:
        return ColumnSetting(column.name, "{}", f"the {len(column.values)} values of its type are known")
    if kind == "boolean":
        return ColumnSetting(column.name, f"{{ domain = [true, false]{nullable} }}", kind)
    return ColumnSetting(column.name, "{}", f"{kind}{_advice(kind)}")


def _advice(kind: str) -> str:
    """What an owner who knows more may write in place of {}."""
    if base(kind) in NUMBERS:
        return "; if you know them: { bounds = [0, 100] }"
    if base(kind) in RANGED:
        return '; if you know it: { range = ["2024-01-01", "2024-12-31"] }'
    return (
        '; if you know all values: { domain = ["a", "b"] }'
        if base(kind) in ("text", "character varying")
        else ""
    )
