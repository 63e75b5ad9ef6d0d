"""The ledger's SQL for running counts: the state of a stream, and a settlement that continues it."""

from __future__ import annotations

from budget.statements import live, settlement

STREAM = f"""
WITH {live("")},
last AS (SELECT number, release_key FROM dpproxy_ledger.look WHERE stream = %(stream)s ORDER BY number DESC LIMIT 1)
SELECT
    (SELECT count(*) FROM live JOIN dpproxy_ledger.stream_paid AS paid
        ON paid.account = live.name AND paid.period_number = live.period_number AND paid.stream = %(stream)s
    ) AS paid,
    (SELECT number FROM last) AS number,
    (SELECT answer FROM dpproxy_ledger.answer JOIN last ON last.release_key = answer.release_key) AS answer
"""

_PAID = """
paid AS (
    SELECT stream_paid.account FROM dpproxy_ledger.stream_paid, held
    WHERE stream_paid.stream = %(stream)s AND stream_paid.account = held.account
        AND stream_paid.period_number = held.period_now
),
"""

_LOOKED = """
looked AS (
    INSERT INTO dpproxy_ledger.look (stream, number, release_key)
    SELECT %(stream)s, %(number)s, %(release_key)s FROM made
    RETURNING number
),
"""

_OWES = """
owes AS (
    SELECT held.account,
        CASE WHEN EXISTS (SELECT 1 FROM paid WHERE paid.account = held.account) THEN 0
            ELSE price.information END AS information,
        CASE WHEN EXISTS (SELECT 1 FROM paid WHERE paid.account = held.account) THEN 0
            ELSE price.calls END AS calls,
        CASE WHEN EXISTS (SELECT 1 FROM paid WHERE paid.account = held.account) THEN 0
            ELSE price.epsilon END AS epsilon
    FROM held, price
),
bought AS (
    INSERT INTO dpproxy_ledger.stream_paid (stream, account, period_number)
    SELECT %(stream)s, held.account, held.period_now FROM held JOIN owes ON owes.account = held.account
    WHERE owes.information > 0 OR owes.calls > 0
    ON CONFLICT (stream, account, period_number) DO NOTHING
    RETURNING account
),
charge AS (
    SELECT held.*, price.stored_before, price.answer,
        CASE WHEN held.own THEN owes.information
            ELSE GREATEST(held.at_most_information, owes.information) END AS charged_information,
        CASE WHEN held.own THEN owes.calls ELSE GREATEST(held.at_most_calls, owes.calls) END AS charged_calls,
        CASE WHEN held.own THEN owes.epsilon
            ELSE GREATEST(held.at_most_epsilon, owes.epsilon) END AS charged_epsilon
    FROM held JOIN owes ON owes.account = held.account, price
),
"""

SETTLE_LOOK = settlement(_PAID, _LOOKED, _OWES)
"""Who has not paid for the stream in this period is charged; a reservation of less breaks a constraint."""
