"""The columns of private subqueries have the types that PostgreSQL gives them."""

from __future__ import annotations

from itertools import combinations_with_replacement

import psycopg
import pytest

from rewriter.binder.output_columns import common_column, row_column
from rewriter.ir.types import DATED, Type, type_named
from rewriter.policy import Column
from rewriter.refusal import Refusal
from tests.rewriter.scalar.test_functions import EXPRESSIONS, based
from tests.rewriter.values import COLUMNS, RELATION


def named(connection: psycopg.Connection, query: str) -> Type | None:
    """The type of a query's only column; None where PostgreSQL refuses it."""
    try:
        with connection.transaction(), connection.cursor() as cursor:
            cursor.execute(query.encode())
            column = (cursor.description or [])[0]
            cursor.execute("SELECT format_type(%s, NULL)", (column.type_code,))
            (name,) = cursor.fetchone() or ("",)
    except psycopg.Error:
        return None
    return type_named(name)


@pytest.mark.service
def test_a_value_has_postgresqls_type(postgres: psycopg.Connection) -> None:
    columns = ", ".join(f"{name} {type_name}" for name, type_name in COLUMNS.items())
    with postgres.transaction(force_rollback=True):
        postgres.execute(f"CREATE TABLE vals ({columns})".encode())
        expected = {e: named(postgres, f"SELECT {e} FROM vals WHERE false") for e in EXPRESSIONS}
    found = {e: type_named(row_column("x", based(e), RELATION, ()).type) for e in EXPRESSIONS}
    wrong = {
        e: (found[e].name, of.name) for e, of in expected.items() if of is not None and found[e] is not of
    }
    assert not wrong


@pytest.mark.service
def test_a_set_operation_has_postgresqls_type(postgres: psycopg.Connection) -> None:
    names = [*COLUMNS.values(), "numeric(9,2)", "smallint", "real", "character varying(5)"]
    for one, other in combinations_with_replacement(dict.fromkeys(names), 2):
        expected = named(postgres, f"SELECT NULL::{one} UNION ALL SELECT NULL::{other}")
        try:
            column = common_column("x", Column("a", one), Column("b", other))
        except Refusal:
            # PostgreSQL would convert these, by the zone of the session.
            assert expected is None or {type_named(one), type_named(other)} < DATED, (one, other)
            continue
        assert type_named(column.type) is expected, (one, other)
