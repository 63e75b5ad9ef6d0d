"""What was chosen for each question, and what other mechanisms would cost for the same noise: read off EXPLAIN."""

from __future__ import annotations

import asyncio
import json
import re
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.accuracy.asking import deployment
from benchmarks.accuracy.questions import Question
from dpproxy.deployment.service import Service
from dpproxy.server.local_client import ClientError

PREFACE = """The mechanism that answers each count of the business questions, the newcomer's and the shop's above, at
one unit a measure, and what others would cost for noise of the same size, by the prices that are known before:
`EXPLAIN` shows them. Clipped totals, quantiles and the like are left out, whose error depends on the data."""
MOST = 1.1
_UNITS = re.compile(r"(?:^|, )(?P<name>[A-Z][\w ,]*? )?(?P<units>[\d.]+)(?= information|, )")
_INSTEAD = "Instead, for the same noise"


@dataclass(frozen=True)
class Chosen:
    """A mechanism of a question with its price, and the prices of those that were not chosen."""

    question: str
    mechanism: str
    units: float
    others: dict[str, float]

    @property
    def ratio(self) -> float:
        """Its price by that of the cheapest, itself included."""
        return self.units / min(self.units, *self.others.values())


def choices(file: Path, policy: Path, asked: Sequence[Question]) -> list[Chosen]:
    """What EXPLAIN says of each question."""
    with (
        tempfile.TemporaryDirectory(prefix="choices-") as folder,
        Service.start(deployment(Path(folder), policy, file, 1), alone=True) as service,
    ):
        plans = [(one.what, _explained(service, one.sql)) for one in asked]
    return [chosen for what, plan in plans for node in _nodes(plan) for chosen in _chosen(what, node)]


def _explained(service: Service, sql: str) -> list[dict[str, Any]]:
    try:
        document = asyncio.run(service.ask("chooser", f"EXPLAIN (FORMAT JSON) {sql}")).rows[0][0]
    except ClientError:
        return []  # refused, as some of the newcomer's are
    assert document is not None
    explained: list[dict[str, Any]] = json.loads(document)
    return explained


def _nodes(document: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for aggregate in (aggregate for one in document for aggregate in one["Plan"].get("Plans", ())):
        yield from aggregate.get("Plans", ())


def _chosen(what: str, node: dict[str, Any]) -> Iterator[Chosen]:
    if _INSTEAD in node:
        paid = _UNITS.match(node["Price"])
        assert paid is not None
        others = {match["name"].strip(): float(match["units"]) for match in _UNITS.finditer(node[_INSTEAD])}
        yield Chosen(what, node["Node Type"], float(paid["units"]), others)


def written_for_choices(found: Sequence[Chosen], machine: str) -> str:
    """The part's section of the page."""
    lines = [
        "## Which mechanism answers",
        "",
        PREFACE,
        "",
        f"{len(found)} choices, on {machine}. The price of the chosen is at most {max(one.ratio for one in found):.3g} "
        f"times that of the cheapest.",
        "",
        "| question | chosen | units | instead, for the same noise |",
        "|---|---|---|---|",
    ]
    for one in found:
        others = ", ".join(f"{name} {units:g}" for name, units in one.others.items())
        lines.append(f"| {one.question} | {one.mechanism} | {one.units:g} | {others} |")
    return "\n".join(lines)
