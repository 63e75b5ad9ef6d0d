"""Which jumps between lines of the mechanisms and of the engine a run has taken."""

from __future__ import annotations

import dis
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

ROOT = Path(__file__).parent.parent.parent
WATCHED = (f"{ROOT}/mechanisms/", f"{ROOT}/dpproxy/engine/")
Branch = tuple[str, int, int]


@dataclass
class Branches:
    """`taken`: file, line and the line after it, inside of one function."""

    taken: set[Branch] = field(default_factory=set)

    def add(self, other: Branches) -> None:
        """Takes over what another process has taken."""
        self.taken |= other.taken

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Watches this thread."""
        sys.settrace(self._called)
        threading.settrace(self._called)
        try:
            yield
        finally:
            sys.settrace(None)
            threading.settrace(None)

    def _called(self, frame: FrameType, event: str, argument: Any) -> Any:
        file = frame.f_code.co_filename
        if not file.startswith(WATCHED):
            return None
        last = frame.f_code.co_firstlineno

        def traced(frame: FrameType, event: str, argument: Any) -> Any:
            nonlocal last
            if event == "line":
                self.taken.add((file, last, frame.f_lineno))
                last = frame.f_lineno
            return traced

        return traced

    def __str__(self) -> str:
        """How many of the branches that there are were taken, by room."""
        told = []
        for room in WATCHED:
            listed = {branch for file in Path(room).rglob("*.py") for branch in possible(file)}
            told.append(f"{room.removeprefix(f'{ROOT}/')} {len(listed & self.taken):,} of {len(listed):,}")
        return ", ".join(told)


def possible(file: Path) -> Iterator[Branch]:
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
