"""`dpproxy serve --workers N`: several processes, one port, one ledger, one front, as clients see them."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path

import duckdb
import httpx
import psycopg
import pytest

from dpproxy.deployment.workers import reserved_port
from dpproxy.server.listener import ServerError
from tests.dpproxy.serving import POLICY, Running, command, make, serving, within

pytestmark = pytest.mark.service

TRUST = """
[tables.large]
privacy_unit = "person_id"
max_rows_per_unit = 10
[server]
auth = "trust"
max_sessions = 110
[budget]
information = 10
calls = 2
[budget.dataset]
information = 1000
"""
COUNT = "SELECT COUNT(*) FROM people WHERE person_id > {}"
PASSWORD = "correct horse"
AUDITING = "looks at it all"
SLOW = "SELECT COUNT(*) FROM large WHERE c LIKE '%7%3%1%9%' OR c LIKE '%a%3%b%9%' OR c LIKE '%4%4%c%9%'"
BUDGET = "SELECT used, reserved FROM dpproxy.budget WHERE unit = 'information' AND account LIKE 'analyst%'"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp("workers")
    return deployed(path)


def deployed(path: Path) -> Path:
    """A deployment with a table that takes a while to be read."""
    make(path, POLICY + TRUST)
    with duckdb.connect(path / "people.duckdb") as connection:
        connection.execute(
            "CREATE TABLE large AS SELECT i % 900 AS person_id, i AS a, i % 17 AS b, md5(i::text) AS c"
            " FROM range(3000000) r(i)"
        )
        connection.execute("CREATE TABLE shifts AS SELECT i AS person_id FROM range(900) r(i)")
    return path


@pytest.fixture
def own(folder: Path, tmp_path: Path) -> Path:
    """The same for one test, without a server."""
    for file in ("people.duckdb", "dpproxy.toml"):
        (tmp_path / file).symlink_to(folder / file)
    return tmp_path


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Running]:
    with serving(["serve", "--port", "0", "--workers", "3"], folder=folder) as running:
        yield running


def workers(running: Running) -> set[int]:
    """The processes that serve."""
    children = Path(f"/proc/{running.process.pid}/task").glob("*/children")
    found = {int(child) for file in children for child in file.read_text().split()}
    return {child for child in found if b"dpproxy.deployment.worker" in command_line(child)}


def command_line(process: int) -> bytes:
    """What a process was started with, nothing where it has ended meanwhile."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{process}/cmdline").read_bytes()
    return b""


def holder(running: Running, connection: psycopg.Connection) -> int:
    """The worker that serves a connection, by the client's end of it."""
    with socket.socket(fileno=os.dup(connection.fileno())) as ours:
        port = ours.getsockname()[1]
    listed = subprocess.run(
        ["ss", "-Htnp", f"sport = :{running.port} and dport = :{port}"], capture_output=True, text=True
    )
    return next(pid for pid in workers(running) if f"pid={pid}," in listed.stdout)


def connections(running: Running, user: str) -> dict[int, psycopg.Connection]:
    """A connection of a user to each worker; which one takes it is the kernel's choice."""
    found: dict[int, psycopg.Connection] = {}
    for _ in range(200):
        connection = running.connect(user)
        if found.setdefault(holder(running, connection), connection) is not connection:
            connection.close()
        if len(found) == len(workers(running)):
            return found
    raise AssertionError("no connection reaches some worker")


def answered(connection: psycopg.Connection, sql: str) -> list[tuple[object, ...]]:
    return connection.execute(sql.encode()).fetchall()


def eventually(running: Running, number: int) -> None:
    """Waits for so many workers that take connections."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        listed = subprocess.run(
            ["ss", "-Hltnp", f"sport = :{running.port}"], capture_output=True, text=True
        ).stdout
        if sum(f"pid={pid}," in listed for pid in workers(running)) == number:
            return
        time.sleep(0.05)
    raise AssertionError("the workers are not complete")


def test_workers_share_answers_and_accounts(server: Running) -> None:
    with ExitStack() as stack:
        found = [stack.enter_context(one) for one in connections(server, "ann").values()]
        assert len(found) == 3
        with ThreadPoolExecutor(3) as threads:
            first = list(threads.map(lambda one: answered(one, COUNT.format(1)), found))
        assert first[0] == first[1] == first[2]
        assert [answered(one, BUDGET) for one in found] == [[(1, 0)]] * 3
        with ThreadPoolExecutor(12) as threads:
            asked = [threads.submit(answered, found[n % 3], COUNT.format(n)) for n in range(2, 20)]
        refused = [one.exception() for one in asked if one.exception() is not None]
        assert len(refused) == 9, "the limit of ten holds over all workers"
        assert {getattr(error, "sqlstate", None) for error in refused} == {"PV001"}
        assert answered(found[0], BUDGET) == [(10, 0)]


def test_a_cancel_request_finds_its_session_in_whichever_worker(server: Running) -> None:
    with ExitStack() as stack:
        found = [stack.enter_context(one) for one in connections(server, "bob").values()]
        watching = stack.enter_context(server.connect("bob"))
        for number, connection in enumerate(found * 2):
            sql = f"{SLOW} OR a = {number}"
            with ThreadPoolExecutor(1) as thread:
                asked = thread.submit(answered, connection, sql)
                while answered(watching, BUDGET)[0][1] == 0 and not asked.done():
                    time.sleep(0.01)
                connection.cancel()
                assert isinstance(asked.exception(), psycopg.errors.QueryCanceled)
            assert answered(connection, "SELECT 1") == [(1,)], "nothing else is cancelled"
            while answered(watching, BUDGET)[0][1] != 0:
                time.sleep(0.01)
            assert answered(watching, BUDGET) == [(number + 1, 0)], "what was cancelled stays charged"


def test_the_owner_sees_and_rules_all_workers(server: Running, folder: Path) -> None:
    def owner(password: str = PASSWORD, **more: str) -> psycopg.Connection:
        address = {"host": "127.0.0.1", "port": server.port, "user": "owner", "dbname": "dpproxy"}
        return psycopg.connect(**address, password=password, autocommit=True, **more)  # type: ignore[arg-type]

    file = str(folder / "dpproxy.toml")
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        owner()
    assert within("console", "password", "-c", file, "--password-stdin", entry=f"{PASSWORD}\n")[0] == 0
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        owner("wrong horse")
    with pytest.raises(psycopg.OperationalError, match="needs TLS"):
        owner(sslmode="disable")
    with ExitStack() as stack:
        found = [stack.enter_context(one) for one in connections(server, "hal").values()]
        first = answered(found[0], COUNT.format(50))
        told = stack.enter_context(owner())

        def told_of(command: str) -> set[tuple[object, ...]]:
            return set(answered(told, command))

        assert {row[:3] for row in told_of("SHOW SESSIONS")} >= {
            (str(one.info.backend_pid), "hal", "127.0.0.1") for one in found
        }
        assert len({row[-1] for row in told_of("SHOW CLIENTS;") if row[1] == "hal"}) == 3
        assert ("analyst:hal", "information", "10", "1", "0", "9") in {
            row[:6] for row in told_of("show budgets")
        }
        assert ("backend", "0", "12") in told_of("SHOW POOLS")
        assert {"answers", "charged_units"} <= {name for name, *_ in told_of("SHOW STATS")}
        assert len({process for process, *_ in told_of("SHOW PLANS")}) == 3
        assert {("backend.url", "(set)", "no"), ("budget.information", "10", "yes")} <= told_of("SHOW CONFIG")
        assert len(told_of("SHOW VERSION")) == 1
        assert {"SHOW SESSIONS", "KILL id", "PAUSE"} <= {command for command, *_ in told_of("SHOW HELP")}
        told.execute("PAUSE")
        with ThreadPoolExecutor(1) as thread:
            waiting = thread.submit(answered, found[1], COUNT.format(51))
            assert answered(found[2], COUNT.format(50)) == first, "what is paid is there"
            time.sleep(0.3)
            assert not waiting.done()
            told.execute("RESUME")
            assert waiting.result(20)
        told.execute("RELOAD")
        for one in found[1:]:
            told.execute(f"KILL {one.info.backend_pid}".encode())
            with pytest.raises(psycopg.OperationalError, match="administrator command"):
                answered(one, "SELECT 1")
        assert answered(found[0], BUDGET) == [(2, 0)]
        for wrong, code in (("SELECT 1", "42601"), ("KILL 1", "22023"), ("SHOW people", "42601")):
            with pytest.raises(psycopg.Error) as refused:
                told.execute(wrong.encode())
            assert refused.value.sqlstate == code
        with pytest.raises(psycopg.errors.FeatureNotSupported):
            told.execute("SHOW SESSIONS", prepare=True)
        assert answered(told, "SHOW VERSION")


def test_an_auditor_sees_budgets_and_changes_nothing(server: Running, folder: Path) -> None:
    def auditor() -> psycopg.Connection:
        address = {"host": "127.0.0.1", "port": server.port, "user": "auditor", "dbname": "dpproxy"}
        return psycopg.connect(**address, password=AUDITING, autocommit=True)  # type: ignore[arg-type]

    with auditor() as analyst:
        assert answered(analyst, "SELECT current_user") == [("auditor",)], "a name like any other"
    file = str(folder / "dpproxy.toml")
    set_password = ("console", "password", "--auditor", "-c", file, "--password-stdin")
    assert within(*set_password, entry=f"{AUDITING}\n")[0] == 0
    with auditor() as told, server.connect("hal") as session:
        assert told.info.parameter_status("session_authorization") == "auditor"
        answered(session, BUDGET)
        assert "analyst:hal" in {row[0] for row in answered(told, "SHOW BUDGETS")}
        limits = {row[1:] for row in answered(told, "SHOW LIMITS")}
        assert ("analyst:hal", "10", "2", "0", "month", "enforce", "no") in limits
        for subject in ("HELP", "STATS", "POOLS", "PLANS", "CONFIG", "VERSION"):
            assert answered(told, f"show {subject};")
        kill = f"KILL {session.info.backend_pid}"
        for forbidden in (
            kill,
            "PAUSE",
            "RELOAD",
            "SHUTDOWN",
            "RESUME",
            "SHOW SESSIONS",
            "SHOW CLIENTS",
            "SELECT 1",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                told.execute(forbidden.encode())
        assert answered(session, "SELECT 1") == [(1,)]


def test_a_worker_that_dies_is_replaced_and_what_it_held_is_spent(server: Running) -> None:
    found = connections(server, "dan")
    (victim, dying), (_, other), *_ = found.items()
    before = workers(server)
    with ThreadPoolExecutor(1) as thread:
        running = thread.submit(answered, dying, f"{SLOW} OR a = 100")
        deadline = time.monotonic() + 20
        while answered(other, BUDGET) != [(0, 1)] and time.monotonic() < deadline:
            time.sleep(0.01)
        os.kill(victim, signal.SIGKILL)
        assert isinstance(running.exception(), psycopg.OperationalError)
    assert answered(other, COUNT.format(30)), "the others go on"
    eventually(server, 3)
    assert workers(server) - before
    assert answered(other, BUDGET) == [(2, 0)], "the query that died with its worker is spent"
    with ExitStack() as stack:
        fresh = connections(server, "dan")
        for connection in (*found.values(), *fresh.values()):
            stack.callback(connection.close)
        again = [answered(one, COUNT.format(30)) for one in fresh.values()]
        assert again == [answered(other, COUNT.format(30))] * 3


def test_the_drain_answers_what_runs_in_every_worker(own: Path) -> None:
    with (
        serving(["serve", "--port", "0", "--workers", "2"], folder=own) as running,
        ThreadPoolExecutor(2) as threads,
    ):
        found = connections(running, "eve")
        sql = [f"{SLOW} OR a = {1000 + n}" for n in range(2)]
        asked = [threads.submit(answered, one, text) for one, text in zip(found.values(), sql, strict=True)]
        with running.connect("eve") as idle:
            while answered(idle, BUDGET) != [(0, 2)] and not any(one.done() for one in asked):
                time.sleep(0.01)
        assert running.stop() == 0
        assert all(one.result() for one in asked)
        for one in found.values():
            one.close()


def test_workers_end_with_their_parent_and_a_new_one_starts_at_once(own: Path) -> None:
    arguments = ["serve", "--workers", "2", "--port"]
    with serving([*arguments, "0"], folder=own) as running, running.connect("fay") as connection:
        first = answered(connection, COUNT.format(40))
        # One that is hung would not notice by itself, and keeps the port.
        os.kill(workers(running).pop(), signal.SIGSTOP)
        running.stop(signal.SIGKILL)
    with serving([*arguments, str(running.port)], folder=own) as again, again.connect("fay") as connection:
        assert answered(connection, COUNT.format(40)) == first
        assert answered(connection, BUDGET) == [(1, 0)]


UNDER_SYSTEMD = """
import os, socket
os.environ |= {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "1", "NOTIFY_SOCKET": os.path.abspath("told")}
listening = socket.create_server(("127.0.0.1", 0))
# Ready only once nothing else of this process has the number.
if listening.fileno() != 3:
    os.dup2(listening.fileno(), 3)
os.set_inheritable(3, True)
from dpproxy.cli.app import app
from dpproxy.deployment import workers
workers._MOST_BEATS_MISSED = 3
app()
"""


def test_health_tells_of_a_worker_whose_clients_wait(own: Path) -> None:
    def told(running: Running, wanted: int) -> None:
        for page in ("healthz", "readyz"):
            deadline = time.monotonic() + 30
            while httpx.get(f"{running.console}{page}").status_code != wanted:
                assert time.monotonic() < deadline, f"{page} never has status {wanted}"
                time.sleep(0.05)

    with serving(["serve", "--port", "0", "--workers", "2", "--http", "127.0.0.1:0"], folder=own) as running:
        told(running, 200)
        hung = workers(running).pop()
        os.kill(hung, signal.SIGSTOP)
        told(running, 503)
        os.kill(hung, signal.SIGCONT)
        told(running, 200)


def test_a_worker_that_hangs_is_replaced(own: Path) -> None:
    """Under systemd, which listens on the port and is told of what begins."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(own / "told"))
        manager.settimeout(30)
        arguments = ["serve", "--port", "1", "--workers", "2"]
        with serving(arguments, folder=own, program=["-c", UNDER_SYSTEMD]) as running:
            assert manager.recv(1000) == b"READY=1"
            before = workers(running)
            hung = before.pop()
            os.kill(hung, signal.SIGSTOP)
            deadline = time.monotonic() + 60
            while hung in workers(running):
                assert time.monotonic() < deadline, "nobody notices"
                time.sleep(0.05)
            eventually(running, 2)
            assert before < workers(running), "the other one goes on"
            for connection in connections(running, "gus").values():
                with connection:
                    assert answered(connection, "SELECT 1") == [(1,)]
            since = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
            running.process.send_signal(signal.SIGHUP)
            began, clock = manager.recv(1000).decode().split("\n")
            assert (began, manager.recv(1000)) == ("RELOADING=1", b"READY=1\nSTATUS=")
            assert int(clock.removeprefix("MONOTONIC_USEC=")) >= since
            (own / "dpproxy.toml").unlink()
            (own / "dpproxy.toml").write_text("x = 1")
            running.process.send_signal(signal.SIGHUP)
            assert manager.recv(1000).startswith(b"RELOADING=1")
            assert manager.recv(1000) == b"READY=1\nSTATUS=dpproxy.toml: x: unknown key"
            os.kill(workers(running).pop(), signal.SIGSTOP)
            assert running.stop() == 0, "nor does a hung worker keep the others from ending"
            assert manager.recv(1000) == b"STOPPING=1"


def test_a_taken_port_is_refused_though_its_owner_would_share(own: Path) -> None:
    with reserved_port("127.0.0.1", 0) as port, socket.socket() as sharing:
        sharing.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        sharing.bind(("127.0.0.1", port))
        sharing.listen()
        with pytest.raises(ServerError, match=str(port)), reserved_port("127.0.0.1", port):
            pass
        failed = command("serve", "--port", str(port), "--workers", "2", folder=own)
        assert (failed.returncode, failed.stdout, failed.stderr.count("\n")) == (1, "", 1)
        assert str(port) in failed.stderr


TOWNS = "SELECT town, COUNT(*) FROM people GROUP BY town ORDER BY town"
RELOADED = (
    (POLICY + TRUST).replace('"Jena"]', '"Jena", "Gera"]').replace("information = 10\n", "information = 30\n")
)
RELOADED += """
[tables.shifts]
privacy_unit = "person_id"
"""
SHIFTS = "SELECT COUNT(*) FROM shifts"
LOAD = [f"load {number}" for number in range(10)]
SESSIONS = 100


@pytest.fixture(scope="module")
def crowd(server: Running) -> Iterator[list[psycopg.Connection]]:
    """Sessions of ten logins, over all workers."""
    with ExitStack() as stack:
        yield [stack.enter_context(server.connect(LOAD[n % 10])) for n in range(SESSIONS)]


def test_one_limit_of_sessions_for_all_workers(server: Running, crowd: list[psycopg.Connection]) -> None:
    with ExitStack() as stack:
        for number in range(110 - len(crowd)):
            stack.enter_context(server.connect(f"cem {number}"))
        with pytest.raises(psycopg.OperationalError, match="too many clients"):
            server.connect("cem")
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        with suppress(psycopg.OperationalError), server.connect("cem") as again:
            assert answered(again, "SELECT 1") == [(1,)]
            return
    raise AssertionError("no seat was given back")


def test_a_reload_under_load_ends_no_session_and_buys_again_only_what_has_changed(
    crowd: list[psycopg.Connection], folder: Path
) -> None:
    """The last test: the deployment has another policy from here on."""
    over = threading.Event()

    def ask(connection: psycopg.Connection, number: int) -> None:
        while True:
            answered(connection, COUNT.format(100 + number // 10 % 4))
            answered(connection, TOWNS)
            if over.is_set():
                return

    with ThreadPoolExecutor(SESSIONS) as threads:
        first = {name: answered(one, TOWNS) for name, one in zip(LOAD, crowd, strict=False)}
        counts = {name: answered(one, COUNT.format(100)) for name, one in zip(LOAD, crowd, strict=False)}
        with pytest.raises(psycopg.errors.UndefinedTable):
            answered(crowd[0], SHIFTS)
        running = [threads.submit(ask, one, number) for number, one in enumerate(crowd)]
        try:
            time.sleep(0.5)
            (folder / "dpproxy.toml").write_text(RELOADED.replace("[tables.shifts]", "[tables.shift]"))
            status, _, said = within("reload", "-c", str(folder / "dpproxy.toml"))
            assert (status, said.count("\n")) == (1, 1)
            assert "tables.shift: the backend has no such table" in said
            assert [one.exception() for one in running if one.done()] == [], "no session has ended"
            (folder / "dpproxy.toml").write_text(RELOADED)
            assert within("reload", "-c", str(folder / "dpproxy.toml")) == (0, "", "")
        finally:
            over.set()
        assert [one.result(30) for one in running] == [None] * SESSIONS, "no session and no statement failed"
        assert all(answered(one, "SELECT 1") == [(1,)] for one in crowd)
        for name, one in zip(LOAD, crowd, strict=False):
            again = answered(one, TOWNS)
            assert [town for town, _ in again] == ["Bonn", "Gera", "Jena", "Ulm"]
            assert again != first[name]
            assert answered(one, COUNT.format(100)) == counts[name], "the same question has the same answer"
            limit = answered(one, BUDGET.replace("used, reserved", '"limit", used, reserved'))
            assert limit == [(30, 4 + 2, 0)], "four counts once, towns once under each policy"
        assert answered(crowd[0], SHIFTS)
