"""What generated queries read: sources, and the columns that each of their letters has."""

from __future__ import annotations

EVENT_NUMBERS = ("quantity", "amount", "article_id", "user_id")
NUMBERS: dict[str, tuple[str, ...]] = {
    "u": ("birth_year", "user_id"),
    "e": EVENT_NUMBERS,
    "f": EVENT_NUMBERS,
    "w": (*EVENT_NUMBERS, "n"),
    "a": ("article_id",),
    "t": ("article_id",),
    "s": ("n",),
}
TEXTS: dict[str, tuple[str, ...]] = {
    "u": ("country", "job_title"),
    "e": ("action", "device"),
    "f": ("action", "device"),
    "w": ("action", "device"),
    "a": ("topic",),
    "t": ("tag",),
    "s": (),
}
TIMES = {"u": ("signup_date",), "e": ("ts",), "f": ("ts",), "w": ("ts",)}
UNITS = "uefws"
"""The letters of sources that have the privacy unit."""

From = tuple[tuple[str, ...], str]
PLAIN: tuple[From, ...] = (
    (("u",), "users u"),
    (("e",), "events e"),
    (("u", "e"), "users u JOIN events e ON e.user_id = u.user_id"),
    (("u", "e"), "events e JOIN users u USING (user_id)"),
    (("u", "e"), "users u, events e WHERE u.user_id = e.user_id"),
    (("u", "e"), "users u LEFT JOIN events e ON e.user_id = u.user_id AND {}"),
    (("u", "e"), "events e LEFT JOIN users u ON u.user_id = e.user_id AND {}"),
    (
        ("u", "e"),
        "users u CROSS JOIN users v LEFT JOIN events e ON e.user_id = u.user_id AND e.user_id = v.user_id",
    ),
    (("e", "a"), "events e JOIN articles a ON a.article_id = e.article_id"),
    (("e", "a"), "events e LEFT JOIN articles a ON a.article_id = e.article_id AND {}"),
    (("e", "t"), "events e LEFT JOIN tags t USING (article_id)"),
    (("u", "e"), "users u JOIN events e ON {}"),
    (("s",), "(SELECT user_id, COUNT(*) AS n, {} AS x FROM users u GROUP BY user_id, {}) s"),
    (("s",), "(SELECT user_id, COUNT({}) AS n, MAX({}) AS x FROM events e GROUP BY 1) s"),
    (("s",), "(SELECT DISTINCT user_id, 1 AS n, {} AS x FROM events e) s"),
)
"""Sources of the first grammar; {} is a condition, or a value where the source is a subquery of values."""

EVENTS = "SELECT * FROM events e WHERE {}"
PICKED = "SELECT user_id, article_id AS n FROM events e WHERE {}"
RANKED = "ROW_NUMBER() OVER (PARTITION BY e.user_id ORDER BY e.ts, e.event_id)"
COMBINED: tuple[From, ...] = (
    (("e",), f"({EVENTS} UNION ALL {EVENTS}) e"),
    (("s",), f"({PICKED} UNION {PICKED}) s"),
    (("s",), f"({PICKED} INTERSECT {PICKED}) s"),
    (("s",), f"({PICKED} EXCEPT {PICKED}) s"),
    (("s",), "(SELECT user_id, 1 AS n FROM users u WHERE {} UNION ALL SELECT user_id, 2 FROM users u) s"),
    (("s",), "(SELECT user_id, birth_year AS n FROM users u EXCEPT ALL SELECT user_id, 1 FROM events) s"),
    (("s",), "(SELECT user_id, 1 AS n FROM users u WHERE {} UNION ALL SELECT article_id, 2 FROM articles) s"),
    (("w",), f"(SELECT e.*, {RANKED} AS n FROM events e) w"),
    (("w",), f"(SELECT * FROM (SELECT e.*, {RANKED} AS n FROM events e WHERE {{}}) x WHERE n <= 2) w"),
    (("w",), "(SELECT e.*, COUNT(*) OVER (PARTITION BY e.user_id) AS n FROM events e) w"),
    (("w",), "(SELECT e.*, LAG(e.quantity) OVER (PARTITION BY user_id ORDER BY ts) AS n FROM events e) w"),
    (("w",), "(SELECT e.*, RANK() OVER (ORDER BY e.ts) AS n FROM events e) w"),
    (("w",), f"(SELECT e.*, CASE {RANKED} WHEN 1 THEN 1 WHEN e.quantity THEN 2 END AS n FROM events e) w"),
    (("w",), f"(SELECT e.*, CASE WHEN {RANKED} = 1 THEN 3 WHEN {{}} THEN 7 END AS n FROM events e) w"),
    (("e",), "(SELECT DISTINCT ON (user_id) * FROM events e ORDER BY user_id, ts, event_id) e"),
    (("e",), "(SELECT DISTINCT ON (user_id, action) * FROM events e ORDER BY user_id, action, ts) e"),
    (("e",), "(SELECT * FROM events e ORDER BY ts LIMIT 5) e"),
    (("u", "e"), "users u FULL JOIN events e ON e.user_id = u.user_id"),
    (("u", "e"), "users u FULL JOIN events e USING (user_id)"),
    (("u", "e"), "users u RIGHT JOIN events e ON e.user_id = u.user_id AND {}"),
    (("u", "e"), "users u NATURAL JOIN events e"),
    (("e", "f"), "events e JOIN events f ON f.user_id = e.user_id"),
    (("e", "f"), "events e JOIN events f ON f.user_id = e.user_id AND f.article_id = e.article_id"),
    (("e", "f"), "events e JOIN events f ON f.article_id = e.article_id"),
    (("e", "a"), "articles a LEFT JOIN events e ON e.article_id = a.article_id"),
    (("e", "a"), "events e RIGHT JOIN articles a USING (article_id)"),
    (("e", "a"), "events e CROSS JOIN articles a"),
    (("e", "t"), "events e, tags t WHERE t.article_id = e.article_id"),
    (
        ("u", "s"),
        "users u LEFT JOIN (SELECT user_id, COUNT(*) AS n FROM events e GROUP BY 1) s USING (user_id)",
    ),
    (("s",), "(SELECT user_id, n, COUNT(*) AS m FROM (" + PICKED + ") q GROUP BY user_id, n) s"),
    (
        ("s",),
        "(SELECT user_id, SUM(quantity) AS n, AVG(amount) AS x FROM events e WHERE {} GROUP BY user_id) s",
    ),
    (
        ("s",),
        "(SELECT user_id, CASE COUNT(*) WHEN 1 THEN 1 ELSE 5 END AS n FROM events e WHERE {} GROUP BY 1) s",
    ),
    (
        ("s",),
        "(SELECT user_id, date_part('day', MAX(ts)) AS n FROM events e GROUP BY 1 HAVING COUNT(*) = ANY ('{1,4}')) s",
    ),
    (("s",), "(SELECT user_id, MAX(e.article_id) AS n FROM events e GROUP BY user_id, e.action) s"),
)
"""Sources of the whole surface, those that mix units among them."""
