"""The current epoch of this process."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from threading import Lock

from budget.epochs import Epochs
from budget.origins import Origins
from dpproxy.config.epoch import Epoch, epoch_name

STREAMS = "running counts"
"""The name under which the ledger keeps the nonce of its streams, which outlives epochs."""


class EpochClock:
    """Epochs of one `length`; `begin` is called with the name of each that begins while the process lives.

    `present`: the one that has begun, None for that of now.
    """

    def __init__(
        self,
        length: Epoch,
        kept: Epochs,
        origins: Origins,
        begin: Callable[[str], None],
        present: str | None = None,
    ) -> None:
        self._length, self._kept, self._begin = length, kept, begin
        self.present, self._turning = present or self.name(), Lock()
        self._accepted = origins.accepted()

    def name(self) -> str:
        """The name of the current epoch by the clock."""
        return epoch_name(self._length, datetime.now(UTC))

    def turn(self) -> str:
        """The present epoch's name, once it has begun."""
        now = self.name()
        if now != self.present:
            with self._turning:
                if now != self.present:
                    self._begin(now)
                    self.present = now
        return now

    def nonces(self, epoch: str) -> tuple[bytes, bytes]:
        """The nonces of the epoch and of the streams. The second changes when the owner accepts the ledger as it is.

        A restored ledger may have forgotten releases of a stream, and other data differ: neither may reuse its noise.
        """
        streams = f"{STREAMS} {self._accepted}" if self._accepted else STREAMS
        return self._kept.nonce(epoch), self._kept.nonce(streams)
