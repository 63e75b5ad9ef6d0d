"""Queries that are answered exactly but for noise: each is executed on both engines and tried with units removed."""

from __future__ import annotations

from pathlib import Path

ANSWERED = tuple(Path(__file__).with_name("answered.sql").read_text().splitlines())
TRUNCATED = (
    "SELECT device, COUNT(DISTINCT user_id) AS n FROM events GROUP BY device ORDER BY n DESC LIMIT 100",
    "SELECT device, country, COUNT(*) FROM events JOIN users USING (user_id) GROUP BY 1, 2",
    "SELECT m, COUNT(*) FROM (SELECT DISTINCT user_id, device AS m FROM events) t GROUP BY m",
)
"""Answered with at most as many groups of one unit as the policy declares."""
