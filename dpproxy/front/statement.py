"""One statement at the front, by libpq: read, described, run; its errors are Refusals."""

from __future__ import annotations

import select
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from hashlib import sha256
from typing import NamedTuple

import psycopg
from psycopg import pq

from dpproxy.backends.base import Row
from dpproxy.front.volatility import BODY, OTHERS, OTHERS_OF_ROWS
from rewriter.policy import enumerated
from rewriter.refusal import Refusal

_Send = Callable[[pq.abc.PGconn], None]
_BOOL = 16
_BOOLEANS: dict[bytes | None, bytes] = {b"t": b"true", b"f": b"false"}
"""A cast to text spells these out, and so do domains and backends."""


Kind = tuple[int, int | None]
"""The OID and the modifier of a type."""
_TYPE = """
SELECT format_type({oid}, {modifier}), n.nspname, e.typname, t.typcategory = 'A', ARRAY(
    SELECT l.enumlabel::text FROM pg_enum AS l WHERE l.enumtypid = e.oid ORDER BY l.enumsortorder)
FROM (VALUES (1)) AS one
LEFT JOIN pg_type AS t ON t.oid = {oid}
LEFT JOIN pg_type AS e ON e.typtype = 'e' AND e.oid = CASE WHEN t.typcategory = 'A' THEN t.typelem ELSE t.oid END
LEFT JOIN pg_namespace AS n ON n.oid = e.typnamespace
"""


class Described(NamedTuple):
    """A column of a result: its name, its type's (see `type_names`), the type's OID."""

    name: str
    type: str
    oid: int


def run(connection: psycopg.Connection, statement: str) -> psycopg.Cursor:
    """Runs our own statement, whose names and texts were quoted where it was put together."""
    return connection.execute(statement.encode())


def text(value: bytes | None) -> str | None:
    """A value in libpq's text format."""
    return None if value is None else value.decode()


def texts(result: pq.abc.PGresult, most: int) -> tuple[Row, ...]:
    """The rows of a result as texts; Refusal 54000 for more than `most`."""
    if result.ntuples > most:
        raise Refusal("54000", f"a public query gives more than {most} rows")
    columns = [(j, _BOOLEANS if result.ftype(j) == _BOOL else {}) for j in range(result.nfields)]
    return tuple(
        tuple(text(written.get(value := result.get_value(i, j), value)) for j, written in columns)
        for i in range(result.ntuples)
    )


def encoded(sql: str) -> bytes:
    """A statement for libpq; Refusal 22021 for what is no text in UTF-8."""
    encoded = b"\0"
    with suppress(UnicodeEncodeError):
        encoded = sql.encode()
    if b"\0" in encoded:
        raise Refusal("22021", "the statement is no text in UTF-8")
    return encoded


def parsed(checker: psycopg.Connection, sql: str, oids: Sequence[int]) -> tuple[int, ...]:
    """Parses one statement under the empty name and gives its parameters' types; raises Refusal."""
    result = _prepared(checker, sql, oids)
    return tuple(result.param_type(i) for i in range(result.nparams))


def _prepared(checker: psycopg.Connection, sql: str, oids: Sequence[int]) -> pq.abc.PGresult:
    (results,) = _at_once(checker, _preparing(sql, oids))
    return _last(results)


def _preparing(sql: str, oids: Sequence[int]) -> list[_Send]:
    text = encoded(sql)
    return [
        lambda sent: sent.send_prepare(b"", text, list(oids)),
        lambda sent: sent.send_describe_prepared(b""),
    ]


def _at_once(checker: psycopg.Connection, *rounds: Sequence[_Send]) -> tuple[Sequence[pq.abc.PGresult], ...]:
    """The results of several rounds of commands that are sent together; a command that fails ends its round."""
    sent = checker.pgconn
    sent.enter_pipeline_mode()
    try:
        for commands in rounds:
            for send in commands:
                send(sent)
            sent.pipeline_sync()
        poll = select.poll()
        poll.register(sent.socket, select.POLLIN | select.POLLOUT)
        while sent.flush():
            poll.poll()
            sent.consume_input()
        poll.modify(sent.socket, select.POLLIN)
        found = tuple(list(_of_a_round(sent, poll)) for _ in rounds)
        sent.exit_pipeline_mode()
    except BaseException:
        # What is left of a pipeline must not meet another statement.
        checker.close()
        raise
    return found


def _of_a_round(sent: pq.abc.PGconn, poll: select.poll) -> Iterator[pq.abc.PGresult]:
    """The results up to the end of a round; raises OperationalError where the connection ends."""
    between = False
    while True:
        # Other threads go on meanwhile: libpq itself would wait without letting them.
        while sent.is_busy():
            poll.poll()
            sent.consume_input()
        result = sent.get_result()
        if result is None:
            if between:
                raise psycopg.OperationalError("the connection gives nothing more")
            between = True
            continue
        if result.status == pq.ExecStatus.PIPELINE_SYNC:
            return
        between = False
        yield result


def _last(results: Sequence[pq.abc.PGresult]) -> pq.abc.PGresult:
    """The last result of a round; raises the Refusal of the command that failed."""
    return [checked(result) for result in results][-1]


def execute(checker: psycopg.Connection, sql: str) -> pq.abc.PGresult:
    """Runs one statement in the extended protocol, which takes no second one; raises Refusal."""
    return checked(checker.pgconn.exec_params(encoded(sql), None))


def _executing(sql: str) -> _Send:
    """Sends one statement as `execute` does."""
    statement = encoded(sql)
    return lambda sent: sent.send_query_params(statement, None)


def alike(checker: psycopg.Connection, one: str, other: str, types: Sequence[int]) -> bool:
    """Whether PostgreSQL prints two statements alike, False where it can do so for neither or for one alone.

    Both become one function's body, printed with a line between them that neither can contain: a digest of both. Raises
    Refusal.
    """
    between = sha256(encoded(f"{len(one)} {one} {other}")).hexdigest()
    both = f"{one}\n; SELECT '{between}'; {other}"
    commands = (
        "BEGIN",
        _function(checker, both, types),
        f"SELECT pg_get_function_sqlbody('{BODY}'::regproc)",
    )
    results, _ = _at_once(checker, list(map(_executing, commands)), [_executing("ROLLBACK")])
    try:
        printed = text(_last(results).get_value(0, 0)) or ""
    except Refusal as refusal:
        if says_nothing(refusal):
            raise
        return False
    first, found, last = printed.partition(between)
    first, last = first[: first.rfind("\n")], last[last.find("\n") :]
    return bool(found) and first.removeprefix("BEGIN ATOMIC") == last.removesuffix("\nEND")


def says_nothing(refusal: Refusal) -> bool:
    """Whether an error is about PostgreSQL itself, such as a full disk or a cancellation, not about the statement.

    >>> says_nothing(Refusal("53100", "no space left")), says_nothing(Refusal("42601", "syntax error"))
    (True, False)
    """
    return refusal.code[:2] in ("08", "53", "57", "58")


def become(checker: psycopg.Connection, sql: str, types: Sequence[int]) -> None:
    """Makes the statement the body of a function, for as long as the transaction takes; raises Refusal."""
    execute(checker, _function(checker, sql, types))


def _function(checker: psycopg.Connection, sql: str, types: Sequence[int]) -> str:
    named = (execute(checker, f"SELECT {oid}::regtype::text").get_value(0, 0) for oid in types)
    signature = ", ".join(str(text(name)) for name in named)
    return f"CREATE FUNCTION {BODY}({signature}) RETURNS void LANGUAGE sql BEGIN ATOMIC {sql}\n; END"


def checked(result: pq.abc.PGresult) -> pq.abc.PGresult:
    """The result of a command that succeeded; raises Refusal with the front's code, message and position."""
    if result.status in (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK):
        return result
    field = pq.DiagnosticField
    position = text(result.error_field(field.STATEMENT_POSITION))
    raise Refusal(
        text(result.error_field(field.SQLSTATE)) or "08006",
        text(result.error_field(field.MESSAGE_PRIMARY)) or "the front did not answer",
        detail=text(result.error_field(field.MESSAGE_DETAIL)),
        hint=text(result.error_field(field.MESSAGE_HINT)),
        position=int(position) if position else None,
    )


def described(
    connection: psycopg.Connection, sql: str, oids: Sequence[int], types: dict[Kind, str]
) -> tuple[Described, ...]:
    """The columns of a statement's result; `types`: as in `type_names`. Raises Refusal."""
    result = _prepared(connection, sql, oids)
    fields = [
        ((result.fname(i) or b"").decode(), result.ftype(i), result.fmod(i)) for i in range(result.nfields)
    ]
    named = type_names(connection, [(oid, modifier) for _, oid, modifier in fields], types)
    return tuple(Described(name, of, oid) for (name, oid, _), of in zip(fields, named, strict=True))


def type_names(
    connection: psycopg.Connection, kinds: Sequence[Kind], types: dict[Kind, str]
) -> tuple[str, ...]:
    """The names of types as `Column.type` has them; those that are found are added to `types`."""
    for oid, modifier in {*kinds} - types.keys():
        written = _TYPE.format(oid=oid, modifier="NULL" if modifier is None else modifier)
        ((printed, schema, name, array, listed),) = run(connection, written).fetchall()
        enum = None if name is None else enumerated(schema, name, listed) + ("[]" if array else "")
        types[oid, modifier] = enum or printed
    return tuple(types[kind] for kind in kinds)


def other_than_constant(
    checker: psycopg.Connection, sql: str, oids: Sequence[int], *, rows: bool = False
) -> str | None:
    """As `Front.other_than_constant`."""
    with checker.transaction(force_rollback=True):
        become(checker, sql, parsed(checker, sql, oids))
        result = execute(checker, OTHERS_OF_ROWS if rows else OTHERS)
        return text(result.get_value(0, 0)) if result.ntuples else None
