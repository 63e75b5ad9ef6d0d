"""What a session remembers of its last answer, for tools that discard notices: dpproxy.last_release."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Self

from budget.units import units
from dpproxy.engine.released_table import ReleasedTable


@dataclass(frozen=True)
class LastRow:
    """One release of the session's last answer; amounts are in units.

    Attributes:
        mechanism: the mechanisms' names.
        stddev: the standard deviation of each column's noise.
        noise: standard deviation and 95% interval of each column by its name.
        threshold: about what a count had to exceed to be released, None where every group is.
        information, calls: what was charged.
        information_left, calls_left: the balance after it, None for a replay.
        replayed: a paid answer was returned without a charge.
        notice: the text of the notice.
        warning: the text of the warning that rows are not told from noise, None without one.
    """

    mechanism: str
    stddev: str
    noise: str
    threshold: int | None
    information: Fraction
    calls: Fraction
    information_left: Fraction | None
    calls_left: Fraction | None
    replayed: bool
    notice: str
    warning: str | None

    @classmethod
    def of(cls, result: ReleasedTable) -> Self:
        """The row of a release."""
        charged, left = result.charged, result.left
        return cls(
            mechanism=result.mechanism,
            stddev=result.deviations(),
            noise=result.noise(),
            threshold=result.threshold,
            information=units(charged.information) if charged else Fraction(0),
            calls=units(charged.calls) if charged else Fraction(0),
            information_left=units(left.information) if left else None,
            calls_left=units(left.calls) if left else None,
            replayed=result.replayed,
            notice=result.notice(),
            warning=result.warning() or None,
        )


class LastRelease:
    """The rows of one session's last answer; its steps run one after the other."""

    def __init__(self) -> None:
        self.rows: tuple[LastRow, ...] = ()

    def note(self, results: Iterable[ReleasedTable]) -> None:
        """Replaces the rows, unless the answer had no release."""
        rows = tuple(map(LastRow.of, results))
        self.rows = rows or self.rows
