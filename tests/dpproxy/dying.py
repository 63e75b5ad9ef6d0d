"""Runs a dpproxy command that kills itself, as kill -9 would, when it reaches a point: dying.py POINT ARGUMENTS...

A point is before:NAME or after:NAME of one of the calls that a private query, or a command of the owner's, goes
through; at slow:NAME it lives, and takes 5 seconds longer.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

from budget import backup, schema
from budget.ledger import Ledger
from dpproxy.backends.duckdb.adapter import DuckDBBackend, DuckDBSlot
from dpproxy.config.highwater_file import MarkFile
from dpproxy.engine.executor import QueryEngine
from dpproxy.engine.release_plan import ReleasePlan
from dpproxy.owner import keys

CALLS: dict[str, tuple[type, str]] = {
    "execute": (QueryEngine, "execute"),
    "replay": (Ledger, "replay"),
    "open": (DuckDBBackend, "open"),
    "reserve": (Ledger, "reserve"),
    "fetch": (DuckDBSlot, "fetch"),
    "release": (ReleasePlan, "release"),
    "settle": (Ledger, "settle"),
}
POINTS = [f"{when}:{name}" for name in CALLS for when in ("before", "after")]
COMMANDS: dict[str, tuple[object, str]] = {
    "migrate": (schema, "apply"),
    "write a table": (backup, "_write"),
    "restore": (backup, "restore"),
    "charge": (Ledger, "_use_up"),
    "save keys": (keys, "save_keys"),
    "reseal": (MarkFile, "reseal"),
}
"""What the owner's commands call."""


def mortal(call: Callable[..., Any], when: str) -> Callable[..., Any]:
    def wrapped(*arguments: Any, **named: Any) -> Any:
        if when == "slow":
            time.sleep(5)
            return call(*arguments, **named)
        if when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        result = call(*arguments, **named)
        os.kill(os.getpid(), signal.SIGKILL)
        return result

    return wrapped


if __name__ == "__main__":
    when, name = sys.argv.pop(1).split(":")
    owner, method = {**CALLS, **COMMANDS}[name]
    setattr(owner, method, mortal(getattr(owner, method), when))
    from dpproxy.cli.app import app

    app()
