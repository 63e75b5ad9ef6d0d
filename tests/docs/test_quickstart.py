"""docs/quickstart-postgres.md, command by command, as a new owner would run them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.dpproxy import postgres_data
from tests.dpproxy.serving import ROOT, serving

pytestmark = pytest.mark.service

PAGE = (ROOT / "docs" / "quickstart-postgres.md").read_text()
COMMANDS = [
    line[2:]
    for block in re.findall(r"^```console\n(.*?)^```$", PAGE, re.M | re.S)
    for line in block.splitlines()
    if line.startswith("$ ")
]
SCHEMA, ROLE = re.findall(r"^```sql\n(.*?)^```$", PAGE, re.M | re.S)
URL = "postgresql://dpproxy_reader:change%20me@127.0.0.1:5432/shop"


@pytest.fixture(scope="module")
def databases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[postgres_data.Databases]:
    with postgres_data.databases(tmp_path_factory.mktemp("quickstart") / "server") as found:
        yield found


def shell(line: str, folder: Path) -> str:
    """Runs a line of the page; `dpproxy` is this one."""
    programs = folder / "bin"
    if not programs.exists():
        programs.mkdir()
        (programs / "dpproxy").write_text(f'#!/bin/sh\nexec {sys.executable} -m dpproxy "$@"\n')
        (programs / "dpproxy").chmod(0o755)
    said = subprocess.run(
        ["sh", "-c", line],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PATH": f"{programs}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert said.returncode == 0, f"{line}: {said.stderr}"
    return said.stdout


def test_every_command_in_its_order(databases: postgres_data.Databases, tmp_path: Path, psql: str) -> None:
    rows = (
        "INSERT INTO users SELECT i, 'a@b', CASE WHEN i = 7 THEN 'VA' ELSE 'DE' END, '1980-01-01' "
        "FROM generate_series(1, 900) AS i",
        "INSERT INTO articles SELECT i, 'a', 'topic ' || i % 4 FROM generate_series(1, 20) AS i",
        "INSERT INTO events SELECT i, i, 1 + i % 20, 'view', '2024-05-06' FROM generate_series(1, 900) AS i",
    )
    name = databases.make([SCHEMA, *rows, ROLE])
    url = databases.url(name, role="dpproxy_reader", password="change me")
    install, init, check, user, serve, ask, explain, domains = COMMANDS
    assert install.startswith("pip install dpproxy-")
    begun = time.monotonic()
    assert "Hidden: users.email." in shell(init.replace(URL, url), tmp_path)
    assert "any analyst" in shell(check, tmp_path)
    shell(user, tmp_path)
    assert serve == "dpproxy serve"
    with serving(["serve", "--port", "0"], folder=tmp_path) as running:
        answer = shell(ask.replace("6432", str(running.port)).replace("psql", psql, 1), tmp_path)
        print(f"\nfrom init to the first answer: {time.monotonic() - begun:.1f} s")
        assert re.search(r"DE +\| +\d+", answer)
        assert "VA" not in answer
        assert "known beforehand" in shell(explain, tmp_path)
        assert '"DE"' in shell(domains, tmp_path)
