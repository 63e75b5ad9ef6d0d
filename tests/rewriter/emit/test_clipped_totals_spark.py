"""Spark adds up the same clipped vectors as DuckDB, of all units and of all but one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from dpproxy.backends import connect
from dpproxy.backends.base import Backend, Cancellation
from rewriter.emit.engines.duckdb import DUCKDB
from rewriter.emit.engines.spark import SPARK
from rewriter.plan import HistogramQuery
from tests.rewriter.emit.test_clipped_totals import ALL, QUESTIONS, Part, in_duckdb, loaded, queries
from tests.spark_server import copied, owner, url, with_spark

pytestmark = [pytest.mark.service, with_spark]

PARTS = (ALL, Part(without=7), Part(only=7))


@pytest.fixture(scope="module", params=PARTS, ids=["all units", "without one", "one alone"])
def spark(request: pytest.FixtureRequest) -> Iterator[tuple[Backend, Part]]:
    with owner() as session:
        copied(loaded(request.param, 1), session)
    opened = connect(url(), folder=Path(), memory="1GB", slots=1)
    yield opened, request.param
    opened.close()


@pytest.mark.parametrize("sql", QUESTIONS)
def test_spark_has_the_sums_of_duckdb(spark: tuple[Backend, Part], sql: str) -> None:
    backend, part = spark
    ours, theirs = queries(sql, SPARK), queries(sql, DUCKDB)
    for query, other in zip(ours.bins + ours.sums, theirs.bins + theirs.sums, strict=True):
        assert sorted(fetched(backend, query)) == sorted(in_duckdb(other, part))


def fetched(backend: Backend, query: HistogramQuery) -> list[tuple[int, ...]]:
    with backend.open() as slot:
        found = slot.fetch(query, "secret", Cancellation(), 10**6)
    columns = [[int(v) if isinstance(v, np.integer) else v for v in column] for column in found.columns]
    return list(zip(*columns, strict=True))
