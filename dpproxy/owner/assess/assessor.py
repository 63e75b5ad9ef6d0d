"""How each statement would be answered: planned and priced as for an analyst, compared with the true data.

No ledger takes part: nothing is charged, stored or logged, and no noise that is drawn here is ever used.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from budget.account import Charge
from dpproxy.backends.base import BackendError, Cancellation, Cancelled, Fetched
from dpproxy.catalog.build_policy import build_policy
from dpproxy.config.key_file import load_keys
from dpproxy.config.sections import Config
from dpproxy.deployment.service import BoundConfig
from dpproxy.engine.optimizer import plan_release
from dpproxy.engine.options import usual_terms
from dpproxy.engine.planner import BoundNode, Planner, PreparedQuery
from dpproxy.engine.release_keys import ReleaseKeys
from dpproxy.engine.release_plan import ReleasePlan, charge
from dpproxy.engine.result.presentation_arrays import Texts, arrays, released
from dpproxy.front.front import Front
from dpproxy.owner.assess.fit import Fit, Truth, fit, truth
from dpproxy.owner.assess.listed import Listed
from dpproxy.owner.assess.typical import typical
from mechanisms import randomness
from mechanisms.histogram import Cost
from rewriter.logical.plan import SystemTableNode
from rewriter.plan import HistogramQuery
from rewriter.policy import Policy
from rewriter.refusal import Refusal
from rewriter.statements.classify import QUERY, Verdict

Outcome = Literal["answered", "free", "refused", "needs values"]
_PARAMETER = re.compile(r"\$\d+")
CERTAIN = frozenset(
    [
        "PV010",
        "PV011",
        "PV012",
        "PV013",
        "PV014",
        "PV015",
        "PV017",
        "PV019",
        "PV021",
        "25006",
        "42P01",
        "42702",
        "42703",
    ]
)
"""Refusals that no value of a parameter changes."""
_UNREAD = BackendError, Cancelled, ValueError
"""What may end a comparison with the data; why is withheld, as from an analyst."""


@dataclass(frozen=True)
class Assessed:
    """A statement and how it would be answered.

    Attributes:
        listed: the statement.
        outcome: answered, free, refused, or planned only once parameters have values.
        price: the most that it costs; None where values decide that, or nothing is answered.
        fits: the comparison with the data, for each DP node.
        refusal: why it is refused.
        why: the same in words.
        unread: the data could not be compared.
    """

    listed: Listed
    outcome: Outcome
    price: Charge | None = None
    fits: tuple[Fit, ...] = ()
    refusal: Refusal | None = None
    why: str = ""
    unread: bool = False


class Assessor:
    """A policy over data, without a ledger; made by `assessing`."""

    def __init__(self, checked: BoundConfig, front: Front) -> None:
        self.checked = checked
        self._front = front
        self._key = randomness.random_bytes(32)
        self._rank = randomness.derive(self._key, "rank").hex()
        self._shown: object = None
        self._planner = self._planner_of(checked.policy)
        self._keys = ReleaseKeys(self._key, b"", b"")

    def assess(self, listed: Listed) -> Assessed:
        """How a statement would be answered."""
        if listed.open:
            return Assessed(listed, "needs values", why=f"{listed.open} is filled in by the tool")
        self._planner = self._planner_of(self.checked.policy)
        try:
            return self._assessed(listed)
        except Refusal as refusal:
            if _PARAMETER.search(listed.text) and refusal.code not in CERTAIN:
                return self._tried(listed)
            return Assessed(listed, "refused", refusal=refusal)

    def refusal(self, listed: Listed, config: Config) -> Refusal | None:
        """Why another configuration would refuse the statement, None where it answers it; raises ConfigError."""
        policy = build_policy(config, self.checked.schema, self.checked.backend)
        planner = self._planner_of(policy)
        try:
            self._priced(planner, listed.text, config)
        except Refusal as refusal:
            return refusal
        return None

    def _assessed(self, listed: Listed) -> Assessed:
        if self._planner.classify(listed.text) is not Verdict.PRIVATE:
            if listed.text.split(None, 1)[0].upper() in QUERY:
                self._front.describe(listed.text, ())
            return Assessed(listed, "free", Charge(0, 0))
        if _PARAMETER.search(listed.text):
            self._priced(self._planner, listed.text, self.checked.config)
            return self._tried(listed)
        price, fits, unread = self._fitted(listed.text)
        return Assessed(listed, "answered", price, fits, unread=unread)

    def _tried(self, listed: Listed) -> Assessed:
        """With typical values for its parameters: they say about the price, and what would be refused with any."""
        try:
            text = typical(listed.text, lambda left: self._front.parameter_types(left, ()))
            price = self._priced(self._planner, text, self.checked.config)
        except Refusal as refusal:
            why = "refused with the values that were tried; others may be answered"
            return Assessed(listed, "needs values", refusal=refusal, why=f"{why}: {refusal.message}")
        return Assessed(listed, "needs values", price, why=f"answered with typical values: {text}")

    def _priced(self, planner: Planner, text: str, config: Config) -> Charge | None:
        """The most that a statement costs, None where values of parameters decide; raises Refusal."""
        if planner.classify(text) is not Verdict.PRIVATE:
            self._front.describe(text, ())
            return Charge(0, 0)
        oids = self._front.parameter_types(text, ()) if _PARAMETER.search(text) else ()
        prepared = planner.prepare(text, oids)
        if oids:
            return None
        constants: list[Texts] = []
        for number, constant in enumerate(prepared.constants):
            if not constant.nodes:
                constants.append(planner.constant(text, oids, number, (), ()))
        on = usual_terms(config.privacy)
        nodes = planner.plan(text, oids, (), constants[: _first_waiting(prepared)])
        asks = [plan_release(n, on, self._keys) for n in nodes if isinstance(n, BoundNode)]
        return charge(Cost.sum(one.cost_at_most for one in asks))

    def _fitted(self, text: str) -> tuple[Charge, tuple[Fit, ...], bool]:
        """In stages, as an answer: later nodes take the exact rows of earlier ones for their constants."""
        prepared = self._planner.prepare(text, ())
        on = usual_terms(self.checked.config.privacy)
        columns: list[Sequence[object]] = []
        constants: list[Texts] = []
        asks: list[ReleasePlan] = []
        fits: list[Fit] = []
        unread = False
        done = 0
        while done < len(prepared.columns):
            while (
                len(constants) < len(prepared.constants) and prepared.constants[len(constants)].nodes <= done
            ):
                known = arrays(columns, prepared)
                constants.append(self._planner.constant(text, (), len(constants), (), known))
            planned = self._planner.plan(text, (), (), constants)
            ready = prepared.ready(len(constants))
            for number in range(done, ready):
                node = planned[number]
                if isinstance(node, SystemTableNode):
                    columns += [()] * len(prepared.columns[number])
                    continue
                one = plan_release(node, on, self._keys)
                asks.append(one)
                exact, found = self._compared(one, prepared, number)
                unread = unread or found is None
                fits += [] if found is None else [found]
                columns += _plain_columns(exact, one, prepared, number)
            done = ready
        return charge(Cost.sum(one.cost_at_most for one in asks)), tuple(fits), unread

    def _compared(
        self, one: ReleasePlan, prepared: PreparedQuery, number: int
    ) -> tuple[Truth | None, Fit | None]:
        if one.selection is None:
            return None, Fit(one.name, 0, 0, None, (), 0, 0)
        types = [column.type for column in prepared.columns[number][len(one.node.aggregate.keys) :]]
        kept: dict[HistogramQuery, Fetched] = {}
        try:
            with self.checked.backend.open() as slot:
                most = self.checked.config.backend.max_rows

                def fetch(query: HistogramQuery) -> Fetched:
                    if query not in kept:
                        kept[query] = slot.fetch(query, self._rank, Cancellation(), most)
                    if kept[query].rows > most:
                        raise BackendError
                    return kept[query]

                exact = truth(one, fetch)
                return exact, fit(one, types, exact, fetch)
        except _UNREAD:
            return None, None

    def _planner_of(self, policy: Policy) -> Planner:
        """A planner, with a clone of what this policy shows in the front."""
        shown = tuple((name, t.public, t.in_front, t.columns) for name, t in policy.tables.items())
        if shown != self._shown:
            self._front.clone(policy, self.checked.schema)
            for table in policy.tables.values():
                if table.in_front:
                    self._front.load_public(table, self.checked.backend.read_public(table))
            self._shown = shown
        return Planner(policy, self._front, self.checked.backend.dialect)


def _first_waiting(prepared: PreparedQuery) -> int:
    """How many constants come before the first that reads a released row."""
    waiting = (n for n, constant in enumerate(prepared.constants) if constant.nodes)
    return next(waiting, len(prepared.constants))


def _plain_columns(
    exact: Truth | None, one: ReleasePlan, prepared: PreparedQuery, number: int
) -> list[Sequence[object]]:
    columns = prepared.columns[number]
    if exact is None:
        return [()] * len(columns)
    keys = tuple(zip(*exact.cells, strict=True)) or ((),) * len(one.node.aggregate.keys)
    return released(keys, exact.columns, one.node.aggregate, columns, nonnegative=False)


@contextmanager
def assessing(config: Config) -> Iterator[Assessor]:
    """An assessor with a front of its own in a folder that goes with it.

    Raises ConfigError if the deployment's key cannot be read; what Checked.open and Front.start raise. Nothing
    of it is within reach of the wire: there is no statement for it, and a dpproxy is no backend.
    """
    refuse_others(config)
    checked = BoundConfig.open(config)
    try:
        with (
            TemporaryDirectory(prefix="dpproxy-assess-") as folder,
            Front.start(Path(folder), sessions=8) as front,
        ):
            yield Assessor(checked, front)
    finally:
        checked.backend.close()


def refuse_others(config: Config) -> None:
    """Where there is a key, the owner is who can read it; raises ConfigError."""
    key = config.path(config.privacy.key_file)
    if key.exists():
        load_keys(key, may_make=False)
