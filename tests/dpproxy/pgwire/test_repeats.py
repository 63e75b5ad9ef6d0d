"""A round that comes again is answered without a question to the front, unless anything may be another."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from dpproxy.front.front import Front
from dpproxy.pgwire import messages as m
from dpproxy.pgwire.relay import Relay
from dpproxy.server.impersonation import Identity
from tests.dpproxy.wire import (
    BY_COUNTRY,
    CHANGING,
    EXPECTED,
    FAILING,
    FLUSH,
    NOTED,
    OLDER,
    SYNC,
    Raw,
    Served,
    admin,
    bound,
    errors,
    query,
    rows,
    shape,
)

pytestmark = pytest.mark.service

TEXT_ROWS = [(country, str(count)) for country, count in EXPECTED]


@pytest.fixture
def repeats(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The rounds that were answered again."""
    found, answer = list[bytes](), Relay.answer

    def noted(relay: Relay, *arguments: object) -> None:
        assert relay._answered is not None
        found.append(relay._answered.raw)
        answer(relay, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Relay, "answer", noted)
    return found


def executed(name: str, value: bytes, formats: tuple[int, ...] = (), portal: str = "") -> bytes:
    """Bind, Describe and Execute of a prepared statement, and Sync."""
    return bound(portal, name, (value,), formats) + m.describe("P", portal) + m.execute(portal) + SYNC


def said(raw: Raw, data: bytes) -> list[tuple[str, bytes]]:
    """The responses to a round."""
    raw.send(data)
    return raw.until("Z")


def settings(proxy: Served, name: str) -> str | None:
    """A setting as the last step saw it."""
    return proxy.answering.steps[-1][2].get(name)


def test_a_simple_query_is_answered_again(proxy: Served, repeats: list[bytes]) -> None:
    with proxy.raw() as raw:
        raw.query("SELECT 1")
        answers = [raw.query(NOTED) for _ in range(4)]
        assert repeats == [query(NOTED)] * 3
        assert len(proxy.answering.steps) == 4
        assert {tuple(one) for one in answers} == {tuple(answers[0])}, (
            "notices, columns and rows are the same"
        )
        assert rows(raw.query("SELECT count(*) FROM pg_prepared_statements")) == [("0",)]
        assert errors(said(raw, bound("", "") + SYNC))[0]["C"] == "26000", (
            "nothing is left under the empty name"
        )


@pytest.mark.parametrize("name", ["", "s"])
def test_a_prepared_statement_is_answered_again(proxy: Served, repeats: list[bytes], name: str) -> None:
    with proxy.raw() as raw:
        said(raw, m.parse(name, OLDER) + SYNC)
        first = said(raw, executed(name, b"30"))
        for _ in range(3):
            assert said(raw, executed(name, b"30")) == first
        assert len(repeats) == 3
        more = said(raw, executed(name, b"31"))
        assert rows(more)[0] == ("US", "531"), "other parameters are another round"
        assert len(repeats) == 3
        assert len(proxy.answering.steps) == 5


def test_a_statement_that_is_parsed_each_time_is_answered_again(proxy: Served, repeats: list[bytes]) -> None:
    with proxy.raw() as raw:
        said(raw, m.parse("other", BY_COUNTRY) + SYNC)
        whole = m.parse("", OLDER) + executed("", b"30")
        assert {shape(said(raw, whole)) for _ in range(3)} == {"12TDCZ"}
        assert repeats == [whole] * 2
        assert rows(said(raw, executed("", b"30"))) == [(c, str(n + 30)) for c, n in EXPECTED], "it is parsed"
        beside = m.parse("", OLDER) + bound("", "other") + m.execute("") + SYNC
        assert {shape(said(raw, beside)) for _ in range(3)} == {"12DCZ"}
        assert len(repeats) == 2, "what it parses is not what it executes"
        assert rows(said(raw, executed("", b"5")))[0] == ("US", "505")


def between() -> list[tuple[str, Callable[[Raw], object]]]:
    """What a session may do that sets its units to 2: a setting of which PostgreSQL does not tell its clients."""
    units = "SELECT set_config('dpproxy.units', '2', false)"
    by_text = [
        "SET dpproxy.units = '2'",
        units,
        f"{units}; SELECT 1",
        f"PREPARE a AS {units}; EXECUTE a; DEALLOCATE a",
    ]
    extended = m.parse("", units) + bound("", "") + m.execute("") + SYNC

    def named(raw: Raw) -> None:
        said(raw, m.parse("units", units) + SYNC)
        for _ in range(2):
            said(raw, bound("", "units") + m.describe("P", "") + m.execute("") + SYNC)
            raw.query("SET dpproxy.units = '1'")
            raw.query(BY_COUNTRY)
            raw.query(BY_COUNTRY)
        said(raw, bound("", "units") + m.describe("P", "") + m.execute("") + SYNC)

    return [
        *((text, lambda raw, text=text: raw.query(text)) for text in by_text),
        ("extended", lambda raw: said(raw, extended)),
        ("named, passed on unread", named),
        (
            "in a transaction",
            lambda raw: (raw.query("BEGIN"), raw.query("SET LOCAL dpproxy.units = '2'")),
        ),
        ("in a string", lambda raw: raw.query(f"SET dpproxy.units = '2'; {BY_COUNTRY}")),
    ]


@pytest.mark.parametrize("change", [one for _, one in between()], ids=[name for name, _ in between()])
def test_a_setting_that_was_changed_in_between_is_seen(
    proxy: Served, repeats: list[bytes], change: Callable[[Raw], object]
) -> None:
    with proxy.raw(options="-c dpproxy.units=1") as raw:
        change(raw)  # so that what is public is known as such
        raw.query("ROLLBACK")
        raw.query("SET dpproxy.units = '1'")
        for _ in range(3):
            raw.query(BY_COUNTRY)
        assert repeats
        assert settings(proxy, "dpproxy.units") == "1"
        change(raw)
        repeats.clear()
        raw.query(BY_COUNTRY)
        assert settings(proxy, "dpproxy.units") == "2"
        assert not repeats


def test_a_setting_of_a_transaction_that_goes_on_is_not_kept(proxy: Served, repeats: list[bytes]) -> None:
    """SET LOCAL holds up to the Sync, which comes with the first round."""
    local = m.parse("", "SET LOCAL dpproxy.units = '2'") + bound("", "") + m.execute("") + FLUSH
    with proxy.raw(options="-c dpproxy.units=1") as raw:
        raw.query("SELECT 1")
        said(raw, m.parse("s", OLDER) + SYNC)
        raw.send(local)
        raw.until("C")
        said(raw, executed("s", b"30"))
        assert settings(proxy, "dpproxy.units") == "2"
        said(raw, executed("s", b"30"))
        assert settings(proxy, "dpproxy.units") == "1"
        assert not repeats


@pytest.mark.parametrize("before", [0, 1, 3])
def test_what_is_sent_ahead_is_in_between(proxy: Served, repeats: list[bytes], before: int) -> None:
    """It arrives as a piece of its own, before the round is answered."""

    async def arrive(*pieces: bytes) -> None:
        for piece in pieces:
            proxy.session()._from_client(piece)

    with proxy.raw(options="-c dpproxy.units=1") as raw:
        raw.query("SELECT 1")
        for _ in range(before):
            raw.query(BY_COUNTRY)
        sent = arrive(query(BY_COUNTRY), query("SET dpproxy.units = '2'"))
        asyncio.run_coroutine_threadsafe(sent, proxy.loop).result(10)
        assert shape(raw.until("Z")) == "TDCZ"
        assert shape(raw.until("Z")) == "CZ"
        repeats.clear()
        raw.query(BY_COUNTRY)
        assert settings(proxy, "dpproxy.units") == "2"
        assert not repeats


@pytest.mark.parametrize(("value", "formats"), [(b" 30", ()), (b"+30", (0,)), (b"\0\0\0\x1e", (1,))])
def test_a_value_that_another_time_may_mean_another_is_read_each_time(
    proxy: Served, repeats: list[bytes], value: bytes, formats: tuple[int, ...]
) -> None:
    """As 'now' does; one in binary, or in canonical spelling, does not."""
    with proxy.raw() as raw:
        said(raw, m.parse("s", OLDER) + SYNC)
        answers = [said(raw, executed("s", value, formats)) for _ in range(3)]
        assert {rows(one)[0] for one in answers} == {("US", "530")}
        assert len(repeats) == (2 if formats == (1,) else 0)


@pytest.mark.parametrize(
    "text",
    [
        f"SELECT 1; {BY_COUNTRY}",
        f"{BY_COUNTRY}; {BY_COUNTRY}",
        f"COPY ({BY_COUNTRY}) TO STDOUT",
        "EXECUTE q(3 + 4)",
        "SELECT 1",
        FAILING,
    ],
)
def test_other_rounds_are_not_answered_again(proxy: Served, repeats: list[bytes], text: str) -> None:
    with proxy.raw() as raw:
        raw.query(f"PREPARE q AS {OLDER}")
        answers = {shape(raw.query(text)) for _ in range(4)}
        assert len(answers) == 1
        assert not repeats


@pytest.mark.parametrize(
    "text", ["EXECUTE one", "FETCH 1 FROM c", f"DECLARE d CURSOR WITH HOLD FOR {BY_COUNTRY}"]
)
def test_a_round_is_not_taken_for_the_one_before(proxy: Served, repeats: list[bytes], text: str) -> None:
    """Neither is passed on unread, nor takes a step that could be taken again."""
    with proxy.raw() as raw:
        raw.query("PREPARE one AS SELECT 1 AS one")
        raw.query("DECLARE c SCROLL CURSOR WITH HOLD FOR SELECT 1 FROM generate_series(1, 9)")
        raw.query(BY_COUNTRY)
        for _ in range(3):
            assert TEXT_ROWS[0] not in rows(raw.query(text))
        assert not repeats


def test_a_setting_that_the_front_reports_is_seen(
    wire_front: Front, proxy: Served, repeats: list[bytes]
) -> None:
    """Its owner has changed it; PostgreSQL says so at the end of the round that comes next."""
    with proxy.raw() as raw, admin(wire_front) as owner:
        raw.query("SELECT 1")
        for _ in range(3):
            raw.query(BY_COUNTRY)
        assert repeats
        try:
            owner.execute("ALTER SYSTEM SET default_transaction_read_only = on")
            owner.execute("SELECT pg_reload_conf()")
            while "S" not in shape(raw.query(BY_COUNTRY)):
                pass
            repeats.clear()
            raw.query(BY_COUNTRY)
        finally:
            owner.execute("ALTER SYSTEM RESET default_transaction_read_only")
            owner.execute("SELECT pg_reload_conf()")
        assert settings(proxy, "transaction_read_only") == "on"
        assert not repeats


@pytest.mark.parametrize("simple", [True, False])
def test_a_statement_that_changes_a_setting_is_seen(
    proxy: Served, repeats: list[bytes], simple: bool
) -> None:
    """In the third round, which is answered again, by a function that PostgreSQL calls for its rows."""
    with proxy.raw(options="-c dpproxy.units=1 -c extra_float_digits=-15") as raw:
        said(raw, m.parse("s", CHANGING) + SYNC)
        for _ in range(5):
            again = query(CHANGING) if simple else bound("", "s") + m.execute("") + SYNC
            assert len(rows(said(raw, again))) == 5
        assert [step[2]["dpproxy.units"] for step in proxy.answering.steps] == ["1"] * 3 + ["2"] * 2
        assert len(repeats) == 3


def test_an_error_ends_it(proxy: Served, repeats: list[bytes]) -> None:
    with proxy.raw() as raw:
        raw.query("SELECT 1")
        for _ in range(3):
            raw.query(BY_COUNTRY)
        assert len(repeats) == 2
        assert errors(raw.query("SELECT 1/0"))
        assert rows(raw.query(BY_COUNTRY)) == TEXT_ROWS
        assert len(repeats) == 2


def reload(proxy: Served, **changed: object) -> None:
    """The session goes on under other services, as after a reload of the policy."""

    async def done() -> None:
        session = next(iter(proxy.server._sessions.values()))
        session.reload(replace(session._services, **changed))  # type: ignore[arg-type]

    asyncio.run_coroutine_threadsafe(done(), proxy.loop).result(10)


def test_a_reload_ends_it(proxy: Served, repeats: list[bytes]) -> None:
    with proxy.raw() as raw:
        raw.query("SELECT 1")
        for _ in range(3):
            raw.query(BY_COUNTRY)
        reload(proxy)
        repeats.clear()
        raw.query(BY_COUNTRY)
        assert not repeats


def test_a_role_that_may_not_be_taken_any_more_gets_nothing(
    proxy: Served, repeats: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever the session acts for is checked each time, whether or not a reload has ended the repetition."""
    with proxy.raw(user="bi") as raw:
        raw.query("SET ROLE ann")
        for _ in range(3):
            assert rows(raw.query(BY_COUNTRY)) == TEXT_ROWS
        assert repeats
        monkeypatch.setattr(Relay, "forget_public", lambda relay: None)
        reload(proxy, identity=Identity())
        assert errors(raw.query(BY_COUNTRY))[0]["C"] == "42501"
        assert {asker.analyst for asker in proxy.answering.askers} == {"ann"}


def test_each_role_is_asked_for_itself(proxy: Served, repeats: list[bytes]) -> None:
    with proxy.raw(user="bi") as raw:
        for role in ("ann", "bob", "ann"):
            raw.query(f"SET ROLE {role}")
            for _ in range(3):
                assert rows(raw.query(BY_COUNTRY)) == TEXT_ROWS
        assert len(repeats) >= 6
        assert [asker.analyst for asker in proxy.answering.askers] == ["ann"] * 3 + ["bob"] * 3 + ["ann"] * 3
        # The rows of a role are marked as its own when they are shown again, too.
        said(raw, m.parse("s", BY_COUNTRY) + SYNC)
        whole = bound("", "s") + m.execute("") + SYNC
        assert {shape(said(raw, whole)) for _ in range(3)} == {"2DCZ"}
        assert repeats[-2:] == [whole] * 2


def test_a_session_that_drains_answers_once_more(proxy: Served, repeats: list[bytes]) -> None:
    with proxy.raw() as raw:
        raw.query("SELECT 1")
        raw.query(BY_COUNTRY)
        raw.send(query(BY_COUNTRY))
        seen = raw.until("Z")
        assert rows(seen) == TEXT_ROWS
        assert len(repeats) == 1
        proxy.drain()
        assert errors([one for one in [raw.receive()] if one is not None])[0]["C"] == "57P01"
