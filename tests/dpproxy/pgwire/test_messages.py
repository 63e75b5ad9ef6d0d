"""The codec: any chunking gives the same messages, and no length gets past its limit."""

from __future__ import annotations

import itertools
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpproxy.pgwire import messages as m

CLIENT = [
    ("Q", b"select 1\0"),
    ("P", b"s\0select $1\0" + bytes(2)),
    ("B", b"p\0s\0" + bytes(6)),
    ("E", b"p\0" + bytes(4)),
    ("S", b""),
]
FRONT = [
    ("T", b"\0\0"),
    *[("D", bytes(n)) for n in (0, 3, 70)],
    ("C", b"SELECT 3\0"),
    ("D", b"x"),
    ("Z", b"I"),
]


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    """`data` cut at these places."""
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[a:b] for a, b in itertools.pairwise(places)]


@given(st.lists(st.integers(0, 1000)))
def test_a_clients_messages_survive_any_chunking(cuts: list[int]) -> None:
    inbound = m.Inbound(m.CLIENT_LIMITS)
    seen = []
    for piece in pieces(b"".join(m.message(*one) for one in CLIENT), cuts):
        inbound.feed(piece)
        while (one := inbound.take()) is not None:
            seen.append((chr(one[0]), one[1]))
    assert seen == CLIENT
    assert len(inbound) == 0


@given(st.lists(st.integers(0, 1000)))
def test_the_fronts_messages_survive_any_chunking(cuts: list[int]) -> None:
    outbound = m.Outbound()
    seen: list[tuple[str, bytes]] = []
    for piece in pieces(b"".join(m.message(*one) for one in FRONT), cuts):
        for kind, raw in outbound.feed(piece):
            if seen and chr(kind) == seen[-1][0] == "D":
                raw = seen.pop()[1] + raw
            seen.append((chr(kind), raw))
    rows = b"".join(m.message(*one) for one in FRONT[1:4])
    whole = [(kind, m.message(kind, body)) for kind, body in FRONT]
    assert seen == [whole[0], ("D", rows), *whole[4:]]


def test_a_row_of_any_length_passes_without_being_kept() -> None:
    outbound = m.Outbound()
    head = b"D" + struct.pack(">i", 1 << 30)
    assert [raw for _, raw in outbound.feed(head)] == [head]
    for _ in range(50):
        assert [len(raw) for _, raw in outbound.feed(bytes(1 << 16))] == [1 << 16]


def test_messages_of_the_front_that_are_kept_have_a_limit() -> None:
    outbound = m.Outbound()
    with pytest.raises(m.ProtocolError) as caught:
        list(outbound.feed(b"T" + struct.pack(">i", m.FRONT_LIMIT + 1)))
    assert caught.value.code == "54000"
    outbound = m.Outbound()
    list(outbound.feed(b"N"))
    with pytest.raises(m.ProtocolError):
        list(outbound.feed(struct.pack(">i", m.FRONT_LIMIT + 1)))


@pytest.mark.parametrize("kind", sorted(map(chr, m.CLIENT_LIMITS)))
def test_a_length_at_the_limit_is_waited_for_and_one_more_is_refused(kind: str) -> None:
    limit = m.CLIENT_LIMITS[ord(kind)]
    inbound = m.Inbound(m.CLIENT_LIMITS)
    inbound.feed(kind.encode() + struct.pack(">i", limit))
    assert inbound.take() is None
    inbound = m.Inbound(m.CLIENT_LIMITS)
    inbound.feed(kind.encode() + struct.pack(">i", limit + 1))
    with pytest.raises(m.ProtocolError, match="longer than") as caught:
        inbound.take()
    assert caught.value.code == "54000"


@pytest.mark.parametrize("data", [b"Q" + struct.pack(">i", 3), b"z", b"\0", b"p" + struct.pack(">i", 9)])
def test_what_is_no_message_is_refused_at_its_header(data: bytes) -> None:
    inbound = m.Inbound(m.CLIENT_LIMITS)
    inbound.feed(data)
    with pytest.raises(m.ProtocolError) as caught:
        inbound.take()
    assert caught.value.code == "08P01"


@pytest.mark.parametrize("length", [0, 7, m.STARTUP_LIMIT + 1, 0x47455420])
def test_startup_packets_have_limits(length: int) -> None:
    inbound = m.Inbound({})
    inbound.feed(struct.pack(">I", length))
    with pytest.raises(m.ProtocolError, match="startup"):
        inbound.take_startup()


@given(st.lists(st.binary(max_size=40), max_size=6), st.lists(st.integers(0, 1000)))
def test_startup_packets_survive_any_chunking(bodies: list[bytes], cuts: list[int]) -> None:
    packets = [(m.GSSENC_REQUEST + number, body) for number, body in enumerate(bodies)]
    sent = b"".join(struct.pack(">II", 8 + len(body), code) + body for code, body in packets)
    inbound = m.Inbound({})
    seen: list[tuple[int, bytes]] = []
    for piece in pieces(sent, cuts):
        inbound.feed(piece)
        while len(seen) <= len(packets) and (one := inbound.take_startup()) is not None:
            seen.append(one)
    assert seen == packets
    assert len(inbound) == 0


@given(
    st.lists(st.none() | st.binary(max_size=9), max_size=5),
    st.sampled_from([(), (0,), (1,), "each"]),
    st.lists(st.sampled_from([0, 1]), max_size=3),
)
def test_bind_is_read_as_it_is_built(
    values: list[bytes | None], formats: tuple[int, ...] | str, results: list[int]
) -> None:
    chosen = tuple(i % 2 for i in range(len(values))) if isinstance(formats, str) else formats
    given_values = m.Values(chosen, len(values), m.encoded(values))
    section = struct.pack(f">H{len(results)}h", len(results), *results)
    body = m.bind("p", "s", given_values, section)[5:]
    names, rest = m.split_cstrings(body, 2)
    assert names == ["p", "s"]
    assert m.split_values(rest) == (given_values, section)
    for cut in range(len(rest)):
        with pytest.raises(m.ProtocolError):
            m.split_values(rest[:cut])


def test_arrays_follow_the_clients_values_in_binary() -> None:
    values = m.Values((0,), 2, m.encoded([b"1", b"2"])).and_binary([b"x", b"yy"])
    assert values.formats == (0, 0, 1, 1)
    assert values.raw == m.encoded([b"1", b"2", b"x", b"yy"])
    assert m.Values((1,), 0, b"").and_binary([b"x"]).formats == (1,)


def test_strings_end_with_a_zero_byte_and_are_utf8() -> None:
    with pytest.raises(m.ProtocolError):
        m.split_cstrings(b"abc", 1)
    with pytest.raises(m.ProtocolError) as caught:
        m.split_cstrings(b"\xff\0", 1)
    assert caught.value.code == "22021"
    with pytest.raises(ValueError, match="zero byte"):
        m.cstring("a\0b")
