"""The other case of each letter: PostgreSQL's in the locale of the front, and what engines are made to say."""

from __future__ import annotations

from contextlib import closing

import duckdb
import psycopg
import pytest
from sqlglot import exp

from rewriter.emit.engines.base import Engine
from rewriter.emit.engines.duckdb import DUCKDB
from rewriter.emit.engines.spark import SPARK
from rewriter.ir.relation import leaf
from rewriter.scalar.letters import lower, upper
from tests.rewriter.values import RELATION
from tests.spark_server import url, with_spark

LETTERS = [chr(code) for code in range(1, 0x110000) if not 0xD800 <= code < 0xE000]
NEWER = {
    *"ƛɤ\ua7cb\u1c89\u1c8a\ua7cc\ua7cd\ua7da\ua7db\ua7dc\ua7ce\ua7cf\ua7d2\ua7d3\ua7d4\ua7d5",
    *map(chr, range(0x10D50, 0x10D86)),
    *map(chr, range(0x16EA0, 0x16ED4)),
}
"""Letters that got another case in Unicode 16 or 17: PostgreSQL 18 knows the former, Spark both."""


KINDS: tuple[type[exp.Func], ...] = (exp.Lower, exp.Upper)


def cased(kind: type[exp.Func], connection: psycopg.Connection) -> list[str]:
    """What PostgreSQL makes of each letter."""
    query = f"SELECT {kind.__name__}(t) FROM unnest(%s::text[]) AS t"
    return [text for (text,) in connection.execute(query.encode(), (LETTERS,)).fetchall()]


def written(kind: type[exp.Func], engine: Engine) -> str:
    return engine.sql(engine.expression(kind(this=leaf("t0", "s")), RELATION, ()))


@pytest.mark.service
@pytest.mark.parametrize("kind", KINDS)
def test_every_letter(kind: type[exp.Func], postgres: psycopg.Connection) -> None:
    own = lower if kind is exp.Lower else upper
    with duckdb.connect() as connection:
        rows = "(SELECT unnest(?::varchar[]) AS s) AS t0"
        found = connection.execute(f"SELECT {written(kind, DUCKDB)} FROM {rows}", (LETTERS,)).fetchall()
    others = zip(LETTERS, cased(kind, postgres), found, strict=True)
    assert {one for one, right, (duck,) in others if not right == duck == own(one)} <= NEWER


@with_spark
@pytest.mark.service
def test_every_letter_in_spark(postgres: psycopg.Connection) -> None:
    """And words, of which Java sees the end."""
    from dpproxy.backends.spark.session import connected

    session = connected(url())
    codes = "SELECT explode(sequence(1, 1114111)) AS n"
    letter = "decode(unhex('0000FEFF' || lpad(hex(n), 8, '0')), 'UTF-32')"
    words = "(VALUES ('straße ΟΔΟΣ'), ('ΣΑΣ. Σ'), ('İI ıi'), ('ﬁﬀ'), ('')) AS w(s)"
    with closing(session.client):
        for kind in KINDS:
            form = written(kind, SPARK)
            named = f"SELECT n, {letter} AS s FROM ({codes}) WHERE n NOT BETWEEN 55296 AND 57343"
            found = {
                row[0]: row[1] for row in session.sql(f"SELECT t0.n, {form} FROM ({named}) AS t0").collect()
            }
            others = zip(LETTERS, cased(kind, postgres), strict=True)
            assert {one for one, right in others if found[ord(one)] != right} <= NEWER
            query = f"SELECT s, {kind.__name__}(s) FROM {words}"
            spoken = session.sql(f"SELECT t0.s, {form} FROM (SELECT * FROM {words}) AS t0").collect()
            assert {tuple(row) for row in spoken} == {*postgres.execute(query.encode()).fetchall()}
