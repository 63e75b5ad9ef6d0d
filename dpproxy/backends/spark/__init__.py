"""Spark: a cluster, by Spark Connect."""

from __future__ import annotations

from pathlib import Path

from dpproxy.backends.base import Backend, BackendUnavailable

SCHEMES = ("sc",)
EXAMPLE = '"sc://host:15002"'


def connect(
    url: str,
    *,
    folder: Path,
    memory: str,
    slots: int,
    seconds: float,
    owner_writes: bool,
    password_file: Path | None,
) -> Backend:
    """The backend of a Spark Connect server; raises BackendUnavailable without pyspark, which is optional."""
    try:
        from dpproxy.backends.spark.adapter import SparkBackend
    except ImportError:
        raise BackendUnavailable(
            "for Spark another package is needed: pip install 'dpproxy[spark]'"
        ) from None
    return SparkBackend(url, slots=slots)
