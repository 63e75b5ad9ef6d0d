"""What the owner is told as statements end: metrics of one process and of several, log lines, counts in the ledger."""

from __future__ import annotations

import io
import json
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, date, datetime
from pathlib import Path
from uuid import UUID

import httpx
import psycopg
import pytest

from budget.account import LedgerUnavailable
from dpproxy.telemetry.observer import ChargeTally, StatementEnd
from dpproxy.telemetry.refusal_counter import MOST_SHAPES, OTHER_SHAPES, RefusalCounts
from dpproxy.telemetry.statement_log import StatementLog
from tests.dpproxy.serving import COUNT, POLICY, Running, make, serving, within

LITERAL = "SELECT COUNT(*) FROM people WHERE town = 'Ulm' AND person_id <> 4711"
TRUST = '[server]\nauth = "trust"\nlog = "json"\nhttp = "127.0.0.1:0"\n[budget.dataset]\ninformation = 1000\n'


class Store:
    """What a ledger keeps of refusals, out of reach at will."""

    def __init__(self) -> None:
        self.counts: dict[tuple[str, str], int] = {}
        self.shapes: dict[tuple[str, str], int] = {}
        self.reachable = True

    def count_shapes(self, counter: UUID, day: date, times: Mapping[tuple[str, str], int]) -> None:
        self.shapes |= times

    def count(self, counter: UUID, day: date, times: Mapping[tuple[str, str], int]) -> None:
        if not self.reachable:
            raise LedgerUnavailable("out of reach")
        assert day == datetime.now(UTC).date()
        self.counts |= times


def refusal(code: str, account: str = "analyst:ann") -> StatementEnd:
    return StatementEnd(account, code, ChargeTally())


def test_refusals_wait_for_a_ledger_that_is_out_of_reach() -> None:
    store = Store()
    with RefusalCounts(store.count, store.count_shapes, str.lower) as counts:
        for code in ("PV010", "PV010", "22P04", "ZZZZZ", "x"):
            counts.ended(refusal(code))
        counts.ended(StatementEnd("analyst:ann", "", ChargeTally(bought=1)))
        store.reachable = False
        with pytest.raises(LedgerUnavailable):
            counts.write()
        counts.ended(refusal("PV010"))
        store.reachable = True
        counts.write()
        wanted = {"PV010": 3, "22000": 1, "ZZ000": 1, "XX000": 1}
        assert store.counts == {("analyst:ann", code): times for code, times in wanted.items()}
        counts.ended(refusal("PV001", "analyst:ben"))
    assert store.counts["analyst:ben", "PV001"] == 1


def test_so_many_shapes_are_told_apart() -> None:
    store = Store()
    with RefusalCounts(store.count, store.count_shapes, lambda text: text and f"shape {text}") as counts:
        for text in ("", *map(str, range(MOST_SHAPES + 7)), "0", None):
            counts.ended(StatementEnd("analyst:ann", "PV010", ChargeTally(), text))
        counts.ended(StatementEnd("analyst:ann", "PV020", ChargeTally(), "new"))
    assert len(store.shapes) == MOST_SHAPES + 2
    assert store.shapes["PV010", "shape 0"] == 2
    assert store.shapes["PV010", OTHER_SHAPES] == 7
    assert store.shapes["PV020", OTHER_SHAPES] == 1
    assert store.counts["analyst:ann", "PV010"] == MOST_SHAPES + 10


def test_a_line_of_the_log_has_no_text() -> None:
    out = io.StringIO()
    log = StatementLog(bytes(32), out)
    log.ended(StatementEnd('analyst:"\n', "PV090", ChargeTally(1_500_000, 0, 1), LITERAL, 0.0123))
    log.ended(StatementEnd("analyst:ann", "", ChargeTally(), LITERAL, 0.5))
    log.ended(StatementEnd("analyst:ann", "", ChargeTally(), LITERAL + " ", 0.5))
    first, second, third = map(json.loads, out.getvalue().splitlines())
    assert first["account"] == 'analyst:"\n'
    assert (first["event"], first["code"], first["information"]) == ("refused", "PV090", "1.5")
    assert first["milliseconds"] == 12.3
    assert first["fingerprint"] == second["fingerprint"] != third["fingerprint"]
    assert StatementLog(b"1" * 32).fingerprint(LITERAL) != log.fingerprint(LITERAL)
    assert "Ulm" not in out.getvalue()
    out.close()
    log.ended(refusal("PV010"))


def metric(page: str, name: str) -> float:
    found = re.search(rf"^{re.escape(name)} (\S+)$", page, flags=re.M)
    assert found, name
    return float(found[1])


def ask(run: Running) -> None:
    for name in ("ann", "ben", "carla", "dora"):
        with run.connect(name) as connection:
            connection.execute(COUNT.encode())
            connection.execute(LITERAL.encode())
            connection.execute(COUNT.encode())
            for bad in ("SELECT * FROM people", "SELECT nothing FROM rooms", "DROP TABLE people"):
                with suppress(psycopg.Error):
                    connection.execute(bad.encode())


def page_of(browser: httpx.Client, token: str) -> str:
    return browser.get("/metrics", headers={"Authorization": f"Bearer {token}"}).text


@pytest.mark.service
@pytest.mark.parametrize("workers", [1, 2])
def test_metrics_add_up_and_the_log_has_a_line_each(tmp_path: Path, workers: int) -> None:
    file = make(tmp_path, POLICY + TRUST)
    log = tmp_path / "log"
    arguments = ["serve", "-c", str(file), "--port", "0", "--workers", str(workers)]
    with (
        log.open("w") as errors,
        serving(arguments, errors=errors) as run,
        httpx.Client(base_url=run.console, timeout=30) as browser,
    ):
        token = within("console", "token", "-c", str(file))[1].strip()
        ask(run)
        page = page_of(browser, token)
        deadline = time.monotonic() + 20
        while metric(page, "dpproxy_sessions") and time.monotonic() < deadline:
            page = page_of(browser, token)
        counted = {
            'dpproxy_answers_total{paid="bought"}': 8,
            'dpproxy_answers_total{paid="replayed"}': 4,
            'dpproxy_releases_total{paid="bought"}': 8,
            'dpproxy_releases_total{paid="replayed"}': 4,
            'dpproxy_refusals_total{code="PV010"}': 4,
            'dpproxy_refusals_total{code="42703"}': 4,
            'dpproxy_refusals_total{code="25006"}': 4,
            'dpproxy_charged_units_total{unit="information"}': 8,
            'dpproxy_stage_seconds_count{stage="fetch"}': 2,
            'dpproxy_stage_seconds_count{stage="settle"}': 8,
            "dpproxy_sessions": 0,
            "dpproxy_backend_slots": 4 * workers,
            "dpproxy_backend_slots_busy": 0,
        }
        assert {name: metric(page, name) for name in counted} == counted
        assert browser.get("/readyz").status_code == 200
        assert run.stop() == 0
    lines = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
    assert len(lines) == 24
    assert sum(line["event"] == "answered" for line in lines) == 12
    assert sum(float(line["information"]) for line in lines) == 8
    assert {line["account"] for line in lines} == {
        f"analyst:{name}" for name in ("ann", "ben", "carla", "dora")
    }
    assert not re.search(r"\b4711\b|Ulm|SELECT|people", log.read_text().partition("{")[2])
