"""Asking by psql."""

from __future__ import annotations

import shutil
import subprocess

from tests.dpproxy.serving import COUNT


def asked_by_psql(port: int, user: str, password: str) -> subprocess.CompletedProcess[str]:
    psql = shutil.which("psql")
    assert psql is not None
    where = f"host=127.0.0.1 port={port} user={user} dbname=x sslmode=require"
    return subprocess.run(
        [psql, where, "-XAtc", COUNT],
        env={"PGPASSWORD": password},
        capture_output=True,
        text=True,
        timeout=60,
    )
