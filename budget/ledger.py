"""The ledger: accounts pay first, and an answer is stored in the commit that charges for it.

PostgreSQL by psycopg, usable without the proxy. A query goes reserve -> settle (budget.md): `reserve` holds
the most it can cost of every account of its chain, `settle` writes actual cost and answer in one transaction.
All methods may be called from any thread; each raises LedgerUnavailable where the server cannot be used.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from threading import Lock
from typing import NoReturn, Self, cast
from uuid import UUID

from budget import statements, statements_accounts, statements_streams
from budget.account import (
    LOST_CHARGES,
    AboveReservation,
    AlreadyReached,
    AlreadyResolved,
    Charge,
    ContinualRelease,
    Exhausted,
    FailureKind,
    Frozen,
    IdUsed,
    LedgerError,
    LedgerUnavailable,
    NotReached,
    Outcome,
    Overtaken,
    OwnedMeasure,
    Pinned,
    PolicyChanged,
    ReplayNote,
    Reservation,
    ReserveRequest,
    Settled,
    Settlement,
    UnknownAccount,
)
from budget.accounts import Accounts, left_of
from budget.analysts import Analysts
from budget.approvals import Approvals
from budget.epochs import Epochs
from budget.failures import Failures
from budget.generations import Generations
from budget.highwater import HighWaterMarks, OwnEntries
from budget.history import History
from budget.memberships import Memberships
from budget.origins import Origins
from budget.publications import Publications
from budget.recent_keys import RecentKeys
from budget.refusals import Refusals
from budget.schema import ROLE, prepare
from budget.single_flight import SingleFlight
from budget.store import LOST, Conflict, OutOfBounds, Pool, PostgresStore, Row
from budget.units import MOST, UNBOUNDED

_ATTEMPTS = 3
_IDS = 256
_KNOWN_DURABLE = 100_000
_MOST_OWNED = 100
"""Measures that are looked at for one question."""


class Ledger:
    """The accounts of one deployment, and the steps by which they are charged. Make it by `Ledger.open`.

    Each part has one subject; all parts share the connections.

    Attributes:
        id: the name that the ledger was given when it was made.
        accounts: limits, and what is left of them.
        analysts: who logs in with a password.
        approvals: the limits that a second person has approved.
        epochs: their nonces, and the end of the answers that were kept for them.
        failures: statements that failed at the backend, and who was stopped by them.
        generations: the policies that are bought under.
        high_water: marks that detect an older copy of the ledger.
        history: its entries.
        memberships: who is in which team by the groups of an identity provider.
        origins: the data that its answers are computed from.
        publications: published answers.
        refusals: counts of refused statements.
        single_flight: keys by which one process alone computes a release.
    """

    def __init__(
        self,
        conninfo: str,
        connections: int,
        options: str,
        id: str,
        pinned: Pinned,
        instance: str,
        lease: timedelta,
    ) -> None:
        self._own = OwnEntries()
        self._pool = Pool(conninfo, connections, options, self._own.check)
        self._holders = Pool(conninfo, connections, options)
        self._store = PostgresStore(self._pool)
        self._instance, self._lease = instance, lease
        self._ids: deque[UUID] = deque()
        self._ids_lock = Lock()
        self._durable = RecentKeys(_KNOWN_DURABLE)
        self.id = id
        self.accounts = Accounts(self._store, pinned)
        self.analysts = Analysts(self._store)
        self.approvals = Approvals(self._store)
        self.epochs = Epochs(self._store)
        self.failures = Failures(self._store)
        self.generations = Generations(self._store)
        self.high_water = HighWaterMarks(self._store, id, self._own)
        self.history = History(self._store, id)
        self.memberships = Memberships(self._store)
        self.origins = Origins(self._store)
        self.publications = Publications(self._store)
        self.refusals = Refusals(self._store)
        self.single_flight = SingleFlight(self._holders)

    @classmethod
    def open(
        cls,
        conninfo: str,
        pinned: Pinned,
        *,
        instance: str,
        lease: timedelta = timedelta(hours=1),
        connections: int = 16,
    ) -> Self:
        """Opens a ledger, making its schema on first use, and ends the reservations of dead processes.

        `conninfo`: of libpq, or a URL; `pinned`: as at its creation; `instance`: this process's lasting name,
        of which one lives at a time: reservations it made in an earlier life are ended at once (spent where
        the backend was reached, else released), those of others when their `lease` has run out;
        `connections`: at most so many for transactions, and as many again for `single_flight`. Raises
        PinnedMismatch, LedgerUnavailable, LedgerError.
        """
        try:
            with Pool(conninfo, 1).connect() as connection:
                id, role = prepare(connection, pinned)
        except LOST as error:
            raise LedgerUnavailable(f"the ledger cannot be opened: {error}") from error
        ledger = cls(conninfo, connections, f"-c role={ROLE}" if role else "", id, pinned, instance, lease)
        ledger._end_dead(instance)
        return ledger

    def close(self) -> None:
        """Closes idle connections; held reservations stay held until recovery."""
        self._pool.close()
        self._holders.close()

    # The life of a charge

    def new_ids(self, count: int) -> list[UUID]:
        """Ids for as many reservations, never given twice.

        Whoever keeps them knows what to ask `outcome` for when `reserve` raises LedgerUnavailable.
        """
        with self._ids_lock:
            if len(self._ids) < count:
                rows = self._store.rows(
                    "SELECT gen_random_uuid() FROM generate_series(1, %(n)s)", n=_IDS + count
                )
                self._ids.extend(row[0] for row in rows)
            return [self._ids.popleft() for _ in range(count)]

    def reserve(self, request: ReserveRequest) -> tuple[Reservation, ...]:
        """Holds the most that a query's releases can cost, all of them on every account, or none.

        Returns one reservation a charge. Raises Exhausted, Frozen, UnknownAccount, PolicyChanged, IdUsed, ValueError.
        """
        chain, charges, total = request.chain, request.charges, request.total
        ids = self.new_ids(len(charges)) if request.ids is None else list(request.ids)
        if len(set(ids)) != len(charges):
            raise ValueError("a reservation needs an id of its own")
        values: dict[str, object] = {
            "chain": list(chain),
            "accounts": len(chain),
            "own": chain[0],
            "login": request.login or chain[0],
            "ids": ids,
            "information": [charge.information for charge in charges],
            "calls": [charge.calls for charge in charges],
            "epsilons": [charge.epsilon for charge in charges],
            "mechanisms": list(request.mechanisms),
            "queries": list(request.queries),
            "attributed": request.attributed,
            "most": MOST,
            "reached": request.reached,
            "thaw": request.thaw,
            "instance": self._instance,
            "lease": self._lease,
            "deployment": None if request.generation is None else request.generation.deployment,
            "generation": None if request.generation is None else request.generation.number,
        }
        rows = self._try_reserve(values)
        if rows and not rows[0][2] and any(row[8] for row in rows) and self.recover():
            rows = self._try_reserve(values)
        if len(rows) != len(chain):
            raise UnknownAccount("an account of the chain was never seeded")
        if not rows[0][2]:
            if not rows[0][10]:
                raise PolicyChanged("the policy was changed")
            if rows[0][11]:
                raise Frozen(True, "failures")
            _refuse(chain[0], total, rows)
        return tuple(Reservation(id, chain[0], charge) for id, charge in zip(ids, charges, strict=True))

    def reach(self, reservation: Reservation) -> None:
        """Records durably that the backend is about to be called; AlreadyResolved if the reservation was released."""
        for _ in range(_ATTEMPTS):
            rows = self._store.rows(statements.REACH, id=reservation.id)
            if rows and rows[0][0]:
                return
            if rows:
                raise AlreadyResolved("the reservation was released")
        raise LedgerError("no such reservation")

    def release(self, reservation: Reservation) -> None:
        """Returns a reservation whose backend was never reached; AlreadyReached, AlreadyResolved."""
        self._resolve(reservation.id, "release")

    def spend(self, reservation: Reservation) -> None:
        """Charges a reservation in full, after its backend was reached; AlreadyResolved."""
        self._resolve(reservation.id, "spend")

    def fail(self, reservation: Reservation, kind: FailureKind, sealed: bytes | None = None) -> None:
        """Charges a reservation in full whose statement failed at the backend, and notes the failure durably.

        Only when this returns may the failure be told: Frozen where the login or the analyst was stopped before, as
        `settle` raises then. `sealed`: the backend's message, encrypted. AlreadyResolved.
        """
        self._fail(reservation.id, kind, sealed)
        if not self._store.rows(statements.TOLD, id=reservation.id)[0][0]:
            raise Frozen(True, "failures")

    def settle(self, reservation: Reservation, settlement: Settlement) -> Settled:
        """Writes actual cost and answer in one transaction; only the answer that it returns may be sent.

        A second settlement with a release key gets the stored answer, at its stored cost, or free of charge if this
        account has paid for it already. Shared accounts are charged the whole reservation, or nothing where it is the
        answer for which they were charged in this period, by the purchase that stored it.
        Raises AboveReservation, AlreadyResolved, and NotReached for a new answer whose backend was not said to be
        reached. After LedgerUnavailable, `outcome` says whether it was written. Frozen where too many statements of
        the login or the analyst have failed meanwhile: all of the reservation is charged, and no answer is stored, so
        that this looks as one more failure.

        A step of a stream costs nothing where the account has paid for the stream in this period, else what is
        settled (AboveReservation where less was reserved); Overtaken where another step came first.

        Where `actual` does not say its pure epsilon, it is that of the reservation.
        """
        actual, look = settlement.actual, settlement.look
        if look is None and actual.epsilon == UNBOUNDED:
            actual = replace(actual, epsilon=reservation.at_most.epsilon)
        if look is None and not reservation.at_most.covers(actual):
            raise AboveReservation(f"{actual} settled on a reservation of {reservation.at_most}")
        # The parameters of the statement have the names of the fields.
        values: dict[str, object] = {"id": reservation.id, **vars(actual), **vars(settlement)}
        values |= {"choice_keys": list(settlement.choices), "places": list(settlement.choices.values())}
        values |= {"measure_keys": list(settlement.measures)}
        values |= {"measure_places": list(settlement.measures.values())}
        statement = statements.SETTLE
        if look is not None:
            values |= {"stream": look.key, "number": look.after + 1}
            statement = statements_streams.SETTLE_LOOK
        for _ in range(_ATTEMPTS):
            settled = self._settle_once(statement, values)
            if settled is not None:
                self._durable.add((reservation.account, settlement.request_key))
                return settled
        raise LedgerUnavailable("another process is storing the same answer and does not finish")

    def outcome(self, id: UUID) -> Outcome | None:
        """The state of a reservation, made durable first; None if none of this id was ever committed."""
        found = self._store.transaction([(statements.STATE, {"id": id})], seal=(statements.FLUSH, {}))[0]
        if not found:
            return None
        kind, reached, answer, *charged = found[0][:6]
        return Outcome(kind or "open", bool(reached), Charge(*(n or 0 for n in charged)), answer)

    def replay(self, account: str, request_key: bytes, attributed: str = "") -> bytes | None:
        """The answer this account has paid for, free even when it is exhausted; None where there is none.

        `attributed`: as of `reserve`. The note of it in the account's history waits for the disk only where the
        answer might not be there yet.
        """
        values = {"account": account, "request_key": request_key, "attributed": attributed}
        durable = self._durable.has((account, request_key))
        rows = self._store.rows(statements.REPLAY, durable=durable, **values)
        if rows:
            self._durable.add((account, request_key))
        return rows[0][0] if rows else None

    def note_replays(self, notes: Sequence[ReplayNote]) -> bool:
        """Notes, durably and in their order, answers that were shown again; False where not all were paid for."""
        accounts, keys, attributed = map(list, zip(*notes, strict=True))
        values = {"accounts": accounts, "request_keys": keys, "attributed": attributed}
        ((noted,),) = self._store.rows(statements.NOTE_REPLAYS, **values)
        return bool(noted == len(notes))

    def choices(self, account: str, keys: Sequence[bytes]) -> dict[bytes, tuple[int, bytes]]:
        """The private choices that this account has paid for, by what they were made for: a place in an answer."""
        rows = self._store.rows(statements.CHOICES, account=account, keys=list(keys))
        return {key: (place, answer) for key, place, answer in rows}

    def owned(self, account: str, keys: Sequence[bytes]) -> list[OwnedMeasure]:
        """The measures that this account has paid for under these keys, the last ones first; nothing is noted."""
        rows = self._store.rows(statements.OWNED, account=account, keys=list(keys), most=_MOST_OWNED)
        return [OwnedMeasure(*row) for row in rows]

    def paid(self, account: str, request_keys: Sequence[bytes]) -> set[bytes]:
        """Those of the requests whose answers this account has paid for; nothing is noted."""
        rows = self._store.rows(statements.PAID, account=account, keys=list(request_keys))
        return {key for (key,) in rows}

    def stored(self, release_key: bytes) -> tuple[bytes, Charge] | None:
        """An answer that anybody paid for, and its cost.

        Before it may be given to another account, that one reserves the mechanism's maximum and settles this
        cost under the same release key.
        """
        rows = self._store.rows(statements.STORED, release_key=release_key)
        return (rows[0][0], Charge(*rows[0][1:])) if rows else None

    def stream(self, chain: Sequence[str], key: bytes) -> ContinualRelease:
        """The state of the stream `key`, and whether all accounts of `chain` have paid for it."""
        values = {"chain": list(chain), "stream": key}
        paid, looks, answer = self._store.rows(statements_streams.STREAM, **values)[0]
        return ContinualRelease(paid == len(chain), looks or 0, answer)

    def recover(self, *gone: str) -> int:
        """Ends reservations whose lease has run out, and those of instances that are `gone`; returns how many.

        They are spent or released as in `open`.
        """
        return self._end_dead(None) + sum(map(self._end_dead, gone))

    def _end_dead(self, instance: str | None) -> int:
        dead = self._store.rows(statements.DEAD, instance=instance)
        for (id,) in dead:
            try:
                with suppress(AlreadyReached):
                    self._resolve(id, "release")
                    continue
                # Its process was lost, maybe by what it asked the backend.
                self._fail(id, "stopped", None)
            except AlreadyResolved:
                self._store.rows(statements.LET_GO, id=id)
        return len(dead)

    def charge_for_loss(self) -> dict[str, Charge]:
        """Charges what the ledger may have lost: each account with all that it has left, frozen ones too.

        What is held is spent, and accounts that are made within a period from now on are frozen at first, since they
        may have been there before. Accounts in mode `track` have no limit, and pay nothing. Returns what was charged;
        a second call charges what was given back meanwhile.
        """
        self._store.rows(statements_accounts.NOTE_LOSS)
        self._store.rows(statements.REACH_HELD)
        rows = [row for row in self.accounts.all() if row.limit.mode == "enforce"]
        charged = {row.account: self._use_up(row.account) for row in rows}
        return {account: charge for account, charge in charged.items() if charge != Charge(0, 0)}

    def _use_up(self, account: str) -> Charge:
        while True:
            row = self.accounts.get(account)
            # Where units are left their filter admits the charge, and this closes the other one.
            epsilon = UNBOUNDED if row.left.information or not row.limit.epsilon else row.left.epsilon
            rest = Charge(row.left.information, row.left.calls, epsilon)
            if rest == Charge(0, 0):
                return rest
            request = ReserveRequest([account], [rest], True, [LOST_CHARGES], ["Lost"], thaw=True)
            with suppress(Exhausted):
                self.spend(self.reserve(request)[0])
                return rest

    # The three calls of the Audience Engagements paper

    def check_budget(self, account: str, cost: Charge) -> bool:
        """Whether an account could pay now; a later update may still fail. UnknownAccount."""
        return self.accounts.get(account).can_pay(cost)

    def update_budget(self, account: str, cost: Charge) -> None:
        """Charges an account at once; Exhausted, Frozen, UnknownAccount."""
        request = ReserveRequest([account], [cost], reached=True, queries=[""], mechanisms=["update_budget"])
        held = self.reserve(request)
        self.spend(held[0])

    def get_budget(self, account: str) -> Charge:
        """The remaining budget; UnknownAccount."""
        return self.accounts.left(account)

    # Inside

    def _try_reserve(self, values: Mapping[str, object]) -> list[Row]:
        """By account: name, mode, pays, made before, refreshes at, what is left (three units), holds, frozen,
        whether its policy is bought under, and whether too many statements have failed."""
        steps = [(statements.RESERVE, values)]
        seal = (statements.MARK, values) if values["reached"] else None
        try:
            rows = self._store.transaction(steps, seal)[0]
        except Conflict:
            # A first attempt, lost on the way, had committed after all.
            rows = self._store.transaction(steps, seal)[0]
        if rows and not rows[0][10]:
            raise IdUsed("the id of a reservation was used before, for something else")
        return [(*row[:2], row[2] or row[3], *row[3:10], *row[11:]) for row in rows]

    def _settle_once(self, statement: str, values: Mapping[str, object]) -> Settled | None:
        """None where another transaction has just stored the answer, which the next attempt sees."""
        id = cast(UUID, values["id"])
        row = self._resolved(id, "settle", values, statement, statements.SPEND_STOPPED)
        if row is not None and len(row) == 1:
            raise Frozen(True, "failures")
        if row is not None:
            answer, charged, stored_before, left = row[0], row[1:4], row[4], row[5:8]
            return Settled(answer, Charge(*charged), left_of(*left), stored_before)
        state = self._state(id)
        if state is None:
            raise LedgerError("no such reservation")
        if not state[1]:
            raise NotReached("the reservation was not marked as having reached the backend")
        return None

    def _resolve(self, id: UUID, kind: str) -> None:
        if self._resolved(id, kind, {"id": id, "kind": kind}, statements.RESOLVE) is None:
            raise LedgerError("no such reservation")

    def _fail(self, id: UUID, kind: FailureKind, sealed: bytes | None) -> None:
        values = {"id": id, "kind": "spend", "failed": kind, "sealed": sealed}
        values["most"] = statements.MOST_FAILURES[kind]
        if self._resolved(id, "spend", values, statements.FAIL, statements.RESOLVE) is None:
            raise LedgerError("no such reservation")

    def _resolved(self, id: UUID, kind: str, values: Mapping[str, object], *resolving: str) -> Row | None:
        """The row of the one statement of `resolving` that resolves, the number of its entry last; None where none
        found anything to resolve."""
        try:
            steps = [(statement, values) for statement in (statements.LOCK_HELD, *resolving)]
            found = self._store.transaction(steps, (statements.LET_GO, values))[1 : len(steps)]
            rows = [row for each in found for row in each]
        except OutOfBounds as error:
            raise AboveReservation("the stored answer cost more than the reservation holds") from error
        except Conflict as error:
            if error.constraint == "look_in_order" and not error.after_loss:
                raise Overtaken("another process has released this stream in the meantime") from error
            state = self._state(id)
            if error.constraint == "mark_once" and (state is None or state[0] is None):
                raise AlreadyReached("the backend was reached: the reservation can only be spent") from error
            if kind == "settle" and state and state[0] == "spend" and self._stopped(id):
                raise Frozen(True, "failures") from error
            if not error.after_loss or state is None or state[0] != kind:
                raise AlreadyResolved("the reservation is settled, spent or released already") from error
            # A first attempt, lost on the way, had committed after all.
            self._store.transaction([(statements.LET_GO, values), (statements.FLUSH, {})])
            rows = [state[2:]]
        if not rows:
            return None
        self._own.note(rows[0][-1], id)
        return rows[0]

    def _stopped(self, id: UUID) -> bool:
        """Whether the analyst of a reservation, or the login while it is held, is stopped."""
        return bool(self._store.rows(statements.STOPPED, id=id)[0][0])

    def _state(self, id: UUID) -> Row | None:
        """How it was resolved, whether its backend was reached, and what `_resolved` had returned."""
        rows = self._store.rows(statements.STATE, id=id)
        return rows[0] if rows else None


def _refuse(own: str, total: Charge, rows: Sequence[Row]) -> NoReturn:
    """Raises the refusal. It has numbers of the analyst's own account only, none of a shared one."""
    frozen = {row[0] for row in rows if row[9]}
    if frozen:
        raise Frozen(own in frozen)
    for name, mode, _, _, refreshes_at, information, calls, epsilon, *_ in rows:
        if name == own:
            left = left_of(information, calls, epsilon)
            if mode == "enforce" and not left.pays(total):
                raise Exhausted(total, left, cast(datetime | None, refreshes_at))
    raise Exhausted(total, None, None)
