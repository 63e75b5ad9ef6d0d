"""Which columns refer to which keys, by names and types: guesses, for schemas without foreign keys."""

from __future__ import annotations

from dpproxy.backends.base import BackendColumn, BackendTable
from dpproxy.config.values import comparable
from dpproxy.owner.people import KEY_WORDS, singular, words


def called_as(column: BackendColumn, target: BackendTable, key: str) -> bool:
    """Whether a column has the name and the type of a reference to a table's key: `customer_id` of customers.id or
    customers.customer_id."""
    return words(column.name) in _forms(target, key) and _same_type(column, target, key)


def in_a_role(column: BackendColumn, target: BackendTable, key: str) -> bool:
    """Whether a column is called as such a reference with words before it: `billing_customer_id`."""
    found = words(column.name)
    return any(len(found) > len(form) and found[-len(form) :] == form for form in _forms(target, key))


def called_after(column: BackendColumn, target: BackendTable, key: str) -> bool:
    """Whether a column is called after the table of a key: `customer_id` of customers, not of customer_profiles."""
    return words(column.name) in _table_forms(target, key)


def _forms(target: BackendTable, key: str) -> list[list[str]]:
    named = words(key)
    return [*([named] if set(named) - KEY_WORDS else []), *_table_forms(target, key)]


def _table_forms(target: BackendTable, key: str) -> list[list[str]]:
    """The table's name, in the singular and without words at its front, and the key's last word: dim_customer's
    `customer_key`."""
    table, last = words(target.name), words(key)[-1:]
    table = [*table[:-1], *map(singular, table[-1:])]
    return [[*table[place:], *last] for place in range(len(table))] if set(last) <= KEY_WORDS else []


def _same_type(column: BackendColumn, target: BackendTable, key: str) -> bool:
    other = target.column(key)
    if other is None or other.type is None or column.type is None or other.folds or column.folds:
        return False
    return comparable(column.type, other.type) and column.caseless == other.caseless
