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

_PAYERS = """
payer AS (
    SELECT held.*, EXISTS (
        SELECT 1 FROM dpproxy_ledger.stream_paid
        WHERE stream_paid.stream = %(stream)s AND stream_paid.account = held.account
            AND stream_paid.period_number = held.period_now
    ) AS paid
    FROM held
),
"""

_LOOKED = """
looked AS (
    INSERT INTO dpproxy_ledger.look (stream, number, release_key)
    SELECT %(stream)s, %(number)s, %(release_key)s FROM made
    RETURNING number
),
"""

# All looks are functions of the stream's noise, for which an account that has paid was charged in full.
# Why: docs/decisions/shared-accounts-pay-once.md.
_CHARGE = """
charge AS (
    SELECT payer.*, price.stored_before, price.answer,
        price.stored_before OR (paid AND NOT own) AS given_again,
        CASE WHEN paid THEN 0 WHEN own THEN price.information
            ELSE GREATEST(at_most_information, price.information) END AS charged_information,
        CASE WHEN paid THEN 0 WHEN own THEN price.calls
            ELSE GREATEST(at_most_calls, price.calls) END AS charged_calls,
        CASE WHEN paid THEN 0 WHEN own THEN price.epsilon
            ELSE GREATEST(at_most_epsilon, price.epsilon) END AS charged_epsilon
    FROM payer, price
),
bought AS (
    INSERT INTO dpproxy_ledger.stream_paid (stream, account, period_number)
    SELECT %(stream)s, charge.account, charge.period_now FROM charge, price
    WHERE NOT charge.paid AND (price.information > 0 OR price.calls > 0)
    ON CONFLICT (stream, account, period_number) DO NOTHING
    RETURNING account
),
"""

SETTLE_LOOK = settlement(_PAYERS, _LOOKED, _CHARGE)
"""Who has not paid for the stream in this period is charged; a reservation of less breaks a constraint."""
