"""Tumult Analytics on a local Spark in zCDP; its own bounds come from get_bounds."""

from __future__ import annotations

import os
import sys
from importlib.metadata import version
from pathlib import Path

import tmlt.analytics as tumult
from pyspark.sql import SparkSession

from benchmarks.accuracy.peers.tasks import BOUNDS, CAREFUL, CHOICE, COLUMNS, OWN, Released, printed


def release(file: Path, answers: int, keys: int, rho: float) -> Released:
    """Both kinds of bounds on the rows of a CSV file."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.shuffle.partitions", "2")
    spark = builder.config("spark.sql.warehouse.dir", str(file.parent / "warehouse")).getOrCreate()
    frame = spark.read.csv(str(file), header=True, inferSchema=True).cache()

    def session() -> tumult.Session:
        return tumult.Session.from_dataframe(
            privacy_budget=tumult.RhoZCDPBudget(rho),
            source_id="households",
            dataframe=frame,
            protected_change=tumult.AddRowsWithID("household_id"),
        )

    def one_row() -> tumult.QueryBuilder:
        return tumult.QueryBuilder("households").enforce(tumult.MaxRowsPerID(1))

    def careful(task: str, _: int) -> float:
        query = one_row().sum(COLUMNS[task], 0, BOUNDS[task])
        return float(session().evaluate(query, tumult.RhoZCDPBudget(rho)).collect()[0][0])

    def own(task: str, _: int) -> float:
        column, asked = COLUMNS[task], session()
        chosen = asked.evaluate(one_row().get_bounds(column), tumult.RhoZCDPBudget(CHOICE * rho)).collect()[0]
        query = one_row().sum(column, float(min(chosen)), float(max(chosen)))
        return float(asked.evaluate(query, asked.remaining_privacy_budget).collect()[0][0])

    done = Released(f"Tumult Analytics {version('tmlt.analytics')}", "zCDP")
    done.ask(CAREFUL, careful, answers, keys)
    done.ask(OWN, own, answers, keys)
    return done


if __name__ == "__main__":
    printed(release)
