"""Finds volatile and session-dependent functions in a constant expression."""

from __future__ import annotations

BODY = "pg_temp.dpproxy_agreement"
"""The function that a statement becomes, to be looked at: analysed, never planned."""

_TIMES = "'{date,time,timetz,timestamp,timestamptz,interval}'::regtype[]"
_STABLE = (
    "now,transaction_timestamp,statement_timestamp,make_timestamptz,to_timestamp,to_date,to_number,concat,concat_ws,"
    "textanycat,anytextcat,format"
)
"""Stable functions that depend on no session: on the time of day, and on settings that the front pins."""

_OTHERS = f"""
WITH body AS (SELECT prosqlbody::text AS tree FROM pg_proc WHERE oid = '{BODY}'::regproc),
called AS (
  SELECT DISTINCT m[1]::oid AS id FROM body,
    regexp_matches(tree, ':(?:funcid|opfuncid|hashfuncid|negfuncid|aggfnoid|winfnoid) (\\d+)', 'g') AS m
)
SELECT p.proname::text FROM called JOIN pg_proc AS p ON p.oid = id WHERE NOT (
  p.pronamespace = 'pg_catalog'::regnamespace AND %s
  AND (p.provolatile = 'i' OR p.provolatile = 's'
    AND (p.proname = ANY ('{{{_STABLE}}}') OR p.proargtypes::oid[] && {_TIMES}::oid[]))
)
UNION ALL
SELECT 'current_user' FROM body WHERE tree ~ 'SQLVALUEFUNCTION :op \\d+ :type 19 '
ORDER BY 1 LIMIT 1"""
OTHERS = _OTHERS % "p.prokind = 'f' AND NOT p.proretset"
"""The first function by name that is volatile, an aggregate, gives rows, or depends on who asks where; none of ours.

The tree of a function's body names each function that is called, an operator's and a cast's too, as PostgreSQL
resolved it; values of type name (19) are those of CURRENT_USER and the like.
"""
OTHERS_OF_ROWS = _OTHERS % "p.prokind IN ('f', 'a', 'w')"
"""The same without aggregates, windows and functions that give rows, which only make rows of a SELECT."""
