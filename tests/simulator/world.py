"""The simulated world: who runs next, what time it is, what fails, all by a seed.

Product code runs in greenlets. At an await (a round trip to the ledger, the disk, the backend, a wait for another
thread) it gives way to the world, which lets any other go on, moves the clock, cuts the network, or has a process die.
"""

from __future__ import annotations

import errno
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from random import Random
from types import SimpleNamespace, TracebackType
from typing import Any, Self
from uuid import UUID

from greenlet import greenlet

from budget import ledger, single_flight, store
from dpproxy.config import highwater_file
from dpproxy.engine import brake, epochs, release_plan, replay_notes, rollback_guard
from mechanisms import randomness
from tests.simulator.disk import Disk
from tests.simulator.server import Server, Surroundings
from tests.simulator.tables import State, Transaction

BEGINS = datetime(2026, 3, 1, 22, 0, tzinfo=UTC)
MOST_STEPS = 20_000
"""Of a history: one that has more hangs."""


class Crashed(BaseException):
    """The process has died: what it still runs does nothing any more."""


class Violation(AssertionError):
    """Something happened that must not."""


@dataclass(frozen=True)
class Faults:
    """How often things fail, by await."""

    crash: float = 0.0
    cut: float = 0.0
    ledger: float = 0.0
    host: float = 0.0
    disk: float = 0.0
    race: float = 0.0


NONE = Faults()


@dataclass(eq=False)
class Process:
    """A process of the proxy, or somebody outside of it who does not die."""

    name: str
    mortal: bool = True
    alive: bool = True


@dataclass(eq=False)
class Actor:
    """A thread of a process."""

    name: str
    process: Process
    run: greenlet
    until: Callable[[], bool] | None = None
    deadline: float = float("inf")
    done: bool = False
    point: str = ""
    notes: Any = None
    """What the checks keep with it."""

    def ready(self, now: float) -> bool:
        """Whether it can go on."""
        return not self.process.alive or self.until is None or self.until() or self.deadline <= now


@dataclass
class Reached:
    """What histories have come to, over all of them."""

    awaits: Counter[str] = field(default_factory=Counter)
    crashes: Counter[str] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)


class World(Surroundings):
    """One history's world.

    Attributes:
        random: decides everything.
        server: the ledger's.
        disk: of the host on which the proxy's processes run.
        time: seconds since the beginning; clocks of the host and of the ledger's server are ahead of it.
    """

    def __init__(self, seed: int, faults: Faults, reached: Reached) -> None:
        self.random, self.faults, self.reached = Random(seed), faults, reached
        self.time, self.host_ahead, self.ledger_ahead = 0.0, timedelta(), timedelta()
        self.disk, self.server = Disk(self), Server(self)
        self.actors: list[Actor] = []
        self.current: Actor | None = None
        self.steps = 0
        self.crashed_host = 0
        self.lost_ledgers = 0
        self._trace = sha256()
        self._hub = greenlet.getcurrent()
        self.on_draw: Callable[[bytes, bytes], None] = lambda release_key, reservation: None
        self.on_commit: Callable[[State, Transaction], None] = lambda state, transaction: None

    # Who runs

    def spawn(self, name: str, process: Process, work: Callable[[], None]) -> Actor:
        """Starts a thread of a process."""

        def run() -> None:
            try:
                work()
            except Crashed:
                pass
            finally:
                actor.done = True

        actor = Actor(name, process, greenlet(run, self._hub))
        self.actors.append(actor)
        return actor

    def run(self) -> None:
        """Runs until all threads have ended; raises what they raise."""
        while self.actors:
            ready = [actor for actor in self.actors if actor.ready(self.time)]
            if not ready:
                self.time = min(actor.deadline for actor in self.actors)
                if self.time == float("inf"):
                    raise Violation(f"nothing goes on: {[(a.name, a.point) for a in self.actors]}")
                continue
            self.steps += 1
            if self.steps > MOST_STEPS:
                raise Violation(f"too many steps: {[(a.name, a.point) for a in self.actors]}")
            actor = ready[self.random.randrange(len(ready))]
            self.time += self.random.random() * 0.02
            self._fail(actor)
            self._trace.update(f"{actor.name} {actor.point};".encode())
            self.current = actor
            actor.run.switch()
            self.current = None
            if actor.done:
                self.actors.remove(actor)

    def _fail(self, actor: Actor) -> None:
        """Has something die before an await ends."""
        faults, drawn = self.faults, self.random.random()
        if (
            not actor.process.mortal
            or not actor.process.alive
            or drawn >= faults.crash + faults.ledger + faults.host
        ):
            return
        if drawn < faults.crash:
            self.kill(actor.process, f"a process at {actor.point}")
        elif drawn < faults.crash + faults.ledger:
            self.reached.crashes[f"the ledger at {actor.point}"] += 1
            self.server.crash()
        else:
            self.reached.crashes[f"the host at {actor.point}"] += 1
            self.crash_host()

    def kill(self, process: Process, how: str) -> None:
        """Ends a process; its threads run nothing more, its locks and connections end."""
        self.reached.crashes[how] += 1
        process.alive = False
        self.server.disconnect(process)
        self.disk.unlock(process)

    def crash_host(self) -> None:
        """All processes die, and what was not flushed may be lost."""
        self.crashed_host += 1
        for process in {a.process.name: a.process for a in self.actors if a.process.mortal}.values():
            self.kill(process, "a process with its host")
        self.disk.crash()

    @property
    def trace(self) -> str:
        """What has happened so far, as a digest."""
        return self._trace.hexdigest()[:16]

    @property
    def process(self) -> Process:
        """Whose code runs."""
        assert self.current is not None
        return self.current.process

    # Surroundings

    def now(self) -> datetime:
        """The clock of the ledger's server."""
        return BEGINS + timedelta(seconds=self.time) + self.ledger_ahead

    def host_now(self) -> datetime:
        """The clock of the host."""
        return BEGINS + timedelta(seconds=self.time) + self.host_ahead

    def uuid(self) -> UUID:
        """A uuid that nobody has had."""
        return UUID(int=self.random.getrandbits(128))

    def pause(self, point: str) -> None:
        """An await."""
        actor = self._live()
        self.reached.awaits[point] += 1
        actor.point = point
        self._hub.switch()
        self._live()

    def pause_server(self, point: str) -> None:
        """An await of the server."""
        actor = self.current
        if actor is None:
            return
        self.reached.awaits[point] += 1
        actor.point = point
        self._hub.switch()

    def wait(self, until: Callable[[], bool], seconds: float = float("inf")) -> bool:
        """Waits until something holds, so many seconds at most; whether it holds."""
        actor = self._live()
        if until():
            return True
        actor.until, actor.deadline, actor.point = until, self.time + seconds, f"{actor.point}, waiting"
        self._hub.switch()
        actor.until, actor.deadline = None, float("inf")
        self._live()
        return until()

    def sleep(self, seconds: float) -> None:
        """Waits."""
        self.wait(lambda: False, seconds)

    def _live(self) -> Actor:
        actor = self.current
        assert actor is not None, "only threads of the world wait"
        if not actor.process.alive:
            raise Crashed
        return actor

    def cut(self, point: str) -> bool:
        """Whether the network is cut."""
        return self.faults.cut > 0 and self.random.random() < self.faults.cut

    def races(self) -> bool:
        """Whether a snapshot was too early."""
        return self.random.random() < self.faults.race

    def owner(self) -> object:
        """The process that connects."""
        return self.process

    def committed(self, state: State, transaction: Transaction) -> None:
        """Tells the checks."""
        self.on_commit(state, transaction)

    def fail_disk(self) -> None:
        """Raises OSError where the disk fails."""
        if self.faults.disk and self.random.random() < self.faults.disk:
            raise OSError(errno.EIO, "the disk has failed")


_worlds: list[World] = []


def world() -> World:
    """The world that is simulated."""
    return _worlds[-1]


# What product code finds in place of the library's


class Lock:
    """A lock between the threads of a world."""

    def __init__(self) -> None:
        self.held = False

    def acquire(self) -> None:
        """Waits for it."""
        while self.held:
            world().wait(lambda: not self.held)
        self.held = True

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self.held = False


class Condition(Lock):
    """A condition, whose waiters look for themselves."""

    def wait_for(self, until: Callable[[], bool], seconds: float) -> bool:
        """Waits without the lock."""
        self.held = False
        there = world().wait(lambda: not self.held and until(), seconds)
        self.acquire()
        return there

    def notify_all(self) -> None:
        """Nobody has to be told."""


class Semaphore:
    """Places that are taken and given back."""

    def __init__(self, places: int) -> None:
        self.places = places

    def acquire(self, timeout: float = float("inf")) -> bool:
        """Waits for one; whether there was one."""
        if self.places or world().wait(lambda: self.places > 0, timeout):
            self.places -= 1
            return True
        return False

    def release(self) -> None:
        """Gives it back."""
        self.places += 1


class Future:
    """The result of another thread."""

    def __init__(self) -> None:
        self.done = False
        self.value: Any = None
        self.error: Exception | None = None

    def result(self) -> Any:
        """Waits for it."""
        world().wait(lambda: self.done)
        if self.error is not None:
            raise self.error
        return self.value


class Executor:
    """One thread that works off what it is given."""

    def __init__(self, workers: int, name: str) -> None:
        self._work: deque[tuple[Callable[[], Any], Future]] = deque()
        self._busy, self._name = False, name

    def submit(self, work: Callable[[], Any]) -> Future:
        """Has it work off one thing more."""
        future = Future()
        self._work.append((work, future))
        if not self._busy:
            self._busy = True
            world().spawn(self._name, world().process, self._run)
        return future

    def _run(self) -> None:
        while self._work:
            work, future = self._work.popleft()
            try:
                future.value = work()
            except Exception as error:
                future.error = error
            future.done = True
        self._busy = False

    def shutdown(self) -> None:
        """Waits until all is done."""
        world().wait(lambda: not self._busy)


class Clock(datetime):
    """`datetime` whose now is the host's."""

    @classmethod
    def now(cls, tz: Any = None) -> Any:
        """The host's clock."""
        return world().host_now()


def _monotonic() -> float:
    return world().time


def _seed(key: bytes, release_key: bytes, reservation: bytes) -> randomness.Stream:
    world().on_draw(release_key, reservation)
    return randomness.seed(key, release_key, reservation)


REPLACED: tuple[tuple[Any, str, Any], ...] = (
    (ledger, "Lock", Lock),
    (store, "Semaphore", Semaphore),
    (single_flight, "Condition", Condition),
    (single_flight, "monotonic", _monotonic),
    (replay_notes, "Lock", Lock),
    (replay_notes, "ThreadPoolExecutor", Executor),
    (replay_notes, "sleep", lambda seconds: world().sleep(seconds)),
    (rollback_guard, "Lock", Lock),
    (rollback_guard, "ThreadPoolExecutor", Executor),
    (epochs, "Lock", Lock),
    (epochs, "datetime", Clock),
    (release_plan, "randomness", SimpleNamespace(seed=_seed)),
    (brake, "time", SimpleNamespace(monotonic=_monotonic)),
)


@contextmanager
def simulated(one: World) -> Iterator[None]:
    """Within the context, product code waits, and looks at clocks and disks, in this world."""
    replaced = [*REPLACED, (highwater_file, "os", one.disk), (highwater_file, "fcntl", one.disk)]
    before = [(module, name, getattr(module, name)) for module, name, _ in replaced]
    _worlds.append(one)
    try:
        for module, name, new in replaced:
            setattr(module, name, new)
        yield
    finally:
        for module, name, old in before:
            setattr(module, name, old)
        _worlds.pop()
