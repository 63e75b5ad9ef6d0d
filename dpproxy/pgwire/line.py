"""Messages to the front: the client's, and the proxy's own, whose responses the client does not see."""

from __future__ import annotations

from collections.abc import Sequence

from dpproxy.pgwire import messages as m
from dpproxy.pgwire.pending import Change, Pending, PendingMessage
from dpproxy.pgwire.step import RESERVED, Portal
from rewriter.refusal import Refusal

_OURS = RESERVED + "step"
_TEXT = 25


class FrontWriter:
    """Bytes for the front, gathering in `out`, and the responses that are due for them.

    The proxy's own statements have one reserved name. It is closed after each use, so that no catalog shows it, and
    before the next where an error may have kept that from happening (`unsure`), or where it was left for another use
    (`_kept`: its text).
    `skipping`: the front has failed and skips what it is sent, up to a Sync that is still to be sent; `outside`: it was
    in no transaction when it was last ready.
    """

    def __init__(self) -> None:
        self.out = bytearray()
        self.pending = Pending()
        self.skipping = False
        self.outside = True
        self.unsure = False
        self._kept: str | None = None

    def forward(
        self,
        kind: str,
        body: bytes,
        *changes: Change,
        hidden: bytes = b"",
        moved: int = 0,
        released: bool = False,
    ) -> None:
        """A message whose responses the client sees, but for the kinds in `hidden`; `released`: it computes something
        from a released answer."""
        self.out += m.message(kind, body)
        entry = PendingMessage(ord(kind), changes=changes, hidden=hidden, moved=moved, released=released)
        self.pending.expect(entry)

    def inject(
        self, raw: bytes, *, ours: bool = True, refusal: Refusal | None = None, moved: int = 0
    ) -> bytearray:
        """A message whose responses the client does not see; gives where they will be."""
        rows = bytearray()
        self.out += raw
        entry = PendingMessage(raw[0], shown=False, ours=ours, rows=rows, refusal=refusal, moved=moved)
        self.pending.expect(entry)
        return rows

    def run(
        self,
        text: str,
        oids: Sequence[int],
        values: m.Values,
        *,
        results: bytes = b"\0\0",
        refusal: Refusal | None = None,
    ) -> bytearray:
        """A statement of the proxy; gives where its rows will be."""
        self._prepare(text, oids)
        self.inject(m.bind(_OURS, _OURS, values, results), refusal=refusal)
        rows = self.inject(m.execute(_OURS), refusal=refusal)
        self.inject(m.close("P", _OURS))
        self.inject(m.close("S", _OURS))
        return rows

    def _prepare(self, text: str, oids: Sequence[int]) -> None:
        if self.unsure or self._kept is not None:
            self.unsure, self._kept = False, None
            self.inject(m.close("S", _OURS))
        self.inject(m.parse(_OURS, text, oids))

    def complete(self, tag: str) -> None:
        """The end of a statement as the client sees it, by its `tag`: the front has nothing to run for it."""
        self._prepare("SELECT", ())
        self.inject(m.bind(_OURS, _OURS, m.NO_VALUES))
        self.out += m.execute(_OURS)
        self.pending.expect(PendingMessage(ord("E"), ours=True, hidden=b"D", tag=tag.encode()))
        self.inject(m.close("P", _OURS))
        self.inject(m.close("S", _OURS))

    def open(
        self,
        name: str,
        portal: Portal,
        arrays: Sequence[bytes],
        changes: Sequence[Change] = (),
        shown: bool = True,
        keep: bool = False,
    ) -> None:
        """A private portal under the client's name; `shown`: as the response to the client's own Bind; `keep`: it is
        opened once more before the client can say anything."""
        bound = portal.shown_with(arrays)
        if self.unsure or self._kept != bound.text:
            self._prepare(bound.text, bound.oids)
        self.out += m.bind(name, _OURS, bound.values, b"\0\0" if portal.statement.carries else portal.results)
        self.pending.expect(PendingMessage(ord("B"), shown=shown, ours=True, changes=tuple(changes)))
        self._kept = bound.text if keep else None
        if not keep:
            self.inject(m.close("S", _OURS))

    def refuse(self, refusal: Refusal) -> None:
        """Has the front raise a refusal, so that the transaction fails as it would for any error."""
        values = [refusal.code, refusal.message, refusal.detail, refusal.hint]
        raw = m.encoded([value if value is None else value.replace("\0", "").encode() for value in values])
        self.run("SELECT dpproxy.refuse($1, $2, $3, $4)", [_TEXT] * 4, m.Values((), 4, raw), refusal=refusal)
