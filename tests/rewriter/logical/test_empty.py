"""Queries whose answer no row decides."""

from __future__ import annotations

import pytest

from rewriter.logical.empty import probe, without_rows


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM users WHERE 1=0",
        "SELECT u.*, country || 'x' AS c, birth_year + 1 FROM users u WHERE NOT (1 = 1) ORDER BY 1",
        "SELECT DISTINCT country FROM users WHERE false",
        "SELECT * FROM (SELECT * FROM users WHERE 2 < 1) AS q",
        "SELECT country, COUNT(*) FROM users WHERE false GROUP BY country",
        "SELECT COUNT(*) FROM users LIMIT 0",
        "SELECT * FROM users FETCH FIRST 0 ROWS ONLY",
        "SELECT country FROM users WHERE false EXCEPT SELECT country FROM users",
        "SELECT country FROM users INTERSECT SELECT country FROM users WHERE false",
        "SELECT * FROM users WHERE country = NULL",
        "SELECT * FROM users WHERE birth_year > 1990 AND NOT (NULL <> country)",
        "SELECT country FROM users WHERE country NOT IN ('US', NULL)",
        "SELECT country, COUNT(*) FROM users WHERE NOT country IN ('US', NULL::text) GROUP BY country",
        "SELECT country FROM users WHERE country <> ALL (ARRAY['US', NULL])",
        "SELECT country FROM users WHERE birth_year BETWEEN 1990 AND NULL",
        "SELECT country FROM users WHERE birth_year = NULL OR NULL",
        "SELECT country FROM users WHERE NULL IN (1, 2)",
    ],
)
def test_no_rows(sql: str) -> None:
    assert without_rows(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM users",
        "SELECT * FROM users WHERE 1 = 1",
        "SELECT * FROM users WHERE 1 = 0 OR country = 'US'",
        "SELECT COUNT(*) FROM users WHERE false",
        "SELECT COUNT(*) FROM users WHERE country = NULL",
        "SELECT country FROM users WHERE country IN ('US', NULL)",
        "SELECT country FROM users WHERE country NOT IN ('US', 'DE')",
        "SELECT country FROM users WHERE birth_year NOT BETWEEN 1990 AND NULL",
        "SELECT country FROM users WHERE country IS NULL",
        "SELECT country FROM users WHERE country IS DISTINCT FROM NULL",
        "SELECT country FROM users WHERE country = NULL OR birth_year = 1990",
        "SELECT country FROM users WHERE (country = NULL) IS NULL",
        "SELECT country FROM users WHERE user_id NOT IN (SELECT NULL::bigint)",
        "SELECT COUNT(*) FROM users WHERE false GROUP BY ()",
        "SELECT country, COUNT(*) FROM users WHERE false GROUP BY ROLLUP (country)",
        "SELECT country, COUNT(*) FROM users WHERE false GROUP BY CUBE (country)",
        "SELECT country, COUNT(*) FROM users WHERE false GROUP BY GROUPING SETS ((country), ())",
        "SELECT 1 FROM users WHERE false HAVING true",
        "SELECT 1 FROM users WHERE false ORDER BY COUNT(*)",
        "SELECT DISTINCT ON (COUNT(*)) 1 AS x FROM users WHERE false",
        "SELECT xmlagg(NULL::xml) FROM users WHERE false",
        "SELECT pg_catalog.count(*) FROM users WHERE false",
        "SELECT range_agg(int4range(birth_year, birth_year)) FROM users WHERE false",
        "SELECT a.title FROM ((SELECT user_id FROM users WHERE false) q RIGHT JOIN articles a ON true)",
        "SELECT * FROM ((SELECT user_id FROM users WHERE false) q FULL JOIN (SELECT user_id FROM users) r ON true)",
        "SELECT country FROM users EXCEPT SELECT country FROM users WHERE false",
        "SELECT country FROM users UNION ALL SELECT country FROM users WHERE false",
        "SELECT * FROM users LIMIT 1 OFFSET 0",
        "SELECT (",
    ],
)
def test_rows_perhaps(sql: str) -> None:
    assert not without_rows(sql)


@pytest.mark.parametrize(
    ("sql", "constants"),
    [
        ("SELECT 1 FROM users LIMIT 1", "SELECT 1"),
        ("SELECT 'x' AS a, TRUE FROM app.users u LIMIT 1", "SELECT 'x' AS a, TRUE"),
        ("SELECT 1 FROM users LIMIT 2", None),
        ("SELECT 1 FROM users WHERE country = 'US' LIMIT 1", None),
        ("SELECT 1 FROM users TABLESAMPLE SYSTEM (1) LIMIT 1", None),
        ("SELECT 1 FROM users, articles LIMIT 1", None),
        ("SELECT country FROM users LIMIT 1", None),
        ("SELECT random() FROM users LIMIT 1", None),
    ],
)
def test_probe(sql: str, constants: str | None) -> None:
    assert probe(sql) == constants
