"""A tool's login, a pool of connections and the analysts behind it, over a whole service."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy
from sqlalchemy import event, text

from dpproxy.config.sections import ConfigError, load
from dpproxy.server.impersonation import Identity
from tests.dpproxy.serving import COUNT, POLICY, Running, command, make, serving

pytestmark = pytest.mark.service

IDENTITY = """
[budget.dataset]
information = 3000
calls = 300
[budget.analysts.poor]
information = 0.5
[identity.services.bi]
analysts = ["ann", "bob", "poor", "guest_*"]
"""
Rows = list[tuple[Any, ...]]
UNITS = "SELECT used FROM dpproxy.budget WHERE unit = 'information'"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("identity")
    make(folder, POLICY + IDENTITY)
    for name in ("bi", "carl"):
        assert (
            command("user", "add", name, "--password-stdin", folder=folder, entry="red-pencil\n").returncode
            == 0
        )
    return folder


@pytest.fixture(scope="module")
def served(folder: Path) -> Iterator[Running]:
    with serving(["serve", "-c", str(folder / "dpproxy.toml"), "--port", "0"], folder=folder) as running:
        yield running


def test_nobody_is_the_owner(folder: Path) -> None:
    """Whose account pays for what the owner's commands publish and look up."""
    assert not Identity({"bi": ["*"]}).may("bi", "owner")
    added = command("user", "add", "owner", "--password-stdin", folder=folder, entry="red-pencil\n")
    assert (added.returncode, added.stdout) == (1, "")
    assert "kept for the commands of the data owner" in added.stderr
    (folder / "named.toml").write_text(POLICY + IDENTITY.replace('"ann", ', '"owner", '))
    with pytest.raises(ConfigError, match="kept for the commands of the data owner"):
        load(folder / "named.toml")


def pooled(served: Running, size: int) -> sqlalchemy.Engine:
    """A pool of the service's connections, each cleaned by DISCARD ALL when it goes back."""
    engine = sqlalchemy.create_engine(
        f"postgresql+psycopg://bi:red-pencil@127.0.0.1:{served.port}/dpproxy?sslmode=require",
        pool_size=size,
        max_overflow=0,
        pool_reset_on_return=None,
        isolation_level="AUTOCOMMIT",
        connect_args={"prepare_threshold": None},
    )

    @event.listens_for(engine, "reset")
    def clean(connection: psycopg.Connection, *_: object) -> None:
        connection.rollback()
        connection.execute("DISCARD ALL")

    return engine


def pid_of(connection: sqlalchemy.Connection) -> int:
    """The server's process behind a connection of the pool."""
    return int(connection.execute(text("SELECT pg_backend_pid()")).scalar_one())


def ask(engine: sqlalchemy.Engine, analyst: str | None, *statements: str) -> tuple[int, list[Rows]]:
    """Which connection of the pool was used, and what the statements gave."""
    with engine.connect() as connection:
        if analyst is not None:
            connection.execute(text(f'SET ROLE "{analyst}"'))
        pid = pid_of(connection)
        results = [connection.execute(text(one)) for one in statements]
        rows = [[tuple(row) for row in one] if one.returns_rows else [] for one in results]
    return pid, rows


def test_two_analysts_two_accounts_one_pool(served: Running) -> None:
    """Two connections at work at once, and each serves either analyst in turn."""
    engine = pooled(served, 2)
    users: dict[int, set[str]] = {}
    for turn in range(4):
        with engine.connect() as one, engine.connect() as other:
            pair = sorted((pid_of(c), c) for c in (one, other))
            roles = ("ann", "bob") if turn % 2 else ("bob", "ann")
            for (pid, connection), role in zip(pair, roles, strict=True):
                connection.execute(text(f"SET ROLE {role}"))
                users.setdefault(pid, set()).add(role)
            for number in range(1, 4):
                for (_, connection), role in zip(pair, roles, strict=True):
                    if role == "ann" or number == 1:
                        connection.execute(
                            text(f"SELECT COUNT(*) FROM people WHERE person_id < {number * 100}")
                        )
    assert [*users.values()] == [{"ann", "bob"}] * 2
    spent = {name: ask(engine, name, UNITS)[1][0] for name in ("ann", "bob")}
    assert spent == {"ann": [(3,)], "bob": [(1,)]}
    assert ask(engine, None, UNITS)[1] == [[(0,)]]
    engine.dispose()


def test_nothing_of_an_account_leaks_to_the_next_user_of_a_connection(served: Running) -> None:
    engine = pooled(served, 1)
    question = "SELECT COUNT(*) FROM visits"
    first, _ = ask(engine, "guest_1", question, f"PREPARE mine AS {COUNT}")
    with engine.connect() as connection:
        connection.execute(text("SET ROLE guest_1"))
        connection.execute(text(f"DECLARE held CURSOR WITH HOLD FOR {COUNT}"))
        connection.execute(text("SET dpproxy.spend = 'cheap'"))
    second, rows = ask(
        engine,
        None,
        "SELECT current_user, session_user",
        "SELECT mechanism FROM dpproxy.last_release",
        "SELECT name FROM pg_cursors WHERE name = 'held'",
        "SELECT name FROM pg_prepared_statements WHERE name = 'mine'",
        "SELECT current_setting('dpproxy.spend', true)",
        "SELECT query FROM dpproxy.releases WHERE query LIKE '%visits%'",
    )
    assert first == second
    assert rows[0] == [("bi", "bi")]
    assert [one for one in rows[1:4] if one] == []
    assert rows[4] in ([("",)], [(None,)])
    assert rows[5] == []
    _, told = ask(engine, "guest_1", "SELECT count(*) FROM (SELECT * FROM dpproxy.releases) r")
    assert told == [[(2,)]]
    engine.dispose()


def test_a_connection_that_is_not_cleaned_charges_whoever_asks(served: Running) -> None:
    with served.connect("bi", "red-pencil") as connection:
        question = b"SELECT COUNT(*) FROM people WHERE person_id < 250"
        connection.execute("SET ROLE guest_2")
        connection.execute(question, prepare=True)
        connection.execute("SET ROLE guest_3")
        connection.execute(question, prepare=True)
        assert connection.execute("SELECT account FROM dpproxy.budget LIMIT 1").fetchone() == (
            "analyst:guest_3",
        )
        for guest in ("guest_2", "guest_3"):
            connection.execute(f"SET ROLE {guest}".encode())
            assert connection.execute(UNITS.encode()).fetchone() == (1,)
            replayed = connection.execute("SELECT replayed FROM dpproxy.releases").fetchall()
            assert replayed == [(guest == "guest_3",)], "the same answer, paid for by each"


def test_errors_follow_the_role(served: Running) -> None:
    with served.connect("bi", "red-pencil") as connection:
        connection.execute("SET ROLE poor")
        with pytest.raises(psycopg.Error, match=r"0\.5 information units and 30 calls left") as caught:
            connection.execute(COUNT.encode())
        assert caught.value.sqlstate == "PV001"
        connection.execute("SET ROLE ann")
        assert len(connection.execute(COUNT.encode()).fetchall()) == 3


@pytest.mark.parametrize(
    ("login", "role"), [("bi", "carl"), ("bi", "nobody"), ("carl", "ann"), ("carl", "nobody")]
)
def test_who_may_not_be_acted_for(served: Running, login: str, role: str) -> None:
    with served.connect(login, "red-pencil") as connection:
        with pytest.raises(psycopg.errors.InsufficientPrivilege) as caught:
            connection.execute(f"SET ROLE {role}".encode())
        assert caught.value.diag.message_hint


def test_attributions_are_in_the_services_history(served: Running, folder: Path) -> None:
    question = "SELECT COUNT(*) FROM people WHERE town = 'Ulm'"
    remarks = (
        "-- Metabase:: userID: 7 queryType: MBQL queryHash: ab\n",
        "/* Username: ann@x.org, query_id: 3 */ ",
        "-- [SQL LAB] eve 2024-05-01T10:00:00\n",
        "",
    )
    with served.connect("bi", "red-pencil") as connection:
        for remark in remarks:
            connection.execute((remark + question).encode())
        found = connection.execute("SELECT attributed, replayed FROM dpproxy.releases ORDER BY at").fetchall()
    assert found[-4:] == [
        ("metabase:7", False),
        ("redash:ann@x.org", True),
        ("superset:eve", True),
        ("", True),
    ]
    told = command("budget", "history", "bi", "-c", "dpproxy.toml", folder=folder)
    assert "metabase:7" in told.stdout


def test_accounts_on_demand_need_a_cap(tmp_path: Path) -> None:
    file = make(tmp_path, POLICY + IDENTITY.replace("[budget.dataset]", '[budget.dataset]\nmode = "track"'))
    with pytest.raises(ConfigError, match=r'"guest_\*" lets accounts appear .* set \[budget.dataset\]'):
        load(file)
    file.write_text(POLICY + '[identity.services.bi]\nanalysts = ["ann", "bob"]\n')
    (warning,) = load(file).warnings()
    assert 'who holds the password of "bi" holds the budgets of 2 analysts' in warning


@pytest.mark.parametrize("name", ["pg_x", "none", "", "x" * 64, "a\nb"])
def test_names_that_no_analyst_can_have(tmp_path: Path, name: str) -> None:
    file = make(tmp_path, POLICY)
    written = name.replace("\n", "\\n")
    file.write_text(POLICY + f'[identity.services.bi]\nanalysts = ["{written}"]\n')
    with pytest.raises(ConfigError, match="cannot be the name of an analyst"):
        load(file)
