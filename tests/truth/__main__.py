"""`python -m tests.truth`: statements by PostgreSQL and by the proxy without noise, for as long as it is told."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.oracle.world import Server
from tests.truth.run import run
from tests.truth.world import world


def main() -> int:
    """Runs it and prints what came of the statements; 1 where answers differ."""
    parser = argparse.ArgumentParser(prog="python -m tests.truth", description=__doc__)
    parser.add_argument("--seed", default=str(int(time.time())))
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--engines", default="duckdb,postgresql")
    options = parser.parse_args()
    failed = False
    engines = options.engines.split(",")
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        folder.chmod(0o755)
        server = Server(folder)
        try:
            for engine in engines:
                (folder / engine).mkdir()
                with world(server, folder / engine, engine, options.seed) as asked:
                    counted, findings = run(asked, options.seed, options.seconds / len(engines))
                failed |= bool(findings)
                print(f"{engine}, seed {options.seed}: ", end="")
                print(", ".join(f"{counted[k]} {k}" for k in sorted(counted)), flush=True)
        finally:
            server.close()
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
