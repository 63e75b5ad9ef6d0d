"""Strings of statements: PostgreSQL says where one ends, and answers them as it answers a simple query."""

from __future__ import annotations

import psycopg
import pytest

from dpproxy.front.front import Front
from dpproxy.pgwire import messages as m
from dpproxy.pgwire import relay
from dpproxy.pgwire.work import MOST_STATEMENTS
from rewriter.statements.lexer import Piece
from tests.dpproxy.wire import BY_COUNTRY, Raw, Served, admin, errors, query, rows, served

pytestmark = pytest.mark.service

STRINGS = (
    "SELECT ';'",
    "SELECT ';' AS \"a;b\" /* ; */ -- ;",
    "SELECT 1; SELECT 'x'",
    ";; SELECT 'a' ;; -- ;\n ;",
    "; -- ;\n;",
    "SELECT 'é;' ; SELECT nothing",
    "SELECT 1; EXPLAIN SELECT nothing",
    "SELECT 1; SELECT 1/0; SELECT 2",
    "SELECT 1; DECLARE c CURSOR FOR SELECT 'a;'; FETCH ALL FROM c",
    "DECLARE c CURSOR FOR SELECT 'a;'; FETCH ALL FROM c; CLOSE c",
    "DECLARE c CURSOR FOR SELECT 'a;'",
    "BEGIN; SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; SELECT ';'; COMMIT",
    "BEGIN; SELECT 1/0; SELECT ';'",
    "SELECT ';' ; COMMIT; SELECT 2",
    "ROLLBACK; SELECT ';'",
    "SET LOCAL application_name = ';'; SHOW application_name",
    "SHOW application_name; SELECT ';'",
    "SAVEPOINT a; SELECT ';'",
    "DISCARD ALL; SELECT ';'",
    "PREPARE s AS SELECT ';'; EXECUTE s; DEALLOCATE s",
    "COPY (SELECT 1, ';') TO STDOUT (DELIMITER ';')",
    "COPY articles TO STDOUT (DELIMITER ';'); SELECT 1",
    "LISTEN x; UNLISTEN x; SELECT ';'",
    "SELECT 1; SELEKT; SELECT ';'",
)


def seen(raw: Raw, text: str) -> list[tuple[str, object]]:
    """What comes, errors by their code, text and place."""
    found: list[tuple[str, object]] = []
    for kind, one in raw.query(text):
        fields = m.split_fields(one) if kind in "EN" else {}
        found.append((kind, tuple(fields.get(name) for name in "CMP") if fields else one))
    return found


@pytest.mark.parametrize("text", STRINGS)
def test_a_string_is_answered_as_by_postgresql(proxy: Served, direct: Raw, text: str) -> None:
    with proxy.raw() as raw, direct:
        assert rows(raw.query("SELECT 1; SELECT ';'")) == [("1",), (";",)]
        for one in (text, "SELECT count(*) FROM pg_cursors", text, "ROLLBACK"):
            ours, theirs = seen(raw, one), seen(direct, one)
            if "SELEKT" not in one:
                assert ours == theirs
                continue
            # A mistake in the syntax is found when its statement's turn comes.
            assert [kind for kind, _ in ours] == ["T", "D", "C", "E", "Z"]
            assert ours[-2:] == theirs


def test_postgresql_refuses_what_is_taken_for_one_statement(
    proxy: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However a text is cut here: as a whole the front gets only what it makes no two statements of."""
    monkeypatch.setattr(relay, "pieces", lambda text, *_: (Piece(text, 0, "SELECT"),))
    with proxy.raw() as listening, proxy.raw() as raw:
        listening.query("LISTEN zz")
        for text in ("SELECT 1; NOTIFY zz", "SELECT ''; NOTIFY zz;", "SELECT $$ $$; NOTIFY zz"):
            (error,) = errors(raw.query(text))
            assert (error["C"], error["M"][:29]) == ("42601", "cannot insert multiple comman")
        assert not any(kind == "A" for kind, _ in listening.query("SELECT 1"))


def test_a_long_string_is_refused_before_it_is_looked_at(proxy: Served) -> None:
    with proxy.raw() as raw:
        assert len(rows(raw.query("SELECT 1;" * MOST_STATEMENTS))) == MOST_STATEMENTS
        (error,) = errors(raw.query("SELECT 1;" * (MOST_STATEMENTS + 1)))
        assert error["C"] == "54000"


def test_long_texts_are_looked_at_outside_in_their_turn(proxy: Served) -> None:
    long = f"SELECT {'+'.join(['1'] * 4000)}"
    with proxy.raw() as raw:
        raw.send(query(long), query("SELECT 2"), m.parse("", f"DROP TABLE x {' ' * 8000}"), m.message("S"))
        raw.send(query(f"DELETE FROM x {' ' * 8000}"), query(f"{BY_COUNTRY} {' ' * 8000}"), query("SELECT 3"))
        answers = [raw.until("Z") for _ in range(6)]
        assert [rows(one)[:1] for one in answers] == [
            [("4000",)],
            [("2",)],
            [],
            [],
            [("US", "500")],
            [("3",)],
        ]
        assert [error["C"] for one in answers for error in errors(one)] == ["25006", "25006"]


def test_a_session_that_would_read_otherwise_is_not_begun(wire_front: Front) -> None:
    """Whatever made it so: the front says in its greeting how it reads."""
    database = f'"{wire_front.database}"'
    with served(wire_front) as proxy, admin(wire_front) as superuser:
        superuser.execute(f"ALTER DATABASE {database} SET standard_conforming_strings = off".encode())
        try:
            with pytest.raises(psycopg.OperationalError, match="standard_conforming_strings must be on"):
                proxy.connect()
        finally:
            superuser.execute(f"ALTER DATABASE {database} RESET standard_conforming_strings".encode())
        with proxy.connect():
            pass
