"""Equal intervals are one group on both engines, under a name that no row decides."""

from __future__ import annotations

import duckdb
import psycopg
import pytest
from sqlglot import exp

from rewriter.emit.engines.duckdb import DUCKDB
from rewriter.emit.engines.postgres import POSTGRES
from rewriter.ir.types import Type

pytestmark = pytest.mark.service

SAME = {
    "30 days": ("1 month", "1 mon"),
    "720 hours": ("1 month", "1 mon"),
    "1 day -1 hours": ("23:00:00", "23:00:00"),
    "-36 hours": ("-1 day -12:00:00", "-1 days -12:00:00"),
    "1 year 2 months 3 days 4.5 seconds": (
        "1 year 2 months 3 days 00:00:04.5",
        "1 year 2 mons 3 days 00:00:04.5",
    ),
    "200000 years": (None, None),
}


def test_intervals_are_named_alike(postgres: psycopg.Connection) -> None:
    values = duckdb.connect()
    for text, wanted in SAME.items():
        value = exp.cast(exp.Literal.string(text), "INTERVAL")
        found = [
            connection.execute(
                dialect.sql(exp.select(exp.cast(dialect.key(value, Type.INTERVAL), "TEXT")))
            ).fetchone()
            for connection, dialect in ((values, DUCKDB), (postgres, POSTGRES))
        ]
        assert found == [(one,) for one in wanted], text
