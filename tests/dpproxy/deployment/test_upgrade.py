"""Ledgers of earlier versions, as they were left on disk: opened, migrated, and with nothing in them changed.

A folder of `upgrade` was made by the commit that it is named after, with `upgrade/make.py`: `state.tar.xz` and
`ledger.sql` are its `.dpproxy` without the front, the other files say what it answered and what its own commands told.
"""

from __future__ import annotations

import asyncio
import json
import re
import signal
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pytest
from typer.testing import CliRunner

from budget.schema import MIGRATIONS, version_of
from budget.units import UNBOUNDED
from dpproxy.cli.app import app
from dpproxy.deployment.service import Service, configured
from dpproxy.embedded.server import Embedded
from tests import preloaded
from tests.dpproxy.serving import ROOT

pytestmark = pytest.mark.service

CAPPED = re.compile(r" OVER |SELECT DISTINCT|count\(DISTINCT note\)")
FIRST = "be3a710"
STATES = [
    pytest.param(file.parent, marks=[pytest.mark.slow] if file.parent.name == FIRST else [])
    for file in sorted((Path(__file__).parent / "upgrade").glob("*/dpproxy.toml"))
]


DYING = ROOT / "tests" / "dpproxy" / "dying.py"


def laid_out(state: Path, folder: Path) -> None:
    """The ledger of a state as it was on disk, after a first command of this version was killed amid the migration."""
    with Embedded.start(folder / ".dpproxy" / "ledger", durable=True) as server:
        with psycopg.connect(server.conninfo()) as connection:
            connection.execute((state / "ledger.sql").read_bytes())
            before = version_of(connection)
        fork = preloaded.start((str(DYING), "after:migrate", "budget", "show"), folder=folder)
        assert fork.wait(60) == -signal.SIGKILL
        fork.stdout.close()
        with psycopg.connect(server.conninfo()) as connection:
            assert version_of(connection) == before < len(MIGRATIONS)


@dataclass(frozen=True)
class Opened:
    """What a version left, and this version's service over it in `folder`."""

    state: Path
    folder: Path
    service: Service

    def left(self, name: str) -> Any:
        """A JSON file of what that version told."""
        return json.loads((self.state / name).read_text())

    def told(self, *command: str) -> Any:
        """What a command of this version tells, as JSON."""
        result = CliRunner().invoke(app, [*command, "--json"])
        assert result.exit_code == 0, result.stderr
        return json.loads(result.stdout)

    def trail(self) -> Path:
        """The trail as this version writes it."""
        file = self.folder / "trail.jsonl"
        config = str(self.folder / "dpproxy.toml")
        exported = ("budget", "export", "-c", config, "--format", "trail", "-o", str(file))
        assert CliRunner().invoke(app, exported).exit_code == 0
        return file


@pytest.fixture(scope="module", params=STATES, ids=lambda state: state.name)
def opened(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    """A version's ledger with its data, served by this version."""
    state, folder = request.param, tmp_path_factory.mktemp("upgrade")
    with tarfile.open(state / "state.tar.xz") as archive:
        archive.extractall(folder, filter="tar")
    with duckdb.connect(folder / "shop.duckdb") as data:
        data.execute((state / "schema.sql").read_text())
    # Rows with units along a path have no horizon any more: its running count is another question now.
    policy = re.sub(r"horizon = .*\n", "", (state / "dpproxy.toml").read_text())
    if state.name == FIRST:
        # What was bought of sums under caps of rows is answered by mechanisms that keep those.
        policy = policy.replace("[privacy]\n", '[privacy]\nmechanisms = "paper"\n')
    (folder / "dpproxy.toml").write_text(policy)
    if state.name != FIRST:
        laid_out(state, folder)
    with Service.start(configured(folder / "dpproxy.toml"), alone=True) as service:
        yield Opened(state, folder, service)


def test_limits_and_balances_are_those_that_were_left(opened: Opened) -> None:
    shown = opened.told("budget", "show", "-c", str(opened.folder / "dpproxy.toml"))["accounts"]
    left = opened.left("balances.json")["accounts"]
    assert [one["account"] for one in shown] == [one["account"] for one in left]
    for now, then in zip(shown, left, strict=True):
        told = ("mode", "frozen", "period")
        assert [now[key] for key in told] == [then[key] for key in told]
        for units in ("information", "calls"):
            assert now[units]["limit"] == then[units]["limit"]
            if then["period"] == "none":
                assert now[units] == then[units]


def test_every_line_of_the_trail_is_there(opened: Opened) -> None:
    """Lines may say more than they did; the head says when it was written, and more is pinned by and by.

    Amounts have pure epsilon since: one that was not said is unbounded.
    """
    now = [json.loads(line) for line in opened.trail().read_text().splitlines()]
    then = [json.loads(line) for line in (opened.state / "trail.jsonl").read_text().splitlines()]
    assert len(now) == len(then)
    for one, other in zip(now, then, strict=True):
        ((kind, told),) = other.items()
        if kind == "head":
            assert one[kind]["pinned"] == one[kind]["pinned"] | told["pinned"]
        else:
            for unit in ("used", "reserved", "at_most", "charged"):
                if len(told.get(unit, ())) == 2:
                    assert one[kind][unit][2] == (UNBOUNDED if any(told[unit]) else 0)
                    told[unit].append(one[kind][unit][2])
            assert one[kind] == one[kind] | told


def test_an_audit_tells_the_same(opened: Opened) -> None:
    now, then = opened.told("audit", str(opened.trail())), opened.left("audit.json")
    assert now["differences"] == then["differences"] == 0
    for one, other in zip(now["accounts"], then["accounts"], strict=True):
        assert one == one | other


def test_what_was_paid_for_is_free_and_a_new_question_is_charged(opened: Opened) -> None:
    """Of the first one keys had another encoding, so that its answers are charged again, once; so are, of all, those
    whose rows have had a cap with noise since then."""
    frozen = {one["account"] for one in opened.left("balances.json")["accounts"] if one["frozen"]}
    bought = [
        one for one in opened.left("answers.json") if isinstance(one[2], list) and not CAPPED.search(one[1])
    ]
    asked = [one for one in bought if opened.state.name != FIRST or f"analyst:{one[0]}" not in frozen]

    def used() -> list[Any]:
        return [one["used"] for one in opened.told("audit", str(opened.trail()))["accounts"]]

    def answer(analyst: str, sql: str) -> Any:
        return json.loads(json.dumps(asyncio.run(opened.service.ask(analyst, sql)).rows))

    def answers() -> list[Any]:
        return [answer(analyst, sql) for analyst, sql, _ in asked]

    before, first, between, second = used(), answers(), used(), answers()
    assert (second, used()) == (first, between)
    free = first == [rows for *_, rows in asked]
    assert free == (before == between) == (opened.state.name != FIRST)
    assert answer("ann", "SELECT count(*) FROM users WHERE birth_year > 1987")
    assert used() != between
