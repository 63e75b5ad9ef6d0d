"""Keeps a server process running: a killed one is replaced.

Why: docs/decisions/front-comes-back.md.
"""

from __future__ import annotations

import logging
import subprocess
import threading
from collections.abc import Callable

log = logging.getLogger("dpproxy.embedded.supervisor")

_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 10.0


class Supervisor:
    """Watches a process from a thread of its own and replaces it when it ends before `stop`.

    `replace`: starts another one and gives it once it serves; it may raise, and is tried again after a pause
    that doubles.
    """

    def __init__(
        self, process: subprocess.Popen[bytes], replace: Callable[[], subprocess.Popen[bytes]]
    ) -> None:
        self._process, self._replace = process, replace
        self._changing = threading.Lock()
        self._stopped = threading.Event()
        threading.Thread(target=self._watch, daemon=True, name=f"guard of {process.pid}").start()

    def stop(self) -> subprocess.Popen[bytes]:
        """Replaces nothing from now on; gives the process that is to be ended."""
        self._stopped.set()
        with self._changing:
            return self._process

    def _watch(self) -> None:
        pause = _FIRST_PAUSE
        while not self._stopped.is_set():
            self._process.wait()
            with self._changing:
                if self._stopped.is_set():
                    return
                log.error("a server ended by itself (status %s): starting it again", self._process.returncode)
                try:
                    self._process = self._replace()
                    pause = _FIRST_PAUSE
                    continue
                except Exception as error:
                    log.error("the server did not start again: %s", error)
            self._stopped.wait(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
