"""The databases that hold the data: one adapter a file, chosen by the URL of `[backend]`."""

from __future__ import annotations

from pathlib import Path

from dpproxy.backends.base import Backend, BackendUnavailable
from dpproxy.backends.duckdb.adapter import DuckDBBackend
from dpproxy.backends.postgres.adapter import PostgresBackend


def connect(url: str, *, folder: Path, memory: str, slots: int, seconds: float = 0) -> Backend:
    """The backend behind a URL, not opened yet.

    `folder`: what a relative path in the URL is relative to; `memory`: DuckDB's limit, such as "4GB"; `slots`: how
    many queries may run at once; `seconds`: the longest query of a server, 0 for no limit. Raises
    BackendUnavailable for a URL that this version does not serve.

    >>> connect("duckdb:///data.duckdb", folder=Path("/srv"), memory="1GB", slots=2).path
    PosixPath('/srv/data.duckdb')
    """
    kind, separator, rest = url.partition("://")
    if separator and kind == "duckdb" and rest.startswith("/") and len(rest) > 1:
        return DuckDBBackend(folder / rest[1:], memory=memory, slots=slots)
    if separator and kind in ("postgresql", "postgres"):
        return PostgresBackend(url, slots=slots, seconds=seconds)
    if separator and kind == "sc":
        return _spark(url, slots)
    raise BackendUnavailable(
        'the backend\'s url has to be like "duckdb:///data.duckdb" (relative to the file), '
        '"postgresql://reader@host:5432/database" or "sc://host:15002"'
    )


def _spark(url: str, slots: int) -> Backend:
    try:
        from dpproxy.backends.spark.adapter import SparkBackend
    except ImportError:
        raise BackendUnavailable(
            "for Spark another package is needed: pip install 'dpproxy[spark]'"
        ) from None
    return SparkBackend(url, slots=slots)
