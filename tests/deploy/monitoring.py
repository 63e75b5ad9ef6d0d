"""What deploy/ asks of Prometheus: the expressions of dashboard and alerts, and the series that they name."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.dpproxy.serving import ROOT

ALERTS = ROOT / "deploy" / "prometheus" / "alerts.yaml"
DASHBOARD = ROOT / "deploy" / "grafana" / "dashboard.json"
ADDED = {"job", "instance"}
"""Labels that Prometheus adds itself."""
_SELECTOR = re.compile(r"(dpproxy_\w+)(?:\{([^}]*)\})?")
_MATCHER = re.compile(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"')
_GROUPED = re.compile(r"\b(?:by|without|on|ignoring) \(([^)]*)\)")
_SHOWN = re.compile(r"\{\{ *(?:\$labels\.)?(\w+)")


def rules() -> list[dict[str, object]]:
    """The alerts."""
    return [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]


def expressions() -> Iterator[tuple[str, str]]:
    """Each expression, with the text that shows its labels."""
    for rule in rules():
        yield str(rule["expr"]), str(rule["annotations"])
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        for target in panel["targets"]:
            yield target["expr"], target["legendFormat"]
    for variable in json.loads(DASHBOARD.read_text())["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["query"]["query"], ""


def unknown(expression: str, shown: str, page: str) -> list[str]:
    """What an expression names and a page of metrics lacks: metrics, labels, values of labels.

    >>> page = 'dpproxy_x_total{code="A"} 1.0'
    >>> unknown('sum by (code) (rate(dpproxy_x_total{code="A"}[5m]))', "{{code}}", page)
    []
    >>> unknown('sum by (kind) (dpproxy_x_total{code="B"})', "", page)
    ['dpproxy_x_total{code="B"}', 'kind']
    """
    samples = [sample for family in text_string_to_metric_families(page) for sample in family.samples]
    lacking, labels = [], set(ADDED)
    for name, inside in _SELECTOR.findall(expression):
        found = [sample.labels for sample in samples if sample.name == name]
        labels |= {label for one in found for label in one}
        wanted = {label: value for label, _, value in _MATCHER.findall(inside) if label not in ADDED}
        if not any(wanted.items() <= one.items() for one in found):
            lacking.append(f"{name}{{{inside}}}")
    grouped = {label.strip() for inside in _GROUPED.findall(expression) for label in inside.split(",")}
    return lacking + sorted((grouped | set(_SHOWN.findall(shown))) - labels - {"value", ""})
