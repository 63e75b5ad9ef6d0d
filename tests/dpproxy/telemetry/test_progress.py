"""A query that runs for long says so: through psql, by the clock, in words that no row decides."""

from __future__ import annotations

import asyncio
import io
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest
from rich.console import Console

from dpproxy.backends.base import Fetched
from dpproxy.backends.duckdb.adapter import DuckDBSlot
from dpproxy.cli.progress import progress_bar
from dpproxy.deployment.service import Service, configured
from dpproxy.telemetry.progress import Progress
from tests.dpproxy.serving import POLICY, make

pytestmark = pytest.mark.service

ROOMS = "SELECT DISTINCT room FROM visits WHERE seconds > {}"
SERVER = '[server]\nauth = "trust"\nport = 0\n'


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("progress")
    with Service.start(configured(make(folder, POLICY + SERVER)), alone=True) as running:
        yield running


def slow(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Every query of the backend takes so much longer."""
    real = DuckDBSlot.fetch

    def fetch(*arguments: Any) -> Fetched:
        time.sleep(seconds)
        return real(*arguments)

    monkeypatch.setattr(DuckDBSlot, "fetch", fetch)


def told(psql: str, service: Service, *statements: str) -> list[str]:
    """What psql prints on standard error."""

    async def run() -> list[str]:
        server = service.server()
        host, port = await server.start()
        conninfo = f"host={host} port={port} user=ann dbname=any sslmode=disable"
        commands = [part for statement in statements for part in ("-c", statement)]
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            psql, "-X", "-d", conninfo, *commands, stdout=pipe, stderr=pipe
        )
        _, errors = await asyncio.wait_for(process.communicate(), 60)
        await server.drain()
        await asyncio.sleep(0)
        assert process.returncode == 0, errors
        return errors.decode().splitlines()

    return asyncio.run(run())


def test_psql_is_told_after_two_seconds(psql: str, service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    slow(monkeypatch, 1.2)
    first, *rest = told(psql, service, ROOMS.format(0))
    assert re.fullmatch(
        "NOTICE:  dpproxy: still running after [2-9] s: [a-z]+, round [123] of at most 3", first
    )
    assert not any("still running" in line for line in rest if "after 4 s" not in line)
    assert rest[-1].startswith("NOTICE:  dpproxy: DPSips")


@pytest.mark.parametrize("setting", ["dpproxy.notices = off", "client_min_messages = warning"])
def test_who_wants_no_notices_gets_none(
    psql: str, service: Service, monkeypatch: pytest.MonkeyPatch, setting: str
) -> None:
    monkeypatch.setattr("dpproxy.telemetry.progress.FIRST_SECONDS", 0.05)
    slow(monkeypatch, 0.1)
    number = len(setting)
    assert told(psql, service, f"SET {setting}", ROOMS.format(number)) == []
    heard = told(psql, service, ROOMS.format(number + 1))
    assert any("still running" in line for line in heard), "it says so where nothing is set"


def test_what_is_told_is_no_notice_of_the_answer(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpproxy.telemetry.progress.FIRST_SECONDS", 0.05)
    slow(monkeypatch, 0.1)
    heard: list[Progress] = []
    answer = asyncio.run(service.ask("ann", ROOMS.format(1), heard.append))
    assert heard[-1].rounds == 3
    assert [at.round for at in heard] == sorted(at.round for at in heard)
    assert not any(Progress.read(notice) for notice in answer.notices)


def test_the_bar_is_for_terminals() -> None:
    for terminal in (True, False):
        written = io.StringIO()
        with progress_bar(Console(file=written, force_terminal=terminal, width=80)) as show:
            show(Progress(2, "fetch", 2, 3))
        assert ("fetch, round 2 of at most 3" in written.getvalue()) is terminal
