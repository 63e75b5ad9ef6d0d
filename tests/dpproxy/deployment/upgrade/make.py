"""Makes the state of a version for tests/dpproxy/deployment/test_upgrade.py: run it with that version's code.

`python make.py FOLDER` answers statements of several analysts over be3a710/schema.sql in an empty folder, changes
limits, publishes an answer, and writes down what the version itself tells of it: `state.tar.xz` has key, mark and
password, `ledger.sql` the ledger (of be3a710 the archive has it, too). Leave the data out.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import duckdb

from dpproxy.deployment.service import Service, configured
from dpproxy.embedded.binaries import find_binaries
from dpproxy.embedded.server import Embedded
from dpproxy.server.local_client import ClientError

FIRST = Path(__file__).parent / "be3a710"
ASKED = (
    ("ann", "SELECT count(*) FROM users"),
    ("ann", "SELECT count(*) FROM users"),
    ("bob", "SELECT count(*) FROM users"),
    ("bob", "SELECT country, count(*) FROM users GROUP BY country"),
    ("ann", "SELECT product_id, count(*), sum(price) FROM orders GROUP BY product_id"),
    ("ann", "SELECT note, count(DISTINCT user_id) FROM orders GROUP BY note ORDER BY 2 DESC LIMIT 5"),
    ("bob", "SELECT DISTINCT note FROM orders LIMIT 20"),
    ("cat", "SELECT note, count(*) FROM orders GROUP BY note ORDER BY 2 DESC LIMIT 3"),
    ("cat", "SELECT note, count(*) FROM orders GROUP BY note ORDER BY 2 DESC LIMIT 4"),
    ("cat", "SELECT note, count(*) FROM orders GROUP BY note ORDER BY 2 DESC LIMIT 5"),
    ("dan", "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY price) FROM orders"),
    ("dan", "SELECT avg(birth_year), stddev(birth_year) FROM users"),
    ("dan", "SELECT count(DISTINCT note) FROM orders"),
    (
        "dan",
        "SELECT note, placed::date, sum(count(*)) OVER (PARTITION BY note ORDER BY placed::date) "
        "FROM orders GROUP BY 1, 2",
    ),
)
PUBLISHED = (
    "SELECT color, count(DISTINCT o.user_id) AS buyers "
    "FROM orders o JOIN products USING (product_id) GROUP BY color"
)
COMMANDS = (
    ("user", "add", "ann", "--password-stdin"),
    ("console", "password", "--password-stdin"),
    ("publish", "monthly", "--sql", "monthly.sql", "--analyst", "ann"),
    ("budget", "set", "bob", "--information", "90", "--calls", "20"),
    ("budget", "set", "dan", "--freeze"),
    ("budget", "set", "team:sales", "--information", "160"),
    ("budget", "set", "cat", "--period", "week"),
    ("budget", "export", "--format", "trail", "-o", "trail.jsonl"),
)


def run(folder: Path, *command: str) -> str:
    """What a command prints in `folder`; its standard input is a password."""
    program = [sys.executable, "-c", "from dpproxy.cli.app import app; app()", *command]
    return subprocess.run(
        program, cwd=folder, check=True, capture_output=True, text=True, input="a password\n"
    ).stdout


def answers(folder: Path) -> list[tuple[str, str, object]]:
    """What is asked, and the rows, or what the proxy said in their place."""
    found: list[tuple[str, str, object]] = []
    with Service.start(configured(folder / "dpproxy.toml"), alone=True) as service:
        for analyst, sql in ASKED:
            try:
                found.append((analyst, sql, asyncio.run(service.ask(analyst, sql)).rows))
            except ClientError as error:
                found.append((analyst, sql, str(error)))
    return found


def dump(ledger: Path) -> str:
    """A ledger as SQL, without what psql alone understands."""
    with Embedded.start(ledger, durable=True) as server:
        binaries = find_binaries()
        assert binaries is not None
        options = ("--schema=dpproxy_ledger", "--rows-per-insert=100", "--no-owner", "--no-privileges")
        program = [str(binaries.directory / "pg_dump"), *options, server.conninfo()]
        told = subprocess.run(program, check=True, capture_output=True, text=True).stdout
    return "".join(
        f"{line}\n" for line in told.splitlines() if line[:1] != "\\" and line[:2] != "--" and line
    )


def nobodys(file: tarfile.TarInfo) -> tarfile.TarInfo:
    """Without the names of the machine that packs it."""
    file.uid = file.gid = 0
    file.uname = file.gname = ""
    return file


def main(folder: Path) -> None:
    """Makes everything."""
    for name in ("dpproxy.toml", "schema.sql"):
        shutil.copy(FIRST / name, folder / name)
    with duckdb.connect(folder / "shop.duckdb") as data:
        data.execute((folder / "schema.sql").read_text())
    (folder / "answers.json").write_text(json.dumps(answers(folder), indent=1) + "\n")
    (folder / "monthly.sql").write_text(PUBLISHED)
    for command in COMMANDS:
        run(folder, *command)
    (folder / "audit.json").write_text(run(folder, "audit", "trail.jsonl", "--json"))
    (folder / "balances.json").write_text(run(folder, "budget", "show", "--json"))
    (folder / "ledger.sql").write_text(dump(folder / ".dpproxy" / "ledger"))
    with tarfile.open(folder / "state.tar.xz", "w:xz") as archive:
        for name in ("key", "key.mark", "key.owner"):
            archive.add(folder / ".dpproxy" / name, f".dpproxy/{name}", filter=nobodys)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
