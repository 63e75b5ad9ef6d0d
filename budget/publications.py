"""Published answers: rows that everybody may read free of charge, and when they are refreshed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal
from uuid import UUID

from budget.account import Charge, LedgerError
from budget.store import Conflict, PostgresStore, Row

Refresh = Literal["epoch", "period", "once"]
Columns = tuple[tuple[str, str], ...]
"""The name and the type of each column."""
Choices = Mapping[str, Sequence[int]]
"""Private choices, by what they were made for."""

_SHOWN = (
    "id, name, version, publisher, query, settings, refresh, columns, comments, information, calls, released_at,"
    " due_at, failure, choices"
)
_ONE = f"SELECT {_SHOWN} FROM dpproxy_ledger.publication WHERE name = %(name)s"
_ALL = f"SELECT {_SHOWN} FROM dpproxy_ledger.publication ORDER BY number"
_ANSWER = "SELECT answer FROM dpproxy_ledger.publication WHERE id = %(id)s AND version = %(version)s"
_ADD = f"""
INSERT INTO dpproxy_ledger.publication
    (name, publisher, query, settings, refresh, columns, comments, answer, information, calls, released_at, due_at,
    choices)
VALUES (%(name)s, %(publisher)s, %(query)s, %(settings)s::jsonb, %(refresh)s, %(columns)s::jsonb, '{{}}'::jsonb,
    %(answer)s, %(information)s, %(calls)s, %(released_at)s, %(due_at)s, %(choices)s::jsonb)
RETURNING {_SHOWN}
"""
_DROP = "DELETE FROM dpproxy_ledger.publication WHERE id = %(id)s RETURNING name"
_RENAME = f"""
UPDATE dpproxy_ledger.publication SET name = %(other)s, version = gen_random_uuid() WHERE id = %(id)s
RETURNING {_SHOWN}
"""
_COMMENT = f"""
UPDATE dpproxy_ledger.publication
SET comments = (comments - %(place)s::text) || %(added)s::jsonb, version = gen_random_uuid() WHERE id = %(id)s
RETURNING {_SHOWN}
"""
_CLAIM = """
UPDATE dpproxy_ledger.publication
SET claim = gen_random_uuid(), due_at = %(until)s, failure = %(failure)s, version = gen_random_uuid()
WHERE id = %(id)s AND due_at <= %(now)s
RETURNING claim
"""
_TAKE = _CLAIM.replace(" AND due_at <= %(now)s", "")
_RENEW = f"""
UPDATE dpproxy_ledger.publication
SET columns = %(columns)s::jsonb, answer = %(answer)s, information = %(information)s, calls = %(calls)s,
    released_at = %(released_at)s, due_at = %(due_at)s, choices = %(choices)s::jsonb, failure = NULL, claim = NULL,
    version = gen_random_uuid()
WHERE id = %(id)s AND claim = %(claim)s
RETURNING {_SHOWN}
"""
_FAIL = f"""
UPDATE dpproxy_ledger.publication
SET due_at = %(due_at)s, failure = %(failure)s, claim = NULL, version = gen_random_uuid()
WHERE id = %(id)s AND claim = %(claim)s
RETURNING {_SHOWN}
"""


class NameTaken(LedgerError):
    """Another published answer has this name."""


@dataclass(frozen=True)
class Released:
    """An answer as it is published: its columns, its rows in whatever form, and what the publisher paid for it.

    `due_at`: when it is to be refreshed, None for never. `choices`: the private choices in it, by what they were made
    for, in whatever form.
    """

    columns: Columns
    answer: bytes
    charged: Charge
    released_at: datetime
    due_at: datetime | None
    choices: Choices = field(default_factory=dict)


@dataclass(frozen=True)
class PublishedAnswer:
    """A published answer without its rows.

    Attributes:
        id, name: its identity, and its name in the schema published.
        version: changes with every change.
        publisher: the analyst whose account pays.
        query, settings: the query, and the settings of the publisher's session; a refresh runs it with them.
        refresh: when it is refreshed.
        columns: the names and types of its columns.
        comments: by column; the table's own under the empty name.
        charged: the cost of the last release.
        released_at, due_at: when its rows were released, and when they are refreshed next.
        failure: why the last refresh failed, None where it did not.
        choices: the private choices in it, which a refresh uses again.
    """

    id: UUID
    name: str
    version: UUID
    publisher: str
    query: str
    settings: Mapping[str, str]
    refresh: Refresh
    columns: Columns
    comments: Mapping[str, str]
    charged: Charge
    released_at: datetime
    due_at: datetime | None
    failure: str | None
    choices: Choices


class Publications:
    """The published answers; a change is durable when its call returns."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store

    def all(self) -> tuple[PublishedAnswer, ...]:
        """All published answers in the order of their creation: an answer that reads another comes after it."""
        return tuple(map(_published, self._store.rows(_ALL)))

    def get(self, name: str) -> PublishedAnswer | None:
        """The published answer of a name."""
        return _first(self._store.rows(_ONE, name=name))

    def answer(self, one: PublishedAnswer) -> bytes | None:
        """The rows of a published answer, None if it was changed after `one` was read."""
        rows = self._store.rows(_ANSWER, id=one.id, version=one.version)
        return rows[0][0] if rows else None

    def publish(
        self,
        name: str,
        publisher: str,
        query: str,
        settings: Mapping[str, str],
        refresh: Refresh,
        released: Released,
    ) -> PublishedAnswer:
        """Keeps an answer under a new name; raises NameTaken."""
        values = {
            "name": name,
            "publisher": publisher,
            "query": query,
            "settings": json.dumps(dict(settings)),
            "refresh": refresh,
        }
        try:
            return _published(self._store.rows(_ADD, **values, **_values(released))[0])
        except Conflict as error:
            raise NameTaken(f"{name} is published already") from error

    def unpublish(self, one: PublishedAnswer) -> bool:
        """Removes a published answer; False where it does not exist."""
        return bool(self._store.rows(_DROP, id=one.id))

    def rename(self, one: PublishedAnswer, other: str) -> PublishedAnswer | None:
        """Renames a published answer; None where it does not exist. Raises NameTaken."""
        try:
            return _first(self._store.rows(_RENAME, id=one.id, other=other))
        except Conflict as error:
            raise NameTaken(f"{other} is published already") from error

    def comment(self, one: PublishedAnswer, column: str, comment: str | None) -> PublishedAnswer | None:
        """Sets or removes the comment of a published answer or of its `column`; None if the answer does not exist."""
        added = {} if comment is None else {column: comment}
        return _first(self._store.rows(_COMMENT, id=one.id, place=column, added=json.dumps(added)))

    def claim_refresh(
        self, one: PublishedAnswer, until: datetime | None, failure: str, *, due: datetime | None
    ) -> UUID | None:
        """Claims the refresh of an answer, which only one process then runs. None if it is not due.

        `until`: when it is due again if the claim is never ended; `failure`: the failure that is shown until then;
        `due`: the time by which it must be due, None for a refresh out of turn.
        """
        values = {"id": one.id, "until": until, "failure": failure}
        rows = (
            self._store.rows(_TAKE, **values) if due is None else self._store.rows(_CLAIM, now=due, **values)
        )
        return rows[0][0] if rows else None

    def refreshed(self, one: PublishedAnswer, claim: UUID, released: Released) -> PublishedAnswer | None:
        """Ends a claim with a new answer; None where it is gone, or claimed by another since."""
        return _first(self._store.rows(_RENEW, id=one.id, claim=claim, **_values(released)))

    def refresh_failed(
        self, one: PublishedAnswer, claim: UUID, failure: str, due_at: datetime | None
    ) -> None:
        """Ends a claim without an answer: the old one stays."""
        self._store.rows(_FAIL, id=one.id, claim=claim, failure=failure, due_at=due_at)


def _values(released: Released) -> dict[str, object]:
    return {
        "columns": json.dumps(released.columns),
        "answer": released.answer,
        "information": released.charged.information,
        "calls": released.charged.calls,
        "released_at": released.released_at,
        "due_at": released.due_at,
        "choices": json.dumps(dict(released.choices)),
    }


def _first(rows: list[Row]) -> PublishedAnswer | None:
    return _published(rows[0]) if rows else None


def _published(row: Row) -> PublishedAnswer:
    id, name, version, publisher, query, settings, refresh, columns, comments, information, calls, *rest = row
    return PublishedAnswer(
        id,
        name,
        version,
        publisher,
        query,
        settings,
        refresh,
        tuple((column, kind) for column, kind in columns),
        comments,
        Charge(information, calls),
        *rest,
    )
