"""How a serving process ends: when a signal asks for it, within its time, whatever its threads and its loop do."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from typing import NoReturn

from dpproxy.server.systemd import STOPPING, notify

log = logging.getLogger("dpproxy.server.shutdown")

LOOP_SECONDS = 10.0
"""How long the event loop may take to notice a signal."""
STOP_SECONDS = 20.0
"""How long everything may take to stop once the clients have gone, or that nothing waits for them any more."""
_THREADS_SECONDS = 1.0


@contextmanager
def ending(seconds: float, stop: Callable[[], None]) -> Iterator[asyncio.Event]:
    """Gives an event that SIGTERM and SIGINT set, and sees to it that the process then ends.

    `seconds`: how long after a signal the body may go on; `stop`: stops the servers that this process runs, on any
    thread. A body that goes on for longer, a loop that does not notice the signal, and a process that still runs
    STOP_SECONDS after the body are ended by force. Charges are then those in the ledger, as after any crash.
    """
    loop, asked = asyncio.get_running_loop(), asyncio.Event()
    heard, left = threading.Event(), threading.Event()
    # A signal handler may interrupt any line of the main thread: this is what it can call without a lock.
    signals: SimpleQueue[int] = SimpleQueue()

    def hear() -> None:
        notify(STOPPING)
        asked.set()
        heard.set()

    def watch() -> None:
        if not signals.get():
            return
        loop.call_soon_threadsafe(hear)
        if heard.wait(LOOP_SECONDS) and left.wait(seconds):
            time.sleep(STOP_SECONDS)
        log.error("what runs does not end: this process is ended by force")
        stopping = threading.Thread(target=stop, daemon=True, name="stop")
        stopping.start()
        stopping.join(STOP_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True, name="ending").start()
    before = {
        number: signal.signal(number, lambda number, _: signals.put(number))
        for number in (signal.SIGTERM, signal.SIGINT)
    }
    try:
        yield asked
    finally:
        left.set()
        # Once asked, it ends by itself: another signal must not kill it while it stops its servers.
        for number, handler in before.items() if not asked.is_set() else ():
            signal.signal(number, handler)
        signals.put(0)


def leave() -> NoReturn:
    """Ends the process, of which all servers are stopped.

    At once: threads may keep the interpreter from ending, and DuckDB's types complain of what it leaves behind.
    """
    # The interpreter takes its handlers away before it has ended: a second signal would kill it there.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    deadline = time.monotonic() + _THREADS_SECONDS
    others = [
        thread
        for thread in threading.enumerate()
        if thread is not threading.current_thread() and not thread.daemon
    ]
    for thread in others:
        thread.join(max(deadline - time.monotonic(), 0))
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
