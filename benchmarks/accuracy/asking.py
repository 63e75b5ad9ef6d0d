"""Questions asked of deployments with fresh keys over one DuckDB file, and the truth from that file itself."""

from __future__ import annotations

import asyncio
import math
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from statistics import median
from typing import Any

import duckdb
import numpy as np

from benchmarks.accuracy.error import Answer, AnswerError, error_of, nothing
from benchmarks.accuracy.questions import Question
from dpproxy.config.sections import Config, Privacy, content, validated
from dpproxy.config.values import exact
from dpproxy.deployment.service import Service
from dpproxy.server.local_client import ClientError

PAID = re.compile(r"charged ([\d.]+) information units? and ([\d.]+) calls?")


@dataclass
class Measured:
    """A question's errors, one a key; why it was refused, and its price in information units."""

    question: Question
    errors: list[AnswerError] = field(default_factory=list)
    refused: str = ""
    price: float = 0

    @property
    def columns(self) -> int:
        """How many columns of numbers it has."""
        return len(self.errors[0].columns)

    def at(self, percent: float, column: int) -> float:
        """A percentile over the keys of the error of a column."""
        return float(np.percentile([one.columns[column] for one in self.errors], percent))

    @property
    def middle(self) -> tuple[float, ...]:
        """The median over the keys, of each column."""
        return tuple(self.at(50, column) for column in range(self.columns))

    @property
    def shown(self) -> float:
        """The median over keys and columns, of groups that came out alone."""
        return median(value for one in self.errors for value in one.shown)

    @property
    def groups(self) -> tuple[int, int]:
        """How many groups came out, the median over the keys, and how many there are."""
        return math.floor(median(one.released for one in self.errors)), self.errors[0].true

    @property
    def met(self) -> bool | None:
        """Whether every column is within the target; None without one."""
        if self.question.target is None:
            return None
        return all(100 * value <= self.question.target for value in self.middle)


def truths(file: Path, asked: Sequence[Question]) -> Mapping[str, Answer]:
    """What the bare database says, by question."""
    found = {}
    with duckdb.connect(file, read_only=True) as connection:
        for one in asked:
            cursor = connection.execute(one.sql)
            found[one.id] = Answer([name for name, *_ in cursor.description], cursor.fetchall())
    return found


def deployment(folder: Path, policy: Path, file: Path, units: int) -> Config:
    """The configuration of a policy over a file, without limits, whose information unit is worth so many.

    Noise falls with the square root of the price, so a unit of epsilon sqrt(n) gives the noise that n units buy.
    """
    said: dict[str, Any] = dict(content(policy))
    for name in ("budget", "front", "ledger", "server", "console"):
        said.pop(name, None)
    privacy = dict(said.get("privacy", {}))
    per = Fraction(privacy.get("epsilon_per", Privacy().epsilon_per))
    if units != 1:
        per = Fraction(exact(f"{float(per) * math.sqrt(units):.6f}"))
    said["privacy"] = privacy | {"epsilon_per": per, "key_file": "key", "epoch": "forever"}
    said["backend"] = dict(said.get("backend", {})) | {"url": f"duckdb:///{file.absolute()}"}
    said["budget"] = {"mode": "track"}
    said["server"] = {"statement_timeout": "30min"}
    return validated(folder / "dpproxy.toml", said)


def ask_all(file: Path, policy: Path, asked: Sequence[Question], keys: int) -> list[Measured]:
    """Every question of so many deployments, each with a key of its own, against the truth."""
    truth = truths(file, asked)
    found = [Measured(one) for one in asked]
    for _ in range(keys):
        for units in sorted({one.units for one in asked}):
            with tempfile.TemporaryDirectory(prefix="accuracy-") as folder:
                config = deployment(Path(folder), policy, file, units)
                with Service.start(config, alone=True) as service:
                    for one in found:
                        if one.question.units == units:
                            _ask(service, one, truth[one.question.id])
    return found


def _ask(service: Service, one: Measured, truth: Answer) -> None:
    keys = one.question.keys
    try:
        rows = asyncio.run(service.ask("analyst", f"/* dpproxy.reuse = off */ {one.question.sql}"))
        error = error_of(Answer(rows.columns, rows.rows), truth, keys)
        paid = [PAID.search(notice) for notice in rows.notices]
        one.price = one.question.units * sum(float(match[1]) for match in paid if match is not None)
    except ClientError as refusal:
        one.refused = f"{refusal.code} {refusal}"
        error = nothing(truth, keys)
    if error is not None:
        one.errors.append(error)
