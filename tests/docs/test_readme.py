"""Every command and every program of README.md, run as it stands there."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import duckdb
import psycopg
import pytest

from dpproxy.cli import reference
from tests.dpproxy.serving import ROOT, Running, serving

README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.M | re.S)


COMMANDS = [line[2:] for block in blocks("console") for line in block.splitlines() if line.startswith("$ ")]
PSQL = [command for command in COMMANDS if command.startswith("psql ")]
MAKE = [command for command in COMMANDS if command.startswith("make ")]
OWN = [command for command in COMMANDS if ".venv/bin/dpproxy" in command]


@pytest.fixture(scope="module")
def demo(clone: Path) -> Iterator[Running]:
    """The demonstration, on a port of its own."""
    with serving(["demo", "--port", "0"], folder=clone, root=clone) as running:
        yield running


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The deployment of "Your own data", from the README's own blocks."""
    folder = tmp_path_factory.mktemp("shop")
    with duckdb.connect(folder / "shop.duckdb") as connection:
        connection.execute(blocks("sql")[0])
        connection.execute("INSERT INTO customers SELECT i, 'Ulm', 1980 FROM range(500) r(i)")
        connection.execute("INSERT INTO articles SELECT i, 'a' FROM range(20) r(i)")
        connection.execute("INSERT INTO orders SELECT i, i, i % 20, '2024-05-06' FROM range(500) r(i)")
    (folder / "dpproxy.toml").write_text(blocks("toml")[0])
    return folder


def shell(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", "-c", command],
        cwd=folder,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/local/bin:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_every_command_is_of_a_kind_that_is_run() -> None:
    assert set(COMMANDS) == {*PSQL, *MAKE, *OWN}
    assert PSQL
    assert MAKE
    assert OWN


@pytest.mark.service
@pytest.mark.parametrize("command", MAKE)
def test_make(command: str) -> None:
    said = subprocess.run(
        [*command.split(), "--dry-run", "--no-print-directory"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    expected = {
        "make demo": "dpproxy demo",
        "make test": r"-m pytest -n \d+ --dist loadfile --no-loadscope-reorder --durations=20",
    }[command]
    assert re.search(expected + r"\s*$", said.stdout)


@pytest.mark.service
@pytest.mark.parametrize("command", PSQL)
def test_psql(demo: Running, psql: str, command: str) -> None:
    said = shell(command.replace("psql", psql, 1).replace("6432", str(demo.port)), ROOT)
    assert said.returncode == 0, said.stderr
    assert re.search(r"\(\d+ rows?\)", said.stdout)


@pytest.mark.service
def test_what_explain_is_said_to_print(demo: Running) -> None:
    (shown,) = (block for block in blocks("text") if "Mechanism" in block)
    with demo.connect("reader") as connection:
        query = "SELECT product_id, COUNT(DISTINCT household_id) FROM transactions GROUP BY 1 ORDER BY 2 DESC LIMIT 10"
        lines = [line for (line,) in connection.execute(f"EXPLAIN {query}").fetchall()]
    mine = [line for line in shown.splitlines() if not line.startswith("  Left")]
    assert [line for line in lines if not line.startswith("  Left")][: len(mine)] == mine


@pytest.mark.service
def test_in_psql_a_price_comes_first(demo: Running, psql: str) -> None:
    top = "SELECT store_id, COUNT(DISTINCT household_id) FROM transactions GROUP BY 1 ORDER BY 2 DESC LIMIT 9"
    dear = top.replace("store_id", "product_id")
    said = subprocess.run(
        [psql, "-h", "127.0.0.1", "-p", str(demo.port), "-U", "thrifty", "-d", "demo", "-X"],
        input=f"{top};\n{dear};\n{dear};\nSET dpproxy.max_cost = 5;\n{dear.replace('9', '8')};\n",
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stderr.count("this statement costs up to 14 information units and 1 call of the 299") == 1
    assert "(9 rows)" in said.stdout
    assert "LIMIT 2, or `SET dpproxy.max_cost = 12.7`." in said.stderr
    with psycopg.connect(
        host="127.0.0.1",
        port=demo.port,
        user="thrifty",
        dbname="demo",
        autocommit=True,
        options="-c dpproxy.max_cost=0.5",
        application_name="psql",
    ) as connection:
        with pytest.raises(psycopg.Error, match="more than dpproxy"):
            connection.execute("SELECT COUNT(*) FROM households")
        assert len(connection.execute(dear).fetchall()) == 9, "what was paid for is free, and shows no price"


@pytest.mark.service
def test_python(demo: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    (program,) = blocks("python")
    said = subprocess.run(
        [sys.executable, "-c", program.replace("6432", str(demo.port))],
        capture_output=True,
        text=True,
        check=False,
    )
    assert said.returncode == 0, said.stderr


@pytest.mark.service
def test_own_data(shop: Path) -> None:
    *commands, serve = OWN
    for command in commands:
        said = shell(command.replace(".venv/bin/dpproxy", f"{sys.executable} -m dpproxy"), shop)
        assert said.returncode == 0, said.stderr
    assert serve == ".venv/bin/dpproxy serve"
    with serving(["serve", "--port", "0"], folder=shop) as running:
        with running.connect("alice", "a long password") as connection:
            ((count,),) = connection.execute("SELECT COUNT(*) FROM customers").fetchall()
            assert abs(count - 500) < 200
        with pytest.raises(psycopg.OperationalError):
            running.connect("alice", "another password")


def test_every_link_leads_somewhere() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), ROOT / "sample_data" / "README.md"]
    for page in pages:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_reference_is_what_help_says() -> None:
    assert (ROOT / "docs" / "cli.md").read_text() == reference.reference(), "run make reference"
