"""Mistakes that the simulator has to find: each is put into the product's code, or into what stands below it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from budget import highwater, store
from budget.account import Charge, Frozen, Reservation, Settled, Settlement
from budget.ledger import Ledger
from dpproxy.config.highwater_file import MarkFile
from dpproxy.engine import release_plan
from dpproxy.engine.purchase import Purchases
from dpproxy.engine.release_plan import ReleasePlan
from dpproxy.engine.result.released_table import ReleasedTable
from dpproxy.engine.rollback_guard import RollbackGuardedLedger
from tests.simulator.disk import Disk
from tests.simulator.world import world

Change = tuple[Any, str, Any]
_SETTLE, _GUARDED, _FAIL = Ledger.settle, RollbackGuardedLedger.settle, Ledger.fail
_TRY, _RESERVED, _ADVANCE = Ledger._try_reserve, Purchases._reserved, MarkFile.advance


def _later(self: RollbackGuardedLedger, reservation: Reservation, settlement: Settlement) -> Settled:
    """The answer leaves, and is charged in the background."""

    def settles() -> None:
        _GUARDED(self, reservation, settlement)

    world().spawn("settles later", world().process, settles)
    return Settled(settlement.answer, settlement.actual, Charge(0, 0), False)


def _own(self: Ledger, reservation: Reservation, settlement: Settlement) -> Settled:
    """The own draw is shown in place of the stored one."""
    return replace(_SETTLE(self, reservation, settlement), answer=settlement.answer)


def _unmarked(self: Ledger, values: Mapping[str, object]) -> Any:
    """The ledger is not told that the backend is reached ..."""
    return _TRY(self, {**values, "reached": False})


def _marked_late(self: Ledger, reservation: Reservation, settlement: Settlement) -> Settled:
    """... before the settlement."""
    self.reach(reservation)
    return _SETTLE(self, reservation, settlement)


def _unsealed(connection: Any, steps: Sequence[store.Step], seal: store.Step | None) -> Any:
    """No commit waits for the disk."""
    with connection.pipeline():
        connection.execute("BEGIN")
        connection.execute("SET LOCAL synchronous_commit = off")
        cursors = [connection.execute(*store._bound(step)) for step in steps]
        if seal is not None:
            connection.execute("COMMIT AND CHAIN")
            connection.execute("SET LOCAL synchronous_commit = off")
            cursors.append(connection.execute(*store._bound(seal)))
        connection.execute("COMMIT")
    return [cursor.fetchall() for cursor in cursors]


def _alone(self: Purchases, request: Any, plans: Any, chain: Sequence[str], streams: Any) -> Any:
    """Shared accounts pay nothing."""
    return _RESERVED(self, request, plans, chain[:1], streams)


def _for_nothing(
    self: Purchases, request: Any, plans: Sequence[ReleasePlan], account: str
) -> dict[bytes, Any]:
    """A stored answer is given to whoever asks."""
    found = {plan.request_key: plan.free for plan in plans if plan.free is not None}
    for plan in plans:
        stored = self._ledger.stored(plan.release_key)
        if plan.free is None and stored is not None:
            found[plan.request_key] = plan.shown(ReleasedTable.load(stored[0]))
    return found


def _anything(self: MarkFile, take: Callable[[Any], Any]) -> None:
    """An older mark replaces a newer one."""
    with self._locked(2, Disk.O_RDWR) as file:
        number, last = self._last(file)
        self._write(file, number + 1, take(last))


def _told(self: Ledger, reservation: Reservation, kind: Any, sealed: bytes | None = None) -> None:
    """A failure is told before the ledger has it."""

    def notes() -> None:
        _FAIL(self, reservation, kind, sealed)

    world().spawn("notes later", world().process, notes)


def _unnoted(self: Ledger, reservation: Reservation, kind: Any, sealed: bytes | None = None) -> None:
    """A failure is charged as anything else that was not answered."""
    self.spend(reservation)


def _heedless(self: RollbackGuardedLedger, reservation: Reservation, settlement: Settlement) -> Settled:
    """Whoever is stopped meanwhile is answered what was under way."""
    try:
        return _GUARDED(self, reservation, settlement)
    except Frozen:
        return Settled(settlement.answer, settlement.actual, Charge(0, 0), False)


def _nothing(*values: object) -> None:
    """Does nothing."""


def _now(self: highwater.HighWaterMarks, last: highwater.HighWater) -> highwater.HighWater:
    """The ledger is not compared with the mark before."""
    return self.now()


def _same_seed(self: ReleasePlan, key: bytes, reservation: bytes) -> Any:
    """The noise of a release is the same each time that it is computed."""
    return vars(release_plan)["randomness"].seed(key, self.release_key, bytes([1] * 16))


MUTANTS: dict[str, tuple[Change, ...]] = {
    "charged after the answer has left": ((RollbackGuardedLedger, "settle", _later),),
    "no wait for the mark": ((RollbackGuardedLedger, "_wait_for", _nothing),),
    "no mark for what another process has stored": ((RollbackGuardedLedger, "_cover", _nothing),),
    "the mark is not flushed": ((Disk, "fdatasync", _nothing),),
    "the own draw is shown, not the stored one": ((Ledger, "settle", _own),),
    "the same noise at every attempt": ((ReleasePlan, "noise", _same_seed),),
    "a crash gives back what was drawn": (
        (Ledger, "_try_reserve", _unmarked),
        (Ledger, "settle", _marked_late),
    ),
    "no commit waits for the disk": ((store, "_run", _unsealed),),
    "shared accounts pay nothing": ((Purchases, "_reserved", _alone),),
    "a failure is told before it is noted": ((Ledger, "fail", _told),),
    "a failure is not noted": ((Ledger, "fail", _unnoted),),
    "what was under way is answered though its login is stopped": (
        (RollbackGuardedLedger, "settle", _heedless),
    ),
    "a stored answer is free for all": ((Purchases, "_replayed", _for_nothing),),
    "a mark takes the place of one that the ledger lacks": ((highwater.HighWaterMarks, "after", _now),),
    "an older copy passes": (
        (highwater.HighWaterMarks, "check", _nothing),
        (highwater.OwnEntries, "check", _nothing),
        (MarkFile, "advance", _anything),
    ),
}


@contextmanager
def mutated(name: str) -> Iterator[None]:
    """Within the context the product has this mistake."""
    before = [(owner, attribute, vars(owner)[attribute]) for owner, attribute, _ in MUTANTS[name]]
    try:
        for owner, attribute, wrong in MUTANTS[name]:
            setattr(owner, attribute, wrong)
        yield
    finally:
        for owner, attribute, right in before:
            setattr(owner, attribute, right)
