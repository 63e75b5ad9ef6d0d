"""docs/identity.md: its configuration is served, its SQL gives what stands beside it, its pool serves two analysts."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from dpproxy.config.sections import load
from dpproxy.deployment.login_methods import login_methods_of
from rewriter.statements.comments import attributed
from tests.dpproxy.certificates import Authority
from tests.dpproxy.serving import POLICY, ROOT, Running, command, make, serving

pytestmark = pytest.mark.service

PAGE = (ROOT / "docs" / "identity.md").read_text()
SERVICES, TOKENS, GROUPED, MAPPED, BOUND, SEARCHED = re.findall(r"^```toml\n(.*?)^```$", PAGE, re.M | re.S)
ROLES, COMMENTED = re.findall(r"^```sql\n(.*?)^```$", PAGE, re.M | re.S)
(POOL,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S)
NOTED = re.findall(r"^\| \w+ \| `(.*?)`.*? \| `(\w+:\S+)` \|$", PAGE, re.M)
STATEMENT = re.compile(r"((?:--[^\n]*\n)?[^;]+);(?:[ ]*-- (\S+))?\n")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("identity")
    make(folder, POLICY + SERVICES + TOKENS + BOUND)
    command("user", "add", "metabase", "--password-stdin", folder=folder, entry="red-pencil\n")
    with serving(["serve", "-c", str(folder / "dpproxy.toml"), "--port", "0"], folder=folder) as running:
        yield running


def test_the_directory_and_the_certificates(tmp_path: Path) -> None:
    Authority.make(tmp_path / "ours").certificate.rename(tmp_path / "directory-ca.pem")
    (tmp_path / "reader.password").write_text("reading")
    server = '[server]\ntls_cert = "a"\ntls_key = "b"\ntls_client_ca = "c"\n'
    dataset = "[budget.dataset]\ninformation = 3000\n"
    methods = login_methods_of(
        load(
            make(tmp_path, server + POLICY + dataset + SEARCHED + 'groups = "memberOf"\n' + GROUPED + MAPPED)
        )
    )
    assert methods.directory is not None
    assert [*methods.teams] == ["research"]
    assert [rule.names("ann@example.com") for rule in methods.certificates] == ["ann", None]
    assert methods.certificates[1].names("CN=Nightly reports,O=Example") == "reports"


def told(connection: psycopg.Connection, statement: str) -> str | None:
    """The first value of a statement, the SQLSTATE of a refusal, None without rows."""
    try:
        cursor = connection.execute(statement.encode())
    except psycopg.Error as error:
        return error.sqlstate
    row = cursor.fetchone() if cursor.description else None
    return None if row is None else str(row[0])


@pytest.mark.parametrize(("block", "checked"), [(ROLES, 6), (COMMENTED, 1)])
def test_the_sql(served: Running, block: str, checked: int) -> None:
    with served.connect("metabase", "red-pencil") as connection:
        found = [(told(connection, sql.strip()), expected) for sql, expected in STATEMENT.findall(block)]
    assert [(one, other) for one, other in found if other and one != other] == []
    assert sum(bool(expected) for _, expected in found) == checked


def test_the_pool(served: Running, tmp_path: Path) -> None:
    program = tmp_path / "pool.py"
    program.write_text(POOL.replace(":6432", f":{served.port}"))
    done = subprocess.run(
        [sys.executable, str(program)], capture_output=True, text=True, timeout=60, check=True
    )
    assert len(done.stdout.split()) == 2
    with served.connect("metabase", "red-pencil") as connection:
        for analyst in ("ann", "bob"):
            connection.execute(f"SET ROLE {analyst}".encode())
            assert told(connection, "SELECT count(*) > 0 FROM (SELECT * FROM dpproxy.releases) r") == "True"


def test_the_comments() -> None:
    assert len(NOTED) == 4
    assert [attributed(f"{comment}\nSELECT 1") for comment, _ in NOTED] == [noted for _, noted in NOTED]
