"""The sample database: complete or absent, constrained, and fresh."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import duckdb
import pytest

from dpproxy.backends import sample


@pytest.fixture
def folder(tmp_path: Path, sample_data: Path) -> Path:
    """The small tables of the sample data; the large ones without rows, so that a build takes no time."""
    for file in sample_data.iterdir():
        if file.suffix in {".parquet", ".sql"}:
            shutil.copy2(file, tmp_path)
    large = tmp_path / "transactions.parquet"
    with duckdb.connect() as connection:
        connection.read_parquet(str(large)).limit(1000).to_parquet(str(large) + ".new")
    Path(f"{large}.new").replace(large)
    return tmp_path


def rows(database: Path, query: str) -> list[tuple[object, ...]]:
    with duckdb.connect(database, read_only=True) as connection:
        return connection.execute(query).fetchall()


def test_shipped_files_hold_what_the_readme_says(sample_data: Path) -> None:
    readme = (sample_data / "README.md").read_text()
    for file in sample_data.glob("*.parquet"):
        ((count,),) = duckdb.read_parquet(str(file)).count("*").fetchall()
        assert f"| `{file.name}` | {count:,} |" in readme
    assert sum(file.stat().st_size for file in sample_data.glob("*.parquet")) < 12_000_000


def test_every_household_is_there(sample_data: Path) -> None:
    households = sample_data / "households.parquet"
    transactions = sample_data / "transactions.parquet"
    strays = f"SELECT count(*) FROM '{transactions}' ANTI JOIN '{households}' USING (household_id)"
    with duckdb.connect() as connection:
        count = connection.execute(f"SELECT count(DISTINCT household_id) FROM '{transactions}'")
        assert count.fetchall() == [(2469,)]
        assert connection.execute(strays).fetchall() == [(0,)]


def test_database_has_keys_and_comments(folder: Path) -> None:
    database = sample.database(folder)
    keys = rows(
        database,
        "SELECT table_name, constraint_type FROM duckdb_constraints() WHERE constraint_type IN"
        " ('PRIMARY KEY', 'FOREIGN KEY') ORDER BY ALL",
    )
    assert keys == [
        ("campaign_descriptions", "PRIMARY KEY"),
        ("campaigns", "FOREIGN KEY"),
        ("campaigns", "FOREIGN KEY"),
        ("campaigns", "PRIMARY KEY"),
        ("coupon_redemptions", "FOREIGN KEY"),
        ("coupon_redemptions", "FOREIGN KEY"),
        ("coupon_redemptions", "PRIMARY KEY"),
        ("households", "PRIMARY KEY"),
        ("products", "PRIMARY KEY"),
        ("transactions", "FOREIGN KEY"),
        ("transactions", "PRIMARY KEY"),
    ]
    assert rows(database, "SELECT count(*) FROM duckdb_tables() WHERE comment IS NULL") == [(0,)]
    assert rows(database, "SELECT count(*) FROM households") == [(2469,)]


def test_a_fresh_database_is_kept_and_a_stale_one_built_anew(folder: Path) -> None:
    database = sample.database(folder)
    first = database.stat().st_ino
    assert sample.database(folder).stat().st_ino == first
    newer = database.stat().st_mtime_ns + 1_000_000_000
    os.utime(folder / "products.parquet", ns=(newer, newer))
    assert sample.stale(folder, database)
    assert sample.database(folder).stat().st_ino != first


def test_a_failed_build_leaves_nothing(folder: Path) -> None:
    (folder / "coupon_redemptions.parquet").unlink()
    with pytest.raises(duckdb.Error):
        sample.database(folder)
    assert list((folder / ".dpproxy").iterdir()) == []


def test_rows_that_break_a_constraint_are_refused(folder: Path, tmp_path: Path) -> None:
    twice = str(folder / "households.parquet")
    with duckdb.connect() as connection:
        read = connection.read_parquet(twice)
        read.union(read).to_parquet(twice + ".new")
    Path(f"{twice}.new").replace(twice)
    with pytest.raises(duckdb.ConstraintException):
        sample.build(folder, tmp_path / "out.duckdb")
