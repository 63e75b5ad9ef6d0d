"""Constants of conditions become parameters: those alone, and only where that changes nothing of what is asked."""

from __future__ import annotations

import pytest

from rewriter.statements.parameterization import parameterized

OTHERS = (
    "SELECT 5, 'x' FROM t GROUP BY 1 ORDER BY 2 LIMIT 3",
    "SELECT a FROM t WHERE 1 = 1 AND '1' = '0' AND NOT 1=0",
    "SELECT a FROM t WHERE a = 1.0 AND b > 12345678901 AND c < 1e3 AND d = 007 AND e = 0x1F",
    "SELECT a FROM t WHERE a = -1 AND b >= now() - interval '1 day' AND c = 2 + 3 AND d LIKE 'x%'",
    "SELECT a FROM t WHERE a = 'x' || 'y' AND b = date '2024-01-01' + 1 AND c = 5 * d",
    "SELECT a FROM t HAVING COUNT(*) > 5",
    "SELECT COUNT(*) FILTER (WHERE a = 'x') FROM t",
    "SELECT CASE WHEN a = 1 THEN 2 END FROM t JOIN u ON t.b = 'c'",
    "SELECT a FROM t WHERE a = $$x$$",
    "SELECT a FROM t WHERE a = $1 AND b = 5",
    r"SELECT a FROM t WHERE a = E'\x41' AND b = 5",
    "SELECT a FROM t WHERE a = 'x'\n'y' AND b = 5",
    "SELECT a FROM (SELECT a, ROW_NUMBER() OVER (PARTITION BY b) AS n FROM t) AS x WHERE n <= 3",
    "SELECT a FROM t WHERE \"DATE\" '2024-01-01'",
    "SELECT a FROM t WHERE a = 5 OR b = 6",
    "SELECT a FROM t WHERE NOT (a = 5 AND b = 6)",
    "SELECT COUNT(*) AS where, (a > 1970) AS b, t.where, (a > 1980) FROM t",
    "",
)


@pytest.mark.parametrize("text", OTHERS)
def test_other_constants_stay(text: str) -> None:
    assert parameterized(text) is None


@pytest.mark.parametrize(
    ("text", "made", "constants"),
    [
        (
            "SELECT a FROM t WHERE a='x' AND (b<>5 AND c BETWEEN '1' AND '2') GROUP BY 1 LIMIT 5",
            "SELECT a FROM t WHERE a=$1 AND (b<>$2 AND c BETWEEN $3 AND $4) GROUP BY 1 LIMIT 5",
            ("x", "5", "1", "2"),
        ),
        (
            "SELECT a FROM t WHERE a NOT IN ('x', 'y') AND b IN (SELECT b FROM u WHERE c = 1 HAVING d > 2)",
            "SELECT a FROM t WHERE a NOT IN ($1, $2) AND b IN (SELECT b FROM u WHERE c = $3 HAVING d > 2)",
            ("x", "y", "1"),
        ),
        (
            "SELECT a FROM t WHERE b >= DATE '2024-01-01' AND c < timestamp '2024-01-02' AND d = '2024-01-03'::date",
            "SELECT a FROM t WHERE b >= $1::DATE AND c < $2::TIMESTAMP AND d = $3::date",
            ("2024-01-01", "2024-01-02", "2024-01-03"),
        ),
        (
            "SELECT a /* by Ann */ FROM t -- 5 = 'x'\nWHERE a = 'it''s' AND a = 1 -- 7\n;",
            "SELECT a FROM t WHERE a = $1 AND a = $2 ;",
            ("it's", "1"),
        ),
        (
            "WITH x AS (SELECT a FROM t WHERE a = 1) SELECT b FROM x WHERE a >= 2 UNION SELECT 3 WHERE a <> 4",
            "WITH x AS (SELECT a FROM t WHERE a = $1) SELECT b FROM x WHERE a >= $2 UNION SELECT 3 WHERE a <> $3",
            ("1", "2", "4"),
        ),
        (
            "SELECT a FROM t WHERE a BETWEEN b AND c AND d = 5 AND a = 'WHERE'",
            "SELECT a FROM t WHERE a BETWEEN b AND c AND d = $1 AND a = $2",
            ("5", "WHERE"),
        ),
    ],
)
def test_constants_of_conditions_become_parameters(text: str, made: str, constants: tuple[str, ...]) -> None:
    found = parameterized(text)
    assert found is not None
    assert (found.text, found.constants) == (made, constants)


@pytest.mark.parametrize(
    ("constant", "type_name", "value"),
    [
        ("it's 5 ", "text", "it's 5 "),
        ("", "character varying", ""),
        ("x", "character", None),
        ("12", "integer", "12"),
        ("012", "integer", None),
        (" 12", "bigint", None),
        ("9999999999", "integer", None),
        ("12", "smallint", None),
        ("12", "numeric", None),
        ("2024-02-29", "date", "2024-02-29"),
        ("2024-02-30", "date", None),
        ("2024-2-3", "date", None),
        ("2024-02-29 00:00:00", "date", None),
        ("2024-02-29 ", "date", None),
        ("2024-02-29  00:00:00", "timestamp without time zone", None),
        ("today", "date", None),
        ("2024-02-29", "timestamp without time zone", "2024-02-29 00:00:00"),
        ("2024-02-29 00:00:00", "timestamp without time zone", "2024-02-29 00:00:00"),
        ("2024-02-29 01:00:00", "timestamp without time zone", None),
        ("2024-02-29", "timestamp with time zone", None),
    ],
)
def test_constants_are_values_where_they_are_printed_plainly(
    constant: str, type_name: str, value: str | None
) -> None:
    found = parameterized("SELECT 1 FROM t WHERE a = '" + constant.replace("'", "''") + "'")
    assert found is not None
    assert found.values((type_name,)) == (None if value is None else (value,))


def test_equal_constants_are_no_values() -> None:
    found = parameterized("SELECT 1 FROM t WHERE a = 'x' AND b = 'x' AND c > 5")
    assert found is not None
    assert found.values(("text", "text", "integer")) is None
