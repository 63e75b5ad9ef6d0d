"""Tumult Analytics on a local Spark: a query builder with constraints."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
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
    GroupValues,
    Outcome,
    PeerQuery,
    top,
)


def session_over(frame: Any) -> Any:
    """A session with one answer's budget."""
    return tumult.Session.from_dataframe(
        privacy_budget=tumult.ApproxDPBudget(EPSILON, DELTA),
        source_id="visits",
        dataframe=frame,
        protected_change=tumult.AddRowsWithID("person_id"),
    )


def groups_of(rows: list[Any]) -> GroupValues:
    """The rows of an answer, by their first column."""
    return {str(row[0]) if len(row) > 1 else "": float(row[-1]) for row in rows}


def answered(frame: Any, query: Callable[[], Any]) -> GroupValues:
    """One query with a budget of its own."""
    session = session_over(frame)
    return groups_of(session.evaluate(query(), session.remaining_privacy_budget).collect())


def bounded(*bounds: Any) -> Any:
    """A query builder of its own with these constraints; `enforce` changes the builder that it is called on."""
    builder = tumult.QueryBuilder("visits")
    for bound in bounds:
        builder = builder.enforce(bound)
    return builder


def within(column: str, groups: int, rows: int) -> Any:
    """A query builder for so many groups of a person and rows in each."""
    return bounded(tumult.MaxGroupsPerID(column, groups), tumult.MaxRowsPerGroupPerID(column, rows))


def by_article(frame: Any) -> GroupValues:
    """Half of epsilon, and delta, name the articles that pass a threshold, what is left counts their people."""
    session = session_over(frame)
    named = within("article", ROWS_OF_A_PERSON, 1).get_groups(["article"])
    keys = tumult.KeySet.from_dataframe(session.evaluate(named, tumult.ApproxDPBudget(EPSILON / 2, DELTA)))
    counted = within("article", ROWS_OF_A_PERSON, 1).groupby(keys).count()
    return groups_of(session.evaluate(counted, session.remaining_privacy_budget).collect())


def main(file: Path) -> Outcome:
    """Every task on the rows of a CSV file."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.shuffle.partitions", "2")
    spark = builder.config("spark.sql.warehouse.dir", str(file.parent / "warehouse")).getOrCreate()
    frame = spark.read.csv(str(file), header=True, inferSchema=True).cache()
    frame.count()
    outcome = Outcome(
        f"Tumult Analytics {version('tmlt.analytics')} (Spark)",
        f"a person has 1 country with 1 row for people and {ROWS_OF_A_PERSON} for sums; {ROWS_OF_A_PERSON} articles"
        f" with 1 row each; else {ROWS_OF_A_PERSON} rows",
        "the largest groups alone: half of epsilon selects the articles that pass a threshold, the other half counts"
        " them, and we keep the ten largest",
    )
    keys = tumult.KeySet.from_dict({"country": list(COUNTRIES)})
    few = tumult.MaxRowsPerID(ROWS_OF_A_PERSON)
    answers: tuple[PeerQuery, ...] = (
        partial(answered, frame, lambda: within("country", 1, 1).groupby(keys).count()),
        lambda: top(by_article(frame)),
        partial(answered, frame, lambda: bounded(few).count()),
        partial(
            answered,
            frame,
            lambda: within("country", 1, ROWS_OF_A_PERSON).groupby(keys).sum("seconds", 0, MOST_SECONDS),
        ),
        partial(answered, frame, lambda: bounded(few).count_distinct(["article"])),
    )
    for task, answer in zip(TASKS, answers, strict=True):
        outcome.ask(task, answer)
    return outcome


if __name__ == "__main__":
    print(main(Path(sys.argv[1])).dump())
