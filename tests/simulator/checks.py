"""What must hold in every history, computed from the simulated ledger's rows, apart from the code that made them."""

from __future__ import annotations

import hmac
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import UUID

from budget.account import Settled, Settlement
from budget.highwater import HighWater
from budget.statements import MOST_FAILURES
from dpproxy.config.highwater_file import _SLOT, _seal, mark_path
from dpproxy.engine.request import StepResult
from dpproxy.engine.result.released_table import ReleasedTable
from dpproxy.engine.rollback_guard import RollbackGuardedLedger
from mechanisms import randomness
from tests.simulator.statements import LENGTHS, LONG_AGO
from tests.simulator.tables import AMOUNTS, Fields, State, Transaction, within
from tests.simulator.world import Violation, World

KEY = Path("/simulated/key")


@dataclass(frozen=True)
class Got:
    """An answer that the engine got from the ledger for an account."""

    account: str
    request_key: bytes
    answer: bytes
    reservation: UUID | None = None
    information: int = 0


@dataclass
class Ask:
    """One execution of a statement: what it got, and what is to be shown of it."""

    analyst: str
    chain: Sequence[str]
    text: str
    settings: dict[str, str]
    login: str
    epoch: str = ""
    got: list[Got] = field(default_factory=list)
    results: dict[bytes, Any] = field(default_factory=dict)


class Checks:
    """The checks of one history."""

    def __init__(self, world: World, key: bytes) -> None:
        self._world, self._server = world, world.server
        world.on_commit, world.on_draw = self.committed, self.drawn
        self._secret = randomness.derive(key, "high-water mark")
        self._drawn: set[tuple[bytes, UUID]] = set()
        self._left: dict[tuple[str, bytes], bytes] = {}
        """By account and request, the answer that left."""
        self._stored: dict[bytes, bytes] = {}
        """By release, the answer that was settled."""
        self._shown: dict[Any, tuple[bytes, ...]] = {}
        self._told: dict[str, dict[UUID, int]] = defaultdict(dict)
        self._failed: Counter[tuple[str, str]] = Counter()
        """By login and account, the failures of the backend that were told."""
        self._latest = world.now()
        self.answers = 0

    # While it runs

    def committed(self, state: State, transaction: Transaction) -> None:
        """Limits are not passed, and what is used never becomes less before its period is over."""
        self._latest = max(self._latest, transaction.now)
        for table, _, before, row in transaction.written:
            if table == "account" and row is not None:
                if row["mode"] == "enforce" and not within(row):
                    raise Violation(f"{row['name']} has passed a limit")
                if before is not None:
                    self._moved(before, row)
            if table == "entry" and (row is None or before is not None):
                raise Violation("an entry was changed")
            if table == "failure" and row is not None and before is None:
                self._fails(state, row)
            if table == "entry" and row is not None and row["kind"] == "settle" and row["own"]:
                self._settles(state, row)
            given_back = table == "entry" and (row or {}).get("kind") == "release"
            # An older copy does not know what was reached after it.
            if (
                given_back
                and not self._world.lost_ledgers
                and any(id == (row or {})["reservation"] for _, id in self._drawn)
            ):
                raise Violation("a reservation was given back whose noise was drawn")

    def _fails(self, state: State, row: Fields) -> None:
        """Three that are told, or thirty of the other kind, stop a login or an account, and no more are told; those of
        the other kind stop no login that acts for somebody else."""
        for column, stops in (("login", row["stops_login"]), ("account", row["stops_account"])):
            if column == "login" and row["kind"] == "stopped" and row["login"] != row["account"]:
                if stops:
                    raise Violation(f"{row['login']} is stopped by a time-out of {row['account']}")
                continue
            period = state.tables["account"][row[column]]["period"]
            since = row["failed_at"] - LENGTHS[period] if period in LENGTHS else LONG_AGO
            found = [
                f
                for f in state.tables["failure"].values()
                if f[column] == row[column] and f["kind"] == row["kind"] and f["told"]
                if f["cleared_at"] is None and f["failed_at"] > since
                if column == "account" or f["kind"] == "failed" or f["login"] == f["account"]
            ]
            if row["told"] and len(found) > MOST_FAILURES[row["kind"]]:
                raise Violation(f"one failure too many was told to {row[column]}")
            if row["told"] and (len(found) == MOST_FAILURES[row["kind"]]) != stops:
                raise Violation(f"{row[column]} is stopped too early or too late")

    def _settles(self, state: State, entry: Fields) -> None:
        """Nothing is answered for whoever is stopped, whenever it was asked."""
        login = state.tables["held"][entry["reservation"]]["login"]
        for f in state.tables["failure"].values():
            stops = (f["stops_login"] and f["login"] == login) or (
                f["stops_account"] and f["account"] == entry["account"]
            )
            if stops and f["cleared_at"] is None:
                raise Violation(f"an answer was settled for {login}, who is stopped")

    def failed(self, ask: Ask) -> None:
        """A failure of the backend is about to be told: the ledger has it on disk."""
        pair = f"analyst:{ask.login}", ask.chain[0]
        self._failed[pair] += 1
        noted = sum(
            (f["login"], f["account"]) == pair and f["told"]
            for f in self._server.disk.tables["failure"].values()
        )
        if noted < self._failed[pair] and not self._world.lost_ledgers:
            raise Violation("a failure was told that is not noted on disk")

    def _moved(self, before: Fields, row: Fields) -> None:
        if row["seen_at"] < before["seen_at"] or row["seen_at"] > self._latest:
            raise Violation(f"the clock of {row['name']} runs wrong")
        if all(row[f"used_{unit}"] >= before[f"used_{unit}"] for unit in AMOUNTS):
            return
        started, period = before["period_started"], before["period"]
        if started is None or period not in LENGTHS or started + LENGTHS[period] > row["seen_at"]:
            raise Violation(f"{row['name']} got back what it had used within its period")

    def drawn(self, release_key: bytes, reservation: bytes) -> None:
        """Noise is about to be drawn for a release under a reservation."""
        if reservation == bytes(16):
            return  # of an answer of which all was paid for before: no noise is read
        id = UUID(bytes=reservation)
        if (release_key, id) in self._drawn:
            raise Violation("the same noise was drawn twice for a release")
        self._drawn.add((release_key, id))
        # Where another ledger took the place of the one that reserved, no settlement follows.
        reserved = {e["reservation"] for e in self._server.disk.tables["entry"].values()}
        if id not in reserved and not self._world.lost_ledgers:
            raise Violation("noise was drawn under no reservation that is on disk")

    def settled(
        self, ask: Ask, account: str, reservation: UUID, settlement: Settlement, settled: Settled
    ) -> None:
        """The ledger has settled."""
        charged = settled.charged.information
        before = self._stored.setdefault(settlement.release_key, settled.answer)
        if before != settled.answer and not self._world.lost_ledgers:
            raise Violation("two answers were settled for one release")
        ask.got.append(Got(account, settlement.request_key, settled.answer, reservation, charged))

    def leaves(self, ask: Ask, result: StepResult) -> None:
        """Rows are about to leave: every answer in them is paid on disk, and the mark covers that."""
        self.answers += 1
        if any(table.columns for table in ask.results.values()) and not ask.got:
            raise Violation("an answer leaves that was neither bought nor replayed")
        mark = self._mark()
        for got in ask.got:
            # Another ledger may have taken its place since it was asked: its charges are looked at in the end.
            if not self._world.lost_ledgers:
                self._paid(got, ask, mark)
            before = self._left.setdefault((got.account, got.request_key), got.answer)
            if before != got.answer and not self._twice(got.request_key):
                raise Violation("another answer left for a request that was answered before")
            if got.reservation is not None:
                self._told[got.account][got.reservation] = got.information
        same = all(t.lowered is None and not _from_others(t) for t in ask.results.values())
        if ask.results and same and "dpproxy.error" not in ask.settings:
            key = ask.text, ask.epoch, tuple(got.answer for got in ask.got)
            if self._shown.setdefault(key, result.arrays) != result.arrays:
                raise Violation("one answer left in two ways")

    def _twice(self, request_key: bytes) -> bool:
        """Whether a request may be bought twice, with other noise: by two who cannot know of each other."""
        return bool(self._world.lost_ledgers) or request_key in self._server.let_go

    def _paid(self, got: Got, ask: Ask, mark: int) -> None:
        tables = self._server.disk.tables
        keys = [
            r["release_key"]
            for r in tables["request"].values()
            if r["account"] == got.account and r["request_key"] == got.request_key
        ]
        keys = [key for key in keys if tables["answer"].get(key, {}).get("answer") == got.answer]
        if not keys:
            raise Violation(f"an answer leaves that is not stored on disk for {got.account}")
        own = [
            e
            for e in tables["entry"].values()
            if e["account"] == got.account and e["own"] and e["kind"] == "settle" and e["release_key"] in keys
        ]
        if not own:
            raise Violation(f"an answer leaves for which {got.account} is not charged on disk")
        for account in ask.chain[1:]:
            of_it = [
                e for e in tables["entry"].values() if e["account"] == account and e["release_key"] in keys
            ]
            if not of_it or not any(e["information"] or e["calls"] for e in of_it):
                raise Violation(f"an answer leaves for which {account} is not charged on disk")
            self._once(account, of_it)
        if not self._world.lost_ledgers and mark < min(self._server.commits[e["reservation"]] for e in own):
            raise Violation("an answer leaves before a mark covers its reservation")

    def _once(self, account: str, entries: list[Fields]) -> None:
        """A shared account that the purchase of an answer has charged is not charged for it again in that period."""
        stored = {a["reservation"] for a in self._server.disk.tables["answer"].values()}
        for first in entries:
            if first["reservation"] in stored and first["information"]:
                same = (e for e in entries if e["period_number"] == first["period_number"] and e is not first)
                if any(e["information"] and e["number"] > first["number"] for e in same):
                    raise Violation(f"{account} was charged twice for one answer")

    def _mark(self) -> int:
        """The place in the log up to which a copy of the ledger must reach for the mark that is on disk."""
        content = self._world.disk.durable(mark_path(KEY)) or b""
        marks = {}
        for slot in range(2):
            line = content[slot * _SLOT : (slot + 1) * _SLOT].partition(b"\n")[0].decode("ascii", "replace")
            seal, _, said = line.partition(" ")
            if hmac.compare_digest(seal.encode(), _seal(self._secret, said).encode()):
                number, _, mark = said.partition(" ")
                marks[int(number)] = HighWater.load(mark)
        if not marks:
            return -1
        last = max(marks.items())[1]
        places = [0]
        for entry in self._server.disk.tables["entry"].values():
            if entry["number"] in last.entries and last.entries[entry["number"]] == _digest(entry):
                places.append(self._server.places[entry["number"]])
        return max(places)

    # At the end

    def end(self, ledger: RollbackGuardedLedger) -> None:
        """All is resolved, adds up, and was charged; what left can be read again."""
        wrong = ledger.history.verify()
        if wrong is not None:
            raise Violation(f"the balances are not what the entries say: {wrong}")
        tables = self._server.state.tables
        if tables["held"]:
            raise Violation("something is held for ever")
        ended = {
            e["reservation"]: e["kind"] for e in tables["entry"].values() if e["stage"] == 1 and e["own"]
        }
        if not self._world.lost_ledgers:
            for _, reservation in self._drawn:
                if ended.get(reservation) not in ("settle", "spend"):
                    raise Violation("noise was drawn under a reservation that is not charged")
        for account, told in self._told.items():
            used = sum(e["information"] for e in tables["entry"].values() if e["account"] == account)
            if used < sum(told.values()):
                raise Violation(
                    f"{account} is charged less than its answers have cost: budget was given back"
                )
        if not self._world.lost_ledgers:
            for (account, request_key), answer in self._left.items():
                if ledger.replay(account, request_key) != answer:
                    raise Violation("an answer that was paid for cannot be read again")


def _digest(entry: Fields) -> str:
    facts = [entry[n] for n in ("number", "reservation", "account", "kind", "information", "calls")]
    return sha256("|".join(map(str, facts)).encode()).hexdigest()


def _from_others(table: ReleasedTable) -> bool:
    """Whether an answer was made of what the account owns, which grows."""
    return bool(table.source) or any(note.startswith("combined from") for note in table.notes)
