"""Sequences of statements: whatever an account repeats, mixes, breaks off or makes fail, it pays for all that is drawn,
and no answer has a length that only another account has paid for."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pytest

from budget.account import Settled
from budget.units import MICRO
from dpproxy.backends.base import BackendError, Cancellation
from dpproxy.backends.duckdb.adapter import DuckDBSlot
from dpproxy.config.precision import LEVELS
from dpproxy.deployment.service import Service, configured
from dpproxy.engine.measurement import totals
from dpproxy.engine.result.released_table import ReleasedTable
from mechanisms.known_domain import KnownGauss
from mechanisms.partition_selection import WeightRound
from mechanisms.quantile import QuantileChoice
from mechanisms.unit_clip import UnitClip
from mechanisms.unknown_domain import UnkGauss
from rewriter.refusal import Refusal
from tests.dpproxy.engine.test_executor import Analyst
from tests.dpproxy.serving import POLICY, make

pytestmark = [pytest.mark.service, pytest.mark.statistical]

EPS = Fraction(3, 20)
STATEMENTS = 100
ACCOUNTS = ("ann", "bob", "eve")
TABLES = """
[privacy]
epoch = "forever"
[budget]
information = 100000
calls = 100000
period = "none"
[budget.dataset]

[tables.orders]
privacy_unit = "person_id"
[tables.orders.columns]
shop = { domain = ["north", "south"] }
aisle = { domain = ["0", "1", "2", "3", "4", "none"] }
town = {}
pieces = { bounds = [0, 9] }
amount = {}
"""
ROWS = """
CREATE TABLE orders (person_id INTEGER NOT NULL, shop VARCHAR, town VARCHAR, pieces INTEGER, amount DOUBLE,
    aisle VARCHAR);
INSERT INTO orders SELECT i // 2, ['north', 'south'][1 + i % 2], 'town ' || (i // 2 % 3), i % 10, (i % 100) + 0.25,
    greatest(0, i % 97 - 92)::VARCHAR FROM range(4000) r(i)
"""
TOTALS = ("COUNT(*)", "COUNT(amount)", "SUM(amount)", "SUM(amount) FILTER (WHERE amount > 1000)")
AGGREGATES = (
    *TOTALS,
    "COUNT(DISTINCT person_id)",
    "SUM(pieces)",
    "AVG(amount)",
    "AVG(pieces)",
    "VAR_POP(amount)",
    "AVG(amount) FILTER (WHERE amount > 1000)",
    "PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY pieces)",
)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder: Path = tmp_path_factory.mktemp("sequences")
    make(folder, POLICY + TABLES)
    with duckdb.connect(folder / "people.duckdb") as connection:
        connection.execute(ROWS)
    with Service.start(configured(folder / "dpproxy.toml"), alone=True) as running:
        yield running


class Draws:
    """All draws of an answer, in information units, and the lengths that each account has drawn or bought in an answer.

    The mechanisms are asked, not the plans: what is drawn has to be covered whatever was planned.
    """

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.begin("")
        self.own: dict[str, set[int]] = {name: set() for name in ACCOUNTS}
        self.reused = self.weighted = 0
        for mechanism in (KnownGauss, UnkGauss, QuantileChoice):
            patch.setattr(mechanism, "release", self._priced(mechanism.release))
        choose, release = UnitClip.choose, UnitClip.release

        def chosen(clip: UnitClip, *given: Any) -> int | None:
            self.spent += clip.choice * clip.price * (clip.eps_per / EPS) ** 2
            length = choose(clip, *given)
            self.own[self.account] |= {length} if length is not None else set()
            return length

        def released(clip: UnitClip, sums: Any, length: int, *given: Any) -> Any:
            # rho of a Gaussian in units of eps_per^2/8: sigma^2 is in lengths squared (unit_clip.md, Theorem 2).
            self.spent += 4 / (clip.sigma_squared * EPS**2)
            assert length in self.own[self.account], "a length that this account has paid for"
            self.reused += clip.length is not None
            return release(clip, sums, length, *given)

        weigh = totals.divided

        def weighed(*given: Any) -> Any:
            self.weighted += 1
            return weigh(*given)

        patch.setattr(totals, "divided", weighed)
        decide = WeightRound.decide

        def decided(this: WeightRound, *given: Any) -> Any:
            self.spent += 8 * this.rho / EPS**2
            return decide(this, *given)

        patch.setattr(WeightRound, "decide", decided)
        patch.setattr(UnitClip, "choose", chosen)
        patch.setattr(UnitClip, "release", released)

    def bought(self, answer: bytes) -> None:
        """An answer is paid for, which somebody else may have stored."""
        released = ReleasedTable.load(answer)
        self.own[self.account] |= {m.length for m in released.measured.values() if m.length}

    def begin(self, account: str) -> None:
        """A statement of an account."""
        self.account, self.spent, self._levels = account, Fraction(0), set[Fraction]()

    def _priced(self, release: Any) -> Any:
        def priced(mechanism: Any, *given: Any) -> Any:
            found = release(mechanism, *given)
            share = (mechanism.eps_per / EPS) ** 2
            # The rows of a unit weigh as much as one in all groups together: a quantile of each costs as one.
            level = next((level for level in LEVELS if math.isclose(level, share)), None)
            if isinstance(mechanism, QuantileChoice) and level is not None:
                share = share if level not in self._levels else Fraction(0)
                self._levels.add(level)
            self.spent += found.cost.information * share
            return found

        return priced


class Trouble:
    """What goes wrong at the backend's next query but `after`: nothing, a failure, or a cancellation."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.kind, self.after = "", 0
        fetch = DuckDBSlot.fetch

        def troubled(slot: DuckDBSlot, query: Any, key: str, cancellation: Cancellation, most: int) -> Any:
            self.after -= 1
            if self.after == 0 and self.kind == "fails":
                raise BackendError
            if self.after == 0 and self.kind == "cancelled":
                cancellation.cancel()
            return fetch(slot, query, key, cancellation, most)

        patch.setattr(DuckDBSlot, "fetch", troubled)


def statement(chance: Random) -> str:
    """A statement of few that share measures, rows and cells."""
    key = chance.choice(["", "shop", "aisle", "town"])
    values = ", ".join(chance.sample(TOTALS if key == "aisle" else AGGREGATES, chance.randint(1, 3)))
    where = chance.choice(["", "", " WHERE pieces < 5"])
    if not key:
        return f"SELECT {values} FROM orders{where}"
    return f"SELECT {key}, {values} FROM orders{where} GROUP BY {key}"


def precision(chance: Random) -> dict[str, str]:
    """Settings of a session's precision, mostly none."""
    if chance.random() < 0.5:
        return {}
    if chance.random() < 0.5:
        return {"dpproxy.units": chance.choice(["0.25", "0.5", "2", "4", "8"])}
    return {
        "dpproxy.error": chance.choice(["2%", "10%", "40"]),
        "dpproxy.most_units": chance.choice(["1", "9"]),
    }


def test_every_draw_is_paid_for(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    chance, draws, trouble = Random("sequences"), Draws(monkeypatch), Trouble(monkeypatch)
    analysts = {name: Analyst(service, name) for name in ACCOUNTS}
    for analyst in analysts.values():
        assert analyst.used() == (0, 0)
    asked: list[tuple[str, str, dict[str, str]]] = []
    settle = service.ledger.settle

    def settled(*given: Any) -> Settled:
        found = settle(*given)
        draws.bought(found.answer)
        return found

    monkeypatch.setattr(service.ledger, "settle", settled)
    free = failed = stored = 0
    for _ in range(STATEMENTS):
        name, sql, settings = chance.choice(ACCOUNTS), statement(chance), precision(chance)
        if asked and chance.random() < 0.2:
            name, sql, settings = chance.choice(asked)
        trouble.kind, trouble.after = chance.choice(["", "", "", "fails", "cancelled"]), chance.randint(1, 3)
        draws.begin(name)
        before, of_all = charged(service, f"analyst:{name}"), charged(service, "dataset")
        code = ""
        try:
            analysts[name].ask(sql, settings, Cancellation())
        except Refusal as refusal:
            code = refusal.code
        assert code in ("", "PV090", "57014"), sql
        failed += bool(code)
        service.ledger.failures.clear(None, "the owner, so that nobody is stopped")
        paid, shared = charged(service, f"analyst:{name}") - before, charged(service, "dataset") - of_all
        # Prices are rounded up to a millionth of a unit, each settlement by itself.
        assert paid >= draws.spent - Fraction(1, 10**12), f"{name} has not paid for all draws of {sql}"
        assert shared >= draws.spent - Fraction(1, 10**12), f"the dataset has not paid for all draws of {sql}"
        free += paid == 0
        stored += shared < paid
        asked.append((name, sql, settings))
    assert free > 5
    assert stored > 2, "what another account has bought before"
    assert service.ledger.history.verify() is None
    assert failed > 10
    assert draws.reused > 5
    rungs = service.ledger._ledger._store.rows(
        "SELECT count(*) FROM dpproxy_ledger.entry WHERE kind = 'reserve' AND mechanism LIKE '%% units%%'"
    )
    assert rungs[0][0] > 20
    assert draws.weighted > 3


def charged(service: Service, account: str) -> Fraction:
    """What an account has used, in information units."""
    return Fraction(service.ledger.accounts.get(account).used.information, MICRO)
