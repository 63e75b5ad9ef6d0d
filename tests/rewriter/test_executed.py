"""Every rewrite is executed: without noise it is what PostgreSQL makes of the analyst's own text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import duckdb
import psycopg
import pytest

from rewriter.logical.plan import AggregateNode
from rewriter.logical.split import split_query
from rewriter.refusal import Refusal
from rewriter.scalar.typecheck import Parameter
from tests.rewriter.engine import answer, cells_of, executed, histogram
from tests.rewriter.queries import ANSWERED
from tests.rewriter.shop import POLICY

pytestmark = pytest.mark.service


@pytest.mark.parametrize("sql", ANSWERED)
def test_the_answer_without_noise_is_postgresqls(
    sql: str, backend: duckdb.DuckDBPyConnection, postgres: psycopg.Connection
) -> None:
    truth = Counter(postgres.execute(sql.encode()).fetchall())
    ours = Counter(answer(sql, backend, postgres))
    assert not truth - ours
    assert all(0 in row for row in ours - truth), "only empty cells of a known domain may come on top"


def test_regenerated_text_is_the_same_statement_to_postgresql(postgres: psycopg.Connection) -> None:
    for sql in ANSWERED:
        assert _body(postgres, sql) in [
            _body(postgres, text) for text in split_query(sql, POLICY).spellings()
        ], sql


def test_a_parameter_keeps_the_name_that_its_cast_gives_it(postgres: psycopg.Connection) -> None:
    sql = "SELECT country, COUNT(*) FROM users GROUP BY 1 UNION ALL SELECT $1::text, COUNT(*) FROM users"
    plan = split_query(sql, POLICY, (Parameter("text", "all"),))
    assert _body(postgres, sql, ["text"]) in [_body(postgres, text, ["text"]) for text in plan.spellings()]


def _body(postgres: psycopg.Connection, sql: str, types: Sequence[str] = ()) -> str:
    with postgres.transaction(force_rollback=True):
        head = f"CREATE FUNCTION pg_temp.f({', '.join(types)}) RETURNS void LANGUAGE sql"
        postgres.execute(f"{head} BEGIN ATOMIC {sql}; END".encode())
        found = postgres.execute("SELECT pg_get_function_sqlbody('pg_temp.f'::regproc)", prepare=False)
        return str(next(iter(found))[0])


def test_values_outside_a_declared_domain_make_no_cells(
    backend: duckdb.DuckDBPyConnection, postgres: psycopg.Connection
) -> None:
    node = split_query("SELECT country, COUNT(*) FROM users GROUP BY country", POLICY).nodes[0]
    assert isinstance(node, AggregateNode)
    cells = cells_of(node, postgres)
    assert cells is not None
    assert set(cells) == {("US",), ("DE",), ("FR",), ("LI",), (None,)}
    backend.execute("BEGIN")
    backend.execute("UPDATE users SET country = 'ZZ' WHERE country = 'US'")
    changed = histogram(node, backend, cells)
    backend.execute("ROLLBACK")
    assert set(changed) == set(cells)
    assert changed["US",] == (0,)


def test_what_would_raise_in_postgresql_is_null_here(
    backend: duckdb.DuckDBPyConnection, postgres: psycopg.Connection
) -> None:
    raising = (
        "SELECT COUNT(*) FROM users WHERE 7 % (user_id - 42) >= 0",
        "SELECT COUNT(*) FROM users WHERE 1 / (user_id - 42) = 0 AND user_id = 42",
        "SELECT COUNT(*) FROM users WHERE CASE WHEN user_id = 42 THEN birth_year * 2000000 ELSE 1 END > 0",
        "SELECT COUNT(*) FROM users WHERE substring(job_title, 1, birth_year - 1990) = ''",
    )
    for sql in raising:
        with pytest.raises(psycopg.Error):
            postgres.execute(sql.encode())
        assert len(answer(sql, backend, postgres)) == 1


def test_conversions_that_duckdb_alone_makes_do_not_raise(
    backend: duckdb.DuckDBPyConnection, postgres: psycopg.Connection
) -> None:
    tiny = "0.000000000000000000000000000000000001"
    raising = (
        f"SELECT COUNT(*) FROM users WHERE user_id > {tiny}",
        f"SELECT COUNT(*) FROM users WHERE user_id IN (1, {tiny}) OR user_id BETWEEN {tiny} AND 9",
        f"SELECT COUNT(*) FROM users WHERE COALESCE(birth_year, {tiny}) > 1",
        "SELECT COUNT(*) FROM (SELECT user_id, MAX(quantity * quantity) AS m FROM events GROUP BY 1) t WHERE m > 3",
    )
    for sql in raising:
        assert len(answer(sql, backend, postgres)) == 1


def test_parameters_keep_all_their_digits(
    backend: duckdb.DuckDBPyConnection, postgres: psycopg.Connection
) -> None:
    sql, parameters = (
        "SELECT COUNT(*) FROM users WHERE user_id - 0.0001 < $1",
        [Parameter("numeric", "6.9999")],
    )
    node = split_query(sql, POLICY, parameters).nodes[0]
    assert isinstance(node, AggregateNode)
    truth = postgres.execute("SELECT COUNT(*) FROM users WHERE user_id - 0.0001 < 6.9999").fetchone()
    assert histogram(node, backend, ((),), parameters) == {(): truth}
    with pytest.raises(Refusal, match="a parameter of this type"):
        split_query(sql, POLICY, [Parameter("oid", "7")])
    with pytest.raises(Refusal, match="more than 38 digits"):
        split_query(sql, POLICY, [Parameter("numeric", "9" * 39)])


UNREADABLE = (
    "signup_date > 'yesterday'",
    "signup_date IN ('2024-01-01', 'January 8, 1999')",
    "NOT signup_date BETWEEN '2024-01-01' AND '20250101'",
    "signup_date > $1",
    "(country = 'US') = 'on'",
    "'on'",
    "country = 'US' OR 'on'",
    "'on' IS TRUE",
    "user_id IN (SELECT user_id FROM users GROUP BY 1 HAVING 'on')",
    "user_id IN (SELECT user_id FROM users GROUP BY 1 HAVING MAX(signup_date) > 'yesterday')",
    "user_id IN (SELECT article_id + 0.5 FROM articles)",
    "EXISTS (SELECT 1 FROM users v WHERE v.user_id = users.user_id AND v.signup_date > 'yesterday')",
)
"""Good PostgreSQL whose constants DuckDB would convert with an error, and only where a row reaches them."""


@pytest.mark.parametrize("condition", UNREADABLE)
def test_no_constant_raises_for_the_rows_that_reach_it(
    condition: str, backend: duckdb.DuckDBPyConnection, postgres: psycopg.Connection
) -> None:
    sql, parameters = f"SELECT COUNT(*) FROM users WHERE {condition}", [Parameter("date", "0044-03-15 BC")]
    assert executed(postgres, sql, parameters)
    with pytest.raises(Refusal) as refused:
        split_query(sql, POLICY, parameters)
    assert refused.value.code in ("PV020", "42804")


@pytest.mark.parametrize(
    "constant",
    [
        "signup_date > '2023-06-30'",
        "NOT country = 'US' OR NULL",
        "birth_year > '1980'",
        "user_id IN ('5', '-7')",
        "(country = 'US') = 'f'",
        "EXTRACT(year FROM signup_date) = '2023'",
    ],
)
def test_constants_that_both_engines_read(
    constant: str, backend: duckdb.DuckDBPyConnection, postgres: psycopg.Connection
) -> None:
    sql = f"SELECT COUNT(*) FROM users WHERE {constant}"
    assert answer(sql, backend, postgres) == executed(postgres, sql)
