"""Logging in by the password of a directory: a real slapd, and servers that lie or hang."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import psycopg
import pytest

from dpproxy.config.sections import ConfigError, load
from dpproxy.deployment.login_methods import directory_of
from dpproxy.front.front import Front
from dpproxy.owner.check_warnings import providers
from dpproxy.pgwire import messages as m
from dpproxy.pgwire.startup import startup_packet
from dpproxy.server import ldap as client
from dpproxy.server import ldap_messages as ldap
from dpproxy.server.ldap import Directory
from dpproxy.server.login_methods import LoginMethods
from tests.dpproxy.directory import Slapd, slapd
from tests.dpproxy.serving import POLICY, make
from tests.dpproxy.wire import Raw, errors, served

PEOPLE = ("ann", "o'neil (x)*,y", "Eve")
SECTION = """
[budget.dataset]
information = 3000
calls = 300
[identity.ldap]
analysts = ["*"]
url = "{url}"
"""
DN = 'dn = "uid={user},ou=people,dc=example,dc=org"\n'
BASE = 'base = "dc=example,dc=org"\nbind_dn = "cn=reader,dc=example,dc=org"\nbind_password_file = "secret"\n'


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slapd]:
    people = (*PEOPLE, "twice|again")
    with slapd(tmp_path_factory.mktemp("slapd"), dict.fromkeys(people, ())) as one:
        yield one


def made(folder: Path, url: str, rest: str) -> Directory:
    (folder / "secret").write_text("reading\n")
    one = directory_of(load(make(folder, POLICY + SECTION.format(url=url) + rest)))
    assert one is not None
    return one


def believed(directory: Directory, *pairs: tuple[str, str]) -> list[bool]:
    async def all_of_them() -> list[bool]:
        return [await directory.proof(*pair) is not None for pair in pairs]

    return asyncio.run(all_of_them())


@pytest.mark.service
@pytest.mark.parametrize("how", [DN, BASE])
@pytest.mark.parametrize("scheme", ["ldap", "start_tls", "ldaps"])
def test_who_is_let_in(directory: Slapd, how: str, scheme: str, tmp_path: Path) -> None:
    url = f"ldaps://localhost:{directory.tls}" if scheme == "ldaps" else f"ldap://localhost:{directory.plain}"
    rest = f'ca_file = "{directory.authority}"\n' + ("start_tls = true\n" if scheme == "start_tls" else "")
    one = made(tmp_path, url, how + rest)
    right = [(name, f"pw-{name}") for name in PEOPLE]
    assert believed(one, *right) == [True] * len(right)
    wrong = [
        ("ann", "pw-Eve"),
        ("ann", ""),
        ("nobody", "pw-ann"),
        ("nobody", ""),
        # Directories take these for ann, and each would be one more budget.
        ("ANN", "pw-ann"),
        ("ann ", "pw-ann"),
        (" ann", "pw-ann"),
        ("eve", "pw-Eve"),
        ("twice", "pw-twice"),
        ("again", "pw-twice"),
        # Filters and names of entries.
        ("*", "pw-ann"),
        ("ann)(uid=*", "pw-ann"),
        ("ann,ou=people", "pw-ann"),
        ("ann+sn=x", "pw-ann"),
        ("", "pw-ann"),
    ]
    assert believed(one, *wrong) == [False] * len(wrong)


@pytest.mark.service
def test_a_certificate_that_is_not_trusted(
    directory: Slapd, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for number, (url, rest) in enumerate(
        (
            (f"ldaps://localhost:{directory.tls}", ""),
            (f"ldap://localhost:{directory.plain}", "start_tls = true\n"),
        )
    ):
        (folder := tmp_path / str(number)).mkdir()
        assert believed(made(folder, url, DN + rest), ("ann", "pw-ann")) == [False]
    assert caplog.text.count("CERTIFICATE_VERIFY_FAILED") == 2
    assert "pw-ann" not in caplog.text


@pytest.mark.service
def test_a_search_that_finds_several_or_may_not_be_asked(directory: Slapd, tmp_path: Path) -> None:
    url = f"ldap://127.0.0.1:{directory.plain}"
    (tmp_path / "a").mkdir()
    several = made(tmp_path / "a", url, BASE + 'attribute = "cn"\n')
    assert believed(several, ("x", "pw-ann")) == [False]
    # The password of the search is read at each login.
    one = made(tmp_path, url, BASE)
    assert believed(one, ("ann", "pw-ann")) == [True]
    for secret in ("wrong", "", None):
        (tmp_path / "secret").unlink() if secret is None else (tmp_path / "secret").write_text(secret)
        assert believed(one, ("ann", "pw-ann")) == [False]


@pytest.mark.service
def test_check_asks_the_directory(directory: Slapd, tmp_path: Path) -> None:
    made(tmp_path, f"ldap://127.0.0.1:{directory.plain}", BASE)
    config = load(tmp_path / "dpproxy.toml")
    assert list(providers(config)) == []
    (tmp_path / "secret").write_text("wrong")
    assert "nobody could log in by the directory now: it does not let bind_dn in" in next(providers(config))


@pytest.mark.service
def test_an_analyst_logs_in(directory: Slapd, wire_front: Front, tmp_path: Path) -> None:
    one = made(tmp_path, f"ldap://127.0.0.1:{directory.plain}", DN)
    with served(wire_front, auth="scram", methods=LoginMethods(directory=one)) as proxy:
        with proxy.connect(sslmode="require", user="ann", password="pw-ann", autocommit=True) as connection:
            assert connection.execute("SELECT current_user").fetchone() == ("ann",)
        said = []
        for user, password in (("ann", "wrong"), ("nobody", "wrong"), ("ANN", "pw-ann")):
            began = time.monotonic()
            with pytest.raises(psycopg.OperationalError) as caught:
                proxy.connect(sslmode="require", user=user, password=password)
            said.append(str(caught.value).rpartition("FATAL:")[2].replace(user, "USER").strip())
            assert time.monotonic() - began >= 0.5
        assert {*said} == {'password authentication failed for user "USER"'}
        with Raw.open(proxy.port) as raw:
            raw.send(startup_packet({"user": "ann"}))
            assert errors(raw.until("E"))[0]["C"] == "28000"


@contextmanager
def answering(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """The URL of a server that does this with its one connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                answer(connection)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"ldap://localhost:{listener.getsockname()[1]}"
        thread.join(5)


def success(number: int, kind: int = ldap.BOUND) -> bytes:
    return ldap.message(number, bytes([kind, 7]) + b"\x0a\x01\x00\x04\x00\x04\x00")


def says(*parts: bytes) -> Callable[[socket.socket], None]:
    def answer(connection: socket.socket) -> None:
        for part in parts:
            connection.recv(4096)
            connection.sendall(part)
        connection.recv(4096)

    return answer


def silent(connection: socket.socket) -> None:
    connection.recv(4096)
    time.sleep(0.5)


LIES: dict[str, tuple[str, Callable[[socket.socket], None]]] = {
    "silence": ("does not answer within", silent),
    "an end": ("cannot be asked", lambda connection: None),
    "another protocol": ("cannot be asked: NotLdap", says(b"HTTP/1.1 400 Bad Request\r\n")),
    "a message without end": ("too long", says(b"\x30\x84\x7f\xff\xff\xff")),
    "an answer to another question": ("NotLdap", says(success(7))),
    "an answer of another kind": ("NotLdap", says(success(2, ldap.FOUND))),
    "lengths beyond the message": ("NotLdap", says(ldap.message(2, b"\x61\x7f\x0a\x01\x00"))),
}


@pytest.mark.parametrize("what", LIES)
def test_a_directory_that_lies_or_hangs(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(client, "SECONDS", 0.3)
    why, answer = LIES[what]
    with answering(answer) as url:
        assert believed(made(tmp_path, url, DN), ("ann", "pw-ann")) == [False]
    assert why in caplog.text


def test_what_is_put_behind_the_answer_to_start_tls_is_not_read(tmp_path: Path) -> None:
    """Somebody on the way would let anybody in by the answers to questions that have not been asked."""
    forged = success(1, ldap.EXTENDED_DONE) + success(2) + success(3, ldap.FOUND)
    with answering(says(forged)) as url:
        assert believed(made(tmp_path, url, DN + "start_tls = true\n"), ("ann", "x")) == [False]


@pytest.mark.service
@pytest.mark.parametrize(("addresses", "most"), [(1, 2), (20, client.MOST_LOGINS - 1)])
def test_few_connections_at_once(addresses: int, most: int, wire_front: Front, tmp_path: Path) -> None:
    """One is left for whoever has logged in before."""
    with socket.create_server(("127.0.0.1", 0)) as listener, ExitStack() as stack:
        one = made(tmp_path, f"ldap://127.0.0.1:{listener.getsockname()[1]}", DN)
        proxy = stack.enter_context(served(wire_front, auth="scram", methods=LoginMethods(directory=one)))
        for n in range(20):
            source = (f"127.0.3.{1 + n % addresses}", 0)
            raw = stack.enter_context(Raw(socket.create_connection(("127.0.0.1", proxy.port), 10, source)))
            raw.secure()
            raw.send(startup_packet({"user": f"ann {n}"}))
            raw.until("R")
            raw.send(m.message("p", b"guess\0"))
        listener.settimeout(0.5)
        arrived = 0
        with suppress(TimeoutError):
            while True:
                stack.enter_context(listener.accept()[0])
                arrived += 1
        assert arrived == most


@pytest.mark.parametrize(
    ("url", "rest", "why"),
    [
        ("ldap://ldap.example.com", DN, "in the clear"),
        ("ldaps://ldap.example.com", DN + "start_tls = true\n", "start_tls"),
        ("https://ldap.example.com", DN, "url"),
        ("ldaps://user@ldap.example.com", DN, "url"),
        ("ldaps://ldap.example.com/dc=x", DN, "url"),
        ("ldaps://ldap.example.com:99999", DN, "ort"),
        ("ldaps://ldap.example.com", "", "one of them"),
        ("ldaps://ldap.example.com", DN + BASE, "one of them"),
        ("ldaps://ldap.example.com", 'dn = "uid=ann"\n', "{user}"),
        ("ldaps://ldap.example.com", 'base = "dc=x"\nbind_dn = "cn=y"\n', "go together"),
        ("ldaps://ldap.example.com", BASE.replace("secret", "none"), "bind_password_file"),
        ("ldaps://ldap.example.com", DN + 'ca_file = "none"\n', "ca_file"),
    ],
)
def test_a_section_that_would_be_unsafe(tmp_path: Path, url: str, rest: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        made(tmp_path, url, rest)
