"""The schema of a Spark catalog, in PostgreSQL's words: tables and their columns. Spark enforces no keys."""

from __future__ import annotations

import re
from contextlib import suppress

from pyspark.errors import PySparkException
from pyspark.sql.connect.session import SparkSession
from pyspark.sql.types import StructField

from dpproxy.backends.base import BackendColumn, BackendSchema, BackendTable, BackendUnavailable
from rewriter.policy import TableName

_TYPES = {
    "boolean": "boolean",
    "tinyint": "smallint",
    "smallint": "smallint",
    "int": "integer",
    "bigint": "bigint",
    "float": "real",
    "double": "double precision",
    "string": "text",
    "date": "date",
    "timestamp": "timestamp with time zone",
    "timestamp_ntz": "timestamp without time zone",
}
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)\Z")
_VARCHAR = re.compile(r"varchar\((\d+)\)\Z")
VOLATILE = frozenset(
    {
        *("rand", "random", "randn", "randstr", "uniform", "uuid", "shuffle", "monotonically_increasing_id"),
        *("spark_partition_id", "input_file_name", "input_file_block_start", "input_file_block_length"),
        *("reflect", "java_method", "try_reflect"),
    }
)
"""Functions that depend on more than their arguments and the time."""
_DECLARED = "__CHAR_VARCHAR_TYPE_STRING"
_TABLES = ("MANAGED", "EXTERNAL")


def front_type(native: str) -> str | None:
    """The front's type for a Spark type, as format_type prints it; None for those that are not shown.

    >>> [front_type(t) for t in ("decimal(9,2)", "varchar(3)", "char(3)", "string collate UTF8_LCASE", "array<int>")]
    ['numeric(9,2)', 'character varying(3)', None, None, None]
    """
    if decimal := _DECIMAL.match(native):
        return f"numeric({decimal[1]},{decimal[2]})"
    if sized := _VARCHAR.match(native):
        return f"character varying({sized[1]})"
    return _TYPES.get(native)


def named(*parts: str) -> str:
    """An identifier in Spark's SQL.

    >>> named("main", "a`b")
    '`main`.`a``b`'
    """
    return ".".join("`" + part.replace("`", "``") + "`" for part in parts)


def read_schema(session: SparkSession) -> BackendSchema:
    """The tables of the current catalog that can be read; its database `default` is PostgreSQL's public.

    Views are left out (their rows may belong to several units each). Raises BackendUnavailable where two tables
    would get one name, pyspark's errors.
    """
    catalog = session.catalog.currentCatalog()
    tables: dict[TableName, BackendTable] = {}
    for database in session.catalog.listDatabases():
        schema = "public" if database.name == "default" else database.name
        for table in session.catalog.listTables(named(catalog, database.name)):
            if table.isTemporary or table.tableType not in _TABLES:
                continue
            if (schema, table.name) in tables:
                raise BackendUnavailable(f'databases "default" and "public" both have a table "{table.name}"')
            parts = (catalog, database.name, table.name)
            with suppress(PySparkException):
                columns = tuple(map(_column, session.table(named(*parts)).schema.fields))
                tables[schema, table.name] = BackendTable(
                    schema, table.name, parts, columns, comment=table.description or None, keeps_keys=False
                )
    return BackendSchema(tables)


def described(session: SparkSession, query: str) -> BackendColumn:
    """The one column of a query, which is not run; raises pyspark's errors."""
    (field,) = session.sql(query).schema.fields
    return _column(field)


def users_functions(session: SparkSession) -> frozenset[str]:
    """The names in lower case of functions that are not Spark's own; raises pyspark's errors."""
    rows = session.sql("SHOW USER FUNCTIONS").collect()
    return frozenset(row[0].rpartition(".")[2].lower() for row in rows)


def _column(field: StructField) -> BackendColumn:
    native = field.metadata.get(_DECLARED) or field.dataType.simpleString()
    return BackendColumn(field.name, front_type(native), native, comment=field.metadata.get("comment"))
