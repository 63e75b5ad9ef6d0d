"""`dpproxy audit` on the trail of a long random run: exactly the ledger's balances and guarantees; lies are found."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import psycopg
import pytest
from typer.testing import CliRunner

from budget.account import Charge, Exhausted, Limit, LimitTooLow, Reservation, ReserveRequest, Settlement
from budget.ledger import Ledger
from budget.units import shown
from dpproxy.cli.app import app
from dpproxy.config.sections import load
from dpproxy.deployment.service import opened_vault
from tests.dpproxy.serving import POLICY, make

pytestmark = pytest.mark.service

STEPS = 600
ANALYSTS, SHARED = ("analyst:ann", "analyst:bob", "analyst:eve"), ("team:acme", "dataset")


def run(*arguments: str | Path) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


@dataclass
class Ran:
    """What is known after the run: the trail, and what the ledger itself says."""

    file: Path
    trail: Path
    balances: dict[str, tuple[int, ...]]


def live(ledger: Ledger, age: Callable[[str], None], seed: int) -> None:
    """A random life of five accounts: reservations resolved in every way, or never, limits moved, periods over."""
    chance = Random(seed)
    held: list[tuple[Reservation, bool]] = []
    paid: list[tuple[str, bytes]] = []
    for account in (*ANALYSTS, *SHARED):
        ledger.accounts.seed(
            account, Limit(90 * 10**6, 20 * 10**6, "day" if account in ANALYSTS else "month")
        )
    ledger.accounts.seed("analyst:free", Limit(10, 10, "week", "track"))
    for step in range(STEPS):
        action = chance.random()
        if action < 0.5 or not held:
            chain = [chance.choice((*ANALYSTS, "analyst:free")), *chance.sample(SHARED, chance.randint(0, 2))]
            costs = [
                Charge(chance.randint(0, 3 * 10**6), chance.randint(0, 10**6))
                for _ in range(chance.randint(1, 3))
            ]
            names = ["m"] * len(costs)
            try:
                reached = chance.random() < 0.8
                held += [
                    (r, reached)
                    for r in ledger.reserve(
                        ReserveRequest(
                            chain, costs, reached=reached, queries=["q"] * len(names), mechanisms=names
                        )
                    )
                ]
            except Exhausted:
                age(chance.choice((*ANALYSTS, *SHARED)))
        elif action < 0.9:
            one, reached = held.pop(chance.randrange(len(held)))
            paid += resolve(ledger, one, reached, chance, step)
        elif action < 0.95 and paid:
            ledger.replay(*chance.choice(paid))
        else:
            try:
                most = chance.randint(40, 120) * 10**6
                ledger.accounts.set_limit(chance.choice(ANALYSTS), Limit(most, most // 4, "day"))
            except LimitTooLow:
                pass


def resolve(
    ledger: Ledger, one: Reservation, reached: bool, chance: Random, step: int
) -> list[tuple[str, bytes]]:
    if not reached:
        ledger.release(one)
        return []
    if chance.random() < 0.3:
        ledger.spend(one)
        return []
    key = step.to_bytes(32, "big")
    cost = Charge(chance.randint(0, one.at_most.information), chance.randint(0, one.at_most.calls))
    ledger.settle(
        one,
        Settlement(cost, release_key=key, request_key=key, answer=b"a", mechanism="m", query="q", epoch="e"),
    )
    return [(one.account, key)]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ran]:
    folder = tmp_path_factory.mktemp("audit")
    file, trail = make(folder, POLICY), folder / "trail.jsonl"
    with opened_vault(load(file)) as vault:
        password, user = (folder / ".dpproxy" / "ledger" / "password").read_text().split()
        conninfo = f"host='{folder}/.dpproxy/ledger/socket' user={user} password={password} dbname=postgres"
        with psycopg.connect(conninfo, autocommit=True) as owner:

            def age(account: str) -> None:
                owner.execute(
                    "UPDATE dpproxy_ledger.account SET period_started = period_started - interval '31 days',"
                    " seen_at = seen_at - interval '31 days' WHERE name = %s",
                    (account,),
                )

            live(vault.ledger, age, 20260501)
            kept = owner.execute(
                "SELECT name, used_information, used_calls, reserved_information, reserved_calls "
                "FROM dpproxy_ledger.account"
            ).fetchall()
        status, _, err = run("budget", "export", "-c", file, "--format", "trail", "--output", trail)
        assert status == 0, err
        yield Ran(file, trail, {name: tuple(amounts) for name, *amounts in kept})


def test_balances_are_exactly_the_ledgers(ran: Ran) -> None:
    status, out, err = run("audit", ran.trail, "--json")
    assert status == 0, err
    accounts = json.loads(out)["accounts"]
    assert {
        one["account"]: tuple(
            one[what][unit] for what in ("used", "reserved") for unit in ("information", "calls")
        )
        for one in accounts
    } == {name: tuple(map(shown, amounts)) for name, amounts in ran.balances.items()}
    assert sum(one["entries"] for one in accounts) > STEPS
    assert all(any(amounts) for amounts in ran.balances.values()), "every account has something to check"


def test_guarantees_are_exactly_the_ledgers(ran: Ran) -> None:
    shown_by_ledger = json.loads(run("budget", "show", "-c", ran.file, "--json")[1])["accounts"]
    audited = json.loads(run("audit", ran.trail, "--json")[1])["accounts"]
    assert {one["account"]: one["guarantee"] for one in audited} == {
        one["account"]: one["guarantee"] for one in shown_by_ledger
    }
    assert {one["account"]: one["limit"] for one in audited} == {
        one["account"]: {unit: one[unit]["limit"] for unit in ("information", "calls")}
        for one in shown_by_ledger
    }
    assert sum(bool(one["guarantee"]) for one in audited) == 5
    page = run("audit", ran.trail)[1]
    assert "analyst:ann" in page
    assert "all balances are what they come to" in page


def entry(lines: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    found: dict[str, Any] = next(
        line["entry"]
        for line in lines
        if "entry" in line and line["entry"]["kind"] == kind and line["entry"]["own"]
    )
    return found


def _cheaper(lines: list[dict[str, Any]]) -> None:
    """In a period that goes on: of those that are over the entries are the only witness."""
    entry(lines[::-1], "settle")["charged"][0] -= 1


def _missing(lines: list[dict[str, Any]]) -> None:
    lines.remove({"entry": entry(lines, "spend")})


def _generous(lines: list[dict[str, Any]]) -> None:
    for line in lines:
        if "limit" in line and line["limit"]["account"] == "dataset":
            line["limit"]["information"] = 10**6


def _balance(lines: list[dict[str, Any]]) -> None:
    next(line["balance"] for line in lines if "balance" in line)["used"][1] += 1


def _no_balance(lines: list[dict[str, Any]]) -> None:
    lines.remove(next(line for line in lines if "balance" in line))


def _swapped(lines: list[dict[str, Any]]) -> None:
    lines[-1], lines[-2] = lines[-2], lines[-1]


def _fraction(lines: list[dict[str, Any]]) -> None:
    entry(lines, "settle")["charged"][0] = 0.5


def _headless(lines: list[dict[str, Any]]) -> None:
    del lines[0]


@pytest.mark.parametrize(
    ("lie", "said"),
    [
        (_cheaper, "its balance"),
        (_missing, "micro-units by its entries"),
        (_generous, "more is used and reserved than any limit allowed"),
        (_balance, "its balance"),
        (_no_balance, "entries and no balance"),
        (_swapped, "after entry"),
        (_fraction, "not whole"),
        (_headless, "does not begin"),
    ],
)
def test_a_lie_is_one_line_and_status_1(
    ran: Ran, tmp_path: Path, lie: Callable[[list[dict[str, Any]]], None], said: str
) -> None:
    lines = [json.loads(line) for line in ran.trail.read_text().splitlines()]
    lie(lines)
    told = tmp_path / "told.jsonl"
    told.write_text("".join(json.dumps(line) + "\n" for line in lines))
    status, out, err = run("audit", told)
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert said in err


def test_what_is_no_trail(ran: Ran, tmp_path: Path) -> None:
    for text in ("", "x", "[]\n", '{"head": {"version": 3}}\n'):
        (tmp_path / "f").write_text(text)
        status, out, err = run("audit", tmp_path / "f")
        assert (status, out, err.count("\n")) == (1, "", 1), text
    assert run("audit", tmp_path / "none")[0] == 1
    status, _, err = run("budget", "export", "ann", "-c", ran.file, "--format", "trail")
    assert (status, "whole ledger" in err) == (1, True)
