"""Which mechanisms answer a node, at what price; decided on public facts only.

Why: docs/decisions/groups-are-found-by-units.md,
docs/decisions/scans-are-refused.md,
docs/decisions/top-k-is-lowered.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction

from budget.account import Charge
from budget.units import micro, shown
from dpproxy.engine import refusals
from dpproxy.engine.group_selection import CountSelection, FullDomain, Selection, is_top_k
from dpproxy.engine.measure_distinct import DistinctMeter
from dpproxy.engine.measure_quantiles import QuantileMeter
from dpproxy.engine.measurement import GroupBound, Measurement, SumMeasurement
from dpproxy.engine.options import ReleaseOptions
from dpproxy.engine.planner import BoundNode
from dpproxy.engine.release_plan import ReleasePlan, Secret, charge, running, total
from dpproxy.engine.select_partitions import PartitionSelection
from dpproxy.engine.select_running import RunningSelection, times_over
from mechanisms import randomness
from mechanisms.choose import NoMechanism, Settings, choose
from mechanisms.continual import UnknownDomainBinary
from mechanisms.count_release import KnownCountRelease, PrivateCountRelease
from mechanisms.histogram import Cost
from mechanisms.known_domain import KnownGumb
from mechanisms.partition_selection import DPSips
from rewriter.ir.measure import Count, DistinctItems, Moment, Quantiles, Running
from rewriter.ir.relation import leaves
from rewriter.logical.plan import UNITS, NodeDraft

MOST_ROWS_TO_FIND_BY = 2
"""Of a unit in a group: with more, groups of unknown domain are found by their units."""


def plan_release(node: BoundNode, terms: ReleaseOptions, secret: Secret) -> ReleasePlan:
    """How a node is answered on these terms. Raises Refusal where no mechanism answers."""
    k = None if node.draft.k is None else min(node.draft.k, terms.max_k)
    if any(running(node)):
        return _stream(node, terms, secret)
    if k == 0 or node.cells == ():
        key = _key(node, (), secret)
        return ReleasePlan(node, terms, None, (), k, key, key, secret)
    refuse_null_bounds(node)
    if node.cells is None and not terms.scans:
        _refuse_scan(node.draft, terms.max_k)
    try:
        return _ask(node, terms, k, secret)
    except ValueError:
        raise refusals.beyond_limits() from None


def _refuse_scan(draft: NodeDraft, max_k: int) -> None:
    """Raises Refusal for a bare list of values that was most likely asked for by a tool: decided by its text alone.

    It asks for more of them than any answer may have, or of a column that the policy does not name.
    """
    if draft.listing is None:
        return
    alias, name = next(iter(leaves(*draft.keys)))
    table = draft.relation.source(alias).table
    column = table.column(name)
    limit = draft.listing.limit
    if (limit is not None and limit > max_k) or column is None or not column.declared:
        raise refusals.scan(table, name)


def _stream(node: BoundNode, terms: ReleaseOptions, secret: Secret) -> ReleasePlan:
    """A running count. Where its past never changes, one stream goes on through all epochs, and times that are not
    over are left for later; else every epoch has a stream of its own, which is looked at once."""
    (measure,) = node.draft.measures
    assert isinstance(measure, Running)
    settings = terms.settings
    _refuse_laplace(settings, "a running count over items of unknown domain")
    if not settings.delta_per:
        raise refusals.no_delta()
    try:
        begin = None if node.lasting is None else terms.begin
        at = len(node.times)
        if node.lasting is not None and begin is not None:
            at = times_over(node.times, node.lasting, begin)
        horizon = max(len(node.times), 1)
        mechanism = UnknownDomainBinary(
            settings.eps_per, settings.delta_per, 1, measure.events, horizon, once=False
        )
        selection = RunningSelection(node, mechanism, at) if at else None
    except ValueError:
        raise refusals.beyond_limits() from None
    key = _key(node, None if selection is None else selection.parameters, secret)
    stream = _stream_key(node, mechanism, secret) if begin is not None else None
    return ReleasePlan(node, terms, selection, (), None, key, key, secret, stream)


def _stream_key(node: BoundNode, mechanism: UnknownDomainBinary, secret: Secret) -> bytes:
    """HMAC over all that decides a stream's events and its law, without the times at which it is looked at."""
    _, fingerprint, key, nonce = secret
    law = repr((mechanism.name, mechanism.parameters)).encode()
    return randomness.release_key(
        key, [b"stream", nonce, node.text.encode(), node.domain, node.public, fingerprint, law]
    )


def smaller(one: ReleasePlan, left: Charge) -> ReleasePlan:
    """The same with as many groups as `left` pays for, at least one; unchanged where fewer cost no less.

    A query without LIMIT may spend what is left, and no more.
    """
    if one.selection is None or isinstance(one.selection, RunningSelection) or _fits(one, left):
        return one
    if one.k is None:
        return _thrifty(one, left)
    low, high = 1, one.k
    while low < high:
        middle = (low + high + 1) // 2
        fits = _fits(_ask(one.node, one.terms, middle, one.secret), left)
        low, high = (middle, high) if fits else (low, middle - 1)
    least = _ask(one.node, one.terms, low, one.secret)
    return replace(least, request_key=one.request_key) if _fits(least, left) else one


def _thrifty(one: ReleasePlan, left: Charge) -> ReleasePlan:
    """The same on an allowance of what is left, where it is enough for a start."""
    try:
        least = _ask(one.node, one.terms.within(left), None, one.secret)
    except ValueError:
        return one
    return replace(least, request_key=one.request_key) if _fits(least, left) else one


def _fits(one: ReleasePlan, left: Charge) -> bool:
    return left.covers(charge(one.cost_at_most))


def _ask(node: BoundNode, terms: ReleaseOptions, k: int | None, secret: Secret) -> ReleasePlan:
    draft, place = node.draft, node.draft.selecting
    if node.cells is None:
        if not terms.settings.delta_per:
            raise refusals.no_delta()
        if draft.measures and (place is None or _better_by_units(node, place)):
            place = len(draft.measures)
            node = replace(node, draft=replace(draft, measures=(*draft.measures, UNITS)))
    selection = _selection(node, terms, place, k) if draft.measures else _listed(node, terms)
    found = () if isinstance(selection, FullDomain) or place is None else (place,)
    restricted = not is_top_k(selection)
    meters = _meters(node, terms, found, GroupBound(node.delta0 if restricted else None), restricted)
    _refuse_costly(meters, max(selection.most, 1), terms)
    described = [selection.parameters, *(m.parameters(selection.most) for m in meters)]
    key = _key(node, described, secret)
    return ReleasePlan(node, terms, selection, meters, k, key, key, secret)


def _better_by_units(node: BoundNode, place: int) -> bool:
    """Whether groups are found by their units, and a count of rows is measured after: the threshold on rows is tau
    times that on units, and a unit rarely has tau rows; it costs the count once more.

    Not where LIMIT asks for the largest by that count out of any number of groups.
    """
    count = node.draft.measures[place]
    return isinstance(count, Count) and count.tau > MOST_ROWS_TO_FIND_BY and node.delta0 is not None


def _listed(node: BoundNode, terms: ReleaseOptions) -> Selection:
    """The groups of a query without aggregates: the known domain, for nothing, or those that are present."""
    if node.cells is not None and not terms.present:
        return FullDomain(node.cells)
    if not terms.settings.delta_per:
        raise refusals.no_delta()
    return _by_weight(node, terms)


def _selection(node: BoundNode, terms: ReleaseOptions, place: int | None, k: int | None) -> Selection:
    """How the groups are found: `place` is the count that may select, `k` how many are wanted in top-k form."""
    draft, settings = node.draft, terms.settings
    if place is None:
        assert node.cells is not None
        return FullDomain(node.cells)
    count = draft.measures[place]
    assert isinstance(count, Count)
    size = None if node.cells is None else len(node.cells)
    ordered = draft.order_by == place
    try:
        mechanism = choose(
            settings,
            domain_size=size,
            delta0=node.delta0,
            tau=count.tau,
            k=k if ordered else None,
            counts=_shown(draft, place, ordered),
        )
    except NoMechanism:
        if len(draft.measures) == 1 and settings.noise == "gaussian":
            return _count_release(node, terms, count.tau)
        if node.cells is not None:
            return FullDomain(node.cells)
        raise refusals.needs_limit() from None
    if node.cells is not None and not isinstance(mechanism, KnownGumb):
        return FullDomain(node.cells)
    most = k if k is not None and mechanism.noise_family == "gumbel" else (mechanism.fetch or 1) - 1
    return CountSelection(node, place, mechanism, most)


def _shown(draft: NodeDraft, place: int, ordered: bool) -> bool:
    """Whether the count that selects the groups has to come out: for itself, or for what is computed from it."""
    using = [o.function for o in draft.outputs if place in o.measures]
    return any(f != "count" for f in using) or (draft.counts if ordered else bool(using))


def _count_release(node: BoundNode, terms: ReleaseOptions, tau: int) -> CountSelection:
    """As many counts as the allowance pays for, where neither a bound nor a LIMIT says how many there may be.

    Not with noise = "laplace", whose guarantee counts steps of bounded range.
    """
    eps_per, delta_per = terms.settings.eps_per, terms.settings.delta_per
    most = _allowed(terms, terms.kinds.count_release, "counts of groups without LIMIT")
    mechanism: KnownCountRelease | PrivateCountRelease
    if node.cells is not None:
        mechanism = KnownCountRelease(
            eps_per=eps_per,
            information=most.information,
            tau=tau,
            relative_error=terms.relative_error,
            cells=len(node.cells),
        )
        return CountSelection(node, 0, mechanism, len(node.cells))
    mechanism = PrivateCountRelease(
        eps_per=eps_per,
        information=most.information,
        tau=tau,
        relative_error=terms.relative_error,
        delta_per=delta_per,
        calls=most.calls,
    )
    return CountSelection(node, 0, mechanism, mechanism.k_bar)


def _meters(
    node: BoundNode, terms: ReleaseOptions, found: tuple[int, ...], changed: GroupBound, restricted: bool
) -> tuple[Measurement, ...]:
    """The meters of all measures but those that selecting has `found`.

    Where only the selection bounds the groups of a unit, each one is paid for unless the analyst asks for cheap.
    """
    settings = terms.settings
    if not restricted and settings.spend is None:
        settings = replace(settings, spend="accurate")
    left = [(n, m) for n, m in enumerate(node.draft.measures) if n not in found]
    sums = tuple(n for n, m in left if isinstance(m, (Count, Moment)))
    meters: list[Measurement] = [SumMeasurement(node, sums, settings, changed)] if sums else []
    for place, measure in left:
        if isinstance(measure, Quantiles):
            meters.append(QuantileMeter(node, place, settings, changed, terms.bins))
        elif isinstance(measure, DistinctItems):
            _refuse_laplace(settings, "a distinct count of values")
            meters.append(DistinctMeter(node, place, terms, changed))
    return tuple(meters)


def _by_weight(node: BoundNode, terms: ReleaseOptions) -> PartitionSelection:
    """Partition selection on the query's allowance."""
    settings = terms.settings
    _refuse_laplace(settings, "the list of groups without an aggregate")
    most = _allowed(terms, terms.kinds.partition_selection, "a list of groups without an aggregate")
    delta0 = terms.max_items if node.delta0 is None else min(node.delta0, terms.max_items)
    mechanism = DPSips(
        settings.eps_per, settings.delta_per, most.information, most.calls, delta0, terms.floor
    )
    return PartitionSelection(node, mechanism)


def _allowed(terms: ReleaseOptions, most: Fraction | None, what: str) -> Cost:
    """What a query of a costly kind may spend; PV018 where the owner does not offer it."""
    if most == 0:
        raise refusals.not_allowed(what, _units(most))
    return terms.kind(most)


def _refuse_costly(meters: Iterable[Measurement], groups: int, terms: ReleaseOptions) -> None:
    """PV018 for distinct counts that cost more than the owner allows."""
    most = terms.kinds.distinct_count
    needed = total(m.cost(groups) for m in meters if isinstance(m, DistinctMeter)).information
    if most is not None and needed > most:
        raise refusals.not_allowed("distinct counts", _units(most), _units(needed))


def _units(information: Fraction) -> str:
    return f"{shown(micro(information))} information units"


def _refuse_laplace(settings: Settings, what: str) -> None:
    """With noise = "laplace" the guarantee counts steps of bounded range, which this is not made of."""
    if settings.noise == "laplace":
        raise refusals.not_with_laplace(what)


def refuse_null_bounds(node: BoundNode) -> None:
    """Refuse sums and quantiles whose bounds are parameters, and NULL."""
    for measure in node.draft.measures:
        if isinstance(measure, (Moment, Quantiles)) and measure.value.lo is None and not node.waits:
            raise refusals.null_bound()


def _key(node: BoundNode, described: object, secret: Secret) -> bytes:
    """HMAC over all that decides the answer's law: epoch, node, domain, policy, mechanisms and their parameters."""
    nonce, fingerprint, key, _ = secret
    parts = [nonce, node.text.encode(), node.domain, fingerprint, repr(described).encode()]
    return randomness.release_key(key, parts)
