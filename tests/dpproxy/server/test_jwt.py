"""Logging in by a signed token: inside of TLS, by the pinned algorithm, for whom the token names."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jwt
import psycopg
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

import dpproxy_client
from dpproxy.config.sections import ConfigError, load
from dpproxy.deployment.service import tokens_of
from dpproxy.pgwire.startup import startup_packet
from tests.dpproxy.serving import COUNT, POLICY, Running, command, make, serving
from tests.dpproxy.wire import Raw, errors

SECTION = """
[budget.dataset]
information = 3000
calls = 300
[identity.tokens]
analysts = ["*@example.com", "tina"]
key_file = "{key_file}"
issuer = "https://login.example.com"
audience = "dpproxy"
claim = "email"
"""


@dataclass(frozen=True)
class Issuer:
    """An identity provider with a key pair."""

    private: rsa.RSAPrivateKey

    def public(self) -> bytes:
        kind = serialization.PublicFormat.SubjectPublicKeyInfo
        return self.private.public_key().public_bytes(serialization.Encoding.PEM, kind)

    def jwks(self, name: str) -> dict[str, Any]:
        key = jwt.algorithms.RSAAlgorithm.to_jwk(self.private.public_key(), as_dict=True)
        return {**key, "kid": name, "alg": "RS256", "use": "sig"}

    def token(self, user: str, *, algorithm: str = "RS256", name: str | None = None, **claims: Any) -> str:
        now = int(time.time())
        usual = {"iss": "https://login.example.com", "aud": "dpproxy", "email": user, "exp": now + 300}
        said = {key: value for key, value in {**usual, **claims}.items() if value is not None}
        headers = None if name is None else {"kid": name}
        return jwt.encode(said, self.private, algorithm=algorithm, headers=headers)


@pytest.fixture(scope="module")
def issuer() -> Issuer:
    return Issuer(rsa.generate_private_key(public_exponent=65537, key_size=2048))


@pytest.fixture(scope="module")
def other() -> Issuer:
    return Issuer(rsa.generate_private_key(public_exponent=65537, key_size=2048))


@pytest.fixture(scope="module")
def served(issuer: Issuer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("tokens")
    (folder / "issuer.pem").write_bytes(issuer.public())
    make(folder, POLICY + SECTION.format(key_file="issuer.pem"))
    for name in ("ann", "tina"):
        command("user", "add", name, "--password-stdin", folder=folder, entry="red-pencil\n")
    with serving(["serve", "-c", str(folder / "dpproxy.toml"), "--port", "0"], folder=folder) as running:
        yield running


@pytest.mark.service
def test_a_token_is_a_password(served: Running, issuer: Issuer) -> None:
    with served.connect("eve@example.com", issuer.token("eve@example.com")) as connection:
        assert connection.execute("SELECT current_user").fetchone() == ("eve@example.com",)
        assert len(connection.execute(COUNT.encode()).fetchall()) == 3
        found = connection.execute("SELECT account FROM dpproxy.budget LIMIT 1").fetchone()
        assert found == ("analyst:eve@example.com",)


@pytest.mark.service
def test_the_python_client_sends_it_over_tls(served: Running, issuer: Issuer) -> None:
    where = f"host=127.0.0.1 port={served.port} user=eve@example.com dbname=dpproxy"
    token = issuer.token("eve@example.com")
    with dpproxy_client.connect(where, sslmode="require", token=token) as db:
        assert db.budget()["account"].values[0] == "analyst:eve@example.com"
    with pytest.raises(psycopg.OperationalError, match="certificate"):
        dpproxy_client.connect(where, token=token)


@pytest.mark.service
def test_others_have_their_passwords(served: Running) -> None:
    with served.connect("ann", "red-pencil") as connection:
        assert connection.execute("SELECT current_user").fetchone() == ("ann",)


@pytest.mark.service
def test_what_proves_nothing(served: Running, issuer: Issuer, other: Issuer) -> None:
    user, now = "eve@example.com", int(time.time())
    unsigned = jwt.encode({"email": user, "aud": "dpproxy", "exp": now + 300}, "", algorithm="none")
    forged = jwt.encode(
        {"iss": "https://login.example.com", "aud": "dpproxy", "email": user, "exp": now + 300},
        "a secret that is shared by nobody at all",
        algorithm="HS256",
    )
    wrong = {
        "signed by somebody else": other.token(user),
        "for somebody else": issuer.token("ann@example.com"),
        "by another algorithm": issuer.token(user, algorithm="RS512"),
        "unsigned": unsigned,
        "by a secret": forged,
        "expired": issuer.token(user, exp=now - 300),
        "without an end": issuer.token(user, exp=None),
        "not yet": issuer.token(user, nbf=now + 300),
        "of another issuer": issuer.token(user, iss="https://elsewhere"),
        "for another audience": issuer.token(user, aud="other"),
        "without an audience": issuer.token(user, aud=None),
        "without a name": issuer.token(user, email=None),
        "no token": "red-pencil",
    }
    failed = []
    for number, (what, token) in enumerate(wrong.items()):
        with pytest.raises(psycopg.OperationalError) as caught:
            served.connect(
                user if what != "for somebody else" else f"other{number}@example.com", token
            ).close()
        failed += [what] if "token authentication failed" in str(caught.value) else []
        if number % 4 == 3:
            served.connect(user, issuer.token(user)).close()
    assert failed == [*wrong]


@pytest.mark.service
def test_a_password_is_no_token(served: Running) -> None:
    with pytest.raises(psycopg.OperationalError, match='token authentication failed for user "tina"'):
        served.connect("tina", "red-pencil")


@pytest.mark.service
def test_no_token_is_asked_for_outside_of_tls(served: Running) -> None:
    with Raw.open(served.port) as raw:
        raw.send(startup_packet({"user": "eve@example.com", "database": "x"}))
        seen = raw.until("E")
        assert [kind for kind, _ in seen] == ["E"]
        assert errors(seen)[0]["C"] == "28000"
        assert "TLS" in errors(seen)[0]["M"]


def test_keys_of_a_jwks_go_by_their_names(issuer: Issuer, other: Issuer, tmp_path: Path) -> None:
    (tmp_path / "keys.json").write_text(json.dumps({"keys": [issuer.jwks("new"), other.jwks("old")]}))
    tokens = tokens_of(load(make(tmp_path, POLICY + SECTION.format(key_file="keys.json"))))
    assert tokens is not None
    assert tokens.proves("a@example.com", issuer.token("a@example.com", name="new"))
    assert tokens.proves("a@example.com", other.token("a@example.com", name="old"))
    assert not tokens.proves("a@example.com", issuer.token("a@example.com", name="old"))
    assert not tokens.proves("a@example.com", issuer.token("a@example.com"))
    (tmp_path / "keys.json").write_text(json.dumps({"keys": [issuer.jwks("new")]}))
    assert not tokens.proves("a@example.com", other.token("a@example.com", name="old"))


@pytest.mark.parametrize("content", [None, "no key", "{}", '{"keys": [{"kty": "none"}]}'])
def test_keys_that_cannot_be_read(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "keys").write_text(content)
    with pytest.raises(ConfigError, match=r"identity\.tokens\.key_file"):
        tokens_of(load(make(tmp_path, POLICY + SECTION.format(key_file="keys"))))


def test_a_secret_is_no_key(tmp_path: Path) -> None:
    file = make(tmp_path, POLICY + SECTION.format(key_file="k") + 'algorithm = "HS256"\n')
    with pytest.raises(ConfigError, match="algorithm"):
        load(file)
