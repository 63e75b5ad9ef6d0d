"""Whose noise was changed to Laplace keeps what it owes for the Gaussian noise before: the guarantee is stated so."""

from __future__ import annotations

import json
import shutil
from contextlib import closing
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import psycopg
import pytest

from budget.account import Limit
from budget.units import micro
from dpproxy.console.guarantees import guarantees
from dpproxy.console.sources import Probe, Sources
from dpproxy.deployment.service import BoundConfig, Service, configured, opened_vault
from dpproxy.embedded.server import Embedded
from dpproxy.engine.bounded_range import of_bounded_range, recorded
from dpproxy.engine.rollback_guard import RollbackGuardedLedger
from mechanisms.count_release import KnownCountRelease, PrivateCountRelease
from mechanisms.known_domain import KnownGauss, KnownGumb, KnownLap
from mechanisms.quantile import QuantileTree
from mechanisms.unknown_domain import UnkGauss, UnkGumb, UnkLap
from rewriter.refusal import Refusal
from tests.dpproxy.engine.test_executor import Analyst
from tests.dpproxy.serving import POLICY, make, within

pytestmark = pytest.mark.service

BUDGET = '[budget]\ninformation = 4\ncalls = 40\nperiod = "none"\n[budget.teams.acme]\nmembers = ["eve"]\n'
LAPLACE = '[privacy]\nnoise = "laplace"\n'
COUNT = "SELECT COUNT(*) FROM people WHERE person_id > {}"
SUM = "SELECT SUM(seconds) FROM visits WHERE room = {}"
BOUNDED = ("0.6", "5e-09")
"""Of four steps of epsilon_per 0.15, and 40 calls: what only bounded range gives."""
CONCENTRATED = ("0.8615", "5e-09")


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, list[str]]]:
    """A deployment in which ann and eve (with her team) have had Laplace noise only, and bob Gaussian noise before.

    With what flo was told, who asked until nothing was left.
    """
    folder: Path = tmp_path_factory.mktemp("noise")
    file = make(folder, POLICY + BUDGET)
    with Service.start(configured(file), alone=True) as service:
        Analyst(service, "bob").ask(COUNT.format(1))
    file.write_text(POLICY + BUDGET + LAPLACE)
    with Service.start(configured(file), alone=True) as service:
        Analyst(service, "ann").ask(COUNT.format(2))
        Analyst(service, "eve").ask(SUM.format(1))
        Analyst(service, "bob").ask(COUNT.format(3))
        flo, told = Analyst(service, "flo"), dict[str, list[str]]()
        for number in range(5):
            flo.ask(COUNT.format(10 + number))
        told["budget"] = [f"{row[0]} {row[1]}" for row in flo.ask("SELECT unit, used FROM dpproxy.budget")]
        told["explain"] = [row[0] for row in flo.ask("EXPLAIN " + COUNT.format(20))]
        for number in range(3):
            flo.ask(COUNT.format(30 + number))
        with pytest.raises(Refusal) as refused:
            flo.ask(COUNT.format(40))
        told["refused"] = [refused.value.code, refused.value.message]
        told["again"] = [str(len(flo.ask(COUNT.format(10))))]
    return folder, told


@pytest.fixture(scope="module")
def folder(deployment: tuple[Path, dict[str, list[str]]]) -> Path:
    return deployment[0]


def smallest(rows: list[dict[str, Any]]) -> tuple[str, str]:
    (found,) = (row for row in rows if row["smallest"])
    return found["epsilon"], found["delta"]


def accounts(*arguments: str) -> dict[str, tuple[str, str]]:
    status, out, err = within(*arguments, "--json")
    assert status == 0, err
    return {one["account"]: smallest(one["guarantee"]) for one in json.loads(out)["accounts"]}


EXPECTED = {
    "analyst:ann": BOUNDED,
    "analyst:bob": CONCENTRATED,
    "analyst:eve": BOUNDED,
    "analyst:flo": BOUNDED,
    "team:acme": BOUNDED,
}


@pytest.mark.parametrize(
    "mechanism",
    [KnownLap, KnownGauss, KnownGumb, UnkLap, UnkGauss, UnkGumb, KnownCountRelease, PrivateCountRelease],
)
def test_names_in_the_ledger_say_what_the_mechanisms_noise_is(mechanism: type[Any]) -> None:
    assert of_bounded_range(mechanism.__name__) == (mechanism.noise_family != "gaussian")


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_a_mechanism_of_either_noise_is_recorded_with_it(noise: Literal["laplace", "gaussian"]) -> None:
    mechanism = QuantileTree(Fraction(1), 1, 3, noise)
    assert of_bounded_range(recorded(mechanism.name, noise)) == (mechanism.noise_family == "laplace")


def test_the_owner_is_told_the_guarantee_of_what_was_released(folder: Path) -> None:
    assert accounts("budget", "show", "-c", str(folder / "dpproxy.toml")) == EXPECTED


def test_eight_laplace_counts_for_four_units(deployment: tuple[Path, dict[str, list[str]]]) -> None:
    """By their pure epsilon, half an epsilon_per each, at the guarantee of four units."""
    told = deployment[1]
    assert sorted(told["budget"]) == ["calls 0", "epsilon 2.5", "information 5"]
    assert "  Left: 0 information units and 40 calls" in told["explain"]
    assert "  Or by pure epsilon: at most 0.5 epsilon units, of which 1.5 are left" in told["explain"]
    code, message = told["refused"]
    assert code == "PV001"
    assert message.endswith("needs 1 information unit and 0 calls, 0 information units and 40 calls left")
    assert told["again"] == ["1"], "an answer that was paid for is read again"


def test_a_reviewer_derives_it_from_the_entries(folder: Path, tmp_path: Path) -> None:
    """Whatever noise the exporter says that there was."""
    trail = tmp_path / "trail.jsonl"
    exported = ("budget", "export", "-c", str(folder / "dpproxy.toml"), "--format", "trail", "-o", str(trail))
    assert within(*exported)[0] == 0
    assert accounts("audit", str(trail)) == EXPECTED
    lines = [json.loads(line) for line in trail.read_text().splitlines()]
    for line in lines:
        if line.get("entry", {}).get("mechanism") == recorded("ClampedSum", "laplace"):
            line["entry"]["mechanism"] = "ClampedSum"
    trail.write_text("".join(json.dumps(line) + "\n" for line in lines))
    unsaid = accounts("audit", str(trail))
    assert unsaid["analyst:eve"] == unsaid["team:acme"] == CONCENTRATED, "as entries of older versions"


def test_check_and_advise_ask_the_ledger(folder: Path) -> None:
    file = str(folder / "dpproxy.toml")
    status, out, err = within("check", "-c", file, "--json")
    assert (status, err) == (0, "")
    told = json.loads(out)
    assert {smallest([row]) for row in told["guarantees"] if row["smallest"]} == {CONCENTRATED}
    assert any("the ledger does not run" in warning for warning in told["warnings"])
    with opened_vault(configured(Path(file))):
        told = json.loads(within("check", "-c", file, "--json")[1])
        assert {smallest([row]) for row in told["guarantees"] if row["smallest"]} == {CONCENTRATED}
        assert not any("the ledger does not run" in warning for warning in told["warnings"])
    (advised,) = json.loads(within("advise", "-c", file, "--json")[1])
    assert min(float(bound["epsilon"]) for bound in advised["guarantee"]) > 0.86


def test_a_deployment_that_begins_with_laplace_has_the_better_bound(tmp_path: Path) -> None:
    file = str(make(tmp_path, POLICY + BUDGET + LAPLACE))
    told = json.loads(within("check", "-c", file, "--json")[1])
    assert {smallest([row]) for row in told["guarantees"] if row["smallest"]} == {BOUNDED}
    (advised,) = json.loads(within("advise", "-c", file, "--json")[1])
    assert min(float(bound["epsilon"]) for bound in advised["guarantee"]) == 0.6


def test_the_console_says_the_same(folder: Path) -> None:
    config = configured(folder / "dpproxy.toml")
    checked = BoundConfig.open(config)
    checked.backend.close()
    with opened_vault(config) as vault, closing(RollbackGuardedLedger(vault.ledger, vault.mark)) as ledger:
        sources = Sources(lambda: checked, ledger, Probe({}), (bytes(32),), None, 1, datetime.now(UTC), None)
        page: Any = guarantees(sources, {})
    best = {name: one.best for one in page["promises"] for name in one.whose}
    assert {name: (bound.epsilon, bound.delta) for name, bound in best.items()} == EXPECTED
    assert page["everybody"].rows[0][1] is None, "bounded range is claimed of all together"


def test_a_ledger_of_the_version_before_is_read_by_the_mechanisms_names(folder: Path, tmp_path: Path) -> None:
    """Entries of sums did not say their noise: they count as Gaussian."""
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("front*"))
    config = configured(tmp_path / "dpproxy.toml")
    with opened_vault(config) as vault:
        vault.ledger.accounts.seed("analyst:new", Limit(micro(4), micro(40), "none"))
        running = Embedded.attached(tmp_path / ".dpproxy" / "ledger")
        assert running is not None
        with psycopg.connect(running.conninfo(), autocommit=True) as owner:
            owner.execute(
                "UPDATE dpproxy_ledger.entry SET mechanism = 'ClampedSum' WHERE mechanism LIKE 'ClampedSum %'"
            )
        found = accounts("budget", "show", "-c", str(tmp_path / "dpproxy.toml"))
    assert found == {
        **EXPECTED,
        "analyst:eve": CONCENTRATED,
        "team:acme": CONCENTRATED,
        "analyst:new": BOUNDED,
    }
