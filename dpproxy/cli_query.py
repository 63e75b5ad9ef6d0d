"""`dpproxy query` and `dpproxy explain`: one statement on the whole way, without a server of the owner's."""

from __future__ import annotations

import asyncio

from dpproxy.cli_output import Format, print_json, print_result
from dpproxy.client import Result
from dpproxy.config import Config
from dpproxy.service import Service


def query(config: Config, analyst: str, statement: str, form: Format) -> None:
    """Asks and prints; raises ClientError, and what Service.start raises."""
    print_result(_asked(config, analyst, statement), form)


def explain(config: Config, analyst: str, statement: str, *, as_json: bool) -> None:
    """Prints the plan and the price of a statement; raises ClientError, and what Service.start raises."""
    lines = [row[0] or "" for row in _asked(config, analyst, f"EXPLAIN {statement}").rows]
    if as_json:
        print_json({"plan": lines})
    else:
        print("\n".join(lines))


def _asked(config: Config, analyst: str, statement: str) -> Result:
    with Service.start(config, alone=False) as service:
        return asyncio.run(service.ask(analyst, statement))
