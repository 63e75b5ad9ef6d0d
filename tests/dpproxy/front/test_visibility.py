"""Analysts of one front see nothing of each other, and set nothing by a function's call that SET would refuse."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path

import psycopg
import pytest

from dpproxy.front.front import Front
from tests.dpproxy.front.test_front import session

pytestmark = pytest.mark.service

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


def test_locks_are_those_of_ones_own_sessions(front: Front, alice: psycopg.Connection) -> None:
    with session(front, "bob") as bob:
        held = "SELECT pid FROM pg_locks WHERE relation = 'pg_cast'::regclass"
        for analyst in (bob, alice):
            analyst.execute("BEGIN")
            analyst.execute("SELECT count(*) FROM pg_cast")
        assert names(alice, held) == [str(alice.info.backend_pid)]
        with front._as_admin() as admin:
            assert len(names(admin, held)) == 2
        alice.execute("ROLLBACK")


@pytest.mark.parametrize("view", ["pg_stat_replication", "pg_stat_progress_vacuum", "pg_stat_progress_copy"])
def test_what_dashboards_read_is_there(alice: psycopg.Connection, view: str) -> None:
    assert alice.execute(f"SELECT * FROM {view}".encode()).fetchall() == []


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
        "SELECT * FROM pg_locks_of_all",
        "SELECT * FROM pg_lock_status()",
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


OTHER = "zoe_who_is_somebody_else"
_TRIED = ("oid", "regrole", "name", "text", "char", "integer", "smallint", "boolean", "aclitem[]", "regclass")


@pytest.fixture
def zoe(front: Front, alice: psycopg.Connection) -> int:
    """The number of another analyst's role."""
    front.role_for(OTHER)
    with front._as_admin() as admin:
        (found,) = admin.execute("SELECT oid FROM pg_authid WHERE rolname = %s", (OTHER,)).fetchone() or (0,)
        return int(found)


def said(analyst: psycopg.Connection, sql: str) -> str:
    """What a statement gives, or why it fails."""
    try:
        return str(analyst.execute(sql.encode()).fetchall())
    except psycopg.Error as error:
        return f"{error.sqlstate} {error}"


def functions(analyst: psycopg.Connection) -> list[tuple[str, list[str]]]:
    """What analysts may call with a role's number or name, and the types of its arguments."""
    return analyst.execute(
        """
        SELECT p.proname::text, proargtypes::oid[]::regtype[]::text[] FROM pg_proc AS p
        WHERE has_function_privilege(p.oid, 'EXECUTE') AND prokind = 'f' AND pronargs BETWEEN 1 AND 4
          AND pronamespace = 'pg_catalog'::regnamespace AND provolatile <> 'v'
          AND proargtypes::oid[] && '{oid,regrole,name,text}'::regtype[]::oid[]
          AND proargtypes::oid[] <@ %s::text[]::regtype[]::oid[]
        """,
        (['"char"' if one == "char" else one for one in _TRIED],),
    ).fetchall()


def calls(name: str, kinds: list[str], role: str, number: int) -> list[str]:
    """Calls with that role in the places where one may be meant, the others filled with what is mostly there."""
    filled = {
        "oid": (str(number), "1260", "1261"),
        "regrole": (f"{number}::oid::regrole",),
        "name": (f"'{role}'::name", "'alice'::name"),
        "text": (f"'{role}'", "'USAGE'", "'role'"),
        '"char"': ("'r'::\"char\"",),
        "aclitem[]": (f"acldefault('r', {number})",),
        "regclass": ("'pg_class'::regclass",),
        "boolean": ("true",),
    }
    choices = product(*(filled.get(kind, ("0", "1"))[: 3 if len(kinds) < 3 else 2] for kind in kinds))
    return [f"SELECT pg_catalog.{name}({', '.join(one)})" for one in choices]


def test_no_function_tells_the_name_of_a_role(alice: psycopg.Connection, zoe: int) -> None:
    tried = 0
    for name, kinds in functions(alice):
        for call in calls(name, kinds, "alice", zoe):
            tried += 1
            assert OTHER not in said(alice, call), call
    assert tried > 1000


def test_nothing_tells_whether_there_is_a_role(front: Front, alice: psycopg.Connection) -> None:
    """What a name is said to be does not change when an analyst of this name appears."""
    new, kinds = "new_one", names(alice, "SELECT oid::regtype FROM pg_type WHERE typtype IN ('b', 'p')")
    asked = [call for name, types in functions(alice) for call in calls(name, types, new, 0) if new in call]
    asked += [
        f"SELECT '{text}'::{kind}" for kind in kinds for text in (new, f"{new}=r/{new}", f"{{{new}=r/{new}}}")
    ]
    before = [said(alice, call) for call in asked]
    front.role_for(new)
    assert [call for call, told in zip(asked, before, strict=True) if said(alice, call) != told] == []
    assert sum("does not exist" in told for told in before) > 40


def test_no_type_tells_the_name_of_a_role(alice: psycopg.Connection, zoe: int) -> None:
    for kind in names(alice, "SELECT oid::regtype FROM pg_type WHERE typtype IN ('b', 'p')"):
        value = f"{zoe}::oid::{kind}"
        for form in (f"{value}::text", f"to_json({value})", f"ARRAY[{value}]::text"):
            assert OTHER not in said(alice, f"SELECT {form}")


def test_no_relation_tells_the_name_of_a_role(alice: psycopg.Connection, zoe: int) -> None:
    relations = names(
        alice,
        "SELECT oid::regclass FROM pg_class WHERE relkind IN ('r', 'v') AND has_table_privilege(oid, 'SELECT')",
    )
    assert len(relations) > 150
    for relation in relations:
        found = said(alice, f"SELECT 'found' FROM {relation} AS r WHERE r::text ~ 'zoe[_]who[_]is'")
        assert "found" not in found, relation


def test_what_clients_ask_of_roles(front: Front, alice: psycopg.Connection, zoe: int) -> None:
    owners = names(alice, "SELECT DISTINCT pg_get_userbyid(relowner) FROM pg_class ORDER BY 1")
    assert "dpproxy" in owners
    assert not any(owner.startswith("unknown") for owner in owners)
    assert names(alice, f"SELECT pg_get_userbyid({zoe})") == [f"unknown (OID={zoe})"]
    assert names(alice, "SELECT pg_get_userbyid(oid) FROM pg_roles WHERE rolcanlogin") == ["alice"]
    assert names(alice, "SELECT tableowner FROM pg_tables WHERE tablename = 'pg_class'") == ["dpproxy"]
    for call in (
        "has_table_privilege(current_user, 'pg_class', 'SELECT')",
        "has_schema_privilege('public', 'pg_catalog', 'USAGE')",
        "pg_has_role('alice', 'MEMBER')",
        "pg_has_role(current_user, oid, 'MEMBER') FROM pg_roles WHERE rolname = 'alice'",
        "acldefault('r', relowner) IS NOT NULL FROM pg_class LIMIT 1",
    ):
        assert alice.execute(f"SELECT {call}".encode()).fetchone() == (True,)
    with front._as_admin() as admin:
        assert names(admin, f"SELECT pg_get_userbyid({zoe})") == [OTHER]
