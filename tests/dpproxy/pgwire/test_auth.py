"""SCRAM-SHA-256: the RFC's example, PostgreSQL's verifiers, and what neither side lets pass."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re

import pytest

from dpproxy.front.front import Front
from dpproxy.pgwire import auth
from dpproxy.pgwire.auth import AuthenticationFailed, ClientScram, ScramVerifier, ServerScram, saslprep
from tests.dpproxy.wire import admin

SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")


def exchange(server: ServerScram, client: ClientScram) -> None:
    """A login from first to last message."""
    client.check(server.final(client.final(server.first(client.first()))))


def test_the_example_of_rfc_7677() -> None:
    verifier = ScramVerifier.make("pencil", SALT)
    server = ServerScram(verifier)
    server.first(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO")
    nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    server._nonce = nonce
    server._server_first = f"r={nonce},s={base64.b64encode(SALT).decode()},i=4096"
    proof = "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    last = server.final(f"c=biws,r={nonce},p={proof}".encode())
    assert last == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


@pytest.mark.service
def test_a_verifier_is_what_postgresql_makes(wire_front: Front) -> None:
    role, password = wire_front.role_for("ann")
    with admin(wire_front) as connection:
        found = connection.execute("SELECT rolpassword FROM pg_authid WHERE rolname = %s", (role,)).fetchone()
    assert found is not None
    theirs = ScramVerifier.read(found[0])
    assert str(ScramVerifier.make(password, theirs.salt, theirs.iterations)) == found[0]


@pytest.mark.parametrize("password", ["pencil", "", "пароль", "a,b=c", "\u2168", "x" * 1000])
def test_both_sides_agree(password: str) -> None:
    exchange(ServerScram(ScramVerifier.read(str(ScramVerifier.make(password)))), ClientScram(password))


def test_a_wrong_password_and_an_unknown_user_fail_alike() -> None:
    for server in (
        ServerScram(ScramVerifier.make("pencil")),
        ServerScram(ScramVerifier.fake(bytes(32), "eve"), known=False),
        ServerScram(ScramVerifier.make("pen"), known=False),
    ):
        with pytest.raises(AuthenticationFailed, match="password authentication failed"):
            exchange(server, ClientScram("pen"))


def test_the_salt_of_an_unknown_user_stays_and_differs_by_user_and_key() -> None:
    fake = ScramVerifier.fake
    assert fake(bytes(32), "eve") == fake(bytes(32), "eve")
    salts = {fake(bytes(32), "eve").salt, fake(bytes(32), "adam").salt, fake(b"k" * 32, "eve").salt}
    assert len(salts) == 3
    assert {len(salt) for salt in salts} == {16}


@pytest.mark.parametrize(
    "first",
    [b"", b"p=tls-server-end-point,,n=,r=abc", b"n,a=other,n=,r=abc", b"n,,n=,r=", b"n,,m=x,n=,r=a", b"\xff"],
)
def test_malformed_first_messages(first: bytes) -> None:
    with pytest.raises(AuthenticationFailed, match="malformed"):
        ServerScram(ScramVerifier.make("pencil")).first(first)


def test_malformed_last_messages() -> None:
    client = ClientScram("pencil")
    server = ServerScram(ScramVerifier.make("pencil"))
    final = client.final(server.first(client.first()))
    for bad in (
        b"",
        final.replace(b"c=biws", b"c=eSws"),
        re.sub(rb"r=[^,]*", b"r=other", final),
        re.sub(rb"p=.*", b"p=AAAA", final),
        re.sub(rb"p=.*", b"p=*", final),
    ):
        with pytest.raises(AuthenticationFailed, match="malformed"):
            server.final(bad)
    server.final(final)


BINDING = b"the certificate's hash"


def bound_login(server: ServerScram, header: bytes, data: bytes, mechanism: str) -> bytes:
    """A client's whole login with this GS2 header and channel binding data."""
    client = ClientScram("pencil")
    first = server.first(client.first().replace(b"n,,", header), mechanism)
    nonce, salt, iterations = first.split(b",")
    client_final = client.final(first)
    assert client_final.startswith(b"c=biws,")
    without = b"c=" + base64.b64encode(header + data) + b"," + nonce
    salted = hashlib.pbkdf2_hmac("sha256", b"pencil", base64.b64decode(salt[2:]), int(iterations[2:]))
    key = hmac.digest(salted, b"Client Key", "sha256")
    signed = b",".join([client.first()[3:], first, without])
    signature = hmac.digest(hashlib.sha256(key).digest(), signed, "sha256")
    proof = bytes(x ^ y for x, y in zip(key, signature, strict=True))
    return server.final(without + b",p=" + base64.b64encode(proof))


def test_a_client_that_can_bind_channels_may_say_so_where_nobody_offers_it() -> None:
    server = ServerScram(ScramVerifier.make("pencil"))
    assert bound_login(server, b"y,,", b"", auth.MECHANISM).startswith(b"v=")


def test_a_login_bound_to_the_channel() -> None:
    server = ServerScram(ScramVerifier.make("pencil"), binding=BINDING)
    assert server.mechanisms == ("SCRAM-SHA-256-PLUS", "SCRAM-SHA-256")
    assert bound_login(server, b"p=tls-server-end-point,,", BINDING, auth.PLUS).startswith(b"v=")


@pytest.mark.parametrize(
    ("header", "data", "mechanism"),
    [
        (b"p=tls-server-end-point,,", b"of another server", auth.PLUS),
        (b"p=tls-server-end-point,,", b"", auth.PLUS),
        (b"p=tls-server-end-point,,", BINDING, auth.MECHANISM),
        (b"p=tls-unique,,", BINDING, auth.PLUS),
        (b"n,,", b"", auth.PLUS),
        (b"y,,", b"", auth.MECHANISM),
    ],
)
def test_a_binding_that_does_not_hold(header: bytes, data: bytes, mechanism: str) -> None:
    server = ServerScram(ScramVerifier.make("pencil"), binding=BINDING)
    with pytest.raises(AuthenticationFailed, match="malformed"):
        bound_login(server, header, data, mechanism)


def test_the_client_wants_the_servers_proof_and_its_own_nonce() -> None:
    client, server = ClientScram("pencil"), ServerScram(ScramVerifier.make("pencil"))
    client.final(server.first(client.first()))
    with pytest.raises(AuthenticationFailed, match="does not know"):
        client.check(b"v=AAAA")
    with pytest.raises(AuthenticationFailed, match="malformed"):
        client.final(b"r=other,s=AAAA,i=4096")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "md5abc",
        "SCRAM-SHA-256$4096:AA==$AA==:AA==",
        "SCRAM-SHA-256$x:AA==$AA==:AA==",
        "SCRAM-SHA-256$4096",
    ],
)
def test_what_is_no_verifier(text: str) -> None:
    with pytest.raises(ValueError, match=r"verifier|padding|base64"):
        ScramVerifier.read(text)


def test_saslprep_is_rfc_4013_or_the_plain_bytes() -> None:
    assert saslprep("I\u00adX") == b"IX"
    assert saslprep("user") == b"user"
    assert saslprep("\u00aa") == b"a"
    assert saslprep("a\u00a0b") == b"a b"
    for kept in ("\u0007", "\u06271", "\u0221", "\u00ad"):
        assert saslprep(kept) == kept.encode()
    assert saslprep("\u0627\u0031\u0628") == "\u0627\u0031\u0628".encode()


def test_nothing_secret_is_shown() -> None:
    verifier = ScramVerifier.make("pencil")
    assert repr(verifier).startswith("<")
    assert auth.MECHANISM == "SCRAM-SHA-256"
