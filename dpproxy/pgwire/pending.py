"""The queue of responses due from the front, and names that change once it has answered.

Why: docs/decisions/unnamed-portal.md.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from rewriter.refusal import Refusal

V = TypeVar("V")


class Names(Generic[V]):
    """Named things of a session, as the front will have them if every message sent succeeds.

    Changes are proposed when a message is sent and settled, in the same order, when the front has
    answered it (kept) or skipped it (not kept).

    >>> names = Names[int]()
    >>> names.propose("a", 1); names.propose("a", None); names.get("a") is None
    True
    >>> names.settle("a", True); names.settle("a", False); names.get("a")
    1
    """

    def __init__(self) -> None:
        self._settled: dict[str, V] = {}
        self._pending: dict[str, deque[V | None]] = {}

    def get(self, name: str) -> V | None:
        """The thing that a message sent now would find under `name`."""
        pending = self._pending.get(name)
        return pending[-1] if pending else self._settled.get(name)

    def clear(self, name: str) -> bool:
        """Proposes that `name` has no meaning; returns False, without a proposal, if it has none already."""
        known = name in self._pending or name in self._settled
        if known:
            self.propose(name, None)
        return known

    def is_open(self, name: str) -> bool:
        """Whether the front has yet to answer what `name` means."""
        return name in self._pending

    def possible(self) -> Iterator[tuple[str, V]]:
        """Every possible meaning of every name, for any answers of the front."""
        yield from self._settled.items()
        for name, values in self._pending.items():
            yield from ((name, value) for value in values if value is not None)

    def propose(self, name: str, value: V | None) -> None:
        """`name` is to mean `value` (None: nothing) from here on."""
        self._pending.setdefault(name, deque()).append(value)

    def settle(self, name: str, kept: bool) -> None:
        """The oldest proposal for `name` came true, or did not."""
        pending = self._pending[name]
        value = pending.popleft()
        if not pending:
            del self._pending[name]
        if not kept:
            return
        if value is None:
            self._settled.pop(name, None)
        else:
            self._settled[name] = value

    def forget(self) -> None:
        """Drops every settled name, as the front has done."""
        self._settled.clear()


Change = tuple[Names[Any], str]
"""A proposal that an entry of the queue settles."""


@dataclass(slots=True)
class PendingMessage:
    """A message sent to the front whose responses are due.

    Attributes:
        kind: the kind of the message.
        shown: the client sees the responses, except those of the kinds in `hidden`.
        ours: the text is the proxy's own, so errors lose what points into it.
        changes: the proposals of names that the response settles.
        rows: where rows and parameter types go that the client does not see.
        refusal: the error that the message is to raise.
        hidden: kinds of responses that the client does not see.
        tag: the command tag that the client sees in place of the front's.
        moved: at which offset of the client's text the text of this message begins.
        released: it computes something from a released answer.
        passes: the client sees all responses unchanged.
    """

    kind: int
    shown: bool = True
    ours: bool = False
    changes: tuple[Change, ...] = ()
    rows: bytearray | None = None
    refusal: Refusal | None = None
    hidden: bytes = b""
    tag: bytes | None = None
    moved: int = 0
    released: bool = False
    passes: bool = field(init=False)

    def __post_init__(self) -> None:
        self.passes = self.shown and not self.ours and not self.hidden and self.tag is None

    def settle(self, kept: bool) -> None:
        """Settles the changes that came with the message."""
        for names, name in self.changes:
            names.settle(name, kept)


_COPY_MARKS = b"cf"
_SEGMENT_ENDS = b"SQ"
_ENDS: dict[int, bytes] = {
    ord("P"): b"1",
    ord("B"): b"2",
    ord("C"): b"3",
    ord("D"): b"Tn",
    ord("E"): b"CIs",
    ord("Q"): b"Z",
    ord("S"): b"Z",
}


class Pending:
    """The queue of expected responses, oldest first."""

    def __init__(self) -> None:
        self._entries: deque[PendingMessage] = deque()
        self._ends = 0
        self._hiding = 0

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def head(self) -> PendingMessage | None:
        """The message whose responses are arriving."""
        return self._entries[0] if self._entries else None

    def shows_all(self, most: int) -> bool:
        """Whether something is due, of `most` messages, and the client sees all of it as it comes."""
        return not self._hiding and 0 < len(self._entries) <= most

    @property
    def has_end(self) -> bool:
        """Whether a Sync or simple query is still unanswered: messages after it may succeed if earlier ones fail."""
        return self._ends > 0

    def expect(self, entry: PendingMessage) -> None:
        """The responses to another message are due, after all others."""
        self._entries.append(entry)
        self._ends += entry.kind in _SEGMENT_ENDS
        self._hiding += not entry.passes
        self._drop_marks()

    def answered(self, kind: int) -> bool:
        """Takes a response of this kind; returns whether it was the last for the head."""
        if kind not in _ENDS[self._entries[0].kind]:
            return False
        self._pop(True)
        self._drop_marks()
        return True

    def all_answered(self, kinds: bytes) -> bool:
        """Responses of these kinds came, one after the other; False where one is to nothing."""
        entries = self._entries
        for kind in kinds:
            if not entries:
                return False
            if kind in _ENDS[entries[0].kind]:
                self._pop(True)
                self._drop_marks()
        return True

    def skip(self) -> bool:
        """Drops messages that the front skips after an error, up to a Sync; returns whether that was sent already."""
        while self._entries:
            if self._entries[0].kind == ord("S"):
                return True
            self._pop(False)
        return False

    def copy_begins(self) -> bool:
        """The head's statement reads from the client, and the front ignores every Sync before the copy's end;
        says whether that end is still to be sent."""
        entries = list(self._entries)
        end = next((i for i, entry in enumerate(entries) if entry.kind in _COPY_MARKS), len(entries))
        kept = [entry for entry in entries[:end] if entry.kind != ord("S")]
        self._ends -= end - len(kept)
        self._entries = deque([*kept, *entries[end:]])
        return end == len(entries)

    def _pop(self, kept: bool) -> None:
        entry = self._entries.popleft()
        self._ends -= entry.kind in _SEGMENT_ENDS
        self._hiding -= not entry.passes
        entry.settle(kept)

    def _drop_marks(self) -> None:
        while self._entries and self._entries[0].kind in _COPY_MARKS:
            self._entries.popleft()
