"""What cannot be collected without an optional engine, and which tests are unit tests."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from importlib.util import find_spec

import pytest

collect_ignore_glob = [] if find_spec("pyspark") else ["dpproxy/backends/spark*.py", "tests/oracle/spark.py"]

_OTHERS = ("service", "client", "statistical", "slow")
_PROCESSES = {"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn"}
_running_unit = False


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test without another mark is a unit test."""
    for item in items:
        if not any(item.get_closest_marker(kind) for kind in _OTHERS):
            item.add_marker("unit")


def pytest_collection_finish() -> None:
    """The garbage collector leaves alone what was collected: six thousand tests that it would look through each time
    take a third of the time of a test that makes many objects."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    global _running_unit
    _running_unit = isinstance(item, pytest.Function) and item.get_closest_marker("unit") is not None
    try:
        return (yield)
    finally:
        _running_unit = False


def _no_process(event: str, arguments: object) -> None:
    """`make check` is quick because a unit test starts nothing."""
    if _running_unit and event in _PROCESSES:
        raise AssertionError(f"a unit test starts no process: mark it `service` or `client` ({event})")


sys.addaudithook(_no_process)
