"""PipelineDP on its local backend: extractors and metrics in Python."""

from __future__ import annotations

import csv
import logging
import sys
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pipeline_dp as pdp

from benchmarks.peers.tasks import (
    COUNTRIES,
    DELTA,
    EPSILON,
    MOST_SECONDS,
    ROWS_OF_A_PERSON,
    TASKS,
    GroupValues,
    Outcome,
    PeerQuery,
    cannot,
    top,
)

Row = tuple[int, str, int, int]


def answered(
    rows: list[Row],
    metric: Any,
    partition: Callable[[Row], object],
    public: list[object] | None = None,
    partitions: int = 1,
    **bounds: int,
) -> GroupValues:
    """One aggregate with a budget of its own; `partitions`: so many groups of a person count."""
    accountant = pdp.NaiveBudgetAccountant(total_epsilon=EPSILON, total_delta=DELTA)
    engine = pdp.DPEngine(accountant, pdp.LocalBackend())
    extractors = pdp.DataExtractors(
        privacy_id_extractor=lambda row: row[0],
        partition_extractor=partition,
        value_extractor=lambda row: row[3],
    )
    params = pdp.AggregateParams(
        metrics=[metric],
        max_partitions_contributed=partitions,
        max_contributions_per_partition=ROWS_OF_A_PERSON,
        **bounds,
    )
    found = engine.aggregate(rows, params, extractors, public_partitions=public)
    accountant.compute_budgets()
    return {str(key): float(values[0]) for key, values in found}


def main(file: Path) -> Outcome:
    """Every task on the rows of a CSV file."""
    logging.disable(logging.CRITICAL)
    with file.open() as lines:
        rows = [(int(a), b, int(c), int(d)) for a, b, c, d in list(csv.reader(lines))[1:]]
    outcome = Outcome(
        f"PipelineDP {version('pipeline-dp')} (its local backend)",
        f"a person has {ROWS_OF_A_PERSON} rows in a group, 1 country, {ROWS_OF_A_PERSON} articles",
        "the largest groups alone: it counts all articles that pass its threshold, and we keep the ten"
        " largest; distinct values",
    )
    metrics, countries = pdp.Metrics, list[object](COUNTRIES)
    by_article = partial(
        answered, rows, metrics.PRIVACY_ID_COUNT, lambda row: row[2], partitions=ROWS_OF_A_PERSON
    )
    answers: tuple[PeerQuery, ...] = (
        partial(answered, rows, metrics.PRIVACY_ID_COUNT, lambda row: row[1], countries),
        lambda: top(by_article()),
        lambda: {"": answered(rows, metrics.COUNT, lambda row: "", [""])[""]},
        partial(
            answered, rows, metrics.SUM, lambda row: row[1], countries, min_value=0, max_value=MOST_SECONDS
        ),
        cannot("it has no count of distinct values; groups that pass a threshold can be named"),
    )
    for task, answer in zip(TASKS, answers, strict=True):
        outcome.ask(task, answer)
    return outcome


if __name__ == "__main__":
    print(main(Path(sys.argv[1])).dump())
