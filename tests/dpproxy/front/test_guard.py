"""What an analyst can do to the front by its own words: nothing that reads a private row, nothing that stays."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from dpproxy.front.front import Front
from tests.dpproxy import shop
from tests.dpproxy.front.test_front import filled, session

pytestmark = pytest.mark.service

GUARDED = "0A000"
DENIED = "42501"


@pytest.fixture(scope="module")
def front(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    _, backend, policy = shop.opened(shop.make(tmp_path_factory.mktemp("shop")))
    with Front.start(tmp_path_factory.mktemp("front")) as started:
        filled(started, backend, policy)
        yield started


@pytest.fixture
def analyst(front: Front) -> Iterator[psycopg.Connection]:
    with session(front) as connection:
        yield connection


def code_of(analyst: psycopg.Connection, sql: str) -> str | None:
    """The SQLSTATE that a statement ends with, None if it succeeds."""
    try:
        analyst.execute(sql.encode())
    except psycopg.Error as error:
        return error.sqlstate
    return None


READS = [
    "SELECT * FROM users",
    "SELECT * FROM users LIMIT 0",
    "SELECT * FROM users WHERE false",
    "SELECT count(*) FROM users",
    "SELECT 1 FROM users",
    "SELECT 1 WHERE EXISTS (SELECT FROM users)",
    "SELECT (SELECT country FROM users LIMIT 1)",
    "SELECT * FROM products WHERE product_id IN (SELECT product_id FROM items)",
    "SELECT * FROM products LEFT JOIN items USING (product_id)",
    "SELECT 1 UNION ALL SELECT user_id FROM users",
    "WITH u AS MATERIALIZED (SELECT * FROM users) SELECT * FROM u",
    "TABLE users",
    "SELECT * FROM users TABLESAMPLE SYSTEM (10)",
    "SELECT * FROM users FOR UPDATE",
    "SELECT * FROM app.visits",
    "SELECT * FROM dpproxy.budget",
    "SELECT * FROM dpproxy.releases",
    "SELECT * FROM dpproxy.last_release",
    "CREATE TABLE copied AS SELECT * FROM users",
    "SELECT * INTO copied FROM users",
    "EXPLAIN SELECT * FROM users",
    "EXPLAIN ANALYZE SELECT * FROM users",
    "COPY users TO STDOUT",
    "COPY users (country) TO STDOUT",
    "COPY (SELECT * FROM users) TO STDOUT",
    "DECLARE c CURSOR WITH HOLD FOR SELECT * FROM users",
    "INSERT INTO users VALUES (1)",
    "UPDATE users SET country = 'x'",
    "DELETE FROM users",
    "MERGE INTO users USING products ON false WHEN NOT MATCHED THEN INSERT VALUES (1)",
]


@pytest.mark.parametrize("sql", READS)
def test_a_read_that_was_not_rewritten_fails(analyst: psycopg.Connection, sql: str) -> None:
    assert code_of(analyst, sql) in (GUARDED, DENIED)


@pytest.mark.parametrize(
    "sql", [sql for sql in READS if sql.startswith(("SELECT *", "TABLE", "COPY", "EXPL"))]
)
def test_most_are_told_why(analyst: psycopg.Connection, sql: str) -> None:
    if "FOR UPDATE" not in sql and "INTO" not in sql:
        assert code_of(analyst, sql) == GUARDED


def test_the_message_names_the_table_and_what_to_do(analyst: psycopg.Connection) -> None:
    with pytest.raises(psycopg.Error) as caught:
        analyst.execute("SELECT * FROM users")
    said = caught.value.diag
    assert (
        said.message_primary == 'private table "users" can only be read by a query that dpproxy can rewrite'
    )
    assert str(said.message_hint).startswith("Send a single SELECT")


def test_prepared_and_parsed_statements_fail_when_they_are_planned(analyst: psycopg.Connection) -> None:
    analyst.execute("PREPARE p AS SELECT country FROM users")
    assert code_of(analyst, "EXECUTE p") == GUARDED
    parsed = analyst.pgconn.prepare(b"q", b"SELECT country, count(*) FROM users GROUP BY 1")
    assert not parsed.error_message
    described = analyst.pgconn.describe_prepared(b"q")
    assert [described.ftype(column) for column in range(described.nfields)] == [25, 20]
    executed = analyst.pgconn.exec_prepared(b"q", None)
    assert b"can only be read by" in executed.error_message


def test_catalogs_know_the_table_and_no_row(analyst: psycopg.Connection) -> None:
    sql = (
        "SELECT pg_relation_size('users'), has_table_privilege('users', 'SELECT'), "
        "(SELECT greatest(reltuples, 0) FROM pg_class WHERE relname = 'users'), "
        "(SELECT count(*) FROM pg_stats WHERE tablename IN ('users', 'orders', 'items')), "
        "(SELECT coalesce(sum(n_live_tup), 0) FROM pg_stat_user_tables WHERE relname IN ('users', 'orders', 'items'))"
    )
    assert analyst.execute(sql.encode()).fetchone() == (0, True, 0, 0, 0)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT query_to_xml('SELECT * FROM users', true, true, '')",
        "SELECT table_to_xml('users', true, true, '')",
        "SELECT schema_to_xml('public', true, true, '')",
        "SELECT database_to_xml(true, true, '')",
        "SELECT query_to_xml_and_xmlschema('SELECT 1', true, true, '')",
        "SELECT cursor_to_xml('c', 1, true, true, '')",
        "DO $$ BEGIN PERFORM FROM users; END $$",
        "CREATE FUNCTION f() RETURNS bigint LANGUAGE sql AS 'SELECT count(*) FROM users'",
        "CREATE FUNCTION pg_temp.f() RETURNS int LANGUAGE sql AS 'SELECT 1'",
        "CREATE FUNCTION dpproxy.f() RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN 1; END'",
        "CREATE VIEW v AS SELECT * FROM users",
        "CREATE TEMP VIEW v AS SELECT * FROM users",
        "CREATE TEMP TABLE t (x int)",
        "CREATE TABLE public.t (x int)",
        "CREATE TABLE app.t (x int)",
        "CREATE TABLE dpproxy.t (x int)",
        "CREATE SCHEMA s",
        "CREATE TYPE public.t AS ENUM ('a')",
        "CREATE OPERATOR public.## (FUNCTION = int4pl, LEFTARG = int, RIGHTARG = int)",
        "CREATE SEQUENCE public.s",
        "CREATE DATABASE d",
        "CREATE ROLE r",
        "CREATE PUBLICATION p FOR ALL TABLES",
        "CREATE EVENT TRIGGER e ON ddl_command_start EXECUTE FUNCTION dpproxy.refuse()",
        "ALTER TABLE users DISABLE ROW LEVEL SECURITY",
        "DROP POLICY guard ON users",
        "CREATE POLICY mine ON users USING (true)",
        "ALTER TABLE users OWNER TO alice",
        "COMMENT ON TABLE users IS 'mine'",
        "ALTER FUNCTION dpproxy.guard(text, text) STABLE",
        "ALTER DATABASE dpproxy SET search_path = pg_catalog",
        "ALTER ROLE alice SUPERUSER",
        "ALTER SYSTEM SET fsync = on",
        "INSERT INTO products VALUES (9, 'x', 'y')",
        "DELETE FROM products",
        "TRUNCATE products",
        "REINDEX TABLE users",
        "SELECT lo_creat(-1)",
        "SELECT lo_from_bytea(0, 'x')",
        "SELECT pg_sleep(0)",
        "SELECT pg_sleep_for('0s')",
        "SELECT pg_advisory_lock(1)",
        "SELECT pg_try_advisory_xact_lock_shared(1)",
        "SELECT pg_notify('a', 'b')",
        "SELECT pg_logical_emit_message(false, 'a', 'b')",
        "SELECT pg_read_file('/etc/passwd')",
        "SELECT pg_ls_dir('.')",
        "SELECT * FROM pg_authid",
        "SELECT * FROM pg_hba_file_rules",
        "SELECT current_setting('data_directory')",
        "COPY (SELECT 1) TO '/tmp/dpproxy-escaped'",
        "COPY (SELECT 1) TO PROGRAM 'true'",
        "COPY products FROM '/etc/passwd'",
        "LOAD 'plpgsql_check'",
        "SET session_replication_role = 'replica'",
        "SET temp_file_limit = -1",
    ],
)
def test_what_an_analyst_may_not_do(analyst: psycopg.Connection, sql: str) -> None:
    assert code_of(analyst, sql) == DENIED


def test_no_lock_keeps_others_out(analyst: psycopg.Connection) -> None:
    analyst.execute("BEGIN")
    assert code_of(analyst, "LOCK TABLE users IN ACCESS EXCLUSIVE MODE") == DENIED


def test_nobody_can_be_impersonated(front: Front, analyst: psycopg.Connection) -> None:
    front.role_for("bob")
    names = [str(name) for (name,) in analyst.execute("SELECT rolname FROM pg_roles").fetchall()]
    with front._as_admin() as admin:
        superuser = admin.info.user
    for name in (*names, "bob", superuser):
        if name != "alice":
            quoted = name.replace('"', '""')
            assert code_of(analyst, f'SET ROLE "{quoted}"') == DENIED
            assert code_of(analyst, f'SET SESSION AUTHORIZATION "{quoted}"') == DENIED
            assert code_of(analyst, f"SELECT set_config('role', '{name}', false)") == DENIED
    assert analyst.execute("SELECT current_user, session_user").fetchone() == ("alice", "alice")


def test_row_security_cannot_be_turned_off(analyst: psycopg.Connection) -> None:
    analyst.execute("SET row_security = off")
    assert code_of(analyst, "SELECT * FROM users") == DENIED


def test_a_session_cannot_fill_the_disk(analyst: psycopg.Connection) -> None:
    rows = "SELECT repeat(md5(i::text), 100) FROM generate_series(1, 60000) AS i"
    assert code_of(analyst, f"DECLARE c CURSOR WITH HOLD FOR {rows}") == "53400"


def test_other_databases_are_closed(front: Front) -> None:
    for database in ("postgres", "template1"):
        role, password = front.role_for("alice")
        with pytest.raises(psycopg.OperationalError, match="permission denied for database"):
            psycopg.connect(host=str(front.address.parent), user=role, password=password, dbname=database)  # type: ignore[union-attr]


def test_a_public_table_that_is_not_copied_is_guarded_too(
    front: Front, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("large")
    _, backend, policy = shop.opened(shop.make(folder, shop.POLICY + "[front]\npublic_rows = 2\n"))
    with Front.start(folder / "front") as other:
        filled(other, backend, policy)
        with session(other) as analyst, pytest.raises(psycopg.Error, match="too large") as caught:
            analyst.execute("SELECT * FROM products")
    assert caught.value.sqlstate == GUARDED
