"""The client for Python users: what it says of answers, what it refuses, its page and its wheel."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date, timedelta
from decimal import Decimal
from importlib.util import find_spec
from pathlib import Path

import psycopg
import pytest

import dpproxy_client
from dpproxy import __version__
from dpproxy.embedded.server import Embedded
from dpproxy_client import NOTHING, SHOWN, Client, Column, Cost, Refused, TooExpensive, priced
from tests.clients.data import COUNTRIES, TOLERANCE, USERS
from tests.clients.world import ROOT, World

BY_COUNTRY = "SELECT country, COUNT(*) AS n FROM app.users GROUP BY country ORDER BY country"
NOBODY = "SELECT age, COUNT(*) AS n FROM app.users WHERE user_id < 0 GROUP BY age"
UNIT, TWO = (Cost(Decimal(amount), Decimal(0)) for amount in (1, 2))
PAGE = (ROOT / "docs" / "python.md").read_text()
BUILD = "import setuptools.build_meta as b; b.build_wheel('dist')"


@pytest.fixture
def db(on_duckdb: World) -> Iterator[Client]:
    with dpproxy_client.connect(on_duckdb.url) as client:
        yield client


@pytest.mark.client
def test_an_answer_has_intervals_charge_and_what_is_left(db: Client, on_duckdb: World) -> None:
    age = on_duckdb.fresh()
    answer = db.ask(
        "SELECT country, COUNT(*) AS n FROM app.users WHERE age > %s GROUP BY country ORDER BY country",
        (age,),
    )
    n = answer["n"]
    assert answer["country"].values == COUNTRIES == tuple(row[0] for row in answer)
    assert not answer["country"].noisy
    assert all(
        low - TOLERANCE < USERS / 4 < high + TOLERANCE for low, high in zip(n.low, n.high, strict=True)
    )
    assert [high - low for low, high in zip(n.low, n.high, strict=True)] == pytest.approx([2 * 1.96] * 4)
    assert answer.cost == UNIT
    assert answer.mechanisms == ("KnownGauss",)
    again = db.ask(f"{BY_COUNTRY.replace('GROUP', f'WHERE age > {age} GROUP')}")
    assert again.rows == answer.rows
    assert (again.cost, again.left) == (NOTHING, answer.left)
    assert re.search(r"^DE +\d+ ± 2.0\n", str(answer), re.M)
    assert str(again).endswith(f"\nno charge; {answer.left} left")
    assert db.budget()["left"].values == answer.left


@pytest.mark.client
def test_the_price_comes_first(db: Client, on_duckdb: World) -> None:
    sql, age = "SELECT AVG(balance) FROM app.users WHERE age > %(age)s", {"age": on_duckdb.fresh()}
    before = db.ask("SELECT 1").left
    offer = db.price(sql, age)
    assert (offer.cost, offer.left) == (TWO, before)
    with pytest.raises(TooExpensive, match="at most 2 information units and 0 calls") as refused:
        db.ask(sql, age, most_units=1.5)
    assert db.ask("SELECT 1").left == before
    assert "SELECT" not in str(offer)
    assert f"<b>costs at most {offer.cost}; {before} left</b>" in offer._repr_html_()
    assert refused.value.offer.buy().cost == TWO
    top = "SELECT article_id, COUNT(DISTINCT user_id) FROM app.events GROUP BY 1 ORDER BY 2 DESC LIMIT 5"
    two = f"SELECT ({BY_COUNTRY.replace('country, ', '').split(' GROUP')[0]}) + (SELECT COUNT(*) FROM app.events)"
    prices = [
        (top, Cost(Decimal("7.65"), Decimal(0))),
        (two, TWO),
        ("SELECT COUNT(*) FROM app.articles WHERE article_id > 3", NOTHING),
        ("SELECT country, COUNT(*) FROM app.users WHERE 1 = 0 GROUP BY country", NOTHING),
    ]
    assert [db.price(asked).cost for asked, _ in prices] == [cost for _, cost in prices]
    with pytest.raises(Refused, match="42601"):
        db.price(f"SELECT 1; SELECT COUNT(*) FROM app.users WHERE age > {on_duckdb.fresh()}")
    assert db.ask("SELECT 1").left == (before.information - 2, before.calls)


def test_a_price_that_cannot_be_read_is_no_price() -> None:
    with pytest.raises(ValueError, match="cannot be read"):
        priced(["Groups of known domain", "  Cost: up to 3 units"])
    with pytest.raises(ValueError, match="cannot be read"):
        priced(["Something else"])


@pytest.mark.client
def test_a_refusal_has_code_and_hint(db: Client) -> None:
    with pytest.raises(Refused, match=r"^PV010: (?s:.*)LINE 1: (?s:.*)HINT:") as refused:
        db.ask("SELECT * FROM app.users")
    assert refused.value.code == "PV010"
    assert refused.value.hint is not None
    assert refused.value.hint.startswith("Aggregate it")
    with pytest.raises(Refused, match="42703: column"):
        db.ask("SELECT nope FROM app.users")
    with pytest.raises(psycopg.ProgrammingError, match="placeholders"):
        db.ask("SELECT COUNT(*) FROM app.users WHERE age > %s", ())
    with pytest.raises(ValueError, match="several statements"):
        db.ask("SELECT 1; SELECT 2")
    assert db.ask("SELECT 1").rows == [(1,)]


@pytest.mark.client
def test_noise_without_an_interval_is_marked(db: Client) -> None:
    mixed = db.ask("SELECT COUNT(DISTINCT amount) AS d, COUNT(*) AS n, MIN(ts) AS t FROM app.events")
    assert [mixed[name].low[0] is None for name in "dnt"] == [True, False, True]
    assert mixed["d"].noisy
    assert mixed["d"].text(0).endswith(" ± ?")
    for sql in (
        "SELECT DISTINCT n FROM (SELECT COUNT(*) AS n FROM app.users) q",
        "SELECT COUNT(*) AS n, STDDEV(age) AS n_stddev FROM app.users",
    ):
        answer = db.ask(sql)
        assert answer["n"].low == (None,)
        assert "no intervals are known: see the notices" in str(answer)
        assert len(answer.columns) == sql.count(" AS ")
    few = db.ask(NOBODY)
    hidden = sum(few["n"].swamped(row) for row in range(len(few)))
    assert f"in {hidden} of 80 rows of n" in few.warnings[0]
    assert str(few).count("± 2.0 *") == sum(few["n"].swamped(row) for row in range(SHOWN))
    assert str(few).splitlines()[-4:-1] == ["... 20 more rows", "* may be noise alone", *few.warnings]


@pytest.mark.client
def test_values_of_all_kinds(db: Client, on_duckdb: World) -> None:
    samples = db.ask("SELECT * FROM app.samples ORDER BY id")
    assert None in samples["i8"].values
    assert 2**63 - 1 in samples["i8"].values
    assert not any(column.noisy for column in samples.columns)
    assert (samples.cost, samples.mechanisms) == (NOTHING, ())
    assert "NULL" in samples._repr_html_()
    spent = db.ask(
        "SELECT country, AVG(ts - TIMESTAMP '2024-01-01') AS d FROM app.events JOIN app.users USING (user_id) "
        "WHERE ts >= %s AND amount < %s AND country = ANY(%s) AND kind <> %s GROUP BY country",
        (date(2024, 1, 2), Decimal("1e5"), ["DE", "FR"], "o'clock\\ %"),
    )
    low, high = spent["d"].low[0], spent["d"].high[0]
    assert timedelta() < low < spent["d"].values[0] < high
    empty = db.ask("SELECT kind, COUNT(*) AS n FROM app.events GROUP BY kind HAVING COUNT(*) > 1000000")
    assert (empty.rows, len(empty)) == ([], 0)
    assert "(no rows)" in str(empty)
    assert list(empty.to_pandas().columns) == ["kind", "n", "n_low", "n_high"]
    twice = db.ask("SELECT COUNT(*), COUNT(*), COUNT(*) - 1 AS count_low FROM app.users")
    assert list(twice.to_pandas().columns)[:4] == ["count", "count_low", "count_high", "count_2"]
    if find_spec("polars") is not None:
        assert twice.to_polars().columns == list(twice.to_pandas().columns)
    endless = db.ask("SELECT COUNT(*) * float8 'infinity' AS n FROM app.users")
    assert (endless["n"].low, endless["n"].text(0)) == ((None,), "inf ± ?")
    assert db.ask("SET dpproxy.spend = accurate").rows == []


@pytest.mark.client
def test_own_settings_hide_no_charge(on_duckdb: World) -> None:
    options = "-c client_min_messages=error -c dpproxy.notices=off -c dpproxy.error_columns=on"
    with dpproxy_client.connect(on_duckdb.url, options=options) as db:
        for undone in ("SELECT 1", "SET dpproxy.notices = off"):
            db.ask(undone)
            answer = db.ask(f"SELECT COUNT(*) AS n FROM app.users WHERE age > {on_duckdb.fresh()}")
            assert answer.cost == UNIT
            assert answer["n"].low[0] is not None


@pytest.mark.client
def test_threads_share_a_client(db: Client, on_duckdb: World) -> None:
    asked = [f"SELECT COUNT(*) AS n FROM app.users WHERE user_id > {on_duckdb.fresh()}" for _ in range(4)]
    asked += ["SELECT 1 AS n"] * 4
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(db.ask, asked))
    assert [answer.cost.information for answer in answers] == [1] * 4 + [0] * 4
    assert [len(answer.notices) for answer in answers] == [1] * 4 + [0] * 4


@pytest.mark.client
def test_a_plot_has_error_bars(db: Client) -> None:
    pytest.importorskip("matplotlib").use("Agg")
    for sql, ticks in (
        (BY_COUNTRY, list(COUNTRIES)),
        ("SELECT age, COUNT(*) AS n FROM app.users GROUP BY age", None),
        ("SELECT country, age < 30 AS young, COUNT(*) AS n FROM app.users GROUP BY 1, 2", None),
        ("SELECT COUNT(*) AS n FROM app.users", [""]),
        (
            "SELECT country, MIN(ts) AS t, COUNT(*) AS n FROM app.users JOIN app.events USING (user_id) GROUP BY 1",
            None,
        ),
        (NOBODY, None),
    ):
        axes = db.ask(sql).plot()
        assert axes.get_ylabel() == "n"
        assert len(axes.containers) == 1
        if ticks is not None:
            assert [label.get_text() for label in axes.get_xticklabels()] == ticks
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["may be noise alone"]
    with pytest.raises(ValueError, match="no column of numbers has noise"):
        db.ask("SELECT title FROM app.articles").plot()


@pytest.mark.client
def test_a_lost_session_says_so(db: Client) -> None:
    with psycopg.connect(db.connection.info.dsn, password="red-pencil", autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s)", (db.connection.info.backend_pid,))
    with pytest.raises(psycopg.OperationalError):
        db.ask("SELECT 1")


@pytest.mark.client
def test_copy_ends_the_session_that_it_would_block(db: Client) -> None:
    with pytest.raises(psycopg.ProgrammingError, match="COPY cannot be used"):
        db.ask("COPY (SELECT 1) TO STDOUT")
    assert db.connection.closed


@pytest.mark.client
def test_connect_takes_no_plain_postgresql_and_sends_no_token_in_the_clear(tmp_path: Path) -> None:
    with (
        Embedded.start(tmp_path / "plain", durable=False) as server,
        pytest.raises(ValueError, match="no dpproxy"),
    ):
        dpproxy_client.connect(server.conninfo())
    for weak in ("disable", "prefer"):
        with pytest.raises(ValueError, match=f"not {weak}"):
            dpproxy_client.connect(f"postgresql://ann@127.0.0.1:1/x?sslmode={weak}", token="eyJ")
    with pytest.raises(psycopg.OperationalError):
        dpproxy_client.connect("postgresql://ann@127.0.0.1:1/x", token="eyJ")


def test_a_value_is_printed_as_precisely_as_it_is() -> None:
    shown = [
        (Decimal("212544.300000000000"), 211564.3, 213524.3, 500.0, "212544 ± 980"),
        (0.5, 0.4986, 0.5014, 0.0007, "0.5000 ± 0.0014"),
        (7, 6.5, 7.5, 0.25, "7 ± 0.50"),
        (7, -1, 15, 4.0, "7 ± 8.0 *"),
        (0, 0.0, 0.0, 0.0, "0 ± 0.0"),
        (58, 54, 61, None, "58 [54, 61]"),
        (58.0, 54.25, 61.0, None, "58.0 [54.2, 61.0]"),
        (timedelta(1), timedelta(1, -5), timedelta(1, 5), 2.5, "1 day, 0:00:00 ± 0:00:05"),
        (Decimal("NaN"), None, None, None, "NaN ± ?"),
        (None, None, None, None, "NULL"),
    ]
    for value, low, high, stddev, text in shown:
        assert Column("n", (value,), (low,), (high,), (stddev,), True).text(0) == text


@pytest.mark.client
def test_the_page_runs(on_duckdb: World) -> None:
    """All of its Python as one program, but for the port; what it prints is the page's, but for the figures."""
    blocks = re.findall(r"^```(python|text)\n(.*?)^```", PAGE, flags=re.M | re.S)
    program = "".join(text for kind, text in blocks if kind == "python").replace("6432", str(on_duckdb.port))
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT / "client")},
    )
    assert done.returncode == 0, done.stderr
    shown = "".join(text for kind, text in blocks if kind == "text")
    assert masked(done.stdout) == masked(shown)


def masked(text: str) -> str:
    return re.sub(r"\d+(\.\d+)?", "#", " ".join(text.split()))


@pytest.mark.client
def test_the_wheel_needs_psycopg_alone(on_duckdb: World, tmp_path: Path) -> None:
    pytest.importorskip("setuptools", "77", reason="setuptools 77 or later builds the wheel")
    source, site = tmp_path / "client", tmp_path / "site"
    shutil.copytree(ROOT / "client", source, ignore=shutil.ignore_patterns("__pycache__"))
    (source / "dist").mkdir()
    subprocess.run([sys.executable, "-c", BUILD], cwd=source, check=True, capture_output=True, timeout=120)
    (wheel,) = (source / "dist").glob(f"dpproxy_client-{__version__}-*.whl")
    shutil.unpack_archive(wheel, site, "zip")
    assert (site / "dpproxy_client" / "py.typed").exists()
    for module in ("psycopg", "psycopg_binary", "psycopg_binary.libs", "typing_extensions.py"):
        found = Path(psycopg.__file__).parent.parent / module
        if found.exists():
            (site / module).symlink_to(found)
    program = f"""
import sys, dpproxy_client
with dpproxy_client.connect({on_duckdb.url!r}) as db:
    answer = db.ask({BY_COUNTRY!r})
    assert answer._repr_html_().count("±") == 4
    assert not {{"pandas", "polars", "matplotlib", "numpy", "dpproxy"}} & set(sys.modules)
    for needs in (answer.to_pandas, answer.to_polars, answer.plot):
        try:
            needs()
        except ImportError as error:
            print(error.name)
"""
    done = subprocess.run(
        [sys.executable, "-S", "-c", program],
        cwd=tmp_path,
        env={"PYTHONPATH": str(site), "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout.split()) == (0, ["pandas", "polars", "matplotlib"]), done.stderr
