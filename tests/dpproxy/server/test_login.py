"""How clients get in: TLS in its forms, channel binding, certificates, protocol versions, wrong passwords."""

from __future__ import annotations

import asyncio
import datetime as dt
import select
import socket
import ssl
import struct
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes

from dpproxy.config.identity import CertificateRule
from dpproxy.front.front import Front
from dpproxy.pgwire import messages as m
from dpproxy.pgwire.auth import ClientScram
from dpproxy.pgwire.startup import startup_packet
from dpproxy.server.listener import ServerError
from dpproxy.server.login_methods import LoginMethods
from dpproxy.server.login_throttle import FREE_FAILURES
from tests.dpproxy.certificates import Authority, Pem
from tests.dpproxy.wire import (
    ENDLESS,
    SLOW,
    Raw,
    Served,
    errors,
    eventually,
    query,
    rows,
    served,
    shape,
)

pytestmark = pytest.mark.service


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.make(tmp_path_factory.mktemp("certificates") / "ours")


def started(port: int, **parameters: str) -> Raw:
    """A connection with its startup packet sent."""
    raw = Raw.open(port)
    raw.send(startup_packet({"user": "ann", **parameters}))
    return raw


def versioned(minor: int, parameters: dict[str, str]) -> bytes:
    """A startup packet of protocol 3.`minor`."""
    packet = startup_packet(parameters)
    return packet[:4] + struct.pack(">i", m.PROTOCOL_3_0 + minor) + packet[8:]


def hello(alpn: list[str]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if alpn:
        context.set_alpn_protocols(alpn)
    return context


def test_the_handshake_may_come_in_one_piece(proxy: Served) -> None:
    with Raw.open(proxy.port) as raw:
        raw.secure()
        raw.send(startup_packet({"user": "ann"}), query("SELECT 1"))
        raw.until("Z")
        assert rows(raw.until("Z")) == [("1",)]


def test_plain_text_after_asking_for_tls_is_refused(proxy: Served) -> None:
    with Raw.open(proxy.port) as raw:
        raw.send(struct.pack(">ii", 8, m.SSL_REQUEST), startup_packet({"user": "ann"}))
        received = b""
        while part := raw.socket.recv(4096):
            received += part
        assert received[:1] == b"S"
        assert b"08P01" in received


def test_gssenc_is_answered_no_and_tls_may_follow(proxy: Served) -> None:
    with Raw.open(proxy.port) as raw:
        raw.send(struct.pack(">ii", 8, m.GSSENC_REQUEST))
        assert raw.socket.recv(1) == b"N"
        raw.secure()
        raw.send(startup_packet({"user": "ann"}))
        assert raw.kinds().endswith("KZ")


@pytest.mark.parametrize(
    "requests",
    [
        [m.GSSENC_REQUEST, m.GSSENC_REQUEST],
        [m.GSSENC_REQUEST, m.SSL_REQUEST],
        [m.GSSENC_REQUEST, m.CANCEL_REQUEST],
        [m.GSSENC_REQUEST, m.PROTOCOL_3_0],
        [m.SSL_REQUEST, m.SSL_REQUEST],
        [m.GSSENC_REQUEST] * 1000,
    ],
)
@pytest.mark.parametrize("at_once", [True, False])
def test_requests_for_encryption_stop_nobody(proxy: Served, requests: list[int], at_once: bool) -> None:
    packets = [struct.pack(">ii", 8, code) for code in requests]
    with Raw.open(proxy.port) as raw, suppress(OSError):
        raw.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for part in [b"".join(packets)] if at_once else packets:
            raw.send(part)
    with proxy.raw() as raw:
        assert rows(raw.query("SELECT 1")) == [("1",)]


def test_a_second_request_for_encryption_is_refused(proxy: Served) -> None:
    with Raw.open(proxy.port) as raw:
        for _ in range(2):
            raw.send(struct.pack(">ii", 8, m.GSSENC_REQUEST))
            answer = raw.socket.recv(1)
        assert answer == b"E"
    with Raw.open(proxy.port) as raw:
        raw.send(struct.pack(">ii", 8, m.GSSENC_REQUEST), startup_packet({"user": "ann"}))
        assert raw.socket.recv(1) == b"N"
        assert errors(raw.until("E"))[0]["C"] == "08P01"


def test_tls_from_the_first_byte(proxy: Served) -> None:
    with Raw.open(proxy.port) as raw:
        raw.socket = hello(["postgresql"]).wrap_socket(raw.socket)
        raw.send(startup_packet({"user": "ann"}), query("SELECT repeat('x', 300000)"))
        assert raw.kinds().endswith("KZ")
        assert len(rows(raw.until("Z"))[0][0] or "") == 300000
    with proxy.connect(sslmode="require", sslnegotiation="direct", autocommit=True) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


@pytest.mark.parametrize("alpn", [[], ["http/1.1"]])
def test_tls_from_the_first_byte_has_to_name_its_protocol(proxy: Served, alpn: list[str]) -> None:
    with Raw.open(proxy.port) as raw:
        raw.socket = hello(alpn).wrap_socket(raw.socket)
        (error,) = errors(raw.until("E"))
        assert error["C"] == "08P01"
        assert "ALPN" in error["M"]


def test_a_handshake_byte_by_byte(proxy: Served) -> None:
    context, arriving, leaving = hello(["postgresql"]), ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(arriving, leaving)
    with Raw.open(proxy.port) as raw:
        raw.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while True:
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                for byte in leaving.read():
                    raw.send(bytes([byte]))
                arriving.write(raw.socket.recv(65536))
        tls.write(startup_packet({"user": "ann"}))
        raw.send(leaving.read())
        eventually(lambda: proxy.sessions == 1)


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x16\x03\x01\x00\x20" + bytes(32),
        b"\x16\xff\xff\xff\xff" + b"x" * 70000,
        b"\x16" * 100,
    ],
)
@pytest.mark.parametrize("direct", [True, False])
def test_garbage_in_place_of_a_handshake(proxy: Served, garbage: bytes, direct: bool) -> None:
    with Raw.open(proxy.port) as raw:
        if not direct:
            raw.send(struct.pack(">ii", 8, m.SSL_REQUEST))
            assert raw.socket.recv(1) == b"S"
        with suppress(OSError):
            raw.send(garbage)
            raw.socket.shutdown(socket.SHUT_WR)
            while raw.socket.recv(4096):
                pass
    with proxy.raw() as raw:
        assert rows(raw.query("SELECT 1")) == [("1",)]
    eventually(lambda: not proxy.server._logins)


@pytest.mark.parametrize(
    ("minor", "unknown", "spoken", "secret"),
    [(0, (), None, 4), (2, (), None, 32), (3, (), 2, 32), (9999, ("_pq_.x",), 2, 32), (0, ("_pq_.x",), 0, 4)],
)
def test_versions_are_negotiated(
    proxy: Served, minor: int, unknown: tuple[str, ...], spoken: int | None, secret: int
) -> None:
    with Raw.open(proxy.port) as raw:
        raw.send(versioned(minor, {"user": "ann", **dict.fromkeys(unknown, "1")}))
        seen = raw.until("Z")
        if spoken is None:
            assert seen[0][0] == "R"
        else:
            names = b"".join(map(m.cstring, unknown))
            body = struct.pack(">ii", m.PROTOCOL_3_0 + spoken, len(unknown)) + names
            assert seen[0] == ("v", m.message("v", body))
        assert len(raw.key) == 4 + secret
        raw.send(query(ENDLESS))
        assert raw.is_silent(0.2)
        with Raw.open(proxy.port) as other:
            other.secure()
            other.send(struct.pack(">ii", 8 + len(raw.key), m.CANCEL_REQUEST) + raw.key)
            assert other.receive() is None
        assert errors(raw.until("Z"))[0]["C"] == "57014"


def test_libpq_speaks_3_2(proxy: Served) -> None:
    versions = {"max_protocol_version": "3.2", "min_protocol_version": "3.2"}
    with proxy.connect(autocommit=True, **versions) as connection, ThreadPoolExecutor(1) as pool:
        asked = pool.submit(connection.execute, SLOW)
        assert proxy.answering.begun.wait(5)
        connection.cancel_safe()
        with pytest.raises(psycopg.errors.QueryCanceled):
            asked.result(10)


def test_a_password_bound_to_the_channel(wire_front: Front, authority: Authority) -> None:
    for algorithm in (hashes.SHA256(), hashes.SHA384(), hashes.SHA512()):
        pem = authority.sign("server", algorithm=algorithm)
        tls = {"tls_cert": str(pem.certificate), "tls_key": str(pem.key)}
        with served(wire_front, auth="scram", **tls) as proxy:
            options = {"channel_binding": "require", "sslmode": "verify-full"}
            trusted = {"sslrootcert": str(authority.certificate)}
            with proxy.connect(password="pencil", autocommit=True, **options, **trusted) as connection:
                assert connection.execute("SELECT 1").fetchone() == (1,)
    with served(wire_front, auth="scram") as proxy:
        with proxy.connect(password="pencil", channel_binding="require") as connection:
            assert connection.pgconn.ssl_in_use
        with pytest.raises(psycopg.OperationalError, match="channel binding"):
            proxy.connect(password="pencil", channel_binding="require", sslmode="disable")


def test_a_certificate_is_changed_in_place(wire_front: Front, authority: Authority) -> None:
    def seen() -> bytes:
        with Raw.open(proxy.port) as raw:
            raw.secure()
            assert isinstance(raw.socket, ssl.SSLSocket)
            shown = raw.socket.getpeercert(binary_form=True)
            assert shown is not None
            return shown

    def reload() -> None:
        async def change() -> None:
            proxy.server.reload(proxy.settings, proxy.server._rooms)

        asyncio.run_coroutine_threadsafe(change(), proxy.loop).result(10)

    pem = authority.sign("server")
    with (
        served(wire_front, auth="scram", tls_cert=str(pem.certificate), tls_key=str(pem.key)) as proxy,
        proxy.connect(password="pencil", autocommit=True, sslmode="require") as connection,
    ):
        first = seen()
        authority.sign("server")
        assert seen() == first
        reload()
        assert (second := seen()) != first
        pem.key.write_text("no key")
        with pytest.raises(ServerError, match="are no certificate and its key in PEM"):
            reload()
        assert seen() == second
        assert connection.execute("SELECT 1").fetchone() == (1,)
        with proxy.connect(password="pencil", channel_binding="require") as later:
            assert later.pgconn.ssl_in_use


@pytest.fixture
def certified(wire_front: Front, authority: Authority) -> dict[str, str]:
    """The settings of a server that takes certificates of its authority."""
    pem = authority.sign("server")
    return {
        "tls_cert": str(pem.certificate),
        "tls_key": str(pem.key),
        "tls_client_ca": str(authority.certificate),
    }


def shown(pem: Pem) -> dict[str, str]:
    """libpq's options for a client's certificate, and no password."""
    return {"sslcert": str(pem.certificate), "sslkey": str(pem.key), "sslmode": "require"}


def test_a_certificate_lets_its_name_in(
    wire_front: Front, authority: Authority, certified: dict[str, str], tmp_path: Path
) -> None:
    ann, eve = authority.sign("ann"), authority.sign("eve")
    stranger = Authority.make(tmp_path / "another").sign("ann")
    with served(wire_front, auth="scram", **certified) as proxy:
        with proxy.connect(autocommit=True, **shown(ann)) as connection:
            assert connection.execute("SELECT current_user").fetchone() == ("ann",)
        for user, pem in (
            ("ann", eve),
            ("eve", eve),
            ("bob", ann),
            ("ann", authority.sign("ann", twice=True)),
        ):
            with pytest.raises(psycopg.OperationalError, match="certificate authentication failed"):
                proxy.connect(user=user, password="pencil", **shown(pem))
        # In TLS 1.3 a client has sent its first packet when its certificate is looked at: it may read the end alone.
        with pytest.raises(psycopg.OperationalError, match=r"unknown ca|SSL|server closed the connection"):
            proxy.connect(**shown(stranger))
        with pytest.raises(psycopg.OperationalError, match="password"):
            proxy.connect(sslmode="require")
        with proxy.connect(sslmode="require", password="pencil") as connection:
            assert connection.info.user == "ann"


def test_a_map_says_whom_a_certificate_names(
    wire_front: Front, authority: Authority, certified: dict[str, str]
) -> None:
    rules = [
        CertificateRule(field="email", pattern=r"(\w+)@example\.com", analyst=r"\1"),
        CertificateRule(field="dn", pattern=r"CN=Bob \(ops\)", analyst="ann"),
    ]
    asked = [
        ("ann", authority.sign("x1", emails=["ann@example.com"]), True),
        ("ann", authority.sign("Bob (ops)"), True),
        # Named by nothing but the common name, by an address that matches in part alone, or by several.
        ("ann", authority.sign("ann"), False),
        ("ann", authority.sign("x2", emails=["ann@example.com.evil.org"]), False),
        ("ann", authority.sign("x3", emails=["mary-ann@example.com"]), False),
        ("ann", authority.sign("x4", emails=["ann@example.com", "bob@example.com"]), False),
        ("eve", authority.sign("x5", emails=["ann@example.com"]), False),
        ("ann", authority.sign("Bob (ops),O=x"), False),
        # A name without a login.
        ("eve", authority.sign("x6", emails=["eve@example.com"]), False),
    ]
    methods = LoginMethods(certificates=rules)
    with served(wire_front, auth="scram", methods=methods, **certified) as proxy:
        let_in = []
        for user, pem, _ in asked:
            try:
                proxy.connect(user=user, **shown(pem)).close()
                let_in.append(True)
            except psycopg.OperationalError as error:
                let_in.append("certificate authentication failed" not in str(error))
    assert let_in == [right for *_, right in asked]


def test_an_authority_that_is_none(wire_front: Front, certified: dict[str, str]) -> None:
    settings: dict[str, Any] = {**certified, "tls_client_ca": certified["tls_key"]}
    with pytest.raises(ServerError, match=r"tls_client_ca .* has no certificates in PEM"):
        Served(wire_front, **settings)


def proving(proxy: Served, password: str, address: str = "127.0.0.1") -> tuple[Raw, bytes]:
    """A connection of ann's from an address, and the last message of its proof, which was not sent."""
    raw = Raw(socket.create_connection(("127.0.0.1", proxy.port), 30, source_address=(address, 0)))
    raw.send(startup_packet({"user": "ann"}))
    scram = ClientScram(password)
    first = scram.first()
    raw.until("R")
    raw.send(m.message("p", m.cstring("SCRAM-SHA-256") + struct.pack(">i", len(first)) + first))
    (_, asked), *_ = raw.until("R")
    return raw, m.message("p", scram.final(asked[9:]))


def test_guesses_at_the_same_time_count_as_guesses_in_a_row(wire_front: Front) -> None:
    with served(wire_front, auth="scram") as proxy, ExitStack() as stack:
        guesses = [proving(proxy, f"guess {number}") for number in range(100)]
        began = time.monotonic()
        for raw, proof in guesses:
            stack.enter_context(raw)
            raw.send(proof)
        answers: dict[int, str] = {}
        while len(answers) < len(guesses) - FREE_FAILURES and (
            list(answers.values()).count("28000") < 50
            or list(answers.values()).count("28P01") < FREE_FAILURES
        ):
            ready, _, _ = select.select([raw.socket for raw, _ in guesses], [], [], 10)
            for number, (raw, _) in enumerate(guesses):
                if raw.socket in ready and number not in answers:
                    answers[number] = errors(raw.until("E"))[0]["C"]
        tried = list(answers.values()).count("28P01")
        assert FREE_FAILURES <= tried <= FREE_FAILURES + time.monotonic() - began + 1
        # Whoever is elsewhere, or somebody else, does not notice.
        elsewhere, proof = proving(proxy, "pencil", "127.0.0.2")
        elsewhere.send(proof)
        assert shape(elsewhere.until("Z")).endswith("KZ")
        elsewhere.close()
        with started(proxy.port, user="eve") as raw:
            assert errors(raw.scram("guess"))[0]["C"] == "28P01"


def test_guessers_at_the_same_address_delay_a_login(wire_front: Front) -> None:
    with served(wire_front, auth="scram") as proxy, ExitStack() as stack:
        for number in range(FREE_FAILURES + 2):
            raw, proof = proving(proxy, f"guess {number}")
            stack.enter_context(raw).send(proof)
        raw, proof = proving(proxy, "pencil")
        stack.enter_context(raw).send(proof)
        assert shape(raw.until("Z")).endswith("KZ")
        with proxy.connect(password="pencil", autocommit=True) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)


def test_the_self_signed_certificate_is_for_localhost(proxy: Served) -> None:
    with Raw.open(proxy.port) as raw:
        raw.secure()
        assert isinstance(raw.socket, ssl.SSLSocket)
        certificate = x509.load_der_x509_certificate(raw.socket.getpeercert(binary_form=True) or b"")
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert names.get_values_for_type(x509.DNSName) == ["localhost"]
        assert raw.socket.version() in ("TLSv1.2", "TLSv1.3")
        assert certificate.not_valid_before_utc < dt.datetime.now(dt.UTC) < certificate.not_valid_after_utc
