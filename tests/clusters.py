"""One initdb for a run of tests: every other cluster that a process of it makes is a copy of the first."""

from __future__ import annotations

import atexit
import shutil
import subprocess
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

from dpproxy.embedded import server

INITIALISE = server._initialise
"""What makes a cluster in truth."""


@cache
def folder() -> Path:
    """Where this process keeps the clusters that others are copied from; it is removed with the process."""
    made = Path(mkdtemp(prefix="dpproxy-initdb-"))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


def copying(folder: Path) -> Callable[[Path], None]:
    """What makes clusters by copying one that is made in `folder` when a PostgreSQL is first asked for one.

    Copies have one superuser and one password, which each of them keeps in a file of its own.
    """

    def initialise(data_dir: Path) -> None:
        binaries = server.find_binaries()  # type: ignore[attr-defined]  # as a test may have replaced it
        if binaries is None:
            INITIALISE(data_dir)
            return
        first = folder / str(binaries.major)
        if not first.exists():
            new = Path(mkdtemp(dir=folder))
            INITIALISE(new)
            # Maps that PostgreSQL makes anew as it goes: a quarter of the files.
            for file in [*new.rglob("*_fsm"), *new.rglob("*_vm")]:
                file.unlink()
            with suppress(OSError):  # where another process was sooner
                new.rename(first)
        made = (first / "password", first / "cluster")
        subprocess.run(["cp", "-a", "--reflink=auto", *made, data_dir], check=True)

    return initialise
