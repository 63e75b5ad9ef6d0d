"""What a reproduction leaves behind: rows of one table, plots, and their numbers."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from matplotlib.figure import Figure
from rich.table import Table

HEAD = ("experiment", "quantity", "paper", "ours")


@dataclass
class Report:
    """The table so far, and the folder for plots (PNG) and numbers (CSV)."""

    folder: Path
    rows: list[tuple[str, str, str, str]] = field(default_factory=list)
    files: list[tuple[str, str]] = field(default_factory=list)

    def row(self, experiment: str, quantity: str, paper: str, ours: str) -> None:
        """Add a row; `paper` says where the value is from if not from the paper."""
        self.rows.append((experiment, quantity, paper, ours))

    def plot(
        self, name: str, title: str, figure: Figure, head: Sequence[str], numbers: Iterable[Sequence[object]]
    ) -> None:
        """Write a plot and the numbers it was drawn from."""
        self.folder.mkdir(parents=True, exist_ok=True)
        figure.savefig(self.folder / f"{name}.png", dpi=120, metadata={"Software": None})
        with (self.folder / f"{name}.csv").open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([head, *numbers])
        self.files.append((name, title))

    def table(self) -> Table:
        """Give the table for a terminal."""
        table = Table(*HEAD, title="The papers' results and ours")
        for before, row in zip([("",) * 4, *self.rows], self.rows, strict=False):
            table.add_row("" if row[0] == before[0] else row[0], *row[1:], end_section=False)
        return table

    def markdown(self, preface: str) -> str:
        """Give the page: preface, table, plots."""
        lines = [preface, "| " + " | ".join(HEAD) + " |", "|---|---|---|---|"]
        lines += ["| " + " | ".join(row) + " |" for row in self.rows]
        for name, title in self.files:
            link = f"{self.folder.name}/{name}"
            lines += [
                "",
                f"## {title}",
                "",
                f"![{title}]({link}.png)",
                "",
                f"Numbers: [{name}.csv]({link}.csv)",
            ]
        return "\n".join(lines) + "\n"
