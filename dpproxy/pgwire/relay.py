"""The relay: what happens with each message between a client and the front, and the privacy step; no sockets.

Why it exists. The front is a PostgreSQL that holds the schema and no private row, so almost everything that a client
says can be forwarded to it and its answers sent back. A statement on private tables cannot: the front would plan a read
of a guarded table, and raise. The relay lets the front parse the client's text, so that types and syntax errors are
PostgreSQL's, and then has it execute another one, the *presentation*, over released rows that come as array parameters.
To the client it looks like its own statement.

Model. A state machine between two byte streams. Methods take what arrives (`client`, `front`); they append what is
to be sent to `to_front` and `to_client`, and may leave a `job` for a thread, whose outcome goes to `finish`.

- `_line.pending` is the queue of responses due. Protocol 3 puts no number on a response: its place in the order alone
  says which message it answers. The queue's head decides what happens to it: shown, hidden, or kept to be read.
- `_statements` and `_portals` say what the client's names mean to the front. A change is *proposed* when its message is
  sent and *settled* when the front has answered it, or has skipped it after an error.
- `_work` is what takes more than one message: a generator (work.py) that sends, and yields either `Wait`, until
  all that was sent is answered, or a job. There is one at most; meanwhile (`busy`) no message of the client is taken.

A private query in the extended protocol; what stands in parentheses is the proxy's own and hidden from the client:

    client         to the front                                                          to the client
    Parse          Parse, the client's text                                              ParseComplete
    Bind           (Describe statement), job `Prepare`, (Parse presentation),
                   Bind with empty arrays, (Close)                                       BindComplete
    Describe       Describe portal                                                       RowDescription
    Execute        (Describe portal), (parameters and settings), job `Step`,             notices,
                   (Close, Parse, Bind with the released arrays, Close), Execute         DataRow, CommandComplete
    Sync           Sync                                                                  ReadyForQuery

The first Execute is charged. Each later one is forwarded: fetch sizes are the front's, and nothing is drawn again. A
simple query is done by the same messages, with one Sync at its end, unless the front can be sent it unchanged.

Invariants.
1. Whatever is sent to the front and has a response is put into the queue at the same time and in the same order.
2. The text of a private statement is parsed by the front and never executed. A DECLARE or COPY is executed with the
   presentation in place of its query; a PREPARE is executed as it stands, since PostgreSQL plans nothing for it.
3. A step begins once the front has answered all that was sent before it. If any of that failed, the step is not
   taken: `SELECT 1/0` ahead of it in a pipeline costs nothing.
4. A refusal is raised by the front (`dpproxy.refuse`): the transaction fails and the pipeline skips as for any error.
5. An unknown name is taken for public. That leaks nothing: the front guards private tables, and has no rows in them.

Traps.
- After an error the front skips to the next Sync, and the proposals of skipped messages are dropped. If that Sync was
  sent already, the front executes what comes after it. So a name that depends on a response due before a Sync is waited
  for (`_is_open`). Without a Sync between, the message that uses the name would be skipped too, so no wait is needed.
- During COPY FROM STDIN the front ignores Sync: those entries leave the queue, or all later responses are misread.
- `Wait` sends Flush, else the front may hold its answers back; so does a full queue.
- DEALLOCATE, DISCARD and PREPARE change names by SQL, where the relay sees only a command tag. Settled statements are
  forgotten when a known name may have got another meaning (invariant 5).
- `again` and `passed` forward whole rounds unread. They must leave every state as the slow path does.
- `repeated` takes a round that comes again for the one before. Whatever else the session does in between has to pass
  `_forget_round` or `client`: docs/decisions/replays-are-noted-behind.md.
- PostgreSQL crashes on the portal of a failed simple query: docs/decisions/unnamed-portal.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import cast

from dpproxy.pgwire import messages as m
from dpproxy.pgwire.line import FrontWriter
from dpproxy.pgwire.pending import Names, PendingMessage
from dpproxy.pgwire.startup import check_status
from dpproxy.pgwire.step import (
    PLAIN,
    Answer,
    AnsweredRound,
    Bindable,
    ClientStatement,
    FetchPortal,
    Job,
    Portal,
    PreparePortal,
    PublishPortal,
    RelayedPortal,
    Skipped,
    SplitText,
    Step,
    Wait,
    check_names,
    cleaned,
    moved,
    only_text,
    strings,
    with_advice,
    without_paths,
)
from dpproxy.pgwire.work import MOST_STATEMENTS, MOST_WITH_PRIVATE, MessageFlows, Work
from rewriter.refusal import Refusal
from rewriter.statements.lexer import Piece, is_one_command, pieces, tokens

MOST_PENDING = 2048
"""Responses due before the client's next message has to wait."""
_QUERY, _SYNC, _READY = ord("Q"), ord("S"), ord("Z")
_MOST_PLAIN, _LONGEST_PLAIN = 64, 2000
"""Simple queries that a session remembers as public, and the most bytes of each."""
_LONG = 4096
"""Characters above which a text is read on a thread: reading it on the event loop would hold up other sessions."""
_READING = ("SELECT", "WITH", "VALUES", "TABLE", "SHOW")
_AT_ONCE = 16
_SILENT = re.compile(rb"[123CDInstT]+Z?")
"""Kinds of responses that change no state of the relay but the queue's, up to a ReadyForQuery."""
# Command tags after which a name may mean another statement. They are searched for in the bytes as they are, rows
# included: a row that has one of these words in it only takes the slow path.
_TELLING = (b"DEALLOCATE", b"DISCARD", b"PREPARE")
_ROUND = PendingMessage(_QUERY)
_REPEATED = (b"Q", b"BES", b"BDES", b"PBES", b"PBDES")
"""The kinds of messages of a round that may be answered again."""
# A simple query that failed in a transaction leaves a portal of this name behind that PostgreSQL must not be
# asked for: what it points to is freed, and the server crashes.
_NO_PORTAL = Refusal("34000", 'portal "" does not exist')


def _unheard(code: str) -> None:
    """The default of `failed`: error codes are not counted."""


class Relay:
    """One session between login and end, without I/O.

    Feed it the client's messages (`client`, unless `busy` or `full`) and the front's bytes (`front`). Try `again` and
    `passed` first: where they return True, forward the bytes unchanged; then `repeated`. After each call send
    `to_front` and `to_client`, run `job` on a thread and hand its outcome to `finish`.

    Attributes:
        to_front, to_client: bytes to be sent; the caller clears them.
        job: work for a thread, None where there is none.
        fatal: the front ends the session; so must the caller, once all is sent.

    Args:
        classify: "relay", "private" or "publish" for a text; raises Refusal.
        roles: the session may act for other roles, so that rows are shown only to the role that paid for them.
        failed: called with the SQLSTATE of each error that is not a refusal.
    """

    def __init__(
        self, classify: Callable[[str], str], roles: bool = False, failed: Callable[[str], None] = _unheard
    ) -> None:
        self.to_client = bytearray()
        self.job: Job | None = None
        self.fatal = False
        self._classify, self._roles, self._failed = classify, roles, failed
        self._line = FrontWriter()
        self.to_front = self._line.out
        self._outbound = m.Outbound()
        self._statements = Names[ClientStatement]()
        self._portals = Names[Bindable]()
        self._works = MessageFlows(self._line, self._statements, self._portals, self.to_client, roles)
        self._work: Work | None = None
        self._postponed: tuple[Callable[[bytes], None], bytes] | None = None
        self._waiting = False
        self._copying = False
        self._deallocated = False
        self._plain: set[bytes] = set()
        self._ended = False
        self._known: list[ClientStatement] | Refusal | None = None
        self._answered: AnsweredRound | None = None
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
            ord("S"): self._on_status,
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
        return len(self._line.pending) >= MOST_PENDING

    @property
    def quiet(self) -> bool:
        """Whether nothing is under way: no response is due and no step runs."""
        return self._work is None and not len(self._line.pending)

    @property
    def between_rounds(self) -> bool:
        """Whether the last message that was taken ends a round, so that nothing half done follows."""
        return self._ended

    def forget_public(self) -> None:
        """Reads every text again: another policy may have made it private."""
        self._plain.clear()
        self._forget_round()

    @property
    def awaited(self) -> object:
        """The message whose responses are due next, None if there is none: another object for every message."""
        return self._line.pending.head

    def again(self, data: bytes) -> bool:
        """Whether to forward bytes of the client unread. If True, their response is already counted as due.

        True for a whole round that the front alone answers, outside a transaction: a simple query that is known to be
        public, or Bind, Describe and Execute of the unnamed portal up to a Sync. One entry of the queue stands for the
        round: at its end the front has dropped the unnamed portal, and an error in it ends the round as a whole.
        """
        if not (self._between and self._for_front(data)):
            return False
        self._forget_round()
        self._line.pending.expect(_ROUND)
        return True

    @property
    def _between(self) -> bool:
        """Whether what the client sends now begins a round, and a transaction."""
        return self._ended and self._line.outside and self.quiet and not self._line.skipping

    def repeated(self, data: bytes) -> Step | None:
        """The step that answered `data`, if that is the round before, byte by byte, and nothing has come since.

        The session is then as it was: its settings, its role, its names. With the same answer it may go to `answer`;
        without, the bytes are taken as any others.
        """
        if not self._between:
            return None
        if self._answered is not None and self._answered.raw == data:
            return self._answered.step
        self._forget_round()
        if len(data) <= _LONG and m.whole(data) in _REPEATED:
            self._works.round = data
        return None

    def _same_again(self, answered: AnsweredRound) -> bool:
        """Whether the round that ends would do the same again: a Parse in it is that of the statement that it executed,
        without a name that would be taken then."""
        parses = answered.raw[:1] == b"P"
        return not parses or (answered.raw[5] == 0 and self._statements.get("") is answered.portal.statement)

    def answer(self, answer: Answer) -> None:
        """Answers the round before once more."""
        assert self._answered is not None
        self._answered.after = None
        for kind, body in m.split(self._answered.raw):
            if kind == _QUERY:
                self._works.query_again(self._answered, answer)
            elif kind == ord("B"):
                self._works.bind_again(self._answered, answer)
            elif kind == ord("P"):
                self._statements.propose("", self._answered.portal.statement)
                self._line.forward("P", body, (self._statements, ""))
            elif kind == _SYNC:
                self._sync(body)
            else:
                self._line.forward(chr(kind), body)

    def _forget_round(self) -> None:
        self._answered, self._works.round, self._works.answered = None, b"", None

    def _for_front(self, round_: bytes) -> bool:
        if round_ in self._plain:
            return self._statements.get("") is None
        name = m.bound_alone(round_)
        statement = self._statements.get(name) if name is not None else None
        return statement is not None and not statement.private and statement.word in _READING

    def client(self, kind: int, body: bytes) -> None:
        """Takes a message of the client; raises ProtocolError where the session cannot go on."""
        self._answered = None
        # The front would drop it unread. Sent, it would have an entry in the queue that nothing answers.
        if not self._line.skipping or kind == _SYNC:
            self._ended = kind in (_SYNC, _QUERY)
            self._from_client[kind](body)
            if self.full:
                self._line.out += m.message("H")

    def passed(self, data: bytes) -> bool:
        """Whether to forward bytes of the front unread. If True, they are already counted as responses.

        True for whole messages that are shown to the client unchanged and that the relay keeps nothing of.
        """
        if (
            self._work is not None
            or not self._outbound.at_start
            or not self._line.pending.shows_all(_AT_ONCE)
        ):
            return False
        kinds = m.whole(data)
        if _SILENT.fullmatch(kinds) is None or any(tag in data for tag in _TELLING):
            return False
        if not self._line.pending.all_answered(kinds):
            return False
        if kinds[-1] == _READY:
            self._ready(data)
        return True

    def front(self, data: bytes) -> None:
        """Takes bytes of the front; raises ProtocolError where they make no sense."""
        for kind, raw in self._outbound.feed(data):
            self._from_front.get(kind, self._on_response)(kind, raw)
            if self._waiting and not len(self._line.pending):
                self._waiting = False
                self._resume(Skipped() if self._line.skipping else None)

    def _ready(self, data: bytes) -> None:
        """Takes note of the ReadyForQuery at the end of `data`: outside a transaction no portal is left."""
        self._copying = False
        self._line.outside = data[-1:] == b"I"
        if self._line.outside:
            self._portals.forget()
        found = self._works.answered
        if found is not None and self.quiet and found.unchanged and self._same_again(found):
            self._answered, self._works.round = found, b""
        else:
            self._forget_round()

    def finish(self, job: Job, outcome: object) -> None:
        """Takes a job's outcome, or the Refusal that it raised. The outcome of an abandoned job is ignored."""
        if job is self.job:
            self.job = None
            self._resume(outcome)

    # The client's messages

    def _query(self, body: bytes) -> None:
        raw = m.message("Q", body)
        if raw in self._plain:
            self._forward_query(body)
            return
        try:
            text = only_text(body)
            if self._is_long(text):
                self._begin(self._read_first(self._query, body, text, self._read))
                return
            statements = self._statements_of(text, self._read)
            self._check_string(statements)
        except Refusal as refusal:
            self._begin(self._works.refused_query(refusal))
            return
        if self._by_pieces(statements) or not is_one_command(text):
            self._begin(self._works.query(statements or [ClientStatement("", False)]))
            return
        depends = any(one.carrier is not None or one.fetches for one in statements)
        if not depends and len(raw) <= _LONGEST_PLAIN and len(self._plain) < _MOST_PLAIN:
            self._plain.add(raw)
        self._forward_query(body)

    def _forward_query(self, body: bytes) -> None:
        cleared = [(names, "") for names in (self._statements, self._portals) if names.clear("")]
        self._line.forward("Q", body, *cleared)

    def _by_pieces(self, statements: Sequence[ClientStatement]) -> bool:
        """Whether a simple query has to be done by Parse, Bind and Execute, statement by statement."""
        return any(
            one.private
            or one.publishes
            or one.assumes is not None
            or (self._roles and one.may_fetch)
            or self._called(one) is not None
            for one in statements
        )

    def _check_string(self, statements: Sequence[ClientStatement]) -> None:
        """Raises Refusal for a simple query with statements that cannot be run, or not one by one."""
        for one in statements:
            self._check_fetch(one)
        if len(statements) > 1:
            _check_pieces(statements)

    def _read(self, text: str) -> list[ClientStatement]:
        """The statements of a text, classified. Raises Refusal for the whole text if one of them is refused."""
        found = pieces(text)
        if len(found) > MOST_STATEMENTS:
            raise Refusal(
                "54000",
                f"more than {MOST_STATEMENTS} statements in a string",
                hint="Send them in several strings.",
            )
        if len(found) < 2:
            return [self._classified(one) for one in found]
        try:
            return [self._classified(one) for one in found]
        except Refusal as refusal:
            message = f"nothing of the string was executed: {refusal.message}"
            raise Refusal("0A000", message, detail=refusal.detail, hint=refusal.hint) from refusal

    def _is_long(self, text: str) -> bool:
        """Whether a text is still to be read on a thread."""
        return self._known is None and len(text) > _LONG

    def _read_first(
        self,
        handler: Callable[[bytes], None],
        body: bytes,
        text: str,
        read: Callable[[str], list[ClientStatement]],
    ) -> Work:
        """Reads a long text on a thread, then handles its message again with the result in `_known`."""
        try:
            self._known = cast(list[ClientStatement], (yield SplitText(lambda: read(text))))
        except Refusal as refusal:
            self._known = refusal
        self._postponed = (handler, body)

    def _statements_of(
        self, text: str, read: Callable[[str], list[ClientStatement]]
    ) -> list[ClientStatement]:
        """The statements of a text, read now or by `_read_first`; raises Refusal."""
        known, self._known = self._known, None
        if isinstance(known, Refusal):
            raise known
        return read(text) if known is None else known

    def _classified(self, piece: Piece) -> ClientStatement:
        return ClientStatement.read(piece, str(self._classify(piece.text)))

    def _called(self, statement: ClientStatement | None) -> str | None:
        """The name of the statement that an EXECUTE calls, if it is or may be private; None otherwise."""
        if statement is None or statement.carrier is None or statement.carrier.word != "EXECUTE":
            return None
        name = statement.carrier.name
        found = any(one.private for other, one in self._statements.possible() if other == name)
        return name if found else None

    def _parse(self, body: bytes) -> None:
        try:
            (name, text), _ = strings(body, 2)
            check_names(name)
            if self._is_long(text):
                self._begin(self._read_first(self._parse, body, text, self._read_one))
                return
            found = self._statements_of(text, self._read_one)
        except Refusal as refusal:
            self._line.refuse(refusal)
            return
        statement = found[0] if found else ClientStatement(text, False)
        if statement.assumes is not None:
            self._begin(self._works.parse_assuming(body, name, statement))
            return
        self._statements.propose(name, statement)
        self._line.forward("P", body, (self._statements, name))

    def _read_one(self, text: str) -> list[ClientStatement]:
        """The only statement of a text, if it has one; raises Refusal."""
        verdict = str(self._classify(text))
        return [ClientStatement.read(one, verdict) for one in pieces(text)]

    def _bind(self, body: bytes) -> None:
        try:
            (name, source), rest = strings(body, 2)
            check_names(name, source)
            statement = self._statements.get(source)
            called = self._called(statement)
            if any(self._is_open(self._statements, one) for one in (source, called) if one is not None):
                self._begin(self._settled_first(self._bind, body))
                return
            self._check_fetch(statement)
        except Refusal as refusal:
            self._line.refuse(refusal)
            return
        if statement is None:
            self._works.forward_bind(body, name, FetchPortal(None) if self._roles else PLAIN)
        elif statement.takes_step:
            self._begin(self._works.bind(body, name, source, statement, rest))
        elif called is not None:
            self._begin(self._works.bind_execute(body, name, statement, called, rest))
        elif statement.may_fetch and self._roles:
            self._works.forward_bind(body, name, FetchPortal(statement))
        elif statement.publishes:
            self._works.forward_bind(body, name, PublishPortal(statement))
        else:
            naming = PreparePortal(statement) if statement.prepared is not None else PLAIN
            self._works.forward_bind(body, name, naming)

    def _is_open(self, names: Names[ClientStatement] | Names[Bindable], name: str) -> bool:
        """Whether the meaning of `name` depends on responses due before a Sync that was already sent.

        If one of them is an error, the front skips to that Sync and executes what comes after it.
        """
        return self._line.pending.has_end and names.is_open(name)

    def _settled_first(self, handler: Callable[[bytes], None], body: bytes) -> Work:
        """Handles a message once every name is settled."""
        yield Wait()
        self._postponed = (handler, body)

    def _check_fetch(self, statement: ClientStatement | None) -> None:
        """Raises Refusal for FETCH or MOVE on a private portal that was not executed: it is bound to empty arrays."""
        if statement is None or not statement.fetches:
            return
        for name, portal in self._portals.possible():
            waits = isinstance(portal, Portal) and not portal.answered
            if name and waits and statement.reads(name):
                raise Refusal("0A000", "a private portal has to be executed before it is fetched from")

    def _describe(self, body: bytes) -> None:
        if body == b"P\0" and self._is_open(self._portals, ""):
            self._begin(self._settled_first(self._describe, body))
        elif body == b"P\0" and self._portals.get("") is None:
            self._line.refuse(_NO_PORTAL)
        else:
            self._line.forward("D", body)

    def _execute(self, body: bytes) -> None:
        try:
            (name,), _ = strings(body, 1)
        except Refusal as refusal:
            self._line.refuse(refusal)
            return
        if self._is_open(self._portals, name):
            self._begin(self._settled_first(self._execute, body))
            return
        portal = self._portals.get(name)
        if isinstance(portal, PublishPortal):
            self._begin(self._works.publish(portal.statement))
        elif isinstance(portal, Portal) and not portal.answered:
            self._begin(self._works.execute(body, name, portal))
        elif portal is None and not name:
            self._line.refuse(_NO_PORTAL)
        elif self._roles and (name or not isinstance(portal, RelayedPortal | PreparePortal)):
            self._begin(self._works.execute_reading(body, name, portal))
        elif isinstance(portal, PreparePortal):
            self._begin(self._works.name_prepared(body, portal.statement))
        else:
            self._line.forward("E", body, released=isinstance(portal, Portal))

    def _close(self, body: bytes) -> None:
        try:
            (name,), _ = strings(body[1:], 1)
        except Refusal as refusal:
            self._line.refuse(refusal)
            return
        if body[:1] == b"S":
            self._statements.propose(name, None)
            self._line.forward("C", body, (self._statements, name))
        else:
            self._portals.propose(name, None)
            self._line.forward("C", body, (self._portals, name))

    def _sync(self, body: bytes) -> None:
        self._line.skipping = False
        self._works.ask_settings()
        self._line.out += m.message("S", body)
        # PostgreSQL ignores a Sync within COPY FROM STDIN and does not answer it.
        if not self._copying:
            self._line.pending.expect(PendingMessage(_SYNC))

    def _flush(self, body: bytes) -> None:
        self._line.out += m.message("H", body)

    def _call(self, body: bytes) -> None:
        refusal = Refusal("0A000", "function calls by number are not supported")
        self._begin(self._works.refused_query(refusal))

    def _copy_data(self, body: bytes) -> None:
        self._line.out += m.message("d", body)

    def _copy_done(self, body: bytes) -> None:
        self._copy_ends("c", body)

    def _copy_fail(self, body: bytes) -> None:
        self._copy_ends("f", body)

    def _copy_ends(self, kind: str, body: bytes) -> None:
        self._copying = False
        self._line.out += m.message(kind, body)
        if len(self._line.pending):
            self._line.pending.expect(PendingMessage(ord(kind)))

    # Work that waits

    def _begin(self, work: Work) -> None:
        self._work = work
        self._resume(None)

    def _resume(self, outcome: object) -> None:
        assert self._work is not None
        try:
            failure = outcome if isinstance(outcome, Exception) else None
            request = self._work.send(outcome) if failure is None else self._work.throw(failure)
        except (StopIteration, Skipped):
            # First, as the handler may begin other work.
            self._work = None
            if self._postponed is not None:
                (handler, body), self._postponed = self._postponed, None
                handler(body)
        except Refusal as refusal:
            self._work = None
            self._line.refuse(refusal)
        else:
            if isinstance(request, Wait):
                self._waiting = True
                self._line.out += m.message("H")
            else:
                self.job = request

    # The front's messages

    def _show(self, kind: int, raw: bytes) -> None:
        self.to_client += raw

    def _on_status(self, kind: int, raw: bytes) -> None:
        """Ends a session whose encoding or string syntax would make the front read a text differently from us."""
        check_status(raw[5:])
        self._forget_round()
        self.to_client += raw

    def _on_rows(self, kind: int, raw: bytes) -> None:
        head = self._head()
        if head.shown:
            if kind not in head.hidden:
                self.to_client += raw
        elif head.rows is not None:
            head.rows += raw

    def _on_response(self, kind: int, raw: bytes) -> None:
        self._on_rows(kind, raw)
        self._line.pending.answered(kind)

    def _head(self) -> PendingMessage:
        head = self._line.pending.head
        if head is None:
            raise m.ProtocolError("the front spoke out of turn", "XX000")
        return head

    def _on_complete(self, kind: int, raw: bytes) -> None:
        tag = raw[5:-1]
        if tag in (b"DEALLOCATE ALL", b"DISCARD ALL") or (tag == b"PREPARE" and self._deallocated):
            # A PREPARE after a DEALLOCATE by text may have given a known name to another statement. An unknown name is
            # relayed, and the guard stops what is private.
            self._statements.forget()
        self._deallocated = self._deallocated or tag == b"DEALLOCATE"
        head = self._line.pending.head
        if head is not None and head.tag is not None:
            raw = m.message("C", head.tag + b"\0")
        self._on_response(kind, raw)

    def _on_copy_in(self, kind: int, raw: bytes) -> None:
        self._on_response(kind, raw)
        self._copying = self._line.pending.copy_begins()

    def _on_ready(self, kind: int, raw: bytes) -> None:
        if self._line.pending.head is None:
            self._line.skipping = False
            self.to_client += raw
        else:
            self._on_response(kind, raw)
        self._ready(raw)

    def _on_notice(self, kind: int, raw: bytes) -> None:
        head = self._line.pending.head
        if head is None or head.shown or not head.ours:
            self.to_client += raw

    def _on_error(self, kind: int, raw: bytes) -> None:
        head = self._line.pending.head
        self._copying = False
        self._forget_round()
        raw = without_paths(raw)
        if head is not None and head.ours:
            self.to_client += cleaned(raw, head)
        else:
            raw = with_advice(raw) if head is not None and head.released else raw
            self.to_client += moved(raw, head.moved) if head is not None and head.moved else raw
        if head is None or head.refusal is None:
            self._failed(m.split_fields(raw).get("C", ""))
        if m.is_fatal(raw):
            self.fatal = True
        elif head is None or head.kind not in b"QS":
            self._line.unsure = True
            self._line.skipping = not self._line.pending.skip()
            # A job is of the last message: where a Sync was sent before it, the front does not skip that message.
            if self._line.skipping and self.job is not None:
                self.job = None
                self._resume(Skipped())


def _check_pieces(statements: Sequence[ClientStatement]) -> None:
    """Raises Refusal for a string that cannot be run statement by statement."""
    if len(statements) > MOST_WITH_PRIVATE and any(one.private for one in statements):
        raise Refusal(
            "54000",
            f"more than {MOST_WITH_PRIVATE} statements in a string with private ones",
            hint="Send them in several strings.",
        )
    for one in statements:
        if one.word == "COPY" and any(token.word == "STDIN" for token in tokens(one.text)):
            raise Refusal(
                "0A000",
                "COPY FROM STDIN in a string with other statements is not supported",
                hint="Send the COPY by itself.",
            )
