"""Peers in processes of their own environments: whatever happens there is an outcome here."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

from benchmarks.peers.tasks import Outcome, short

ROOT = Path(__file__).parent.parent.parent
LONGEST = 600
"""Seconds that a peer may take for all of its answers."""


def asked(name: str, python: str, source: str, longest: float = LONGEST) -> Outcome:
    """A peer's outcome, in a process of its own environment; `source`: a CSV file, or the URL of a database."""
    if not Path(python).exists():
        return Outcome.nothing(name, f"its environment was not built: {python} is missing")
    try:
        done = subprocess.run(
            [python, "-W", "ignore", "-m", f"benchmarks.peers.{name}", source],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT), "SPARK_LOCAL_IP": "127.0.0.1"},
            timeout=longest,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Outcome.nothing(name, f"no answer within {longest:g} seconds")
    try:
        return Outcome.load(done.stdout.strip().splitlines()[-1])
    except (IndexError, TypeError, ValueError):
        last = (done.stderr.strip().splitlines() or ["it printed no outcome"])[-1]
        return Outcome.nothing(name, f"exit code {done.returncode}: {short(last)}")


def guarded(name: str, measure: Callable[[], Outcome]) -> Outcome:
    """An outcome whatever happens: what one peer raises must not lose the others' figures."""
    try:
        return measure()
    except Exception as error:
        return Outcome.nothing(name, f"{type(error).__name__}: {short(str(error))}")
