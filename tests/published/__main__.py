"""`make published`: the dashboard's figures, then a dbt project, built twice: `python -m tests.published DBT`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.dpproxy.serving import POLICY, make, serving
from tests.published import dashboard

MODELS = {"floors", "rooms", "towns"}


def build(dbt: str, folder: Path) -> None:
    """Builds and tests the project twice and reads its catalog; nothing is charged the second time."""
    make(folder, POLICY + dashboard.SETTINGS)
    shutil.copytree(Path(__file__).parent / "dbt", folder / "dbt")
    with serving(["serve", "--port", "0"], folder=folder) as running:
        quiet = {
            "DBT_SEND_ANONYMOUS_USAGE_STATS": "false",
            "DBT_PROFILES_DIR": ".",
            "DPPROXY_PORT": str(running.port),
        }
        used = []
        for verb in (["build"], ["build"], ["docs", "generate"]):
            done = subprocess.run(
                [dbt, "--no-version-check", *verb], cwd=folder / "dbt", env={**os.environ, **quiet}
            )
            assert done.returncode == 0, f"dbt {' '.join(verb)} failed"
            with running.connect("ann") as ann:
                used.append(ann.execute("SELECT unit, used FROM dpproxy.budget").fetchall())
                names = {name for (name,) in ann.execute("SELECT name FROM dpproxy.published")}
        assert used[0] == used[1] == used[2], "built again in its epoch for nothing"
        assert names == MODELS
        print(
            "dbt: 3 models, 4 tests, charged once:", ", ".join(f"{amount} {unit}" for unit, amount in used[0])
        )


def main() -> None:
    """Prints both."""
    dashboard.main()
    with tempfile.TemporaryDirectory() as folder:
        build(sys.argv[1], Path(folder))


if __name__ == "__main__":
    main()
