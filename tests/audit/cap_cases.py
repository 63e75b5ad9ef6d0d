"""RowCap: whether a result with one person's rows is refused, told from one without them; its price; the mutants."""

from __future__ import annotations

from fractions import Fraction

from mechanisms import row_cap
from mechanisms.randomness import Stream
from mechanisms.row_cap import KEPT, RowCap
from tests.audit.claims import concentrated
from tests.audit.clip_cases import recorded
from tests.audit.experiment import Draw, Experiment
from tests.audit.finding import Check
from tests.audit.fit import Exact
from tests.audit.mutant import Mutant
from tests.mechanisms.goodness import stream

NAME = "RowCap"
EPS, PRICE, ROWS, MOST = Fraction(4), Fraction(8), 3, 1000
Kind = type[RowCap]


def cap_of(kind: Kind = RowCap) -> RowCap:
    return kind(EPS, PRICE, ROWS, MOST)


def passed(kind: Kind = RowCap) -> Experiment:
    """As many rows as the cap, and those of one more person."""
    cap = cap_of(kind)

    def side(rows: int) -> Draw:
        return lambda stream, n: [rows > cap.drawn(stream.child(i)) for i in range(n)]

    claims = concentrated(cap.cost_at_most, EPS, Fraction(0))
    views = {"refused": lambda o: o}
    return Experiment(
        NAME, "a person's rows pass the cap", claims, (side(MOST), side(MOST + ROWS)), views, 4000
    )


def price(kind: Kind = RowCap) -> Exact:
    """What `times` askings and the rest of a release spend together, read off the call of the sampler."""

    def compute() -> tuple[str, bool]:
        cap = kind(EPS, PRICE, ROWS, MOST, 3)
        with recorded(row_cap, "discrete_gaussian") as calls:
            cap.drawn(stream())
        asked = 3 * Fraction(ROWS**2) / (2 * Fraction(calls[0][1]))
        whole = PRICE * EPS**2 / 8
        spent = (asked + PRICE * (KEPT * EPS) ** 2 / 8) / whole
        return f"{float(spent):.6f} of it", Fraction(999, 1000) < spent <= 1

    return Exact(NAME, "price", "at most all of the price, and little less", compute)


class NoNoise(RowCap):
    """The cap as it is."""

    def drawn(self, stream: Stream) -> int:
        return self.most


class OneRow(RowCap):
    """Noise for a person of one row."""

    @property
    def sigma_squared(self) -> Fraction:
        return 1 / (2 * self.rho)


class OncePaid(RowCap):
    """Each asking spends what all of them may."""

    @property
    def sigma_squared(self) -> Fraction:
        return self.rows**2 / (2 * self.rho * self.times)


CASES: tuple[Check, ...] = (passed(), price())
MUTANTS = (
    Mutant("no noise on a cap", passed(NoNoise)),
    Mutant("noise on a cap for one row", passed(OneRow)),
    Mutant("each asking spends all", price(OncePaid)),
)
