"""A table of awkward values in both engines: NULL, extremes, NaN, infinities, empty and non-ASCII texts."""

from __future__ import annotations

from pathlib import Path

from rewriter.ir.relation import Field, Relation, Source, leaf
from rewriter.policy import Column, Table

COLUMNS = {
    "id": "bigint",
    "i2": "smallint",
    "i4": "integer",
    "i8": "bigint",
    "n": "numeric",
    "m": "numeric(9,2)",
    "f": "double precision",
    "r": "real",
    "s": "text",
    "z": "text",
    "b": "boolean",
    "d": "date",
    "e": "date",
    "ts": "timestamp without time zone",
    "tu": "timestamp without time zone",
    "tm": "time without time zone",
    "tz": "timestamp with time zone",
}
DUCKDB_TYPES = {"numeric": "DECIMAL(38,10)"}
VALUES = Table(
    schema="public",
    name="vals",
    columns=tuple(Column(name, type_name) for name, type_name in COLUMNS.items()),
    public=False,
    backend_name=("vals",),
    privacy_unit="id",
    keys=(frozenset({"id"}),),
)
RELATION = Relation(
    (Source("t0", VALUES, True),),
    scope=(("vals", tuple(Field(name, leaf("t0", name)) for name in COLUMNS)),),
)
Row = tuple[str | None, ...]
ALL: tuple[Row, ...] = tuple(
    tuple(None if text == "NULL" else text.replace("\\n", "\n") for text in line.split("|"))
    for line in Path(__file__).with_name("values.psv").read_text().splitlines()[1:]
)
ROWS = tuple(row for row in ALL if int(row[0] or 0) < 100)
BEYOND = tuple(row for row in ALL if row not in ROWS)
"""Values that PostgreSQL alone can hold."""
