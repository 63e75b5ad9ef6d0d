"""Pricing: by which mechanisms a node is answered, and at what price; decided on public facts only.

Why it exists. A node says what is asked: groups, and measures of each. There are several ways to release that, with
different noise, different prices and different conditions. This module takes the first that fits, refuses where none
does, and gives the plan its price and its keys. It reads no private row, so that EXPLAIN can show all of it for free.

Model. A release has two parts.

- A *selection* says which groups are released (selection/). It may release one count with them.
- *Measurements* then release the remaining measures of those groups (measurement.py, measure_*.py), counts and sums
  in one query, each quantile and each distinct count in another.

The most that both can cost is reserved before the backend is asked; what they did cost is settled. Which selection:

    groups                          asked for                               selection
    known domain                    groups alone                            FullDomain, free; PartitionSelection where
                                                                            the analyst wants those that are present
    known domain, no bound          top k by a count, k < cells / 2         CountSelection, KnownGumb and, of counts of
                                                                            units, TopCounts
    known domain, > 10,000 cells    one count; neither LIMIT nor bound      CountSelection, KnownCountRelease
    known domain                    measures otherwise                      FullDomain: each cell is measured. Counts of
                                                                            units have correlated noise where that is
                                                                            better; those that nothing bounds are totals
                                                                            over more than 64 cells (`_as_totals`)
    unknown domain                  groups alone                            PartitionSelection, DPSips, or PrunedSips
                                                                            where the owner says so
    unknown domain                  totals, and whatever else where g(C)    PartitionSelection, WeightedGaussian
                                    is bounded, but no count of all units
    unknown domain, g(C) bounded    measures otherwise                      CountSelection, UnkGauss or UnkLap
    unknown domain, no bound        top k by a count                        CountSelection, UnkGumb, or TopCounts
    unknown domain, no bound        a count, no LIMIT                       CountSelection, PrivateCountRelease;
                                                                            counts of units beside it are totals
    items and times                 running count                           RunningSelection, UnknownDomainSquareRoot

`mechanisms/choose.py` has the conditions on domain, g(C) and k. Anything else over an unknown domain is refused with a
hint to add ORDER BY a count and LIMIT.

What happens in order, in `plan_release`: running counts go their own way (`_stream`); LIMIT 0 and empty domains give a
plan of nothing; bounds that are NULL and tools' scans are refused; `_ask` chooses selection, then measurements, then
checks the owner's allowances and makes the keys. If the account cannot pay for the plan, purchase.py calls `smaller`.

Examples, with epsilon_per = 0.15.
- Top 10 of 304 known categories by COUNT(DISTINCT unit), a unit in any number of them: TopCounts, 10 units for ranks
  and 4.35 for correlated counts. If the count is in ORDER BY alone and not shown: 10. With mechanisms = "paper":
  KnownGumb, 10 ranks and 10 counts, 20 units.
- AVG(amount) by an undeclared column of which a unit has at most 3 values: there is no count to select by, and none is
  needed. WeightedGaussian finds the groups; sum and number of amounts are measured over them. With declared caps in
  place of unit clips the number of units is added as a measure, and UnkGauss selects by it.

Invariants.
1. Price, noise and refusals depend on text, policy, options, public tables and the balance alone; a running count over
   append-only history keeps the mechanism of the paper if its stream began with it.
2. The request key says what was asked, the release key what is released. They differ only after `smaller`: asked again,
   the smaller answer is replayed. All that decides the answer's law is in the release key.
3. A selection and its measurements assume the same bound on a unit's groups: g(C), or after a top-k selection (which is
   taken where nothing bounds them) the number of selected groups.

Traps.
- Names of mechanism classes and of their parameters are part of keys, so they must not change (tests of keys pin them).
- The constructors of mechanisms raise ValueError for parameters beyond their limits, which is a refusal here.
- Groups are found by units, whatever is measured of them: docs/decisions/groups-are-found-by-units.md.
- A LIMIT that the account cannot pay for is refused: docs/decisions/limits-are-paid-whole.md.
- Tools' lists of values are refused by their text alone: docs/decisions/scans-are-refused.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial

from budget.account import Charge
from budget.units import micro, shown
from dpproxy.engine import refusals
from dpproxy.engine.bins import LEAST, MOST_TOGETHER
from dpproxy.engine.measurement.base import GroupBound, Measurement, SumMeasurement
from dpproxy.engine.measurement.distinct import DistinctMeter
from dpproxy.engine.measurement.presence import PresenceMeter
from dpproxy.engine.measurement.quantiles import QuantileMeter
from dpproxy.engine.measurement.totals import TotalsMeasurement
from dpproxy.engine.options import ReleaseOptions
from dpproxy.engine.planner import BoundNode
from dpproxy.engine.precision import Combines, multipliers, steps
from dpproxy.engine.release_keys import ReleaseKeys
from dpproxy.engine.release_plan import ReleasePlan, charge, running
from dpproxy.engine.result.released_table import ReleasedTable
from dpproxy.engine.selection.groups import SUM, Choice, CountSelection, FullDomain, Selection, is_top_k
from dpproxy.engine.selection.partitions import PartitionSelection
from dpproxy.engine.selection.running import RunningSelection, times_over
from mechanisms.choose import (
    CELLS_WITHOUT_K,
    TOP_K,
    MechanismSettings,
    NoMechanism,
    choose,
    choose_running,
)
from mechanisms.count_release import KnownCountRelease, PrivateCountRelease
from mechanisms.histogram import Cost
from mechanisms.partition_selection import MOST_ITEMS, ONE, DPSips, PrunedSips, WeightedGaussian
from mechanisms.randomness import Plain
from mechanisms.row_cap import KEPT, RowCap
from rewriter.api import is_empty, node_text
from rewriter.ir.measure import Count, DistinctItems, Joint, Measure, Moment, Quantiles, Running, Total
from rewriter.ir.relation import leaves
from rewriter.logical.plan import UNITS, AggregateNode
from rewriter.plan import Cells

MOST_ROWS_TO_FIND_BY = 2
"""Rows of a unit in a group; above that, groups of an unknown domain are selected by their number of units."""
FEW_CELLS = 4
"""Of so few cells none is so small beside the others that weights are worth the choice of another length."""
MOST_COMPLETE = 10_000
"""The largest known domain of which every cell is released, since hardly any cell of a larger one is above the noise;
and the most groups that are measured where they were found by weights."""


def plan_release(node: BoundNode, terms: ReleaseOptions, keys: ReleaseKeys) -> ReleasePlan:
    """The release plan of a node under these options, with its rungs. Raises Refusal where no mechanism answers."""
    if terms.units == 1:
        return _plan(node, terms, keys)
    plan = _plan(node, terms.at(terms.units), keys)
    first, *further = steps(terms.units, combines(plan))
    if not further:
        return plan
    rungs = (_plan(node, terms.at(units, rung), keys) for rung, units in enumerate(further, 1))
    return replace(_plan(node, terms.at(first), keys), rungs=tuple(rungs), whole=plan)


def combines(plan: ReleasePlan) -> Combines:
    """How often measurements are combined with later ones: unthresholded Gaussian ones over fixed cells.

    Weights help where a unit may be in several of many cells: of those that it is in, small ones share the noise of the
    largest. A unit of one cell alone is clipped to the same length in each.
    """
    fixed = isinstance(plan.selection, FullDomain) and plan.terms.settings.noise == "gaussian"
    if not (
        fixed and plan.meters and all(isinstance(m, (SumMeasurement, TotalsMeasurement)) for m in plan.meters)
    ):
        return "never"
    if not any(isinstance(m, TotalsMeasurement) for m in plan.meters):
        return "always"
    assert isinstance(plan.selection, FullDomain)
    weighed = plan.selection.most > FEW_CELLS and plan.node.delta0 != 1
    return "weighted" if weighed and all(map(_weighable, plan.meters)) else "twice"


def _weighable(meter: Measurement) -> bool:
    """Whether a measurement can be made with weights: of totals, not of averages."""
    return isinstance(meter, TotalsMeasurement) and all(
        isinstance(meter.node.aggregate.measures[place], Total) for place in meter.places
    )


def _plan(node: BoundNode, terms: ReleaseOptions, keys: ReleaseKeys) -> ReleasePlan:
    """The plan of one rung.

    The order of the checks matters: what comes to nothing is free, even if the node could not be priced.
    """
    k = None if node.aggregate.k is None else min(node.aggregate.k, terms.max_k)
    if any(running(node)):
        return _stream(node, terms, keys)
    empty = is_empty(node.aggregate)
    if k == 0 or (node.cells is not None and not node.cells) or (empty and node.aggregate.keys):
        key = keys.release(node, ())
        return ReleasePlan(node, terms, None, (), k, key, key, keys)
    if empty:
        key = keys.release(node, None)
        return ReleasePlan(node, terms, FullDomain(((),)), (), k, key, key, keys)
    refuse_null_bounds(node)
    if node.cells is None and not terms.scans:
        _refuse_scan(node.aggregate, terms.max_k)
    try:
        return _ask(node, terms, k, keys)
    except ValueError:
        raise refusals.beyond_limits() from None


def _refuse_scan(aggregate: AggregateNode, max_k: int) -> None:
    """PV024 for a bare list of values that most likely a tool asks for, judged by its text and the policy.

    Its LIMIT is above `max_k`, which no answer may have, or the policy does not name its column.
    """
    if aggregate.listing is None:
        return
    limit = aggregate.listing.limit
    for alias, name in sorted(leaves(*aggregate.keys)):
        table = aggregate.relation.source(alias).table
        column = table.column(name)
        if (limit is not None and limit > max_k) or column is None or not column.declared:
            raise refusals.scan(table, name)


def _stream(node: BoundNode, terms: ReleaseOptions, keys: ReleaseKeys) -> ReleasePlan:
    """The plan of a running count.

    For append-only history one stream of releases continues through all epochs, and times that are not over wait for a
    later one; a stream that began with the paper's mechanism keeps it, since what was paid for goes on. Otherwise each
    epoch has a stream of its own with a single release.

    Why: docs/decisions/running-counts-by-a-square-root.md.
    """
    (measure,) = node.aggregate.measures
    assert isinstance(measure, Running)
    settings = replace(terms.settings, eps_per=KEPT * terms.settings.eps_per)
    _refuse_laplace(settings, "a running count over items of unknown domain")
    if not settings.delta_per:
        raise refusals.no_delta()
    try:
        begin = None if node.lasting is None else terms.begin
        at = len(node.times)
        if node.lasting is not None and begin is not None:
            at = times_over(node.times, node.lasting, begin)
        chosen = partial(choose_running, events=measure.events, horizon=max(len(node.times), 1))
        mechanism, of_paper = chosen(settings), chosen(replace(settings, paper=True))
        if begin is not None and mechanism != of_paper and keys.begun(keys.stream(node, of_paper)):
            mechanism = of_paper
        looks = 1 if begin is None else mechanism.horizon
        cap = RowCap(terms.settings.eps_per, Fraction(1), measure.events, terms.max_rows, looks)
        selection = RunningSelection(node, mechanism, at, cap) if at else None
    except ValueError:
        raise refusals.beyond_limits() from None
    key = keys.release(node, None if selection is None else selection.parameters)
    stream = keys.stream(node, mechanism) if begin is not None else None
    return ReleasePlan(node, terms, selection, (), None, key, key, keys, stream)


def part(
    plan: ReleasePlan, places: Sequence[int], cells: Cells | None = None, level: Fraction | None = None
) -> ReleasePlan:
    """The plan of some of a plan's measures, as if nothing else had been asked; every cell of it is measured.

    `cells`: some of its cells, where only these are asked; `level`: another one.
    """
    aggregate, policy, parameters = plan.node.aggregate, plan.node.policy, plan.node.parameters
    at = {place: n for n, place in enumerate(places)}
    names = aggregate.names or ("",) * len(aggregate.outputs)
    factors = aggregate.factors or (Fraction(1),) * len(aggregate.outputs)
    shown = [
        (replace(output, measures=tuple(at[place] for place in output.measures)), name, factor)
        for output, name, factor in zip(aggregate.outputs, names, factors, strict=True)
        if at.keys() >= set(output.measures)
    ]
    fewer = replace(
        aggregate,
        measures=tuple(aggregate.measures[place] for place in places),
        outputs=tuple(output for output, _, _ in shown),
        names=tuple(name for _, name, _ in shown),
        factors=tuple(factor for _, _, factor in shown),
        k=None,
        order_by=None,
    )
    text, scanned = node_text(fewer, policy, parameters)
    values = {at[place]: node for place, node in plan.node.values.items() if place in at}
    node = replace(plan.node, aggregate=fewer, text=text, scanned=scanned, values=values)
    if cells is not None:
        node = node.among(cells)
    return plan_release(node, plan.terms.at(level or plan.level), plan.keys)


def smaller(plan: ReleasePlan, left: Charge) -> ReleasePlan:
    """The plan lowered to what an account has left; unchanged if it fits, or if even the smallest does not.

    Top k is lowered to the largest k that `left` pays for. A query without LIMIT gets `left` as its allowance. The
    request key stays, so that the same question finds the answer again.
    """
    if plan.selection is None or isinstance(plan.selection, RunningSelection) or _fits(plan, left):
        return plan
    if plan.k is None:
        return _thrifty(plan, left)
    low, high = 1, plan.k
    while low < high:
        middle = (low + high + 1) // 2
        fits = _fits(_ask(plan.node, plan.terms, middle, plan.keys), left)
        low, high = (middle, high) if fits else (low, middle - 1)
    least = _ask(plan.node, plan.terms, low, plan.keys)
    return replace(least, request_key=plan.request_key) if _fits(least, left) else plan


def _thrifty(plan: ReleasePlan, left: Charge) -> ReleasePlan:
    """The plan with `left` as its allowance, if that is enough for its smallest release."""
    try:
        least = _ask(plan.node, plan.terms.within(left), None, plan.keys)
    except ValueError:
        return plan
    return replace(least, request_key=plan.request_key, wider=plan.wider) if _fits(least, left) else plan


def _fits(plan: ReleasePlan, left: Charge) -> bool:
    return left.pays(charge(plan.cost_at_most))


def _ask(node: BoundNode, terms: ReleaseOptions, k: int | None, keys: ReleaseKeys) -> ReleasePlan:
    node = _as_totals(node, terms, k)
    aggregate, place = node.aggregate, node.aggregate.selecting
    selection: Selection | None = None
    if node.cells is None:
        if not terms.settings.delta_per:
            raise refusals.no_delta()
        if aggregate.measures and (place is None or _better_by_units(node, place)):
            if _needs_no_count(node, k):
                selection, place = _found_by_weight(node, terms), None
            else:  # the number of units is one more measure, that no output shows
                place = len(aggregate.measures)
                node = replace(node, aggregate=replace(aggregate, measures=(*aggregate.measures, UNITS)))
    if selection is None:
        selection = _selection(node, terms, place, k) if aggregate.measures else _listed(node, terms)
    released = () if isinstance(selection, FullDomain) or place is None else (place,)
    meters = _meters(node, terms, released, selection)
    _refuse_costly(meters, max(selection.most, 1), terms)
    key = keys.release(node, _described(selection, meters, terms))
    return ReleasePlan(node, terms, selection, meters, k, key, key, keys)


def _described(selection: Selection, meters: Sequence[Measurement], terms: ReleaseOptions) -> Plain:
    """All that decides the law of a release besides its node, and which of several with one law it is."""
    described = [selection.parameters, *(m.parameters(selection.most) for m in meters)]
    return [*described, ("rung", terms.rung)] if terms.rung else described


def _as_totals(node: BoundNode, terms: ReleaseOptions, k: int | None) -> BoundNode:
    """The node with its counts of units as totals, where nothing bounds the groups of a unit and they are many, or not
    known: price and noise then do not grow with the number of all groups, the noise with that of groups of units.

    Not the count that finds the groups of an unknown domain, and none where it finds the largest k: each is paid for.
    """
    if not node.policy.unit_clips or not _of_many_groups(node, terms.settings, k):
        return node
    aggregate = node.aggregate
    kept = aggregate.selecting if node.cells is None else None
    measures = tuple(
        Total(None, m.argument, 1, once=True)
        if isinstance(m, Count) and m.tau == 1 and not m.items and n != kept
        else m
        for n, m in enumerate(aggregate.measures)
    )
    return replace(node, aggregate=replace(aggregate, measures=measures))


def _of_many_groups(node: BoundNode, settings: MechanismSettings, k: int | None) -> bool:
    """Whether a unit may be in any of many or unknown groups, of which not the largest k are selected by a count."""
    if node.cells is None:
        return node.delta0 is None and (k is None or node.aggregate.order_by is None)
    cells = len(node.cells)
    return (
        CELLS_WITHOUT_K < cells <= MOST_COMPLETE
        and (node.delta0 or cells) >= cells
        and not _is_top(node.aggregate, k, cells, settings)
    )


def _is_top(aggregate: AggregateNode, k: int | None, cells: int, settings: MechanismSettings) -> bool:
    """Whether a count of units orders groups of which less than half are asked for."""
    if k is None or aggregate.order_by is None or 2 * k >= cells or settings.spend == "cheap":
        return False
    return isinstance(aggregate.measures[aggregate.order_by], Count)


def _better_by_units(node: BoundNode, place: int) -> bool:
    """Whether to select groups by their number of units, and to measure the count of rows afterwards.

    The threshold on rows is tau times the one on units, but a unit rarely has tau rows. The price is one more count.
    Not for the top k of unrestricted groups, which are ordered by the count of rows.
    """
    count = node.aggregate.measures[place]
    return isinstance(count, Count) and count.tau > MOST_ROWS_TO_FIND_BY and node.delta0 is not None


def _needs_no_count(node: BoundNode, k: int | None) -> bool:
    """Whether the groups of an unknown domain are found by weights: a unit in n of them adds 1/sqrt(n) to each.

    That names more groups than a count of the units for the same price. Not under declared caps and Laplace noise, not
    for the top k of unrestricted groups, which UnkGumb finds, and not where the price grows with the groups of a unit
    and nothing bounds these.
    """
    aggregate = node.aggregate
    if not node.policy.unit_clips or node.delta0 is not None:
        return node.policy.unit_clips
    if k is not None and aggregate.order_by is not None:
        return False
    return all(_for_all_groups(m) for m in aggregate.measures)


def _for_all_groups(measure: Measure) -> bool:
    """Whether a measure costs the same for however many groups: totals, and quantiles of weighted rows."""
    return isinstance(measure, (Total, Joint)) or (isinstance(measure, Quantiles) and measure.weighted)


def _listed(node: BoundNode, terms: ReleaseOptions) -> Selection:
    """The groups of a query without aggregates: the known domain, free of charge, or those present in the data."""
    present = terms.present or (node.aggregate.present and node.aggregate.listing is None)
    if node.cells is not None and not present:
        return FullDomain(node.cells)
    if not terms.settings.delta_per:
        raise refusals.no_delta()
    return _by_weight(node, terms)


def _selection(node: BoundNode, terms: ReleaseOptions, place: int | None, k: int | None) -> Selection:
    """How the groups are found: `place` is the count that may select them, `k` the LIMIT of a top-k query."""
    aggregate, settings = node.aggregate, terms.settings
    if place is None:
        assert node.cells is not None
        return FullDomain(node.cells)
    count = aggregate.measures[place]
    assert isinstance(count, Count)
    size = None if node.cells is None else len(node.cells)
    by_total = aggregate.order_by is not None and isinstance(
        aggregate.measures[aggregate.order_by], (Total, Joint)
    )
    ordered = aggregate.order_by == place or by_total
    try:
        mechanism = choose(
            settings,
            domain_size=size,
            delta0=node.delta0,
            tau=count.tau,
            k=k if ordered else None,
            counts=_shown(aggregate, place, ordered),
        )
    except NoMechanism:
        others = [m for n, m in enumerate(aggregate.measures) if n != place]
        if settings.noise == "gaussian" and all(map(_for_all_groups, others)):
            return _count_release(node, terms, place, count.tau)
        if node.cells is not None:
            return FullDomain(node.cells)
        raise refusals.needs_limit() from None
    # Noise on every cell of a known domain selects nothing: the count is a measure like others, in one query with them.
    top = isinstance(mechanism, TOP_K)
    if node.cells is not None and not top:
        return FullDomain(node.cells)
    most = k if k is not None and top else (mechanism.fetch or 1) - 1
    return CountSelection(node, place, mechanism, most)


def _shown(aggregate: AggregateNode, place: int, ordered: bool) -> bool:
    """Whether the selecting count has to be released, shown by itself or used by another output.

    A query that only orders by it pays for the rank alone.
    """
    using = [o.function for o in aggregate.outputs if place in o.measures]
    return any(f != "count" for f in using) or (aggregate.counts if ordered else bool(using))


def _count_release(node: BoundNode, terms: ReleaseOptions, place: int, tau: int) -> CountSelection:
    """As many counts as the allowance pays for: for groups that neither a bound nor a LIMIT restricts.

    Not with noise = "laplace": its accounting composes steps of bounded range only.
    """
    eps_per, delta_per = terms.eps_per, terms.settings.delta_per
    most = _allowed(terms, terms.kinds.count_release, "counts of groups without LIMIT", "count_release")
    mechanism: KnownCountRelease | PrivateCountRelease
    if node.cells is not None:
        mechanism = KnownCountRelease(
            eps_per=eps_per,
            information=most.information,
            tau=tau,
            relative_error=terms.relative_error,
            cells=len(node.cells),
        )
        return CountSelection(node, place, mechanism, len(node.cells))
    mechanism = PrivateCountRelease(
        eps_per=eps_per,
        information=most.information,
        tau=tau,
        relative_error=terms.relative_error,
        delta_per=delta_per,
        calls=most.calls,
    )
    return CountSelection(node, place, mechanism, mechanism.k_bar)


def _meters(
    node: BoundNode, terms: ReleaseOptions, released: tuple[int, ...], selection: Selection
) -> tuple[Measurement, ...]:
    """The measurements of all measures except `released`, which the selection has released.

    A top-k selection is chosen where nothing bounds the groups of a unit: it may be in every selected one. Each is then
    paid for, unless the analyst asks for cheap noise.
    """
    settings, most = terms.settings, selection.most
    restricted = not is_top_k(selection)
    changed = GroupBound(node.delta0 if restricted else None)
    if not restricted and settings.spend is None:
        settings = replace(settings, spend="accurate")
    left = [(n, m) for n, m in enumerate(node.aggregate.measures) if n not in released]
    sums = tuple(n for n, m in left if isinstance(m, (Count, Moment)))
    totals = tuple(n for n, m in left if isinstance(m, (Total, Joint)))
    meters: list[Measurement] = [SumMeasurement(node, sums, settings, changed, most)] if sums else []
    meters += [TotalsMeasurement(node, totals, settings)] if totals else []
    for place, measure in left:
        if isinstance(measure, Quantiles):
            if LEAST * most > MOST_TOGETHER:
                raise refusals.too_many_groups(most, MOST_TOGETHER // LEAST)
            meters.append(QuantileMeter(node, place, settings, changed, terms.bins))
        elif isinstance(measure, DistinctItems):
            if place in node.values:
                meters.append(PresenceMeter(place, node.values[place], settings))
                continue
            _refuse_laplace(settings, "a distinct count of values")
            meters.append(DistinctMeter(node, place, terms, changed))
    return tuple(meters)


def _found_by_weight(node: BoundNode, terms: ReleaseOptions) -> PartitionSelection:
    """The groups of an unknown domain that are measured afterwards, each the same: one round finds more of them than
    the three of DP-SIPS at such prices.

    Of a unit at most `d_bar` groups have weight. Where nothing bounds them the query's allowance is spent, of which one
    call is enough, else one unit. A group that one unit alone is in stays in the backend: there may be millions.
    """
    settings = terms.settings
    eps_per, spent = settings.eps_per, Cost(Fraction(1), Fraction(1))
    if node.delta0 is None:
        eps_per = terms.eps_per
        most = _allowed(terms, terms.kinds.count_release, "totals of groups without LIMIT", "count_release")
        spent = Cost(most.information, min(most.calls, Fraction(1)))
    delta0 = min(node.delta0 or MOST_ITEMS, settings.d_bar, MOST_ITEMS)
    make = partial(WeightedGaussian, KEPT * eps_per, settings.delta_per, spent.information, spent.calls)
    made = partial(make, floor=max(terms.floor, ONE + 1))
    return _in_rounds(node, made, delta0, terms, eps_per, MOST_COMPLETE)


def _by_weight(node: BoundNode, terms: ReleaseOptions) -> PartitionSelection:
    """Partition selection, which spends the query's whole allowance."""
    settings = terms.settings
    _refuse_laplace(settings, "the list of groups without an aggregate")
    most = _allowed(
        terms,
        terms.kinds.partition_selection,
        "lists of groups without an aggregate",
        "partition_selection",
    )
    delta0 = terms.max_items if node.delta0 is None else min(node.delta0, terms.max_items)
    kind = PrunedSips if terms.pruned else DPSips
    make = partial(kind, KEPT * terms.eps_per, settings.delta_per, most.information, most.calls)
    return _in_rounds(node, partial(make, floor=terms.floor), delta0, terms, terms.eps_per)


def _in_rounds(
    node: BoundNode,
    make: Callable[..., WeightedGaussian],
    delta0: int,
    terms: ReleaseOptions,
    eps_per: Fraction,
    most: int = 0,
) -> PartitionSelection:
    """A selection by weights of at most `delta0` groups of a unit, of fewer where the noise of the cap on rows would be
    too large; `make` makes its mechanism with what the cap leaves of `eps_per`."""
    mechanism = make(delta0=delta0)
    cap = RowCap(eps_per, mechanism.information, mechanism.most_rows, terms.max_rows, len(mechanism.rounds))
    if cap.fitting < cap.rows:
        mechanism = make(delta0=max(delta0 * cap.fitting // cap.rows, 1))
        cap = replace(cap, rows=mechanism.most_rows)
    return PartitionSelection(node, mechanism, cap, most)


def _allowed(terms: ReleaseOptions, most: Fraction | None, what: str, kind: str) -> Cost:
    """The allowance of a costly kind of query; PV025 where the owner does not offer that kind."""
    if most == 0:
        raise refusals.not_offered(
            what, kind, "Add ORDER BY COUNT(DISTINCT <privacy unit>) DESC LIMIT 10; see EXPLAIN."
        )
    return terms.kind(most)


def _refuse_costly(meters: Iterable[Measurement], groups: int, terms: ReleaseOptions) -> None:
    """PV025 for distinct counts that cost more than the owner allows."""
    what, kind, most = "distinct counts of values", "distinct_count", terms.kinds.distinct_count
    cost = Cost.sum(m.cost(groups) for m in meters if isinstance(m, DistinctMeter))
    needed = terms.worth(cost).information
    if most == 0 < needed:
        raise refusals.not_offered(what, kind, "Count privacy units: COUNT(DISTINCT <privacy unit>).")
    if most is not None and needed > most:
        raise refusals.above_allowance(what, kind, _units(most), _units(needed))


def _units(information: Fraction) -> str:
    return f"{shown(micro(information))} information units"


def _refuse_laplace(settings: MechanismSettings, what: str) -> None:
    """PV018 with noise = "laplace", whose accounting composes steps of bounded range only."""
    if settings.noise == "laplace":
        raise refusals.not_with_laplace(what)


def refuse_null_bounds(node: BoundNode) -> None:
    """Refuse sums and quantiles whose bounds are parameters, and NULL."""
    for measure in node.aggregate.measures:
        value = measure.value if isinstance(measure, (Moment, Total, Joint, Quantiles)) else None
        if value is not None and value.lo is None and not node.waits:
            raise refusals.null_bound()


def choices(plan: ReleasePlan, *, lasting: bool = False) -> dict[int, bytes]:
    """By place, the key of what has to be chosen for each total over known cells, whatever else is asked with it.

    `lasting`: the key is the same in each epoch.
    """
    if not isinstance(plan.selection, FullDomain) or plan.terms.rung:
        return {}
    keys = {}
    for meter in plan.meters:
        if isinstance(meter, TotalsMeasurement):
            for place in meter.places:
                law = meter.made_for(place, plan.selection.most)
                keys[place] = plan.keys.choice(plan.node, place, law, lasting=lasting)
    return keys


def weighs(plan: ReleasePlan) -> bool:
    """Whether the further measurements of a plan have weights, which are not worth another length below one unit."""
    return bool(plan.rungs) and plan.level > 1 and combines(plan) == "weighted"


def with_weights(plan: ReleasePlan, earlier: ReleasedTable, known: Mapping[int, Choice]) -> ReleasePlan:
    """A further measurement with weights for the cells, made of what was released before to the account that pays; by
    the lengths that are `known` where weights are of no use.

    They are in its release key: accounts with other weights have other noise.
    """
    assert plan.selection is not None
    meters = []
    for meter in plan.meters:
        assert isinstance(meter, TotalsMeasurement)
        found = {place: multipliers(earlier.measured[place, SUM]) for place in meter.places}
        weights = {place: by for place, by in found.items() if by}
        unweighted = {place: choice for place, choice in known.items() if not found.get(place, True)}
        meters.append(replace(meter, weights=weights, known=unweighted))
    key = plan.keys.release(plan.node, _described(plan.selection, meters, plan.terms))
    return replace(plan, meters=tuple(meters), release_key=key)


def with_choices(plan: ReleasePlan, known: Mapping[int, Choice]) -> ReleasePlan:
    """The plan with what its account has paid for in other answers: it is not chosen again, and all of the price is
    spent on noise."""
    if not known or plan.selection is None:
        return plan
    meters = tuple(
        replace(m, known={p: c for p, c in known.items() if p in m.places})
        if isinstance(m, TotalsMeasurement)
        else m
        for m in plan.meters
    )
    key = plan.keys.release(plan.node, _described(plan.selection, meters, plan.terms))
    return replace(plan, meters=meters, release_key=key)
