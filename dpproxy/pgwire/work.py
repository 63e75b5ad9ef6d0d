"""Flows of several messages: binding and executing private statements, and strings of statements.

Each is a generator: it writes its messages to the line, and yields where it must wait for the front, or
for a job that runs outside.

Why: docs/decisions/error-columns-in-simple-queries.md.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import TypeVar, cast

from dpproxy.pgwire import messages as m
from dpproxy.pgwire.line import FrontWriter
from dpproxy.pgwire.pending import Names
from dpproxy.pgwire.step import (
    PLAIN,
    Answer,
    AnsweredRound,
    Assume,
    Bindable,
    ClientStatement,
    FetchPortal,
    Job,
    Portal,
    Prepare,
    Prepared,
    PreparePortal,
    Publish,
    PublishResult,
    Skipped,
    Step,
    Wait,
    question,
    read_parameters,
)
from rewriter.refusal import Refusal
from rewriter.statements.comments import attributed
from rewriter.statements.set_statement import ERROR_COLUMNS, ROLE, hears

_MARK = "/*dpproxy:"
"""So begins a text that shows what was paid for, in a session that may act for others; the role's name follows."""
_FOREIGN = f"""
SELECT EXISTS (
  SELECT FROM pg_catalog.pg_cursors AS c
  WHERE c.name OPERATOR(pg_catalog.=) COALESCE($1, c.name)
    AND pg_catalog.starts_with(c.statement, '{_MARK}') AND NOT pg_catalog.starts_with(c.statement,
      '{_MARK}' OPERATOR(pg_catalog.||) pg_catalog.encode(pg_catalog.convert_to(
        pg_catalog.current_setting('role'), 'UTF8'), 'hex') OPERATOR(pg_catalog.||) '*/'))"""
MOST_STATEMENTS, MOST_WITH_PRIVATE = 1000, 100
"""Statements of one string, and of one with private ones among them."""
_AT_ONCE = 50
"""Statements of a string that the front is sent before it has answered."""
_PARAMETERS_MOST = 65535
_NO_DATA = b"n"
_BINARY = b"\0\1\0\1"
_ON = ("on", "true", "yes", "1")
_TEXT_OID = 25

T = TypeVar("T")
Part = Generator[Wait | Job, object, T]
Work = Part[None]


class MessageFlows:
    """The flows of one session, over its line and its names of statements and portals; `to_client`: collects messages
    to the client; `roles`: the session may act for others."""

    def __init__(
        self,
        line: FrontWriter,
        statements: Names[ClientStatement],
        portals: Names[Bindable],
        to_client: bytearray,
        roles: bool,
    ) -> None:
        self._line = line
        self._statements = statements
        self._portals = portals
        self._to_client = to_client
        self._roles = roles
        self._errors = False
        self.round, self.answered = b"", cast(AnsweredRound | None, None)
        """The client's bytes, where they may come again; with the step that they would take again."""

    def forward_bind(self, body: bytes, name: str, portal: Bindable = PLAIN) -> None:
        """A Bind that is only forwarded."""
        self._portals.propose(name, portal)
        self._line.forward("B", body, (self._portals, name))

    def parse_assuming(self, body: bytes, name: str, statement: ClientStatement) -> Work:
        """Parses a statement that takes a role, if the session may take it."""
        assert statement.assumes is not None
        yield Assume(statement.assumes)
        self._statements.propose(name, statement)
        self._line.forward("P", body, (self._statements, name))

    def bind(self, body: bytes, name: str, source: str, statement: ClientStatement, rest: bytes) -> Work:
        """Opens the presentation with empty arrays, under the client's portal name and formats.

        A DECLARE or COPY is opened as it stands: nothing of it runs before it is executed.
        """
        oids = yield from self._parameter_types(source)
        try:
            values, results = m.split_values(rest)
        except m.ProtocolError:
            self.forward_bind(body, name)
            return
        if not values.fits(len(oids)):
            self.forward_bind(body, name)
            return
        portal = yield from self._planned(statement, oids, values, results)
        if statement.carries:
            self.forward_bind(body, name, portal)
        else:
            portal.own = True
            self._portals.propose(name, portal)
            self._line.open(name, portal, portal.empty_arrays(), ((self._portals, name),))

    def bind_execute(
        self, body: bytes, name: str, statement: ClientStatement, called: str, rest: bytes
    ) -> Work:
        """Binds an SQL EXECUTE of a private statement: it becomes a portal of that statement."""
        try:
            values, results = m.split_values(rest)
        except m.ProtocolError:
            self.forward_bind(body, name)
            return
        portal = yield from self._called(statement, called, results)
        if portal is None or values.count:
            self.forward_bind(body, name)
            return
        self._portals.propose(name, portal)
        self._line.open(name, portal, portal.empty_arrays(), ((self._portals, name),))

    def name_prepared(self, body: bytes, statement: ClientStatement) -> Work:
        """Executes a PREPARE of a private statement, which then goes by its name.

        A statement without parameters is planned first, so that one that no query may ask is refused here already.
        """
        assert statement.carrier is not None
        if not statement.carrier.parameters:
            try:
                yield Prepare(statement.query, ())
            except Refusal as refusal:
                raise statement.placed(refusal) from refusal
        name = statement.carrier.name
        self._statements.propose(name, statement.prepared)
        self._line.forward("E", body, (self._statements, name))

    def execute(self, body: bytes, name: str, portal: Portal) -> Work:
        """The first Execute of a private portal."""
        self._line.inject(m.describe("P", name), ours=False)
        yield from self._step(name, portal)
        self._line.forward("E", body, released=True)

    def execute_reading(self, body: bytes, name: str, portal: Bindable | None) -> Work:
        """An Execute that may read rows which another role has paid for: what a name means, the front alone knows,
        for SQL makes cursors and closes portals, too."""
        if isinstance(portal, FetchPortal):
            yield from self._check_payer(
                None if name or portal.statement is None else portal.statement.cursor
            )
        else:
            yield from self._check_payer(name)
        if isinstance(portal, PreparePortal):
            yield from self.name_prepared(body, portal.statement)
        else:
            self._line.forward("E", body, released=isinstance(portal, Portal))

    def publish(self, statement: ClientStatement) -> Work:
        """Executes a statement on published answers. The front does not run it, and only shows the result."""
        rows = self._question(0, (), m.NO_VALUES)
        yield Wait()
        _, settings = read_parameters(bytes(rows), 0)
        try:
            outcome = cast(
                PublishResult, (yield Publish(statement.text, settings, attributed(statement.text)))
            )
        except Refusal as refusal:
            raise statement.placed(refusal) from refusal
        self._say(outcome.notices, settings)
        self._line.complete(outcome.tag)

    def bind_again(self, answered: AnsweredRound, answer: Answer) -> None:
        """The Bind of a portal that was answered before, with the answer in it."""
        name, portal = answered.name, answered.portal
        self._portals.propose(name, portal)
        self._line.open(name, portal, answer.arrays, ((self._portals, name),))
        self._say(answer.notices, answered.step.settings, answer.warnings)

    def query_again(self, answered: AnsweredRound, answer: Answer) -> None:
        """A simple query that was answered before, which left nothing under the empty name."""
        self._line.open("", answered.portal, answer.arrays, shown=False)
        self._say(answer.notices, answered.step.settings, answer.warnings)
        self._line.forward("D", b"P\0")
        self._line.forward("E", m.execute("")[5:], released=True)
        self.ask_settings()
        self._line.forward("S", b"")

    def ask_settings(self) -> None:
        """Asks what the session's settings are behind a step that may be taken again."""
        if self.answered is not None and self.answered.after is None:
            self.answered.after = self._question(0, (), m.NO_VALUES)

    def query(self, statements: Sequence[ClientStatement]) -> Work:
        """A simple query by Parse, Bind and Execute for each statement, with the same responses for the client.

        All are in one transaction, as the statements of a simple query are, and the first error ends them; a
        step waits until everything before it has run. So does the end of a string, where failed portals are closed.
        """
        if len(self._line.pending):
            yield Wait()
        try:
            try:
                if len(statements) > 1 and self._line.outside:
                    # After a first statement PostgreSQL takes the others for a transaction; this one takes no snapshot.
                    self._line.run("SHOW transaction_isolation", (), m.NO_VALUES)
                for number, statement in enumerate(statements):
                    if number and number % _AT_ONCE == 0:
                        yield Wait()
                    yield from self._run(statement)
                if len(statements) > 1:
                    self.answered = None
                    yield Wait()
                self.ask_settings()
                self._end_query()
                return
            except Refusal as refusal:
                self._line.refuse(refusal)
        except Skipped:
            pass
        self._end_failed_query()

    def refused_query(self, refusal: Refusal) -> Work:
        """A simple query that is refused as a whole."""
        if len(self._line.pending):
            yield Wait()
        self._line.refuse(refusal)
        self._end_failed_query()

    # A statement of a simple query

    def _run(self, statement: ClientStatement) -> Work:
        called = yield from self._what_is_called(statement)
        if statement.takes_step:
            yield from self._run_private(statement)
        elif statement.publishes:
            yield from self.publish(statement)
        elif called is None:
            yield from self._run_public(statement)
        else:
            portal = yield from self._called(statement, called, b"\0\0")
            if portal is None:
                yield from self._run_public(statement)
            else:
                yield from self._run_portal(portal)

    def _run_public(self, statement: ClientStatement) -> Work:
        if statement.assumes is not None:
            yield Assume(statement.assumes)
        if statement.may_fetch and self._roles:
            yield from self._check_payer(statement.cursor)
        place = statement.offset or 0
        self._line.inject(m.parse("", statement.text), ours=False, moved=place)
        self._line.inject(m.bind("", "", m.NO_VALUES), ours=False)
        self._line.forward("D", b"P\0", hidden=_NO_DATA)
        if statement.prepared is None:
            self._line.forward("E", m.execute("")[5:], moved=place)
        else:
            yield from self.name_prepared(m.execute("")[5:], statement)

    def _run_private(self, statement: ClientStatement) -> Work:
        self._line.inject(m.parse("", statement.text), ours=False, moved=statement.offset or 0)
        described = self._line.inject(m.describe("S", ""), ours=False)
        self._line.inject(m.close("S", ""))
        # Nothing may run before a DECLARE: PostgreSQL would take the two for a transaction.
        said = None if statement.carries else self._question(0, (), m.NO_VALUES)
        early = None if statement.carries else (yield from self._open_early(statement))
        yield Wait()
        if m.split_oids(bytes(described)):
            raise Refusal("42P02", "there is no parameter $1")
        settings = None if said is None else read_parameters(bytes(said), 0)[1]
        self._errors = settings is not None and settings.get(ERROR_COLUMNS, "").lower() in _ON
        if early is not None and early.errors == self._errors:
            yield from self._run_opened(early, settings)
        else:
            portal = yield from self._planned(statement, (), m.NO_VALUES, b"\0\0", self._errors)
            portal.own = not statement.carries
            yield from self._run_portal(portal, settings)

    def _open_early(self, statement: ClientStatement) -> Part[Portal | None]:
        """The portal of a plan that is cached, opened in the round that asks for the session's settings; None where
        there is none. Whether it has the columns of dpproxy.error_columns is guessed by the last."""
        known = cast(Prepared | None, (yield Prepare(statement.query, (), self._errors, cached=True)))
        if known is None or len(known.array_oids) > _PARAMETERS_MOST:
            return None
        portal = Portal(statement, (), m.NO_VALUES, b"\0\0", known, self._errors, own=True)
        self._open(portal)
        return portal

    def _open(self, portal: Portal) -> None:
        self._line.open("", portal, portal.empty_arrays(), shown=False, keep=True)
        self._line.inject(m.describe("P", ""), ours=False)

    def _run_portal(self, portal: Portal, settings: dict[str, str] | None = None) -> Work:
        if not portal.statement.carries:
            self._open(portal)
        yield from self._run_opened(portal, settings)

    def _run_opened(self, portal: Portal, settings: dict[str, str] | None) -> Work:
        """`settings`: the session's, of a portal without parameters, where they are known."""
        yield from self._step("", portal, settings)
        if not portal.statement.carries:
            self._line.forward("D", b"P\0")
        self._line.forward("E", m.execute("")[5:], released=True)

    def _end_failed_query(self) -> None:
        """The front skips up to the first Sync, so that only then something can be closed."""
        self._line.skipping = False
        self._line.inject(m.message("S"))
        self._end_query()

    def _end_query(self) -> None:
        """A simple query leaves nothing under the empty name."""
        self._line.inject(m.close("S", ""))
        self._line.inject(m.close("P", ""))
        self._statements.propose("", None)
        self._portals.propose("", None)
        self._line.forward("S", b"", (self._statements, ""), (self._portals, ""))

    # EXECUTE

    def _what_is_called(self, statement: ClientStatement) -> Part[str | None]:
        """The name of the private statement that an EXECUTE calls, once the front has settled what it means."""
        if statement.carrier is None or statement.carrier.word != "EXECUTE":
            return None
        name = statement.carrier.name
        if self._statements.is_open(name):
            yield Wait()
        found = self._statements.get(name)
        return name if found is not None and found.private else None

    def _called(self, statement: ClientStatement, name: str, results: bytes) -> Part[Portal | None]:
        """The portal of an EXECUTE, with its arguments evaluated; None where the front is to raise the error."""
        called, carrier = self._statements.get(name), statement.carrier
        oids = yield from self._parameter_types(name)
        if called is None or carrier is None or len(oids) != len(carrier.arguments):
            return None
        values = yield from self._arguments(carrier.arguments, oids)
        return (yield from self._planned(called, oids, values, results))

    def _arguments(self, arguments: Sequence[str], oids: Sequence[int]) -> Part[m.Values]:
        if not arguments:
            return m.NO_VALUES
        listed = ", ".join(f"pg_catalog.format_type({oid}, -1)" for oid in oids)
        rows = self._line.run(f"SELECT ARRAY[{listed}]", (), m.NO_VALUES, results=_BINARY)
        yield Wait()
        kinds = m.split_text_array(m.first_value(bytes(rows)))
        cast_ones = ", ".join(f"({one})::{kind}" for one, kind in zip(arguments, kinds, strict=True))
        rows = self._line.run(f"SELECT {cast_ones}", (), m.NO_VALUES, results=_BINARY)
        yield Wait()
        if rows[:1] != b"D":
            raise Refusal("0A000", "set-returning functions are not allowed in EXECUTE parameter")
        return m.Values((1,) * len(oids), len(oids), m.first_row(bytes(rows)))

    # Roles

    def _check_payer(self, name: str | None) -> Work:
        """Raises Refusal where an open cursor of this name (None: any) has rows that another role has paid for."""
        values = m.Values((), 1, m.encoded([name if name is None else name.encode()]))
        rows = self._line.run(_FOREIGN, (_TEXT_OID,), values)
        yield Wait()
        if m.first_value(bytes(rows)) == b"t":
            raise Refusal(
                "42501",
                "these rows were paid for in another role",
                hint="SET ROLE to the one that opened the cursor, or ask again: each role pays for itself.",
            )

    # The privacy step

    def _planned(
        self,
        statement: ClientStatement,
        oids: tuple[int, ...],
        values: m.Values,
        results: bytes,
        errors: bool = False,
    ) -> Part[Portal]:
        carrier = statement.carrier
        if carrier is not None and carrier.word == "COPY" and carrier.parameters:
            raise Refusal(
                "42P02", "there is no parameter $1", hint="COPY takes no parameters: write the value."
            )
        try:
            prepared = cast(Prepared, (yield Prepare(statement.query, oids, errors)))
        except Refusal as refusal:
            raise statement.placed(refusal) from refusal
        if values.count + len(prepared.array_oids) > _PARAMETERS_MOST:
            raise Refusal("54000", "too many parameters")
        return Portal(statement, oids, values, results, prepared, errors)

    def _question(self, count: int, oids: Sequence[int], values: m.Values) -> bytearray:
        return self._line.run(question(count), oids, values, results=_BINARY)

    def _step(self, name: str, portal: Portal, settings: dict[str, str] | None = None) -> Work:
        """Checks that the portal can run, runs the step, and reopens the portal with its arrays."""
        for bound in portal.rehearsals():
            self._line.run(bound.text, bound.oids, bound.values)
        parameters: tuple[str | None, ...] = ()
        if settings is None:
            rows = self._question(len(portal.oids), portal.oids, portal.values)
            yield Wait()
            parameters, settings = read_parameters(bytes(rows), len(portal.oids))
        elif len(self._line.pending):
            yield Wait()
        before = dict(settings)
        try:
            settings[ERROR_COLUMNS] = "on" if portal.errors else "off"
            step = Step(
                portal.statement.query,
                portal.oids,
                parameters,
                settings,
                attributed(portal.statement.text),
                portal.prepared,
            )
            answer = cast(Answer, (yield step))
        except Refusal as refusal:
            raise portal.statement.placed(refusal) from refusal
        again = self.round and portal.repeats(parameters)
        self.answered = AnsweredRound(self.round, name, portal, step, before) if again else None
        self._line.inject(m.close("P", name))
        portal.answered, portal.mark = True, mark(settings[ROLE]) if self._roles else ""
        self._line.open(name, portal, answer.arrays, shown=False)
        self._say(answer.notices, settings, answer.warnings)

    def _say(self, notices: Sequence[str], settings: Mapping[str, str], warnings: Sequence[str] = ()) -> None:
        """Sends notices to the client. Everything before has been answered, so the order is right."""
        if hears(settings, "notice"):
            self._to_client += b"".join(map(m.notice, notices))
        if hears(settings, "warning"):
            self._to_client += b"".join(map(m.warning, warnings))

    def _parameter_types(self, source: str) -> Part[tuple[int, ...]]:
        described = self._line.inject(m.describe("S", source), ours=False)
        yield Wait()
        return m.split_oids(bytes(described))


def mark(role: str) -> str:
    """The comment that says in which role a text's rows were paid for.

    >>> mark("ann")
    '/*dpproxy:616e6e*/'
    """
    return f"{_MARK}{role.encode().hex()}*/"
