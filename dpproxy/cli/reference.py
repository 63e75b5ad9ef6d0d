"""docs/cli.md, generated from `--help`: `python -m dpproxy.cli.reference > docs/cli.md`."""

from __future__ import annotations

from collections.abc import Iterator

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from dpproxy.cli.app import app

_HEAD = """# Commands

Made by `make reference` from what `--help` says.

Exit status: 0 good; 1 refused or failed, with one line on standard error; 2 wrong usage.
`query`, `explain`, `publish`, `published`, `user` and `budget` attach to the ledger and front of a running server,
or start them themselves.
Only one `serve` or `demo` at a time runs on a configuration.
"""
_WIDTH = 100


def reference() -> str:
    """The whole page."""
    command = get_command(app)
    assert isinstance(command, TyperGroup)
    return _HEAD + "".join(_sections(command, None, "dpproxy"))


def _sections(command: TyperCommand | TyperGroup, parent: typer.Context | None, name: str) -> Iterator[str]:
    context = typer.Context(command, info_name=name, parent=parent, terminal_width=_WIDTH)
    yield f"\n## {context.command_path}\n\n```text\n{command.get_help(context).strip()}\n```\n"
    if isinstance(command, TyperGroup):
        for below in command.list_commands(context):
            found = command.get_command(context, below)
            assert isinstance(found, TyperCommand | TyperGroup)
            yield from _sections(found, context, below)


if __name__ == "__main__":
    print(reference(), end="")
