"""Clients that are programs of their own: psql, pgjdbc and node-postgres. What they print is checked here."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import ClassVar

from tests.clients.client import (
    AMONG,
    BY_AGE,
    BY_COUNTRY,
    CHOSEN,
    PUBLIC,
    REFUSED,
    ROWS,
    SAMPLES,
    USERS_COLUMNS,
    Client,
    check_ages,
    check_chosen,
    check_countries,
)
from tests.clients.native import assert_same
from tests.clients.world import ANALYST, DATABASE, PASSWORD, ROOT

HERE = Path(__file__).parent
JDBC_JAR = Path("/usr/share/java/postgresql.jar")
NODE_MODULES = HERE / "node" / "node_modules"
TABLES = {"users", "events", "typed", "articles", "samples"}


def ran(command: Sequence[str], entry: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    """A program run to its end."""
    return subprocess.run(
        command,
        input=entry,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, **environment},
    )


class Psql(Client):
    """psql, unaligned, with tabs between its columns."""

    name = "psql"

    @classmethod
    def missing(cls) -> str | None:
        return None if shutil.which("psql") else "psql"

    def script(self, text: str, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """psql with a script."""
        command = ["psql", "-X", "-q", "-A", "-t", "-F", "\t", *options, "-d", self.world.url]
        return ran(command, text, **environment)

    def lines(self, text: str, *options: str) -> list[list[str]]:
        """The rows of a script that succeeds."""
        done = self.script(text, *options, "-v", "ON_ERROR_STOP=1")
        assert done.returncode == 0, done.stderr
        return [line.split("\t") for line in done.stdout.splitlines()]

    def connect(self) -> None:
        """Logs in and knows who it is, in a terminal that says nothing of UTF-8 as well."""
        assert self.lines("SELECT current_user, 1 + 1") == [[ANALYST, "2"]]
        done = self.script("\\conninfo", LC_ALL="C", PGCLIENTENCODING="auto")
        assert f'"{DATABASE}" as user "{ANALYST}"' in done.stdout, done.stdout
        assert "client_encoding must be UTF8" in self.script("SELECT 1", PGCLIENTENCODING="LATIN1").stderr

    def browse(self) -> None:
        """Its backslash commands, with each column's class in its description."""
        with self.world.counts.expected(0):
            assert {line[1] for line in self.lines("\\dt app.*")} == TABLES
            shown = self.script(
                "\\pset tuples_only off\n\\d+ app.users\n\\d app.events\n\\du\n\\df dpproxy.*"
            )
        assert not shown.stderr, shown.stderr
        assert "country\tcharacter varying" in shown.stdout or "country\ttext" in shown.stdout
        assert "where they live: known domain of 4 values" in shown.stdout
        assert '"users_pkey" PRIMARY KEY, btree (user_id)' in shown.stdout
        assert "FOREIGN KEY (user_id) REFERENCES users(user_id)" in shown.stdout
        assert "email" not in shown.stdout

    def ask(self) -> None:
        """One question, one execution, and a notice of what it came with."""
        with self.world.counts.expected(1):
            done = self.script(BY_COUNTRY.format(self.world.fresh()))
        check_countries(line.split("\t") for line in done.stdout.splitlines())
        assert done.stderr.startswith("NOTICE:  dpproxy: "), done.stderr

    def parameters(self) -> None:
        """PREPARE and EXECUTE."""
        numbers = [self.world.fresh() for _ in range(3)]
        executed = [f"EXECUTE q({number});" for number in numbers]
        with self.world.counts.expected(3):
            rows = self.lines("\n".join([f"PREPARE q(bigint) AS {BY_COUNTRY.format('$1')};", *executed]))
        for start in (0, 4, 8):
            check_countries(rows[start : start + 4])

    def arrays(self) -> None:
        """An array as a parameter of EXECUTE."""
        with self.world.counts.expected(1):
            prepared = f"PREPARE q(text[]) AS {AMONG.format('$1', self.world.fresh())};"
            check_chosen(self.lines(f"{prepared}\nEXECUTE q('{{{','.join(CHOSEN)}}}');"))

    def describe(self) -> None:
        """\\gdesc."""
        with self.world.counts.expected(0):
            rows = self.lines(f"{BY_COUNTRY.format(self.world.fresh())} \\gdesc")
        assert [row[0] for row in rows] == ["country", "n"]
        assert rows[1] == ["n", "bigint"]

    def portions(self) -> None:
        """FETCH_COUNT: a cursor of its own."""
        with self.world.counts.expected(1):
            check_ages(self.lines(BY_AGE.format(self.world.fresh()) + ";", "-v", "FETCH_COUNT=7"))

    def replay(self) -> None:
        """The same question has the same answer, which the backend is not asked for again."""
        question = BY_COUNTRY.format(self.world.fresh()) + ";\n"
        with self.world.counts.expected(2, fetched=1):
            rows = self.lines(question * 2)
        assert rows[:4] == rows[4:]

    def refused(self) -> None:
        """A refusal points at the text, and the session goes on."""
        with self.world.counts.expected(0):
            done = self.script(f"\\set VERBOSITY verbose\n{ROWS};\n{PUBLIC};")
        assert f"ERROR:  {REFUSED}: " in done.stderr
        assert "LINE 1: SELECT * FROM app.users;\n               ^\n" in done.stderr
        assert "HINT:" in done.stderr
        assert done.stdout == "50\n"

    def transaction(self) -> None:
        """A savepoint outlives a refusal."""
        first, second = (BY_COUNTRY.format(self.world.fresh()) for _ in range(2))
        with self.world.counts.expected(2):
            done = self.script(
                f"BEGIN; {first};\nSAVEPOINT here;\n{ROWS};\n{PUBLIC};\nROLLBACK TO here;\n{second};\nCOMMIT;"
            )
        assert "current transaction is aborted" in done.stderr
        rows = [line.split("\t") for line in done.stdout.splitlines()]
        check_countries(rows[:4])
        check_countries(rows[4:])

    def types(self) -> None:
        """Every type, as text."""
        text = SAMPLES.replace(" ORDER BY", " AND id = {} ORDER BY")
        # Unit separators: the texts have tabs and ends of lines in them.
        shown = [self.script(text.format(row), "-F", "\x1f", "-R", "\x1e").stdout[:-1] for row in (0, 1)]
        assert_same([one.split("\x1f") for one in shown])

    def copy(self) -> None:
        """\\copy."""
        with self.world.counts.expected(1):
            check_countries(self.lines(f"\\copy ({BY_COUNTRY.format(self.world.fresh())}) TO STDOUT"))


class Program(Client):
    """A program that does one feature a run: its arguments are the feature and statements, it prints rows."""

    command: ClassVar[Sequence[str]] = ()
    variables: ClassVar[dict[str, str]] = {}

    def run(self, feature: str, *statements: str) -> list[list[str]]:
        """The lines that it prints, cut at unit separators."""
        done = ran([*self.program(), feature, *statements], **self.variables)
        assert done.returncode == 0, done.stderr[-1500:]
        return [line.split("\x1f") for line in done.stdout.split("\x1e\n") if line]

    def program(self) -> Sequence[str]:
        """The command and its first arguments."""
        raise NotImplementedError

    def connect(self) -> None:
        """Logs in and knows who it is."""
        assert self.run("rows", "SELECT current_user, 1 + 1") == [[ANALYST, "2"]]

    def ask(self) -> None:
        """One question, one execution."""
        with self.world.counts.expected(1):
            check_countries(self.run("rows", BY_COUNTRY.format(self.world.fresh())))

    def parameters(self) -> None:
        """A prepared statement, executed three times."""
        numbers = [str(self.world.fresh()) for _ in range(3)]
        with self.world.counts.expected(3):
            rows = self.run("parameters", BY_COUNTRY.format(self.mark), *numbers)
        for start in (0, 4, 8):
            check_countries(rows[start : start + 4])

    def arrays(self) -> None:
        """A list as a parameter."""
        with self.world.counts.expected(1):
            check_chosen(self.run("arrays", AMONG.format(self.mark, self.world.fresh()), *CHOSEN))

    mark: ClassVar[str] = "?"

    def portions(self) -> None:
        """Many rows of one execution, seven at a time."""
        with self.world.counts.expected(1):
            check_ages(self.run("portions", BY_AGE.format(self.world.fresh())))

    def replay(self) -> None:
        """The same question has the same answer, which the backend is not asked for again."""
        question = BY_COUNTRY.format(self.world.fresh())
        with self.world.counts.expected(2, fetched=1):
            rows = self.run("rows", question, question)
        assert rows[:4] == rows[4:]

    def refused(self) -> None:
        """A refusal has its own code, and the connection goes on."""
        with self.world.counts.expected(0):
            assert self.run("refused", ROWS, PUBLIC) == [[REFUSED], ["50"]]

    def transaction(self) -> None:
        """A savepoint outlives a refusal."""
        questions = [BY_COUNTRY.format(self.world.fresh()) for _ in range(2)]
        with self.world.counts.expected(2):
            rows = self.run("transaction", questions[0], ROWS, questions[1])
        check_countries(rows[:4])
        assert rows[4] == [REFUSED]
        check_countries(rows[5:])

    def types(self) -> None:
        """Every type, as the driver prints it."""
        assert_same(self.run("rows", SAMPLES))


class Pgjdbc(Program):
    """pgjdbc: prepared on the server and binary from the first execution on."""

    name = "pgjdbc"
    parameters_of_url: ClassVar[str] = "prepareThreshold=-1&binaryTransfer=true"

    @classmethod
    def missing(cls) -> str | None:
        if not shutil.which("java") or not shutil.which("javac"):
            return "a JDK"
        return None if JDBC_JAR.exists() else "libpostgresql-jdbc-java"

    def program(self) -> Sequence[str]:
        url = f"jdbc:postgresql://127.0.0.1:{self.world.port}/{DATABASE}?sslmode=require&{self.parameters_of_url}"
        path = f"{_compiled()}:{JDBC_JAR}"
        return [
            "java",
            "-Xshare:auto",
            "-XX:TieredStopAtLevel=1",
            "-cp",
            path,
            "Features",
            url,
            ANALYST,
            PASSWORD,
        ]

    def browse(self) -> None:
        """DatabaseMetaData: tables, columns with their remarks, keys."""
        with self.world.counts.expected(0):
            rows = self.run("browse")
        found = {
            kind: [row[1:] for row in rows if row[0] == kind] for kind in ("table", "column", "key", "from")
        }
        assert {name for (name,) in found["table"]} == TABLES
        assert [name for name, _, _ in found["column"]] == USERS_COLUMNS
        assert [said for _, _, said in found["column"]][1:3] == ["where they live", "known domain, 18 to 97"]
        assert found["key"] == [["user_id"]]
        assert sorted(found["from"]) == [["article_id", "articles"], ["user_id", "users"]]

    def describe(self) -> None:
        """getMetaData and getParameterMetaData before anything is executed."""
        with self.world.counts.expected(0):
            assert self.run("describe", BY_COUNTRY.format("?"))[1:] == [["n", "int8"], ["int8"]]

    def copy(self) -> None:
        """CopyManager."""
        with self.world.counts.expected(1):
            (out,) = self.run("copy", f"COPY ({BY_COUNTRY.format(self.world.fresh())}) TO STDOUT")
        check_countries(line.split("\t") for line in out[0].splitlines())


class PgjdbcSimple(Pgjdbc):
    """pgjdbc in its simple query mode."""

    name = "pgjdbc, simple"
    parameters_of_url = "preferQueryMode=simple"
    without: ClassVar[Mapping[str, str]] = {"describe": "in this mode pgjdbc executes in order to describe"}


class NodePostgres(Program):
    """node-postgres."""

    name = "node-postgres"
    mark = "$1"
    variables: ClassVar[dict[str, str]] = {"NODE_PATH": str(NODE_MODULES), "NODE_NO_WARNINGS": "1"}
    without: ClassVar[Mapping[str, str]] = {
        "browse": "it has no call for it",
        "describe": "it has no call for it",
        "copy": "pg-copy-streams does it",
    }

    @classmethod
    def missing(cls) -> str | None:
        if not shutil.which("node"):
            return "node"
        return None if (NODE_MODULES / "pg").exists() else "npm package pg"

    def program(self) -> Sequence[str]:
        return ["node", str(HERE / "node" / "features.js"), str(self.world.port), ANALYST, PASSWORD, DATABASE]


@cache
def _compiled() -> str:
    """The folder with the compiled Java program."""
    folder = mkdtemp(prefix="dpproxy-java-")
    command = ["javac", "-cp", str(JDBC_JAR), "-d", folder, str(HERE / "Features.java")]
    subprocess.run(command, check=True, timeout=120, cwd=ROOT)
    return folder
