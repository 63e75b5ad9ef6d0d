"""What a DP node will cost and under which keys its answer is stored; decided on public facts only."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from budget.account import Charge
from budget.units import micro
from dpproxy import refusals
from dpproxy.backends.base import Fetched
from dpproxy.planning import PlannedNode
from dpproxy.result import Result
from mechanisms import randomness
from mechanisms.choose import NoMechanism, Settings, choose
from mechanisms.histogram import Cost, Histogram, Mechanism, Release
from rewriter.draft import NodeDraft
from rewriter.measure import Count, named
from rewriter.plan import HistogramQuery

Secret = tuple[bytes, bytes, bytes]
"""(epoch nonce, policy fingerprint, release-key key)."""


@dataclass(frozen=True)
class Ask:
    """A node with its mechanisms, one a count; none where nothing can come out (LIMIT 0, an empty domain).

    `k` is the number of groups that can come out in top-k form. `request_key` says what was asked,
    `release_key` what is released: they differ where the account can pay for fewer groups only.
    """

    node: PlannedNode
    settings: Settings
    mechanisms: tuple[Mechanism, ...]
    k: int | None
    request_key: bytes
    release_key: bytes
    secret: Secret

    @property
    def cost_at_most(self) -> Cost:
        """The most that the release can cost, whatever the data."""
        return total(m.cost_at_most for m in self.mechanisms)

    @property
    def name(self) -> str:
        """The mechanism's name, with the number of counts if there are several."""
        names = [m.name for m in self.mechanisms]
        return names[0] if len(names) == 1 else f"{names[0]} x{len(names)}"

    @property
    def lowered(self) -> int | None:
        """The number of groups that can come out where it is less than LIMIT asks for."""
        asked = self.node.draft.k
        top = any(m.name.endswith("Gumb") for m in self.mechanisms)
        return self.k if top and self.k is not None and asked is not None and self.k < asked else None

    @property
    def query(self) -> HistogramQuery:
        """The SQL that the backend will run."""
        return self.node.query(self.mechanisms[0].fetch)

    def release(self, fetched: Fetched, stream: randomness.Stream) -> Result:
        """The private answer from what the backend returned: a histogram a count."""
        known = self.node.cells is not None
        keys = 1 if known else len(self.node.draft.keys)
        limit = self.mechanisms[0].fetch
        complete = known or limit is None or fetched.rows < limit
        releases = []
        for number, mechanism in enumerate(self.mechanisms):
            counts = fetched.counts(keys + number)
            if known:
                counts = _in_cell_order(counts, fetched.counts(0), len(self.node.cells or ()))
            releases.append(mechanism.release(Histogram(counts, complete), stream.child("measure", number)))
        labels = (
            self.node.cells if known else tuple(zip(*(fetched.texts(n) for n in range(keys)), strict=True))
        )
        return self._result(releases, labels or ())

    def _result(self, releases: list[Release], labels: tuple[tuple[str | None, ...], ...]) -> Result:
        indices = releases[0].indices.tolist()
        rows = [labels[i] for i in indices]
        counts = [list(range(len(rows), 0, -1)) if r.values is None else r.values.tolist() for r in releases]
        if self.node.cells is None and releases[0].values is not None:
            order = sorted(
                range(len(rows)), key=lambda n: (-counts[0][n], tuple((t is None, t or "") for t in rows[n]))
            )
            rows, counts = [rows[n] for n in order], [[c[n] for n in order] for c in counts]
        return Result(
            keys=tuple(tuple(r[n] for r in rows) for n in range(len(self.node.draft.keys))),
            counts=tuple(tuple(c) for c in counts),
            mechanism=self.name,
            stddev=tuple(None if r.values is None else r.stddev for r in releases),
            tau=max(c.tau for c in counts_of(self.node.draft)),
            cost=total(r.cost for r in releases),
            lowered=self.lowered,
        )


def counts_of(node: NodeDraft) -> tuple[Count, ...]:
    """The measures of a node, all of which are counts."""
    return tuple(m for m in node.measures if isinstance(m, Count))


def _refuse_unwired(node: NodeDraft) -> None:
    if not node.measures:
        raise refusals.not_available("the list of groups without an aggregate (partition selection)")
    for measure in node.measures:
        if not isinstance(measure, Count) or measure.items:
            raise refusals.not_available(f"an aggregate that needs {named(measure)}")
    if any(o.function != "count" or o.factor != 1 for o in node.outputs):
        raise refusals.not_available("arithmetic of an aggregate")


def total(costs: object) -> Cost:
    """The sum of costs."""
    listed = list(costs)  # type: ignore[call-overload]
    return Cost(
        sum((c.information for c in listed), Fraction(0)), sum((c.calls for c in listed), Fraction(0))
    )


def charge(cost: Cost) -> Charge:
    """A cost in whole micro-units, rounded up."""
    return Charge(micro(cost.information), micro(cost.calls))


def _in_cell_order(counts: np.ndarray, cells: np.ndarray, size: int) -> np.ndarray:
    """Counts by cell number; ValueError unless every cell came back once."""
    ordered = np.full(size, -1, dtype=np.int64)
    if counts.size != size or cells.min(initial=1) < 1 or cells.max(initial=0) > size:
        raise ValueError("the backend did not return one row a cell")
    ordered[cells - 1] = counts
    if ordered.min(initial=0) < 0:
        raise ValueError("the backend did not return one row a cell")
    return ordered


def ask(node: PlannedNode, settings: Settings, max_k: int, secret: Secret) -> Ask:
    """The mechanisms of a node; `max_k` caps LIMIT. Raises Refusal where none is available."""
    k = None if node.draft.k is None else min(node.draft.k, max_k)
    if k == 0 or node.cells == ():
        return Ask(node, settings, (), k, _key(node, (), secret), b"", secret)
    _refuse_unwired(node.draft)
    several = len(node.draft.measures) > 1
    if node.cells is None and several:
        raise refusals.one_aggregate()
    if node.cells is None and not settings.delta_per:
        raise refusals.no_delta()
    mechanisms = _mechanisms(node, settings, None if several else k)
    key = _key(node, mechanisms, secret)
    return Ask(node, settings, mechanisms, k, key, key, secret)


def smaller(one: Ask, left: Charge) -> Ask:
    """The same with as many groups as `left` pays for, at least one; unchanged where fewer cost no less."""
    if one.k is None or _fits(one.mechanisms, left):
        return one
    low, high = 1, one.k
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (
            (middle, high) if _fits(_mechanisms(one.node, one.settings, middle), left) else (low, middle - 1)
        )
    mechanisms = _mechanisms(one.node, one.settings, low)
    if not _fits(mechanisms, left):
        return one
    return replace(one, mechanisms=mechanisms, k=low, release_key=_key(one.node, mechanisms, one.secret))


def _fits(mechanisms: tuple[Mechanism, ...], left: Charge) -> bool:
    return left.covers(charge(total(m.cost_at_most for m in mechanisms)))


def _mechanisms(node: PlannedNode, settings: Settings, k: int | None) -> tuple[Mechanism, ...]:
    size = None if node.cells is None else len(node.cells)
    try:
        return tuple(
            choose(settings, domain_size=size, delta0=node.delta0, tau=m.tau, k=k, counts=node.draft.counts)
            for m in counts_of(node.draft)
        )
    except NoMechanism:
        raise refusals.needs_limit() from None


def _key(node: PlannedNode, mechanisms: tuple[Mechanism, ...], secret: Secret) -> bytes:
    """HMAC over all that decides the answer's law: epoch, node, domain, policy, mechanism and its parameters."""
    nonce, fingerprint, key = secret
    described = [repr((m.name, m.parameters)).encode() for m in mechanisms]
    return randomness.release_key(key, [nonce, node.text.encode(), node.domain, fingerprint, *described])
