"""The two-command start: the sample data as a database, served, with the first queries asked."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import uvloop

from dpproxy.backends import sample
from dpproxy.config.sections import Config
from dpproxy.deployment.service import Service, configured
from dpproxy.embedded.binaries import psql_path
from dpproxy.engine.brake import PRICE_FIRST
from dpproxy.server.shutdown import leave

FOLDER = Path(__file__).parent.parent.parent / "sample_data"
ANALYST, GUIDE = "demo", "sample"
"""Who connects, and who asks the first queries: they cost the newcomer nothing."""
QUERIES = (
    "SELECT SUM(sales_value) AS sales FROM transactions",
    "SELECT ROUND(AVG(basket), 2) AS average_basket FROM "
    "(SELECT household_id, basket_id, SUM(sales_value) AS basket FROM transactions GROUP BY 1, 2) AS baskets",
    "SELECT p.product_category, COUNT(DISTINCT t.household_id) AS households "
    "FROM transactions t JOIN products p USING (product_id) GROUP BY 1 ORDER BY 2 DESC LIMIT 10",
    "SELECT product_id, COUNT(DISTINCT household_id) FROM transactions GROUP BY 1 ORDER BY 2 DESC LIMIT 10",
)
"""A sum and an average, groups of a known domain (the public catalogue's categories), groups of an unknown one."""


class DemoError(Exception):
    """The demonstration lacks something."""


def run(port: int) -> None:
    """Serves the sample data on 127.0.0.1, asks the first queries as psql, until SIGTERM or Ctrl-C.

    Raises DemoError, and what Service.start and Server.serve raise.
    """
    if not (FOLDER / "dpproxy.toml").exists():
        raise DemoError(f"{FOLDER} has no sample data: the demonstration runs from a clone of the project")
    if sample.stale(FOLDER, sample.database_of(FOLDER)):
        print("dpproxy: building the sample database, this once", flush=True)
    sample.database(FOLDER)
    reread = partial(configured, FOLDER / "dpproxy.toml", host="127.0.0.1", port=port, auth="trust")
    with Service.start(reread(), alone=True) as service:
        uvloop.run(_serve(service, reread))
    leave()


def announce(host: str, port: int) -> None:
    """Says that clients can connect."""
    print(f"dpproxy: listening on {host}:{port}", flush=True)


def psql_line(port: int, analyst: str = ANALYST) -> list[str]:
    """The command that connects to the demonstration: an installed psql, or that of the binaries' wheel.

    Raises DemoError where there is neither.
    """
    psql = (shutil.which("psql") and "psql") or psql_path()
    if psql is None:
        raise DemoError("no psql is installed")
    return [str(psql), "-h", "127.0.0.1", "-p", str(port), "-U", analyst, "-d", ANALYST]


async def _serve(service: Service, reread: Callable[[], Config]) -> None:
    tour: list[asyncio.Task[None]] = []

    def ready(host: str, port: int) -> None:
        announce(host, port)
        tour.append(asyncio.create_task(_tour(port)))

    try:
        await service.serve(ready, reread)
    finally:
        for task in tour:
            task.cancel()


async def _tour(port: int) -> None:
    """Prints the line that connects, and asks the first queries by that very line, in another name."""
    try:
        line = psql_line(port)
    except DemoError as error:
        print(f"dpproxy: {error}: connect any PostgreSQL client to port {port} as {ANALYST}", flush=True)
        return
    print(f"\nConnect:\n  {shlex.join(line)}\n", flush=True)
    for query in QUERIES:
        print(f"{GUIDE}=> {query};", flush=True)
        print(await _output([*psql_line(port, GUIDE), "-X", "-P", "pager=off", "-c", query]), flush=True)
    print(f"These were asked as {GUIDE}: {ANALYST} has spent nothing yet. Ctrl-C stops.", flush=True)


async def _output(command: list[str]) -> str:
    """What a command prints on both outputs; the process ends with the task."""
    process = await asyncio.create_subprocess_exec(
        *command,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, "PGOPTIONS": f"-c {PRICE_FIRST}=off"},
    )
    try:
        output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    return output.decode(errors="replace")
