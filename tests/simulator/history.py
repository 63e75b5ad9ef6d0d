"""One history: a deployment of two workers, its analysts, its owner and what goes wrong, by a seed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from budget.account import Generation, LedgerError, LedgerOlder, LimitTooLow, Reservation, Settled, Settlement
from budget.ledger import Ledger
from budget.statements import MOST_FAILURES
from dpproxy.backends.base import Cancellation
from dpproxy.config.highwater_file import MarkFile
from dpproxy.config.sections import ConfigError
from dpproxy.engine.executor import QueryEngine
from dpproxy.engine.request import QueryRequest
from dpproxy.engine.rollback_guard import MarkError, RollbackGuardedLedger
from rewriter.refusal import Refusal
from tests.simulator.checks import KEY, Ask, Checks, Got
from tests.simulator.parts import ANALYSTS, PINNED, SERVICE, STATEMENTS, Parts, SimulatedBackend
from tests.simulator.server import served
from tests.simulator.tables import State
from tests.simulator.world import NONE, Actor, Faults, Process, Reached, Violation, World, simulated, world

WORKERS = 2
DEPLOYMENT = "here"


def _ask() -> Ask | None:
    """The execution that runs."""
    actor = world().current
    return None if actor is None or not isinstance(actor.notes, Ask) else actor.notes


class Guarded(RollbackGuardedLedger):
    """The product's, which notes what it gives to whom."""

    checks: Checks

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.given: dict[tuple[str, bytes], bytes] = {}

    def settle(self, reservation: Reservation, settlement: Settlement) -> Settled:
        """As the product's."""
        settled = super().settle(reservation, settlement)
        ask = _ask()
        if ask is not None:
            self.checks.settled(ask, reservation.account, reservation.id, settlement, settled)
        return settled

    def replay(self, account: str, request_key: bytes, attributed: str = "") -> bytes | None:
        """As the product's."""
        answer = super().replay(account, request_key, attributed)
        ask = _ask()
        if ask is not None and answer is not None:
            ask.got.append(Got(account, request_key, answer))
            self.given[account, request_key] = answer
        return answer

    def again(self, account: str, request_key: bytes, attributed: str = "") -> bool:
        """As the product's."""
        found, ask = super().again(account, request_key, attributed), _ask()
        if ask is not None and found:
            ask.got.append(Got(account, request_key, self.given[account, request_key]))
            world().reached.ends["repeated at once"] += 1
        return found


class Engine(QueryEngine):
    """The product's, which notes what it shows."""

    def _released(self, request: QueryRequest, *rest: Any) -> Any:
        columns, results = super()._released(request, *rest)
        ask = _ask()
        if ask is not None:
            ask.results, ask.epoch = results, rest[-1]
        return columns, results


@dataclass
class Worker:
    """A worker's place: its process, and what it runs if it is up."""

    number: int
    process: Process
    state: str = "down"
    engine: Engine | None = None
    ledger: Guarded | None = None
    boot: Actor | None = None


class History:
    """One history. `run` raises what it finds."""

    def __init__(self, seed: int, parts: Parts, reached: Reached, faults: Faults | None = None) -> None:
        self.seed, self._parts = seed, parts
        parts.planner.forget()  # so that a history is the same after any other
        self.world = World(seed, NONE, reached)
        random = self._random = self.world.random
        self._faults = faults or _faults(random)
        self._backend = SimulatedBackend(parts, self.world)
        self._conninfo = served(self.world.server, "history")
        self.checks = Checks(self.world, parts.keys.present)
        self._outside = Process("outside", mortal=False)
        self.workers = [Worker(n, Process(f"w{n}")) for n in range(WORKERS)]
        self._clients = self._closing = 0
        self._truth: State | None = None
        """What the ledger had before an older copy took its place."""
        self._statements = random.sample(STATEMENTS, random.randrange(2, 6))

    def run(self) -> None:
        """Runs it to its end."""
        one, random = self.world, self._random
        few = {"failed": random.choice((1, 1, 3)), "stopped": random.choice((1, 3))}
        with simulated(one), limited(few):
            one.spawn("supervisor", self._outside, self._supervise)
            for number in range(random.randrange(2, 5)):
                self._clients += 1
                analyst = random.choice(ANALYSTS)
                one.spawn(f"client {number}", self._outside, lambda a=analyst: self._client(a))  # type: ignore[misc]
            owner = one.spawn("owner", self._outside, self._owner)
            one.spawn("end", self._outside, lambda: self._end(owner))
            one.run()

    # The deployment

    def _supervise(self) -> None:
        """The parent: starts workers, the first one alone, and again where they die."""
        for worker in self.workers:
            self._start(worker)
            while worker.state == "down" and not self._closing:
                self.world.sleep(0.3)
                if not worker.process.alive or (worker.boot is not None and worker.boot.done):
                    self._start(worker)
            if self._closing:
                return
            self.world.faults = self._faults
        while not self._closing:
            self.world.sleep(0.5)
            for worker in self.workers:
                ended = worker.boot is None or worker.boot.done
                if not worker.process.alive or (worker.state != "up" and ended):
                    self._start(worker)

    def _start(self, worker: Worker) -> None:
        if worker.state == "up" and worker.process.alive:
            return
        if not worker.process.alive:
            worker.process = Process(worker.process.name)
        worker.state = "down"
        worker.boot = self.world.spawn(f"boot {worker.number}", worker.process, lambda: self._boot(worker))

    def _boot(self, worker: Worker) -> None:
        """What a process does before it serves: the product's own steps."""
        worker.engine = worker.ledger = None
        try:
            ledger = Ledger.open(self._conninfo, PINNED, instance=f"w{worker.number}", connections=3)
            guarded = Guarded(ledger, MarkFile(KEY, *self._parts.keys.all))
            guarded.checks = self.checks
            guarded.origins.keep_to("the data")
            generation = ledger.generations.bought_under(DEPLOYMENT) or ledger.generations.begin(DEPLOYMENT)
            worker.engine = self._engine(guarded, generation)
        except (MarkError, LedgerOlder):
            worker.state = "refused"
        except (LedgerError, OSError, ConfigError):
            return
        else:
            worker.ledger, worker.state = guarded, "up"

    def _engine(self, ledger: Guarded, generation: Generation) -> Engine:
        parts = self._parts
        backend: Any = self._backend
        return Engine(
            parts.config, parts.planner, backend, ledger, parts.keys, lambda epoch: None, generation
        )

    def _up(self) -> Worker | None:
        up = [w for w in self.workers if w.state == "up" and w.process.alive]
        return self._random.choice(up) if up else None

    # Who is around

    def _client(self, analyst: str) -> None:
        """Sends statements, each again until it is answered, or a few times."""
        random, one = self._random, self.world
        login = random.choice((analyst, analyst, SERVICE))
        for _ in range(random.randrange(2, 6)):
            text, settings = random.choice(self._statements)
            for _ in range(3):
                worker = self._up()
                if worker is None:
                    one.sleep(1.0)
                    continue
                chain = [link.account for link in self._parts.config.budget.chain(analyst)]
                ask, box = Ask(analyst, chain, text, settings, login), list[str]()
                cancellation = Cancellation()
                job = one.spawn(
                    f"{analyst} at w{worker.number}",
                    worker.process,
                    self._job(worker, ask, cancellation, box),
                )
                job.notes = ask
                patience = random.choice((float("inf"),) * 5 + (0.05, 0.3))
                if not one.wait(lambda job=job: job.done, patience):  # type: ignore[misc]
                    cancellation.cancel(timed_out=random.random() < 0.3)
                    one.wait(lambda job=job: job.done)  # type: ignore[misc]
                one.reached.ends[box[0] if box else "the process died"] += 1
                if box and box[0] == "answered" and random.random() < 0.8:
                    break
            one.sleep(random.random())
        self._clients -= 1

    def _job(
        self, worker: Worker, ask: Ask, cancellation: Cancellation, box: list[str]
    ) -> Callable[[], None]:
        def execute() -> None:
            self.world.pause("session: a statement arrives")
            engine = worker.engine
            assert engine is not None
            try:
                request = QueryRequest(
                    ask.text, (), ask.analyst, (), ask.settings, cancellation, login=ask.login
                )
                result = engine.again(request) or engine.execute(request)
            except Refusal as refusal:
                if refusal.code == "PV090":
                    self.checks.failed(ask)
                box.append(refusal.code)
                return
            self.checks.leaves(ask, result)
            box.append("answered")

        return execute

    def _owner(self) -> None:
        """Clocks jump, data and policies change, accounts are frozen, copies are made and put in place."""
        random, one = self._random, self.world
        backup = one.server.disk.copy()
        self._backend.failing = random.choice((0.0, 0.0, 0.05, 0.5))
        jumps, self._restores = random.random() < 0.4, random.random() < 0.5
        for _ in range(random.randrange(1, 7)):
            one.sleep(random.random() * 4)
            match random.randrange(10):
                case 0 | 1 if jumps:
                    by = timedelta(hours=random.choice((1, 25, 200, -1, -30)))
                    if random.random() < 0.5:
                        one.ledger_ahead += by
                    else:
                        one.host_ahead += by
                case 2:
                    self._backend.version = 1 - self._backend.version
                case 3 | 4:
                    works = (self._freeze, self._limit, self._recover, self._reload, self._clear)
                    self._at(random.choice(works))
                case 5 | 6:
                    backup = one.server.disk.copy()
                case 7 if self._restores and self._truth is None:
                    one.reached.ends["an older copy was put in place"] += 1
                    self._truth, self._place = one.server.disk.copy(), one.server.position
                    one.lost_ledgers += 1
                    one.server.restore(backup)
                case 8 if self._truth is not None:
                    self._put_back()
                case 9 if random.random() < 0.3 and self._faults.crash:
                    self._at(lambda worker: one.kill(worker.process, "a process by a signal"))

    def _put_back(self) -> None:
        """The owner puts the right ledger back, where nothing was done with the copy."""
        if self._truth is not None and self.world.server.position == self._place:
            self.world.server.restore(self._truth)
            self._truth = None

    def _at(self, work: Callable[[Worker], None]) -> None:
        """Has a worker do something for the owner."""
        worker = self._up()
        if worker is None:
            return

        def run() -> None:
            try:
                work(worker)
            except (LedgerError, LimitTooLow):
                self.world.reached.ends["the owner was refused"] += 1

        job = self.world.spawn("owner's", worker.process, run)
        self.world.wait(lambda: job.done)

    def _freeze(self, worker: Worker) -> None:
        assert worker.ledger is not None
        account = self._random.choice(("analyst:ann", "team:a", "dataset"))
        worker.ledger.accounts.freeze(account)
        self.world.sleep(0.5)
        worker.ledger.accounts.unfreeze(account)

    def _limit(self, worker: Worker) -> None:
        assert worker.ledger is not None
        name = self._random.choice(("analyst:ann", "team:a", "dataset"))
        limit = worker.ledger.accounts.limit(name)
        information = limit.information * self._random.choice((1, 3)) // 2
        period = self._random.choice(("day", "week", "month", "none"))
        changed = type(limit)(information, limit.calls, period)  # type: ignore[arg-type]
        worker.ledger.accounts.set_limit(name, changed)

    def _recover(self, worker: Worker) -> None:
        assert worker.ledger is not None
        worker.ledger.recover()

    def _clear(self, worker: Worker) -> None:
        assert worker.ledger is not None
        name = self._random.choice((None, "analyst:ann", f"analyst:{SERVICE}"))
        worker.ledger.failures.clear(name, "the owner")

    def _reload(self, worker: Worker) -> None:
        """Another generation of the same policy, as `Service.reload` goes over to it."""
        assert worker.ledger is not None
        generations = worker.ledger.generations
        now = generations.bought_under(DEPLOYMENT)
        if now is not None:
            following = Generation(DEPLOYMENT, now.number + 1)
            generations.suspend(following)
            for other in self.workers:
                if other.ledger is not None:
                    other.engine = self._engine(other.ledger, following)
            generations.resume(following)

    def _end(self, owner: Actor) -> None:
        """When all clients have gone: nothing fails any more, everything starts anew, and the last checks are made."""
        one = self.world
        one.wait(lambda: not self._clients and owner.done)
        self._closing = 1
        one.faults = NONE
        self._put_back()
        for worker in self.workers:
            worker.state = "down"
            one.kill(worker.process, "the end")
        one.server.crash()
        one.ledger_ahead += timedelta(hours=2)
        last = Worker(0, Process("w0", mortal=False))
        self._start(last)
        one.wait(lambda: last.boot is not None and last.boot.done)
        if last.state != "up" or last.ledger is None:
            if not one.lost_ledgers:
                raise Violation(f"the deployment does not start again: {last.state}")
            one.reached.ends["an older copy was refused to the end"] += 1
            return
        ledger = last.ledger
        ledger.recover("w0", "w1")
        self.checks.end(ledger)


@contextmanager
def limited(few: Mapping[str, int]) -> Iterator[None]:
    """Within the context so few failures stop somebody: histories are short."""
    usual = dict(MOST_FAILURES)
    MOST_FAILURES.update(few)
    try:
        yield
    finally:
        MOST_FAILURES.update(usual)


def _faults(random: Any) -> Faults:
    """A history has some kinds of failures, and is without others."""

    def rate(*rates: float) -> float:
        return float(random.choice((0.0, *rates)))

    return Faults(
        crash=rate(0.002, 0.01, 0.04),
        cut=rate(0.003, 0.02),
        ledger=rate(0.001, 0.006),
        host=rate(0.001, 0.003),
        disk=rate(0.02),
        race=rate(0.5),
    )
