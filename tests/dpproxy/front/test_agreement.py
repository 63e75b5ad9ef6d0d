"""Parser agreement: the front tells statements apart that look alike, and knows one that is only spelt otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from dpproxy.front.front import Front
from rewriter.refusal import Refusal
from tests.dpproxy import shop
from tests.dpproxy.front.test_front import filled

pytestmark = pytest.mark.service


@pytest.fixture(scope="module")
def front(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    _, backend, policy = shop.opened(shop.make(tmp_path_factory.mktemp("shop")))
    with Front.start(tmp_path_factory.mktemp("front")) as started:
        filled(started, backend, policy)
        yield started


ALIKE = [
    ("select COUNT( * )from users", 'SELECT COUNT(*) FROM "users"'),
    ("SELECT count(*) FROM users -- a comment", "SELECT COUNT(*) FROM users"),
    ("SELECT /* a /* nested */ comment */ count(*) FROM users;", "SELECT COUNT(*) FROM users"),
    ("SELECT 1 FROM users WHERE country IN ('DE', 'FR')", "SELECT 1 FROM users WHERE country IN ('DE', 'FR')"),
    ("SELECT count(*) FROM users WHERE birth_year!=1", "SELECT COUNT(*) FROM users WHERE birth_year <> 1"),
    ("SELECT U&'\\0441'::text FROM users", "SELECT CAST('\u0441' AS TEXT) FROM users"),
    ("SELECT E'it\\'s'::text FROM users", "SELECT CAST('it''s' AS TEXT) FROM users"),
    ("SELECT $$it's$$::text FROM users", "SELECT CAST('it''s' AS TEXT) FROM users"),
    ("SELECT 1 FROM users WHERE country = $1", "SELECT 1 FROM users WHERE country = $1"),
    ("SELECT country c FROM users ORDER BY 1", "SELECT country AS c FROM users ORDER BY c"),
    ("SELECT a FROM (VALUES (1)) AS t(a)", "SELECT a FROM (VALUES (1)) AS t(a)"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "regenerated"), ALIKE)
def test_what_is_only_spelt_otherwise_agrees(front: Front, text: str, regenerated: str) -> None:
    assert front.agrees(text, regenerated, ())


DIFFERENT = [
    ('SELECT U&"\\0063ountry" FROM users', "SELECT u & country FROM users"),
    ('SELECT U&"\\0063ountry" FROM users', "SELECT birth_year FROM users"),
    ("SELECT DISTINCT ON (country) user_id FROM users", "SELECT DISTINCT user_id FROM users"),
    ("SELECT DISTINCT ON (country) user_id FROM users", "SELECT DISTINCT ON (birth_year) user_id FROM users"),
    ("SELECT 1 FROM users ORDER BY 1 FETCH FIRST 2 ROWS WITH TIES", "SELECT 1 FROM users ORDER BY 1 LIMIT 2"),
    ("SELECT 1 FROM users WHERE NOT birth_year = 1 IS NULL", "SELECT 1 FROM users WHERE (NOT birth_year = 1) IS NULL"),
    ("SELECT 2 + birth_year % 3 FROM users", "SELECT (2 + birth_year) % 3 FROM users"),
    ("SELECT birth_year % -2 FROM users", "SELECT birth_year - 2 FROM users"),
    ("SELECT -2 ^ birth_year FROM users", "SELECT -(2 ^ birth_year) FROM users"),
    ("SELECT count(*) FROM users WHERE true", "SELECT count(*) FROM users"),
    ("SELECT count(*) FROM users WHERE 1 = 1", "SELECT count(*) FROM users WHERE 1 = 2"),
    ("SELECT /* a /* nested */ 1, */ 2 FROM users", "SELECT 1, 2 FROM users"),
    ("SELECT 'a'\n'b' FROM users", "SELECT 'a' AS b FROM users"),
    ("SELECT E'\\x41' FROM users", "SELECT '\\x41' FROM users"),
    ("SELECT count(*) FROM users WHERE country = 'DE '", "SELECT count(*) FROM users WHERE country = 'DE'"),
    ("SELECT country FROM users", "SELECT country AS c FROM users"),
    ("SELECT 1 FROM users, items", "SELECT 1 FROM items, users"),
    ("SELECT 1 FROM users FOR UPDATE", "SELECT 1 FROM users"),
    ("WITH u AS MATERIALIZED (SELECT 1) SELECT * FROM u", "WITH u AS (SELECT 1) SELECT * FROM u"),
    ("SELECT sum(1) OVER (ORDER BY 1 ROWS 1 PRECEDING)", "SELECT sum(1) OVER (ORDER BY 1 RANGE 1 PRECEDING)"),
    ("SELECT count(*) FILTER (WHERE birth_year > 1) FROM users", "SELECT count(*) FROM users"),
    ("SELECT 1 FROM users WHERE country = $1", "SELECT 1 FROM users WHERE country = $2"),
    ("SELECT $1::int", "SELECT $1::bigint"),
    ("SELECT $1 FROM users", "SELECT NULL::text FROM users"),
    ("SELECT 1 UNION SELECT 2", "SELECT 1 UNION ALL SELECT 2"),
    ("SELECT current_date", "SELECT DATE '2024-01-01'"),
    ("SELECT 1 END", "SELECT 1"),
    ("SELECT 1", "SELECT 1; SELECT 2"),
    ("SELECT 1", "SELECT no_such_column"),
    ("SELECT 1", "SELECT 'a\0b'"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "regenerated"), DIFFERENT)
def test_what_means_something_else_does_not_agree(front: Front, text: str, regenerated: str) -> None:
    assert not front.agrees(text, regenerated, ())
    assert front.agrees(text, text, ())


@pytest.mark.parametrize("text", ["EXPLAIN SELECT 1", "SHOW search_path", "COPY users TO STDOUT"])
def test_what_cannot_be_a_functions_body_never_agrees(front: Front, text: str) -> None:
    assert not front.agrees(text, text, ())


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1; END",
        "SELECT 1; END; DROP TABLE products; --",
        "SELECT 1; END; CREATE FUNCTION pg_temp.g() RETURNS void LANGUAGE sql BEGIN ATOMIC SELECT 1",
        "SELECT 1 --\n; END; DROP TABLE products",
        "SELECT 1 /* ",
        "RETURN 1",
        "SELECT 'a' 'b' FROM users",
    ],
)
def test_the_body_cannot_be_closed_early(front: Front, text: str) -> None:
    with pytest.raises(Refusal) as caught:
        front.agrees(text, "SELECT 2", ())
    assert caught.value.code == "42601"
    assert not front.agrees("SELECT 2", text, ())
    assert front.rows("SELECT count(*) FROM products") == (("3",),)


@pytest.mark.parametrize("text", ["END", "COMMIT", "ROLLBACK", "", ";", "--"])
def test_what_is_no_query_does_not_agree_with_one(front: Front, text: str) -> None:
    assert not front.agrees(text, "SELECT 2", ())
    assert not front.agrees("SELECT 2", text, ())
    assert front.rows("SELECT count(*) FROM products") == (("3",),)


def test_operators_run_together_are_the_fronts_to_refuse(front: Front) -> None:
    with pytest.raises(Refusal, match="integer %- integer") as caught:
        front.agrees("SELECT birth_year %- 2 FROM users", "SELECT birth_year % -2 FROM users", ())
    assert caught.value.code == "42883"


def test_nothing_stays(front: Front) -> None:
    front.agrees("SELECT 1 FROM users", "SELECT 1 FROM users", ())
    assert front.rows("SELECT count(*) FROM pg_proc WHERE proname = 'dpproxy_agreement'") == (("0",),)


def test_types_of_parameters_as_the_client_gave_them(front: Front) -> None:
    assert front.agrees("SELECT $1 + $2", "SELECT $1 + $2", (20, 0))
    assert front.agrees(
        "SELECT 1 FROM users WHERE country = ANY ($1)", "SELECT 1 FROM users WHERE country = ANY($1)", ()
    )
    with pytest.raises(Refusal) as caught:
        front.agrees("SELECT $1 + country FROM users", "SELECT 1", (16,))
    assert caught.value.code == "42883"


def test_the_analysts_search_path_is_in_force(front: Front) -> None:
    assert front.agrees("SELECT page FROM visits", "SELECT page FROM app.visits", ())


def test_every_query_of_the_corpora_agrees_with_itself(shared: Path, front: Front, tmp_path: Path) -> None:
    corpora = shared / "corpora"
    policy = '[backend]\nurl = "duckdb:///shop.duckdb"\n' + (corpora / "dpproxy.toml").read_text()
    file = shop.make(tmp_path, policy, (corpora / "schema.sql").read_text())
    _, backend, built = shop.opened(file)
    front.clone(built, backend.schema())
    entries = yaml.safe_load((corpora / "legit.yaml").read_text())
    queries = [str(entry["sql"]) for entry in entries if entry["mechanism"] != "session"]
    assert len(queries) > 70
    failed = []
    for sql in queries:
        try:
            if not front.agrees(sql, sql, ()):
                failed.append(sql)
        except Refusal as refusal:
            failed.append(f"{refusal.code} {refusal.message}: {sql}")
    assert failed == []
