"""The two-command start: the sample data as a database, and the first queries to ask of it."""

from __future__ import annotations

from pathlib import Path

from dpproxy.backends import sample

FOLDER = Path(__file__).parent.parent / "sample_data"
ANALYST = "demo"
QUERIES = (
    "SELECT p.product_category, COUNT(DISTINCT t.household_id) AS households\n"
    "FROM transactions t JOIN products p USING (product_id)\n"
    "GROUP BY 1 ORDER BY 2 DESC LIMIT 10",
    "SELECT product_id, COUNT(DISTINCT household_id)\nFROM transactions\nGROUP BY 1 ORDER BY 2 DESC LIMIT 10",
)
"""A known domain (the public catalogue's categories), then an unknown one."""


def stale(folder: Path, database: Path) -> bool:
    """Whether `database` is missing or older than a file in `folder` that it is built from."""
    if not database.exists():
        return True
    built = database.stat().st_mtime_ns
    sources = (folder / "schema.sql", *folder.glob("*.parquet"))
    return any(source.stat().st_mtime_ns > built for source in sources)


def sample_database(folder: Path = FOLDER) -> Path:
    """The DuckDB database of the sample data, built first where it is missing or stale.

    Raises FileNotFoundError where `folder` holds no sample data (they are not part of the wheel).
    """
    database = folder / ".dpproxy" / "completejourney.duckdb"
    if stale(folder, database):
        sample.build(folder, database)
    return database
