"""Statements that fail at a real PostgreSQL, as analysts and the owner see them: three, and then the owner has to look.

A computed column of the owner's raises for person 7, so that each statement which reads it fails.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import psycopg
import pytest

from dpproxy.cli import console
from dpproxy.config.identity import AUDITOR, OWNER
from dpproxy.deployment.service import configured
from dpproxy.embedded.server import Embedded
from tests.dpproxy.console.test_console import log_in, token_of
from tests.dpproxy.postgres_data import Databases, databases
from tests.dpproxy.serving import Running, serving, within

pytestmark = pytest.mark.service

PEOPLE = (
    "CREATE TABLE people (id bigint PRIMARY KEY, k int, secret int, spare int)",
    "INSERT INTO people SELECT g, g % 5, g - 7, 1 FROM generate_series(1, 300) g",
)
POLICY = """
[backend]
url = "{url}"
[server]
auth = "trust"
[budget]
information = 1000
[tables.people]
privacy_unit = "id"
[tables.people.columns]
score = {{ expression = "1000 / secret" }}
[identity.services.tool]
analysts = ["ann", "ben", "cat"]
"""
FAILS, ANSWERED = (
    "SELECT count(*) FROM people WHERE score > {}",
    "SELECT count(*) FROM people WHERE k = {}",
)
STOPPED = "too many statements of this login or analyst have failed at the backend"
PASSWORD = "correct horse battery"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Databases]:
    with databases(tmp_path_factory.mktemp("failures") / "server") as running:
        yield running


class World:
    """A deployment over a database of its own."""

    def __init__(self, server: Databases, folder: Path, more: str = "") -> None:
        self.database, self.folder, self._server = server.make(PEOPLE), folder, server
        self.file = folder / "dpproxy.toml"
        self.policy = POLICY.format(url=server.url(self.database)) + more
        self.file.write_text(self.policy)

    @contextmanager
    def served(self, *more: str) -> Iterator[Running]:
        """A server, ended as by its owner."""
        with serving(["serve", "--port", "0", *more], folder=self.folder) as running:
            yield running
            assert running.stop() == 0

    @contextmanager
    def locked(self) -> Iterator[psycopg.Connection]:
        """Nobody reads the table for as long as the context, or the transaction, lasts."""
        with self._server.owner(self.database) as owner, owner.transaction():
            owner.execute("LOCK TABLE people")
            yield owner

    def owner(self, statement: str) -> list[tuple[object, ...]]:
        """The owner of the data does something."""
        with self._server.owner(self.database) as owner:
            cursor = owner.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def waiting(self, most: float = 30) -> int:
        """How many statements wait for the table, once there is one."""
        deadline = time.monotonic() + most
        while time.monotonic() < deadline:
            sql = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'people'::regclass"
            ((number,),) = self.owner(sql)
            if number:
                assert isinstance(number, int)
                return number
            time.sleep(0.02)
        raise AssertionError("nothing waits for the table")

    def failures(self, *more: str) -> str:
        """What `dpproxy failures` says."""
        status, said, errors = within("failures", "-c", str(self.file), *more)
        assert status == 0, errors
        return said

    def listed(self) -> list[dict[str, object]]:
        """The failures, the latest first."""
        found: list[dict[str, object]] = json.loads(self.failures("--json"))["failures"]
        return found


@pytest.fixture
def made(server: Databases, tmp_path: Path) -> World:
    return World(server, tmp_path)


def state(connection: psycopg.Connection, sql: str) -> str:
    """The SQLSTATE of a statement, "" for an answer; "stopped" for the refusal of those who were stopped."""
    try:
        connection.execute(sql.encode()).fetchall()
    except psycopg.Error as error:
        return "stopped" if STOPPED in str(error) else error.sqlstate or "?"
    return ""


def used(connection: psycopg.Connection) -> object:
    sql = "SELECT used FROM dpproxy.budget WHERE unit = 'information' AND account LIKE 'analyst%'"
    ((amount,),) = connection.execute(sql.encode()).fetchall()
    return amount


def test_three_failures_stop_until_the_owner_has_looked(made: World) -> None:
    with made.served() as running, running.connect("ann") as ann, running.connect("ben") as ben:
        assert state(ann, ANSWERED.format(1)) == ""
        for number in range(3):
            assert state(ann, FAILS.format(number)) == "PV090"
        spent = used(ann)
        for sql in (FAILS.format(3), ANSWERED.format(2)):
            assert state(ann, sql) == "stopped"
        assert used(ann) == spent, "what is not asked costs nothing"
        assert state(ann, ANSWERED.format(1)) == "", "what was paid is replayed"
        assert state(ben, ANSWERED.format(2)) == "", "nobody else is stopped"
        assert state(ben, FAILS.format(0)) == "PV090"
        assert within("reload", "-c", str(made.file))[0] == 0
        assert state(ann, ANSWERED.format(2)) == "stopped", "a reload changes nothing"
        said = made.failures()
        assert said.count("division by zero") == 4
        assert "Stopped analysts, until their failures are cleared: ann." in said
    with made.served() as running, running.connect("ann") as ann:
        assert state(ann, ANSWERED.format(2)) == "stopped", "nor does a new start"
        assert "cleared by" not in made.failures()
        assert made.failures("--clear", "ann") == "3 failures were cleared.\n"
        assert state(ann, ANSWERED.format(2)) == ""
        cleared = [row["cleared_by"] for row in made.listed()]
        assert cleared == [None, *["owner, by dpproxy failures"] * 3], "ben's is not"
        assert made.failures("--clear", "ann") == "0 failures were cleared.\n"
        for number in range(3):
            assert state(ann, FAILS.format(number)) == "PV090"
        assert state(ann, FAILS.format(3)) == "stopped"
        assert made.failures("--clear-all") == "4 failures were cleared.\n"
        assert state(ann, ANSWERED.format(3)) == ""


def test_who_acts_for_others_counts_as_one_and_by_person(made: World) -> None:
    with made.served() as running, running.connect("tool") as tool, running.connect("ann") as ann:
        tool.execute("SET ROLE ann")
        for number in range(2):
            assert state(tool, FAILS.format(number)) == "PV090"
        tool.execute("SET ROLE ben")
        assert state(tool, FAILS.format(0)) == "PV090"
        for name in ("ben", "cat"):
            tool.execute(f"SET ROLE {name}".encode())
            assert state(tool, ANSWERED.format(1)) == "stopped", "the login is, for all"
        assert state(ann, ANSWERED.format(1)) == "", "ann is not, with two"
        assert state(ann, FAILS.format(2)) == "PV090"
        assert state(ann, ANSWERED.format(2)) == "stopped", "with three she is"
        assert {(row["login"], row["analyst"]) for row in made.listed()} == {
            ("tool", "ann"),
            ("tool", "ben"),
            ("ann", "ann"),
        }


def test_however_many_are_under_way_three_are_told(server: Databases, tmp_path: Path) -> None:
    """Twenty sessions of one login, over two proxies of two workers each on one ledger, all at once: half of their
    statements fail. Which of the two a statement that is refused would have been nobody can tell."""
    with Embedded.start(tmp_path / "ledger", durable=True) as ledger:
        url = ledger.conninfo().replace("\\", "\\\\").replace('"', '\\"')
        worlds = []
        for name in ("one", "two"):
            (tmp_path / name / ".dpproxy").mkdir(parents=True)
            key = tmp_path / name / ".dpproxy" / "key"
            key.write_bytes(bytes(range(32)))
            key.chmod(0o600)
            worlds.append(World(server, tmp_path / name, f'[ledger]\nurl = "{url}"\n'))
        worlds[1].database = worlds[0].database
        worlds[1].file.write_text(worlds[0].policy)
        with worlds[0].served("--workers", "2") as one:
            mark = tmp_path / "one/.dpproxy/key.mark"
            (tmp_path / "two/.dpproxy/key.mark").write_bytes(mark.read_bytes())
            with worlds[1].served("--workers", "2") as two:
                sessions = [(one, two)[n % 2].connect("ann") for n in range(20)]
                asked = [(FAILS if n // 2 % 2 else ANSWERED).format(n) for n in range(20)]
                assert state(sessions[0], ANSWERED.format(77)) == ""
                with ThreadPoolExecutor(20) as threads:
                    with worlds[0].locked():
                        ends = threads.map(state, sessions, asked)
                        worlds[0].waiting()
                        time.sleep(1)
                    told = [*zip(asked, ends, strict=True)]
                counted = Counter(end for _, end in told)
                assert counted["PV090"] == 3, counted
                assert set(counted) <= {"", "PV090", "stopped"}
                assert counted["stopped"] >= 7, "what fails behind the third is not told"
                assert all(end != "" for sql, end in told if "score" in sql)
                refused = [sql for sql, end in told if end == "stopped" and "score" not in sql]
                for session in sessions:
                    assert state(session, ANSWERED.format(99)) == "stopped", "each process knows"
                # Nothing was stored of what was refused, so that asking again tells nothing either.
                assert all(state(sessions[0], sql) == "stopped" for sql in refused)
                answered = [sql for sql, end in told if end == ""]
                assert all(state(sessions[0], sql) == "" for sql in (ANSWERED.format(77), *answered))
                for session in sessions:
                    session.close()


def test_a_time_out_is_stopped_and_a_cancelled_statement_is_nothing(made: World) -> None:
    ends = (
        "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE NOT granted AND relation = 'people'::regclass"
    )
    made.file.write_text(made.policy.replace("[server]", '[server]\nstatement_timeout = "3s"'))
    with made.served() as running, running.connect("ann") as ann, ThreadPoolExecutor(1) as thread:
        with made.locked():
            ann.execute("SET statement_timeout = '400ms'")
            assert state(ann, ANSWERED.format(0)) == "57014"
            ann.execute("SET statement_timeout = 0")
        assert made.listed() == [], "a session's own time-out is a cancel"
        with made.locked():
            assert state(ann, ANSWERED.format(1)) == "57014"
        (row,) = made.listed()
        assert (row["kind"], row["told"], row["stops_analyst"]) == ("stopped", True, False)
        assert row["message"] == "it ran into statement_timeout"
        assert row["asked"]
        with made.locked():
            under_way = thread.submit(state, ann, ANSWERED.format(2))
            made.waiting()
            ann.cancel()
            assert under_way.result(30) == "57014"
        assert len(made.listed()) == 1
        with made.locked():
            under_way = thread.submit(state, ann, ANSWERED.format(3))
            made.waiting()
            made.owner(ends)
            assert under_way.result(30) == "PV090"
        kinds = [row["kind"] for row in made.listed()]
        assert kinds == ["stopped", "stopped"], "a lost connection is as a time-out"
        assert state(ann, ANSWERED.format(4)) == ""


def test_a_change_of_the_schema_does_not_count(made: World) -> None:
    with made.served() as running, running.connect("ann") as ann:
        made.owner("ALTER TABLE people DROP COLUMN spare")
        for number in range(4):
            assert state(ann, f"SELECT count(*) FROM people WHERE spare = {number}") == "PV090"
        assert made.listed() == []
        assert state(ann, ANSWERED.format(1)) == ""
        for number in range(3):
            assert state(ann, FAILS.format(number)) == "PV090"
        assert state(ann, ANSWERED.format(2)) == "stopped", "another failure counts as before"


@pytest.mark.parametrize(
    ("raised", "message"),
    [
        ("RAISE undefined_column USING MESSAGE = 'no such column'", "no such column\nCONTEXT:"),
        ("RAISE query_canceled USING MESSAGE = 'took too long'", "took too long\nCONTEXT:"),
        ("EXECUTE 'SELECT 1 FROM gone'", 'relation "gone" does not exist\nLINE 1:'),
    ],
)
def test_what_a_function_raises_has_failed_whatever_its_class(
    raised: str, message: str, server: Databases, tmp_path: Path
) -> None:
    """A function of the owner's may raise any SQLSTATE for a row, and a person who wants to may be that row."""
    world = World(server, tmp_path)
    world.owner(
        "CREATE FUNCTION public.odd(s int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN"
        f" IF s = 0 THEN {raised}; END IF; RETURN s; END $$"
    )
    world.file.write_text(world.policy.replace("1000 / secret", "public.odd(secret)"))
    with world.served() as running, running.connect("ann") as ann:
        for number in range(3):
            assert state(ann, FAILS.format(number)) == "PV090"
        assert state(ann, ANSWERED.format(1)) == "stopped"
        (tmp_path / "keys.txt").write_text(message.splitlines()[0])
        status, said, _ = within("find", str(tmp_path / "keys.txt"), "-c", str(world.file))
        assert (status, "messages of the backend" in said) == (1, True)
        assert str(world.listed()[0]["message"]).startswith(message)


def test_the_owner_sees_it_everywhere(made: World) -> None:
    """On the console, by psql and in the metrics; the backend's message by the command alone."""
    config = configured(made.file)
    console.password(config, PASSWORD, OWNER)
    console.password(config, PASSWORD + "!", AUDITOR)
    with (
        made.served("--http", "127.0.0.1:0") as running,
        running.connect("ann") as ann,
        httpx.Client(base_url=running.console) as owner,
        httpx.Client(base_url=running.console) as auditor,
    ):
        for number in range(3):
            assert state(ann, FAILS.format(number)) == "PV090"
        assert state(ann, ANSWERED.format(1)) == "stopped"
        assert log_in(owner, PASSWORD).status_code == 303
        assert log_in(auditor, PASSWORD + "!", "auditor").status_code == 303
        for browser, may_clear in ((owner, True), (auditor, False)):
            page = browser.get("/failures").text
            assert page.count("division by zero") == 0
            assert "stops analyst" in page or "stops login and analyst" in page
            assert ("/failures/clear" in page) is may_clear
        metrics = owner.get("/metrics").text
        for line in (
            'dpproxy_backend_failures_total{kind="failed"} 3.0',
            'dpproxy_backend_failures_total{kind="stopped"} 0.0',
            'dpproxy_stopped{who="login"} 1.0',
            'dpproxy_stopped{who="analyst"} 1.0',
        ):
            assert line in metrics
        for role in ("owner", "auditor"):
            secret = PASSWORD + ("!" if role == "auditor" else "")
            address = {"host": "127.0.0.1", "port": running.port, "user": role, "dbname": "dpproxy"}
            with psycopg.connect(**address, password=secret, autocommit=True) as told:  # type: ignore[arg-type]
                rows = told.execute("SHOW FAILURES").fetchall()
            assert [row[1:] for row in rows] == [
                ("ann", "ann", "failed", "yes", "login and analyst", None, None),
                *[("ann", "ann", "failed", "yes", None, None, None)] * 2,
            ]
        form = {"account": "analyst:ann"}
        assert auditor.post("/failures/clear", data=form).status_code == 403
        token = token_of(auditor.get("/failures"))
        assert auditor.post("/failures/clear", data={**form, "token": token}).status_code == 403
        assert owner.post("/failures/clear", data={**form, "token": token}).status_code == 403
        assert state(ann, ANSWERED.format(1)) == "stopped"
        token = token_of(owner.get("/failures"))
        cleared = owner.post("/failures/clear", data={**form, "token": token})
        assert "3 failures were cleared." in cleared.text
        assert state(ann, ANSWERED.format(1)) == ""
        assert "by owner, at the console" in owner.get("/failures").text
        assert 'dpproxy_stopped{who="login"} 0.0' in owner.get("/metrics").text


def test_the_message_lies_sealed_in_the_ledger(made: World) -> None:
    with made.served() as running, running.connect("ann") as ann:
        assert state(ann, FAILS.format(1)) == "PV090"
        data = made.folder / ".dpproxy"
        assert "division by zero" in made.failures()
        with psycopg.connect(ledger_of(data)) as ledger:
            found = ledger.execute("SELECT failure::text FROM dpproxy_ledger.failure AS failure").fetchall()
        assert len(found) == 1
        sealed = bytes.fromhex(found[0][0].partition("\\\\x")[2].partition('"')[0])
        assert len(sealed) > 20
        assert b"division" not in sealed
        assert "division" not in found[0][0]


def ledger_of(data: Path) -> str:
    """Where an embedded ledger listens."""
    with Embedded.start(data / "ledger", durable=True) as attached:
        return attached.conninfo()


def test_threads_are_given_back(made: World) -> None:
    """Whoever is stopped holds no slot of the backend."""
    with made.served() as running, running.connect("ann") as ann, running.connect("ben") as ben:
        for number in range(12):
            state(ann, FAILS.format(number))
        ended = threading.Event()

        def ask() -> None:
            assert state(ben, ANSWERED.format(1)) == ""
            ended.set()

        threading.Thread(target=ask, daemon=True).start()
        assert ended.wait(30)
