"""Views of the backend in the file: what they may read, and why they are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpproxy.config.sections import ConfigError
from rewriter.policy import Policy
from tests.dpproxy import shop


def opened(tmp_path: Path, view: str, said: str = "[tables.v]") -> Policy:
    shop.make(tmp_path, schema=f"{shop.SCHEMA};{view};")
    return shop.opened(shop.write(tmp_path, f"{shop.POLICY}\n{said}"))[2]


def test_columns_keep_what_their_tables_say(tmp_path: Path) -> None:
    text = "SELECT user_id AS who, country, birth_year, birth_year % 10 AS digit FROM users"
    policy = opened(tmp_path, f"CREATE VIEW v AS {text}; COMMENT ON VIEW v IS 'Seen'")
    found = policy.tables["public", "v"]
    assert [(c.name, c.type, c.domain, c.range) for c in found.columns] == [
        ("who", "bigint", None, None),
        ("country", "text", ("DE", "FR", "US"), None),
        ("birth_year", "integer", None, ("1900", "2020")),
        ("digit", "integer", None, None),
    ]
    assert (found.privacy_unit, found.keys) == ("who", (frozenset({"who"}),))
    assert found.comment == "Seen"
    assert policy.secretive
    assert list(policy.tables)[-1] == ("public", "v")


def test_views_of_views_in_any_order(tmp_path: Path) -> None:
    views = "CREATE VIEW z AS SELECT user_id, country FROM users; CREATE VIEW v AS SELECT country AS c FROM z"
    policy = opened(tmp_path, views, "[tables.v]\n[tables.z]")
    assert [c.name for c in policy.tables["public", "v"].columns] == ["c"]
    with pytest.raises(ConfigError, match='it reads "z", which is no table of the file'):
        shop.opened(shop.write(tmp_path, shop.POLICY + "\n[tables.v]"))


def test_columns_may_be_hidden(tmp_path: Path) -> None:
    view = "CREATE VIEW v AS SELECT user_id, email, email IS NULL AS silent FROM users"
    with pytest.raises(ConfigError, match='"email" does not exist, or is hidden there: hide the columns'):
        opened(tmp_path, view)
    hidden = "\n[tables.v]\n[tables.v.columns]\nemail = { hidden = true }\nsilent = { hidden = true }"
    policy = shop.opened(shop.write(tmp_path, shop.POLICY + hidden))[2]
    assert [c.name for c in policy.tables["public", "v"].columns] == ["user_id"]


@pytest.mark.parametrize(
    ("view", "why"),
    [
        ("SELECT user_id FROM users WHERE email IS NULL", "is hidden there"),
        ("SELECT DISTINCT user_id, email FROM users", "is hidden there"),
        ("SELECT x FROM secrets", 'reads "secrets", which is no table of the file'),
        ("SELECT user_id FROM users WHERE user_id IN (SELECT x FROM secrets)", 'reads "secrets"'),
        ("SELECT range AS r FROM range(3)", "it gives no rows of the privacy unit"),
        ("SELECT name FROM products", "it gives no rows of the privacy unit"),
        ("SELECT country, count(*) AS n FROM users GROUP BY country", "it gives no rows of the privacy unit"),
        ("SELECT user_id FROM users ORDER BY birth_year LIMIT 10", "LIMIT over private rows"),
        ("SELECT user_id, random() AS r FROM users", "the view cannot be shown"),
        ("SELECT user_id FROM users WHERE birth_year > year(current_date)", "Write its value as a constant"),
        ("SELECT a.user_id FROM users a JOIN users b ON a.country = b.country", "joined on the privacy unit"),
        ("SELECT user_id, sum(birth_year) OVER () AS s FROM users", "the view cannot be shown"),
        ("SELECT user_id, strptime(country, '%Y') AS t FROM users", "the view cannot be shown"),
        ("SELECT user_id, birth_year::VARCHAR[1] AS t FROM users WHERE false", "the view cannot be shown"),
        # DuckDB compares an ENUM with a text as texts.
        (
            "SELECT price FROM items WHERE size < 'small'",
            'it asks for the order of "size", an enumerated type',
        ),
    ],
)
def test_views_that_an_analyst_could_not_write(tmp_path: Path, view: str, why: str) -> None:
    with pytest.raises(ConfigError) as caught:
        opened(tmp_path, f"CREATE VIEW v AS {view}")
    assert caught.value.key == "tables.v"
    assert why in caught.value.message


@pytest.mark.parametrize(
    ("said", "key", "why"),
    [
        ('[tables.v]\nprivacy_unit = "user_id"', "tables.v.privacy_unit", "is said of tables"),
        ("[tables.v]\npublic = true", "tables.v.public", "is said of tables"),
        ('[tables.v]\nwhere = "true"', "tables.v.where", "is said of tables"),
        ("[tables.v.columns]\nuser_id = { bounds = [0, 1] }", "tables.v.columns.user_id", "only be hidden"),
        ("[tables.v.columns]\nx = { hidden = true }", "tables.v.columns.x", "no such column"),
        ('[tables.v.columns]\ny = { expression = "1" }', "tables.v.columns.y", "no such column"),
    ],
)
def test_what_is_said_of_a_view(tmp_path: Path, said: str, key: str, why: str) -> None:
    with pytest.raises(ConfigError) as caught:
        opened(tmp_path, "CREATE VIEW v AS SELECT user_id FROM users", said)
    assert caught.value.key == key
    assert why in caught.value.message


def test_no_path_leads_over_a_view(tmp_path: Path) -> None:
    views = "CREATE VIEW v AS SELECT user_id FROM users"
    shop.make(tmp_path, schema=f"{shop.SCHEMA};{views};")
    said = shop.POLICY.replace('["user_id -> users.user_id"]', '["user_id -> v.user_id"]') + "[tables.v]"
    with pytest.raises(ConfigError, match='the file has no table "v"'):
        shop.opened(shop.write(tmp_path, said))
