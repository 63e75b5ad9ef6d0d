"""Every rewrite is executed: without noise it is what PostgreSQL makes of the analyst's own text."""

from __future__ import annotations

from collections import Counter

import duckdb
import psycopg
import pytest

from rewriter.cut import draft
from rewriter.draft import NodeDraft
from rewriter.expression import Parameter
from rewriter.refusal import Refusal
from tests.rewriter.engine import answer, cells_of, histogram
from tests.rewriter.queries import ANSWERED
from tests.rewriter.shop import POLICY


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
        assert _body(postgres, sql) in [_body(postgres, text) for text in draft(sql, POLICY).spellings], sql


def _body(postgres: psycopg.Connection, sql: str) -> str:
    with postgres.transaction(force_rollback=True):
        head = "CREATE FUNCTION pg_temp.f() RETURNS void LANGUAGE sql"
        postgres.execute(f"{head} BEGIN ATOMIC {sql}; END".encode())
        found = postgres.execute("SELECT pg_get_function_sqlbody('pg_temp.f'::regproc)", prepare=False)
        return str(next(iter(found))[0])


def test_values_outside_a_declared_domain_make_no_cells(
    backend: duckdb.DuckDBPyConnection, postgres: psycopg.Connection
) -> None:
    node = draft("SELECT country, COUNT(*) FROM users GROUP BY country", POLICY).nodes[0]
    assert isinstance(node, NodeDraft)
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
    node = draft(sql, POLICY, parameters).nodes[0]
    assert isinstance(node, NodeDraft)
    truth = postgres.execute("SELECT COUNT(*) FROM users WHERE user_id - 0.0001 < 6.9999").fetchone()
    assert histogram(node, backend, ((),), parameters) == {(): truth}
    with pytest.raises(Refusal, match="Parameter of this type"):
        draft(sql, POLICY, [Parameter("oid", "7")])
