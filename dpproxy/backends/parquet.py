"""Rows as a Parquet file, by DuckDB's writer."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import duckdb

from dpproxy.backends.base import literal

_NULL = "NULL"


def write_parquet(path: Path, columns: Mapping[str, str], rows: Iterable[Sequence[str | None]]) -> None:
    """Writes rows to `path`, replacing what is there.

    `columns`: DuckDB's type of each, by name; `rows`: values as text, None for NULL. Raises OSError.
    """
    with tempfile.TemporaryDirectory(dir=path.absolute().parent) as folder:
        passed = Path(folder) / "rows.csv"
        with passed.open("w", encoding="utf-8", newline="") as file:
            file.writelines(",".join(map(_quoted, row)) + "\n" for row in rows)
        made = Path(folder) / "rows.parquet"
        types = ", ".join(f"{literal(name)}: {literal(kind)}" for name, kind in columns.items())
        source = (
            f"read_csv({literal(str(passed))}, columns = {{{types}}}, header = false, quote = '\"', escape = '\"', "
            f"nullstr = {literal(_NULL)}, allow_quoted_nulls = false, auto_detect = false)"
        )
        try:
            with duckdb.connect(":memory:") as connection:
                connection.execute(f"COPY (SELECT * FROM {source}) TO {literal(str(made))} (FORMAT parquet)")
        except duckdb.Error as error:
            raise OSError(f"{path} cannot be written: {error}") from error
        made.replace(path)


def _quoted(value: str | None) -> str:
    return _NULL if value is None else '"' + value.replace('"', '""') + '"'
