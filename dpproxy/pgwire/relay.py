"""The relay: what happens with each message between a client and the front, and the privacy step; no sockets.

Everything is passed on, except that a statement on private tables is executed as its *presentation*: the
front binds it with empty arrays at Bind, and with the released arrays at Execute, once the step is paid.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, cast

from dpproxy.pgwire import messages as m
from dpproxy.pgwire.pending import Change, Entry, Names, Pending
from rewriter.refusal import Refusal

RESERVED = "dpproxy:"
"""Names of statements and portals that begin like this are the proxy's own."""
_OURS = RESERVED + "step"
MOST_PENDING = 2048
"""Responses due before the client's next message has to wait."""
SETTINGS = (
    "dpproxy.notices",
    "dpproxy.spend",
    "dpproxy.query_information",
    "dpproxy.query_calls",
    "dpproxy.distinct",
    "dpproxy.error_columns",
    "datestyle",
    "timezone",
    "intervalstyle",
    "search_path",
    "statement_timeout",
)
"""What a step is told of the session's settings."""
_SYNC, _TERMINATE, _PARAMETERS_MOST = ord("S"), ord("X"), 65535


class Prepared(Protocol):
    """A private statement, planned: the text for the front and the types of the arrays that it takes."""

    @property
    def presentation(self) -> str:
        """Parameters $1..$n are the client's own; the arrays follow."""

    @property
    def array_oids(self) -> tuple[int, ...]:
        """1016 (int8[]) or 1009 (text[]) each."""


class Answer(Protocol):
    """What a step released."""

    @property
    def arrays(self) -> tuple[bytes, ...]:
        """The arrays, in binary."""

    @property
    def notices(self) -> tuple[str, ...]:
        """To be said before the rows."""


@dataclass(frozen=True)
class Prepare:
    """Work to be done outside: plan a private statement (gives a Prepared)."""

    text: str
    oids: tuple[int, ...]


@dataclass(frozen=True)
class Step:
    """Work to be done outside: the privacy step itself (gives an Answer).

    The session's statement_timeout is among the settings: the front raises it only when the step is over.
    """

    text: str
    oids: tuple[int, ...]
    parameters: tuple[str | None, ...]
    settings: Mapping[str, str]


class Wait:
    """Wait until the front has answered everything sent so far."""


class Skipped(Exception):
    """The front failed: nothing more happens until the client's next Sync."""


Work = Generator[Wait | Prepare | Step, object, None]
Part = Generator[Wait | Prepare | Step, object, "Portal"]


@dataclass(frozen=True)
class Statement:
    """A prepared statement of the client."""

    text: str
    private: bool


@dataclass
class Portal:
    """A portal of the client; `answered`: the released arrays are bound, or it was never private."""

    statement: Statement
    oids: tuple[int, ...]
    values: m.Values
    results: bytes
    prepared: Prepared
    answered: bool = False

    def empty_arrays(self) -> list[bytes]:
        """What the presentation is bound with before the step."""
        return [m.empty_array(oid) for oid in self.prepared.array_oids]


class Relay:
    """One session between login and end.

    Feed it messages of the client (`client`, unless `busy` or `full`) and bytes of the front (`front`);
    send what gathers in `to_front` and `to_client`; do the `job` that it names, on a thread, and hand the
    outcome to `finish`. `classify` says "relay" or "private" of a text, or raises Refusal.
    """

    def __init__(self, classify: Callable[[str], str]) -> None:
        self.to_front = bytearray()
        self.to_client = bytearray()
        self.job: Prepare | Step | None = None
        self.fatal = False
        self._classify = classify
        self._outbound = m.Outbound()
        self._pending = Pending()
        self._statements = Names[Statement]()
        self._portals = Names[Portal]()
        self._work: Work | None = None
        self._waiting = False
        self._skipping = False
        self._copying = False
        self._from_client: dict[int, Callable[[bytes], None]] = {
            ord("Q"): self._query,
            ord("P"): self._parse,
            ord("B"): self._bind,
            ord("D"): self._describe,
            ord("E"): self._execute,
            ord("C"): self._close,
            ord("S"): self._sync,
            ord("H"): self._flush,
            ord("F"): self._call,
            ord("d"): self._copy_data,
            ord("c"): self._copy_done,
            ord("f"): self._copy_fail,
        }
        self._from_front: dict[int, Callable[[int, bytes], None]] = {
            ord("E"): self._on_error,
            ord("N"): self._on_notice,
            ord("S"): self._show,
            ord("A"): self._show,
            ord("Z"): self._on_ready,
            ord("G"): self._on_copy_in,
            ord("C"): self._on_complete,
            ord("D"): self._on_rows,
            ord("d"): self._on_rows,
        }

    @property
    def busy(self) -> bool:
        """Whether the client's next message has to wait for the front or for a job."""
        return self._work is not None

    @property
    def full(self) -> bool:
        """Whether so many responses are due that the client's next message has to wait."""
        return len(self._pending) >= MOST_PENDING

    @property
    def quiet(self) -> bool:
        """Whether nothing is under way: no response is due and no step runs."""
        return self._work is None and not len(self._pending)

    def client(self, kind: int, body: bytes) -> None:
        """Takes a message of the client; raises ProtocolError where the session cannot go on."""
        if not self._skipping or kind == _SYNC:
            self._from_client[kind](body)
            if self.full:
                self.to_front += m.message("H")

    def front(self, data: bytes) -> None:
        """Takes bytes of the front; raises ProtocolError where they make no sense."""
        for kind, raw in self._outbound.feed(data):
            self._from_front.get(kind, self._on_response)(kind, raw)
            if self._waiting and not len(self._pending):
                self._waiting = False
                self._resume(Skipped() if self._skipping else None)

    def finish(self, job: Prepare | Step, outcome: object) -> None:
        """Takes a job's outcome (or the Refusal that it raised); a job given up meanwhile is ignored."""
        if job is self.job:
            self.job = None
            self._resume(outcome)

    # The client's messages

    def _send(self, kind: str, body: bytes, *changes: Change) -> None:
        self.to_front += m.message(kind, body)
        self._pending.expect(Entry(ord(kind), changes=changes))

    def _query(self, body: bytes) -> None:
        try:
            text = _only_text(body)
            private = self._classify(text) == "private"
        except Refusal as refusal:
            self._begin(self._refused_query(refusal))
            return
        if private:
            self._begin(self._private_query(text))
            return
        self._statements.propose("", None)
        self._portals.propose("", None)
        self._send("Q", body, (self._statements, ""), (self._portals, ""))

    def _parse(self, body: bytes) -> None:
        try:
            (name, text), _ = _strings(body, 2)
            _not_reserved(name)
            statement = Statement(text, self._classify(text) == "private")
        except Refusal as refusal:
            self._refuse(refusal)
            return
        self._statements.propose(name, statement)
        self._send("P", body, (self._statements, name))

    def _bind(self, body: bytes) -> None:
        try:
            (name, source), rest = _strings(body, 2)
            _not_reserved(name, source)
        except Refusal as refusal:
            self._refuse(refusal)
            return
        statement = self._statements.get(source)
        if statement is not None and statement.private:
            self._begin(self._private_bind(body, name, source, statement, rest))
        else:
            self._plain_bind(body, name)

    def _plain_bind(self, body: bytes, name: str) -> None:
        self._portals.propose(name, None)
        self._send("B", body, (self._portals, name))

    def _describe(self, body: bytes) -> None:
        self._send("D", body)

    def _execute(self, body: bytes) -> None:
        try:
            (name,), _ = _strings(body, 1)
        except Refusal as refusal:
            self._refuse(refusal)
            return
        portal = self._portals.get(name)
        if portal is not None and not portal.answered:
            self._begin(self._private_execute(body, name, portal))
        else:
            self._send("E", body)

    def _close(self, body: bytes) -> None:
        try:
            (name,), _ = _strings(body[1:], 1)
        except Refusal as refusal:
            self._refuse(refusal)
            return
        if body[:1] == b"S":
            self._statements.propose(name, None)
            self._send("C", body, (self._statements, name))
        else:
            self._portals.propose(name, None)
            self._send("C", body, (self._portals, name))

    def _sync(self, body: bytes) -> None:
        self._skipping = False
        self.to_front += m.message("S", body)
        if not self._copying:
            self._pending.expect(Entry(_SYNC))

    def _flush(self, body: bytes) -> None:
        self.to_front += m.message("H", body)

    def _call(self, body: bytes) -> None:
        self._begin(self._refused_query(Refusal("0A000", "function calls by number are not supported")))

    def _copy_data(self, body: bytes) -> None:
        self.to_front += m.message("d", body)

    def _copy_done(self, body: bytes) -> None:
        self._copy_ends("c", body)

    def _copy_fail(self, body: bytes) -> None:
        self._copy_ends("f", body)

    def _copy_ends(self, kind: str, body: bytes) -> None:
        self._copying = False
        self.to_front += m.message(kind, body)
        if len(self._pending):
            self._pending.expect(Entry(ord(kind)))

    # The privacy step

    def _private_bind(self, body: bytes, name: str, source: str, statement: Statement, rest: bytes) -> Work:
        """Opens the presentation with empty arrays, under the client's portal name and formats."""
        oids = yield from self._parameter_types(source)
        try:
            values, results = m.split_values(rest)
        except m.ProtocolError:
            self._plain_bind(body, name)
            return
        if not values.fits(len(oids)):
            self._plain_bind(body, name)
            return
        portal = yield from self._planned(statement, oids, values, results)
        self._portals.propose(name, portal)
        self._open(name, portal, portal.empty_arrays(), ((self._portals, name),))

    def _private_execute(self, body: bytes, name: str, portal: Portal) -> Work:
        yield from self._step(name, portal)
        self._send("E", body)

    def _private_query(self, text: str) -> Work:
        """The simple protocol: Parse, Bind, Execute and Sync, of which the client sees what it would see."""
        if len(self._pending):
            yield Wait()
        try:
            try:
                self._inject(m.parse("", text), ours=False)
                oids = yield from self._parameter_types("")
                if oids:
                    raise Refusal("42P02", "there is no parameter $1")
                portal = yield from self._planned(Statement(text, True), (), m.NO_VALUES, b"\0\0")
                self._open("", portal, portal.empty_arrays(), shown=False)
                yield from self._step("", portal)
                self._send("D", b"P\0")
                self._send("E", m.execute("")[5:])
                self._inject(m.close("S", ""))
                self._inject(m.close("P", ""))
            except Refusal as refusal:
                self._refuse(refusal)
        except Skipped:
            pass
        self._end_query()

    def _refused_query(self, refusal: Refusal) -> Work:
        if len(self._pending):
            yield Wait()
        self._refuse(refusal)
        self._end_query()

    def _end_query(self) -> None:
        """A simple query leaves nothing under the empty name."""
        self._skipping = False
        self._statements.propose("", None)
        self._portals.propose("", None)
        self._send("S", b"", (self._statements, ""), (self._portals, ""))

    def _planned(self, statement: Statement, oids: tuple[int, ...], values: m.Values, results: bytes) -> Part:
        prepared = cast(Prepared, (yield Prepare(statement.text, oids)))
        if values.count + len(prepared.array_oids) > _PARAMETERS_MOST:
            raise Refusal("54000", "too many parameters")
        return Portal(statement, oids, values, results, prepared)

    def _step(self, name: str, portal: Portal) -> Generator[Wait | Prepare | Step, object, None]:
        """Makes sure that the portal can run, has the step run, and reopens the portal with its arrays."""
        rows = self._ask_parameters(portal)
        self._inject(m.describe("P", name), ours=False)
        yield Wait()
        parameters, settings = _read_parameters(bytes(rows), len(portal.oids))
        outcome = yield Step(portal.statement.text, portal.oids, parameters, settings)
        answer = cast(Answer, outcome)
        self._inject(m.close("P", name))
        portal.answered = True
        self._open(name, portal, answer.arrays, shown=False)
        if answer.notices:
            self._run(
                "SELECT dpproxy.notice($1)",
                [m.TEXT_ARRAY],
                m.NO_VALUES.and_binary([m.text_array(answer.notices)]),
                notices=True,
            )

    def _parameter_types(self, source: str) -> Generator[Wait | Prepare | Step, object, tuple[int, ...]]:
        described = self._inject(m.describe("S", source), ours=False)
        yield Wait()
        return m.split_oids(bytes(described))

    def _ask_parameters(self, portal: Portal) -> bytearray:
        texts = [f"dpproxy.text_of(${i + 1})" for i in range(len(portal.oids))]
        texts += [f"pg_catalog.current_setting('{name}', true)" for name in SETTINGS]
        text = f"SELECT ARRAY[{', '.join(texts)}]::pg_catalog.text[]"
        return self._run(text, portal.oids, portal.values, results=b"\0\1\0\1")

    def _open(
        self,
        name: str,
        portal: Portal,
        arrays: Sequence[bytes],
        changes: tuple[Change, ...] = (),
        shown: bool = True,
    ) -> None:
        prepared = portal.prepared
        self._inject(m.close("S", _OURS))
        self._inject(m.parse(_OURS, prepared.presentation, portal.oids + prepared.array_oids))
        self.to_front += m.bind(name, _OURS, portal.values.and_binary(arrays), portal.results)
        self._pending.expect(Entry(ord("B"), shown=shown, ours=True, changes=changes))
        self._inject(m.close("S", _OURS))

    # What the proxy says by itself

    def _refuse(self, refusal: Refusal) -> None:
        """Has the front raise a refusal, so that the transaction fails as it would for any error."""
        values = [refusal.code, refusal.message, refusal.detail, refusal.hint]
        raw = m.encoded([value if value is None else value.replace("\0", "").encode() for value in values])
        text = "SELECT dpproxy.refuse($1, $2, $3, $4)"
        self._run(text, [25] * 4, m.Values((), 4, raw), refusal=refusal)

    def _run(
        self,
        text: str,
        oids: Sequence[int],
        values: m.Values,
        *,
        results: bytes = b"\0\0",
        refusal: Refusal | None = None,
        notices: bool = False,
    ) -> bytearray:
        self._inject(m.close("S", _OURS))
        self._inject(m.parse(_OURS, text, oids))
        self._inject(m.bind(_OURS, _OURS, values, results), refusal=refusal)
        rows = self._inject(m.execute(_OURS), refusal=refusal, notices=notices)
        self._inject(m.close("P", _OURS))
        self._inject(m.close("S", _OURS))
        return rows

    def _inject(
        self, raw: bytes, *, ours: bool = True, refusal: Refusal | None = None, notices: bool = False
    ) -> bytearray:
        """Sends a message whose responses the client does not see; gives where its rows will be."""
        rows = bytearray()
        self.to_front += raw
        entry = Entry(raw[0], shown=False, ours=ours, rows=rows, refusal=refusal, notices=notices)
        self._pending.expect(entry)
        return rows

    # Work that waits

    def _begin(self, work: Work) -> None:
        self._work = work
        self._resume(None)

    def _resume(self, outcome: object) -> None:
        assert self._work is not None
        try:
            if isinstance(outcome, Exception):
                request = self._work.throw(outcome)
            else:
                request = self._work.send(outcome)
        except (StopIteration, Skipped):
            self._work = None
        except Refusal as refusal:
            self._work = None
            self._refuse(refusal)
        else:
            if isinstance(request, Wait):
                self._waiting = True
                self.to_front += m.message("H")
            else:
                self.job = request

    # The front's messages

    def _show(self, kind: int, raw: bytes) -> None:
        self.to_client += raw

    def _on_rows(self, kind: int, raw: bytes) -> None:
        head = self._head()
        if head.shown:
            self.to_client += raw
        elif head.rows is not None:
            head.rows += raw

    def _on_response(self, kind: int, raw: bytes) -> None:
        self._on_rows(kind, raw)
        self._pending.answered(kind)

    def _head(self) -> Entry:
        head = self._pending.head
        if head is None:
            raise m.ProtocolError("the front spoke out of turn", "XX000")
        return head

    def _on_complete(self, kind: int, raw: bytes) -> None:
        if raw[5:] in (b"DEALLOCATE ALL\0", b"DISCARD ALL\0"):
            self._statements.forget()
        self._on_response(kind, raw)

    def _on_copy_in(self, kind: int, raw: bytes) -> None:
        self._on_response(kind, raw)
        self._copying = self._pending.copy_begins()

    def _on_ready(self, kind: int, raw: bytes) -> None:
        self._copying = False
        if self._pending.head is None:
            self._skipping = False
            self.to_client += raw
        else:
            self._on_response(kind, raw)
        if raw[5:] == b"I":
            self._portals.forget()

    def _on_notice(self, kind: int, raw: bytes) -> None:
        head = self._pending.head
        if head is None or head.shown or not head.ours:
            self.to_client += raw
        elif head.notices:
            fields = m.split_fields(raw)
            self.to_client += m.join_fields("N", {k: v for k, v in fields.items() if k not in _WHERE})

    def _on_error(self, kind: int, raw: bytes) -> None:
        head = self._pending.head
        self._copying = False
        self.to_client += raw if head is None or not head.ours else _cleaned(raw, head)
        if m.is_fatal(raw):
            self.fatal = True
        elif head is None or head.kind not in b"QS":
            self._skipping = not self._pending.skip()
            if self.job is not None:
                self.job = None
                self._resume(Skipped())


_POINTS = "Ppq"
_WHERE = "WFLR"


def _cleaned(raw: bytes, head: Entry) -> bytes:
    """An error of the proxy's own text: without what points into that text, with a refusal's position."""
    dropped = _POINTS if head.shown else _POINTS + _WHERE
    fields = {name: text for name, text in m.split_fields(raw).items() if name not in dropped}
    refusal = head.refusal
    if refusal is not None and refusal.position is not None and fields.get("C") == refusal.code:
        fields["P"] = str(refusal.position)
    return m.join_fields("E", fields)


def _read_parameters(rows: bytes, count: int) -> tuple[tuple[str | None, ...], dict[str, str]]:
    texts = m.split_text_array(m.first_value(rows))
    settings = {name: text for name, text in zip(SETTINGS, texts[count:], strict=True) if text}
    return texts[:count], settings


def _strings(body: bytes, count: int) -> tuple[list[str], bytes]:
    try:
        return m.split_cstrings(body, count)
    except m.ProtocolError as error:
        raise Refusal(error.code, error.message) from None


def _only_text(body: bytes) -> str:
    (text,), rest = _strings(body, 1)
    if rest:
        raise Refusal("08P01", "invalid message format")
    return text


def _not_reserved(*names: str) -> None:
    for name in names:
        if name.startswith(RESERVED):
            raise Refusal("42939", f'names that begin with "{RESERVED}" are reserved')
