"""The embedded PostgreSQL: one owner, private, gone with its owner, back after any death."""

from __future__ import annotations

import os
import re
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from dpproxy.embedded import server as embedded
from dpproxy.embedded.binaries import Binaries, find_binaries, psql_path
from dpproxy.embedded.server import Embedded, EmbeddedError
from tests.clusters import INITIALISE

pytestmark = [pytest.mark.service, pytest.mark.usefixtures("true_clusters")]

OWNER = """
import sys, time
from pathlib import Path
from dpproxy.embedded.server import Embedded
server = Embedded.start(Path(sys.argv[1]), durable=True)
print(server.owner, server.socket_dir, flush=True)
sys.stdin.read()
server.stop()
"""


@pytest.fixture(scope="module")
def true_clusters() -> Iterator[None]:
    """These tests are about initdb itself."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(embedded, "_initialise", INITIALISE)
        yield


def postgres_in(data_dir: Path) -> list[int]:
    return list(embedded._processes_in(data_dir / "cluster"))


def wait_for_no_postgres(data_dir: Path) -> None:
    deadline = time.monotonic() + 10
    while postgres_in(data_dir):
        assert time.monotonic() < deadline, "postgres outlived its owner"
        time.sleep(0.01)


def one(server: Embedded, query: str) -> object:
    with psycopg.connect(server.conninfo()) as connection:
        row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return row[0]


class Child:
    """Another process that owns, or attaches to, the server of a data directory."""

    def __init__(self, data_dir: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", OWNER, str(data_dir)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        assert self.process.stdout is not None
        owner, self.socket_dir = self.process.stdout.readline().split()
        self.owner = owner == "True"

    def end(self, sent: signal.Signals | None = None) -> None:
        if sent is not None:
            self.process.send_signal(sent)
        self.process.communicate()


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory whose cluster the tests of this file share, one server after the other."""
    return tmp_path_factory.mktemp("pg") / "server"


@pytest.fixture
def running(kept: Path) -> Iterator[Embedded]:
    with Embedded.start(kept, durable=True) as server:
        yield server


def test_starts_and_starts_again_with_its_data(tmp_path: Path) -> None:
    began = time.monotonic()
    with Embedded.start(tmp_path / "a", durable=False) as server:
        assert server.owner
        assert time.monotonic() - began < 20
        with psycopg.connect(server.conninfo()) as connection:
            connection.execute("CREATE TABLE kept AS SELECT 7 AS n")
    assert postgres_in(tmp_path / "a") == []
    began = time.monotonic()
    with Embedded.start(tmp_path / "a", durable=False) as server:
        assert time.monotonic() - began < 5
        assert one(server, "SELECT n FROM kept") == 7
        assert one(server, "SELECT current_setting('server_encoding') || lower('É')") == "UTF8é"


def test_second_process_attaches_and_leaves_the_server_alone(running: Embedded, kept: Path) -> None:
    child = Child(kept)
    assert not child.owner
    assert child.socket_dir == str(running.socket_dir)
    child.end()
    assert child.process.returncode == 0
    assert one(running, "SELECT 1") == 1


def test_second_start_in_the_same_process_attaches(running: Embedded, kept: Path) -> None:
    with Embedded.start(kept, durable=True) as second:
        assert not second.owner
        assert one(second, "SELECT 2") == 2
    assert one(running, "SELECT 3") == 3


def test_killed_owner_leaves_no_postgres_and_no_loss(kept: Path) -> None:
    child = Child(kept)
    assert child.owner
    assert postgres_in(kept)
    child.end(signal.SIGKILL)
    wait_for_no_postgres(kept)
    with Embedded.start(kept, durable=True) as server:
        assert server.owner


def test_starts_at_once_after_its_owner_was_killed(kept: Path) -> None:
    child = Child(kept)
    child.end(signal.SIGKILL)
    with Embedded.start(kept, durable=True) as server:
        assert server.owner
        assert one(server, "SELECT 1") == 1


def test_killed_postmaster_is_noticed_and_replaced(kept: Path) -> None:
    with Embedded.start(kept, durable=True):
        status = embedded._Postmaster.read(kept / "cluster")
        assert status is not None
        os.kill(status.pid, signal.SIGKILL)
        wait_for_no_postgres(kept)
    with Embedded.start(kept, durable=True) as server:
        assert one(server, "SELECT 1") == 1


def test_server_outlives_the_thread_that_started_it(kept: Path) -> None:
    started: list[Embedded] = []
    thread = threading.Thread(target=lambda: started.append(Embedded.start(kept, durable=True)))
    thread.start()
    thread.join()
    time.sleep(0.3)
    with started[0] as server:
        assert one(server, "SELECT 1") == 1


def test_pid_file_with_the_number_of_a_living_stranger(kept: Path) -> None:
    with Embedded.start(kept, durable=True):
        text = (kept / "cluster" / "postmaster.pid").read_text()
    lines = text.split("\n")
    (kept / "cluster" / "postmaster.pid").write_text("\n".join([str(os.getpid()), *lines[1:]]))
    (kept / "socket").mkdir()
    (kept / "socket" / f".s.PGSQL.{embedded.PORT}.lock").write_text(f"{os.getpid()}\n")
    with Embedded.start(kept, durable=True) as server:
        assert server.owner
        assert one(server, "SELECT 1") == 1


@pytest.mark.skipif(find_binaries(16) is None, reason="no second major version of PostgreSQL")
def test_version_of_the_data_picks_the_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def older(major: int | None = None) -> Binaries | None:
        return find_binaries(16 if major is None else major)

    monkeypatch.setattr(embedded, "find_binaries", older)
    Embedded.start(tmp_path / "a", durable=False).stop()
    monkeypatch.undo()
    with Embedded.start(tmp_path / "a", durable=False) as server:
        assert str(one(server, "SHOW server_version")).startswith("16.")
    (tmp_path / "a" / "cluster" / "PG_VERSION").write_text("9\n")
    with pytest.raises(EmbeddedError, match="PostgreSQL 9"):
        Embedded.start(tmp_path / "a", durable=False)


def test_long_path_gets_a_private_socket_folder_that_goes_away(tmp_path: Path) -> None:
    data_dir = tmp_path / ("long" * 40) / "server"
    child = Child(data_dir)
    left = Path(child.socket_dir)
    assert left.parent == Path("/tmp")
    assert stat.S_IMODE(left.stat().st_mode) == 0o700
    child.end(signal.SIGKILL)
    wait_for_no_postgres(data_dir)
    with Embedded.start(data_dir, durable=True) as server:
        assert one(server, "SELECT 1") == 1
        assert not left.exists()
        second = server.socket_dir
    assert not second.exists()


def test_odd_path(tmp_path: Path) -> None:
    with Embedded.start(tmp_path / "a, \"b\" 'c' é", durable=False) as server:
        assert one(server, "SELECT 1") == 1


def test_nobody_else_gets_in(running: Embedded, kept: Path) -> None:
    def mode(path: Path) -> int:
        return stat.S_IMODE(path.stat().st_mode)

    assert mode(kept) == mode(kept / "cluster") == mode(running.socket_dir) == 0o700
    assert mode(kept / "password") == mode(kept / "log") == 0o600
    assert mode(running.socket_path) == 0o700
    assert one(running, "SHOW listen_addresses") == ""
    assert running.password not in repr(running)
    for password in (None, "wrong"):
        with pytest.raises(psycopg.OperationalError, match="password"):
            psycopg.connect(running.conninfo(running.user, password=password))
    rules = "SELECT string_agg(type || ' ' || auth_method, ',') FROM pg_hba_file_rules"
    assert one(running, rules) == "local scram-sha-256"


def test_connections_do_not_wait_for_what_slows_guessing_down(running: Embedded) -> None:
    if int(str(one(running, "SHOW server_version_num"))) < 160000:
        pytest.skip("PostgreSQL 16 is the first that takes a number of rounds")
    kept = "SELECT rolpassword LIKE 'SCRAM-SHA-256$1:%' FROM pg_authid WHERE rolname = current_user"
    assert one(running, kept) is True
    # A password that somebody sets is kept as PostgreSQL keeps it.
    assert one(running, "SHOW scram_iterations") == "4096"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root changes identity")
def test_the_log_has_no_text_of_a_statement(running: Embedded, kept: Path) -> None:
    """Constants may name persons; a session that is ended or dies is logged."""
    with pytest.raises(psycopg.OperationalError):
        one(running, "SELECT pg_terminate_backend(pg_backend_pid()), 'somebody@example.org'")
    with psycopg.connect(running.conninfo()) as connection:
        threading.Timer(0.3, os.kill, (connection.info.backend_pid, signal.SIGKILL)).start()
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT pg_sleep(20), 'somebody@example.org'")
    deadline = time.monotonic() + 20
    # PostgreSQL 18 does not end by a fast shutdown that comes while it recovers from a crash.
    recovered = re.compile("by signal 9.*ready to accept connections", re.DOTALL)
    while not recovered.search(told := (kept / "log").read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert "terminating connection" in told
    assert "somebody" not in told


def test_root_runs_it_without_roots_rights(running: Embedded, kept: Path) -> None:
    status = Path(f"/proc/{postgres_in(kept)[0]}/status").read_text()
    assert "CapEff:\t0000000000000000" in status
    uid_map = Path(f"/proc/{postgres_in(kept)[0]}/uid_map").read_text().split()
    assert uid_map[0] != "0" or (kept / "cluster").stat().st_uid != 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root changes identity")
def test_root_without_namespaces_uses_an_existing_user(monkeypatch: pytest.MonkeyPatch) -> None:
    programs = find_binaries()
    assert programs is not None
    if not runs_for_others(programs.directory / "postgres"):
        pytest.skip("the programs are out of an ordinary user's reach")
    with open_to_others() as folder:
        monkeypatch.setattr(embedded, "_namespace", lambda: embedded._Identity("namespace", -1))
        with Embedded.start(folder / "server", durable=False) as server:
            assert (folder / "server" / "cluster").stat().st_uid != 0
            assert one(server, "SELECT 1") == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root changes identity")
def test_where_nothing_is_allowed_the_error_names_the_way_out(tmp_path: Path) -> None:
    inside = 'echo 0 > /proc/sys/user/max_user_namespaces && exec "$@"'
    said = subprocess.run(
        ["unshare", "-Ur", "sh", "-c", inside, "sh", sys.executable, "-c", OWNER, str(tmp_path / "a")],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
    )
    assert said.returncode == 1
    assert "EmbeddedError" in said.stderr
    assert "set url in [front] or [ledger]" in said.stderr


def runs_for_others(program: Path) -> bool:
    """Whether a user who is no owner of anything gets to the program: its own mode says nothing of the way to it."""
    try:
        said = subprocess.run([program, "--version"], user=65534, group=65534, extra_groups=[], check=False)
    except PermissionError:
        return False
    return said.returncode == 0


class open_to_others:
    """A folder in /tmp that every user may pass through (pytest's own folders are closed)."""

    def __enter__(self) -> Path:
        self.folder = Path(
            subprocess.run(["mktemp", "-d"], capture_output=True, text=True, check=True).stdout.strip()
        )
        self.folder.chmod(0o755)
        return self.folder

    def __exit__(self, *_: object) -> None:
        subprocess.run(["rm", "-r", str(self.folder)], check=True)


def test_foreign_folder_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(EmbeddedError, match=r"thesis\.txt"):
        Embedded.start(tmp_path, durable=True)
    assert os.listdir(tmp_path) == ["thesis.txt"]


def test_settings_reach_the_server_but_undo_no_protection(kept: Path) -> None:
    settings = {"max_connections": "33", "fsync": "off", "listen_addresses": "127.0.0.1"}
    with Embedded.start(kept, durable=True, settings=settings) as server:
        assert one(server, "SHOW max_connections") == "33"
        assert one(server, "SHOW fsync") == "on"
        assert one(server, "SHOW synchronous_commit") == "on"
        assert one(server, "SHOW listen_addresses") == ""
    with Embedded.start(kept, durable=False) as server:
        assert one(server, "SHOW fsync") == "off"


def test_memory_of_a_process_has_a_limit(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "_LOG_SECONDS", 0.05)
    monkeypatch.setattr(embedded, "_LOG_LIMIT", 30_000)
    large = "SELECT length(repeat('x', 200000000) || 'y')"
    with Embedded.start(kept, durable=True, memory=100_000_000) as server:
        with (
            psycopg.connect(server.conninfo(), autocommit=True) as connection,
            psycopg.connect(server.conninfo(), autocommit=True) as other,
        ):
            for _ in range(10):
                with pytest.raises(psycopg.errors.OutOfMemory):
                    connection.execute(large)
            assert connection.execute("SELECT 1").fetchone() == other.execute("SELECT 1").fetchone() == (1,)
            scores = {pid: int(Path(f"/proc/{pid}/oom_score_adj").read_text()) for pid in postgres_in(kept)}
            assert scores[connection.info.backend_pid] == 500
            assert min(scores.values()) == int(Path("/proc/self/oom_score_adj").read_text())
        deadline = time.monotonic() + 10
        while (kept / "log").stat().st_size > 30_000:
            assert time.monotonic() < deadline, "analysts fill the log"
            time.sleep(0.02)
    with Embedded.start(kept, durable=True) as server:
        assert one(server, large) == 200_000_001


def test_bad_setting_is_an_error_that_says_so(kept: Path) -> None:
    with pytest.raises(EmbeddedError, match="no_such_setting"):
        Embedded.start(kept, durable=True, settings={"no_such_setting": "1"})
    with Embedded.start(kept, durable=True) as server:
        assert server.owner


def test_the_wheels_psql_runs(running: Embedded) -> None:
    psql = psql_path()
    assert psql is not None
    said = subprocess.run(
        [psql, "-XAtc", "SELECT 5", running.conninfo()], capture_output=True, text=True, check=True
    )
    assert said.stdout == "5\n"
