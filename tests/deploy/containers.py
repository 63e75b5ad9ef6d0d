"""Containers without a daemon: an image built by buildah on a Debian of its own, run by podman."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.conftest import missing
from tests.dpproxy.serving import ROOT

PROGRAMS = ("mmdebstrap", "buildah", "podman", "podman-compose", "runc")
SUITE, PYTHON = "bookworm", "3.11"
"""Debian's release that is the base, and the Python in it."""
BASE = "localhost/debian-python"
PROJECT = f"dpproxy-test-{os.getpid()}"
"""Of podman-compose."""
# runc and cgroupfs run where there is no systemd; limits above the caller's own may be forbidden to it.
_ENGINE = """
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
"""


class Containers:
    """Images, containers and volumes in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        for program in PROGRAMS:
            if shutil.which(program) is None:
                missing(program)
        self.folder = folder
        engine, storage = folder / "containers.conf", folder / "storage.conf"
        engine.write_text(_ENGINE)
        places = f'graphroot = "{folder}/store"\nrunroot = "{folder}/run"\n'
        storage.write_text(f'[storage]\ndriver = "vfs"\n{places}')
        self._environment = {
            **os.environ,
            "CONTAINERS_CONF": str(engine),
            "CONTAINERS_STORAGE_CONF": str(storage),
            "TMPDIR": str(folder),
        }

    def run(
        self, *command: str, entry: str = "", folder: Path = ROOT, fails: bool = False
    ) -> subprocess.CompletedProcess[str]:
        """A command run to its end, which has to be good unless it `fails`."""
        said = self._said(command, entry, folder)
        assert (said.returncode != 0) == fails, (command, said.stdout, said.stderr)
        return said

    def good(self, *command: str) -> bool:
        """Whether a command ends with status 0."""
        return self._said(command, "", ROOT).returncode == 0

    def _said(self, command: Sequence[str], entry: str, folder: Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            input=entry,
            cwd=folder,
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=900,
        )

    def build(self, name: str) -> None:
        """The image of deploy/Dockerfile, on a base of Debian's packages, with the wheels of requirements.lock alone:
        pip reaches no index."""
        base, wheels, pip = self.folder / "base.tar", self.folder / "wheels", self.folder / "pip.conf"
        self.run("mmdebstrap", "--quiet", "--variant=apt", "--include=python3,python3-venv", SUITE, str(base))
        self.run("podman", "import", "--quiet", str(base), BASE)
        locked = ("--only-binary", ":all:", "--require-hashes", "--python-version", PYTHON)
        self.run(
            *(sys.executable, "-m", "pip", "download", "--quiet", *locked),
            *("--requirement", "requirements.lock", "--dest", str(wheels)),
        )
        pip.write_text("[global]\nno-index = true\nfind-links = /wheels\n")
        self.run(
            *("buildah", "bud", "--isolation", "chroot", "--format", "docker", "--build-arg", f"BASE={BASE}"),
            *("--volume", f"{wheels}:/wheels:ro", "--volume", f"{pip}:/etc/pip.conf:ro"),
            *("--tag", name, "--file", "deploy/Dockerfile", "."),
        )

    def clean(self) -> None:
        """Ends what runs, and removes what was made; networks are the machine's, of which the project's own goes."""
        self.run("podman", "rm", "--all", "--force", "--time", "0")
        self.run("podman", "volume", "rm", "--all", "--force")
        self.run("podman", "rmi", "--all", "--force")
        self.run("podman", "network", "rm", "--force", f"{PROJECT}_default")
        shutil.rmtree(self.folder, ignore_errors=True)


@contextmanager
def containers(folder: Path) -> Iterator[Containers]:
    """For as long as they are needed."""
    made = Containers(folder)
    try:
        yield made
    finally:
        made.clean()
