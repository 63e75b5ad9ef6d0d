"""`python -m tests.clients [CLIENT ...]`: every client through its real driver, on DuckDB and on PostgreSQL.

Prints a table of types by uses, then one of clients by features, for each backend; with $DPPROXY_SHARED also how many
statements of the corpus of clients are answered as PostgreSQL answers them. Exit code 1 if a cell failed or an answer
differs for no known reason, or if a client is not installed and DPPROXY_REQUIRE_CLIENTS is 1.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.clients import matrix
from tests.clients.corpus import corpus_world, reason, replay
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
            whole = bool(names) or matrix.printed(world)
        print(f"\nOn {backend}, {len([c for c in found if c.outcome == 'ok'])} cells are good:")
        printed(found)
        failed = failed or not whole or any(cell.outcome in bad for cell in found)
    shared = os.environ.get("DPPROXY_SHARED")
    return int((shared is not None and not names and not replayed(Path(shared))) or failed)


def replayed(shared: Path) -> bool:
    """Replays the corpus, an e-mail hidden and shown; tells what is answered otherwise and why. False for no reason."""
    corpus = shared / "corpora" / "clients"
    explained = True
    for hidden in (True, False):
        with (
            tempfile.TemporaryDirectory() as folder,
            corpus_world(Path(folder), corpus, hidden) as (world, expected),
        ):
            found = replay(world, corpus, Path(folder), "--expected", str(expected), "--level", "types")
        print(
            f"\n{found.passed} of {found.total} statements of clients are answered as by PostgreSQL "
            f"({found.share:.1%}), a column with a comment {'hidden' if hidden else 'shown'}"
        )
        for client, statement, differs in found.failures:
            why = reason(client, statement, differs) or "UNEXPLAINED"
            print(f"{client}: {why}: {' '.join(statement.split())[:150]}")
        explained = explained and not found.unexplained()
    return explained


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
