"""The startup packet: what is passed to the front, what is refused."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from dpproxy.pgwire.messages import PROTOCOL_3_0, ProtocolError
from dpproxy.pgwire.startup import Startup, read_startup, startup_packet
from rewriter.refusal import Refusal


def read(parameters: Mapping[str, str], code: int = PROTOCOL_3_0) -> Startup:
    """A packet of these parameters, read under a statement_timeout of 300 s."""
    return read_startup(code, startup_packet({"user": "ann", **parameters})[8:], 300)


def test_what_drivers_send_is_passed_on() -> None:
    startup = read(
        {
            "database": "shop",
            "application_name": "pgjdbc",
            "client_encoding": "UTF8",
            "DateStyle": "ISO",
            "TimeZone": "Europe/Berlin",
            "extra_float_digits": "2",
            "options": "-c dpproxy.notices=off --lock-timeout=9 -cdpproxy.spend=cheap\\ ly",
        }
    )
    assert (startup.user, startup.database) == ("ann", "shop")
    assert startup.settings == {
        "client_encoding": "UTF8",
        "statement_timeout": "300000",
        "application_name": "pgjdbc",
        "datestyle": "ISO",
        "timezone": "Europe/Berlin",
        "extra_float_digits": "2",
        "dpproxy.notices": "off",
        "lock_timeout": "9",
        "dpproxy.spend": "cheap ly",
    }
    assert startup.negotiation == b""


@pytest.mark.parametrize("encoding", ["UTF8", "utf-8", "'utf-8'", "UNICODE", "SQL_ASCII"])
def test_utf8_by_any_name(encoding: str) -> None:
    assert read({"client_encoding": encoding}).settings["client_encoding"] == "UTF8"


@pytest.mark.parametrize(
    ("parameters", "code"),
    [
        ({"client_encoding": "LATIN1"}, "0A000"),
        ({"replication": "database"}, "42501"),
        ({"session_preload_libraries": "x"}, "42501"),
        ({"client_min_messages": "DEBUG1"}, "42501"),
        ({"client_min_messages": "debug"}, "42501"),
        *(
            ({"standard_conforming_strings": off}, "0A000")
            for off in ("off", "of", "F", "fa", "n", "0", "bad")
        ),
        ({"options": "-c dpproxy.unheard_of=1"}, "42501"),
        ({"options": "-c session_preload_libraries=x"}, "42501"),
        ({"options": "-c row_security=off"}, "42501"),
        ({"options": "-c client_encoding=LATIN1"}, "0A000"),
        ({"options": "-O"}, "42601"),
        ({"options": "-c"}, "42601"),
        ({"options": "-P -c jit=on"}, "42601"),
        ({"statement_timeout": "soon"}, "22023"),
        ({"user": "pg_monitor"}, "28000"),
        ({"user": "ü" * 32}, "28000"),
        ({"user": ""}, "28000"),
        ({"dpproxy.x;y": "1"}, "42501"),
    ],
)
def test_what_is_refused(parameters: dict[str, str], code: str) -> None:
    with pytest.raises(Refusal) as caught:
        read(parameters)
    assert caught.value.code == code


def test_a_value_is_never_repeated_in_a_refusal() -> None:
    with pytest.raises(Refusal) as caught:
        read({"evil\nname": "value"})
    assert caught.value.message == 'parameter "evil?name" cannot be set at connection start'


@pytest.mark.parametrize(
    ("asked", "told"),
    [("1000", "1000"), ("2s", "2000"), ("1 min", "60000"), ("0", "300000"), ("1h", "300000")],
)
def test_statement_timeout_can_only_be_lowered(asked: str, told: str) -> None:
    assert read({"statement_timeout": asked}).settings["statement_timeout"] == told


def test_replication_off_is_no_replication() -> None:
    assert "replication" not in read({"replication": "false"}).settings


def test_a_name_of_63_bytes_is_an_analysts() -> None:
    assert read({"user": "x" * 63}).user == "x" * 63


def test_later_minor_versions_and_unknown_options_are_told_what_is_spoken() -> None:
    assert read({}, PROTOCOL_3_0 + 3).negotiation == b"v\0\0\0\x0c\0\x03\0\x02\0\0\0\0"
    for minor, secret in ((0, 4), (1, 4), (2, 32), (3, 32), (9999, 32)):
        asked = read({}, PROTOCOL_3_0 + minor)
        assert (bool(asked.negotiation), asked.secret_bytes) == (minor > 2, secret)
    startup = read({"_pq_.new": "1"})
    assert startup.negotiation.endswith(b"\0\0\0\x01_pq_.new\0")
    assert "_pq_.new" not in startup.settings


@pytest.mark.parametrize("code", [2 << 16, (2 << 16) + 1, 4 << 16, 1234])
def test_other_protocols_are_refused(code: int) -> None:
    with pytest.raises(Refusal, match="unsupported frontend protocol"):
        read({}, code)


@pytest.mark.parametrize("body", [b"", b"user\0ann", b"user\0ann\0", b"user", b"\0\0", b"\xff\0x\0\0"])
def test_bodies_that_are_none(body: bytes) -> None:
    with pytest.raises(ProtocolError):
        read_startup(PROTOCOL_3_0, body, 300)


def test_nobody_is_no_user() -> None:
    with pytest.raises(Refusal) as caught:
        read_startup(PROTOCOL_3_0, b"\0", 300)
    assert caught.value.code == "28000"
