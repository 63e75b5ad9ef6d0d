"""Every type that analysts meet: two values of it, each as PostgreSQL prints it, in the schema of both backends."""

from __future__ import annotations

from typing import NamedTuple


class Kind(NamedTuple):
    """A column of one type.

    `type`: PostgreSQL's name of it; `duckdb`: DuckDB's; `front`: what analysts see where DuckDB holds the data;
    `values`: two values as PostgreSQL prints them (ISO, UTC); `groups`: whether PostgreSQL can group by it.
    """

    name: str
    type: str
    duckdb: str
    front: str
    values: tuple[str, str]
    groups: bool = True


KINDS = (
    Kind("i2", "smallint", "SMALLINT", "smallint", ("-32768", "32767")),
    Kind("i4", "integer", "INTEGER", "integer", ("-2147483648", "7")),
    Kind("i8", "bigint", "BIGINT", "bigint", ("-9007199254740993", "9223372036854775807")),
    Kind("f4", "real", "FLOAT", "real", ("0.1", "-3.4e+38")),
    Kind("f8", "double precision", "DOUBLE", "double precision", ("0.1", "1e+300")),
    Kind("n", "numeric(20,4)", "DECIMAL(20,4)", "numeric(20,4)", ("-1234567890123456.7890", "0.5000")),
    Kind("t", "text", "VARCHAR", "text", ("naïve \\ \"x\" 'y' 日本", " two\nlines\t")),
    Kind("v", "character varying(8)", "VARCHAR(8)", "text", ("été", "12345678")),
    Kind("b", "boolean", "BOOLEAN", "boolean", ("t", "f")),
    Kind("d", "date", "DATE", "date", ("0001-01-01", "2024-02-29")),
    Kind("ti", "time without time zone", "TIME", "time without time zone", ("00:00:00", "23:59:59.999999")),
    Kind(
        "ts",
        "timestamp without time zone",
        "TIMESTAMP",
        "timestamp without time zone",
        ("1969-12-31 23:59:59.5", "2024-02-29 12:00:00.000001"),
    ),
    Kind(
        "tz",
        "timestamp with time zone",
        "TIMESTAMPTZ",
        "timestamp with time zone",
        ("2024-03-31 01:30:00+00", "1969-12-31 23:59:59.5+00"),
    ),
    Kind("iv", "interval", "INTERVAL", "interval", ("3 days 04:05:06.789", "-1 days")),
    Kind(
        "u",
        "uuid",
        "UUID",
        "uuid",
        ("00000000-0000-0000-0000-000000000001", "ffffffff-ffff-4fff-bfff-ffffffffffff"),
    ),
    Kind("j", "json", "JSON", "json", ('{"k": 1}', "[null]"), groups=False),
    Kind("jb", "jsonb", "JSON", "json", ('{"k": [1, "x"]}', "null"), groups=False),
    Kind("ba", "bytea", "BLOB", "bytea", ("\\x00ff27", "\\x")),
    Kind("ai", "integer[]", "INTEGER[]", "integer[]", ("{1,NULL,3}", "{}")),
    Kind("ta", "text[]", "VARCHAR[]", "text[]", ('{"a b",NULL,"\\"q\\"","{}"}', "{x}")),
    Kind("e", "app.mood", "app.mood", "app.mood", ("sad", "it's ok")),
)
MOODS = ("sad", "it's ok", "happy")
