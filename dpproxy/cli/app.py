"""The commands: their arguments and error reporting. The work is done by the modules that they call."""

from __future__ import annotations

import sys
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from pathlib import Path
from socket import socket
from typing import Annotated

import typer
import uvloop

from budget.publications import Refresh
from dpproxy import __version__
from dpproxy.cli import advise as cli_advise
from dpproxy.cli import assess as cli_assess
from dpproxy.cli import audit as cli_audit
from dpproxy.cli import check as cli_check
from dpproxy.cli import console as cli_console
from dpproxy.cli import demo as demonstration
from dpproxy.cli import init as cli_init
from dpproxy.cli import publish as cli_published
from dpproxy.cli import query as cli_query
from dpproxy.cli import report as cli_report
from dpproxy.cli.budget import budget
from dpproxy.cli.options import HERE, ConfigFile, Json, Stdin, asked_password, group, reported
from dpproxy.config.identity import AUDITOR, OWNER
from dpproxy.config.sections import Config, ConfigError
from dpproxy.config.values import exact
from dpproxy.deployment.control import RELOAD, NoServer, tell
from dpproxy.deployment.service import MOST_WORKERS, BoundConfig, Service, configured, settings_of
from dpproxy.deployment.workers import Workers
from dpproxy.owner import analysts, keys
from dpproxy.owner import backup as owner_backup
from dpproxy.owner import failures as owner_failures
from dpproxy.owner import find as owner_find
from dpproxy.owner.advise import Wishes
from dpproxy.owner.init import domains as init_domains
from dpproxy.owner.presets import Name as Preset
from dpproxy.reporting.rows import OutputError
from dpproxy.reporting.tables import Format, print_json
from dpproxy.server import systemd
from dpproxy.server.listener import tls_of
from dpproxy.server.shutdown import leave
from dpproxy.telemetry.statement_log import json_everywhere

app = typer.Typer(
    name="dpproxy",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
user = group("user", 'Analysts: who may log in where auth is "scram".')
console = typer.Typer(
    name="console",
    help="The owner's pages on accounts, releases and limits: without a command, serve them until Ctrl-C.",
    invoke_without_command=True,
    rich_markup_mode=None,
)
key = group("key", "The deployment's key: a new one, and the end of the one before.")
Now = Annotated[
    bool, typer.Option("--now", help="Without waiting: paid answers of the epoch are bought again.")
]
app.add_typer(budget)
app.add_typer(key)
app.add_typer(user)
app.add_typer(console)
app.add_typer(cli_published.published)


def _positive(text: str) -> Fraction:
    try:
        value = exact(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    if value <= 0:
        raise typer.BadParameter(f"{text} is not above 0")
    return value


def _tell_version(wanted: bool) -> None:
    if wanted:
        print(f"dpproxy {__version__}")
        raise typer.Exit


@app.callback()
def whole(
    told: Annotated[
        bool,
        typer.Option("--version", callback=_tell_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    """A SQL privacy proxy: PostgreSQL clients ask, differentially private answers come back."""


Sql = Annotated[str, typer.Argument(metavar="SQL", help="One statement.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="The analyst's name.")]


@app.command()
def demo(
    port: Annotated[int, typer.Option(metavar="N", help="Port to listen on.", min=0, max=65535)] = 6432,
) -> None:
    """Serve the sample data on 127.0.0.1, show how to connect, run first queries."""
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
    preset: Annotated[
        Preset | None, typer.Option(help="Parameters and budgets for a purpose; without one the defaults.")
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
    if domains != (backend is None) or (column and not domains) or (domains and (person or public or preset)):
        raise typer.BadParameter(
            "either --backend URL, with --person, --public and --preset, or --domains, with --column"
        )
    with reported():
        if backend is None:
            init_domains.domains(configured(config), column or (), as_json=json)
        else:
            cli_init.init(backend, config, person or (), public or (), preset, as_json=json)


@app.command()
def serve(
    config: ConfigFile = HERE,
    port: Annotated[
        int | None, typer.Option(metavar="N", help="Port in place of the file's.", min=0, max=65535)
    ] = None,
    workers: Annotated[
        int, typer.Option(metavar="N", help="Processes that share the port.", min=1, max=MOST_WORKERS)
    ] = 1,
    http: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Where the owner's console is, in place of the file's."),
    ] = None,
) -> None:
    """Serve analysts until SIGTERM or Ctrl-C; running statements are still answered."""
    host, inherited = None, _inherited()
    if inherited is not None:
        # Where it listens decides whether TLS is needed.
        host, port = inherited.getsockname()[:2]
    reread = partial(configured, config, host=host, port=port, http=http)
    with reported(), Service.start(_alone(reread(), workers), alone=True, workers=workers) as service:
        if service.config.server.log == "json":
            json_everywhere()
        for warning in service.checked.warnings:
            print(f"dpproxy: warning: {warning}", file=sys.stderr)
        serving = service if workers == 1 else Workers(service, workers)
        uvloop.run(_serve(serving, service.config, reread, inherited))
    leave()


def _alone(config: Config, workers: int) -> Config:
    """Raises ConfigError where workers would share analysts whose steps come one at a time."""
    if workers > 1 and config.privacy.timing == "padded":
        raise ConfigError(
            config.file, "privacy.timing", '"padded" is for one process: serve without --workers'
        )
    return config


@app.command()
def reload(config: ConfigFile = HERE) -> None:
    """Have the running server read its file again; sessions go on, and a mistake changes nothing."""
    with reported():
        try:
            failure = tell(configured(config), RELOAD)
        except NoServer as error:
            failure = str(error)
        if failure:
            raise OutputError(failure)


@app.command()
def backup(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to; it is replaced as a whole.")],
    config: ConfigFile = HERE,
    without_key: Annotated[bool, typer.Option("--without-key", help="Leave the key out.")] = False,
    json: Json = False,
) -> None:
    """Write ledger, key and configuration into one file, while a server runs or without one."""
    with reported():
        owner_backup.backup(configured(config), file, with_key=not without_key, as_json=json)


@app.command()
def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What `dpproxy backup` has written.")],
    config: ConfigFile = HERE,
    json: Json = False,
) -> None:
    """Put the ledger of a backup in place, and key and configuration where they are missing."""
    with reported():
        owner_backup.restore(config, file, as_json=json)


@app.command()
def find(
    file: Annotated[
        typer.FileText,
        typer.Argument(metavar="FILE", help="One value a line, such as a person's key; - for input."),
    ],
    config: ConfigFile = HERE,
    json: Json = False,
) -> None:
    """Look for values in all that dpproxy keeps: ledger, configuration, logs and files; status 1 where one is found."""
    values = list(dict.fromkeys(line for line in file.read().splitlines() if line.strip()))
    with reported():
        owner_find.find(configured(config), values, as_json=json)


@app.command()
def check(
    config: ConfigFile = HERE,
    details: Annotated[
        bool, typer.Option("--details", help="Every column's class and price, and each accounting.")
    ] = False,
    json: Json = False,
) -> None:
    """Check the configuration against the backend; show what works, what does not, and what is guaranteed."""
    with reported():
        checked = BoundConfig.open(configured(config))
        checked.backend.close()
        tls_of(settings_of(checked.config))
        cli_check.report(checked, details=details, as_json=json)


@app.command()
def report(config: ConfigFile = HERE, json: Json = False) -> None:
    """Describe the deployment for the public registry of such deployments; nothing is read from the data."""
    with reported():
        checked = BoundConfig.open(configured(config))
        checked.backend.close()
        cli_report.report(checked, as_json=json)


@app.command()
def explain(
    statement: Sql,
    config: ConfigFile = HERE,
    analyst: Annotated[str, typer.Option(metavar="A", help="Whose budget is shown.")] = OWNER,
    json: Json = False,
) -> None:
    """Show how a query would be answered and at what price, without running it."""
    with reported():
        cli_query.explain(configured(config), analyst, statement, as_json=json)


@app.command()
def advise(
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            "-c",
            metavar="FILE",
            help="Where parameters and history come from; without it defaults.",
        ),
    ] = None,
    setting: Annotated[
        str | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE,...",
            help="Other values: epsilon_per, delta_per, delta_prime, information, calls.",
        ),
    ] = None,
    epsilon: Annotated[
        Fraction | None, typer.Option(parser=_positive, metavar="E", help="Target: a guarantee of a period.")
    ] = None,
    delta: Annotated[
        Fraction | None,
        typer.Option(parser=_positive, metavar="D", help="With --epsilon; without it as it is."),
    ] = None,
    unnoticed: Annotated[
        Fraction | None,
        typer.Option(parser=_positive, metavar="PERCENT", help="Target: so many analysts notice no limit."),
    ] = None,
    log: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="FILE",
            help="Target: budgets for the analysts of a log that assess reads, with reuse and without.",
        ),
    ] = None,
    error: Annotated[
        Fraction | None,
        typer.Option(parser=_positive, metavar="PERCENT", help="Target: the error of 95% of counts."),
    ] = None,
    count: Annotated[
        int, typer.Option(metavar="N", help="With --error: of counts of this size.", min=1)
    ] = 1000,
    compare: Annotated[
        str | None,
        typer.Option(metavar="NAME=VALUE,...", help="A second setting to compare with, by what differs."),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A plot as well, .png or .svg (needs matplotlib).")
    ] = None,
    json: Json = False,
) -> None:
    """Show what parameters guarantee, cost and allow an attacker; find parameters for a target."""
    if epsilon is not None and error is not None:
        raise typer.BadParameter(
            "a guarantee and an error both decide epsilon_per: wish for one, and read off the other"
        )
    if delta is not None and (epsilon is None or delta >= 1):
        raise typer.BadParameter("--delta goes with --epsilon, and is below 1")
    if unnoticed is not None and unnoticed > 100:
        raise typer.BadParameter("--unnoticed is a percentage")
    with reported():
        found = None if config is None else configured(config)
        wishes = Wishes(epsilon, delta, unnoticed, error, count)
        cli_advise.advise(found, setting, wishes, log, compare, plot, as_json=json)


@app.command()
def assess(
    file: Annotated[
        Path,
        typer.Option(
            "--from",
            metavar="FILE",
            help="SQL, or an export of pg_stat_statements, Metabase or Superset.",
        ),
    ],
    config: ConfigFile = HERE,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A page as well, readable by its owner alone.")
    ] = None,
    cubes: Annotated[
        bool,
        typer.Option("--cubes", help="Propose cubes that save units; asks the statements several times."),
    ] = False,
    progress: Annotated[
        bool,
        typer.Option("--progress", help="A line a statement on standard error, where it is no terminal."),
    ] = False,
    json: Json = False,
) -> None:
    """Show the data owner how many of these statements would be answered, at what price, and how well.

    Tells what each account would pay where bought answers are used again. Reads the data without noise: the report is
    not private. Nothing is charged or stored.
    """
    with reported():
        cli_assess.assess(configured(config), file, html, cubes=cubes, progress=progress, as_json=json)


@app.command()
def audit(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="What `budget export --format trail` has written.")
    ],
    json: Json = False,
) -> None:
    """Recompute every account's balance and guarantee from a trail, without the ledger."""
    with reported():
        cli_audit.audit(file, as_json=json)


@app.command()
def query(
    statement: Sql,
    analyst: Annotated[str, typer.Option(metavar="A", help="Whose budget pays.")],
    config: ConfigFile = HERE,
    form: Annotated[Format, typer.Option("--format", help="How rows are printed.")] = Format.table,
) -> None:
    """Run one query as an analyst would, charged and with noise, without a server."""
    with reported():
        cli_query.query(configured(config), analyst, statement, form)


@app.command()
def publish(
    name: cli_published.Name,
    sql: Annotated[Path, typer.Option(metavar="FILE", help="A file with one SELECT.")],
    refresh: Annotated[
        Refresh, typer.Option(help="When to refresh: each epoch, each period of the account, or never.")
    ] = "once",
    analyst: Annotated[
        str, typer.Option(metavar="A", help="Whose budget pays, now and at each refresh.")
    ] = OWNER,
    config: ConfigFile = HERE,
) -> None:
    """Pay once for an answer that everybody may read from then on, as the table published.NAME."""
    with reported():
        cli_published.publish(configured(config), name, sql, refresh, analyst)


@app.command()
def failures(
    clear: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The failures of this login or analyst count no more."),
    ] = None,
    clear_all: Annotated[bool, typer.Option("--clear-all", help="All failures count no more.")] = False,
    config: ConfigFile = HERE,
    json: Json = False,
) -> None:
    """Show statements that failed at the backend, or clear them.

    Three stop a login or an analyst until they are cleared. The backend's messages may hold values of rows.
    """
    if clear is not None and clear_all:
        raise typer.BadParameter("give a name or --clear-all")
    with reported():
        if clear is not None or clear_all:
            owner_failures.clear(configured(config), clear)
        else:
            owner_failures.show(configured(config), as_json=json)


@key.command("rotate")
def key_rotate(config: ConfigFile = HERE, now: Now = False) -> None:
    """Make a new key; the one before is kept for the answers of the present epoch. Stop the server first."""
    with reported():
        keys.rotate(configured(config), now=now)


@key.command("retire")
def key_retire(config: ConfigFile = HERE, now: Now = False) -> None:
    """Throw the key before away, once its epoch is over. Stop the server first."""
    with reported():
        keys.retire(configured(config), now=now)


@key.command("show")
def key_show(config: ConfigFile = HERE, json: Json = False) -> None:
    """Show whether the key before is kept, and until when."""
    with reported():
        keys.show(configured(config), as_json=json)


@user.command("add")
def add(name: Name, config: ConfigFile = HERE, password_stdin: Stdin = False) -> None:
    """Add an analyst; only a verifier of the password is kept."""
    with reported():
        analysts.add(configured(config), name, asked_password(password_stdin))
        print(f"{name} can log in.")


@user.command("list")
def show(config: ConfigFile = HERE, json: Json = False) -> None:
    """List the analysts."""
    with reported():
        names = analysts.names(configured(config))
        if json:
            print_json(list(names))
        else:
            print("".join(f"{name}\n" for name in names), end="")


@user.command("remove")
def remove(name: Name, config: ConfigFile = HERE) -> None:
    """Remove an analyst and end their sessions; what they have spent stays on record."""
    with reported():
        analysts.remove(configured(config), name)


@user.command("passwd")
def passwd(name: Name, config: ConfigFile = HERE, password_stdin: Stdin = False) -> None:
    """Set a new password for an analyst."""
    with reported():
        analysts.set_password(configured(config), name, asked_password(password_stdin))


@console.callback()
def console_run(
    context: typer.Context,
    config: ConfigFile = HERE,
    http: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help=f"Where, in place of the file's or {cli_console.ADDRESS}."),
    ] = None,
) -> None:
    """Serves the pages, unless a command is named."""
    if context.invoked_subcommand is None:
        with reported():
            found = configured(config, http=http)
            if not found.server.http:
                found = configured(config, http=cli_console.ADDRESS)
            cli_console.run(found)


@console.command("password")
def console_password(
    config: ConfigFile = HERE,
    password_stdin: Stdin = False,
    auditor: Annotated[
        bool, typer.Option("--auditor", help="Of the auditor, who sees the same and changes nothing.")
    ] = False,
) -> None:
    """Set the owner's password; only a verifier of it is kept, and all logins end."""
    with reported():
        cli_console.password(
            configured(config), asked_password(password_stdin), AUDITOR if auditor else OWNER
        )


@console.command("token")
def console_token(config: ConfigFile = HERE) -> None:
    """Print the bearer token with which Prometheus reads /metrics."""
    with reported():
        cli_console.token(configured(config))


async def _serve(
    serving: Service | Workers, config: Config, reread: Callable[[], Config], inherited: socket | None
) -> None:
    def ready(host: str, port: int) -> None:
        demonstration.announce(host, port)
        systemd.notify(systemd.READY)

    async with cli_console.beside(serving, config) as url:
        cli_console.announce(url)
        await serving.serve(ready, reread, inherited)


def _inherited() -> socket | None:
    """The socket that systemd listens on for us."""
    with reported():
        try:
            return systemd.listening()
        except ValueError as error:
            raise OutputError(str(error)) from None
