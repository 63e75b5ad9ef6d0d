"""What the commands have in common: options and error reporting."""

from __future__ import annotations

import getpass
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from dpproxy.cli import demo as demonstration
from dpproxy.deployment import service
from dpproxy.reporting.rows import OutputError
from dpproxy.server.local_client import ClientError

EXPECTED: tuple[type[Exception], ...] = (*service.EXPECTED, ClientError, OutputError, demonstration.DemoError)
"""What may go wrong for reasons that one line can tell; anything else is a defect and shows its traceback."""

ConfigFile = Annotated[Path, typer.Option("--config", "-c", metavar="FILE", help="The configuration.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Stdin = Annotated[bool, typer.Option("--password-stdin", help="Read the password from standard input.")]
HERE = Path("dpproxy.toml")


def group(name: str, told: str) -> typer.Typer:
    """Commands under one name."""
    return typer.Typer(name=name, help=told, no_args_is_help=True, rich_markup_mode=None)


@contextmanager
def reported() -> Iterator[None]:
    """Tells an expected failure on one line of standard error and ends with status 1."""
    try:
        yield
    except BrokenPipeError:
        raise  # of `| head`: typer ends without a word
    except EXPECTED as error:
        print(f"dpproxy: {_line(error) or type(error).__name__}", file=sys.stderr)
        raise typer.Exit(1) from None


def _line(error: Exception) -> str:
    if isinstance(error, ClientError):
        return error.line
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return " ".join(str(error).split())


def asked_password(from_stdin: bool, *, new: bool = True) -> str:
    """A password from standard input or the terminal, where a `new` one is asked for twice; raises OutputError."""
    if from_stdin:
        return sys.stdin.readline().rstrip("\n")
    with warnings.catch_warnings(action="error", category=getpass.GetPassWarning):
        try:
            first = getpass.getpass("Password: ")
            again = getpass.getpass("Again: ") if new else first
        except getpass.GetPassWarning:
            raise OutputError("there is no terminal to ask at: --password-stdin reads the password") from None
    if first != again:
        raise OutputError("the passwords differ")
    return first
