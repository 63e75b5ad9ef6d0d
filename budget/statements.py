"""The ledger's SQL: a statement that moves a balance first locks the rows of its accounts, in order of name."""

from __future__ import annotations

MOST_FAILURES = {"failed": 3, "stopped": 30}
"""So many of a kind stop a login, or an analyst. Why: docs/decisions/failures-have-a-brake.md."""

_ENDS_AT = """
    CASE period
        WHEN 'day' THEN period_started + interval '24 hours'
        WHEN 'week' THEN period_started + interval '168 hours'
        WHEN 'month' THEN period_started + interval '720 hours'
    END
"""


def live(lock: str) -> str:
    """Accounts as of now: `live`, with a period that is over taken as refreshed (nothing is written)."""
    return f"""
    locked AS (
        SELECT * FROM dpproxy_ledger.account WHERE name = ANY(%(chain)s) ORDER BY name {lock}
    ),
    timed AS (SELECT locked.*, GREATEST(seen_at, clock_timestamp()) AS now_at FROM locked),
    aged AS (SELECT timed.*, {_ENDS_AT} AS ends_at FROM timed),
    live AS (
        SELECT name, period, mode, frozen, limit_information, limit_calls, limit_epsilon,
            reserved_information, reserved_calls, reserved_epsilon,
            CASE WHEN ends_at <= now_at THEN 0 ELSE used_information END AS used_information,
            CASE WHEN ends_at <= now_at THEN 0 ELSE used_calls END AS used_calls,
            CASE WHEN ends_at <= now_at THEN 0 ELSE used_epsilon END AS used_epsilon,
            CASE WHEN period_started IS NULL OR ends_at <= now_at
                THEN period_number + 1 ELSE period_number END AS period_number,
            CASE WHEN period_started IS NULL OR ends_at <= now_at
                THEN period_number + 1 ELSE period_first END AS period_first,
            CASE WHEN period_started IS NULL OR ends_at <= now_at
                THEN now_at ELSE period_started END AS period_started,
            now_at AS seen_at,
            CASE WHEN ends_at > now_at THEN ends_at END AS refreshes_at
        FROM aged
    )"""


def _stops(login: str, account: str) -> str:
    """Whether a row of `failure` stops a login, or an analyst's account."""
    return f"""failure.cleared_at IS NULL AND (
        (failure.login = {login} AND failure.stops_login)
        OR (failure.account = {account} AND failure.stops_account)
    )"""


RESERVE = f"""
WITH {live("FOR NO KEY UPDATE")},
wanted AS (
    SELECT * FROM unnest(
        %(ids)s::uuid[], %(information)s::bigint[], %(calls)s::bigint[], %(epsilons)s::bigint[],
        %(mechanisms)s::text[], %(queries)s::text[]
    ) AS wanted (id, information, calls, epsilon, mechanism, query)
),
total AS (
    SELECT sum(information)::bigint AS information, sum(calls)::bigint AS calls, sum(epsilon) AS epsilon FROM wanted
),
made_before AS (
    SELECT count(*) AS n, count(*) FILTER (
        WHERE entry.account = ANY(%(chain)s) AND entry.own = (entry.account = %(own)s)
            AND entry.at_most_information = wanted.information AND entry.at_most_calls = wanted.calls
            AND entry.at_most_epsilon = wanted.epsilon
    ) AS same
    FROM dpproxy_ledger.entry AS entry JOIN wanted ON wanted.id = entry.reservation
    WHERE entry.reservation = ANY(%(ids)s::uuid[]) AND entry.stage = 0
),
in_force AS (
    SELECT %(generation)s::bigint IS NULL OR EXISTS (
        SELECT 1 FROM dpproxy_ledger.policy
        WHERE deployment = %(deployment)s AND generation = %(generation)s AND buying
    ) AS holds
),
stopped AS (
    SELECT NOT %(thaw)s AND EXISTS (
        SELECT 1 FROM dpproxy_ledger.failure WHERE {_stops("%(login)s", "%(own)s")}
    ) AS yes
),
verdict AS (
    SELECT made_before.n = 0 AND in_force.holds AND NOT stopped.yes AND count(*) = %(accounts)s
    AND bool_and(%(thaw)s OR NOT live.frozen) AND bool_and(
        (
            live.used_information + live.reserved_information + total.information
                <= CASE live.mode WHEN 'track' THEN %(most)s ELSE live.limit_information END
            OR live.used_epsilon + live.reserved_epsilon + total.epsilon <= live.limit_epsilon
        )
        AND live.used_calls + live.reserved_calls + total.calls
            <= CASE live.mode WHEN 'track' THEN %(most)s ELSE live.limit_calls END
    ) AS pays
    FROM live, total, made_before, in_force, stopped GROUP BY made_before.n, in_force.holds, stopped.yes
),
moved AS (
    UPDATE dpproxy_ledger.account SET
        used_information = live.used_information,
        used_calls = live.used_calls,
        reserved_information = live.reserved_information + total.information,
        reserved_calls = live.reserved_calls + total.calls,
        used_epsilon = live.used_epsilon,
        reserved_epsilon = live.reserved_epsilon + total.epsilon,
        period_number = live.period_number,
        period_first = live.period_first,
        period_started = live.period_started,
        seen_at = live.seen_at
    FROM live, total, verdict WHERE account.name = live.name AND verdict.pays
    RETURNING account.name
),
opened AS (
    INSERT INTO dpproxy_ledger.entry (
        reservation, account, own, stage, kind, at_most_information, at_most_calls, at_most_epsilon,
        information, calls, epsilon, period_number, written_at, instance, lease_until, mechanism, query, attributed
    )
    SELECT wanted.id, live.name, live.name = %(own)s, 0, 'reserve', wanted.information, wanted.calls, wanted.epsilon,
        0, 0, 0, live.period_number, live.seen_at, %(instance)s, live.seen_at + %(lease)s::interval,
        CASE WHEN live.name = %(own)s THEN wanted.mechanism END,
        CASE WHEN live.name = %(own)s THEN wanted.query END,
        CASE WHEN live.name = %(own)s THEN %(attributed)s::text END
    FROM live, wanted, verdict WHERE verdict.pays
    RETURNING number
),
kept AS (
    INSERT INTO dpproxy_ledger.held (reservation, instance, lease_until, login)
    SELECT wanted.id, %(instance)s, live.seen_at + %(lease)s::interval, %(login)s
    FROM wanted, live, verdict WHERE verdict.pays AND live.name = %(own)s
    RETURNING reservation
)
SELECT live.name, live.mode, verdict.pays, made_before.n > 0 AS made_before, live.refreshes_at,
    live.limit_information - live.used_information - live.reserved_information AS left_information,
    live.limit_calls - live.used_calls - live.reserved_calls AS left_calls,
    live.limit_epsilon - live.used_epsilon - live.reserved_epsilon AS left_epsilon,
    live.reserved_information + live.reserved_calls > 0 AS holds, live.frozen,
    made_before.n IN (0, made_before.same)
        AND made_before.n IN (0, %(accounts)s * cardinality(%(ids)s::uuid[])) AS same,
    in_force.holds AS in_force, stopped.yes AS stopped
FROM live, verdict, made_before, in_force, stopped
"""

MARK = """
INSERT INTO dpproxy_ledger.mark (reservation, reached)
SELECT reservation, true FROM dpproxy_ledger.entry
WHERE reservation = ANY(%(ids)s::uuid[]) AND own AND stage = 0
ON CONFLICT (reservation) DO NOTHING
RETURNING reservation
"""

REACH = """
WITH said AS (
    INSERT INTO dpproxy_ledger.mark (reservation, reached)
    SELECT reservation, true FROM dpproxy_ledger.entry
    WHERE reservation = %(id)s AND own AND stage = 0
    ON CONFLICT (reservation) DO NOTHING
    RETURNING reached
)
SELECT reached FROM said
UNION ALL
SELECT reached FROM dpproxy_ledger.mark WHERE reservation = %(id)s
"""

LOCK_HELD = """
SELECT name FROM dpproxy_ledger.account
WHERE name IN (
    SELECT account FROM dpproxy_ledger.entry WHERE reservation = %(id)s AND stage = 0
    UNION ALL SELECT login FROM dpproxy_ledger.held WHERE reservation = %(id)s
)
ORDER BY name FOR NO KEY UPDATE
"""

_STOPPED = f"""
EXISTS (
    SELECT 1 FROM dpproxy_ledger.entry AS opening
    LEFT JOIN dpproxy_ledger.held AS kept ON kept.reservation = opening.reservation
    JOIN dpproxy_ledger.failure ON {_stops("kept.login", "opening.account")}
    WHERE opening.reservation = %(id)s AND opening.own AND opening.stage = 0
)"""

STOPPED = f"SELECT {_STOPPED}"


def _held(among: str = "true") -> str:
    """The entries that opened a reservation, where `among` holds."""
    return f"""
held AS (
    SELECT entry.*, account.period_number AS period_now,
        GREATEST(account.seen_at, clock_timestamp()) AS now_at
    FROM dpproxy_ledger.entry AS entry JOIN dpproxy_ledger.account AS account ON account.name = entry.account
    WHERE entry.reservation = %(id)s AND entry.stage = 0 AND {among}
)"""


_LEFT = """
    account.limit_information - account.used_information - account.reserved_information AS left_information,
    account.limit_calls - account.used_calls - account.reserved_calls AS left_calls,
    account.limit_epsilon - account.used_epsilon - account.reserved_epsilon AS left_epsilon
"""

_MOVED = f"""
moved AS (
    UPDATE dpproxy_ledger.account SET
        reserved_information = account.reserved_information - charge.at_most_information,
        reserved_calls = account.reserved_calls - charge.at_most_calls,
        reserved_epsilon = account.reserved_epsilon - charge.at_most_epsilon,
        used_information = account.used_information + charge.charged_information,
        used_calls = account.used_calls + charge.charged_calls,
        used_epsilon = account.used_epsilon + charge.charged_epsilon,
        seen_at = charge.now_at
    FROM charge JOIN resolved ON resolved.account = charge.account
    WHERE account.name = charge.account
    RETURNING account.name, charge.own, resolved.number, {_LEFT}
)"""

_PAID_BEFORE = """
paid_before AS (
    SELECT 1 AS yes FROM dpproxy_ledger.request, held
    WHERE request.account = held.account AND held.own AND request.release_key = %(release_key)s LIMIT 1
),
charged_before AS (
    SELECT first.account
    FROM stored JOIN dpproxy_ledger.entry AS first ON first.reservation = stored.reservation
    JOIN held ON held.account = first.account AND held.period_now = first.period_number
    WHERE first.stage = 1 AND NOT first.own AND NOT held.own
),
"""

# What a shared account was charged for in this period it is not charged for again: its members get the same answer.
# Why: docs/decisions/shared-accounts-pay-once.md.
# An answer of an older version does not tell its pure epsilon; it had at most what is reserved for the same release.
_CHARGE = """
charge AS (
    SELECT held.*, price.stored_before, price.answer, price.stored_before AS given_again,
        CASE WHEN account IN (SELECT account FROM charged_before) THEN 0
            WHEN NOT own THEN at_most_information
            WHEN price.stored_before AND EXISTS (SELECT 1 FROM paid_before) THEN 0
            ELSE price.information END AS charged_information,
        CASE WHEN account IN (SELECT account FROM charged_before) THEN 0
            WHEN NOT own THEN at_most_calls
            WHEN price.stored_before AND EXISTS (SELECT 1 FROM paid_before) THEN 0
            ELSE price.calls END AS charged_calls,
        CASE WHEN account IN (SELECT account FROM charged_before) THEN 0
            WHEN NOT own THEN at_most_epsilon
            WHEN price.stored_before AND EXISTS (SELECT 1 FROM paid_before) THEN 0
            ELSE LEAST(price.epsilon, at_most_epsilon) END AS charged_epsilon
    FROM held, price
),
"""


def settlement(paid: str, noted: str, charge: str) -> str:
    """A settlement, of which its parts say who has `paid` before, what is `noted` of a new answer, and the `charge`.

    Once a login or an analyst is stopped, nothing of theirs is settled.
    """
    return f"""
WITH {_held(f"NOT {_STOPPED}")},
stored AS (
    SELECT answer, information, calls, epsilon, reservation FROM dpproxy_ledger.answer
    WHERE release_key = %(release_key)s
),
{paid}
made AS (
    INSERT INTO dpproxy_ledger.answer (
        release_key, reservation, answer, information, calls, epsilon, epoch, stored_at
    )
    SELECT %(release_key)s, held.reservation, %(answer)s, %(information)s, %(calls)s, %(epsilon)s, %(epoch)s,
        held.now_at
    FROM held JOIN dpproxy_ledger.mark ON mark.reservation = held.reservation AND mark.reached
    WHERE held.own AND NOT EXISTS (SELECT 1 FROM stored)
    ON CONFLICT (release_key) DO NOTHING
    RETURNING answer, information, calls, epsilon
),
{noted}
price AS (
    SELECT answer, information, calls, epsilon, false AS stored_before FROM made
    UNION ALL
    SELECT answer, information, calls, epsilon, true FROM stored
),
{charge}
resolved AS (
    INSERT INTO dpproxy_ledger.entry (
        reservation, account, own, stage, kind, opened, at_most_information, at_most_calls, at_most_epsilon,
        information, calls, epsilon, period_number, written_at, release_key, replayed, query, noise
    )
    SELECT reservation, account, own, 1, 'settle', 0, at_most_information, at_most_calls, at_most_epsilon,
        charged_information, charged_calls, charged_epsilon, period_now, now_at, %(release_key)s, given_again,
        CASE WHEN own THEN %(query)s::text END, CASE WHEN own THEN %(noise)s::text END
    FROM charge
    RETURNING account, number
),
{_MOVED},
asked AS (
    INSERT INTO dpproxy_ledger.request (account, request_key, release_key, mechanism, query)
    SELECT account, %(request_key)s, %(release_key)s, %(mechanism)s, %(query)s FROM charge WHERE own
    ON CONFLICT (account, release_key, request_key) DO NOTHING
    RETURNING number
),
told AS (
    INSERT INTO dpproxy_ledger.statement (account, release_key, sealed)
    SELECT account, %(release_key)s, %(sealed)s::bytea FROM charge WHERE own AND %(sealed)s::bytea IS NOT NULL
    ON CONFLICT (account, release_key) DO NOTHING
    RETURNING account
),
chosen AS (
    INSERT INTO dpproxy_ledger.choice (account, choice_key, place, release_key)
    SELECT charge.account, made_for.key, made_for.place, %(release_key)s
    FROM charge, unnest(%(choice_keys)s::bytea[], %(places)s::integer[]) AS made_for (key, place) WHERE charge.own
    ON CONFLICT (account, choice_key) DO NOTHING
    RETURNING place
),
measured AS (
    INSERT INTO dpproxy_ledger.owned (
        account, measure_key, release_key, place, request_key, groups, bought_at
    )
    SELECT charge.account, made_of.key, %(release_key)s, made_of.place, %(request_key)s, %(groups)s::text, charge.now_at
    FROM charge, unnest(%(measure_keys)s::bytea[], %(measure_places)s::integer[]) AS made_of (key, place)
    WHERE charge.own
    ON CONFLICT (account, measure_key, release_key, place) DO NOTHING
    RETURNING place
)
SELECT charge.answer, charge.charged_information, charge.charged_calls, charge.charged_epsilon, charge.stored_before,
    moved.left_information, moved.left_calls, moved.left_epsilon, moved.number
FROM charge JOIN moved ON moved.name = charge.account WHERE charge.own
"""


SETTLE = settlement(_PAID_BEFORE, "", _CHARGE)


def _resolution(kind: str, among: str = "true") -> str:
    """Resolves a reservation without an answer: 'spend' or 'release'."""
    return f"""
WITH {_held(among)},
given_back AS (
    INSERT INTO dpproxy_ledger.mark (reservation, reached)
    SELECT reservation, false FROM held WHERE own AND {kind} = 'release'
    RETURNING reservation
),
charge AS (
    SELECT held.*,
        CASE WHEN {kind} = 'spend' THEN at_most_information ELSE 0 END AS charged_information,
        CASE WHEN {kind} = 'spend' THEN at_most_calls ELSE 0 END AS charged_calls,
        CASE WHEN {kind} = 'spend' THEN at_most_epsilon ELSE 0 END AS charged_epsilon
    FROM held
),
resolved AS (
    INSERT INTO dpproxy_ledger.entry (
        reservation, account, own, stage, kind, opened, at_most_information, at_most_calls, at_most_epsilon,
        information, calls, epsilon, period_number, written_at
    )
    SELECT reservation, account, own, 1, {kind}, 0, at_most_information, at_most_calls, at_most_epsilon,
        charged_information, charged_calls, charged_epsilon, period_now, now_at
    FROM charge
    RETURNING account, number
),
{_MOVED}
SELECT number FROM moved WHERE own
"""


RESOLVE = _resolution("%(kind)s")
SPEND_STOPPED = _resolution("'spend'", _STOPPED)
"""Charges in full what would be settled if its login, or analyst, were not stopped: its outcome is not told."""


def _recent(period: str) -> str:
    """Whether a failure lies within the length of an account's period."""
    return f"""CASE {period}
        WHEN 'day' THEN failure.failed_at > who.now_at - interval '24 hours'
        WHEN 'week' THEN failure.failed_at > who.now_at - interval '168 hours'
        WHEN 'month' THEN failure.failed_at > who.now_at - interval '720 hours'
        ELSE true
    END"""


FAIL = f"""
WITH who AS (
    SELECT opening.account, kept.login, own.period AS account_period, acting.period AS login_period,
        GREATEST(own.seen_at, acting.seen_at, clock_timestamp()) AS now_at
    FROM dpproxy_ledger.entry AS opening
    JOIN dpproxy_ledger.held AS kept ON kept.reservation = opening.reservation
    JOIN dpproxy_ledger.account AS own ON own.name = opening.account
    JOIN dpproxy_ledger.account AS acting ON acting.name = kept.login
    WHERE opening.reservation = %(id)s AND opening.own AND opening.stage = 0
),
before AS (
    SELECT COALESCE(bool_or({_stops("who.login", "who.account")}), false) AS stopped,
        count(*) FILTER (
            WHERE failure.login = who.login AND failure.kind = %(failed)s AND {_recent("who.login_period")}
                AND (failure.kind = 'failed' OR failure.account = failure.login)
        ) AS of_login,
        count(*) FILTER (
            WHERE failure.account = who.account AND failure.kind = %(failed)s AND {_recent("who.account_period")}
        ) AS of_account
    FROM who JOIN dpproxy_ledger.failure ON failure.cleared_at IS NULL AND failure.told
        AND (failure.login = who.login OR failure.account = who.account)
)
INSERT INTO dpproxy_ledger.failure (
    reservation, failed_at, login, account, kind, told, stops_login, stops_account, sealed
)
SELECT %(id)s, who.now_at, who.login, who.account, %(failed)s, NOT before.stopped,
    NOT before.stopped AND before.of_login + 1 >= %(most)s AND (%(failed)s = 'failed' OR who.account = who.login),
    NOT before.stopped AND before.of_account + 1 >= %(most)s,
    %(sealed)s::bytea
FROM who, before
"""
"""Notes a failure. Accounts are locked, so that no two see the same number before them.

A login that acts for others is not stopped by their time-outs: one of them has thirty within minutes.
"""

TOLD = "SELECT told FROM dpproxy_ledger.failure WHERE reservation = %(id)s"

FLUSH = """
INSERT INTO dpproxy_ledger.flushed (session, at) VALUES (pg_backend_pid(), clock_timestamp())
ON CONFLICT (session) DO UPDATE SET at = EXCLUDED.at
RETURNING session
"""

LET_GO = """
DELETE FROM dpproxy_ledger.held
WHERE reservation = %(id)s
    AND EXISTS (SELECT 1 FROM dpproxy_ledger.entry WHERE reservation = %(id)s AND stage = 1)
RETURNING reservation
"""

STATE = f"""
SELECT resolution.kind, mark.reached, answer.answer, resolution.information, resolution.calls, resolution.epsilon,
    resolution.replayed, {_LEFT}, resolution.number
FROM dpproxy_ledger.entry AS opening
JOIN dpproxy_ledger.account AS account ON account.name = opening.account
LEFT JOIN dpproxy_ledger.mark AS mark ON mark.reservation = opening.reservation
LEFT JOIN dpproxy_ledger.entry AS resolution
    ON resolution.reservation = opening.reservation AND resolution.account = opening.account
    AND resolution.stage = 1
LEFT JOIN dpproxy_ledger.answer AS answer ON answer.release_key = resolution.release_key
WHERE opening.reservation = %(id)s AND opening.own AND opening.stage = 0
"""

REPLAY = """
WITH found AS (
    SELECT request.account, request.release_key, request.query, request.mechanism, answer.answer
    FROM dpproxy_ledger.request AS request
    JOIN dpproxy_ledger.answer AS answer ON answer.release_key = request.release_key
    WHERE request.account = %(account)s AND request.request_key = %(request_key)s
    ORDER BY request.number LIMIT 1
),
noted AS (
    INSERT INTO dpproxy_ledger.entry (
        reservation, account, own, stage, kind, at_most_information, at_most_calls, at_most_epsilon,
        information, calls, epsilon, period_number, written_at, release_key, replayed, query, mechanism, attributed
    )
    SELECT gen_random_uuid(), found.account, true, 1, 'replay', 0, 0, 0, 0, 0, 0, account.period_number,
        GREATEST(account.seen_at, clock_timestamp()), found.release_key, true, found.query, found.mechanism,
        %(attributed)s::text
    FROM found JOIN dpproxy_ledger.account AS account ON account.name = found.account
    RETURNING number
),
commit AS MATERIALIZED (
    SELECT set_config('synchronous_commit', CASE WHEN %(durable)s::boolean THEN 'off' ELSE 'on' END, true) AS waits
)
SELECT found.answer FROM found CROSS JOIN commit WHERE commit.waits IS NOT NULL
"""

NOTE_REPLAYS = """
WITH noted AS (
    INSERT INTO dpproxy_ledger.entry (
        reservation, account, own, stage, kind, at_most_information, at_most_calls, at_most_epsilon,
        information, calls, epsilon, period_number, written_at, release_key, replayed, query, mechanism, attributed
    )
    SELECT gen_random_uuid(), given.account, true, 1, 'replay', 0, 0, 0, 0, 0, 0, account.period_number,
        GREATEST(account.seen_at, clock_timestamp()), found.release_key, true, found.query, found.mechanism,
        given.attributed
    FROM unnest(%(accounts)s::text[], %(request_keys)s::bytea[], %(attributed)s::text[])
        WITH ORDINALITY AS given (account, request_key, attributed, place)
    JOIN dpproxy_ledger.account AS account ON account.name = given.account
    CROSS JOIN LATERAL (
        SELECT request.release_key, request.query, request.mechanism
        FROM dpproxy_ledger.request AS request
        WHERE request.account = given.account AND request.request_key = given.request_key
        ORDER BY request.number LIMIT 1
    ) AS found
    ORDER BY given.place
    RETURNING number
)
SELECT count(*)::integer FROM noted
"""

CHOICES = """
SELECT choice.choice_key, choice.place, answer.answer
FROM dpproxy_ledger.choice AS choice
JOIN dpproxy_ledger.answer AS answer ON answer.release_key = choice.release_key
WHERE choice.account = %(account)s AND choice.choice_key = ANY(%(keys)s::bytea[])
"""

OWNED = """
SELECT measure_key, place, release_key, request_key, groups, bought_at FROM dpproxy_ledger.owned
WHERE account = %(account)s AND measure_key = ANY(%(keys)s::bytea[])
ORDER BY bought_at DESC, release_key LIMIT %(most)s
"""

PAID = """
SELECT request_key FROM dpproxy_ledger.request
WHERE account = %(account)s AND request_key = ANY(%(keys)s::bytea[])
"""

STORED = """
SELECT answer, information, calls, epsilon FROM dpproxy_ledger.answer WHERE release_key = %(release_key)s
"""

REACH_HELD = """
INSERT INTO dpproxy_ledger.mark (reservation, reached) SELECT reservation, true FROM dpproxy_ledger.held
ON CONFLICT (reservation) DO NOTHING
RETURNING reservation
"""
"""Has recovery spend what is held: a later state of the ledger, which is lost, may have settled it."""

DEAD = """
SELECT reservation FROM dpproxy_ledger.held
WHERE instance = %(instance)s OR lease_until < clock_timestamp()
ORDER BY reservation
"""

EPOCH = """
WITH made AS (
    INSERT INTO dpproxy_ledger.epoch (name, nonce)
    VALUES (%(epoch)s, decode(replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''), 'hex'))
    ON CONFLICT (name) DO NOTHING
    RETURNING nonce
)
SELECT nonce FROM made
UNION ALL
SELECT nonce FROM dpproxy_ledger.epoch WHERE name = %(epoch)s
"""

PRUNE = """
WITH over AS (
    SELECT release_key FROM dpproxy_ledger.answer WHERE epoch <> ALL(%(keep)s) AND NOT EXISTS (
        SELECT 1 FROM dpproxy_ledger.look WHERE look.release_key = answer.release_key AND look.number = (
            SELECT max(number) FROM dpproxy_ledger.look AS later WHERE later.stream = look.stream
        )
    ) LIMIT %(batch)s
),
asked AS (
    DELETE FROM dpproxy_ledger.request WHERE release_key IN (SELECT release_key FROM over)
),
told AS (
    DELETE FROM dpproxy_ledger.statement WHERE release_key IN (SELECT release_key FROM over)
),
chosen AS (
    DELETE FROM dpproxy_ledger.choice WHERE release_key IN (SELECT release_key FROM over)
),
measured AS (
    DELETE FROM dpproxy_ledger.owned WHERE release_key IN (SELECT release_key FROM over)
),
gone AS (
    DELETE FROM dpproxy_ledger.answer WHERE release_key IN (SELECT release_key FROM over)
    RETURNING release_key
)
SELECT count(*) FROM gone
"""
