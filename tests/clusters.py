"""One initdb for a run of tests: every other cluster that a process of it makes is a copy of the first.

A cluster has a thousand files, and a file system is slow to make a file where many were removed a moment ago. So the
cluster of a test that has passed is not removed: the next copy takes its files and replaces those that have changed.
"""

from __future__ import annotations

import atexit
import os
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
        if _take(first, data_dir / "cluster"):
            _restore(first / "cluster", data_dir / "cluster")
            made = [first / "password"]
        else:
            made = [first / "password", first / "cluster"]
        subprocess.run(["cp", "-a", "--reflink=auto", *made, data_dir], check=True)

    return initialise


def keep(path: Path) -> None:
    """Keep the clusters below a folder that will be removed, of which no server is running."""
    for place, folders, files in os.walk(path):
        if "PG_VERSION" not in files:
            continue
        folders.clear()
        cluster = Path(place)
        used = folder() / f"{(cluster / 'PG_VERSION').read_text().strip()}-used"
        used.mkdir(exist_ok=True)
        if "postmaster.pid" not in files:
            with suppress(OSError):  # another file system
                cluster.rename(Path(mkdtemp(dir=used)) / "cluster")


def _take(first: Path, cluster: Path) -> bool:
    """Move a kept cluster to its new place, where one is left of those that are like the first."""
    for used in first.with_name(f"{first.name}-used").glob("*/cluster"):
        with suppress(OSError):  # where another process was sooner
            used.rename(cluster)
            return True
    return False


def _restore(first: Path, used: Path) -> None:
    """Make a folder what the first one is; a file that was not written since it was copied has the same time still."""
    left = {entry.name: entry for entry in os.scandir(used)}
    changed = []
    for entry in os.scandir(first):
        found, target = left.pop(entry.name, None), used / entry.name
        if entry.is_dir() and found is not None and found.is_dir(follow_symlinks=False):
            target.chmod(entry.stat().st_mode)
            _restore(Path(entry.path), target)
        elif found is None or _differ(entry.stat(), found.stat(follow_symlinks=False)):
            if found is not None and not found.is_file(follow_symlinks=False):
                _remove(found)
            changed.append(entry.path)
    if changed:
        subprocess.run(["cp", "-a", "--reflink=auto", *changed, used], check=True)
    for entry in left.values():
        _remove(entry)


def _remove(entry: os.DirEntry[str]) -> None:
    (shutil.rmtree if entry.is_dir(follow_symlinks=False) else os.unlink)(entry.path)


def _differ(one: os.stat_result, other: os.stat_result) -> bool:
    """Whether a file was written or changed in any other way."""
    return (one.st_mode, one.st_uid, one.st_gid, one.st_size, one.st_mtime_ns) != (
        other.st_mode,
        other.st_uid,
        other.st_gid,
        other.st_size,
        other.st_mtime_ns,
    )
