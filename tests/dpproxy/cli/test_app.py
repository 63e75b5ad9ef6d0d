"""The commands that need no server: exit status, one line on standard error, JSON."""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dpproxy.cli.app import app
from tests.dpproxy import serving
from tests.dpproxy.serving import COUNT, POLICY, TOWNS, USERS


def run(*arguments: str, entry: str = "") -> tuple[int, str, str]:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], input=entry)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The policy of a deployment that this module's tests share."""
    return str(serving.make(tmp_path_factory.mktemp("deployment")))


def test_no_command_shows_all_of_them() -> None:
    status, out, err = run()
    assert status == 2
    assert {"demo", "serve", "check", "explain", "query", "user"} <= set(
        re.findall(r"^  (\w+)", out + err, re.M)
    )


@pytest.mark.parametrize(
    "arguments", [["query"], ["query", "SELECT 1"], ["serve", "--port", "70000"], ["user", "drop"], ["sevre"]]
)
def test_wrong_usage_is_status_2(arguments: list[str]) -> None:
    assert run(*arguments)[0] == 2


def test_workers_do_not_pad(tmp_path: Path) -> None:
    file = serving.make(tmp_path, POLICY + '[privacy]\ntiming = "padded"\n')
    status, _, err = run("serve", "-c", str(file), "--workers", "2")
    assert (status, "privacy.timing" in err) == (1, True)
    assert not (tmp_path / ".dpproxy").exists()


@pytest.mark.service
def test_a_reader_that_leaves_is_no_failure(file: str) -> None:
    """As of `dpproxy check | head`."""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as gone:
        done = subprocess.run(
            [sys.executable, "-m", "dpproxy", "check", "-c", file],
            env={**os.environ, "PYTHONPATH": str(serving.ROOT)},
            stdout=gone,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert "pipe" not in done.stderr.lower()


def test_check_tells_classes_and_guarantee(file: str) -> None:
    status, out, _ = run("check", "-c", file, "--json")
    told = json.loads(out)
    assert status == 0
    columns = {(c["table"], c["column"]): (c["domain"], c["l0"], c["bounds"]) for c in told["columns"]}
    assert columns["people", "town"] == ("known: 3 values", "1", "")
    assert columns["visits", "room"] == ("unknown", "2", "")
    assert columns["visits", "seconds"] == ("unknown", "unrestricted", "0 to 60.5 a row, scale 1")
    assert columns["rooms", "floor"] == ("known: public", "", "")
    assert told["tables"] == {
        "people": "one row a unit",
        "visits": "any number of rows a unit (quantiles and running counts: 5 rows a unit)",
        "rooms": "public",
    }
    tight = [row for row in told["guarantees"] if row["smallest"]]
    assert [(row["account"], row["epsilon"], row["delta"]) for row in tight] == [
        ("any analyst", "8.656", "4e-09")
    ]
    assert run("check", "-c", file, "--details")[1].count("│ any analyst") == 3


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        (POLICY.replace("max_rows_per_unit ", "max_row_per_unit "), 'max_rows_per_unit"?'),
        (POLICY.replace("[tables.rooms]", "[tables.roms]"), 'did you mean "rooms"?'),
        (POLICY.replace("seconds =", "second ="), 'did you mean "seconds"?'),
        (POLICY.replace("[0, 60.5]", "[61, 60.5]"), "the lower one is above"),
        (POLICY.replace("[0, 60.5]", '["2024-01-01", "2024-12-31"]'), "for dates write range = "),
        (POLICY.replace('"Bonn"', '"Ulm"'), "town"),
        (POLICY.replace("people.duckdb", "peple.duckdb"), "peple.duckdb"),
        ("[backend\n", "dpproxy.toml"),
    ],
)
def test_a_mistake_in_the_file_is_one_line(tmp_path: Path, policy: str, said: str) -> None:
    file = serving.make(tmp_path, policy)
    for arguments in (["check"], ["serve", "--port", "0"], ["query", "--analyst", "a", "SELECT 1"]):
        status, out, err = run(*arguments, "-c", str(file))
        assert (status, out, err.count("\n")) == (1, "", 1)
        assert said in err
        assert err.startswith("dpproxy: ")
    assert not (tmp_path / ".dpproxy").exists()


def test_a_missing_file_is_one_line(tmp_path: Path) -> None:
    status, out, err = run("check", "-c", str(tmp_path / "none.toml"))
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert "dpproxy init" in err
    status, out, err = run("audit", str(tmp_path / "none.jsonl"))
    assert (status, out, err) == (1, "", f"dpproxy: {tmp_path}/none.jsonl: No such file or directory\n")


@pytest.mark.service
def test_without_a_terminal_a_password_is_not_asked_for(tmp_path: Path) -> None:
    file = serving.make(tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "dpproxy", "user", "add", "bob", "-c", str(file)],
        env={**os.environ, "PYTHONPATH": str(serving.ROOT)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        start_new_session=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "dpproxy: there is no terminal to ask at: --password-stdin reads the password"
    ]


@pytest.mark.service
def test_query_formats(file: str) -> None:
    arguments = ("query", "-c", file, "--analyst", "ann", COUNT)
    status, out, err = run(*arguments, "--format", "json")
    told = json.loads(out)
    assert status == 0
    assert told["columns"] == ["town", "n"]
    assert [row[0] for row in told["rows"]] == sorted(TOWNS)
    assert all(abs(row[1] - USERS / 3) < 100 for row in told["rows"])
    assert "charged 1 information unit" in err
    status, again, err = run(*arguments, "--format", "csv")
    assert list(csv.reader(again.splitlines())) == [["town", "n"], *([t, str(n)] for t, n in told["rows"])]
    assert "no charge" in err
    _, table, _ = run(*arguments)
    assert all(re.search(rf"│ {town} +│ +{n} │", table) for town, n in told["rows"])


@pytest.mark.service
def test_query_of_what_is_not_private(file: str) -> None:
    status, out, err = run(
        "query",
        "-c",
        file,
        "--analyst",
        "ann",
        "--format",
        "json",
        "SELECT count(*), NULL, 1.50, true FROM rooms",
    )
    assert status == 0
    assert json.loads(out)["rows"] == [[4, None, "1.50", True]]
    assert err == ""


@pytest.mark.service
@pytest.mark.parametrize(
    ("analyst", "statement", "code"),
    [
        ("ann", "SELECT * FROM people", "PV010"),
        ("ann", "DROP TABLE people", "25006"),
        ("ann", "PREPARE p AS SELECT * FROM people", "PV010"),
        ("ann", "SELECT nothing FROM people", "42703"),
        ("ann", "SELECT count(*) FROM nobody", "42P01"),
        ("pg_ann", "SELECT 1", "28000"),
    ],
)
def test_a_refusal_is_one_line_with_its_code(file: str, analyst: str, statement: str, code: str) -> None:
    status, out, err = run("query", "-c", file, "--analyst", analyst, statement)
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert f"[{code}]" in err


@pytest.mark.service
def test_explain_charges_nothing(file: str) -> None:
    status, out, _ = run("explain", "-c", file, "--analyst", "eve", COUNT)
    assert status == 0
    for part in ("Mechanism: KnownGauss", "standard deviation", "at most 1 information unit", "Backend:"):
        assert part in out
    _, told, _ = run("explain", "-c", file, "--analyst", "eve", "--json", COUNT)
    found = json.loads(told)
    assert [*found["words"], "", *found["plan"]] == out.splitlines()
    _, left, _ = run(
        "query",
        "-c",
        file,
        "--analyst",
        "eve",
        "--format",
        "csv",
        "SELECT unit, used FROM dpproxy.budget ORDER BY 1",
    )
    assert left.splitlines() == ["unit,used", "calls,0", "information,0"]


@pytest.mark.service
def test_users(tmp_path: Path) -> None:
    file = str(serving.make(tmp_path))
    assert run("user", "add", "-c", file, "bob", "--password-stdin", entry="number one\n") == (
        0,
        "bob can log in.\n",
        "",
    )
    assert run("user", "add", "-c", file, "ann", "--password-stdin", entry="number two\n") == (
        0,
        "ann can log in.\n",
        "",
    )
    assert run("user", "list", "-c", file)[1] == "ann\nbob\n"
    assert json.loads(run("user", "list", "-c", file, "--json")[1]) == ["ann", "bob"]
    status, _, err = run("user", "add", "-c", file, "bob", "--password-stdin", entry="number three\n")
    assert (status, err) == (1, "dpproxy: there is an analyst bob\n")
    assert run("user", "passwd", "-c", file, "bob", "--password-stdin", entry="number three\n")[0] == 0
    assert run("user", "remove", "-c", file, "bob")[0] == 0
    assert run("user", "remove", "-c", file, "bob")[0] == 1
    assert run("user", "passwd", "-c", file, "bob", "--password-stdin", entry="number three\n")[0] == 1
    assert run("user", "list", "-c", file)[1] == "ann\n"


@pytest.mark.service
def test_no_new_key_for_a_ledger_that_is_there(tmp_path: Path) -> None:
    file = str(serving.make(tmp_path))
    assert run("query", "-c", file, "--analyst", "ann", COUNT)[0] == 0
    key = tmp_path / ".dpproxy" / "key"
    assert key.stat().st_mode & 0o777 == 0o600
    key.unlink()
    status, _, err = run("query", "-c", file, "--analyst", "ann", COUNT)
    assert (status, err.count("\n")) == (1, 1)
    assert "the key is missing" in err


@pytest.mark.service
def test_what_the_ledger_pins_cannot_change(tmp_path: Path) -> None:
    file = serving.make(tmp_path)
    assert run("query", "-c", str(file), "--analyst", "ann", COUNT)[0] == 0
    file.write_text(POLICY + "\n[privacy]\nepsilon_per = 0.3\n")
    status, _, err = run("query", "-c", str(file), "--analyst", "ann", COUNT)
    assert (status, err.count("\n")) == (1, 1)
    assert "epsilon_per" in err
