"""The owner's commands over the life of a deployment, each killed on its way: backup, restore, rotation of the key."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import chdir, suppress
from fractions import Fraction
from pathlib import Path
from zipfile import ZipFile

import httpx
import psycopg
import pytest

from dpproxy.config.key_file import load_keys
from dpproxy.console.app import application
from dpproxy.console.sources import Sources
from dpproxy.deployment.service import Service, configured
from tests import preloaded
from tests.dpproxy.engine.test_executor import Analyst
from tests.dpproxy.serving import POLICY, ROOT, Running, make, serving, within

pytestmark = pytest.mark.service

TRUST = """
[server]
auth = "trust"
[budget]
information = 9
calls = 9
period = "none"
[budget.analysts.ann]
publish = true
[budget.dataset]
information = 50
[audit]
statements = true
"""
COUNT = "SELECT COUNT(*) AS n FROM people WHERE person_id > {}"
DYING = str(ROOT / "tests" / "dpproxy" / "dying.py")


def done(*arguments: str, entry: str = "") -> str:
    status, out, error = within(*arguments, entry=entry)
    assert (status, error) == (0, "")
    return out


def failed(*arguments: str) -> str:
    status, out, error = within(*arguments)
    assert (status, out) == (1, "")
    return error


def killed(point: str, *arguments: str) -> None:
    """Runs a command that is killed there."""
    fork = preloaded.start((DYING, point, *arguments), folder=Path.cwd())
    assert fork.wait(60) == -signal.SIGKILL
    fork.stdout.close()


def used() -> dict[str, Fraction]:
    """Information units that accounts have used."""
    accounts = json.loads(done("budget", "show", "--json"))["accounts"]
    return {one["account"]: Fraction(one["information"]["spent_so_far"]) for one in accounts}


def reserved(account: str) -> Fraction:
    """Information units that an account holds."""
    accounts = json.loads(done("budget", "show", "--json"))["accounts"]
    return sum(
        (Fraction(one["information"]["reserved"]) for one in accounts if one["account"] == account),
        Fraction(0),
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A deployment that was backed up amid questions (`amid`), and after the last one (`late`)."""
    folder: Path = tmp_path_factory.mktemp("backup")
    make(folder, POLICY + TRUST)
    with chdir(folder):
        with serving(["serve", "--port", "0"], folder=folder) as running:
            with running.connect("ann") as ann, running.connect("busy") as busy:
                (first,) = ann.execute(COUNT.format(1).encode()).fetchall()
                ann.execute("CREATE TABLE published.towns AS SELECT town, COUNT(*) FROM people GROUP BY town")

                def ask() -> None:
                    for n in range(8):
                        busy.execute(COUNT.format(n).encode()).fetchall()

                asking = threading.Thread(target=ask)
                asking.start()
                assert "It holds the key" in done("backup", "amid")
                asking.join()
                ann.execute(COUNT.format(2).encode()).fetchall()
                done("backup", "late", "--without-key")
            assert "stop it first" in failed("restore", "late")
            assert running.stop() == 0
        done("console", "password", "--password-stdin", entry="the owner's password\n")
        (folder / "first").write_text(str(first[0]))
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Iterator[Path]:
    """A copy of it, in which commands run."""
    shutil.copytree(made, tmp_path / "copy", ignore=shutil.ignore_patterns("front*"))
    with chdir(tmp_path / "copy"):
        yield tmp_path / "copy"


def test_a_restore_gives_no_budget_back(folder: Path) -> None:
    """Nobody is served by a ledger that lacks a charge, before accounts have paid all that they had left."""
    before = used()
    done("budget", "verify")
    assert "nobody is served before dpproxy budget accept" in done("restore", "amid")
    assert used()["analyst:ann"] == 2 < before["analyst:ann"]
    killed("after:charge", "budget", "accept")
    refused = failed("query", "--analyst", "ann", COUNT.format(1))
    assert "older than the mark" in refused
    assert "dpproxy budget accept" in refused
    accepted = done("budget", "accept")
    assert "dataset: " in accepted
    assert {name: used()[name] for name in before} == {"analyst:ann": 9, "analyst:busy": 9, "dataset": 50}
    status, out, told = within("query", "--analyst", "ann", "--format", "csv", COUNT.format(1))
    assert (status, "no charge" in told) == (0, True)
    assert out.split()[-1] == (folder / "first").read_text(), "what was paid for is read again"
    assert not Path(".dpproxy/key.verified").exists(), "it may cover what is missing"
    done("budget", "export", "--format", "trail", "-o", "trail")
    done("audit", "trail")
    assert "Nothing is missing" in done("budget", "accept")


@pytest.mark.slow
def test_a_backup_that_lacks_nothing_is_served_at_once(folder: Path) -> None:
    assert {path.stat().st_mode & 0o777 for path in (Path("amid"), Path("late"))} == {0o600}
    before = used()
    assert "Nothing is missing" in done("restore", "late")
    assert used() == before
    done("explain", COUNT.format(1))
    whole = Path("late").read_bytes()
    killed("before:write a table", "backup", "late")
    assert Path("late").read_bytes() == whole
    done("backup", "late")
    with ZipFile("late") as late:
        assert "key" in late.namelist()


@pytest.mark.slow
def test_an_empty_machine(folder: Path) -> None:
    """Its mark is gone: what followed the backup is unknown."""
    old = Path("kept")
    Path(".dpproxy").rename(old)
    Path("dpproxy.toml").rename("kept.toml")
    assert "holds no key" in failed("restore", "late")
    killed("after:restore", "restore", "amid")
    assert "the key is missing" in failed("budget", "show")
    assert "accept" in done("restore", "amid")
    assert Path("dpproxy.toml").read_bytes() == Path("kept.toml").read_bytes()
    assert Path(".dpproxy/key").read_bytes() == (old / "key").read_bytes()
    assert "older than the mark" in failed("query", "--analyst", "ann", COUNT.format(1))
    assert "can be spent again" in done("budget", "accept", "--uncharged")
    assert used()["analyst:ann"] == 2


@pytest.mark.slow
def test_a_damaged_backup_changes_nothing(folder: Path) -> None:
    before = used()
    content = bytearray(Path("amid").read_bytes())
    with ZipFile("amid") as amid:
        content[amid.getinfo("ledger/entry").header_offset + 100] ^= 1
    Path("damaged").write_bytes(content)
    Path("cut").write_bytes(content[:-100])
    with ZipFile("amid") as amid, ZipFile("changed", "w") as changed:
        for name in amid.namelist():
            changed.writestr(name, amid.read(name).replace(b"analyst:ann", b"analyst:eve"))
    for file in ("damaged", "cut", "changed", "dpproxy.toml"):
        assert failed("restore", file).count("\n") == 1
    assert used() == before
    Path(".dpproxy/key").write_bytes(bytes(32))
    assert "another key" in failed("restore", "amid")


def test_a_rotation_leaves_nothing_to_the_key_before(folder: Path) -> None:
    def sent() -> list[str | None]:
        return [
            one["statement"] for one in json.loads(done("budget", "history", "ann", "--json"))["releases"]
        ]

    path, before = folder / ".dpproxy" / "key", load_keys(folder / ".dpproxy" / "key", may_make=False)
    done("budget", "verify")
    killed("before:save keys", "key", "rotate")
    assert path.read_bytes() == before.present
    assert "kept for the answers of" in done("key", "rotate")
    assert "kept for the answers of" in done("key", "show")
    assert "still kept" in failed("key", "rotate")
    assert COUNT.format(1) in sent(), "texts that the key before has sealed are opened"
    assert "are found with it" in failed("key", "retire")
    killed("after:reseal", "key", "retire", "--now")
    assert "There is one key" in done("key", "retire", "--now")
    assert "one key alone" in failed("key", "retire")
    last = load_keys(path, may_make=False)
    assert (last.old, last.fake_salt) == (None, before.fake_salt)
    assert before.present not in (last.present, *(one.read_bytes() for one in path.parent.glob("key*")))
    done("budget", "verify")
    assert "Nothing is missing" in done("budget", "accept"), "the mark is read with the new key"
    assert "another key" in failed("restore", "late")


@pytest.mark.slow
def test_a_rotation_charges_nobody_until_the_key_before_is_retired(folder: Path) -> None:
    async def metrics(service: Service) -> int:
        app = httpx.ASGITransport(application(Sources.of(service, lambda: b"", 1)))
        async with httpx.AsyncClient(transport=app, base_url="http://localhost") as browser:
            answer = await browser.get("/metrics", headers={"Authorization": f"Bearer {token}"})
        return answer.status_code

    def free() -> tuple[bool, int]:
        """Whether ann's first question is, and what becomes of the first bearer token."""
        with Service.start(configured(folder / "dpproxy.toml"), alone=True) as service:
            ann = Analyst(service, "ann")
            ((answer,),) = ann.ask(COUNT.format(1))
            same = str(answer) == (folder / "first").read_text() and "no charge" in " ".join(ann.notices)
            return same, asyncio.run(metrics(service))

    token = done("console", "token").strip()
    done("key", "rotate")
    assert free() == (True, 200)
    killed("after:reseal", "key", "retire", "--now")
    assert free() == (True, 200)
    done("key", "retire", "--now")
    assert free() == (False, 401), "its name has another key"
    done("key", "rotate", "--now")
    assert load_keys(folder / ".dpproxy" / "key", may_make=False).old is None


@pytest.mark.slow
def test_killed_amid_a_drain_what_ran_is_charged(folder: Path) -> None:
    answered = []

    def ask(running: Running) -> None:
        with suppress(psycopg.OperationalError), running.connect("dan") as dan:
            answered.append(dan.execute(COUNT.format(500).encode()).fetchall())

    with serving(["serve", "--port", "0"], folder=folder, program=[DYING, "slow:fetch"]) as running:
        asking = threading.Thread(target=ask, args=(running,))
        asking.start()
        deadline = time.monotonic() + 20
        while reserved("analyst:dan") != 1:
            assert time.monotonic() < deadline
        running.process.send_signal(signal.SIGTERM)
        time.sleep(1)
        with pytest.raises(psycopg.OperationalError):
            running.connect("ann")
        assert running.process.poll() is None, "it waits for what runs"
        running.process.kill()
        asking.join()
    assert answered == []
    with Service.start(configured(folder / "dpproxy.toml"), alone=True) as service:
        assert Analyst(service, "dan").used() == (1, 0)
    assert reserved("analyst:dan") == 0


def test_a_person_who_is_deleted_stands_nowhere_unless_an_analyst_has_named_them(folder: Path) -> None:
    """Person 2 was named by a condition of ann's. A short number may stand in the milliseconds of a log."""
    nobodys = "700300\n700451\nsomebody@example.org"
    assert "None of the values" in done("find", "-", entry=nobodys)
    status, out, error = within("find", "-", "--json", entry=f"{nobodys}\n2\n")
    assert (status, error) == (1, "dpproxy: some of the values stand in what dpproxy keeps\n")
    told = json.loads(out)
    assert {one["line"] for one in told["found"]} == {4}
    assert {one["place"] for one in told["found"]} >= {"ledger: entry.query", "ledger: texts of statements"}
    assert told["not_looked_for_in_binary_files"] == [4]
    Path(".dpproxy/ledger/log").write_text("somebody wrote 4711-0815 here")
    assert "log" in within("find", "-", entry="4711-0815")[1]
    places = within("find", "-", entry="Ulm")[1]
    assert all(place in places for place in ("published answers", "ledger: answers", "dpproxy.toml"))
    assert "one value a line" in within("find", "-", entry="")[2]
