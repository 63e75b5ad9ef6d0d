"""docs/console.md and docs/upgrading.md name what there is: pages, metrics, keys of a log line, schema versions."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from budget.schema import MIGRATIONS
from dpproxy.console.app import PAGES
from dpproxy.telemetry.metrics import Metrics, page_of_stopped
from dpproxy.telemetry.observer import ChargeTally, StatementEnd
from dpproxy.telemetry.stages import STAGES
from dpproxy.telemetry.statement_log import StatementLog

DOCS = Path(__file__).parent.parent.parent / "docs"
PAGE = (DOCS / "console.md").read_text()


def test_every_page_is_named() -> None:
    table = PAGE.partition("| page |")[2].partition("\n\n")[0]
    assert re.findall(r"^\| (\w+) \|", table, flags=re.M) == [title for title, _ in PAGES.values()]


def test_every_metric_is_named_with_its_label() -> None:
    named = set(re.findall(r"`(dpproxy_\w+(?:\{\w+\})?)`", PAGE.partition("## Metrics")[2]))
    there = set()
    of_the_ledger = text_string_to_metric_families(page_of_stopped(0, 0).decode())
    for family in (*Metrics(1).registry.collect(), *of_the_ledger):
        name = f"{family.name}_total" if family.type == "counter" else family.name
        labels = {label for sample in family.samples for label in sample.labels if label != "le"}
        there.add(name + "".join(f"{{{label}}}" for label in labels))
    assert named == there
    assert all(f"`{stage}`" in PAGE for stage in STAGES)


def test_the_line_of_the_log_has_these_keys() -> None:
    example = json.loads(PAGE.partition("```json\n")[2].partition("```")[0])
    out = io.StringIO()
    StatementLog(bytes(32), out).ended(StatementEnd("analyst:ann", "", ChargeTally(), "SELECT", 0.1))
    written = json.loads(out.getvalue())
    assert list(example) == list(written)
    assert [type(value) for value in example.values()] == [type(value) for value in written.values()]


def test_every_version_of_the_ledger_is_told() -> None:
    page = (DOCS / "upgrading.md").read_text().partition("## The ledger")[2].partition("## ")[0]
    versions = re.findall(r"^\| (\d+) \|", page, flags=re.M)
    assert versions == [str(number) for number in range(1, len(MIGRATIONS) + 1)]
