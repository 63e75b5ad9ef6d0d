"""Writes TPC-DS into a folder: a CSV file for each table, `schema.sql` and `queries.sql`.

Runs in the environment of tpcds.lock, whose duckdb is the one that the extension is made for.
"""

from __future__ import annotations

import sys
from pathlib import Path

import duckdb


def main(folder: Path, scale: str) -> None:
    """Generates and writes everything at a scale factor."""
    extension = next(Path(sys.prefix).rglob("tpcds.duckdb_extension"))
    with duckdb.connect() as connection:
        connection.execute(f"LOAD '{extension}'")
        connection.execute(f"CALL dsdgen(sf = {float(scale)}, keys = true)")
        tables = connection.execute("SELECT table_name, sql FROM duckdb_tables()").fetchall()
        for name, _ in tables:
            connection.execute(f"COPY {name} TO '{folder / name}.csv' (FORMAT csv, HEADER)")
        queries = connection.execute("SELECT query FROM tpcds_queries() ORDER BY query_nr").fetchall()
    (folder / "schema.sql").write_text("\n".join(sql for _, sql in tables))
    (folder / "queries.sql").write_text("\n".join(query for (query,) in queries))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
