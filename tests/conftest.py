"""Fixtures that several rooms share: outside material and clients, skipped with a reason where missing."""

from __future__ import annotations

import os
import shutil
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from dpproxy.embedded import server
from tests.clusters import copying, folder, keep

ROOT = Path(__file__).parent.parent
JDBC_JAR = Path("/usr/share/java/postgresql.jar")


def missing(what: str) -> NoReturn:
    """Skips the test for want of `what`, or fails it where DPPROXY_REQUIRE_CLIENTS says that all is there."""
    if os.environ.get("DPPROXY_REQUIRE_CLIENTS") == "1":
        pytest.fail(f"{what} is required but missing")
    pytest.skip(f"{what} is not installed")


@pytest.fixture(scope="session", autouse=True)
def copied_clusters() -> Iterator[None]:
    """Servers start on copies of one cluster: initdb takes longer than most tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(server, "_initialise", copying(folder()))
        yield


_FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Notes which tests have failed."""
    report = yield
    item.stash[_FAILED] = item.stash.get(_FAILED, False) or report.failed
    return report


@pytest.fixture
def tmp_path(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A folder of the test's own, whose clusters are used again; what a failed test leaves stays as it is."""
    yield tmp_path
    if not request.node.stash.get(_FAILED, False):
        keep(tmp_path)


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with the query corpora, named by DPPROXY_SHARED."""
    folder = os.environ.get("DPPROXY_SHARED")
    if not folder:
        pytest.skip("DPPROXY_SHARED does not name the folder with the corpora")
    return Path(folder)


@pytest.fixture(scope="session")
def sample_data() -> Path:
    """The folder with the sample data."""
    return ROOT / "sample_data"


@pytest.fixture(scope="session")
def psql() -> str:
    """The path of an installed psql."""
    path = shutil.which("psql")
    if path is None:
        missing("psql")
    return path


@pytest.fixture(scope="session")
def pgjdbc() -> tuple[str, Path]:
    """The java launcher (single-file programs need a JDK) and the jar of PostgreSQL's JDBC driver."""
    java, javac = shutil.which("java"), shutil.which("javac")
    if java is None or javac is None:
        missing("a JDK")
    if not JDBC_JAR.exists():
        missing("libpostgresql-jdbc-java")
    return java, JDBC_JAR


@pytest.fixture(scope="session")
def node() -> str:
    """The path of node."""
    path = shutil.which("node")
    if path is None:
        missing("node")
    return path


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project by links, with a place of its own for what the demonstration makes."""
    folder = tmp_path_factory.mktemp("clone")
    for room in ("dpproxy", "rewriter", "mechanisms", "budget"):
        (folder / room).symlink_to(ROOT / room)
    (folder / "sample_data").mkdir()
    for file in (ROOT / "sample_data").iterdir():
        if file.is_file():
            (folder / "sample_data" / file.name).symlink_to(file)
    return folder
