"""SET ROLE by raw messages: whoever a session acts for when a step is taken pays for it, and reads what they paid."""

from __future__ import annotations

import pytest

from dpproxy.pgwire import messages as m
from dpproxy.pgwire.startup import startup_packet
from tests.dpproxy.wire import AGES, BY_AGE, BY_COUNTRY, FLUSH, SYNC, Raw, Served, bound, errors, rows

pytestmark = pytest.mark.service

DECLARED = f"DECLARE c SCROLL CURSOR WITH HOLD FOR {BY_COUNTRY}"


def code(raw: Raw, text: str) -> str | None:
    """The SQLSTATE that a simple query ends with."""
    found = errors(raw.query(text))
    return found[0]["C"] if found else None


def asked(proxy: Served) -> list[str]:
    """For whom the steps were taken."""
    return [asker.analyst for asker in proxy.answering.askers]


def parsed_and_run(raw: Raw, text: str) -> list[tuple[str, bytes]]:
    """Parse, Bind, Execute and Sync."""
    raw.send(m.parse("", text), bound("", ""), m.execute(""), SYNC)
    return raw.until("Z")


def test_a_step_is_the_current_roles(proxy: Served) -> None:
    with proxy.raw(user="bi") as raw:
        for statement in (
            BY_COUNTRY,
            "SET ROLE ann",
            BY_COUNTRY,
            'SET SESSION ROLE "bob"',
            BY_COUNTRY,
            "SET role TO DEFAULT",
            BY_COUNTRY,
            "SET role = 'ann'",
            BY_COUNTRY,
            "RESET ROLE",
            BY_COUNTRY,
            f"SET ROLE bob; {BY_COUNTRY}; SET ROLE NONE; {BY_COUNTRY}",
        ):
            assert code(raw, statement) is None
        assert asked(proxy) == ["bi", "ann", "bob", "bi", "ann", "bi", "bob", "bi"]


def test_roles_in_the_extended_protocol(proxy: Served) -> None:
    with proxy.raw(user="bi") as raw:
        assert not errors(parsed_and_run(raw, "SET ROLE ann"))
        assert rows(parsed_and_run(raw, "SELECT current_user, session_user")) == [("ann", "bi")]
        raw.send(
            *(m.parse("", "SET ROLE bob"), bound("", ""), m.execute("")),
            *(m.parse("", BY_COUNTRY), bound("", ""), m.execute(""), SYNC),
        )
        assert not errors(raw.until("Z"))
        assert asked(proxy) == ["bob"]
        (refused,) = errors(parsed_and_run(raw, "SET ROLE eve"))
        assert refused["C"] == "42501"
        assert "[identity.services" in refused["H"]


@pytest.mark.parametrize(
    ("statements", "now"),
    [
        (("BEGIN", "SET ROLE ann", "ROLLBACK"), "bi"),
        (("BEGIN", "SET ROLE ann", "COMMIT"), "ann"),
        (("BEGIN", "SET LOCAL ROLE ann"), "ann"),
        (("BEGIN", "SET LOCAL ROLE ann", "COMMIT"), "bi"),
        (("SET ROLE bob", "BEGIN", "SET LOCAL ROLE ann", "COMMIT"), "bob"),
        (("BEGIN", "SET ROLE ann", "SAVEPOINT s", "SET ROLE bob", "ROLLBACK TO s"), "ann"),
        (("BEGIN", "SAVEPOINT s", "SET LOCAL ROLE bob", "RELEASE s"), "bob"),
        (("SET ROLE ann", "DISCARD ALL"), "bi"),
        (("SET ROLE ann", "SET SESSION AUTHORIZATION DEFAULT"), "bi"),
        (("SET ROLE ann", "RESET ALL"), "ann"),
        (("SELECT set_config('role', 'ann', false)",), "ann"),
        (("BEGIN", "SELECT set_config('role', 'ann', true)", "COMMIT"), "bi"),
        (("SELECT set_config('Role', 'ann', false)", "SELECT set_config('role', 'none', false)"), "bi"),
    ],
)
def test_a_role_lasts_as_in_postgresql(proxy: Served, statements: tuple[str, ...], now: str) -> None:
    with proxy.raw(user="bi") as raw:
        for statement in statements:
            assert code(raw, statement) is None
        assert rows(raw.query("SELECT current_user")) == [(now,)]
        assert code(raw, BY_COUNTRY) is None
        assert asked(proxy) == [now]


@pytest.mark.parametrize(
    "statement",
    [
        "SET ROLE eve",
        "SET LOCAL ROLE eve",
        'SET ROLE U&"bob"',
        "SET ROLE ann, bob",
        "SET ROLE postgres",
        "SET ROLE on_demand",
        "SELECT set_config('role', 'eve', false)",
        "SELECT set_config('role', 'on_demand_1', false)",
        "SELECT set_config('role', 'postgres', false)",
        "SET SESSION AUTHORIZATION ann",
    ],
)
def test_nobody_else_may_be_acted_for(proxy: Served, statement: str) -> None:
    with proxy.raw(user="bi") as raw:
        assert code(raw, statement) == "42501"
        assert rows(raw.query("SELECT current_user")) == [("bi",)]


def test_a_role_is_not_taken_by_code(proxy: Served) -> None:
    """The statements are refused before the front, which would not run them either."""
    with proxy.raw(user="bi") as raw:
        assert code(raw, "DO $$ BEGIN SET ROLE ann; END $$") == "42501"
        assert code(raw, "CREATE FUNCTION public.f() RETURNS void LANGUAGE sql AS 'SET ROLE ann'") == "42501"


@pytest.mark.parametrize("role", ["ann", "bob", "eve", "nobody"])
def test_a_plain_analyst_takes_no_role(proxy: Served, role: str) -> None:
    with proxy.raw(user="carl") as raw, proxy.raw(user="bi") as service:
        service.query("SET ROLE ann")
        for statement in (f"SET ROLE {role}", f"SELECT set_config('role', '{role}', false)"):
            (refused,) = errors(raw.query(statement))
            assert refused["C"] == "42501"
            assert refused["M"] == f'permission denied to set role "{role}"'
            assert refused["H"]
        assert code(raw, "SET ROLE NONE") is None
        assert code(raw, "RESET ROLE") is None
        assert rows(raw.query("SELECT current_user")) == [("carl",)]


def test_a_pattern_lets_analysts_appear(proxy: Served) -> None:
    with proxy.raw(user="bi") as raw:
        assert code(raw, "SET ROLE on_demand_7") is None
        assert rows(raw.query("SELECT current_user")) == [("on_demand_7",)]
        assert code(raw, BY_COUNTRY) is None
        assert asked(proxy) == ["on_demand_7"]


@pytest.mark.parametrize("more", [{"options": "-c role=bob"}, {"role": "bob"}])
def test_a_role_from_the_beginning(proxy: Served, more: dict[str, str]) -> None:
    with proxy.raw(user="bi", **more) as raw:
        assert code(raw, BY_COUNTRY) is None
        assert code(raw, "SET ROLE NONE") is None
        assert code(raw, BY_COUNTRY) is None
        assert code(raw, "RESET ROLE") is None
        assert rows(raw.query("SELECT current_user")) == [("bob",)]
        assert asked(proxy) == ["bob", "bi"]


@pytest.mark.parametrize(("user", "role"), [("bi", "eve"), ("carl", "ann")])
def test_a_role_that_is_not_taken_from_the_beginning(proxy: Served, user: str, role: str) -> None:
    with Raw.open(proxy.port) as raw:
        raw.send(startup_packet({"user": user, "database": "x", "options": f"-c role={role}"}))
        (refused,) = errors(raw.until("E"))
        assert (refused["C"], refused["S"]) == ("42501", "FATAL")


def test_what_was_prepared_in_one_role_is_paid_for_by_the_one_that_executes_it(proxy: Served) -> None:
    with proxy.raw(user="bi") as raw:
        raw.query("SET ROLE ann")
        raw.query(f"PREPARE p AS {BY_COUNTRY}")
        raw.send(m.parse("named", BY_COUNTRY), SYNC)
        raw.until("Z")
        assert asked(proxy) == []
        raw.query("SET ROLE bob")
        assert code(raw, "EXECUTE p") is None
        raw.send(bound("", "named"), m.execute(""), SYNC)
        assert not errors(raw.until("Z"))
        raw.send(bound("", "named"), FLUSH)
        raw.until("2")
        raw.send(m.parse("", "RESET ROLE"), bound("reset", ""), m.execute("reset"), m.execute(""), SYNC)
        assert not errors(raw.until("Z"))
        assert asked(proxy) == ["bob", "bob", "bi"]


def test_a_cursor_is_read_by_the_role_that_paid(proxy: Served) -> None:
    with proxy.raw(user="bi") as raw:
        for statement in ("SET ROLE ann", "BEGIN", DECLARED, "COMMIT"):
            assert code(raw, statement) is None
        assert len(rows(raw.query("FETCH 2 FROM c"))) == 2
        for other in ("SET ROLE bob", "RESET ROLE"):
            raw.query(other)
            for read in ("FETCH 1 FROM c", "FETCH 1 FROM C", "MOVE 1 IN c", "SELECT 1; FETCH FIRST FROM c"):
                assert code(raw, read) == "42501"
            assert [e["C"] for e in errors(parsed_and_run(raw, "FETCH 1 FROM c"))] == ["42501"]
            raw.send(m.execute("c"), SYNC)
            assert [e["C"] for e in errors(raw.until("Z"))] == ["42501"]
        raw.query("SET ROLE ann")
        assert len(rows(raw.query("FETCH ALL FROM c"))) == 3
        assert rows(parsed_and_run(raw, "FETCH FIRST FROM c")) == [("US", "500")]
        assert asked(proxy) == ["ann"]


def test_a_cursor_of_public_rows_is_anybodys(proxy: Served) -> None:
    with proxy.raw(user="bi") as raw:
        raw.query("SET ROLE ann")
        raw.query("BEGIN; DECLARE c CURSOR WITH HOLD FOR SELECT id FROM articles ORDER BY id; COMMIT")
        raw.query("SET ROLE bob")
        assert rows(raw.query("FETCH 1 FROM c")) == [("1",)]


def test_a_portal_goes_on_for_the_role_that_paid(proxy: Served) -> None:
    with proxy.raw(user="bi") as raw:
        raw.query("SET ROLE ann")
        raw.query("BEGIN")
        raw.send(m.parse("", BY_AGE), bound("p", ""), m.execute("p", 5), FLUSH)
        assert len(rows(raw.until("s"))) == 5
        raw.send(m.execute("p", 5), SYNC)
        assert len(rows(raw.until("Z"))) == 5
        raw.query("SAVEPOINT s")
        raw.query("SET ROLE bob")
        raw.send(m.execute("p", 5), SYNC)
        assert [e["C"] for e in errors(raw.until("Z"))] == ["42501"]
        raw.query("ROLLBACK TO s")
        raw.send(m.execute("p"), SYNC)
        assert len(rows(raw.until("Z"))) == AGES - 10
        assert asked(proxy) == ["ann"]


def test_a_last_release_is_forgotten_with_its_role(proxy: Served) -> None:
    with proxy.raw(user="bi") as raw:
        for statement in (
            "SET ROLE ann",
            BY_COUNTRY,
            BY_COUNTRY,
            "SET ROLE bob",
            BY_COUNTRY,
            "RESET ROLE",
            BY_COUNTRY,
        ):
            raw.query(statement)
        memories = [asker.last for asker in proxy.answering.askers]
        assert memories[0] is memories[1]
        assert len({id(one) for one in memories}) == 3


@pytest.mark.parametrize(("user", "noted"), [("bi", "metabase:7"), ("carl", "")])
def test_a_comment_of_a_service_is_noted(proxy: Served, user: str, noted: str) -> None:
    comment = "-- Metabase:: userID: 7 queryType: native queryHash: 00\n"
    with proxy.raw(user=user) as raw:
        raw.query(comment + BY_COUNTRY)
        parsed_and_run(raw, comment + BY_COUNTRY)
        raw.query(f"BEGIN; {BY_COUNTRY}; COMMIT")
        assert [asker.attributed for asker in proxy.answering.askers] == [noted, noted, ""]
        assert set(asked(proxy)) == {user}


def test_sessions_of_one_service_do_not_see_each_others_statements(proxy: Served) -> None:
    seen = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%telling%'"
    with proxy.raw(user="bi") as one, proxy.raw(user="bi") as other:
        other.query("SELECT 'telling'")
        assert rows(one.query(seen)) == [("2",)]
        one.query("SET ROLE ann")
        assert rows(one.query(seen)) == [("1",)]


def run_as_statement(raw: Raw, name: str) -> list[tuple[str, bytes]]:
    """Binds and executes a named statement."""
    raw.send(bound("", name), m.execute(""), SYNC)
    return raw.until("Z")


def a_cursor_of(raw: Raw, role: str, *before: str) -> None:
    """Leaves `c`, which this role has paid for, open in a session."""
    for statement in (*before, f"SET ROLE {role}", "BEGIN", DECLARED, "COMMIT"):
        assert code(raw, statement) is None


@pytest.mark.parametrize(
    "read",
    [
        'FETCH ALL FROM U&"\\0063"',
        "FETCH ALL FROM U&\"!0063\" UESCAPE '!'",
        'MOVE 1 IN U&"\\0063"',
        'FETCH ALL FROM "c"',
        "FETCH ALL FROM /* x */ C -- d",
        "SELECT ';'; FETCH c",
        "EXECUTE fetching",
        'EXECUTE U&"fetching"',
        "EXPLAIN ANALYZE EXECUTE fetching",
        "SELECT set_config('role', 'bob', false); FETCH ALL FROM c",
    ],
)
def test_no_spelling_reads_what_another_role_has_paid_for(proxy: Served, read: str) -> None:
    with proxy.raw(user="bi") as raw:
        a_cursor_of(raw, "ann")
        raw.send(m.parse("fetching", "FETCH ALL FROM c"), m.parse("here", read.split("; ")[-1]), SYNC)
        assert not errors(raw.until("Z"))
        raw.query("SET ROLE bob")
        assert code(raw, read) in ("42501", "42601")
        assert code(raw, f"BEGIN; {read}; COMMIT") in ("42501", "42601")
        raw.query("ROLLBACK")
        assert [e["C"] for e in errors(run_as_statement(raw, "here"))] == ["42501"]
        assert asked(proxy) == ["ann"]


@pytest.mark.parametrize(
    ("bound_to", "gone"),
    [
        ("SELECT 1", ("CLOSE c",)),
        ("SELECT 1", ("ROLLBACK TO s",)),
        ("SELECT 1", ("CLOSE ALL",)),
        ("FETCH 1 FROM d", ("CLOSE c",)),
        (f"PREPARE x AS {BY_COUNTRY}", ("CLOSE c",)),
        ("SET jit = off", ("CLOSE c", "SAVEPOINT t")),
    ],
)
def test_a_cursor_in_the_place_of_a_portal_is_the_front_s_to_tell(
    proxy: Served, bound_to: str, gone: tuple[str, ...]
) -> None:
    """The portal `c` is closed by SQL, and becomes a cursor that one role pays for; the other executes it."""
    with proxy.raw(user="bi") as raw:
        for statement in ("SET ROLE ann", "BEGIN", "SAVEPOINT s"):
            raw.query(statement)
        raw.send(m.parse("s", bound_to), bound("c", "s"), FLUSH)
        raw.until("2")
        for statement in (*gone, DECLARED, "SET ROLE bob"):
            assert code(raw, statement) is None
        raw.send(m.execute("c"), SYNC)
        seen = raw.until("Z")
        assert [e["C"] for e in errors(seen)] == ["42501"]
        assert not rows(seen)


def test_a_statement_that_is_not_known_any_more_may_fetch(proxy: Served) -> None:
    with proxy.raw(user="bi") as raw:
        a_cursor_of(raw, "ann")
        raw.send(m.parse("fetching", "FETCH ALL FROM c"), SYNC)
        raw.until("Z")
        for statement in ("PREPARE x AS SELECT 1", "DEALLOCATE x", "PREPARE x AS SELECT 1", "SET ROLE bob"):
            assert code(raw, statement) is None
        assert [e["C"] for e in errors(run_as_statement(raw, "fetching"))] == ["42501"]
        raw.query("SET ROLE ann")
        assert len(rows(run_as_statement(raw, "fetching"))) == 5


def test_ones_own_cursor_is_read_beside_anothers(proxy: Served) -> None:
    with proxy.raw(user="bi") as raw:
        a_cursor_of(raw, "ann")
        raw.query("SET ROLE bob")
        raw.query("BEGIN")
        assert code(raw, DECLARED.replace("DECLARE c", 'DECLARE "d"')) is None
        assert len(rows(raw.query('FETCH ALL FROM "d"'))) == 5
        raw.send(m.parse("", "SELECT 'public'"), bound("p", ""), m.execute("p"), SYNC)
        assert rows(raw.until("Z")) == [("public",)]
        assert code(raw, "CLOSE c") is None
        assert code(raw, "PREPARE q AS SELECT 1") is None
        assert rows(raw.query("EXECUTE q")) == [("1",)]


def test_no_function_reads_a_cursor(proxy: Served) -> None:
    """What takes a cursor's name in a SELECT is taken from analysts: nothing else of it is checked."""
    with proxy.raw(user="bi") as raw:
        found = rows(
            raw.query(
                "SELECT oid::regprocedure FROM pg_proc WHERE 'refcursor'::regtype = ANY (proargtypes) "
                "AND proname NOT IN ('textin', 'textout') AND has_function_privilege(oid, 'EXECUTE')"
            )
        )
        assert found == []
