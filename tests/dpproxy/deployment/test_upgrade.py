"""Ledgers of earlier versions, as they were left on disk: opened, migrated, and with nothing in them changed.

A folder of `upgrade` was made by the commit that it is named after, with `upgrade/make.py`: `state.tar.xz` is its
`.dpproxy` without the front, the other files say what it answered and what its own commands told.
"""

from __future__ import annotations

import asyncio
import json
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pytest
from typer.testing import CliRunner

from budget.units import UNBOUNDED
from dpproxy.cli.app import app
from dpproxy.deployment.service import Service, configured

pytestmark = pytest.mark.service

STATES = sorted(p.parent for p in (Path(__file__).parent / "upgrade").glob("*/dpproxy.toml"))


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
    # What was bought of sums under caps of rows is answered by mechanisms that keep those.
    policy = (state / "dpproxy.toml").read_text().replace("[privacy]\n", '[privacy]\nmechanisms = "paper"\n')
    (folder / "dpproxy.toml").write_text(policy)
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
                if unit in told:
                    assert one[kind][unit][2] == (UNBOUNDED if any(told[unit]) else 0)
                    told[unit].append(one[kind][unit][2])
            assert one[kind] == one[kind] | told


def test_an_audit_tells_the_same(opened: Opened) -> None:
    now, then = opened.told("audit", str(opened.trail())), opened.left("audit.json")
    assert now["differences"] == then["differences"] == 0
    for one, other in zip(now["accounts"], then["accounts"], strict=True):
        assert one == one | other


def test_what_was_paid_for_is_charged_again_once(opened: Opened) -> None:
    """Its keys had another encoding, so it is not found; what is answered now is."""
    frozen = {one["account"] for one in opened.left("balances.json")["accounts"] if one["frozen"]}
    bought = [(analyst, sql) for analyst, sql, rows in opened.left("answers.json") if isinstance(rows, list)]
    asked = [(analyst, sql) for analyst, sql in bought if f"analyst:{analyst}" not in frozen]

    def used() -> list[Any]:
        return [one["used"] for one in opened.told("audit", str(opened.trail()))["accounts"]]

    def answers() -> list[Any]:
        return [asyncio.run(opened.service.ask(analyst, sql)).rows for analyst, sql in asked]

    before, first, between, second = used(), answers(), used(), answers()
    assert before != between
    assert (second, used()) == (first, between)
