"""What a command shows on a terminal while a statement runs for long."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Display

from dpproxy.telemetry.progress import Progress


@contextmanager
def progress_bar(console: Console) -> Iterator[Callable[[Progress], None]]:
    """A bar of the rounds at the backend, from the first word about a long statement on; gone at the end.

    `console`: standard error; nothing is shown where it is no terminal.
    """
    columns = SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()
    with Display(*columns, console=console, transient=True, disable=not console.is_terminal) as display:
        task = display.add_task("", visible=False, total=None)

        def show(at: Progress) -> None:
            display.update(
                task,
                visible=True,
                description=at.place,
                total=at.rounds or None,
                completed=max(at.round - 1, 0),
                refresh=True,
            )

        yield show
