"""A private statement's way: plan, price, pay, fetch, release, settle. Only a settled answer leaves."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from functools import partial
from threading import Lock
from typing import cast

from budget.account import (
    BudgetRow,
    Charge,
    ContinualRelease,
    ContinualStep,
    Exhausted,
    LedgerError,
    Limit,
    ReleaseRow,
    Reservation,
    ReserveRequest,
    Settlement,
)
from budget.ledger import Ledger
from budget.units import micro_limit
from dpproxy.backends.base import Backend, BackendError, Cancellation, Cancelled, Fetched, Slot
from dpproxy.config.epoch import epoch_name
from dpproxy.config.sections import Config
from dpproxy.engine import refusals
from dpproxy.engine.binary_arrays import text_array
from dpproxy.engine.explain import explanation
from dpproxy.engine.last_release import LastRelease, LastRow
from dpproxy.engine.optimizer import plan_release, smaller
from dpproxy.engine.options import terms
from dpproxy.engine.planner import BoundNode, Planned, Planner, PreparedQuery
from dpproxy.engine.postprocess import OutputColumn
from dpproxy.engine.presentation_arrays import arrays, released
from dpproxy.engine.release_plan import ReleasePlan, charge, total
from dpproxy.engine.released_table import ReleasedTable
from dpproxy.engine.request import QueryRequest
from mechanisms import randomness
from rewriter.effort import bounded
from rewriter.logical.plan import SystemDraft
from rewriter.plan import HistogramQuery
from rewriter.statements.classify import Verdict
from rewriter.statements.set_statement import ERROR_COLUMNS

Texts = tuple[str | None, ...]
STREAMS = "running counts"
"""The name under which the ledger keeps the nonce of its streams, which outlives epochs."""


@dataclass(frozen=True)
class Answer:
    """What a step gives: the released arrays in PostgreSQL's binary format, and notices to send before the rows."""

    arrays: tuple[bytes, ...]
    notices: tuple[str, ...]


class QueryEngine:
    """The composition of the rooms for one policy; safe to use from many threads.

    `key`: the deployment's 32 secret bytes; `reload` reads the public tables into the front anew, which
    happens when an epoch begins.
    """

    def __init__(
        self,
        config: Config,
        planner: Planner,
        backend: Backend,
        ledger: Ledger,
        key: bytes,
        reload: Callable[[str], None],
    ) -> None:
        self._config, self._planner, self._backend, self._ledger = config, planner, backend, ledger
        self._noise_key, self._release_key = (randomness.derive(key, p) for p in ("noise", "release"))
        self._rank_key = randomness.derive(key, "rank").hex()
        self._fingerprint = config.fingerprint()
        self._reload, self._epoch, self._turning = reload, self._epoch_now(), Lock()
        self._chains: dict[str, list[str]] = {}
        self._accepted = ledger.accepted()

    def _nonces(self, epoch: str) -> tuple[bytes, bytes]:
        """The epoch's, and that of the streams: another one each time that the owner has taken the ledger as it is.

        What a ledger that was restored has forgotten of a stream, or what other data have, is not to meet its noise.
        """
        streams = f"{STREAMS} {self._accepted}" if self._accepted else STREAMS
        return self._ledger.epoch_nonce(epoch), self._ledger.epoch_nonce(streams)

    def classify(self, text: str) -> Verdict:
        """Whether `text` takes the privacy step; raises Refusal for what no analyst may send."""
        return self._planner.classify(text)

    def prepare(self, text: str, oids: tuple[int, ...], errors: bool = False) -> PreparedQuery:
        """The plan of a private statement; nothing is charged. Raises Refusal.

        `errors`: with the columns of dpproxy.error_columns, which `execute` is then to be told, too.
        """
        return self._planner.prepare(text, oids, errors)

    def known(self, text: str, oids: tuple[int, ...], errors: bool = False) -> PreparedQuery | None:
        """What `prepare` gives where that is cached: without I/O."""
        return self._planner.known(text, oids, errors)

    def execute(self, request: QueryRequest) -> Answer:
        """Pays for a private statement, runs and releases it, or replays what this analyst has paid for.

        Raises Refusal; whatever fails once the backend was reached stays charged.
        """
        with refusals.translated(), request.stages.during("plan"):
            epoch = self._turn_epoch()
            errors = _on(request.settings.get(ERROR_COLUMNS, "off"))
            prepared = self._planner.prepare(request.text, request.oids, errors)
            chain = self._chain(request.analyst)
            if prepared.explain:
                return Answer((text_array(self._explained(request, prepared, chain[0], epoch)),), ())
            columns, results = self._released(request, prepared, chain, epoch)
            request.paid.replayed = sum(result.replayed for result in results.values())
        with request.stages.during("present"):
            request.last.note(results.values())
            notices = tuple(row.notice for row in request.last.rows) if results else ()
            silent = _off(request.settings.get("dpproxy.notices", "on"))
            return Answer(arrays(columns, prepared), () if silent else notices)

    def _released(
        self, request: QueryRequest, prepared: PreparedQuery, chain: Sequence[str], epoch: str
    ) -> tuple[list[Sequence[object]], dict[bytes, ReleasedTable]]:
        """The released columns, in stages: a node waits for the constants in it, a constant for the nodes it reads."""
        columns: list[Sequence[object]] = []
        results: dict[bytes, ReleasedTable] = {}
        constants: list[Texts] = []
        shown: dict[int, ReleasedTable] = {}
        done = 0
        while done < len(prepared.columns):
            self._evaluate(request, prepared, constants, done, arrays(columns, prepared))
            planned = self._planner.plan(request.text, request.oids, request.parameters, constants)
            ready = prepared.ready(len(constants))
            asks = self._asks(planned[done:], request.settings, epoch)
            if ready < len(planned):
                self._refuse_unaffordable(asks, chain)
            results |= self._results(
                request, [a for a in asks[: ready - done] if a is not None], chain, epoch
            )
            for number, one in enumerate(asks[: ready - done], done):
                node = planned[number]
                if isinstance(node, SystemDraft) or one is None:
                    columns += self._system(cast(SystemDraft, node).name, chain[0], request.last)
                else:
                    result = results[one.request_key]
                    shown[number] = result.suppressed(self._config.privacy.min_units)
                    columns += released(
                        shown[number].keys,
                        shown[number].columns,
                        node.draft,
                        prepared.columns[number],
                        nonnegative=self._config.privacy.nonnegative,
                    )
            done = ready
        columns += [_deviations(shown[node].columns[place]) for node, place in prepared.errors]
        return columns, results

    def _evaluate(
        self,
        request: QueryRequest,
        prepared: PreparedQuery,
        constants: list[Texts],
        done: int,
        arrays: Sequence[bytes],
    ) -> None:
        """Add the constants that `done` released nodes are enough for."""
        while len(constants) < len(prepared.constants) and prepared.constants[len(constants)].nodes <= done:
            constants.append(
                self._planner.constant(request.text, request.oids, len(constants), request.parameters, arrays)
            )

    def _refuse_unaffordable(self, asks: Sequence[ReleasePlan | None], chain: Sequence[str]) -> None:
        """PV001 before anything is paid where the account could not pay for the stages to come."""
        needed = charge(total(a.cost_at_most for a in asks if a is not None))
        if not self._ledger.check_budget(chain[0], needed):
            raise Exhausted(needed, self._ledger.left(chain[0]), None)

    def _asks(self, planned: Planned, settings: Mapping[str, str], epoch: str) -> list[ReleasePlan | None]:
        """Priced once for a plan, an epoch and what the analyst has set."""

        def priced(node: BoundNode) -> ReleasePlan:
            privacy = self._config.privacy
            on = replace(terms(privacy, settings), length=privacy.epoch, epoch=epoch)
            nonces = self._nonces(epoch)
            return plan_release(node, on, (nonces[0], self._fingerprint, self._release_key, nonces[1]))

        key = ("ask", epoch, *settings.items())
        with bounded():
            return [n.noted(key, priced) if isinstance(n, BoundNode) else None for n in planned]

    def _results(
        self, request: QueryRequest, asks: Sequence[ReleasePlan], chain: Sequence[str], epoch: str
    ) -> dict[bytes, ReleasedTable]:
        """The result of every ask: replayed for nothing where the account has paid for it, else bought."""
        with request.stages.during("replay"):
            results = self._replayed(request, asks, chain[0])
        missing = {a.request_key: a for a in asks if a.request_key not in results}
        if missing:
            # Somebody may be buying the same just now, in whichever process.
            locks = {a.lock for a in missing.values()}
            waiting = partial(_go_on, request.cancellation)
            releases = [a.release_key for a in missing.values()]
            computing = self._ledger.computing(
                locks, account=chain[0], requests=missing, releases=releases, waiting=waiting
            )
            with request.stages.during("reserve"), computing as known:
                paid = [a for key, a in missing.items() if key in known]
                results |= self._replayed(request, paid, chain[0])
                bought = [a for key, a in missing.items() if key not in results]
                new = {a.release_key for a in bought} - set(known)
                results |= self._buy(request, bought, chain, epoch, new) if bought else {}
        return results

    def _replayed(
        self, request: QueryRequest, asks: Sequence[ReleasePlan], account: str
    ) -> dict[bytes, ReleasedTable]:
        """What this account has paid for before, and what comes to nothing."""
        results = {}
        for one in asks:
            given = one.free
            found = (
                self._ledger.replay(account, one.request_key, request.attributed) if given is None else None
            )
            if given is not None:
                results[one.request_key] = given
            elif found is not None:
                results[one.request_key] = replace(one.shown(ReleasedTable.load(found)), replayed=True)
        return results

    def _buy(
        self,
        request: QueryRequest,
        asks: list[ReleasePlan],
        chain: Sequence[str],
        epoch: str,
        new: Collection[bytes],
    ) -> dict[bytes, ReleasedTable]:
        """Reserve the most that all can cost, then fetch, release and settle one after the other.

        The slot is taken first, so that an unreachable backend costs nothing; from the reservation on, what is
        not settled is spent. `new`: release keys of which nobody has an answer yet.
        """
        _write(asks)
        streams = {a.stream: self._ledger.stream(chain, a.stream) for a in asks if a.stream is not None}
        request.stages.expect(sum(a.rounds for a in asks))
        with self._backend.open() as slot, request.watcher.slot():
            try:
                held = self._reserved(request, asks, chain, streams)
            except Exhausted:
                asks = [self._affordable(a, chain[0]) for a in asks]
                held = self._reserved(request, asks, chain, streams)
            open_ones = list(held)
            results = {}
            try:
                for one, reservation in zip(asks, held, strict=True):
                    seen = None if one.stream is None else streams[one.stream]
                    results[one.request_key] = self._settle(
                        one, slot, reservation, request, epoch, seen, one.release_key in new
                    )
                    open_ones.remove(reservation)
            except BaseException:
                for reservation in open_ones:
                    with suppress(LedgerError):
                        self._ledger.spend(reservation)
                        request.paid.take(reservation.at_most)
                raise
        return results

    def _reserved(
        self,
        request: QueryRequest,
        asks: Sequence[ReleasePlan],
        chain: Sequence[str],
        streams: Mapping[bytes, ContinualRelease],
    ) -> tuple[Reservation, ...]:
        return self._ledger.reserve(
            ReserveRequest(
                chain,
                [_owed(a, streams) for a in asks],
                reached=True,
                query=request.text,
                mechanisms=[a.recorded for a in asks],
                looking=bool(streams),
                attributed=request.attributed,
            ),
        )

    def _settle(
        self,
        one: ReleasePlan,
        slot: Slot,
        reservation: Reservation,
        request: QueryRequest,
        epoch: str,
        seen: ContinualRelease | None,
        new: bool,
    ) -> ReleasedTable:
        """Release one node and commit its cost and answer together; somebody's stored answer is taken as it is.

        `seen`: what is known of its stream, which it continues; `new`: nobody has it yet.
        """
        known = None if new else self._ledger.stored(one.release_key)
        if known is None:
            stream = one.noise(self._noise_key, reservation.id.bytes)
            continued = one.after(_last_look(seen))
            rows = self._config.backend.max_rows

            def fetch(query: HistogramQuery) -> Fetched:
                request.stages.round += 1
                with request.stages.during("fetch"):
                    return slot.fetch(query, self._rank_key, request.cancellation, rows)

            try:
                with request.stages.during("release"):
                    result = continued.release(fetch, stream)
            except ValueError:
                raise BackendError from None
            known = result.dump(), charge(result.cost)
        else:
            result = ReleasedTable.load(known[0])
        with request.stages.during("settle"):
            settled = self._ledger.settle(
                reservation,
                Settlement(
                    known[1],
                    release_key=one.release_key,
                    request_key=one.request_key,
                    answer=known[0],
                    mechanism=one.recorded,
                    query=one.node.text,
                    epoch=epoch,
                    look=None
                    if one.stream is None or seen is None
                    else ContinualStep(one.stream, seen.looks),
                    noise=one.shown(result).noise(),
                ),
            )
        request.paid.take(settled.charged)
        answer = one.shown(ReleasedTable.load(settled.answer))
        return replace(answer, lowered=one.lowered, charged=settled.charged, left=settled.left)

    def _affordable(self, one: ReleasePlan, account: str) -> ReleasePlan:
        if self._ledger.limit(account).mode == "track":
            return one
        return smaller(one, self._ledger.left(account))

    def account(self, analyst: str) -> str:
        """The account that an analyst's queries are paid from first, made at its first use; raises LedgerError."""
        return self._chain(analyst)[0]

    def _chain(self, analyst: str) -> list[str]:
        """The accounts that pay for an analyst, their own first, seeded from the configuration at first use."""
        if analyst not in self._chains:
            links = self._config.budget.chain(analyst)
            for link in links:
                limit = Limit(micro_limit(link.information), micro_limit(link.calls), link.period, link.mode)
                self._ledger.seed(link.account, limit)
            self._chains[analyst] = [link.account for link in links]
        return self._chains[analyst]

    def _explained(
        self, request: QueryRequest, prepared: PreparedQuery, account: str, epoch: str
    ) -> list[str]:
        constants: list[Texts] = []
        self._evaluate(request, prepared, constants, 0, ())
        planned = self._planner.plan(request.text, request.oids, request.parameters, constants)
        left = self._ledger.left(account)
        asks = [a for a in self._asks(planned, request.settings, epoch) if a is not None]
        _write(asks)
        lines = [line for a in asks for line in explanation(a, left)]
        return lines or ["Answered by the front: no private rows are read, nothing is charged"]

    def _system(self, name: str, account: str, last: LastRelease) -> list[Sequence[object]]:
        match name:
            case "budget":
                return _columns_of(BudgetRow, self._ledger.budget(account))
            case "releases":
                return _columns_of(ReleaseRow, self._ledger.releases(account))
        return _columns_of(LastRow, last.rows)

    def _epoch_now(self) -> str:
        return epoch_name(self._config.privacy.epoch, datetime.now(UTC))

    def _turn_epoch(self) -> str:
        """The epoch's name; when it has changed, public tables are read anew and plans forgotten."""
        now = self._epoch_now()
        if now != self._epoch:
            with self._turning:
                if now != self._epoch:
                    self._reload(now)
                    self._planner.forget()
                    self._epoch = now
        return now


def _write(asks: Sequence[ReleasePlan]) -> None:
    """Writes the backend's SQL, which is kept with the plan: what is too much work is refused before it is paid."""
    with bounded():
        for one in asks:
            deque(one.queries(), maxlen=0)


def _owed(one: ReleasePlan, streams: Mapping[bytes, ContinualRelease]) -> Charge:
    """The most that an ask can cost: nothing, where it continues a stream that is paid."""
    seen = None if one.stream is None else streams[one.stream]
    return Charge(0, 0) if seen is not None and seen.paid else charge(one.cost_at_most)


def _last_look(seen: ContinualRelease | None) -> ReleasedTable | None:
    """What the last look at a stream released; LedgerError where it was lost, since no other may be taken then."""
    if seen is None or not seen.looks:
        return None
    if seen.answer is None:
        raise LedgerError("the last look at a stream is missing")
    return ReleasedTable.load(seen.answer)


def _go_on(cancellation: Cancellation) -> None:
    if cancellation.cancelled:
        raise Cancelled


def _columns_of(
    kind: type[BudgetRow | ReleaseRow | LastRow], rows: Sequence[object]
) -> list[Sequence[object]]:
    return [[getattr(row, field.name) for row in rows] for field in fields(kind)]


def _deviations(column: OutputColumn) -> list[str | None]:
    """The standard deviation of each value's noise, NULL where it is not known."""
    known = column.deviations or (math.nan,) * len(column.values)
    return [None if math.isnan(d) else repr(float(d)) for d in known]


def _off(setting: str) -> bool:
    return setting.lower() in ("off", "false", "no", "0")


def _on(setting: str) -> bool:
    return setting.lower() in ("on", "true", "yes", "1")
