"""Each snippet of docs/clients.md is run as it stands, but for the port, where its client is installed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.clients.data import COUNTRIES
from tests.clients.programs import JDBC_JAR, NODE_MODULES
from tests.clients.world import ROOT, World

PAGE = (ROOT / "docs" / "clients.md").read_text()
FENCED = re.compile(r"^```(\w+)\n(.*?)^```", flags=re.M | re.S)
IMPORTED = re.compile(r"^(?:import|from) (\w+)", flags=re.M)
SECTIONS = [
    *(
        "psql",
        "psycopg",
        "SQLAlchemy and pandas",
        "asyncpg",
        "ADBC",
        "pg8000",
        "JDBC",
        "node-postgres",
        "ODBC",
    ),
    *("DBeaver", "Metabase", "Grafana", "Power BI", "Tableau", "Superset"),
]


def snippets() -> list[tuple[str, str, str]]:
    """(section, language, text) of every block."""
    parts = re.split(r"^## (.+)\n", PAGE, flags=re.M)
    sections = zip(parts[1::2], parts[2::2], strict=True)
    return [(title, *found) for title, text in sections for found in FENCED.findall(text)]


def command(language: str, text: str, folder: Path) -> list[str]:
    """How a snippet is run; skips where what it needs is not installed."""
    if language == "python":
        for module in IMPORTED.findall(text):
            if find_spec(module) is None:
                pytest.skip(f"Python module {module} is not installed")
        return [sys.executable, "-c", text]
    program, needed = {
        "sh": ("sh", shutil.which("psql")),
        "java": ("java", shutil.which("javac") and JDBC_JAR.exists()),
        "javascript": ("node", shutil.which("node") and (NODE_MODULES / "pg").exists()),
    }[language]
    if not needed:
        pytest.skip(f"the client of {language} is not installed")
    file = folder / {"sh": "example.sh", "java": "Example.java", "javascript": "example.js"}[language]
    file.write_text(text)
    return [program, *(["-cp", str(JDBC_JAR)] if language == "java" else []), str(file)]


def test_every_client_has_a_section() -> None:
    assert re.findall(r"^## (.+)$", PAGE, flags=re.M)[1:-2] == SECTIONS


@pytest.mark.client
@pytest.mark.parametrize(
    ("section", "language", "text"),
    snippets(),
    ids=[f"{title} {language}" for title, language, _ in snippets()],
)
def test_a_snippet_runs(on_duckdb: World, section: str, language: str, text: str, tmp_path: Path) -> None:
    assert "6432" in text
    done = subprocess.run(
        command(language, text.replace("6432", str(on_duckdb.port)), tmp_path),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "NODE_PATH": str(NODE_MODULES)},
    )
    assert done.returncode == 0, done.stderr
    assert all(country in done.stdout for country in COUNTRIES), done.stdout
