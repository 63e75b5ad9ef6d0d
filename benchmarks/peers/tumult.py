"""Tumult Analytics on a local Spark: a query builder with constraints."""

from __future__ import annotations

import sys
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import tmlt.analytics as tumult
from pyspark.sql import SparkSession

from benchmarks.peers.tasks import (
    COUNTRIES,
    DELTA,
    EPSILON,
    MOST_SECONDS,
    ROWS_OF_A_PERSON,
    TASKS,
    Answer,
    Groups,
    Outcome,
    cannot,
)


def answered(frame: Any, query: Any) -> Groups:
    """One query with a budget of its own."""
    session = tumult.Session.from_dataframe(
        privacy_budget=tumult.ApproxDPBudget(EPSILON, DELTA),
        source_id="visits",
        dataframe=frame,
        protected_change=tumult.AddRowsWithID("person_id"),
    )
    rows = session.evaluate(query, session.remaining_privacy_budget).collect()
    return {str(row[0]) if len(row) > 1 else "": float(row[-1]) for row in rows}


def main(file: Path) -> Outcome:
    """Every task on the rows of a CSV file."""
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
    frame = spark.read.csv(str(file), header=True, inferSchema=True)
    outcome = Outcome(
        f"Tumult Analytics {version('tmlt.analytics')}",
        "a person's rows come or go",
        f"1 country of a person and {ROWS_OF_A_PERSON} rows in it; else {ROWS_OF_A_PERSON} rows of a person",
    )
    visits = tumult.QueryBuilder("visits")
    one = visits.enforce(tumult.MaxGroupsPerID("country", 1))
    keys = tumult.KeySet.from_dict({"country": list(COUNTRIES)})
    few = visits.enforce(tumult.MaxRowsPerID(ROWS_OF_A_PERSON))
    inside = one.enforce(tumult.MaxRowsPerGroupPerID("country", ROWS_OF_A_PERSON))
    answers: tuple[Answer, ...] = (
        partial(
            answered, frame, one.enforce(tumult.MaxRowsPerGroupPerID("country", 1)).groupby(keys).count()
        ),
        cannot("no query of the largest groups: the groups have to be bought first, then all their counts"),
        partial(answered, frame, few.count()),
        partial(answered, frame, inside.groupby(keys).sum("seconds", 0, MOST_SECONDS)),
        partial(answered, frame, few.count_distinct(["article"])),
    )
    for task, answer in zip(TASKS, answers, strict=True):
        outcome.ask(task, answer)
    return outcome


if __name__ == "__main__":
    print(main(Path(sys.argv[1])).dump())
