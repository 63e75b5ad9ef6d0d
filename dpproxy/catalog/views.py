"""Views of the backend in the policy: their stored texts over its tables, refused where an analyst would be."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from dpproxy.backends.base import BackendSchema, BackendTable
from dpproxy.catalog.columns import Mistake
from dpproxy.catalog.unit_paths import Sections
from dpproxy.config.sections import TableSection, nearest
from rewriter.api import ordered_columns, stored_text, view_table
from rewriter.policy import Policy, Table, TableName, labels
from rewriter.refusal import Refusal


def with_views(policy: Policy, schema: BackendSchema, views: Sections) -> Policy:
    """The policy with `views` behind its tables, each after those that it reads.

    Raises Mistake for a view that reads anything that is not in the file, or that analysts could not write as a
    subquery themselves.
    """
    texts = {name: _text(schema, policy, views, name) for name in views}
    while texts:
        name = next((n for n, (_, read) in texts.items() if not read & texts.keys()), next(iter(texts)))
        text, read = texts.pop(name)
        policy = _with(policy, name, views, text)
        if schema.dialect == "duckdb":
            _check_order(f"tables.{views[name][0]}", text, [policy.tables[one] for one in read])
    return policy


def _text(
    schema: BackendSchema, policy: Policy, views: Sections, name: TableName
) -> tuple[str, set[TableName]]:
    """A view's text, and what it reads."""
    key, section, view = views[name]
    _check_section(f"tables.{key}", section, view)
    read: set[TableName] = set()

    def find(parts: tuple[str, ...]) -> TableName | None:
        found = [n for n, t in schema.relations.items() if t.backend_name[-len(parts) :] == parts]
        if len(found) != 1 or not (found[0] in policy.tables or found[0] in views):
            return None
        read.update(found)
        return found[0]

    try:
        return stored_text(view.definition or "", schema.dialect, find), read
    except Refusal as refusal:
        raise _mistake(key, refusal) from None


def _with(policy: Policy, name: TableName, views: Sections, text: str) -> Policy:
    key, section, view = views[name]
    hidden = {c for c, declared in section.columns.items() if declared.hidden}
    try:
        table = view_table(name, text, {c.name: c.type for c in view.columns}, hidden, policy)
    except Refusal as refusal:
        raise _mistake(key, refusal) from None
    return replace(policy, tables={**policy.tables, name: replace(table, comment=view.comment)})


def _check_order(place: str, text: str, read: Iterable[Table]) -> None:
    """DuckDB compares enumerated values with a text as texts, and with one another in their declared order."""
    enumerated = {c.name for t in read for c in t.columns if not c.hidden and labels(c.type) is not None}
    if found := sorted(enumerated & ordered_columns(text)):
        raise Mistake(
            place,
            f'the view cannot be shown: it asks for the order of "{found[0]}", an enumerated type, which DuckDB '
            "compares as a text with texts: list the labels in the view, or leave domain_from out",
        )


def _mistake(key: str, refusal: Refusal) -> Mistake:
    said = [refusal.message, *filter(None, (refusal.detail, refusal.hint))]
    if refusal.code == "42703":
        said = [f"{refusal.message}, or is hidden there: hide the columns made of it here, too"]
    return Mistake(f"tables.{key}", f"the view cannot be shown: {'; '.join(said)}")


def _check_section(place: str, section: TableSection, view: BackendTable) -> None:
    for field in sorted(section.model_fields_set - {"columns"}):
        raise Mistake(f"{place}.{field}", "is said of tables: a view has it from those that it reads")
    for name, declared in section.columns.items():
        if view.column(name) is None:
            known = nearest(name, [column.name for column in view.columns])
            raise Mistake(f"{place}.columns.{name}", "the view has no such column", known)
        if declared.model_fields_set - {"hidden"}:
            raise Mistake(
                f"{place}.columns.{name}", "a view's columns can only be hidden: declare its tables'"
            )
