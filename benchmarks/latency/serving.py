"""A serving proxy as owners run it, its processes' memory, and a number that no query has used before."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import psycopg

FRESH = count(1_000)


@dataclass(frozen=True)
class Proxy:
    """A serving process and its port."""

    pid: int
    port: int

    def connect(self, user: str = "bench") -> psycopg.Connection[Any]:
        """A client's connection, without TLS."""
        return psycopg.connect(
            host="127.0.0.1", port=self.port, user=user, dbname="any", sslmode="disable", autocommit=True
        )

    @property
    def place(self) -> dict[str, str]:
        """The same for programs of PostgreSQL."""
        return {
            "PGHOST": "127.0.0.1",
            "PGPORT": str(self.port),
            "PGUSER": "bench",
            "PGDATABASE": "any",
            "PGSSLMODE": "disable",
            "PGOPTIONS": "-c dpproxy.notices=off",
        }


@contextmanager
def serving(folder: Path, policy: str, workers: int = 1) -> Iterator[Proxy]:
    """Serves a configuration whose files are in `folder`, until the end of the block."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "dpproxy.toml").write_text(policy)
    command = [sys.executable, "-m", "dpproxy", "serve", "--port", "0", "--workers", str(workers)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent.parent)}
    with (folder / "errors").open("w") as errors:
        process = subprocess.Popen(
            command, cwd=folder, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment
        )
    assert process.stdout is not None
    try:
        heard = "nothing yet"
        while heard and "listening on" not in heard:
            heard = process.stdout.readline()
        if not heard:
            raise SystemExit(f"dpproxy did not start: {(folder / 'errors').read_text()}")
        yield Proxy(process.pid, int(heard.rsplit(":", 1)[1]))
    finally:
        process.terminate()
        process.wait(120)
        process.stdout.close()


def memory(pid: int) -> dict[str, int]:
    """Bytes by part (proxy, front, ledger) of a serving process; what they share counts once (PSS)."""
    found = {"proxy": 0, "front": 0, "ledger": 0}
    for one, part in _processes(pid, "proxy"):
        with suppress(OSError):
            rollup = Path(f"/proc/{one}/smaps_rollup").read_text()
            size = re.search(r"^Pss:\s+(\d+) kB", rollup, re.MULTILINE)
            found[part] += 0 if size is None else int(size[1]) * 1024
    return found


def _processes(pid: int, part: str) -> Iterator[tuple[int, str]]:
    with suppress(OSError):
        place = Path(f"/proc/{pid}/cmdline").read_text()
        part = next((name for name in ("front", "ledger") if f"/{name}/cluster" in place), part)
        yield pid, part
        for children in Path(f"/proc/{pid}/task").glob("*/children"):
            for child in children.read_text().split():
                yield from _processes(int(child), part)
