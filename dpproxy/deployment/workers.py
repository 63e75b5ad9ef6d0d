"""`serve --workers N`: processes that share one port, one ledger and one front, and are replaced when they die."""

from __future__ import annotations

import asyncio
import os
import pickle
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from budget.account import Generation
from dpproxy.config.sections import Config
from dpproxy.deployment.control import control_path, controlled
from dpproxy.deployment.epoch_rollover import EpochLeader
from dpproxy.deployment.service import EXPECTED, Service, WorkerSlot
from dpproxy.server.listener import ServerError, drain_seconds
from dpproxy.server.session_limit import SessionLimit, empty_seats
from dpproxy.server.shutdown import STOP_SECONDS, ending
from dpproxy.telemetry import metrics
from dpproxy.telemetry.lateness import LATE_SECONDS, Late

PROGRAM: Sequence[str] = (sys.executable, "-m", "dpproxy.deployment.worker")
READY, BEAT, LATE, HOLDING = b"ready\n", b".", b"l", b"h"
"""What a worker says: that it listens, that its loop runs, that it runs but clients wait, that it holds the policy that
it was given."""
BEAT_SECONDS, _MOST_BEATS_MISSED = 1.0, 15
"""How often a worker says that its loop runs, and how long it may not do so. Beats are counted as missed one by one,
so that a machine that slept has not missed many."""
_START_SECONDS, _FOLLOW_SECONDS, _MOST_BYTES = 180.0, 60.0, 4096
_SOON, _LATEST = 1.0, 30.0
"""Seconds until a worker that could not start is tried again: doubled each time, up to the latest."""


@dataclass(frozen=True)
class Order:
    """The order to a worker: the configuration as the parent read it, its generation, its slot, its parent's process,
    and the descriptor of a socket that listens already, None where the worker opens the port."""

    config: Config
    generation: Generation
    place: WorkerSlot
    parent: int
    inherited: int | None


class Workers:
    """The processes of one `serve`. The parent owns ledger and front, and serves nobody itself."""

    def __init__(self, service: Service, count: int) -> None:
        """`count`: 1 to MOST_WORKERS."""
        self.service, self.count = service, count
        self._running: dict[int, asyncio.subprocess.Process] = {}
        self._stopping = asyncio.Event()
        self._folder: Path | None = None
        self._port = 0
        self._inherited: socket.socket | None = None
        self._places: Sequence[WorkerSlot] = ()
        self._changing = asyncio.Lock()
        """No worker starts while the policy changes."""
        self._held: dict[int, asyncio.Event] = {}
        """By worker, whether it holds the policy it was last given."""
        self._late = set[int]()
        """The workers whose clients wait."""

    def check(self) -> None:
        """Raises Late where clients of a worker are not served."""
        if self._late:
            raise Late

    def metrics(self) -> bytes:
        """What all workers have counted, in Prometheus' text format; nothing while none runs."""
        return b"" if self._folder is None else metrics.page_of_all(self._folder)

    async def serve(
        self,
        ready: Callable[[str, int], None],
        reread: Callable[[], Config],
        inherited: socket.socket | None = None,
    ) -> None:
        """Serves until SIGTERM or SIGINT, then lets every worker drain; `ready` gets host and port, `reread` reads the
        file again; `inherited`: a socket that listens already.

        Raises ServerError where the port is taken or a worker cannot start.
        """
        section = self.service.config.server
        # A worker has this time, and is then ended by itself or for its silence.
        seconds = drain_seconds(section.statement_timeout.total_seconds()) + 3 * STOP_SECONDS
        with ExitStack() as stack:
            self._stopping = stack.enter_context(ending(seconds, self.service.stop))
            self._inherited = inherited
            port = (
                section.port if inherited else stack.enter_context(reserved_port(section.host, section.port))
            )
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dpproxy-")))
            SessionLimit.make(folder / "seats", section.max_sessions)
            self._folder = folder / "metrics"
            self._folder.mkdir()
            turner = EpochLeader(folder, self.service.turn)
            await turner.listen()
            stack.callback(turner.close)
            self._port = port

            async def reload() -> None:
                async with self._changing:
                    await self._reload(reread())

            control = control_path(self.service.config)
            words = self.service.words(reload)
            async with self.service.recovering(), controlled(control, words, EXPECTED):
                self._places = [WorkerSlot(n, folder) for n in range(self.count)]
                await self._serve(ready)

    async def _serve(self, ready: Callable[[str, int], None]) -> None:
        keepers: list[asyncio.Task[None]] = []
        try:
            async with self._changing:
                first = await asyncio.gather(*map(self._start, self._places))
            if not self._stopping.is_set():
                ready(self.service.config.server.host, self._port)
            keepers += [
                asyncio.create_task(self._keep(*pair)) for pair in zip(self._places, first, strict=True)
            ]
            await self._stopping.wait()
        finally:
            self._stopping.set()
            for process in self._running.values():
                if process.returncode is None:
                    process.terminate()
            await asyncio.gather(*(process.wait() for process in self._running.values()))
            await asyncio.gather(*keepers)

    async def _reload(self, config: Config) -> None:
        """Goes over to a policy with all workers; one that does not follow in time is ended, and so replaced."""
        loop = asyncio.get_running_loop()

        def spread() -> None:
            asyncio.run_coroutine_threadsafe(self._spread(), loop).result()

        await asyncio.to_thread(self.service.reload, config, spread)

    async def _spread(self) -> None:
        self._held = {
            number: asyncio.Event() for number, one in self._running.items() if one.returncode is None
        }
        for number in self._held:
            self._tell(self._running[number], self._places[number])
        try:
            async with asyncio.timeout(_FOLLOW_SECONDS):
                await asyncio.gather(*(held.wait() for held in self._held.values()))
        except TimeoutError:
            for number, held in self._held.items():
                if not held.is_set():
                    _say(f"worker {number} does not follow and is ended")
                    self._running[number].kill()
                    await self._running[number].wait()

    def _tell(self, process: asyncio.subprocess.Process, place: WorkerSlot) -> None:
        """Gives a worker the present policy."""
        config = self.service.config
        config = config.model_copy(update={"server": config.server.model_copy(update={"port": self._port})})
        inherited = None if self._inherited is None else self._inherited.fileno()
        order = Order(config, self.service.generation, place, os.getpid(), inherited)
        assert process.stdin is not None
        process.stdin.write(pickle.dumps(order).hex().encode() + b"\n")

    async def _start(self, place: WorkerSlot) -> asyncio.subprocess.Process:
        """Starts a worker and waits until it listens; raises ServerError with the worker's error."""
        pipe = asyncio.subprocess.PIPE
        assert self._folder is not None
        process = await asyncio.create_subprocess_exec(
            *PROGRAM,
            stdin=pipe,
            stdout=pipe,
            env=metrics.environment(self._folder),
            pass_fds=() if self._inherited is None else (self._inherited.fileno(),),
        )
        self._running[place.number] = process
        if self._stopping.is_set():
            process.terminate()
        assert process.stdout is not None
        self._tell(process, place)
        said = b"it takes too long"
        try:
            async with asyncio.timeout(_START_SECONDS):
                said = await process.stdout.readline()
        except TimeoutError:
            process.kill()
        if said != READY and not self._stopping.is_set():
            status = await process.wait()
            reason = said.decode(errors="replace").strip() or f"status {status}"
            raise ServerError(f"worker {place.number} cannot start: {reason}")
        return process

    async def _keep(self, place: WorkerSlot, process: asyncio.subprocess.Process) -> None:
        """Waits for a worker's death, and has another take its place, name and reservations."""
        pause = _SOON
        while True:
            status = await self._ended(place, process)
            self._late.add(place.number)
            if place.number in self._held:
                # What has ended buys nothing; another gets the present policy.
                self._held[place.number].set()
            if self._stopping.is_set():
                return
            empty_seats(place.folder / "seats", place.number)
            metrics.forget_gauges(place.folder / "metrics", process.pid)
            _say(f"worker {place.number} ended (status {status}), another takes its place")
            while True:
                try:
                    async with self._changing:
                        process = await self._start(place)
                    self._late.discard(place.number)
                    pause = _SOON
                    break
                except ServerError as error:
                    _say(str(error))
                if await self._stopped_within(pause):
                    return
                pause = min(2 * pause, _LATEST)

    async def _ended(self, place: WorkerSlot, process: asyncio.subprocess.Process) -> int:
        """Waits for a worker's end and gives its status. A worker whose loop does not run is killed."""
        assert process.stdout is not None
        missed = 0
        while True:
            try:
                async with asyncio.timeout(BEAT_SECONDS):
                    said = await process.stdout.read(_MOST_BYTES)
                if not said:
                    return await process.wait()
                if HOLDING in said:
                    self._held[place.number].set()
                if BEAT in said:
                    self._late.discard(place.number)
                if LATE in said:
                    self._late.add(place.number)
                missed = 0
            except TimeoutError:
                missed += 1
                if missed * BEAT_SECONDS > LATE_SECONDS:
                    self._late.add(place.number)
                if missed == _MOST_BEATS_MISSED:
                    _say(f"worker {place.number} does not answer and is ended")
                    process.kill()

    async def _stopped_within(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                return await self._stopping.wait()
        except TimeoutError:
            return False


@contextmanager
def reserved_port(host: str, port: int) -> Iterator[int]:
    """Holds a port that nobody else listens on for processes of ours to share; raises ServerError.

    `port`: 0 for any. The sockets are bound like one that shares with nobody, so that a port in use is an
    error, and only then opened to others of this user; they never listen.
    """
    with ExitStack() as stack:
        try:
            for family, _, _, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
                bound = stack.enter_context(socket.socket(family, socket.SOCK_STREAM))
                bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                bound.bind((address[0], port, *address[2:]))
                port = bound.getsockname()[1]
                bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        except OSError as error:
            raise ServerError(f"cannot listen on {host}:{port}: {error.strerror}") from None
        yield port


def _say(line: str) -> None:
    print(f"dpproxy: {line}", file=sys.stderr, flush=True)
