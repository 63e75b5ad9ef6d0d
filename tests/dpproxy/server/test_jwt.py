"""Logging in by a signed token: inside of TLS, by the pinned algorithm, for whom the token names."""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import jwt
import psycopg
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

import dpproxy_client
from dpproxy.config.sections import ConfigError, load
from dpproxy.deployment.login_methods import tokens_of
from dpproxy.owner.check_warnings import providers
from dpproxy.pgwire.startup import startup_packet
from dpproxy.server import issuer as issuers
from dpproxy.server.jwt import Tokens
from tests.dpproxy.certificates import Authority
from tests.dpproxy.serving import COUNT, POLICY, Running, command, make, serving, within
from tests.dpproxy.wire import Raw, errors

SECTION = """
[budget.dataset]
information = 3000
calls = 300
[identity.tokens]
analysts = ["*@example.com", "tina"]
{keys}
audience = "dpproxy"
claim = "email"
"""
TEAMS = """
[budget.teams.everybody]
groups = ["staff"]
[budget.teams.research]
groups = ["R&D", "labs"]
[budget.teams.sales]
members = ["ann"]
groups = ["shops"]
"""
FILE = 'issuer = "https://login.example.com"\nkey_file = "{}"'


@dataclass(frozen=True)
class Issuer:
    """An identity provider with a key pair."""

    private: rsa.RSAPrivateKey
    url: str = "https://login.example.com"

    def public(self) -> bytes:
        kind = serialization.PublicFormat.SubjectPublicKeyInfo
        return self.private.public_key().public_bytes(serialization.Encoding.PEM, kind)

    def jwks(self, name: str) -> dict[str, Any]:
        key = jwt.algorithms.RSAAlgorithm.to_jwk(self.private.public_key(), as_dict=True)
        return {**key, "kid": name, "alg": "RS256", "use": "sig"}

    def token(self, user: str, *, algorithm: str = "RS256", name: str | None = None, **claims: Any) -> str:
        now = int(time.time())
        usual = {"iss": self.url, "aud": "dpproxy", "email": user, "exp": now + 300}
        usual |= {"iat": now, "groups": ["staff"]}
        said = {key: value for key, value in {**usual, **claims}.items() if value is not None}
        headers = None if name is None else {"kid": name}
        return jwt.encode(said, self.private, algorithm=algorithm, headers=headers)


class Provider(ThreadingHTTPServer):
    """An issuer's web server on loopback. `documents`: by path, what it answers with; `asked`: the paths."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.asked: list[str] = []
        self.documents: dict[str, object] = {}
        self.describe(issuer=self.url, jwks_uri=f"{self.url}/keys")

    def describe(self, **document: object) -> None:
        self.documents["/.well-known/openid-configuration"] = document

    def publish(self, *keys: dict[str, Any]) -> None:
        self.documents["/keys"] = {"keys": keys}


class Answer(BaseHTTPRequestHandler):
    server: Provider

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        said = self.server.documents.get(self.path)
        if callable(said):
            said(self)
            return
        self.send_response(404 if said is None else 200)
        self.end_headers()
        self.wfile.write(json.dumps(said).encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def other() -> Issuer:
    return Issuer(rsa.generate_private_key(public_exponent=65537, key_size=2048))


@contextmanager
def running() -> Iterator[Provider]:
    with Provider() as provider:
        Thread(target=provider.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield provider
        provider.shutdown()


@pytest.fixture
def provider() -> Iterator[Provider]:
    with running() as one:
        yield one


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with running() as provider:
        issuer = Issuer(rsa.generate_private_key(public_exponent=65537, key_size=2048), provider.url)
        provider.publish(issuer.jwks("first"))
        yield issuer


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tokens")


@pytest.fixture(scope="module")
def served(issuer: Issuer, folder: Path) -> Iterator[Running]:
    keys = f'issuer = "{issuer.url}"\nclients = ["cli"]\ngroups = "groups"'
    make(folder, POLICY + SECTION.format(keys=keys) + TEAMS)
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


def test_what_proves_nothing(issuer: Issuer, other: Issuer, tmp_path: Path) -> None:
    user, now = "eve@example.com", int(time.time())
    unsigned = jwt.encode({"email": user, "aud": "dpproxy", "exp": now + 300}, "", algorithm="none")
    forged = jwt.encode(
        {"iss": issuer.url, "aud": "dpproxy", "email": user, "exp": now + 300},
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
        "for another client": issuer.token(user, azp="other"),
        "for several, of nobody": issuer.token(user, aud=["dpproxy", "other"]),
        "of the future": issuer.token(user, iat=now + 300),
        "an address that nobody has proved": issuer.token(user, email_verified=False),
        "by a key of another name": issuer.token(user, name="second"),
        "no token": "red-pencil",
    }
    tokens = made(tmp_path, f'issuer = "{issuer.url}"')

    async def believed() -> list[str]:
        assert await tokens.proof(user, issuer.token(user))
        return [what for what, token in wrong.items() if await tokens.proof(user, token)]

    assert asyncio.run(believed()) == []


@pytest.mark.service
def test_a_token_of_somebody_else(served: Running, issuer: Issuer) -> None:
    for token in (issuer.token("ann@example.com"), issuer.token("eve@example.com", aud="other")):
        with pytest.raises(
            psycopg.OperationalError, match=r'token authentication failed for user "eve@example\.com"'
        ):
            served.connect("eve@example.com", token)


def used(folder: Path) -> dict[str, str]:
    """The information units that each account has spent."""
    status, said, _ = within("budget", "show", "-c", str(folder / "dpproxy.toml"), "--json")
    assert status == 0
    return {row["account"]: row["information"]["spent_so_far"] for row in json.loads(said)["accounts"]}


@pytest.mark.service
def test_groups_decide_which_teams_pay(served: Running, issuer: Issuer, folder: Path) -> None:
    user, now = "gwen@example.com", int(time.time())

    def asks(room: int, *groups: str, at: int, login: str = user) -> None:
        """Buys one answer in a login with these groups."""
        with served.connect(login, issuer.token(login, groups=[*groups], iat=at)) as connection:
            connection.execute(f"SELECT COUNT(DISTINCT person_id) FROM visits WHERE room = {room}".encode())

    asks(0, "labs", "unknown", at=now - 20)
    assert used(folder) == {
        **used(folder),
        f"analyst:{user}": "1",
        "team:research": "1",
        "dataset": used(folder)["dataset"],
    }
    assert used(folder).get("team:sales", "0") == "0"
    # Another group: what was charged stays where it was charged. An account that is made by now begins with what
    # its members were charged before.
    asks(1, "shops", at=now - 10)
    assert (used(folder)["team:research"], used(folder)["team:sales"]) == ("1", "2")
    # An older token does not say where they are now.
    asks(2, "labs", at=now - 15)
    assert (used(folder)["team:research"], used(folder)["team:sales"]) == ("1", "3")
    # Who acts for them by another way pays from the same accounts.
    status, _, said = within(
        *("query", "-c", str(folder / "dpproxy.toml"), "--analyst", user),
        "SELECT COUNT(DISTINCT person_id) FROM visits WHERE room = 3",
    )
    assert status == 0, said
    assert (used(folder)[f"analyst:{user}"], used(folder)["team:sales"]) == ("4", "4")


@pytest.mark.service
@pytest.mark.parametrize(
    "claims", [{"groups": None}, {"groups": ["unknown"]}, {"groups": {"staff": 1}}, {"iat": None}]
)
def test_a_login_in_no_group_is_refused(served: Running, issuer: Issuer, claims: dict[str, Any]) -> None:
    with pytest.raises(psycopg.OperationalError, match="token authentication failed"):
        served.connect("eve@example.com", issuer.token("eve@example.com", **claims))


def test_groups_that_lead_nowhere(tmp_path: Path) -> None:
    keys = 'issuer = "https://login.example.com"'
    for section, why in (
        (SECTION.format(keys=f'{keys}\ngroups = "groups"'), "no team of"),
        (SECTION.format(keys=keys) + TEAMS, "no login tells its groups"),
        (SECTION.format(keys=keys) + "[budget.teams.x]\n", "has members, or groups"),
        (SECTION.format(keys=f'{keys}\ngroups = "g"') + TEAMS + "[server]\nauth = 'trust'\n", "asks nobody"),
    ):
        with pytest.raises(ConfigError, match=why):
            load(make(tmp_path, POLICY + section))
        (tmp_path / "people.duckdb").unlink()


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


def made(folder: Path, keys: str) -> Tokens:
    tokens = tokens_of(load(make(folder, POLICY + SECTION.format(keys=keys))))
    assert tokens is not None
    return tokens


def test_keys_of_a_jwks_go_by_their_names(other: Issuer, tmp_path: Path) -> None:
    first = Issuer(rsa.generate_private_key(public_exponent=65537, key_size=2048))
    (tmp_path / "keys.json").write_text(json.dumps({"keys": [first.jwks("new"), other.jwks("old")]}))
    tokens = made(tmp_path, FILE.format("keys.json"))

    def proves(token: str) -> bool:
        return asyncio.run(tokens.proof("a@example.com", token)) is not None

    assert proves(first.token("a@example.com", name="new"))
    assert proves(other.token("a@example.com", name="old"))
    assert not proves(first.token("a@example.com", name="old"))
    assert not proves(first.token("a@example.com"))
    (tmp_path / "keys.json").write_text(json.dumps({"keys": [first.jwks("new")]}))
    assert not proves(other.token("a@example.com", name="old"))
    (tmp_path / "keys.json").write_bytes(first.public())
    assert proves(first.token("a@example.com"))


@pytest.mark.service
def test_for_whom_a_token_was_issued(served: Running, issuer: Issuer) -> None:
    user = "eve@example.com"
    for claims in (
        {"azp": "cli"},
        {"azp": "dpproxy", "aud": ["dpproxy", "other"]},
        {"aud": ["dpproxy"]},
        {"email_verified": True},
    ):
        served.connect(user, issuer.token(user, **claims)).close()


def test_a_token_of_another_kind_proves_nothing(tmp_path: Path, other: Issuer) -> None:
    (tmp_path / "issuer.pem").write_bytes(other.public())
    tokens = made(tmp_path, FILE.format("issuer.pem"))
    for kind, proves in (("JWT", True), ("at+jwt", True), ("logout+jwt", False)):
        claims = jwt.decode(other.token("a@example.com"), options={"verify_signature": False})
        token = jwt.encode(claims, other.private, algorithm="RS256", headers={"typ": kind})
        assert (asyncio.run(tokens.proof("a@example.com", token)) is not None) == proves


def test_keys_are_fetched_once_and_again_for_an_unknown_name(
    provider: Provider, other: Issuer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = replace(other, url=provider.url)
    provider.publish(mine.jwks("first"))
    tokens = made(tmp_path, f'issuer = "{provider.url}"')

    async def proved(*names: str) -> list[bool]:
        some = [tokens.proof("a@example.com", mine.token("a@example.com", name=name)) for name in names]
        return [one is not None for one in await asyncio.gather(*some)]

    async def logins() -> None:
        assert await proved(*["first"] * 20) == [True] * 20
        assert len(provider.asked) == 2
        provider.publish(mine.jwks("second"))
        # Within the brake's seconds nobody has it asked again, by whatever names.
        assert await proved("second", "third", "first") == [False, False, True]
        assert len(provider.asked) == 2
        monkeypatch.setattr(issuers, "BRAKE_SECONDS", 0.0)
        assert await proved("second") == [True]
        assert await proved("first") == [False]
        # The issuer is away: what is known holds, until it is too old.
        provider.documents.clear()
        monkeypatch.setattr(issuers, "FRESH_SECONDS", 0.0)
        assert await proved("second") == [True]
        monkeypatch.setattr(issuers, "KEPT_SECONDS", 0.0)
        assert await proved("second") == [False]

    asyncio.run(logins())


def raw(answer: bytes) -> Callable[[Answer], object]:
    return lambda request: request.wfile.write(answer)


def silent(request: Answer) -> None:
    time.sleep(1)


def drips(request: Answer) -> None:
    request.wfile.write(b"HTTP/1.1 200 OK\r\n")
    for _ in range(20):
        request.wfile.write(b"X: y\r\n")
        request.wfile.flush()
        time.sleep(0.05)


WRONG: dict[str, tuple[str, object]] = {
    "another issuer": ("is of another issuer", {"issuer": "http://127.0.0.1:1", "jwks_uri": "{url}/keys"}),
    "a slash more": ("is of another issuer", {"issuer": "{url}/", "jwks_uri": "{url}/keys"}),
    "keys in the clear": ("no jwks_uri with https", {"issuer": "{url}", "jwks_uri": "http://192.0.2.1/keys"}),
    "keys of a file": ("no jwks_uri with https", {"issuer": "{url}", "jwks_uri": "file:///etc/passwd"}),
    "no keys": ("no jwks_uri with https", {"issuer": "{url}"}),
    "keys that are none": ("holds no JWKS", {"issuer": "{url}", "jwks_uri": "{url}/none"}),
    "a list": ("holds no JSON object", [1]),
    "a redirect": ("status 302", raw(b"HTTP/1.1 302 Found\r\nLocation: /keys\r\nContent-Length: 0\r\n\r\n")),
    "too much": ("has more than", raw(b"HTTP/1.1 200 OK\r\n\r\n" + b" " * (issuers.MOST_BYTES + 1))),
    "a header without end": ("RemoteProtocolError", raw(b"HTTP/1.1 200 OK\r\nX: " + b"y" * (1 << 20))),
    "not HTTP": ("RemoteProtocolError", raw(b"SSH-2.0\r\n\r\n")),
    "half an answer": ("RemoteProtocolError", raw(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{")),
    "deep": ("holds no JSON object", raw(b"HTTP/1.1 200 OK\r\n\r\n" + b"[" * 200_000)),
    "silence": ("does not answer within", silent),
    "drops": ("does not answer within", drips),
}


@pytest.mark.parametrize("what", WRONG)
def test_an_issuer_that_lies_or_hangs(provider: Provider, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(issuers, "SECONDS", 0.3)
    why, document = WRONG[what]
    if isinstance(document, dict):
        document = {key: value.format(url=provider.url) for key, value in document.items()}
    provider.documents["/.well-known/openid-configuration"] = document
    provider.documents["/none"] = {"keys": [{"kty": "oct"}]}
    with pytest.raises(issuers.KeysUnavailable, match=why):
        asyncio.run(issuers.Issuer(provider.url).fetched())


def test_an_issuers_certificate_is_verified(provider: Provider, tmp_path: Path) -> None:
    authority = Authority.make(tmp_path / "ours")
    shown = authority.sign("localhost")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(shown.certificate, shown.key)
    provider.socket = context.wrap_socket(provider.socket, server_side=True)
    url = provider.url.replace("http:", "https:")
    provider.describe(issuer=url, jwks_uri=f"{url}/keys")
    provider.publish(Issuer(rsa.generate_private_key(public_exponent=65537, key_size=2048)).jwks("a"))
    with pytest.raises(issuers.KeysUnavailable, match="SSLCertVerificationError"):
        asyncio.run(issuers.Issuer(url).fetched())
    assert len(asyncio.run(issuers.Issuer(url, authority.certificate).fetched())) == 1


def test_check_asks_the_issuer(provider: Provider, other: Issuer, tmp_path: Path) -> None:
    config = load(make(tmp_path, POLICY + SECTION.format(keys=f'issuer = "{provider.url}"')))
    (told,) = providers(config)
    assert "nobody could log in" in told
    assert "status 404" in told
    provider.publish(other.jwks("first"))
    assert list(providers(config)) == []


@pytest.mark.parametrize(
    ("keys", "why"),
    [
        ('issuer = "http://login.example.com"', "https"),
        ('issuer = "login"', "https"),
        ('issuer = "https://[x"', "https"),
        ('issuer = "https://login.example.com"\nkey_file = "k"\nca_file = "c"', "ca_file"),
        ('issuer = "https://login.example.com"\nca_file = "missing.pem"', "ca_file"),
    ],
)
def test_an_issuer_that_cannot_be_asked(tmp_path: Path, keys: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        tokens_of(load(make(tmp_path, POLICY + SECTION.format(keys=keys))))


@pytest.mark.parametrize("content", [None, "no key", "{}", '{"keys": [{"kty": "none"}]}'])
def test_keys_that_cannot_be_read(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "keys").write_text(content)
    with pytest.raises(ConfigError, match=r"identity\.tokens\.key_file"):
        tokens_of(load(make(tmp_path, POLICY + SECTION.format(keys=FILE.format("keys")))))


def test_a_secret_is_no_key(tmp_path: Path) -> None:
    file = make(tmp_path, POLICY + SECTION.format(keys=FILE.format("k")) + 'algorithm = "HS256"\n')
    with pytest.raises(ConfigError, match="algorithm"):
        load(file)
