"""One client, one connection to the front, the relay between them: bytes, flow control, jobs on threads."""

from __future__ import annotations

import asyncio
import hmac
import logging
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Protocol

from dpproxy.backends.base import Cancellation
from dpproxy.engine.last_release import LastRelease
from dpproxy.engine.refusals import PolicyReloaded
from dpproxy.engine.request import QueryRequest
from dpproxy.front.waiting import working_for
from dpproxy.pgwire import messages as m
from dpproxy.pgwire.relay import Relay
from dpproxy.pgwire.startup import milliseconds
from dpproxy.pgwire.step import (
    Answer,
    Assume,
    Job,
    Prepare,
    Prepared,
    Publish,
    PublishResult,
    SplitText,
    Step,
)
from dpproxy.server.fair_pool import Turns
from dpproxy.server.impersonation import Identity
from dpproxy.server.login import FrontConnection, cancel_at_front
from dpproxy.server.loop_time import LoopTime
from dpproxy.server.padding import TIMED_OUT, PaddedTurns
from dpproxy.server.transport import HIGH_WATER, Address, Channel
from dpproxy.telemetry.observer import ChargeTally, Observer, StatementEnd
from dpproxy.telemetry.progress import ProgressNotifier, wanted
from dpproxy.telemetry.stages import Observe, Stages, unobserved
from rewriter.refusal import Refusal
from rewriter.statements.comments import plain_name
from rewriter.statements.set_role import NONE
from rewriter.statements.set_statement import ROLE

log = logging.getLogger("dpproxy.server.session")

_RELOAD_SECONDS, _PAUSES = 60.0, (0.05, 0.1, 0.2, 0.4, 1.0)
"""How long a statement waits until something is bought again, and between its attempts."""
_PIECE = 1 << 12
"""Bytes of the front that are read before it may be the others' turn."""
_GRACE_SECONDS = 1.0
"""How much later than the front's own statement_timeout ours is, so that it says so itself where it can."""
SHUTDOWN = m.error("57P01", "terminating connection due to administrator command", severity="FATAL")
_IDLE = m.error("57P05", "terminating connection due to idle-session timeout", severity="FATAL")


class StatementHandler(Protocol):
    """The composition of the rooms, as a session needs it; `prepare` and `execute` run on threads."""

    def classify(self, text: str, /) -> str:
        """ "relay", "private" or "publish"; raises Refusal. Cheap, no I/O."""

    def prepare(self, text: str, oids: tuple[int, ...], errors: bool, /) -> Prepared:
        """Plans a private statement, charging nothing; raises Refusal."""

    def known(self, text: str, oids: tuple[int, ...], errors: bool, /) -> Prepared | None:
        """The result of `prepare` if it needs no time and no thread, else None."""

    def execute(self, asker: QueryRequest, /) -> Answer:
        """Pays, runs and releases; raises Refusal."""

    def again(self, asker: QueryRequest, /) -> Answer | None:
        """The result of `execute` if it needs no time and no thread, else None."""


def nothing_published(_: QueryRequest) -> PublishResult:
    """0A000: of a server without a place for published answers."""
    raise Refusal("0A000", "nothing can be published here")


@dataclass(frozen=True)
class Services:
    """What every session shares.

    Attributes:
        answering: plans and answers private statements.
        planning: the threads that plan them, and read long texts.
        threads: the threads that execute them.
        front: the address of the front.
        statement_timeout: seconds that a privacy step, or a statement of the front, may take.
        idle_timeout: seconds that a client may be silent.
        job_begun: called with the future of each job.
        time: of the event loop, that sessions share.
        observe: called with the durations of the stages of private statements.
        identity: which logins may act for others.
        watcher: notified when statements and sessions end.
        publish: runs a statement on published answers, on a thread; raises Refusal.
        padded: runs privacy steps, and gives their results at ticks; None: `threads` do, as soon as they are over.
    """

    answering: StatementHandler
    planning: Turns[object]
    threads: Turns[object]
    front: Address
    statement_timeout: float
    idle_timeout: float
    job_begun: Callable[[asyncio.Future[object]], None]
    time: LoopTime
    observe: Observe = unobserved
    identity: Identity = field(default_factory=Identity)
    watcher: Observer = field(default_factory=Observer)
    publish: Callable[[QueryRequest], PublishResult] = nothing_published
    padded: PaddedTurns | None = None


@dataclass
class _Running:
    """A job. `cancellation` ends all of it; `planning` ends the part before payment, also when the client has gone.

    Both end a padded step before its turn alone.
    """

    job: Job
    cancellation: Cancellation
    planning: Cancellation
    timer: asyncio.TimerHandle | None
    teller: ProgressNotifier | None

    def stop(self) -> None:
        """Nothing rings for it any more."""
        if self.timer is not None:
            self.timer.cancel()
        if self.teller is not None:
            self.teller.stop()


class Session:
    """A logged-in client. `ended` is called once, when nothing of it runs but paid steps."""

    def __init__(
        self,
        client: Channel,
        front: FrontConnection,
        analyst: str,
        secret: bytes,
        services: Services,
        ended: Callable[[Session], None],
        tool: str = "",
    ) -> None:
        """`tool`: what the client calls itself, a note for the history."""
        self.analyst = analyst
        self._tool = plain_name(tool)
        self._connected_at = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S}"
        self.pid = front.pid
        self._secret = secret
        self._client = client
        self._front = front
        self._services = services
        self._ended = ended
        self._relay = Relay(self._classify, services.identity.is_service(analyst), self._refused)
        self._last, self._last_of = LastRelease(), analyst
        self._running: _Running | None = None
        self._presenting: Stages | None = None
        self._awaited: object = None
        self._clock: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self._patience = services.statement_timeout + _GRACE_SECONDS
        self._since = self._heard = self._left = self._loop.time()
        self._idle: asyncio.TimerHandle | None = None
        self._closing = False
        self._draining = False
        self._time, self._in_line = services.time, False
        self._round, self._answers = b"", list[bytes]()
        """What has come from the client, and from the front, and waits for the session's turn."""

    def start(self) -> None:
        """Begins to relay, with what the client has sent since its login."""
        self._services.watcher.session(1)
        self._client.inbound.limits = m.CLIENT_LIMITS
        self._client.attach(self._from_client, self._flow)
        self._front.channel.attach(self._from_front, self._flow)
        self._at_once(self._relay.front, self._front.channel.inbound.rest())
        self._watch_client()

    @property
    def row(self) -> tuple[str, ...]:
        """Id, login, address, application, state, and the time of the login: for the owner."""
        state = "idle" if self._relay.quiet and self._running is None else "active"
        return (str(self.pid), self.analyst, self._client.peer, self._tool, state, self._connected_at)

    def is_mine(self, secret: bytes) -> bool:
        """Whether a CancelRequest knows this session's secret."""
        return hmac.compare_digest(secret, self._secret)

    async def cancel(self) -> None:
        """Cancels the running step, or else whatever the front runs for this session.

        Never both: a request that reaches the front late would hit the next statement.
        """
        if self._running is not None:
            self._interrupt("canceling statement due to user request")
        else:
            await cancel_at_front(self._services.front, self._front.pid, self._front.secret)

    def reload(self, services: Services) -> None:
        """Goes on under another policy; what runs is finished, or planned again, under it."""
        self._services = services
        self._relay.forget_public()

    def drain(self) -> None:
        """Ends the session as soon as nothing is under way; a running step is still answered."""
        self._draining = True
        self._at_once(lambda _: None, b"")

    def abort(self) -> None:
        """Ends the session now."""
        self._end(SHUTDOWN)

    def _from_client(self, data: bytes) -> None:
        self._heard = self._loop.time()
        if self._in_line:
            self._hold(data)
            return
        if self._time.begin(self.analyst):
            self._take_from_client(data)
        else:
            self._hold(data)
        self._time.end()

    def _hold(self, data: bytes) -> None:
        """Keeps what the client has sent: a first piece as it came, since it may be a round that is known."""
        if self._round or len(self._client.inbound):
            self._client.inbound.feed(self._round + data)
            self._round = b""
        else:
            self._round = data
        self._line_up()
        if len(self._round) + len(self._client.inbound) >= HIGH_WATER:
            self._flow_control()

    def _line_up(self) -> None:
        """Waits for the session's next turn."""
        if not self._closing:
            self._in_line = True
            self._time.wait(self.analyst, self._turn)

    def _turn(self) -> None:
        self._in_line = False
        answers, self._answers = self._answers, []
        while answers and not self._in_line:
            self._take_from_front(answers.pop(0))
        self._answers += answers
        if self._in_line:
            return
        round_, self._round = self._round, b""
        if round_:
            self._take_from_client(round_)
        elif len(self._client.inbound) or self._draining:
            self._guarded(lambda _: None, b"")
        self._flow_control()

    def _take_from_client(self, data: bytes) -> None:
        inbound = self._client.inbound
        if self._closing or self._draining or len(inbound) or self._stuck():
            self._guarded(inbound.feed, data)
        elif self._relay.again(data):
            self._front.channel.send(data)
            self._watch_front()
        else:
            self._guarded(self._take_round, data)

    def _take_round(self, data: bytes) -> None:
        step = self._relay.repeated(data)
        if step is None or not self._repeat(step, self._relay.answer):
            self._client.inbound.feed(data)

    def _from_front(self, data: bytes) -> None:
        if self._in_line or self._answers:
            self._hold_answer(data)
            return
        if self._time.begin(self.analyst):
            self._take_from_front(data)
        else:
            self._hold_answer(data)
        self._time.end()

    def _hold_answer(self, data: bytes) -> None:
        self._answers.append(data)
        self._line_up()
        if len(self._answers) > 1 or len(data) >= HIGH_WATER:
            self._flow_control()

    def _take_from_front(self, data: bytes) -> None:
        client = self._client
        if self._closing or client.congested or not self._relay.passed(data):
            for begin in range(0, len(data), _PIECE):
                if begin and self._time.over:
                    self._answers.insert(0, data[begin:])
                    self._line_up()
                    self._flow_control()
                    return
                self._guarded(self._relay.front, data[begin : begin + _PIECE])
            return
        client.send(data)
        self._watch_front()
        if len(client.inbound) or self._draining or self._presenting is not None:
            self._guarded(lambda _: None, b"")

    def _at_once(self, take: Callable[[bytes], None], data: bytes) -> None:
        """The same as `_guarded`, and as much of what waits as there is time for."""
        self._time.begin(self.analyst)
        self._guarded(take, data)
        self._time.end()

    def _guarded(self, take: Callable[[bytes], None], data: bytes) -> None:
        """Processes bytes with `take`; any error ends this session alone."""
        if self._closing:
            return
        try:
            take(data)
            self._advance()
        except m.ProtocolError as error:
            self._send()
            self._end(m.error(error.code, error.message, severity="FATAL"))
        except Exception as error:
            _log_without_text(error)
            self._send()
            self._end(m.error("XX000", "internal error in the proxy", severity="FATAL"))

    def _advance(self) -> None:
        relay, client = self._relay, self._client
        self._take_messages()
        while self._finish_known():
            self._take_messages()
        if self._closing:
            return
        self._send()
        if relay.job is not None or self._running is not None:
            self._look_after_job()
        self._watch_front()
        if self._presenting is not None and relay.quiet:
            self._presented()
        if relay.fatal:
            self._end()
        elif self._draining and relay.quiet and (relay.between_rounds or not len(client.inbound)):
            self._end(SHUTDOWN)
        else:
            self._flow_control()

    def _take_messages(self) -> None:
        relay, client, front = self._relay, self._client, self._front.channel
        inbound = client.inbound
        while len(inbound) and not (
            relay.busy or relay.full or front.congested or client.congested or self._closing
        ):
            if self._draining and relay.between_rounds:
                return
            if self._time.over:
                self._line_up()
                return
            message = inbound.take()
            if message is None:
                return
            if message[0] == ord("X"):
                self._end()
                return
            relay.client(*message)
            if len(relay.to_front) > HIGH_WATER:
                self._send()

    def _finish_known(self) -> bool:
        """Finishes a plan that is cached, or an answer that is repeated, without a thread's turn."""
        job = self._relay.job
        if self._running is not None or self._closing:
            return False
        if isinstance(job, Step):
            return self._repeat(job, partial(self._relay.finish, job))
        if not isinstance(job, Prepare):
            return False
        known = self._services.answering.known(job.text, job.oids, job.errors)
        if known is None and not job.cached:
            return False
        self._relay.finish(job, known)
        return True

    def _repeat(self, job: Step, answer_with: Callable[[Answer], None]) -> bool:
        """Answers a step again, where that takes no time; padded ones leave at their ticks."""
        if self._services.padded is not None:
            return False
        stages, paid = Stages(self._services.observe), ChargeTally()
        try:
            answer = self._services.answering.again(self._request(job, Cancellation(), stages, paid))
        except Refusal:
            return False  # which the step itself will raise
        if answer is None:
            return False
        stages.enter("present")
        self._presenting = stages
        answer_with(answer)
        self._job_ended(job, stages, paid, answer)
        return True

    def _send(self) -> None:
        for channel, data in (
            (self._front.channel, self._relay.to_front),
            (self._client, self._relay.to_client),
        ):
            if data:
                channel.send(bytes(data))
                data.clear()

    def _watch_front(self) -> None:
        """Gives every statement of the front the server's time, whatever the session has set for itself."""
        awaited = self._relay.awaited
        if awaited is self._awaited:
            return
        self._awaited = awaited
        if awaited is not None:
            self._since = self._loop.time()
            if self._clock is None:
                self._clock = self._loop.call_later(self._patience, self._look_at_clock)

    def _look_at_clock(self) -> None:
        """One timer serves many statements: they begin and end far more often than it rings."""
        self._clock = None
        if self._awaited is None or self._closing:
            return
        left = self._since + self._patience - self._loop.time()
        if left <= 0:
            self._cancel_front()
        else:
            self._clock = self._loop.call_later(left, self._look_at_clock)

    def _watch_client(self) -> None:
        """Ends the session once the client has been silent for too long and nothing is under way."""
        if self._closing:
            return
        most = self._services.idle_timeout
        left = self._heard + most - self._loop.time()
        if left <= 0 and self._relay.quiet:
            self._end(_IDLE)
        else:
            self._idle = self._loop.call_later(left if left > 0 else most, self._watch_client)

    def _cancel_front(self) -> None:
        task = cancel_at_front(self._services.front, self._front.pid, self._front.secret)
        self._services.job_begun(asyncio.ensure_future(task))

    def _flow(self) -> None:
        """A connection became free again, or ended."""
        if self._client.closed.done():
            self._end()
        elif self._front.channel.closed.done():
            # Its last words may still wait for their turn.
            self._guarded(self._relay.front, b"".join(self._answers))
            self._end(SHUTDOWN)
        else:
            self._at_once(lambda _: None, b"")

    def _flow_control(self) -> None:
        waiting = len(self._client.inbound) + len(self._round) >= HIGH_WATER
        answers = sum(map(len, self._answers)) >= HIGH_WATER
        self._client.read_if(not (waiting and (self._in_line or self._stuck())))
        self._front.channel.read_if(not (answers or self._client.congested))

    def _stuck(self) -> bool:
        relay = self._relay
        return relay.busy or relay.full or self._front.channel.congested or self._client.congested

    # Jobs

    def _look_after_job(self) -> None:
        """Starts the job that the relay names, and gives up the one that it no longer waits for."""
        job, running = self._relay.job, self._running
        if running is not None and running.job is not job:
            self._running = None
            running.stop()
            self._cancel_quietly(running.cancellation)
        if job is not None and self._running is None:
            self._begin(job)

    def _begin(self, job: Job) -> None:
        loop, cancellation, stages = self._loop, Cancellation(), Stages(self._services.observe)
        paid, planning = ChargeTally(), Cancellation()
        cancellation.on_cancel(planning.cancel)
        turns = self._services.planning if isinstance(job, Prepare | SplitText) else self._services.threads
        padded = self._services.padded if isinstance(job, Step) else None
        waiting, arrived = Cancellation(), max(self._heard, self._left)

        def work() -> object:
            with working_for(self.analyst, planning):
                return self._call(job, cancellation, stages, paid)

        def stop() -> None:
            self._cancel_quietly(cancellation, timed_out=True)
            # A time-out at the backend is told once the ledger has it, as the job's own outcome.
            if not stages.passed("fetch"):
                self._finished(job, Refusal("57014", TIMED_OUT))

        begun, pauses = loop.time(), iter(_PAUSES)

        def attempt() -> None:
            future = (
                turns.run(self._payer(job), work, planning)
                if padded is None
                else asyncio.ensure_future(
                    padded.run(
                        self._payer(job),
                        arrived,
                        work,
                        waiting,
                        stop,
                        lambda outcome: isinstance(outcome, Refusal) and stages.passed("fetch"),
                    )
                )
            )
            if not isinstance(job, Prepare):
                # Planning has charged nothing: a drain need not wait for it after its client has gone.
                self._services.job_begun(future)
            future.add_done_callback(lambda done: over(done.result()))

        def over(outcome: object) -> None:
            # No answer leaves behind the last tick.
            late = padded is not None if not isinstance(outcome, Refusal) else outcome.code == "57014"
            if cancellation.timed_out and late:
                outcome = Refusal("57014", TIMED_OUT)
            again = isinstance(outcome, PolicyReloaded) and not outcome.shown
            if again and loop.time() < begun + _RELOAD_SECONDS:
                # Without a thread meanwhile: what is paid is replayed while nothing is bought.
                loop.call_later(next(pauses, _PAUSES[-1]), attempt)
            else:
                self._done(job, stages, paid, outcome)

        seconds, most = self._seconds_for(job), self._services.statement_timeout
        timer: asyncio.TimerHandle | None = None
        if seconds < most:
            # A session's own time-out is a cancel of its client's, and counts as little.
            timer = loop.call_later(seconds, self._interrupt, TIMED_OUT)
        if padded is None:
            timer = timer or loop.call_later(seconds, stop)
            tells = isinstance(job, Step) and wanted(job.settings)
            teller = ProgressNotifier(stages, self._notice) if tells else None
            self._running = _Running(job, cancellation, planning, timer, teller)
        else:
            # The server's time-out is a tick; the stages that a notice names follow the data.
            self._running = _Running(job, waiting, waiting, timer, None)
        attempt()

    def _notice(self, line: str) -> None:
        """Between two messages: the front has answered everything before a job begins."""
        self._client.send(m.notice(line))

    def _payer(self, job: Job) -> str:
        """Whose turn it is: a login's, or that of whom it acts for."""
        role = job.settings[ROLE] if isinstance(job, Step | Publish) else NONE
        return self.analyst if role == NONE else role

    def _seconds_for(self, job: Job) -> float:
        """The session's statement_timeout, where it has one and it is less than the server's."""
        most = self._services.statement_timeout
        own = (
            milliseconds(job.settings.get("statement_timeout", "0")) if isinstance(job, Step | Publish) else 0
        )
        return min(most, own / 1000) if own else most

    def _classify(self, text: str) -> str:
        try:
            return self._services.answering.classify(text)
        except Refusal as refusal:
            self._refused(refusal.code, text)
            raise

    def _refused(self, code: str, text: str | None = None) -> None:
        self._services.watcher.ended(StatementEnd(f"analyst:{self.analyst}", code, ChargeTally(), text))

    def _job_ended(self, job: Job, stages: Stages, paid: ChargeTally, outcome: object) -> None:
        """Reports the outcome to the observer, attributed to the paying account."""
        if isinstance(job, SplitText):
            return
        code, who = outcome.code if isinstance(outcome, Refusal) else "", self.analyst
        if isinstance(job, Step | Publish):
            with suppress(Refusal):
                who = self._services.identity.analyst(who, job.settings[ROLE])
        if code or isinstance(job, Step | Publish):
            text = None if isinstance(job, Assume) else job.text
            self._services.watcher.ended(StatementEnd(f"analyst:{who}", code, paid, text, stages.seconds))

    def _call(self, job: Job, cancellation: Cancellation, stages: Stages, paid: ChargeTally) -> object:
        """Runs on a thread; gives the outcome or the Refusal."""
        answering, identity = self._services.answering, self._services.identity
        try:
            if isinstance(job, Assume):
                identity.assume(self.analyst, job.role)
                return None
            if isinstance(job, SplitText):
                return job.read()
            if isinstance(job, Prepare):
                with stages.during("parse"):
                    return answering.prepare(job.text, job.oids, job.errors)
            asker = self._request(job, cancellation, stages, paid)
            return self._services.publish(asker) if isinstance(job, Publish) else answering.execute(asker)
        except Refusal as refusal:
            return refusal
        except Exception as error:
            _log_without_text(error)
            return Refusal("XX000", "internal error in the proxy")

    def _request(
        self, job: Step | Publish, cancellation: Cancellation, stages: Stages, paid: ChargeTally
    ) -> QueryRequest:
        """What the engine is asked; raises Refusal."""
        identity = self._services.identity
        who = identity.analyst(self.analyst, job.settings[ROLE])
        oids, parameters = ((), ()) if isinstance(job, Publish) else (job.oids, job.parameters)
        return QueryRequest(
            job.text,
            oids,
            who,
            parameters,
            job.settings,
            cancellation,
            self._last_release_of(who),
            stages,
            (job.attributed if identity.is_service(self.analyst) else "") or self._tool,
            paid,
            self._services.watcher,
            job.planned if isinstance(job, Step) else None,
            login=self.analyst,
        )

    def _last_release_of(self, who: str) -> LastRelease:
        """The session's last release, which is forgotten once the session acts for another analyst."""
        if who != self._last_of:
            self._last, self._last_of = LastRelease(), who
        return self._last

    def _done(self, job: Job, stages: Stages, paid: ChargeTally, outcome: object) -> None:
        """What the front makes of an answer is a stage of its statement, too."""
        waited = self._running is not None and self._running.job is job
        if isinstance(job, Step) and waited and not isinstance(outcome, Refusal):
            stages.enter("present")
            self._presenting = stages
        else:
            stages.tell()
        self._finished(job, outcome)
        self._job_ended(job, stages, paid, outcome)

    def _presented(self) -> None:
        stages, self._presenting = self._presenting, None
        if stages is not None:
            stages.leave()
            stages.tell()

    def _finished(self, job: Job, outcome: object) -> None:
        if self._running is not None and self._running.job is job:
            self._running.stop()
            self._running = None
            if isinstance(job, Step):
                self._left = self._loop.time()
            self._at_once(lambda _: self._relay.finish(job, outcome), b"")

    def _interrupt(self, message: str) -> None:
        """Cancels the running job and answers for it at once; what a step has cost stays charged."""
        running = self._running
        if running is not None:
            self._cancel_quietly(running.cancellation)
            self._finished(running.job, Refusal("57014", message))

    def _cancel_quietly(self, cancellation: Cancellation, *, timed_out: bool = False) -> None:
        try:
            cancellation.cancel(timed_out=timed_out)
        except Exception as error:
            _log_without_text(error)

    # The end

    def _end(self, last_words: bytes = b"") -> None:
        """Closes both connections. Planning is cancelled; a paid step runs to its end and stays charged."""
        if self._closing:
            return
        self._closing = True
        self._services.watcher.session(-1)
        for timer in (self._clock, self._idle):
            if timer is not None:
                timer.cancel()
        if self._running is not None:
            self._running.stop()
            if not isinstance(self._running.job, Publish):
                self._cancel_quietly(self._running.planning)
            self._running = None
        self._presented()
        self._time.leave(self.analyst, self._turn)
        self._client.send(last_words)
        self._client.close()
        if not self._relay.quiet and not self._front.channel.closed.done():
            self._cancel_front()
        self._front.channel.send(m.message("X"))
        self._front.channel.close()
        self._ended(self)


def _log_without_text(error: Exception) -> None:
    """Logs the place of an error without its message, which may quote statements or data."""
    last = traceback.extract_tb(error.__traceback__)[-1:]
    where = f"{last[0].filename}:{last[0].lineno}" if last else "?"
    log.error("unexpected %s at %s", type(error).__name__, where)
