"""DECLARE, COPY, PREPARE and EXECUTE over private queries, and strings of statements, by raw messages."""

from __future__ import annotations

import struct

import pytest

from dpproxy.pgwire import messages as m
from dpproxy.pgwire.work import MOST_STATEMENTS
from tests.dpproxy.wire import (
    AGES,
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
COPIED = [b"US\t500\n", b"DE\t400\n", b"FR\t300\n", b"IN\t200\n", b"\\N\t100\n"]
Seen = list[tuple[str, bytes]]


def copied(seen: Seen) -> list[bytes]:
    """What CopyData carries."""
    return [raw[5:] for kind, raw in seen if kind == "d"]


def tags(seen: Seen) -> list[bytes]:
    """The command tags."""
    return [raw[5:-1] for kind, raw in seen if kind == "C"]


def extended(raw: Raw, text: str, values: tuple[bytes | None, ...] = ()) -> Seen:
    """Parse, Bind, Describe, Execute and Sync."""
    raw.send(m.parse("", text), bound("", "", values), m.describe("P", ""), m.execute(""), SYNC)
    return raw.until("Z")


@pytest.mark.parametrize("simple", [True, False])
def test_a_cursor_is_charged_once_and_read_in_every_direction(proxy: Served, simple: bool) -> None:
    with proxy.raw() as raw:
        raw.query("BEGIN")
        declare = f"DECLARE c SCROLL CURSOR FOR {BY_COUNTRY};"
        seen = raw.query(declare) if simple else extended(raw, declare)
        assert shape(seen) == ("CZ" if simple else "12nCZ")
        assert tags(seen) == [b"DECLARE CURSOR"]
        assert [step[0] for step in proxy.answering.steps] == [BY_COUNTRY]
        assert rows(raw.query("FETCH 2 FROM c")) == TEXT_ROWS[:2]
        assert tags(raw.query("MOVE 1 FROM c")) == [b"MOVE 1"]
        assert rows(extended(raw, "FETCH ALL FROM c")) == TEXT_ROWS[3:]
        assert rows(raw.query("FETCH FIRST FROM c")) == TEXT_ROWS[:1]
        assert rows(raw.query("FETCH BACKWARD ALL FROM c")) == []
        assert tags(raw.query("CLOSE c")) == [b"CLOSE CURSOR"]
        assert errors(raw.query("FETCH c"))[0]["C"] == "34000"
        assert len(proxy.answering.steps) == 1


def test_a_cursor_with_hold_outlives_its_transaction(proxy: Served) -> None:
    with proxy.raw() as raw:
        assert shape(raw.query(f'DECLARE "a ""b" CURSOR WITH HOLD FOR {BY_COUNTRY}')) == "CZ"
        assert rows(raw.query('FETCH 1 "a ""b"')) == TEXT_ROWS[:1]
        assert rows(raw.query('FETCH ALL IN "a ""b"')) == TEXT_ROWS[1:]
        assert rows(raw.query("SELECT name FROM pg_cursors")) == [('a "b',)]
        raw.query("CLOSE ALL")
        assert len(proxy.answering.steps) == 1


def test_a_cursor_with_parameters(proxy: Served) -> None:
    with proxy.raw() as raw:
        raw.query("BEGIN")
        raw.send(m.parse("d", f"DECLARE c CURSOR FOR {OLDER}"), m.describe("S", "d"), SYNC)
        assert shape(raw.until("Z")) == "1tnZ"
        raw.send(bound("", "d", (struct.pack(">i", 30),), (1,)), m.execute(""), SYNC)
        assert shape(raw.until("Z")) == "2CZ"
        assert proxy.answering.steps[0][:2] == (OLDER, ("30",))
        assert rows(raw.query("FETCH c")) == [("US", "530")]
        assert errors(raw.query(f"DECLARE d CURSOR FOR {OLDER}"))[0]["C"] == "42P02"
        assert len(proxy.answering.steps) == 1


def test_a_large_cursor_comes_in_portions(proxy: Served) -> None:
    with proxy.raw() as raw:
        raw.query("BEGIN")
        raw.query(f"DECLARE ages NO SCROLL CURSOR WITHOUT HOLD FOR {BY_AGE}")
        found = []
        while portion := rows(raw.query("FETCH 300 FROM ages")):
            found += portion
        assert found == [(str(age), "7") for age in range(AGES)]
        assert len(proxy.answering.steps) == 1


@pytest.mark.parametrize("simple", [True, False])
@pytest.mark.parametrize(
    ("before", "text", "code"),
    [
        ("SELECT 1", f"DECLARE c CURSOR FOR {BY_COUNTRY}", "25P01"),
        ("BEGIN; DECLARE c CURSOR FOR SELECT 1", f"DECLARE c CURSOR FOR {BY_COUNTRY}", "42P03"),
        ("BEGIN", f"DECLARE c CURSOR FOR {ROWS}", "PV010"),
        ("BEGIN", f"DECLARE c NONSENSE CURSOR FOR {BY_COUNTRY}", "42601"),
        ("BEGIN", f"DECLARE c CURSOR FOR {BY_COUNTRY} nonsense nonsense", "42601"),
        ("SELECT 1", f"COPY ({BY_COUNTRY}) TO STDOUT (FORMAT nonsense)", "22023"),
        ("SELECT 1", f"COPY ({BY_COUNTRY}) TO STDOUT (FORMAT csv, FORCE_QUOTE (nothing))", "42703"),
        ("SELECT 1", f"COPY ({ROWS}) TO STDOUT", "PV010"),
        ("SELECT 1", f"COPY ({OLDER}) TO STDOUT", "42P02"),
        ("BEGIN; SELECT 1/0", f"COPY ({BY_COUNTRY}) TO STDOUT", "25P02"),
        ("BEGIN; SELECT 1/0", f"DECLARE c CURSOR FOR {BY_COUNTRY}", "25P02"),
    ],
)
def test_what_cannot_run_is_not_charged(
    proxy: Served, simple: bool, before: str, text: str, code: str
) -> None:
    with proxy.raw() as raw:
        for one in before.split("; "):
            raw.query(one)
        seen = raw.query(text) if simple else extended(raw, text)
        assert [error["C"] for error in errors(seen)] == [code]
        assert proxy.answering.steps == []
        raw.query("ROLLBACK")
        assert rows(raw.query("SELECT 1")) == [("1",)]


def test_a_refusal_points_into_the_whole_text(proxy: Served) -> None:
    with proxy.raw() as raw:
        raw.query("BEGIN")
        declare = "DECLARE c CURSOR FOR "
        assert errors(raw.query(declare + ROWS))[0]["P"] == str(len(declare) + 8)
        raw.query("ROLLBACK")
        text = f"SELECT 'é'; /* two */ COPY ({ROWS}) TO STDOUT"
        (error,) = errors(raw.query(text))
        assert text[int(error["P"]) - 1 :].startswith("* FROM people")
        text = f"SELECT 'é'; {BY_COUNTRY}; SELECT nonsense"
        (error,) = errors(raw.query(text))
        assert text[int(error["P"]) - 1 :] == "nonsense"


@pytest.mark.parametrize("simple", [True, False])
def test_copy_in_text_and_csv(proxy: Served, simple: bool) -> None:
    with proxy.raw() as raw:
        text = f"COPY ({BY_COUNTRY}) TO STDOUT"
        seen = raw.query(text) if simple else extended(raw, text)
        assert shape(seen) == ("HdddddcCZ" if simple else "12nHdddddcCZ")
        assert copied(seen) == COPIED
        assert tags(seen) == [b"COPY 5"]
        text = f"copy ( {BY_COUNTRY} ) to stdout with (format csv, header, null 'none');"
        seen = raw.query(text) if simple else extended(raw, text)
        assert copied(seen)[:2] == [b"country,n\n", b"US,500\n"]
        assert copied(seen)[-1] == b"none,100\n"
        assert len(proxy.answering.steps) == 2


def test_copy_in_binary(proxy: Served) -> None:
    with proxy.raw() as raw:
        seen = raw.query(f"COPY ({BY_COUNTRY}) TO STDOUT (FORMAT binary)")
        data = b"".join(copied(seen))
        first = struct.pack(">hi", 2, 2) + b"US" + struct.pack(">iq", 8, 500)
        assert data.startswith(b"PGCOPY\n\xff\r\n\0" + bytes(8) + first)
        last = struct.pack(">hiiq", 2, -1, 8, 100) + struct.pack(">h", -1)
        assert data.endswith(last)


def test_copies_of_values_that_look_like_sql(proxy: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    odd = ["it's", 'a"b', "back\\slash", "$1", "é\U0001f600", "{NULL}", "NULL", "", "a\tb\nc", None]
    monkeypatch.setattr("tests.dpproxy.wire.COUNTRIES", tuple(odd))
    monkeypatch.setattr("tests.dpproxy.wire.EXPECTED", [(one, i) for i, one in enumerate(odd)])
    escaped = {"back\\slash": "back\\\\slash", "a\tb\nc": "a\\tb\\nc", None: "\\N"}
    with proxy.raw() as raw:
        raw.query("SELECT set_config('array_nulls', 'off', false)")
        seen = raw.query(f"COPY ({BY_COUNTRY}) TO STDOUT")
        wanted = [f"{escaped.get(one, one)}\t{i}\n".encode() for i, one in enumerate(odd)]
        assert sorted(copied(seen)) == sorted(wanted)


def test_a_copy_in_a_transaction_and_with_notices(proxy: Served) -> None:
    with proxy.raw() as raw:
        raw.query("BEGIN")
        assert shape(raw.query(f"COPY ({NOTED}) TO STDOUT")) == "NNNHdddddcCZ"
        assert errors(raw.query(f"COPY ({EXHAUSTED}) TO STDOUT"))[0]["C"] == "PV001"
        assert errors(raw.query(f"COPY ({NOTED}) TO STDOUT"))[0]["C"] == "25P02"
        assert len(proxy.answering.steps) == 2


@pytest.mark.parametrize("simple", [True, False])
def test_prepare_and_execute(proxy: Served, simple: bool) -> None:
    with proxy.raw() as raw:
        prepare = f"PREPARE s(int) AS {OLDER}"
        seen = raw.query(prepare) if simple else extended(raw, prepare)
        assert tags(seen) == [b"PREPARE"]
        assert proxy.answering.steps == []
        for value, wanted in (("30", "530"), ("3 * 10 + length('a')", "531"), ("'32'", "532")):
            execute = f"EXECUTE s({value});"
            seen = raw.query(execute) if simple else extended(raw, execute)
            assert shape(seen) == ("TDCZ" if simple else "12TDCZ")
            assert tags(seen) == [b"SELECT 5"]
            assert rows(seen)[0] == ("US", wanted)
        assert [step[1] for step in proxy.answering.steps] == [("30",), ("31",), ("32",)]
        raw.send(bound("", "s", (b"40",)), m.execute(""), SYNC)
        assert rows(raw.until("Z"))[0] == ("US", "540")
        assert len(proxy.answering.steps) == 4


def test_execute_is_refused_as_postgresql_does(proxy: Served) -> None:
    with proxy.raw() as raw:
        raw.query(f"PREPARE s(int) AS {OLDER}")
        for text, code in (
            ("EXECUTE s", "42601"),
            ("EXECUTE s(1, 2)", "42601"),
            ("EXECUTE s('x')", "22P02"),
            ('EXECUTE s((SELECT count(*) FROM "people")::int)', "0A000"),
            ("EXECUTE s(generate_series(1, 0))", "0A000"),
            ("EXECUTE t(1)", "26000"),
            (f"PREPARE s AS {BY_COUNTRY}", "42P05"),
            ("EXPLAIN EXECUTE s(1)", "0A000"),
            (f"PREPARE u AS {BY_COUNTRY} nonsense nonsense", "42601"),
        ):
            (error,) = errors(raw.query(text))
            assert error["C"] == code, text
        assert proxy.answering.steps == []
        assert rows(raw.query("EXECUTE s(1)"))[0] == ("US", "501")
        raw.query("DEALLOCATE s")
        assert errors(raw.query("EXECUTE s(1)"))[0]["C"] == "26000"
        raw.query("PREPARE s AS SELECT 'public'")
        assert rows(raw.query("EXECUTE s")) == [("public",)]
        assert len(proxy.answering.steps) == 1


def test_a_prepare_that_failed_names_nothing(proxy: Served) -> None:
    with proxy.raw() as raw:
        raw.query("PREPARE s AS SELECT 'public'")
        assert errors(raw.query(f"PREPARE s AS {BY_COUNTRY}"))[0]["C"] == "42P05"
        assert rows(raw.query("EXECUTE s")) == [("public",)]
        assert proxy.answering.steps == []


def test_a_string_of_statements(proxy: Served) -> None:
    with proxy.raw() as raw:
        seen = raw.query(f"SELECT 1 AS a; SET application_name = 'x'; {BY_COUNTRY}; SELECT 2 AS b;")
        assert shape(seen) == "TDCCTDCTDCSZ"
        assert rows(seen) == [("1",), *TEXT_ROWS, ("2",)]
        assert seen[-1][1][5:] == b"I"
        seen = raw.query(
            f"BEGIN; DECLARE c CURSOR FOR {BY_COUNTRY}; FETCH 2 FROM c; MOVE 1 FROM c; FETCH c; COMMIT"
        )
        assert tags(seen) == [b"BEGIN", b"DECLARE CURSOR", b"FETCH 2", b"MOVE 1", b"FETCH 1", b"COMMIT"]
        assert rows(seen) == [*TEXT_ROWS[:2], TEXT_ROWS[3]]
        seen = raw.query(f"PREPARE s AS {OLDER}; EXECUTE s(1); EXECUTE s(2); DEALLOCATE s")
        assert [row[1] for row in rows(seen) if row[0] == "US"] == ["501", "502"]
        seen = raw.query(f"COPY ({BY_COUNTRY}) TO STDOUT; {BY_COUNTRY};")
        assert shape(seen) == "HdddddcCTDCZ"
        assert len(proxy.answering.steps) == 6


@pytest.mark.parametrize(
    ("text", "codes", "steps"),
    [
        (f"SELECT 1/0; {BY_COUNTRY}", ["22012"], 0),
        (f"SELECT 1; SELECT nothing; {BY_COUNTRY}", ["42703"], 0),
        (f"{BY_COUNTRY}; SELECT 1/0; {BY_AGE}", ["22012"], 1),
        (f"{EXHAUSTED}; {BY_COUNTRY}", ["PV001"], 1),
        (f"{ROWS}; {BY_COUNTRY}", ["PV010"], 0),
        (f"{FAILING}; {BY_COUNTRY}", ["22012"], 1),
        (f"{BY_COUNTRY}; DROP TABLE articles", ["0A000"], 0),
        (f"SELECT 1; SELECT 2; {BY_COUNTRY}; COPY scratch FROM STDIN", ["0A000"], 0),
        ("SELECT 1;" * MOST_STATEMENTS + BY_COUNTRY, ["54000"], 0),
        (f"BEGIN; SAVEPOINT a; SELECT 1/0; {BY_COUNTRY}", ["22012"], 0),
    ],
)
def test_a_string_ends_at_its_first_error(proxy: Served, text: str, codes: list[str], steps: int) -> None:
    with proxy.raw() as raw:
        seen = raw.query(text)
        assert [error["C"] for error in errors(seen)] == codes
        assert "".join(kind for kind, _ in seen).endswith("EZ")
        assert len(proxy.answering.steps) == steps
        raw.query("ROLLBACK")
        assert rows(raw.query("SELECT 1")) == [("1",)]


def test_a_string_is_one_transaction(proxy: Served) -> None:
    with proxy.raw() as raw:
        raw.query(f"SELECT set_config('application_name', 'changed', false); {BY_COUNTRY}; SELECT 1/0")
        assert rows(raw.query("SHOW application_name")) == [("",)]
        seen = raw.query(f"BEGIN; SELECT 1/0; {BY_COUNTRY}")
        assert seen[-1][1][5:] == b"E"
        seen = raw.query(f"ROLLBACK; {BY_COUNTRY}")
        assert (tags(seen)[0], rows(seen)) == (b"ROLLBACK", TEXT_ROWS)
        seen = raw.query(f"BEGIN; SAVEPOINT a; {BY_COUNTRY}; ROLLBACK TO a; COMMIT; {BY_COUNTRY}")
        assert rows(seen) == TEXT_ROWS * 2
        assert seen[-1][1][5:] == b"I"


def test_strings_are_cut_where_postgresql_cuts_them(proxy: Served) -> None:
    with proxy.raw() as raw:
        text = (
            f"SELECT ';', E'\\';', $$;$$, $a$;$$;$a$, 1 AS \";\" /* ; /* ; */ ; */ -- ;\n; {BY_COUNTRY} -- ;"
        )
        seen = raw.query(text)
        assert rows(seen) == [(";", "';", ";", ";$$;", "1"), *TEXT_ROWS]
        assert shape(raw.query(";;")) == "IZ"
        assert rows(raw.query(f";; {BY_COUNTRY} ;;")) == TEXT_ROWS


def test_a_string_is_no_prepared_statement(proxy: Served) -> None:
    with proxy.raw() as raw:
        raw.send(m.parse("", f"SELECT 1; {BY_COUNTRY}"), SYNC)
        assert errors(raw.until("Z"))[0]["C"] == "42601"


def test_carriers_wait_for_what_precedes_them(proxy: Served) -> None:
    with proxy.raw() as raw:
        declare = f"DECLARE c CURSOR WITH HOLD FOR {BY_COUNTRY}"
        raw.send(
            m.parse("", "SELECT 1/0") + bound("", "") + m.execute(""),
            m.parse("", declare) + bound("", "") + m.execute(""),
            SYNC,
        )
        assert errors(raw.until("Z"))[0]["C"] == "22012"
        assert proxy.answering.steps == []
        raw.send(m.parse("", declare) + bound("p", "") + m.execute("p") + m.execute("p"), SYNC)
        seen = raw.until("Z")
        assert tags(seen) == [b"DECLARE CURSOR"]
        assert errors(seen)[0]["C"] == "55000"
        assert len(proxy.answering.steps) == 1


def test_flushed_carriers_answer_before_sync(proxy: Served) -> None:
    with proxy.raw() as raw:
        raw.send(m.parse("", f"COPY ({BY_COUNTRY}) TO STDOUT") + bound("", "") + m.execute(""), FLUSH)
        assert copied(raw.until("C")) == COPIED
        raw.send(query("SELECT 1"))
        assert rows(raw.until("Z")) == [("1",)]


def test_nested_comments_hide_no_fetch(proxy: Served) -> None:
    with proxy.raw() as raw:
        raw.send(query("BEGIN"), m.parse("s", BY_COUNTRY), bound("p", "s"), SYNC)
        assert raw.kinds() + raw.kinds() == "CZ12Z"
        assert errors(raw.query("/* /* */ */ FETCH ALL FROM p"))[0]["C"] == "0A000"


@pytest.mark.parametrize("asked", [m.execute(""), m.describe("P", "")])
def test_what_a_failed_query_left_behind_is_not_asked_for(proxy: Served, asked: bytes) -> None:
    """PostgreSQL 18.4 crashes here when it is asked directly, and takes every session with it."""
    with proxy.raw() as raw, proxy.raw() as other:
        raw.query("BEGIN")
        raw.query("EXECUTE nothing(3)")
        raw.query("SELECT 1/0")
        raw.send(bound("", ""), SYNC, asked, SYNC)
        assert errors(raw.until("Z"))[0]["C"] in ("25P02", "26000")
        assert errors(raw.until("Z"))[0]["C"] == "25P02"
        raw.query("ROLLBACK")
        raw.send(asked, SYNC)
        assert errors(raw.until("Z"))[0]["C"] == "34000"
        assert rows(other.query("SELECT 1")) == [("1",)]
