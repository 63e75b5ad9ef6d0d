"""What is Spark's alone among the backends."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from dpproxy.backends import connect
from dpproxy.backends.base import BackendUnavailable
from rewriter.emit.engines.spark import SECRET
from tests.spark_server import url, with_spark


@pytest.mark.skipif(importlib.util.find_spec("pyspark") is not None, reason="pyspark is installed")
def test_its_driver_is_optional() -> None:
    with pytest.raises(BackendUnavailable, match=r"dpproxy\[spark\]"):
        connect("sc://host:15002", folder=Path(), memory="1GB", slots=1)


@with_spark
def test_no_plan_of_spark_shows_the_secret() -> None:
    from dpproxy.backends.spark.adapter import _bind
    from dpproxy.backends.spark.session import connected, end

    session = connected(url())
    try:
        _bind(session, SECRET, {"secret": ["4711 is secret"]})
        frame = session.sql(f"SELECT md5((SELECT secret FROM {SECRET}) || id) AS m FROM range(3) ORDER BY m")
        plan = frame._explain_string(extended=True)
    finally:
        end(session)
    assert "LocalRelation [secret" in plan
    assert "4711" not in plan
