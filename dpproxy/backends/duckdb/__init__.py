"""DuckDB: a file, in this process."""

from __future__ import annotations

from pathlib import Path

from dpproxy.backends.base import Backend
from dpproxy.backends.duckdb.adapter import DuckDBBackend
from dpproxy.backends.duckdb.instance import LINGER_SECONDS, LONG_LINGER_SECONDS

SCHEMES = ("duckdb",)
EXAMPLE = '"duckdb:///data.duckdb" (relative to the file)'


def connect(
    url: str,
    *,
    folder: Path,
    memory: str,
    slots: int,
    seconds: float,
    owner_writes: bool,
    password_file: Path | None,
) -> Backend | None:
    """The backend of a file, None for a URL without a path."""
    path = url.removeprefix("duckdb:///")
    linger = LINGER_SECONDS if owner_writes else LONG_LINGER_SECONDS
    return (
        None if path in ("", url) else DuckDBBackend(folder / path, memory=memory, slots=slots, linger=linger)
    )
