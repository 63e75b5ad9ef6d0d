"""How far a ledger was verified: what its entries came to there, and a digest of them.

A checkpoint is to be kept outside of the ledger, sealed, since whoever could write one could pass over anything.
What it proves: docs/ledger.md. Why: docs/decisions/checkpoints-skip-reading.md.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from hashlib import sha256
from typing import Self

from budget.audit import Difference

SETTLED = timedelta(hours=1)
"""Entries that are older than this have no predecessor that is yet to be committed: numbers are drawn before."""
BLOCK = 1 << 18
"""Numbers of entries that are digested at a time."""

DIGEST = """
SELECT sha256(string_agg(sha256(record_send(ROW(number, reservation, account, own, stage, kind, at_most_information,
    at_most_calls, at_most_epsilon, information, calls, epsilon, period_number, written_at, mechanism, query,
    release_key, replayed, noise, attributed))), ''::bytea ORDER BY number))
FROM dpproxy_ledger.entry WHERE number > %(after)s AND number <= %(until)s
"""

REPEATED = """
SELECT later.account, later.number
FROM dpproxy_ledger.entry AS later
JOIN dpproxy_ledger.entry AS earlier
    ON earlier.reservation = later.reservation AND earlier.account = later.account AND earlier.stage = later.stage
WHERE later.number > %(after)s AND earlier.number <= %(after)s
ORDER BY later.number LIMIT 1
"""
"""An entry that says again what one of those verified before has said."""


UNCHARGED = """
SELECT later.account, later.number FROM dpproxy_ledger.entry AS later
WHERE later.number > %(after)s AND later.kind = 'settle' AND later.replayed AND NOT later.own
    AND (later.information, later.calls) = (0, 0)
    AND (later.at_most_information, later.at_most_calls) <> (0, 0)
    AND NOT EXISTS (
        SELECT 1 FROM dpproxy_ledger.entry AS first
        WHERE first.release_key = later.release_key AND first.account = later.account
            AND first.period_number = later.period_number AND first.number < later.number
            AND first.kind = 'settle' AND NOT first.own AND first.information + first.calls > 0
            AND (first.information, first.calls) = (first.at_most_information, first.at_most_calls)
    )
    AND NOT EXISTS (
        SELECT 1 FROM dpproxy_ledger.look AS told
        JOIN dpproxy_ledger.look AS other ON other.stream = told.stream
        JOIN dpproxy_ledger.entry AS first ON first.release_key = other.release_key
        WHERE told.release_key = later.release_key AND first.account = later.account
            AND first.period_number = later.period_number AND first.number < later.number
            AND first.kind = 'settle' AND NOT first.own AND first.information + first.calls > 0
            AND (first.information, first.calls) = (first.at_most_information, first.at_most_calls)
    )
ORDER BY later.number LIMIT 1
"""
"""A shared account's entry that cost nothing for an answer, or for a look at a stream, that it was not charged for
before in this period."""


@dataclass(frozen=True)
class Checkpoint:
    """The entries of `ledger` up to `number` were found consistent; `digest`: of them, in hex; `state`: what they come
    to, as `Recomputation.dump` has it.

    >>> one = Checkpoint("a ledger", 7, "ab", "{}")
    >>> Checkpoint.load(one.dump()) == one
    True
    """

    ledger: str
    number: int
    digest: str
    state: str

    def dump(self) -> str:
        """One line of JSON."""
        return json.dumps(vars(self))

    @classmethod
    def load(cls, text: str) -> Self:
        """What `dump` wrote."""
        return cls(**json.loads(text))


@dataclass(frozen=True)
class Verified:
    """What a verification found: the first `difference`, how many entries it read, and how far the next one need not
    go back (None where there is a difference)."""

    difference: Difference | None
    entries: int
    checkpoint: Checkpoint | None


def digest(blocks: Mapping[int, bytes | None]) -> str:
    """The digest of all entries by those of their blocks, None for a block without any."""
    said = [number.to_bytes(8) + part for number, part in sorted(blocks.items()) if part is not None]
    return sha256(b"".join(said)).hexdigest()
