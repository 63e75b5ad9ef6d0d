"""The scores of the three corpora: what analysts ask is classified, what others ask too, attacks end as they may."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pytest
import yaml

from tests.dpproxy.serving import Running, command, serving

pytestmark = pytest.mark.service

NOT_NULL_KEYS = {"users": "user_id", "articles": "article_id", "events": "event_id"}
OUTLIER = "Chief Privacy Officer"
VALUES: dict[str, tuple[object, ...]] = {"Y196": ("Engineer", datetime(2024, 3, 1))}
KNOWN_BY_POLICY = frozenset({"L065", "L085", "L087", "L088", "L089", "L092", "L094"})
"""Labelled unknown, but the policy gives the article or the date a domain, and it wins."""
JUSTIFIED = frozenset({"Y029 PV020 for PV018", "Y022 answered for PV018", "Y023 answered for PV018"})
"""Other codes than expected: the function among the groups is refused before the aggregate over them is looked at, and
MIN of a text is answered from the list of those that enough units have."""
SESSION = ("session", "constant", "public_exact")


@pytest.fixture(scope="module")
def corpora(shared: Path) -> Path:
    return shared / "corpora"


@dataclass
class Client:
    """An analyst in one session, as good as new for each statement: to open one takes longer than most statements."""

    server: Running
    session: psycopg.Connection | None = None

    def opened(self) -> psycopg.Connection:
        if self.session is None or self.session.closed:
            self.session = self.server.connect("ann", "red-pencil")
            self.session.prepare_threshold = None
        else:
            self.session.execute("ROLLBACK")
            self.session.execute("DISCARD ALL")
        return self.session


@pytest.fixture(scope="module")
def ann(corpora: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """An analyst of the corpora's data and policy, which are served by the command."""
    folder = tmp_path_factory.mktemp("corpora")
    subprocess.run([sys.executable, str(corpora / "make_data.py"), str(folder)], check=True, timeout=120)
    with duckdb.connect(folder / "data.duckdb") as connection:
        connection.execute((corpora / "schema.sql").read_text())
        for table in NOT_NULL_KEYS:
            connection.execute(
                f"INSERT INTO {table} SELECT * FROM read_csv('{folder / table}.csv', header = true)"
            )
    policy = (corpora / "dpproxy.toml").read_text()
    (folder / "dpproxy.toml").write_text('[backend]\nurl = "duckdb:///data.duckdb"\n' + policy)
    command("user", "add", "ann", "--password-stdin", folder=folder, entry="red-pencil\n")
    with serving(["serve", "-c", str(folder / "dpproxy.toml"), "--port", "0"], folder=folder) as running:
        client = Client(running)
        yield client
        if client.session is not None:
            client.session.close()


def entries(path: Path) -> list[dict[str, Any]]:
    return [e for e in yaml.safe_load(path.read_text()) if e.get("sql")]


def asked(client: Client, sql: str, values: tuple[object, ...] = ()) -> psycopg.Error | None:
    """The error that a client gets, None for an answer; rows are fetched to the end."""
    try:
        cursor: psycopg.Cursor[Any] = psycopg.RawCursor(client.opened())
        cursor.execute(sql.encode(), [*values] if values else None)
        if cursor.description is not None:
            cursor.fetchall()
    except psycopg.Error as error:
        return error
    return None


def plan(client: Client, sql: str) -> str:
    """What EXPLAIN says."""
    rows = client.opened().execute(f"EXPLAIN {sql}".encode()).fetchall()
    return "\n".join(str(line) for (line,) in rows)


def domain_differs(entry: dict[str, Any], explained: str) -> bool:
    """Whether a query is said to be about another kind of domain than its label, and the policy."""
    label = str(entry["mechanism"]).partition("_")[0]
    if label not in ("known", "unknown"):
        return False
    known = label == "known" or entry["id"] in KNOWN_BY_POLICY
    return ("unknown domain" in explained) == known


@pytest.fixture(scope="module")
def legit(ann: Client, corpora: Path) -> dict[str, list[str]]:
    """By tier, the legitimate queries that are refused or classified otherwise."""
    found: dict[str, list[str]] = {"1": [], "2": [], "all": []}
    for entry in entries(corpora / "legit.yaml"):
        found["all"].append(entry["id"])
        error = asked(ann, entry["sql"])
        if error is not None:
            found[str(entry["tier"])].append(f"{entry['id']} {error.sqlstate}")
        elif entry["mechanism"] not in SESSION and domain_differs(entry, plan(ann, entry["sql"])):
            found[str(entry["tier"])].append(f"{entry['id']} another class")
    return found


@pytest.fixture(scope="module")
def others(ann: Client, corpora: Path) -> tuple[int, list[str], list[str]]:
    """How many of others' queries are answerable, which of these are refused, which others end unexpectedly."""
    listed = entries(corpora / "queries-by-others.yaml")
    refused, differing = [], []
    for entry in listed:
        error = asked(ann, entry["sql"], VALUES.get(entry["id"], ()))
        state = "answered" if error is None else str(error.sqlstate)
        if entry["answerable"] == "yes" and error is not None:
            refused.append(f"{entry['id']} {state} for {entry['expected']}")
        elif entry["answerable"] == "no" and state != entry["expected"]:
            differing.append(f"{entry['id']} {state} for {entry['expected']}")
    return sum(e["answerable"] == "yes" for e in listed), refused, differing


@pytest.fixture(scope="module")
def attacks(ann: Client, corpora: Path) -> tuple[int, list[str]]:
    """How many attacks are statements, and which of them end as they must not, or with the outlier's own words."""
    listed = entries(corpora / "attacks.yaml")
    wrong = []
    for entry in listed:
        allowed, error = set(entry["allowed"]), asked(ann, entry["sql"])
        if error is not None and OUTLIER not in entry["sql"] and OUTLIER in str(error):
            wrong.append(f"{entry['id']} tells what is in a row")
        ended = "reject" if error is not None else "safe"
        if ended not in allowed and not (ended == "safe" and "charge" in allowed):
            state = error.sqlstate if error is not None else ""
            wrong.append(f"{entry['id']} {ended} {state}, allowed {sorted(allowed)}")
    return len(listed), wrong


def test_scores(
    legit: dict[str, list[str]],
    others: tuple[int, list[str], list[str]],
    attacks: tuple[int, list[str]],
) -> None:
    answerable, refused, differing = others
    number, wrong = attacks
    missed = len(legit["1"]) + len(legit["2"])
    print(f"\nlegitimate: {len(legit['all']) - missed} of {len(legit['all'])}; {legit['1']} {legit['2']}")
    print(f"others': {answerable - len(refused)} of {answerable} answerable; refused {refused}")
    print(f"others' that are not answerable, with another outcome: {differing}")
    print(f"attacks: {number - len(wrong)} of {number} end as they may; not {wrong}")
    assert not legit["1"]
    assert len(legit["2"]) <= 3
    assert len(refused) <= answerable * 0.05
    assert set(differing) <= JUSTIFIED
    assert not wrong
