"""Every function on private rows in Spark: what PostgreSQL makes of it, NULL, or a refusal, as the golden file lists.

DPPROXY_UPDATE_GOLDEN=1 writes it anew, where Spark runs; read the difference before you commit it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import cache
from pathlib import Path

import psycopg
import pytest

from rewriter.emit.engines.spark import SPARK
from rewriter.refusal import Refusal
from tests.rewriter.scalar.test_functions import EXPRESSIONS, Answers, based, judge, statement, truth
from tests.rewriter.values import COLUMNS, RELATION, ROWS
from tests.spark_server import url, with_spark

pytestmark = pytest.mark.service

GOLDEN = Path(__file__).with_name("functions_spark.txt")
KEPT = GOLDEN.read_text() if GOLDEN.exists() else ""
RUN = "  in Spark: "
PASSED_OVER = "least(d, e)"
"""Dates that Spark's years do not hold are NULL as they are read, which LEAST passes over."""
TOGETHER = 25
TYPES = {
    "numeric": "DECIMAL(38,10)",
    "numeric(9,2)": "DECIMAL(9,2)",
    "double precision": "DOUBLE",
    "real": "FLOAT",
    "text": "STRING",
    "timestamp without time zone": "TIMESTAMP_NTZ",
    "timestamp with time zone": "TIMESTAMP_LTZ",
    "time without time zone": "STRING",
}
__all__ = ["judge"]


@cache
def emitted(expression: str) -> str:
    """The form of an expression, or that there is none."""
    try:
        written = SPARK.sql(SPARK.expression(based(expression), RELATION, ()))
    except Refusal as refusal:
        return f"  refused: {refusal.message}"
    return f"  spark: {' '.join(written.split())}"


@cache
def answered() -> tuple[str, ...]:
    return tuple(e for e in EXPRESSIONS if emitted(e).startswith("  spark: "))


def test_emitted_forms() -> None:
    now = [line for e in EXPRESSIONS for line in (e, emitted(e))]
    kept = [line for line in KEPT.splitlines() if line and not line.startswith(RUN)]
    if os.environ.get("DPPROXY_UPDATE_GOLDEN") != "1":
        assert now == kept


def spelt(value: str | None) -> str | None:
    """A value as Spark reads it: years before the first are counted from 0."""
    if value is None or not value.endswith(" BC"):
        return value
    return f"-{int(value[:4]) - 1:04}{value[4:-3]}"


@pytest.fixture(scope="module")
def spark() -> Iterator[Sequence[Answers]]:
    """The answers to every expression that is not refused, in their order."""
    from pyspark.sql.types import LongType, StringType, StructField, StructType

    from dpproxy.backends.spark.session import connected

    session = connected(url())
    with closing(session.client):
        schema = StructType([StructField(name, StringType()) for name in COLUMNS])
        session.createDataFrame([tuple(map(spelt, row)) for row in ROWS], schema).createOrReplaceTempView(
            "given"
        )
        typed = [f"try_cast({n} AS {TYPES.get(t, t)}) AS {n}" for n, t in COLUMNS.items()]
        session.sql(f"SELECT {', '.join(typed)} FROM given").write.mode("overwrite").saveAsTable("vals")
        assert session.table("vals").schema["id"].dataType == LongType()
        found: list[Answers] = [{} for _ in answered()]
        queries = [
            f"SELECT {n}, q.* FROM ({statement(based(e), SPARK)}) AS q" for n, e in enumerate(answered())
        ]
        for start in range(0, len(queries), TOGETHER):
            for place, number, value in session.sql(
                "\nUNION ALL\n".join(queries[start : start + TOGETHER])
            ).collect():
                found[place][int(number)] = value
        session.sql("DROP TABLE vals")
        yield found


def outcome(expression: str, answers: Answers, judge: psycopg.Connection) -> Iterator[str]:
    base = based(expression)
    expected = truth(expression, base, judge)
    wrong = {n: (a, expected[n]) for n, a in sorted(answers.items()) if a != expected[n]}
    missing = [n for n, (a, _) in wrong.items() if a is None]
    others = {n: pair for n, pair in wrong.items() if n not in missing}
    if missing:
        yield f"{RUN}NULL for rows {missing}"
    if others:
        yield f"{RUN}DIFFERS {others}"


@with_spark
def test_every_function_is_postgresqls_or_null(judge: psycopg.Connection, spark: Sequence[Answers]) -> None:
    found = dict(zip(answered(), spark, strict=True))
    blocks = []
    for e in EXPRESSIONS:
        ran = list(outcome(e, found[e], judge)) if e in found else []
        blocks.append("\n".join([e, emitted(e), *ran]))
    now = "\n\n".join(blocks) + "\n"
    if os.environ.get("DPPROXY_UPDATE_GOLDEN") == "1":
        GOLDEN.write_text(now)
    else:
        assert now == KEPT
    differing = [e for e, block in zip(EXPRESSIONS, blocks, strict=True) if "DIFFERS" in block]
    assert differing == [PASSED_OVER]
