"""DuckDB: a file, in this process."""

from __future__ import annotations

from pathlib import Path

from dpproxy.backends.base import Backend
from dpproxy.backends.duckdb.adapter import DuckDBBackend

SCHEMES = ("duckdb",)
EXAMPLE = '"duckdb:///data.duckdb" (relative to the file)'


def connect(url: str, *, folder: Path, memory: str, slots: int, seconds: float) -> Backend | None:
    """The backend of a file, None for a URL without a path."""
    path = url.removeprefix("duckdb:///")
    return None if path in ("", url) else DuckDBBackend(folder / path, memory=memory, slots=slots)
