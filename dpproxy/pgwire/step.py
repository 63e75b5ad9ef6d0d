"""The privacy step as the relay sees it: its requests and results, and what errors may show."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from dpproxy.pgwire import messages as m
from dpproxy.pgwire.pending import PendingMessage
from rewriter.refusal import Refusal
from rewriter.statements.lexer import Piece, substitute
from rewriter.statements.set_role import assumed
from rewriter.statements.set_statement import ERROR_COLUMNS, ROLE
from rewriter.statements.utility_statement import WORDS, Utility, fetched, utility

RESERVED = "dpproxy:"
"""Names of statements and portals that begin like this are the proxy's own."""
SETTINGS = (
    "dpproxy.notices",
    "dpproxy.spend",
    "dpproxy.query_information",
    "dpproxy.query_calls",
    "dpproxy.distinct_values",
    "dpproxy.max_cost",
    "dpproxy.price_first",
    "dpproxy.units",
    "dpproxy.error",
    "dpproxy.most_units",
    "dpproxy.reuse",
    "application_name",
    ERROR_COLUMNS,
    "datestyle",
    "timezone",
    "intervalstyle",
    "search_path",
    "statement_timeout",
    "client_min_messages",
    ROLE,
    "dpproxy.refresh",
    "transaction_isolation",
    "transaction_read_only",
)
"""The settings of the session that a step gets."""


class Prepared(Protocol):
    """A private statement, planned: the text for the front and the types of the arrays that it takes."""

    @property
    def presentation(self) -> str:
        """Parameters $1..$n are the client's own; the arrays follow."""

    @property
    def array_oids(self) -> tuple[int, ...]:
        """1016 (int8[]) or 1009 (text[]) each."""


class Answer(Protocol):
    """The result of a step."""

    @property
    def arrays(self) -> tuple[bytes, ...]:
        """The arrays, in binary."""

    @property
    def notices(self) -> tuple[str, ...]:
        """Sent before the rows."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sent behind the notices, to clients that do not hear these, too."""


@dataclass(frozen=True)
class Prepare:
    """A job that runs outside the relay: plan a private statement (gives a Prepared).

    `errors`: with the columns of dpproxy.error_columns; `cached`: only where that takes no time, else it gives None.
    """

    text: str
    oids: tuple[int, ...]
    errors: bool = False
    cached: bool = False


@dataclass(frozen=True)
class Step:
    """A job that runs outside the relay: the privacy step itself (gives an Answer).

    The session's statement_timeout is among the settings: the front raises it only when the step is over. So is
    its current role. `attributed`: the person that the statement's comment names as asking; `planned`: what the
    portal is bound to.
    """

    text: str
    oids: tuple[int, ...]
    parameters: tuple[str | None, ...]
    settings: Mapping[str, str]
    attributed: str = ""
    planned: Prepared | None = None


@dataclass(frozen=True)
class Assume:
    """Work to be done outside: see whether the session may take a role, and make it takeable (gives nothing)."""

    role: str


@dataclass(frozen=True)
class Publish:
    """Work to be done outside: a statement on published answers (gives a PublishResult); the rest as a Step's."""

    text: str
    settings: Mapping[str, str]
    attributed: str = ""

    def __post_init__(self) -> None:
        """Checks that the session's transaction can see the result, which is made outside of it; raises Refusal."""
        if self.settings.get("transaction_read_only") == "on":
            raise Refusal(
                "25006", "cannot publish in a read-only transaction", hint="SET TRANSACTION READ WRITE"
            )
        if self.settings.get("transaction_isolation", "read committed") not in (
            "read committed",
            "read uncommitted",
        ):
            raise Refusal(
                "0A000",
                "published answers cannot be changed in a transaction with a fixed snapshot",
                hint="Use READ COMMITTED, or no transaction.",
            )


class PublishResult(Protocol):
    """The result of a statement on published answers."""

    @property
    def tag(self) -> str:
        """The command tag."""

    @property
    def notices(self) -> tuple[str, ...]:
        """Sent before the tag."""


@dataclass(frozen=True)
class SplitText:
    """A job that runs outside the relay: split a long text (gives its statements)."""

    read: Callable[[], list[ClientStatement]]


Job = Prepare | Step | Assume | Publish | SplitText


class Wait:
    """Wait until the front has answered everything sent so far."""


class Skipped(Exception):
    """The front failed: nothing more happens until the client's next Sync."""


_QUERIES = ("SELECT", "WITH", "VALUES", "TABLE", "(", "SHOW", "COPY", "DECLARE", "PREPARE", "")
_NO_FETCH = frozenset(
    [
        *_QUERIES,
        *("SET", "RESET", "DISCARD", "DEALLOCATE", "CLOSE", "LISTEN", "UNLISTEN"),
        *("BEGIN", "START", "COMMIT", "END", "ROLLBACK", "ABORT", "SAVEPOINT", "RELEASE"),
    ]
)
"""Words of statements that read no cursor."""


@dataclass(frozen=True)
class ClientStatement:
    """A statement of the client.

    Attributes:
        text: its text.
        private: it reads private tables.
        offset: where in the client's text it begins, None where it stands in none.
        word: its first word.
        carrier: the DECLARE, COPY, PREPARE or EXECUTE that it is, None for others.
        publishes: it changes what is published.
    """

    text: str
    private: bool
    offset: int | None = 0
    word: str = ""
    carrier: Utility | None = None
    publishes: bool = False

    @classmethod
    def read(cls, piece: Piece, verdict: str) -> ClientStatement:
        """A classified statement."""
        carrier = utility(piece.text) if piece.word in WORDS else None
        return cls(piece.text, verdict == "private", piece.offset, piece.word, carrier, verdict == "publish")

    @property
    def assumes(self) -> str | None:
        """The role that it takes, None for any other statement."""
        return assumed(self.text) if self.word == "SET" else None

    @property
    def fetches(self) -> bool:
        """Whether it reads a portal by its name."""
        return self.word in ("FETCH", "MOVE")

    @property
    def may_fetch(self) -> bool:
        """Whether it may read a cursor: an EXECUTE can, of a FETCH that the protocol has prepared."""
        return self.word not in _NO_FETCH

    @property
    def cursor(self) -> str | None:
        """The one cursor that it reads by its name, None where that may be any."""
        return fetched(self.text) if self.fetches else None

    def reads(self, portal: str) -> bool:
        """Whether that portal is this one, or may be."""
        return self.fetches and self.cursor in (portal, None)

    @property
    def prepared(self) -> ClientStatement | None:
        """The private statement that a PREPARE makes."""
        if self.carrier is None or self.carrier.word != "PREPARE" or not self.private:
            return None
        return ClientStatement(self.carrier.body, True, None)

    @property
    def query(self) -> str:
        """The query that is planned and paid for: the one inside a carrier, or the whole text."""
        return self.carrier.body if self.carrier is not None else self.text

    @property
    def takes_step(self) -> bool:
        """Whether executing it takes the privacy step. A private PREPARE only names a statement that will."""
        return self.private and self.word != "PREPARE"

    @property
    def carries(self) -> bool:
        """Whether the front runs the statement unchanged, except for the query inside."""
        return self.carrier is not None and self.carrier.word in ("DECLARE", "COPY")

    def placed(self, refusal: Refusal) -> Refusal:
        """A refusal of the query, with its position in the client's text."""
        inner = self.carrier.offset if self.carrier is not None else 0
        moved = None
        if refusal.position is not None and self.offset is not None:
            moved = refusal.position + inner + self.offset
        return Refusal(
            refusal.code, refusal.message, detail=refusal.detail, hint=refusal.hint, position=moved
        )


@dataclass
class Portal:
    """A private portal of the client.

    Attributes:
        statement: what it executes.
        oids, values: the types and values of its parameters.
        results: the result formats, as the client's Bind has them.
        prepared: the plan.
        errors: it has the columns of dpproxy.error_columns.
        answered: the released arrays are bound.
        mark: the comment before its text that names the role that paid, once it is answered.
        own: statement and values are those of the client's message.
    """

    statement: ClientStatement
    oids: tuple[int, ...]
    values: m.Values
    results: bytes
    prepared: Prepared
    errors: bool = False
    answered: bool = False
    mark: str = ""
    own: bool = False

    def repeats(self, parameters: Sequence[str | None]) -> bool:
        """Whether the same message binds the same `parameters` again: not where 'now' is a time, or the values are
        those of an EXECUTE."""
        written = m.encoded([one if one is None else one.encode() for one in parameters])
        return self.own and (set(self.values.formats) == {1} or written == self.values.raw)

    def empty_arrays(self) -> list[bytes]:
        """The arrays that are bound to the presentation before the step."""
        return [m.empty_array(oid) for oid in self.prepared.array_oids]

    def shown_with(self, arrays: Sequence[bytes]) -> BoundStatement:
        """The statement for the front in place of the client's; a COPY takes no parameters, only literals."""
        carrier, query = self.statement.carrier, self.prepared.presentation
        oids, values = self.oids + self.prepared.array_oids, self.values.and_binary(arrays)
        if carrier is None or not self.statement.carries:
            return BoundStatement(self.mark + query, oids, values)
        if carrier.word == "DECLARE":
            return BoundStatement(self.mark + carrier.around(query), oids, values)
        return BoundStatement(carrier.around(with_literals(query, len(self.oids), arrays)), (), m.NO_VALUES)

    def rehearsals(self) -> list[BoundStatement]:
        """Statements that test a carrier before its step: the front runs it over empty arrays and undoes it."""
        carrier, bound = self.statement.carrier, self.shown_with(self.empty_arrays())
        if carrier is None or not self.statement.carries:
            return []
        if carrier.word == "DECLARE":
            return [bound, BoundStatement(f"CLOSE {carrier.written}", (), m.NO_VALUES)]
        query = with_literals(self.prepared.presentation, len(self.oids), self.empty_arrays())
        return [BoundStatement(carrier.around(f"SELECT * FROM ({query}) AS q LIMIT 0"), (), m.NO_VALUES)]


@dataclass
class AnsweredRound:
    """A client's message or messages up to a Sync, with one private statement that was answered by `step`.

    Attributes:
        raw: its bytes.
        name, portal: what the statement was executed as.
        step: the step.
        before: the session's settings before it.
        after: where the front's answer will be that says what they are behind it, None before it is asked.
    """

    raw: bytes
    name: str
    portal: Portal
    step: Step
    before: Mapping[str, str]
    after: bytearray | None = None

    @property
    def unchanged(self) -> bool:
        """Whether it has left the settings as they were: a statement may call set_config, or a function that does."""
        return bool(self.after) and read_parameters(bytes(self.after or b""), 0)[1] == self.before


@dataclass
class PreparePortal:
    """A portal of the client that makes a private statement's name when it is executed."""

    statement: ClientStatement


@dataclass
class FetchPortal:
    """A portal of the client that may read cursors when it is executed; `statement`: None where that is not known."""

    statement: ClientStatement | None


@dataclass
class PublishPortal:
    """A portal of the client that changes what is published when it is executed."""

    statement: ClientStatement


class RelayedPortal:
    """A portal that the front executes without the proxy."""


PLAIN = RelayedPortal()
Bindable = Portal | PreparePortal | FetchPortal | PublishPortal | RelayedPortal


class BoundStatement(NamedTuple):
    """A statement for the front with its parameters."""

    text: str
    oids: tuple[int, ...]
    values: m.Values


def with_literals(query: str, before: int, arrays: Sequence[bytes]) -> str:
    """A presentation with its arrays written out; they are the parameters after the first `before`.

    ASCII alone, and E'' with everything doubled: no setting and no encoding of a session reads it otherwise.

    >>> with_literals("SELECT unnest($1)", 0, [m.text_array(["é", None])])[:53]
    'SELECT unnest(ARRAY(SELECT x.v::pg_catalog.text FROM '
    """
    return substitute(query, {before + i: _literal(array) for i, array in enumerate(arrays, 1)})


def _literal(array: bytes) -> str:
    values = m.split_array(array)
    kind = "int8" if m.element_of(array) == m.INT8 else "text"
    written = json.dumps(values).replace("\\", "\\\\").replace("'", "''")
    source = f"pg_catalog.json_array_elements_text(E'{written}') WITH ORDINALITY AS x(v, n)"
    return f"ARRAY(SELECT x.v::pg_catalog.{kind} FROM {source} ORDER BY x.n)"


_POINTS = "Ppq"
_WHERE = "WFLR"


_FREE = "You have paid for the answer that this is computed from: without the computation it is free."
_GUARD = "Select the aggregates alone, or guard what is computed from them: NULLIF(x, 0), CASE, a wider type."
_OF_FILES = ("53100", "58030", "58P01", "58P02", "XX001", "XX002")
"""SQLSTATEs of errors that name files of the front."""


def cleaned(raw: bytes, head: PendingMessage) -> bytes:
    """An error of the proxy's own text: without what points into that text, with a refusal's position."""
    dropped = _POINTS if head.shown else _POINTS + _WHERE
    fields = {name: text for name, text in m.split_fields(raw).items() if name not in dropped}
    refusal = head.refusal
    if refusal is not None and refusal.position is not None and fields.get("C") == refusal.code:
        fields["P"] = str(refusal.position)
    return m.join_fields("E", fields)


def without_paths(raw: bytes) -> bytes:
    """An error of the front, without the names of its files where its disk is full or broken.

    >>> full = m.join_fields("E", {"S": "ERROR", "C": "53100", "M": 'could not extend file "base/5/1": No space left'})
    >>> m.split_fields(without_paths(full))["M"]
    'the disk of the front is full or cannot be used'
    """
    fields = m.split_fields(raw)
    if fields.get("C") not in _OF_FILES:
        return raw
    kept = {name: text for name, text in fields.items() if name in "SVC"}
    return m.join_fields("E", {**kept, "M": "the disk of the front is full or cannot be used"})


def with_advice(raw: bytes) -> bytes:
    """An error in what is computed from an answer that was released, which is not bought twice.

    >>> fields = m.split_fields(with_advice(m.join_fields("E", {"S": "ERROR", "C": "22003", "M": "out of range"})))
    >>> fields["M"], fields["D"]
    ('out of range', 'You have paid for the answer that this is computed from: without the computation it is free.')
    """
    fields = m.split_fields(raw)
    if fields.get("C", "")[:2] not in ("21", "22"):
        return raw
    detail = " ".join(filter(None, (fields.get("D"), _FREE)))
    return m.join_fields("E", {"H": _GUARD, **fields, "D": detail})


def moved(raw: bytes, by: int) -> bytes:
    """An error of the front whose position is `by` characters further on in the client's text."""
    fields = m.split_fields(raw)
    if "P" in fields:
        fields["P"] = str(int(fields["P"]) + by)
    return m.join_fields("E", fields)


def question(parameters: int) -> str:
    """The query for a portal's parameters, as canonical texts, and the session's settings."""
    texts = [f"dpproxy.text_of(${i + 1})" for i in range(parameters)]
    texts += [f"pg_catalog.current_setting('{name}', true)" for name in SETTINGS]
    return f"SELECT ARRAY[{', '.join(texts)}]::pg_catalog.text[]"


def read_parameters(rows: bytes, count: int) -> tuple[tuple[str | None, ...], dict[str, str]]:
    """Reads the front's answer to `question`: the parameters, and the settings that have a value."""
    texts = m.split_text_array(m.first_value(rows))
    settings = {name: text for name, text in zip(SETTINGS, texts[count:], strict=True) if text}
    return texts[:count], settings


def strings(body: bytes, count: int) -> tuple[list[str], bytes]:
    """The first strings of a client's message and the rest; a malformed message is refused like any statement."""
    try:
        return m.split_cstrings(body, count)
    except m.ProtocolError as error:
        raise Refusal(error.code, error.message) from None


def only_text(body: bytes) -> str:
    """The text of a simple query; raises Refusal."""
    (text,), rest = strings(body, 1)
    if rest:
        raise Refusal("08P01", "invalid message format")
    return text


def check_names(*names: str) -> None:
    """Raises Refusal for names that are the proxy's own."""
    for name in names:
        if name.startswith(RESERVED):
            raise Refusal("42939", f'names that begin with "{RESERVED}" are reserved')
