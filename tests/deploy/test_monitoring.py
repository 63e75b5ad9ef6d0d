"""The rules of Prometheus, by its own promtool, and the dashboard's form. That a running proxy has what they name:
tests/dpproxy/console/test_console.py."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.conftest import missing
from tests.deploy.monitoring import ALERTS, DASHBOARD, rules

TESTS = Path(__file__).parent / "alerts_test.yaml"


@pytest.fixture(scope="module")
def promtool() -> str:
    """Its path; Debian's package is prometheus."""
    path = shutil.which("promtool")
    if path is None:
        missing("promtool")
    return path


def said(promtool: str, *arguments: str) -> tuple[int, str]:
    """The status of promtool, and what it says."""
    run = subprocess.run([promtool, *arguments], capture_output=True, text=True, check=False, timeout=60)
    return run.returncode, run.stdout + run.stderr


@pytest.mark.client
def test_each_alert_fires_when_it_should(promtool: str) -> None:
    for arguments in (("check", "rules", str(ALERTS)), ("test", "rules", str(TESTS))):
        status, printed = said(promtool, *arguments)
        assert status == 0, printed


@pytest.mark.client
@pytest.mark.parametrize("expression", ["vector(1) > 2", "vector(1)"])
def test_alerts_that_never_or_always_fire_are_found(promtool: str, expression: str, tmp_path: Path) -> None:
    changed = yaml.safe_load(ALERTS.read_text())
    for group in changed["groups"]:
        for rule in group["rules"]:
            rule["expr"] = expression
    (tmp_path / "alerts.yaml").write_text(yaml.safe_dump(changed))
    tests = yaml.safe_load(TESTS.read_text()) | {"rule_files": ["alerts.yaml"]}
    (tmp_path / "tests.yaml").write_text(yaml.safe_dump(tests))
    status, printed = said(promtool, "test", "rules", str(tmp_path / "tests.yaml"))
    assert status == 1
    assert set(re.findall(r"alertname: ?(\w+)", printed)) == {rule["alert"] for rule in rules()}


def test_each_alert_is_tested_both_ways() -> None:
    tried = {
        (case["alertname"], bool(case["exp_alerts"]))
        for test in yaml.safe_load(TESTS.read_text())["tests"]
        for case in test["alert_rule_test"]
    }
    assert tried == {(rule["alert"], fires) for rule in rules() for fires in (True, False)}


def test_panels_have_a_place_of_their_own() -> None:
    panels = json.loads(DASHBOARD.read_text())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    covered = [
        (x, y)
        for place in (panel["gridPos"] for panel in panels)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(set(covered)) == len(covered)
    assert max(x for x, _ in covered) < 24
    assert all(panel["title"] and panel["description"] for panel in panels)
