"""Tables whose own key is called as the unit that they lead to over two hops, as Rails, Django and Prisma make them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from dpproxy.owner.check import classes
from rewriter.refusal import Refusal
from tests.dpproxy.engine.test_executor import Analyst
from tests.dpproxy.on_both import ENGINES, service_on

pytestmark = pytest.mark.service

SCHEMA = (
    "CREATE TABLE users (id BIGINT PRIMARY KEY, country VARCHAR(2))",
    "CREATE TABLE sales (id BIGINT PRIMARY KEY, user_id BIGINT REFERENCES users (id))",
    "CREATE TABLE payments (id BIGINT PRIMARY KEY, sale_id BIGINT REFERENCES sales (id), kind VARCHAR(4))",
    "INSERT INTO users SELECT i, 'DE' FROM generate_series(0, 599) AS r(i)",
    "INSERT INTO sales SELECT i, i % 300 FROM generate_series(0, 899) AS r(i)",
    "INSERT INTO payments SELECT 1000 + i, i / 2, 'card' FROM generate_series(0, 1799) AS r(i)",
)
"""300 of 600 users pay, for three sales each and twice for each sale."""
POLICY = """
[backend]
url = "{}"
[privacy]
epsilon_per = 8
query_information = 8
[budget]
mode = "track"
[tables.users]
privacy_unit = "id"
[tables.sales]
privacy_unit_path = ["user_id -> users.id"]
[tables.payments]
privacy_unit_path = ["sale_id -> sales.id"]
"""


@pytest.fixture(scope="module", params=ENGINES)
def ann(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Analyst]:
    folder: Path = tmp_path_factory.mktemp(f"own_ids_{request.param}")
    with service_on(request.param, folder, SCHEMA, POLICY) as running:
        yield Analyst(running, "ann")


@pytest.mark.parametrize(
    ("sql", "truth"),
    [
        ("SELECT COUNT(DISTINCT users_id) FROM payments", 300),
        ("SELECT COUNT(*) FROM payments WHERE id < 1900", 900),
        (
            "SELECT COUNT(DISTINCT user_id) FROM payments p JOIN sales s ON p.sale_id = s.id WHERE p.id >= 1000",
            300,
        ),
        (
            "SELECT COUNT(DISTINCT u.id) FROM payments p JOIN users u ON p.users_id = u.id WHERE p.id < 1300",
            150,
        ),
        ("SELECT COUNT(*) FROM users WHERE id IN (SELECT users_id FROM payments)", 300),
        (
            "SELECT COUNT(*) FROM users u WHERE NOT EXISTS (SELECT FROM payments p WHERE p.users_id = u.id)",
            300,
        ),
        (
            "SELECT COUNT(*) FROM (SELECT users_id FROM payments GROUP BY users_id HAVING COUNT(id) = 6) t",
            300,
        ),
        (
            "SELECT COUNT(*) FROM (SELECT ROW_NUMBER() OVER (PARTITION BY users_id ORDER BY id) AS n FROM payments) t"
            " WHERE n = 1",
            300,
        ),
    ],
)
def test_the_unit_and_the_own_key_are_two_columns(ann: Analyst, sql: str, truth: int) -> None:
    ((number,),) = ann.ask(sql)
    assert abs(int(number) - truth) < 30


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("SELECT COUNT(*) FROM payments p JOIN users u ON p.id = u.id", "PV012"),
        ("SELECT COUNT(*) FROM users WHERE id IN (SELECT id FROM payments)", "PV015"),
        ("SELECT users_id, COUNT(*) FROM payments GROUP BY users_id", "PV011"),
    ],
)
def test_the_own_key_is_no_unit(ann: Analyst, sql: str, code: str) -> None:
    with pytest.raises(Refusal) as refused:
        ann.ask(sql)
    assert refused.value.code == code
    if code == "PV012":
        assert "p.users_id = u.id" in str(refused.value.hint)


def test_both_are_shown(ann: Analyst) -> None:
    checked = ann.service.checked
    found = classes(checked.policy, checked.config.tables, checked.config.privacy)
    told = {one.column: (one.type, one.domain) for one in found if one.table == "payments"}
    assert told["id"] == ("bigint", "unknown")
    assert told["users_id"] == ("bigint", "privacy unit")
    front = ann.service.front
    role, password = front.role_for("ann")
    with psycopg.connect(
        host=str(Path(str(front.address)).parent), user=role, password=password, dbname=front.database
    ) as connection:
        rows = connection.execute(
            "SELECT attname, attnotnull, col_description(attrelid, attnum) FROM pg_attribute"
            " WHERE attrelid = 'payments'::regclass AND attnum > 0 ORDER BY attnum"
        ).fetchall()
    assert [name for name, _, _ in rows] == ["id", "sale_id", "kind", "users_id"]
    assert rows[-1] == ("users_id", True, "privacy unit, which sale_id leads to")
