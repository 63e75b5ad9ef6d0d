"""A Spark Connect server for tests and benchmarks: one a process, of two executors, with tables in a new folder."""

from __future__ import annotations

import atexit
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import duckdb
    from pyspark.sql import SparkSession

HERE = os.environ.get("DPPROXY_SPARK", "")
"""A server that is used in place of one of our own: its tables are dropped."""
NEEDED = importlib.util.find_spec("pyspark") is not None and (bool(HERE) or shutil.which("java") is not None)
with_spark = pytest.mark.skipif(not NEEDED, reason="pyspark or Java is not installed: `make spark` has both")
"""Marks what runs on Spark."""


@dataclass(frozen=True)
class Server:
    """A running server: its URL, and its group of processes, executors among them."""

    url: str
    group: int

    def busy(self) -> float:
        """Seconds of processors that it has used, of processes that still run."""
        ticks = 0
        for file in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):
                fields = file.read_text().rpartition(")")[2].split()
                ticks += sum(map(int, fields[11:13])) if int(fields[2]) == self.group else 0
        return ticks / os.sysconf("SC_CLK_TCK")


@contextmanager
def serving(master: str, *, memory: str = "1g", options: Sequence[str] = ()) -> Iterator[Server]:
    """A server of its own. `master`: e.g. "local[2]"; `memory`: of the driver."""
    import pyspark

    home = Path(pyspark.__file__).parent
    folder = Path(tempfile.mkdtemp(prefix="dpproxy-spark"))
    port = free_port()
    settings = {
        "spark.connect.grpc.binding.port": str(port),
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.shuffle.partitions": "4",
        "spark.local.dir": str(folder / "local"),
    }
    written = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [
                *(str(home / "bin" / "spark-submit"), "--master", master, "--driver-memory", memory),
                *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer"),
                *(*written, *options, "spark-internal"),
            ],
            cwd=folder,
            env={**os.environ, "SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1"},
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        _wait(process, port, folder / "log")
        yield Server(f"sc://127.0.0.1:{port}", process.pid)
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(30)
        shutil.rmtree(folder, ignore_errors=True)


def free_port() -> int:
    """A port where nothing listens."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _wait(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    raise AssertionError(f"Spark did not start:\n{log.read_text()[-2000:]}")


@cache
def url() -> str:
    """The server of this process, started once."""
    if HERE:
        return HERE
    started = serving("local-cluster[2,1,1024]")
    address = started.__enter__().url
    atexit.register(started.__exit__, None, None, None)
    return address


@contextmanager
def owner(address: str | None = None) -> Iterator[SparkSession]:
    """A session of the data's owner, in UTC."""
    from pyspark.sql import SparkSession

    session = SparkSession.builder.remote(address or url()).create()
    session.conf.set("spark.sql.session.timeZone", "UTC")
    session.conf.set("spark.sql.caseSensitive", "true")
    session.conf.set("spark.sql.timestampType", "TIMESTAMP_NTZ")
    try:
        yield session
    finally:
        session.stop()


def copied(database: duckdb.DuckDBPyConnection, session: SparkSession) -> None:
    """Makes tables of Spark out of all of a DuckDB; those of the same names are dropped."""
    from pyspark.sql.pandas.types import from_arrow_schema

    for (name,) in database.execute("SELECT table_name FROM duckdb_tables() WHERE NOT temporary").fetchall():
        session.sql(f"DROP TABLE IF EXISTS {name}")
        rows = database.sql(f"SELECT * FROM {name}").to_arrow_table()
        # Spark infers no schema from a table without rows.
        session.createDataFrame(rows, from_arrow_schema(rows.schema)).write.saveAsTable(name)
