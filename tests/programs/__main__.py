"""`python -m tests.programs [PROGRAM ...]`: what users do with each program, against a served policy.

Writes the table of docs/clients.md, where a program that is not installed or not named keeps its row, and so does one
of which an action did not end as it should. For the latter the exit code is 1.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from tests.clients.data import POLICY, fill_duckdb
from tests.clients.world import served
from tests.programs.register import PROGRAMS
from tests.programs.table import PAGE, done, written

PUBLISHER = """
[budget.dataset]
information = 100000
calls = 10000
[budget.analysts.ann]
publish = true
"""


def main(names: Sequence[str]) -> int:
    """Runs the named programs, or all that are installed; gives the exit code."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        url = fill_duckdb(Path(folder) / "shop.duckdb")
        with served(Path(folder), POLICY.format(url=url) + PUBLISHER, backend="DuckDB") as world:
            for program in PROGRAMS:
                if names and program.name not in names:
                    continue
                if program.missing:
                    print(f"{program.name}: skipped: {program.missing} is not installed")
                    continue
                found.append(done(program, world))
                print(found[-1].row(), flush=True)
    failures = {one.program.name: [*one.failures()] for one in found}
    for failure in chain(*failures.values()):
        print(f"FAILED {failure}")
    good = [one for one in found if not failures[one.program.name]]
    PAGE.write_text(written(PAGE.read_text(), good, PROGRAMS))
    return int(len(good) < len(found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
