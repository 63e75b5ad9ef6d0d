"""One initdb for a run of tests: every other cluster that this process makes is a copy of the first."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from dpproxy.embedded import server

INITIALISE = server._initialise
"""What makes a cluster in truth."""


def copying(folder: Path) -> Callable[[Path], None]:
    """What makes clusters by copying one that is made in `folder` when it is first asked for.

    Copies have one superuser and one password, which each of them keeps in a file of its own.
    """

    def initialise(data_dir: Path) -> None:
        if not (folder / "cluster").exists():
            with TemporaryDirectory(dir=folder) as new:
                INITIALISE(Path(new))
                for made in ("password", "cluster"):
                    (Path(new) / made).rename(folder / made)
        for made in ("password", "cluster"):
            subprocess.run(["cp", "-a", "--reflink=auto", folder / made, data_dir / made], check=True)

    return initialise
