"""The commands: what each takes, and how failures are told. What they do is in the modules that they call."""

from __future__ import annotations

import asyncio
import getpass
import sys
from typing import Annotated

import typer

from dpproxy import cli_check, cli_init, cli_query, cli_user, init_domains
from dpproxy import demo as demonstration
from dpproxy.cli_budget_app import budget
from dpproxy.cli_options import HERE, ConfigFile, Json, group, reported
from dpproxy.cli_output import Format
from dpproxy.service import MOST_WORKERS, Checked, Service, configured
from dpproxy.workers import Workers

app = typer.Typer(
    name="dpproxy",
    help="A SQL privacy proxy: PostgreSQL clients ask, differentially private answers come back.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
user = group("user", 'Analysts: who may log in where auth is "scram".')
app.add_typer(budget)
app.add_typer(user)

Sql = Annotated[str, typer.Argument(metavar="SQL", help="One statement.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="The analyst's name.")]
Stdin = Annotated[bool, typer.Option("--password-stdin", help="Read the password from standard input.")]


@app.command()
def demo(
    port: Annotated[int, typer.Option(metavar="N", help="Port to listen on.", min=0, max=65535)] = 6432,
) -> None:
    """Serve the sample data on 127.0.0.1, say how to connect, ask first queries."""
    with reported():
        demonstration.run(port)


@app.command()
def init(
    backend: Annotated[
        str | None,
        typer.Option(metavar="URL", help='Where the data are: "duckdb:///FILE" or "postgresql://...".'),
    ] = None,
    config: ConfigFile = HERE,
    person: Annotated[
        list[str] | None,
        typer.Option(metavar="TABLE.COLUMN", help="Who is protected; again for columns that hold the same."),
    ] = None,
    public: Annotated[
        list[str] | None, typer.Option(metavar="TABLE", help="A table whose rows are nobody's; repeatable.")
    ] = None,
    domains: Annotated[
        bool, typer.Option("--domains", help="Ask which values columns have; the account of owner pays.")
    ] = False,
    column: Annotated[
        list[str] | None,
        typer.Option(metavar="TABLE.COLUMN", help="With --domains: this column, not all texts; repeatable."),
    ] = None,
    json: Json = False,
) -> None:
    """Write a configuration and a key for a database, by its schema alone; nothing is overwritten."""
    if domains != (backend is None) or (column and not domains) or (domains and (person or public)):
        raise typer.BadParameter(
            "either --backend URL, with --person and --public, or --domains, with --column"
        )
    with reported():
        if backend is None:
            init_domains.domains(configured(config), column or (), as_json=json)
        else:
            cli_init.init(backend, config, person or (), public or (), as_json=json)


@app.command()
def serve(
    config: ConfigFile = HERE,
    port: Annotated[
        int | None, typer.Option(metavar="N", help="Port in place of the file's.", min=0, max=65535)
    ] = None,
    workers: Annotated[
        int, typer.Option(metavar="N", help="Processes that share the port.", min=1, max=MOST_WORKERS)
    ] = 1,
) -> None:
    """Serve analysts until SIGTERM or Ctrl-C; statements that run are still answered."""
    with reported(), Service.start(configured(config, port=port), alone=True, workers=workers) as service:
        for warning in service.checked.warnings:
            print(f"dpproxy: warning: {warning}", file=sys.stderr)
        serving = service if workers == 1 else Workers(service, workers)
        asyncio.run(serving.serve(demonstration.announce))


@app.command()
def check(config: ConfigFile = HERE, json: Json = False) -> None:
    """Hold the configuration against the backend; tell what it means and guarantees."""
    with reported():
        checked = Checked.open(configured(config))
        checked.backend.close()
        cli_check.report(checked, as_json=json)


@app.command()
def explain(
    statement: Sql,
    config: ConfigFile = HERE,
    analyst: Annotated[str, typer.Option(metavar="A", help="Whose budget is shown.")] = "owner",
    json: Json = False,
) -> None:
    """Tell how a query would be answered and at what price, without running it."""
    with reported():
        cli_query.explain(configured(config), analyst, statement, as_json=json)


@app.command()
def query(
    statement: Sql,
    analyst: Annotated[str, typer.Option(metavar="A", help="Whose budget pays.")],
    config: ConfigFile = HERE,
    form: Annotated[Format, typer.Option("--format", help="How rows are printed.")] = Format.table,
) -> None:
    """Ask one query as an analyst would, charged and noised alike, without a server."""
    with reported():
        cli_query.query(configured(config), analyst, statement, form)


@user.command("add")
def add(name: Name, config: ConfigFile = HERE, password_stdin: Stdin = False) -> None:
    """Add an analyst; only a verifier of the password is kept."""
    with reported():
        cli_user.add(configured(config), name, _password(password_stdin))


@user.command("list")
def show(config: ConfigFile = HERE, json: Json = False) -> None:
    """List the analysts."""
    with reported():
        cli_user.show(configured(config), as_json=json)


@user.command("remove")
def remove(name: Name, config: ConfigFile = HERE) -> None:
    """Remove an analyst and end their sessions; what they have spent stays on record."""
    with reported():
        cli_user.remove(configured(config), name)


@user.command("passwd")
def passwd(name: Name, config: ConfigFile = HERE, password_stdin: Stdin = False) -> None:
    """Set an analyst's password anew."""
    with reported():
        cli_user.passwd(configured(config), name, _password(password_stdin))


def _password(from_stdin: bool) -> str:
    if from_stdin:
        return sys.stdin.readline().rstrip("\n")
    first = getpass.getpass("Password: ")
    if first != getpass.getpass("Again: "):
        raise cli_user.UserError("the passwords differ")
    return first
