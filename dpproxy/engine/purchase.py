"""How an account gets a release: a paid answer is replayed free of charge, any other is bought.

A purchase reserves the most that the releases can cost, fetches, releases and settles: cost and answer are stored in
one transaction, and only its result may be sent. A release that fails after the backend was reached stays charged.
A LIMIT that the account cannot pay for is refused before: docs/decisions/limits-are-paid-whole.md.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import TypeVar

from budget.account import (
    Charge,
    ContinualRelease,
    ContinualStep,
    Exhausted,
    Frozen,
    Generation,
    LedgerError,
    Reservation,
    ReserveRequest,
    Settlement,
    in_words,
)
from dpproxy.backends.base import Backend, BackendError, Cancellation, Cancelled, Fetched, Slot, Turn
from dpproxy.engine import refusals
from dpproxy.engine.failures import Failures
from dpproxy.engine.implied import (
    NOTHING,
    ImpliedAnswer,
    Rows,
    Sought,
    implied,
    joint,
    largest,
    measures,
    sought,
    sought_apart,
)
from dpproxy.engine.optimizer import choices, part, smaller, weighs, with_choices, with_weights
from dpproxy.engine.options import Reuse
from dpproxy.engine.release_keys import Secrets
from dpproxy.engine.release_plan import ReleasePlan, charge
from dpproxy.engine.request import QueryRequest
from dpproxy.engine.result.released_table import ReleasedTable
from dpproxy.engine.rollback_guard import RollbackGuardedLedger
from dpproxy.engine.sealed_texts import SealedTexts
from dpproxy.engine.selection.groups import Choice, is_top_k
from dpproxy.front.waiting import waiting
from mechanisms.histogram import Cost
from rewriter.effort import bounded
from rewriter.plan import HistogramQuery
from rewriter.refusal import Refusal

Read = TypeVar("Read")
Streams = Mapping[bytes, ContinualRelease]
Accept = Callable[[Sequence[ReleasePlan], Sequence[Charge]], None]
"""Raises Refusal where the price is not accepted."""


class Purchases:
    """Buys releases of one backend on one ledger; safe to use from many threads.

    `secrets`: what the releases of an epoch are made with; `texts`: what seals the texts of answered statements for the
    ledger, None where it keeps none; `generation`: of the policy that all is planned under; `rows`: runs a query over
    constants at the front; `failures`: charges what raised; `login`: gives the account of a login.
    """

    def __init__(
        self,
        backend: Backend,
        ledger: RollbackGuardedLedger,
        secrets: Callable[[str], Secrets],
        texts: SealedTexts | None,
        generation: Generation,
        rows: Rows,
        failures: Failures,
        login: Callable[[str], str],
    ) -> None:
        self._backend, self._ledger, self._texts = backend, ledger, texts
        self._generation, self._rows = generation, rows
        self._secrets, self._failures, self._login = secrets, failures, login

    def results(
        self,
        request: QueryRequest,
        plans: Sequence[ReleasePlan],
        chain: Sequence[str],
        epoch: str,
        accept: Accept,
        reuse: Reuse = "off",
        before: Collection[bytes] = (),
    ) -> dict[bytes, ReleasedTable]:
        """The result of every plan by its request key, paid for by the accounts of `chain`, the analyst's own first.

        `accept` is called with what is to be bought, and the most that it can cost, before anything is reserved;
        `reuse`: whether what is implied is not bought; `before`: the measurements that this statement has got already.
        They alone imply a part of a published answer, which is renewed by itself.
        """
        plans = list({plan.request_key: plan for plan in plans}.values())
        results = self._replayed(request, [p for p in plans if not p.rungs], chain[0])
        among = None if request.kept is None else before
        wanted, parts, joined, doubts = [], {}, {}, {}
        for plan in plans:
            if plan.request_key in results:
                continue
            found, doubt = (
                (None, "") if reuse == "off" else self.implied(plan, chain[0], reuse, among, before)
            )
            if doubt:
                doubts[plan.request_key] = doubt
            if found is None or not (found.rest is not None or found.within or reuse == "always"):
                wanted.append(plan)
                continue
            if found.rest is not None and found.joined:
                wanted.append(found.rest)
                joined[plan.request_key] = plan, found.rest
                continue
            results[plan.request_key] = self.reused(request, found, chain[0])
            if found.rest is not None:
                wanted.append(found.rest)
                parts[plan.request_key] = plan, found
        follow = [] if reuse == "off" or not wanted or len(plans) == 1 else _following(plans)
        later = [plan for plan in follow if plan in wanted]
        accepted = self._accepted(wanted, chain, accept) if later else accept
        first = [plan for plan in wanted if plan not in later]
        bought = self._bought(request, first, chain, epoch, accepted)
        if later:
            made = _steps(plan for plan in plans if plan not in later).union(before)
            bought |= self.results(request, later, chain, epoch, accepted, reuse, made)
        if joined:
            # Where the rest came to no length, all of it is bought.
            asked, rests = zip(*joined.values(), strict=True)
            whole = self.results(request, asked, chain, epoch, accept, reuse, _steps(rests).union(before))
            results |= {
                key: joint(whole[plan.request_key], bought[rest.request_key])
                for key, (plan, rest) in joined.items()
            }
        results |= {
            plan.request_key: bought[plan.request_key] for plan in plans if plan.request_key in bought
        }
        results |= {
            key: found.with_rest(plan, bought[found.rest.request_key])
            for key, (plan, found) in parts.items()
            if found.rest is not None
        }
        return results | {key: replace(results[key], doubt=doubt) for key, doubt in doubts.items()}

    def implied(
        self,
        plan: ReleasePlan,
        account: str,
        reuse: Reuse,
        among: Collection[bytes] | None = None,
        before: Collection[bytes] = (),
    ) -> tuple[ImpliedAnswer | None, str]:
        """What this account's purchases imply about a plan, None where that is nothing, or it has paid for the plan.

        Behind it which of them contradict each other, so that nothing is computed from them.

        It is all of the plan, whatever its error. Where that is not known, or not what `reuse` takes, it is some of its
        measures, if less is to be bought then; with `off` never. `among`: the measurements that may imply something,
        None for all; `before`: what this statement has bought.
        """
        none: Sought = {}
        top = is_top_k(plan.selection) and plan.node.cells is not None
        asked = _within_effort(_of_all_groups, plan, plan) if top else plan
        keys: Sought = {}
        if plan.free is None and (among is None or among):
            keys = _within_effort(sought, asked, none) | _within_effort(sought_apart, asked, none)
        if not keys:
            return None, ""
        owned = self._ledger.owned(account, list(keys))
        if among is not None:
            owned = [one for one in owned if one.request_key in among]
        if not owned or not (missing := self._missing(plan, account)):
            return None, ""
        found = implied(asked, keys, owned, self._ledger.stored, self._rows)
        whole = found.whole
        if top:
            return None if whole is None else largest(plan, whole), found.doubt
        if reuse == "off" or (whole is not None and (whole.within or reuse == "always")):
            return whole, found.doubt
        prices = {_price(missing): whole}

        def less(_: ReleasePlan) -> list[ImpliedAnswer | None]:
            return [found.joined(), found.partial(always=reuse == "always")]

        none_less: list[ImpliedAnswer | None] = []
        for some in _within_effort(less, plan, none_less):
            if some is not None and some.rest is not None:
                left = self._missing(some.rest, account)
                # Where it has been bought it did not serve. All of it need not be: the higher rungs may be left.
                if not some.joined or (left and some.rest.request_key not in before):
                    prices.setdefault(_price(left), some)
        return prices[min(prices)], found.doubt

    def _missing(self, plan: ReleasePlan, account: str) -> list[ReleasePlan]:
        """The measurements of a plan that an account has not paid for."""
        steps = {step.request_key: step for step in (plan, *plan.rungs)}
        paid = self._ledger.paid(account, list(steps))
        return [step for key, step in steps.items() if key not in paid]

    def reused(self, request: QueryRequest, found: ImpliedAnswer, account: str) -> ReleasedTable:
        """An implied answer, noted in the account's history as replays of what it is computed from."""
        for source in found.sources:
            if self._ledger.replay(account, source, request.attributed) is None:
                raise LedgerError("an answer that was paid for has gone")
        return found.table

    def _bought(
        self,
        request: QueryRequest,
        plans: Sequence[ReleasePlan],
        chain: Sequence[str],
        epoch: str,
        accept: Accept,
    ) -> dict[bytes, ReleasedTable]:
        if any(plan.rungs for plan in plans):
            accept = self._accepted(plans, chain, accept)

        def buy(wanted: Sequence[ReleasePlan]) -> list[ReleasedTable]:
            bought = self._results(request, wanted, chain, epoch, accept)
            return [bought[plan.request_key] for plan in wanted]

        results = self._results(request, plans, chain, epoch, accept)
        for plan in plans:
            first = results[plan.request_key]
            if plan.rungs:
                results[plan.request_key] = plan.shown(ReleasedTable.combined(_measured(plan, first, buy)))
            if request.kept is not None:
                for place, key in choices(plan, lasting=True).items():
                    choice = first.choice(place)
                    if choice is not None and choice.length:
                        request.kept[key] = choice
        return results

    def _accepted(self, plans: Sequence[ReleasePlan], chain: Sequence[str], accept: Accept) -> Accept:
        """`accept` for what has been accepted here: all first measurements and rungs that are to be bought.

        The accounts have to have all of it: what is bought first would not be what was asked for.
        """
        steps = [step for plan in plans for step in (plan, *plan.rungs)]
        paid = self._ledger.paid(chain[0], [step.request_key for step in steps])
        missing = [step for step in steps if step.request_key not in paid and step.free is None]
        if missing:
            owed = [charge(step.cost_at_most) for step in missing]
            accept(missing, owed)
            self._must_pay(chain, Charge.sum(owed))
        return lambda bought, owed: None

    def _must_pay(self, chain: Sequence[str], needed: Charge) -> None:
        """Raises Frozen or Exhausted as a reservation would; another one may still come before it."""
        for account in chain:
            row, own = self._ledger.accounts.get(account), account == chain[0]
            if row.frozen:
                raise Frozen(own)
            if not row.can_pay(needed):
                raise Exhausted(needed, row.left if own else None, row.refreshes_at if own else None)

    def _results(
        self,
        request: QueryRequest,
        plans: Sequence[ReleasePlan],
        chain: Sequence[str],
        epoch: str,
        accept: Accept,
    ) -> dict[bytes, ReleasedTable]:
        with request.stages.during("replay"):
            results = self._replayed(request, plans, chain[0])
        missing = {p.request_key: p for p in plans if p.request_key not in results}
        if not missing:
            return results
        # Another process may be computing the same release.
        single_flight = self._ledger.single_flight.hold(
            {p.lock for p in missing.values()},
            account=chain[0],
            requests=missing,
            releases=[p.release_key for p in missing.values()],
            waiting=partial(_go_on, request.cancellation),
        )
        with request.stages.during("reserve"), single_flight as known:
            paid = [p for key, p in missing.items() if key in known]
            results |= self._replayed(request, paid, chain[0])
            wanted = [p for key, p in missing.items() if key not in results]
            new = {p.release_key for p in wanted} - set(known)
            wanted = [
                self._informed(p, chain[0], request.kept or {}) if p.release_key in new else p for p in wanted
            ]
            results |= {p.request_key: self._unasked(p, epoch) for p in wanted if not p.rounds}
            wanted = [p for p in wanted if p.rounds]
            return results | (self._buy(request, wanted, chain, epoch, new, accept) if wanted else {})

    def _replayed(
        self, request: QueryRequest, plans: Sequence[ReleasePlan], account: str
    ) -> dict[bytes, ReleasedTable]:
        """The free answers: those that this account has paid for before, and those that need no private rows."""
        results = {}
        for plan in plans:
            free = plan.free
            if free is not None:
                results[plan.request_key] = free
                continue
            # An answer for the owner's whole allowance has all that one for less could have.
            for paid in filter(None, (plan.wider, plan)):
                stored = self._ledger.replay(account, paid.request_key, request.attributed)
                if stored is not None:
                    if plan.wider is None:
                        request.replays[plan.request_key] = stored
                    results[plan.request_key] = replace(paid.shown(ReleasedTable.load(stored)), replayed=True)
                    break
        return results

    def _informed(self, plan: ReleasePlan, account: str, kept: Mapping[bytes, Choice]) -> ReleasePlan:
        """The plan with what was chosen in answers that this account has paid for: in this epoch, or `kept`."""
        if plan.terms.rung:
            return plan  # it has what was chosen for the first measurement
        keys = {key: place for place, key in choices(plan).items()}
        stored = self._ledger.choices(account, list(keys)) if keys else {}
        known = {}
        for key, (place, answer) in stored.items():
            choice = ReleasedTable.load(answer).choice(place)
            if choice is not None:
                known[keys[key]] = choice
        if kept:
            known |= {n: kept[key] for n, key in choices(plan, lasting=True).items() if key in kept}
        return with_choices(plan, known)

    def _unasked(self, plan: ReleasePlan, epoch: str) -> ReleasedTable:
        """The answer of a plan of which all has been paid for: earlier choices came to no length."""

        def fetch(_: HistogramQuery) -> Fetched:
            raise AssertionError("nothing is left to be asked")

        released = plan.release(fetch, plan.noise(self._secrets(epoch).noise, bytes(16)))
        return replace(plan.shown(released), replayed=True)

    def _buy(
        self,
        request: QueryRequest,
        plans: list[ReleasePlan],
        chain: Sequence[str],
        epoch: str,
        new: Collection[bytes],
        accept: Accept,
    ) -> dict[bytes, ReleasedTable]:
        """Reserves the most that all can cost, then fetches, releases and settles one after the other.

        The slot is taken first, so that an unreachable backend costs nothing; from the reservation on, what is
        not settled is spent. `new`: release keys that have no stored answer yet.
        """
        write_queries(plans)
        secrets = self._secrets(epoch)
        noted = partial(measures, rows=self._rows)
        made = {plan.request_key: _within_effort(noted, plan, NOTHING) for plan in plans}
        streams = {p.stream: self._ledger.stream(chain, p.stream) for p in plans if p.stream is not None}
        accept(plans, [_owed(plan, streams) for plan in plans])
        # For a client that has gone what is reserved is finished, and nothing more is bought.
        _go_on(waiting().cancellation)
        request.stages.expect(sum(p.rounds for p in plans))
        # A wait for a slot ends with its client, or its time, and costs nothing.
        turn = Turn(request.analyst, waiting().cancellation)
        with self._backend.open(turn) as slot, request.watcher.slot():
            try:
                held = self._reserved(request, plans, chain, streams)
            except Exhausted:
                plans = [self._affordable(p, chain[0]) for p in plans]
                held = self._reserved(request, plans, chain, streams)
            unsettled = list(held)
            results = {}
            try:
                for plan, reservation in zip(plans, held, strict=True):
                    stream = None if plan.stream is None else streams[plan.stream]
                    stored = None if plan.release_key in new else self._ledger.stored(plan.release_key)
                    if stored is None:
                        try:
                            released = self._release(plan, slot, reservation, request, stream, secrets)
                            answer, cost = released.dump(), charge(released.cost)
                        except Exception as error:
                            unsettled.remove(reservation)
                            request.paid.take(reservation.at_most)
                            self._failures.charge(request, reservation, error)
                            raise
                    else:
                        answer, cost = stored
                        released = ReleasedTable.load(answer)
                    settlement = Settlement(
                        cost,
                        release_key=plan.release_key,
                        request_key=plan.request_key,
                        answer=answer,
                        mechanism=plan.recorded,
                        query=plan.node.shown,
                        epoch=epoch,
                        look=None
                        if plan.stream is None or stream is None
                        else ContinualStep(plan.stream, stream.looks),
                        noise=plan.shown(released).noise(),
                        choices={
                            key: place
                            for place, key in choices(plan).items()
                            if released.choice(place) is not None
                        },
                        measures=made[plan.request_key][0],
                        groups=made[plan.request_key][1],
                        sealed=None
                        if self._texts is None
                        else self._texts.seal(request.text, chain[0], plan.release_key),
                    )
                    results[plan.request_key] = self._settle(plan, reservation, settlement, request)
                    unsettled.remove(reservation)
            except BaseException:
                for reservation in unsettled:
                    with suppress(LedgerError):
                        self._ledger.spend(reservation)
                        request.paid.take(reservation.at_most)
                raise
        return results

    def _reserved(
        self, request: QueryRequest, plans: Sequence[ReleasePlan], chain: Sequence[str], streams: Streams
    ) -> tuple[Reservation, ...]:
        return self._ledger.reserve(
            ReserveRequest(
                chain,
                [_owed(plan, streams) for plan in plans],
                reached=True,
                queries=[plan.node.asked for plan in plans],
                mechanisms=[plan.recorded for plan in plans],
                looking=bool(streams),
                attributed=request.attributed,
                generation=self._generation,
                login=self._login(request.login or request.analyst),
            )
        )

    def _affordable(self, plan: ReleasePlan, account: str) -> ReleasePlan:
        row = self._ledger.accounts.get(account)
        fitting = plan if row.limit.mode == "track" else smaller(plan, row.left)
        if plan.k is not None and fitting.k is not None and fitting.k < plan.k:
            raise refusals.limit_beyond(*in_words(charge(plan.cost_at_most), row.left), fitting.k)
        return fitting

    def _release(
        self,
        plan: ReleasePlan,
        slot: Slot,
        reservation: Reservation,
        request: QueryRequest,
        stream: ContinualRelease | None,
        secrets: Secrets,
    ) -> ReleasedTable:
        """Asks the backend, adds the noise of this reservation; a stream is continued after its last step."""

        def fetch(query: HistogramQuery) -> Fetched:
            request.stages.round += 1
            assert query.most is not None, "nothing bounds the rows of a query"
            with request.stages.during("fetch"):
                return slot.fetch(query, secrets.rank, request.cancellation, query.most)

        noise = plan.noise(secrets.noise, reservation.id.bytes)
        continued = plan.after(_last_step(stream))
        try:
            with request.stages.during("release"):
                return continued.release(fetch, noise)
        except ValueError as error:
            raise BackendError(message=str(error)) from None

    def _settle(
        self, plan: ReleasePlan, reservation: Reservation, settlement: Settlement, request: QueryRequest
    ) -> ReleasedTable:
        """Commits cost and answer together. If another process has stored the release, its answer is returned."""
        try:
            with request.stages.during("settle"):
                settled = self._ledger.settle(reservation, settlement)
        except Frozen:
            request.paid.take(reservation.at_most)
            raise
        request.paid.take(settled.charged)
        result = plan.shown(ReleasedTable.load(settled.answer))
        return replace(result, lowered=plan.lowered, charged=settled.charged, left=settled.left)


def _measured(
    plan: ReleasePlan, first: ReleasedTable, buy: Callable[[Sequence[ReleasePlan]], list[ReleasedTable]]
) -> list[ReleasedTable]:
    """All measurements of an answer: what this account has bought of them decides lengths or weights of the further."""
    tables = [first]
    known = {place: choice for place in choices(plan) if (choice := first.choice(place))}
    if weighs(plan):
        lengths = {place: choice for place, choice in known.items() if choice.length}
        for rung in plan.rungs:
            # A length serves twice the price that it was chosen for, and no more.
            served = lengths if rung.level <= plan.terms.units else {}
            tables += buy([with_weights(rung, ReleasedTable.combined(tables), served)])
        return tables
    return [first, *buy([with_choices(rung, known) for rung in plan.rungs])]


def _within_effort(read: Callable[[ReleasePlan], Read], plan: ReleasePlan, otherwise: Read) -> Read:
    """What is read off a plan, for statements for which that is not too much work."""
    try:
        with bounded():
            return read(plan)
    except Refusal as refusal:
        if refusal.code != "54001":
            raise
        return otherwise


def _of_all_groups(plan: ReleasePlan) -> ReleasePlan:
    """The plan of all groups of a top k."""
    return part(plan, range(len(plan.node.aggregate.measures)))


def _following(plans: Sequence[ReleasePlan]) -> list[ReleasePlan]:
    """The plans that may be implied by others of them with more cells, such as the totals of a ROLLUP."""
    made = {p.request_key: set(_within_effort(measures, p, NOTHING)[0]) for p in plans}
    cells = {p.request_key: len(p.node.cells or ((),)) for p in plans}

    def follows(plan: ReleasePlan) -> bool:
        none: Sought = {}
        keys = _within_effort(sought, plan, none)
        finer = (made[key] for key, size in cells.items() if size > cells[plan.request_key])
        known = (
            {one.wanted[0] for key in found & keys.keys() for one in keys[key] if one.wanted[1] == "itself"}
            for found in finer
        )
        return any(len(places) == len(plan.node.aggregate.measures) for places in known)

    return [plan for plan in plans if follows(plan)]


def _steps(plans: Iterable[ReleasePlan]) -> set[bytes]:
    """The request keys of the measurements of plans."""
    return {step.request_key for plan in plans for step in (plan, *plan.rungs)}


def _price(plans: Sequence[ReleasePlan]) -> Fraction:
    return Cost.sum(plan.cost_at_most for plan in plans).information


def write_queries(plans: Sequence[ReleasePlan]) -> None:
    """Writes the backend's SQL, which is kept with the plan: SQL that is too much work is refused before payment, and
    so is SQL that may bring more rows than the owner lets it (54000), or rows whose number cannot be capped there."""
    with bounded():
        for plan in plans:
            for query in plan.queries():
                if query.most is not None and query.most > plan.terms.max_rows:
                    raise refusals.too_many_rows(query.most, plan.terms.max_rows)
            for cap in plan.caps:
                if cap.fitting < cap.rows:
                    raise refusals.noise_above_rows(cap.stddev, cap.most)


def _owed(plan: ReleasePlan, streams: Streams) -> Charge:
    """The most that a plan can cost: nothing, where it continues a stream that is paid."""
    stream = None if plan.stream is None else streams[plan.stream]
    return Charge(0, 0) if stream is not None and stream.paid else charge(plan.cost_at_most)


def _last_step(stream: ContinualRelease | None) -> ReleasedTable | None:
    """What the last step of a stream released; LedgerError where it was lost, since no other may be taken then."""
    if stream is None or not stream.looks:
        return None
    if stream.answer is None:
        raise LedgerError("the last release of a stream is missing")
    return ReleasedTable.load(stream.answer)


def _go_on(cancellation: Cancellation) -> None:
    if cancellation.cancelled:
        raise Cancelled
