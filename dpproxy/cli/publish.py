"""`dpproxy publish` and `dpproxy published`: answers that the owner makes free for everybody, or withdraws."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from budget.publications import PublishedAnswer, Refresh
from budget.units import shown
from dpproxy.cli.options import HERE, ConfigFile, Json, group, reported
from dpproxy.config.sections import Config
from dpproxy.deployment.service import Service, configured, opened_vault
from dpproxy.engine.published_tables import REFRESH
from dpproxy.engine.request import QueryRequest
from dpproxy.pgwire.identifiers import qualified
from dpproxy.reporting.rows import OutputError
from dpproxy.reporting.tables import print_json, print_table
from rewriter.statements.published_table import SCHEMA, publication

published = group("published", "Published answers, which everybody reads free of charge, and their age.")
Name = Annotated[str, typer.Argument(metavar="NAME", help="Its name in the schema published.")]


def publish(config: Config, name: str, file: Path, refresh: Refresh, analyst: str) -> None:
    """Pays for the query in a file and publishes its answer; raises Refusal, OutputError for a file without a query."""
    text = f"CREATE TABLE {qualified((SCHEMA, name))} AS {file.read_text(encoding='utf-8')}"
    with Service.start(config, alone=False) as service:
        service.answering.classify(text)
        asked = publication(text)
        if asked is None or asked.kind != "create":
            raise OutputError(f"{file} has no query in it")
        done = service.publishing.create(asked, QueryRequest(text, (), analyst, (), {REFRESH: refresh}))
    print("\n".join(done.notices))


@published.command("list")
def show(config: ConfigFile = HERE, json: Json = False) -> None:
    """List what is published: by whom, how old, when it is refreshed, what it has cost, what failed."""
    with reported():
        with opened_vault(configured(config)) as vault:
            found = sorted(vault.ledger.publications.all(), key=lambda one: one.name)
        if json:
            print_json([_as_json(one) for one in found])
        else:
            head = ["name", "publisher", "refresh", "released", "due", "information", "calls", "last error"]
            print_table(None, head, [_row(one) for one in found], right=(5, 6))


@published.command("drop")
def drop(name: Name, config: ConfigFile = HERE) -> None:
    """Take a published answer back, whoever published it; what it has cost stays spent."""
    with reported(), Service.start(configured(config), alone=False) as service:
        if not service.publishing.remove(name):
            raise OutputError(f"nothing is published as {name}")


@published.command("refresh")
def refresh(name: Name, config: ConfigFile = HERE) -> None:
    """Refresh a published answer before it is due; its publisher pays as for any query."""
    with reported(), Service.start(configured(config), alone=False) as service:
        one = service.publishing.refresh(name)
        if one is None:
            raise OutputError(f"nothing is published as {name}")
        if one.failure is not None:
            raise OutputError(f"the old answer stays: {one.failure}")


def _row(one: PublishedAnswer) -> list[str | None]:
    return [
        *(one.name, one.publisher, one.refresh, f"{one.released_at:%Y-%m-%d %H:%M}"),
        f"{one.due_at:%Y-%m-%d %H:%M}" if one.due_at else None,
        *(shown(one.charged.information), shown(one.charged.calls), one.failure),
    ]


def _as_json(one: PublishedAnswer) -> dict[str, object]:
    return {
        "name": one.name,
        "publisher": one.publisher,
        "refresh": one.refresh,
        "released_at": one.released_at.isoformat(),
        "due_at": one.due_at.isoformat() if one.due_at else None,
        "information": shown(one.charged.information),
        "calls": shown(one.charged.calls),
        "failure": one.failure,
        "query": one.query,
        "columns": dict(one.columns),
    }
