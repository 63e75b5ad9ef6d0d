"""A node's released rows, as they are stored with their payment and shown."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from fractions import Fraction

from budget.account import Charge
from mechanisms.histogram import Cost

Texts = tuple[str | None, ...]


@dataclass(frozen=True)
class Result:
    """Released columns: `keys` and `counts`, each a tuple a column, all of one length.

    `stddev` of each count's noise (None: the counts are ranks, since none was asked for), `cost` what the
    release cost, `lowered` the number of groups that could come out where it is less than LIMIT asked for.
    What follows is not stored: `charged` and `left` of this time's payment, `replayed` for none.
    """

    keys: tuple[Texts, ...]
    counts: tuple[tuple[int, ...], ...]
    mechanism: str
    stddev: tuple[float | None, ...]
    tau: int
    cost: Cost
    lowered: int | None = None
    charged: Charge | None = None
    left: Charge | None = None
    replayed: bool = False

    @staticmethod
    def nothing(keys: int, counts: int) -> Result:
        """No rows, for nothing.

        >>> Result.nothing(1, 1).counts
        ((),)
        """
        free = Cost(Fraction(0), Fraction(0))
        return Result(((),) * keys, ((),) * counts, "nothing", (), 1, free)

    def dump(self) -> bytes:
        """The bytes that the ledger stores."""
        cost = [str(self.cost.information), str(self.cost.calls)]
        stored = [self.keys, self.counts, self.mechanism, self.stddev, self.tau, cost, self.lowered]
        return json.dumps(stored, separators=(",", ":")).encode()

    @staticmethod
    def load(stored: bytes) -> Result:
        """What `dump` stored.

        >>> Result.load(Result.nothing(2, 1).dump()) == Result.nothing(2, 1)
        True
        """
        keys, counts, mechanism, stddev, tau, cost, lowered = json.loads(stored)
        return Result(
            tuple(map(tuple, keys)),
            tuple(map(tuple, counts)),
            mechanism,
            tuple(stddev),
            tau,
            Cost(Fraction(cost[0]), Fraction(cost[1])),
            lowered,
        )

    def suppressed(self, least: int) -> Result:
        """Without the rows that have a count below `least` (post-processing); ranks are no counts.

        >>> ranked = Result((("a", "b"),), ((2, 1),), "UnkGumb", (None,), 1, Cost(Fraction(3), Fraction(1)))
        >>> ranked.suppressed(10).keys
        (('a', 'b'),)
        """
        if least <= 0 or None in self.stddev:
            return self
        kept = [n for n in range(len(self.counts[0])) if all(c[n] >= least for c in self.counts)]
        keys = tuple(tuple(k[n] for n in kept) for k in self.keys)
        return replace(self, keys=keys, counts=tuple(tuple(c[n] for n in kept) for c in self.counts))

    def noise(self) -> str:
        """The standard deviation of each count's noise, for people."""
        return ", ".join("no counts" if s is None else f"{s:.1f}" for s in self.stddev)

    def notice(self) -> str:
        """One line for the analyst: mechanism, noise, charge, what is left."""
        if self.mechanism == "nothing":
            return "dpproxy: no rows can come out, nothing was charged"
        parts = [f"{self.mechanism}, noise of standard deviation {self.noise()}"]
        if self.tau > 1:
            parts.append(f"at most {self.tau} rows of one unit count in a group")
        if self.mechanism.startswith("Unk") and not self.counts[0]:
            parts.append("no group is large enough to be shown")
        if self.lowered is not None:
            parts.append(f"at most {self.lowered} rows, fewer than LIMIT asks for")
        if self.replayed:
            parts.append("answered before in this epoch: no charge")
        elif self.charged is not None:
            parts.append(f"charged {self.charged}")
            parts += [f"{self.left} left"] if self.left is not None else []
        return "dpproxy: " + "; ".join(parts)
