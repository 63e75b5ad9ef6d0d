"""What came of each action of a program, written to a file: what its own Python runs needs nothing of ours."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from importlib.metadata import version
from typing import Any
from urllib.parse import urlsplit

URL = sys.argv[1] if len(sys.argv) == 3 else "postgresql://ann:red-pencil@127.0.0.1:6432/dpproxy"
"""Where the proxy listens, with user and password: the first argument. The second is the file."""
PORT = urlsplit(URL).port
USERS, COUNTRIES = 4000, {"DE", "FR", "IN", "US"}
_ACTIONS: list[tuple[str, Callable[[], object]]] = []


def action(name: str) -> Callable[[Callable[[], object]], Callable[[], object]]:
    """Declares an action, which fails if it raises; they are done in the order in which they stand."""

    def declared(act: Callable[[], object]) -> Callable[[], object]:
        _ACTIONS.append((name, act))
        return act

    return declared


def near(found: Any, wanted: float) -> None:
    """Asserts that a released number is the true one, up to noise."""
    assert abs(float(found) - wanted) < 100, (found, wanted)


def run(*packages: str) -> None:
    """Does the actions, and notes the versions of packages and what each action failed with."""
    with open(sys.argv[2], "a") as file:

        def note(**line: object) -> None:
            print(json.dumps(line), file=file, flush=True)

        note(versions={package: version(package) for package in packages})
        for name, act in _ACTIONS:
            error = None
            try:
                act()
            except (Exception, SystemExit) as raised:
                error = f"{type(raised).__name__}: {raised}"
            note(action=name, error=error)
