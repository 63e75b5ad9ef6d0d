"""Which lines of the rewriter follow each other: what a statement reaches that no statement before it did.

A function whose calls have shown nothing new for a while is looked at now and then only, so that watching costs little.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import rewriter

ROOM = str(Path(rewriter.__file__).parent)
QUIET, SELDOM = 50, 20
"""After so many calls without anything new every so many-th is watched."""
Arc = tuple[CodeType, int, int]
Line = tuple[str, int, int]


class Branches:
    """The arcs that were seen: pairs of lines of one function, its begin and its end as 0."""

    def __init__(self) -> None:
        self.seen: set[Arc] = set()
        self._calls: Counter[CodeType] = Counter()
        self._ours: dict[CodeType, bool] = {}

    @property
    def lines(self) -> frozenset[Line]:
        """The arcs by file and lines."""
        return frozenset((code.co_filename, one, other) for code, one, other in self.seen)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Looks at what runs inside."""
        before = sys.gettrace()
        sys.settrace(self._called)
        try:
            yield
        finally:
            sys.settrace(before)

    def _called(self, frame: FrameType, event: str, _: Any) -> Callable[..., Any] | None:
        code = frame.f_code
        ours = self._ours.get(code)
        if ours is None:
            ours = self._ours[code] = code.co_filename.startswith(ROOM)
        if not ours:
            return None
        self._calls[code] += 1
        if self._calls[code] > QUIET and self._calls[code] % SELDOM:
            return None
        last = 0

        def followed(frame: FrameType, event: str, _: Any) -> Callable[..., Any]:
            nonlocal last
            now = 0 if event == "return" else frame.f_lineno
            arc = (code, last, now)
            if arc not in self.seen:
                self.seen.add(arc)
                self._calls[code] = 0
            last = now
            return followed

        return followed
