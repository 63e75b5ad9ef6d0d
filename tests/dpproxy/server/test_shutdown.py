"""A process that was asked to end does so, whatever its loop and its threads do."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.service

_PROGRAM = """
import asyncio, signal, sys, threading, time
import uvloop
from dpproxy.server import shutdown

shutdown.LOOP_SECONDS = shutdown.STOP_SECONDS = 0.5
shutdown._THREADS_SECONDS = 0.1

def endless():
    while True:
        time.sleep(0.01)

def say(word):
    print(word, flush=True)

async def main(what):
    with shutdown.ending(0.5, lambda: say("servers stopped")) as asked:
        say("ready")
        if what == "loop":
            while True:
                pass
        await asked.wait()
        if what == "body":
            await asyncio.sleep(1000)
        if what == "default executor":
            asyncio.get_running_loop().run_in_executor(None, endless)
        if what == "thread":
            threading.Thread(target=endless).start()
        say("drained")

uvloop.run(main(sys.argv[1]))
if sys.argv[1] == "stop":
    endless()
shutdown.leave()
"""
FORCED = ["ready", "servers stopped"]


@pytest.mark.parametrize(
    ("what", "status", "said", "number"),
    [
        ("nothing", 0, ["ready", "drained"], signal.SIGTERM),
        ("nothing", 0, ["ready", "drained"], signal.SIGINT),
        ("thread", 0, ["ready", "drained"], signal.SIGTERM),
        ("loop", 1, FORCED, signal.SIGTERM),
        ("body", 1, FORCED, signal.SIGINT),
        ("default executor", 1, ["ready", "drained", "servers stopped"], signal.SIGTERM),
        ("stop", 1, ["ready", "drained", "servers stopped"], signal.SIGTERM),
    ],
)
def test_a_signal_ends_it(what: str, status: int, said: list[str], number: signal.Signals) -> None:
    command = [sys.executable, "-c", _PROGRAM, what]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True) as process:
        try:
            assert process.stdout is not None
            heard = [process.stdout.readline().strip()]
            process.send_signal(number)
            process.send_signal(number)
            assert process.wait(30) == status
            assert heard + process.stdout.read().split("\n")[:-1] == said
        finally:
            process.kill()
