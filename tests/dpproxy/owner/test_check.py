"""`dpproxy check`: what each class costs is what EXPLAIN says, and every warning has its cause."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.dpproxy.serving import COUNT, POLICY, make, serving, within

LIFE = """
[tables.lives]
privacy_unit = "person_id"
unique = ["score"]
[tables.lives.columns]
day = { range = ["2024-01-01", "2024-01-31"], nullable = true }
year = { range = [1900, 2020] }
"""
UNCAPPED = "everybody together: nothing bounds analysts who join forces"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    found = make(tmp_path, POLICY + LIFE)
    with duckdb.connect(tmp_path / "people.duckdb") as connection:
        connection.execute(
            "CREATE TABLE lives (person_id INTEGER, score DOUBLE, day DATE, year INTEGER NOT NULL)"
        )
    return found


def warned(file: Path) -> list[str]:
    status, out, _ = within("check", "-c", str(file), "--json")
    assert status == 0
    found: list[str] = json.loads(out)["warnings"]
    return [line for line in found if not line.startswith(UNCAPPED)]


def test_every_warning_has_its_cause(file: Path) -> None:
    base = warned(file)
    assert [line.partition(" ")[0] for line in base] == ["lives.score", "lives.day", "lives.person_id"]
    assert "type double precision" in base[0]
    assert "no horizon" in base[1]
    assert "NULL" in base[2]
    horizon = '[tables.lives]\nhorizon = { day = ["2024-01-01", "2024-01-31"], events_per_unit = 3 }'
    file.write_text((POLICY + LIFE).replace("[tables.lives]", horizon, 1).replace('unique = ["score"]', ""))
    assert [line.partition(" ")[0] for line in warned(file)] == ["lives.person_id"]


def test_caps_and_bounds_that_may_bite(file: Path) -> None:
    caps = "max_rows_per_unit = 100\nmax_rows_per_unit_per_group = 10"
    seconds = "seconds = { range = [0, 100], nullable = true, bounds = [0, 60.5], scale = 1 }"
    policy = POLICY.replace("max_rows_per_unit = 5", caps).replace(
        "seconds = { bounds = [0, 60.5], scale = 1 }", seconds
    )
    file.write_text(policy)
    bites = "visits.seconds: bounds cut values of its own domain, and no interval covers that"
    assert warned(file) == [bites]
    file.write_text(policy + '[privacy]\nmechanisms = "paper"\n')
    cap, bounds = warned(file)
    assert cap.startswith("visits: max_rows_per_unit_per_group = 10 is far below max_rows_per_unit = 100")
    assert bounds == bites
    file.write_text(POLICY.replace("{ bounds", "{ unit_bounds"))
    (whole,) = warned(file)
    assert whole.startswith("visits.seconds: unit_bounds cut the sum of a unit in each group")


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("", "any number of rows a unit (quantiles and running counts: 5 rows a unit)"),
        ('mechanisms = "paper"', "5 rows a unit"),
        ('noise = "laplace"', "5 rows a unit"),
    ],
)
def test_rows_of_a_unit_follow_the_setting(file: Path, setting: str, said: str) -> None:
    file.write_text(f"{POLICY}[privacy]\n{setting}\n")
    told = json.loads(within("check", "-c", str(file), "--json")[1])["tables"]
    assert told == {"people": "one row a unit", "visits": said, "rooms": "public"}


def test_the_page_begins_with_what_works(file: Path) -> None:
    status, page, _ = within("check", "-c", str(file))
    assert status == 0
    assert page.startswith("What works")
    assert max(map(len, page.splitlines())) <= 120
    assert "groups, all of them: town" in page
    assert "sums and averages: room, seconds" in page
    assert "public, every SELECT free of charge: rooms" in page
    assert "any analyst, a year: a guess" in page
    assert "(epsilon 41.9, delta 4.3e-08)" in page
    assert "10 analysts who join forces" in page
    assert "zCDP" not in page
    assert within("check", "-c", str(file), "--details")[1].count("zCDP, tight") == 1
    file.write_text(file.read_text() + "[budget.dataset]\ninformation = 900\n")
    capped = within("check", "-c", str(file))[1]
    assert "10 analysts" not in capped
    assert "dataset, a year: a guess" in capped


def test_every_line_of_policy_that_is_shown_changes_what_it_says(file: Path) -> None:
    with duckdb.connect(file.parent / "people.duckdb") as connection:
        connection.execute(
            'CREATE TABLE "Odd Shop" (person_id INTEGER, "Bill To" VARCHAR, seen TIMESTAMP, paid DOUBLE)'
        )
        connection.execute("CREATE TABLE wards (ward INTEGER)")
        connection.execute("CREATE VIEW busy AS SELECT * FROM visits")
    hidden = '[tables."Odd Shop"]\nprivacy_unit = "person_id"\n[tables."Odd Shop".columns]\nseen = { hidden = true }\n'
    file.write_text(POLICY + hidden)

    def said() -> list[dict[str, Any]]:
        status, out, err = within("check", "-c", str(file), "--json")
        assert status == 0, err
        found: list[dict[str, Any]] = json.loads(out)["changes"]
        return found

    tried = 0
    while changes := said():
        first = changes[0]
        head, *more = first["lines"]
        text = file.read_text()
        if head in text:
            lines = [
                line
                for line in text.splitlines()
                if not (more and line.startswith(more[0].split(" =")[0] + " ="))
            ]
            at = lines.index(head)
            text = "\n".join([*lines[: at + 1], *more, *lines[at + 1 :]]) + "\n"
        else:
            text += "\n".join(first["lines"]) + "\n"
        file.write_text(text)
        tried += 1
        left = {(change["table"], change["what"], name) for change in said() for name in change["names"]}
        assert (first["table"], first["what"], first["names"][0]) not in left
        assert tried < 20
    assert tried >= 7


def test_weak_guarantees_and_open_keys(file: Path) -> None:
    file.write_text(POLICY + "[budget]\ninformation = 7000\n[budget.dataset]\ninformation = 5000\n")
    assert [line for line in warned(file) if "guarantee" in line] == [
        "any analyst: the limits guarantee epsilon 59, which is hardly anything"
    ]
    file.write_text(POLICY)
    key = file.parent / ".dpproxy" / "key"
    key.parent.mkdir()
    key.write_bytes(bytes(32))
    key.chmod(0o600)
    assert warned(file) == []
    key.chmod(0o640)
    assert warned(file) == [f"{key} can be read by others (mode 0640): chmod 600 {key}"]
    file.write_text(POLICY + "[budget.dataset]\n")
    status, _, err = within("check", "-c", str(file))
    assert status == 0
    assert err == f"dpproxy: warning: {key} can be read by others (mode 0640): chmod 600 {key}\n"


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("", [UNCAPPED]),
        ('[budget.dataset]\nmode = "track"\n', ['mode = "track"', UNCAPPED]),
        ("[budget.dataset]\ninformation = 3000\n", []),
        ("[budget.dataset]\ninformation = 30000\n", []),
        ('[server]\nauth = "trust"\n', ['auth = "trust" lets any name in']),
        ('[identity.services.bi]\nanalysts = ["ann"]\n', ['who holds the password of "bi"']),
    ],
)
def test_a_missing_cap_over_everybody_is_said(file: Path, more: str, said: list[str]) -> None:
    file.write_text(POLICY + more)
    status, out, _ = within("check", "-c", str(file), "--json")
    assert status == 0
    found = json.loads(out)["warnings"]
    assert len(found) == len(said)
    assert all(one.startswith(words) for one, words in zip(found, said, strict=True))


@pytest.mark.parametrize(
    ("town", "nullable", "warns"),
    [
        ("", True, True),
        (", nullable = true", True, False),
        (", nullable = false", True, False),
        ("", False, False),
    ],
)
def test_rows_with_null_that_a_domain_drops(tmp_path: Path, town: str, nullable: bool, warns: bool) -> None:
    policy = POLICY.replace('"Jena"] }', f'"Jena"]{town} }}')
    file = make(tmp_path, policy)
    if nullable:
        with duckdb.connect(tmp_path / "people.duckdb") as connection:
            connection.execute("ALTER TABLE people ALTER town DROP NOT NULL")
    assert [line for line in warned(file) if line.startswith("people.town may be NULL")] == warned(file)
    assert bool(warned(file)) is warns


@pytest.mark.service
def test_costs_are_what_explain_says(file: Path) -> None:
    told = json.loads(within("check", "-c", str(file), "--json")[1])
    costs = {(c["table"], c["column"]): c["cost"] for c in told["columns"]}
    assert costs["people", "town"] == "1"
    assert costs["visits", "room"] == "1 and 1 call"
    assert costs["visits", "seconds"] == "top 10: 15.35 and 1 call; no LIMIT: up to 10 and 3 calls"
    assert costs["lives", "day"] == "1"
    assert costs["lives", "year"] == "top 10: 14.35; no LIMIT: up to 10"
    assert costs["rooms", "floor"] == "free"
    counted = "SELECT {0}, COUNT(DISTINCT person_id) AS n FROM {1} GROUP BY 1"
    top = counted + " ORDER BY 2 DESC LIMIT 10"
    queries = [
        counted.format("seconds", "visits"),
        top.format("seconds", "visits"),
        top.format("year", "lives"),
    ]
    queries += [
        counted.format("town", "people"),
        counted.format("room", "visits"),
        counted.format("day", "lives"),
    ]
    status, out, err = within(
        "explain", "-c", str(file), " UNION ALL ".join(f"SELECT n FROM ({q}) AS x" for q in queries)
    )
    assert status == 0, err
    assert re.findall(r"Cost: at most (.*)", out) == [
        "10 information units and 3 calls",
        "15.35 information units and 1 call",
        "14.35 information units and 0 calls",
        "1 information unit and 0 calls",
        "1 information unit and 1 call",
        "1 information unit and 0 calls",
    ]


@pytest.mark.service
def test_limits_that_the_ledger_has_otherwise(tmp_path: Path) -> None:
    file = make(tmp_path, POLICY + '[server]\nauth = "trust"\n[budget.dataset]\ninformation = 900\n')

    def drifted() -> list[str]:
        return [line for line in warned(file) if "the ledger" in line]

    assert drifted() == []
    assert not (tmp_path / ".dpproxy" / "ledger").exists()
    with serving(["serve", "-c", str(file), "--port", "0"]) as server:
        with server.connect("ann") as connection:
            connection.execute(COUNT.encode())
        assert drifted() == []
        assert within("budget", "set", "ann", "--calls", "7.5", "-c", str(file))[0] == 0
        file.write_text(file.read_text().replace("information = 900", "information = 800"))
        told = drifted()
        assert told == [
            "analyst:ann has its limits from the ledger: calls 7.5 (file: 30); dpproxy budget set ann --calls 30",
            "dataset has its limits from the ledger: information 900 (file: 800); "
            "dpproxy budget set dataset --information 800",
        ]
        for line in told:
            words = line.partition("dpproxy ")[2].split()
            assert within(*words, "-c", str(file))[0] == 0
        assert drifted() == []
        file.write_text(file.read_text().replace("[budget.dataset]\ninformation = 800\n", ""))
        (gone,) = drifted()
        assert gone.startswith("dataset is in the ledger, and the file no longer names it")
    assert drifted() == []
