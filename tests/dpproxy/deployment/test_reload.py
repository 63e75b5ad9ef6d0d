"""Another policy in place: what is bought under it, what the front shows, and what changes nothing."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import duckdb
import psycopg
import pytest

from budget.account import Limit, LimitTooLow
from budget.units import MICRO
from dpproxy.config.sections import ConfigError
from dpproxy.deployment.service import Service, configured, stamp_of, stamp_path
from dpproxy.engine.refusals import PolicyReloaded
from dpproxy.engine.request import QueryRequest
from dpproxy.front import front
from dpproxy.front.front import FrontError
from rewriter.refusal import Refusal
from tests.dpproxy.engine.test_executor import Analyst
from tests.dpproxy.serving import POLICY, make, within

pytestmark = pytest.mark.service

BEFORE = (
    POLICY
    + """
[tables.halls]
public = true
[tables.desks]
public = true
[budget]
information = 20
"""
)
AFTER = (
    BEFORE.replace('"Jena"]', '"Jena", "Gera"]')
    + """
[tables.halls.columns]
name = { hidden = true }
[tables.shifts]
privacy_unit = "person_id"
"""
)
PEOPLE = "SELECT COUNT(*) FROM people WHERE person_id > {}"
TOWNS = "SELECT town, COUNT(*) FROM people WHERE person_id > {} GROUP BY 1 ORDER BY 1"
CATALOG = """
SELECT 'column', c.oid::regclass::text, a.attname || ' ' || format_type(a.atttypid, a.atttypmod), a.attnotnull::text,
    col_description(c.oid, a.attnum), c.relacl::text
FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE c.relkind = 'r' AND c.relnamespace::regnamespace::text IN ('public', 'dpproxy')
UNION ALL SELECT 'key', conrelid::regclass::text, pg_get_constraintdef(oid), convalidated::text, NULL, NULL
FROM pg_constraint WHERE connamespace = 'public'::regnamespace
UNION ALL SELECT 'guard', polrelid::regclass::text, pg_get_expr(polqual, polrelid), NULL, NULL, NULL FROM pg_policy
UNION ALL SELECT 'row', 'halls', h::text, NULL, NULL, NULL FROM halls AS h
UNION ALL SELECT 'row', 'desks', d::text, NULL, NULL, NULL FROM desks AS d
UNION ALL SELECT 'word', table_name, k::text, NULL, NULL, NULL FROM dpproxy.columns AS k
ORDER BY 1, 2, 3
"""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("reloaded")
    file = make(folder, BEFORE)
    with duckdb.connect(folder / "people.duckdb") as connection:
        connection.execute("CREATE TABLE shifts AS SELECT i AS person_id, i % 3 AS kind FROM range(900) r(i)")
        connection.execute("CREATE TABLE halls (hall INTEGER PRIMARY KEY, name VARCHAR NOT NULL)")
        connection.execute("CREATE TABLE desks (desk INTEGER PRIMARY KEY, hall INTEGER REFERENCES halls)")
        connection.execute("INSERT INTO halls VALUES (1, 'north'), (2, 'south')")
        connection.execute("INSERT INTO desks VALUES (1, 1), (2, 2), (3, 2)")
    with Service.start(configured(file), alone=True) as running:
        yield running


@pytest.fixture(autouse=True)
def restored(service: Service) -> Iterator[None]:
    yield
    reload(service, BEFORE)


def reload(service: Service, text: str) -> None:
    service.config.file.write_text(text)
    service.reload(configured(service.config.file))


def admin(service: Service) -> psycopg.Connection:
    return service.front._open_admin()


def test_only_what_has_changed_is_bought_again(service: Service) -> None:
    ann = Analyst(service, "ann")
    before = [ann.ask(sql.format(1)) for sql in (PEOPLE, TOWNS)]
    assert ann.used() == (2, 0)
    reload(service, AFTER)
    assert ann.ask(PEOPLE.format(1)) == before[0]
    assert ann.used() == (2, 0)
    assert [town for town, _ in ann.ask(TOWNS.format(1))] == ["Bonn", "Gera", "Jena", "Ulm"]
    assert ann.used() == (3, 0)
    assert ann.ask("SELECT COUNT(*) FROM shifts")
    reload(service, BEFORE)
    assert [ann.ask(sql.format(1)) for sql in (PEOPLE, TOWNS)] == before
    assert ann.used() == (4, 0)
    with pytest.raises(Refusal, match="shifts"):
        ann.ask("SELECT COUNT(*) FROM shifts")


def test_the_front_is_what_a_new_clone_would_be(service: Service) -> None:
    with admin(service) as connection:
        connection.execute("SET search_path = public")
        first = connection.execute(CATALOG).fetchall()
        reload(service, AFTER)
        changed = connection.execute(CATALOG).fetchall()
        assert changed != first
        connection.execute("COMMENT ON SCHEMA dpproxy IS 'another'")
        service.front.clone(service.checked.policy, service.checked.schema)
        service._load_public()
        assert connection.execute(CATALOG).fetchall() == changed
        reload(service, BEFORE)
        assert connection.execute(CATALOG).fetchall() == first
    assert stamp_path(service.config).read_text() == stamp_of(service.config)


def test_rows_that_a_new_filter_leaves_out_are_gone(service: Service) -> None:
    reload(service, BEFORE.replace("[tables.halls]\n", '[tables.halls]\nwhere = "hall = 1"\n'))
    with admin(service) as connection:
        assert connection.execute("SELECT * FROM public.halls").fetchall() == [(1, "north")]


def test_no_epoch_begins_amid_a_reload(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would read public rows as the old policy shows them."""
    amid: list[bool] = []
    monkeypatch.setattr(service, "_load_public", lambda: amid.append(service._reloading.locked()))
    with service._reloading:
        beginning = threading.Thread(target=service._begin_epoch, args=("",))
        beginning.start()
        beginning.join(0.2)
        assert beginning.is_alive()
    beginning.join()
    assert amid == [True]


def test_what_was_planned_under_the_old_policy_is_neither_charged_nor_answered(service: Service) -> None:
    ann, old = Analyst(service, "bob"), service.answering
    asked = QueryRequest(PEOPLE.format(2), (), "bob", (), {})
    planned = old.prepare(asked.text, ())
    reload(service, AFTER)
    with pytest.raises(PolicyReloaded) as refused:
        old.execute(asked)
    assert (refused.value.code, refused.value.shown) == ("40001", False)
    assert ann.used() == (0, 0)
    with pytest.raises(PolicyReloaded) as told:
        service.answering.execute(replace(asked, planned=replace(planned, presentation="SELECT 1")))
    assert told.value.shown
    assert ann.used() == (0, 0)
    service.answering.execute(replace(asked, planned=planned))
    assert ann.used() == (1, 0)
    # A replay buys nothing, so that it is the same under each policy that has its key.
    old.execute(asked)
    assert ann.used() == (1, 0)


def test_a_table_in_use_keeps_the_old_policy(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(front, "_CHANGE_SECONDS", 0)
    ann, generation = Analyst(service, "cem"), service.generation
    with admin(service) as connection, connection.transaction():
        connection.execute("SELECT * FROM public.halls")
        with pytest.raises(FrontError, match="try again"):
            reload(service, AFTER)
        assert service.generation == generation
        ann.ask(PEOPLE.format(3))
        reload(service, BEFORE.replace("information = 20", "information = 21"))
    assert service.ledger.accounts.limit("analyst:cem").information == 21 * MICRO, "it needs no table"
    reload(service, AFTER)


def test_no_analyst_keeps_the_old_policy(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(front, "_CHANGE_SECONDS", 0.5)
    role, password = service.front.role_for("fay")
    host = str(service.front.address.parent)  # type: ignore[union-attr]

    def session() -> psycopg.Connection:
        return psycopg.connect(host=host, user=role, password=password, dbname=service.front.database)

    with session() as holding, session() as other:
        holding.execute("SELECT * FROM public.halls")
        other.execute("SELECT 1")
        reload(service, AFTER)
        other.execute("SELECT 1")
        with pytest.raises(psycopg.errors.AdminShutdown):
            holding.execute("SELECT 1")


def test_no_analysts_who_take_turns_keep_the_old_policy(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(front, "_CHANGE_SECONDS", 1)
    role, password = service.front.role_for("fay")
    host = str(service.front.address.parent)  # type: ignore[union-attr]
    done = threading.Event()

    def hold(late: float) -> None:
        done.wait(late)
        while not done.is_set():
            with (
                suppress(psycopg.OperationalError),
                psycopg.connect(
                    host=host, user=role, password=password, dbname=service.front.database
                ) as session,
            ):
                session.execute("SELECT * FROM public.halls")
                # None lasts as long as a change waits.
                done.wait(0.9)

    holding = [threading.Thread(target=hold, args=(number * 0.15,)) for number in range(6)]
    for thread in holding:
        thread.start()
    try:
        time.sleep(0.5)
        reload(service, AFTER)
    finally:
        done.set()
        for thread in holding:
            thread.join()


def test_limits_of_the_file_are_applied_where_it_has_changed_them(service: Service) -> None:
    accounts = service.ledger.accounts
    for name in ("dan", "eve"):
        Analyst(service, name).ask(PEOPLE.format(4))
    mine = Limit(33 * MICRO, 0, "month")
    accounts.set_limit("analyst:eve", mine)
    reload(service, BEFORE + "[budget.analysts.dan]\ncalls = 7\n")
    assert accounts.limit("analyst:dan").calls == 7 * MICRO
    assert accounts.limit("analyst:eve") == mine, "the ledger's own limit stays"
    with pytest.raises(LimitTooLow, match="analyst:dan"):
        reload(service, AFTER + "[budget.analysts.dan]\ninformation = 0\n")
    assert accounts.limit("analyst:dan").calls == 7 * MICRO
    assert ("public", "shifts") not in service.checked.policy.tables
    Analyst(service, "dan").ask(PEOPLE.format(5))


def test_a_second_person_raises_limits(service: Service) -> None:
    file, accounts = service.config.file, service.ledger.accounts
    here = ("-c", str(file))
    approve = ("budget", "approve", *here, "--password-stdin")
    raised = BEFORE + "[budget.analysts.fay]\ninformation = 10000\n"
    Analyst(service, "gus").ask(PEOPLE.format(6))
    mine = accounts.limit("analyst:gus")
    # Not before the ledger is as the file says.
    accounts.set_limit("analyst:gus", replace(mine, information=mine.information + 1))
    assert "has more than the file says" in within(*approve, entry="four eyes see more\n")[2]
    accounts.set_limits({row.account: mine for row in accounts.all()})
    assert within(*approve, entry="short\n")[0] == 1
    assert within(*approve, entry="four eyes see more\n")[0] == 0
    with pytest.raises(ConfigError, match=r"analyst:fay: 10000 information, .* dpproxy budget approve"):
        reload(service, raised)
    # No command makes an account by a file that waits, nor raises what the ledger has.
    assert "dpproxy budget approve" in within("budget", "show", "fay", *here)[2]
    file.write_text(BEFORE)
    most = ("--information", f"{mine.information // MICRO + 1}")
    assert "second person" in within("budget", "set", "gus", *most, *here)[2]
    assert "second person" in within("budget", "set", "gus", "--mode", "track", *here)[2]
    assert accounts.limit("analyst:gus") == mine
    for lower in ("15", f"{mine.information // MICRO}"):
        assert within("budget", "set", "gus", "--information", lower, *here)[0] == 0
    # Both see what is raised, and one of them knows the password.
    file.write_text(raised)
    status, _, said = within(*approve, entry="the owner's own\n")
    assert (status, "analyst:fay: 10000 information" in said) == (1, True)
    with pytest.raises(ConfigError):
        reload(service, raised)
    assert within(*approve, entry="four eyes see more\n")[0] == 0
    reload(service, raised)
    assert within(*approve, "--stop", entry="the owner's own\n")[0] == 1
    assert within(*approve, "--stop", entry="four eyes see more\n")[0] == 0
    reload(service, raised.replace("10000", "20000"))
    told = json.loads(within("budget", "approvals", *here, "--json")[1])
    assert [one["limits"] is None for one in told] == [False, False, True]
    assert "four eyes" not in json.dumps(told)
    assert "one person is enough" in within("budget", "approvals", *here)[1]


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ("[backend]\n", "[backend]\nmax_rows = 7\n", "backend.max_rows"),
        ("[budget]\n", "[privacy]\nepsilon_per = 0.2\n[budget]\n", "privacy.epsilon_per"),
        ("[budget]\n", "[server]\nport = 1\n[budget]\n", "server.port"),
        ("[budget]\n", '[ledger]\ndata_dir = "other"\n[budget]\n', "ledger.data_dir"),
        ('"person_id"]', '"person"]', "tables.people.unique"),
    ],
)
def test_what_only_a_restart_changes_is_named(service: Service, old: str, new: str, key: str) -> None:
    """So is a mistake."""
    generation = service.generation
    assert old in BEFORE
    with pytest.raises(ConfigError) as refused:
        reload(service, BEFORE.replace(old, new))
    assert key in refused.value.key
    assert service.generation == generation
    assert service.ledger.generations.bought_under(generation.deployment) == generation


def test_another_privacy_unit_needs_a_restart(service: Service) -> None:
    visits = '[tables.visits]\nprivacy_unit = "person_id"\n'
    for other, why in (
        (visits.replace("person_id", "room"), "privacy unit"),
        ('[tables.visits]\nprivacy_unit_path = ["person_id -> people.person_id"]\n', "privacy unit"),
    ):
        with pytest.raises(ConfigError, match=why):
            reload(service, BEFORE.replace(visits, other))


def test_a_certificate_that_cannot_be_read_changes_nothing(service: Service, tmp_path: Path) -> None:
    generation = service.generation
    with pytest.raises(Exception, match=r"tls_cert .*none cannot be read"):
        reload(service, AFTER + '[server]\ntls_cert = "none"\ntls_key = "none"\n')
    assert service.generation == generation
