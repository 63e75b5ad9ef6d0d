"""The values that go into and come out of the ledger, and the errors it raises."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from fractions import Fraction
from typing import Literal, NamedTuple, get_args
from uuid import UUID

from budget.units import MOST, MOST_UNITS, UNBOUNDED, shown

Period = Literal["none", "day", "week", "month"]
Mode = Literal["enforce", "track"]
Unit = Literal["information", "calls", "epsilon"]
EntryKind = Literal["reserve", "settle", "spend", "release", "replay"]
FailureKind = Literal["failed", "stopped"]
"""failed: the backend raised; stopped: it ran into the time-out, out of memory, or was lost."""
Reason = Literal["owner", "failures"]

LOST_CHARGES = "charges that the ledger has lost"
"""What the history of an account calls the charge for what may be missing."""


@dataclass(frozen=True)
class Charge:
    """An amount of budget in micro-units (units.micro), never negative.

    >>> str(Charge(21_000_000, 1_000_000))
    '21 information units and 1 call'

    `epsilon`: pure epsilon in units of eps_per. Where nothing is said it is UNBOUNDED, as with Gaussian noise, unless
    the whole amount is nothing. ValueError for anything that is not an integer from 0 to 2^60.
    """

    information: int
    calls: int
    epsilon: int = UNBOUNDED

    def __post_init__(self) -> None:
        if self.information == self.calls == 0 and self.epsilon == UNBOUNDED:
            object.__setattr__(self, "epsilon", 0)
        for amount in (self.information, self.calls, self.epsilon):
            if type(amount) is not int or not 0 <= amount <= MOST:
                raise ValueError(f"{amount!r} is no amount of micro-units from 0 to {MOST}")

    @staticmethod
    def sum(charges: Iterable[Charge]) -> Charge:
        """All of them together.

        >>> Charge.sum([Charge(1, 2), Charge(3, 4)])
        Charge(information=4, calls=6, epsilon=1152921504606846976)
        """
        listed = list(charges)
        return Charge(
            sum(c.information for c in listed),
            sum(c.calls for c in listed),
            min(UNBOUNDED, sum(c.epsilon for c in listed)),
        )

    def __str__(self) -> str:
        information, calls = shown(self.information), shown(self.calls)
        units = "information unit" + ("" if information == "1" else "s")
        return f"{information} {units} and {calls} call" + ("" if calls == "1" else "s")

    def covers(self, other: Charge) -> bool:
        """Whether `other` is at most this in all units."""
        within = other.information <= self.information and other.calls <= self.calls
        return within and other.epsilon <= self.epsilon

    def pays(self, cost: Charge) -> bool:
        """Whether a cost may be taken from this, which an account has left, by one filter or the other.

        Where no pure epsilon is said, there is no second filter.

        >>> left = Charge(1_000_000, 0, 2_000_000)
        >>> left.pays(Charge(4_000_000, 0, 2_000_000)), left.pays(Charge(1_000_000, 0)), left.pays(Charge(4_000_000, 0))
        (True, True, False)
        """
        either = cost.information <= self.information or cost.epsilon <= self.epsilon < UNBOUNDED
        return either and cost.calls <= self.calls


def in_words(cost: Charge, left: Charge) -> tuple[str, str]:
    """A cost, and what an account has left, for people: with epsilon units where the account has a second filter.

    >>> cost = Charge(1_000_000, 0, 500_000)
    >>> in_words(cost, Charge(0, 1_000_000, 3_500_000))
    ('1 information unit and 0 calls (or 0.5 epsilon units)', '0 information units and 1 call (or 3.5 epsilon units)')
    >>> in_words(cost, Charge(300_000_000, 0))
    ('1 information unit and 0 calls', '300 information units and 0 calls')
    """
    if left.epsilon == UNBOUNDED:
        return str(cost), str(left)
    costs = "" if cost.epsilon == UNBOUNDED else f" (or {shown(cost.epsilon)} epsilon units)"
    return f"{cost}{costs}", f"{left} (or {shown(left.epsilon)} epsilon units)"


@dataclass(frozen=True)
class Limit:
    """What an account may spend: micro-units per period, enforced or only tracked.

    A period (day, week = 7 days, month = 30 days) runs from its first query; with `none` it never ends. An
    account in mode `track` is counted and refused nothing, and no guarantee is claimed for it.

    `epsilon`: the limit of the second filter, which sums pure epsilon in units of eps_per; 0 where there is none. It
    guarantees what `information` does if it is at most `accounting.epsilon_limit`.
    """

    information: int
    calls: int
    period: Period
    mode: Mode = "enforce"
    epsilon: int = 0

    def __post_init__(self) -> None:
        Charge(self.information, self.calls, self.epsilon)
        if self.epsilon == UNBOUNDED:
            raise ValueError("a limit of pure epsilon is bounded")
        if self.period not in get_args(Period) or self.mode not in get_args(Mode):
            raise ValueError(f"no period {self.period!r} with mode {self.mode!r}")

    @property
    def units(self) -> tuple[Unit, ...]:
        """What is limited, by name."""
        return ("information", "calls", "epsilon") if self.epsilon else ("information", "calls")


@dataclass(frozen=True)
class Pinned:
    """The parameters of a ledger's guarantee besides its limits, fixed at its creation."""

    epsilon_per: Fraction
    delta_per: Fraction
    delta_prime: Fraction
    privacy_unit: str

    def texts(self) -> dict[str, str]:
        """Each parameter exactly, by name."""
        return {name: str(value) for name, value in vars(self).items()}


@dataclass(frozen=True)
class Generation:
    """The policy number `number` of a deployment; the first is 1."""

    deployment: str
    number: int


@dataclass(frozen=True)
class ReserveRequest:
    """A request to hold the most that a query can cost.

    Attributes:
        chain: seeded accounts, the analyst's own first, shared ones after it.
        charges: what each release costs at most.
        reached: the backend is about to be called (a slot is held). This is on disk before `reserve` returns.
        queries: what each charge is for, in words, for the account's history.
        mechanisms: the mechanism of each charge, for the account's history.
        ids: the id of each charge, from `new_ids`. Repeating a request with the same ids holds nothing more.
        looking: a charge may be 0, for a further step of a stream that is paid for.
        attributed: the tool, or the person that it names as asking, a note for the history.
        generation: the policy that it was planned under, None where there is no policy.
        thaw: frozen accounts pay, too.
        login: the account of the login that asks, "" for the analyst's own.
    """

    chain: Sequence[str]
    charges: Sequence[Charge]
    reached: bool
    queries: Sequence[str]
    mechanisms: Sequence[str]
    ids: Sequence[UUID] | None = None
    looking: bool = False
    attributed: str = ""
    generation: Generation | None = None
    thaw: bool = False
    login: str = ""

    @property
    def total(self) -> Charge:
        """The sum to hold at each account; ValueError for an inconsistent request."""
        if not self.chain or len(set(self.chain)) != len(self.chain):
            raise ValueError("a chain names each account once, the analyst's own first")
        if not self.charges or not len(self.charges) == len(self.mechanisms) == len(self.queries):
            raise ValueError("a query has charges, and for each a mechanism and words")
        if not self.looking and any(charge == Charge(0, 0) for charge in self.charges):
            raise ValueError("a release costs something")
        if any(charge.information > MOST_UNITS * charge.epsilon for charge in self.charges):
            raise ValueError("two units have at least one eps_per of pure epsilon")
        return Charge.sum(self.charges)


@dataclass(frozen=True)
class Reservation:
    """Budget held for one release: `at_most` of `account` and of the shared accounts of its chain."""

    id: UUID
    account: str
    at_most: Charge


@dataclass(frozen=True)
class ContinualRelease:
    """The state of a stream of running counts: its last `answer`, and `looks`, the number of its releases.

    `paid`: whether every account of the chain has paid for it in its current period.
    """

    paid: bool
    looks: int
    answer: bytes | None = field(repr=False)


@dataclass(frozen=True)
class ContinualStep:
    """A further release of the stream of this `key` (32 bytes), which has had `after` releases so far."""

    key: bytes
    after: int


@dataclass(frozen=True)
class Settlement:
    """The values that settle a reservation, in one transaction.

    Attributes:
        actual: what the release costs.
        release_key: identifies the release: a second settlement with it gets the stored answer.
        request_key: names what the account asked, for `replay`.
        answer: what is stored.
        mechanism: for the account's history, as `query` and `noise`.
        epoch: when the answer may be pruned.
        look: for a release of a stream, its step.
        choices: the places of private choices in the answer, by what they were made for.
        measures: the places of measures in the answer of which others are made, by what is measured; `groups`: in what
            groups, as the proxy writes it.
        sealed: the text that was sent, encrypted; None where it is not kept.
    """

    actual: Charge
    release_key: bytes
    request_key: bytes
    answer: bytes
    mechanism: str
    query: str
    epoch: str
    look: ContinualStep | None = None
    noise: str = ""
    choices: Mapping[bytes, int] = field(default_factory=dict)
    measures: Mapping[bytes, int] = field(default_factory=dict)
    groups: str = ""
    sealed: bytes | None = None


@dataclass(frozen=True)
class Settled:
    """The result of a settlement: the `answer` that may be sent, the amount `charged`, and the amount `left`.

    `stored_before`: the answer was already stored under the same release key by another query. The one that was
    handed in must be thrown away.
    """

    answer: bytes = field(repr=False)
    charged: Charge
    left: Charge
    stored_before: bool


class ReplayNote(NamedTuple):
    """That `account` was shown the answer of `request_key` again; `attributed`: as of ReserveRequest."""

    account: str
    request_key: bytes
    attributed: str = ""


@dataclass(frozen=True)
class OwnedMeasure:
    """A measure in an answer that an account has bought: by which key, at which place, in what groups, and when."""

    key: bytes
    place: int
    release_key: bytes
    request_key: bytes
    groups: str
    bought_at: datetime


@dataclass(frozen=True)
class BudgetRow:
    """One account and unit, amounts in units; `refreshes_at` is None where no period runs or ends.

    `epsilon`: of an account with a second filter, its pure epsilon in units of eps_per.
    """

    account: str
    unit: Unit
    limit: Fraction
    used: Fraction
    reserved: Fraction
    left: Fraction
    refreshes_at: datetime | None


@dataclass(frozen=True)
class AccountRow:
    """One account as its owner sees it, in micro-units; `refreshes_at` is None where no period runs or ends."""

    account: str
    limit: Limit
    used: Charge
    reserved: Charge
    left: Charge
    refreshes_at: datetime | None
    frozen: bool

    def can_pay(self, cost: Charge) -> bool:
        """Whether the account could pay so much now."""
        return not self.frozen and (self.limit.mode == "track" or self.left.pays(cost))


@dataclass(frozen=True)
class LimitRow:
    """One change of an account: from `time` on, this was its limit, and whether it was frozen."""

    time: datetime
    limit: Limit
    frozen: bool


@dataclass(frozen=True)
class EntryRow:
    """One fact of the ledger, in micro-units.

    A reservation is opened by a row of kind `reserve` for each account of its chain and resolved by one of
    kind `settle`, `spend` or `release` for each; a `replay` is one row that costs nothing. `own`: the account
    that asked, the others of the chain are shared and carry no query. `replayed`: the answer was stored
    before or, of a shared account, its stream was paid for before. `period`: a number that grows with each refresh
    of the account.
    """

    number: int
    reservation: UUID
    account: str
    own: bool
    kind: EntryKind
    at_most: Charge
    charged: Charge
    period: int
    time: datetime
    mechanism: str | None
    query: str | None
    replayed: bool


@dataclass(frozen=True)
class Outcome:
    """The state of a reservation: `open`, or how it was resolved; `reached`: its backend was reached.

    `charged` is the charge of its own account; `answer` is the settled answer, None after it was pruned.
    """

    state: Literal["open", "settle", "spend", "release"]
    reached: bool
    charged: Charge
    answer: bytes | None = field(repr=False)


@dataclass(frozen=True)
class ReleaseRow:
    """One line of an account's history, in units. Failures after the backend was reached have a line, too.

    `noise`: the settlement's text about the noise, for people; empty for a replay. `attributed`: the tool,
    or the person that it named as asking, "" without one.
    """

    time: datetime
    query: str
    mechanism: str
    noise: str
    information: Fraction
    calls: Fraction
    replayed: bool
    attributed: str


@dataclass(frozen=True)
class AskedRow(ReleaseRow):
    """A line of the history for the owner.

    `asked`: the query in words, "" where an older version has none. `release_key`, `sealed`: of the answer, and the
    text that bought it, encrypted; None where there is none.
    """

    asked: str
    release_key: bytes | None
    sealed: bytes | None


@dataclass(frozen=True)
class Activity:
    """How many releases were bought, replayed, and paid for without an answer.

    `charged`: for all of them, in micro-units.
    """

    bought: int
    replayed: int
    failed: int
    charged: Charge


class LedgerError(Exception):
    """The ledger refuses; the message holds no data."""


class LedgerUnavailable(LedgerError):
    """The ledger's server cannot be reached, or answers too late: no answer may be sent."""


class PolicyChanged(LedgerError):
    """The policy that a query was planned under is not the one that its deployment buys under."""


class UnknownAccount(LedgerError):
    """An account of the chain was never seeded."""


class Exhausted(LedgerError):
    """An account cannot pay: `needed`, what is `left` and when it refreshes.

    `left` and `refreshes_at` are None where a shared account refused: analysts must not see its level.
    """

    def __init__(self, needed: Charge, left: Charge | None, refreshes_at: datetime | None) -> None:
        self.needed, self.left, self.refreshes_at = needed, left, refreshes_at
        if left is None:
            super().__init__(f"{needed} are needed, a shared budget is exhausted")
        else:
            super().__init__("{} are needed, {} are left".format(*in_words(needed, left)))


class Frozen(LedgerError):
    """Nothing new is spent until the owner allows it again.

    `own`: it is the account that asked, not a shared one; `reason`: the owner has frozen it, or too many statements of
    the login, or of the analyst that it acts for, have failed at the backend.
    """

    def __init__(self, own: bool, reason: Reason = "owner") -> None:
        self.own, self.reason = own, reason
        if reason == "failures":
            super().__init__("too many statements have failed at the backend")
        else:
            super().__init__("the account is frozen" if own else "a shared account is frozen")


class IdUsed(LedgerError):
    """An id of a reservation was used before, for something else."""


class Overtaken(LedgerError):
    """Another process has released a step of the stream in the meantime: this step is discarded."""


class AlreadyResolved(LedgerError):
    """A reservation is settled, spent or released once."""


class AlreadyReached(LedgerError):
    """A reservation whose backend was reached cannot be given back."""


class NotReached(LedgerError):
    """A new answer was settled on a reservation that says its backend was never reached."""


class AboveReservation(LedgerError):
    """More was settled than was reserved: a programming error, and nothing was written."""


class PinnedMismatch(LedgerError):
    """The ledger was made with other parameters; a change of them needs a new ledger."""


class LedgerOlder(LedgerError):
    """The ledger has forgotten entries that it had: it was restored from an older copy."""


class AnotherLedger(LedgerError):
    """This is not the ledger that was used before."""


class OtherData(LedgerError):
    """The ledger's answers were computed from other data than the configured backend's."""


class LimitTooLow(LedgerError):
    """A limit cannot go below what is used and reserved."""


class AnalystExists(LedgerError):
    """An analyst of that name exists already."""
