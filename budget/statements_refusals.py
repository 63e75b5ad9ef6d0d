"""The SQL of refusals: counts, which no guarantee rests on."""

from __future__ import annotations

COUNT = """
INSERT INTO dpproxy_ledger.refusal (account, code, day, counter, times)
SELECT counted.account, counted.code, %(day)s, %(counter)s, counted.times
FROM unnest(%(accounts)s::text[], %(codes)s::text[], %(times)s::bigint[]) AS counted (account, code, times)
ON CONFLICT (day, account, code, counter) DO UPDATE SET times = excluded.times, last_at = excluded.last_at
WHERE refusal.times < excluded.times
RETURNING times
"""

REFUSALS = """
SELECT day, account, code, sum(times)::bigint, max(last_at)
FROM dpproxy_ledger.refusal
WHERE day >= %(since)s
GROUP BY day, account, code
ORDER BY day, account, code
"""
