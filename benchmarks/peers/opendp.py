"""OpenDP's context over Polars: a lazy frame with a margin."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import opendp.prelude as dp
import polars as pl

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

MOST_ROWS = 1_000_000
"""Of the whole data set: public knowledge that sums of integers need."""


def answered(frame: Any, query: Callable[[Any], Any]) -> GroupValues:
    """One query with a budget of its own."""
    context = dp.Context.compositor(
        data=frame,
        privacy_unit=dp.unit_of(contributions=1, identifier="person_id"),
        privacy_loss=dp.loss_of(epsilon=EPSILON, delta=DELTA),
        split_evenly_over=1,
        margins=[dp.polars.Margin(by=["country"], max_length=MOST_ROWS)],
    )
    rows = query(context.query()).release().collect().rows()
    return {str(row[0]) if len(row) > 1 else "": float(row[-1]) for row in rows}


def main(file: Path) -> Outcome:
    """Every task on the rows of a CSV file."""
    dp.enable_features("contrib", "honest-but-curious")
    outcome = Outcome(
        f"OpenDP {version('opendp')} (Polars)",
        f"a person has 1 row for people by country, {ROWS_OF_A_PERSON} articles with 1 row each for articles,"
        f" else {ROWS_OF_A_PERSON} rows",
        "the largest groups alone: it counts all articles that pass its threshold, and we keep the ten largest",
    )
    frame = pl.read_csv(file).lazy()
    countries = pl.LazyFrame({"country": COUNTRIES})
    total = pl.col("seconds").cast(pl.Int64).fill_null(0).dp.sum((0, MOST_SECONDS))

    def by_country(query: Any, rows: int, what: Any) -> Any:
        return query.truncate_per_group(rows).group_by("country").agg(what).with_keys(countries)

    def by_article(query: Any) -> Any:
        one_each = query.truncate_per_group(1, by=["article"])
        return one_each.truncate_per_group(ROWS_OF_A_PERSON).group_by("article").agg(dp.len())

    def whole(query: Any, what: Any) -> Any:
        return query.truncate_per_group(ROWS_OF_A_PERSON).select(what)

    answers: tuple[PeerQuery, ...] = (
        partial(answered, frame, lambda q: by_country(q, 1, dp.len())),
        lambda: top(answered(frame, by_article)),
        partial(answered, frame, lambda q: whole(q, dp.len())),
        partial(answered, frame, lambda q: by_country(q, ROWS_OF_A_PERSON, total)),
        partial(answered, frame, lambda q: whole(q, pl.col("article").dp.n_unique())),
    )
    for task, answer in zip(TASKS, answers, strict=True):
        outcome.ask(task, answer)
    return outcome


if __name__ == "__main__":
    print(main(Path(sys.argv[1])).dump())
