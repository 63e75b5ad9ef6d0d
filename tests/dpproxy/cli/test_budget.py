"""`dpproxy budget` beside a running server: what the owner sees, changes, exports and simulates."""

from __future__ import annotations

import csv
import io
import json
import re
import shlex
import time
from collections.abc import Iterator
from contextlib import chdir
from decimal import Decimal
from fractions import Fraction
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pytest
from typer.testing import CliRunner

from budget.accounting import guarantee, retention_periods, shown_up
from dpproxy.cli.app import app
from dpproxy.config.sections import Privacy
from dpproxy.deployment.service import configured, opened_vault
from tests.dpproxy.serving import POLICY, ROOT, Running, command, make, serving

pytestmark = pytest.mark.service

BUDGET = """
[server]
auth = "trust"
[budget]
information = 20
calls = 5
period = "week"
[budget.analysts.watched]
mode = "track"
[budget.teams.acme]
members = ["ann", "bob"]
information = 40
calls = 8
[budget.dataset]
information = 500
[audit]
statements = true
"""
PAGE = ROOT / "docs" / "budget.md"
COUNT = "SELECT COUNT(*) FROM people WHERE person_id > {}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp("budget")
    make(path, POLICY + BUDGET)
    return path


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Running]:
    """A server that owns the embedded ledger all the while, with some history."""
    with serving(["serve", "--port", "0"], folder=folder) as running:
        for name, asked in (("ann", range(6)), ("bob", range(2)), ("watched", range(100, 109))):
            with running.connect(name) as connection:
                for n in (*asked, asked[0]):
                    connection.execute(COUNT.format(n).encode()).fetchall()
        yield running


def run(*arguments: str, folder: Path) -> tuple[int, str, str]:
    """In this process, which is not the server's."""
    with chdir(folder):
        result = CliRunner().invoke(app, ["budget", *arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


def done(*arguments: str, folder: Path) -> str:
    status, out, error = run(*arguments, folder=folder)
    assert (status, error) == (0, "")
    return out


def told(*arguments: str, folder: Path) -> Any:
    return json.loads(done(*arguments, "--json", folder=folder))


def failed(*arguments: str, folder: Path, status: int = 1) -> str:
    ended, out, error = run(*arguments, folder=folder)
    assert (ended, out) == (status, "")
    assert status == 2 or error.count("\n") == 1
    return error


def test_show_tells_accounts_and_what_their_limits_guarantee(server: Running, folder: Path) -> None:
    accounts = {row["account"]: row for row in told("show", folder=folder)["accounts"]}
    assert set(accounts) == {"analyst:ann", "analyst:bob", "analyst:watched", "team:acme", "dataset"}
    ann = accounts["analyst:ann"]
    assert ann["information"] == {"limit": "20", "spent_so_far": "6", "reserved": "0", "left": "14"}
    assert accounts["team:acme"]["information"]["spent_so_far"] == "6", "what bob bought as well"
    assert accounts["dataset"]["information"]["spent_so_far"] == "15"
    assert (ann["mode"], ann["frozen"], accounts["analyst:watched"]["guarantee"]) == ("enforce", False, [])
    per = Privacy().epsilon_per, Privacy().delta_per, Privacy().delta_prime
    expected = {
        periods: {
            b.accounting: shown_up(b.epsilon, 4)
            for b in guarantee(Fraction(20), Fraction(5), *per, periods=periods)
        }
        for periods in (1, retention_periods(7, 7), retention_periods(90, 7))
    }
    zcdp = [b for b in ann["guarantee"] if b["epsilon"] is not None]
    assert {b["accounting"]: b["epsilon"] for b in zcdp} == expected[1]
    assert {b["accounting"]: b["kept_epsilon"] for b in zcdp} == expected[2]
    kept = told("show", "ann", "--retention", "90", folder=folder)["accounts"][0]["guarantee"]
    assert {b["accounting"]: b["kept_epsilon"] for b in kept if b["epsilon"]} == expected[14]
    page = done("show", folder=folder)
    assert "spent so far" in page
    assert "guarantees nothing" in page
    assert "analyst:watched is only tracked: no guarantee" in page
    assert "did you mean ann?" in failed("show", "anne", folder=folder)
    assert command("budget", "show", folder=folder).stdout == page


def test_a_limit_set_holds_at_once_and_is_remembered(server: Running, folder: Path) -> None:
    done("set", "bob", "--information", "3", "--calls", "0", folder=folder)
    with server.connect("bob") as connection:
        connection.execute(COUNT.format(20).encode())
        with pytest.raises(
            psycopg.Error, match=r"needs 1 information unit and 0 calls, 0 information units"
        ) as e:
            connection.execute(COUNT.format(21).encode())
        assert e.value.sqlstate == "PV001"
        assert "has spent 3 information units" in failed("set", "bob", "--information", "2.5", folder=folder)
        done("set", "bob", "--information", "3.5", "--period", "none", "--mode", "track", folder=folder)
        assert len(connection.execute(COUNT.format(22).encode()).fetchall()) == 1
    limits = told("history", "bob", folder=folder)["limits"]
    assert [(row["information"], row["period"], row["mode"]) for row in limits] == [
        ("20", "week", "enforce"),
        ("3", "week", "enforce"),
        ("3.5", "none", "track"),
    ]


def test_a_frozen_account_is_told_so_and_answered_again_later(server: Running, folder: Path) -> None:
    with server.connect("ann") as connection:
        done("set", "ann", "--freeze", folder=folder)
        with pytest.raises(psycopg.Error, match="frozen") as frozen:
            connection.execute(COUNT.format(30).encode())
        assert frozen.value.sqlstate == "PV001"
        assert connection.execute(COUNT.format(0).encode()).fetchall(), "what is paid for can be read again"
        done("set", "ann", "--unfreeze", folder=folder)
        done("set", "team:acme", "--freeze", folder=folder)
        with pytest.raises(psycopg.Error, match="shared budget") as shared:
            connection.execute(COUNT.format(30).encode())
        assert "acme" not in str(shared.value)
        done("set", "team:acme", "--unfreeze", folder=folder)
        assert connection.execute(COUNT.format(30).encode()).fetchall()


def test_the_file_seeds_and_the_command_wins(server: Running, folder: Path) -> None:
    """Of somebody whom the file names and who has asked nothing yet."""
    (folder / "dpproxy.toml").write_text(POLICY + BUDGET + "[budget.analysts.late]\ninformation = 7\n")
    try:
        assert told("show", "late", folder=folder)["accounts"][0]["information"]["limit"] == "7"
        done("set", "late", "--information", "1", folder=folder)
    finally:
        (folder / "dpproxy.toml").write_text(POLICY + BUDGET)
    with server.connect("late") as connection:
        connection.execute(COUNT.format(0).encode())
        with pytest.raises(psycopg.Error, match="0 information units"):
            connection.execute(COUNT.format(1).encode())


def test_history_is_an_accounts_own(server: Running, folder: Path) -> None:
    found = told("history", "watched", folder=folder)["releases"]
    assert [row["information"] for row in found] == ["1"] * 9 + ["0"]
    assert [row["replayed"] for row in found] == [False] * 9 + [True]
    later = told("history", "watched", "--from", found[4]["time"], "--to", found[6]["time"], folder=folder)
    assert later["releases"] == found[4:6]
    assert {row["asked"] for row in found} == {
        f"COUNT(*) of people where person_id > {n}" for n in range(100, 109)
    }
    page = done("history", "watched", folder=folder)
    assert max(map(len, page.splitlines())) <= 120
    assert page.count("│ 1 unit ") == 9
    assert page.count("│ free, paid before │") == 1
    assert "COUNT(*) of people where person_id > 108" in page
    assert "no account of nobody" in failed("history", "nobody", folder=folder)
    assert "2024-13-01" in failed("history", "ann", "--from", "2024-13-01", folder=folder, status=2)


def test_texts_are_shown_where_the_file_says_so_and_are_sealed(server: Running, folder: Path) -> None:
    asked = COUNT.format(12345).replace("SELECT", f"SELECT /* \x1b[2J{'x' * 2000} */")
    with server.connect("eve") as connection:
        connection.execute(asked.encode()).fetchall()
        connection.execute(COUNT.format(12345).encode()).fetchall()
    found = told("history", "eve", folder=folder)["releases"]
    assert [row["statement"] for row in found] == [asked, asked], "that which bought the answer"
    page = done("history", "eve", folder=folder)
    assert "sent: SELECT /*" in page
    assert "\x1b" not in page
    assert max(map(len, page.splitlines())) <= 120
    silent = folder / "silent.toml"
    silent.write_text(
        (folder / "dpproxy.toml").read_text().replace("statements = true", "statements = false")
    )
    assert told("history", "eve", "-c", str(silent), folder=folder)["releases"][0]["statement"] is None
    with opened_vault(configured(folder / "dpproxy.toml")) as vault:
        sealed = [row.sealed for row in vault.ledger.history.releases("analyst:eve")]
    assert sealed[0] is not None
    assert b"people" not in sealed[0]


def test_history_shows_the_last_answers_alone(server: Running, folder: Path) -> None:
    whole = told("history", "ann", folder=folder)["releases"]
    assert told("history", "ann", "--last", "2", folder=folder)["releases"] == whole[-2:]


def test_verify_reads_what_is_new_and_trusts_no_checkpoint_without_the_key(
    server: Running, folder: Path
) -> None:
    first = told("verify", folder=folder)
    assert first == {"entries_read": first["entries_read"], "unchanged_up_to": 0, "differences": 0}
    assert "all balances are what the entries come to" in done("verify", "--all", folder=folder)
    (checkpoint,) = folder.glob("**/*.verified")
    whole = checkpoint.read_text()
    checkpoint.write_text(whole.replace('"number": 0', '"number": 9'))
    assert checkpoint.read_text() != whole
    assert "the checkpoint is damaged" in failed("verify", folder=folder)
    checkpoint.write_text(whole)


def test_refusals_are_told_by_their_shapes(server: Running, folder: Path) -> None:
    for name, secret in (("ann", "Mueller"), ("bob", "Meier")):
        with server.connect(name) as connection, pytest.raises(psycopg.Error, match="row-level"):
            connection.execute(f"SELECT * FROM people WHERE town = '{secret}' -- {secret}".encode())
    wanted = {"code": "PV010", "shape": "select * from people where town = ?", "times": 2}
    ends_at = time.monotonic() + 30
    # Codes and shapes are written one after the other.
    while wanted not in (found := told("refusals", folder=folder))["shapes"] or "PV010" not in found["codes"]:
        assert time.monotonic() < ends_at, found
        time.sleep(0.2)
    assert found["codes"]["PV010"] >= 2
    page = done("refusals", folder=folder)
    assert "select * from people where town = ?" in page
    assert "rows of a private table" in page
    assert "Mueller" not in page
    assert max(map(len, page.splitlines())) <= 120


def test_exports_agree(server: Running, folder: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(done("export", "watched", folder=folder))))
    assert [row["kind"] for row in rows] == ["reserve", "settle"] * 9 + ["replay"]
    objects = told("export", "watched", folder=folder)
    assert [{k: str(v) for k, v in one.items() if v is not None} for one in objects] == [
        {k: {"true": "True", "false": "False"}.get(v, v) for k, v in row.items() if v} for row in rows
    ]
    file = folder / "en'tries.parquet"
    done("export", "--format", "parquet", "--output", str(file), folder=folder)
    with duckdb.connect(":memory:") as connection:
        read = connection.execute(
            "SELECT sum(information), count(*) FILTER (query IS NULL) FROM read_parquet(?) "
            "WHERE account = 'dataset' AND kind <> 'reserve'",
            [str(file)],
        ).fetchall()
        kinds = connection.execute(
            "SELECT typeof(COLUMNS(*)) FROM read_parquet(?) LIMIT 1", [str(file)]
        ).fetchall()
    everything = list(csv.DictReader(io.StringIO(done("export", folder=folder))))
    shared = [row for row in everything if row["account"] == "dataset" and row["kind"] != "reserve"]
    assert read[0][0] == sum(Decimal(row["information"]) for row in shared)
    assert read[0][1] == len(shared)
    assert kinds[0][:3] == ("BIGINT", "TIMESTAMP WITH TIME ZONE", "VARCHAR")
    assert "--output" in failed("export", "--format", "parquet", folder=folder)


def test_simulation_tells_who_would_have_been_stopped(server: Running, folder: Path) -> None:
    tried = ("--information", "1,5,100", "--calls", "3", "--period", "week", "--to", "2100-01-01")
    found = told("simulate", *tried, folder=folder)
    by_amount = {one["amount"]: one for one in found["budgets"] if one["unit"] == "information"}
    assert list(by_amount) == ["1", "5", "100"]
    refused = {
        amount: {a["account"]: a["refused"] for a in one["accounts"]} for amount, one in by_amount.items()
    }
    assert refused["5"]["analyst:watched"] == 4
    assert not any(refused["100"].values())
    people = len(by_amount["5"]["accounts"])
    stopped = sum(a["stopped"] for a in by_amount["5"]["accounts"])
    assert by_amount["5"]["percent_stopped_by_day"][1:] == pytest.approx([100 * stopped / people] * 7)
    page = done("simulate", "--information", "5", "--calls", "3", folder=folder)
    assert "analyst:watched" in page
    assert "% of analysts stopped" in page
    assert ".png or .svg" in failed("simulate", "--plot", "figure.pdf", folder=folder)


def test_the_plot_is_an_image_or_one_line_why_not(server: Running, folder: Path) -> None:
    for name, begins in (("figure.svg", b"<?xml"), ("figure.png", b"\x89PNG")):
        if find_spec("matplotlib") is None:
            assert "dpproxy[plot]" in failed("simulate", "--plot", name, folder=folder)
        else:
            done("simulate", "--plot", name, folder=folder)
            assert (folder / name).read_bytes().startswith(begins)


def test_old_answers_go_and_nothing_else(server: Running, folder: Path) -> None:
    before = told("show", folder=folder)
    with psycopg.connect(ledger_of(folder), autocommit=True) as owner:
        owner.execute("UPDATE dpproxy_ledger.answer SET epoch = '2001-01-01' WHERE true")
    with server.connect("bob") as connection:
        connection.execute(COUNT.format(40).encode())
    assert told("prune", folder=folder)["answers_deleted"] > 10
    assert told("prune", folder=folder) == {"answers_deleted": 0}
    after = told("show", folder=folder)
    assert [row["account"] for row in after["accounts"]] == [row["account"] for row in before["accounts"]]
    with server.connect("bob") as connection:
        connection.execute(COUNT.format(40).encode())
        notice = connection.execute("SELECT replayed FROM dpproxy.last_release").fetchall()
    assert notice == [(True,)], "this epoch's answers stay"


def ledger_of(folder: Path) -> str:
    password, user = (folder / ".dpproxy" / "ledger" / "password").read_text().split()
    return f"host='{folder}/.dpproxy/ledger/socket' user={user} password={password} dbname=postgres"


@pytest.mark.parametrize("line", re.findall(r"^\$ dpproxy (.*)$", PAGE.read_text(), re.M))
def test_every_command_of_the_page_runs(line: str, server: Running, folder: Path) -> None:
    (folder / "dpproxy.toml").write_text(POLICY + BUDGET + "[budget.analysts.alice]\n")
    command_name, *arguments = shlex.split(line)
    if command_name == "audit":
        done("export", "--format", "trail", "--output", arguments[0], folder=folder)
        with chdir(folder):
            assert CliRunner().invoke(app, [command_name, *arguments]).exit_code == 0
    elif command_name == "budget":
        done(*arguments, folder=folder)
    elif command_name == "failures":
        with chdir(folder):
            assert CliRunner().invoke(app, [command_name, *arguments]).exit_code == 0
    else:
        pytest.fail(f"{line} is not run")


def test_nothing_half_given_is_taken(server: Running, folder: Path) -> None:
    for arguments in (
        ("set", "ann"),
        ("set", "ann", "--information", "-1"),
        ("set", "ann", "--information", "NaN"),
        ("set", "ann", "--information", "1e30"),
        ("set", "ann", "--period", "year"),
        ("set", "ann", "--mode", "off"),
        ("export", "--format", "xml"),
        ("simulate", "--calls", "1,x"),
    ):
        failed(*arguments, folder=folder, status=2)
