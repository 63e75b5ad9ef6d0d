"""Programs as forks of one process that has imported the proxy: they start without importing it again.

A `python` of its own takes a second or two of a processor to import the proxy, and the tests start hundreds. A fork has
its own arguments, folder, environment and standard streams, and ends as a `python` does. Its embedded PostgreSQL starts
on a copy of one cluster (tests/clusters.py).

Run as `python -m tests.preloaded SOCKET FOLDER`: each message of the socket is a program to fork.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import runpy
import select
import selectors
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import IO

from dpproxy.embedded import server
from tests import clusters

ROOT = Path(__file__).parent.parent
LIBRARIES = (
    "cryptography.hazmat.backends.openssl",
    "jinja2",
    "mpmath",
    "numpy.ma",
    "psycopg",
    "pydantic.type_adapter",
    "rich.table",
    "sqlglot.dialects.duckdb",
    "sqlglot.dialects.postgres",
    "starlette.applications",
    "structlog",
    "typer._adapters",
    "uvicorn",
)
"""What a fork would import when it first needs it, and what its garbage collector leaves alone: looking through all of
it takes a third of a second of each fork's end."""
MODULES = (
    "dpproxy.cli.app",
    "dpproxy.deployment.worker",
    "dpproxy.backends.duckdb.adapter",
    "dpproxy.backends.postgres.adapter",
)
LONGEST = 1 << 17
"""Bytes of a message."""


@dataclass
class Fork:
    """A process that is forked elsewhere, with what of `subprocess.Popen` the tests use."""

    told: IO[bytes]
    stdout: IO[str]
    pid: int = field(init=False)
    returncode: int | None = None

    def __post_init__(self) -> None:
        self.pid = int(self.told.readline())

    def wait(self, timeout: float | None = None) -> int:
        """The exit status; TimeoutExpired when it runs for longer than so many seconds."""
        if self.returncode is None:
            if not select.select([self.told], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
            self.returncode = int(self.told.readline())
            self.told.close()
        return self.returncode

    def poll(self) -> int | None:
        """The exit status, None while it runs."""
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def send_signal(self, number: int) -> None:
        """Sends a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)


def start(
    program: Sequence[str], *, folder: Path, entry: IO[str] | None = None, errors: IO[str] | None = None
) -> Fork:
    """Starts `python PROGRAM`, a module after -m or a file, in a folder.

    `entry`: its standard input; `errors`: where standard error goes.
    """
    read, write = os.pipe()
    told, tells = os.pipe()
    with open(os.devnull) as nothing:
        streams = ((entry or nothing).fileno(), write, (errors or sys.__stderr__ or nothing).fileno(), tells)
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        message = json.dumps([program, str(folder), environment]).encode()
        socket.send_fds(_forks(), [message], streams)
    os.close(write)
    os.close(tells)
    return Fork(os.fdopen(told, "rb", buffering=0), os.fdopen(read))


@cache
def _forks() -> socket.socket:
    """The socket of this process's forking one, which ends with it."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.preloaded", str(theirs.fileno()), str(clusters.folder())],
            cwd=ROOT,
            # OpenBLAS starts threads when it is imported, and a fork has but one.
            env={**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
        )
    atexit.register(process.wait)
    atexit.register(ours.close)
    return ours


def _next(requests: socket.socket) -> list[str] | None:
    """In a fork the arguments of its program; None when nobody can ask for another one."""
    running: dict[int, tuple[int, int]] = {}  # the process and where its end is told, by a descriptor of it
    with selectors.DefaultSelector() as selector:
        selector.register(requests, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fd in running:
                    selector.unregister(key.fd)
                    process, tells = running.pop(key.fd)
                    status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
                    _tell(tells, status)
                    os.close(tells)
                    os.close(key.fd)
                    continue
                message, streams, _, _ = socket.recv_fds(requests, LONGEST, 4)
                if not message:
                    return None
                process = os.fork()
                if process == 0:
                    requests.close()
                    for descriptor, (_, tells) in running.items():
                        os.close(descriptor)
                        os.close(tells)
                    return _become(message, streams)
                _tell(streams[3], process)
                for stream in streams[:3]:
                    os.close(stream)
                descriptor = os.pidfd_open(process)
                running[descriptor] = process, streams[3]
                selector.register(descriptor, selectors.EVENT_READ)


def _become(message: bytes, streams: Sequence[int]) -> list[str]:
    """Takes over the folder, the environment and the streams of a request; gives the arguments."""
    program, folder, environment = json.loads(message)
    for number, stream in enumerate(streams):
        if number < 3:
            os.dup2(stream, number)
        os.close(stream)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    return list(program)


def _tell(pipe: int, number: int) -> None:
    with suppress(BrokenPipeError):  # nobody waits for this process any more
        os.write(pipe, f"{number}\n".encode())


def _main(requests: socket.socket, folder: Path) -> None:
    for module in LIBRARIES:
        importlib.import_module(module)
    # DuckDB complains of objects of its own that are not collected.
    assert "_duckdb" not in sys.modules
    gc.freeze()
    for module in MODULES:
        importlib.import_module(module)
    assert len(os.listdir("/proc/self/task")) == 1, "a fork would lack the other threads"
    server._initialise = clusters.copying(folder)  # type: ignore[assignment]
    program = _next(requests)
    if program is None:
        return
    if program[0] == "-m":
        sys.argv = program[1:]
        runpy.run_module(program[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = list(program)
        runpy.run_path(program[0], run_name="__main__")


if __name__ == "__main__":
    _main(socket.socket(fileno=int(sys.argv[1])), Path(sys.argv[2]))
