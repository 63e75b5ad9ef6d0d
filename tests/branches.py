"""Which lines of the product's functions follow each other in a run, and how many of its branches that is.

A function whose calls have shown nothing new for a while is looked at now and then only, so that watching costs little.
"""

from __future__ import annotations

import dis
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

ROOT = Path(__file__).parent.parent
QUIET, SELDOM = 50, 20
"""After so many calls without anything new every so many-th is watched."""
Arc = tuple[str, int, int]


class Branches:
    """The arcs that were seen in `rooms`: a file and two lines of one function, its begin and its end as 0."""

    def __init__(self, *rooms: str) -> None:
        self.seen: set[Arc] = set()
        self._rooms = tuple(f"{ROOT / room}/" for room in rooms)
        self._calls: Counter[CodeType] = Counter()
        self._ours: dict[CodeType, bool] = {}

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Looks at what runs inside, in threads that start there too."""
        before, in_threads = sys.gettrace(), threading.gettrace()
        sys.settrace(self._called)
        threading.settrace(self._called)
        try:
            yield
        finally:
            sys.settrace(before)
            threading.settrace(in_threads)

    def _called(self, frame: FrameType, event: str, _: Any) -> Callable[..., Any] | None:
        code = frame.f_code
        ours = self._ours.get(code)
        if ours is None:
            ours = self._ours[code] = code.co_filename.startswith(self._rooms)
        if not ours:
            return None
        self._calls[code] += 1
        if self._calls[code] > QUIET and self._calls[code] % SELDOM:
            return None
        last = 0

        def followed(frame: FrameType, event: str, _: Any) -> Callable[..., Any]:
            nonlocal last
            now = 0 if event == "return" else frame.f_lineno
            arc = (code.co_filename, last, now)
            if arc not in self.seen:
                self.seen.add(arc)
                self._calls[code] = 0
            last = now
            return followed

        return followed

    def __str__(self) -> str:
        """How many of the branches that there are were taken, by room."""
        told = []
        for room in self._rooms:
            listed = {branch for file in Path(room).rglob("*.py") for branch in possible(file)}
            told.append(f"{room.removeprefix(f'{ROOT}/')} {len(listed & self.seen):,} of {len(listed):,}")
        return ", ".join(told)


def possible(file: Path) -> Iterator[Arc]:
    """The branches of a file: lines of a function that have two lines after them."""
    for code in _codes(compile(file.read_text(), str(file), "exec")):
        listed = list(dis.get_instructions(code))
        lines, line = {}, code.co_firstlineno
        for one in listed:
            line = one.starts_line or line
            lines[one.offset] = line
        for one, following in pairwise(listed):
            if one.opcode in dis.hasjrel and "JUMP" in one.opname and "_IF_" in one.opname:
                for target in (following.offset, one.argval):
                    if lines[target] != lines[one.offset]:
                        yield str(file), lines[one.offset], lines[target]


def _codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)
