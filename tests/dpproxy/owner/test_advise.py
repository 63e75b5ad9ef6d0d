"""`dpproxy advise`: wishes come true by the accountant and by simulation, and what is told is what is meant."""

from __future__ import annotations

import json
import math
import tomllib
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pytest
from typer.testing import CliRunner

from budget.account import Charge, EntryKind, EntryRow
from budget.accounting import guarantee
from dpproxy.cli.app import app
from dpproxy.owner.advise import Setting, for_analysts
from mechanisms.histogram import Histogram
from mechanisms.known_domain import KnownGauss
from mechanisms.randomness import Stream
from tests.dpproxy.serving import COUNT, make

DEFAULTS = Setting(
    "", Fraction("0.15"), Fraction("1e-10"), Fraction("1e-9"), Fraction(300), Fraction(30), "gaussian", 1000
)


def run(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["advise", *arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


def told(*arguments: str) -> list[dict[str, Any]]:
    status, out, err = run(*arguments, "--json")
    assert status == 0, err
    found: list[dict[str, Any]] = json.loads(out)
    return found


def test_the_defaults_and_the_papers_attacks() -> None:
    (found,) = told()
    (best,) = [bound for bound in found["guarantee"] if bound["smallest"]]
    assert (best["epsilon"], best["delta"]) == ("8.65504", "4e-09")
    assert list(found["attacks"].values()) == ["11.55%", "3.68%", "738", "2,954", "1 in 387,278,081"]
    questions = {one["question"]: one for one in found["questions"]}
    assert questions["one count"]["stddev"] == pytest.approx(2 / 0.15)
    assert questions["top 10 of unknown groups"]["information"] == 15.35
    assert questions["one count"]["error_percent"]["1000"] == pytest.approx(196 * 2 / 0.15 / 1000)


def test_a_guarantee_wished_for_holds_and_its_file_too() -> None:
    status, out, _ = run("--epsilon", "3", "--delta", "1e-8", "--set", "information=100,calls=20")
    assert status == 0
    file = tomllib.loads(out[out.index("[privacy]") :], parse_float=Fraction)
    privacy, budget = file["privacy"], file["budget"]
    bounds = guarantee(
        *(Fraction(budget["information"]), Fraction(budget["calls"])),
        *(privacy["epsilon_per"], privacy["delta_per"], privacy["delta_prime"]),
    )
    assert min(bound.epsilon for bound in bounds) <= 3
    assert max(bound.delta for bound in bounds) <= Fraction("1e-8")
    more = guarantee(
        *(Fraction(100), Fraction(20)),
        *(privacy["epsilon_per"] * Fraction("1.001"), privacy["delta_per"], privacy["delta_prime"]),
    )
    assert min(bound.epsilon for bound in more) > 3, "and nothing was given away"


def test_an_error_wished_for_is_what_comes_out() -> None:
    """5000 counts: 95% lie within 5% of 1000, with less than 1 in 10^6 by chance outside of 93.5 to 96.5%."""
    (found,) = told("--error", "5", "--count", "1000")
    mechanism = KnownGauss(Fraction(str(found["epsilon_per"])), 1, 1, 5000, "accurate")
    released = mechanism.release(
        Histogram(np.full(5000, 1000, dtype=np.int64), True), Stream(bytes(range(32)))
    )
    assert released.values is not None
    share = float(np.mean(np.abs(released.values - 1000) <= 50))
    assert 0.935 < share < 0.965


def entries(asked: dict[str, int]) -> list[EntryRow]:
    """A history: each analyst has asked so often, for one unit and one call."""
    found: list[EntryRow] = []
    start, one = datetime(2026, 1, 1, tzinfo=UTC), Charge(10**6, 10**6)
    kinds: tuple[tuple[EntryKind, Charge], ...] = (("reserve", Charge(0, 0)), ("settle", one))
    for analyst, times in asked.items():
        for n in range(times):
            reservation, at = uuid4(), start + timedelta(minutes=n)
            for kind, charged in kinds:
                number = len(found) + 1
                found.append(
                    EntryRow(
                        *(number, reservation, analyst, True, kind, one, charged, 1, at),
                        mechanism="m",
                        query="q",
                        replayed=False,
                    )
                )
    return found


@pytest.mark.parametrize(("percent", "least"), [(93, 40), (100, 500), (50, 20), (1, 1)])
def test_so_many_analysts_would_not_notice(percent: int, least: int) -> None:
    history = entries({f"a{n}": n + 1 for n in range(40)} | {"greedy": 500})
    found = for_analysts(DEFAULTS, history, Fraction(percent, 100), "month")
    stopped = {n for n in (*range(1, 41), 500) if n > found.information}
    assert found.information == found.calls
    assert 41 - len(stopped) >= Fraction(percent, 100) * 41
    assert abs(found.information - least) <= 1


@pytest.mark.service
def test_the_wish_is_learnt_from_the_ledger(tmp_path: Path) -> None:
    file = str(make(tmp_path))
    query = CliRunner().invoke(app, ["query", "-c", file, "--analyst", "ann", COUNT])
    assert query.exit_code == 0, query.output
    (found,) = told("-c", file, "--unnoticed", "93")
    assert (found["information"], found["calls"]) == (1, 1)


@pytest.mark.service
def test_a_log_says_which_budgets_it_needs(tmp_path: Path) -> None:
    """What has been bought is free, its parts are free, and less than a total makes its sum as exact as one."""
    file, log = str(make(tmp_path)), tmp_path / "log.csv"
    total = "SELECT COUNT(*) FROM people"
    asked = [
        ("ann", COUNT),
        ("ann", total),
        ("ann", f"{total} WHERE town = 'Ulm'"),
        ("ben", COUNT),
        ("ben", "SELECT 1"),
    ]
    log.write_text("user,query\n" + "".join(f'{who},"{sql}"\n' for who, sql in asked))
    reused, afresh = told("-c", file, "--from", str(log))
    assert [one["information"] for one in (reused, afresh)] == [2, 3]
    assert float(reused["guarantee"][0]["epsilon"]) < float(afresh["guarantee"][0]["epsilon"])
    assert [(one["name"], one["statements"], one["off"], one["on"]) for one in reused["accounts"]] == [
        ("ann", 3, "3", "1.75"),
        ("ben", 1, "1", "1"),
        ("dataset", 4, "4", "1.75"),
    ]
    assert not (tmp_path / ".dpproxy").exists()


def test_two_settings_beside_each_other() -> None:
    one, two = told("--compare", "epsilon_per=0.3,calls=60")
    assert (one["epsilon_per"], two["epsilon_per"], two["calls"], two["information"]) == (0.15, 0.3, 60, 300)
    status, out, _ = run("--compare", "epsilon_per=0.3")
    assert status == 0
    for part in ("epsilon_per=0.3", "KnownGumb", "Error of 95% of counts", "Threshold", "11.55%", "22.85%"):
        assert part in out


def test_laplace_counts_steps_and_no_delta_means_no_unknown_values(tmp_path: Path) -> None:
    file = make(tmp_path)
    file.write_text(file.read_text() + '\n[privacy]\nnoise = "laplace"\ndelta_per = 0\n')
    (found,) = told("-c", str(file))
    assert found["guarantee"][0]["accounting"] == "bounded range"
    assert not any("unknown" in one["question"] for one in found["questions"])
    assert found["attacks"]["a value that one person alone has is ever shown"] == "never"


@pytest.mark.parametrize("name", ["figure.svg", "figure.png"])
def test_the_plot_is_an_image_or_one_line_why_not(tmp_path: Path, name: str) -> None:
    status, _, err = run("--plot", str(tmp_path / name), "--compare", "epsilon_per=0.3")
    if find_spec("matplotlib") is None:
        assert (status, "dpproxy[plot]" in err) == (1, True)
        return
    assert status == 0
    begins = {"figure.svg": b"<?xml", "figure.png": b"\x89PNG"}[name]
    assert (tmp_path / name).read_bytes().startswith(begins)


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (("--set", "epsilon=1"), 1, "did you mean epsilon_per?"),
        (("--set", "calls=x"), 1, "x is no decimal"),
        (("--set", "epsilon_per=0"), 1, "above 0"),
        (("--epsilon", "0.000001"), 1, "no parameters"),
        (("--unnoticed", "93"), 1, "--config"),
        (("--from", "log.csv"), 1, "--config"),
        (("--plot", "figure.pdf"), 1, ".png or .svg"),
        (("--unnoticed", "101"), 2, "percentage"),
        (("--epsilon", "1", "--error", "5"), 2, "epsilon_per"),
        (("--delta", "1e-9"), 2, "--epsilon"),
        (("--epsilon", "-1"), 2, "not above 0"),
    ],
)
def test_what_cannot_be(arguments: tuple[str, ...], status: int, said: str) -> None:
    found, out, err = run(*arguments)
    assert (found, out) == (status, "")
    assert said in err


def test_what_an_analyst_could_learn_is_told_in_words(tmp_path: Path) -> None:
    """By the closed form for the smaller one: half of sqrt(rho/2) beyond a coin, rho = 300 units of 0.15^2/8."""
    (found,) = told()
    month, year, everybody = found["learnt"]
    assert month.startswith("any analyst, a month: ")
    assert "at most 82.5 times of 100 (epsilon 8.66, delta 4e-09)" in month
    assert "almost always right" in year
    assert "nothing bounds analysts who join forces" in everybody
    assert math.ceil(500 + 500 * math.sqrt(300 * 0.15**2 / 16)) / 10 == 82.5
    make(tmp_path)
    with (tmp_path / "dpproxy.toml").open("a") as file:
        file.write(
            '[budget.dataset]\ninformation = 10\ncalls = 0\n[budget.teams.t]\nmembers = ["ann"]\nmode = "track"\n'
        )
    (found,) = told("-c", str(tmp_path / "dpproxy.toml"), "--set", "information=30")
    assert [words.partition(":")[0] for words in found["learnt"]] == [
        "any analyst, a month",
        "any analyst, a year",
        "dataset, a month",
        "dataset, a year",
    ]
