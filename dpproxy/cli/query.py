"""`dpproxy query` and `dpproxy explain`: one statement from start to end, without a running server."""

from __future__ import annotations

import asyncio

from rich.console import Console

from dpproxy.cli.progress import progress_bar
from dpproxy.config.sections import Config
from dpproxy.deployment.service import Service
from dpproxy.owner.explain_policy import in_words
from dpproxy.reporting.rows import RowSet
from dpproxy.reporting.tables import Format, print_json, print_result


def query(config: Config, analyst: str, statement: str, form: Format) -> None:
    """Asks and prints; raises ClientError, and what Service.start raises."""
    print_result(_asked(config, analyst, statement), form)


def explain(config: Config, analyst: str, statement: str, *, as_json: bool) -> None:
    """Prints the reasons and the price in words, then the plan; raises ClientError, and what Service.start raises."""
    with Service.start(config, alone=False) as service:
        answer = asyncio.run(service.ask(analyst, f"EXPLAIN {statement}"))
        told = in_words(service, statement)
    lines = [row[0] or "" for row in answer.rows]
    if as_json:
        print_json({"plan": lines, "words": told})
        return
    print("\n".join([*told, "", *lines] if told else lines))


def _asked(config: Config, analyst: str, statement: str) -> RowSet:
    with Service.start(config, alone=False) as service, progress_bar(Console(stderr=True)) as heard:
        return asyncio.run(service.ask(analyst, statement, heard))
