"""Events for the owner at the end of a statement: who asked, the cost, the time; never the answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass

from budget.account import Charge, FailureKind
from rewriter.refusal import CATALOGUE


@dataclass
class ChargeTally:
    """What one execution has cost so far, in micro-units, and how many releases it bought or replayed."""

    information: int = 0
    calls: int = 0
    bought: int = 0
    replayed: int = 0

    @property
    def charged(self) -> Charge:
        """The cost as one value."""
        return Charge(self.information, self.calls)

    def take(self, charged: Charge) -> None:
        """One release was charged for."""
        self.information += charged.information
        self.calls += charged.calls
        self.bought += 1


@dataclass(frozen=True)
class StatementEnd:
    """A statement that came to its end: of `account`, answered where `code` is empty, else refused with an SQLSTATE.

    `text`: what the client sent, None where only the code of an error is known; `seconds`: on the
    proxy's side. A text is for fingerprints alone: it holds literals.
    """

    account: str
    code: str
    paid: ChargeTally
    text: str | None = None
    seconds: float | None = None


class Observer:
    """No-op base class; subclasses override its methods, which are called on any thread and must not raise."""

    def ended(self, statement: StatementEnd) -> None:
        """A private statement was answered, or any statement refused."""

    def failed(self, kind: FailureKind) -> None:
        """A statement has failed at the backend."""

    def session(self, change: int) -> None:
        """So many sessions more, or fewer."""

    def slot(self) -> AbstractContextManager[object]:
        """For as long as a slot of the backend is held."""
        return nullcontext()


class Watchers(Observer):
    """Passes events on to several observers."""

    def __init__(self, watchers: Sequence[Observer]) -> None:
        self._watchers = tuple(watchers)

    def ended(self, statement: StatementEnd) -> None:
        """Tells all."""
        for one in self._watchers:
            one.ended(statement)

    def failed(self, kind: FailureKind) -> None:
        """Tells all."""
        for one in self._watchers:
            one.failed(kind)

    def session(self, change: int) -> None:
        """Tells all."""
        for one in self._watchers:
            one.session(change)

    @contextmanager
    def slot(self) -> Iterator[None]:
        """Tells all."""
        with ExitStack() as stack:
            for one in self._watchers:
                stack.enter_context(one.slot())
            yield


OTHER = "other"
"""All codes that PostgreSQL may give and the proxy's catalogue does not have."""


def catalogued(code: str) -> str:
    """A code of the catalogue, or OTHER: an analyst can make the front raise whatever code they like.

    >>> catalogued("PV010"), catalogued("ZZZZZ")
    ('PV010', 'other')
    """
    return code if code in CATALOGUE else OTHER
