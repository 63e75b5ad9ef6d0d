"""dpproxy.toml: defaults as documented, exact numbers, and a mistake named by file, key and nearest name."""

from __future__ import annotations

import datetime as dt
from fractions import Fraction
from pathlib import Path

import pytest

from dpproxy.config.sections import AccountLimit, Allowances, Config, ConfigError, load
from dpproxy.config.values import literal

SMALLEST = '[backend]\nurl = "duckdb:///data.duckdb"\n[tables]\n'


def loaded(folder: Path, text: str) -> Config:
    file = folder / "dpproxy.toml"
    file.write_text(text, encoding="utf-8")
    return load(file)


def refused(folder: Path, text: str) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        loaded(folder, text)
    assert caught.value.file == folder / "dpproxy.toml"
    assert str(caught.value).startswith(f"{folder / 'dpproxy.toml'}: ")
    assert "\n" not in str(caught.value)
    return caught.value


def test_the_defaults_are_the_documented_ones(tmp_path: Path) -> None:
    config = loaded(tmp_path, SMALLEST)
    sections = ("server", "front", "ledger", "privacy", "budget")
    assert {name: dict(getattr(config, name)) for name in sections} == {
        "server": {
            "host": "127.0.0.1",
            "port": 6432,
            "tls_cert": "",
            "tls_key": "",
            "tls_client_ca": "",
            "auth": "scram",
            "max_sessions": 200,
            "max_sessions_per_login": 50,
            "statement_timeout": dt.timedelta(minutes=5),
            "login_timeout": dt.timedelta(minutes=1),
            "idle_timeout": dt.timedelta(hours=8),
            "http": "",
            "log": "none",
            "error_columns": [],
        },
        "front": {
            "url": "",
            "data_dir": ".dpproxy/front",
            "public_rows": 1_000_000,
            "session_memory": "512MB",
        },
        "ledger": {"url": "", "data_dir": ".dpproxy/ledger"},
        "privacy": {
            "epsilon_per": Fraction(3, 20),
            "delta_per": Fraction(1, 10**10),
            "delta_prime": Fraction(1, 10**9),
            "noise": "gaussian",
            "mechanisms": "clipped",
            "d_bar": 1000,
            "max_k": 100,
            "epoch": "day",
            "key_file": ".dpproxy/key",
            "query_information": 50,
            "query_calls": 5,
            "usual_information": 10,
            "most_units_per_answer": 64,
            "usual_calls": 3,
            "allowances": Allowances(),
            "relative_error": Fraction(1, 10),
            "max_items_per_unit": 100,
            "least_weight": 0,
            "partition_selection": "sips",
            "quantile_bins": 1024,
            "min_units": 0,
            "nonnegative": False,
            "scans": "refuse",
            "timing": "plain",
            "tick": dt.timedelta(seconds=1),
        },
        "budget": {
            "information": 300,
            "calls": 30,
            "period": "month",
            "mode": "enforce",
            "max_cost": None,
            "price_first": {},
            "analysts": {},
            "teams": {},
            "dataset": None,
        },
    }
    backend = {
        "url": "duckdb:///data.duckdb",
        "password_file": "",
        "max_rows": 5_000_000,
        "memory": "4GB",
        "owner_writes": True,
    }
    assert dict(config.backend) == backend


def test_decimals_are_exact(tmp_path: Path) -> None:
    config = loaded(tmp_path, SMALLEST + "[privacy]\nepsilon_per = 0.1\ndelta_per = 1e-10\n")
    assert config.privacy.epsilon_per == Fraction(1, 10) != Fraction(0.1)
    assert config.privacy.delta_per == Fraction(1, 10**10)


def test_relative_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    config = loaded(tmp_path, SMALLEST)
    assert config.path(config.privacy.key_file) == tmp_path / ".dpproxy/key"
    assert config.path("/etc/key") == Path("/etc/key")


BUDGETS = """
[budget]
information = 10
mode = "track"
[budget.analysts.alice]
information = 2.5
period = "day"
[budget.teams.acme]
members = ["alice", "bob"]
calls = 60
[budget.dataset]
information = 3000
mode = "enforce"
"""


def test_the_chain_is_the_analyst_their_teams_and_the_dataset(tmp_path: Path) -> None:
    budget = loaded(tmp_path, SMALLEST + BUDGETS).budget
    dataset = AccountLimit("dataset", Fraction(3000), Fraction(30), "month", "enforce")
    team = AccountLimit("team:acme", Fraction(10), Fraction(60), "month", "track")
    alice = AccountLimit("analyst:alice", Fraction(5, 2), Fraction(30), "day", "track")
    assert budget.chain("alice") == (alice, team, dataset)
    carol = AccountLimit("analyst:carol", Fraction(10), Fraction(30), "month", "track")
    assert budget.chain("carol") == (carol, dataset)


MISTAKES = [
    ("[server]\nprot = 1", "server.prot", "port"),
    ("[privcy]\nd_bar = 1", "privcy", "privacy"),
    ("[budget.datset]\ncalls = 1", "budget.datset", "dataset"),
    ("[budget.dataset]\ninformtion = 1", "budget.dataset.informtion", "information"),
    ("[budget.teams.a]\nmember = []", "budget.teams.a.member", "members"),
    ("[budget.analysts.a]\ncals = 1", "budget.analysts.a.cals", "calls"),
    ("[tables.t]\npubic = true", "tables.t.pubic", "public"),
    ("[tables.t.columns]\nc = { domian = [1] }", "tables.t.columns.c.domian", "domain"),
    ("[server]\nport = 70000", "server.port", None),
    ('[privacy]\ntiming = "padded"\n[budget.analysts.a]\npublish = true', "", None),
    ('[privacy]\ntick = "0s"', "privacy.tick", None),
    ('[server]\nport = "6432"', "server.port", None),
    ("[server]\nmax_sessions = true", "server.max_sessions", None),
    ('[front]\nsession_memory = "much"', "front.session_memory", None),
    ('[front]\nsession_memory = "127MB"', "front.session_memory", None),
    ('[server]\nstatement_timeout = "5 minutes"', "server.statement_timeout", None),
    ('[server]\nstatement_timeout = "0s"', "server.statement_timeout", None),
    ('[server]\nhost = "0.0.0.0"', "server", None),
    ('[server]\ntls_cert = "a.pem"', "server", None),
    ('[server]\ntls_client_ca = "ca.pem"', "server", None),
    ('[server]\ntls_cert="a"\ntls_key="b"\ntls_client_ca="c"\nauth="trust"', "server", None),
    ('[server]\nidle_timeout = "0s"', "server.idle_timeout", None),
    ('[server]\nhost = "10.0.0.1"\ntls_cert = "a"\ntls_key = "b"\nauth = "trust"', "server", None),
    ('[server]\nhttp = "0.0.0.0:6480"', "server", None),
    ('[server]\nhttp = "6480"', "server", None),
    ('[server]\nhttp = "127.0.0.1:99999"', "server", None),
    ('[server]\nlog = "text"', "server.log", None),
    ("[privacy]\nepsilon_per = 0", "privacy.epsilon_per", None),
    ("[privacy]\nepsilon_per = '0.15'", "privacy.epsilon_per", None),
    ("[privacy]\ndelta_per = 1", "privacy.delta_per", None),
    ('[privacy]\nnoise = "uniform"', "privacy.noise", None),
    ("[budget]\ninformation = -1", "budget.information", None),
    ("[budget]\ncalls = nan", "budget.calls", None),
    ("[budget]\ncalls = 1e999999999", "budget.calls", None),
    ('[budget]\nperiod = "year"', "budget.period", None),
    ('[budget.teams.a]\nmembers = ["x", "x"]', "budget.teams.a", None),
    ("[budget]\ncalls = 1\ncalls = 2", "", None),
    ("file = 1", "tables.file", None),
    ("[tables.t.columns]\nc = { bounds = [2, 1] }", "tables.t.columns.c", None),
    ("[tables.t.columns]\nc = { bounds = [1] }", "tables.t.columns.c.bounds", None),
    ("[tables.t.columns]\nc = { bounds = [0, 1], unit_bounds = [0, 1] }", "tables.t.columns.c", None),
    ("[tables.t.columns]\nc = { bounds = [0, 1], scale = -1 }", "tables.t.columns.c.scale", None),
    ("[tables.t.columns]\nc = { bounds = [0, 1], magnitude = 1 }", "tables.t.columns.c", None),
    ("[tables.t.columns]\nc = { magnitude = 0 }", "tables.t.columns.c.magnitude", None),
    ("[tables.t.columns]\nc = { domain = [1], range = [1, 2] }", "tables.t.columns.c", None),
    ("[tables.t.columns]\nc = { hidden = true, domain = [1] }", "tables.t.columns.c", None),
    ("[tables.t]\nmax_rows_per_unit = 0", "tables.t.max_rows_per_unit", None),
    ("[budget]\ninformation = nan", "budget.information", None),
    ("[budget]\ncalls = -inf", "budget.calls", None),
    ("[budget]\ninformation = 1e999", "budget.information", None),
    ('[server]\nport = 6480\nhttp = "127.0.0.1:6480"', "server", None),
]


@pytest.mark.parametrize(("text", "key", "nearest"), MISTAKES)
def test_a_mistake_is_named(tmp_path: Path, text: str, key: str, nearest: str | None) -> None:
    error = refused(tmp_path, SMALLEST + text + "\n")
    assert (error.key, error.nearest) == (key, nearest)


def test_a_number_is_named_in_few_letters(tmp_path: Path) -> None:
    message = refused(tmp_path, SMALLEST + "[budget]\ninformation = 1e400\n").message
    assert message == "must be at most 1.15292e+12, not 1.00000e+400"


def test_sections_that_must_be_there(tmp_path: Path) -> None:
    assert refused(tmp_path, "[tables]\n").key == "backend"
    assert refused(tmp_path, '[backend]\nurl = "x"\n').key == "tables"
    assert refused(tmp_path, "file = 1\n" + SMALLEST).key == "file"


def test_a_file_that_is_not_there_or_no_toml(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file; `dpproxy init`"):
        load(tmp_path / "none.toml")
    assert "line 1" in refused(tmp_path, "= 1").message
    (tmp_path / "bytes.toml").write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="utf-8"):
        load(tmp_path / "bytes.toml")


def test_warnings_name_what_may_not_be_meant(tmp_path: Path) -> None:
    assert loaded(tmp_path, SMALLEST).warnings() == ()
    trusting = loaded(tmp_path, SMALLEST + '[server]\nauth = "trust"\n[budget]\nmode = "track"\n').warnings()
    assert len(trusting) == 2
    assert "budget.dataset" in trusting[0]
    assert "no guarantee" in trusting[1]


def test_the_fingerprint_is_of_tables_and_columns(tmp_path: Path) -> None:
    table = '[tables.t]\nprivacy_unit = "u"\n[tables.t.columns]\nc = { domain = ["1"] }\n'
    first = loaded(tmp_path, SMALLEST + table).fingerprint()
    assert loaded(tmp_path, SMALLEST + table + "[budget]\ncalls = 1\n").fingerprint() == first
    written_out = table.replace('"u"\n', '"u"\npublic = false\nunique = []\n')
    assert loaded(tmp_path, SMALLEST + written_out).fingerprint() == first
    sized = table.replace('["1"]', '["1"], magnitude = 7')
    for other in (
        sized,
        table.replace('["1"]', "[1]"),
        table.replace('"u"', '"v"'),
        table.replace("c =", "d ="),
    ):
        assert loaded(tmp_path, SMALLEST + other).fingerprint() != first
    alike = [
        table.replace('["1"]', other) for other in ("[0.5]", '["1/2"]', "[2024-01-01]", '["2024-01-01"]')
    ]
    assert len({loaded(tmp_path, SMALLEST + one).fingerprint() for one in alike}) == 4


@pytest.mark.parametrize(
    ("value", "kind", "written"),
    [
        ("x", "text", "x"),
        ("日本", "character varying(2)", "日本"),
        ("x", "character varying", "x"),
        (True, "boolean", "true"),
        (-(2**63), "bigint", "-9223372036854775808"),
        (Fraction(5), "numeric", "5"),
        (Fraction(1, 8), "numeric", "0.125"),
        (Fraction(-1, 2), "numeric(5,3)", "-0.500"),
        (Fraction(1, 10), "double precision", "0.1"),
        (100, "double precision", "100"),
        (Fraction(1, 10), "real", "0.1"),
        ("2024-02-29", "date", "2024-02-29"),
        (dt.date(2024, 1, 2), "date", "2024-01-02"),
        ("2024-01-01", "timestamp without time zone", "2024-01-01 00:00:00"),
        ("2024-01-01T10:00:00.250", "timestamp without time zone", "2024-01-01 10:00:00.25"),
        ("2024-01-01 10:00+02:00", "timestamp with time zone", "2024-01-01 08:00:00+00"),
        (dt.time(1, 2), "time without time zone", "01:02:00"),
        ("{A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11}", "uuid", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
    ],
)
def test_literals_are_written_as_postgresql_prints_them(value: object, kind: str, written: str) -> None:
    assert literal(value, kind) == written


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (1, "text"),
        ("a\0b", "text"),
        ("DEU", "character varying(2)"),
        (1, "boolean"),
        (True, "integer"),
        (2**31, "integer"),
        (Fraction(1, 2), "integer"),
        ("1", "integer"),
        (Fraction(1, 1000), "numeric(9,2)"),
        (10**7, "numeric(9,2)"),
        ("2024-02-30", "date"),
        (dt.datetime(2024, 1, 1), "date"),
        ("2024-01-01T00:00+00:00", "timestamp without time zone"),
        ("x", "uuid"),
        ("x", "bytea"),
    ],
)
def test_a_value_that_its_type_cannot_hold(value: object, kind: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        literal(value, kind)


def test_an_analyst_may_have_another_brake_or_none(tmp_path: Path) -> None:
    file = tmp_path / "dpproxy.toml"
    file.write_text(
        "[backend]\nurl = 'duckdb:///x'\n[tables]\n[budget]\nmax_cost = 25\nprice_first = { psql = 2.5 }\n"
        "[budget.analysts.ann]\nmax_cost = 40\n[budget.analysts.bob]\nmax_cost = 'off'\n[budget.analysts.eve]\n"
    )
    budget = load(file).budget
    assert [budget.most_of_statement(name) for name in ("ann", "bob", "eve", "you")] == [40, None, 25, 25]
    assert budget.price_first == {"psql": Fraction(5, 2)}
    for wrong in ("max_cost = 0", "max_cost = 'much'", "price_first = { psql = -1 }", "price_first = 5"):
        file.write_text(f"[backend]\nurl = 'duckdb:///x'\n[tables]\n[budget]\n{wrong}\n")
        with pytest.raises(ConfigError) as found:
            load(file)
        assert found.value.key.startswith(f"budget.{wrong.split()[0]}")


def test_an_analyst_may_have_another_precision(tmp_path: Path) -> None:
    file = tmp_path / "dpproxy.toml"
    head = "[backend]\nurl = 'duckdb:///x'\n[tables]\n"
    file.write_text(
        f"{head}[budget.analysts.ann]\nunits = 4\n[budget.analysts.bob]\nerror = '5%'\nmost_units = 8\nreuse = 'off'\n"
    )
    budget = load(file).budget
    assert budget.precision("ann") == {"dpproxy.units": "4"}
    assert budget.precision("bob") == {
        "dpproxy.error": "5%",
        "dpproxy.most_units": "8",
        "dpproxy.reuse": "off",
    }
    assert not budget.precision("eve")
    for privacy, wrong in (
        ("", "units = 3"),
        ("", "error = '60%'"),
        ("", "error = true"),
        ("most_units_per_answer = 2", "units = 4"),
        ("noise = 'laplace'", "error = '5%'"),
    ):
        file.write_text(f"{head}[privacy]\n{privacy}\n[budget.analysts.ann]\n{wrong}\n")
        with pytest.raises(ConfigError, match="ann"):
            load(file)


@pytest.mark.parametrize("url", ["duckdb:///x", "sc://host:15002", "postgresql://reader:secret@host/x"])
def test_a_password_file_that_is_not_needed(tmp_path: Path, url: str) -> None:
    file = tmp_path / "dpproxy.toml"
    file.write_text(f"[backend]\nurl = '{url}'\npassword_file = 'p'\n[tables]\n")
    with pytest.raises(ConfigError, match=r"backend.*password") as caught:
        load(file)
    assert "secret" not in str(caught.value)
