"""A node's released rows, as they are stored with their payment and shown."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from fractions import Fraction

from budget.account import Charge
from dpproxy.outputs import Shown, Value
from mechanisms.histogram import Cost

Texts = tuple[str | None, ...]


@dataclass(frozen=True)
class Result:
    """Released rows: `keys`, a tuple of texts a column, and `columns`, the outputs; all are of one length.

    `least` is the smallest released count of each row, empty where no count was released; `notes` are
    said with the answer; `cost` what the release cost, `lowered` the number of groups that could come out where
    it is less than LIMIT asked for. What follows is not stored: `charged` and `left` of this time's
    payment, `replayed` for none.
    """

    keys: tuple[Texts, ...]
    columns: tuple[Shown, ...]
    least: tuple[int, ...]
    mechanism: str
    notes: tuple[str, ...]
    cost: Cost
    lowered: int | None = None
    charged: Charge | None = None
    left: Charge | None = None
    replayed: bool = False

    @staticmethod
    def nothing(keys: int, columns: int) -> Result:
        """No rows, for nothing.

        >>> Result.nothing(1, 1).columns
        (Shown(values=(), deviations=()),)
        """
        free = Cost(Fraction(0), Fraction(0))
        return Result(((),) * keys, (Shown(()),) * columns, (), "nothing", (), free)

    def dump(self) -> bytes:
        """The bytes that the ledger stores."""
        stored = {
            "keys": self.keys,
            "columns": [[[_stored(v) for v in c.values], c.deviations] for c in self.columns],
            "least": self.least,
            "mechanism": self.mechanism,
            "notes": self.notes,
            "cost": [str(self.cost.information), str(self.cost.calls)],
            "lowered": self.lowered,
        }
        return json.dumps(stored, separators=(",", ":")).encode()

    @staticmethod
    def load(stored: bytes) -> Result:
        """What `dump` stored.

        >>> Result.load(Result.nothing(2, 1).dump()) == Result.nothing(2, 1)
        True
        """
        read = json.loads(stored)
        return Result(
            tuple(map(tuple, read["keys"])),
            tuple(Shown(tuple(map(_loaded, v)), tuple(d)) for v, d in read["columns"]),
            tuple(read["least"]),
            read["mechanism"],
            tuple(read["notes"]),
            Cost(Fraction(read["cost"][0]), Fraction(read["cost"][1])),
            read["lowered"],
        )

    def suppressed(self, least: int) -> Result:
        """Without the rows that have a count below `least` (post-processing).

        >>> free = Cost(Fraction(0), Fraction(0))
        >>> shown = Result((("a", "b"),), (Shown((2, 30)),), (2, 30), "KnownLap", (), free)
        >>> shown.suppressed(10).keys
        (('b',),)
        """
        if least <= 0 or not self.least:
            return self
        kept = [n for n, count in enumerate(self.least) if count >= least]
        columns = tuple(
            Shown(tuple(c.values[n] for n in kept), tuple(c.deviations[n] for n in kept if c.deviations))
            for c in self.columns
        )
        keys = tuple(tuple(k[n] for n in kept) for k in self.keys)
        return replace(self, keys=keys, columns=columns, least=tuple(self.least[n] for n in kept))

    def noise(self) -> str:
        """The standard deviation of each output's noise, for people; empty where none is known."""
        return ", ".join(filter(None, map(_noise, self.columns)))

    def notice(self) -> str:
        """One line for the analyst: mechanism, noise, charge, what is left."""
        if self.mechanism == "nothing":
            return "dpproxy: no rows can come out, nothing was charged"
        noise = self.noise()
        parts = [f"{self.mechanism}, noise of standard deviation {noise}" if noise else self.mechanism]
        parts += self.notes
        if self.lowered is not None:
            parts.append(f"at most {self.lowered} rows, fewer than LIMIT asks for")
        if self.replayed:
            parts.append("answered before in this epoch: no charge")
        elif self.charged is not None:
            parts.append(f"charged {self.charged}")
            parts += [f"{self.left} left"] if self.left is not None else []
        return "dpproxy: " + "; ".join(parts)


def _noise(column: Shown) -> str:
    known = [d for d in column.deviations if d == d]
    if not known:
        return ""
    low, high = min(known), max(known)
    return f"{high:.1f}" if f"{low:.1f}" == f"{high:.1f}" else f"{low:.1f} to {high:.1f}"


def _stored(value: Value) -> int | str | None:
    return str(value) if isinstance(value, Fraction) else value


def _loaded(stored: int | str | None) -> Value:
    return Fraction(stored) if isinstance(stored, str) else stored
