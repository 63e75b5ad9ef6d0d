"""The proposal for each column: hidden if name or type suggest personal data, known if the type has few values."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from dpproxy.backends.base import BackendColumn, BackendSchema, BackendTable
from dpproxy.config.values import TEXTS, base, comparable
from dpproxy.owner.init.names import called_as, in_a_role
from dpproxy.owner.init.units import Layout, Place, Way, shown, single_key
from dpproxy.owner.people import KEY_WORDS, other_people, singular, words
from rewriter.policy import TableName, shown_type

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
    *("aadhaar", "bsn", "cpf", "dni", "ehic", "mrn", "nhs", "nif", "pesel"),
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
_IDENTIFIERS = {
    *(
        "accountnumber",
        "address",
        "email",
        "insuranceno",
        "insurancenr",
        "insurancenumber",
        "medicalrecord",
        "nationalid",
        "passw",
        "phone",
    ),
    *("policynumber", "recordnumber", "socialsecurity", "taxid"),
}
"""Letters within a name; the other sets are of whole words."""
_FREE_TEXT = {
    *(
        "bio",
        "body",
        "comment",
        "complaint",
        "content",
        "description",
        "detail",
        "feedback",
        "freetext",
        "memo",
    ),
    *("message", "narrative", "note", "remark", "review", "summary", "text", "transcript"),
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
    if by_its_name(column) or (names and _of_a_person(column.name)):
        return "by its name"
    said = set(re.findall(r"[\w-]+", (column.comment or "").lower()))
    return "by its comment" if said & _SAID else None


def by_its_name(column: BackendColumn) -> bool:
    """Whether a column's name means contacts, places, identifiers or secrets, whoever it is of."""
    return _contact(column.name)


def holds_contacts(table: BackendTable) -> bool:
    """Whether a table's name means people's contacts, identifiers or secrets; locations may be those of things."""
    name = " ".join(singular(word) for word in words(table.name) if singular(word) != "location")
    return _contact(name)


def _contact(name: str) -> bool:
    found, joined = set(words(name)), "".join(words(name))
    return bool(found & _CONTACT) or any(letters in joined for letters in _IDENTIFIERS)


def _last(name: str) -> str:
    return (words(name) or [""])[-1]


def _of_a_person(name: str) -> bool:
    found = words(name)
    return bool(set(found) & _NAMES) or "".join(found) in _NAMES


def private_entries(schema: BackendSchema, table: TableName, plan: Layout) -> Iterator[ColumnSetting]:
    """The entries of a private table's columns, in the backend's order."""
    found, way = schema.tables[table], plan.private[table]
    for column in found.columns:
        if column.name == way.column:
            continue
        if why := _hidden(schema, table, column, plan):
            yield ColumnSetting(column.name, _ENTRY_HIDDEN, why)
        else:
            yield _open_entry(schema, found, column, plan)


def person_entries(table: BackendTable) -> Iterator[ColumnSetting]:
    """The entries of a table of other persons, if it were private: what is hidden by name, comment or type."""
    for column in table.columns:
        if why := identifying(column, names=True):
            yield ColumnSetting(column.name, _ENTRY_HIDDEN, why)


def public_entries(table: BackendTable) -> Iterator[ColumnSetting]:
    """The entries of a public table: what is hidden all the same."""
    for column in table.columns:
        if why := _hidden_in_public(table, column):
            yield ColumnSetting(column.name, _ENTRY_HIDDEN, why)


def _hidden_in_public(table: BackendTable, column: BackendColumn) -> str | None:
    """A key of things is none of a person, whatever word it has: location_id."""
    is_key = column.name == single_key(table) or any(column.name in k.columns for k in table.foreign_keys)
    why = identifying(column, names=False)
    return None if is_key and _last(column.name) in KEY_WORDS and why == "by its name" else why


def _hidden(schema: BackendSchema, name: TableName, column: BackendColumn, plan: Layout) -> str | None:
    """Why a column of a private table is hidden; None for one that is not."""
    table, way, unit = schema.tables[name], plan.private[name], plan.unit
    reference = _dimension(schema, table, column, plan) is not None
    why = identifying(column, names=True)
    if why is not None and not (reference and why == "by its name"):
        return why
    if why := _other_unit(schema, name, column, plan):
        return why
    own_key = single_key(table) == column.name
    if column.name == unit.column and not (own_key or _holds_unit(way, plan)):
        return f"by its name a unit, though not {unit}"
    if how := other_people(table, column, unit.table):
        return f"{how}: not protected, only {unit} is"
    if reference:
        return None
    if base(str(column.type)) in TEXTS and singular(_last(column.name)) in _FREE_TEXT and not column.values:
        return "free text, which may tell of a person"
    if (
        name == unit.table
        and ((column.name,) in table.unique or own_key)
        and not _led_to(column.name, name, plan)
    ):
        return "unique, so that it names a person"
    if (column.name,) in table.unique and not own_key and base(str(column.type)) in TEXTS:
        return "unique, so that it names a row"
    return None


def _led_to(column: str, table: TableName, plan: Layout) -> bool:
    return any(way.target == Place(table, column) for way in plan.private.values())


def _other_unit(schema: BackendSchema, name: TableName, column: BackendColumn, plan: Layout) -> str | None:
    """A reference to rows of private tables that is not the table's way names other units, perhaps."""
    holder = schema.tables[plan.unit.table]
    for key in schema.tables[name].foreign_keys:
        if column.name in key.columns and (key.target in plan.private or key.target == name):
            return f"refers to {shown(key.target)}, perhaps to another unit's row"
    if in_a_role(column, holder, plan.unit.column) or (
        plan.private[name].target is not None and called_as(column, holder, plan.unit.column)
    ):
        return f"is called as {plan.unit}, perhaps of another unit"
    return None


def _dimension(
    schema: BackendSchema, table: BackendTable, column: BackendColumn, plan: Layout
) -> Place | None:
    """The key of a table that is public, or may become it, to which a column refers by a foreign key or by its name."""
    tables = (*plan.public, *plan.dimensions)
    for key in table.foreign_keys:
        if key.columns == (column.name,) and key.target in tables:
            return Place(key.target, key.target_columns[0])
    for name in tables:
        target = schema.tables[name]
        if (key_name := single_key(target)) is not None and called_as(column, target, key_name):
            return Place(name, key_name)
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
    kind = shown_type(str(column.type))
    nullable = ", nullable = true" if column.nullable else ""
    refers = _dimension(schema, table, column, plan)
    if refers is not None and _lists(schema.tables[refers.table], refers.column, column):
        entry = f'{{ domain_from = "{refers}"{nullable} }}'
        if refers.table in plan.public and any(
            key.columns == (column.name,) and key.target == refers.table for key in table.foreign_keys
        ):
            return ColumnSetting(column.name, entry, f"{kind}; refers to it")
        when = "a guess" if refers.table in plan.public else f"if {shown(refers.table)} is public"
        return ColumnSetting(column.name, "{}", f"{kind}; {when}: {entry}")
    if column.values is not None and column.copied:
        entry = f'{{ domain_from = "type"{nullable} }}'
        return ColumnSetting(
            column.name, "{}", f"{kind}; if the values of its type tell nothing of a person: {entry}"
        )
    if column.values is not None:
        return ColumnSetting(column.name, "{}", f"the {len(column.values)} values of its type are known")
    if kind == "boolean":
        return ColumnSetting(column.name, f"{{ domain = [true, false]{nullable} }}", kind)
    return ColumnSetting(column.name, "{}", kind)


def _lists(target: BackendTable, name: str, column: BackendColumn) -> bool:
    """Whether a public column can be the domain: shown, of a type like it, and spelt as the values are; a key that
    ignores case has each value in one spelling only, and rows with another would be in no group."""
    source = target.column(name)
    if source is None or source.type is None or _hidden_in_public(target, source) is not None:
        return False
    return comparable(str(column.type), source.type) and not (source.caseless or source.folds or column.folds)
