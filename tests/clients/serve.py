"""`python -m tests.clients.serve FOLDER ANALYST...`: serves FOLDER/dpproxy.toml with counters in FOLDER/counts.

A process of its own, because some drivers keep Python's lock while they wait for the server.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import cast

from dpproxy.backends.base import Backend
from dpproxy.deployment.service import BoundConfig, Service, configured
from dpproxy.engine.executor import QueryEngine
from dpproxy.pgwire.auth import ScramVerifier
from tests.clients.counted import CountedAnswering, CountedBackend, Counts
from tests.clients.world import PASSWORD


def main(folder: Path, *analysts: str) -> None:
    """Serves until SIGTERM, with analysts who have a password; says the port when it listens."""
    counts = Counts(folder / "counts")
    with ExitStack() as stack:
        reread = partial(configured, folder / "dpproxy.toml", port=0)
        checked = BoundConfig.open(reread())
        stack.callback(checked.backend.close)
        counted = replace(checked, backend=cast(Backend, CountedBackend(checked.backend, counts)))
        service = Service(counted, stack, None, 1)
        for analyst in analysts:
            service.ledger.analysts.add(analyst, str(ScramVerifier.make(PASSWORD)))
        service.answering = cast(QueryEngine, CountedAnswering(service.answering, counts))
        asyncio.run(service.serve(lambda _, port: print(f"listening on {port}", flush=True), reread))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
