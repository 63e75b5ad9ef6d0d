"""No stored value makes Spark raise, whatever is asked: as on the other engines (test_spoiled.py)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import psycopg
import pytest

from dpproxy.backends import connect
from rewriter.emit.engines.spark import SPARK
from tests.rewriter import spoiled
from tests.rewriter.spoiled import World
from tests.rewriter.test_spoiled import EVERY, odd_statements
from tests.spark_server import owner, url, with_spark

pytestmark = [pytest.mark.service, with_spark]


def raised(statements: Sequence[str], world: World, front: psycopg.Connection) -> tuple[int, list[str]]:
    """How many queries were run, and what Spark raised."""
    front.execute("CREATE SCHEMA spoiled")
    front.execute("SET search_path = spoiled")
    with owner() as session:
        for table in world.policy.tables.values():
            shown = ", ".join(f"{c.name} {c.type}" for c in table.columns)
            front.execute(f"CREATE TABLE {table.name} ({shown})".encode())
            names = [c.name for c in table.columns]
            rows = " UNION ALL ".join(
                "SELECT " + ", ".join(f"{v} AS {n}" for v, n in zip(row, names, strict=True))
                for row in world.rows(world.types[table.name])
            )
            session.sql(f"DROP TABLE IF EXISTS {table.name}")
            typed = ", ".join(f"CAST({n} AS {of}) AS {n}" for n, of in world.types[table.name].items())
            session.conf.set("spark.sql.ansi.enabled", "false")
            session.sql(f"CREATE TABLE {table.name} AS SELECT {typed} FROM ({rows}) AS r")
    try:
        backend = connect(url(), folder=Path(), memory="1GB", slots=1)
        with backend.open() as slot:
            return spoiled.failures(statements, world, SPARK, slot, front)
    finally:
        front.execute("DROP SCHEMA spoiled CASCADE")
        front.execute("RESET search_path")


@pytest.mark.parametrize("every", [EVERY, pytest.param(1, marks=pytest.mark.slow)])
def test_a_column_of_each_type(every: int, postgres: psycopg.Connection) -> None:
    from dpproxy.backends.spark.schema import front_type

    world = spoiled.odd_spark(front_type)
    queries, found = raised(odd_statements(world, every), world, postgres)
    assert queries > 500 // every
    assert not found, found[0]
