"""One initdb for a run of tests: every other cluster that this process makes is a copy of the first."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from tempfile import mkdtemp

from dpproxy.embedded import server

INITIALISE = server._initialise
"""What makes a cluster in truth."""


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
            new.rename(first)
        for made in ("password", "cluster"):
            subprocess.run(["cp", "-a", "--reflink=auto", first / made, data_dir / made], check=True)

    return initialise
