"""A query's price in words, for its owner: which declarations decide, what error to expect, what would cost
less."""

from __future__ import annotations

from collections.abc import Iterator

from dpproxy.catalog.build_policy import unit_words
from dpproxy.config.sections import Config
from dpproxy.deployment.service import Service
from dpproxy.engine.cap_notes import BEYOND, NOT_COVERED, caps
from dpproxy.engine.measurement.base import SumMeasurement
from dpproxy.engine.measurement.totals import TotalsMeasurement
from dpproxy.engine.optimizer import plan_release
from dpproxy.engine.options import usual_terms
from dpproxy.engine.planner import BoundNode, Planner
from dpproxy.engine.release_keys import ReleaseKeys
from dpproxy.engine.release_plan import ReleasePlan, charge
from dpproxy.engine.selection.groups import GAUSSIAN, CountSelection, FullDomain, is_top_k, width_of
from dpproxy.engine.selection.partitions import PartitionSelection
from dpproxy.engine.selection.running import RunningSelection
from dpproxy.owner.init.units import shown
from mechanisms.count_release import KnownCountRelease, PrivateCountRelease
from mechanisms.unit_clip import UnitClip
from mechanisms.unit_moments import UnitMoments
from rewriter.ir.measure import Count, Moment
from rewriter.ir.relation import Relation, Source, kinds, leaves, parts
from rewriter.policy import Column, Policy, Table
from rewriter.statements.classify import Verdict

_KEYS = ReleaseKeys(bytes(32), b"", b"")
"""In place of the deployment's: nothing is released here."""


def in_words(service: Service, statement: str) -> list[str]:
    """The explanation of a statement that EXPLAIN has accepted; nothing is read or charged. Raises Refusal."""
    checked = service.checked
    planner = Planner(checked.policy, service.front, checked.backend.dialect)
    if planner.classify(f"EXPLAIN {statement}") is not Verdict.PRIVATE:
        return []
    on = usual_terms(checked.config.privacy)
    lines: list[str] = []
    for node in planner.plan(f"EXPLAIN {statement}", (), ()):
        if isinstance(node, BoundNode):
            lines += words(plan_release(node, on, _KEYS), checked.policy, checked.config)
    return lines


def words(one: ReleasePlan, policy: Policy, config: Config) -> Iterator[str]:
    """The sentences about one DP node."""
    relation = one.node.aggregate.relation
    unit = unit_words(policy, next(iter(kinds(relation)), None))
    yield from _protected(relation, unit, config, policy)
    yield from _groups(one, unit)
    if one.selection is None:
        yield "The answer has no rows, so it costs nothing."
        return
    yield _mechanism(one, unit)
    yield from _clamp(one, unit)
    yield f"Price: at most {charge(one.cost_at_most)}, once; the same question is free for the rest of the epoch."
    yield from _error(one)
    yield from _cheaper(one)


def _protected(relation: Relation, unit: str, config: Config, policy: Policy) -> Iterator[str]:
    for source in relation.sources:
        if source.private and source.derived is None:
            name = shown((source.table.schema, source.table.name))
            section = config.tables.get(name)
            path = section.privacy_unit_path if section is not None else []
            said = f"privacy_unit_path = {path}" if path else f'privacy_unit = "{source.table.privacy_unit}"'
            yield f"[tables.{name}] {said}: each {unit} is protected with all its rows."
            yield from _filtered(source.table, policy)
        elif source.view is not None:
            name = shown((source.view.schema, source.view.name))
            yield f"[tables.{name}] is a view: what follows is of the tables that it reads."
            for read in parts(source.derived) if source.derived is not None else ():
                yield from _protected(read, unit, config, policy)
        elif source.private:
            yield f"A subquery's rows belong to their {unit}: each is protected with all its rows."


def _filtered(table: Table, policy: Policy) -> Iterator[str]:
    for passed in (table, *(policy.tables[hop.target] for hop in table.path)):
        if passed.where is not None:
            name = shown((passed.schema, passed.name))
            yield f"[tables.{name}] where: rows for which it is not true exist for nobody."


def _groups(one: ReleasePlan, unit: str) -> Iterator[str]:
    node = one.node
    if not node.aggregate.keys:
        yield "There is one group, all rows, and every answer has it: a known domain of one cell."
        return
    relation = node.aggregate.relation
    for alias, name in sorted(leaves(*node.aggregate.keys)):
        source = relation.source(alias)
        if source.derived is None:
            yield _sentence(source, source.column(name), known=node.cells is not None)
    if node.cells is None:
        yield "So the groups are not known beforehand: only those of enough units may be named."
    else:
        yield f"So there are {len(node.cells)} groups, known beforehand: each one may be shown, also an empty one."
    if node.delta0 is None:
        yield f"Nothing bounds how many of them one {unit} is in (unrestricted)."
    else:
        yield f"One {unit} is in {node.delta0} of them at most (l0, restricted)."


def _sentence(source: Source, column: Column, *, known: bool) -> str:
    table: Table = source.table
    name = shown((table.schema, table.name))
    if table.public:
        return f"[tables.{name}] public = true: the values of {column.name} are known."
    place = f"[tables.{name}.columns] {column.name}"
    if column.domain is not None:
        return f"{place} has a domain of {len(column.domain)} values: they are known."
    if column.domain_from is not None:
        return f'{place} has domain_from = "{column.domain_from[0][1]}.{column.domain_from[1]}": its values are known.'
    if column.range is not None:
        return f"{place} has a range from {column.range[0]} to {column.range[1]}: its values are known."
    most = table.max_groups_per_unit.get(frozenset({column.name}))
    bounded = f'; max_groups_per_unit says "{column.name}" = {most}' if most is not None else ""
    if known:
        return f"{place} is bound to public values by the query: they are known{bounded}."
    return f"{place} has neither domain nor range: its values are unknown{bounded}."


def _mechanism(one: ReleasePlan, unit: str) -> str:
    selection = one.selection
    if isinstance(selection, RunningSelection):
        return f"{one.name} answers: a running count, whose noise is drawn once for each item, not anew at each time."
    if isinstance(selection, PartitionSelection) and one.meters:
        return f"{one.name} answers: it finds the groups that enough {unit}s are in, and then measures these."
    if isinstance(selection, PartitionSelection):
        return f"{one.name} answers: it releases the names that enough {unit}s have, and no number."
    if isinstance(selection, CountSelection):
        mechanism = selection.mechanism
        if is_top_k(selection):
            return f"{one.name} answers: it chooses the {selection.most} largest groups privately, and pays for each."
        if isinstance(mechanism, (KnownCountRelease, PrivateCountRelease)):
            return f"{one.name} answers: it releases counts from the largest on, as many as its allowance pays for."
        return f"{one.name} answers: every group whose noisy count is above a threshold that no one {unit} can pass."
    if not one.meters:
        return "The declared values are the answer: nothing private is read."
    return f"{one.name} answers: every group is shown, with noise."


def _clamp(one: ReleasePlan, unit: str) -> Iterator[str]:
    for place, mechanism in _clipping(one):
        outputs = zip(one.node.aggregate.names, one.node.aggregate.outputs, strict=False)
        what = ", ".join(name for name, output in outputs if name and place in output.measures)
        needed = _clip(mechanism).units_needed
        yield (
            f"Each {unit}'s totals{f' of {what}' if what else ''} over all groups are clipped to a length that is "
            f"found privately: nothing has to be declared. It takes about {needed} {unit}s that have rows."
        )
        if isinstance(mechanism, UnitMoments):
            yield (
                f"In an average, a {unit} with totals above that length has less weight: where averages depend on the "
                "number of rows, the answer differs from the average of all rows."
            )
    tau = max((m.tau for m in one.node.aggregate.measures if isinstance(m, (Count, Moment))), default=1)
    if tau > 1:
        yield (
            f"max_rows_per_unit (of a group: max_rows_per_unit_per_group) lets {tau} rows of one {unit} count: "
            f"noise and threshold are {tau} times as large."
        )


def _clipping(one: ReleasePlan) -> Iterator[tuple[int, UnitClip | UnitMoments]]:
    """The places of clipped totals with their mechanisms, over one group."""
    for meter in one.meters:
        if isinstance(meter, TotalsMeasurement):
            yield from zip(meter.places, meter.mechanisms(1), strict=True)


def _clip(mechanism: UnitClip | UnitMoments) -> UnitClip:
    """What clips the vectors, before a centre is known."""
    return mechanism if isinstance(mechanism, UnitClip) else mechanism.clip(mechanism.centre_of(0))


def _error(one: ReleasePlan) -> Iterator[str]:
    selection = one.selection
    counts, sums = [], []
    if isinstance(selection, CountSelection) and selection.mechanism.stddev is not None:
        counts.append(width_of(selection.mechanism.noise_family) * selection.mechanism.stddev)
    for meter in one.meters:
        if isinstance(meter, SumMeasurement) and selection is not None:
            width = width_of(meter.settings.noise)
            for place, mechanism in zip(meter.places, meter.mechanisms(max(1, selection.most)), strict=True):
                measure = one.node.aggregate.measures[place]
                if isinstance(measure, Count):
                    counts.append(width * mechanism.stddev)
                elif isinstance(measure, Moment) and measure.power == 1:
                    spread = mechanism.stddev / (2 if measure.centred else 1)
                    sums.append(width * spread / 10**measure.value.scale)
    for what, within in (("counts", counts), ("sums", sums)):
        if within:
            yield f"Error to expect: 95% of the {what} lie within {max(within):,.4g} of the truth."
    clips = [_clip(mechanism) for _, mechanism in _clipping(one)]
    if clips:
        times = GAUSSIAN * float(clips[0].sigma_squared) ** 0.5
        yield (
            f"Error to expect: 95% of the clipped totals lie within {times:.3g} times the length of the truth; "
            "the answer says which length was found."
        )
    if (counts or sums) and (capped := caps(one.node.aggregate)):
        yield f"That is the truth of what counts: {capped}, {BEYOND}, {NOT_COVERED}."
    if one.threshold is not None and isinstance(selection, CountSelection):
        yield f"A group is released from a count of about {one.threshold} above the first one that is not fetched."


def _cheaper(one: ReleasePlan) -> Iterator[str]:
    """How to change the query or the policy to pay less, or to get more."""
    node, selection = one.node, one.selection
    unknown = node.cells is None and bool(node.aggregate.keys)
    if is_top_k(selection):
        yield f"To pay less: a smaller LIMIT, here {one.k}."
        if not unknown:
            yield "Or SET dpproxy.spend = 'cheap': all groups for 1 unit, with more noise."
    elif (
        isinstance(selection, CountSelection)
        and one.k is None
        and isinstance(selection.mechanism, (KnownCountRelease, PrivateCountRelease))
    ):
        yield "To pay less: ORDER BY the count DESC LIMIT 10, or SET dpproxy.max_cost."
    elif isinstance(selection, FullDomain) and len(one.meters) and one.cost_at_most.information > 1:
        yield "To pay less: SET dpproxy.spend = 'cheap' (1 unit a number, with more noise), or ask for fewer numbers."
    if unknown:
        yield "If you know the values: a domain in the policy needs no threshold, and no call."
        if node.delta0 is None:
            yield "If you know a bound: max_groups_per_unit makes it 1 unit, whatever the number of groups."
