"""`python -m tests.clients [CLIENT ...]`: every client through its real driver, on DuckDB and on PostgreSQL.

Prints a table of clients by features for each backend. Exit code 1 if a cell failed, or if a client is not
installed and DPPROXY_REQUIRE_CLIENTS is 1.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.clients.table import CLIENTS, cells, printed
from tests.clients.world import WORLDS


def main(names: Sequence[str]) -> int:
    """Runs the named clients, or all; gives the exit code."""
    clients = [client for client in CLIENTS if not names or client.name in names]
    bad = {"FAILED"} | ({"skipped"} if os.environ.get("DPPROXY_REQUIRE_CLIENTS") == "1" else set())
    failed = False
    for backend, made in WORLDS.items():
        with tempfile.TemporaryDirectory() as folder, made(Path(folder)) as world:
            found = list(cells(world, clients))
        print(f"\nOn {backend}, {len([c for c in found if c.outcome == 'ok'])} cells are good:")
        printed(found)
        failed = failed or any(cell.outcome in bad for cell in found)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
