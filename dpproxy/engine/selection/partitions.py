"""Names of groups: partition selection in rounds over the backend."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from dpproxy.engine.planner import BoundNode
from dpproxy.engine.selection.groups import Fetch, SelectedGroups, capped
from mechanisms.histogram import Cost
from mechanisms.partition_selection import WeightedGaussian
from mechanisms.randomness import Plain, Stream
from mechanisms.row_cap import RowCap
from rewriter.plan import Cells, HistogramQuery


@dataclass(frozen=True)
class PartitionSelection:
    """The groups that enough units are in, each round among those that were neither released nor set aside before.

    Only labels leave, in the order of their texts. `cap`: of the labels of a round; `most`: how many of those that
    leave are measured afterwards, 0 where nothing is; the names beyond that are left out, which the data have no part
    in.
    """

    node: BoundNode
    mechanism: WeightedGaussian
    cap: RowCap
    most: int = 0

    @property
    def name(self) -> str:
        return self.mechanism.name

    @property
    def parameters(self) -> Plain:
        return self.mechanism.name, self.mechanism.parameters

    @property
    def cost_at_most(self) -> Cost:
        return self.mechanism.cost_at_most

    @property
    def rounds(self) -> int:
        return len(self.mechanism.rounds)

    def queries(self) -> tuple[HistogramQuery, ...]:
        return (self._weights((), 0),)

    def _weights(self, left_out: Sequence[str], turn: int) -> HistogramQuery:
        rounds, largest = self.mechanism.rounds, self.mechanism.largest
        return self.node.weights(
            left_out, self.mechanism.delta0, turn, rounds[turn].least, largest, marked=turn + 1 < len(rounds)
        )

    def find(self, fetch: Fetch, stream: Stream) -> SelectedGroups:
        released: dict[tuple[str | None, ...], None] = {}
        left_out: list[str] = []  # private, as groups that are set aside are among them
        keys = len(self.node.aggregate.keys)
        for turn, this in enumerate(self.mechanism.rounds):
            query = self._weights(left_out, turn)
            fetched = capped(query, self.cap, fetch, stream.child("cap", turn))
            out, aside = this.sort_out(fetched.counts(keys), stream.child("round", turn))
            released |= dict.fromkeys(zip(*(fetched.texts(n, out) for n in range(keys)), strict=True))
            if turn + 1 < self.rounds:
                left_out += filter(None, fetched.texts(keys + 1, np.concatenate([out, aside])))
        cells = _ordered(released)
        return SelectedGroups(cells[: self.most] if self.most else cells, self.mechanism.cost_at_most)


def _ordered(rows: Iterable[tuple[str | None, ...]]) -> Cells:
    return tuple(sorted(rows, key=lambda row: tuple((text is None, text or "") for text in row)))
