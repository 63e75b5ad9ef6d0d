"""PostgreSQL's own regression tests, their tables made private: `python -m tests.truth.regression FOLDER`.

FOLDER is src/test/regress of a source of PostgreSQL 15, as Debian's source package has it. Each file runs in a database
of its own without what drops tables; each table then gets a column with one unit a row. Every SELECT of the file is
asked of PostgreSQL and of the proxy without noise, as it is written and as what a count counts.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from tests.dpproxy.serving import serving
from tests.oracle.world import Server
from tests.truth.compare import FAILS, Answer, answer_to, same_rows
from tests.truth.world import SETTINGS

FILES = (
    *(
        "select",
        "select_distinct",
        "select_having",
        "select_implicit",
        "join",
        "aggregates",
        "window",
        "case",
    ),
    *("subselect", "union", "strings", "numeric", "int4", "int8", "float8", "boolean", "date", "timestamp"),
    *("timestamptz", "interval", "enum", "char", "varchar", "text", "arrays", "groupingsets", "with"),
)
DROPS = re.compile(r"^\s*drop\s+(table|type|view|materialized view|domain)\b.*?;", re.I | re.M | re.S)
CATALOG = re.compile(r"\bpg_relation_size\b")
"""What is asked of a catalog about files, which are not those of the front."""
SAID = {
    "whether they are in the data or not": "declared values",
    "is NULL where the noise would swamp it": "withheld, and said so",
    "counts within -": "clipped, and said so",
}
"""What a notice says of an answer that is another by design."""
PRIVATE_COLUMN = "unit_of_row"
UNITS = f"""
DO $$ DECLARE r record; BEGIN
FOR r IN SELECT c.oid::regclass AS t FROM pg_class c WHERE relkind = 'r' AND NOT relispartition
  AND relnamespace = 'public'::regnamespace AND reltype <> 0 AND relpersistence = 'p'
  AND NOT EXISTS (SELECT FROM pg_inherits WHERE inhrelid = c.oid OR inhparent = c.oid)
LOOP BEGIN
  EXECUTE format('ALTER TABLE %s ADD COLUMN {PRIVATE_COLUMN} bigserial', r.t);
EXCEPTION WHEN OTHERS THEN NULL; END; END LOOP; END $$
"""
TABLES = f"""
SELECT relname FROM pg_class c WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace
AND EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND attname = '{PRIVATE_COLUMN}')
AND relname ~ '^[a-z_0-9]+$' ORDER BY 1
"""


def statements(text: str) -> Iterator[str]:
    """The SELECTs of a file, without psql's own commands."""
    plain = re.sub(r"^\\.*$", "", text, flags=re.M)
    plain = re.sub(r"--.*$", "", plain, flags=re.M)
    plain = re.sub(r"^\s*(?:create|do)\b[^;]*?\$(\w*)\$.*?\$\1\$[^;]*;", "", plain, flags=re.I | re.M | re.S)
    for part in re.split(r";[ \t]*\n", plain):
        one = part.strip()
        if (
            re.match(r"(select|with|values)\b", one, re.I)
            and not re.search(r"\binto\b|\bfor update\b", one, re.I)
            and not CATALOG.search(one)
        ):
            yield one.rstrip("; ")


def filled(server: Server, name: str, folder: Path, *files: str) -> None:
    """Runs regression files in a database, as psql does."""
    environment = {**os.environ, "PG_ABS_SRCDIR": str(folder), "PG_LIBDIR": "/nowhere", "PG_DLSUFFIX": ".so"}
    for file in files:
        text = DROPS.sub("", (folder / "sql" / f"{file}.sql").read_text())
        subprocess.run(
            ["psql", "-X", "-q", "-d", server.embedded.conninfo(dbname=name), "-f", "-"],
            input=text,
            text=True,
            env=environment,
            capture_output=True,
            check=False,
        )


@contextmanager
def proxied(server: Server, name: str, place: Path) -> Iterator[psycopg.Connection]:
    """A session with the proxy over a database whose tables that have a unit are private."""
    with server.databases.owner(name) as owner:
        owner.execute(UNITS.encode())
        tables = [row[0] for row in owner.execute(TABLES.encode()).fetchall()]
        owner.execute(b"REVOKE CREATE ON SCHEMA public FROM PUBLIC")
        owner.execute(b"GRANT USAGE ON SCHEMA public TO reader")
        owner.execute(b"GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader")
    sections = "".join(
        f'[tables.{t}]\nprivacy_unit = "{PRIVATE_COLUMN}"\nprivacy_unit_kind = "row"\n' for t in tables
    )
    (place / "dpproxy.toml").write_text(
        f'[backend]\nurl = "{server.databases.url(name)}"\n{SETTINGS}{sections}'
    )
    with (
        serving(["serve", "--port", "0"], folder=place, program=("-m", "tests.truth.exact")) as proxy,
        psycopg.connect(
            host="127.0.0.1",
            port=proxy.port,
            user="ann",
            dbname="any",
            autocommit=True,
            prepare_threshold=None,
        ) as session,
    ):
        yield session


def judged(truth: Answer, told: Answer) -> str:
    """What came of a statement."""
    if told.state.startswith(FAILS):
        return "failed"
    if truth.state:
        return "raises in PostgreSQL"
    if told.state:
        return "refused"
    if same_rows(truth, told):
        return "equal"
    return next((what for said, what in SAID.items() if said in told.said), "different")


def main(folder: Path) -> int:
    """Prints a line a file, and each statement that differs; 1 where one does."""
    total: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as made:
        Path(made).chmod(0o755)
        server = Server(Path(made))
        try:
            for file in FILES:
                counted: Counter[str] = Counter()
                place = Path(made) / file
                place.mkdir()
                with server.database() as name:
                    filled(server, name, folder, "test_setup", file)
                    with (
                        proxied(server, name, place) as session,
                        psycopg.connect(server.embedded.conninfo(dbname=name), autocommit=True) as truth,
                    ):
                        truth.execute(b"SET timezone = 'UTC'")
                        truth.execute(b"SET statement_timeout = '10s'")
                        for asked in statements((folder / "sql" / f"{file}.sql").read_text()):
                            for sql in (asked, f"SELECT count(*) FROM ({asked}) counted"):
                                right, told = answer_to(truth, sql), answer_to(session, sql)
                                outcome = judged(right, told)
                                counted[outcome] += 1
                                if outcome in ("different", "failed"):
                                    print(
                                        f"{outcome}: {sql};\n    truth {right}\n    told  {told}"[:1200],
                                        flush=True,
                                    )
                print(
                    f"| {file} | " + " | ".join(f"{n} {what}" for what, n in sorted(counted.items())),
                    flush=True,
                )
                total += counted
        finally:
            server.close()
    print(dict(total))
    return int(bool(total["different"] or total["failed"]))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
