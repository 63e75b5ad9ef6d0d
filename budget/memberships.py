"""Which teams analysts are in by the groups that an identity provider tells at their logins."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from budget.store import PostgresStore

# What was said by a clock that was ahead binds nobody: it is over once the clock is right.
_NOTE = """
INSERT INTO dpproxy_ledger.membership (analyst, as_of, teams)
SELECT %(analyst)s, %(as_of)s, %(teams)s::text[]
WHERE NOT EXISTS (
    SELECT FROM (
        SELECT as_of, teams FROM dpproxy_ledger.membership WHERE analyst = %(analyst)s ORDER BY number DESC LIMIT 1
    ) AS latest
    WHERE latest.as_of BETWEEN %(as_of)s AND clock_timestamp() + interval '1 minute' OR latest.teams = %(teams)s::text[]
)
RETURNING number"""
_TEAMS = """
SELECT teams FROM dpproxy_ledger.membership WHERE analyst = %(analyst)s ORDER BY number DESC LIMIT 1"""
_MEMBERS = """
SELECT analyst FROM (
    SELECT DISTINCT ON (analyst) analyst, teams FROM dpproxy_ledger.membership ORDER BY analyst, number DESC
) AS latest
WHERE %(team)s = ANY (teams) ORDER BY analyst"""


class Memberships:
    """Who is in which team, as it was last told: what was charged before stays where it was charged."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store

    def note(self, analyst: str, teams: Collection[str], as_of: datetime) -> None:
        """Puts an analyst into these teams and out of all others, unless something later is known."""
        self._store.rows(_NOTE, analyst=analyst, teams=sorted(set(teams)), as_of=as_of)

    def teams(self, analyst: str) -> tuple[str, ...]:
        """The teams of an analyst, none where nothing was told."""
        rows = self._store.rows(_TEAMS, analyst=analyst)
        return tuple(rows[0][0]) if rows else ()

    def members(self, team: str) -> tuple[str, ...]:
        """The analysts of a team."""
        return tuple(row[0] for row in self._store.rows(_MEMBERS, team=team))
