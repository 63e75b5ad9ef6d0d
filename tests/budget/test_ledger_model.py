"""Random lives of three accounts, step by step against a model of twenty lines; also after crashes."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from budget.account import (
    AboveReservation,
    AlreadyReached,
    AlreadyResolved,
    Charge,
    Exhausted,
    Frozen,
    Limit,
    LimitTooLow,
    NotReached,
    Pinned,
    Reservation,
    ReserveRequest,
    Settled,
    Settlement,
)
from budget.ledger import Ledger
from budget.units import UNBOUNDED
from dpproxy.embedded.server import Embedded

pytestmark = pytest.mark.service

Amounts = tuple[int, int, int]
NOTHING = (0, 0, 0)
_lives = itertools.count()
amount = st.integers(min_value=0, max_value=60)
pairs = st.tuples(amount, st.integers(min_value=0, max_value=6))


@st.composite
def costs(draw: st.DrawFn) -> Amounts:
    """A third of the releases are Gaussian."""
    information, calls = draw(pairs)
    pure = (information + 1) // 2 + draw(st.integers(0, 5))
    return information, calls, draw(st.sampled_from((pure, pure, UNBOUNDED))) if information + calls else 0


def plus(left: Amounts, right: Amounts) -> Amounts:
    return left[0] + right[0], left[1] + right[1], left[2] + right[2]


def minus(left: Amounts, right: Amounts) -> Amounts:
    return left[0] - right[0], left[1] - right[1], left[2] - right[2]


def within(left: Amounts, right: Amounts) -> bool:
    """Whether an account may have spent so much under a limit: by either filter."""
    return (left[0] <= right[0] or left[2] <= right[2]) and left[1] <= right[1]


def limit_of(information: int, calls: int) -> Amounts:
    """So few units of so small an epsilon_per that their epsilon is that of as many steps."""
    return information, calls, information


@dataclass
class Account:
    limit: Amounts
    kept_used: Amounts = NOTHING
    reserved: Amounts = NOTHING
    started: bool = False
    over: bool = False
    frozen: bool = False
    period: int = 0

    @property
    def used(self) -> Amounts:
        return NOTHING if self.over else self.kept_used

    @property
    def left(self) -> Amounts:
        return minus(self.limit, plus(self.used, self.reserved))

    def hold(self, most: Amounts) -> None:
        self.period += self.over
        self.kept_used, self.over, self.started = self.used, False, True
        self.reserved = plus(self.reserved, most)

    def resolve(self, most: Amounts, cost: Amounts) -> None:
        self.reserved = minus(self.reserved, most)
        self.kept_used = plus(self.kept_used, cost)


@dataclass
class Held:
    reservation: Reservation
    chain: tuple[str, ...]
    most: Amounts
    reached: bool
    open: bool = True


@dataclass
class Model:
    accounts: dict[str, Account]
    held: list[Held] = field(default_factory=list)
    stored: dict[bytes, tuple[Amounts, bytes]] = field(default_factory=dict)
    paid: set[tuple[str, bytes]] = field(default_factory=set)
    shared: dict[bytes, dict[str, int]] = field(default_factory=dict)
    """By stored answer, the shared accounts that its reservation has charged, each with the period."""

    def resolve(self, held: Held, own_cost: Amounts, shared_cost: Amounts) -> None:
        held.open = False
        for name in held.chain:
            self.accounts[name].resolve(held.most, own_cost if name == held.chain[0] else shared_cost)


class Lives(RuleBasedStateMachine):
    """Amounts are micro-units; release keys come from a pool of four, so that answers are often shared."""

    def __init__(self, server: Embedded, pinned: Pinned, age: Callable[[str, float], None]) -> None:
        super().__init__()
        self.life = next(_lives)
        self.server, self.pinned, self.age = server, pinned, age
        self.ledger = self.reopened()
        self.alice, self.bob, self.team = (f"{kind}:model {self.life}" for kind in ("a", "b", "team"))
        limits = {self.alice: limit_of(100, 9), self.bob: (70, 5, 0), self.team: limit_of(150, 12)}
        self.model = Model({name: Account(limit) for name, limit in limits.items()})
        for name, limit in limits.items():
            self.ledger.accounts.seed(name, Limit(*limit[:2], "day", "enforce", limit[2]))

    def reopened(self) -> Ledger:
        return Ledger.open(self.server.conninfo(), self.pinned, instance=f"life {self.life}")

    def pick(self, number: int) -> Held:
        return self.model.held[number % len(self.model.held)]

    @rule(first=st.booleans(), shared=st.booleans(), most=costs(), reached=st.booleans())
    def reserve(self, first: bool, shared: bool, most: Amounts, reached: bool) -> None:
        chain = (self.alice if first else self.bob, *((self.team,) if shared else ()))
        if most == NOTHING:
            return
        pays = all(within(most, self.model.accounts[name].left) for name in chain)
        got = self.try_reserve(chain, most, reached)
        frozen = [name for name in chain if self.model.accounts[name].frozen]
        if isinstance(got, Frozen):
            assert got.own == (chain[0] in frozen)
            assert frozen
            return
        assert not frozen
        if isinstance(got, Exhausted):
            assert not pays
            left = self.model.accounts[chain[0]].left
            shown = Charge(max(0, left[0]), max(0, left[1]), left[2] if left[2] > 0 else UNBOUNDED)
            assert got.left == (None if within(most, left) else shown)
            return
        assert pays
        for name in chain:
            self.model.accounts[name].hold(most)
        self.model.held.append(Held(got, chain, most, reached))

    def try_reserve(
        self, chain: tuple[str, ...], most: Amounts, reached: bool
    ) -> Reservation | Exhausted | Frozen:
        charges = [Charge(*most)]
        try:
            return self.ledger.reserve(
                ReserveRequest(chain, charges, reached=reached, queries=["q"], mechanisms=["m"])
            )[0]
        except (Exhausted, Frozen) as refused:
            return refused

    @precondition(lambda self: self.model.held)
    @rule(number=st.integers(0, 50))
    def reach(self, number: int) -> None:
        held = self.pick(number)
        if not held.open:
            return
        self.ledger.reach(held.reservation)
        held.reached = True

    @precondition(lambda self: self.model.held)
    @rule(number=st.integers(0, 50))
    def release(self, number: int) -> None:
        held = self.pick(number)
        try:
            self.ledger.release(held.reservation)
        except AlreadyReached:
            assert held.open
            assert held.reached
        except AlreadyResolved:
            assert not held.open
        else:
            assert held.open
            assert not held.reached
            self.model.resolve(held, NOTHING, NOTHING)

    @precondition(lambda self: self.model.held)
    @rule(number=st.integers(0, 50))
    def spend(self, number: int) -> None:
        held = self.pick(number)
        try:
            self.ledger.spend(held.reservation)
        except AlreadyResolved:
            assert not held.open
        else:
            assert held.open
            self.model.resolve(held, held.most, held.most)

    @precondition(lambda self: self.model.held)
    @rule(number=st.integers(0, 50), key=st.integers(0, 3), part=st.integers(0, 4))
    def settle(self, number: int, key: int, part: int) -> None:
        held = self.pick(number)
        name = f"key {self.life} {key}".encode()
        information, calls, most = held.most
        actual = (information * part // 4, calls, most * part // 4 if most < UNBOUNDED else most)
        actual = (actual[0], calls, max(actual[2], (actual[0] + 1) // 2) if actual[0] + calls else 0)
        before = self.model.stored.get(name)
        if before is not None and held.open and not Charge(*held.most[:2]).covers(Charge(*before[0][:2])):
            return
        answer = f"answer {number} {part}".encode()
        try:
            done = self.call_settle(held, actual, name, answer)
        except (
            AlreadyResolved,
            AboveReservation,
        ):  # either, of one that is resolved and held less than the answer
            assert not held.open
            return
        except NotReached:
            assert not held.reached
            assert before is None
            return
        assert held.open
        self.check_settled(held, name, (actual, answer) if before is None else before, before, done)

    def call_settle(self, held: Held, actual: Amounts, name: bytes, answer: bytes) -> Settled:
        return self.ledger.settle(
            held.reservation,
            Settlement(
                Charge(*actual),
                release_key=name,
                request_key=name,
                answer=answer,
                mechanism="m",
                query="q",
                epoch="e",
            ),
        )

    def check_settled(
        self, held: Held, name: bytes, now: tuple[Amounts, bytes], before: object, done: Settled
    ) -> None:
        own = held.chain[0]
        cost = NOTHING if (own, name) in self.model.paid else (*now[0][:2], min(now[0][2], held.most[2]))
        periods = {account: self.model.accounts[account].period for account in held.chain[1:]}
        charged = self.model.shared.get(name, {}) if before is not None else {}
        paid = bool(periods) and all(charged.get(account) == period for account, period in periods.items())
        self.model.resolve(held, cost, NOTHING if paid else held.most)
        if before is None:
            self.model.shared[name] = periods
        self.model.stored[name] = now
        self.model.paid.add((own, name))
        assert (done.answer, done.stored_before) == (now[1], before is not None)
        assert done.charged == Charge(*cost)

    @rule(first=st.booleans(), key=st.integers(0, 3))
    def replay(self, first: bool, key: int) -> None:
        account, name = self.alice if first else self.bob, f"key {self.life} {key}".encode()
        expected = self.model.stored[name][1] if (account, name) in self.model.paid else None
        assert self.ledger.replay(account, name) == expected

    @rule(which=st.integers(0, 2))
    def a_day_goes_by(self, which: int) -> None:
        name = (self.alice, self.bob, self.team)[which]
        self.age(name, 25)
        account = self.model.accounts[name]
        account.over = account.started

    @rule(which=st.integers(0, 2), limit=pairs)
    def set_limit(self, which: int, limit: tuple[int, int]) -> None:
        name = (self.alice, self.bob, self.team)[which]
        account, new = self.model.accounts[name], limit_of(limit[0] + 40, limit[1] + 4)
        try:
            self.ledger.accounts.set_limit(name, Limit(*new[:2], "day", "enforce", new[2]))
        except LimitTooLow:
            assert not within(plus(account.used, account.reserved), new)
            return
        assert within(plus(account.used, account.reserved), new)
        # Until a query begins a period, what was held before still counts for the one that is over.
        if account.over:
            account.kept_used = NOTHING
        account.limit = new

    @rule(which=st.integers(0, 2), frozen=st.booleans())
    def freeze(self, which: int, frozen: bool) -> None:
        name = (self.alice, self.bob, self.team)[which]
        (self.ledger.accounts.freeze if frozen else self.ledger.accounts.unfreeze)(name)
        self.model.accounts[name].frozen = frozen

    @rule()
    def the_epoch_is_over(self) -> None:
        """The answers go, what was paid for them stays; the same key is bought anew."""
        self.ledger.epochs.prune([f"another life than {self.life}"])
        self.model.stored.clear()
        self.model.paid.clear()

    @precondition(lambda self: self.model.held)
    @rule(number=st.integers(0, 50))
    def outcome(self, number: int) -> None:
        held = self.pick(number)
        found = self.ledger.outcome(held.reservation.id)
        assert found is not None
        assert (found.state == "open") == held.open
        assert found.reached or not held.reached

    @rule()
    def crash(self) -> None:
        self.ledger.close()
        self.ledger = self.reopened()
        for held in self.model.held:
            if held.open:
                cost = held.most if held.reached else NOTHING
                self.model.resolve(held, cost, cost)

    @invariant()
    def balances_are_as_modelled(self) -> None:
        for name, account in self.model.accounts.items():
            row = self.ledger.accounts.get(name)
            limit = row.limit.information, row.limit.calls, row.limit.epsilon
            assert limit == account.limit
            assert (row.used, row.reserved) == (shown(account.used), shown(account.reserved))
            assert within(plus(account.used, account.reserved), account.limit)

    def teardown(self) -> None:
        assert self.ledger.history.verify() is None
        mark = self.ledger.high_water.now()
        self.ledger.high_water.check(mark)
        self.ledger.close()


def shown(amounts: Amounts) -> Charge:
    return Charge(*amounts[:2], min(UNBOUNDED, amounts[2]))


@pytest.mark.usefixtures("ledger")
def test_lives(server: Embedded, pinned: Pinned, age: Callable[[str, float], None]) -> None:
    class Life(Lives):
        def __init__(self) -> None:
            super().__init__(server, pinned, age)

    run_state_machine_as_test(
        Life,
        settings=settings(
            max_examples=15,
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
