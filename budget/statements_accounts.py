"""The SQL of accounts: seeding, limits, and what they and their entries show."""

from __future__ import annotations

from budget.statements import live

SEED = """
WITH seeded AS (
    INSERT INTO dpproxy_ledger.account (name, limit_information, limit_calls, limit_epsilon, period, mode, frozen)
    VALUES (%(account)s, %(information)s, %(calls)s, %(epsilon)s, %(period)s, %(mode)s,
        %(mode)s = 'enforce' AND EXISTS (
            SELECT 1 FROM dpproxy_ledger.pinned
            WHERE name LIKE 'lost %%' AND clock_timestamp() < CASE %(period)s::text
                WHEN 'day' THEN value::timestamptz + interval '24 hours'
                WHEN 'week' THEN value::timestamptz + interval '168 hours'
                WHEN 'month' THEN value::timestamptz + interval '720 hours'
                ELSE 'infinity'::timestamptz END
        )
    )
    ON CONFLICT (name) DO NOTHING
    RETURNING name
)
SELECT count(*) FROM seeded
"""
"""Frozen within a period of a loss: the ledger may have had the account, with a balance."""

NOTE_LOSS = """
INSERT INTO dpproxy_ledger.pinned (name, value)
SELECT 'lost ' || (count(*) + 1), clock_timestamp()::text FROM dpproxy_ledger.pinned WHERE name LIKE 'lost %%'
ON CONFLICT (name) DO NOTHING
RETURNING name
"""

LOCK_SPENDERS = """
SELECT name FROM dpproxy_ledger.account WHERE %(members)s::text[] IS NULL OR name = ANY(%(members)s)
ORDER BY name FOR NO KEY UPDATE
"""

CARRY = """
WITH shared AS (
    SELECT name, mode, now_at, CASE period
        WHEN 'day' THEN now_at - interval '24 hours'
        WHEN 'week' THEN now_at - interval '168 hours'
        WHEN 'month' THEN now_at - interval '720 hours'
        ELSE '-infinity'::timestamptz END AS since
    FROM (SELECT *, GREATEST(seen_at, clock_timestamp()) AS now_at FROM dpproxy_ledger.account) AS account
    WHERE name = %(account)s AND NOT EXISTS (SELECT 1 FROM dpproxy_ledger.entry WHERE entry.account = account.name)
),
charged AS (
    SELECT opening.number, opening.reservation, opening.at_most_information, opening.at_most_calls,
        opening.at_most_epsilon, opening.written_at AS opened_at, resolution.written_at AS resolved_at, resolution.kind,
        CASE WHEN resolution.written_at <= shared.since THEN 1 ELSE 2 END AS period_number
    FROM shared
    JOIN dpproxy_ledger.entry AS opening ON opening.own AND opening.stage = 0
        AND (%(members)s::text[] IS NULL OR opening.account = ANY(%(members)s))
    LEFT JOIN dpproxy_ledger.entry AS resolution ON resolution.reservation = opening.reservation
        AND resolution.account = opening.account AND resolution.stage = 1
    WHERE resolution.kind IS DISTINCT FROM 'release'
),
facts AS (
    SELECT number, reservation, 0 AS stage, 'reserve' AS kind, NULL::smallint AS opened, at_most_information,
        at_most_calls, at_most_epsilon, 0 AS information, 0 AS calls, 0 AS epsilon, period_number,
        opened_at AS written_at
    FROM charged
    UNION ALL
    SELECT number, reservation, 1, kind, 0, at_most_information, at_most_calls, at_most_epsilon,
        at_most_information, at_most_calls, at_most_epsilon, period_number, resolved_at
    FROM charged WHERE kind IS NOT NULL
),
carried AS (
    INSERT INTO dpproxy_ledger.entry (
        reservation, account, own, stage, kind, opened, at_most_information, at_most_calls, at_most_epsilon,
        information, calls, epsilon, period_number, written_at
    )
    SELECT reservation, %(account)s, false, stage, kind, opened, at_most_information, at_most_calls, at_most_epsilon,
        information, calls, epsilon, period_number, written_at
    FROM facts ORDER BY period_number, stage, number
    RETURNING stage, at_most_information, at_most_calls, at_most_epsilon, information, calls, epsilon, period_number,
        written_at
),
total AS (
    SELECT COALESCE(sum(information) FILTER (WHERE period_number = 2), 0)::bigint AS used_information,
        COALESCE(sum(calls) FILTER (WHERE period_number = 2), 0)::bigint AS used_calls,
        COALESCE(sum(epsilon) FILTER (WHERE period_number = 2), 0) AS used_epsilon,
        sum(CASE stage WHEN 0 THEN at_most_information ELSE -at_most_information END)::bigint AS held_information,
        sum(CASE stage WHEN 0 THEN at_most_calls ELSE -at_most_calls END)::bigint AS held_calls,
        sum(CASE stage WHEN 0 THEN at_most_epsilon ELSE -at_most_epsilon END) AS held_epsilon,
        min(written_at) FILTER (WHERE period_number = 2 AND stage = 1) AS started
    FROM carried HAVING count(*) > 0
)
UPDATE dpproxy_ledger.account SET
    used_information = total.used_information,
    used_calls = total.used_calls,
    reserved_information = total.held_information,
    reserved_calls = total.held_calls,
    used_epsilon = total.used_epsilon,
    reserved_epsilon = total.held_epsilon,
    limit_information = CASE account.mode WHEN 'track' THEN limit_information
        ELSE GREATEST(limit_information, total.used_information + total.held_information) END,
    limit_calls = CASE account.mode WHEN 'track' THEN limit_calls
        ELSE GREATEST(limit_calls, total.used_calls + total.held_calls) END,
    frozen = account.frozen OR account.mode = 'enforce' AND (
        total.used_information + total.held_information > limit_information
        OR total.used_calls + total.held_calls > limit_calls),
    period_number = 2,
    period_first = 2,
    period_started = COALESCE(total.started, shared.now_at),
    seen_at = shared.now_at
FROM shared, total
WHERE account.name = shared.name
RETURNING account.name
"""

NOTE_LIMIT = """
INSERT INTO dpproxy_ledger.limit_change (
    account, limit_information, limit_calls, limit_epsilon, period, mode, frozen, changed_at
)
SELECT name, limit_information, limit_calls, limit_epsilon, period, mode, frozen, seen_at
FROM dpproxy_ledger.account AS account
WHERE name = %(account)s AND NOT EXISTS (
    SELECT 1 FROM dpproxy_ledger.limit_change AS noted
    WHERE noted.number = (SELECT max(number) FROM dpproxy_ledger.limit_change WHERE account = %(account)s)
        AND noted.limit_information = account.limit_information AND noted.limit_calls = account.limit_calls
        AND noted.limit_epsilon = account.limit_epsilon
        AND noted.period = account.period AND noted.mode = account.mode AND noted.frozen = account.frozen
)
"""


def _covering(lock: str) -> str:
    """Accounts as of now, with `used` as a period of the length `period` has it.

    A longer one than the present one covers earlier periods: whole ones, of which any entry lies within its length
    before now, and begins with the first such entry. So nothing is forgotten by making a period shorter and longer
    again. What the present period has used counts in any case.
    """
    return f"""
    {live(lock)},
    longer AS (
        SELECT live.*, CASE %(period)s::text
            WHEN 'week' THEN seen_at - interval '168 hours'
            WHEN 'month' THEN seen_at - interval '720 hours'
            ELSE '-infinity'::timestamptz END AS since
        FROM live
        WHERE array_position(ARRAY['day', 'week', 'month', 'none'], period)
            < array_position(ARRAY['day', 'week', 'month', 'none'], %(period)s::text)
    ),
    earlier AS (
        SELECT longer.name, min(entry.period_number) AS period_first, min(entry.written_at) AS period_started
        FROM longer JOIN dpproxy_ledger.entry AS entry ON entry.account = longer.name
        WHERE entry.stage = 1 AND entry.kind <> 'replay' AND entry.written_at > longer.since
        GROUP BY longer.name
    ),
    spent AS (
        SELECT earlier.name, earlier.period_first, earlier.period_started,
            sum(entry.information)::bigint AS information, sum(entry.calls)::bigint AS calls,
            sum(entry.epsilon) AS epsilon
        FROM earlier JOIN dpproxy_ledger.entry AS entry ON entry.account = earlier.name
        WHERE entry.stage = 1 AND entry.period_number >= earlier.period_first
        GROUP BY earlier.name, earlier.period_first, earlier.period_started
    ),
    covering AS (
        SELECT live.name, live.period_number, live.seen_at,
            live.reserved_information, live.reserved_calls, live.reserved_epsilon,
            GREATEST(live.used_information, spent.information) AS used_information,
            GREATEST(live.used_calls, spent.calls) AS used_calls,
            GREATEST(live.used_epsilon, spent.epsilon) AS used_epsilon,
            LEAST(live.period_first, spent.period_first) AS period_first,
            spent.period_started
        FROM live LEFT JOIN spent ON spent.name = live.name
    )"""


COVERED = f"""
WITH {_covering("")}
SELECT used_information, used_calls, used_epsilon, reserved_information, reserved_calls, reserved_epsilon
FROM covering
"""

SET_LIMIT = f"""
WITH {_covering("FOR NO KEY UPDATE")}
UPDATE dpproxy_ledger.account SET
    limit_information = %(information)s, limit_calls = %(calls)s, limit_epsilon = %(epsilon)s,
    period = %(period)s, mode = %(mode)s,
    used_information = covering.used_information,
    used_calls = covering.used_calls,
    used_epsilon = covering.used_epsilon,
    period_number = covering.period_number,
    period_first = covering.period_first,
    period_started = COALESCE(covering.period_started, account.period_started),
    seen_at = covering.seen_at
FROM covering
WHERE account.name = covering.name AND (
    %(mode)s = 'track' OR (
        covering.used_calls + covering.reserved_calls <= %(calls)s
        AND (
            covering.used_information + covering.reserved_information <= %(information)s
            OR covering.used_epsilon + covering.reserved_epsilon <= %(epsilon)s
        )
    )
)
RETURNING account.name
"""

LIMIT_IS_SET = """
UPDATE dpproxy_ledger.account SET limit_information = -1
WHERE name = %(account)s AND (limit_information, limit_calls, limit_epsilon, period, mode)
    IS DISTINCT FROM (%(information)s, %(calls)s, %(epsilon)s, %(period)s, %(mode)s)
"""
"""Violates a constraint, so that the transaction fails, where SET_LIMIT has not changed an account that exists."""

FREEZE = """
UPDATE dpproxy_ledger.account SET frozen = %(frozen)s, seen_at = GREATEST(seen_at, clock_timestamp())
WHERE name = %(account)s RETURNING name
"""

_BALANCE = """
SELECT name, limit_information, limit_calls, limit_epsilon, used_information, used_calls, used_epsilon,
    reserved_information, reserved_calls, reserved_epsilon, refreshes_at, period, mode, frozen
FROM live
"""

BUDGET = f"WITH {live('')} {_BALANCE}"

ACCOUNTS = f"""
WITH {live("").replace("WHERE name = ANY(%(chain)s)", "")} {_BALANCE} ORDER BY name
"""

_LIMITS = "SELECT changed_at, limit_information, limit_calls, period, mode, limit_epsilon, frozen"
LIMITS = f"""
{_LIMITS} FROM dpproxy_ledger.limit_change WHERE account = %(account)s ORDER BY number
"""

ALL_LIMITS = f"""
{_LIMITS}, account FROM dpproxy_ledger.limit_change ORDER BY account, number
"""


def _page(way: str, kinds: str, noise: str = "page.noise", more: str = "", joined: str = "") -> str:
    """Releases of an account in order of time, the first `most` of them in the direction `way`.

    Each row is joined to others by LATERAL with a LIMIT, which keeps every plan to one look into an index a row: the
    statements are planned once for all accounts.
    """
    return f"""
WITH page AS MATERIALIZED (
    SELECT * FROM dpproxy_ledger.entry
    WHERE account = %(account)s AND own AND kind IN ('settle', 'spend', 'replay') AND kind IN ({kinds})
        AND written_at >= COALESCE(%(since)s::timestamptz, '-infinity')
        AND written_at < COALESCE(%(until)s::timestamptz, 'infinity')
    ORDER BY written_at {way}, number {way} LIMIT %(most)s
)
SELECT page.written_at, COALESCE(page.query, opening.query, '') AS query,
    COALESCE(page.mechanism, opening.mechanism, '') AS mechanism, COALESCE({noise}, '') AS noise,
    page.information, page.calls, page.replayed, COALESCE(page.attributed, opening.attributed, '') AS attributed{more}
FROM page
LEFT JOIN LATERAL (
    SELECT query, mechanism, attributed FROM dpproxy_ledger.entry
    WHERE entry.reservation = page.reservation AND entry.account = page.account AND entry.stage = 0 LIMIT 1
) AS opening ON true{joined}
ORDER BY page.written_at {way}, page.number {way}
"""


_ASKED = """,
    COALESCE(opening.query, asked.query, '') AS asked, page.release_key, statement.sealed"""
_JOINED = """
LEFT JOIN LATERAL (
    SELECT opened.query
    FROM dpproxy_ledger.entry AS bought
    JOIN dpproxy_ledger.entry AS opened
        ON opened.reservation = bought.reservation AND opened.account = bought.account AND opened.stage = 0
    WHERE page.kind = 'replay' AND bought.account = page.account AND bought.own AND bought.kind = 'settle'
        AND bought.release_key = page.release_key
    ORDER BY bought.number LIMIT 1
) AS asked ON true
LEFT JOIN LATERAL (
    SELECT sealed FROM dpproxy_ledger.statement
    WHERE statement.account = page.account AND statement.release_key = page.release_key LIMIT 1
) AS statement ON true"""

_ANSWERED = "'settle', 'spend', 'replay'"
HISTORY, HISTORY_BACKWARDS = (_page(way, _ANSWERED, more=_ASKED, joined=_JOINED) for way in ("ASC", "DESC"))
"""Oldest first, and newest first."""

_NOISE_BOUGHT = """NULLIF(page.noise, ''), (
        SELECT bought.noise FROM dpproxy_ledger.entry AS bought
        WHERE bought.account = page.account AND bought.own AND bought.kind = 'settle'
            AND bought.release_key = page.release_key AND bought.noise <> '' AND bought.number < page.number
        ORDER BY bought.number DESC LIMIT 1
    )"""
"""A replay says nothing of the noise: it is that of when the release was bought."""

LATEST = _page("DESC", "'settle', 'replay'", _NOISE_BOUGHT)

_ACTIVITY = """
    count(*) FILTER (WHERE kind = 'settle') AS bought, count(*) FILTER (WHERE kind = 'replay') AS replayed,
    count(*) FILTER (WHERE kind = 'spend') AS failed,
    COALESCE(sum(information), 0)::bigint AS information, COALESCE(sum(calls), 0)::bigint AS calls
FROM dpproxy_ledger.entry
WHERE own AND kind IN ('settle', 'spend', 'replay')"""


def _by_day(condition: str = "") -> str:
    """A range of the index for each day: GROUP BY would sort all entries, for want of an estimate of the days."""
    return f"""
SELECT of_day.* FROM unnest(%(days)s::date[]) WITH ORDINALITY AS asked (day, place)
CROSS JOIN LATERAL (
    SELECT {_ACTIVITY} {condition}
        AND written_at >= day::timestamp AT TIME ZONE 'UTC'
        AND written_at < (day + 1)::timestamp AT TIME ZONE 'UTC'
) AS of_day
ORDER BY place
"""


ACTIVITY_BY_DAY, ACTIVITY_BY_DAY_OF_ACCOUNT = _by_day(), _by_day("AND account = %(account)s")

ACTIVITY_BY_ACCOUNT = f"""
SELECT account, {_ACTIVITY} AND written_at >= %(since)s
GROUP BY account
ORDER BY information DESC, calls DESC, account
LIMIT %(most)s
"""

ANSWERED = """
SELECT count(*) FROM dpproxy_ledger.entry
WHERE own AND kind IN ('settle', 'spend', 'replay') AND written_at >= %(since)s
"""

MECHANISMS = """
SELECT DISTINCT entry.account, COALESCE(own.mechanism, '')
FROM dpproxy_ledger.entry AS entry
JOIN dpproxy_ledger.entry AS own ON own.reservation = entry.reservation AND own.own AND own.stage = 0
WHERE entry.stage = 0
"""

ENTRIES = """
SELECT number, reservation, account, own, kind, at_most_information, at_most_calls, at_most_epsilon,
    information, calls, epsilon, period_number, written_at, mechanism, query, replayed
FROM dpproxy_ledger.entry
WHERE number > GREATEST(%(after)s, (SELECT max(number) FROM dpproxy_ledger.entry) - %(last)s)
    AND (%(account)s::text IS NULL OR account = %(account)s)
    AND (%(since)s::timestamptz IS NULL OR written_at >= %(since)s)
    AND (%(until)s::timestamptz IS NULL OR written_at < %(until)s)
ORDER BY number
"""

BALANCES = """
SELECT name, used_information, used_calls, used_epsilon, reserved_information, reserved_calls, reserved_epsilon,
    period_number, period_first
FROM dpproxy_ledger.account ORDER BY name
"""

PINNED = """
SELECT name, value FROM dpproxy_ledger.pinned ORDER BY name
"""

_FACTS = "number, reservation, account, kind, information, calls FROM dpproxy_ledger.entry"

AT = f"SELECT {_FACTS} WHERE number = ANY(%(numbers)s::bigint[])"

HIGH_WATER = f"""
(SELECT {_FACTS} WHERE own ORDER BY number DESC LIMIT %(last)s) UNION {AT} ORDER BY number
"""
