"""EXPLAIN of a private query: mechanisms, noise and price, without touching data or budget."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from budget.account import Charge
from budget.units import UNBOUNDED, micro, shown
from dpproxy.engine.cap_notes import BEYOND, CONTRADICTED, caps
from dpproxy.engine.climb import Climb
from dpproxy.engine.implied import ImpliedAnswer
from dpproxy.engine.measurement.base import Measurement, SumMeasurement
from dpproxy.engine.measurement.distinct import DistinctMeter
from dpproxy.engine.measurement.presence import PresenceMeter
from dpproxy.engine.measurement.quantiles import QuantileMeter
from dpproxy.engine.measurement.totals import TotalsMeasurement
from dpproxy.engine.optimizer import weighs
from dpproxy.engine.options import ReleaseOptions
from dpproxy.engine.precision import MOST_WEIGHT
from dpproxy.engine.release_plan import ReleasePlan, charge
from dpproxy.engine.selection.groups import CountSelection, is_top_k
from dpproxy.engine.selection.partitions import PartitionSelection
from dpproxy.engine.selection.running import RunningSelection
from mechanisms.correlated_counts import CorrelatedCounts
from mechanisms.count_release import KnownCountRelease, PrivateCountRelease
from mechanisms.distinct_count import PersonLevelDistinctCount
from mechanisms.distinct_curve import DistinctCountCurve
from mechanisms.histogram import Cost, Mechanism
from mechanisms.known_domain import KnownGumb
from mechanisms.numeric import ClampedSum
from mechanisms.runners_up import COMPARED, runners_up
from mechanisms.top_counts import TopCounts
from mechanisms.unit_clip import UnitClip
from mechanisms.unknown_domain import UnkGumb
from rewriter.ir.measure import Count, Measure, Moment, named
from rewriter.plan import HistogramQuery


@dataclass(frozen=True)
class Explained:
    """A plan to be explained.

    Attributes:
        plan: how the node is answered.
        levels: how it would be at others, ascending; none where its precision cannot be bought.
        paid: the request keys that the account has paid for.
        search: where an error is asked for, that search.
        implied: what the account's other purchases imply about it, or about measures that were asked with it, where it
            has not paid for it itself.
        reused: that is the answer.
        doubt: what was bought that contradicts itself, of which nothing is implied.
    """

    plan: ReleasePlan
    levels: Sequence[ReleasePlan] = ()
    paid: Collection[bytes] = ()
    search: Climb | None = None
    implied: ImpliedAnswer | None = None
    reused: bool = False
    doubt: str = ""

    @property
    def least(self) -> Charge:
        """What it costs at first."""
        return self.search.first_price() if self.search and not self.free else self.price

    @property
    def price(self) -> Charge:
        """The most that it can cost."""
        return Charge(0, 0) if self.free else self.fresh

    @property
    def free(self) -> bool:
        """Whether nothing of it is bought."""
        return self.reused and self.implied is not None and self.implied.rest is None

    @property
    def fresh(self) -> Charge:
        """The most that it can cost if it is bought."""
        return charge(self.plan.price) if self.search is None else self.search.bound()


Property = tuple[str, str]
"""Name and value of what is said about a node; those of a mechanism follow its name."""
Worth = Callable[[Cost], Cost]
"""What a mechanism's cost is in the account's units."""
_PURE = "Or by pure epsilon"
_OF_THE_NODE = {
    "Groups",
    "Implied",
    "Shown",
    "More groups",
    "Not covered by intervals",
    "Cost",
    "Left",
    _PURE,
}
_ABOVE = "Above dpproxy.max_cost"
_NOTHING = "Answered by the front: no private rows are read, nothing is charged"


def as_text(plans: Sequence[Explained], left: Charge | None, above: str = "") -> list[str]:
    """The lines of EXPLAIN; `left` is what the analyst's own account has, `above` what follows from a price above
    dpproxy.max_cost."""
    lines = [line for plan in plans for name, said in explanation(plan, left) for line in _lines(name, said)]
    if above:
        lines.append(f"{_ABOVE}: {above}")
    return lines or [_NOTHING]


def _lines(name: str, said: str) -> Iterator[str]:
    if name == "Groups":
        yield f"Groups of {said}"
    elif name in ("Backend", "Precision"):
        yield f"  {name}:"
        yield from (f"    {line}" for line in said.splitlines())
    else:
        yield f"  {name}: {said}"


def as_json(plans: Sequence[Explained], left: Charge | None, needed: Charge, above: str = "") -> str:
    """The same as PostgreSQL's document: a result over an aggregate for each plan, each over its mechanisms; `needed`
    is the most that all cost."""
    information, calls = (float(Fraction(amount, 10**6)) for amount in (needed.information, needed.calls))
    root: dict[str, object] = {"Node Type": "Result", "Information Units": information, "Calls": calls}
    if plans:
        root["Plans"] = [_node(explanation(plan, left)) for plan in plans]
    else:
        root["Charge"] = _NOTHING
    if above:
        root[_ABOVE] = above
    return json.dumps([{"Plan": root}], indent=2, ensure_ascii=False)


def _node(properties: Iterable[Property]) -> dict[str, object]:
    mechanisms: list[dict[str, object]] = []
    backend: list[str] = []
    node: dict[str, object] = {"Node Type": "Aggregate", "Parent Relationship": "Outer"}
    for name, said in properties:
        if name == "Mechanism":
            mechanisms.append({"Node Type": said, "Parent Relationship": "Outer"})
        elif name == "Backend":
            backend += said.splitlines()
        elif name == "Precision":
            node[name] = said.splitlines()
        else:
            (node if name in _OF_THE_NODE else mechanisms[-1])[name] = said
    return node | ({"Backend": backend} if backend else {}) | ({"Plans": mechanisms} if mechanisms else {})


def explanation(explained: Explained, left: Charge | None) -> Iterator[Property]:
    """What is said about one DP node."""
    search, plan = explained.search, explained.plan.whole or explained.plan
    node = plan.node
    domain = "unknown domain" if node.cells is None else f"known domain of {len(node.cells)} cells"
    groups = "unrestricted" if node.delta0 is None else f"at most {node.delta0} groups of one unit"
    yield "Groups", f"{domain}, {groups}"
    if plan.selection is None:
        yield "Cost", "nothing, the answer has no rows"
        return
    if isinstance(plan.selection, CountSelection):
        top = f", top {plan.k}" if plan.lowered or is_top_k(plan.selection) else ""
        yield from _mechanism(
            plan.selection.mechanism,
            plan.node.aggregate.measures,
            plan.selection.place,
            top,
            plan.terms,
            _Groups(None if node.cells is None else len(node.cells), node.delta0),
        )
    elif isinstance(plan.selection, PartitionSelection):
        yield from _by_weight(plan, plan.selection)
    elif isinstance(plan.selection, RunningSelection):
        yield from _by_time(plan.selection, plan.stream is not None, plan.terms.worth)
    for meter in plan.meters:
        yield from _meter(meter, plan.selection.most, plan.terms)
    if weighs(explained.plan):
        alike, all_of_it = (
            shown(micro(units)) for units in (explained.plan.terms.units, explained.plan.level)
        )
        yield (
            "Weights",
            f"{alike} of {all_of_it} units for all groups alike; then a group of 1/n of the largest n^(2/3) times as "
            f"exactly, {MOST_WEIGHT} times at most, by the sizes that were released to this account, "
            "if half of the groups gain by that",
        )
    if plan.open_ended or isinstance(plan.selection, PartitionSelection):
        yield "Shown", plan.least
    if plan.wider is not None:
        yield "More groups", f"SET dpproxy.max_cost = {plan.dearer}"
    if capped := caps(node.aggregate):
        yield "Not covered by intervals", f"{capped}, {BEYOND}"
    if explained.implied is not None:
        yield "Implied", _implied(explained.implied, reused=explained.reused)
    if explained.doubt:
        yield "Contradicted", CONTRADICTED.format(explained.doubt)
    begins = f", for an error of {search.target}; {search.first_price()} at first" if search else ""
    afresh = " where it is not implied" if explained.free else ""
    yield "Cost", f"at most {explained.fresh}{afresh}{begins}"
    if left is not None:
        yield "Left", str(left)
        if max(explained.fresh.epsilon, left.epsilon) < UNBOUNDED:
            pure = f"at most {shown(explained.fresh.epsilon)} epsilon units, of which {shown(left.epsilon)} are left"
            yield _PURE, pure
    if explained.levels:
        yield "Precision", "\n".join(_level(level, explained.paid) for level in explained.levels)
    for query in plan.queries():
        yield "Backend", "\n".join(_query(query))


def _implied(answer: ImpliedAnswer, *, reused: bool) -> str:
    """The free answer, and how to have the other one."""
    if answer.joined:
        said = f"{answer.source}: with what is bought below, about the error of a fresh answer"
        return f"{said}; `SET dpproxy.reuse = off` to buy all of it afresh"
    instead = "off` to buy it afresh" if reused else "always` to take it"
    said = f"{answer.source}: costs nothing, standard deviation {answer.table.deviations() or 'unknown'}"
    return f"{said}; `SET dpproxy.reuse = {instead}"


def _level(plan: ReleasePlan, paid: Collection[bytes]) -> str:
    """What a level costs, and the noise of it as far as it is known before."""
    missing = [rung for rung in (plan, *plan.rungs) if rung.request_key not in paid]
    price = f"costs {charge(Cost.sum(rung.cost_at_most for rung in missing))}" if missing else "is bought"
    noise = dict.fromkeys(said for name, said in explanation(Explained(plan), None) if name == "Noise")
    small = [f"up to {MOST_WEIGHT} times less on small groups, if half gain by it"] if weighs(plan) else []
    return f"dpproxy.units = {shown(micro(plan.level))} {'; '.join((price, *noise, *small))}"


class _Groups(NamedTuple):
    """How many cells a known domain has, and the most groups of a unit; None where nothing bounds them."""

    cells: int | None
    delta0: int | None


def _mechanism(
    mechanism: Mechanism | ClampedSum,
    measures: tuple[Measure, ...],
    place: int,
    top: str,
    terms: ReleaseOptions,
    groups: _Groups,
) -> Iterator[Property]:
    worth = terms.worth
    yield "Mechanism", f"{mechanism.name}{top}"
    if isinstance(mechanism, (KnownCountRelease, PrivateCountRelease)):
        yield "Noise", f"standard deviation {mechanism.stddev:.0f} at most, and less on small counts"
    elif isinstance(mechanism, ClampedSum):
        yield from _sum_noise(mechanism, measures[place])
    elif mechanism.stddev is not None:
        common = (
            f", of which {mechanism.common_stddev:.2f} is the same on all"
            if isinstance(mechanism, (CorrelatedCounts, TopCounts))
            else ""
        )
        yield "Noise", f"standard deviation {mechanism.stddev:.2f} on each count{common}"
    measure = measures[place] if place < len(measures) else None
    if isinstance(measure, (Count, Moment)) and measure.tau > 1:
        yield "Clamp", f"at most {measure.tau} rows of one unit count in a group"
    threshold = None
    if not isinstance(mechanism, (ClampedSum, PrivateCountRelease)):
        threshold = mechanism.threshold
    if threshold is not None:
        yield "Threshold", f"{threshold} above the first count that is not fetched"
    yield "Price", _price(mechanism, worth)
    if isinstance(mechanism, COMPARED) and terms.settings.correlates and isinstance(measure, Count):
        yield from _instead(mechanism, terms, groups, measure.tau)


def _instead(mechanism: Mechanism, terms: ReleaseOptions, groups: _Groups, tau: int) -> Iterator[Property]:
    """What the mechanisms cost that were not chosen."""
    prices = runners_up(terms.settings, mechanism, cells=groups.cells, delta0=groups.delta0, tau=tau)
    # To 3 digits, since noise of the same size is not reached exactly.
    listed = (f"{name} {price * float(terms.units):.3g}" for name, price in prices.items())
    if said := ", ".join(listed):
        yield "Instead, for the same noise", f"{said} information units"


def _sum_noise(mechanism: ClampedSum, measure: Measure) -> Iterator[Property]:
    """The noise on a sum in the value's own units; that of a centred one is in halves of them."""
    if isinstance(measure, Moment) and measure.power == 1:
        unit = 10.0**-measure.value.scale / (2 if mechanism.centred else 1)
        yield "Noise", f"standard deviation {mechanism.stddev * unit:.2f} on each sum"


def _price(mechanism: Mechanism | ClampedSum, worth: Worth) -> str:
    """What a count or sum costs, in words; an allowance is in the account's units already."""
    if isinstance(mechanism, TopCounts):
        most, counts = mechanism.cost_at_most, mechanism.counts_of(mechanism.ranks.k).cost_at_most
        shares = f"{_units(worth(most))}, of which {shown(micro(worth(counts).information))} for all counts together"
        return f"{shares}; rows not returned are free" if most.calls else shares
    if isinstance(mechanism, (KnownGumb, UnkGumb)):
        one, two = (worth(Cost(Fraction(n), Fraction(0))) for n in (1, 2))
        share = shown(micro(one.information))
        each = (
            f"{_units(two)} per returned row ({share} for rank, {share} for count)"
            if mechanism.counts
            else f"{_units(one)} per returned row"
        )
        if isinstance(mechanism, KnownGumb):
            return each
        return f"{each}, plus {share} unit{'s' * (share != '1')} and 1 call per query; rows not returned are free"
    if isinstance(mechanism, PrivateCountRelease):
        return (
            f"at most {_units(mechanism.cost_at_most)}, for at most {mechanism.most_steps} steps; a step releases the "
            "next largest group or reduces the noise of the rest; SET dpproxy.max_cost to pay less, "
            "or add ORDER BY ... DESC LIMIT k to pay per row"
        )
    if isinstance(mechanism, KnownCountRelease):
        return (
            f"at most {_units(mechanism.cost_at_most)}: groups from the largest on, each at the deployment's relative "
            "error, until that is spent"
        )
    return f"{_units(worth(mechanism.cost_at_most))}, for all groups together"


def _by_weight(plan: ReleasePlan, selection: PartitionSelection) -> Iterator[Property]:
    mechanism, rounds = selection.mechanism, len(selection.mechanism.rounds)
    yield "Mechanism", mechanism.name if rounds == 1 else f"{mechanism.name}, {rounds} rounds"
    yield "Clamp", f"at most {mechanism.delta0} groups of one unit count, with less weight the more it has"
    if selection.most:
        yield "Noise", "on the weights, which only say what groups are measured"
    else:
        yield "Noise", "none in the answer, which has only names"
    if plan.open_ended:
        yield (
            "Price",
            f"{_units(mechanism.cost_at_most)}, the whole allowance of a query, for any number of groups; "
            "SET dpproxy.max_cost to pay less, for fewer groups",
        )
    else:
        yield "Price", f"{_units(plan.terms.worth(mechanism.cost_at_most))}, for all groups together"


def _by_time(selection: RunningSelection, lasts: bool, worth: Worth) -> Iterator[Property]:
    mechanism = selection.mechanism
    yield "Mechanism", f"{mechanism.name}, times 1 to {selection.at} of {mechanism.horizon}"
    deviations = f"{mechanism.least_stddev:.2f} to {mechanism.stddev:.2f}"
    yield "Noise", f"standard deviation {deviations}, depending on the time"
    yield "Clamp", f"the first {mechanism.events} rows of one unit count"
    yield "Threshold", str(mechanism.threshold)
    later = "later times are free in this budget's period" if lasts else "charged again in each epoch"
    yield "Price", f"{_units(worth(mechanism.cost_at_most))} for all items and times; {later}"


def _meter(meter: Measurement, groups: int, terms: ReleaseOptions) -> Iterator[Property]:
    worth = terms.worth
    if isinstance(meter, SumMeasurement):
        bounds = _Groups(groups, meter.changed.of(groups))
        for place, mechanism in zip(meter.places, meter.mechanisms(groups), strict=True):
            yield from _mechanism(mechanism, meter.node.aggregate.measures, place, "", terms, bounds)
    elif isinstance(meter, TotalsMeasurement):
        for place, found in zip(meter.places, meter.mechanisms(groups), strict=True):
            yield "Mechanism", f"{found.name}, {named(meter.node.aggregate.measures[place])}"
            if isinstance(found, UnitClip):
                yield from _clip(found, "each unit's totals over all groups", found.choice)
            else:
                yield "Centre", "a private median of units' averages (10% of the price)"
                clip = found.clip(found.centre_of(0))
                share = clip.choice * clip.price / found.price
                yield from _clip(clip, "each unit's moments over all groups", share)
                if found.squares:
                    yield (
                        "May be NULL",
                        "a variance or standard deviation that the noise would swamp",
                    )
            yield "Price", f"{_units(worth(found.cost_at_most))}, for all groups together"
    elif isinstance(meter, QuantileMeter):
        yield "Mechanism", f"{meter.name}, {1 << meter.bins(groups).levels} bins"
        if meter.weights:
            yield "Weights", meter.weights
        yield "Price", f"{_of_groups(meter, groups, worth)}, for any number of quantiles of this value"
    elif isinstance(meter, PresenceMeter):
        yield "Mechanism", f"{meter.name}, the units of each of {len(meter.values.cells or ())} values"
        yield "Counted", f"values of more than about {meter.threshold} units"
        yield "Price", _units(worth(meter.cost(1)))
    elif isinstance(meter, DistinctMeter):
        yield from _distinct(meter.mechanism)
        yield "Price", _of_groups(meter, groups, worth)


def _distinct(mechanism: DistinctCountCurve | PersonLevelDistinctCount) -> Iterator[Property]:
    if isinstance(mechanism, PersonLevelDistinctCount):
        yield "Mechanism", f"{mechanism.name}, a lower bound"
        return
    least, most = mechanism.bounds[0], mechanism.bounds[-1]
    yield "Mechanism", f"{mechanism.name}, an estimate from below with a lower bound"
    yield (
        "Noise",
        f"standard deviation {mechanism.stddev(least):.1f} where a unit counts for {least} value, "
        f"to {mechanism.stddev(most):.1f} where it counts for {most}",
    )


def _clip(clip: UnitClip, what: str, share: Fraction) -> Iterator[Property]:
    """What is known before a length is chosen."""
    yield "Clip", f"{what} to a length chosen from the data ({100 * float(share):g}% of the price)"
    yield "Noise", f"standard deviation {float(clip.sigma_squared) ** 0.5:.1f} times that length"
    yield "Needs", f"about {clip.units_needed} units with rows; of fewer the answer may be NULL"


def _of_groups(meter: QuantileMeter | DistinctMeter, groups: int, worth: Worth) -> str:
    most = meter.changed.of(max(groups, 1))
    each = _units(worth(meter.cost(1)))
    if isinstance(meter, QuantileMeter) and meter.weights:
        return f"{each} for all groups together"
    return each if most == 1 else f"{each} for each of the {most} groups that a unit can be in"


def _units(cost: Cost) -> str:
    """A price in units, without the kind that is not asked for.

    >>> from fractions import Fraction
    >>> _units(Cost(Fraction(5, 4), Fraction(0)))
    '1.25 information units'
    """
    if not cost.calls:
        information = shown(micro(cost.information))
        return f"{information} information unit" + ("" if information == "1" else "s")
    return str(charge(cost))


def _query(query: HistogramQuery) -> Iterator[str]:
    yield query.sql
    for number, array in enumerate(query.arrays, 1):
        texts = ["NULL" if v is None else v for v in array]
        some = f"{len(texts)} cells: {', '.join(texts[:5])}{', ...' if len(texts) > 5 else ''}"
        yield f"${number}: {some if texts else 'the groups, once they are selected'}"
    if query.rank_key:
        yield f"${len(query.arrays) + 1}: the secret key of the rank"
