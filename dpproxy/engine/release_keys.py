"""The names of requests, releases, streams and choices: HMACs over all that decides them, in canonical encoding.

Of the policy a key covers what reaches the release: declarations are in the node's text (paths, caps and bounds are
written there), in the kinds of the columns that it reads, in its cells and in the parameters of its mechanisms. Another
declaration leaves a paid answer as it is. A test changes every field of a policy one at a time and compares keys with
what is emitted, drawn and presented.

Why: docs/decisions/keys-cover-what-is-released.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dpproxy.config.key_file import Keys
from dpproxy.engine.planner import BoundNode
from mechanisms.continual import RunningCounter
from mechanisms.randomness import Plain, derive, release_key


def _none(_: bytes) -> bool:
    return False


@dataclass(frozen=True, repr=False)
class Secrets:
    """What releases are made with: the key of their names, the key of their noise, and the text that ranks rows.

    Why: docs/decisions/an-epoch-has-one-key.md.
    """

    release: bytes
    noise: bytes
    rank: str

    @classmethod
    def by_epoch(cls, keys: Keys) -> Callable[[str], Secrets]:
        """Those of each epoch, by its name."""
        made = {
            key: cls(derive(key, "release"), derive(key, "noise"), derive(key, "rank").hex())
            for key in keys.all
        }
        return lambda epoch: made[keys.of(epoch)]


@dataclass(frozen=True)
class ReleaseKeys:
    """Makes keys.

    Attributes:
        secret: the deployment's key of keys, 32 bytes.
        epoch: the nonce of the epoch.
        streams: the nonce of the ledger's streams, which outlive epochs.
        begun: whether the ledger has a release of the stream of a key.
        policy: the owner's tables and columns, which decide what rows the groups of an answer have left out.
    """

    secret: bytes
    epoch: bytes
    streams: bytes
    begun: Callable[[bytes], bool] = _none
    policy: bytes = b""

    def release(self, node: BoundNode, described: Plain) -> bytes:
        """The key of a release; `described`: the mechanisms and their parameters."""
        return self._key("release", self.epoch, node.text, node.scanned, node.domain, described)

    def stream(self, node: BoundNode, mechanism: RunningCounter) -> bytes:
        """The key of a stream: all that decides its events and the law of its noise, but not its releases' times."""
        law = (mechanism.name, mechanism.parameters)
        return self._key("stream", self.streams, node.text, node.scanned, node.domain, node.public, law)

    def choice(self, node: BoundNode, place: int, law: Plain, *, lasting: bool) -> bytes:
        """The key of what is chosen for a total, whatever else is asked with it; `lasting`: in every epoch."""
        text, scanned = node.text_of(place)
        return self._key("choice", b"" if lasting else self.epoch, text, scanned, node.domain, law)

    def measure(self, text: str, scanned: Plain, filters: list[bytes]) -> bytes:
        """The key of a measure of rows under filters, whatever its groups; `filters`: what names each of them."""
        return self._key("measure", self.epoch, self.policy, text, scanned, filters)

    def part(self, identity: Plain) -> bytes:
        """What names a key or a filter of a question."""
        return self._key("part", self.epoch, identity)

    def _key(self, *parts: Plain) -> bytes:
        return release_key(self.secret, parts)
