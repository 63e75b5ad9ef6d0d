"""Analysts of one front see nothing of each other, and set nothing by a function's call that SET would refuse."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from dpproxy.front import Front
from tests.dpproxy.test_front import session

DENIED = "42501"


@pytest.fixture(scope="module")
def front(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    folder: Path = tmp_path_factory.mktemp("hidden")
    Front.start(folder / "front").close()
    with Front.start(folder / "front") as started:
        yield started


@pytest.fixture
def alice(front: Front) -> Iterator[psycopg.Connection]:
    with session(front, "bob") as bob, session(front) as connection:
        bob.execute("SELECT 'what bob asks'")
        yield connection


def names(analyst: psycopg.Connection, sql: str) -> list[str]:
    return [str(name) for (name,) in analyst.execute(sql.encode()).fetchall()]


def test_roles_are_ones_own_and_those_that_nobody_logs_in_as(alice: psycopg.Connection) -> None:
    found = names(alice, "SELECT rolname FROM pg_roles WHERE rolcanlogin")
    assert found == ["alice"]
    assert names(alice, "SELECT usename FROM pg_user") == ["alice"]
    assert "pg_monitor" in names(alice, "SELECT rolname FROM pg_roles")


def test_sessions_are_ones_own(alice: psycopg.Connection) -> None:
    found = alice.execute(
        "SELECT usename, pid, query LIKE 'SELECT usename%' FROM pg_stat_activity"
    ).fetchall()
    assert found == [("alice", alice.info.backend_pid, True)]


def test_the_superuser_sees_all(front: Front, alice: psycopg.Connection) -> None:
    with front._as_admin() as admin:
        assert {"alice", "bob"} <= set(names(admin, "SELECT rolname FROM pg_roles"))
        assert {"alice", "bob"} <= set(
            names(admin, "SELECT usename FROM pg_stat_activity WHERE usename <> ''")
        )


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM pg_stat_get_activity(NULL)",
        "SELECT pg_stat_get_backend_userid(1)",
        "SELECT pg_stat_get_backend_activity(1)",
        "SELECT * FROM pg_stat_activity_of_all",
        "SELECT * FROM pg_roles_of_all",
        "SELECT * FROM pg_user_of_all",
        "SELECT * FROM pg_locks",
        "SELECT * FROM pg_shadow",
        "SELECT set_any_config('jit', 'off', false)",
        "SELECT set_config('work_mem', '1GB', false)",
        "SELECT pg_catalog.set_config('WORK_MEM', '1GB', true)",
        "SELECT set_config('temp_buffers', '1GB', false)",
        "SELECT set_config('role', 'bob', false)",
        "SELECT set_config('row_security', 'off', false)",
        "SELECT set_config('max_parallel_workers_per_gather', '64', false)",
        "SELECT set_config('client_encoding', 'LATIN1', false)",
        "SELECT set_config('client_min_messages', 'debug5', false)",
        "SELECT set_config('standard_conforming_strings', 'off', false)",
        "SELECT set_config('standard_conforming_strings', 'fa', false)",
        "UPDATE pg_settings SET setting = '1GB' WHERE name = 'work_mem'",
    ],
)
def test_other_ways_are_closed(alice: psycopg.Connection, sql: str) -> None:
    with pytest.raises(psycopg.Error) as caught:
        alice.execute(sql.encode())
    assert caught.value.sqlstate == DENIED


@pytest.mark.parametrize(
    ("name", "value"),
    [("jit", "off"), ("bytea_output", "escape"), ("search_path", "app"), ("dpproxy.notices", "off")],
)
def test_what_drivers_set_by_a_call_is_set(alice: psycopg.Connection, name: str, value: str) -> None:
    found = alice.execute("SELECT set_config(%s, %s, false)", (name, value)).fetchone()
    assert found == (value,)
    assert alice.execute("SELECT current_setting(%s)", (name,)).fetchone() == (value,)
