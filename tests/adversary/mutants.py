"""Mistakes of accounting that no single statement shows, each put into the product's code, which a walk has to find."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from unittest.mock import patch
from uuid import UUID

from budget import statements, statements_streams
from budget.account import Charge, OwnedMeasure, Reservation, ReserveRequest, Settled, Settlement
from budget.epochs import Epochs
from budget.ledger import Ledger
from dpproxy.backends.duckdb.adapter import DuckDBSlot
from dpproxy.deployment.service import Service
from dpproxy.engine import repeats
from dpproxy.engine.epochs import STREAMS
from dpproxy.engine.paying_accounts import PayingAccounts
from dpproxy.engine.published_tables import Publishing
from dpproxy.engine.purchase import Purchases
from dpproxy.engine.release_keys import ReleaseKeys
from dpproxy.engine.release_plan import ReleasePlan
from dpproxy.engine.request import QueryRequest
from dpproxy.pgwire.work import MessageFlows
from mechanisms import randomness
from tests.adversary.deployment import TEAMS
from tests.replay.mutants import capped, written

LEAST = Charge(1, 1)
"""What a mutant charges that forgets to charge: a reservation of nothing is refused."""


@contextmanager
def uncharged(when: Callable[[ReserveRequest], bool]) -> Iterator[None]:
    """Reservations that cost next to nothing, and their settlements."""
    reserve, settle = Ledger.reserve, Ledger.settle
    free: set[UUID] = set()

    def reserved(self: Ledger, request: ReserveRequest) -> tuple[Reservation, ...]:
        if not when(request):
            return reserve(self, request)
        held = reserve(self, replace(request, charges=[LEAST] * len(request.charges)))
        free.update(reservation.id for reservation in held)
        return held

    def settled(self: Ledger, reservation: Reservation, settlement: Settlement) -> Settled:
        actual = LEAST if reservation.id in free else settlement.actual
        return settle(self, reservation, replace(settlement, actual=actual))

    with patch.object(Ledger, "reserve", reserved), patch.object(Ledger, "settle", settled):
        yield


@contextmanager
def after_a_reload() -> Iterator[None]:
    """The charge is forgotten once the policy has changed."""
    reload, reloaded = Service.reload, False

    def noted(self: Service, *given: Any) -> None:
        nonlocal reloaded
        reload(self, *given)
        reloaded = True

    with patch.object(Service, "reload", noted), uncharged(lambda request: reloaded):
        yield


@contextmanager
def while_refreshing() -> Iterator[None]:
    """A published answer that is renewed is not charged."""
    refresh, refreshing = Publishing._refresh, False

    def noted(self: Publishing, *given: Any, **more: Any) -> bool:
        nonlocal refreshing
        refreshing = True
        try:
            return refresh(self, *given, **more)
        finally:
            refreshing = False

    with patch.object(Publishing, "_refresh", noted), uncharged(lambda request: refreshing):
        yield


@contextmanager
def with_reuse() -> Iterator[None]:
    """What is bought besides an implied part is charged as if that part were all."""
    implied, results, some = Purchases.implied, Purchases.results, False

    def noted(self: Purchases, *given: Any) -> Any:
        nonlocal some
        found, doubt = implied(self, *given)
        some |= found is not None and found.rest is not None
        return found, doubt

    def asked(self: Purchases, *given: Any, **more: Any) -> Any:
        nonlocal some
        some = False
        return results(self, *given, **more)

    patched = patch.object(Purchases, "implied", noted), patch.object(Purchases, "results", asked)
    with patched[0], patched[1], uncharged(lambda request: some):
        yield


def rung() -> AbstractContextManager[None]:
    """The measurement that makes four units of two is charged as if two had been there already."""
    return uncharged(lambda request: any("rung" in mechanism for mechanism in request.mechanisms))


def epoch_before() -> Any:
    """The nonce of the first epoch for every epoch."""
    nonce, first = Epochs.nonce, ""

    def same(self: Epochs, epoch: str) -> bytes:
        nonlocal first
        first = first or ("" if epoch.startswith(STREAMS) else epoch)
        return nonce(self, epoch if epoch.startswith(STREAMS) else first)

    return patch.object(Epochs, "nonce", same)


def anybodys_repeats() -> Any:
    """Repeated statements are known by their text, whoever asks them."""

    def key(request: QueryRequest, epoch: str) -> tuple[object, ...]:
        return epoch, request.text, request.oids, request.parameters

    return patch.object(repeats, "_key", key)


@contextmanager
def anybodys_measures() -> Iterator[None]:
    """What is implied by what other accounts have bought is free."""
    owned = Ledger.owned

    def everybodys(self: Ledger, account: str, keys: Sequence[bytes]) -> list[OwnedMeasure]:
        return [one for name in TEAMS for one in owned(self, f"analyst:{name}", keys)]

    def reused(self: Purchases, request: QueryRequest, found: Any, account: str) -> Any:
        return found.table

    with patch.object(Ledger, "owned", everybodys), patch.object(Purchases, "reused", reused):
        yield


def anybodys_cursors() -> Any:
    """Rows of a cursor for whoever fetches them."""

    def unchecked(self: MessageFlows, name: str | None) -> Iterator[None]:
        yield from ()

    return patch.object(MessageFlows, "_check_payer", unchecked)


def first_members_team() -> Any:
    """A team pays for the first of its members alone."""
    chain = PayingAccounts.chain

    def forgotten(self: PayingAccounts, analyst: str) -> list[str]:
        found = chain(self, analyst)
        return [found[0], *found[2:]] if analyst == "bob" else found

    return patch.object(PayingAccounts, "chain", forgotten)


def any_teams_answer() -> Any:
    """A shared account pays nothing for what another shared account has paid for."""
    written = statements.SETTLE.replace("SELECT first.account\n", "SELECT held.account\n").replace(
        "ON held.account = first.account AND held.period_now", "ON held.period_now"
    )
    assert written != statements.SETTLE
    return patch.object(statements, "SETTLE", written)


def anybodys_stream() -> Any:
    """A stream costs nothing once any account has paid for it."""
    written = statements_streams.SETTLE_LOOK.replace("stream_paid.account = held.account", "TRUE")
    assert written != statements_streams.SETTLE_LOOK
    return patch.object(statements_streams, "SETTLE_LOOK", written)


def without_a_guard() -> Any:
    """A value that no integer holds makes DuckDB raise."""
    return patch.object(DuckDBSlot, "fetch", written(r"\bTRY\(", "(")(DuckDBSlot.fetch))


def cap_of_rows() -> Any:
    """A query that gives more rows than are taken is refused: towns, of which one person has two more."""
    return patch.object(DuckDBSlot, "fetch", capped(4)(DuckDBSlot.fetch))


def noise_of_a_question() -> Any:
    """A question has the same noise in each epoch."""

    def noise(self: ReleasePlan, key: bytes, reservation: bytes) -> randomness.Stream:
        return randomness.seed(key, randomness.release_key(bytes(32), self.node.text), bytes(16))

    return patch.object(ReleasePlan, "noise", noise)


def stream_of_a_text() -> Any:
    """The name of a stream leaves out the law of its noise."""

    def stream(self: ReleaseKeys, node: Any, mechanism: Any) -> bytes:
        return self._key("stream", self.streams, node.text.split("FROM")[0], node.domain)

    return patch.object(ReleaseKeys, "stream", stream)


@dataclass(frozen=True)
class Mutant:
    """A mistake, and the actions among which it is to be found sooner than among all."""

    name: str
    active: Callable[[], AbstractContextManager[Any]]
    actions: Mapping[str, float] = field(default_factory=dict)


ASKING = {"ask": 2.0, "refine": 2.0}
MUTANTS = (
    Mutant("the charge forgotten after a reload", after_a_reload, {**ASKING, "reload": 1}),
    Mutant("the nonce of the epoch before", epoch_before, {**ASKING, "again": 4, "epoch": 1}),
    Mutant("a refresh that is not charged", while_refreshing, {**ASKING, "publish": 2, "epoch": 2}),
    Mutant("reuse that subtracts", with_reuse, {"ask": 1, "refine": 4, "coarsen": 4, "climb": 1}),
    Mutant("what another account's answers imply", anybodys_measures, {"ask": 1, "coarsen": 4, "role": 2}),
    Mutant("a role's answer repeated for another", anybodys_repeats, {"ask": 3, "again": 4, "role": 2}),
    Mutant("a role's cursor read by another", anybodys_cursors, {"ask": 2, "cursor": 3}),
    Mutant("a rung charged once too few", rung, {"ask": 1, "climb": 3}),
    Mutant("a team that pays for its first member", first_members_team, {**ASKING, "role": 1}),
    Mutant("a team that pays for no other team", any_teams_answer, {"ask": 1, "again": 3}),
    Mutant("the same noise in each epoch", noise_of_a_question, {**ASKING, "again": 4, "epoch": 2}),
    Mutant("a guard that is left out", without_a_guard, ASKING),
    Mutant("a cap on rows that one unit decides", cap_of_rows, ASKING),
    Mutant("a stream that somebody else has paid for", anybodys_stream, {"stream": 3, "epoch": 1}),
    Mutant("a stream without its law", stream_of_a_text, {"stream": 3, "reload": 2, "epoch": 1}),
)
