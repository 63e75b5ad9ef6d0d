"""Builds a DuckDB database from a folder of parquet files and a schema."""

from __future__ import annotations

import os
from pathlib import Path

import duckdb


def build(folder: Path, target: Path) -> None:
    """Makes the database `target`: the tables of `folder`/schema.sql, each filled from its parquet file.

    The database is complete or absent: it is written under another name and renamed. Raises duckdb.Error
    where rows break the schema's constraints, OSError where a file is missing.
    """
    schema = (folder / "schema.sql").read_text()
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_name(f"{target.name}.{os.getpid()}")
    try:
        with duckdb.connect(unfinished) as connection:
            connection.execute(schema)
            for name in _tables(connection):
                rows = connection.read_parquet(str(folder / f"{name}.parquet"))
                connection.execute(f'INSERT INTO "{name}" BY NAME FROM rows')
                del rows
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)


def database_of(folder: Path) -> Path:
    """Where the database of the sample data in `folder` is built."""
    return folder / ".dpproxy" / "completejourney.duckdb"


def stale(folder: Path, database: Path) -> bool:
    """Whether `database` is missing or older than a file in `folder` that it is built from."""
    if not database.exists():
        return True
    built = database.stat().st_mtime_ns
    sources = (folder / "schema.sql", *folder.glob("*.parquet"))
    return any(source.stat().st_mtime_ns > built for source in sources)


def database(folder: Path) -> Path:
    """The DuckDB database of the data in `folder`, built first where it is missing or stale.

    Raises duckdb.Error, OSError where `folder` does not hold the data whole.
    """
    place = database_of(folder)
    if stale(folder, place):
        build(folder, place)
    return place


def _tables(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """In the order of their creation, which the foreign keys follow."""
    rows = connection.execute("SELECT table_name FROM duckdb_tables() ORDER BY table_oid").fetchall()
    return [name for (name,) in rows]
