"""The steps of a private statement: plan, price, pay, present. Only a settled answer is sent."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from functools import partial

from budget.account import Charge, Exhausted, Generation
from budget.units import micro, micro_limit, shown
from dpproxy.backends.base import Backend
from dpproxy.config.key_file import Keys
from dpproxy.config.precision import Target
from dpproxy.config.sections import Config
from dpproxy.engine import refusals, trial
from dpproxy.engine.brake import Brake, ShownPrices
from dpproxy.engine.climb import Climb, climbs
from dpproxy.engine.epochs import EpochClock
from dpproxy.engine.explain import Explained, as_json, as_text
from dpproxy.engine.failures import Failures
from dpproxy.engine.implied import ImpliedAnswer
from dpproxy.engine.optimizer import plan_release
from dpproxy.engine.options import (
    ERROR,
    MOST_UNITS,
    TERMS,
    UNITS,
    Reuse,
    levels_of,
    most_units,
    reuse,
    target,
    terms,
)
from dpproxy.engine.paying_accounts import PayingAccounts
from dpproxy.engine.planner import BoundNode, Planned, Planner, PreparedQuery
from dpproxy.engine.purchase import Purchases, write_queries
from dpproxy.engine.release_keys import ReleaseKeys, Secrets
from dpproxy.engine.release_plan import ReleasePlan, charge
from dpproxy.engine.repeats import Repeats
from dpproxy.engine.request import QueryRequest, StepResult
from dpproxy.engine.result.binary_arrays import text_array
from dpproxy.engine.result.presentation_arrays import arrays, released
from dpproxy.engine.result.released_table import ReleasedTable
from dpproxy.engine.rollback_guard import RollbackGuardedLedger
from dpproxy.engine.sealed_texts import SealedTexts
from dpproxy.engine.system_tables import system_columns
from mechanisms.histogram import Cost
from rewriter.effort import bounded
from rewriter.logical.plan import SystemTableNode
from rewriter.refusal import Refusal
from rewriter.statements.classify import Verdict
from rewriter.statements.comments import hinted
from rewriter.statements.set_statement import ERROR_COLUMNS

Texts = tuple[str | None, ...]


class QueryEngine:
    """The composition of the rooms for one policy; safe to use from many threads.

    `keys`: the deployment's; `reload` loads the public tables into the front again, which
    happens when an epoch begins; `generation`: of the policy; `epoch`: the one that has begun, None for today's.
    """

    def __init__(
        self,
        config: Config,
        planner: Planner,
        backend: Backend,
        ledger: RollbackGuardedLedger,
        keys: Keys,
        reload: Callable[[str], None],
        generation: Generation,
        epoch: str | None = None,
    ) -> None:
        def begin(epoch: str) -> None:
            reload(epoch)
            planner.forget()

        self._config, self._planner, self._ledger = config, planner, ledger
        self._secrets = Secrets.by_epoch(keys)
        self._policy = hashlib.sha256(config.fingerprint()).digest()
        self.epochs = EpochClock(config.privacy.epoch, ledger.epochs, ledger.origins, begin, epoch)
        self._accounts = PayingAccounts(config, ledger.accounts, ledger.memberships)
        self._prices = ShownPrices()
        texts = SealedTexts(*keys.all)
        self._purchases = Purchases(
            backend,
            ledger,
            self._secrets,
            texts if config.audit.statements else None,
            generation,
            planner.rows,
            Failures(ledger, texts),
            self._accounts.own,
        )
        self._repeats = Repeats(planner, ledger)

    def classify(self, text: str) -> Verdict:
        """Whether `text` takes the privacy step; raises Refusal for what no analyst may send."""
        return self._planner.classify(text)

    def prepare(self, text: str, oids: tuple[int, ...], errors: bool = False) -> PreparedQuery:
        """The plan of a private statement; nothing is charged. Raises Refusal.

        `errors`: with the columns of dpproxy.error_columns; `execute` then needs the same setting.
        """
        return self._planner.prepare(text, oids, errors)

    def known(self, text: str, oids: tuple[int, ...], errors: bool = False) -> PreparedQuery | None:
        """The result of `prepare` if it is cached, without I/O."""
        return self._planner.known(text, oids, errors)

    def remembered(self) -> dict[str, tuple[int, int]]:
        """What is kept of statements, by kind: how many, and about how many bytes."""
        return self._planner.remembered()

    def account(self, analyst: str) -> str:
        """The account that an analyst's queries are paid from first, made at its first use; raises LedgerError."""
        return self._accounts.chain(analyst)[0]

    def execute(self, request: QueryRequest) -> StepResult:
        """Pays for a private statement, runs and releases it, or replays what this analyst has paid for.

        Raises Refusal; whatever fails once the backend was reached stays charged.
        """
        with refusals.translated(), request.stages.during("plan"):
            epoch = self.epochs.turn()
            repeated = self._repeats.answer(request, epoch)
        return repeated or self._answered(request, epoch)

    def again(self, request: QueryRequest) -> StepResult | None:
        """The result of `execute` if it is that of a statement asked again, and takes no time: without I/O."""
        epoch = self.epochs.name()
        with request.stages.during("replay"):
            return self._repeats.at_once(request, epoch) if epoch == self.epochs.present else None

    def _answered(self, asked: QueryRequest, epoch: str) -> StepResult:
        with refusals.translated(), asked.stages.during("plan"):
            request = replace(asked, settings=self._settings(asked))
            errors = _on(request.settings.get(ERROR_COLUMNS, "off"))
            prepared = self._planner.prepare(request.text, request.oids, errors)
            shown = request.planned
            if shown and (shown.presentation, shown.array_oids) != (
                prepared.presentation,
                prepared.array_oids,
            ):
                # Another policy plans it otherwise: its arrays would not fit what the client has been told.
                raise refusals.PolicyReloaded(shown=True)
            chain = self._accounts.chain(request.analyst)
            if prepared.explain:
                return StepResult((text_array(self._explained(request, prepared, chain[0], epoch)),))
            columns, results = self._released(request, prepared, chain, epoch)
            for key in [*results][-1:]:
                # Error columns show the intervals of expressions already.
                derived = () if errors else prepared.derived
                results[key] = replace(results[key], derived=derived, unknown=prepared.unknown)
            request.paid.replayed = sum(result.replayed for result in results.values())
        with request.stages.during("present"):
            request.last.note(results.values())
            told = request.last.rows if results else ()
            if _off(request.settings.get("dpproxy.notices", "on")):
                told = ()
            result = StepResult(
                arrays(columns, prepared),
                tuple(row.notice for row in told),
                tuple(row.warning for row in told if row.warning),
            )
        if target(self._config.privacy, request.settings) is None:
            self._repeats.keep(asked, chain[0], epoch, prepared, errors, results, result)
        return result

    def _released(
        self, request: QueryRequest, prepared: PreparedQuery, chain: Sequence[str], epoch: str
    ) -> tuple[list[Sequence[object]], dict[bytes, ReleasedTable]]:
        """The released columns, in stages: a node waits for the constants in it, a constant for the nodes it reads."""
        columns: list[Sequence[object]] = []
        results: dict[bytes, ReleasedTable] = {}
        constants: list[Texts] = []
        shown: dict[int, ReleasedTable] = {}
        brake = self._brake(request)
        reused = reuse(request.settings)
        share: Cost | None = None
        done = 0
        while done < len(prepared.columns):
            self._evaluate(request, prepared, constants, done, partial(arrays, columns, prepared))
            planned = self._planner.plan(request.text, request.oids, request.parameters, constants)
            ready = prepared.ready(len(constants))
            plans = self._plans(planned[done:], request.settings, epoch)
            sought = target(self._config.privacy, request.settings) if any(plans) else None
            if not done:
                if prepared.tried:
                    self._try(request, prepared, planned)
                share = brake.share(plans)
            plans = self._within(share, plans, planned[done:], request.settings, epoch)
            if ready < len(planned):
                self._refuse_unaffordable(plans, chain)
            wanted: list[ReleasePlan] = []
            climbing: dict[bytes, Climb] = {}
            for node, plan in zip(planned[done:ready], plans, strict=False):
                if plan is None or isinstance(node, SystemTableNode):
                    continue
                if sought is None or not climbs(plan):
                    wanted.append(plan)
                elif plan.request_key not in results:
                    climbing[plan.request_key] = self._climb(request, sought, node, chain[0], epoch)
            later = charge(Cost.sum(plan.price for plan in plans[ready - done :] if plan is not None))
            fixed = charge(Cost.sum(plan.price for plan in wanted))
            ahead = self._ahead(request, climbing.values(), brake, Charge.sum([later, fixed]))
            accept = partial(self._accept, request, brake, chain[0], epoch, Charge.sum([later, ahead]))
            results |= self._purchases.results(request, wanted, chain, epoch, accept, reused)
            results |= self._climbed(request, climbing, chain, epoch, brake, ahead, later)
            for number, (node, plan) in enumerate(zip(planned[done:ready], plans, strict=False), done):
                if isinstance(node, SystemTableNode):
                    columns += system_columns(
                        node,
                        chain[0],
                        self._ledger.accounts,
                        self._ledger.history,
                        request.last,
                        times=self._config.privacy.timing == "plain",
                    )
                    continue
                assert plan is not None
                shown[number] = results[plan.request_key].suppressed(self._config.privacy.min_units)
                columns += released(
                    shown[number].keys,
                    shown[number].columns,
                    node.aggregate,
                    prepared.columns[number],
                    nonnegative=self._config.privacy.nonnegative,
                )
            done = ready
        for size, number, place in prepared.errors:
            sizes = shown[number].columns[place].size(size)
            columns.append([None if one is None else repr(float(one)) for one in sizes])
        return columns, results

    def _try(self, request: QueryRequest, prepared: PreparedQuery, planned: Planned) -> None:
        """Raises PostgreSQL's error, before anything is bought, where what the statement computes from its answer fails
        whatever that is."""

        def attempt(columns: Sequence[Sequence[object]]) -> None:
            made_up = arrays(columns, prepared)
            for number, constant in enumerate(prepared.constants):
                if constant.nodes:
                    self._planner.constant(request.text, request.oids, number, request.parameters, made_up)
            self._planner.present(prepared, request.oids, request.parameters, made_up)

        trial.check(prepared.columns, planned, attempt)

    def _settings(self, request: QueryRequest) -> Mapping[str, str]:
        """The settings that count: a comment's before the session's, and those before the policy's for the analyst.

        A price that is set nearer to the statement than an error is what counts, and the other way round.
        """
        settings: dict[str, str] = {}
        mine = self._config.budget.precision(request.analyst)
        for nearer in (mine, request.settings, hinted(request.text)):
            if nearer.get(UNITS):
                settings.pop(ERROR, None)
            settings |= nearer
            if (nearer.get(ERROR) or "off").lower() != "off":
                settings.pop(UNITS, None)
        return settings

    def _climb(
        self, request: QueryRequest, sought: Target, node: BoundNode, account: str, epoch: str
    ) -> Climb:
        """The search of a node's level; PV026 where the first look costs more than the session lets it cost."""
        plans = self._levels(node, request.settings, epoch)
        keys = [step.request_key for plan in plans.values() for step in (plan, *plan.rungs)]
        most = most_units(self._config.privacy, request.settings)
        climb = Climb(sought, plans, most, self._ledger.paid(account, keys))
        first = climb.first_price()
        if request.settings.get(MOST_UNITS) and first.information > micro_limit(most):
            raise refusals.above_most_units(str(first), shown(micro(most)))
        return climb

    def _ahead(
        self, request: QueryRequest, climbing: Collection[Climb], brake: Brake, others: Charge
    ) -> Charge:
        """The most that searches may cost, which end where the statement costs too much; `others`: besides them."""
        ahead = Charge.sum(climb.bound() for climb in climbing)
        if brake.most is None:
            return ahead
        left = max(0, micro_limit(brake.most) - request.paid.information - others.information)
        return replace(ahead, information=min(ahead.information, left))

    def _climbed(
        self,
        request: QueryRequest,
        climbing: Mapping[bytes, Climb],
        chain: Sequence[str],
        epoch: str,
        brake: Brake,
        ahead: Charge,
        later: Charge,
    ) -> dict[bytes, ReleasedTable]:
        """The answers of nodes for an error; `later`: what the rest of the statement costs."""
        results: dict[bytes, ReleasedTable] = {}

        def affordable(further: Charge) -> bool:
            """With a first look at the nodes that wait, and the rest of the statement."""
            firsts = [climb.first_price() for key, climb in climbing.items() if key not in results]
            whole = Charge.sum([further, later, *firsts[1:]])
            accounts = map(self._ledger.accounts.get, chain)
            return not brake.above(Charge.sum([request.paid.charged, whole])) and all(
                account.can_pay(whole) for account in accounts
            )

        def accept(plans: Sequence[ReleasePlan], owed: Sequence[Charge]) -> None:
            """All that may follow is accepted with the first purchase."""
            known, rest = Charge.sum(owed), Charge(0, 0)
            if not request.paid.bought:
                rest = Charge(
                    max(0, ahead.information - known.information), max(0, ahead.calls - known.calls)
                )
            self._accept(request, brake, chain[0], epoch, Charge.sum([later, rest]), plans, owed)

        def buy(plan: ReleasePlan) -> ReleasedTable:
            return self._purchases.results(request, [plan], chain, epoch, accept)[plan.request_key]

        for key, climb in climbing.items():
            results[key] = climb.answer(buy, affordable, partial(self._enough, request, climb, chain[0]))
        return results

    def _enough(self, request: QueryRequest, climb: Climb, account: str) -> ReleasedTable | None:
        """An implied answer whose error is small enough, or any where the session takes all; None without one."""
        if (wish := reuse(request.settings)) == "off" or request.kept is not None:
            return None
        found, climb.doubt = self._purchases.implied(climb.plans[max(climb.plans)], account, "off")
        if found is None or not (wish == "always" or climb.met(found.table)):
            return None
        return self._purchases.reused(request, found, account)

    def _levels(
        self, node: BoundNode, settings: Mapping[str, str], epoch: str
    ) -> dict[Fraction, ReleasePlan]:
        """How a node is answered at each level that the owner lets it have, ascending."""
        plans = {}
        for level in levels_of(self._config.privacy):
            with suppress(Refusal):  # above an allowance for this kind of releases
                (plan,) = self._plans((node,), {**settings, UNITS: f"{float(level):g}"}, epoch)
                assert plan is not None
                plans[level] = plan
        return plans

    def _brake(self, request: QueryRequest) -> Brake:
        return Brake.of(self._config.privacy, self._config.budget, request.analyst, request.settings)

    def _accept(
        self,
        request: QueryRequest,
        brake: Brake,
        account: str,
        epoch: str,
        later: Charge,
        plans: Sequence[ReleasePlan],
        owed: Sequence[Charge],
    ) -> None:
        """PV026 or PV027 for a statement that costs so much; `later`: what may be bought after this."""
        paid = request.paid
        needed = Charge.sum([paid.charged, *owed, later])
        if paid.bought:
            brake = replace(brake, first=None)
        statement = (request.analyst, epoch, request.text, request.parameters)
        brake.check(plans, needed, self._ledger.accounts.left(account), statement, self._prices)

    def _evaluate(
        self,
        request: QueryRequest,
        prepared: PreparedQuery,
        constants: list[Texts],
        done: int,
        known: Callable[[], Sequence[bytes]],
    ) -> None:
        """Adds the constants that `done` released nodes are enough for; `known`: gives their arrays."""
        while len(constants) < len(prepared.constants) and prepared.constants[len(constants)].nodes <= done:
            constants.append(
                self._planner.constant(
                    request.text, request.oids, len(constants), request.parameters, known()
                )
            )

    def _refuse_unaffordable(self, plans: Sequence[ReleasePlan | None], chain: Sequence[str]) -> None:
        """PV001 before anything is paid where the account could not pay for the stages to come."""
        needed = charge(Cost.sum(plan.price for plan in plans if plan is not None))
        account = self._ledger.accounts.get(chain[0])
        if not account.can_pay(needed):
            raise Exhausted(needed, account.left, None)

    def _within(
        self,
        share: Cost | None,
        plans: list[ReleasePlan | None],
        planned: Planned,
        settings: Mapping[str, str],
        epoch: str,
    ) -> list[ReleasePlan | None]:
        """The plans with `share` for each query without LIMIT, None for the owner's allowance."""
        if share is None or not any(plan is not None and plan.open_ended for plan in plans):
            return plans
        return [
            replace(less, wider=plan) if plan and less and less.request_key != plan.request_key else plan
            for plan, less in zip(plans, self._plans(planned, settings, epoch, share), strict=True)
        ]

    def _plans(
        self, planned: Planned, settings: Mapping[str, str], epoch: str, share: Cost | None = None
    ) -> list[ReleasePlan | None]:
        """How each node is answered, None for the tables of the schema dpproxy.

        A node is priced once for each epoch and each choice of the analyst's settings.
        """

        def priced(node: BoundNode) -> ReleasePlan:
            privacy = self._config.privacy
            most = self._config.backend.max_rows
            options = replace(terms(privacy, settings), length=privacy.epoch, epoch=epoch, max_rows=most)
            options = options if share is None else options.spending(share)
            nonce, streams = self.epochs.nonces(epoch)
            keys = ReleaseKeys(self._secrets(epoch).release, nonce, streams, self._begun, self._policy)
            return plan_release(node, options, keys)

        key = ("plan", epoch, share, *(settings.get(name) for name in TERMS))
        with bounded():
            return [n.noted(key, priced) if isinstance(n, BoundNode) else None for n in planned]

    def _begun(self, stream: bytes) -> bool:
        return self._ledger.stream((), stream).looks > 0

    def _explained(
        self, request: QueryRequest, prepared: PreparedQuery, account: str, epoch: str
    ) -> list[str]:
        constants: list[Texts] = []
        self._evaluate(request, prepared, constants, 0, tuple)
        planned = self._planner.plan(request.text, request.oids, request.parameters, constants)
        left = self._ledger.accounts.left(account)
        closed = tuple(
            n.noted("closed", BoundNode.closed) if isinstance(n, BoundNode) else n for n in planned
        )
        priced = self._plans(closed, request.settings, epoch)
        brake = self._brake(request)
        share = brake.share(priced)
        found = self._within(share, priced, closed, request.settings, epoch)
        plans = [plan for plan in found if plan is not None]
        write_queries(plans)
        explained = [
            self._with_levels(request, plan, node, epoch, account)
            for node, plan in zip(closed, found, strict=True)
            if plan is not None and isinstance(node, BoundNode)
        ]
        once = {one.plan.request_key: one for one in explained}.values()
        needed = Charge.sum(one.price for one in once)
        least = Charge.sum(one.least for one in once)
        above = f"refused, unless it was answered before; it needs {least}" if brake.above(least) else ""
        if prepared.explain == "JSON":
            return [as_json(explained, left, needed, above)]
        return as_text(explained, left, above)

    def _with_levels(
        self, request: QueryRequest, plan: ReleasePlan, node: BoundNode, epoch: str, account: str
    ) -> Explained:
        """A plan with what other levels of it cost this account, where they can be bought, and with what is implied."""
        wish = reuse(request.settings)
        sought = target(self._config.privacy, request.settings)
        free, doubt = self._purchases.implied(plan, account, wish if sought is None else "off")
        if free is not None and free.rest is not None:
            plan, node = free.rest, free.rest.node
        if not climbs(plan) or self._config.privacy.noise == "laplace":
            return Explained(plan, implied=free, reused=_taken(free, wish), doubt=doubt)
        levels = [*self._levels(node, request.settings, epoch).values()][::2]
        keys = {rung.request_key for level in levels for rung in (level, *level.rungs)}
        search = None if sought is None else self._climb(request, sought, node, account, epoch)
        taken = _taken(free, wish)
        if search is not None and free is not None and wish == "on":
            taken = search.met(free.table)
        return Explained(plan, levels, self._ledger.paid(account, list(keys)), search, free, taken, doubt)


def _taken(free: ImpliedAnswer | None, wish: Reuse) -> bool:
    """Whether an implied answer is taken where the session asks for no error."""
    return free is not None and (wish == "always" or (wish == "on" and free.within))


def _off(setting: str) -> bool:
    return setting.lower() in ("off", "false", "no", "0")


def _on(setting: str) -> bool:
    return setting.lower() in ("on", "true", "yes", "1")
