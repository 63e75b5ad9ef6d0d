"""The relay by raw messages, against a real front: what the client sees and how often a step is taken."""

from __future__ import annotations

import struct

import pytest

from dpproxy.pgwire import messages as m
from dpproxy.pgwire.relay import MOST_PENDING, Relay
from tests.dpproxy.wire import (
    AGES,
    BROKEN,
    BY_AGE,
    BY_COUNTRY,
    EXHAUSTED,
    EXPECTED,
    FAILING,
    FLUSH,
    NOTED,
    OLDER,
    ROWS,
    SYNC,
    Raw,
    Served,
    bound,
    errors,
    query,
    rows,
    shape,
)

pytestmark = pytest.mark.service

TEXT_ROWS = [(country, str(count)) for country, count in EXPECTED]


def status(seen: list[tuple[str, bytes]]) -> bytes:
    """The transaction status in the last message."""
    return seen[-1][1][5:]


def run(text: str, values: tuple[bytes | None, ...] = (), max_rows: int = 0) -> bytes:
    """Parse, Bind, Describe and Execute under the empty names, without Sync."""
    return m.parse("", text) + bound("", "", values) + m.describe("P", "") + m.execute("", max_rows)


def test_a_simple_query_looks_like_a_simple_query(proxy: Served) -> None:
    with proxy.raw() as raw:
        private, public = raw.query(BY_COUNTRY), raw.query("SELECT 'US'::text AS country, 5::bigint AS n")
        assert shape(private) == shape(public) == "TDCZ"
        assert private[0] == public[0]
        assert private[-2] == ("C", m.message("C", b"SELECT 5\0"))
        assert rows(private) == TEXT_ROWS
        assert len(proxy.answering.steps) == 1


def test_the_extended_protocol(proxy: Served) -> None:
    with proxy.raw() as raw:
        raw.send(run(OLDER, (b"30",)), SYNC)
        seen = raw.until("Z")
        assert shape(seen) == "12TDCZ"
        assert rows(seen)[0] == ("US", "530")
        assert proxy.answering.steps[0][:2] == (OLDER, ("30",))


def test_parameters_in_binary_reach_the_step_as_text(proxy: Served) -> None:
    with proxy.raw() as raw:
        raw.send(m.parse("s", OLDER), bound("", "s", (struct.pack(">i", 30),), (1,)), m.execute(""), SYNC)
        assert rows(raw.until("Z"))[0] == ("US", "530")
        raw.send(bound("", "s", (None,)), m.execute(""), SYNC)
        assert shape(raw.until("Z")) == "2CZ"
        assert [step[1] for step in proxy.answering.steps] == [("30",), (None,)]


def test_dates_reach_the_step_in_one_form_whatever_the_session_says(proxy: Served) -> None:
    text = BY_COUNTRY.replace("GROUP", "WHERE $1::date < '2024-01-01' GROUP")
    with proxy.raw(DateStyle="German") as raw:
        raw.send(run(text, (b"01.02.2023",)), SYNC)
        raw.until("Z")
        _, parameters, settings = proxy.answering.steps[0]
        assert parameters == ("2023-02-01",)
        assert settings["datestyle"] == "German, DMY"


def test_every_byte_alone_is_the_same(proxy: Served) -> None:
    with proxy.raw() as raw:
        for byte in run(OLDER, (b"1",)) + SYNC + query(BY_COUNTRY):
            raw.send(bytes([byte]))
        assert shape(raw.until("Z") + raw.until("Z")) == "12TDCZTDCZ"


def test_describing_and_binding_take_no_step(proxy: Served) -> None:
    with proxy.raw() as raw:
        raw.send(m.parse("s", OLDER), m.describe("S", "s"), SYNC)
        seen = raw.until("Z")
        assert shape(seen) == "1tTZ"
        assert m.split_oids(seen[1][1]) == (23,)
        raw.send(bound("p", "s", (b"1",)), m.describe("P", "p"), m.close("P", "p"), SYNC)
        assert shape(raw.until("Z")) == "2T3Z"
        assert proxy.answering.steps == []


def test_fetching_in_portions_takes_one_step(proxy: Served) -> None:
    with proxy.raw() as raw:
        raw.send(query("BEGIN"), m.parse("s", BY_AGE), bound("p", "s"), m.execute("p", 700), FLUSH)
        assert raw.kinds() == "CZ"
        found = rows(raw.until("s"))
        for expected in "sC":
            raw.send(m.execute("p", 700), FLUSH)
            found += rows(raw.until(expected))
        assert found == [(str(age), "7") for age in range(AGES)]
        raw.send(m.execute("p", 0), SYNC)
        assert shape(raw.until("Z")) == "CZ"
        assert len(proxy.answering.steps) == 1


def test_a_portal_bound_anew_takes_a_step_of_its_own(proxy: Served) -> None:
    with proxy.raw() as raw:
        raw.send(m.parse("s", BY_COUNTRY), (bound("", "s") + m.execute("")) * 3, SYNC)
        assert shape(raw.until("Z")) == "12DC2DC2DCZ"
        assert len(proxy.answering.steps) == 3


def test_portals_end_with_the_transaction(proxy: Served) -> None:
    with proxy.raw() as raw:
        raw.send(m.parse("s", BY_COUNTRY), bound("p", "s"), SYNC, m.execute("p"), SYNC)
        assert raw.kinds() == "12Z"
        assert errors(raw.until("Z"))[0]["C"] == "34000"
        assert proxy.answering.steps == []


def test_a_portal_is_not_fetched_by_name_before_it_was_executed(proxy: Served) -> None:
    with proxy.raw() as raw:
        raw.send(query("BEGIN"), query("SAVEPOINT a"), m.parse("s", BY_COUNTRY), bound("p", "s"), SYNC)
        assert raw.kinds() + raw.kinds() + raw.kinds() == "CZCZ12Z"
        assert errors(raw.query("/* now */ FETCH ALL FROM p"))[0]["C"] == "0A000"
        raw.query("ROLLBACK TO a")
        raw.send(m.parse("s2", BY_COUNTRY), bound("p2", "s2"), run("MOVE ALL FROM p2"), SYNC)
        assert errors(raw.until("Z"))[0]["C"] == "0A000"
        raw.query("ROLLBACK TO a")
        raw.send(bound("p3", "s"), m.execute("p3", 2), m.close("P", "p"), m.close("P", "p2"), SYNC)
        assert raw.kinds() == "2DDs33Z"
        assert rows(raw.query("FETCH ALL FROM p3")) == TEXT_ROWS[2:]
        assert len(proxy.answering.steps) == 1


def test_a_portal_that_ended_keeps_nobody_from_fetching(proxy: Served) -> None:
    with proxy.raw() as raw:
        raw.send(m.parse("s", BY_COUNTRY), bound("p", "s"), SYNC, query("BEGIN"))
        assert raw.kinds() + raw.kinds() == "12ZCZ"
        raw.query("DECLARE c CURSOR FOR SELECT 'public'")
        assert rows(raw.query("FETCH c")) == [("public",)]


def test_a_statement_prepared_anew_by_text_is_not_taken_for_the_old_one(proxy: Served) -> None:
    with proxy.raw() as raw:
        raw.send(m.parse("s", BY_COUNTRY), SYNC, query("DEALLOCATE s"), query("PREPARE s AS SELECT 'new'"))
        assert raw.kinds() + raw.kinds() + raw.kinds() == "1ZCZCZ"
        raw.send(bound("", "s"), m.execute(""), SYNC)
        assert rows(raw.until("Z")) == [("new",)]
        assert proxy.answering.steps == []


def test_what_a_name_means_is_not_guessed_across_a_sync(proxy: Served) -> None:
    with proxy.raw() as raw:
        raw.send(m.parse("s", BY_COUNTRY), SYNC)
        raw.kinds()
        for skipped in (m.parse("s", "SELECT 1"), m.close("S", "s") + m.parse("s", "SELECT 1")):
            raw.send(m.execute("none"), skipped, SYNC, bound("", "s"), m.execute(""), SYNC)
            raw.kinds()
            assert rows(raw.until("Z")) == TEXT_ROWS
        raw.send(query("BEGIN"), bound("p", "s"), SYNC, query("SAVEPOINT a"))
        assert raw.kinds() + raw.kinds() + raw.kinds() == "CZ2ZCZ"
        raw.send(run("SELECT 1/0"), m.close("P", "p"), SYNC, query("ROLLBACK TO a"), m.execute("p"), SYNC)
        raw.kinds()
        raw.kinds()
        assert rows(raw.until("Z")) == TEXT_ROWS


def test_result_formats_are_the_clients(proxy: Served) -> None:
    with proxy.raw() as raw:
        values, results = m.NO_VALUES, struct.pack(">Hhh", 2, 0, 1)
        raw.send(m.parse("", BY_COUNTRY), m.bind("", "", values, results), m.execute("", 1), SYNC)
        seen = raw.until("Z")
        (row,) = [one for kind, one in seen if kind == "D"]
        assert row.endswith(b"US" + struct.pack(">iq", 8, 500))


def test_the_clients_unnamed_statement_survives_the_step(proxy: Served) -> None:
    with proxy.raw() as raw:
        raw.send(m.parse("", BY_COUNTRY), (bound("", "") + m.execute("") + SYNC) * 2)
        assert raw.kinds() + raw.kinds() == "12DDDDDCZ2DDDDDCZ"
        raw.query(BY_COUNTRY)
        raw.send(bound("", ""), SYNC)
        assert errors(raw.until("Z"))[0]["C"] == "26000"


def test_nothing_of_the_proxy_stays_in_the_front(proxy: Served) -> None:
    with proxy.raw() as raw:
        raw.send(run(OLDER, (b"1",)), SYNC)
        raw.until("Z")
        raw.query(BY_COUNTRY)
        raw.query(NOTED)
        assert rows(raw.query("SELECT name FROM pg_prepared_statements")) == []
        raw.send(run("SELECT name FROM pg_cursors WHERE name <> ''"), SYNC)
        assert rows(raw.until("Z")) == []


@pytest.mark.parametrize(
    ("text", "values", "code"),
    [
        (OLDER, (b"thirty",), "22P02"),
        (OLDER, (), "08P01"),
        (OLDER, (b"1", b"2"), "08P01"),
        (ROWS, (), "PV010"),
        (EXHAUSTED, (), "PV001"),
        (FAILING, (), "22012"),
        (BROKEN, (), "XX000"),
        ("SELECT nothing FROM people", (), "42703"),
        ("DROP TABLE articles", (), "25006"),
    ],
)
def test_errors_skip_to_sync_and_the_session_goes_on(
    proxy: Served, text: str, values: tuple[bytes, ...], code: str
) -> None:
    with proxy.raw() as raw:
        raw.send(run(text, values), run("SELECT 'skipped'"), SYNC, query("SELECT 'next'"))
        seen = raw.until("Z")
        assert [error["C"] for error in errors(seen)] == [code]
        assert seen[-2][0] == "E"
        assert ("skipped",) not in rows(seen)
        assert rows(raw.until("Z")) == [("next",)]
        seen = raw.query(text)
        assert shape(seen)[-2:] == "EZ"
        assert errors(seen)[0]["C"] == ("42P02" if values or "$1" in text else code)


def test_only_what_was_executed_was_asked(proxy: Served) -> None:
    with proxy.raw() as raw:
        for text in (ROWS, "SELECT nothing FROM people", "SELECT 1/0; " + BY_COUNTRY, OLDER):
            raw.query(text)
            raw.send(run(text), SYNC)
            raw.until("Z")
        assert proxy.answering.steps == []


def test_a_refusal_has_its_own_fields_alone(proxy: Served) -> None:
    with proxy.raw() as raw:
        expected = {
            "S": "ERROR",
            "V": "ERROR",
            "C": "PV010",
            "M": "row-level output",
            "D": "rule 43",
            "H": "aggregate it",
            "P": "8",
        }
        assert errors(raw.query(ROWS)) == [expected]
        raw.send(run(ROWS), SYNC)
        assert errors(raw.until("Z")) == [expected]


def test_what_went_wrong_inside_is_not_told(proxy: Served) -> None:
    with proxy.raw() as raw:
        (error,) = errors(raw.query(BROKEN))
        assert error["M"] == "internal error in the proxy"
        assert "42" not in str(error)


def test_notices_come_before_the_rows_and_point_nowhere(proxy: Served) -> None:
    with proxy.raw() as raw:
        seen = raw.query(NOTED)
        notices = [m.split_fields(one) for kind, one in seen if kind == "N"]
        assert [notice["M"] for notice in notices] == ["noise of 3", "in full", "in vain"]
        assert set(notices[0]) == set("SVCM")
        assert shape(seen) == "NNNTDCZ"
        raw.send(run(NOTED), SYNC)
        assert shape(raw.until("Z")) == "12TNNNDCZ"


@pytest.mark.parametrize("simple", [True, False])
def test_a_failed_transaction_stays_failed(proxy: Served, simple: bool) -> None:
    def ask(raw: Raw, text: str) -> list[tuple[str, bytes]]:
        raw.send(query(text) if simple else run(text) + SYNC)
        return raw.until("Z")

    with proxy.raw() as raw:
        assert status(ask(raw, "BEGIN")) == b"T"
        assert status(ask(raw, BY_COUNTRY)) == b"T"
        assert status(ask(raw, ROWS)) == b"E"
        for text in (BY_COUNTRY, "SELECT 1", ROWS, "DROP TABLE articles"):
            seen = ask(raw, text)
            assert errors(seen)[0]["C"] == "25P02"
            assert status(seen) == b"E"
        assert status(ask(raw, "ROLLBACK")) == b"I"
        assert shape(ask(raw, BY_COUNTRY)).endswith("DCZ")
        assert len(proxy.answering.steps) == 2


def test_a_rollback_in_the_same_pipeline_makes_the_step_possible(proxy: Served) -> None:
    with proxy.raw() as raw:
        raw.query("BEGIN")
        raw.query(ROWS)
        raw.send(run("ROLLBACK"), run(BY_COUNTRY), SYNC)
        assert rows(raw.until("Z")) == TEXT_ROWS


def test_what_precedes_a_step_fails_first(proxy: Served) -> None:
    with proxy.raw() as raw:
        raw.send(run("SELECT 1/0"), run(BY_COUNTRY), SYNC)
        assert errors(raw.until("Z"))[0]["C"] == "22012"
        raw.send(run("SELECT 1/0"), query(BY_COUNTRY), query("DROP TABLE x"), SYNC)
        seen = raw.until("Z")
        assert shape(seen).endswith("EZ")
        assert raw.is_silent()
        assert proxy.answering.steps == []


def test_an_error_in_one_segment_leaves_the_next_alone(proxy: Served) -> None:
    with proxy.raw() as raw:
        raw.send(
            m.parse("s", "SELECT nothing FROM people"),
            bound("p", "s"),
            SYNC,
            m.parse("s", BY_COUNTRY),
            bound("p", "s"),
            m.execute("p"),
            SYNC,
        )
        assert raw.kinds() == "EZ"
        assert rows(raw.until("Z")) == TEXT_ROWS


def test_a_name_in_use_keeps_its_statement(proxy: Served) -> None:
    with proxy.raw() as raw:
        raw.send(m.parse("s", BY_COUNTRY), SYNC, m.parse("s", "SELECT 1"), SYNC)
        raw.kinds()
        assert errors(raw.until("Z"))[0]["C"] == "42P05"
        raw.send(bound("", "s"), m.execute(""), SYNC)
        assert rows(raw.until("Z")) == TEXT_ROWS
        raw.send(m.close("S", "s"), m.parse("s", "SELECT 1"), bound("", "s"), m.execute(""), SYNC)
        assert rows(raw.until("Z")) == [("1",)]
        for text in ("DEALLOCATE ALL", "DISCARD ALL"):
            raw.query(text)
            raw.send(m.parse("s", BY_COUNTRY), SYNC, bound("", "s"), SYNC)
            assert raw.kinds() + raw.kinds() == "1Z2Z"


def test_close_without_sync_before_a_simple_query(proxy: Served) -> None:
    with proxy.raw() as raw:
        raw.send(m.parse("s", BY_COUNTRY), SYNC)
        raw.kinds()
        raw.send(m.close("S", "s"), query(BY_COUNTRY))
        assert shape(raw.until("Z")) == "3TDCZ"
        raw.send(m.close("S", "s"), query(ROWS))
        assert shape(raw.until("Z")) == "3EZ"


def test_flush_without_sync(proxy: Served) -> None:
    with proxy.raw() as raw:
        raw.send(run(BY_COUNTRY), FLUSH)
        assert shape(raw.until("C")) == "12TDC"
        raw.send(run("SELECT nothing"), FLUSH)
        assert shape(raw.until("E")) == "E"
        raw.send(run(BY_COUNTRY), FLUSH, query(BY_COUNTRY))
        assert raw.is_silent()
        raw.send(SYNC)
        assert raw.kinds() == "Z"
        assert len(proxy.answering.steps) == 1


def test_a_long_pipeline_without_flush_does_not_stall(proxy: Served) -> None:
    one = m.parse("", "SELECT 1") + bound("", "") + m.execute("")
    with proxy.raw() as raw:
        raw.send(one * 5000, run(BY_COUNTRY), SYNC)
        seen = shape(raw.until("Z"))
        assert seen == "12DC" * 5000 + "12TDCZ"


def test_a_relay_that_is_full_asks_for_the_answers() -> None:
    relay = Relay(lambda text: "relay")
    parse = m.parse("", "SELECT 1")
    while not relay.full:
        assert relay.to_front.count(FLUSH) == 0
        relay.client(ord("P"), parse[5:])
    assert bytes(relay.to_front) == parse * MOST_PENDING + FLUSH
    relay.front(m.message("1") * MOST_PENDING)
    assert not relay.full
    assert relay.quiet


ANSWERS = [
    m.message("T", b"\0\1") + m.message("D", b"row") * 3 + m.message("C", b"SELECT 3\0"),
    m.message("C", b"DEALLOCATE ALL\0"),
    m.message("S", b"application_name\0x\0") + m.message("C", b"SET\0"),
    m.message("N", b"SNOTICE\0\0") + m.message("D", b"DISCARD") + m.message("C", b"SELECT 1\0"),
    m.message("I"),
]


def hear(relay: Relay, data: bytes) -> None:
    """What a session does with the front's bytes."""
    if relay.passed(data):
        relay.to_client += data
    else:
        relay.front(data)


@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("ready", [b"I", b"T"])
def test_an_answer_that_comes_whole_is_the_same_as_one_that_comes_in_pieces(
    answer: bytes, ready: bytes
) -> None:
    whole, pieces = Relay(lambda text: "relay"), Relay(lambda text: "relay")
    ends = m.message("Z", ready)
    for relay in (whole, pieces):
        relay.client(ord("P"), b"named\0SELECT 1\0\0\0")
        relay.client(ord("B"), b"portal\0named\0\0\0\0\0\0\0")
        relay.client(ord("S"), b"")
        relay.front(m.message("1") + m.message("2") + m.message("Z", b"T"))
        for _ in range(2):
            relay.client(ord("Q"), b"SELECT 2\0")
    hear(whole, answer + ends)
    for byte in answer + ends:
        pieces.front(bytes([byte]))
    assert whole.to_client == pieces.to_client
    assert whole.quiet == pieces.quiet is False
    for relay in (whole, pieces):
        hear(relay, answer + ends)
        assert relay.quiet
    for named in ("_statements", "_portals"):
        assert list(getattr(whole, named).possible()) == list(getattr(pieces, named).possible())
    with pytest.raises(m.ProtocolError, match="out of turn"):
        whole.front(m.message("C", b"SELECT 1\0"))


_ROUND = bound("", "s") + m.describe("P", "") + m.execute("") + SYNC
_READY = m.message("Z", b"I")


def between(text: str, verdict: str = "relay") -> Relay:
    """A relay between two rounds of a client that has prepared a statement and asked a simple query."""
    relay = Relay(lambda found: verdict if found == text else "relay")
    relay.client(ord("P"), m.parse("s", text)[5:])
    relay.client(ord("S"), b"")
    relay.front(m.message("1") + _READY)
    relay.client(ord("Q"), b"SELECT 2\0")
    relay.front(m.message("C", b"SELECT 1\0") + _READY)
    relay.to_front.clear()
    relay.to_client.clear()
    return relay


@pytest.mark.parametrize("round_", [_ROUND, m.message("Q", b"SELECT 2\0")])
def test_a_round_that_the_front_alone_answers_is_passed_on_as_it_is(round_: bytes) -> None:
    relay = between("SELECT 1")
    assert relay.again(round_)
    assert not relay.again(round_), "one at a time"
    relay.front(m.error("22012", "division by zero") + _READY)
    assert relay.quiet
    assert relay.again(round_)
    relay.front(m.message("C", b"SELECT 1\0") + m.message("Z", b"T"))
    assert not relay.again(round_), "in a transaction"


@pytest.mark.parametrize(
    ("text", "verdict", "round_"),
    [
        (BY_COUNTRY, "private", _ROUND),
        ("CREATE TABLE published.a AS SELECT 1", "publish", _ROUND),
        ("COPY articles FROM STDIN", "relay", _ROUND),
        ("FETCH c", "relay", _ROUND),
        ("EXECUTE s", "relay", _ROUND),
        ("SELECT 1", "relay", _ROUND[:-1]),
        ("SELECT 1", "relay", _ROUND + FLUSH),
        ("SELECT 1", "relay", bound("p", "s") + m.execute("p") + SYNC),
        ("SELECT 1", "relay", bound("", "s") + m.execute("p") + SYNC),
        ("SELECT 1", "relay", bound("", "other") + m.execute("") + SYNC),
        ("SELECT 1", "relay", bound("", "s") + m.describe("S", "s") + m.execute("") + SYNC),
        ("SELECT 1", "relay", m.message("Q", b"SELECT 3\0")),
    ],
)
def test_any_other_round_is_looked_at(text: str, verdict: str, round_: bytes) -> None:
    relay = between(text, verdict)
    assert not relay.again(round_)
    assert not relay.to_front
    assert relay.quiet


def test_a_round_is_looked_at_once_its_statement_is_another() -> None:
    relay = between("SELECT 1", "private")
    assert not relay.again(_ROUND)
    relay = between("SELECT 1")
    assert relay.again(_ROUND)
    hear(relay, m.message("C", b"DEALLOCATE ALL\0") + _READY)
    assert not relay.again(_ROUND)


def test_a_simple_query_that_drops_the_unnamed_statement_is_looked_at() -> None:
    relay, repeated = between("SELECT 1"), m.message("Q", b"SELECT 2\0")
    relay.client(ord("P"), m.parse("", "SELECT 1")[5:])
    assert not relay.again(repeated), "without a Sync"
    relay.client(ord("S"), b"")
    relay.front(m.message("1") + _READY)
    assert not relay.again(repeated)
    relay.client(ord("Q"), b"SELECT 2\0")
    relay.front(m.message("C", b"SELECT 1\0") + _READY)
    assert relay.again(repeated)


def test_copies_are_relayed_and_sync_within_them_is_ignored(proxy: Served) -> None:
    with proxy.raw() as raw:
        seen = raw.query("COPY (SELECT id FROM articles ORDER BY id LIMIT 3) TO STDOUT")
        assert "".join(kind for kind, _ in seen) == "HdddcCZ"
        data, done = m.message("d", b"1\n"), m.message("c")
        raw.send(run("COPY scratch FROM STDIN"), SYNC, data, data, SYNC, done, SYNC)
        assert shape(raw.until("Z")) == "12nGCZ"
        raw.send(query("COPY scratch FROM STDIN"))
        assert raw.kinds("G") == "G"
        raw.send(data, m.message("f", b"no\0"))
        assert raw.kinds() == "EZ"
        raw.send(query("COPY scratch FROM STDIN"), data, done, query(BY_COUNTRY))
        assert raw.kinds() == "GCZ"
        assert rows(raw.until("Z")) == TEXT_ROWS
        assert rows(raw.query("SELECT count(*) FROM scratch")) == [("3",)]


def test_reserved_names_and_function_calls_are_refused(proxy: Served) -> None:
    with proxy.raw() as raw:
        raw.send(m.parse("dpproxy:step", "SELECT 1"), SYNC)
        assert errors(raw.until("Z"))[0]["C"] == "42939"
        raw.send(m.parse("s", "SELECT 1"), bound("dpproxy:step", "s"), SYNC)
        assert errors(raw.until("Z"))[0]["C"] == "42939"
        raw.send(m.message("F", struct.pack(">IHHH", 1598, 0, 0, 0)))
        seen = raw.until("Z")
        assert (shape(seen), errors(seen)[0]["C"]) == ("EZ", "0A000")


@pytest.mark.parametrize(
    "raw_message",
    [
        m.message("Q", b"SELECT 1"),
        m.message("Q", b"SELECT '\xff'\0"),
        m.message("Q", b"SELECT 1\0more"),
        m.message("P", b"s\0"),
        m.message("B", b"\0"),
        m.message("E", b""),
        m.message("C", b""),
        m.message("C", b"Sx"),
    ],
)
def test_malformed_messages_are_errors_of_their_own(proxy: Served, raw_message: bytes) -> None:
    with proxy.raw() as raw:
        raw.send(raw_message)
        if raw_message[:1] != b"Q":
            raw.send(SYNC)
        seen = raw.until("Z")
        assert errors(seen)[0]["C"] in ("08P01", "22021")
        assert rows(raw.query("SELECT 1")) == [("1",)]


@pytest.mark.parametrize(
    ("setting", "value"), [("client_encoding", "LATIN1"), ("standard_conforming_strings", "off")]
)
def test_reading_otherwise_by_a_way_round_is_refused_too(proxy: Served, setting: str, value: str) -> None:
    with proxy.raw() as raw:
        before = raw.query(f"SHOW {setting}")
        seen = raw.query(f"SELECT set_config('{setting}', '{value}', false)")
        assert (errors(seen)[0]["S"], errors(seen)[0]["C"]) == ("ERROR", "42501")
        assert raw.query(f"SHOW {setting}") == before


def test_a_malformed_bind_of_a_private_statement_takes_no_step(proxy: Served) -> None:
    with proxy.raw() as raw:
        raw.send(m.parse("s", OLDER), SYNC)
        raw.kinds()
        whole = bound("p", "s", (b"1",))[5:]
        for cut in (5, 7, 9, 11, len(whole) - 1):
            raw.send(m.message("B", whole[:cut]), m.execute("p"), SYNC)
            assert errors(raw.until("Z"))[0]["C"] == "08P01"
        assert proxy.answering.steps == []


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM people",
        "TABLE pEOPLE",
        "WITH x AS (SELECT * FROM people WHERE false LIMIT 0) SELECT 1 FROM x",
        "COPY people TO STDOUT",
        "DECLARE c CURSOR WITH HOLD FOR SELECT * FROM people",
    ],
)
def test_the_guard_stands_behind_what_is_not_recognised(
    proxy: Served, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setattr(proxy.answering, "classify", lambda text: "relay")
    with proxy.raw() as raw:
        assert errors(raw.query(text))[0]["C"] == "0A000"
        raw.send(run(text), SYNC)
        assert errors(raw.until("Z"))[0]["C"] == "0A000"
