"""Where a value stands in a ledger: every column of text, and what is stored in bytes, for the caller to read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from uuid import UUID

from budget.store import PostgresStore

_COLUMNS = """
SELECT table_name, column_name FROM information_schema.columns
WHERE table_schema = 'dpproxy_ledger' AND data_type IN ('text', 'jsonb') ORDER BY 1, 2
"""
_FOUND = """
SELECT wanted.number, count(*) FROM dpproxy_ledger.{table} AS held
JOIN unnest(%(patterns)s::text[]) WITH ORDINALITY AS wanted (pattern, number) ON held.{column}::text ~ wanted.pattern
GROUP BY wanted.number ORDER BY wanted.number
"""
_ANSWERS = "SELECT answer FROM dpproxy_ledger.answer"
_PUBLISHED = "SELECT answer FROM dpproxy_ledger.publication"
_SEALED = "SELECT account, release_key, sealed FROM dpproxy_ledger.statement"
_MESSAGES = "SELECT account, reservation, sealed FROM dpproxy_ledger.failure WHERE sealed IS NOT NULL"


@dataclass(frozen=True)
class Occurrence:
    """`times` rows of a `column` hold the value of this number, from 0."""

    column: str
    value: int
    times: int


class LedgerSearch:
    """Reads all that a ledger keeps, as of one moment for each method. Each raises LedgerUnavailable."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store

    def occurrences(self, values: Sequence[str]) -> Iterator[Occurrence]:
        """The columns of text in which values stand as a whole: 42 neither in 142 nor in a42."""
        patterns = [pattern(value) for value in values]
        for table, column in self._store.rows(_COLUMNS):
            # Names of our own schema.
            statement = _FOUND.format(table=table, column=column)
            for number, times in self._store.rows(statement, patterns=patterns):
                yield Occurrence(f"{table}.{column}", number - 1, times)

    def answers(self) -> Iterator[bytes]:
        """Every stored answer."""
        return self._bytes(_ANSWERS)

    def published(self) -> Iterator[bytes]:
        """Every published answer."""
        return self._bytes(_PUBLISHED)

    def _bytes(self, statement: str) -> Iterator[bytes]:
        with self._store.snapshot() as moment:
            for (content,) in moment.rows(statement):
                yield content

    def sealed(self) -> Iterator[tuple[str, bytes, bytes]]:
        """Every text of a statement: account, release key, and what the proxy has sealed."""
        with self._store.snapshot() as moment:
            yield from moment.rows(_SEALED)

    def messages(self) -> Iterator[tuple[str, UUID, bytes]]:
        """Every message of the backend that is not cleared: account, reservation, and what the proxy has sealed."""
        with self._store.snapshot() as moment:
            yield from moment.rows(_MESSAGES)


def pattern(value: str) -> str:
    r"""A value that stands for itself, also within a literal of SQL: for PostgreSQL and for Python.

    >>> print(pattern("o'hara 1"))
    (?<![0-9A-Za-z_])(o\'hara\ 1|o\'\'hara\ 1)(?![0-9A-Za-z_])
    """
    forms = dict.fromkeys((value, value.replace("'", "''")))
    escaped = ("".join(c if c.isalnum() or c == "_" else f"\\{c}" for c in form) for form in forms)
    return rf"(?<![0-9A-Za-z_])({'|'.join(escaped)})(?![0-9A-Za-z_])"


def stands_in(value: str, text: str) -> bool:
    """Whether a value stands in a text as a whole.

    >>> stands_in("42", "person_id = 42"), stands_in("42", "LIMIT 142")
    (True, False)
    """
    return re.search(pattern(value), text) is not None
