"""`dpproxy serve` as a process of its own, and the commands that attach to it."""

from __future__ import annotations

import json
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.dpproxy.serving import COUNT, POLICY, Running, command, make, serving

pytestmark = pytest.mark.service


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A deployment with an analyst, shared by the tests that leave it as it was."""
    return _deployment(tmp_path_factory.mktemp("served"))


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Running]:
    """The deployment, served."""
    with serving(["serve", "--port", "0"], folder=folder) as running:
        yield running


def _deployment(folder: Path) -> Path:
    make(folder)
    added = command("user", "add", "ann", "--password-stdin", folder=folder, entry="red-pencil\n")
    assert (added.returncode, added.stderr) == (0, "")
    return folder


def towns(connection: psycopg.Connection) -> list[tuple[object, ...]]:
    return connection.execute(COUNT).fetchall()


def used(connection: psycopg.Connection) -> object:
    rows = connection.execute("SELECT used FROM dpproxy.budget WHERE unit = 'information'").fetchall()
    return rows[0][0]


def test_an_analyst_is_let_in_by_password_and_answered(server: Running) -> None:
    with server.connect("ann", "red-pencil") as connection:
        assert [town for town, _ in towns(connection)] == ["Bonn", "Jena", "Ulm"]
    for user, password in (("ann", "pen"), ("eve", "red-pencil")):
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            server.connect(user, password)


def test_garbage_on_the_port_harms_nobody(server: Running) -> None:
    ssl, gssapi = b"\0\0\0\x08\x04\xd2\x16\x2f", b"\0\0\0\x08\x04\xd2\x16\x30"
    for garbage in (b"\xff" * 64, b"GET / HTTP/1.1\r\n\r\n", ssl * 9, gssapi * 2, gssapi + ssl):
        with socket.create_connection(("127.0.0.1", server.port)) as stranger:
            stranger.sendall(garbage)
            stranger.shutdown(socket.SHUT_WR)
            stranger.settimeout(20)
            while stranger.recv(4096):
                pass
    with server.connect("ann", "red-pencil") as connection:
        assert len(towns(connection)) == 3


def test_a_statement_that_takes_all_memory_ends_alone(server: Running) -> None:
    with server.connect("ann", "red-pencil") as connection, server.connect("ann", "red-pencil") as other:
        with pytest.raises(psycopg.errors.OutOfMemory):
            connection.execute("SELECT length(repeat('x', 1000000000) || 'y')")
        assert len(towns(connection)) == len(towns(other)) == 3


def test_stopped_or_killed_it_remembers_what_was_paid(tmp_path: Path) -> None:
    folder = _deployment(tmp_path)
    with (
        serving(["serve", "--port", "0"], folder=folder) as first,
        first.connect("ann", "red-pencil") as connection,
    ):
        rows, spent = towns(connection), used(connection)
        assert first.stop(signal.SIGTERM) == 0
        with pytest.raises(psycopg.OperationalError):
            towns(connection)
    for number in (signal.SIGKILL, signal.SIGTERM):
        with (
            serving(["serve", "--port", "0"], folder=folder) as again,
            again.connect("ann", "red-pencil") as connection,
        ):
            assert towns(connection) == rows
            assert used(connection) == spent
            again.stop(number)


def test_query_attaches_to_the_running_ledger_and_front(server: Running, folder: Path) -> None:
    with server.connect("ann", "red-pencil") as connection:
        rows, spent = towns(connection), used(connection)
        asked = command("query", "--analyst", "ann", "--format", "json", COUNT, folder=folder)
        assert [tuple(row) for row in json.loads(asked.stdout)["rows"]] == rows
        assert "no charge" in asked.stderr
        assert used(connection) == spent
    assert server.process.poll() is None


def test_only_one_serves_a_deployment(server: Running, folder: Path) -> None:
    second = command("serve", "--port", "0", folder=folder)
    assert (second.returncode, second.stdout, second.stderr.count("\n")) == (1, "", 1)
    assert "another dpproxy runs" in second.stderr
    with server.connect("ann", "red-pencil") as connection:
        assert len(towns(connection)) == 3


def test_another_policy_does_not_attach(server: Running, folder: Path) -> None:
    file = folder / "dpproxy.toml"
    file.write_text(POLICY.replace('"Jena"', '"Gera"'))
    try:
        asked = command("query", "--analyst", "ann", COUNT, folder=folder)
    finally:
        file.write_text(POLICY)
    assert (asked.returncode, asked.stderr.count("\n")) == (1, 1)
    assert "another policy" in asked.stderr
    with server.connect("ann", "red-pencil") as connection:
        assert [town for town, _ in towns(connection)] == ["Bonn", "Jena", "Ulm"]


def test_removing_an_analyst_ends_their_sessions_alone(server: Running, folder: Path) -> None:
    command("user", "add", "bob", "--password-stdin", folder=folder, entry="longer pen\n")
    with server.connect("ann", "red-pencil") as ann, server.connect("bob", "longer pen") as bob:
        removed = command("user", "remove", "bob", folder=folder)
        assert (removed.returncode, removed.stderr) == (0, "")
        with pytest.raises(psycopg.OperationalError):
            bob.execute("SELECT 1")
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            server.connect("bob", "longer pen")
        assert len(towns(ann)) == 3


def test_a_new_password_holds_at_once(server: Running, folder: Path) -> None:
    command("user", "add", "cem", "--password-stdin", folder=folder, entry="white chalk\n")
    assert (
        command(
            "user", "passwd", "cem", "--password-stdin", folder=folder, entry="permanent ink\n"
        ).returncode
        == 0
    )
    with server.connect("cem", "permanent ink") as connection:
        assert len(towns(connection)) == 3
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        server.connect("cem", "white chalk")


def test_a_port_that_is_taken_is_one_line(tmp_path: Path) -> None:
    make(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        failed = command("serve", "--port", port, folder=tmp_path)
    assert (failed.returncode, failed.stdout, failed.stderr.count("\n")) == (1, "", 1)
    assert port in failed.stderr
