"""What cannot be collected without an optional engine, and which tests are unit tests."""

from __future__ import annotations

import gc
import multiprocessing.util
import os
import subprocess
from collections.abc import Callable, Iterator
from functools import wraps
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

collect_ignore_glob = [] if find_spec("pyspark") else ["dpproxy/backends/spark/*.py", "tests/oracle/spark.py"]

_LONGEST_FIRST = ("statistical", "slow", "client", "service")
_running_unit = False


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test without another mark is a unit test. Files whose tests take long come first, so that only short ones are
    left when the first worker has nothing more to do."""
    kinds = dict[Path, int]()
    for item in items:
        kind = next((n for n, name in enumerate(_LONGEST_FIRST) if item.get_closest_marker(name)), None)
        if kind is None:
            item.add_marker("unit")
            kind = len(_LONGEST_FIRST)
        kinds[item.path] = min(kind, kinds.get(item.path, kind))
    items.sort(key=lambda item: kinds[item.path])


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """The garbage collector leaves alone what is collected: eight thousand tests that it would look through each time
    take a fifth of the time of collecting, and a third of a test that makes many objects. Later it looks as seldom as
    in a server."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()
        gc.set_threshold(20_000)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    global _running_unit
    _running_unit = isinstance(item, pytest.Function) and item.get_closest_marker("unit") is not None
    try:
        return (yield)
    finally:
        _running_unit = False


def _refused_in_unit_tests(start: Callable[..., Any]) -> Callable[..., Any]:
    """`make check` is quick because a unit test starts nothing. An audit hook would see each way to start one, but
    is called for every object whose id is asked for."""

    @wraps(start)
    def started(*args: Any, **options: Any) -> Any:
        if _running_unit:
            raise AssertionError(f"a unit test starts no process: mark it `service` or `client` ({args[:2]})")
        return start(*args, **options)

    return started


for _owner, _name in (
    (subprocess.Popen, "_execute_child"),
    (os, "fork"),
    (os, "forkpty"),
    (os, "posix_spawn"),
    (multiprocessing.util, "spawnv_passfds"),
):
    setattr(_owner, _name, _refused_in_unit_tests(getattr(_owner, _name)))
