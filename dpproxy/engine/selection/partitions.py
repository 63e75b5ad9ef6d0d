"""Names of groups: partition selection in rounds over the backend."""

from __future__ import annotations

from dataclasses import dataclass

from dpproxy.engine.planner import BoundNode
from dpproxy.engine.selection.groups import Fetch, SelectedGroups
from mechanisms.histogram import Cost
from mechanisms.partition_selection import WeightedGaussian
from mechanisms.randomness import Plain, Stream
from rewriter.plan import Cells, HistogramQuery


@dataclass(frozen=True)
class PartitionSelection:
    """The groups that enough units are in, each round among those that were neither released nor set aside before.

    Only labels leave, in the order of their texts. `most`: how many of them are measured afterwards, 0 where nothing
    is; the names beyond that are left out, which the data have no part in.
    """

    node: BoundNode
    mechanism: WeightedGaussian
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
        return (self.node.weights((), self.mechanism.delta0, 0, self.mechanism.rounds[0].least),)

    def find(self, fetch: Fetch, stream: Stream) -> SelectedGroups:
        released: list[tuple[str | None, ...]] = []
        aside: list[tuple[str | None, ...]] = []  # private: names of groups that do not come out
        keys = len(self.node.aggregate.keys)
        for turn, this in enumerate(self.mechanism.rounds):
            left_out = (*released, *aside)
            fetched = fetch(self.node.weights(left_out, self.mechanism.delta0, turn, this.least))
            for names, chosen in zip(
                (released, aside),
                this.sort_out(fetched.counts(keys), stream.child("round", turn)),
                strict=True,
            ):
                names += zip(*(fetched.texts(n, chosen) for n in range(keys)), strict=True)
        cells = _ordered(released)
        return SelectedGroups(cells[: self.most] if self.most else cells, self.mechanism.cost_at_most)


def _ordered(rows: list[tuple[str | None, ...]]) -> Cells:
    return tuple(sorted(rows, key=lambda row: tuple((text is None, text or "") for text in row)))
