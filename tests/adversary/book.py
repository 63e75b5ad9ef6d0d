"""What each account knows by what the ledger gave out for it, what that cost to draw, and what it was charged.

It hears the calls by which an answer leaves the ledger, and prices the draws by the mechanisms' own account of them.
What the product believes to be free, paid or reused does not matter here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar

from budget.account import Reservation, Settled, Settlement
from dpproxy.engine.rollback_guard import RollbackGuardedLedger
from tests.replay.recorder import Block, Recorder


@dataclass(eq=False)
class Release:
    """An answer that was drawn, or a stream: its price in rho, and what its draws lose on the two sides.

    `epoch`: the one that it is of, empty for a stream; `counts`: whether it has to be paid for now.
    """

    epoch: str
    rho: Fraction
    lost: Fraction = Fraction(0)
    counts: bool = True


@dataclass
class Book:
    """The account of one side. `reader`: who asks now; `chains`: who pays for each analyst, themselves first."""

    recorder: Recorder
    chains: Mapping[str, Sequence[str]]
    reader: str = ""
    epoch: str = ""
    known: dict[str, set[Release]] = field(default_factory=dict)
    read: set[Release] = field(default_factory=set)
    fresh: list[tuple[Release, list[Block], Sequence[str]]] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    _answers: dict[bytes, list[tuple[bytes | None, Release]]] = field(default_factory=dict)
    _streams: dict[bytes, Release] = field(default_factory=dict)
    _counted: int = 0

    def begin(self, reader: str) -> None:
        """Somebody asks."""
        self.reader, self._counted = reader, 0
        self.read, self.fresh, self.wrong = set(), [], []

    def end(self) -> None:
        """What was drawn and not settled is paid for, too: by a failed statement."""
        blocks = self.recorder.run.blocks[self._counted :]
        if blocks:
            self.fresh.append((Release(self.epoch, _price(blocks)), blocks, self.chains[self.reader]))

    def forget(self) -> None:
        """What was drawn so far has been paid for: what is drawn from now on counts."""
        self.known = {}
        for stream in self._streams.values():
            stream.counts = False

    def settled(self, settlement: Settlement, settled: Settled) -> None:
        """An answer is charged for, drawn just now or stored before."""
        if settled.stored_before:
            self.given(settlement.release_key, settled.answer)
            return
        run = self.recorder.run
        blocks, self._counted = run.blocks[self._counted :], len(run.blocks)
        rho = _price(blocks)
        if settlement.look is not None:
            # What has the same noise is one stream, whatever its name.
            seeds = [run.seeds[int(str(step.path[0]))] for block in blocks for step in block.steps]
            made = self._streams.setdefault((seeds or [settlement.look.key])[0], Release("", Fraction(0)))
            made.rho = max(made.rho, rho) if seeds else made.rho
            self._streams[settlement.look.key] = made
        else:
            made = Release(self.epoch, rho)
        self.fresh.append((made, blocks, self.chains[self.reader]))
        self._answers.setdefault(settled.answer, []).append((settlement.release_key, made))
        self._learn(made)

    def given(self, key: bytes | None, answer: bytes) -> None:
        """An answer leaves the ledger, that of a release key: answers without rows all have the same bytes."""
        drawn = self._answers.get(answer, [])
        current = [(name, release) for name, release in drawn if release.epoch in ("", self.epoch)]
        found = [release for name, release in current if name == key]
        if found:
            self._learn(found[-1])
        elif current:
            self.wrong.append("an answer under another key than it was drawn for")
        else:
            self.wrong.append(
                "an answer of an epoch that is over" if drawn else "an answer that nobody has drawn"
            )

    def _learn(self, release: Release) -> None:
        self.read.add(release)
        for account in self.chains[self.reader]:
            self.known.setdefault(account, set()).add(release)

    def unpaid(self, used: Mapping[str, Fraction]) -> Iterator[str]:
        """Accounts that were charged less than what they know has cost, or than it loses; in rho."""
        for account, known in self.known.items():
            releases = [release for release in known if release.counts]
            rho = sum((release.rho for release in releases), Fraction(0))
            lost = sum((release.lost for release in releases), Fraction(0))
            if max(rho, lost) > used[account]:
                yield (
                    f"{account} knows what costs rho {float(rho):.6g} and loses {float(lost):.6g},"
                    f" and was charged {float(used[account]):.6g}"
                )


_REPLAYED = """
SELECT DISTINCT ON (request_key) request_key, release_key FROM dpproxy_ledger.request
WHERE account = %(account)s AND request_key = ANY(%(keys)s::bytea[]) ORDER BY request_key, number
"""
_CHOSEN = """
SELECT choice_key, release_key FROM dpproxy_ledger.choice
WHERE account = %(account)s AND choice_key = ANY(%(keys)s::bytea[])
"""


def _price(blocks: Sequence[Block]) -> Fraction:
    """What selections and measurements cost, in rho."""
    costs = (block.cost.information * block.eps_per**2 / 8 for block in blocks if block.cost)
    return sum(costs, Fraction(0))


class Guarded(RollbackGuardedLedger):
    """The product's ledger, which tells a book of the answers that leave it."""

    book: ClassVar[Book]

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.stored = self._stored

    def settle(self, reservation: Reservation, settlement: Settlement) -> Settled:
        found = super().settle(reservation, settlement)
        self.book.settled(settlement, found)
        return found

    def replay(self, account: str, request_key: bytes, attributed: str = "") -> bytes | None:
        found = super().replay(account, request_key, attributed)
        if found is not None:
            self.book.given(self._named(_REPLAYED, account, [request_key]).get(request_key), found)
        return found

    def choices(self, account: str, keys: Sequence[bytes]) -> dict[bytes, tuple[int, bytes]]:
        found = super().choices(account, keys)
        named = self._named(_CHOSEN, account, [*found])
        for key, (_, answer) in found.items():
            self.book.given(named.get(key), answer)
        return found

    def _stored(self, release_key: bytes) -> Any:
        found = self._ledger.stored(release_key)
        if found is not None:
            self.book.given(release_key, found[0])
        return found

    def _named(self, statement: str, account: str, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """The release keys of what an account has under keys of its own."""
        return dict(self._ledger._store.rows(statement, account=account, keys=list(keys)))
