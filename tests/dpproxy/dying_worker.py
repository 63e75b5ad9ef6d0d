"""Serves with workers that kill themselves, as kill -9 would, at a point that a file names.

Run as dying_worker.py FILE ARGUMENTS...; the file is gone when one has died of it.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dpproxy.cli.app import app
from dpproxy.deployment import worker, workers
from tests.dpproxy.dying import CALLS


def mortal(call: Callable[..., Any], name: str, file: Path) -> Callable[..., Any]:
    def die(when: str) -> None:
        if file.exists() and file.read_text() == f"{when}:{name}":
            file.unlink()
            os.kill(os.getpid(), signal.SIGKILL)

    def wrapped(*arguments: Any, **named: Any) -> Any:
        die("before")
        result = call(*arguments, **named)
        die("after")
        return result

    return wrapped


if __name__ == "__main__":
    file = Path(sys.argv.pop(1))
    if len(sys.argv) > 1:
        workers.PROGRAM = (sys.executable, __file__, str(file))
        app()
    else:
        for name, (owner, method) in CALLS.items():
            setattr(owner, method, mortal(getattr(owner, method), name, file))
        worker.main()
