"""What a session remembers of its last answer, for tools that discard notices: dpproxy.last_release.

A session that has had no answer reads the account's last releases, as the ledger has them.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Self

from budget.account import Charge, ReleaseRow
from budget.units import micro, units
from dpproxy.engine.result.released_table import ReleasedTable

MOST = 10
"""Releases of earlier sessions that are shown."""


@dataclass(frozen=True)
class LastRow:
    """One release; amounts are in units. What the ledger does not keep is None.

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
        at: when it was answered.
    """

    mechanism: str
    stddev: str | None
    noise: str
    threshold: int | None
    information: Fraction
    calls: Fraction
    information_left: Fraction | None
    calls_left: Fraction | None
    replayed: bool
    notice: str
    warning: str | None
    at: dt.datetime

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
            at=dt.datetime.now(dt.UTC),
        )

    @classmethod
    def kept(cls, row: ReleaseRow) -> Self:
        """The row of a release as the ledger has it."""
        charged = Charge(micro(row.information), micro(row.calls))
        free = row.replayed and charged == Charge(0, 0)
        said = [row.mechanism, row.noise, "answered before: no charge" if free else f"charged {charged}"]
        return cls(
            row.mechanism,
            None,
            row.noise,
            None,
            row.information,
            row.calls,
            None,
            None,
            row.replayed,
            "dpproxy: " + "; ".join(filter(None, said)),
            None,
            row.time,
        )


class LastRelease:
    """The rows of one session's last answer; its steps run one after the other."""

    def __init__(self) -> None:
        self.rows: tuple[LastRow, ...] = ()

    def note(self, results: Iterable[ReleasedTable]) -> None:
        """Replaces the rows, unless the answer had no release."""
        rows = tuple(map(LastRow.of, results))
        self.rows = rows or self.rows

    def again(self, rows: Iterable[LastRow]) -> None:
        """Replaces the rows by those of an answer that is given again."""
        now = dt.datetime.now(dt.UTC)
        self.rows = tuple(replace(row, at=now) for row in rows)
