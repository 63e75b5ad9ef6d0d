"""Pay what you get: a sequence of releases under one budget. The proof sheet is pay_what_you_get.md."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mechanisms.histogram import Cost, Histogram, Mechanism, Release
from mechanisms.randomness import Stream


def pay_what_you_get(
    budget: Cost, calls: Iterable[tuple[Mechanism, Histogram]], stream: Stream
) -> Iterator[Release]:
    """Run releases one after the other, each charged for the rows it released, until the next could exceed the budget.

    >>> from fractions import Fraction
    >>> import numpy as np
    >>> from mechanisms.unknown_domain import UnkGumb
    >>> top = UnkGumb(Fraction(1, 2), Fraction(1, 10**6), tau=1, k=2, d_bar=9, counts=False, index_step=False)
    >>> histograms = [Histogram(np.array(counts), complete=True) for counts in ([900, 800], [5], [900, 800])]
    >>> calls = [(top, histogram) for histogram in histograms]
    >>> releases = pay_what_you_get(Cost(Fraction(4), Fraction(9)), calls, Stream(bytes(32)))
    >>> [(release.indices.tolist(), int(release.cost.information)) for release in releases]
    [([0, 1], 2), ([], 1)]

    `budget`: what all of them may cost together; `calls`: mechanisms and their histograms, taken one by one,
    so that they may depend on what came out before; `stream`: one that was not used for this before
    (ValueError). Before each call its `cost_at_most` is reserved, afterwards its actual cost is settled:
    with UnkGumb that is Unknown Domain Framework, Algorithm 4 (pay_what_you_get.md, Theorem 1).
    """
    left = budget
    for number, (mechanism, histogram) in enumerate(calls):
        if not _covers(left, mechanism.cost_at_most):
            return
        release = mechanism.release(histogram, stream.child("call", number))
        if not _covers(mechanism.cost_at_most, release.cost):
            raise AssertionError("a release cost more than was reserved")
        left = Cost(left.information - release.cost.information, left.calls - release.cost.calls)
        yield release


def _covers(budget: Cost, cost: Cost) -> bool:
    return cost.information <= budget.information and cost.calls <= budget.calls
