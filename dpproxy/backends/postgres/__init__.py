"""PostgreSQL: a server, by a role that only reads."""

from __future__ import annotations

from pathlib import Path

from dpproxy.backends.base import Backend
from dpproxy.backends.postgres.adapter import PostgresBackend

SCHEMES = ("postgresql", "postgres")
EXAMPLE = '"postgresql://reader@host:5432/database"'


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
    """The backend of a libpq connection URI."""
    return PostgresBackend(url, slots=slots, seconds=seconds, password_file=password_file)
