"""The wheel and the sdist: what is in them, and that the wheel alone is enough for both ways to start."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from dpproxy import __version__
from tests.dpproxy.serving import ROOT

pytestmark = pytest.mark.service

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
ROOMS = ("dpproxy", "rewriter", "mechanisms", "budget")
BUILD = "import setuptools.build_meta as b; print(b.build_wheel('dist')); print(b.build_sdist('dist'))"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with both, built from a copy of the project."""
    pytest.importorskip("setuptools", "77", reason="setuptools 77 or later builds the wheel")
    source = tmp_path_factory.mktemp("package") / "project"
    source.mkdir()
    for room in ROOMS:
        shutil.copytree(ROOT / room, source / room, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    (source / "dist").mkdir()
    said = subprocess.run(
        [sys.executable, "-c", BUILD], cwd=source, capture_output=True, text=True, check=False
    )
    assert said.returncode == 0, said.stderr
    return source / "dist"


def test_everything_that_runs_is_in_both(built: Path) -> None:
    wanted = {
        str(file.relative_to(ROOT))
        for room in ROOMS
        for file in (ROOT / room).rglob("*")
        if file.suffix in (".py", ".sql", ".md", ".html", ".css", ".svg") or file.name == "py.typed"
    }
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as opened:
        inside = set(opened.namelist())
        (metadata,) = [name for name in inside if name.endswith("METADATA")]
        told = opened.read(metadata).decode()
    assert wanted <= inside
    assert f"Version: {__version__}" in told
    assert "License-Expression: Apache-2.0" in told
    assert any(name.endswith("licenses/LICENSE") for name in inside)
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert wanted | {"LICENSE", "README.md", "pyproject.toml"} <= names


def test_the_licence_is_one(built: Path) -> None:
    assert PROJECT["license"] == "Apache-2.0"
    assert "Apache License" in (ROOT / "LICENSE").read_text()
    assert "Apache License 2.0" in (ROOT / "README.md").read_text()
    assert all((ROOT / room / "py.typed").exists() for room in ROOMS)


def test_a_fresh_environment_starts_it(built: Path, tmp_path: Path) -> None:
    """The wheel in an environment of its own; its dependencies are this one's, by a path file, and stay."""
    home = tmp_path / "fresh"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True, timeout=120)
    site = next((home / "lib").glob("python*")) / "site-packages"
    (wheel,) = built.glob("*.whl")
    options = ("--quiet", "--no-deps", "--no-index", "--ignore-installed", "--prefix", str(home))
    subprocess.run([sys.executable, "-m", "pip", "install", *options, str(wheel)], check=True, timeout=120)
    (site / "dependencies.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    program = home / "bin" / "python"
    # The wheel's own script names the interpreter that installed it.
    script = ["-c", "import sys; sys.argv[0] = 'dpproxy'; from dpproxy.cli.app import app; app()", "--help"]
    told = subprocess.run(
        [program, "-m", "dpproxy", "--version"], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert told.stdout == f"dpproxy {__version__}\n"
    for arguments in (script, ["-m", "dpproxy", "--help"]):
        said = subprocess.run(
            [program, *arguments], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert (said.returncode, said.stderr) == (0, "")
        assert {"demo", "init", "check", "serve"} <= set(said.stdout.split())
    assert (home / "bin" / "dpproxy").exists()
    where = subprocess.run(
        [program, "-c", "import dpproxy; print(dpproxy.__file__)"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert where.stdout.startswith(str(home))


def test_what_the_pages_install_is_an_extra(built: Path, tmp_path: Path) -> None:
    """As the pages say it, of the wheel, without what it depends on; nothing is downloaded."""
    pages = [path.read_text() for path in (ROOT / "docs").glob("*.md")]
    wanted = sorted({name for page in pages for name in re.findall(r"pip install .dpproxy(\[\w+\]).", page)})
    assert wanted == ["[plot]", "[spark]"]
    options = ("--dry-run", "--no-deps", "--no-index", "--ignore-installed", "--find-links", str(built))
    said = subprocess.run(
        [sys.executable, "-m", "pip", "install", *options, *(f"dpproxy{name}" for name in wanted)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert f"Would install dpproxy-{__version__}" in said.stdout
    assert "does not provide the extra" not in said.stderr


def test_completion_is_there(tmp_path: Path) -> None:
    said = subprocess.run(
        [sys.executable, "-c", "from dpproxy.cli.app import app; app(prog_name='dpproxy')"],
        env={**os.environ, "PYTHONPATH": str(ROOT), "_DPPROXY_COMPLETE": "source_bash"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "complete -o default -F _dpproxy_completion dpproxy" in said.stdout


def test_systemd_reads_the_units(tmp_path: Path) -> None:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd is not installed")
    units = [tmp_path / name for name in ("dpproxy.service", "dpproxy.socket")]
    for unit in units:
        text = (ROOT / "deploy" / unit.name).read_text()
        unit.write_text(text.replace("/opt/dpproxy/bin/dpproxy", sys.executable))
    said = subprocess.run(
        [program, "verify", "--man=no", *map(str, units)], capture_output=True, text=True, check=False
    )
    lines = [line for line in said.stderr.splitlines() if "notify-reload" not in line]
    assert (said.returncode, lines) == (0, [])
