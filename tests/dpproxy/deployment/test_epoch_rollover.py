"""Epochs under several workers, and processes that share a key: the owner turns once, and names are lived in by one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from budget.account import Charge, Limit, ReserveRequest
from budget.units import MICRO
from dpproxy.deployment.epoch_rollover import EpochLeader, OncePerEpoch, tables_changed, turn_at_owner
from dpproxy.deployment.service import configured, opened_vault
from dpproxy.embedded.server import Embedded
from dpproxy.front.front import FrontError
from rewriter.refusal import Refusal
from tests.dpproxy.serving import POLICY, make


@contextmanager
def owner(folder: Path, turn: Callable[[str], None]) -> Iterator[None]:
    """A parent that turns, in a thread with its own event loop."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    turner = EpochLeader(folder, turn)
    try:
        asyncio.run_coroutine_threadsafe(turner.listen(), loop).result(10)
        yield
    finally:
        loop.call_soon_threadsafe(turner.close)
        asyncio.run_coroutine_threadsafe(asyncio.sleep(0.01), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


def test_all_workers_wait_for_one_reading(tmp_path: Path) -> None:
    begun: list[str] = []
    go_on = threading.Event()

    def read(epoch: str) -> None:
        begun.append(epoch)
        assert go_on.wait(20)

    with owner(tmp_path, OncePerEpoch("today", read)), ThreadPoolExecutor(4) as workers:
        turn_at_owner(tmp_path, "today")
        waiting = [workers.submit(turn_at_owner, tmp_path, "tomorrow") for _ in range(4)]
        while not begun:
            pass
        assert not any(one.done() for one in waiting), "nobody answers before the tables are read"
        go_on.set()
        assert [one.result(20) for one in waiting] == [None] * 4
    assert begun == ["tomorrow"]


def test_what_the_owner_finds_reaches_the_worker(tmp_path: Path) -> None:
    outcomes: list[Exception] = [tables_changed(), FrontError("unreadable")]

    def read(_: str) -> None:
        if outcomes:
            raise outcomes.pop(0)

    with owner(tmp_path, OncePerEpoch("today", read)):
        with pytest.raises(Refusal) as refused:
            turn_at_owner(tmp_path, "tomorrow")
        assert refused.value.code == "55000"
        with pytest.raises(FrontError):
            turn_at_owner(tmp_path, "tomorrow")
        turn_at_owner(tmp_path, "tomorrow")
    with pytest.raises(FrontError):
        turn_at_owner(tmp_path, "the day after")


@pytest.mark.service
def test_a_command_beside_a_proxy_on_a_shared_ledger_ends_none_of_its_reservations(tmp_path: Path) -> None:
    """Both read one configuration with one key; only the first may use the lasting name."""
    with Embedded.start(tmp_path / "server", durable=True) as server:
        url = server.conninfo().replace("\\", "\\\\").replace('"', '\\"')
        file = make(tmp_path, f'{POLICY}[ledger]\nurl = "{url}"\n')
        key = tmp_path / ".dpproxy" / "key"
        key.parent.mkdir()
        key.write_bytes(bytes(range(32)))
        key.chmod(0o600)
        with opened_vault(configured(file)) as proxy:
            proxy.ledger.accounts.seed("analyst:ann", Limit(9 * MICRO, 0, "none"))
            charge = Charge(MICRO, 0)
            (held,) = proxy.ledger.reserve(
                ReserveRequest(["analyst:ann"], [charge], reached=True, queries=[""], mechanisms=["m"])
            )
            with opened_vault(configured(file)) as beside:
                assert (proxy.owner, beside.owner) == (True, False)
                assert beside.ledger.accounts.get("analyst:ann").reserved == charge
            proxy.ledger.spend(held)
            (held,) = proxy.ledger.reserve(
                ReserveRequest(["analyst:ann"], [charge], reached=True, queries=[""], mechanisms=["m"])
            )
        with opened_vault(configured(file)) as again:
            assert again.owner
            row = again.ledger.accounts.get("analyst:ann")
            assert (row.used.information, row.reserved.information) == (2 * MICRO, 0), (
                "the dead one's is spent"
            )
